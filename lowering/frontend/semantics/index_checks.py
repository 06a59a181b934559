"""Checks that indices known at run time only are inside of their axes.

An index is out of bounds where a linear form of the symbols is positive: ``i - n + 1`` for ``a[i]`` of n elements. What
the bounds of the symbols decide needs no check. An index that every iteration of a counted loop evaluates is checked
once before the loop, in its worst iteration; if that one is outside, the loop is skipped, and its accesses need no
clamps:

    for i in range(lower, upper): a[2 * i]   ──►   wrong = upper > lower and 2 * (upper - 1) >= n
                                                   for i in range(lower, lower if wrong else upper): a[2 * i]

Such a check moves out of further loops in the same way. All others are made at each access, which reads or writes
element 0 where its index is outside. The error is raised after the call.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import reduce
from math import prod
from typing import TYPE_CHECKING

from mlirtri.dialect.base.dtypes import DTYPES, DType
from mlirtri.dialect.base.sizes import Size, Symbol
from mlirtri.dialect.bindings.mlir import arith, ir
from mlirtri.dialect.builder import TriValue
from mlirtri.errors import IntegerBoundsError, KernelIndexError
from mlirtri.lowering.frontend.semantics.scf import condition_of
from mlirtri.lowering.frontend.semantics.value_ranges import range_of, tightened

if TYPE_CHECKING:
    from mlirtri.lowering.frontend.semantics.builder import Language
    from mlirtri.lowering.frontend.semantics.storage import Storage

_STRIDED = frozenset({"extract_slice", "slice", "transpose", "flip", "broadcast_to"})
"""Operations whose results may not be contiguous."""


@dataclass(frozen=True)
class Violation:
    """An index that is outside, or an integer that is past a dtype, where all of these linear forms are positive."""

    positive: tuple[Size, ...]
    message: str
    location: ir.Location | None = field(compare=False)
    line: str = ""
    error: type[Exception] = KernelIndexError

    @property
    def never_holds(self) -> bool:
        return any((most := form.most()) is not None and most <= 0 for form in self.positive)

    def simplified(self) -> Violation:
        """Return it without the forms that are positive always, or wherever another one is."""
        kept: list[Size] = []
        for form in self.positive:
            if not any(_is_positive(form - other + 1) for other in (*kept, Size.of(1))):
                kept = [other for other in kept if not _is_positive(other - form + 1)] + [form]
        return replace(self, positive=tuple(kept))


def _is_positive(form: Size) -> bool:
    return (least := form.least()) is not None and least > 0


@dataclass
class CountedLoop:
    """A loop under construction that runs its whole body for each value of its index."""

    operation: ir.Operation
    index: Symbol
    first: Size
    last: Size
    count: Size
    shared: Collection[Storage] = ()
    """The memory that iterations write, if they have no order."""
    violations: dict[Violation, None] = field(default_factory=dict)
    """What to check before the loop."""

    def add(self, violation: Violation) -> bool:
        """Check before the loop whether an iteration violates; False where only the iterations can tell."""
        before = self._before(violation)
        if before is None:
            return False
        if not before.never_holds:
            self.violations[before.simplified()] = None
        return True

    def _before(self, violation: Violation) -> Violation | None:
        """Return the violation by the worst iteration; None if none is the worst for all forms."""
        factors = [dict(form.terms).get(self.index, 0) for form in violation.positive]
        rises, falls = any(f > 0 for f in factors), any(f < 0 for f in factors)
        if rises and falls:
            return None
        worst = self.last if rises else self.first
        index = Size.of(self.index)
        forms = [form + (worst - index) * f for form, f in zip(violation.positive, factors, strict=True)]
        forms.append(self.count)
        if any(is_inside(symbol, self.operation) for form in forms for symbol, _ in form.terms):
            return None
        return replace(violation, positive=tuple(forms))


def is_inside(symbol: Symbol, operation: ir.Operation) -> bool:
    """Return whether a symbol's value is computed in a region of the operation."""
    owner = symbol.value.value.owner
    block = owner if isinstance(owner, ir.Block) else owner.operation.block
    while block is not None:
        around = block.owner.operation
        if around == operation:
            return True
        if around.name == "func.func":
            return False
        block = around.block
    return False


