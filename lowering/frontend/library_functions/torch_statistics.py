"""Statistics, comparisons and arrangements of torch in the kernel language, as its documentation defines them.

Python never runs them. Like `torch_functions.py` they are written with NumPy's spellings.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mlirtri.lowering.frontend.library_functions.linear_algebra import refuse
from mlirtri.lowering.frontend.library_functions.random_generator import require_value
from mlirtri.lowering.frontend.library_functions.torch_functions import is_half, norm_of, steps
from mlirtri.lowering.special_functions import definitions

# --- comparisons and arithmetic --------------------------------------------------------------------------------------


def equal(input, other):
    if len(input.shape) != len(other.shape):
        return False
    for axis in range(input.ndim):
        if input.shape[axis] != other.shape[axis]:
            return False
    return bool(np.all(input == other))


def isreal(input):
    return np.isreal(input) if input.dtype.is_complex else np.ones(input.shape, np.bool_)


def heaviside(input, values):
    return np.where(input == 0, values, (input > 0).astype(input.dtype))


def floating(input):
    return input if input.dtype.is_inexact else input.astype(np.float32)


def sinc(input):
    return np.sinc(floating(input))


def positive(input):
    if input.dtype.name == "bool":
        refuse("torch.positive takes numbers")
    return input


def ldexp(input, other):
    return input * 2.0**other


def entr(input):
    return definitions.entr(np, input)


def xlog1py(input, other):
    return definitions.times_logarithm(np, input, other, np.log1p(other))


def logcumsumexp(input, dim):
    x = input.reshape(1) if input.ndim == 0 else input
    return np.logaddexp.accumulate(x, axis=dim).reshape(input.shape)


def renorm(input, p, dim, maxnorm):
    moved = np.moveaxis(input, dim, 0)
    rows = moved.reshape(moved.shape[0], -1)
    # The norms of halves are not rounded, the factors are.
    sizes = norm_of(rows.astype(np.float32) if is_half(input) else rows, p, 1)
    scale = np.where(sizes > maxnorm, maxnorm / (sizes + 1e-7), 1.0).astype(input.dtype)
    return np.moveaxis(moved * scale.reshape([-1] + [1] * (input.ndim - 1)), 0, dim)


# --- statistics ------------------------------------------------------------------------------------------------------


def histc(input, bins=100, min=0, max=0):
    x = input.reshape(-1)
    if min == max:
        low, high = np.min(x), np.max(x)
        low, high = np.where(low == high, low - 1, low), np.where(low == high, high + 1, high)
        return _counts(x, bins, low, high)
    if min > max:
        refuse("max must be larger than min")
    return _counts(x, bins, min, max)


def _counts(x, bins, low, high):
    place = np.clip((x - low) / (high - low) * bins, 0, bins - 1).astype(np.int64)
    counts = np.zeros(bins, x.dtype)
    np.add.at(counts, place, ((x >= low) & (x <= high)).astype(x.dtype))
    return counts


def quantile(input, q, dim=None, keepdim=False, *, interpolation="linear", out=None):
    x = _with_last(input, dim)
    size = x.shape[-1]
    ordered = np.sort(x, axis=-1)
    has_nan = np.isnan(ordered[..., -1:])
    return _at_fractions(ordered, size - 1, q, has_nan, input.ndim, dim, keepdim, interpolation)


def nanquantile(input, q, dim=None, keepdim=False, *, interpolation="linear", out=None):
    x = _with_last(input, dim)
    ordered = np.sort(x, axis=-1)
    valid = np.sum(~np.isnan(x), axis=-1, keepdims=True)
    return _at_fractions(ordered, np.maximum(valid - 1, 0), q, valid == 0, input.ndim, dim, keepdim, interpolation)


def _with_last(input, dim):
    if dim is None:
        return input.reshape(-1)
    return np.moveaxis(input.reshape(1) if input.ndim == 0 else input, dim, -1)


def _at_fractions(ordered, last, q, is_missing, rank, dim, keepdim, interpolation):
    fractions = np.asarray(q, ordered.dtype).reshape(-1)
    require_value(np.all((fractions >= 0) & (fractions <= 1)), "quantile() takes fractions from 0 to 1")
    place = fractions * last
    low, high = np.floor(place).astype(np.int64), np.ceil(place).astype(np.int64)
    shape = [*ordered.shape[:-1], fractions.shape[0]]
    low, high = np.broadcast_to(low, shape), np.broadcast_to(high, shape)
    below, above = np.take_along_axis(ordered, low, axis=-1), np.take_along_axis(ordered, high, axis=-1)
    values = np.where(is_missing, math.nan, _interpolated(below, above, place, interpolation))
    # The fractions come first; the reduced axis follows, if it stays.
    result = np.moveaxis(values, -1, 0)
    if keepdim:
        is_whole = dim is None or rank == 0
        result = result.reshape([-1] + [1] * rank) if is_whole else np.expand_dims(result, dim % rank + 1)
    return result[0] if np.ndim(q) == 0 else result


def _interpolated(below, above, place, interpolation):
    share = place - np.floor(place)
    if interpolation == "linear":
        return np.where(share < 0.5, below + share * (above - below), above - (above - below) * (1 - share))
    if interpolation == "lower":
        return below
    if interpolation == "higher":
        return above
    if interpolation == "midpoint":
        return np.where(share > 0, below + 0.5 * (above - below), below)
    if interpolation != "nearest":
        refuse("interpolation= is 'linear', 'lower', 'higher', 'midpoint' or 'nearest'")
    return np.where(np.round(place) > np.floor(place), above, below)


def cov(input, *, correction=1, fweights=None, aweights=None):
    x = floating(input)
    x = x if x.ndim == 2 else x.reshape(1, -1)
    if fweights is None and aweights is None:
        centred = x - np.mean(x, axis=1, keepdims=True)
        return _products(centred, centred, x.shape[1] - correction)
    weights = 1 if fweights is None else fweights.astype(x.real.dtype)
    weights = weights if aweights is None else weights * aweights
    total = np.sum(weights)
    # The formula of numpy.cov, which torch's documentation follows.
    lost = correction if aweights is None else 0 if correction == 0 else correction * np.sum(weights * aweights) / total
    centred = x - np.sum(x * weights, axis=1, keepdims=True) / total
    return _products(centred * weights, centred, total - lost)


def _products(x, y, count):
    return np.squeeze(np.matmul(x, np.conj(y.T)) / np.maximum(count, 0))


def corrcoef(input):
    c = cov(input)
    if c.ndim == 0:
        return c / c
    deviations = np.sqrt(np.diag(c).real)
    c = c / deviations[:, None] / deviations
    return c if c.dtype.is_complex else np.clip(c, -1, 1)


def cumulative_trapezoid(y, x=None, *, dx=1.0, dim=-1):
    moved = np.moveaxis(y, dim, -1)
    sums = moved[..., 1:] + moved[..., :-1]
    if x is None:
        return np.moveaxis(np.cumsum(sums, axis=-1) * (dx / 2), -1, dim)
    return np.moveaxis(np.cumsum(steps(x, y.ndim, dim) * sums, axis=-1) / 2, -1, dim)


# --- arrangements ----------------------------------------------------------------------------------------------------


def positions(size: int, count: int, with_replacement: bool) -> list[list[int]]:
    """Return the combinations of `count` positions among `size`, as `count` columns; Python runs it."""
    make = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = list(make(range(size), count))
    return [[row[k] for row in rows] for k in range(count)]


COMPILE_TIME = (positions,)
"""What Python runs while a kernel compiles."""


def cartesian_prod(*tensors):
    for x in tensors:
        if x.ndim != 1:
            refuse("it takes vectors")
    if len(tensors) == 1:
        return tensors[0]
    axes = np.meshgrid(*tensors, indexing="ij")
    return np.stack([axis.reshape(-1) for axis in axes], axis=1)


def combinations(input, r=2, with_replacement=False):
    if r < 1:
        if r < 0:
            refuse("r= is 0 or more")
        return np.zeros(0, input.dtype)
    chosen = positions(input.shape[0], r, with_replacement)
    if len(chosen[0]) == 0:
        return np.zeros([0, r], input.dtype)
    return np.stack([input[np.array(column)] for column in chosen], axis=1)


def split_with_sizes(input, split_sizes, dim=0):
    require_value(sum(split_sizes) == input.shape[dim], "split_sizes= adds up to the size of the axis")
    ends = [sum(split_sizes[: i + 1]) for i in range(len(split_sizes) - 1)]
    return np.split(input, ends, axis=dim)


def diag_embed(input, offset=0, dim1=-2, dim2=-1):
    size = input.shape[-1] + abs(offset)
    row, column = np.arange(size).reshape(-1, 1), np.arange(size)
    wide = np.zeros([*input.shape[:-1], size], input.dtype)
    wide[..., max(offset, 0) :][..., : input.shape[-1]] = input
    placed = np.where(column - row == offset, wide[..., None, :], np.zeros(1, input.dtype))
    return np.moveaxis(placed.astype(input.dtype), (-2, -1), (dim1, dim2))


_NAMED: tuple[Callable[..., Any], ...] = (
    equal, isreal, heaviside, sinc, positive, ldexp, logcumsumexp, renorm, histc, quantile, nanquantile, cov, corrcoef,
    cumulative_trapezoid, cartesian_prod, combinations, split_with_sizes, diag_embed,
)  # fmt: skip
SPLITS: dict[str, Callable[..., Any]] = {
    "hsplit": lambda input, indices_or_sections: np.hsplit(input, indices_or_sections),
    "vsplit": lambda input, indices_or_sections: np.vsplit(input, indices_or_sections),
    "dsplit": lambda input, indices_or_sections: np.dsplit(input, indices_or_sections),
}
_RENAMED: dict[str, Callable[..., Any]] = {
    **SPLITS,
    "isposinf": lambda input: np.isposinf(input),
    "isneginf": lambda input: np.isneginf(input),
    "gcd": lambda input, other: np.gcd(input, other),
    "lcm": lambda input, other: np.lcm(input, other),
    "diagflat": lambda input, offset=0: np.diag(input.reshape(-1), offset),
    "msort": lambda input: np.sort(input, axis=0),
    "is_floating_point": lambda input: input.dtype.is_float,
}
"""Functions that NumPy has under another name, or with other parameters."""
_SPECIAL: tuple[Callable[..., Any], ...] = (entr, xlog1py, sinc)
FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{f"torch.{function.__name__}": function for function in _NAMED},
    **{f"torch.{name}": function for name, function in _RENAMED.items()},
    "torch.isin": lambda elements, test_elements, *, assume_unique=False, invert=False: np.isin(
        elements, test_elements, invert=invert
    ),
    "torch.row_stack": lambda tensors: np.vstack(tensors),
    **{f"torch.special.{function.__name__}": function for function in _SPECIAL},
}
"""Inlined functions of torch by qualified name."""
METHODS: dict[str, Callable[..., Any]] = _RENAMED | {
    function.__name__: function
    for function in _NAMED
    if function not in (cumulative_trapezoid, cartesian_prod, combinations)
}
"""Inlined methods of tensors by name; each takes the tensor first."""
