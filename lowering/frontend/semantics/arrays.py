"""Language functions over whole arrays: padding, scans, sorting, searching, counting, correlation.

Each is ``name(b, …)``; `b` is the `Language`. Axes are static.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from mlirtri.dialect.base.dtypes import DTYPES, DType, as_dtype
from mlirtri.dialect.base.sizes import Size, is_dynamic
from mlirtri.dialect.builder import KernelValue, TensorLike, TriValue
from mlirtri.dialect.promotion import dtype_rules as promotion
from mlirtri.dialect.promotion.dtype_rules import Operand
from mlirtri.lowering.frontend.semantics.axes import axis_of, integer, integers
from mlirtri.lowering.frontend.semantics.builder import Language, dtype_or_none, language
from mlirtri.lowering.frontend.semantics.dynamic_sizes import common_size
from mlirtri.lowering.frontend.semantics.dynamic_sizes import cut as before
from mlirtri.lowering.frontend.semantics.shapes import concatenate, strided

FLOAT32, INT64 = DTYPES["float32"], DTYPES["int64"]


@language
def cut(b: Language, x: TensorLike, axis: int, part: slice) -> TriValue:
    """Return ``x[…, part, …]``, a slice of one axis; run-time bounds must lie within the axis."""
    x = b.tensor(x)
    if x.type.is_static and not any(map(is_dynamic, (part.start, part.stop))):
        ranges = [range(size)[part] if position == axis else range(size) for position, size in enumerate(x.type.shape)]
        return strided(b, x, ranges)
    size, step = x.type.shape[axis], part.step or 1
    start, stop = (_bound(part.start, size, 0), _bound(part.stop, size, size))
    extent = b.indices.maximum(Size.of(stop - start), Size.of(0))
    return _window(b, x, axis, start, b.indices.floor_divide(extent + (step - 1), step).simplified(), step)


def _window(b: Language, x: TriValue, axis: int, start: int | Size, count: int | Size, step: int = 1) -> TriValue:
    offsets = tuple(start if position == axis else 0 for position in range(x.type.rank))
    sizes = tuple(count if position == axis else size for position, size in enumerate(x.type.shape))
    indices = [b.tri.index(size) for size in (*offsets, *sizes) if is_dynamic(size)]
    strides = tuple(step if position == axis else 1 for position in range(x.type.rank))
    return b.tri.extract_slice(x, *indices, offsets=offsets, sizes=sizes, strides=strides, drop=())


def _bound(bound: int | Size | None, size: int | Size, default: int | Size) -> Any:
    if bound is None:
        return default
    position = size + bound if isinstance(bound, int) and bound < 0 else bound
    return position.simplified() if isinstance(position, Size) else position


@language
def number_of(b: Language, size: int | Size | TriValue) -> KernelValue:
    """Return a size as an operand: an int, or a run-time integer."""
    return b.indices.tensor_of(size) if isinstance(size, Size) else size


@language
def size_from(b: Language, number: int | TriValue) -> int | Size:
    """Return an integer, known or run-time, as a size; 0 for a negative one."""
    return b.indices.maximum(b.indices.size_of(number), Size.of(0)).simplified()


@language
def smaller_size(b: Language, x: int | Size, y: int | Size) -> int | Size:
    return b.indices.minimum(Size.of(x), Size.of(y)).simplified()


@language
def roll(b: Language, x: TensorLike, shift: int | TriValue, axis: int) -> TriValue:
    """Return `x` rotated along an axis: elements shifted past the end reappear at the front."""
    x = b.tensor(x)
    size = x.type.shape[axis]
    if size == 0:
        return x
    if isinstance(shift, TriValue) or is_dynamic(size):
        # The maximum avoids a remainder by 0 on an empty axis.
        moved = size_from(b, b.remainder(shift, b.maximum(number_of(b, size), 1)))
    else:
        moved = integer(shift, "the shift") % size
    if moved == 0:
        return x
    unmoved = (Size.of(size) - moved).simplified()
    return concatenate(b, (_window(b, x, axis, unmoved, moved), _window(b, x, axis, 0, unmoved)), axis)


@language
def pad(b: Language, x: TensorLike, widths: Sequence[tuple[int, int]], value: int | float | bool) -> TriValue:
    """Return `x` padded before and after each axis with a constant."""
    x = b.tensor(x)
    low, high = (integers(tuple(side), "a width") for side in zip(*widths, strict=True)) if widths else ((), ())
    if not any((*low, *high)):
        return x
    return b.tri.pad(x, low=low, high=high, value=x.type.dtype.python(b.known_number(value, x.type.dtype)))


@language
def literal(b: Language, values: Sequence[int | float | bool], shape: tuple[int, ...], dtype: object) -> TriValue:
    """Return a tensor of constants given in row-major order."""
    dtype = as_dtype(dtype)
    values = tuple(dtype.python(b.known_number(value, dtype)) for value in values)
    for value in values:
        b.check_fits(value, dtype)
    if len(set(map(repr, values))) <= 1:
        return b.tri.constant(values[0] if values else 0, dtype, tuple(shape))
    if dtype.is_complex:
        parts = ([value.real for value in values], [value.imag for value in values])
        return b.complex(*(literal(b, part, shape, dtype.part) for part in parts))
    return b.tri.literal(values=values, shape=tuple(shape), dtype=dtype.name)


@language
def scan(b: Language, x: TensorLike, kind: str, axis: int, dtype: object = None) -> TriValue:
    """Return the inclusive scan (sum, product, maximum or minimum) along an axis, in the dtypes of the reduction.

    fp16 and bf16 are accumulated in fp32: their error would grow with the length.
    """
    plan = promotion.result_dtypes(b.semantics, kind, [b.operand(x)], dtype_or_none(dtype))
    x = b.tensor(x, plan.compute[0])
    if x.type.dtype.is_half and kind in ("sum", "prod"):
        x = b.tri.cast(x, FLOAT32)
    return b.tri.cast(b.tri.scan(x, kind=kind, axis=axis_of(axis, x.type.rank)), plan.result)


@language
def bitcast(b: Language, x: TensorLike, dtype: object) -> TriValue:
    """Return the numbers of another dtype of the same width that have the bits of `x`."""
    x, dtype = b.tensor(x), as_dtype(dtype)
    return x if x.type.dtype == dtype else b.tri.emit("bitcast", x, dtype=dtype.name)


@language
def sort(b: Language, x: TensorLike, axis: int) -> TriValue:
    x = b.tensor(x)
    return b.tri.sort(x, axis=axis_of(axis, x.type.rank))


@language
def argsort(b: Language, x: TensorLike, axis: int) -> TriValue:
    """Return the indices that sort an axis: stable, NaN last."""
    x = b.tensor(x)
    return b.tri.argsort(x, axis=axis_of(axis, x.type.rank))


def _in_common_dtype(b: Language, *operands: Any) -> list[TriValue]:
    kinds: list[Operand] = [b.operand(x) for x in operands]
    dtype: DType = promotion.common_dtype(b.semantics, kinds)
    return [b.tensor(x, dtype) for x in operands]


@language
def searchsorted(b: Language, x: TensorLike, values: TensorLike, right: bool) -> TriValue:
    x, values = _in_common_dtype(b, x, values)
    return b.tri.searchsorted(x, values, right=bool(right))


@language
def bins(b: Language, x: TensorLike, edges: TensorLike) -> TriValue:
    """Return the index of the equal-width bin that holds each element; the number of bins for elements outside."""
    x, edges = _in_common_dtype(b, x, edges)
    return b.tri.bins(x, edges)


@language
def add_at(b: Language, x: TensorLike, positions: TensorLike, values: TensorLike) -> TriValue:
    """Return `x` of rank 1 with `values` added at `positions`; positions out of range are ignored."""
    x = b.tensor(x)
    return b.tri.add_at(x, b.tensor(positions, INT64), b.tensor(values, x.type.dtype))


@language
def correlate(b: Language, x: TensorLike, y: TensorLike) -> TriValue:
    """Return the dot products of `y` with every window of `x` of the same length."""
    plan = promotion.result_dtypes(b.semantics, "dot", [b.operand(x), b.operand(y)])
    x, y = (b.tensor(operand, dtype) for operand, dtype in zip((x, y), plan.compute, strict=True))
    return b.tri.cast(b.tri.correlate(x, y), plan.result)


@language
def pick(b: Language, x: TensorLike, *positions: TensorLike) -> TriValue:
    """Return the elements of `x` at integer `positions`, one array per leading axis, all of one shape."""
    return b.tri.gather(b.tensor(x), *(b.tensor(index, INT64) for index in positions))


@language
def masked(b: Language, tensor: TriValue, mask: TriValue) -> TriValue:
    """Return ``tensor[mask]``; its length is the number of true elements, one symbol for all arrays of a mask."""
    tri = b.tri
    for axis in range(mask.type.rank):
        sizes = [tensor.type.shape[axis], mask.type.shape[axis]]
        if sizes[0] != sizes[1] and any(map(is_dynamic, sizes)):
            common = common_size(b, sizes)
            tensor, mask = before(b, tensor, axis, common), before(b, mask, axis, common)
    selected = tri.compress(TriValue(tensor.value, tensor.type), mask)
    return TriValue(selected.value, selected.type.with_shape((true_elements(b, mask), *selected.type.shape[1:])))


def true_elements(b: Language, mask: TriValue) -> Size:
    """Return the number of true elements of a mask."""
    counted = b.tri.sum(b.tri.cast(mask, INT64), axes=tuple(range(mask.type.rank)), keepdims=False)
    most = reduce(b.indices.product, (_largest(size) for size in mask.type.shape), Size.of(1))
    return Size.of(b.indices.symbol(counted, "n", Size.of(0), most))


def _largest(size: int | Size) -> Size:
    """Return a bound of a size, known at compile time or by the sizes of the arguments."""
    return Size.of(size).most_fixed() or Size.of(0)
