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

from mlirtri.lowering.schedule.cpu.common.nest import with_accesses
from mlirtri.lowering.schedule.cpu.loops.accesses import LoopAccess, LoopAccesses, accesses_of, are_apart, is_scalar
from mlirtri.lowering.schedule.cpu.loops.interchange import with_parts
from mlirtri.lowering.schedule.cpu.loops.vector_choice import contains_loops, fit_of
from mlirtri.lowering.tir.linear_forms import LoopRange, range_of
from mlirtri.lowering.tir.statements import depends_on, index, new_buffer, plus, sequence, substituted, with_body
from mlirtri.lowering.toolchain.tvm_names import PARALLEL, Buffer, Stmt, structural_equal, structural_walk, tirx

Ranges = tuple[LoopRange, ...]
MAX_ACCESSES = 64
"""LoopAccesses of a loop that is still fused: larger bodies run out of registers."""


def fused(statement: Stmt, around: Ranges = ()) -> Any:
    """Return the statement with parallel loops fused, and scalar buffers for arrays private to an iteration."""
    return _with_scalars(_fused(statement, around))


def _fused(statement: Stmt, around: Ranges) -> Any:
    if isinstance(statement, tirx.For):
        return with_body(statement, _fused(statement.body, (*around, range_of(statement, {}))))
    if isinstance(statement, tirx.SeqStmt):
        return _fused_sequence(list(statement.seq), around)
    return with_parts(statement, lambda part: _fused(part, around))


def _fused_sequence(statements: Sequence[Any], around: Ranges) -> Any:
    """Return the statements with each loop fused into the one before it, if it may; allocations come first."""
    result: list[Any] = []
    allocations: list[Any] = []
    for statement in statements:
        if isinstance(statement, tirx.AllocBuffer) and result and _is_marked(result[-1]):
            allocations.append(statement)
            continue
        if result and (both := _fused_pair(result[-1], statement, around)) is not None:
            result[-1:] = [*allocations, both]
        else:
            result += [*allocations, statement]
        allocations = []
    return sequence(*(_fused(statement, around) for statement in (*result, *allocations)))


def _is_marked(statement: Stmt) -> bool:
    return isinstance(statement, tirx.For) and PARALLEL in statement.annotations


def _fused_pair(first: Any, second: Any, around: Ranges) -> Any:
    if not (_is_marked(first) and _is_marked(second) and structural_equal(first.extent, second.extent)):
        return None
    shift = plus(first.loop_var, index(0) if structural_equal(second.min, first.min) else second.min - first.min)
    body = substituted(second.body, second.loop_var, shift)
    if _branches(first) or _branches(second) or not _vectorize_alike(first, second):
        return None
    accesses, other = accesses_of(first.body), accesses_of(body)
    if accesses.is_opaque or other.is_opaque or len(accesses.all) + len(other.all) > MAX_ACCESSES:
        return None
    pairs = list(_conflicts(accesses, other))
    if not pairs or not all(are_apart(*pair, range_of(first, {}), around) for pair in pairs):
        return None
    return with_body(first, sequence(first.body, body))


def _conflicts(accesses: LoopAccesses, other: LoopAccesses) -> Iterable[tuple[LoopAccess, LoopAccess]]:
    for access in accesses.shared:
        for other_access in other.shared:
            if access.buffer.same_as(other_access.buffer) and (access.is_store or other_access.is_store):
                yield (access, other_access) if access.is_store else (other_access, access)


def _branches(loop: Any) -> bool:
    branches: list[Any] = []
    structural_walk(loop.body, [(tirx.IfThenElse, branches.append), (tirx.While, branches.append)])
    return bool(branches)


def _vectorize_alike(first: Any, second: Any) -> bool:
    """Whether both loops are contiguous in memory, or neither is: the fused loop is vectorised only where both are.

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
    for allocation in [statement for statement in statements if isinstance(statement, tirx.AllocBuffer)]:
        users = [
            position
            for position, statement in enumerate(statements)
            if statement is not allocation and _uses(statement, allocation.buffer)
        ]
        loop = statements[users[0]] if len(users) == 1 else None
        if not isinstance(loop, tirx.For) or is_scalar(allocation.buffer):
            continue
        if (scalar_loop := _in_scalar(loop, allocation.buffer)) is not None:
            statements[users[0]] = scalar_loop
            statements.remove(allocation)
    return sequence(*map(_with_scalars, statements))


def _uses(statement: Stmt, buffer: Buffer) -> bool:
    return not isinstance(statement, tirx.AllocBuffer) and depends_on(statement, [buffer])


def _in_scalar(loop: Any, buffer: Buffer) -> Any:
    """Return the loop with a scalar buffer for `buffer`, used inside only; None where that is not equivalent."""
    body = list(loop.body.seq) if isinstance(loop.body, tirx.SeqStmt) else [loop.body]
    users = [position for position, statement in enumerate(body) if _uses(statement, buffer)]
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
