"""Prefetches of the next row, in nests that go over each row of an array several times.

The first pass over a row would wait for memory, the others have the row in the cache and compute; so the first of the
others fetches the next row::

    for i:  # parallel                          for i:
        for k: m = max(m, a[i, k])       ──►        for k: m = max(m, a[i, k])
        for k: e[i, k] = exp(a[i, k] - m)           for k: prefetch a[min(i + 1, n - 1), k];  e[i, k] = …
"""

from __future__ import annotations

from typing import Any

from mlirtri.lowering.schedule.imperative.accesses import LoopAccess, accesses_of
from mlirtri.lowering.schedule.imperative.carried_sums import sums_of
from mlirtri.lowering.schedule.imperative.interchange import with_parts
from mlirtri.lowering.schedule.imperative.vector_choice import contains_loops, fit_of, step_of
from mlirtri.lowering.tir.statements import index, nodes_in, sequence, substituted, with_body
from mlirtri.lowering.tir.vectors import fetch
from mlirtri.lowering.toolchain.tvm_names import INDEPENDENT, Buffer, Stmt, TensorLoad, Var, tirx


def with_prefetches(statement: Stmt) -> Stmt:
    """Return the statement with prefetches in each parallel loop of dynamic extent that has several such passes."""
    if not isinstance(statement, tirx.For):
        return with_parts(statement, with_prefetches)
    if INDEPENDENT in statement.annotations and isinstance(statement.body, tirx.SeqStmt):
        return with_body(statement, _row(statement))
    return with_body(statement, with_prefetches(statement.body))


def _row(loop: Stmt) -> Stmt:
    parts = list(loop.body.seq)
    passes = [position for position, part in enumerate(parts) if _is_pass(part)]
    if len(passes) < 2 or isinstance(loop.extent, tirx.IntImm):
        return loop.body
    buffer = _read_by(parts[passes[0]], loop.loop_var)
    if buffer is None or any(_stores_to(part, buffer) for part in parts):
        return loop.body
    for position in passes[1:]:
        element = _element(parts[position], buffer, loop.loop_var) if _becomes_vectors(parts[position]) else None
        if element is not None:
            after = loop.min + tirx.min(loop.loop_var + index(1), loop.extent - index(1))
            prefetch = fetch(substituted(element, loop.loop_var, after))
            parts[position] = with_body(parts[position], sequence(prefetch, parts[position].body))
            break
    return sequence(*parts)


def _is_pass(statement: Stmt) -> bool:
    return isinstance(statement, tirx.For) and not contains_loops(statement.body)


def _becomes_vectors(loop: Stmt) -> bool:
    """Return whether a pass gets vectors here: in a scalar loop, a prefetch per element would keep LLVM from it."""
    fit = fit_of(loop)
    is_parallel = INDEPENDENT in loop.annotations
    return fit.is_good if is_parallel else fit.is_known and fit.lanes > 1 and sums_of(loop) is not None


def _read_by(loop: Stmt, row: Var) -> Buffer | None:
    """Return the first array whose rows a loop reads element by element."""
    reads = [access for access in accesses_of(loop.body).shared if not access.is_store]
    return next((access.buffer for access in reads if _goes_along(access, loop.loop_var, row)), None)


def _goes_along(access: LoopAccess, variable: Var, row: Var) -> bool:
    is_of_row = any(form is not None and form.factor(row) for form in access.indices)
    return is_of_row and step_of(access, variable) == 1


def _stores_to(statement: Stmt, buffer: Buffer) -> bool:
    return any(store.buffer.same_as(buffer) for store in nodes_in(statement, tirx.BufferStore))


def _element(loop: Stmt, buffer: Buffer, row: Var) -> Any:
    """Return the load of an array in a loop over its row; None where there is none with indices of loops alone."""
    for load in nodes_in(loop.body, TensorLoad):
        if not load.source.same_as(buffer):
            continue
        names = [name for position in load.indices for name in nodes_in(position, tirx.Var)]
        if all(name.same_as(loop.loop_var) or name.same_as(row) for name in names):
            return load
    return None
