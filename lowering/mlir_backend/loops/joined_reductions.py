"""Make one loop of reductions that run through a row-major array of run-time sizes as it lies in memory.

Vectors of partial sums then start once, and not in each row. Views are `memref.reinterpret_cast`, since indices into a
`memref.collapse_shape` become quotients. Loops of known sizes are joined where they are scheduled.

    out = out + a[i, j]   over i, j      ──►      out = out + flat[k]   over k;   flat = reinterpret_cast a
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from mlirtri.dialect.bindings.mlir import all_operations_in, arith, ir, memref, operations_named
from mlirtri.lowering.mlir_common.attributes import JOINED, noted_strides, strides_of
from mlirtri.lowering.mlir_common.index_values import DYNAMIC, index_constant, split_sizes
from mlirtri.lowering.mlir_common.linalg_builder import iterators_of, maps_of, set_maps
from mlirtri.lowering.mlir_common.reading import ALLOCATIONS, definition


def rewrite(module: ir.Module) -> None:
    """Join the innermost reductions of every `linalg.generic` where all its operands allow it."""
    strided = _strided_arguments(module)
    for generic in operations_named(module, "linalg.generic"):
        reductions = [number for number, kind in enumerate(iterators_of(generic)) if kind == "reduction"]
        if len(reductions) > 1 and _can_join(generic, reductions, strided):
            with ir.InsertionPoint(generic), generic.location:
                _join(generic, reductions)


def _strided_arguments(module: ir.Module) -> list[ir.Value]:
    """Return the arguments that need not be row-major, though their memrefs are."""
    noted = noted_strides(module)
    return [
        function.regions[0].blocks[0].arguments[number]
        for function in operations_named(module, "func.func")
        for number in {**noted, **strides_of(function.opview)}
        if len(function.regions[0].blocks)
    ]


def _can_join(generic: ir.Operation, reductions: Sequence[int], strided: Sequence[ir.Value]) -> bool:
    """Return whether each input's last axes are the reductions in their order, and its size is open."""
    inputs = generic.attributes["operandSegmentSizes"][0]
    if any(inner.name == "linalg.index" for inner in all_operations_in(generic)):
        return False
    if reductions[-1] != len(iterators_of(generic)) - 1 or reductions[-1] - reductions[0] >= len(reductions):
        return False
    for operand, mapping in zip(list(generic.operands)[:inputs], maps_of(generic), strict=False):
        axes = [result.position if isinstance(result, ir.AffineDimExpr) else None for result in mapping.results]
        outer = axes[: -len(reductions)]
        if axes[-len(reductions) :] != list(reductions) or None in outer or any(axis in reductions for axis in outer):
            return False
        if not _is_whole_array(operand) or operand in strided:
            return False
    sizes = [size for operand in list(generic.operands)[:inputs] for size in operand.type.shape[-len(reductions) :]]
    return any(size < 0 for size in sizes)


def _is_whole_array(value: ir.Value) -> bool:
    """Return whether a value is a row-major array, and no view of another."""
    kind, owner = value.type, definition(value)
    return (
        isinstance(kind, ir.MemRefType)
        and kind.layout == ir.MemRefType.get(kind.shape, kind.element_type).layout
        and (owner is None or owner.name in ALLOCATIONS)
    )


def _join(generic: ir.Operation, reductions: Sequence[int]) -> None:
    inputs = generic.attributes["operandSegmentSizes"][0]
    loops = reductions[0] + 1
    maps = []
    for position, mapping in enumerate(maps_of(generic)):
        results = list(mapping.results)
        if position < inputs:
            generic.operands[position] = joined(generic.operands[position], len(reductions))
            results = results[: 1 - len(reductions)]
        maps.append(ir.AffineMap.get(loops, 0, results))
    set_maps(generic, maps)
    generic.attributes["iterator_types"] = ir.ArrayAttr.get(list(generic.attributes["iterator_types"])[:loops])


def joined(array: ir.Value, count: int) -> ir.Value:
    """Return a view of a row-major array that has its last `count` axes as one."""
    # Constants are so in the type: MLIR makes the operation anew, without its attribute, where it folds one.
    sizes = [
        memref.dim(array, index_constant(axis)) if size == DYNAMIC else size
        for axis, size in enumerate(array.type.shape)
    ]
    kept, last = sizes[:-count], reduce(_product, sizes[-count:])
    steps: list[int | ir.Value] = [1]
    for size in reversed([*kept, last][1:]):
        steps.insert(0, _product(size, steps[0]))
    dynamic_sizes, shape = split_sizes([*kept, last])
    dynamic_steps, strides = split_sizes(steps)
    kind = ir.MemRefType.get(shape, array.type.element_type, ir.StridedLayoutAttr.get(0, strides))
    view = memref.ReinterpretCastOp(kind, array, [], dynamic_sizes, dynamic_steps, [0], shape, strides)
    view.operation.attributes[JOINED] = ir.UnitAttr.get()
    return view.result


def _product(first: int | ir.Value, second: int | ir.Value) -> int | ir.Value:
    if isinstance(first, int) and isinstance(second, int):
        return first * second
    if (isinstance(first, int) and first == 1) or (isinstance(second, int) and second == 1):
        return second if isinstance(first, int) else first
    values = [index_constant(size) if isinstance(size, int) else size for size in (first, second)]
    return arith.muli(*values)