@contextmanager
def counted(
    b: Language,
    index: TriValue,
    operation: ir.Operation,
    first: Size,
    step: int,
    count: Size,
    shared: Collection[Storage] = (),
) -> Iterator[None]:
    """Emit the body of a counted loop inside: its checks that can move before the loop are emitted by `finish`."""
    assert index.linear is not None
    [(symbol, _)] = index.linear.terms
    b.counted_loops.append(CountedLoop(operation, symbol, first, first + (count - 1) * step, count, shared))
    try:
        yield
    except BaseException:
        b.counted_loops.pop()
        raise


def finish(b: Language) -> list[tuple[TriValue, Violation]]:
    """Emit what has to be checked before the loop just completed, and skip it on a violation; return the checks."""
    loop, checks = b.counted_loops.pop(), []
    with ir.InsertionPoint(loop.operation):
        for violation in loop.violations:
            if not _moves_out(b, violation):
                b.tri.location = violation.location
                checks.append((_holds(b, violation.positive), violation))
        if checks:
            wrong = reduce(b.tri.logical_or, [wrong for wrong, _ in checks])
            lower, upper, *_ = loop.operation.operands
            skipped = arith.select(condition_of(wrong, b.tri.location), lower, upper, loc=b.tri.location)
            loop.operation.operands[1] = skipped
    return checks


def _moves_out(b: Language, violation: Violation) -> bool:
    """Return whether a loop around the insertion point checks it.

    Operands of `and` and `or` may not be evaluated, and the interpreter checks at the access.
    """
    around = ir.InsertionPoint.current.block.owner
    if b.guards or b.stops or not b.counted_loops or b.counted_loops[-1].operation != around.operation:
        return False
    return b.counted_loops[-1].add(violation)


def _holds(b: Language, forms: tuple[Size, ...]) -> TriValue:
    """Return whether all forms are positive."""
    if not forms:
        return b.tri.constant(True, DTYPES["bool"])
    zero = b.tri.index(0)
    return reduce(b.tri.logical_and, [b.tri.greater(b.tri.index(form), zero) for form in forms])


def moves_with_loops(b: Language, index: Size) -> bool:
    """Return whether a linear form has the index of a counted loop around."""
    symbols = {symbol for symbol, _ in index.terms}
    return any(loop.index in symbols for loop in b.counted_loops)


def counts_from_the_end(b: Language, index: Size, array: TriValue) -> bool:
    """Return whether an index below 0 counts from the end.

    It does not where iterations without order write the array, at an index that is an unknown offset from theirs: one
    that is below 0 might be another iteration's.
    """
    if array.origin is None or index.least() is not None:
        return True
    symbols = {symbol for symbol, _ in index.terms}
    return not any(loop.index in symbols and array.origin.storage in loop.shared for loop in b.counted_loops)


def checked_index(b: Language, index: Size, limit: Size, message: str, wraps: bool = True) -> Size:
    """Return an index from the start of its axis; a check raises after the call if it is outside.

    One below 0 counts from the end where it `wraps`, and is outside where it does not.
    """
    if b.is_inside:
        return b.indices.inside(index, limit, wraps=False) if index.least() is None else index
    if not b.checks_indices:
        return b.indices.element(index, limit, wraps)
    index = tightened(index)
    lowest = -limit if wraps else Size.of(0)
    forms = [form for form in (index - limit + 1, lowest - index) if (most := form.most()) is None or most > 0]
    violations = [Violation((form,), message, b.tri.location, str(b.tri.location)) for form in forms]
    # Whoever moves one of two checks makes the other at the access, which is then safe anyway.
    if not forms or all([_moves_out(b, violation) for violation in violations]):
        return b.indices.inside(index, limit, wraps)
    above, below = index - limit + 1 in forms, lowest - index in forms
    wrong = _outside(b, b.tri.index(index), limit if above else None, lowest if below else None)
    b.check(wrong, KernelIndexError, message)
    position = b.indices.wrapped(index, limit) if wraps else index
    return b.indices.zero_where(wrong, position, limit)


