"""The functions of `numpy` along an axis in order: scans, sorts, searches, histograms, interpolation.

Sorts are stable whatever `kind` says: where NumPy's default leaves the order of equal elements open, theirs is kept.
"""

from __future__ import annotations

from mlirtri.dialect.base.dtypes import DTYPES
from mlirtri.dialect.spellings.base import helpers
from mlirtri.dialect.spellings.base.spelling import Argument, Builder, Value, spelling, unsupported
from mlirtri.dialect.spellings.numpy_api.composed_functions import in_floats
from mlirtri.dialect.spellings.numpy_api.ufuncs import (
    COMPLEX128,
    FLOAT64,
    INT64,
    arrays,
    as_array,
    is_complex,
    numpy_dtype,
)
from mlirtri.errors import KernelValueError

BOOL = DTYPES["bool"]


def lined(b: Builder, x: Value, axis: Argument) -> tuple[Value, int]:
    """Return `x` and an axis of it; without one, the flat array."""
    x = as_array(b, x)
    if axis is None:
        return b.reshape(x, (-1,)), 0
    return x, helpers.one_axis(b, axis, helpers.rank_of(b, x))


# --- scans ---------------------------------------------------------------------------------------------------------


def _running(kind: str):
    def function(b, a, axis=None, dtype=None, out=unsupported()):
        x, axis = lined(b, a, axis)
        return b.scan(x, kind, axis, numpy_dtype(b, dtype))

    return function


cumsum = spelling("numpy.cumsum", ops="scan reshape")(_running("sum"))
cumprod = spelling("numpy.cumprod", ops="scan reshape")(_running("prod"))


def _cumulative(kind: str):
    def function(b, x, /, *, axis=None, dtype=None, out=unsupported(), include_initial=False):
        if axis is None and helpers.rank_of(b, x) != 1:
            b.fail("an array of more than one axis needs axis=")
        result = _running(kind)(b, x, axis, dtype)
        if not include_initial:
            return result
        first = b.cut(result, helpers.one_axis(b, axis or 0, helpers.rank_of(b, x)), slice(0, 1))
        initial = b.full(helpers.shape_of(b, first), 0 if kind == "sum" else 1, b.type_of(result).dtype)
        return b.concatenate((initial, result), axis or 0)

    return function


spelling("numpy.cumulative_sum", ops="scan reshape cut full concatenate")(_cumulative("sum"))
spelling("numpy.cumulative_prod", ops="scan reshape cut full concatenate")(_cumulative("prod"))


def _nan_running(kind: str, neutral: int):
    def function(b, a, axis=None, dtype=None, out=unsupported()):
        x, axis = lined(b, a, axis)
        return b.scan(without_nan(b, x, neutral), kind, axis, numpy_dtype(b, dtype))

    return function


def without_nan(b: Builder, x: Value, instead: float) -> Value:
    """Return `x` with NaN replaced by a value."""
    dtype = b.type_of(x).dtype
    return b.where(b.isnan(x), b.cast(instead, dtype), x) if dtype.is_inexact else x


spelling("numpy.nancumsum", ops="scan reshape isnan where cast")(_nan_running("sum", 0))
spelling("numpy.nancumprod", ops="scan reshape isnan where cast")(_nan_running("prod", 1))


@spelling("numpy.diff", ops="cut subtract not_equal concatenate broadcast_to")
def _(b, a, n=1, axis=-1, prepend=None, append=None):
    x, axis = lined(b, a, axis)
    shape = helpers.shape_of(b, x)
    ends = [end if end is None else _as_end(b, end, shape, axis) for end in (prepend, append)]
    if parts := [part for part in (ends[0], x, ends[1]) if part is not None]:
        x = x if len(parts) == 1 else b.concatenate(tuple(parts), axis)
    return differences(b, x, n, axis)


