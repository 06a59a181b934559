"""Sizes known only at run time: linear in named symbols, with bounds, so that equal ones are seen to be equal.

`A[i, i + 1:]` of a 100x100 array has the size ``99 - i``; a slice of another array with that size fits it, and since
``i`` lies between 0 and 99 it is never negative. Whatever cannot be shown stays a question for run time.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Symbol:
    """An integer of run time. `key` says which one it is; bounds are inclusive, and may use earlier symbols."""

    key: Hashable
    name: str = field(compare=False)
    lower: Size | None = field(default=None, compare=False)
    upper: Size | None = field(default=None, compare=False)
    value: Any = field(default=None, compare=False, repr=False)
    """What it is in the IR under construction."""
    order: int = field(default=0, compare=False)
    """A symbol's bounds use symbols of lower order only."""


@dataclass(frozen=True)
class Size:
    """``constant + Σ factor * symbol``; terms are sorted by the symbols' order, no factor is 0."""

    terms: tuple[tuple[Symbol, int], ...] = ()
    constant: int = 0

    @staticmethod
    def of(value: int | Symbol | Size) -> Size:
        if isinstance(value, Size):
            return value
        return Size(((value, 1),)) if isinstance(value, Symbol) else Size((), int(value))

    @property
    def is_constant(self) -> bool:
        return not self.terms

    def simplified(self) -> int | Size:
        """The int that a constant is."""
        return self.constant if self.is_constant else self

    def __add__(self, other: int | Size) -> Size:
        other = Size.of(other)
        factors: dict[Symbol, int] = dict(self.terms)
        for symbol, factor in other.terms:
            factors[symbol] = factors.get(symbol, 0) + factor
        terms = sorted(((s, f) for s, f in factors.items() if f), key=lambda term: (term[0].order, str(term[0].key)))
        return Size(tuple(terms), self.constant + other.constant)

    def __mul__(self, factor: int) -> Size:
        return Size(tuple((s, f * factor) for s, f in self.terms) if factor else (), self.constant * factor)

    __radd__ = __add__
    __rmul__ = __mul__

    def __neg__(self) -> Size:
        return self * -1

    def __sub__(self, other: int | Size) -> Size:
        return self + Size.of(other) * -1

    def __rsub__(self, other: int) -> Size:
        return Size.of(other) - self

    def least(self) -> int | None:
        """A number that it never falls below, or None."""
        return self._extreme(1)

    def most(self) -> int | None:
        """A number that it never exceeds, or None."""
        return self._extreme(-1)

    def _extreme(self, sign: int) -> int | None:
        """Replace symbols by their bounds, the latest first, since its bounds speak of earlier ones."""
        size = self
        while size.terms:
            symbol, factor = size.terms[-1]
            bound = symbol.lower if factor * sign > 0 else symbol.upper
            if bound is None:
                return None
            size = size - Size(((symbol, factor),)) + Size.of(bound) * factor
        return size.constant

    def __str__(self) -> str:
        parts = []
        for symbol, factor in self.terms:
            sign = "-" if factor < 0 else "+"
            parts += [sign, symbol.name if abs(factor) == 1 else f"{abs(factor)}*{symbol.name}"]
        if self.constant or not parts:
            parts += ["-" if self.constant < 0 else "+", str(abs(self.constant))]
        text = " ".join(parts).removeprefix("+ ")
        return "-" + text[2:] if text.startswith("- ") else text


UNKNOWN = Size(((Symbol("?", "?"), 1),))
"""What ``?`` in IR text stands for: a size that says nothing of itself. Where two meet on one axis they are equal."""


DYNAMIC = -(1 << 63)
"""MLIR's marker of an unknown number in an attribute of sizes or offsets: an operand has it."""


def is_dynamic(size: int | Size) -> bool:
    return isinstance(size, Size)


def shape_of(numbers: Iterable[int | Size]) -> tuple[int | Size, ...]:
    """An attribute of sizes or offsets as a shape has it: `DYNAMIC` is a size that says nothing of itself."""
    return tuple(UNKNOWN if number == DYNAMIC else number for number in numbers)


def total(sizes: Iterable[int | Size]) -> int | Size:
    """The sum of sizes; it says nothing of itself when one of them does not."""
    sizes = tuple(sizes)
    return UNKNOWN if UNKNOWN in sizes else Size.of(sum(sizes)).simplified()


def fits(size: int | Size, other: int | Size) -> bool:
    """Whether two sizes are the same, as far as the IR says."""
    return size == other or UNKNOWN in (size, other)
