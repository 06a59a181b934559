"""Facts about where an access runs: linear forms that are multiples of a number, or not negative.

They come from conditions and from the steps of loops.

    for i, j: if (i + j) % 2 == c: a[i, j] = a[i - 1, j] + …     each access of `a` runs where i + j - c is even

Two accesses touch no common element where equal indices would need both facts and contradict them: with the indices of
``a[i, j]`` and ``a[i' - 1, j']`` equal, i + j and i' + j' differ by 1, and cannot both be even. So the colours of a
red-black relaxation are independent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlirtri.dialect.base.sizes import Size
from mlirtri.dialect.bindings.mlir import ir
from mlirtri.lowering.dependence.index_forms import IndexForms
from mlirtri.lowering.mlir_common.reading import definition

if TYPE_CHECKING:
    from mlirtri.lowering.dependence.accesses import Access

_THROUGH = ("tensor.extract", "tri.cast", "tensor.from_elements")
_BOTH = ("tri.logical_and", "arith.andi")
_EITHER = ("tri.logical_or", "arith.ori")
_EQUALITIES = {"tri.equal": True, "tri.not_equal": False}
_ORDERS = {
    "tri.greater": (False, True), "tri.greater_equal": (False, False),
    "tri.less": (True, True), "tri.less_equal": (True, False),
}  # fmt: skip
"""Whether the second operand is the greater one, and whether they differ."""
_PREDICATES = {0: True, 1: False}
"""Of `arith.cmpi`: eq and ne."""


@dataclass(frozen=True)
class Congruence:
    """A linear form that is a multiple of `modulus`."""

    form: Size
    modulus: int


@dataclass(frozen=True)
class Order:
    """A linear form that is not negative."""

    form: Size


Fact = Congruence | Order


def of_condition(condition: ir.Value, holds: bool, forms: IndexForms) -> list[Fact]:
    """Return what a condition says of remainders and of the order of values, where it is true or where it is false."""
    operation = definition(condition)
    while operation is not None and operation.name in _THROUGH and len(operation.operands) == 1:
        operation = definition(operation.operands[0])
    if operation is None:
        return []
    name = operation.name
    if name == "tri.logical_not":
        return of_condition(operation.operands[0], not holds, forms)
    if name in (_BOTH if holds else _EITHER):
        return [fact for operand in operation.operands for fact in of_condition(operand, holds, forms)]
    if name in _ORDERS:
        left, right = map(forms.of, operation.operands)
        return _of_order(left, right, _ORDERS[name], holds)
    is_equality = _EQUALITIES.get(name)
    if name == "arith.cmpi":
        is_equality = _PREDICATES.get(operation.attributes["predicate"].value)
    if is_equality is None:
        return []
    left, right = map(forms.of, operation.operands)
    return _of_equality(left, right, holds == is_equality, forms)


def _of_order(left: Size, right: Size, order: tuple[bool, bool], holds: bool) -> list[Fact]:
    is_less, is_strict = order
    difference = right - left if is_less else left - right
    return [Order(difference - int(is_strict) if holds else -difference - int(not is_strict))]


def of_loop(loop: ir.Operation, forms: IndexForms) -> list[Congruence]:
    """Return that the induction variable of an `scf.for` is its lower bound plus a multiple of its step."""
    step = forms.of(loop.operands[2])
    if not step.is_constant or step.constant < 2:
        return []
    difference = forms.of(loop.regions[0].blocks[0].arguments[0]) - forms.of(loop.operands[0])
    return [Congruence(_reduced(difference, step.constant, forms), step.constant)]


def are_contradictory(first: Access, second: Access, forms: IndexForms) -> bool:
    """Return whether two accesses can touch no common element for what is known of where they run."""
    if first.region is None or second.region is None:
        return False
    mine, theirs = ([fact for fact in each.facts if isinstance(fact, Congruence)] for each in (first, second))
    for fact in mine:
        for other in theirs:
            if fact.modulus != other.modulus:
                continue
            difference = _difference(first, second, fact, other, forms)
            if difference is not None and difference % fact.modulus:
                return True
    return False


def _of_equality(left: Size, right: Size, is_equal: bool, forms: IndexForms) -> list[Fact]:
    for one, other in ((left, right), (right, left)):
        remainder = _remainder(one, forms)
        if remainder is None or remainder[1] < 2:
            continue
        dividend, modulus = remainder
        if not is_equal and modulus != 2:  # the remainder is one of several others
            return []
        # Unequal to 0 modulo 2 is equal to 1, and the reverse. Compared with other numbers it is always true.
        if not is_equal and not (other.is_constant and other.constant in (0, 1)):
            return []
        form = dividend - other + (0 if is_equal else 1)
        return [Congruence(_reduced(form, modulus, forms), modulus)]
    return []


def _remainder(form: Size, forms: IndexForms) -> tuple[Size, int] | None:
    if len(form.terms) != 1 or form.constant or form.terms[0][1] != 1:
        return None
    return forms.remainders.get(form.terms[0][0])


def _reduced(form: Size, modulus: int, forms: IndexForms) -> Size:
    """Return a form that is congruent to `form`, with dividends in place of their remainders."""
    for symbol, _ in form.terms:
        remainder = forms.remainders.get(symbol)
        if remainder is not None and remainder[1] % modulus == 0:
            return _reduced(form.replaced(symbol, remainder[0]), modulus, forms)
    return form


def _difference(first: Access, second: Access, fact: Congruence, other: Congruence, forms: IndexForms) -> int | None:
    """Return the difference of both forms where all indices are equal; None where these do not decide it."""
    mine, theirs = fact.form, other.form
    for here, there in zip(first.region or (), second.region or (), strict=True):
        varying = [(symbol, factor) for symbol, factor in here.start.terms if forms.varies(symbol)]
        if len(varying) != 1 or abs(varying[0][1]) != 1 or here.extent != 1 or there.extent != 1:
            continue
        [(symbol, factor)] = varying
        multiple = dict(mine.terms).get(symbol, 0) * factor
        mine, theirs = mine - here.start * multiple, theirs - there.start * multiple
    if any(forms.varies(symbol) for form in (mine, theirs) for symbol, _ in form.terms):
        return None
    difference = mine - theirs
    return difference.constant if difference.is_constant else None


def around(operation: ir.Operation, forms: IndexForms) -> tuple[Fact, ...]:
    """Return what holds where an operation stands, from the loops and branches around it, the loop of `forms` last."""
    facts: list[Fact] = []
    inner = operation
    while inner != forms.loop and inner.parent is not None:
        outer = inner.parent.operation
        if outer.name == "scf.if":
            facts += of_condition(outer.operands[0], inner.block == outer.regions[0].blocks[0], forms)
        elif outer.name == "scf.for":
            facts += of_loop(outer, forms)
        inner = outer
    return tuple(facts)