def differences(b: Builder, x: Value, n: Argument, axis: int) -> Value:
    """Return the `n`-th differences of `x` along an axis; bools differ where they are not equal."""
    if not helpers.is_integer(n) or n < 0:
        b.fail(f"diff is taken 0 times or more, not {n!r}")
    for _ in range(n):
        later, earlier = b.cut(x, axis, slice(1, None)), b.cut(x, axis, slice(None, -1))
        x = (b.not_equal if b.type_of(x).dtype.is_bool else b.subtract)(later, earlier)
    return x


def _as_end(b: Builder, end: Value, shape: tuple[Argument, ...], axis: int) -> Value:
    end = as_array(b, end)
    return end if helpers.rank_of(b, end) else b.broadcast_to(end, (*shape[:axis], 1, *shape[axis + 1 :]))


# --- sorting and searching -----------------------------------------------------------------------------------------

_KINDS = (None, "quicksort", "mergesort", "heapsort", "stable")


def sorting(op: str):
    """Return `numpy.sort` or `numpy.argsort`."""

    def function(b, a, axis=-1, kind=None, order=unsupported(), *, stable=None):
        if kind not in _KINDS:
            b.fail(f"kind is one of {', '.join(_KINDS[1:])}, not {kind!r}")
        x, axis = lined(b, a, axis)
        return getattr(b, op)(x, axis)

    return function


sort = spelling("numpy.sort", ops="sort reshape")(sorting("sort"))
argsort = spelling("numpy.argsort", ops="argsort reshape")(sorting("argsort"))


def partitioning(op: str):
    """Return `numpy.partition` or `numpy.argpartition`: of the partitions that NumPy allows, the sorted one."""

    def function(b, a, kth, axis=-1, kind="introselect", order=unsupported()):
        if kind != "introselect":
            b.fail(f"kind is introselect, not {kind!r}")
        x, axis = lined(b, a, axis)
        size = helpers.shape_of(b, x)[axis]
        for position in helpers.as_tuple(kth):
            if isinstance(size, int) and isinstance(position, int) and not -size <= position < size:
                raise KernelValueError(f"kth(={position}) out of bounds ({size})")
        return getattr(b, op)(x, axis)

    return function


spelling("numpy.partition", ops="sort reshape")(partitioning("sort"))
argpartition = spelling("numpy.argpartition", ops="argsort reshape")(partitioning("argsort"))


@spelling("numpy.searchsorted", ops="searchsorted cast")
def searchsorted(b, a, v, side="left", sorter=unsupported()):
    if side not in ("left", "right"):
        b.fail(f"side is 'left' or 'right', not {side!r}")
    a, v = arrays(b, a, v)
    helpers.require_rank(b, "what numpy.searchsorted looks in", a, (1,))
    return b.searchsorted(a, v, side == "right")


@spelling("numpy.digitize", ops="searchsorted cast cut less logical_and any flip where subtract")
def _(b, x, bins, right=False):
    x, bins = arrays(b, x, bins)
    helpers.require_rank(b, "the bins of numpy.digitize", bins, (1,))
    before, after = b.cut(bins, 0, slice(0, -1)), b.cut(bins, 0, slice(1, None))
    falls, rises = b.any(b.less(after, before), 0), b.any(b.less(before, after), 0)
    b.check(b.logical_and(falls, rises), KernelValueError, "bins must be monotonically increasing or decreasing")
    # Decreasing bins are counted from the other end.
    index = b.searchsorted(b.where(falls, b.flip(bins, 0), bins), x, not right)
    return b.where(falls, b.subtract(b.number_of(helpers.shape_of(b, bins)[0]), index), index)


INTERPOLATION = "searchsorted pick cut reshape subtract add multiply divide clip where less greater cast equal"


