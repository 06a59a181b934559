"""The functions of `numpy` that create arrays: ranges, grids, diagonals, nested lists.

Ranges compute as NumPy does, ``i * step + start``; their length is known at compile time.
"""

from __future__ import annotations

from math import log10

from mlirtri.dialect.base.dtypes import DTYPES, DType
from mlirtri.dialect.promotion.dtype_rules import Operand, result_dtypes
from mlirtri.dialect.spellings.base import helpers
from mlirtri.dialect.spellings.base.spelling import Argument, Builder, Value, register, spelling, unsupported
from mlirtri.dialect.spellings.numpy_api.composed_functions import in_floats
from mlirtri.dialect.spellings.numpy_api.ufuncs import FLOAT64, INT64, arrays, as_array, is_complex, numpy_dtype

BOOL, COMPLEX128 = DTYPES["bool"], DTYPES["complex128"]


def counted(b: Builder, num: Value, name: str) -> Value:
    """Return the number of elements of a range, as an int or a run-time integer."""
    if b.type_of(num) is not None and b.type_of(num).dtype.is_integer and not helpers.rank_of(b, num):
        return num
    if not helpers.is_integer(num) or num < 0:
        b.fail(f"the number of elements of {name} is an integer of 0 or more known at compile time, got {num!r}")
    return int(num)


def _wide(b: Builder, x: Value) -> DType:
    return COMPLEX128 if is_complex(b, x) else FLOAT64


def evenly(b: Builder, start: Value, stop: Value, num: Value, endpoint: bool) -> tuple[Value, Value]:
    """Return `num` values from `start` to `stop` along a new first axis, and their step."""
    if b.type_of(num) is not None:
        return _evenly_at_run_time(b, start, stop, num, endpoint)
    parts = num - 1 if endpoint else num
    start, stop = (x * 1.0 if b.type_of(x) is None else b.cast(x, _wide(b, x)) for x in (start, stop))
    rank = max(helpers.rank_of(b, start), helpers.rank_of(b, stop))
    index = b.reshape(b.arange(0, num, 1, FLOAT64), (num, *[1] * rank))
    is_constant = b.type_of(start) is None and b.type_of(stop) is None
    span = stop - start if is_constant else b.subtract(stop, start)
    step = float("nan") if parts < 1 else span / parts if is_constant else b.divide(span, parts)
    if parts < 1:
        return b.broadcast_to(b.add(b.multiply(index, 0.0), start), (num, *helpers.shape_of(b, span))), step
    values = b.add(b.multiply(index, step), start)
    # The last one is exactly `stop`, whatever the rounding of the product.
    return b.where(b.equal(index, parts), stop, values) if endpoint else values, step


def _evenly_at_run_time(b: Builder, start: Value, stop: Value, num: Value, endpoint: bool) -> tuple[Value, Value]:
    """Return the same for a run-time `num`; 0 intervals count as 1."""
    start, stop = (b.cast(x, FLOAT64) for x in (start, stop))
    if helpers.rank_of(b, start) or helpers.rank_of(b, stop):
        b.fail("a range of run-time length goes from one number to another, not between arrays")
    parts = b.maximum(b.subtract(num, 1) if endpoint else num, 1)
    index = b.arange(0, num, 1, INT64)
    step = b.divide(b.subtract(stop, start), b.cast(parts, FLOAT64))
    values = b.add(b.multiply(b.cast(index, FLOAT64), step), start)
    return b.where(b.equal(index, parts), stop, values) if endpoint else values, step


EVENLY = "maximum arange reshape cast add multiply subtract divide equal where floor broadcast_to"


def _bounds(b: Builder, *bounds: Value) -> tuple[Value, ...]:
    return tuple(as_array(b, bound) if isinstance(bound, (tuple, list)) else bound for bound in bounds)


def _dtype_of_range(b: Builder, start: Value, stop: Value) -> DType:
    return b.type_of(in_floats(b, start, stop)[0]).dtype


def _finished(b: Builder, values: Value, dtype: DType, axis: Argument) -> Value:
    values = b.cast(values, dtype)
    return values if axis == 0 else helpers.moved(b, values, 0, axis)


