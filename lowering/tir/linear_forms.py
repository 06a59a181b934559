"""Index arithmetic of loops as sums of variables, and the smallest value that such a sum can have.

`Linear` forms (``2 * i - k + 1``) have bounds over all iterations, also where a loop's bounds use other loops'
variables (triangles). None stands for anything that is not linear.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from mlirtri.lowering.toolchain.tvm_names import Expr, Stmt, TensorLoad, tirx


@dataclass(frozen=True)
class Linear:
    """A sum: `terms` maps a variable to its factor (never 0), `constant` is the rest.

    `dialect.base.sizes.Size` is the same for the sizes of tensors, whose symbols have an order and bounds."""

    terms: Mapping[Hashable, int] = field(default_factory=dict)
    constant: int = 0

    def __add__(self, other: Linear) -> Linear:
        terms = dict(self.terms)
        for variable, factor in other.terms.items():
            terms[variable] = terms.get(variable, 0) + factor
        return Linear({name: factor for name, factor in terms.items() if factor}, self.constant + other.constant)

    def __sub__(self, other: Linear) -> Linear:
        return self + other.times(-1)

    def times(self, factor: int) -> Linear:
        if factor == 0:
            return Linear()
        return Linear({name: times * factor for name, times in self.terms.items()}, self.constant * factor)

    def plus(self, number: int) -> Linear:
        return Linear(self.terms, self.constant + number)

    def factor(self, variable: Hashable) -> int:
        return self.terms.get(variable, 0)

    def substituted(self, variable: Hashable, value: Linear) -> Linear:
        """Return the sum with `value` in place of a variable."""
        factor = self.factor(variable)
        if not factor:
            return self
        others = {name: times for name, times in self.terms.items() if name != variable}
        return Linear(others, self.constant) + value.times(factor)

    def renamed(self, names: Mapping[Hashable, Hashable]) -> Linear:
        return Linear({names.get(variable, variable): factor for variable, factor in self.terms.items()}, self.constant)


@dataclass(frozen=True)
class LoopRange:
    """The values of a loop's variable: from `first` to `last`, both included; None where that is no linear form."""

    variable: Hashable
    first: Linear | None
    last: Linear | None
    """An upper bound of the last value."""

    def renamed(self, names: Mapping[Hashable, Hashable]) -> LoopRange:
        first, last = (bound.renamed(names) if bound else None for bound in (self.first, self.last))
        return LoopRange(names.get(self.variable, self.variable), first, last)


def variable(name: Hashable) -> Linear:
    return Linear({name: 1})


def least(value: Linear, ranges: Sequence[LoopRange]) -> int | None:
    """Return a lower bound of `value` while each variable is in its range; None if there is none.

    `ranges` are ordered: the bounds of each may use variables of earlier ones.
    """
    for loop in reversed(ranges):
        factor = value.factor(loop.variable)
        if not factor:
            continue
        bound = loop.first if factor > 0 else loop.last
        if bound is None:
            return None
        value = value.substituted(loop.variable, bound)
    return None if value.terms else value.constant


def linear(expression: Expr, forms: Mapping[Hashable, Linear]) -> Linear | None:
    """Return the linear form of an integer expression; `forms` has those of variables and scalar buffers."""
    if isinstance(expression, tirx.IntImm):
        return Linear({}, int(expression.value))
    if isinstance(expression, tirx.Var):
        return forms.get(expression) or variable(expression)
    if isinstance(expression, TensorLoad):
        return forms.get(expression.source)
    if isinstance(expression, tirx.Cast):
        is_index = str(expression.ty) in ("int32", "int64") and str(expression.value.ty) in ("int32", "int64")
        return _fitting(linear(expression.value, forms), expression) if is_index else None
    if isinstance(expression, tirx.Add | tirx.Sub):
        left, right = linear(expression.a, forms), linear(expression.b, forms)
        if left is None or right is None:
            return None
        return left + right if isinstance(expression, tirx.Add) else left - right
    if isinstance(expression, tirx.Mul):
        return _fitting(_product(linear(expression.a, forms), linear(expression.b, forms)), expression)
    return None


def _fitting(form: Linear | None, expression: Expr) -> Linear | None:
    """Return `form` if its numbers fit the dtype: others would have wrapped."""
    if form is None:
        return None
    most = 1 << (31 if str(expression.ty) == "int32" else 63)
    return form if all(-most <= number < most for number in (form.constant, *form.terms.values())) else None


def _product(left: Linear | None, right: Linear | None) -> Linear | None:
    if left is None or right is None:
        return None
    if not right.terms:
        return left.times(right.constant)
    return right.times(left.constant) if not left.terms else None


def range_of(loop: Stmt, forms: Mapping[Hashable, Linear]) -> LoopRange:
    """Return the range of a TIR `For`; an extent with a minimum or maximum gives an upper bound of its last value."""
    first, extent = linear(loop.min, forms), _at_most(loop.extent, forms)
    last = (first + extent).plus(-1) if first is not None and extent is not None else None
    return LoopRange(loop.loop_var, first, last)


def largest_extent(expression: Expr) -> int | None:
    """Return a constant that an extent never exceeds, such as 64 of ``min(64, n - i)``; None without one."""
    bound = _at_most(expression, {})
    return bound.constant if bound is not None and not bound.terms else None


def _at_most(expression: Expr, forms: Mapping[Hashable, Linear]) -> Linear | None:
    """Return a linear upper bound of an expression, the constant one if there is: 64 for ``min(64, n - i)``."""
    if isinstance(expression, tirx.Min):
        return _shortest(_at_most(side, forms) for side in (expression.a, expression.b))
    if isinstance(expression, tirx.Max) and isinstance(expression.b, tirx.IntImm):
        bound = _at_most(expression.a, forms)
        is_larger = bound is not None and not bound.terms and bound.constant >= int(expression.b)
        return bound if is_larger else linear(expression, forms)
    if isinstance(expression, tirx.Sub) and isinstance(expression.b, tirx.Max):
        whole, taken = linear(expression.a, forms), [linear(side, forms) for side in (expression.b.a, expression.b.b)]
        return _shortest(whole - part if whole is not None and part is not None else None for part in taken)
    return linear(expression, forms)


def _shortest(forms: Iterable[Linear | None]) -> Linear | None:
    known = [form for form in forms if form is not None]
    return min(known, key=lambda form: len(form.terms), default=None)
