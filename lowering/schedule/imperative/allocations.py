"""Allocate a buffer inside the one loop that uses it, where each iteration overwrites it first."""

from __future__ import annotations

from typing import Any

from mlirtri.lowering.tir.statements import depends_on, uses_in, with_body
from mlirtri.lowering.toolchain.tvm_names import Buffer, Stmt, tirx


def with_allocations_inside(statements: list[Stmt]) -> list[Stmt]:
    """Return the statements with buffers that one loop alone uses, and overwrites first, allocated in that loop."""
    kept: list[Any] = []
    uses = [set() if isinstance(statement, tirx.AllocBuffer) else uses_in(statement) for statement in statements]
    for number, statement in enumerate(statements):
        if not isinstance(statement, tirx.AllocBuffer):
            kept.append(statement)
            continue
        buffer = statement.buffer.__chandle__()
        users = [other for other in range(number + 1, len(statements)) if buffer in uses[other]]
        inner = _allocating(statements[users[0]], statement) if len(users) == 1 else None
        if inner is None:
            kept.append(statement)
        else:
            statements[users[0]] = inner
    return kept


def _allocating(loop: Stmt, allocation: Any) -> Any:
    """Return a loop that allocates a buffer in its body; None if an iteration may read what another one wrote."""
    if not isinstance(loop, tirx.For) or loop.kind != tirx.ForKind.SERIAL:
        return None
    if isinstance(loop.body, tirx.For):
        inner = _allocating(loop.body, allocation)
        return None if inner is None else with_body(loop, inner)
    if not isinstance(loop.body, tirx.SeqStmt):
        return None
    first = next((child for child in loop.body.seq if is_user(child, allocation.buffer)), None)
    if first is None or not _overwrites(first, allocation.buffer):
        return None
    return with_body(loop, tirx.SeqStmt([allocation, *loop.body.seq]))


def _overwrites(statement: Stmt, buffer: Buffer) -> bool:
    """Return whether a statement is a nest that stores each element of a buffer and reads none."""
    extents: dict[Any, Any] = {}
    while isinstance(statement, tirx.For):
        extents[statement.loop_var] = statement.extent
        statement = statement.body
    is_store = isinstance(statement, tirx.BufferStore) and statement.buffer.same_as(buffer)
    if not is_store or depends_on(statement.value, [buffer]) or len(set(statement.indices)) != len(statement.indices):
        return False
    pairs = zip(statement.indices, buffer.ty.shape, strict=True)
    return all(
        isinstance(size, tirx.IntImm) and isinstance(extents.get(position), tirx.IntImm)
        and extents[position].value == size.value
        for position, size in pairs
    )  # fmt: skip


def is_user(statement: Stmt, buffer: Buffer) -> bool:
    """Return whether a statement uses a buffer and is not its allocation."""
    return not isinstance(statement, tirx.AllocBuffer) and depends_on(statement, [buffer])