@spelling("numpy.interp", ops=INTERPOLATION)
def _(b, x, xp, fp, left=None, right=None, period=unsupported()):
    wide = COMPLEX128 if any(is_complex(b, values) for values in (fp, left, right)) else FLOAT64
    x, xp, fp = b.cast(x, FLOAT64), b.cast(xp, FLOAT64), b.cast(fp, wide)
    for name, points in (("xp", xp), ("fp", fp)):
        helpers.require_rank(b, f"{name} of numpy.interp", points, (1,))
    count = helpers.shape_of(b, xp)[0]
    last = b.cut(fp, 0, slice(count - 1, count))
    below = b.cut(fp, 0, slice(0, 1)) if left is None else b.cast(left, wide)
    above = last if right is None else b.cast(right, wide)
    if count == 1:
        inner = last
    else:
        index = b.clip(b.subtract(b.searchsorted(xp, x, True), 1), 0, b.number_of(count - 2))
        x0, f0 = b.pick(xp, index), b.pick(fp, index)
        slope = b.divide(b.subtract(b.pick(fp, b.add(index, 1)), f0), b.subtract(b.pick(xp, b.add(index, 1)), x0))
        inner = b.add(b.multiply(slope, b.subtract(x, x0)), f0)
        inner = b.where(b.equal(x, b.cut(xp, 0, slice(count - 1, count))), last, inner)
    result = b.where(b.less(x, b.cut(xp, 0, slice(0, 1))), below, inner)
    result = b.where(b.greater(x, b.cut(xp, 0, slice(count - 1, count))), above, result)
    return result if helpers.rank_of(b, x) else b.reshape(result, ())


# --- counting ------------------------------------------------------------------------------------------------------


BINCOUNT = "add_at full cast max add less greater_equal logical_or"


def counted(b: Builder, x: Value, weights: Value, minlength: Argument, dtype: Argument, name: str) -> Value:
    """Return how often each integer is in `x`, or the sums of weights, of length `max(x) + 1` or `minlength`.

    An array of run-time length cannot be returned: with a `minlength` all numbers must be below it, which is
    checked at run time.
    """
    helpers.require_rank(b, f"the argument of {name}", x, (1,))
    if not helpers.is_integer(minlength) or minlength < 0:
        b.fail(f"minlength is an integer of 0 or more known at compile time, not {minlength!r}")
    x, length = b.cast(x, INT64), minlength
    if minlength:
        out_of_range = b.logical_or(b.less(x, 0), b.greater_equal(x, minlength))
        b.check(out_of_range, KernelValueError, f"{name} met a number that is negative or not below minlength")
    elif helpers.shape_of(b, x)[0] != 0:
        with b.muted():  # there may be no numbers
            largest = b.maximum(b.max(x, axis=None), b.cast(-1, INT64))
        length = b.size_from(b.add(largest, 1))
    ones = b.full(helpers.shape_of(b, x), 1, dtype) if weights is None else b.cast(weights, dtype)
    return b.add_at(b.full((length,), 0, dtype), x, ones)


@spelling("numpy.bincount", ops=BINCOUNT)
def _(b, x, /, weights=None, minlength=0):
    return counted(b, x, weights, minlength, INT64 if weights is None else FLOAT64, "numpy.bincount")


COUNTING = "literal bins searchsorted less add_at full cut cast arange add subtract multiply divide where equal max min"


