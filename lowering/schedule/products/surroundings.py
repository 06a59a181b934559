"""Elementwise producers and consumers of a product, which its tiles compute; and the function without their blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mlirtri.lowering.elementary.tir_pass import always_bound, with_loads
from mlirtri.lowering.tir.bfloat16_storage import HALF
from mlirtri.lowering.tir.blocks import BlockAccess, BlockFacts
from mlirtri.lowering.tir.product_recognition import Product
from mlirtri.lowering.tir.statements import sequence
from mlirtri.lowering.tir.tiles import replaced
from mlirtri.lowering.toolchain.tvm_names import (
    Buffer,
    Node,
    PrimFunc,
    SBlock,
    SBlockRealize,
    Schedule,
    Stmt,
    TensorLoad,
    structural_map,
    tirx,
)


@dataclass(frozen=True)
class Surroundings:
    """The elementwise blocks fused with the product."""

    left: Any
    right: Any
    """The operands, with the values of producers in place of loads of their results."""
    stores: tuple[Any, ...]
    private: tuple[Any, ...]
    absorbed: frozenset[str]
    """Names of the fused blocks, the product's among them."""
    buffers: tuple[Any, ...]
    """Buffers that are no longer allocated."""


def surroundings_of(
    schedule: Schedule, blocks: list[BlockFacts], block: BlockFacts, product: Product, end: int | None = None
) -> Surroundings:
    """Return the elementwise blocks of a function that are computed with its product: none from block `end` on."""
    position = next(number for number, candidate in enumerate(blocks) if candidate.name == block.name)
    left, right, producers = _with_producers(schedule, blocks[:position], [product.left, product.right])
    followers = _followers(schedule, blocks[position + 1 : end], product)
    absorbed = {block.name, *producers, *(name for name, _ in followers)}
    inner = schedule.get(schedule.get_sblock("root")).alloc_buffers
    read_outside = [read.buffer for other in blocks if other.name not in absorbed for read in other.reads]

    def is_private(buffer: Buffer) -> bool:
        return any(buffer.same_as(allocation) for allocation in inner) and not any(
            buffer.same_as(read) for read in read_outside
        )

    stores = [] if is_private(product.result) else [product.update]
    private = []
    for _, body in followers:
        scratch = list(body.alloc_buffers)
        private += [*scratch, *(store.buffer for store in _stores_of(body) if is_private(store.buffer))]
        stores += _stores_of(body)
    removed = [
        buffer
        for candidate in blocks
        if candidate.name in absorbed
        for buffer in [candidate.target]
        if is_private(buffer)
    ]
    stores, named = _without_lets(stores)
    distinct = (*dict.fromkeys(private), *named)
    return Surroundings(left, right, tuple(stores), distinct, frozenset(absorbed), tuple(removed))


def _without_lets(stores: list[Stmt]) -> tuple[list[Stmt], list[Buffer]]:
    """Return the stores without `Let`, and the private buffers that have been added."""
    rewritten: list[Any] = []
    private: list[Any] = []
    for store in stores:
        loads: dict[Any, Any] = {}
        for let in always_bound(store.value) if _uses_names(store) else ():
            buffer = tirx.decl_buffer(store.buffer.ty.shape, str(let.var.ty.dtype), let.var.name, layout=None)
            private.append(buffer)
            rewritten.append(tirx.BufferStore(buffer, with_loads(let.value, loads), store.indices))
            loads[let.var] = tirx.BufferLoad(buffer, store.indices)
        rewritten.append(tirx.BufferStore(store.buffer, with_loads(store.value, loads), store.indices))
    return rewritten, private


def _uses_names(store: Stmt) -> bool:
    """Return whether a bf16 value uses `Let` for more than to round it by its bits."""
    value = store.value
    if str(store.buffer.dtype) != HALF or not always_bound(value):
        return False
    while isinstance(value, tirx.Let):
        value = value.body
    return not str(getattr(getattr(value, "op", None), "name", "")).endswith(".reinterpret")


def _with_producers(schedule: Schedule, earlier: list[BlockFacts], operands: list[Any]) -> tuple[Any, Any, list[str]]:
    """Return the operands with the values of elementwise producers that nothing else reads, and their names."""
    names = []
    for block in reversed(earlier):
        body = schedule.get(block.handle)
        if not _is_inlinable(schedule, block, body, names):
            continue
        variables = [axis.var for axis in body.iter_vars]

        def load(node: Node, block=block, body=body, variables=variables) -> Any:
            if not node.source.same_as(block.target):
                return node
            order = [node.indices[block.writes[0].axes.index(number)] for number in range(len(variables))]
            return replaced(body.body.value, dict(zip(variables, order, strict=True)))

        operands = [structural_map(operand, (TensorLoad, load), order="post") for operand in operands]
        names.append(block.name)
    return operands[0], operands[1], names


