"""Numbers of each row of a block's tiles that every thread keeps for the rows of its fragments.

A maximum or sum of the rows of a tile in registers is known to the four threads that share a row. It stays with them,
twice of every 16 rows, if all statements use it for the rows that a thread has: nothing is exchanged, no barrier stands
between. Statements over the rows alone run once for each row of a thread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mlirtri.lowering.schedule.cuda.tiles.fragment_uses import elementwise, reduction_of
from mlirtri.lowering.schedule.imperative.interchange import FINISHED
from mlirtri.lowering.tir.statements import depends_on, loads_in, nodes_in
from mlirtri.lowering.toolchain.tvm_names import INDEPENDENT, Node, Stmt, tirx


def row_vectors(statement: Stmt, tiles: Sequence[Any], rows: int, dtypes: Sequence[str]) -> list[Any]:
    """Return the buffers of a number for each row that threads can keep, where `tiles` are in registers."""
    allocated = [node.buffer for node in nodes_in(statement, tirx.AllocBuffer)]
    vectors = {
        buffer: None for buffer in allocated
        if [_size(extent) for extent in buffer.shape] == [rows] and str(buffer.dtype) in dtypes
    }  # fmt: skip
    count = -1
    while len(vectors) != count:
        # What one statement cannot keep may be stored by another, which keeps no others then.
        count = len(vectors)
        uses = _Uses(tuple(tiles), vectors, rows)
        uses.visit(statement)
        vectors = {buffer: None for buffer in vectors if buffer not in uses.rejected}
    return list(vectors)


def stored_elsewhere(node: Node, vectors: Mapping[Any, Any]) -> set[Any]:
    """Return what a statement stores to beside numbers of rows and its own variables."""
    own = {each.buffer for each in nodes_in(node, tirx.AllocBuffer)}
    return {store.buffer for store in nodes_in(node, tirx.BufferStore)} - own - set(vectors)


@dataclass
class _Uses:
    tiles: tuple[Any, ...]
    vectors: Mapping[Any, Any]
    rows: int
    rejected: set[Any] = field(default_factory=set)

    def visit(self, node: Any) -> None:
        touched = [vector for vector in self.vectors if depends_on(node, [vector])]
        if not touched or isinstance(node, tirx.AllocBuffer):
            return
        parts, values = _parts(node)
        self.rejected |= {vector for vector in touched for value in values if depends_on(value, [vector])}
        for part in parts:
            self.visit(part)
        if not parts and not self._is_kept(node, touched):
            self.rejected |= set(touched)

    def _is_kept(self, node: Any, touched: Sequence[Any]) -> bool:
        tiles = [tile for tile in self.tiles if depends_on(node, [tile])]
        stored = {store.buffer for store in nodes_in(node, tirx.BufferStore)} & set(touched)
        if isinstance(node, tirx.AttrStmt):
            return False
        nest = elementwise(node, tiles) if tiles else None
        if nest is not None:
            return not stored and nest.offsets[0] is None and _are_at(nest.body, touched, nest.row)
        if tiles:
            reduction = reduction_of(node, tiles[0]) if len(tiles) == 1 else None
            return reduction is not None and _are_at(node, touched, reduction.row)
        is_rows = isinstance(node, tirx.For) and INDEPENDENT in node.annotations and node.step is None
        if not is_rows or _size(node.min) != 0 or _size(node.extent) != self.rows or nodes_in(node.body, tirx.For):
            return False
        is_either = not stored or not stored_elsewhere(node, self.vectors)
        return is_either and _are_at(node, touched, node.loop_var)


def _parts(node: Any) -> tuple[list[Any], list[Any]]:
    """Return the statements inside of one that all threads run, and the values that it has beside them."""
    if isinstance(node, tirx.AttrStmt) and node.attr_key != FINISHED:
        return [node.body], []
    if isinstance(node, tirx.SeqStmt):
        return list(node.seq), []
    if isinstance(node, tirx.IfThenElse):
        return [part for part in (node.then_case, node.else_case) if part is not None], [node.condition]
    if isinstance(node, tirx.While):
        return [node.body], [node.condition]
    if isinstance(node, tirx.For) and INDEPENDENT not in node.annotations:
        return [node.body], [node.min, node.extent]
    return [], []


def _are_at(node: Node, vectors: Sequence[Any], row: Any) -> bool:
    """Return whether a statement accesses each of the vectors at this row alone."""
    kept = set(vectors)
    found = [load.indices for load in loads_in(node) if load.source in kept]
    found += [store.indices for store in nodes_in(node, tirx.BufferStore) if store.buffer in kept]
    return all(len(indices) == 1 and indices[0].same_as(row) for indices in found)


def _size(extent: Any) -> int | None:
    return int(extent) if isinstance(extent, tirx.IntImm) else None
