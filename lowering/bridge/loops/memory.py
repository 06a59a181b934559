"""Buffers behind memrefs, and the views of them that bufferization leaves.

Complex elements are a last dimension of 2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mlirtri.dialect.bindings.mlir import ir
from mlirtri.lowering.bridge.loops.values import part_dtypes
from mlirtri.lowering.bridge.scalar.scalar_rules import same_bits
from mlirtri.lowering.tir.primfunc import load, store
from mlirtri.lowering.tir.statements import index, plus
from mlirtri.lowering.toolchain.tvm_names import Expr, Extent, Stmt, tirx

Indices = list[Any]


@dataclass(frozen=True)
class Memory:
    """A memref: its sizes, and the positions of its elements in a buffer."""

    buffer: Any
    """Its dtype may differ at the same width: unsigned, or the storage type of bf16."""
    sizes: tuple[Any, ...]
    dtypes: tuple[str, ...]
    """The dtypes of an element's parts: two for complex elements."""
    map_indices: Callable[[Indices], Indices] = list
    """Map indices into the memref to indices into the buffer."""

    def positions(self, indices: Sequence[Expr]) -> list[Indices]:
        """Return the indices into the buffer of each part of the element at `indices`."""
        mapped = self.map_indices(list(indices))
        return [[*mapped, index(part)] for part in range(2)] if len(self.dtypes) == 2 else [mapped]

    def load(self, indices: Sequence[Expr]) -> list[Expr]:
        """Load the parts of the element at `indices`."""
        accesses = zip(self.dtypes, self.positions(indices), strict=True)
        return [same_bits(load(self.buffer, position), dtype) for dtype, position in accesses]

    def store(self, parts: Sequence[Expr], indices: Sequence[Expr]) -> list[Stmt]:
        """Return the statements that store these parts at the element at `indices`."""
        dtype, positions = str(self.buffer.dtype), self.positions(indices)
        pairs = zip(parts, positions, strict=True)
        return [store(self.buffer, same_bits(part, dtype), position) for part, position in pairs]

    def view(self, sizes: Sequence[Extent], to_source: Callable[[Indices], Indices]) -> Memory:
        """Return a view of other sizes; `to_source` maps its indices to this memory's."""
        return Memory(self.buffer, tuple(sizes), self.dtypes, lambda indices: self.map_indices(to_source(indices)))


def memory(
    name: str,
    type_: ir.MemRefType,
    sizes: Sequence[Extent],
    dtype: str | None = None,
    strides: Sequence[int | None] | None = None,
) -> Memory:
    """Return a buffer for a memref type, of another dtype if given; `sizes` are expressions.

    `strides` are those of a buffer that is not row-major; None among them for a stride that the argument has.
    """
    dtypes = part_dtypes(type_)
    extra = [index(2)] if len(dtypes) == 2 else []
    buffer = tirx.decl_buffer(
        [*sizes, *extra], dtype or dtypes[0], name, layout=None, strides=_strides(name, strides, len(dtypes))
    )
    return Memory(buffer, tuple(sizes), tuple(dtypes))


def _strides(name: str, strides: Sequence[int | None] | None, parts: int) -> list[Any] | None:
    if strides is None:
        return None
    in_elements = [
        tirx.Var(f"{name}_stride{axis}", "int64") if stride is None else index(stride * parts)
        for axis, stride in enumerate(strides)
    ]
    return [*in_elements, *([index(1)] if parts == 2 else [])]


def static_or_dynamic(static: Sequence[int], dynamic: Sequence[Expr]) -> list[Expr]:
    """Return a ``static_…`` attribute with its dynamic entries replaced by the operands."""
    operands = iter(dynamic)
    return [next(operands) if number == ir.ShapedType.get_dynamic_size() else index(number) for number in static]


def subview(source: Memory, offsets: Indices, sizes: Indices, strides: Indices, kept: Sequence[int]) -> Memory:
    """Return a strided slice along each axis; only the axes `kept` remain."""

    def to_source(indices: Indices) -> Indices:
        steps = dict(zip(kept, indices, strict=True))
        return [
            plus(offset, product(steps[axis], stride)) if axis in steps else offset
            for axis, (offset, stride) in enumerate(zip(offsets, strides, strict=True))
        ]

    return source.view([sizes[axis] for axis in kept], to_source)


def collapsed(source: Memory, groups: Sequence[Sequence[int]]) -> Memory:
    """Collapse each group of axes into one axis."""
    sizes = [_size([source.sizes[axis] for axis in group]) for group in groups]

    def to_source(indices: Indices) -> Indices:
        if not groups:
            return [index(0) for _ in source.sizes]
        pairs = zip(indices, groups, strict=True)
        return [i for position, group in pairs for i in _split_index(position, source.sizes, group)]

    return source.view(sizes, to_source)


def joined(source: Memory, count: int) -> Memory:
    """Join the last `count` axes of a row-major array; its last index alone goes through them, without quotients."""
    kept = len(source.sizes) - count

    def to_source(indices: Indices) -> Indices:
        return [*indices[:kept], *[index(0)] * (count - 1), indices[-1]]

    return source.view([*source.sizes[:kept], _size(source.sizes[kept:])], to_source)


def expanded(source: Memory, groups: Sequence[Sequence[int]], sizes: Sequence[Extent]) -> Memory:
    """Expand each axis into a group of axes of the given sizes."""

    def to_source(indices: Indices) -> Indices:
        return [_join_indices(indices, sizes, group) for group in groups]

    return source.view(sizes, to_source)


def _split_index(position: Any, sizes: Sequence[Any], group: Sequence[int]) -> Indices:
    """Split the index into a collapsed group into one index per axis; axes of size 1 cost nothing."""
    long = [axis for axis in group if not is_number(sizes[axis], 1)]
    result = dict.fromkeys(group, index(0))
    for number, axis in enumerate(long):
        inner = _size([sizes[inner_axis] for inner_axis in long[number + 1 :]])
        quotient = position if is_number(inner, 1) else tirx.FloorDiv(position, inner)
        result[axis] = quotient if number == 0 else tirx.FloorMod(quotient, sizes[axis])
    return [result[axis] for axis in group]


def _join_indices(indices: Indices, sizes: Sequence[Any], group: Sequence[int]) -> Any:
    position = index(0)
    for axis in group:
        if not is_number(sizes[axis], 1):
            position = plus(product(position, sizes[axis]), indices[axis])
    return position


def _size(sizes: Sequence[Any]) -> Any:
    count = index(1)
    for size in sizes:
        count = product(count, size)
    return count


def is_number(expression: Expr, number: int) -> bool:
    """Return whether an expression is this constant."""
    return isinstance(expression, tirx.IntImm) and int(expression.value) == number


def product(x: Expr, y: Expr) -> Expr:
    """Return x * y, simplified where either is 1 or the first is 0."""
    if is_number(x, 0) or is_number(y, 1):
        return x
    return y if is_number(x, 1) else x * y
