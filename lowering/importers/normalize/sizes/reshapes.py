"""Lower dynamic `tensor.reshape` to `tensor.collapse_shape` and `tensor.expand_shape`.

The reassociation groups are the smallest with the same number of elements before and after, as far as the arguments'
sizes prove it; one group of all axes otherwise. Refuses a shape operand of dynamic size.

    reshape %x: 2x?x? to (1, 2, n, n)   ──►   expand %x [[0, 1], [2], [3]]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import prod

from mlirtri.dialect.bindings.locations import span_of
from mlirtri.dialect.bindings.mlir import func, ir, operations_named, tensor
from mlirtri.errors import UnsupportedOperationError
from mlirtri.lowering.core.size_program import CONSTANT
from mlirtri.lowering.mlir_common.cloning import replace
from mlirtri.lowering.mlir_common.index_values import cast_to_index, index_constant
from mlirtri.lowering.mlir_common.linalg_builder import cast_to
from mlirtri.lowering.mlir_common.reading import definition
from mlirtri.lowering.sizes.conditions import dim
from mlirtri.lowering.sizes.infer_size_program import SizeValues, size_values_of

Size = tuple[int, Counter]
"""A constant factor and hashable symbolic factors, the same for equal sizes."""
Group = tuple[list[int], list[int]]
"""Axes of the source and axes of the result with the same number of elements."""


def rewrite(module: ir.Module) -> bool:
    """Lower every reshape of `module`, in place; return whether there were any. Raises `UnsupportedOperationError`."""
    reshapes = operations_named(module, "tensor.reshape")
    if not reshapes:
        return False
    for reshape in reshapes:
        if reshape.operands[1].type.shape[0] < 0:
            raise UnsupportedOperationError(
                "a reshape to a rank known at run time only",
                span_of(reshape.location),
                help="give the shape operand a static size",
            )
    sizes = _sizes(module)
    for position, reshape in enumerate(reshapes):
        _replace(reshape, *sizes[position])
    return True


def _sizes(module: ir.Module) -> list[tuple[list[Size], list[Size]]]:
    ranks: list[tuple[int, int]] = []

    def requested_sizes(function: func.FuncOp) -> list[ir.Value]:
        requested = []
        for reshape in operations_named(function, "tensor.reshape"):
            source, result = reshape.operands[0], reshape.results[0]
            ranks.append((source.type.rank, result.type.rank))
            # A value inside of a loop does not dominate the function's end.
            if reshape.parent.name == "func.func":
                requested += [dim(source, axis) for axis in range(source.type.rank)] + _result_sizes(reshape)
            else:
                requested += [index_constant(0)] * (source.type.rank + result.type.rank)
        return requested

    inferred = size_values_of(module, requested_sizes)
    sizes_of_reshapes, position = [], 0
    for source_rank, result_rank in ranks:
        sizes = [_size_of(inferred, position + axis) for axis in range(source_rank + result_rank)]
        position += source_rank + result_rank
        sizes_of_reshapes.append((sizes[:source_rank], sizes[source_rank:]))
    return sizes_of_reshapes


def _size_of(inferred: SizeValues, position: int) -> Size:
    step = inferred.values[position]
    return (1, Counter([("unknown", position)])) if step is None else _factors(inferred, step)


def _factors(inferred: SizeValues, position: int) -> Size:
    step = inferred.steps[position]
    if step.name == "arith.index_cast":
        return _factors(inferred, step.operands[0])
    if step.name == "arith.muli":
        return _product([_factors(inferred, operand) for operand in step.operands])
    return (step.literals[0], Counter()) if step.name == CONSTANT else (1, Counter([step]))


def _result_sizes(reshape: ir.Operation) -> list[ir.Value]:
    shape, result = reshape.operands[1], reshape.results[0]
    operation = definition(shape)
    sizes = []
    for axis, size in enumerate(result.type.shape):
        if size >= 0:
            sizes.append(index_constant(size))
        elif operation is not None and operation.name == "tensor.from_elements":
            sizes.append(cast_to_index(operation.operands[axis]))
        else:
            sizes.append(cast_to_index(tensor.extract(shape, [index_constant(axis)])))
    return sizes


def _replace(reshape: ir.Operation, before: list[Size], after: list[Size]) -> None:
    source, result = reshape.operands[0], reshape.results[0]
    groups = _groups(before, after)
    with ir.InsertionPoint(reshape), reshape.location:
        sizes = _result_sizes(reshape)
        value = _collapsed(source, [axes for axes, _ in groups])
        value = _expanded(value, [axes for _, axes in groups], sizes, result.type)
    replace(reshape, [value])


def _groups(before: Sequence[Size], after: Sequence[Size]) -> list[Group]:
    if any(constant == 0 for constant, _ in (*before, *after)):
        return [(list(range(len(before))), list(range(len(after))))] if before and after else []
    groups: list[Group] = []
    first, second = 0, 0
    while first < len(before) and second < len(after):
        start = first, second
        first, second = first + 1, second + 1
        while (left := _product(before[start[0] : first])) != (right := _product(after[start[1] : second])):
            grows = first < len(before), second < len(after)
            if not any(grows):
                break
            # Extend the side with fewer elements, as far as that is known.
            if grows[0] and (left[0] < right[0] or left[1].total() < right[1].total() or not grows[1]):
                first += 1
            else:
                second += 1
        groups.append((list(range(start[0], first)), list(range(start[1], second))))
    if not groups:
        return []
    *exact, (last, results) = groups
    return [
        *exact,
        *_split_tail(last + list(range(first, len(before))), results + list(range(second, len(after))), before, after),
    ]


def _split_tail(axes: list[int], results: list[int], before: Sequence[Size], after: Sequence[Size]) -> list[Group]:
    tail: list[Group] = []
    while len(axes) > 1 and len(results) > 1 and before[axes[-1]] == after[results[-1]]:
        tail.insert(0, ([axes[-1]], [results[-1]]))
        axes, results = axes[:-1], results[:-1]
    return [(axes, results), *tail]


def _product(sizes: Sequence[Size]) -> Size:
    return prod(constant for constant, _ in sizes), sum((factors for _, factors in sizes), Counter())


def _collapsed(value: ir.Value, groups: list[list[int]]) -> ir.Value:
    if all(len(group) == 1 for group in groups) and len(groups) == value.type.rank:
        return value
    # A tensor of one element is reshaped without any group.
    shape = list(value.type.shape) if groups else [1] * value.type.rank
    source = ir.RankedTensorType.get(shape, value.type.element_type)
    value = cast_to(value, source)
    sizes = [_size([shape[axis] for axis in group]) for group in groups]
    kind = ir.RankedTensorType.get(sizes, value.type.element_type)
    return tensor.collapse_shape(kind, value, groups)


def _expanded(value: ir.Value, groups: list[list[int]], sizes: list[ir.Value], type_: ir.RankedTensorType) -> ir.Value:
    shape = list(type_.shape) if groups else [1] * type_.rank
    if all(len(group) == 1 for group in groups) and len(groups) == type_.rank:
        return cast_to(value, type_)
    # An axis whose size is static on one side only becomes static here.
    source = ir.RankedTensorType.get([_size([shape[axis] for axis in group]) for group in groups], type_.element_type)
    value = cast_to(value, source)
    dynamic = [sizes[axis] for axis, size in enumerate(shape) if size < 0]
    expanded = ir.RankedTensorType.get(shape, type_.element_type)
    value = tensor.expand_shape(expanded, value, groups, dynamic, shape)
    return cast_to(value, type_)


def _size(sizes: Sequence[int]) -> int:
    return ir.ShapedType.get_dynamic_size() if any(size < 0 for size in sizes) else prod(sizes)
