"""`numpy.random.Generator` in the kernel language: PCG64 and the distributions that draw NumPy's numbers from it.

Python never runs the functions of this file but `seeded_state`. A generator is an array of six uint64: the state's high
and low half, the increment's, whether half a word is left, and that half. Numbers are NumPy's for the same seed and
the same order of calls, up to the rounding of ``log1p`` in tails. Methods: PCG64 XSL-RR 128/64 (M. O'Neill, PCG, 2014);
integers in a range (D. Lemire, Fast random integer generation in an interval, 2019); ziggurats, see `random_tables.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mlirtri.dialect.base.dtypes import find_dtype
from mlirtri.lowering.frontend.language.linear_algebra import refuse
from mlirtri.lowering.frontend.language.random_tables import MULTIPLIER
from mlirtri.lowering.frontend.language.random_tables import exponential as exponential_layers
from mlirtri.lowering.frontend.language.random_tables import normal as normal_layers

HALF = (1 << 32) - 1
WORD = (1 << 64) - 1
UNIT = 2.0**-53


class Generator(NamedTuple):
    """A generator in a kernel: the array that holds its state."""

    state: Any


def require_value(condition: Any, message: str) -> None:
    """Raise `ValueError` with the message after the call if the condition was false."""


require_value.__mlirtri_name__ = "mlirtri.require_value"  # type: ignore[attr-defined]


def seeded_state(seed: Any) -> tuple[int, ...] | None:
    """Return the state of `numpy.random.default_rng(seed)` for a seed known at compile time; None for any other."""
    is_known = isinstance(seed, int) or (isinstance(seed, (tuple, list)) and all(isinstance(x, int) for x in seed))
    if not is_known:
        return None
    state: Any = np.random.PCG64(seed).state["state"]
    return tuple(part for number in (state["state"], state["inc"]) for part in (number >> 64, number & WORD))


def is_generator(value: Any) -> bool:
    return isinstance(value, Generator)


def is_wide_integer(dtype: Any) -> bool:
    kind = find_dtype(dtype)
    return kind is not None and kind.is_integer and kind.bits >= 32


COMPILE_TIME = (Generator, seeded_state, is_generator, is_wide_integer, normal_layers, exponential_layers)
"""What Python runs while a kernel compiles: it takes and gives values known then, and tuples of tensors."""


# --- PCG64 ---------------------------------------------------------------------------------------------------------


def product(x, y):
    """Return the high and the low word of a product of two words."""
    x_high, x_low, y_high, y_low = x >> 32, x & HALF, y >> 32, y & HALF
    inner, outer = x_high * y_low, x_low * y_high
    middle = ((x_low * y_low) >> 32) + (inner & HALF) + (outer & HALF)
    return x_high * y_high + (inner >> 32) + (outer >> 32) + (middle >> 32), x * y


def stepped(high, low, up, down):
    """Return the next state: ``state * MULTIPLIER + increment`` modulo 2**128."""
    product_high, product_low = product(low, np.uint64(MULTIPLIER & WORD))
    next_low = product_low + down
    carry = (next_low < product_low).astype(np.uint64)
    next_high = product_high + high * (MULTIPLIER & WORD) + low * (MULTIPLIER >> 64) + up + carry
    return next_high, next_low


def output(high, low):
    """Return the word of a state: its halves xored and rotated by its six highest bits."""
    mixed, count = high ^ low, high >> 58
    return (mixed >> count) | (mixed << ((64 - count) & 63))


def half_word(high, low, up, down, has_half, half):
    """Return 32 bits and what is left: the low half of a word, and at the next call its high half."""
    bits = half
    if has_half == 0:
        high, low = stepped(high, low, up, down)
        word = output(high, low)
        bits, half = word & HALF, word >> 32
    return bits, high, low, 1 - has_half, half


# --- seeds ---------------------------------------------------------------------------------------------------------


def hashed(value, constant, factor):
    value = value ^ np.uint32(constant)
    value = value * np.uint32(constant * factor & HALF)
    return value ^ (value >> 16)


def mixed_words(x, y):
    result = x * np.uint32(0xCA01F9DD) - y * np.uint32(0x4973F715)
    return result ^ (result >> 16)


def pool_of(seed):
    """Return the pool of four words of `numpy.random.SeedSequence` (M. O'Neill, Developing a seed_seq, 2015)."""
    constant = 0x43B0D7E5
    pool = []
    words = [seed.astype(np.uint32), (seed >> 32).astype(np.uint32), np.uint32(0), np.uint32(0)]
    for i in range(4):
        pool = [*pool, hashed(words[i], constant, 0x931E8875)]
        constant = constant * 0x931E8875 & HALF
    for i in range(4):
        for j in range(4):
            if i != j:
                mixed = mixed_words(pool[j], hashed(pool[i], constant, 0x931E8875))
                pool = [*pool[:j], mixed, *pool[j + 1 :]]
                constant = constant * 0x931E8875 & HALF
    return pool


def seeded_at_run_time(seed):
    """Return the state that PCG64 has for an integer of run time."""
    if not seed.dtype.is_integer or seed.ndim != 0:
        refuse("a seed is an integer")
    require_value(seed >= 0, "expected non-negative integer")
    pool, words = pool_of(seed.astype(np.uint64)), []
    constant = 0x8B51F9DD
    for i in range(8):
        words = [*words, hashed(pool[i % 4], constant, 0x58F38DED).astype(np.uint64)]
        constant = constant * 0x58F38DED & HALF
    high, low, first, second = [words[2 * i] | (words[2 * i + 1] << 32) for i in range(4)]
    up, down = (first << 1) | (second >> 63), (second << 1) | 1
    # A step from zero gives the increment.
    sum_low = low + down
    carry = (sum_low < low).astype(np.uint64)
    high, low = stepped(high + up + carry, sum_low, up, down)
    return high, low, up, down


def default_rng(seed=None):
    if seed is None:
        refuse("a kernel gives the same result for the same arguments: give it a seed")
    if is_generator(seed):
        return seed
    known = seeded_state(seed)
    state = np.zeros(6, np.uint64)
    if known is not None:
        high, low, up, down = [np.uint64(part) for part in known]
    else:
        high, low, up, down = seeded_at_run_time(np.asarray(seed))
    state[0], state[1], state[2], state[3] = high, low, up, down
    return Generator(state)


# --- floats --------------------------------------------------------------------------------------------------------


def filled(generator, size, draw):
    """Return one number or an array of `size`, in float64, each drawn by `draw`."""
    state = generator.state
    high, low, up, down = state[0], state[1], state[2], state[3]
    if size is None:
        value, high, low = draw(high, low, up, down)
        state[0], state[1] = high, low
        return value
    values = np.empty(size)
    flat = values.reshape(-1)
    for i in range(flat.shape[0]):
        value, high, low = draw(high, low, up, down)
        flat[i] = value
    state[0], state[1] = high, low
    return values


def unit(high, low, up, down):
    """Draw a number in [0, 1) of 53 bits."""
    high, low = stepped(high, low, up, down)
    return (output(high, low) >> 11).astype(np.float64) * UNIT, high, low


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
    state = self.state
    high, low, up, down, has_half, half = state[0], state[1], state[2], state[3], state[4], state[5]
    values = np.empty(1 if size is None else size, np.float32)
    flat = values.reshape(-1)
    for i in range(flat.shape[0]):
        bits, high, low, has_half, half = half_word(high, low, up, down, has_half, half)
        flat[i] = (bits >> 8).astype(np.float32) * np.float32(2.0**-24)
    state[0], state[1], state[4], state[5] = high, low, has_half, half
    return values[0].astype(np.float64) if size is None else values


def uniform(self, low=0.0, high=1.0, size=None):
    size = common_size(size, low, high)
    return low + (high - low) * filled(self, size, unit)


def standard_normal(self, size=None, dtype=np.float64):
    if dtype != np.float64:
        refuse("its dtype is float64: cast the result with astype")
    return filled(self, size, normal_number)


def normal(self, loc=0.0, scale=1.0, size=None):
    size = common_size(size, loc, scale)
    require_value(np.all(np.asarray(scale) >= 0), "scale < 0")
    return loc + scale * filled(self, size, normal_number)


def lognormal(self, mean=0.0, sigma=1.0, size=None):
    return np.exp(normal(self, mean, sigma, size))


def standard_exponential(self, size=None, dtype=np.float64):
    if dtype != np.float64:
        refuse("its dtype is float64: cast the result with astype")
    return filled(self, size, exponential_number)


def exponential(self, scale=1.0, size=None):
    size = common_size(size, scale, 0.0)
    require_value(np.all(np.asarray(scale) >= 0), "scale < 0")
    return scale * filled(self, size, exponential_number)


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
    state = generator.state
    high, low, up, down, has_half, half = state[0], state[1], state[2], state[3], state[4], state[5]
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
    state[0], state[1], state[4], state[5] = high, low, has_half, half


def integers(self, low, high=None, size=None, dtype=np.int64, endpoint=False):
    if not is_wide_integer(dtype):
        refuse("it draws integers of 32 and 64 bits: cast the result with astype")
    if np.ndim(low) != 0 or (high is not None and np.ndim(high) != 0):
        refuse("the bounds are numbers, not arrays")
    first, last = (0, low) if high is None else (low, high)
    last = last if endpoint else last - 1
    require_value(first <= last, "low >= high")
    bound = (np.asarray(last) - first).astype(np.uint64)
    words = np.zeros(() if size is None else size, np.uint64)
    fill_below(self, words.reshape(-1), bound)
    values = (words + np.asarray(first).astype(np.uint64)).astype(dtype)
    return values[()] if size is None else values


def choice(self, a, size=None, replace=True, p=None, axis=0):
    if not replace:
        refuse("replace=False is not supported: take the first of permutation(a)")
    population = np.arange(a) if np.ndim(a) == 0 else a
    count = population.shape[axis]
    if p is None:
        positions = integers(self, 0, count, size)
    else:
        cumulated = np.cumsum(p)
        positions = np.searchsorted(cumulated / cumulated[-1], random(self, size), side="right")
    return np.take(population, positions, axis)


def shuffle(self, x, axis=0):
    if axis != 0:
        refuse("it shuffles the first axis: transpose the array before")
    state = self.state
    high, low, up, down, has_half, half = state[0], state[1], state[2], state[3], state[4], state[5]
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
    state[0], state[1], state[4], state[5] = high, low, has_half, half


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
FUNCTIONS: dict[str, Callable[..., Any]] = {"numpy.random.default_rng": default_rng}
"""Inlined library functions by qualified name."""
