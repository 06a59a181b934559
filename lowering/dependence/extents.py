"""Test whether two intervals of one axis overlap in any iterations: one ends before the other, or strides part them.

Both are sound for any bounds: an interval's extremes come from the bounds of the loops, which may be linear forms of
values that no iteration changes; of ``q = x // c`` it is known that ``c q <= x <= c q + c - 1``. The second is the GCD
test: ``a i + b`` and ``c j + d`` differ by a multiple of gcd(a, c) beside d - b. So do ``p`` and ``1 - p`` by an odd
number, also where indices below 0 count from the end of an even size.
"""

from __future__ import annotations

from math import gcd

from mlirtri.dialect.base.sizes import Size
from mlirtri.lowering.dependence.accesses import Interval
from mlirtri.lowering.dependence.index_forms import IndexForms

_MOST_STEPS = 16
"""Symbols that are replaced by their bounds, one after the other, before a form is given up."""


def never_overlap(here: Interval, there: Interval, forms: IndexForms) -> bool:
    """Return whether the intervals have no index in common in any two iterations of the loop and those inside."""
    if here.extent is None or there.extent is None:
        return False
    return (
        _ends_before(here, here.extent, there, forms)
        or _ends_before(there, there.extent, here, forms)
        or _strides_apart(here, here.extent, there, there.extent, forms)
    )


def _ends_before(first: Interval, extent: int, second: Interval, forms: IndexForms) -> bool:
    last, least = extreme(first.start, 1, forms), extreme(second.start, -1, forms)
    return last is not None and least is not None and _is_positive(least - last - (extent - 1), forms)


def extreme(form: Size, sign: int, forms: IndexForms) -> Size | None:
    """Return the greatest (sign 1) or least (sign -1) value in terms of what no iteration changes; None if unknown."""
    for _ in range(_MOST_STEPS):
        varying = [(symbol, factor) for symbol, factor in form.terms if forms.varies(symbol)]
        if not varying:
            return form
        # The innermost loop's index first: its bounds may use those outside.
        symbol, factor = max(varying, key=lambda term: forms.depth_of(term[0]))
        if symbol not in forms.bounds:
            return None
        form = form.replaced(symbol, forms.bounds[symbol][1 if factor * sign > 0 else 0])
    return None


def _is_positive(form: Size, forms: IndexForms) -> bool:
    """Return whether a form of invariant values is above 0, after bounds for its quotients."""
    for symbol, factor in form.terms:
        if symbol not in forms.quotients:
            continue
        dividend, divisor = forms.quotients[symbol]
        bound = dividend if factor < 0 else dividend - (divisor - 1)
        scaled = form.replaced(symbol, 0) * divisor + bound * factor
        if scaled.is_constant:
            return scaled.constant > 0
    return form.is_constant and form.constant > 0


def _strides_apart(here: Interval, width: int, there: Interval, other_width: int, forms: IndexForms) -> bool:
    """Return whether no multiple of the strides' greatest common divisor brings the intervals together."""
    stride, difference = 0, Size.of(0)
    for interval, sign in ((here, -1), (there, 1)):
        form, period = _unwrapped(interval.start, forms)
        stride = gcd(stride, period)
        for symbol, factor in form.terms:
            if forms.varies(symbol):
                stride = gcd(stride, factor)
            else:
                difference += Size(((symbol, factor * sign),))
        difference += form.constant * sign
    # Of a value that no iteration changes nothing is known but that it is an integer, the same on both sides.
    stride = gcd(stride, *(factor for _, factor in difference.terms))
    if stride < 2:
        return False
    # They overlap where -other_width < stride * k + difference < width for some integer k.
    return (width - 1 - difference.constant) // stride * stride + difference.constant <= -other_width


def _unwrapped(form: Size, forms: IndexForms) -> tuple[Size, int]:
    """Return a form without indices that count from the end where they are negative, and what it may be off by.

    The form differs from the original by a multiple of that number.
    """
    period = 0
    for symbol, factor in form.terms:
        if symbol in forms.wrapped:
            index, size = forms.wrapped[symbol]
            form = form.replaced(symbol, index)
            period = gcd(period, size * factor)
    return form, period
