"""Derive the interface of a TVM module's Relax function, and find what a stage may not hold.

This file loads TVM, so `interfaces` and `verify` import it late.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from mlirtri.dialect.base.dtypes import as_dtype
from mlirtri.dialect.base.sizes import UNKNOWN
from mlirtri.dialect.base.tensor_type import TensorType
from mlirtri.errors import KernelError, ParseError, PassFailedError, Span
from mlirtri.lowering.core.interface import Interface
from mlirtri.lowering.core.stage import CompileContext, Stage
from mlirtri.lowering.mlir_common.attributes import BOUND
from mlirtri.lowering.toolchain.tvm_names import BINDING_LOCATIONS, IS_SCHEDULED, IRModule, relax, tirx
from mlirtri.lowering.toolchain.tvm_passes import (
    CALLS,
    bindings_of,
    operator_of,
    prim_funcs,
    relax_functions,
    short_message,
    source_span,
    span_of,
)

CALLS_ONLY = ("tir", "scheduled")
"""The stages whose Relax function calls compiled functions, and no operator of Relax's own."""


def function_of_relax(module: IRModule, path: Path) -> tuple[str, Interface]:
    """Return the name and the interface of the module's only Relax function; raises `ParseError`."""
    functions = relax_functions(module)
    if len(functions) != 1:
        raise ParseError(f"expected a module of one Relax function, found {len(functions)}", Span(str(path), 1, 1))
    [(name, function)] = functions
    returned = function.ret_ty
    results = list(returned.fields) if isinstance(returned, relax.TupleType) else [returned]
    names = [parameter.name for parameter in function.params]
    types = [_relax_type(parameter.ty, name, path) for parameter in function.params]
    interface = Interface.of_types(
        names, types, [_relax_type(result, name, path) for result in results], _updates_of(function)
    )
    count = len(names) - len((function.attrs or {}).get(BOUND, []))
    return name, replace(interface, parameters=interface.parameters[:count], bound=interface.parameters[count:])


def _updates_of(function: relax.Function) -> dict[int, int]:
    updates: dict[int, int] = {}
    for binding in bindings_of(function):
        if operator_of(binding) == "relax.call_tir_inplace":
            written = enumerate(binding.value.attrs.inplace_indices)
            updates |= {int(argument): result for result, argument in written if argument >= 0}
    return updates


def _relax_type(type_: Any, name: str, path: Path) -> TensorType:
    try:
        sizes = (int(size) if isinstance(size, tirx.IntImm) else UNKNOWN for size in type_.shape)
        return TensorType(tuple(sizes), as_dtype(str(type_.dtype)))
    except (AttributeError, TypeError, KernelError):
        raise ParseError(
            f"{name!r} takes or returns a {type_}", Span(str(path), 1, 1), help="kernels take and return ranked tensors"
        ) from None


def problems_of_relax(mod: IRModule, stage: str, context: CompileContext) -> Iterable[tuple[str, Span | None]]:
    """Yield each operation that the stage may not hold, with its span, and each function that is not scheduled."""
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
                yield f"the unscheduled kernel {name}", source_span(function)


def verify_relax(stage: Stage, mod: IRModule) -> None:
    """Run TVM's well-formedness check; raises `PassFailedError`."""
    try:
        relax.analysis.well_formed(mod)
    except Exception as error:
        raise PassFailedError(f"TVM refuses the IR of stage {stage.name!r}: {short_message(error)}") from None
