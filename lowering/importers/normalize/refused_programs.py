"""Refuse programs that are too large, and operations of unregistered dialects, before any step works on them."""

from __future__ import annotations

from math import prod

from mlirtri.dialect.bindings.locations import span_of
from mlirtri.dialect.bindings.mlir import all_operations, ir, public_functions
from mlirtri.errors import KernelError, UnsupportedOperationError, raise_all
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.core.untranslatable import refuse, too_large

LARGEST_FUNCTION = 1 << 15
"""Operations outside of bodies. Upstream's fusion takes quadratic time: half a minute for a quarter of this."""
LARGEST_CONSTANT = 1 << 28
"""The most elements of a splat."""


def check(module: ir.Module, context: CompileContext) -> None:
    """Check `module` against all limits; raises `UnsupportedOperationError`."""
    operations = all_operations(module)
    refuse_unknown(module)
    _refuse_long(module)
    kinds: dict[ir.Type, ir.Location] = {}
    for operation in operations:
        for value in (*operation.results, *_arguments(operation)):
            kinds.setdefault(value.type, value.location)
    problems = [problem for kind, location in kinds.items() if (problem := _too_large(kind, location))]
    problems += [problem for operation in operations if (problem := _long_constant(operation))]
    raise_all(problems)


def _refuse_long(module: ir.Module) -> None:
    for function in public_functions(module):
        operations = function.regions[0].blocks[0].operations
        if len(operations) > LARGEST_FUNCTION:
            raise UnsupportedOperationError(
                f"the function has {len(operations)} operations, and {LARGEST_FUNCTION} at most are compiled",
                span_of(operations[LARGEST_FUNCTION].location),
                help="write what repeats as a loop (scf.for), or compile it in parts",
            )


def refuse_unknown(module: ir.Module) -> None:
    """Raise `UnsupportedOperationError` for operations that are not registered; forbid new ones from here on."""
    is_registered: dict[str, bool] = {}
    unknown = []
    for operation in all_operations(module):
        name = operation.name
        if name not in is_registered:
            is_registered[name] = module.context.is_registered_operation(name)
        if not is_registered[name]:
            unknown.append(operation)
    refuse(
        [(operation, f"{operation.name!r}") for operation in unknown],
        "linalg",
        "bring it to linalg, arith, math, tensor and scf",
    )
    module.context.allow_unregistered_dialects = False


def _arguments(operation: ir.Operation) -> list[ir.Value]:
    return [argument for region in operation.regions for block in region for argument in block.arguments]


def _too_large(type_: ir.Type, location: ir.Location | None) -> KernelError | None:
    if not isinstance(type_, ir.RankedTensorType):
        return None
    return too_large("a", type_, location)


def _long_constant(operation: ir.Operation) -> KernelError | None:
    kind = operation.results[0].type if operation.name == "arith.constant" else None
    if not isinstance(kind, ir.RankedTensorType) or prod(kind.shape) <= LARGEST_CONSTANT or _too_large(kind, None):
        return None
    return UnsupportedOperationError(
        f"this constant has {prod(kind.shape)} equal elements",
        span_of(operation.location),
        help="create it by linalg.fill of a tensor.empty",
    )
