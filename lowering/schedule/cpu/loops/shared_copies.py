"""Copies of operands in parallel loops of which only some need a copy of their own: they move between the loops.

for y:  # both loops parallel                for x:
    for x:                                       p = copy of b's columns x
        p = copy of b's columns x      ──►       for y:
        c[y, x] = a's rows y * p                     c[y, x] = a's rows y * p
"""

from __future__ import annotations

from typing import Any

from mlirtri.lowering.schedule.imperative.interchange import FINISHED
from mlirtri.lowering.tir.statements import depends_on, loads_in, sequence, with_body
from mlirtri.lowering.toolchain.tvm_names import INDEPENDENT, Stmt, Var, structural_walk, tirx

CHUNKS = 2
"""Iterations per thread of a loop that becomes the outermost one."""


def with_copies_outside(loop: Stmt, threads: int) -> Stmt:
    """Return two perfectly nested parallel loops with the copies that one of them shares in between, else unchanged."""
    inner = loop.body
    if INDEPENDENT not in loop.annotations or not isinstance(inner, tirx.For) or INDEPENDENT not in inner.annotations:
        return loop
    if depends_on(inner.extent, [loop.loop_var]) or not isinstance(inner.body, tirx.SeqStmt):
        return loop
    for outer, other in ((loop, inner), (inner, loop)):
        is_enough = outer is loop or _has_iterations(outer, threads)
        shared = _shared(list(inner.body.seq), other.loop_var) if is_enough else []
        if shared:
            rest = [statement for statement in inner.body.seq if not any(statement.same_as(part) for part in shared)]
            return with_body(outer, sequence(*shared, with_body(other, sequence(*rest))))
    return loop


def _has_iterations(loop: Stmt, threads: int) -> bool:
    return isinstance(loop.extent, tirx.IntImm) and (threads == 1 or loop.extent.value >= CHUNKS * threads)


def _shared(statements: list[Any], variable: Var) -> list[Any]:
    """Return the allocations and copies among statements that are the same for each value of a variable."""
    shared: list[Any] = []
    stored = _stored(statements)
    for allocation in statements:
        if not isinstance(allocation, tirx.AllocBuffer):
            continue
        users = [
            statement for statement in statements
            if not isinstance(statement, tirx.AllocBuffer) and depends_on(statement, [allocation.buffer])
        ]  # fmt: skip
        copy = users[0] if users else None
        writers = [user for user in users if any(allocation.buffer.same_as(buffer) for buffer in _stored([user]))]
        is_copy = isinstance(copy, tirx.AttrStmt) and copy.attr_key == FINISHED and len(_stored([copy])) == 1
        if not is_copy or len(writers) != 1 or depends_on(copy, [variable]):
            continue
        reads = [load.source for load in loads_in(copy)]
        if not any(read.same_as(buffer) for read in reads for buffer in stored):
            shared += [allocation, copy]
    return shared


def _stored(statements: list[Any]) -> list[Any]:
    buffers: list[Any] = []
    for statement in statements:
        structural_walk(statement, (tirx.BufferStore, lambda node: buffers.append(node.buffer)))
    return list(dict.fromkeys(buffers))
