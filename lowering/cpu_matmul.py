"""The CPU rule for matrix products: a register tile, operands laid out for it, and the epilogue on the tile.

Takes a PrimFunc with one block ``C[…, i, j] += A[…, i, k] * B[…, k, j]`` (batched, transposed or cast operands, any
sizes), surrounded by elementwise work. Gives None where there is no such block or it is too small for tiles.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from mlirtri.lowering.cpu_loops import lanes_of, parallel_if_worth, spatial
from mlirtri.lowering.products import Product, find_product
from mlirtri.lowering.schedule_blocks import Access, BlockFacts, block_facts, inline_cheap, leaf_blocks, loop_of
from mlirtri.lowering.target import Target
from mlirtri.lowering.tvm_names import SCHEDULE_ERRORS, PrimFunc, Schedule

PACK_BYTES = 512 * 1024
"""Below this the right operand stays in cache as it is."""


@dataclass(frozen=True)
class TileSizes:
    """Rows and columns of a tile, and lanes of the vectors that its columns are cut into."""

    rows: int
    columns: int
    lanes: int


def matmul(function: PrimFunc, target: Target) -> Schedule | None:
    """A tile of rows × vectors in registers; see `_tile` for the loops. None where there is no product worth a tile."""
    schedule = Schedule(function, error_render_level="fast")
    inline_cheap(schedule)
    found = [block for block in leaf_blocks(schedule) if not block.is_spatial]
    product = find_product(found[0]) if len(found) == 1 else None
    if product is None:
        return None
    block = found[0]
    rows, columns = block.extents[product.row], block.extents[product.column]
    lanes = lanes_of(block)
    if lanes == 1 or rows < 4 or columns < lanes or prod(block.extents[axis] for axis in product.reduced) < 4:
        return None
    sizes = _tile_sizes(rows, columns, lanes)
    reduced, done = _tile(schedule, block, product, sizes, target)
    for each in leaf_blocks(schedule):
        if each.name not in done:
            spatial(schedule, each, target)
    # Last, because TVM moves no loops any more once the initial value is stored by a block of its own.
    schedule.decompose_reduction(block.handle, reduced)
    return schedule


def _tile_sizes(rows: int, columns: int, lanes: int) -> TileSizes:
    """The tile that wastes least on the borders, the larger one of two."""
    tall = min((8, 7, 6, 5, 4), key=lambda size: (-(-rows // size) * size, -size))
    wide = 2 * lanes
    narrow_is_less = -(-columns // lanes) * lanes * 5 < -(-columns // wide) * wide * 4
    return TileSizes(min(tall, rows), lanes if narrow_is_less else wide, lanes)


def _tile(schedule: Schedule, block: BlockFacts, product: Product, sizes: TileSizes, target: Target) -> tuple:
    """outer, column chunk, row chunk in parallel, then column tile, row tile, reduction, the tile itself unrolled.

    Chunks keep a few tiles of each operand in cache. The right operand is copied so that a tile reads it in one
    stream, unless it is small. What follows the product runs on each tile while it is in cache.
    Gives the outermost reduction loop and the names of the blocks that have their loops.
    """
    padding = [1] * len(block.extents)
    padding[product.row], padding[product.column] = sizes.rows, sizes.columns
    before = [each.name for each in leaf_blocks(schedule)]
    schedule.pad_einsum(block.handle, padding)
    followers = _followers(schedule, block, before)
    packed = _pack(schedule, block, product, sizes, target)
    tile, reduced = _split(schedule, block_facts(schedule, block.handle), product, sizes, target)
    moved = [name for name in followers if _follow(schedule, name, tile, sizes)]
    return reduced, {block.name, packed, *moved}


def _followers(schedule: Schedule, block: BlockFacts, before: list[str]) -> list[str]:
    """Names of the blocks that read the product: the crop of its padding, folded away where something follows it."""
    for crop in schedule.get_consumers(block.handle):
        if schedule.get(crop).name_hint not in before and schedule.get_consumers(crop):
            schedule.compute_inline(crop)
    if not schedule.get_consumers(block.handle):
        schedule.cache_write(block.handle, 0, "global")
    names, seen = [], [block.handle]
    while seen:
        for consumer in schedule.get_consumers(seen.pop(0)):
            if (name := str(schedule.get(consumer).name_hint)) not in names:
                names.append(name)
                seen.append(consumer)
    return names


def _pack(schedule: Schedule, block: BlockFacts, product: Product, sizes: TileSizes, target: Target) -> str:
    """Lay the right operand out as tiles; gives the name of the block that copies it, or "" when it stays."""
    facts = block_facts(schedule, block.handle)
    position, access = _operand(facts, product)
    copies = [
        each
        for each in schedule.get_producers(block.handle)
        if schedule.get(each).writes[0].source.same_as(access.buffer) and schedule.get(each).name_hint.endswith("_pad")
    ]
    size = prod(int(extent) for extent in access.buffer.shape) * int(access.buffer.dtype.bits) // 8
    if not copies and (size < PACK_BYTES or facts.extents[product.row] <= 4 * sizes.rows):
        return ""
    copy = copies[0] if copies else schedule.cache_read(block.handle, position, "global")
    dimension = access.axes.index(product.column)
    inner = [at for at, axis in enumerate(access.axes) if axis in product.reduced]
    outer = [at for at in range(len(access.axes)) if at not in inner and at != dimension]
    schedule.transform_layout(
        block.handle,
        ("read", position),
        lambda *index: [
            *(index[at] for at in outer),
            index[dimension] // sizes.columns,
            *(index[at] for at in inner),
            index[dimension] % sizes.columns,
        ],
    )
    loops = schedule.get_loops(copy)
    tiles, within, vector = schedule.split(loops[dimension], [None, sizes.columns // sizes.lanes, sizes.lanes])
    schedule.reorder(*(loops[at] for at in outer), tiles, *(loops[at] for at in inner), within, vector)
    schedule.vectorize(vector)
    chunks = schedule.fuse(*(loops[at] for at in outer), tiles) if outer else tiles
    parallel_if_worth(schedule, chunks, size, target)
    return str(schedule.get(copy).name_hint)


def _operand(block: BlockFacts, product: Product) -> tuple[int, Access]:
    """The right operand among the block's reads: its position in the block's signature and its access."""
    operands = block.operands
    access = operands[product.right]
    distinct: list[Any] = []
    for read in operands:
        if not any(read.buffer.same_as(buffer) for buffer in distinct):
            distinct.append(read.buffer)
    return next(at for at, buffer in enumerate(distinct) if buffer.same_as(access.buffer)), access


def _split(
    schedule: Schedule, block: BlockFacts, product: Product, sizes: TileSizes, target: Target
) -> tuple[Any, Any]:
    """Make the loops; gives the loop around a tile and the outermost reduction loop inside it."""
    outer = [loop_of(schedule, block, axis) for axis in product.outer]
    reduced = [loop_of(schedule, block, axis) for axis in product.reduced]
    row_tiles, row = schedule.split(loop_of(schedule, block, product.row), [None, sizes.rows])
    column = loop_of(schedule, block, product.column)
    column_tiles, vectors, vector = schedule.split(column, [None, sizes.columns // sizes.lanes, sizes.lanes])
    tall, wide = (int(schedule.get(loop).extent) for loop in (row_tiles, column_tiles))
    enough = 4 * target.threads // max(1, prod(block.extents[axis] for axis in product.outer))
    row_chunk, column_chunk = _chunk(tall, 8, enough), _chunk(wide, 4, enough)
    row_chunks, row_tiles = schedule.split(row_tiles, [None, row_chunk])
    column_chunks, column_tiles = schedule.split(column_tiles, [None, column_chunk])
    schedule.reorder(*outer, column_chunks, row_chunks, column_tiles, row_tiles, *reduced, row, vectors, vector)
    schedule.vectorize(vector)
    schedule.unroll(vectors)
    schedule.unroll(row)
    parallel_if_worth(schedule, schedule.fuse(*outer, column_chunks, row_chunks), block.points // 4, target)
    return row_tiles, reduced[0]


def _chunk(tiles: int, most: int, enough: int) -> int:
    """The largest divisor of `tiles` up to `most` that leaves `enough` chunks, else one tile."""
    return max(size for size in range(1, most + 1) if tiles % size == 0 and (size == 1 or tiles // size >= enough))


def _follow(schedule: Schedule, name: str, tile: Any, sizes: TileSizes) -> bool:
    """Move a block behind the product to the tile and vectorise it there; False where it cannot move."""
    handle = schedule.get_sblock(name)
    trial = schedule.copy()
    try:
        trial.reverse_compute_at(trial.get_sblock(name), tile)
    except SCHEDULE_ERRORS:  # TVM's own conditions decide
        return False
    schedule.reverse_compute_at(handle, tile)
    *_, inner = schedule.get_loops(handle)
    if int(schedule.get(inner).extent) == sizes.columns:
        vectors, vector = schedule.split(inner, [None, sizes.lanes])
        schedule.vectorize(vector)
        if not block_facts(schedule, handle).binds:
            schedule.unroll(vectors)
    return True
