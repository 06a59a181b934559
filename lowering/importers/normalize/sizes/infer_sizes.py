"""Infer dynamic sizes as far as the arguments' sizes determine them, and specialise arguments to `context.shapes`.

dim (pad %x low 1 high 1) 0   ──►   dim %x 0 + 2
"""

from __future__ import annotations

from mlirtri.dialect.bindings.locations import span_of
from mlirtri.dialect.bindings.mlir import all_operations, func, ir, operations_named, public_functions, tensor
from mlirtri.errors import ArgumentMismatchError, did_you_mean
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.importers.normalize.sizes import bounded_results, guards, reshapes, shape_elements
from mlirtri.lowering.mlir_common.aliasing import terminator
from mlirtri.lowering.mlir_common.attributes import (
    BOUND,
    argument_attributes,
    argument_names,
    result_attributes,
    set_signature,
)
from mlirtri.lowering.mlir_common.cloning import replace
from mlirtri.lowering.mlir_common.reading import defined_by
from mlirtri.lowering.toolchain.mlir_passes import Pass, run_passes

FACTS = (
    Pass("canonicalize", "sizes of results become sizes of operands"),
    Pass("cse", "equal sizes are computed once"),
    Pass("resolve-ranked-shaped-type-result-dims", "shapes of results become arithmetic on those of operands"),
    Pass("canonicalize", "known sizes go into the types"),
    Pass("int-range-optimizations", "sizes are not negative"),
    Pass("canonicalize", "comparisons that are decided fold away"),
    Pass("cse", "equal sizes are computed once"),
)

MAX_ROUNDS = 4
"""How often folded elements may reveal the indices of other elements."""


def rewrite(module: ir.Module, context: CompileContext) -> None:
    """Infer the sizes of the only function, in place; raises `ArgumentMismatchError`, `PassFailedError`."""
    [function] = public_functions(module)
    if context.shapes:
        _specialize(function, context)
    elif not any(_is_dynamic(value.type) for operation in all_operations(module) for value in operation.results):
        reshapes.rewrite(module)
        guards.guard_slices(module)
        return
    for _ in range(MAX_ROUNDS):
        has_elements = shape_elements.rewrite(module)
        run_passes(module, FACTS, context)
        if not has_elements:
            break
    has_reshapes = reshapes.rewrite(module)
    if context.shapes or has_reshapes:
        _join_known_parts(module)
        run_passes(module, FACTS, context)
    guards.guard_slices(module)
    if guards.guard_structured(module):
        run_passes(module, FACTS, context)
    bounded_results.rewrite(module)
    if context.shapes:
        [function] = public_functions(module)
        _return_what_is_known(function)


def _specialize(function: func.FuncOp, context: CompileContext) -> None:
    block = function.regions[0].blocks[0]
    attributes = argument_attributes(function), result_attributes(function)
    names = argument_names(function)
    own = [name for name, named in zip(names, attributes[0], strict=True) if BOUND not in named]
    if unknown := [name for name in context.shapes if name not in own]:
        raise ArgumentMismatchError(
            f"{context.kernel!r} has no argument {', '.join(map(repr, unknown))}",
            span_of(function.location),
            help=f"{did_you_mean(unknown[0], own)}its arguments are {', '.join(own) or 'none'}",
        )
    for name, argument in zip(names, block.arguments, strict=True):
        if name in context.shapes:
            _set_shape(argument, name, context.shapes[name], function)
    set_signature(function, *attributes)


def _set_shape(argument: ir.Value, name: str, shape: tuple[int, ...], function: func.FuncOp) -> None:
    kind = argument.type
    is_consistent = len(shape) == kind.rank and all(a < 0 or a == b for a, b in zip(kind.shape, shape, strict=True))
    if not is_consistent or any(size < 0 for size in shape):
        raise ArgumentMismatchError(
            f"{name!r} is a {kind}, which has no shape {tuple(shape)}", span_of(function.location)
        )
    argument.set_type(ir.RankedTensorType.get(list(shape), kind.element_type, kind.encoding))
    if argument.type == kind:
        return
    with ir.InsertionPoint.at_block_begin(argument.owner), argument.location:
        cast = tensor.CastOp(kind, argument)
    argument.replace_all_uses_except(cast.result, cast.operation)


def _join_known_parts(module: ir.Module) -> None:
    """Give concatenations of tensors of known sizes their static type; upstream's patterns leave them."""
    for concat in operations_named(module, "tensor.concat"):
        parts = [_before_cast(value) for value in concat.operands]
        kind, axis = concat.results[0].type, concat.attributes["dim"].value
        if not _is_dynamic(kind) or any(_is_dynamic(part.type) for part in parts):
            continue
        shape = list(parts[0].type.shape)
        shape[axis] = sum(part.type.shape[axis] for part in parts)
        static_type = ir.RankedTensorType.get(shape, kind.element_type)
        with ir.InsertionPoint(concat), concat.location:
            joined = tensor.cast(kind, tensor.concat(static_type, axis, parts))
        replace(concat, [joined])


def _before_cast(value: ir.Value) -> ir.Value:
    cast = defined_by(value, "tensor.cast")
    return value if cast is None else cast.operands[0]


def _return_what_is_known(function: func.FuncOp) -> None:
    block = function.regions[0].blocks[0]
    attributes = argument_attributes(function), result_attributes(function)
    end = terminator(block)
    for position, value in enumerate(end.operands):
        if (static_value := _before_cast(value)) != value and not _is_dynamic(static_value.type):
            end.operands[position] = static_value
            if not list(value.uses):
                value.owner.operation.erase()
    set_signature(function, *attributes)


def _is_dynamic(type_: ir.Type) -> bool:
    return isinstance(type_, ir.RankedTensorType) and not type_.has_static_shape
