"""The contract of each stage's IR, checked after the stage when ``MLIRTRI_VERIFY=1``.

Takes a stage and its IR. Gives nothing. Refuses, as a `PassFailedError` at the first place, operations that the stage
may not hold (all of them named, with counts) and IR that its own compiler's verifier refuses. A stage that is not in
the table is one of a user's: only its compiler's verifier looks at it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from mlirtri.errors import Note, PassFailedError, Span
from mlirtri.lowering.core.stage import CompileContext, Stage

_TENSORS = ("builtin.module", "func", "linalg", "tensor", "arith", "math", "complex", "scf")
_BUFFERS = ("builtin.module", "func", "linalg", "memref", "arith", "math", "complex", "scf")
MLIR_CONTRACTS: dict[str, tuple[str, ...]] = {
    "tri": ("builtin.module", "func", "tri", "scf", "arith", "tensor"),
    "linalg": _TENSORS,
    "fused": _TENSORS,
    "bufferized": _BUFFERS,
    "llvmdialect": ("builtin.module", "llvm"),
}
"""Stage to the dialects, or whole operation names, that may be in it."""

CALLS_ONLY = ("tir", "scheduled")
"""The stages whose Relax function calls what is compiled, and no operator of Relax's own."""

Problem = tuple[str, "Span | None"]


def verify(stage: Stage, ir: Any, context: CompileContext) -> None:
    """Check `ir` against the contract of `stage`; raises `PassFailedError`."""
    if stage.kind == "mlir":
        _complain(stage, _mlir_problems(ir, MLIR_CONTRACTS.get(stage.name)))
        _verify_mlir(stage, ir)
    elif stage.kind == "tvmscript":
        _complain(stage, _relax_problems(ir, stage.name, context))
        _verify_tvm(stage, ir)


def _complain(stage: Stage, problems: Iterable[Problem]) -> None:
    found = list(problems)
    if not found:
        return
    counts = Counter(what for what, _ in found)
    listed = ", ".join(f"{what} ({count}×)" if count > 1 else what for what, count in counts.items())
    places = [span for _, span in found if span]
    raise PassFailedError(
        f"the IR of stage {stage.name!r} holds what it may not: {listed}",
        places[0] if places else None,
        help="the stage before it, or an edited file, left it there",
        notes=[Note("and here", span) for span in dict.fromkeys(places[1:4])],
    )


def _mlir_problems(module: Any, allowed: tuple[str, ...] | None) -> Iterable[Problem]:
    from mlirtri.dialect.bindings.locations import span_of
    from mlirtri.dialect.bindings.mlir import all_operations

    if allowed is None:
        return
    for operation in all_operations(module):
        if operation.name not in allowed and operation.name.partition(".")[0] not in allowed:
            yield operation.name, span_of(operation.location)


def _verify_mlir(stage: Stage, module: Any) -> None:
    from mlirtri.dialect.bindings.mlir import ir
    from mlirtri.lowering.toolchain.mlir_passes import explain

    try:
        module.operation.verify()
    except ir.MLIRError as error:
        message, span, notes = explain(error)
        raise PassFailedError(f"MLIR refuses the IR of stage {stage.name!r}: {message}", span, notes=notes) from None


def _relax_problems(mod: Any, stage: str, context: CompileContext) -> Iterable[Problem]:
    from mlirtri.lowering.toolchain.tvm_attributes import BINDING_LOCATIONS, IS_SCHEDULED
    from mlirtri.lowering.toolchain.tvm_passes import (
        CALLS,
        bindings_of,
        operator_of,
        place_of,
        prim_funcs,
        relax_functions,
        span_of,
    )

    functions = relax_functions(mod)
    if len(functions) != 1:
        yield f"{len(functions)} Relax functions", None
    for _, function in functions if stage in CALLS_ONLY else ():
        locations = (function.attrs or {}).get(BINDING_LOCATIONS, {})
        for binding in bindings_of(function):
            operator = operator_of(binding)
            if operator is not None and operator not in CALLS:
                yield operator, span_of(locations.get(binding.var.name))
    if stage == "scheduled" and (context.target.is_cuda or context.schedule != "none"):
        for name, function in prim_funcs(mod):
            if IS_SCHEDULED not in (function.attrs or {}):
                yield f"the unscheduled kernel {name}", place_of(function)


def _verify_tvm(stage: Stage, mod: Any) -> None:
    from mlirtri.lowering.toolchain.tvm_names import relax
    from mlirtri.lowering.toolchain.tvm_passes import short_message

    try:
        relax.analysis.well_formed(mod)
    except Exception as error:
        raise PassFailedError(f"TVM refuses the IR of stage {stage.name!r}: {short_message(error)}") from None
