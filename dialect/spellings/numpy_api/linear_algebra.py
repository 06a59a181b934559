"""The functions of `numpy.linalg` that are sums and products: norms, powers of matrices, chains of products."""

from __future__ import annotations

from math import inf

from mlirtri.dialect.spellings.base import helpers
from mlirtri.dialect.spellings.base.spelling import Argument, Builder, Value, spelling, unsupported
from mlirtri.dialect.spellings.numpy_api.ufuncs import FLOAT64, INT64, as_array

NORM = "abs square sum sqrt max min not_equal power cast reshape"


@spelling("numpy.linalg.norm", ops=NORM)
def _(b, x, ord=None, axis=None, keepdims=False):
    x = as_array(b, x)
    kind = b.type_of(x).dtype
    x = b.abs(x if kind.is_float or kind.kind == "c" else b.cast(x, FLOAT64))
    rank = helpers.rank_of(b, x)
    if axis is None and (ord is None or (ord == 2 and rank == 1) or (ord in ("f", "fro") and rank == 2)):
        return _euclidean(b, x, None, keepdims)
    axes = tuple(range(rank)) if axis is None else helpers.many_axes(b, axis, rank)
    if len(axes) == 1:
        return vector_norm(b, x, 2 if ord is None else ord, axes[0], keepdims)
    if len(axes) != 2:
        b.fail(f"a norm of order {ord} is of vectors and matrices, not over {len(axes)} axes")
    return _matrix_norm(b, x, ord, axes, keepdims)


def _euclidean(b: Builder, x: Value, axis: Argument, keepdims: bool) -> Value:
    return b.sqrt(b.sum(b.square(x), axis=axis, keepdims=keepdims))


def vector_norm(b: Builder, x: Value, order: Argument, axis: Argument, keepdims: bool) -> Value:
    """Return the norm of a vector of absolute values `x`, along an axis."""
    if not isinstance(order, (int, float)):
        b.fail(f"the order of a vector norm is a number known at compile time, not {order!r}")
    if abs(order) == inf:
        return (b.max if order > 0 else b.min)(x, axis=axis, keepdims=keepdims)
    if order == 0:
        count = b.sum(b.cast(b.not_equal(x, 0), INT64), axis=axis, keepdims=keepdims)
        return b.cast(count, b.type_of(x).dtype)
    if order == 1:
        return b.sum(x, axis=axis, keepdims=keepdims)
    if order == 2:
        return _euclidean(b, x, axis, keepdims)
    return b.power(b.sum(b.power(x, order), axis=axis, keepdims=keepdims), 1.0 / order)


def _matrix_norm(b: Builder, x: Value, order: Argument, axes: tuple[int, ...], keepdims: bool) -> Value:
    if order in (None, "f", "fro"):
        return _euclidean(b, x, axes, keepdims)
    sums = {1: (0, "max"), -1: (0, "min"), inf: (1, "max"), -inf: (1, "min")}
    if order not in sums:
        b.fail(f"a matrix norm of order {order!r} needs singular values", help="orders 1, -1, inf, -inf and 'fro'")
    summed, extreme = sums[order]
    sums = b.sum(x, axis=axes[summed], keepdims=True)
    result = getattr(b, extreme)(sums, axis=axes[1 - summed], keepdims=True)
    if keepdims:
        return result
    shape = helpers.shape_of(b, x)
    return b.reshape(result, tuple(size for position, size in enumerate(shape) if position not in axes))


@spelling("numpy.linalg.matrix_power", ops="matmul eye broadcast_to")
def _(b, a, n):
    if not helpers.is_integer(n) or n < 0:
        b.fail("matrix_power takes an exponent of 0 or more that is known at compile time")
    if helpers.rank_of(b, a) < 2:
        b.fail(f"matrix_power takes a tensor of rank 2 or more, not {a if b.type_of(a) is None else b.type_of(a)}")
    *batch, rows, columns = helpers.shape_of(b, a)
    if rows != columns:
        b.fail(f"matrix_power takes square matrices, not {b.type_of(a)}")
    if n == 0:
        return b.broadcast_to(b.eye(rows, rows, 0, b.type_of(a).dtype), (*batch, rows, rows))
    result, square = None, a
    while n:
        if n & 1:
            result = square if result is None else b.matmul(result, square)
        n >>= 1
        square = b.matmul(square, square) if n else square
    return result


@spelling("numpy.linalg.multi_dot", ops="dot matmul")
def _(b, arrays, *, out=unsupported()):
    if len(helpers.as_tuple(arrays)) < 2:
        b.fail("numpy.linalg.multi_dot takes two arrays or more")
    product, *others = arrays
    for operand in others:
        product = b.dot(product, operand)
    return product
