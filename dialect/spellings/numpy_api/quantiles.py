"""The functions of `numpy` that sort and interpolate: medians, percentiles, quantiles.

Fractions are compile-time constants.
"""

from __future__ import annotations

from math import ceil, floor
from typing import Any

from mlirtri.dialect.spellings.base import helpers
from mlirtri.dialect.spellings.base.spelling import Argument, Builder, Value, spelling, unsupported
from mlirtri.dialect.spellings.numpy_api.composed_functions import inexact_of
from mlirtri.dialect.spellings.numpy_api.ufuncs import FLOAT64, INT64, as_array

ORDERED = (
    "sort reshape transpose cut add subtract multiply divide isnan any where cast stack squeeze unsqueeze "
    "floor pick minimum less"
)


def _axes_last(b: Builder, x: Value, axis: Argument) -> tuple[Value, tuple[int, ...], tuple[Value, ...]]:
    """Return `x` with the reduced axes merged into a last one, these axes, and the shape of `keepdims`."""
    rank, shape = helpers.rank_of(b, x), helpers.shape_of(b, x)
    axes = tuple(range(rank)) if axis is None else helpers.many_axes(b, axis, rank)
    others = tuple(position for position in range(rank) if position not in axes)
    moved = b.transpose(x, (*others, *axes))
    reduced_shape = tuple(1 if position in axes else size for position, size in enumerate(shape))
    return b.reshape(moved, (*(shape[position] for position in others), -1)), axes, reduced_shape


_PLOTTING = {
    "linear": (1.0, 1.0), "hazen": (0.5, 0.5), "weibull": (0.0, 0.0), "interpolated_inverted_cdf": (0.0, 1.0),
    "median_unbiased": (1 / 3, 1 / 3), "normal_unbiased": (3 / 8, 3 / 8),
}  # fmt: skip
"""Where the methods that interpolate put a fraction among n elements: n q + alpha + q (1 - alpha - beta) - 1."""
_PICKING = {"lower": floor, "higher": ceil, "nearest": round}
"""Which element the methods take that do not interpolate, as a function of the linear position."""


def quantiles(
    b: Builder, a: Value, fractions: Value, axis: Argument, keepdims: bool, method: Argument = "linear"
) -> Value:
    """Interpolate between sorted elements, at known fractions, or pick one; NaN where there is one."""
    if method not in (*_PLOTTING, *_PICKING, "midpoint"):
        b.fail(f"method is one of {', '.join((*_PLOTTING, *_PICKING, 'midpoint'))}, not {method!r}")
    a = as_array(b, a)
    picks = method in _PICKING and not b.type_of(a).dtype.is_bool
    x, _, reduced_shape = _axes_last(b, a if picks else inexact_of(b, a), axis)
    last = helpers.rank_of(b, x) - 1
    size = helpers.shape_of(b, x)[last]
    ordered = b.sort(x, last)
    # NumPy makes an array of several fractions, whose float64 takes part in promotion.
    own = b.type_of(ordered).dtype
    dtype = FLOAT64 if isinstance(fractions, (tuple, list)) and not picks else own
    has_nan = b.isnan(b.squeeze(b.cut(ordered, last, slice(size - 1, size)), last)) if own.is_inexact else None
    if not isinstance(size, int) and method != "linear":
        b.fail(f"method={method!r} takes an axis of a size that is known at compile time")

    def quantile(fraction: float) -> Any:
        if isinstance(size, int):
            result = _between(b, ordered, _position(fraction, size, method), dtype)
        else:
            result = _between_at_run_time(b, ordered, fraction, dtype)
        result = result if has_nan is None else b.where(has_nan, b.cast(float("nan"), dtype), result)
        return b.reshape(result, reduced_shape) if keepdims else result

    if isinstance(fractions, (tuple, list)):
        return b.stack(tuple(quantile(fraction) for fraction in fractions), 0)
    return quantile(fractions)


def _position(fraction: float, size: int, method: str) -> float:
    """Return where a fraction lies among sorted elements, by one of NumPy's methods."""
    linear = fraction * (size - 1)
    if method == "midpoint":
        return (floor(linear) + ceil(linear)) / 2
    if method in _PICKING:
        return float(_PICKING[method](linear))
    alpha, beta = _PLOTTING[method]
    position = linear if method == "linear" else size * fraction + (alpha + fraction * (1 - alpha - beta)) - 1
    return min(max(position, 0.0), size - 1.0)


def _between(b: Builder, ordered: Value, virtual: float, dtype: Argument) -> Value:
    """Interpolate between the two elements around a position of the last axis, from the nearer one, as NumPy."""
    last = helpers.rank_of(b, ordered) - 1
    size = helpers.shape_of(b, ordered)[last]
    low = min(int(virtual), size - 1)
    share = virtual - low
    below = b.squeeze(b.cut(ordered, last, slice(low, low + 1)), last)
    if not share:
        return b.cast(below, dtype)
    above = b.squeeze(b.cut(ordered, last, slice(low + 1, low + 2)), last)
    gap = b.cast(b.subtract(above, below), dtype)
    return b.add(below, b.multiply(gap, share)) if share < 0.5 else b.subtract(above, b.multiply(gap, 1 - share))


def _between_at_run_time(b: Builder, ordered: Value, fraction: float, dtype: Argument) -> Value:
    """Interpolate likewise along a last axis of run-time size."""
    first = helpers.moved(b, ordered, -1, 0)
    last = b.subtract(b.number_of(helpers.shape_of(b, first)[0]), 1)
    virtual = b.multiply(b.cast(last, FLOAT64), fraction)
    low = b.cast(b.floor(virtual), INT64)
    share = b.subtract(virtual, b.cast(low, FLOAT64))
    below, above = b.pick(first, low), b.pick(first, b.minimum(b.add(low, 1), last))
    gap = b.cast(b.subtract(above, below), dtype)
    from_below = b.add(below, b.multiply(gap, b.cast(share, dtype)))
    from_above = b.subtract(above, b.multiply(gap, b.cast(b.subtract(1.0, share), dtype)))
    return b.where(b.less(share, 0.5), from_below, from_above)


def _known_fractions(b: Builder, q: Value, scale: float) -> Value:
    if isinstance(q, (tuple, list)):
        return [_known_fractions(b, fraction, scale) for fraction in q]
    if b.type_of(q) is not None or not isinstance(q, (int, float)) or not 0 <= q / scale <= 1:
        b.fail(f"a quantile is a number from 0 to {scale:g} known at compile time, not {b.type_of(q) or repr(q)}")
    return q / scale


def _quantile(scale: float):
    def function(
        b, a, q, axis=None, out=unsupported(), overwrite_input=False, method="linear", keepdims=False, *,
        weights=unsupported(),
    ):  # fmt: skip
        return quantiles(b, a, _known_fractions(b, q, scale), axis, keepdims, method)

    return function


spelling("numpy.quantile", ops=ORDERED)(_quantile(1.0))
spelling("numpy.percentile", ops=ORDERED)(_quantile(100.0))


@spelling("numpy.median", ops=ORDERED)
def _(b, a, axis=None, out=unsupported(), overwrite_input=False, keepdims=False):
    return quantiles(b, a, 0.5, axis, keepdims)
