"""Values of type `index`: constants, the sizes of axes, offsets of slices, and loops over all indices of a shape.

Static sizes are ints; dynamic ones are `index` values, taken from the tensors by `size_of`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlirtri.dialect.base.sizes import DYNAMIC
from mlirtri.dialect.bindings.mlir import arith, ir, scf, tensor
from mlirtri.lowering.mlir_common.reading import definition

Sizes = Sequence[int | ir.Value]
"""Sizes or offsets: ints where they are static, else `index` values."""
Step = Callable[[list[ir.Value], list[ir.Value]], list[ir.Value]]
"""``step(indices, iter_args) -> yielded values``: the body of a loop nest."""


def unnamed() -> ir.Location:
    """Return the current location without the user's variable name, which belongs to the result alone."""
    location = ir.Location.current
    return location.child_loc if isinstance(location, ir.NameLoc) else location


def index_constant(number: int, location: ir.Location | None = None) -> ir.Value:
    return arith.constant(ir.IndexType.get(), number, loc=location or unnamed())


def index_value(size: int | ir.Value) -> ir.Value:
    return index_constant(size) if isinstance(size, int) else size


_INDEX_ARITHMETIC = {"arith.addi": arith.addi, "arith.subi": arith.subi, "arith.muli": arith.muli}


def as_index(value: ir.Value, depth: int = 4) -> ir.Value:
    """Return an int64 as an `index`; sums of loop counters and literals become index arithmetic."""
    operation = definition(value)
    if operation is not None and operation.name == "arith.index_cast":
        return operation.operands[0]
    if operation is not None and operation.name == "arith.constant":
        return index_constant(operation.attributes["value"].value)
    if depth and operation is not None and operation.name in _INDEX_ARITHMETIC:
        return _INDEX_ARITHMETIC[operation.name](*(as_index(operand, depth - 1) for operand in operation.operands))
    return arith.index_cast(ir.IndexType.get(), value)


def cast_to_index(value: ir.Value) -> ir.Value:
    """Return an integer as an `index`; an `index` as it is."""
    return value if isinstance(value.type, ir.IndexType) else arith.index_cast(ir.IndexType.get(), value)


def at_most_one(size: int | ir.Value) -> int | ir.Value:
    """Return 1, or 0 for an axis without elements."""
    return min(size, 1) if isinstance(size, int) else arith.minsi(size, index_constant(1))


def without_first(size: int | ir.Value) -> int | ir.Value:
    """Return the number of elements of an axis after its first one; 0 for an axis without elements."""
    if isinstance(size, int):
        return max(size - 1, 0)
    return arith.maxsi(arith.subi(size, index_constant(1)), index_constant(0))


def size_of(value: ir.Value, axis: int) -> int | ir.Value:
    """Return the size of an axis: an int, or the `index` value of `tensor.dim`."""
    size = value.type.shape[axis]
    return tensor.dim(value, index_constant(axis), loc=unnamed()) if size == DYNAMIC else size


def sizes_of(value: ir.Value) -> list[int | ir.Value]:
    return [size_of(value, axis) for axis in range(value.type.rank)]


def split_sizes(sizes: Sizes) -> tuple[list[ir.Value], list[int]]:
    """Return the dynamic values, and all sizes with `DYNAMIC` in place of each dynamic one."""
    values = [size for size in sizes if not isinstance(size, int)]
    return values, [size if isinstance(size, int) else DYNAMIC for size in sizes]


def offsets_in(value: ir.Value, offsets: Sizes) -> list[int | ir.Value]:
    """Return offsets for a slice; MLIR allows no literal for an empty slice that starts past the end."""
    return [
        index_constant(offset) if isinstance(offset, int) and 0 <= size <= offset else offset
        for offset, size in zip(offsets, value.type.shape, strict=True)
    ]


def mixed_sizes(type_: ir.ShapedType, dynamic: Sequence[ir.Value]) -> list[int | ir.Value]:
    """Return the shape of a type with its dynamic sizes replaced by values."""
    values = iter(dynamic)
    return [size if size >= 0 else next(values) for size in type_.shape]


def loop_nest(sizes: Sizes, carried: Sequence[ir.Value], step: Step) -> list[ir.Value]:
    """Run ``step(index, carried) -> carried`` for every index of `sizes`, the last axis fastest; return the results."""

    def nest(indices: list[ir.Value], carried: list[ir.Value]) -> list[ir.Value]:
        if len(indices) == len(sizes):
            return step(indices, carried)
        loop = scf.ForOp(index_constant(0), index_value(sizes[len(indices)]), index_constant(1), carried)
        with ir.InsertionPoint(loop.body):
            scf.YieldOp(nest([*indices, loop.induction_variable], list(loop.inner_iter_args)))
        return list(loop.results)

    return nest([], list(carried))
