"""Tables of NumPy's ziggurats: how wide the layers under the normal and the exponential density are, and how high.

The widths are read from NumPy, so that a kernel rounds as NumPy does: a generator is set to the state before a word
that selects a layer and a power of two in it, and the number drawn from it is that power times the layer's width.
Method: G. Marsaglia and W. Tsang, The ziggurat method for generating random variables (2000), with 256 layers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import exp
from typing import Any, NamedTuple

import numpy as np

MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645
"""The multiplier of the linear congruential generator in NumPy's PCG64.

Source: M. O'Neill, PCG: A family of simple fast space-efficient statistically good algorithms (2014).
"""
STATES = 1 << 128
"""The number of states of PCG64: the modulus of its generator."""
LAYERS = 256
POSITION = 1 << 40
"""A power of two that every layer accepts without a test, but the one at the mode, which rejects it almost never."""


class Ziggurat(NamedTuple):
    """The layers of a density: width of a unit of position, positions accepted at once, height of both edges."""

    widths: tuple[float, ...]
    limits: tuple[int, ...]
    heights: tuple[float, ...]
    heights_before: tuple[float, ...]


def state_before(word: int, increment: int) -> int:
    """Return the state of PCG64 whose next word is `word`.

    PCG64 steps first, then puts out high ^ low of the new state, rotated by its top 6 bits. With high = 0 that is low.
    """
    return (word - increment) * pow(MULTIPLIER, -1, STATES) % STATES


def _drawn(word: int, draw: Callable[[np.random.Generator], float]) -> float:
    """Return the number that NumPy draws when the next word is `word`."""
    bits = np.random.PCG64(0)
    state: Any = bits.state
    state["state"]["state"] = state_before(word, state["state"]["inc"])
    bits.state = state
    return abs(draw(np.random.Generator(bits)))


def _ziggurat(
    word: Callable[[int], int],
    draw: Callable[[np.random.Generator], float],
    bits: int,
    density: Callable[[float], float],
) -> Ziggurat:
    widths = [_drawn(word(layer), draw) / POSITION for layer in range(LAYERS)]
    edges = [width * 2.0**bits for width in widths]
    # Layer 0 is the base with the tail, as wide as a rectangle of the same area.
    # Layer 1 is at the mode, has no narrower layer above it, and tests each position.
    limits = [int(edges[-1] / edges[0] * 2.0**bits), 0]
    limits += [int(edges[layer - 1] / edges[layer] * 2.0**bits) for layer in range(2, LAYERS)]
    heights = [1.0, *(density(edge) for edge in edges[1:])]
    return Ziggurat(tuple(widths), tuple(limits), tuple(heights), (0.0, *heights[:-1]))


@cache
def normal() -> Ziggurat:
    """Return the layers of ``exp(-x² / 2)``; a word is 8 bits of layer, a sign, and 52 bits of position."""
    return _ziggurat(
        lambda layer: layer | POSITION << 9,
        lambda generator: generator.standard_normal(),
        52,
        lambda x: exp(-x * x / 2),
    )


@cache
def exponential() -> Ziggurat:
    """Return the layers of ``exp(-x)``; a word is 3 unused bits, 8 bits of layer, and 53 bits of position."""
    return _ziggurat(
        lambda layer: layer << 3 | POSITION << 11,
        lambda generator: generator.standard_exponential(),
        53,
        lambda x: exp(-x),
    )
