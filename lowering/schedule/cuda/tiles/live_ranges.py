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
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from mlirtri.lowering.schedule.cuda.common.instructions import NARROW
from mlirtri.lowering.schedule.cuda.common.whole_copies import unguarded
from mlirtri.lowering.schedule.cuda.tiles.tile_statements import with_buffers
from mlirtri.lowering.schedule.imperative.allocations import with_allocations_inside
from mlirtri.lowering.schedule.imperative.interchange import with_parts
from mlirtri.lowering.schedule.imperative.perfect_nests import Nest, nest_of
from mlirtri.lowering.tir.statements import depends_on, loads_in, nodes_in, sequence, with_body
from mlirtri.lowering.tir.tiles import replaced
from mlirtri.lowering.toolchain.tvm_names import (
    Buffer,
    Node,
    Stmt,
    TensorLoad,
    structural_equal,
    structural_map,
    structural_walk,
    tirx,
)


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

    MLIR casts once what a loop reads in each iteration; tensor cores take the narrow elements. A tile that only holds
    another one in another dtype for the next statement, which writes it to memory, is cast there, too.
    """
    stored = Counter(store.buffer for store in nodes_in(statement, tirx.BufferStore))
    loaded = Counter(load.source for load in loads_in(statement))
    values: dict[Any, Nest] = {}

    def note(node: Node) -> None:
        allocated = [child.buffer for child in node.seq if isinstance(child, tirx.AllocBuffer)]
        for child, following in zip(node.seq, [*node.seq[1:], None], strict=True):
            nest = nest_of(child) if isinstance(child, tirx.For) else None
            if nest is None or not any(nest.store.buffer.same_as(each) for each in allocated):
                continue
            is_cast = _is_cast_of_argument(nest, stored) or _is_cast_for_next(nest, following, loaded)
            if stored[nest.store.buffer] == 1 and nest.reaches_all() and is_cast:
                values[nest.store.buffer] = nest

    structural_walk(statement, (tirx.SeqStmt, note))

    def load(node: Node) -> Any:
        nest = values.get(node.source)
        if nest is None:
            return node
        pairs = zip(nest.store.indices, node.indices, strict=True)
        return replaced(_value(nest), {at: value for at, value in pairs if isinstance(at, tirx.Var)})

    return structural_map(without_copies(statement, values), (TensorLoad, load), order="post") if values else statement


def without_copies(statement: Stmt, buffers: Collection[Any]) -> Any:
    """Return the statement without some buffers and the statements that store to them."""
    if isinstance(statement, tirx.For):
        return with_body(statement, without_copies(statement.body, buffers))
    if not isinstance(statement, tirx.SeqStmt):
        return with_parts(statement, lambda part: without_copies(part, buffers))

    def is_kept(child: Any) -> bool:
        if isinstance(child, tirx.AllocBuffer):
            return child.buffer not in buffers
        nest = nest_of(child) if isinstance(child, tirx.For) else None
        return nest is None or nest.store.buffer not in buffers

    return sequence(*(without_copies(child, buffers) for child in statement.seq if is_kept(child)))


def _is_cast_of_argument(nest: Nest, stored: Mapping[Any, int]) -> bool:
    value = nest.store.value
    if nest.names or not isinstance(value, tirx.Cast) or str(value.ty.dtype) != "float32":
        return False
    _, element = unguarded(value.value)
    is_load = isinstance(element, TensorLoad) and not any(map(loads_in, element.indices))
    return is_load and element.source not in stored and str(element.source.dtype) in NARROW


def _is_cast_for_next(nest: Nest, following: Any, loaded: Mapping[Any, int]) -> bool:
    """Return whether a nest converts a tile for the next statement alone, which reads each of its elements once."""
    target, loads = nest.store.buffer, loads_in(_value(nest))
    after = nest_of(following) if isinstance(following, tirx.For) else None
    sources = {load.source for load in loads}
    if after is None or after.names or len(sources) != 1 or loaded[target] != 1:
        return False
    [source] = sources
    is_converted = str(source.dtype) != str(target.dtype) and not after.store.buffer.same_as(source)
    is_in_place = all(all(map(structural_equal, load.indices, nest.store.indices)) for load in loads)
    reads = [load for load in loads_in(after.store.value) if load.source.same_as(target)]
    return is_converted and is_in_place and len(reads) == 1 and len(after.axes) == len(nest.axes)


def _value(nest: Nest) -> Any:
    """Return the value that a nest stores, with the values of its names in their places."""
    named: dict[Any, Any] = {}

    def with_names(value: Any) -> Any:
        rule = (TensorLoad, lambda node: named.get(node.source, node))
        return structural_map(value, rule, order="post") if named else value

    for name in nest.names:
        named[name.buffer] = with_names(name.value)
    return with_names(nest.store.value)


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