def edges_of(b: Builder, a: Value, bins: Argument, range_: Argument) -> tuple[Value, bool]:
    """Return the edges of a histogram's bins, and whether the bins are of one width."""
    if b.type_of(bins) is not None:
        helpers.require_rank(b, "the bins of a histogram", bins, (1,))
        return bins, False
    if isinstance(bins, (tuple, list)):
        return b.literal(tuple(bins), (len(bins),), FLOAT64 if any(type(e) is float for e in bins) else INT64), False
    if not helpers.is_integer(bins) or bins < 1:
        b.fail(f"bins is a positive integer known at compile time, or edges, not {bins!r}")
    if range_ is not None and len(helpers.as_tuple(range_)) != 2:
        b.fail(f"the range of a histogram is a pair of numbers, not {range_!r}")
    low, high = range_ if range_ is not None else (b.min(a, axis=None), b.max(a, axis=None))
    low, high = b.cast(low, FLOAT64), b.cast(high, FLOAT64)
    if range_ is not None:
        b.check(b.less(high, low), KernelValueError, "the range of a histogram ends before it starts")
    is_point = b.equal(low, high)
    low, high = b.where(is_point, b.subtract(low, 0.5), low), b.where(is_point, b.add(high, 0.5), high)
    index = b.arange(0, bins + 1, 1, FLOAT64)
    step = b.divide(b.subtract(high, low), bins)
    edges = b.where(b.equal(index, bins), high, b.add(b.multiply(index, step), low))
    dtype = b.type_of(a).dtype
    # NumPy's edges of narrower floats have their dtype.
    return (b.cast(edges, dtype) if dtype.is_float else edges), True


@spelling("numpy.histogram_bin_edges", ops=COUNTING)
def _(b, a, bins=10, range=None, weights=unsupported()):
    return edges_of(b, as_array(b, a), bins, range)[0]


@spelling("numpy.histogram", ops=f"{COUNTING} sum reshape greater greater_equal logical_and less_equal")
def _(b, a, bins=10, range=None, density=None, weights=None):
    a = as_array(b, a)
    edges, uniform = edges_of(b, a, bins, range)
    count = helpers.shape_of(b, edges)[0] - 1
    flat = b.reshape(a, (-1,))
    indices = b.bins(*in_floats(b, flat, edges)) if uniform else _bin_indices(b, flat, edges, count)
    weights = None if weights is None else b.reshape(weights, (-1,))
    kind = INT64 if weights is None else b.type_of(weights).dtype
    kind = INT64 if kind.is_bool else kind
    ones = b.full(helpers.shape_of(b, flat), 1, kind) if weights is None else b.cast(weights, kind)
    counts = b.add_at(b.full((count,), 0, kind), indices, ones)
    if not density:
        return counts, edges
    widths = b.subtract(b.cut(edges, 0, slice(1, None)), b.cut(edges, 0, slice(None, -1)))
    return b.divide(b.divide(counts, b.cast(widths, FLOAT64)), b.sum(counts, axis=None)), edges


def _bin_indices(b: Builder, x: Value, edges: Value, count: int) -> Value:
    """Return the bin of each element between arbitrary edges; the last edge belongs to the last bin."""
    index = b.subtract(b.searchsorted(edges, x, True), 1)
    last = b.cut(edges, 0, slice(count, count + 1))
    index = b.where(b.equal(x, last), count - 1, index)
    in_range = b.logical_and(b.greater_equal(x, b.cut(edges, 0, slice(0, 1))), b.less_equal(x, last))
    return b.where(in_range, index, count)


@spelling(
    "numpy.unwrap", ops="cut subtract add remainder where equal greater logical_and abs less scan concatenate cast"
)
def _(b, p, discont=None, axis=-1, *, period=6.283185307179586):
    p = as_array(b, p)
    if not b.type_of(p).dtype.is_float:
        b.fail("numpy.unwrap takes floats in a kernel", help="x.astype(float)")
    axis = helpers.one_axis(b, axis, helpers.rank_of(b, p))
    half = period / 2
    discont = half if discont is None else discont
    first, rest = b.cut(p, axis, slice(0, 1)), b.cut(p, axis, slice(1, None))
    step = b.subtract(rest, b.cut(p, axis, slice(None, -1)))
    wrapped = b.subtract(b.remainder(b.add(step, half), period), half)
    wrapped = b.where(b.logical_and(b.equal(wrapped, -half), b.greater(step, 0)), half, wrapped)
    jumps = b.where(b.less(b.abs(step), discont), 0.0, b.subtract(wrapped, step))
    return b.concatenate((first, b.add(rest, b.scan(jumps, "sum", axis))), axis=axis)
