"""The functions of `numpy` that take elements by index, and that compute indices of triangles and flat orders.

Indices count from the end when negative; those out of range raise, unless `mode` says otherwise.
"""

from __future__ import annotations

from math import prod

import numpy

from mlirtri.dialect.base.dtypes import as_dtype
from mlirtri.dialect.promotion.dtype_rules import Operand, common_dtype
from mlirtri.dialect.spellings.base import helpers
from mlirtri.dialect.spellings.base.spelling import Argument, Builder, Value, register, spelling, unsupported
from mlirtri.dialect.spellings.numpy_api.creation import array_of
from mlirtri.dialect.spellings.numpy_api.selection import INDICES, indices_of
from mlirtri.dialect.spellings.numpy_api.shapes import known_int, known_ints
from mlirtri.dialect.spellings.numpy_api.ufuncs import INT64, arrays, as_array, dtype_of, numpy_dtype
from mlirtri.errors import KernelValueError

TAKE = "pick transpose reshape clip remainder cast literal stack"


def positions_of(b: Builder, indices: Value) -> Value:
    """Return integers, or lists of them, as a tensor."""
    if isinstance(indices, (tuple, list)):
        constants = numpy.array(known_ints(b, indices, "a position"), dtype=int)
        return b.literal(constants.ravel().tolist(), constants.shape, INT64)
    indices = as_array(b, indices)
    if not b.type_of(indices).dtype.is_integer:
        b.fail(f"positions are integers, not {b.type_of(indices)}", help="a mask selects as x[mask]")
    return indices


@spelling("numpy.take ndarray.take", ops=TAKE)
def take(b, a, indices, axis=None, out=unsupported(), mode="raise"):
    if mode not in ("raise", "wrap", "clip"):
        b.fail(f"mode is 'raise', 'wrap' or 'clip', not {mode!r}")
    a = as_array(b, a)
    a, axis = (b.reshape(a, (-1,)), 0) if axis is None else (a, helpers.one_axis(b, axis, helpers.rank_of(b, a)))
    positions = positions_of(b, indices)
    size = helpers.shape_of(b, a)[axis]
    if mode == "raise":
        b.require_inside(positions, size)
    elif mode == "clip":
        positions = b.clip(positions, 0, size - 1)
    elif mode == "wrap":
        positions = b.remainder(b.cast(positions, INT64), size)
    return taken_along(b, a, positions, axis)


def taken_along(b: Builder, x: Value, positions: Value, axis: int) -> Value:
    """Return the slices of `x` at indices of an axis; the axes of the indices replace that axis."""
    rank, lead = helpers.rank_of(b, x), helpers.rank_of(b, positions)
    order = (axis, *(other for other in range(rank) if other != axis))
    elements = b.pick(b.transpose(x, order), positions)
    # The result has the indices' axes first: move the axes before `axis` in front of them.
    leading = tuple(range(lead, lead + axis))
    return b.transpose(elements, (*leading, *range(lead), *range(lead + axis, lead + rank - 1)))


@spelling("numpy.take_along_axis", ops="pick reshape broadcast_to arange add multiply transpose cast less where")
def take_along_axis(b, arr, indices, axis=-1):
    if axis is None:
        arr, axis = b.reshape(arr, (-1,)), 0
    rank, shape = helpers.rank_of(b, arr), helpers.shape_of(b, arr)
    axis = helpers.one_axis(b, axis, rank)
    indices = b.cast(indices, INT64)
    size = shape[axis]
    if helpers.rank_of(b, indices) != rank:
        b.fail(f"the positions have rank {helpers.rank_of(b, indices)}, the array has rank {rank}")
    b.require_inside(indices, size)
    return elements_along(b, arr, b.where(b.less(indices, 0), b.add(indices, size), indices), axis, shape)


def elements_along(b: Builder, x: Value, indices: Value, axis: int, sizes: tuple[Argument, ...]) -> Value:
    """Return the element of `x` at each of `indices` along `axis`; the other axes run over `sizes`."""
    shape = helpers.shape_of(b, x)
    # The row-major position of each element.
    flat = b.multiply(indices, prod(shape[axis + 1 :]))
    for other, size in enumerate(sizes):
        if other != axis:
            line = b.arange(0, size, 1, INT64)
            line = b.reshape(line, tuple(-1 if position == other else 1 for position in range(len(shape))))
            flat = b.add(flat, b.multiply(line, prod(shape[other + 1 :])))
    return b.pick(b.reshape(x, (-1,)), flat)


