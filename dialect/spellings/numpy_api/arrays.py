"""The functions of `numpy` that shape arrays or make them, with NumPy 2's signatures and defaults.

Results that NumPy gives as a list or tuple of arrays are tuples. Results are values: nothing is a view.
"""

from __future__ import annotations

from mlirtri.dialect.spellings.base import helpers
from mlirtri.dialect.spellings.base.spelling import register, spelling, unsupported
from mlirtri.dialect.spellings.numpy_api.ufuncs import FLOAT64, INT64, dtype_of, numpy_dtype


def reshaped(b, a, shape, order):
    """Return an array in another shape, its elements in order: row-major (`C`) or column-major (`F`)."""
    if order not in ("C", "F"):
        b.fail(f"order={order!r} goes by how an array lies in memory", help="mlirtri has order='C' and order='F'")
    if order == "C":
        return b.reshape(a, shape)
    result = b.reshape(_reversed_axes(b, a), shape[::-1])
    return _reversed_axes(b, result)


def _reversed_axes(b, x):
    return b.transpose(x, tuple(range(helpers.rank_of(b, x)))[::-1])


@spelling("numpy.reshape", ops="reshape transpose")
def _(b, a, /, shape, order="C", *, copy=None):
    return reshaped(b, a, helpers.as_tuple(shape), order)


register("numpy.ravel", lambda b, a, order="C": reshaped(b, a, (-1,), order), "reshape transpose")


@spelling("numpy.transpose numpy.permute_dims", ops="transpose")
def _(b, a, axes=None):
    return b.transpose(a, axes if axes is None else helpers.as_tuple(axes))


@spelling("numpy.matrix_transpose", ops="transpose")
def _(b, x, /):
    return helpers.matrix_transposed(b, "numpy.matrix_transpose", x)


register("numpy.swapaxes", lambda b, a, axis1, axis2: helpers.swapped(b, a, axis1, axis2), "transpose")
register("numpy.moveaxis", lambda b, a, source, destination: helpers.moved(b, a, source, destination), "transpose")


@spelling("numpy.broadcast_to", ops="broadcast_to")
def _(b, array, shape, subok=unsupported(False)):
    return b.broadcast_to(array, helpers.as_tuple(shape))


register("numpy.squeeze", lambda b, a, axis=None: b.squeeze(a, axis), "squeeze")


@spelling("numpy.expand_dims", ops="unsqueeze")
def _(b, a, axis):
    axes = helpers.many_axes(b, axis, helpers.rank_of(b, a) + len(helpers.as_tuple(axis)))
    for position in sorted(axes):
        a = b.unsqueeze(a, position)
    return a


register("numpy.flip", lambda b, m, axis=None: b.flip(m, axis), "flip")
register("numpy.flipud", lambda b, m: b.flip(m, 0), "flip")
register("numpy.fliplr", lambda b, m: b.flip(m, 1), "flip")


# --- joining and splitting -----------------------------------------------------------------------------------------


def _cast_all(b, arrays, dtype):
    if not isinstance(arrays, (tuple, list)):
        b.fail(f"expected a tuple or list of arrays, got {b.type_of(arrays) or repr(arrays)}", help="write [x, y]")
    dtype = numpy_dtype(b, dtype)
    return tuple(arrays) if dtype is None else tuple(b.cast(x, dtype) for x in arrays)


@spelling("numpy.concatenate numpy.concat", ops="concatenate reshape")
def _(b, arrays, /, axis=0, out=unsupported(), *, dtype=None, casting=unsupported("same_kind")):
    arrays = _cast_all(b, arrays, dtype)
    if axis is None:
        return b.concatenate(tuple(b.reshape(x, (-1,)) for x in arrays), 0)
    return b.concatenate(arrays, axis)


@spelling("numpy.stack", ops="stack")
def _(b, arrays, axis=0, out=unsupported(), *, dtype=None, casting=unsupported("same_kind")):
    return b.stack(_cast_all(b, arrays, dtype), axis)


@spelling("numpy.vstack", ops="concatenate reshape")
def _(b, tup, *, dtype=None, casting=unsupported("same_kind")):
    return b.concatenate(tuple(helpers.at_least(b, x, 2) for x in _cast_all(b, tup, dtype)), 0)


@spelling("numpy.hstack", ops="concatenate reshape")
def _(b, tup, *, dtype=None, casting=unsupported("same_kind")):
    arrays = tuple(helpers.at_least(b, x, 1) for x in _cast_all(b, tup, dtype))
    return b.concatenate(arrays, 0 if helpers.rank_of(b, arrays[0]) == 1 else 1)


@spelling("numpy.split", ops="split")
def _(b, ary, indices_or_sections, axis=0):
    if helpers.is_integer(indices_or_sections):
        size = helpers.shape_of(b, ary)[helpers.one_axis(b, axis, helpers.rank_of(b, ary))]
        if indices_or_sections < 1 or size % indices_or_sections:
            b.fail(
                f"{size} elements do not split into {indices_or_sections} equal parts",
                help="numpy.array_split takes unequal parts",
            )
        return list(b.split(ary, indices_or_sections, axis))
    return list(b.split(ary, helpers.as_tuple(indices_or_sections), axis))


