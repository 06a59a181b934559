"""The distributions of `numpy.random.Generator` in the kernel language, which draw NumPy's numbers.

Python never runs the functions, but those of `COMPILE_TIME`. Numbers are NumPy's for the same seed and the same order
of calls, up to the rounding of ``log1p`` and ``exp``. Methods: integers in a range (D. Lemire, Fast random integer
generation in an interval, 2019); choices without replacement (R. Floyd, 1987); normal and exponential numbers by
ziggurats, see `ziggurat_tables.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mlirtri.dialect.base.dtypes import find_dtype
from mlirtri.dialect.builder import TriValue
from mlirtri.lowering.frontend.library_functions.linear_algebra import refuse, size_of
from mlirtri.lowering.frontend.library_functions.random_generator import (
    HALF,
    WORD,
    half_word,
    halves_of,
    keep_halves,
    keep_state,
    output,
    product,
    require_value,
    state_of,
    stepped,
)
from mlirtri.lowering.frontend.library_functions.ziggurat_tables import exponential as exponential_layers
from mlirtri.lowering.frontend.library_functions.ziggurat_tables import normal as normal_layers

UNIT = 2.0**-53


def is_wide_integer(dtype: Any) -> bool:
    kind = find_dtype(dtype)
    return kind is not None and kind.is_integer and kind.bits >= 32


def is_integer(bound: Any) -> bool:
    return isinstance(bound, int) or (isinstance(bound, TriValue) and bound.type.dtype.is_integer)


def word_of(number: Any) -> Any:
    """Return an integer known at compile time modulo 2**64; None for any other."""
    return number & WORD if isinstance(number, int) else None


COMPILE_TIME = (is_wide_integer, is_integer, word_of, normal_layers, exponential_layers)
"""What Python runs while a kernel compiles."""


# --- floats --------------------------------------------------------------------------------------------------------


def filled(generator, size, draw, dtype: Any = np.float64):
    """Return one number or an array of `size` and `dtype`, each drawn by `draw`."""
    high, low, up, down = state_of(generator)
    if size is None:
        value, high, low = draw(high, low, up, down)
        keep_state(generator, high, low)
        return value
    values = np.empty(size, dtype)
    flat = values.reshape(-1)
    for i in range(flat.shape[0]):
        value, high, low = draw(high, low, up, down)
        flat[i] = value
    keep_state(generator, high, low)
    return values


def unit(high, low, up, down):
    """Draw a number in [0, 1) of 53 bits."""
    high, low = stepped(high, low, up, down)
    return (output(high, low) >> 11).astype(np.float64) * UNIT, high, low


def positive_unit(high, low, up, down):
    """Draw such a number that is not 0."""
    share, high, low = unit(high, low, up, down)
    while share == 0.0:
        share, high, low = unit(high, low, up, down)
    return share, high, low


def normal_number(high, low, up, down):
    """Draw from the normal distribution."""
    widths, limits = np.array(normal_layers().widths), np.array(normal_layers().limits, np.uint64)
    heights, before = np.array(normal_layers().heights), np.array(normal_layers().heights_before)
    x = 0.0
    is_drawn = False
    while not is_drawn:
        high, low = stepped(high, low, up, down)
        word = output(high, low)
        layer, position = word & 255, (word >> 9) & 0xFFFFFFFFFFFFF
        x = position.astype(np.float64) * widths[layer]
        x = np.where((word >> 8) & 1 == 1, -x, x)
        is_drawn = position < limits[layer]
        if not is_drawn and layer == 0:
            while not is_drawn:
                first, high, low = unit(high, low, up, down)
                second, high, low = unit(high, low, up, down)
                beyond, height = -0.27366123732975827 * np.log1p(-first), -np.log1p(-second)
                is_drawn = height + height > beyond * beyond
                x = 3.6541528853610088 + beyond
                x = np.where((position >> 8) & 1 == 1, -x, x)
        elif not is_drawn:
            share, high, low = unit(high, low, up, down)
            is_drawn = (before[layer] - heights[layer]) * share + heights[layer] < np.exp(-0.5 * x * x)
    return x, high, low


def exponential_number(high, low, up, down):
    """Draw from the exponential distribution of mean 1."""
    widths, limits = np.array(exponential_layers().widths), np.array(exponential_layers().limits, np.uint64)
    heights, before = np.array(exponential_layers().heights), np.array(exponential_layers().heights_before)
    x = 0.0
    is_drawn = False
    while not is_drawn:
        high, low = stepped(high, low, up, down)
        word = output(high, low) >> 3
        layer, position = word & 255, word >> 8
        x = position.astype(np.float64) * widths[layer]
        is_drawn = position < limits[layer]
        if not is_drawn:
            share, high, low = unit(high, low, up, down)
            if layer == 0:
                x = 7.697117470131050 - np.log1p(-share)
                is_drawn = True
            else:
                is_drawn = (before[layer] - heights[layer]) * share + heights[layer] < np.exp(-x)
    return x, high, low


def random(self, size=None, dtype=np.float64):
    if dtype == np.float32:
        return random_float32(self, size)
    if dtype != np.float64:
        refuse("its dtype is float64 or float32")
    return filled(self, size, unit)


def random_float32(self, size):
    """Return numbers in [0, 1) of 24 bits; one number is a Python float."""
    high, low, up, down = state_of(self)
    has_half, half = halves_of(self)
    values = np.empty(1 if size is None else size, np.float32)
    flat = values.reshape(-1)
    for i in range(flat.shape[0]):
        bits, high, low, has_half, half = half_word(high, low, up, down, has_half, half)
        flat[i] = (bits >> 8).astype(np.float32) * np.float32(2.0**-24)
    keep_state(self, high, low)
    keep_halves(self, has_half, half)
    return values[0].astype(np.float64) if size is None else values


def uniform(self, low=0.0, high=1.0, size=None):
    size = common_size(size, low, high)
    require_value(not np.any(np.asarray(high) - low < 0), "high - low < 0")
    require_value(np.all(np.isfinite(np.asarray(high, np.float64) - low)), "high - low range exceeds valid bounds")
    return low + (high - low) * filled(self, size, unit)


def standard_normal(self, size=None, dtype=np.float64):
    if dtype != np.float64:
        refuse("its dtype is float64: cast the result with astype")
    return filled(self, size, normal_number)


def normal(self, loc=0.0, scale=1.0, size=None):
    size = common_size(size, loc, scale)
    require_positive(scale, "scale < 0")
    return loc + scale * filled(self, size, normal_number)


def lognormal(self, mean=0.0, sigma=1.0, size=None):
    require_positive(sigma, "sigma < 0")
    return np.exp(normal(self, mean, sigma, size))


def standard_exponential(self, size=None, dtype=np.float64):
    if dtype != np.float64:
        refuse("its dtype is float64: cast the result with astype")
    return filled(self, size, exponential_number)


def exponential(self, scale=1.0, size=None):
    size = common_size(size, scale, 0.0)
    require_positive(scale, "scale < 0")
    return scale * filled(self, size, exponential_number)


def require_positive(scale, message):
    """Raise as NumPy does for a negative number, -0.0 included; NaN is none."""
    scale = np.asarray(scale, np.float64)
    require_value(not np.any(np.signbit(scale) & ~np.isnan(scale)), message)


def common_size(size, first, second):
    """Return the size of a result: `size`, or that of the parameters if these are arrays."""
    if size is not None or (np.ndim(first) == 0 and np.ndim(second) == 0):
        return size
    return np.broadcast_shapes(np.shape(first), np.shape(second))


# --- integers ------------------------------------------------------------------------------------------------------


def below_half(bound, high, low, up, down, has_half, half):
    """Draw an integer from 0 to `bound`, which is below 2**32 - 1, from 32 bits at a time."""
    count = bound + 1
    bits, high, low, has_half, half = half_word(high, low, up, down, has_half, half)
    scaled = bits * count
    threshold = (HALF - bound) % count
    while (scaled & HALF) < threshold:
        bits, high, low, has_half, half = half_word(high, low, up, down, has_half, half)
        scaled = bits * count
    return scaled >> 32, high, low, has_half, half


def below_word(bound, high, low, up, down):
    """Draw an integer from 0 to `bound`, which is below 2**64 - 1, from 64 bits at a time."""
    count = bound + 1
    high, low = stepped(high, low, up, down)
    result, rest = product(output(high, low), count)
    threshold = (WORD - bound) % count
    while rest < threshold:
        high, low = stepped(high, low, up, down)
        result, rest = product(output(high, low), count)
    return result, high, low


def fill_below(generator, flat, bound):
    """Fill `flat` with integers from 0 to `bound`."""
    high, low, up, down = state_of(generator)
    has_half, half = halves_of(generator)
    if bound == 0:
        flat[:] = 0
    elif bound == HALF:
        for i in range(flat.shape[0]):
            flat[i], high, low, has_half, half = half_word(high, low, up, down, has_half, half)
    elif bound < HALF:
        for i in range(flat.shape[0]):
            flat[i], high, low, has_half, half = below_half(bound, high, low, up, down, has_half, half)
    elif bound == WORD:
        for i in range(flat.shape[0]):
            high, low = stepped(high, low, up, down)
            flat[i] = output(high, low)
    else:
        for i in range(flat.shape[0]):
            flat[i], high, low = below_word(bound, high, low, up, down)
    keep_state(generator, high, low)
    keep_halves(generator, has_half, half)


def integers(self, low, high=None, size=None, dtype=np.int64, endpoint=False):
    if not is_wide_integer(dtype):
        refuse("it draws integers of 32 and 64 bits: cast the result with astype")
    if np.ndim(low) != 0 or (high is not None and np.ndim(high) != 0):
        refuse("the bounds are numbers, not arrays")
    first, last = (0, low) if high is None else (low, high)
    if not is_integer(first) or not is_integer(last):
        refuse("the bounds are integers")
    require_value(first <= last if endpoint else first < last, "low >= high")
    last = last if endpoint else last - 1
    require_value(np.iinfo(dtype).min <= first, "low is out of bounds for the dtype")
    require_value(last <= np.iinfo(dtype).max, "high is out of bounds for the dtype")
    bound = np.uint64(last - first) if word_of(last - first) is not None else (last - first).astype(np.uint64)
    start = np.uint64(word_of(first)) if word_of(first) is not None else first.astype(np.uint64)
    words = np.zeros(() if size is None else size, np.uint64)
    fill_below(self, words.reshape(-1), bound)
    values = (words + start).astype(dtype)
    return values[()] if size is None else values


def choice(self, a, size=None, replace=True, p=None, axis=0, shuffle=True):
    if not replace:
        if p is not None:
            refuse("replace=False with p= is not supported: draw outside of the kernel and pass the numbers")
        return chosen_once(self, a, size, axis, shuffle)
    population = np.arange(a) if np.ndim(a) == 0 else a
    count = population.shape[axis]
    require_value(count > 0, "there is nothing to choose from")
    if p is None:
        positions = integers(self, 0, count, size)
    else:
        p = np.asarray(p)
        if p.shape != (count,):
            refuse("a and p have the same size")
        near = np.sqrt(np.finfo(p.dtype if p.dtype.is_float else np.float64).eps)
        p = p.astype(np.float64)
        require_value(not np.any(np.isnan(p)), "Probabilities contain NaN")
        require_value(not np.any(p < 0), "Probabilities are not non-negative")
        require_value(np.abs(np.sum(p) - 1) <= near, "Probabilities do not sum to 1")
        cumulated = np.cumsum(p)
        positions = np.searchsorted(cumulated / cumulated[-1], random(self, size), side="right")
    return np.take(population, positions, axis)


def chosen_once(generator, a, size, axis, shuffles):
    """Return different elements of a sequence, or different integers below a number."""
    count = size_of(() if size is None else size if isinstance(size, tuple) else (size,))
    population = a if np.ndim(a) == 0 else a.shape[axis]
    positions = distinct_positions(generator, population, count, shuffles)
    shaped = positions[0] if size is None else positions.reshape(size)
    return shaped if np.ndim(a) == 0 else np.take(a, shaped, axis)


def distinct_positions(generator, population, count, shuffles):
    """Return `count` different integers below `population`."""
    require_value(count <= population, "Cannot take a larger sample than population when replace is False")
    chosen = np.empty(count, np.int64)
    if population > 10000 and count > population // (50 if shuffles else 20):
        every = np.arange(population)
        shuffled_from(generator, every, max(population - count, 1))
        chosen[:] = every[population - count :]
    else:
        is_taken = np.zeros(population, np.bool_)
        words = np.empty(1, np.uint64)
        for i in range(count):
            last = population - count + i
            fill_below(generator, words, np.uint64(last))
            position = int(words[0])
            chosen[i] = last if is_taken[position] else position
            is_taken[chosen[i]] = True
        if shuffles:
            shuffled_from(generator, chosen, 1)
    return chosen


def shuffled_from(generator, values, first):
    """Exchange the elements from the last one down to `first` with one before each, or itself."""
    high, low, up, down = state_of(generator)
    has_half, half = halves_of(generator)
    for i in range(values.shape[0] - 1, first - 1, -1):
        word, high, low, has_half, half = below_half(np.uint64(i), high, low, up, down, has_half, half)
        j = int(word)
        kept = values[i]
        values[i] = values[j]
        values[j] = kept
    keep_state(generator, high, low)
    keep_halves(generator, has_half, half)


def shuffle(self, x, axis=0):
    if axis != 0:
        refuse("it shuffles the first axis: transpose the array before")
    high, low, up, down = state_of(self)
    has_half, half = halves_of(self)
    for i in range(x.shape[0] - 1, 0, -1):
        bound = np.uint64(i)
        mask = bound
        mask = mask | (mask >> 1)
        mask = mask | (mask >> 2)
        mask = mask | (mask >> 4)
        mask = mask | (mask >> 8)
        mask = mask | (mask >> 16)
        bits, high, low, has_half, half = half_word(high, low, up, down, has_half, half)
        while (bits & mask) > bound:
            bits, high, low, has_half, half = half_word(high, low, up, down, has_half, half)
        j = (bits & mask).astype(np.int64)
        kept = x[i].copy()
        x[i] = x[j]
        x[j] = kept
    keep_state(self, high, low)
    keep_halves(self, has_half, half)


def permutation(self, x, axis=0):
    result = np.arange(x) if np.ndim(x) == 0 else x.copy()
    shuffle(self, result, axis)
    return result


_METHODS = (
    random, uniform, standard_normal, normal, lognormal, standard_exponential, exponential, integers, choice, shuffle,
    permutation,
)  # fmt: skip
METHODS: dict[str, Callable[..., Any]] = {function.__name__: function for function in _METHODS}
"""The methods of a generator by name; each takes the generator first."""
