"""Loop interchange: marks parallel loops, and moves reductions inside of them, where they can stay in registers.

Every loop that is proven independent gets ``mlirtri.independent``. Serial loops that add to memory are moved inside the
parallel ones that they contain, and their sums are held in a scalar buffer, added up in the same order::

    for k:                                        for j:
        for j:                              ──►       sum = C[i, j]
            C[i, j] += A[i, k] * B[k, j]              for k: sum += A[i, k] * B[k, j]
                                                      C[i, j] = sum
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from mlirtri.lowering.schedule.imperative.accesses import LoopAccess, accesses_of, are_disjoint, is_parallel, is_scalar
from mlirtri.lowering.tir.arithmetic import reads_memory
from mlirtri.lowering.tir.linear_forms import LoopRange, range_of
from mlirtri.lowering.tir.statements import depends_on, index, new_buffer, sequence, with_accesses, with_body
from mlirtri.lowering.toolchain.tvm_names import INDEPENDENT, Buffer, Stmt, Var, structural_equal, tirx

Ranges = tuple[LoopRange, ...]
FINISHED = "mlirtri.finished"
"""Attribute around statements whose loops are final."""


def prepare(statement: Stmt, around: Ranges = ()) -> Stmt:
    """Return the statement with parallel loops marked and sums moved inwards; `around` has the outer loops' ranges."""
    if isinstance(statement, tirx.For):
        return _prepared_loop(statement, around)
    return with_parts(statement, lambda part: prepare(part, around))


def with_parts(statement: Stmt, change: Callable[[Stmt], Stmt]) -> Stmt:
    """Return a statement that is no loop with `change` applied to its parts."""
    if isinstance(statement, tirx.SeqStmt):
        return sequence(*(change(child) for child in statement.seq))
    if isinstance(statement, tirx.IfThenElse):
        other = statement.else_case
        return tirx.IfThenElse(
            statement.condition, change(statement.then_case), None if other is None else change(other)
        )
    if isinstance(statement, tirx.While):
        return tirx.While(statement.condition, change(statement.body))
    if isinstance(statement, tirx.AttrStmt) and statement.attr_key != FINISHED:
        return tirx.AttrStmt(statement.node, statement.attr_key, statement.value, change(statement.body))
    return statement


def _prepared_loop(loop: Stmt, around: Ranges) -> Any:
    inner = (*around, range_of(loop, {}))
    loop = with_body(loop, prepare(loop.body, inner))
    if is_parallel(loop, around):
        return marked(loop)
    moved = _moved_inside(loop, around)
    return in_scalars(loop, around) if moved is None else moved


def marked(loop: Stmt) -> Stmt:
    """Return the loop with the annotation that its iterations are independent."""
    annotations = {**dict(loop.annotations), INDEPENDENT: 1}
    return tirx.For(loop.loop_var, loop.min, loop.extent, loop.kind, loop.body, None, annotations, loop.step)


def _moved_inside(loop: Stmt, around: Ranges) -> Any:
    """Return the nest with this serial loop innermost; None where that is not legal, or not profitable."""
    nest, body = [], loop.body
    while isinstance(body, tirx.For) and INDEPENDENT in body.annotations:
        nest.append(body)
        body = body.body
    if not nest or not sums_up(loop, body):
        return None
    stored = [access.buffer for access in accesses_of(body).all if access.is_store]
    if _bounds_depend_on([loop], [*stored, *(outer.loop_var for outer in nest)]):
        return None
    if _bounds_depend_on(nest, [*stored, loop.loop_var]):
        return None
    result = with_body(loop, body)
    for outer in reversed(nest):
        result = with_body(outer, result)
    if not _all_parallel(result, len(nest), around):
        return None
    ranges = (*around, *(range_of(outer, {}) for outer in nest))
    result = in_scalars(with_body(loop, body), ranges)
    for outer in reversed(nest):
        result = with_body(outer, result)
    return result


def _bounds_depend_on(loops: Sequence[Any], variables: Sequence[Any]) -> bool:
    return any(depends_on(bound, variables) for loop in loops for bound in (loop.min, loop.extent))


def _all_parallel(nest: Any, depth: int, around: Ranges) -> bool:
    for _ in range(depth):
        bare = tirx.For(nest.loop_var, nest.min, nest.extent, nest.kind, nest.body, None, {}, nest.step)
        if not is_parallel(bare, around):
            return False
        around = (*around, range_of(nest, {}))
        nest = nest.body
    return True


def sums_up(loop: Stmt, body: Stmt) -> bool:
    """Return whether the addresses of all stores to outer buffers are invariant in the loop."""
    accesses = accesses_of(body)
    stores = [access for access in accesses.shared if access.is_store]
    return bool(stores) and not accesses.is_opaque and all(_stays(store, loop.loop_var) for store in stores)


def _stays(access: LoopAccess, variable: Var) -> bool:
    moving = (variable, *(inner.variable for inner in access.loops))
    return all(form is not None and not any(form.factor(name) for name in moving) for form in access.indices)


def in_scalars(loop: Stmt, around: Ranges) -> Stmt:
    """Return the loop with a scalar buffer for each element of memory that all of its iterations add to."""
    accesses = accesses_of(loop.body)
    if accesses.is_opaque or (isinstance(loop.extent, tirx.IntImm) and loop.extent.value <= 0):
        return loop
    prologue, epilogue, body = [], [], loop.body
    for store in _fixed_stores(loop, accesses.shared, around):
        buffer = store.buffer
        scalar = new_buffer(f"{buffer.name}_element", buffer.dtype, 1)
        body = _with_scalar(body, store, scalar)
        prologue += [
            tirx.AllocBuffer(scalar),
            tirx.BufferStore(scalar, tirx.BufferLoad(buffer, store.indices), [index(0)]),
        ]
        epilogue.append(tirx.BufferStore(buffer, tirx.BufferLoad(scalar, [index(0)]), store.indices))
    if not prologue:
        return loop
    result = sequence(*prologue, with_body(loop, body), *epilogue)
    if isinstance(loop.extent, tirx.IntImm):
        return result
    return tirx.IfThenElse(tirx.GT(loop.extent, index(0)), result, None)


def _fixed_stores(loop: Stmt, accesses: Sequence[LoopAccess], around: Ranges) -> Iterator[Any]:
    """Yield the stores to a loop-invariant address that nothing else in the loop accesses."""
    statements = loop.body.seq if isinstance(loop.body, tirx.SeqStmt) else [loop.body]
    stores = [
        statement
        for statement in statements
        if isinstance(statement, tirx.BufferStore) and not is_scalar(statement.buffer)
    ]
    defined = [statement.var for statement in statements if isinstance(statement, tirx.Bind)]
    ranges = (*around, range_of(loop, {}))
    for store in stores:
        if any(depends_on(position, [loop.loop_var, *defined]) or reads_memory(position) for position in store.indices):
            continue
        group = [access for access in accesses if access.buffer.same_as(store.buffer)]
        written = [access for access in group if access.is_store]
        if len(written) != 1:
            continue
        [write] = written
        if all(access.indices == write.indices or are_disjoint(write, access, ranges) for access in group):
            yield store


def _with_scalar(body: Stmt, store: Stmt, scalar: Any) -> Any:

    def access(buffer: Buffer, indices: Any) -> Any:
        is_same = buffer.same_as(store.buffer) and all(map(structural_equal, indices, store.indices))
        return (scalar, [index(0)]) if is_same else None

    return with_accesses(body, access)
