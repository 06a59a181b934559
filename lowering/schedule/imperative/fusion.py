"""Loop fusion of neighbouring parallel loops, so that a value is used while it is in a register.

Loops of the same extent are fused where they share an array and no iteration accesses what another iteration of the
other loop writes; scalar buffers replace arrays that are used inside of one iteration only::

    for i: t[i] = a[i] * a[i]               for i:
    for i: b[i] = t[i] + c[i]        ──►      scalar = a[i] * a[i]
                                              b[i] = scalar + c[i]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from mlirtri.lowering.schedule.imperative.accesses import LoopAccess, LoopAccesses, accesses_of, are_apart, is_scalar
from mlirtri.lowering.schedule.imperative.allocations import is_user
from mlirtri.lowering.schedule.imperative.interchange import with_parts
from mlirtri.lowering.schedule.imperative.vector_choice import contains_loops, fit_of
from mlirtri.lowering.tir.linear_forms import LoopRange, range_of
from mlirtri.lowering.tir.statements import (
    depends_on,
    index,
    new_buffer,
    plus,
    sequence,
    substituted,
    uses_in,
    with_accesses,
    with_body,
)
from mlirtri.lowering.toolchain.tvm_names import INDEPENDENT, Buffer, Stmt, structural_equal, structural_walk, tirx

Ranges = tuple[LoopRange, ...]
MAX_ACCESSES = 64
"""LoopAccesses of a loop that is still fused: larger bodies run out of registers."""


def fused(statement: Stmt, around: Ranges = ()) -> Stmt:
    """Return the statement with parallel loops fused, and scalar buffers for arrays private to an iteration."""
    return _with_scalars(_fused(statement, around))


def _fused(statement: Stmt, around: Ranges) -> Any:
    if isinstance(statement, tirx.For):
        return with_body(statement, _fused(statement.body, (*around, range_of(statement, {}))))
    if isinstance(statement, tirx.SeqStmt):
        return _fused_sequence(list(statement.seq), around)
    return with_parts(statement, lambda part: _fused(part, around))


def _fused_sequence(statements: Sequence[Any], around: Ranges) -> Any:
    """Return the statements with each loop fused into the one before it, if it may; what stands between comes first.

    A fused loop is tried with the one before it again: a fill that shares nothing with the loop before it becomes part
    of one that does.
    """
    result: list[Any] = []
    for statement in statements:
        result.append(statement)
        while (fewer := _last_two_fused(result, around)) is not None:
            result = fewer
    return sequence(*(_fused(statement, around) for statement in result))


def _last_two_fused(statements: Sequence[Any], around: Ranges) -> list[Any] | None:
    """Return the statements with the loop at the end in the marked loop before it; None where that is not legal."""
    first = len(statements) - 2
    while first >= 0 and isinstance(statements[first], tirx.AllocBuffer | tirx.Bind | tirx.BufferStore):
        first -= 1
    if first < 0 or not _is_marked(statements[-1]) or not _is_marked(statements[first]):
        return None
    between = statements[first + 1 : -1]
    if not _may_move_before(statements[first], between):
        return None
    both = _fused_pair(statements[first], statements[-1], around)
    return None if both is None else [*statements[:first], *between, both]


def _may_move_before(loop: Stmt, statements: Sequence[Any]) -> bool:
    """Return whether definitions, allocations and stores after a loop may stand before it."""
    others = [statement for statement in statements if not isinstance(statement, tirx.AllocBuffer)]
    if not others:
        return True
    accesses = accesses_of(loop)
    stored = [statement.buffer for statement in others if isinstance(statement, tirx.BufferStore)]
    written = [access.buffer for access in accesses.all if access.is_store]
    is_used = any(access.buffer.same_as(buffer) for access in accesses.all for buffer in stored)
    return not accesses.is_opaque and not is_used and not any(depends_on(other, written) for other in others)


def _is_marked(statement: Stmt) -> bool:
    return isinstance(statement, tirx.For) and INDEPENDENT in statement.annotations


def _fused_pair(first: Any, second: Any, around: Ranges) -> Any:
    if not (_is_marked(first) and _is_marked(second)) or _branches(first) or _branches(second):
        return None
    if not _vectorize_alike(first, second) or not _share_iterations(first, second, around):
        return None
    return with_body(first, sequence(first.body, _body_for(second, first)))


def _body_for(loop: Stmt, other: Any) -> Any:
    """Return the body of a loop for the iterations of another one of the same extent."""
    shift = plus(other.loop_var, index(0) if structural_equal(loop.min, other.min) else loop.min - other.min)
    return substituted(loop.body, loop.loop_var, shift)


def _share_iterations(first: Any, second: Any, around: Ranges) -> bool:
    """Return whether each iteration of a loop depends on the one iteration of the loop before it, and on no other."""
    if not structural_equal(first.extent, second.extent):
        return False
    accesses, other = accesses_of(first.body), accesses_of(_body_for(second, first))
    if accesses.is_opaque or other.is_opaque or len(accesses.all) + len(other.all) > MAX_ACCESSES:
        return False
    pairs = list(_conflicts(accesses, other))
    return bool(pairs) and all(are_apart(*pair, range_of(first, {}), around) for pair in pairs)


def producer_before(statements: Sequence[Stmt], reduction: Stmt, around: Ranges) -> int | None:
    """Return the position of the last loop, if a reduction after these statements may be computed in it; else None.

    The statements after the loop may stand before it.
    """
    first = len(statements) - 1
    while first >= 0 and isinstance(statements[first], tirx.AllocBuffer | tirx.Bind | tirx.BufferStore):
        first -= 1
    if first < 0 or not _is_marked(statements[first]) or not isinstance(reduction, tirx.For):
        return None
    loop = statements[first]
    is_plain = not contains_loops(loop.body) and not _branches(loop) and fit_of(loop).is_good
    may_move = is_plain and _may_move_before(loop, statements[first + 1 :])
    return first if may_move and _share_iterations(loop, reduction, around) else None


def _conflicts(accesses: LoopAccesses, other: LoopAccesses) -> Iterable[tuple[LoopAccess, LoopAccess]]:
    for access in accesses.shared:
        for other_access in other.shared:
            if access.buffer.same_as(other_access.buffer) and (access.is_store or other_access.is_store):
                yield (access, other_access) if access.is_store else (other_access, access)


def _branches(loop: Stmt) -> bool:
    branches: list[Any] = []
    structural_walk(loop.body, [(tirx.IfThenElse, branches.append), (tirx.While, branches.append)])
    return bool(branches)


def _vectorize_alike(first: Any, second: Any) -> bool:
    """Return whether both loops are contiguous in memory, or neither: a fused loop is vectorised where both are.

    Nested loops may be vectorised themselves, so an innermost loop fused with one has to be contiguous.
    """
    plain = [loop for loop in (first, second) if not contains_loops(loop.body)]
    if len(plain) == 1:
        return fit_of(plain[0]).is_good
    return not plain or fit_of(first).is_good == fit_of(second).is_good


def _with_scalars(statement: Stmt) -> Any:
    """Return the statement with scalar buffers for arrays of which an iteration uses one element, after storing it."""
    if isinstance(statement, tirx.For):
        return with_body(statement, _with_scalars(statement.body))
    if not isinstance(statement, tirx.SeqStmt):
        return with_parts(statement, _with_scalars)
    statements = list(statement.seq)
    uses = [set() if isinstance(statement, tirx.AllocBuffer) else uses_in(statement) for statement in statements]
    for allocation in [statement for statement in statements if isinstance(statement, tirx.AllocBuffer)]:
        buffer = allocation.buffer.__chandle__()
        users = [position for position, used in enumerate(uses) if buffer in used]
        loop = statements[users[0]] if len(users) == 1 else None
        if not isinstance(loop, tirx.For) or is_scalar(allocation.buffer):
            continue
        if (scalar_loop := _in_scalar(loop, allocation.buffer)) is not None:
            statements[users[0]], uses[users[0]] = scalar_loop, uses_in(scalar_loop)
            position = statements.index(allocation)
            del statements[position], uses[position]
    return sequence(*map(_with_scalars, statements))


def _in_scalar(loop: Stmt, buffer: Buffer) -> Any:
    """Return the loop with a scalar buffer for `buffer`, used inside only; None where that is not equivalent."""
    body = list(loop.body.seq) if isinstance(loop.body, tirx.SeqStmt) else [loop.body]
    users = [position for position, statement in enumerate(body) if is_user(statement, buffer)]
    first = body[users[0]]
    if len(users) == 1 and isinstance(first, tirx.For):
        inner = _in_scalar(first, buffer)
        return inner and with_body(loop, sequence(*body[: users[0]], inner, *body[users[0] + 1 :]))
    accesses = [access for access in accesses_of(loop.body).all if access.buffer.same_as(buffer)]
    is_one_element = all(None not in access.indices and access.indices == accesses[0].indices for access in accesses)
    inner = [inner_loop.variable for access in accesses for inner_loop in access.loops]
    is_one_element = is_one_element and not any(
        form.factor(variable) for form in accesses[0].indices for variable in inner
    )
    is_stored_first = isinstance(first, tirx.BufferStore) and first.buffer.same_as(buffer)
    if not is_one_element or not is_stored_first or depends_on(first.value, [buffer]):
        return None
    scalar = new_buffer(buffer.name, buffer.dtype, 1)
    body = with_accesses(loop.body, lambda other, _: (scalar, [index(0)]) if other.same_as(buffer) else None)
    return with_body(loop, sequence(tirx.AllocBuffer(scalar), body))
