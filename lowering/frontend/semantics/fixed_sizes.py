"""Sizes that the sizes of the arguments alone decide: computed once, before the body of the function.

Products are polynomials: the symbol ``M*N`` is the same for ``M * N`` and ``N * M``, so that a reshape of ``(M, N)`` to
``(N * M,)`` has the same number of elements.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager

from mlirtri.dialect.base.sizes import Size, Symbol
from mlirtri.dialect.bindings.mlir import ir
from mlirtri.dialect.builder import TriBuilder, TriValue

NewSymbol = Callable[[TriValue, str, Size | None, Size | None], Symbol]
_SIGNS = {"floor_divide": "//", "multiply": "*"}


class FixedSizes:
    """The prologue of a function: its symbols, each computed once."""

    def __init__(self, b: TriBuilder, new_symbol: NewSymbol):
        self.b = b
        self.new_symbol = new_symbol
        self.end: ir.Operation | None = None
        """The operation before which the prologue ends; None in a function whose arguments have static sizes."""
        self.is_open = False
        """Whether operations are emitted in the prologue now."""
        self._known: dict[Hashable, Size] = {}
        self._factors: dict[Symbol, tuple[Symbol, ...]] = {}
        """The symbols that a product multiplies, in their order."""

    def has(self, *sizes: Size) -> bool:
        """Return whether the sizes of the arguments decide all of these."""
        return self.end is not None and all(size.is_fixed for size in sizes)

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Emit what is emitted inside in the prologue."""
        before, self.is_open = self.is_open, True
        try:
            with ir.InsertionPoint(self.end):
                yield
        finally:
            self.is_open = before

    def computed(
        self,
        name: str,
        operands: tuple[Size, ...],
        emit: Callable[[], TriValue],
        bounds: tuple[Size | None, Size | None],
    ) -> Size:
        """Return the size that an operation computes from fixed ones; `emit` is called the first time."""
        key = (name, operands)
        if key not in self._known:
            with self.opened():
                self._known[key] = Size.of(self.new_symbol(emit(), _shown(name, operands), *bounds))
        return self._known[key]

    def product(self, x: Size, y: Size) -> Size:
        """Return the product of two fixed sizes, multiplied out."""
        result = x * y.constant + y * x.constant - x.constant * y.constant
        for left, factor in x.terms:
            for right, other in y.terms:
                result = result + self._product(left, right) * (factor * other)
        return result

    def _product(self, x: Symbol, y: Symbol) -> Size:
        parts = tuple(sorted((*self.factors(x), *self.factors(y)), key=lambda s: (s.order, str(s.key))))
        *first, last = parts
        before = self._of(tuple(first))
        is_positive = all((low := Size.of(part).least()) is not None and low >= 0 for part in parts)
        size = self.computed(
            "multiply", tuple(map(Size.of, parts)),
            lambda: self.b.multiply(self.b.index(before), self.b.index(Size.of(last))),
            (Size.of(0) if is_positive else None, None),
        )  # fmt: skip
        [(symbol, _)] = size.terms
        self._factors[symbol] = parts
        return size

    def _of(self, parts: tuple[Symbol, ...]) -> Size:
        size = Size.of(parts[0])
        for part in parts[1:]:
            size = self.product(size, Size.of(part))
        return size

    def factors(self, symbol: Symbol) -> tuple[Symbol, ...]:
        """Return the symbols whose product a symbol is."""
        return self._factors.get(symbol, (symbol,))

    def quotient(self, x: Size, divisor: Size) -> Size | None:
        """Return `x` divided by a size of one term, where that is known to leave no remainder; else None."""
        if divisor.is_constant:
            return _divided(x, divisor.constant)
        if len(divisor.terms) != 1 or divisor.constant:
            return None
        [(symbol, factor)] = divisor.terms
        if (scaled := _divided(x, factor)) is None or scaled.constant:
            return None
        result = Size()
        for term, count in scaled.terms:
            rest = list(self.factors(term))
            for part in self.factors(symbol):
                if part not in rest:
                    return None
                rest.remove(part)
            result = result + (self._of(tuple(rest)) * count if rest else Size.of(count))
        return result


def _divided(x: Size, divisor: int) -> Size | None:
    if divisor == 0 or x.constant % divisor or any(factor % divisor for _, factor in x.terms):
        return None
    return Size(tuple((symbol, factor // divisor) for symbol, factor in x.terms), x.constant // divisor)


def _shown(name: str, operands: tuple[Size, ...]) -> str:
    if name in _SIGNS:
        parts = [f"({size})" if len(size.terms) + bool(size.constant) > 1 else str(size) for size in operands]
        return _SIGNS[name].join(parts)
    return f"{name}({', '.join(map(str, operands))})"
