"""The functions of `numpy` that summarise: reductions that leave out NaN, averages, covariances, differences, norms."""

from __future__ import annotations

from typing import Any

from mlirtri.dialect.base.dtypes import DTYPES
from mlirtri.dialect.spellings.base import helpers
from mlirtri.dialect.spellings.base.spelling import Argument, Builder, Value, register, spelling, unsupported
from mlirtri.dialect.spellings.numpy_api.composed_functions import inexact_of
from mlirtri.dialect.spellings.numpy_api.sequences import lined, without_nan
from mlirtri.dialect.spellings.numpy_api.ufuncs import COMPLEX128, FLOAT64, INT64, as_array, is_complex, numpy_dtype
from mlirtri.errors import KernelDivisionError

BOOL = DTYPES["bool"]


@spelling("numpy.ptp", ops="max min subtract")
def _(b, a, axis=None, out=unsupported(), keepdims=False):
    a = as_array(b, a)
    return b.subtract(b.max(a, axis=axis, keepdims=keepdims), b.min(a, axis=axis, keepdims=keepdims))


@spelling("numpy.count_nonzero", ops="not_equal sum cast")
def _(b, a, axis=None, *, keepdims=False):
    a = as_array(b, a)
    is_nonzero = a if b.type_of(a).dtype.is_bool else b.not_equal(a, 0)
    return b.sum(b.cast(is_nonzero, INT64), axis=axis, keepdims=keepdims)


# --- without NaN ---------------------------------------------------------------------------------------------------


def _nan_accumulation(op: str, neutral: int):
    def function(b, a, axis=None, dtype=None, out=unsupported(), keepdims=False, initial=unsupported(),
                 where=unsupported()):  # fmt: skip
        a = as_array(b, a)
        dtype = numpy_dtype(b, dtype)
        return getattr(b, op)(without_nan(b, a, neutral), axis=axis, keepdims=keepdims, dtype=dtype)

    return function


def _nan_extremum(op: str, neutral: float):
    def function(b, a, axis=None, out=unsupported(), keepdims=False, initial=unsupported(), where=unsupported()):
        a = as_array(b, a)
        result = getattr(b, op)(without_nan(b, a, neutral), axis=axis, keepdims=keepdims)
        if not b.type_of(a).dtype.is_inexact:
            return result
        nothing = b.all(b.isnan(a), axis=axis, keepdims=keepdims)
        return b.where(nothing, b.cast(float("nan"), b.type_of(result).dtype), result)

    return function


def _nan_position(op: str, neutral: float):
    def function(b, a, axis=None, out=unsupported(), *, keepdims=False):
        a = as_array(b, a)
        return getattr(b, op)(without_nan(b, a, neutral), axis=axis, keepdims=keepdims)

    return function


def _counted(b: Builder, a: Value, axis: Argument, keepdims: bool) -> Value:
    """Return how many elements are not NaN, in `a`'s dtype."""
    is_number = b.cast(b.logical_not(b.isnan(a)), INT64)
    return b.cast(b.sum(is_number, axis=axis, keepdims=keepdims), b.type_of(a).dtype)


_NAN_OPS = "sum isnan where cast logical_not divide"


@spelling("numpy.nanmean", ops=f"mean {_NAN_OPS}")
def _(b, a, axis=None, dtype=None, out=unsupported(), keepdims=False, *, where=unsupported()):
    a = as_array(b, a)
    dtype = numpy_dtype(b, dtype)
    if not b.type_of(a).dtype.is_inexact:
        return b.mean(a, axis=axis, keepdims=keepdims, dtype=dtype)
    a = a if dtype is None else b.cast(a, dtype)
    return b.divide(b.sum(without_nan(b, a, 0), axis=axis, keepdims=keepdims), _counted(b, a, axis, keepdims))


