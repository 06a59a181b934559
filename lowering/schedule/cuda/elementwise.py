"""The CUDA rule for elementwise kernels: vectors of memory, and transposes through tiles in shared memory.

    elementwise:  a thread for each 4 neighbours of the result:
                      load 4 of each operand that is contiguous there, at once
                      compute them one by one
                      store 4, at once
    transposed:   a block for each 32 by 32 elements of the result:
                      load the tile of the operand along the operand's last axis
                      store the tile of the result along the result's last axis

Producers are inlined. Kernels with reductions, and functions in which no block can be written so, are left to other
rules.
"""

from __future__ import annotations

from math import gcd, prod
from typing import Any

from mlirtri.lowering.core.target import Target
from mlirtri.lowering.tir.blocks import BlockAccess, BlockFacts, inlined, leaf_blocks, loop_of
from mlirtri.lowering.toolchain.tvm_names import PrimFunc, Schedule

THREADS = 256
MIN_THREADS = 64
"""Threads of a block below which vectors do not pay: too many blocks for the loads in flight."""
VECTOR_BYTES = 16
MAX_LANES = {"float16": 8}
"""Lanes of the widest vector that TVM writes for a dtype; 4 for any other."""
SIDE, ROWS = 32, 8
"""The extent of a transposed tile, and how many rows of it the threads of a block take at once."""
MAX_TILES = 4
"""Operands whose tiles a block holds; each has a few kilobytes of shared memory."""
MIN_SIDE = 16
"""Extents of an axis below which most of a tile would be empty."""


def elementwise(function: PrimFunc, _target: Target) -> Schedule | None:
    """Return a schedule with a launch for each result; None for any but elementwise functions that profit."""
    schedule = Schedule(function, error_render_level="fast")
    if not all(block.is_spatial and len(block.writes) == 1 for block in leaf_blocks(schedule)):
        return None
    for block in leaf_blocks(schedule):
        inlined(schedule, block)
    blocks = leaf_blocks(schedule)
    if not any(_transposed_reads(block) or _lanes(block) > 1 for block in blocks):
        return None
    for block in blocks:
        if reads := _transposed_reads(block):
            _through_tiles(schedule, block, reads)
        elif _lanes(block) > 1:
            _in_vectors(schedule, block)
        else:
            _by_elements(schedule, block)
    return schedule


def _transposed_reads(block: BlockFacts) -> list[BlockAccess]:
    """Return the reads that are contiguous along one other axis than the result, one of each buffer; [] if none can be.

    Reads of the same buffers in another way forbid it, and a second such axis.
    """
    last = block.writes[0].axes[-1] if block.writes[0].axes else None
    if last is None or block.extents[last] < MIN_SIDE:
        return []
    reads = {read.buffer: read for read in block.reads if _is_transposed(read, last, block.extents)}
    is_same = all(read.axes == reads[read.buffer].axes for read in block.reads if read.buffer in reads)
    is_one_axis = len({read.axes[-1] for read in reads.values()}) == 1
    return list(reads.values()) if is_same and is_one_axis and len(reads) <= MAX_TILES else []


def _is_transposed(read: BlockAccess, last: int | None, extents: tuple[int, ...]) -> bool:
    own = read.axes[-1] if read.axes else None
    return own is not None and own != last and last in read.axes and extents[own] >= MIN_SIDE


