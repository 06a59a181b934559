"""Give each live range of a temporary array a buffer: MLIR lets arrays of one shape share memory, one after the other.

    t = alloc                                  t = alloc, u = alloc
    for i, j: t[i, j] = f(a[i, j])             for i, j: t[i, j] = f(a[i, j])
    for i, j: c[i, j] = t[i, j]        ──►     for i, j: c[i, j] = t[i, j]
    for i, j: t[i, j] = g(b[i, j])             for i, j: u[i, j] = g(b[i, j])
    for i, j: d[i, j] = t[i, j]                for i, j: d[i, j] = u[i, j]

Each is then a copy of its own for a product, or stays in registers. Buffers in shared memory whose live ranges do not
overlap share their bytes again later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from mlirtri.lowering.schedule.cuda.instructions import NARROW
from mlirtri.lowering.schedule.cuda.tile_statements import with_buffers
from mlirtri.lowering.schedule.cuda.whole_copies import unguarded
from mlirtri.lowering.schedule.imperative.allocations import with_allocations_inside
from mlirtri.lowering.schedule.imperative.interchange import with_parts
from mlirtri.lowering.schedule.imperative.perfect_nests import Nest, nest_of
from mlirtri.lowering.tir.statements import depends_on, loads_in, nodes_in, sequence, with_body
from mlirtri.lowering.tir.tiles import replaced
from mlirtri.lowering.toolchain.tvm_names import Buffer, Node, Stmt, TensorLoad, structural_map, structural_walk, tirx


def with_separate_buffers(statement: Stmt) -> Stmt:
    """Return a block's statement with a buffer of its own for each live range of its temporary arrays."""
    if isinstance(statement, tirx.For):
        return with_body(statement, with_separate_buffers(statement.body))
    if not isinstance(statement, tirx.SeqStmt):
        return with_parts(statement, with_separate_buffers)
    statements = [with_separate_buffers(child) for child in with_allocations_inside(list(statement.seq))]
    for allocation in [child for child in statements if isinstance(child, tirx.AllocBuffer)]:
        statements = _separate(statements, allocation.buffer)
    return sequence(*statements)


def with_casts_at_use(statement: Stmt) -> Stmt:
    """Return a block's statement whose tiles that only hold an argument in a wider dtype are cast where they are read.

    MLIR casts once what a loop reads in each iteration; tensor cores take the narrow elements.
    """
    stored = Counter(store.buffer for store in nodes_in(statement, tirx.BufferStore))
    values: dict[Any, Nest] = {}

    def note(node: Node) -> None:
        allocated = [child.buffer for child in node.seq if isinstance(child, tirx.AllocBuffer)]
        for child in node.seq:
            nest = nest_of(child) if isinstance(child, tirx.For) else None
            if nest is None or not any(nest.store.buffer.same_as(each) for each in allocated):
                continue
            if stored[nest.store.buffer] == 1 and nest.reaches_all() and _is_cast_of_argument(nest, stored):
                values[nest.store.buffer] = nest

    structural_walk(statement, (tirx.SeqStmt, note))

    def load(node: Node) -> Any:
        nest = values.get(node.source)
        if nest is None:
            return node
        pairs = zip(nest.store.indices, node.indices, strict=True)
        return replaced(nest.store.value, {at: value for at, value in pairs if isinstance(at, tirx.Var)})

    return structural_map(_without(statement, values), (TensorLoad, load), order="post") if values else statement


def _without(statement: Stmt, buffers: Mapping[Any, Any]) -> Any:
    """Return the statement without some buffers and the statements that store to them."""
    if isinstance(statement, tirx.For):
        return with_body(statement, _without(statement.body, buffers))
    if not isinstance(statement, tirx.SeqStmt):
        return with_parts(statement, lambda part: _without(part, buffers))

    def is_kept(child: Any) -> bool:
        if isinstance(child, tirx.AllocBuffer):
            return child.buffer not in buffers
        nest = nest_of(child) if isinstance(child, tirx.For) else None
        return nest is None or nest.store.buffer not in buffers

    return sequence(*(_without(child, buffers) for child in statement.seq if is_kept(child)))


def _is_cast_of_argument(nest: Nest, stored: Mapping[Any, int]) -> bool:
    value = nest.store.value
    if nest.names or not isinstance(value, tirx.Cast) or str(value.ty.dtype) != "float32":
        return False
    _, element = unguarded(value.value)
    is_load = isinstance(element, TensorLoad) and not any(map(loads_in, element.indices))
    return is_load and element.source not in stored and str(element.source.dtype) in NARROW


def _separate(statements: Sequence[Any], buffer: Buffer) -> list[Any]:
    """Return the statements with another buffer from each on that overwrites all of this one, but for the first."""
    result, current, is_used = [], buffer, False
    for statement in statements:
        if isinstance(statement, tirx.AllocBuffer) or not depends_on(statement, [buffer]):
            result.append(statement)
            continue
        if is_used and _overwrites(statement, buffer):
            current = tirx.decl_buffer(buffer.shape, buffer.dtype, buffer.name, scope=buffer.scope(), layout=None)
            result.append(tirx.AllocBuffer(current))
        is_used = True
        result.append(statement if current is buffer else with_buffers(statement, {buffer: current}))
    return result


def _overwrites(statement: Stmt, buffer: Buffer) -> bool:
    nest = nest_of(statement) if isinstance(statement, tirx.For) else None
    if nest is None or nest.names or not nest.store.buffer.same_as(buffer) or not nest.reaches_all():
        return False
    return not any(load.source.same_as(buffer) for load in loads_in(nest.store.value))