def _nan_spread(op: str):
    def function(
        b, a, axis=None, dtype=None, out=unsupported(), ddof=0, keepdims=False, *, where=unsupported(),
        mean=unsupported(), correction=unsupported(),
    ):  # fmt: skip
        a = as_array(b, a)
        a = inexact_of(b, a) if dtype is None else b.cast(a, numpy_dtype(b, dtype))
        mean_ = b.divide(b.sum(without_nan(b, a, 0), axis=axis, keepdims=True), _counted(b, a, axis, True))
        squares = without_nan(b, b.square(b.subtract(a, mean_)), 0)
        count = b.subtract(_counted(b, a, axis, keepdims), ddof)
        variance = b.divide(b.sum(squares, axis=axis, keepdims=keepdims), count)
        # NumPy gives NaN where no elements are left, never an infinity.
        variance = b.where(b.greater(count, 0), variance, b.cast(float("nan"), b.type_of(variance).dtype))
        return b.sqrt(variance) if op == "std" else variance

    return function


register("numpy.nansum", _nan_accumulation("sum", 0), "sum isnan where cast")
register("numpy.nanprod", _nan_accumulation("prod", 1), "prod isnan where cast")
register("numpy.nanmax", _nan_extremum("max", float("-inf")), "max isnan where all cast")
register("numpy.nanmin", _nan_extremum("min", float("inf")), "min isnan where all cast")
register("numpy.nanargmax", _nan_position("argmax", float("-inf")), "argmax isnan where cast")
register("numpy.nanargmin", _nan_position("argmin", float("inf")), "argmin isnan where cast")
register("numpy.nanvar", _nan_spread("var"), f"subtract square greater {_NAN_OPS}")
register("numpy.nanstd", _nan_spread("std"), f"subtract square greater sqrt {_NAN_OPS}")


# --- averages ------------------------------------------------------------------------------------------------------


@spelling("numpy.average", ops="mean multiply sum divide reshape broadcast_to full cast equal")
def _(b, a, axis=None, weights=None, returned=False, *, keepdims=False):
    a = as_array(b, a)
    if weights is None:
        result = b.mean(a, axis=axis, keepdims=keepdims)
        if not returned:
            return result
        count = helpers.size_of(b, a) // max(1, helpers.size_of(b, result))
        return result, b.full(helpers.shape_of(b, result), count, b.type_of(result).dtype)
    weights = as_array(b, weights)
    if helpers.rank_of(b, weights) != helpers.rank_of(b, a):
        weight_axis = helpers.one_axis(b, axis if axis is not None else 0, helpers.rank_of(b, a))
        line = tuple(-1 if position == weight_axis else 1 for position in range(helpers.rank_of(b, a)))
        weights = b.broadcast_to(b.reshape(weights, line), helpers.shape_of(b, a))
    is_inexact = any(b.type_of(x).dtype.is_inexact for x in (a, weights))
    weights = weights if is_inexact else b.cast(weights, FLOAT64)
    weight = b.sum(weights, axis=axis, keepdims=keepdims)
    b.check(b.equal(weight, 0), KernelDivisionError, "the weights of numpy.average sum to zero")
    result = b.divide(b.sum(b.multiply(a, weights), axis=axis, keepdims=keepdims), weight)
    return (result, b.cast(weight, b.type_of(result).dtype)) if returned else result


COVARIANCE = "mean subtract matmul transpose conj divide reshape concatenate squeeze cast"


def covariance(b: Builder, m: Value, y: Value, rowvar: bool, ddof: int, dtype: Argument) -> Value:
    """Return the covariances of the rows of `m` (and of `y`) as a matrix, of one row as a scalar."""
    rows = [_rows(b, x, rowvar, dtype) for x in (m, y) if x is not None]
    x = rows[0] if len(rows) == 1 else b.concatenate(tuple(rows), 0)
    centered = b.subtract(x, b.mean(x, axis=1, keepdims=True))
    count = helpers.shape_of(b, x)[1]
    freedom = float(max(count - ddof, 0)) if isinstance(count, int) else b.subtract(b.number_of(count), float(ddof))
    return b.squeeze(b.divide(b.matmul(centered, b.conj(b.transpose(centered))), freedom), None)