# --- computed at compile time --------------------------------------------------------------------------------------


def _literal(b: Builder, values: numpy.ndarray) -> Value:
    return b.literal(values.ravel().tolist(), values.shape, as_dtype(values.dtype))


def _indices(name: str):
    def function(b, n, k=0, m=None):
        sizes = [None if size is None else known_int(b, size, "a size") for size in (n, k, m)]
        return tuple(_literal(b, array) for array in getattr(numpy, name)(*sizes))

    return function


register("numpy.tril_indices", _indices("tril_indices"), "literal")
register("numpy.triu_indices", _indices("triu_indices"), "literal")


@spelling("numpy.diag_indices", ops="literal")
def _(b, n, ndim=2):
    return tuple(_literal(b, array) for array in numpy.diag_indices(known_int(b, n, "n"), known_int(b, ndim, "ndim")))


@spelling("numpy.ix_", ops=f"literal reshape {INDICES}")
def _(b, *args):
    are_masks = [b.type_of(part) is not None and b.type_of(part).dtype.is_bool for part in args]
    indices = [
        indices_of(b, part, "numpy.ix_")[0] if is_mask else positions_of(b, part)
        for part, is_mask in zip(args, are_masks, strict=True)
    ]
    for index in indices:
        helpers.require_rank(b, "an argument of numpy.ix_", index, (1,))
    rank = len(indices)
    return tuple(b.reshape(x, (*(1,) * axis, -1, *(1,) * (rank - 1 - axis))) for axis, x in enumerate(indices))


@spelling("numpy.kaiser", ops="literal")
def _(b, M, beta):
    if not isinstance(beta, (int, float)):
        b.fail("beta of numpy.kaiser is a number known at compile time", help="pass the window as an argument")
    return _literal(b, numpy.kaiser(known_int(b, M, "the length of a window"), beta))


def _window(name: str):
    def function(b, M):
        return _literal(b, getattr(numpy, name)(known_int(b, M, "the length of a window")))

    return function


for _name in ("hanning", "hamming", "blackman", "bartlett"):
    register(f"numpy.{_name}", _window(_name), "literal")


# --- flat orders ---------------------------------------------------------------------------------------------------


@spelling("numpy.unravel_index", ops="floor_divide remainder cast literal")
def _(b, indices, shape, order=unsupported("C")):
    quotient, sizes = b.cast(positions_of(b, indices), INT64), helpers.as_tuple(known_ints(b, shape, "a size"))
    b.require_inside(quotient, prod(sizes), wraps=False)
    parts = []
    for size in reversed(sizes):
        parts.append(b.remainder(quotient, size))
        quotient = b.floor_divide(quotient, size)
    return tuple(reversed(parts))


@spelling("numpy.ravel_multi_index", ops="multiply add cast literal stack")
def _(b, multi_index, dims, mode=unsupported("raise"), order=unsupported("C")):
    sizes = helpers.as_tuple(known_ints(b, dims, "a size"))
    if b.type_of(multi_index) is None and not isinstance(multi_index, (tuple, list)):
        b.fail(f"ravel_multi_index takes a tuple of positions, not {multi_index!r}")
    if len(multi_index) != len(sizes):
        b.fail(f"{len(multi_index)} positions do not go with {len(sizes)} axes")
    positions = [b.cast(as_array(b, position), INT64) for position in multi_index]
    for position, size in zip(positions, sizes, strict=True):
        b.require_inside(position, size, wraps=False)
    flat = positions[0]
    for position, size in zip(positions[1:], sizes[1:], strict=True):
        flat = b.add(b.multiply(flat, size), position)
    return flat


@spelling("numpy.isin", ops="equal any reshape logical_not literal stack")
def _(b, element, test_elements, assume_unique=False, invert=False, *, kind=None):
    tests = test_elements
    element, tests = arrays(b, element, array_of(b, tests, None) if isinstance(tests, (tuple, list)) else tests)
    shape = helpers.shape_of(b, element)
    is_in = b.any(b.equal(b.reshape(element, (*shape, 1)), b.reshape(tests, (-1,))), axis=-1)
    return b.logical_not(is_in) if invert else is_in


