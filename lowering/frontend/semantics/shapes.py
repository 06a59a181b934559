"""Language functions, each ``name(b, …)``, shapes, joining, splitting, creation of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import ceil, prod
from typing import Any

from mlirtri.dialect.base.dtypes import DType, as_dtype
from mlirtri.dialect.base.sizes import Size, is_dynamic
from mlirtri.dialect.base.tensor_type import shown_shape
from mlirtri.dialect.builder import KernelValue, TensorLike, TriValue
from mlirtri.dialect.promotion import dtype_rules as promotion
from mlirtri.errors import KernelTypeError, KernelValueError
from mlirtri.lowering.frontend.semantics.axes import (
    AxesLike,
    ShapeLike,
    SizeLike,
    axes_of,
    axis_of,
    integer,
    integers,
    is_run_time_integer,
)
from mlirtri.lowering.frontend.semantics.builder import Language, describe, dtype_or_none, language
from mlirtri.lowering.frontend.semantics.dynamic_sizes import checked_at_call, same_sizes


@language
def reshape(b: Language, x: TensorLike, shape: ShapeLike) -> TriValue:
    x, sizes = b.tensor(x), list(sizes_of(b, shape))
    if not x.type.is_static or any(map(is_dynamic, sizes)):
        return _dynamic_reshape(b, x, sizes)
    if sizes.count(-1) > 1:
        raise KernelValueError(f"only one size of {tuple(sizes)} can be -1")
    if -1 in sizes:
        known_size = prod(size for size in sizes if size != -1)
        if known_size == 0 or x.type.size % known_size:
            raise KernelValueError(f"{x.type} with {x.type.size} elements does not reshape to {tuple(sizes)}")
        sizes[sizes.index(-1)] = x.type.size // known_size
    if tuple(sizes) == x.type.shape:
        return x
    if x.type.size == 0 and prod(sizes) == 0:
        # Nothing to move; TVM's reshape reads a size of 0 as "copy this size from the input".
        return b.tri.constant(0, x.type.dtype, tuple(size for size in sizes if isinstance(size, int)))
    return b.tri.reshape(x, shape=tuple(sizes))


def _dynamic_reshape(b: Language, x: TriValue, shape: list[int | Size]) -> TriValue:
    """Reshape to sizes that are polynomials; refuse unless both sides have the same number of elements.

    Where the call can check that, it does.
    """
    count = total_size(b, x.type.shape)
    if shape.count(-1) == 1 and count is not None:
        known_size = total_size(b, [size for size in shape if size != -1])
        inferred = _quotient(b, Size.of(count), known_size)
        if inferred is None and known_size and isinstance(known_size, int) and checked_at_call(b, (count, known_size)):
            inferred = b.indices.floor_divide(Size.of(count), known_size).simplified()
        if inferred is None:
            raise KernelValueError(f"{x.type} does not reshape to {shown_shape(tuple(shape))}")
        shape[shape.index(-1)] = inferred
    if tuple(shape) == x.type.shape:
        return x
    wanted = total_size(b, shape)
    if count is None or wanted is None or (wanted != count and not checked_at_call(b, (count, wanted))):
        raise KernelValueError(f"{x.type} is not known to have the elements of shape {shown_shape(tuple(shape))}")
    dynamic = [size for size in shape if is_dynamic(size)]
    return b.tri.dynamic_reshape(x, *map(b.tri.index, dynamic), shape=tuple(shape))


def _quotient(b: Language, count: Size, divisor: int | Size | None) -> int | Size | None:
    if divisor == count:
        return 1
    if divisor is None or divisor == 0:
        return None
    result = b.indices.fixed.quotient(count, Size.of(divisor))
    return None if result is None else result.simplified()


@language
def transpose(b: Language, x: TensorLike, axes: Sequence[int] | None = None) -> TriValue:
    x = b.tensor(x)
    rank = x.type.rank
    if axes is None:
        permutation = tuple(reversed(range(rank)))
    else:
        permutation = tuple(axis_of(axis, rank) for axis in integers(axes, "axis"))
    if sorted(permutation) != list(range(rank)):
        raise KernelValueError(f"axes {axes} are not a permutation of the {rank} axes of {x.type}")
    return x if permutation == tuple(range(rank)) else b.tri.transpose(x, permutation=permutation)


@language
def broadcast_to(b: Language, x: TensorLike, shape: ShapeLike) -> TriValue:
    sizes = sizes_of(b, shape)
    x = same_sizes(b, b.tensor(x), sizes)
    if sizes == x.type.shape:
        return x
    if dynamic := [size for size in sizes if is_dynamic(size)]:
        return b.tri.dynamic_broadcast(x, *map(b.tri.index, dynamic), shape=sizes)
    return b.tri.broadcast_to(x, shape=sizes)


def sizes_of(b: Language, shape: ShapeLike) -> tuple[int | Size, ...]:
    parts = shape if isinstance(shape, (tuple, list)) else (shape,)
    return tuple(_size(b, part) for part in parts)


def _size(b: Language, part: Any) -> int | Size:
    if is_dynamic(part):
        return part.simplified()
    if is_run_time_integer(part):
        return b.indices.size_of(part).simplified()
    return integer(part, "a size")


def total_size(b: Language, shape: Sequence[int | Size]) -> int | Size | None:
    """Return the number of elements of a shape, or None where it is no polynomial of fixed sizes."""
    count = Size.of(1)
    for size in map(Size.of, shape):
        if not (size.is_constant or count.is_constant or b.indices.fixed.has(size, count)):
            return None
        count = b.indices.product(count, size)
    return count.simplified()


@language
def squeeze(b: Language, x: TensorLike, axis: AxesLike = None) -> TriValue:
    x = b.tensor(x)
    shape = x.type.shape
    axes = [i for i, size in enumerate(shape) if size == 1] if axis is None else axes_of(axis, len(shape))
    wrong = [i for i in axes if shape[i] != 1]
    if wrong and b.semantics == "numpy":
        raise KernelValueError(f"axis {wrong[0]} of {x.type} has size {shape[wrong[0]]}, not 1, and cannot be squeezed")
    return reshape(b, x, [size for i, size in enumerate(shape) if i not in axes or size != 1])


@language
def unsqueeze(b: Language, x: TensorLike, axis: int) -> TriValue:
    """Insert new axes of size 1; `axis` refers to the result."""
    x = b.tensor(x)
    axes = integers(axis, "axis")
    rank = x.type.rank + len(axes)
    new = sorted(axis_of(number, rank) for number in axes)
    if len(set(new)) != len(new):
        raise KernelValueError(f"an axis stands twice in {axis}")
    sizes = iter(x.type.shape)
    return reshape(b, x, [1 if i in new else next(sizes) for i in range(rank)])


def _common(b: Language, name: str, xs: Any) -> list[TriValue]:
    if not isinstance(xs, (tuple, list)) or not xs:
        b.fail(f"{name} takes a tuple or list of at least one tensor")
    plan = promotion.result_dtypes(b.semantics, name, [b.operand(x) for x in xs])
    return [b.tensor(x, plan.result) for x in xs]


@language
def concatenate(b: Language, xs: Sequence[TensorLike], axis: int = 0) -> TriValue:
    tensors = _common(b, "concatenate", xs)
    if axis is None:
        tensors, axis = [reshape(b, x, (-1,) if x.type.size != 0 else (0,)) for x in tensors], 0
    if tensors[0].type.rank == 0:
        raise KernelTypeError("scalars do not concatenate", help="use stack")
    axis = axis_of(axis, tensors[0].type.rank)
    tensors = [_beside(b, x, tensors[0], axis) for x in tensors]
    joined = _joined(b, tensors, axis)
    parts = [x for x in tensors if x.type.size != 0]
    if len(parts) == len(tensors):
        return joined
    # Empty tensors were checked above, and add nothing.
    return _joined(b, parts, axis) if parts else b.tri.constant(0, joined.type.dtype, joined.type.shape)


def _beside(b: Language, x: TriValue, first: TriValue, axis: int) -> TriValue:
    """Return `x` with the sizes of `first` for all axes but one, as far as the call can check them."""
    if x.type.rank != first.type.rank:
        return x
    shape = list(first.type.shape)
    shape[axis] = x.type.shape[axis]
    return same_sizes(b, x, shape)


def _joined(b: Language, tensors: list[TriValue], axis: int) -> TriValue:
    return reduce(lambda joined, part: b.tri.concatenate(joined, part, axis=axis), tensors)


@language
def stack(b: Language, xs: Sequence[TensorLike], axis: int = 0) -> TriValue:
    tensors = _common(b, "stack", xs)
    tensors = [same_sizes(b, x, tensors[0].type.shape) for x in tensors]
    shapes = {x.type.shape for x in tensors}
    if len(shapes) > 1:
        raise KernelTypeError(f"stack takes tensors of one shape, got {', '.join(str(x.type) for x in tensors)}")
    axis = axis_of(axis, tensors[0].type.rank + 1)
    return concatenate(b, [unsqueeze(b, x, axis) for x in tensors], axis)


@language
def split(b: Language, x: TensorLike, sections_or_indices: int | Sequence[int], axis: int = 0) -> tuple[TriValue, ...]:
    """Return `numpy.split`: into a number of equal parts, or at given indices."""
    x = b.tensor(x)
    axis = axis_of(axis, x.type.rank)
    size = x.type.shape[axis]
    if is_dynamic(size):
        raise KernelTypeError(
            f"axis {axis} of {x.type} does not split: its size is known at run time only",
            help="annotate that size with int, or slice it: x[:n], x[n:]",
        )
    if isinstance(sections_or_indices, (tuple, list)):
        cuts = [min(max(cut + size if cut < 0 else cut, 0), size) for cut in integers(sections_or_indices, "a cut")]
    else:
        parts = integer(sections_or_indices, "the number of parts")
        if parts < 1 or size % parts:
            raise KernelValueError(f"axis {axis} of {x.type} does not split into {parts} equal parts")
        cuts = [size // parts * i for i in range(1, parts)]
    return tuple(
        slice_axis(b, x, axis, start, max(start, stop)) for start, stop in zip([0, *cuts], [*cuts, size], strict=True)
    )


def slice_axis(b: Language, x: TriValue, axis: int, start: int, stop: int) -> TriValue:
    """Return ``x[…, start:stop, …]``; other axes may have run-time sizes."""
    return b.cut(x, axis, slice(start, stop))


def strided(b: Language, x: TriValue, ranges: Sequence[range]) -> TriValue:
    """Return the elements at these indices of each axis; a negative step is a slice and a flip."""
    backwards = tuple(axis for axis, r in enumerate(ranges) if r.step < 0 and len(r))
    forward = [r[::-1] if axis in backwards else r for axis, r in enumerate(ranges)]
    if any(tuple(r) != tuple(range(n)) for r, n in zip(forward, x.type.shape, strict=True)):
        x = b.tri.slice(
            x,
            offsets=tuple(r[0] if len(r) else 0 for r in forward),
            sizes=tuple(len(r) for r in forward),
            strides=tuple(abs(r.step) if len(r) > 1 else 1 for r in forward),
        )
    return b.tri.flip(x, axes=backwards) if backwards else x


@language
def flip(b: Language, x: TensorLike, axis: AxesLike = None) -> TriValue:
    x = b.tensor(x)
    axes = axes_of(axis, x.type.rank)
    return b.tri.flip(x, axes=axes) if axes else x


def _sizes(b: Language, shape: Any) -> tuple[int | Size, ...]:
    sizes = sizes_of(b, shape)
    if any(isinstance(size, int) and size < 0 for size in sizes):
        raise KernelValueError(f"negative size in shape {sizes}")
    return tuple(size if isinstance(size, int) else b.indices.maximum(size, Size.of(0)).simplified() for size in sizes)


@language
def full(b: Language, shape: ShapeLike, value: KernelValue, dtype: object = None) -> TriValue:
    sizes, dtype = _sizes(b, shape), dtype_or_none(dtype)
    if isinstance(value, TriValue):
        return broadcast_to(b, b.tensor(value, dtype), sizes)
    number = b.known_number(value, dtype)
    dtype = dtype or b.default_dtype(value)
    b.check_fits(number, dtype)
    static = tuple(size for size in sizes if isinstance(size, int))
    if len(static) == len(sizes):
        return b.tri.constant(number, dtype, static)
    dynamic = [size for size in sizes if is_dynamic(size)]
    return b.tri.fill(b.tri.constant(number, dtype), *map(b.tri.index, dynamic), shape=sizes)


@language
def empty(b: Language, shape: ShapeLike, dtype: object) -> TriValue:
    return full(b, shape, 0, as_dtype(dtype))


@language
def arange(b: Language, start: KernelValue, stop: KernelValue, step: KernelValue, dtype: object) -> TriValue:
    start, stop = (b.indices.tensor_of(bound) if is_dynamic(bound) else bound for bound in (start, stop))
    if any(isinstance(bound, TriValue) for bound in (start, stop, step)):
        return _run_time_arange(b, start, stop, step, as_dtype(dtype))
    for bound in (start, stop, step):
        if not isinstance(bound, (int, float)):
            b.fail(f"arange takes integers or floats, got {describe(bound)}")
    if step == 0:
        raise KernelValueError("the step of arange is 0")
    return b.tri.arange(start=start, step=step, size=max(0, ceil((stop - start) / step)), dtype=as_dtype(dtype).name)


def _run_time_arange(b: Language, start: Any, stop: Any, step: Any, dtype: DType) -> TriValue:
    integral = [not isinstance(x, TriValue) or x.type.dtype.is_integer for x in (start, stop, step)]
    if not all(integral) or isinstance(step, TriValue) or not isinstance(step, int):
        b.fail(
            "arange at run time takes integers, and a step known at compile time", help="scale an arange of integers"
        )
    if step == 0:
        raise KernelValueError("the step of arange is 0")
    first, last = b.indices.size_of(start), b.indices.size_of(stop)
    extent = last - first if step > 0 else first - last
    count = b.indices.maximum(b.indices.floor_divide(extent + (abs(step) - 1), abs(step)), Size.of(0))
    return spaced(b, first, count, step, dtype)


def spaced(b: Language, first: Size, count: Size, step: int | TriValue, dtype: DType) -> TriValue:
    """Return `count` integers from `first` on."""
    int64 = as_dtype("int64")
    dynamic = [] if count.is_constant else [b.tri.index(count)]
    along = b.tri.iota(*dynamic, shape=(count.simplified(),), axis=0, dtype="int64")
    factor = b.tri.cast(step, int64) if isinstance(step, TriValue) else b.tri.constant(step, int64)
    return b.tri.cast(b.tri.add(b.tri.multiply(along, factor), b.tri.index(first)), dtype)


@language
def eye(b: Language, n: SizeLike, m: SizeLike | None, k: TensorLike, dtype: object) -> TriValue:
    m = n if m is None else m
    if any(isinstance(size, TriValue) or is_dynamic(size) for size in (n, m)):
        row, column = (arange(b, 0, size, 1, "int64") for size in (n, m))
        return b.tri.cast(b.equal(b.subtract(unsqueeze(b, column, 0), unsqueeze(b, row, 1)), k), as_dtype(dtype))
    return b.tri.eye(
        rows=integer(n, "a size"), columns=integer(m, "a size"), diagonal=integer(k, "k"), dtype=as_dtype(dtype).name
    )