def _rows(b: Builder, x: Value, rowvar: bool, dtype: Argument) -> Value:
    x = as_array(b, x)
    helpers.require_rank(b, "an array of observations", x, (0, 1, 2))
    if helpers.rank_of(b, x) < 2:
        x = b.reshape(x, (1, -1))
    elif not rowvar and helpers.shape_of(b, x)[0] != 1:
        x = b.transpose(x)
    return b.cast(x, numpy_dtype(b, dtype) or (COMPLEX128 if is_complex(b, x) else FLOAT64))


@spelling("numpy.cov", ops=COVARIANCE)
def _(b, m, y=None, rowvar=True, bias=False, ddof=None, fweights=unsupported(), aweights=unsupported(), *, dtype=None):
    ddof = (0 if bias else 1) if ddof is None else ddof
    return covariance(b, m, y, rowvar, ddof, dtype)


@spelling("numpy.corrcoef", ops=f"{COVARIANCE} clip sqrt eye where sum full real imag complex")
def _(b, x, y=None, rowvar=True, *, dtype=None):
    c = covariance(b, x, y, rowvar, 1, dtype)
    if helpers.rank_of(b, c) == 0:
        return b.divide(c, c)
    size = helpers.shape_of(b, c)[0]
    on_diagonal = b.where(b.eye(size, size, 0, BOOL), c, b.full((), 0, b.type_of(c).dtype))
    deviation = b.sqrt(b.real(b.sum(on_diagonal, axis=1)))
    scaled = b.divide(b.divide(c, b.reshape(deviation, (size, 1))), b.reshape(deviation, (1, size)))
    if not is_complex(b, scaled):
        return b.clip(scaled, -1.0, 1.0)
    return b.complex(*(b.clip(part, -1.0, 1.0) for part in (b.real(scaled), b.imag(scaled))))


# --- differences and integrals -------------------------------------------------------------------------------------


@spelling("numpy.gradient", ops="cut subtract divide multiply add concatenate reshape cast")
def _(b, f, *varargs, axis=None, edge_order=1):
    f = as_array(b, f)
    if b.type_of(f).dtype.is_bool:
        b.fail("numpy.gradient does not take bools, as in NumPy", help="cast to a float")
    f = f if b.type_of(f).dtype.is_inexact else b.cast(f, FLOAT64)
    rank = helpers.rank_of(b, f)
    axes = tuple(range(rank)) if axis is None else helpers.many_axes(b, axis, rank)
    if len(varargs) not in (0, 1, len(axes)):
        b.fail(f"gradient takes one spacing, or one for each of {len(axes)} axes, not {len(varargs)}")
    if edge_order not in (1, 2):
        b.fail(f"edge_order is 1 or 2, not {edge_order!r}")
    for spacing in varargs:
        b.operand(spacing)
    spacings = varargs * len(axes) if len(varargs) == 1 else varargs or (1.0,) * len(axes)
    parts = tuple(_gradient(b, f, position, h, edge_order) for position, h in zip(axes, spacings, strict=True))
    return parts[0] if len(parts) == 1 else parts


