"""Sizes known only at run time, as linear expressions of bounded symbols: equal sizes compare equal.

`A[i, i + 1:]` of a 100x100 array has the size ``99 - i``; a slice of another array with that size fits it, and since
``i`` lies between 0 and 99 it is never negative. What cannot be proved is checked at run time.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any

from mlirtri.errors import KernelTypeError


@dataclass(frozen=True)
class Symbol:
    """A run-time integer. Symbols with equal `key` are equal; bounds are inclusive and use earlier symbols."""

    key: Hashable
    name: str = field(compare=False)
    lower: Size | None = field(default=None, compare=False)
    upper: Size | None = field(default=None, compare=False)
    value: Any = field(default=None, compare=False, repr=False)
    """The SSA value in the IR under construction."""
    order: int = field(default=0, compare=False)
    """Bounds of a symbol use symbols of lower order only."""
    takes_all: bool = field(default=False, compare=False)
    """Whether it is a loop's index that takes each value between its bounds, which are constants."""
    is_fixed: bool = field(default=False, compare=False)
    """Whether the sizes of the arguments alone decide its value, which exists before the function's body."""


@dataclass(frozen=True)
class Size:
    """``constant + Σ factor * symbol``; terms are sorted by the symbols' order, no factor is 0."""

    terms: tuple[tuple[Symbol, int], ...] = ()
    constant: int = 0

    @staticmethod
    def of(value: int | Symbol | Size) -> Size:
        """Return an int or a symbol as a size."""
        if isinstance(value, Size):
            return value
        return Size(((value, 1),)) if isinstance(value, Symbol) else Size((), int(value))

    @property
    def is_constant(self) -> bool:
        return not self.terms

    def simplified(self) -> int | Size:
        """Return the int of a constant size, else the size itself."""
        return self.constant if self.is_constant else self

    def __add__(self, other: int | Size) -> Size:
        other = Size.of(other)
        factors: dict[Symbol, int] = dict(self.terms)
        for symbol, factor in other.terms:
            factors[symbol] = factors.get(symbol, 0) + factor
        terms = sorted(((s, f) for s, f in factors.items() if f), key=lambda term: (term[0].order, str(term[0].key)))
        return Size(tuple(terms), self.constant + other.constant)

    def __mul__(self, factor: int | Size) -> Size:
        if isinstance(factor, Size):
            if self.is_constant:
                return factor * self.constant
            factor = factor.constant if factor.is_constant else int(self._refuse())
        times = factor
        return Size(tuple((s, f * times) for s, f in self.terms) if times else (), self.constant * times)

    __radd__ = __add__
    __rmul__ = __mul__

    def __neg__(self) -> Size:
        return self * -1

    def __sub__(self, other: int | Size) -> Size:
        return self + Size.of(other) * -1

    def __rsub__(self, other: int) -> Size:
        return Size.of(other) - self

    def _refuse(self, *_: Any) -> Any:
        raise KernelTypeError(
            f"this needs a size that is known at compile time, and {self} is known at run time only",
            help="annotate that size with int",
        )

    __lt__ = __le__ = __gt__ = __ge__ = __abs__ = __truediv__ = __rtruediv__ = _refuse
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __divmod__ = __rdivmod__ = __pow__ = __rpow__ = _refuse

    def least(self) -> int | None:
        """Return a lower bound, or None where a symbol has none."""
        return self._extreme(1)

    def most(self) -> int | None:
        """Return an upper bound, or None where a symbol has none."""
        return self._extreme(-1)

    @property
    def is_fixed(self) -> bool:
        """Return whether the sizes of the arguments alone decide the size."""
        return all(symbol.is_fixed for symbol, _ in self.terms)

    def most_fixed(self) -> Size | None:
        """Return an upper bound that the sizes of the arguments alone decide, or None where a symbol has none."""
        size = self
        while moving := [(symbol, factor) for symbol, factor in size.terms if not symbol.is_fixed]:
            symbol, factor = moving[-1]
            bound = symbol.upper if factor > 0 else symbol.lower
            if bound is None:
                return None
            size = size.replaced(symbol, bound)
        return size

    def replaced(self, symbol: Symbol, value: int | Size) -> Size:
        """Return the size with `value` in place of a symbol."""
        factor = dict(self.terms).get(symbol, 0)
        return self - Size(((symbol, factor),)) + Size.of(value) * factor

    def without_values(self) -> Size:
        """Return the size in symbols that refer to no SSA value and no bounds."""
        bare = ((Symbol(symbol.key, symbol.name, is_fixed=symbol.is_fixed), factor) for symbol, factor in self.terms)
        return Size(tuple(bare), self.constant)

    @property
    def takes_extremes(self) -> bool:
        """Return whether `least` and `most` are values that the size has in some iteration."""
        return all(symbol.takes_all for symbol, _ in self.terms)

    def _extreme(self, sign: int) -> int | None:
        """Replace symbols by their bounds, the latest first, since its bounds use earlier ones."""
        size = self
        while size.terms:
            symbol, factor = size.terms[-1]
            bound = symbol.lower if factor * sign > 0 else symbol.upper
            if bound is None:
                return None
            size = size.replaced(symbol, bound)
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
"""The size ``?`` of IR text, of which nothing is known. Two of them on one axis are assumed equal."""


DYNAMIC = -(1 << 63)
"""MLIR's ``kDynamic`` in an attribute of sizes or offsets: an operand holds the value."""


def is_dynamic(size: int | Size) -> bool:
    """Return whether a size is known at run time only."""
    return isinstance(size, Size)


def is_negative(size: int | Size) -> bool:
    """Return whether a size known at compile time is below 0."""
    return not isinstance(size, Size) and size < 0


def shape_of(sizes: Iterable[int | Size]) -> tuple[int | Size, ...]:
    """Return an attribute of sizes or offsets as a shape, with `UNKNOWN` for `DYNAMIC`."""
    return tuple(UNKNOWN if size == DYNAMIC else size for size in sizes)


def sum_of(sizes: Iterable[int | Size]) -> int | Size:
    """Return the sum of sizes; `UNKNOWN` where one of them is."""
    sizes = tuple(sizes)
    return UNKNOWN if UNKNOWN in sizes else Size.of(sum(sizes)).simplified()


def fits(size: int | Size, other: int | Size) -> bool:
    """Return whether two sizes may be equal: they are the same, or one is `UNKNOWN`."""
    return size == other or UNKNOWN in (size, other)