def _lanes(block: BlockFacts) -> int:
    """Return how many neighbours of the result a thread takes: 1 where they are not loaded or stored at once."""
    [write] = block.writes
    last = write.axes[-1] if write.axes else None
    if last is None or not block.vectorizes or "bool" in {str(write.buffer.dtype)}:
        return 1
    dtypes = {access.buffer.dtype for access in (write, *block.reads)}
    widest = min(8 * VECTOR_BYTES // int(dtype.bits) for dtype in dtypes)
    lanes = gcd(min(widest, *(MAX_LANES.get(str(dtype), 4) for dtype in dtypes)), block.extents[last])
    return lanes if lanes > 1 and _threads(block, lanes) >= MIN_THREADS else 1


def _threads(block: BlockFacts, lanes: int) -> int:
    """Return the threads of a block that divide all vectors: a condition around a vector would take it apart."""
    vectors = prod(block.extents) // lanes
    return gcd(THREADS, vectors)


def _in_vectors(schedule: Schedule, block: BlockFacts) -> None:
    [write] = block.writes
    lanes, last = _lanes(block), write.axes[-1]
    assert last is not None
    own = loop_of(schedule, block, last)
    others = _other_loops(schedule, block, [own])
    vector, lane = schedule.split(own, [None, lanes])
    schedule.reorder(*others, vector, lane)
    grid, thread = schedule.split(schedule.fuse(*others, vector), [None, _threads(block, lanes)])
    schedule.bind(grid, "blockIdx.x")
    schedule.bind(thread, "threadIdx.x")
    for buffer in _loaded_in_vectors(block, last, lanes):
        local = schedule.cache_read(block.handle, buffer, "local")
        schedule.compute_at(local, thread)
        schedule.vectorize(schedule.get_loops(local)[-1])
    result = schedule.cache_write(block.handle, 0, "local")
    schedule.reverse_compute_at(result, thread)
    schedule.vectorize(schedule.get_loops(result)[-1])
    schedule.unroll(schedule.get_loops(block.handle)[-1])


def _other_loops(schedule: Schedule, block: BlockFacts, own: list[Any]) -> list[Any]:
    variables = [schedule.get(loop).loop_var for loop in own]
    loops = schedule.get_loops(block.handle)
    return [loop for loop in loops if not any(schedule.get(loop).loop_var.same_as(variable) for variable in variables)]


def _loaded_in_vectors(block: BlockFacts, last: int, lanes: int) -> list[Any]:
    """Return the buffers of which all loads are of neighbours along the result's last axis, in any case."""
    buffers: dict[Any, bool] = {}
    for read in block.reads:
        is_along = bool(read.axes) and read.axes[-1] == last and last not in read.axes[:-1]
        is_plain = is_along and int(read.buffer.shape[-1]) % lanes == 0 and str(read.buffer.dtype) != "bool"
        buffers[read.buffer] = is_plain and buffers.get(read.buffer, True)
    return [buffer for buffer, is_plain in buffers.items() if is_plain]


def _through_tiles(schedule: Schedule, block: BlockFacts, reads: list[BlockAccess]) -> None:
    own, last = reads[0].axes[-1], block.writes[0].axes[-1]
    assert last is not None
    assert own is not None
    down, along = loop_of(schedule, block, own), loop_of(schedule, block, last)
    others = _other_loops(schedule, block, [down, along])
    tile_row, row = schedule.split(down, [None, SIDE])
    tile_column, column = schedule.split(along, [None, SIDE])
    schedule.reorder(*others, tile_row, tile_column, row, column)
    grid = schedule.fuse(*others, tile_row, tile_column)
    schedule.bind(grid, "blockIdx.x")
    _bind_tile(schedule, row, column)
    for read in reads:
        tile = schedule.cache_read(block.handle, read.buffer, "shared")
        schedule.compute_at(tile, grid)
        # The tile has an axis for each of the operand; those of the result's two axes are the long ones.
        loops = schedule.get_loops(tile)[1:]
        _bind_tile(schedule, *(loop for loop in loops if int(schedule.get(loop).extent) > 1))
        # An odd number of words from line to line, so that a column's elements are in different banks.
        offset = max(1, 4 // (int(read.buffer.dtype.bits) // 8))
        schedule.storage_align(tile, 0, read.axes.index(last), SIDE, offset)


def _bind_tile(schedule: Schedule, row: Any, column: Any) -> None:
    group, thread = schedule.split(row, [None, ROWS])
    schedule.unroll(group)
    schedule.bind(thread, "threadIdx.y")
    schedule.bind(column, "threadIdx.x")


def _by_elements(schedule: Schedule, block: BlockFacts) -> None:
    loops = schedule.get_loops(block.handle) or [schedule.add_unit_loop(block.handle)]
    grid, thread = schedule.split(schedule.fuse(*loops) if len(loops) > 1 else loops[0], [None, THREADS])
    schedule.bind(grid, "blockIdx.x")
    schedule.bind(thread, "threadIdx.x")