def _gradient(b: Builder, f: Value, axis: int, spacing: Value, edge_order: int) -> Value:
    """Return central differences; at the ends of first or second order. The spacing is a scalar."""
    size = helpers.shape_of(b, f)[axis]
    if isinstance(size, int) and size < edge_order + 1:
        b.fail(f"a gradient along axis {axis} needs {edge_order + 1} elements, not {size}")

    def part(start: int, stop: int | None) -> Any:
        return b.cut(f, axis, slice(start, stop))

    if helpers.rank_of(b, spacing):
        line = tuple(-1 if position == axis else 1 for position in range(helpers.rank_of(b, f)))
        distances = b.reshape(b.subtract(b.cut(spacing, 0, slice(1, None)), b.cut(spacing, 0, slice(None, -1))), line)
        return _uneven_gradient(
            b, axis, part, lambda start, stop: b.cut(distances, axis, slice(start, stop)), edge_order
        )
    both = 2.0 * spacing if b.type_of(spacing) is None else b.multiply(spacing, 2.0)
    inner = b.divide(b.subtract(part(2, None), part(0, size - 2)), both)
    if edge_order == 1:
        first = b.divide(b.subtract(part(1, 2), part(0, 1)), spacing)
        last = b.divide(b.subtract(part(size - 1, None), part(size - 2, size - 1)), spacing)
    else:
        first = _one_sided(b, (part(0, 1), part(1, 2), part(2, 3)), spacing, -1.0)
        last = _one_sided(b, (part(size - 1, None), part(size - 2, size - 1), part(size - 3, size - 2)), spacing, 1.0)
    return b.concatenate((first, inner, last), axis)


def _uneven_gradient(b: Builder, axis: int, part: Any, distance: Any, edge_order: int) -> Value:
    """Return differences of second order over distances that differ; at the ends of first or second order."""

    def weighted(x: Value, y: Value, parts: tuple[Value, ...], at: float) -> Value:
        """Return the slope of the parabola through three elements of distances x and y: at -1 first, 0, or 1 last."""
        both = b.add(x, y)
        before = b.divide(
            b.subtract(b.multiply(y, -1.0), b.multiply(x, 2.0)) if at < 0 else b.multiply(y, -1.0 if at == 0 else 1.0),
            b.multiply(x, both),
        )
        after = b.divide(
            b.add(b.multiply(y, 2.0), x) if at > 0 else b.multiply(x, 1.0 if at == 0 else -1.0), b.multiply(y, both)
        )
        inner = b.subtract(y, x) if at == 0 else b.multiply(both, -1.0 if at > 0 else 1.0)
        middle = b.divide(inner, b.multiply(x, y))
        terms = [b.multiply(factor, value) for factor, value in zip((before, middle, after), parts, strict=True)]
        return b.add(b.add(terms[0], terms[1]), terms[2])

    inner = weighted(distance(None, -1), distance(1, None), (part(0, -2), part(1, -1), part(2, None)), 0)
    if edge_order == 1:
        first = b.divide(b.subtract(part(1, 2), part(0, 1)), distance(0, 1))
        last = b.divide(b.subtract(part(-1, None), part(-2, -1)), distance(-1, None))
    else:
        first = weighted(distance(0, 1), distance(1, 2), (part(0, 1), part(1, 2), part(2, 3)), -1)
        last = weighted(distance(-2, -1), distance(-1, None), (part(-3, -2), part(-2, -1), part(-1, None)), 1)
    return b.concatenate((first, inner, last), axis)


def _one_sided(b: Builder, near: tuple[Argument, Argument, Argument], spacing: Value, sign: float) -> Value:
    """Return (3 f0 - 4 f1 + f2) / 2h, from an end inwards."""
    nearest = b.add(b.multiply(near[0], 1.5 * sign), b.multiply(near[1], -2.0 * sign))
    return b.divide(b.add(nearest, b.multiply(near[2], 0.5 * sign)), spacing)


@spelling("numpy.trapezoid", ops="cut subtract add multiply divide sum reshape cast")
def _(b, y, x=None, dx=1.0, axis=-1):
    y, axis = lined(b, y, axis)

    def between(values: Any, position: int, combine: Any) -> Any:
        return combine(b.cut(values, position, slice(1, None)), b.cut(values, position, slice(None, -1)))

    width = dx
    if x is not None:
        line = tuple(-1 if index == axis else 1 for index in range(helpers.rank_of(b, y)))
        of_rank_1 = helpers.rank_of(b, x) == 1
        width = between(x, 0 if of_rank_1 else axis, b.subtract)
        width = b.reshape(width, line) if of_rank_1 else width
    areas = b.divide(b.multiply(width, between(y, axis, b.add)), 2.0)
    return b.sum(areas, axis=axis)