@spelling("numpy.linspace", ops=f"{EVENLY} transpose")
def _(b, start, stop, num=50, endpoint=True, retstep=False, dtype=None, axis=0, *, device=unsupported()):
    start, stop = _bounds(b, start, stop)
    values, step = evenly(b, start, stop, counted(b, num, "linspace"), endpoint)
    dtype = numpy_dtype(b, dtype) or _dtype_of_range(b, start, stop)
    result = _finished(b, b.floor(values) if dtype.is_integer else values, dtype, axis)
    return (result, b.cast(step, _dtype_of_range(b, start, stop))) if retstep else result


@spelling("numpy.logspace", ops=f"{EVENLY} power transpose")
def _(b, start, stop, num=50, endpoint=True, base=10.0, dtype=None, axis=0):
    start, stop = _bounds(b, start, stop)
    exponents, _ = evenly(b, start, stop, counted(b, num, "logspace"), endpoint)
    dtype = numpy_dtype(b, dtype) or _dtype_of_range(b, start, stop)
    return _finished(b, b.power(b.cast(base, FLOAT64), exponents), dtype, axis)


@spelling("numpy.geomspace", ops=f"{EVENLY} power transpose")
def _(b, start, stop, num=50, endpoint=True, dtype=None, axis=0):
    if not all(isinstance(x, (int, float)) for x in (start, stop)) or start * stop <= 0:
        b.fail("geomspace takes two numbers of one sign that are known at compile time", help="numpy.logspace")
    count, sign = counted(b, num, "geomspace"), -1.0 if start < 0 else 1.0
    exponents, _ = evenly(b, log10(abs(start)), log10(abs(stop)), count, endpoint)
    values = b.multiply(b.power(b.cast(10.0, FLOAT64), exponents), sign)
    # The end points are exact.
    index = b.arange(0, count, 1, INT64)
    values = b.where(b.equal(index, 0), float(start), values)
    values = b.where(b.equal(index, count - 1), float(stop), values) if endpoint and count > 1 else values
    return _finished(b, values, numpy_dtype(b, dtype) or FLOAT64, axis)


# --- grids ---------------------------------------------------------------------------------------------------------


def spread(b: Builder, x: Value, axis: int, shape: tuple[Argument, ...], sparse: bool = False) -> Value:
    """Return `x` of rank 1 along one axis of a grid of `shape`; with `sparse` the other axes have size 1."""
    lined = b.reshape(x, tuple(-1 if position == axis else 1 for position in range(len(shape))))
    return lined if sparse else b.broadcast_to(lined, shape)


@spelling("numpy.meshgrid", ops="reshape broadcast_to transpose")
def _(b, *xi, copy=True, sparse=False, indexing="xy"):
    if indexing not in ("xy", "ij"):
        b.fail(f"indexing is 'xy' or 'ij', not {indexing!r}")
    lines = [b.reshape(x, (-1,)) for x in arrays(b, *xi)]
    shape = tuple(helpers.shape_of(b, line)[0] for line in lines)
    order = [1, 0, *range(2, len(lines))] if indexing == "xy" and len(lines) > 1 else list(range(len(lines)))
    sizes = tuple(shape[axis] for axis in order)
    return tuple(spread(b, line, order.index(axis), sizes, sparse) for axis, line in enumerate(lines))


@spelling("numpy.indices", ops="arange reshape broadcast_to stack")
def _(b, dimensions, dtype=int, sparse=False):
    shape, dtype = helpers.as_tuple(dimensions), numpy_dtype(b, dtype)
    grid = [spread(b, b.arange(0, size, 1, dtype), axis, shape, sparse) for axis, size in enumerate(shape)]
    return tuple(grid) if sparse else b.stack(tuple(grid), 0)


def _ranges(b: Builder, key: Argument) -> list[Value]:
    """Return the axes of `mgrid[key]`: a complex step is a number of points."""
    lines = []
    for part in helpers.as_tuple(key):
        if not isinstance(part, slice) or part.stop is None:
            b.fail("a grid is written as slices that end: numpy.mgrid[0:4, 0:1:5j]")
        start, step = part.start or 0, 1 if part.step is None else part.step
        if isinstance(step, complex):
            lines.append(evenly(b, start, part.stop, int(abs(step)), True)[0])
            continue
        integers = all(helpers.is_integer(x) for x in (start, part.stop, step))
        lines.append(b.arange(start, part.stop, step, INT64 if integers else FLOAT64))
    # NumPy converts all of them to floats if one is.
    is_float = any(b.type_of(line).dtype.is_float for line in lines)
    return [b.cast(line, FLOAT64) for line in lines] if is_float else lines


