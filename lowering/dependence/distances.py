"""Compute dependence distances: the numbers of iterations between two accesses of the same element.

Access A of iteration I and access B of iteration I + d touch a common element where their intervals overlap on each
axis. With equal coefficients c of the induction variable, intervals of m and n indices that begin at c I + p and at
c I' + q overlap where ``-m < c d + q - p < n`` (the single-index test of Allen and Kennedy, *Optimizing Compilers for
Modern Architectures*, 3.3, for intervals). An axis that says nothing allows every distance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mlirtri.dialect.base.sizes import Size, Symbol
from mlirtri.dialect.bindings.mlir import ir
from mlirtri.lowering.dependence.accesses import Access, Interval
from mlirtri.lowering.dependence.congruences import are_contradictory
from mlirtri.lowering.dependence.extents import never_overlap
from mlirtri.lowering.dependence.index_forms import IndexForms
from mlirtri.lowering.dependence.symbolic_strides import are_apart

Region = tuple[Interval, ...]


@dataclass(frozen=True)
class Distances:
    """The iterations from `least` to `most` apart, of which only multiples of the loop's step exist; None: no limit."""

    least: int | None = None
    most: int | None = None

    def intersected(self, other: Distances) -> Distances:
        """Return the distances that both allow."""
        least = [bound for bound in (self.least, other.least) if bound is not None]
        most = [bound for bound in (self.most, other.most) if bound is not None]
        return Distances(max(least, default=None), min(most, default=None))

    def nearest(self, step: int) -> int | None:
        """Return the multiple of `step` in the interval that is nearest to 0 and not 0; None if there is none."""
        candidates = [self._first(step, 1), self._first(step, -1)]
        known = [distance for distance in candidates if distance is not None]
        return min(known, key=abs, default=None)

    def _first(self, step: int, sign: int) -> int | None:
        near, far = (self.least, self.most) if sign > 0 else (self.most, self.least)
        first = step if near is None else max(step, -(-sign * near // step) * step)
        return sign * first if far is None or first <= sign * far else None


ALL: Final = Distances()
NONE: Final = Distances(1, 0)


@dataclass(frozen=True)
class LoopBounds:
    """The induction variable of a loop, its step, and the values between which it runs where they are constants."""

    variable: Symbol
    step: int
    extent: int | None
    """The difference of upper and lower bound."""


def bounds_of(loop: ir.Operation, forms: IndexForms) -> LoopBounds:
    """Return the bounds of an `scf.for`, whose step is a constant. One of 0, which a check refuses, counts as 1."""
    lower, upper, step = (forms.of(operand) for operand in list(loop.operands)[:3])
    extent = upper - lower
    return LoopBounds(forms.induction_variable(), step.constant or 1, extent.constant if extent.is_constant else None)


def distance(first: Access, second: Access, bounds: LoopBounds, forms: IndexForms) -> int | None:
    """Return a number of iterations after which `second` touches an element of `first`; None if no iteration does.

    Of several the nearest. The unit is the induction variable's, so that a step of 2 gives 2.
    """
    limit = None if bounds.extent is None else max(0, bounds.extent - 1)
    distances = Distances(None if limit is None else -limit, limit)
    if first.region is not None and second.region is not None:
        if are_contradictory(first, second, forms):
            return None
        if any(_is_ticket(axis, first.region, second.region, forms) for axis in range(len(first.region))):
            return None
        if any(are_apart(first, second, axis, bounds.variable, forms) for axis in range(len(first.region))):
            return None
        for here, there in zip(first.region, second.region, strict=True):
            distances = distances.intersected(_on_axis(here, there, bounds.variable, forms))
    if distances.least is not None and distances.most is not None and distances.least > distances.most:
        return None
    return distances.nearest(bounds.step)


def _on_axis(here: Interval, there: Interval, variable: Symbol, forms: IndexForms) -> Distances:
    if never_overlap(here, there, forms):
        return NONE
    mine, theirs = _spread(here, variable, forms), _spread(there, variable, forms)
    if mine is None or theirs is None:
        return ALL
    (start, width), (other, other_width) = mine, theirs
    factor = dict(start.terms).get(variable, 0)
    difference = other - start
    if not difference.is_constant:
        return ALL
    # They overlap where -other_width < factor * d + difference < width.
    low, high = 1 - other_width - difference.constant, width - 1 - difference.constant
    if factor == 0:
        return ALL if low <= 0 <= high else NONE
    if factor < 0:
        low, high, factor = -high, -low, -factor
    return Distances(-(-low // factor), high // factor)


def _is_ticket(axis: int, first: Region, second: Region, forms: IndexForms) -> bool:
    """Return whether both regions start at a multiple of a number that each iteration has for itself alone.

    A number of several counters is one iteration's among those with the same counter, which another axis has to name.
    """
    varying = [(symbol, factor) for symbol, factor in first[axis].start.terms if forms.varies(symbol)]
    if len(varying) != 1 or (among := forms.unique.get(varying[0][0])) is None:
        return False
    counters = [Interval(form, 1) for form in among]
    if any(counter not in first or counter not in second for counter in counters):
        return False
    if [first.index(counter) for counter in counters] != [second.index(counter) for counter in counters]:
        return False
    widths = [region[axis].extent for region in (first, second)]
    is_apart = all(width is not None and width <= abs(varying[0][1]) for width in widths)
    return is_apart and first[axis].start == second[axis].start


def _spread(interval: Interval, variable: Symbol, forms: IndexForms) -> tuple[Size, int] | None:
    """Return the start of an interval and its extent over all iterations of the loops inside; None if unknown."""
    if interval.extent is None:
        return None
    start, width = interval.start, interval.extent
    for symbol, factor in interval.start.terms:
        if symbol == variable or not forms.varies(symbol):
            continue
        inner = forms.ranges.get(symbol)
        if inner is None:
            return None
        lower, upper = inner
        start = start.replaced(symbol, lower if factor > 0 else upper)
        width += abs(factor) * max(0, upper - lower)
    return start, width
