"""Check the contract of each stage's IR after the stage when ``MLIRTRI_VERIFY=1``.

For a user's stage, which is not in the table, only MLIR's or TVM's verifier runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from mlirtri.dialect.bindings.locations import span_of
from mlirtri.dialect.bindings.mlir import all_operations, ir
from mlirtri.errors import Note, PassFailedError, Span
from mlirtri.lowering.core.stage import CompileContext, Stage, StageIR
from mlirtri.lowering.toolchain.mlir_passes import explain

_TENSORS = ("builtin.module", "func", "linalg", "tensor", "arith", "math", "complex", "scf")
_BUFFERS = ("builtin.module", "func", "linalg", "memref", "arith", "math", "complex", "scf")
MLIR_CONTRACTS: dict[str, tuple[str, ...]] = {
    "tri": ("builtin.module", "func", "tri", "scf", "arith", "tensor"),
    "linalg": _TENSORS,
    "fused": _TENSORS,
    "bufferized": _BUFFERS,
    "llvmdialect": ("builtin.module", "llvm", "omp"),
}
"""Stage to the dialects, or whole operation names, that may be in it."""

Problem = tuple[str, "Span | None"]


def verify(stage: Stage, module: StageIR, context: CompileContext) -> None:
    """Check a module against the contract of `stage`; raises `PassFailedError`."""
    if stage.kind == "mlir":
        _complain(stage, _mlir_problems(module, MLIR_CONTRACTS.get(stage.name)))
    elif stage.kind == "tvmscript":
        from mlirtri.compiler.relax_modules import problems_of_relax  # loads TVM

        _complain(stage, problems_of_relax(module, stage.name, context))
    verify_form(stage, module)


def verify_form(stage: Stage, module: StageIR) -> None:
    """Run MLIR's or TVM's verifier; raises `PassFailedError`."""
    if stage.kind == "mlir":
        _verify_mlir(stage, module)
    elif stage.kind == "tvmscript":
        from mlirtri.compiler.relax_modules import verify_relax  # loads TVM

        verify_relax(stage, module)


def _complain(stage: Stage, problems: Iterable[Problem]) -> None:
    listed_problems = list(problems)
    if not listed_problems:
        return
    counts = Counter(problem for problem, _ in listed_problems)
    listed = ", ".join(f"{problem} ({count}×)" if count > 1 else problem for problem, count in counts.items())
    spans = [span for _, span in listed_problems if span]
    raise PassFailedError(
        f"the IR of stage {stage.name!r} holds what it may not: {listed}",
        spans[0] if spans else None,
        help="the stage before it, or an edited file, left it there",
        notes=[Note("and here", span) for span in dict.fromkeys(spans[1:4])],
    )


def _mlir_problems(module: Any, allowed: tuple[str, ...] | None) -> Iterable[Problem]:
    if allowed is None:
        return
    for operation in all_operations(module):
        if operation.name not in allowed and operation.name.partition(".")[0] not in allowed:
            yield operation.name, span_of(operation.location)


def _verify_mlir(stage: Stage, module: Any) -> None:
    try:
        module.operation.verify()
    except ir.MLIRError as error:
        message, span, notes = explain(error)
        raise PassFailedError(f"MLIR refuses the IR of stage {stage.name!r}: {message}", span, notes=notes) from None
