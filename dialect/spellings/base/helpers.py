"""Helpers of the spellings: axes, sizes and permutations of shapes.

Arguments are Python values known at compile time; errors go through the builder's `fail`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from mlirtri.dialect.base.dtypes import DTYPES, DType
from mlirtri.dialect.promotion.dtype_rules import default_dtype
from mlirtri.dialect.spellings.base.spelling import Argument, Builder, Value
from mlirtri.errors import KernelValueError


def shape_of(b: Builder, x: Value) -> tuple[int, ...]:
    """Return the shape of a tensor; () for a Python scalar."""
    kind = b.type_of(x)
    return () if kind is None else kind.shape


def rank_of(b: Builder, x: Value) -> int:
    """Return the rank of a tensor; 0 for a Python scalar."""
    return len(shape_of(b, x))


def is_tensor(b: Builder, x: Value) -> bool:
    """Return whether x is a tensor and no Python scalar, known or run-time."""
    return b.type_of(x) is not None and b.weak_kind(x) is None


def require_tensor(b: Builder, name: str, x: Value, help: str | None = None) -> None:
    """Fail unless x is a tensor."""
    if not is_tensor(b, x):
        kind = b.weak_kind(x) or type(x).__name__
        b.fail(f"{name} takes a tensor here, not a Python {kind}", help=help)


def dtype_of(b: Builder, name: str, x: Value) -> DType:
    """Return the dtype of a tensor; fail for anything else."""
    require_tensor(b, name, x)
    return b.type_of(x).dtype


def require_rank(b: Builder, name: str, x: Value, ranks: Sequence[int]) -> None:
    """Fail unless the rank of x is one of `ranks`."""
    if rank_of(b, x) not in ranks:
        allowed = " or ".join(str(rank) for rank in ranks)
        b.fail(f"{name} has rank {allowed}, not {rank_of(b, x)}", help=f"it is {b.type_of(x)}")


def sizes(values: Sequence[Argument]) -> tuple[Argument, ...]:
    """Return the values of `f(2, 3)` and of `f((2, 3))`, which take either form."""
    if len(values) == 1 and isinstance(values[0], (tuple, list)):
        return tuple(values[0])
    return values if isinstance(values, tuple) else tuple(values)


def is_integer(value: object) -> bool:
    """Return whether a value is a compile-time int (Python's or NumPy's) and not a bool."""
    return hasattr(type(value), "__index__") and not isinstance(value, bool)


def counts_in_integers(b: Builder, *bounds: Value) -> bool:
    """Return whether the bounds of a range are integers, at compile time or at run time."""
    kinds = [b.type_of(bound) for bound in bounds]
    return all(
        is_integer(bound) if kind is None else kind.dtype.is_integer for bound, kind in zip(bounds, kinds, strict=True)
    )


def as_tuple(value: Argument) -> tuple[Argument, ...]:
    """Return a tuple or list as a tuple, any other value as a tuple of one."""
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def one_axis(b: Builder, axis: Argument, rank: int) -> int:
    """Return `axis` counted from the front; fail unless it is an int in range."""
    if not is_integer(axis):
        b.fail(f"an axis is an integer known at compile time, not {_described(b, axis)}")
    if not -rank <= axis < rank:
        b.fail(f"axis {axis} is out of range for rank {rank}")
    return axis % rank


def _described(b: Builder, value: Value) -> str:
    return repr(value) if b.type_of(value) is None else str(b.type_of(value))


def many_axes(b: Builder, axes: Argument, rank: int) -> tuple[int, ...]:
    """Return one axis or several, counted from the front; fail where one is repeated."""
    result = tuple(one_axis(b, axis, rank) for axis in as_tuple(axes))
    if len(set(result)) < len(result):
        b.fail(f"axes {tuple(as_tuple(axes))} name an axis twice")
    return result


def converted(b: Builder, x: Value, dtype: DType) -> Value:
    """Return `x.astype(dtype)`; the real part of a complex x where the dtype is real."""
    kind = b.type_of(x)
    loses = kind is not None and kind.dtype.is_complex and not (dtype.is_complex or dtype.is_bool)
    return b.cast(b.real(x) if loses else x, dtype)


def swapped(b: Builder, x: Value, first: Value, second: Value) -> Value:
    """Return `x` with two axes exchanged."""
    rank = rank_of(b, x)
    first, second = one_axis(b, first, rank), one_axis(b, second, rank)
    order = list(range(rank))
    order[first], order[second] = order[second], order[first]
    return b.transpose(x, tuple(order))


def moved(b: Builder, x: Value, source: Argument, destination: Argument) -> Value:
    """Return `x` with the axes `source` at the positions `destination` and the others in their order."""
    rank = rank_of(b, x)
    source, destination = many_axes(b, source, rank), many_axes(b, destination, rank)
    if len(source) != len(destination):
        b.fail(f"{len(source)} axes cannot move to {len(destination)} positions")
    sources = dict(zip(destination, source, strict=True))
    others = iter(axis for axis in range(rank) if axis not in source)
    return b.transpose(x, tuple(sources[axis] if axis in sources else next(others) for axis in range(rank)))


def matrix_transposed(b: Builder, name: str, x: Value) -> Value:
    """Return `x` with its last two axes exchanged; fail below rank 2."""
    if rank_of(b, x) < 2:
        b.fail(f"{name} takes a tensor of rank 2 or more, not {b.type_of(x)}")
    return swapped(b, x, -2, -1)


def split_evenly(b: Builder, x: Value, sections: int, axis: int) -> Value:
    """Split `x` into `sections` parts whose sizes differ by at most 1, the larger ones first."""
    if not is_integer(sections) or sections < 1:
        b.fail(f"the number of sections is a positive compile-time integer, not {_described(b, sections)}")
    size, extra = divmod(shape_of(b, x)[axis], sections)
    ends = [(part + 1) * size + min(part + 1, extra) for part in range(sections - 1)]
    return b.split(x, ends, axis)


def triangle(b: Builder, rows: int, columns: int, diagonal: int, lower: bool) -> Value:
    """Return a bool matrix that is true on and below (above) the diagonal."""
    row = b.reshape(b.arange(0, rows, 1, default_dtype("numpy", "int")), (rows, 1))
    column = b.reshape(b.arange(0, columns, 1, default_dtype("numpy", "int")), (1, columns))
    compare = b.less_equal if lower else b.greater_equal
    return compare(b.subtract(column, row), diagonal)


def trimmed(b: Builder, name: str, x: Value, diagonal: int, lower: bool) -> Value:
    """Return `tril` or `triu` of the last two axes: `x` with zeros outside the triangle."""
    if rank_of(b, x) < 2:
        b.fail(f"{name} takes a tensor of rank 2 or more, not {b.type_of(x)}")
    rows, columns = shape_of(b, x)[-2:]
    return b.where(triangle(b, rows, columns, diagonal, lower), x, b.full((), 0, b.type_of(x).dtype))


def diagonal(b: Builder, x: Value, offset: int) -> Value:
    """Return the diagonal of the last two axes: every (columns + 1)th element of each matrix in row-major order."""
    if not is_integer(offset):
        b.fail(f"the offset of a diagonal is an integer known at compile time, not {_described(b, offset)}")
    *batch, rows, columns = shape_of(b, x)
    if not b.type_of(x).is_static:
        return _run_time_diagonal(b, x, offset)
    start = offset if offset >= 0 else -offset * columns
    count = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    flat = b.reshape(x, (*batch, rows * columns))
    stop = start + (count - 1) * (columns + 1) + 1
    return b.cut(flat, len(batch), slice(start, stop, columns + 1) if count else slice(0, 0))


def _run_time_diagonal(b: Builder, x: Value, offset: int) -> Value:
    require_rank(b, "a matrix of run-time size", x, (2,))
    rows, columns = shape_of(b, x)
    count = b.smaller_size(rows - max(-offset, 0), columns - max(offset, 0))
    along = b.arange(0, count, 1, default_dtype("numpy", "int"))
    return b.pick(x, b.add(along, max(-offset, 0)), b.add(along, max(offset, 0)))


def at_least(b: Builder, x: Value, rank: int) -> Value:
    """Return `x` with leading axes of size 1, up to `rank`."""
    shape = shape_of(b, x)
    return x if len(shape) >= rank else b.reshape(x, (1,) * (rank - len(shape)) + shape)


def flattened(b: Builder, x: Value, first: int = 0, last: int = -1) -> Value:
    """Return `x` with the axes from `first` to `last` merged into one."""
    shape = shape_of(b, x)
    if not shape:
        return b.reshape(x, (1,))
    first, last = one_axis(b, first, len(shape)), one_axis(b, last, len(shape))
    if first > last:
        b.fail(f"the first axis {first} of flatten comes after the last one {last}")
    return b.reshape(x, (*shape[:first], prod(shape[first : last + 1]), *shape[last + 1 :]))


def filled(b: Builder, shape: Argument, value: Value, dtype: Argument, library: str) -> Value:
    """Return a tensor filled with one value, by default of the dtype that `library` gives such a value."""
    shape = as_tuple(shape)
    if (kind := b.weak_kind(value)) is not None:
        dtype = dtype or default_dtype(library, kind)
    if b.type_of(value) is None:
        return b.full(shape, value, dtype)
    return b.broadcast_to(b.cast(value, dtype) if dtype else value, shape)


def unstacked(b: Builder, x: Value, axis: Argument) -> tuple[Value, ...]:
    """Return the slices of `x` along an axis, without that axis."""
    axis = one_axis(b, axis, rank_of(b, x))
    size = shape_of(b, x)[axis]
    return tuple(b.squeeze(part, axis) for part in b.split(x, size, axis)) if size else ()


def size_of(b: Builder, x: Value, axis: Argument = None) -> int:
    """Return the number of elements of `x`, or its size along an axis, as a Python int."""
    shape = shape_of(b, x)
    return prod(shape) if axis is None else shape[one_axis(b, axis, len(shape))]


def inferred_sizes(b: Builder, parts: tuple[int, ...], size: int) -> tuple[int, ...]:
    """Return `parts` with one -1 replaced so that they multiply to `size`; fail where they cannot."""
    product = prod(part for part in parts if part != -1)
    if parts.count(-1) == 1 and product and size % product == 0:
        return tuple(size // product if part == -1 else part for part in parts)
    if -1 in parts or product != size:
        b.fail(f"the sizes {parts} do not multiply to {size}")
    return parts


def expanded_shape(b: Builder, x: Value, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of `x.expand(shape)`, where -1 keeps a size of `x`."""
    current = shape_of(b, x)
    if len(shape) < len(current) or any(size == -1 for size in shape[: len(shape) - len(current)]):
        b.fail(f"shape {current} does not expand to {shape}")
    padded = (-1,) * (len(shape) - len(current)) + current
    return tuple(old if size == -1 else size for size, old in zip(shape, padded, strict=True))


