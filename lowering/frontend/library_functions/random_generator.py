"""The generator of `numpy.random.default_rng` in the kernel language: seeds, states, and words of 32 and 64 bits.

A generator is an array of six uint64: the state's high and low half, the increment's, whether half a word is left, and
that half. Words are NumPy's for the same seed. Methods: PCG64 XSL-RR 128/64 (M. O'Neill, PCG: A family of simple fast
space-efficient statistically good algorithms, 2014); seeds (M. O'Neill, Developing a seed_seq alternative, 2015).
Python never runs the functions, but those of `COMPILE_TIME`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mlirtri.errors import KernelValueError
from mlirtri.lowering.frontend.library_functions.linear_algebra import refuse
from mlirtri.lowering.frontend.library_functions.ziggurat_tables import MULTIPLIER

HALF = (1 << 32) - 1
WORD = (1 << 64) - 1


class Generator(NamedTuple):
    """A generator in a kernel: the array that holds its state."""

    state: Any

    @property
    def described(self) -> str:
        """Return what error messages call it."""
        return "a random generator"


def require_value(condition: Any, message: str) -> None:
    """Raise `ValueError` with the message after the call if the condition was false."""


require_value.__mlirtri_name__ = "mlirtri.require_value"  # type: ignore[attr-defined]


def seeded_state(seed: Any) -> tuple[int, ...] | None:
    """Return the state of `numpy.random.default_rng(seed)` for a seed known at compile time; None for any other.

    Raises `KernelValueError` for negative numbers, as NumPy.
    """
    parts = seed if isinstance(seed, (tuple, list)) else (seed,)
    if not all(isinstance(part, int) for part in parts):
        return None
    if any(part < 0 for part in parts):
        raise KernelValueError("expected non-negative integer")
    state: Any = np.random.PCG64(seed).state["state"]
    return tuple(part for number in (state["state"], state["inc"]) for part in (number >> 64, number & WORD))


def is_generator(value: Any) -> bool:
    return isinstance(value, Generator)


COMPILE_TIME = (Generator, seeded_state, is_generator)
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


def state_of(generator):
    """Return the halves of the state and of the increment."""
    state = generator.state
    return state[0], state[1], state[2], state[3]


def halves_of(generator):
    """Return whether half a word is left, and that half."""
    return generator.state[4], generator.state[5]


def keep_state(generator, high, low):
    generator.state[0] = high
    generator.state[1] = low


def keep_halves(generator, has_half, half):
    generator.state[4] = has_half
    generator.state[5] = half


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
    """Return the pool of four words of `numpy.random.SeedSequence`."""
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
    generator = Generator(state)
    state[2], state[3] = up, down
    keep_state(generator, high, low)
    return generator


FUNCTIONS: dict[str, Any] = {"numpy.random.default_rng": default_rng}
"""Inlined library functions by qualified name."""
