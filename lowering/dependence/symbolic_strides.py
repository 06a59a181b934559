"""Prove iterations independent that are a run-time number of elements apart, or exchange two elements.

    x[k * s + s - 1] += x[k * s + s // 2 - 1]       s (k' - k) is no difference of what is added
    l = i ^ j; if l > i: x[i], x[l] = x[l], x[i]    of two iterations with the same elements one has l < i

What is added is bounded by what is known of values that no iteration changes: ranges of the loops around, shifts of 1,
quotients, and that a loop around the access runs at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mlirtri.dialect.base.sizes import Size, Symbol
from mlirtri.lowering.dependence.congruences import Order
from mlirtri.lowering.dependence.extents import extreme
from mlirtri.lowering.dependence.index_forms import IndexForms

if TYPE_CHECKING:
    from mlirtri.lowering.dependence.accesses import Access, Interval

_MOST_STEPS, _MOST_BITS = 16, 62


def are_apart(first: Access, second: Access, axis: int, variable: Symbol, forms: IndexForms) -> bool:
    """Return whether no two different iterations touch one element of both accesses along an axis."""
    if first.region is None or second.region is None:
        return False
    here, there = first.region[axis], second.region[axis]
    if here.extent is None or there.extent is None:
        return False
    starts = _counted_from_start(here, first, variable, forms), _counted_from_start(there, second, variable, forms)
    if here.extent == there.extent == 1 and _exchange(starts, (first, second), variable, forms):
        return True
    strides = [_stride(start, variable, forms) for start in starts]
    if strides[0] is None or strides[0] != strides[1]:
        return False
    symbol, stride = strides[0]
    rests = [start.replaced(symbol, 0) for start in starts]
    ends = [extreme(rest, sign, forms) for rest in rests for sign in (-1, 1)]
    least, most, other_least, other_most = ends
    if least is None or most is None or other_least is None or other_most is None:
        return False
    around = _loops_in(starts, forms)
    later = stride + other_least - most - here.extent
    earlier = stride + least - other_most - there.extent
    return _is_never_negative(later, around, forms) and _is_never_negative(earlier, around, forms)


def _counted_from_start(interval: Interval, access: Access, variable: Symbol, forms: IndexForms) -> Size:
    """Return the start of an interval; of an index that is known not to be negative, the index itself."""
    start = interval.start
    if len(start.terms) != 1 or start.constant or start.terms[0][1] != 1:
        return start
    index = forms.turned.get(start.terms[0][0])
    if index is None:
        return start
    known = [fact.form + Size.of(variable) for fact in access.facts if isinstance(fact, Order)]
    # The index is above the loop's own, which is not negative.
    is_above = any((index - form).is_constant and (index - form).constant >= 0 for form in known)
    is_above = is_above and _is_never_negative(Size.of(variable), (), forms)
    return index if is_above or _is_never_negative(index, _loops_in([index], forms), forms) else start


def _exchange(starts: tuple[Size, Size], accesses: tuple[Access, Access], variable: Symbol, forms: IndexForms) -> bool:
    """Return whether each is the loop's index or its partner ``index ^ mask``, and one of a pair runs both."""
    own = Size.of(variable)
    partners = [start for start in starts if start != own]
    if not partners or any(partner != partners[0] for partner in partners):
        return False
    if len(partners[0].terms) != 1 or partners[0].constant:
        return False
    [(symbol, factor)] = partners[0].terms
    operands = forms.exchanged.get(symbol) if factor == 1 else None
    if operands is None or own not in operands or _varies(operands[1 - operands.index(own)], forms):
        return False
    if len(partners) == 2:
        return True
    orders = [_order(access, partners[0] - own) for access in accesses]
    return orders[0] is not None and orders[0] == orders[1]


def _order(access: Access, difference: Size) -> int | None:
    """Return 1 where a difference is known to be above 0, -1 where it is known to be below; else None."""
    for fact in access.facts:
        if not isinstance(fact, Order):
            continue
        for sign in (1, -1):
            rest = fact.form - difference * sign
            if rest.is_constant and rest.constant < 0:
                return sign
    return None


def _stride(start: Size, variable: Symbol, forms: IndexForms) -> tuple[Symbol, Size] | None:
    """Return the term that is a multiple of the loop's index by an invariant value, and that value; or None."""
    found = [term for term in start.terms if term[0] in forms.scaled]
    if len(found) != 1 or any(symbol == variable for symbol, _ in start.terms):
        return None
    [(symbol, factor)] = found
    varying, stride = forms.scaled[symbol]
    if _varies(stride, forms) or factor < 1:
        return None
    rest = varying - Size.of(variable)
    return (symbol, stride * factor) if not _varies(rest, forms) else None


def _varies(form: Size, forms: IndexForms) -> bool:
    return any(forms.varies(symbol) for symbol, _ in form.terms)


def _loops_in(starts: Sequence[Size], forms: IndexForms) -> tuple[Size, ...]:
    """Return forms that are not negative where the starts are: last minus first index of the loops that are in them."""
    symbols = {symbol for start in starts for symbol, _ in start.terms}
    symbols |= {inner for symbol in symbols & forms.scaled.keys() for inner, _ in forms.scaled[symbol][0].terms}
    bounds = [forms.bounds[symbol] for symbol in symbols & forms.bounds.keys()]
    return tuple(upper - lower for lower, upper in bounds)


def _is_never_negative(form: Size, known: Sequence[Size], forms: IndexForms) -> bool:
    """Return whether a form is 0 or more, where those in `known` are."""
    for symbol, factor in form.terms:
        if factor < 0 and symbol in forms.quotients:
            dividend, divisor = forms.quotients[symbol]
            return _is_never_negative(form.replaced(symbol, 0) * divisor + dividend * factor, known, forms)
    least = _least(form, known, forms)
    return least is not None and least >= 0


def _least(form: Size, known: Sequence[Size], forms: IndexForms) -> int | None:
    """Return a number that a form is never below; None if none is known."""
    for _ in range(_MOST_STEPS):
        counters = [(symbol, factor) for symbol, factor in form.terms if symbol in forms.bounds]
        if not counters:
            break
        symbol, factor = max(counters, key=lambda term: forms.depth_of(term[0]))
        form = form.replaced(symbol, forms.bounds[symbol][0 if factor > 0 else 1])
    total = form.constant
    for symbol, factor in form.terms:
        least = _least_of(symbol, known, forms) if factor > 0 else None
        if least is None:
            return None
        total += factor * least
    return total


def _least_of(symbol: Symbol, known: Sequence[Size], forms: IndexForms) -> int | None:
    for form in known:
        rest = form - Size.of(symbol)
        if rest.is_constant:
            return -rest.constant
    if (quotient := forms.quotients.get(symbol)) is not None:
        least = _least(quotient[0], known, forms)
        return None if least is None else least // quotient[1]
    if (exponent := forms.powers.get(symbol)) is not None:
        least = _least(exponent, known, forms)
        return 1 << least if least is not None and 0 <= least <= _MOST_BITS else None
    if symbol in forms.remainders:
        return 0
    factors, exchanged = forms.scaled.get(symbol), forms.exchanged.get(symbol)
    leasts = [_least(form, known, forms) for form in factors or exchanged or ()]
    if len(leasts) != 2 or leasts[0] is None or leasts[1] is None or min(leasts[0], leasts[1]) < 0:
        return None
    return leasts[0] * leasts[1] if factors else 0