def _grid(b: Builder, key: Argument, sparse: bool) -> Value:
    lines = _ranges(b, key)
    if isinstance(key, slice):
        return lines[0]
    shape = tuple(helpers.shape_of(b, line)[0] for line in lines)
    grid = tuple(spread(b, line, axis, shape, sparse) for axis, line in enumerate(lines))
    return grid if sparse else b.stack(grid, 0)


register("numpy.mgrid.__getitem__", lambda b, key: _grid(b, key, sparse=False), f"{EVENLY} stack")
register("numpy.ogrid.__getitem__", lambda b, key: _grid(b, key, sparse=True), EVENLY)


def _joined(b: Builder, key: Argument, is_column: bool) -> Value:
    """Return the arrays, numbers and ranges of ``numpy.r_[key]`` one after the other, or the columns of `numpy.c_`."""
    parts = list(key) if isinstance(key, tuple) else [key]
    if any(isinstance(part, str) for part in parts):
        b.fail("numpy.r_ takes no text that names an axis in a kernel", help="write numpy.concatenate(…, axis)")
    values = [_ranges(b, part)[0] if isinstance(part, slice) else part for part in parts]
    arrays = [as_array(b, value) if b.weak_kind(value) is None else None for value in values]
    known = [array for array in arrays if array is not None]
    dtype = b.type_of(b.concatenate(tuple(b.reshape(x, (-1,)) for x in known), 0)).dtype if known else None
    for number in (value for value, array in zip(values, arrays, strict=True) if array is None):
        # A number counts as beside an array of rank 1.
        dtype = b.type_of(as_array(b, number) if dtype is None else b.add(b.full((1,), 0, dtype), number)).dtype
    shaped = [_of_rank(b, as_array(b, value), is_column) for value in values]
    return b.concatenate(tuple(b.cast(x, dtype) for x in shaped), -1 if is_column else 0)


def _of_rank(b: Builder, x: Value, is_column: bool) -> Value:
    shape = helpers.shape_of(b, x) or (1,)
    return b.reshape(x, (*shape, 1) if is_column and len(shape) == 1 else shape)


JOINED = f"{EVENLY} concatenate full literal"
register("numpy.r_.__getitem__", lambda b, key: _joined(b, key, is_column=False), JOINED)
register("numpy.c_.__getitem__", lambda b, key: _joined(b, key, is_column=True), JOINED)


# --- triangles and diagonals ---------------------------------------------------------------------------------------


@spelling("numpy.tri", ops="arange reshape subtract less_equal cast")
def _(b, N, M=None, k=0, dtype=float, *, like=unsupported()):
    triangle = helpers.triangle(b, N, N if M is None else M, k, lower=True)
    return b.cast(triangle, numpy_dtype(b, dtype) or FLOAT64)


def on_diagonal(b: Builder, values: Value, offset: int) -> Value:
    """Return a square matrix with `values` of rank 1 on a diagonal and zeros elsewhere."""
    count = helpers.shape_of(b, values)[0]
    size = count + abs(offset)
    row = b.pad(values, ((max(0, -offset), max(0, offset)),), 0)
    row = b.reshape(row, (size, 1))
    on = b.eye(size, size, offset, BOOL)
    return b.where(on, row, b.full((), 0, b.type_of(values).dtype))


DIAGONAL = "eye where full pad reshape cut"


@spelling("numpy.diag", ops=DIAGONAL)
def _(b, v, k=0):
    rank = helpers.rank_of(b, v)
    helpers.require_rank(b, "the argument of numpy.diag", v, (1, 2))
    return on_diagonal(b, v, k) if rank == 1 else helpers.diagonal(b, v, k)


register("numpy.diagflat", lambda b, v, k=0: on_diagonal(b, b.reshape(v, (-1,)), k), DIAGONAL)


