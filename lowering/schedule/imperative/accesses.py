"""The loads and stores of a statement as linear forms of the loops' variables, and dependence analysis on them.

Statements that no loop transformation may change are marked: calls with effects, assertions, jumps out of the loop.

Two accesses to one buffer, of which at least one is a store, are disjoint when in some dimension the index of one
iteration is always smaller, or always larger, than that of another. That covers ``A[i, …]`` against ``A[i, …]``,
``A[2 * i]`` against ``A[2 * i + 1]``, and the triangles of factorisations: ``A[i, k]`` with k < i ≤ j against
``A[i, j]``. What it cannot prove is serial.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mlirtri.lowering.tir.blocks import CHEAP_CALLS
from mlirtri.lowering.tir.linear_forms import Linear, LoopRange, least, linear, range_of, variable
from mlirtri.lowering.tir.statements import nodes_in
from mlirtri.lowering.tir.vectors import is_fetch
from mlirtri.lowering.toolchain.tvm_names import (
    INDEPENDENT,
    Analyzer,
    Buffer,
    Expr,
    SBlockRealize,
    Stmt,
    TensorLoad,
    ir,
    structural_map,
    structural_walk,
    tirx,
)

_MAX_PAIRS = 4000
"""Pairs of accesses that are compared for one loop; a body with more takes longer than it gains."""
_OTHER = "other iteration"
_GAP = "iterations between"

Known = Mapping[Hashable, Linear]
_PURE = 1
"""TVM's effect kind of calls that only compute; larger ones read or have side effects."""


@dataclass(frozen=True)
class LoopAccess:
    """One load or store in loops; an index that is no linear form of loop variables is None."""

    buffer: Any
    indices: tuple[Linear | None, ...]
    is_store: bool
    loops: tuple[LoopRange, ...]
    """The loops around it inside the statement, outermost first."""
    offset: Linear | None = None
    """The number of elements before it, where quotients and remainders are indices: of ``a[q // 4, q % 4]`` it is q."""

    @property
    def position(self) -> Linear | None:
        """Return the number of elements before it in memory, row-major; None where it is no linear form."""
        sizes = [int(size) if isinstance(size, tirx.IntImm) else None for size in self.buffer.ty.shape]
        if self.offset is not None or None in self.indices or None in sizes[1:]:
            return self.offset
        total = Linear()
        for form, size in zip(self.indices, sizes, strict=True):
            total = total.times(size or 0) + (form or Linear())
        return total


@dataclass
class LoopAccesses:
    """The loads and stores of a statement."""

    all: list[LoopAccess] = field(default_factory=list)
    private: set[Any] = field(default_factory=set)
    """Buffers that are allocated inside the statement, so that each run of it has its own."""
    is_opaque: bool = False
    """Whether it has side effects other than stores: a call with effects, an assertion, a jump out of it."""

    @property
    def shared(self) -> list[LoopAccess]:
        """The accesses to buffers that are allocated outside of the statement."""
        return [access for access in self.all if access.buffer not in self.private]


def accesses_of(statement: Stmt, forms: Mapping[Hashable, Linear] | None = None) -> LoopAccesses:
    """Return the accesses of a statement; `forms` has linear forms of variables that are bound outside."""
    reader = _Reader(dict(forms or {}), statement)
    reader.visit(statement, ())
    return reader.result


