"""The statements of a block on its threads: elements are divided among them, barriers stand where memory needs them.

Loops that are marked parallel are divided. All threads run what is around them, with the same values; what is stored
there to memory that they share, one of them stores. A barrier stands before a statement that reads what was written
since the last one, or writes what was read or written, in loops also by the iteration before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mlirtri.lowering.schedule.cuda.common.atomic_calls import ATOMIC_UPDATE
from mlirtri.lowering.schedule.cuda.common.instructions import barrier
from mlirtri.lowering.schedule.cuda.tiles.fragment_uses import with_names_inside
from mlirtri.lowering.schedule.cuda.tiles.fragments import Fragments, Layout
from mlirtri.lowering.schedule.imperative.accesses import is_scalar
from mlirtri.lowering.schedule.imperative.interchange import FINISHED
from mlirtri.lowering.tir.linear_forms import largest_extent
from mlirtri.lowering.tir.primfunc import buffer as declare
from mlirtri.lowering.tir.statements import depends_on, index, loads_in, location_of, nodes_in, sequence, with_body
from mlirtri.lowering.tir.tiles import replaced
from mlirtri.lowering.toolchain.tvm_names import (
    INDEPENDENT,
    LOCATION,
    Buffer,
    Expr,
    Node,
    Stmt,
    TensorLoad,
    ir,
    structural_map,
    structural_walk,
    tirx,
)

DYNAMIC = "shared.dyn"
"""The scope of shared memory whose size is given at launch."""


NUMBER = "mlirtri.product"
"""Attribute around a finished statement: its index among them."""


@dataclass(frozen=True)
class Finished:
    """The memory that a statement reads and writes which all threads run as it is."""

    reads: tuple[Any, ...]
    writes: tuple[Any, ...]
    layout: Layout | None = None
    """How warps divide the result of a product."""
    results: tuple[Any, ...] = ()
    """Buffers that are accessed at the row and the column of each element of the product alone."""
    location: str = ""
    """The source location of the product."""
    sources: Mapping[Any, Layout] = field(default_factory=dict)
    """Tiles that the product takes from registers, in their layouts."""


@dataclass
class _Pending:
    """The memory that was read and written since the last barrier."""

    reads: set[Any] = field(default_factory=set)
    writes: set[Any] = field(default_factory=set)

    def needs_barrier(self, reads: set[Any], writes: set[Any]) -> bool:
        return bool(self.writes & (reads | writes) or self.reads & writes)

    def joined(self, other: _Pending) -> _Pending:
        return _Pending(self.reads | other.reads, self.writes | other.writes)


class BlockStatements:
    """Writes the statements of one block."""

    def __init__(self, thread: Expr, threads: int, finished: Sequence[Finished], scope: str, fragments: Fragments):
        self.thread, self.threads, self.finished, self.scope = thread, threads, finished, scope
        self.fragments = fragments
        self.allocated: set[Any] = set()
        """Buffers of the block."""
        self.private: set[Any] = set()
        """Buffers of which each thread has its own."""

    def written(self, statement: Stmt) -> Stmt:
        """Return the statement on the threads of a block, with the memory that they share in shared memory."""
        registers = {**self.fragments.registers, **self.fragments.vectors}
        statement = _in_registers(statement, registers)
        used = {buffer for known in self.finished for buffer in known.writes} | set(registers.values())
        statement = _without_unused(statement, used)
        self.allocated = {node.buffer for node in nodes_in(statement, tirx.AllocBuffer)}
        self.private = _private_buffers(statement) | set(registers) | set(registers.values())
        mapped, _ = self._visit(statement, _Pending())
        return _in_scopes(mapped, self.private, self.scope)

    def _visit(self, statement: Stmt, pending: _Pending) -> tuple[Any, _Pending]:
        """Return the mapped statement with barriers, and what is pending after it."""
        if isinstance(statement, tirx.SeqStmt):
            parts = []
            for child in statement.seq:
                part, pending = self._visit(child, pending)
                parts.append(part)
            return sequence(*parts), pending
        if isinstance(statement, tirx.AllocBuffer):
            return statement, pending
        if (
            isinstance(statement, tirx.For)
            and INDEPENDENT not in statement.annotations
            and not self._is_for_one(statement)
        ):
            return self._loop(statement, pending)
        if isinstance(statement, tirx.IfThenElse) and not self._is_for_one(statement):
            return self._branch(statement, pending)
        if isinstance(statement, tirx.While):
            return self._while(statement, pending)
        if isinstance(statement, tirx.AttrStmt) and statement.attr_key not in (FINISHED, ATOMIC_UPDATE):
            body, pending = self._visit(statement.body, pending)
            return tirx.AttrStmt(statement.node, statement.attr_key, statement.value, body), pending
        return self._leaf(statement, pending)

    def _loop(self, loop: Stmt, pending: _Pending) -> tuple[Any, _Pending]:
        _, after = self._visit(loop.body, pending)
        # Once more, after an iteration.
        body, after = self._visit(loop.body, pending.joined(after))
        return with_body(loop, body), pending.joined(after)

    def _while(self, loop: Stmt, pending: _Pending) -> tuple[Any, _Pending]:
        before, pending = self._barrier(loop.condition, pending)
        _, after = self._visit(loop.body, pending)
        body, after = self._visit(loop.body, pending.joined(after))
        # All threads evaluate the condition, also after an iteration.
        behind, after = self._barrier(loop.condition, after)
        return sequence(*before, tirx.While(loop.condition, sequence(body, *behind))), pending.joined(after)

    def _branch(self, branch: Any, pending: _Pending) -> tuple[Any, _Pending]:
        before, pending = self._barrier(branch.condition, pending)
        then, after = self._visit(branch.then_case, pending.joined(_Pending()))
        other = None
        if branch.else_case is not None:
            other, after_other = self._visit(branch.else_case, pending.joined(_Pending()))
            after = after.joined(after_other)
        return sequence(*before, tirx.IfThenElse(branch.condition, then, other)), pending.joined(after)

    def _leaf(self, statement: Stmt, pending: _Pending) -> tuple[Any, _Pending]:
        before, pending = self._barrier(statement, pending)
        location = location_of(statement)
        return sequence(*(_located(part, location) for part in (*before, self._mapped(statement)))), pending

    def _barrier(self, node: Node, pending: _Pending) -> tuple[list[Any], _Pending]:
        """Return a barrier if the statement needs one before it, and what is pending after the statement."""
        reads, writes = self._accesses(node)
        if self.scope == DYNAMIC and (reads | writes) & self.allocated:
            # TVM lays buffers over each other whose lifetimes do not meet.
            reads, writes = reads | {DYNAMIC}, writes | {DYNAMIC}
        if pending.needs_barrier(reads, writes):
            return [barrier()], _Pending(reads, writes)
        return [], pending.joined(_Pending(reads, writes))

    def _accesses(self, node: Node) -> tuple[set[Any], set[Any]]:
        known = self._finished_of(node)
        if known is not None:
            return set(known.reads) - self.private, set(known.writes) - self.private
        allocated = {allocation.buffer for allocation in nodes_in(node, tirx.AllocBuffer)}
        own = self.private | allocated
        reads = {load.source for load in loads_in(node)} - own
        return reads, {store.buffer for store in nodes_in(node, tirx.BufferStore)} - own

    def _finished_of(self, node: Node) -> Finished | None:
        if not isinstance(node, tirx.AttrStmt) or node.attr_key != FINISHED:
            return None
        numbered = node.body
        return self.finished[int(numbered.value)] if numbered.attr_key == NUMBER else None

    def _is_for_one(self, statement: Stmt) -> bool:
        """Return whether a statement has nothing to divide, and stores to nothing that each thread has of its own."""
        is_divided: list[Any] = []

        def visit(loop: Stmt) -> None:
            if INDEPENDENT in loop.annotations:
                is_divided.append(loop)

        structural_walk(statement, (tirx.For, visit))
        structural_walk(statement, (tirx.AttrStmt, is_divided.append))
        allocated = {allocation.buffer for allocation in nodes_in(statement, tirx.AllocBuffer)}
        stored = {store.buffer for store in nodes_in(statement, tirx.BufferStore)} - allocated
        return not is_divided and not stored & self.private and bool(stored)

    def _mapped(self, statement: Stmt) -> Any:
        if self._finished_of(statement) is not None:
            return statement.body.body
        if self.fragments.touched_by(statement):
            return self.fragments.mapped(statement, self.thread)
        if isinstance(statement, tirx.For) and INDEPENDENT in statement.annotations:
            return self._divided(statement)
        _, writes = self._accesses(statement)
        if writes:
            return tirx.IfThenElse(tirx.EQ(self.thread, index(0)), statement, None)
        return statement

    def _divided(self, loop: Stmt) -> Any:
        """Return a nest of parallel loops with neighbouring elements for neighbouring threads."""
        loops, body = [loop], with_names_inside(loop.body)
        while (
            isinstance(body, tirx.For)
            and INDEPENDENT in body.annotations
            and not depends_on(body.extent, [outer.loop_var for outer in loops])
        ):
            loops.append(body)
            body = with_names_inside(body.body)
        extents, conditions = _divisible(loops)
        total = extents[0]
        for extent in extents[1:]:
            total = total * extent
        iteration = tirx.Var("iteration", "int64")
        position = iteration * index(self.threads) + self.thread
        values, remaining = {}, position
        for each, extent in zip(reversed(loops[1:]), reversed(extents[1:]), strict=True):
            # At least 1: TVM reports divisions by 0 even where nothing is divided.
            size = extent if _is_number(extent) else tirx.max(extent, index(1))
            values[each.loop_var] = each.min + tirx.floormod(remaining, size)
            remaining = tirx.floordiv(remaining, size)
        values[loops[0].loop_var] = loops[0].min + remaining
        if not _is_number(total) or int(total) % self.threads:
            conditions.append(tirx.LT(position, total))
        statement = replaced(tirx.IfThenElse(tirx.all(*conditions), body, None) if conditions else body, values)
        count = tirx.floordiv(total + index(self.threads - 1), index(self.threads))
        location = {name: line for name, line in loop.annotations.items() if name == LOCATION}
        return tirx.For(iteration, index(0), count, tirx.ForKind.SERIAL, statement, annotations=location)


def _located(mapped: Any, location: str) -> Any:
    """Return a statement with its location, which a loop that has it already keeps unless it runs once."""
    if not location or (isinstance(mapped, tirx.For) and not (_is_number(mapped.extent) and int(mapped.extent) == 1)):
        return mapped
    return tirx.AttrStmt(index(0), LOCATION, ir.StringImm(location), mapped)


def _divisible(loops: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Return the extents that the iterations of a nest are divided by, and what holds for the ones that run.

    A part of a tile is divided as the whole tile is, whose size is a constant: divisions by others are slow.
    """
    extents, conditions = [], []
    for loop in loops:
        largest = None if _is_number(loop.extent) else largest_extent(loop.extent)
        if largest is None or largest < 1:
            extents.append(loop.extent if _is_number(loop.extent) else tirx.max(loop.extent, index(0)))
        else:
            extents.append(index(largest))
            conditions.append(tirx.LT(loop.loop_var - loop.min, loop.extent))
    return extents, conditions