def _is_inlinable(schedule: Schedule, block: BlockFacts, body: Stmt, removed: list[str]) -> bool:
    is_simple = block.is_spatial and isinstance(body.body, tirx.BufferStore)
    if not is_simple or sorted(axis for axis in block.writes[0].axes if axis is not None) != list(
        range(len(block.kinds))
    ):
        return False
    if len(block.writes[0].axes) != len(block.kinds):
        return False
    readers = [schedule.get(handle) for handle in schedule.get_consumers(block.handle)]
    is_inner = any(
        block.target.same_as(allocation) for allocation in schedule.get(schedule.get_sblock("root")).alloc_buffers
    )
    return is_inner and all(reader.name_hint in removed or _is_reduction(reader) for reader in readers)


def _is_reduction(block: Any) -> bool:
    return any(axis.iter_type == tirx.IterVar.CommReduce for axis in block.iter_vars)


def _followers(schedule: Schedule, later: list[BlockFacts], product: Product) -> list[tuple[str, Any]]:
    """Return the elementwise consumers that tiles can compute: names, and blocks in terms of the product's axes."""
    indices = {product.result: [tuple(product.update.indices)]}
    axes = (*product.batch, *product.rows, *product.columns)
    extents = {axis.variable: axis.extent for axis in axes}
    fused: list[tuple[str, Any]] = []
    skipped: list[Any] = []
    for block in later:
        body = schedule.get(block.handle)
        renamed = _in_terms_of(block, body, indices, extents, skipped)
        if renamed is None:
            skipped += [write.buffer for write in block.writes]
            continue
        fused.append((block.name, renamed))
        for store in _stores_of(renamed):
            indices.setdefault(store.buffer, []).append(tuple(store.indices))
    return fused


def _in_terms_of(
    block: BlockFacts, body: Stmt, indices: dict[Any, list], extents: dict[Any, int], skipped: list[Any]
) -> Any:
    """Return the block in terms of the product's axes; None where it does not read all of the product elementwise."""
    values: dict[Any, Any] = {}
    is_behind = False
    for read in block.reads:
        if any(read.buffer.same_as(buffer) for buffer in skipped):
            return None
        if read.buffer not in indices:
            continue
        is_behind = True
        for axis, position in _moving_axes(read, indices[read.buffer][0], extents):
            # A slice covers a part of the product only: on the tile it would write out of bounds.
            if axis is None or block.extents[axis] != extents.get(position, 1):
                return None
            if not values.setdefault(body.iter_vars[axis].var, position).same_as(position):
                return None
    units = [axis.var for axis in body.iter_vars if int(axis.dom.extent) == 1]
    for variable in units:
        values.setdefault(variable, tirx.IntImm("int64", 0))
    if not block.is_spatial or not is_behind or len(values) != len(body.iter_vars):
        return None
    if not all(isinstance(store, tirx.BufferStore) for store in _statements_of(body.body)):
        return None
    return _with_body(body, replaced(body.body, values))


def _moving_axes(
    read: BlockAccess, positions: tuple[Node, ...], extents: dict[Node, int]
) -> Iterator[tuple[int | None, Node]]:
    """Yield the axes of a read with the product's, without those of extent 1 of the product that are read at 0."""
    for axis, at, position in zip(read.axes, read.indices, positions, strict=True):
        is_zero = isinstance(at, tirx.IntImm) and at.value == 0
        if axis is not None or not is_zero or extents.get(position) != 1:
            yield axis, position


def _statements_of(body: Stmt) -> list[Any]:
    return list(body.seq) if isinstance(body, tirx.SeqStmt) else [body]


def _stores_of(block: Any) -> list[Any]:
    return _statements_of(block.body)


def _with_body(block: Any, body: Stmt, buffers: Any = None) -> Any:
    return SBlock(
        block.iter_vars, block.reads, block.writes, block.name_hint, body, block.init,
        block.alloc_buffers if buffers is None else buffers, block.match_buffers, block.annotations,
    )  # fmt: skip


def with_statement(
    function: PrimFunc, blocks: list[BlockFacts], block: BlockFacts, around: Surroundings, statement: Stmt
) -> PrimFunc:
    """Return the function with `statement` in place of the product's block, and without the blocks fused with it."""
    root = function.body.block
    nests = _statements_of(root.body)
    statements = []
    for other, nest in zip(blocks, nests, strict=True):
        if other.name == block.name:
            statements.append(statement)
        elif other.name not in around.absorbed:
            statements.append(nest)
    buffers = [
        buffer for buffer in root.alloc_buffers if not any(buffer.same_as(removed) for removed in around.buffers)
    ]
    return function.with_body(SBlockRealize([], True, _with_body(root, sequence(*statements), buffers)))