def check_integer(b: Language, x: TriValue, dtype: DType, bounds: str | None = None) -> None:
    """Raise after the call where a Python int of run time does not fit an integer dtype.

    A `maximum` bounds nothing from below the dtype's integers, and a `minimum` nothing from above.
    """
    if dtype.bits == 64 and not dtype.is_unsigned:
        return
    value, lowest = tightened(b.indices.size_of(x)), 0 if dtype.is_unsigned else -(1 << (dtype.bits - 1))
    highest = lowest + (1 << dtype.bits) - 1
    above, below = (b.tri.greater, value - highest, highest), (b.tri.less, lowest - value, lowest)
    sides = [below] if dtype.bits == 64 else {"maximum": [above], "minimum": [below]}.get(bounds or "", [above, below])
    sides = [side for side in sides if (most := side[1].most()) is None or most > 0]
    message = f"a Python int does not fit {dtype}"
    where = b.tri.location
    violations = [Violation((form,), message, where, str(where), IntegerBoundsError) for _, form, _ in sides]
    if sides and not all([_moves_out(b, violation) for violation in violations]):
        number = b.tri.index(value)
        wrong = reduce(b.tri.logical_or, [compare(number, b.tri.index(limit)) for compare, _, limit in sides])
        b.check(wrong, IntegerBoundsError, message)


def _outside(b: Language, index: TriValue, limit: Size | None, lowest: Size | None) -> TriValue:
    """Compare an index with those of its limits that are given: a form that LLVM makes one comparison of."""
    sides = [] if limit is None else [b.tri.greater_equal(index, b.tri.index(limit))]
    sides += [] if lowest is None else [b.tri.less(index, b.tri.index(lowest))]
    return reduce(b.tri.logical_or, sides)


def check_indices(b: Language, indices: TriValue, size: int | Size, wraps: bool = True) -> None:
    """Raise after the call where an int64 index of an axis is outside; `wraps` says that -1 is the last one."""
    least, known = Size.of(size).least() or 0, range_of(indices)
    is_inside = known is not None and known[1] < least and known[0] >= (-least if wraps else 0)
    if not b.checks_indices or is_inside or 0 in indices.type.shape:
        return
    # ``a[p] += x`` reads and writes.
    check = (indices.value, size, wraps, ir.InsertionPoint.current.block)
    if check in b.indices.checked:
        return
    if not b.guards and not b.is_muted:
        b.indices.checked.add(check)
    highest = lowest = indices
    if indices.type.rank and indices.type.is_static:
        # Extrema are vector code. Arrays of run-time length, which may be short or empty, take one loop.
        flat = _flat(b, indices)
        axes = tuple(range(flat.type.rank))
        highest, lowest = (reduced(flat, axes=axes, keepdims=False) for reduced in (b.tri.max, b.tri.min))
    wrong = b.tri.logical_or(
        b.tri.greater_equal(highest, b.tri.index(size)), b.tri.less(lowest, b.tri.index(-Size.of(size) if wraps else 0))
    )
    b.check(wrong, KernelIndexError, f"a position is out of bounds for an axis of size {size}")


def _flat(b: Language, x: TriValue) -> TriValue:
    """Return a static array as one axis, which is one long loop, where that does not copy it."""
    owner = x.value.owner
    is_view = not isinstance(owner, ir.Block) and owner.operation.name.removeprefix("tri.") in _STRIDED
    return x if is_view or x.type.rank < 2 else b.tri.reshape(x, shape=(prod(map(int, x.type.shape)),))