# --- polynomials and phases ----------------------------------------------------------------------------------------


@spelling("numpy.polyval", ops="multiply add cut squeeze cast full literal stack")
def _(b, p, x):
    """Evaluate by Horner's rule, the highest power first."""
    p = array_of(b, p, None) if isinstance(p, (tuple, list)) else p
    helpers.require_rank(b, "the coefficients of numpy.polyval", p, (1,))
    coefficients = [b.squeeze(b.cut(p, 0, slice(index, index + 1)), 0) for index in range(helpers.shape_of(b, p)[0])]
    x = as_array(b, x)
    # As NumPy starts: zeros like x.
    result = b.full(helpers.shape_of(b, x), 0, b.type_of(x).dtype)
    for coefficient in coefficients:
        result = b.add(b.multiply(result, x), coefficient)
    return result


@spelling("numpy.ediff1d", ops="reshape cut subtract cast concatenate literal stack")
def _(b, ary, to_end=None, to_begin=None):
    flat = b.reshape(as_array(b, ary), (-1,))
    differences = b.subtract(b.cut(flat, 0, slice(1, None)), b.cut(flat, 0, slice(None, -1)))
    ends = [None if end is None else b.reshape(as_array(b, end), (-1,)) for end in (to_begin, to_end)]
    parts = [part for part in (ends[0], differences, ends[1]) if part is not None]
    return b.concatenate(tuple(b.cast(part, b.type_of(flat).dtype) for part in parts), 0)


# --- dtypes --------------------------------------------------------------------------------------------------------


@spelling("numpy.result_type", ops="")
def _(b, *arrays_and_dtypes):
    def operand(x):
        weak = b.weak_kind(x)
        kind = None if weak else b.type_of(x)
        return Operand(None, weak) if weak else Operand(kind.dtype if kind else numpy_dtype(b, x), rank=1)

    return common_dtype("numpy", [operand(x) for x in arrays_and_dtypes])


@spelling("numpy.promote_types", ops="")
def _(b, type1, type2, /):
    return common_dtype("numpy", [Operand(numpy_dtype(b, dtype), rank=1) for dtype in (type1, type2)])


@spelling("numpy.issubdtype", ops="")
def _(b, arg1, arg2):
    kind = dtype_of(b, arg1).numpy
    return numpy.issubdtype(kind, arg2 if isinstance(arg2, type) else dtype_of(b, arg2).numpy)


register("numpy.isscalar", lambda b, element: b.weak_kind(element) is not None, "")


@spelling("numpy.lib.stride_tricks.sliding_window_view", ops="transpose arange add reshape gather")
def _(b, x, window_shape, axis=None, *, subok=unsupported(False), writeable=unsupported(False)):
    sizes = known_ints(b, helpers.as_tuple(window_shape), "the size of a window")
    rank = helpers.rank_of(b, x)
    axes = range(rank) if axis is None else [helpers.one_axis(b, part, rank) for part in helpers.as_tuple(axis)]
    if len(sizes) != len(axes):
        b.fail(f"sliding_window_view takes a size for each axis, not {len(sizes)} for {len(axes)}")
    for size, along in zip(sizes, axes, strict=True):
        x = _windows(b, x, size, along)
    return x


def _windows(b: Builder, x: Value, size: int, axis: int) -> Value:
    """Return the windows of `size` elements of an axis, with an axis of the elements of each at the end."""
    length = helpers.shape_of(b, x)[axis]
    if size < 0 or (isinstance(length, int) and size > length):
        b.fail(f"a window of {size} elements does not fit into axis {axis} of {b.type_of(x)}")
    if not isinstance(length, int):
        is_short = b.less(b.number_of(length), size)
        b.check(
            is_short, KernelValueError, f"a window of {size} elements does not fit into axis {axis} of {b.type_of(x)}"
        )
    count = length - size + 1
    index = b.add(b.reshape(b.arange(0, count, 1, INT64), (-1, 1)), b.arange(0, size, 1, INT64))
    elements = b.pick(helpers.moved(b, x, axis, 0), index)
    return helpers.moved(b, helpers.moved(b, elements, 1, -1), 0, axis)
