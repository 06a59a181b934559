"""Updates of elements that iterations of a parallel loop share, as atomic functions of CUDA.

    for i:  # declared parallel                   each thread:
        h[a[i]] = h[a[i]] + 1            ──►          atomicAdd(&h[a[i]], 1)
    for by, bz, i, j:  # bz divides a sum         blocks along by and bz:
        c[by, i, j] = c[by, i, j] + t[i, j]           atomicAdd(&c[by, i, j], t[i, j])

A loop that is independent but for such updates becomes parallel, if nothing else in it accesses the array. Loops that
are not declared parallel do only for integers, whose order changes no result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from mlirtri.lowering.core.stage import DECLARED
from mlirtri.lowering.schedule.cuda.common.atomic_calls import ATOMIC_UPDATE, function_of, is_supported
from mlirtri.lowering.schedule.cuda.tiles.fragment_uses import term_of, with_names_inside
from mlirtri.lowering.schedule.imperative.accesses import (
    LoopAccesses,
    accesses_of,
    are_independent,
    is_parallel,
    is_scalar,
)
from mlirtri.lowering.schedule.imperative.interchange import Ranges, marked, with_parts
from mlirtri.lowering.tir.linear_forms import range_of
from mlirtri.lowering.tir.statements import depends_on, index, loads_in, new_buffer, nodes_in, sequence, with_body
from mlirtri.lowering.tir.tiles import replaced
from mlirtri.lowering.toolchain.tvm_names import Buffer, Expr, Stmt, TensorLoad, structural_equal, structural_map, tirx


def with_atomics(statement: Stmt, around: Ranges = (), in_block: bool = False) -> Stmt:
    """Return the statement with its outermost loops parallel that are independent but for `ATOMIC_UPDATE`s.

    In a block of a tile kernel only loops that are declared parallel, and no statement uses what an element was before.
    """
    scalars = {node.buffer for node in nodes_in(statement, tirx.AllocBuffer) if is_scalar(node.buffer)}
    return _Loops(scalars, in_block).visit(statement, around)


def atomic_blocks(loops: Sequence[Stmt], body: Stmt) -> tuple[list[Stmt], Stmt]:
    """Return the loops over blocks, marked parallel, and the body with atomic updates; as they are where that fails."""
    updates = _Updates(is_declared=True, returns=False)
    changed = _updated(loops, (), updates) if loops else None
    if changed is None or not updates.are_commutative():
        return list(loops), body
    return [marked(loop) for loop in loops], changed


@dataclass(frozen=True)
class _Loops:
    """Looks for loops with updates, from the outermost on."""

    scalars: set[Any]
    """Numbers that loops carry: no updates of theirs are atomic, for which all threads would wait."""
    in_block: bool

    def visit(self, statement: Stmt, around: Ranges) -> Any:
        if not isinstance(statement, tirx.For):
            return with_parts(statement, lambda part: self.visit(part, around))
        if is_parallel(statement, around):
            return statement
        is_declared = DECLARED in statement.annotations
        if is_declared or not self.in_block:
            nest = _nest(statement)
            # The whole nest where that is possible: an image has more elements than rows.
            for depth in range(len(nest), 0, -1):
                updates = _Updates(is_declared, is_declared and not self.in_block)
                body = _updated(nest[:depth], around, updates)
                if body is not None and not any(store.buffer in self.scalars for store in updates.stores):
                    for loop in reversed(nest[:depth]):
                        body = marked(with_body(loop, body))
                    return body
        return with_body(statement, self.visit(statement.body, (*around, range_of(statement, {}))))


def _nest(loop: Any) -> list[Any]:
    """Return perfectly nested loops, all declared parallel or none of them, with what is named between them inside."""
    nest, body = [loop], with_names_inside(loop.body, DECLARED)
    while isinstance(body, tirx.For) and (DECLARED in body.annotations) == (DECLARED in loop.annotations):
        nest[-1] = with_body(nest[-1], body)
        nest.append(body)
        body = with_names_inside(body.body, DECLARED)
    return nest


def _updated(loops: Sequence[Any], around: Ranges, updates: _Updates) -> Any:
    """Return the body of nested loops with atomic updates, which make all of them independent; None if they do not."""
    body = loops[-1].body
    conflicts = _conflicts(loops, around)
    if not conflicts or not all(is_supported(str(buffer.dtype)) for buffer in conflicts):
        return None
    read = {load.source for load in loads_in(body)}
    updates.buffers = [buffer for buffer in conflicts if buffer in read]
    try:
        changed = updates.visit(body)
    except _NoUpdateError:
        return None
    if not updates.is_declared and not updates.are_exact():
        return None
    written = [buffer for buffer in conflicts if buffer not in read]
    return changed if all(updates.is_ticketed(buffer, body) for buffer in written) else None


def _conflicts(loops: Sequence[Any], around: Ranges) -> list[Any]:
    """Return the arrays of which iterations of one of the loops access the same elements; [] where nothing is known."""
    found: dict[Any, None] = {}
    for position, loop in enumerate(loops):
        nest = loops[-1].body
        for inner in reversed(loops[position + 1 :]):
            nest = with_body(inner, nest)
        accesses = accesses_of(nest)
        if accesses.is_opaque:
            return []
        ranges = (*around, *(range_of(outer, {}) for outer in loops[:position]))
        for buffer in dict.fromkeys(access.buffer for access in accesses.shared):
            own = [access for access in accesses.shared if access.buffer.same_as(buffer)]
            if not are_independent(LoopAccesses(own), range_of(loop, {}), ranges):
                found[buffer] = None
    return list(found)


class _NoUpdateError(Exception):
    """An access to an array that is no update of one element."""


@dataclass
class _Updates:
    """Marks the updates of elements of some arrays, whose loop may be declared parallel."""

    is_declared: bool
    returns: bool
    """Whether statements may use what an element was before."""
    buffers: Sequence[Any] = ()
    stores: list[Any] = field(default_factory=list)
    """The updates that were found, each as a store whose value loads the element."""
    tickets: dict[Any, Any] = field(default_factory=dict)
    """By variable that holds what an element was before, its update."""

    def visit(self, statement: Stmt) -> Any:
        if isinstance(statement, tirx.BufferStore) and statement.buffer in self.buffers:
            return self._marked(statement)
        if isinstance(statement, tirx.SeqStmt):
            return self._sequence(list(statement.seq))
        if isinstance(statement, tirx.AttrStmt) and statement.attr_key == ATOMIC_UPDATE:
            return statement
        if isinstance(statement, tirx.For):
            self._refuse(statement.min, statement.extent)
            return with_body(statement, self.visit(statement.body))
        if isinstance(statement, tirx.IfThenElse | tirx.While):
            self._refuse(statement.condition)
        elif not isinstance(statement, tirx.AttrStmt):
            self._refuse(statement)
        return with_parts(statement, self.visit)

    def _refuse(self, *nodes: Any) -> None:
        if any(depends_on(node, self.buffers) for node in nodes):
            raise _NoUpdateError

    def _marked(self, store: Stmt, before: Any = None) -> Any:
        """Return an update as it is marked; `before` is a number that takes what the element was before."""
        self._refuse(*store.indices)
        own = self._own_loads(store.value)
        if not own or not all(_is_element(load, store) for load in own):
            raise _NoUpdateError
        self.stores.append(store)
        read = [] if before is None else [tirx.BufferStore(before, own[0], [index(0)])]
        return tirx.AttrStmt(index(0), ATOMIC_UPDATE, index(1), sequence(*read, store))

    def _sequence(self, statements: list[Any]) -> Any:
        done = []
        while statements:
            first = statements.pop(0)
            own = self._own_loads(first.value) if isinstance(first, tirx.Bind) else []
            if own:
                statements = self._with_read_inside(first, own[0], statements)
            else:
                done.append(self.visit(first))
        return sequence(*done)

    def _own_loads(self, value: Expr) -> list[Any]:
        return [load for load in loads_in(value) if load.source in self.buffers]

    def _with_read_inside(self, read: Any, element: Any, statements: list[Any]) -> list[Any]:
        """Return what follows ``x = h[i]``, with the update ``h[i] = f(x)`` as one statement; `element` is the load."""
        position = next((number for number, each in enumerate(statements) if _stores_to(each, element)), None)
        if position is None:
            raise _NoUpdateError
        names, before, behind = {read.var: read.value}, [], []
        for statement in statements[:position]:
            if not depends_on(statement, list(names)):
                before.append(statement)
            elif isinstance(statement, tirx.Bind):
                names[statement.var] = replaced(statement.value, names)
                behind.append(statement)
            else:
                raise _NoUpdateError
        if not all(isinstance(each, tirx.Bind | tirx.AllocBuffer) or _is_of_scalar(each) for each in before):
            raise _NoUpdateError
        store, rest = statements[position], statements[position + 1 :]
        update = tirx.BufferStore(store.buffer, replaced(store.value, names), store.indices)
        if not any(depends_on(statement, list(names)) for statement in rest):
            return [*before, update, *rest]
        if not self.returns:
            raise _NoUpdateError
        number = new_buffer("before", str(store.buffer.dtype), 1)
        if read.value.same_as(element):
            self.tickets[read.var] = update
        before_it = tirx.BufferLoad(number, [index(0)])
        value = structural_map(read.value, (TensorLoad, lambda load: before_it if _is_element(load, store) else load))
        name = tirx.Bind(read.var, value)
        return [*before, tirx.AllocBuffer(number), self._marked(update, number), name, *behind, *rest]

    def are_commutative(self) -> bool:
        """Return whether all updates of an array combine its elements with others by one operation."""
        kinds: dict[Any, set[Any]] = {}
        for number, store in enumerate(self.stores):
            function = function_of(store)
            if function is None and term_of(store.value, store.buffer) is None:
                return False
            kinds.setdefault(store.buffer, set()).add(number if function is None else function.name)
        return all(len(names) == 1 for names in kinds.values())

    def are_exact(self) -> bool:
        """Return whether the updates give the same numbers in any order: those of integers."""
        return self.are_commutative() and all("int" in str(store.buffer.dtype) for store in self.stores)

    def is_ticketed(self, buffer: Buffer, body: Stmt) -> bool:
        """Return whether one statement stores to an array, at an index that a counter gave this iteration alone."""
        stores = [store for store in nodes_in(body, tirx.BufferStore) if store.buffer.same_as(buffer)]
        if len(stores) != 1 or not self.is_declared:
            return False
        [store] = stores
        counted = {variable for variable, update in self.tickets.items() if self._counts(update)}
        return any(_source(position) in counted for position in (_resolved(each, body) for each in store.indices))

    def _counts(self, update: Stmt) -> bool:
        """Return whether an update adds a positive constant to an element that all iterations count with."""
        function = function_of(update)
        is_step = function is not None and function.name == "Add" and isinstance(function.operand, tirx.IntImm)
        is_only = sum(store.buffer.same_as(update.buffer) for store in self.stores) == 1
        fixed = all(isinstance(position, tirx.IntImm) for position in update.indices)
        return is_step and is_only and fixed and int(function.operand) > 0


def _is_element(load: TensorLoad, store: Stmt) -> bool:
    """Return whether a load is of the element that a store writes."""
    pairs = zip(load.indices, store.indices, strict=False)
    return load.source.same_as(store.buffer) and all(structural_equal(one, other) for one, other in pairs)


def _stores_to(statement: Stmt, load: TensorLoad) -> bool:
    return isinstance(statement, tirx.BufferStore) and _is_element(load, statement)


def _is_of_scalar(statement: Stmt) -> bool:
    return isinstance(statement, tirx.BufferStore) and is_scalar(statement.buffer)


def _resolved(expression: Expr, body: Stmt) -> Any:
    """Return an index with the values of names and numbers in it that are stored once."""
    scalars = {node.buffer for node in nodes_in(body, tirx.AllocBuffer) if is_scalar(node.buffer)}
    stores = [store for store in nodes_in(body, tirx.BufferStore) if store.buffer in scalars]
    numbers = {store.buffer: store.value for store in stores}
    names = {}
    for node in nodes_in(body, tirx.Bind):
        if not isinstance(node.value, TensorLoad):
            names[node.var] = node.value
        elif sum(store.buffer.same_as(node.value.source) for store in stores) == 1:
            names[node.var] = numbers[node.value.source]
    while any(depends_on(expression, [name]) for name in names):
        expression = replaced(expression, names)
    return expression


def _source(position: Expr) -> Any:
    """Return the variable that an index is, but for its limits: ``max(min(where(x < 0, x + n, x), n - 1), 0)``."""
    while isinstance(position, tirx.Max | tirx.Min) and isinstance(position.b, tirx.IntImm):
        position = position.a
    if isinstance(position, tirx.Select):
        position = position.false_value
    return position if isinstance(position, tirx.Var) else None