class _Reader:
    def __init__(self, forms: dict[Hashable, Linear], statement: Stmt):
        self.stores = _stores_per_buffer(statement)
        self.allocated: dict[Any, tuple[LoopRange, ...]] = {}
        self.forms = forms
        self.inner: set[Any] = set()
        """Variables bound inside to expressions other than linear forms, which may differ in every iteration."""
        self.quotients: dict[Any, Any] = {}
        """By variable or scalar buffer, what it holds of quotients and remainders of loops' variables."""
        self.depth = 0
        self.result = LoopAccesses()

    def visit(self, statement: Stmt, loops: tuple[LoopRange, ...]) -> None:
        rule = _RULES.get(type(statement))
        if rule is None:
            self.result.is_opaque = True
            return
        rule(self, statement, loops)

    def _sequence(self, statement, loops):
        for child in statement.seq:
            self.visit(child, loops)

    def _for(self, statement, loops):
        self.read(statement.min, loops)
        self.read(statement.extent, loops)
        around = range_of(statement, self.forms)
        first, last = (self._usable(bound) for bound in (around.first, around.last))
        self.depth += 1
        self.visit(statement.body, (*loops, LoopRange(around.variable, first, last)))
        self.depth -= 1

    def _while(self, statement, loops):
        self.read(statement.condition, loops)
        self.depth += 1
        self.visit(statement.body, loops)
        self.depth -= 1

    def _if(self, statement, loops):
        self.read(statement.condition, loops)
        self.visit(statement.then_case, loops)
        if statement.else_case is not None:
            self.visit(statement.else_case, loops)

    def _store(self, statement, loops):
        self.read(statement.value, loops)
        for index in statement.indices:
            self.read(index, loops)
        self.note(statement.buffer, statement.indices, loops, is_store=True)
        if self.stores[statement.buffer] == 1 and self.allocated.get(statement.buffer) == loops:
            self._remember(statement.buffer, statement.value)

    def _bind(self, statement, loops):
        self.read(statement.value, loops)
        if not self._remember(statement.var, statement.value):
            self.inner.add(statement.var)

    def _remember(self, name: Any, value: Expr) -> bool:
        """Record the linear form that a variable or a scalar buffer holds; return whether there is one."""
        form = self._usable(linear(value, self.forms)) if str(value.ty) in ("int32", "int64") else None
        if form is not None:
            self.forms[name] = form
        elif str(value.ty) == "int64" and self._is_known(expanded := self._expanded(value)):
            self.quotients[name] = expanded
        return form is not None

    def _expanded(self, expression: Expr) -> Any:
        """Return an expression with the quotients and remainders that names in it hold."""
        if not self.quotients:
            return expression
        load = (TensorLoad, lambda node: self.quotients.get(node.source, node))
        # The variable of a buffer is no number.
        number = (tirx.Var, lambda node: self.quotients.get(node, node) if str(node.ty) == "int64" else node)
        return structural_map(expression, [number, load], order="post")

    def _is_known(self, expression: Expr) -> bool:
        """Return whether an expression is one of variables of loops and constants that contains a quotient."""
        if not nodes_in(expression, tirx.FloorDiv, tirx.FloorMod) or nodes_in(expression, TensorLoad, ir.Call):
            return False
        return not any(variable in self.inner for variable in nodes_in(expression, tirx.Var))

    def _allocate(self, statement, loops):
        self.result.private.add(statement.buffer)
        self.allocated[statement.buffer] = loops

    def _body(self, statement, loops):
        self.visit(statement.body, loops)

    def _realize(self, statement, loops):
        block = statement.block
        if len(block.iter_vars) or block.init is not None or len(block.match_buffers):
            self.result.is_opaque = True
        self.result.private.update(block.alloc_buffers)
        self.visit(block.body, loops)

    def _jump(self, _statement, _loops):
        if not self.depth:
            self.result.is_opaque = True

    def _evaluate(self, statement, _loops):
        if not isinstance(statement.value, tirx.IntImm) and not is_fetch(statement.value):
            self.result.is_opaque = True

    def read(self, expression: Expr, loops: tuple[LoopRange, ...]) -> None:

        def load(node):
            if is_scalar(node.source) and node.source not in self.stores:
                # Nothing in the statement stores to it, so it is invariant like a variable.
                self.forms.setdefault(node.source, variable(node.source))
            self.note(node.source, node.indices, loops, is_store=False)

        def call(node):
            effect = node.op.get_attr("TCallEffectKind") if isinstance(node.op, ir.Op) else None
            self.result.is_opaque |= effect is None or int(effect) > _PURE

        def let(node):
            self.inner.add(node.var)

        structural_walk(expression, (tirx.Let, let))
        # The loads inside an index precede the load that it is of.
        structural_walk(expression, [(TensorLoad, load), (ir.Call, call)], order="post")

    def note(self, buffer: Buffer, indices: Any, loops: tuple[LoopRange, ...], *, is_store: bool) -> None:
        forms = tuple(self._usable(linear(index, self.forms)) for index in indices)
        offset = self._offset(buffer, indices) if None in forms else None
        self.result.all.append(LoopAccess(buffer, forms, is_store, loops, offset))

    def _offset(self, buffer: Buffer, indices: Any) -> Linear | None:
        """Return the linear form of an element's address, in which quotients and remainders cancel out."""
        sizes = buffer.ty.shape
        if len(sizes) < 2 or not all(isinstance(size, tirx.IntImm) for size in sizes):
            return None
        total: Any = tirx.IntImm("int64", 0)
        for position, size in zip(indices, sizes, strict=True):
            total = total * tirx.IntImm("int64", int(size)) + self._expanded(position)
        return self._usable(linear(Analyzer().simplify(total), self.forms)) if self._is_known(total) else None

    def _usable(self, form: Linear | None) -> Linear | None:
        return None if form is None or any(name in self.inner for name in form.terms) else form


def is_scalar(buffer: Buffer) -> bool:
    """Return whether a buffer has a single element (a scalar buffer)."""
    return all(isinstance(size, tirx.IntImm) and size.value == 1 for size in buffer.ty.shape)


def has_expensive_calls(expression: Expr) -> bool:
    """Return whether an expression calls a function such as `exp`."""
    operators: list[Any] = []
    structural_walk(expression, (ir.Call, lambda call: operators.append(str(getattr(call.op, "name", "")))))
    return any(name.rsplit(".", 1)[-1] not in CHEAP_CALLS for name in operators)