@spelling("numpy.array_split", ops="split")
def _(b, ary, indices_or_sections, axis=0):
    if not helpers.is_integer(indices_or_sections):
        return list(b.split(ary, helpers.as_tuple(indices_or_sections), axis))
    axis = helpers.one_axis(b, axis, helpers.rank_of(b, ary))
    return list(helpers.split_evenly(b, ary, indices_or_sections, axis))


register("numpy.unstack", lambda b, x, /, *, axis=0: helpers.unstacked(b, x, axis), "split squeeze")


@spelling("numpy.tril", ops="where arange reshape subtract less_equal full")
def _(b, m, k=0):
    return helpers.trimmed(b, "numpy.tril", m, k, lower=True)


@spelling("numpy.triu", ops="where arange reshape subtract greater_equal full")
def _(b, m, k=0):
    return helpers.trimmed(b, "numpy.triu", m, k, lower=False)


# --- creation ------------------------------------------------------------------------------------------------------


@spelling("numpy.full", ops="full broadcast_to cast")
def _(b, shape, fill_value, dtype=None, order="C", *, device=unsupported(), like=unsupported()):
    return helpers.filled(b, shape, fill_value, numpy_dtype(b, dtype), "numpy")


def _full_of(value: int):
    def function(b, shape, dtype=None, order="C", *, device=unsupported(), like=unsupported()):
        return b.full(helpers.as_tuple(shape), value, numpy_dtype(b, dtype) or FLOAT64)

    return function


register("numpy.zeros", _full_of(0), "full")
register("numpy.ones", _full_of(1), "full")


@spelling("numpy.ndarray", ops="empty")
def _(b, shape, dtype=float, buffer=unsupported(), offset=unsupported(0), strides=unsupported(), order=unsupported()):
    return b.empty(shape, numpy_dtype(b, dtype))


@spelling("numpy.empty", ops="empty")
def _(b, shape, dtype=None, order="C", *, device=unsupported(), like=unsupported()):
    return b.empty(helpers.as_tuple(shape), numpy_dtype(b, dtype) or FLOAT64)


def _like(b, a, shape, dtype):
    kind = b.type_of(a)
    if kind is None:
        b.fail("the _like functions take an array, not a Python scalar")
    return kind.shape if shape is None else helpers.as_tuple(shape), numpy_dtype(b, dtype) or kind.dtype


@spelling("numpy.full_like", ops="full broadcast_to cast")
def _(b, a, fill_value, dtype=None, order="K", subok=True, shape=None, *, device=unsupported()):
    shape, dtype = _like(b, a, shape, dtype)
    return helpers.filled(b, shape, fill_value, dtype, "numpy")


def _full_like(value: int):
    def function(b, a, dtype=None, order="K", subok=True, shape=None, *, device=unsupported()):
        shape, dtype = _like(b, a, shape, dtype)
        return b.full(shape, value, dtype)

    return function


register("numpy.zeros_like", _full_like(0), "full")
register("numpy.ones_like", _full_like(1), "full")


@spelling("numpy.empty_like", ops="empty")
def _(b, prototype, /, dtype=None, order="K", subok=True, shape=None, *, device=unsupported()):
    return b.empty(*_like(b, prototype, shape, dtype))


@spelling("numpy.arange", ops="arange")
def _(b, start_or_stop, /, stop=None, step=1, *, dtype=None, device=unsupported(), like=unsupported()):
    start, stop = (0, start_or_stop) if stop is None else (start_or_stop, stop)
    integers = helpers.counts_in_integers(b, start, stop, step)
    return b.arange(start, stop, step, numpy_dtype(b, dtype) or (INT64 if integers else FLOAT64))


@spelling("numpy.eye", ops="eye")
def _(b, N, M=None, k=0, dtype=float, order="C", *, device=unsupported(), like=unsupported()):
    return b.eye(N, N if M is None else M, k, numpy_dtype(b, dtype) or FLOAT64)


@spelling("numpy.identity", ops="eye")
def _(b, n, dtype=None, *, like=unsupported()):
    return b.eye(n, n, 0, numpy_dtype(b, dtype) or FLOAT64)


@spelling("numpy.astype", ops="cast real")
def _(b, x, dtype, /, *, copy=True, device=unsupported()):
    return helpers.converted(b, x, dtype_of(b, dtype))


register("numpy.copy", lambda b, a, order=unsupported("K"), subok=unsupported(False): a, "")


# --- compile-time facts --------------------------------------------------------------------------------------------


register("numpy.shape", lambda b, a: helpers.shape_of(b, a), "")
register("numpy.ndim", lambda b, a: helpers.rank_of(b, a), "")
register("numpy.size", lambda b, a, axis=None: helpers.size_of(b, a, axis), "")