def _last_two(b: Builder, a: Value, axis1: Argument, axis2: Argument) -> Value:
    rank = helpers.rank_of(b, a)
    axes = helpers.many_axes(b, (axis1, axis2), rank)
    return helpers.moved(b, a, axes, (-2, -1)) if rank else b.fail("a diagonal needs an array of rank 2 or more")


@spelling("numpy.diagonal", ops="transpose reshape cut")
def diagonal(b, a, offset=0, axis1=0, axis2=1):
    return helpers.diagonal(b, _last_two(b, a, axis1, axis2), offset)


@spelling("numpy.trace", ops="transpose reshape cut sum")
def trace(b, a, offset=0, axis1=0, axis2=1, dtype=None, out=unsupported()):
    return b.sum(diagonal(b, a, offset, axis1, axis2), axis=-1, keepdims=False, dtype=numpy_dtype(b, dtype))


@spelling("numpy.vander", ops="arange power reshape cast")
def _(b, x, N=None, increasing=False):
    x = as_array(b, x)
    helpers.require_rank(b, "the argument of numpy.vander", x, (1,))
    count = helpers.shape_of(b, x)[0] if N is None else counted(b, N, "vander")
    # Powers are at least as wide as Python's integers.
    dtype = result_dtypes("numpy", "add", [Operand(b.type_of(x).dtype), Operand(INT64)]).result
    base = b.reshape(b.cast(x, dtype), (-1, 1))
    exponents = (0, count, 1) if increasing else (count - 1, -1, -1)
    return b.power(base, b.arange(*exponents, dtype))


# --- nested lists --------------------------------------------------------------------------------------------------


def array_of(b: Builder, values: Value, dtype: DType | None) -> Value:
    """Return nested lists of Python scalars and tensors, all of one shape, as an array."""
    leaves, shape = _flattened(b, values)
    if any(b.type_of(leaf) is not None or isinstance(leaf, complex) for leaf in leaves):
        parts = arrays(b, *leaves) if dtype is None else [b.cast(leaf, dtype) for leaf in leaves]
        return b.reshape(b.stack(tuple(parts), 0), (*shape, *helpers.shape_of(b, parts[0])))
    if dtype is None:
        kinds = {type(leaf) for leaf in leaves}
        inexact = COMPLEX128 if complex in kinds else FLOAT64
        dtype = inexact if kinds & {float, complex} or not leaves else INT64 if int in kinds else BOOL
    return b.literal(leaves, shape, dtype)


def _flattened(b: Builder, values: Value) -> tuple[list[Value], tuple[int, ...]]:
    if not isinstance(values, (list, tuple)):
        b.operand(values)
        return [values], ()
    parts = [_flattened(b, value) for value in values]
    shapes = {shape for _, shape in parts}
    if len(shapes) > 1:
        b.fail("the lists of an array have different lengths", help="NumPy makes no array of them either")
    leaves = [leaf for part, _ in parts for leaf in part]
    return leaves, (len(values), *(shapes.pop() if shapes else ()))


def _array(b: Builder, a: Value, dtype: Argument) -> Value:
    dtype = numpy_dtype(b, dtype)
    if isinstance(a, (list, tuple)):
        return array_of(b, a, dtype)
    if b.weak_kind(a) is not None:
        return helpers.filled(b, (), a, dtype, "numpy")
    return a if dtype is None else b.cast(a, dtype)


ARRAY = "cast full literal stack reshape complex"


@spelling("numpy.array", ops=ARRAY)
def _(b, object, dtype=None, *, copy=True, order="K", subok=False, ndmin=0, like=unsupported()):
    array = _array(b, object, dtype)
    shape = helpers.shape_of(b, array)
    return array if len(shape) >= ndmin else b.reshape(array, (*[1] * (ndmin - len(shape)), *shape))


@spelling("numpy.asarray numpy.asanyarray", ops=ARRAY)
def _(b, a, dtype=None, order=None, *, device=unsupported(), copy=None, like=unsupported()):
    return _array(b, a, dtype)


@spelling("numpy.ascontiguousarray", ops=ARRAY)
def _(b, a, dtype=None, *, like=unsupported()):
    array = _array(b, a, dtype)
    return array if helpers.rank_of(b, array) else b.reshape(array, (1,))