def _stores_per_buffer(statement: Stmt) -> Counter:
    buffers: list[Any] = []
    structural_walk(statement, (tirx.BufferStore, lambda node: buffers.append(node.buffer)))
    return Counter(buffers)


_RULES = {
    tirx.SeqStmt: _Reader._sequence,
    tirx.For: _Reader._for,
    tirx.While: _Reader._while,
    tirx.IfThenElse: _Reader._if,
    tirx.BufferStore: _Reader._store,
    tirx.Bind: _Reader._bind,
    tirx.AllocBuffer: _Reader._allocate,
    tirx.AttrStmt: _Reader._body,
    SBlockRealize: _Reader._realize,
    tirx.Break: _Reader._jump,
    tirx.Continue: _Reader._jump,
    tirx.Evaluate: _Reader._evaluate,
}


def is_parallel(loop: Stmt, around: Sequence[LoopRange] = (), forms: Known | None = None) -> bool:
    """Return whether the iterations of `loop` are independent; `around` are the loops around it, outermost first."""
    if INDEPENDENT in loop.annotations:
        return True
    return are_independent(accesses_of(loop.body, forms), range_of(loop, forms or {}), around)


def are_independent(accesses: LoopAccesses, loop: LoopRange, around: Sequence[LoopRange]) -> bool:
    """Return whether statements with these accesses may run in any order for the values of `loop`."""
    if accesses.is_opaque:
        return False
    groups: dict[Any, list[LoopAccess]] = {}
    for access in accesses.shared:
        groups.setdefault(access.buffer, []).append(access)
    pairs = [
        (store, other)
        for group in groups.values()
        for store in _distinct(access for access in group if access.is_store)
        for other in _distinct(group)
    ]
    return len(pairs) <= _MAX_PAIRS and all(are_apart(*pair, loop, around) for pair in pairs)


def _distinct(accesses: Iterable[LoopAccess]) -> list[LoopAccess]:
    """Return the accesses without duplicates: those with the same indices in the same loops."""
    distinct = {}
    for access in accesses:
        key = tuple(None if form is None else (frozenset(form.terms.items()), form.constant) for form in access.indices)
        place = access.offset and (frozenset(access.offset.terms.items()), access.offset.constant)
        distinct.setdefault((key, place, tuple(inner.variable for inner in access.loops)), access)
    return list(distinct.values())


def are_apart(access: LoopAccess, other: LoopAccess, loop: LoopRange, around: Sequence[LoopRange]) -> bool:
    """Return whether two accesses never have the same address in different iterations of a loop."""
    return _apart_when_later(access, other, loop, around) and _apart_when_later(other, access, loop, around)


def are_disjoint(access: LoopAccess, other: LoopAccess, around: Sequence[LoopRange]) -> bool:
    """Return whether two accesses never have the same address, in any iterations of the loops around and inside."""
    names = {inner.variable: (_OTHER, inner.variable) for inner in other.loops}
    ranges = [*around, *access.loops, *(inner.renamed(names) for inner in other.loops)]
    return any(
        a is not None and b is not None and _differ(a, b.renamed(names), ranges) for a, b in _compared(access, other)
    )


def _compared(access: LoopAccess, other: LoopAccess) -> list[tuple[Linear | None, Linear | None]]:
    """Return pairs of linear forms: if those of one pair differ, two accesses of a buffer have different addresses."""
    pairs = list(zip(access.indices, other.indices, strict=True))
    has_quotients = access.offset is not None or other.offset is not None
    return [*pairs, (access.position, other.position)] if has_quotients else pairs


def _differ(form: Linear, other: Linear, ranges: Sequence[LoopRange]) -> bool:
    """Return whether one sum is always larger, or always smaller, than the other."""
    distance = form - other
    return any(
        (bound := least(difference, ranges)) is not None and bound > 0 for difference in (distance, distance.times(-1))
    )


def _apart_when_later(access: LoopAccess, later: LoopAccess, loop: LoopRange, around: Sequence[LoopRange]) -> bool:
    """Return whether `access` in some iteration never has the address of `later` in any later iteration."""
    current = variable(loop.variable)
    later_value = (current + variable(_GAP)).plus(1)
    gap = LoopRange(_GAP, Linear(), (loop.last - current).plus(-1) if loop.last else None)
    names = {name: (_OTHER, name) for name in (loop.variable, *(inner.variable for inner in later.loops))}

    def moved(form: Linear | None) -> Linear | None:
        return form and form.renamed(names).substituted(names[loop.variable], later_value)

    inner = [LoopRange(names[nested.variable], moved(nested.first), moved(nested.last)) for nested in later.loops]
    ranges = [*around, loop, gap, *access.loops, *inner]
    pairs = ((form, moved(other)) for form, other in _compared(access, later))
    return any(a is not None and b is not None and _differ(a, b, ranges) for a, b in pairs)
