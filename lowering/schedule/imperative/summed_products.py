"""Loops that add products to an array and do nothing else, as one product with a longer sum.

    for k:                                                  for i, j: t[i, j] = 0
        for i, j: t[i, j] = 0                               for i, k, l, j: t[i, j] += a[i, k, l] * b[k, l, j]
        for i, l, j: t[i, j] += a[i, k, l] * b[k, l, j]     for i, j: c[i, j] += t[i, j]
        for i, j: c[i, j] += t[i, j]               ──►

Sums may be reassociated, as in all products. Copies of the operands among the statements become part of the product.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mlirtri.lowering.schedule.imperative.perfect_nests import Nest, is_copy, is_zero, nest_of
from mlirtri.lowering.tir.statements import depends_on, index, is_load, loads_in, sequence, with_body
from mlirtri.lowering.tir.tiles import replaced
from mlirtri.lowering.toolchain.tvm_names import Buffer, Node, Stmt, TensorLoad, structural_equal, structural_map, tirx


@dataclass(frozen=True)
class _Parts:
    """The statements of the body of such a loop."""

    allocations: tuple[Any, ...]
    copies: dict[Any, Nest]
    """Nests that copy or convert a part of an array, by the buffer that they write."""
    start: Any
    product: Nest
    update: Any


def with_sum_inside(loop: Stmt, widens: bool = False) -> Stmt | None:
    """Return the statements of a serial loop over products as one product; None for any other loop.

    With `widens` conversions of bf16 to fp32 count as copies, and the loop may have a run-time number of iterations.
    """
    if not isinstance(loop, tirx.For) or not isinstance(loop.body, tirx.SeqStmt) or loop.step is not None:
        return None
    parts = _parts(list(loop.body.seq), widens)
    is_constant = isinstance(loop.extent, tirx.IntImm)
    if parts is None or not (loop.extent.value >= 1 if is_constant else widens and not loads_in(loop.extent)):
        return None
    store = _forwarded(parts.product.store, parts.copies)
    target = parts.update.store.buffer
    reads = [load.source for load in loads_in(store.value)]
    written = [target, parts.product.store.buffer, *parts.copies]
    if any(read.same_as(buffer) for read in reads if not read.same_as(store.buffer) for buffer in written):
        return None
    if depends_on(parts.update.statement, [loop.loop_var]):
        return None
    kept = [allocation for allocation in parts.allocations if allocation.buffer not in parts.copies]
    return sequence(*kept, parts.start, _nest_with(parts.product, loop, store), parts.update.statement)


@dataclass(frozen=True)
class _Update:
    """The nest ``c[…] = c[…] + t[i, j]``."""

    statement: Any
    store: Any


def _parts(statements: Sequence[Any], widens: bool) -> _Parts | None:
    allocations = [statement for statement in statements if isinstance(statement, tirx.AllocBuffer)]
    others = [statement for statement in statements if not isinstance(statement, tirx.AllocBuffer)]
    nests = [nest_of(statement) for statement in others]
    known = [nest for nest in nests if nest is not None and not nest.names]
    if len(others) < 3 or len(known) < len(nests):
        return None
    *copied, start, product, last = known
    local = {allocation.buffer for allocation in allocations}
    sums = product.store.buffer
    copies = {nest.store.buffer: nest for nest in copied}
    if sums not in local or not start.store.buffer.same_as(sums) or not start.reaches_all():
        return None
    are_copies = all(
        buffer in local and nest.reaches_all() and is_copy(nest, widens) for buffer, nest in copies.items()
    )
    if not are_copies or len(copies) != len(copied) or not is_zero(start.store.value):
        return None
    update = _Update(others[-1], last.store)
    return _Parts(tuple(allocations), copies, others[-3], product, update) if _adds(last.store, sums) else None


def _adds(store: Stmt, sums: Buffer) -> bool:
    """Return whether a store adds an element of `sums` to one of an array."""
    value = store.value
    if not isinstance(value, tirx.Add) or store.buffer.same_as(sums):
        return False
    old, new = (value.a, value.b) if is_load(value.a, store.buffer) else (value.b, value.a)
    return (
        is_load(old, store.buffer)
        and is_load(new, sums)
        and all(map(structural_equal, old.indices, store.indices))
        and len(loads_in(value)) == 2
    )


def _forwarded(store: Stmt, copies: dict[Any, Nest]) -> Any:
    """Return the store with what copies read in place of loads of the copies."""

    def load(node: Node) -> Any:
        nest = copies.get(node.source)
        if nest is None:
            return node
        pairs = zip(nest.store.indices, node.indices, strict=True)
        values = {position: value for position, value in pairs if isinstance(position, tirx.Var)}
        # A copy may read another one.
        others = {buffer: other for buffer, other in copies.items() if other is not nest}
        return _forwarded(replaced(nest.store.value, values), others)

    return structural_map(store, (TensorLoad, load), order="post")


def _nest_with(product: Nest, loop: Stmt, store: Stmt) -> Any:
    """Return the loops of a product around a store, with another loop inside of the axes of the result."""
    shown = set(product.store.indices)  # no list: `in` would compare by ==, which TIR makes an expression
    outer = [axis for axis in product.axes if axis.variable in shown]
    inner = [axis for axis in product.axes if axis.variable not in shown]
    statement = store
    for axis in reversed(inner):
        statement = _loop(axis, statement)
    statement = with_body(tirx.For(loop.loop_var, loop.min, loop.extent, tirx.ForKind.SERIAL, statement), statement)
    for axis in reversed(outer):
        statement = _loop(axis, statement)
    return statement


def _loop(axis: Any, body: Stmt) -> Any:
    return tirx.For(axis.variable, index(0), index(axis.extent), tirx.ForKind.SERIAL, body)