def _is_number(extent: Any) -> bool:
    return isinstance(extent, tirx.IntImm)


def _private_buffers(statement: Stmt) -> set[Any]:
    """Return the scalar buffers that all threads compute, and what divided loops allocate."""
    divided: list[Any] = []

    def visit(loop: Stmt) -> None:
        if INDEPENDENT in loop.annotations:
            divided.append(loop)

    structural_walk(statement, (tirx.For, visit))
    inside = {node.buffer for loop in divided for node in nodes_in(loop, tirx.AllocBuffer)}
    stored = {node.buffer for loop in divided for node in nodes_in(loop, tirx.BufferStore)} - inside
    scalars = {node.buffer for node in nodes_in(statement, tirx.AllocBuffer) if is_scalar(node.buffer)}
    return (scalars - stored) | inside


def _in_registers(statement: Stmt, registers: Mapping[Any, Any]) -> Any:
    """Return the statement with registers allocated in place of the tiles that are in them."""

    def allocate(node: Node) -> Any:
        return tirx.AllocBuffer(registers[node.buffer]) if node.buffer in registers else node

    return structural_map(statement, (tirx.AllocBuffer, allocate), order="post") if registers else statement


def _without_unused(statement: Stmt, used: set[Any]) -> Any:
    """Return the statement without allocations of buffers that nothing accesses: products keep sums in registers."""
    used = used | {load.source for load in loads_in(statement)}
    used |= {store.buffer for store in nodes_in(statement, tirx.BufferStore)}
    finished: list[Any] = []
    structural_walk(statement, (tirx.AttrStmt, lambda node: finished.append(node.body)))
    used |= {node.buffer for each in finished for node in nodes_in(each, tirx.AllocBuffer)}

    def allocate(node: Node) -> Any:
        return node if node.buffer in used else sequence()

    return structural_map(statement, (tirx.AllocBuffer, allocate), order="post")


def _in_scopes(statement: Stmt, private: set[Any], shared: str) -> Any:
    """Return the statement with its buffers declared in registers and in shared memory."""
    scoped: dict[Any, Any] = {}
    for node in nodes_in(statement, tirx.AllocBuffer):
        old = node.buffer
        if old.scope() == "global" and old not in scoped:
            scope = "local" if old in private else shared
            scoped[old] = declare(old.name, [int(size) for size in old.shape], str(old.dtype), scope)
    return with_buffers(statement, scoped)


def with_buffers(statement: Stmt, buffers: dict[Buffer, Buffer]) -> Stmt:
    """Return a statement with other buffers in place of some."""

    def load(node: Node) -> Any:
        new = buffers.get(node.source)
        return node if new is None else tirx.BufferLoad(new, node.indices)

    def store(node: Node) -> Any:
        new = buffers.get(node.buffer)
        return node if new is None else tirx.BufferStore(new, node.value, node.indices)

    def allocate(node: Node) -> Any:
        new = buffers.get(node.buffer)
        return node if new is None else tirx.AllocBuffer(new)

    rules = [(TensorLoad, load), (tirx.BufferStore, store), (tirx.AllocBuffer, allocate)]
    return structural_map(statement, rules, order="post")
