"""Rows of open length that are reduced in a fast version: several of them at once, and the check after some of them.

Additions of different rows are independent, so that a core has more of them in flight. Each row has its own partial
results, combined in the same order as alone. The version that is always right stands in a loop of its own, since LLVM
keeps addresses for it that each row would pay for::

    for i:  s = fast(i);  if fails(s): s = exact(i);  out[i] = s
    ──►
    for blocks of 64 rows:
        for groups of 4 rows:  s0, …, s3 = fast(i), …, fast(i + 3);  failed |= fails(s0, …, s3);  out[i:i + 4] = s0, …
        for the other rows, or all of them where `failed`:  what stood there before
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from mlirtri.lowering.codegen.targets import vector_registers
from mlirtri.lowering.core.target import Target
from mlirtri.lowering.schedule.cpu.common.strips import allocated_in
from mlirtri.lowering.schedule.cpu.loops.checked_reductions import CHECKED
from mlirtri.lowering.schedule.imperative.accesses import accesses_of
from mlirtri.lowering.schedule.imperative.vector_choice import contains_loops
from mlirtri.lowering.tir.statements import (
    chunks_in,
    depends_on,
    fresh,
    index,
    loads_in,
    new_buffer,
    nodes_in,
    plus,
    sequence,
    substituted,
    whole_chunks,
)
from mlirtri.lowering.toolchain.tvm_names import (
    INDEPENDENT,
    Buffer,
    Expr,
    Node,
    Stmt,
    structural_equal,
    structural_map,
    tirx,
)

REGISTERS_OF_ROW = 8
"""Vector registers of one row: partial results, and what is loaded."""
BLOCK = 64
"""Rows between two checks."""
_ZERO, _NO = index(0), tirx.IntImm("int32", 0)


def in_groups(original: Stmt, loop: Stmt, count: Expr, target: Target) -> Stmt:
    """Return a loop of `count` independent iterations in groups, or as it is where it is none of such rows.

    `original` is the loop before its body was scheduled.
    """
    rows = max(1, vector_registers() // REGISTERS_OF_ROW)
    is_open = not isinstance(count, tirx.IntImm) and loop.step is None
    if not is_open or rows == 1 or _branches(loop.body) or not _reduces(original):
        return loop
    return _blocks(loop, count, rows, target) if not _checks_in(loop.body) or _repeats(original) else loop


def _checks_in(body: Stmt) -> list[Any]:
    return [statement for statement in nodes_in(body, tirx.AttrStmt) if statement.attr_key == CHECKED]


def _branches(body: Stmt) -> bool:
    """Return whether rows search, each to another place, or check lanes of flags, which costs what groups gain."""
    loads = [load for check in _checks_in(body) for load in loads_in(check.body.condition)]
    return bool(nodes_in(body, tirx.While)) or any(isinstance(load.indices[0], tirx.Ramp) for load in loads)


def _steps(loop: Stmt) -> list[Any]:
    return list(loop.body.seq) if isinstance(loop.body, tirx.SeqStmt) else [loop.body]


def _reduces(loop: Stmt) -> bool:
    """Return whether the loops inside are reductions, each of an open length that is the same for all rows."""
    own = [loop.loop_var, *(bind.var for bind in nodes_in(loop.body, tirx.Bind)), *allocated_in(loop.body)]
    loops = nodes_in(loop.body, tirx.For)
    return bool(loops) and not any(
        INDEPENDENT in inner.annotations
        or isinstance(inner.extent, tirx.IntImm)
        or contains_loops(inner.body)
        or depends_on(inner.extent, own)
        for inner in loops
    )


def _repeats(loop: Stmt) -> bool:
    """Return whether an iteration that runs twice does what it does once: it reads nothing that it overwrites."""
    accesses = accesses_of(loop.body)
    stored = [access.buffer for access in accesses.shared if access.is_store]
    own: list[Any] = []
    for step in _steps(loop):
        steps = accesses_of(step).all
        reads = [(access.buffer, access.indices) for access in steps if not access.is_store]
        if any(read[0] in stored and read not in own for read in reads):
            return False
        own += [(access.buffer, access.indices) for access in steps if isinstance(step, tirx.BufferStore)]
    return not accesses.is_opaque


def _blocks(loop: Any, count: Expr, rows: int, target: Target) -> Stmt:
    size = index(BLOCK)
    if target.threads > 1:
        size = tirx.max(index(1), tirx.min(size, chunks_in(count, 2 * target.threads)))
    block, failed = tirx.Var("block", "int64"), new_buffer("failed", "int32", 1)
    first, inside, begin = (tirx.Var(name, "int64") for name in ("first", "rows", "start"))
    fast, group = _Fast(loop.body, failed), tirx.Var("group", "int64")
    copies = [_row(loop, fast.body, first + (group * index(rows) + index(row))) for row in range(rows)]
    groups = tirx.For(group, _ZERO, chunks_in(inside, rows), tirx.ForKind.SERIAL, _together(copies))
    short = reduce(tirx.Or, fast.shortness, tirx.IntImm("bool", 0))
    together = _with(groups, fast.shortness, False)
    row = tirx.Var(loop.loop_var.name, loop.loop_var.ty)
    body = sequence(
        tirx.Bind(first, block * size),
        tirx.Bind(inside, tirx.min(size, count - first)),
        tirx.AllocBuffer(failed),
        tirx.BufferStore(failed, tirx.Cast("int32", short), [_ZERO]),
        tirx.IfThenElse(tirx.Not(short), together, None) if fast.shortness else together,
        tirx.Bind(
            begin, tirx.Select(tirx.NE(tirx.BufferLoad(failed, [_ZERO]), _NO), _ZERO, whole_chunks(inside, rows))
        ),
        tirx.For(row, _ZERO, inside - begin, tirx.ForKind.SERIAL, _row(loop, loop.body, first + begin + row)),
    )
    blocks = tirx.floordiv(count + (size - index(1)), size)
    return tirx.For(block, _ZERO, blocks, loop.kind, body, None, loop.annotations)


def _row(loop: Any, body: Stmt, number: Expr) -> Stmt:
    """Return the body for one row, whose number has a name."""
    row = tirx.Var(loop.loop_var.name, loop.loop_var.ty)
    return fresh(sequence(tirx.Bind(row, plus(loop.min, number)), substituted(body, loop.loop_var, row)))


class _Fast:
    """The fast versions of a body alone; `failed` is set where one is not to be used."""

    def __init__(self, body: Stmt, failed: Buffer):
        self.failed = failed
        self.shortness: list[Expr] = []
        """Whether a row is too short for each fast version, which is so for all rows."""
        body = structural_map(body, (tirx.AttrStmt, self._checked), order="post")
        self.body = structural_map(body, (tirx.SeqStmt, lambda node: sequence(*node.seq)), order="post")

    def _checked(self, node: Node) -> Any:
        if node.attr_key != CHECKED:
            return node
        if not isinstance(node.value, tirx.IntImm) and not any(structural_equal(node.value, s) for s in self.shortness):
            self.shortness.append(node.value)
        flag = tirx.Select(node.body.condition, tirx.IntImm("int32", 1), tirx.BufferLoad(self.failed, [_ZERO]))
        return sequence(tirx.BufferStore(self.failed, flag, [_ZERO]), node.body.else_case)


def _with(body: Stmt, conditions: Sequence[Expr], value: bool) -> Stmt:
    """Return a body in which comparisons have a known value."""

    def known(node: Node) -> Any:
        return tirx.IntImm("bool", value) if any(structural_equal(node, one) for one in conditions) else node

    return structural_map(body, (tirx.LT, known), order="post")


def _together(copies: Sequence[Any]) -> Stmt:
    """Return statements that are the same but for their names and rows as one, with the steps of all of them."""
    first = copies[0]
    if isinstance(first, tirx.SeqStmt):
        return sequence(*(_together(steps) for steps in zip(*(copy.seq for copy in copies), strict=True)))
    if isinstance(first, tirx.For) and first.kind == tirx.ForKind.SERIAL and _agree_on_bounds(copies):
        bodies = [substituted(copy.body, copy.loop_var, first.loop_var) for copy in copies]
        return tirx.For(
            first.loop_var, first.min, first.extent, first.kind, _together(bodies), None, first.annotations, first.step
        )
    if isinstance(first, tirx.IfThenElse) and _agree([copy.condition for copy in copies]):
        others = [copy.else_case for copy in copies]
        other = None if first.else_case is None else _together(others)
        return tirx.IfThenElse(first.condition, _together([copy.then_case for copy in copies]), other)
    return sequence(*copies)


def _agree_on_bounds(loops: Sequence[Any]) -> bool:
    return _agree([loop.min for loop in loops]) and _agree([loop.extent for loop in loops])


def _agree(expressions: Sequence[Expr]) -> bool:
    return all(structural_equal(expressions[0], other) for other in expressions[1:])