def reinterpreted(b: Builder, x: Value, dtype: DType) -> Value:
    """Return `x.view(dtype)`: its bytes as another dtype, along the last axis where the widths differ."""
    source = b.type_of(x).dtype
    if source == dtype:
        return x
    if source.is_bool or dtype.is_bool:
        return _reinterpreted_bools(b, x, dtype)
    if source.is_complex:
        parts = b.stack((b.real(x), b.imag(x)), axis=-1)
        return reinterpreted(b, _merged_last(b, parts, rank_of(b, x)), dtype)
    if dtype.is_complex:
        parts = _split_last(b, reinterpreted(b, x, dtype.part), 2)
        last = rank_of(b, parts) - 1
        return b.complex(*(b.squeeze(b.cut(parts, last, slice(k, k + 1)), last) for k in (0, 1)))
    if source.bits == dtype.bits:
        return b.bitcast(x, dtype)
    words, width = b.bitcast(x, DTYPES[f"uint{source.bits}"]), DTYPES[f"uint{dtype.bits}"]
    if source.bits > dtype.bits:
        count = source.bits // dtype.bits
        parts = b.stack(tuple(b.cast(b.right_shift(words, k * dtype.bits), width) for k in range(count)), axis=-1)
        return b.bitcast(_merged_last(b, parts, rank_of(b, x)), dtype)
    parts = b.cast(_split_last(b, words, dtype.bits // source.bits), width)
    places = b.cast(b.arange(0, dtype.bits, source.bits, DTYPES["int64"]), width)
    return b.bitcast(b.sum(b.left_shift(parts, places), axis=-1, keepdims=False, dtype=width), dtype)


def _reinterpreted_bools(b: Builder, x: Value, dtype: DType) -> Value:
    """Return booleans as bytes, or bytes as booleans, which are true where they are not 0."""
    if b.type_of(x).dtype.is_bool:
        return reinterpreted(b, b.cast(x, DTYPES["uint8"]), dtype)
    return b.not_equal(reinterpreted(b, x, DTYPES["uint8"]), 0)


def _merged_last(b: Builder, parts: Value, rank: int) -> Value:
    """Return `parts` with its last two axes as one; fail for an array of rank 0, whose size cannot change."""
    if not rank:
        b.fail("an array of rank 0 is viewed as a dtype of the same width only, as in NumPy")
    shape = shape_of(b, parts)
    return b.reshape(parts, (*shape[:-2], shape[-2] * shape[-1]))


def _split_last(b: Builder, x: Value, count: int) -> Value:
    """Return `x` with its last axis as groups of `count`; fail where the size is no multiple of it."""
    shape = shape_of(b, x)
    if not shape or not isinstance(shape[-1], int):
        b.fail(f"a view of {b.type_of(x)} as a wider dtype needs a last axis of a size known at compile time")
    if shape[-1] % count:
        raise KernelValueError(f"the last axis of {b.type_of(x)} has to be a multiple of {count} for a wider dtype")
    return b.reshape(x, (*shape[:-1], shape[-1] // count, count))
