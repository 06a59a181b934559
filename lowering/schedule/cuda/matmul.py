"""The CUDA rule for products of 16-bit floats and int8 on tensor cores, with fused operand reads and epilogue.

Operands may be in any layout, batched, or a convolution's. Devices before sm_80 are refused.

    a block for each tile of the result:
        start to copy the first tiles of both operands
        for each step along the sum:
            wait for this step's tiles; start to copy those some steps ahead
            each warp: load fragments, multiply and add
        each thread: the epilogue of its sums

Elements past the end of an operand are zeros, and nothing is stored past the end of the result.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from mlirtri.lowering.core.target import Target
from mlirtri.lowering.schedule.cpu.matmul.rule import in_tiles
from mlirtri.lowering.schedule.cuda.instructions import (
    COLUMNS,
    FIRST_ARCHITECTURE,
    MULTIPLICATIONS,
    ROWS,
    Multiplication,
    address,
    barrier,
    commit_copies,
    fragments,
    multiply,
    wait_for_copies,
)
from mlirtri.lowering.schedule.cuda.operands import Operand, narrow
from mlirtri.lowering.schedule.cuda.phases import WARP, bound
from mlirtri.lowering.tir.bfloat16_storage import BITS, bits_dtype
from mlirtri.lowering.tir.contraction import Contraction, Values, multiply_add, size_of
from mlirtri.lowering.tir.primfunc import buffer
from mlirtri.lowering.tir.product_recognition import Product, only_product
from mlirtri.lowering.tir.statements import index, loads_in, nodes_in, sequence
from mlirtri.lowering.tir.tiles import axis_values, ceil_div, for_loop, replaced, sized, zero_of
from mlirtri.lowering.toolchain.tvm_names import (
    Node,
    PrimFunc,
    SBlock,
    Schedule,
    Stmt,
    TensorLoad,
    ir,
    structural_map,
    tirx,
)

TOGETHER = 8
"""Rows of tiles processed column by column, so that concurrent blocks read the same operands."""
UNROLL = {"pragma_unroll_explicit": False}
"""On the outermost loop: loops to be unrolled are left to NVIDIA's compiler, which keeps the source short."""


@dataclass(frozen=True)
class BlockTile:
    """The tile of a block, divided among `down` times `across` warps."""

    rows: int
    columns: int
    down: int
    across: int
    stages: int = 4
    """Pipeline stages: steps whose tiles are in memory at once."""
    parts: int = 2
    """Instructions along the sum in each step."""

    @property
    def threads(self) -> int:
        return WARP * self.down * self.across


TILES = (
    BlockTile(128, 128, 2, 2),
    BlockTile(64, 128, 2, 2),
    BlockTile(64, 64, 2, 2),
    BlockTile(32, 64, 1, 2),
    BlockTile(16, 64, 1, 2),
)
"""Tiles from the fewest reads per operation to the most blocks."""
ENOUGH = 128
"""Number of blocks that keep a large device busy."""


def tensor_cores(function: PrimFunc, target: Target) -> Schedule | None:
    """Return a schedule of the product on tensor cores; None for any other function."""
    if int(re.sub(r"\D", "", target.architecture)) < FIRST_ARCHITECTURE:
        return None
    match = only_product(function)
    # Tiles have at least 16 rows: a depthwise convolution, which has one, would waste them.
    if match is None or not _is_narrow(match[-1]) or size_of(match[-1].rows) == 1:
        return None
    schedule = in_tiles(*match, _kernel, target)
    return schedule if schedule is not None and is_one_kernel(schedule) else None


def _is_narrow(product: Product) -> bool:
    # Integer products are exact in any order and width: the low bits that are kept are the same.
    adds_plainly = product.add is multiply_add or product.dtype == "int32"
    return adds_plainly and all(narrow(factor) is not None for factor in (product.left, product.right))


def _kernel(contraction: Contraction, _target: Target) -> Any:
    left, right = narrow(contraction.left), narrow(contraction.right)
    if left is None or right is None:
        return None
    kind = MULTIPLICATIONS.get((left[0], right[0]))
    if kind is None or kind.sums != contraction.dtype:
        return None
    return TensorCoreKernel(contraction, left[1], right[1], kind, tile_for(contraction, TILES)).written()


def tile_for(contraction: Contraction, tiles: tuple[BlockTile, ...]) -> BlockTile:
    """Return the first of `tiles` that fills the device; they are ordered from the largest to the smallest."""
    rows, columns, batch = (size_of(axes) for axes in (contraction.rows, contraction.columns, contraction.batch))
    for tile in tiles:
        is_filled = rows > tile.rows // 2 and columns > tile.columns // 2
        if is_filled and -(-rows // tile.rows) * -(-columns // tile.columns) * batch >= ENOUGH:
            return tile
    # Too little work to fill the device with any tile: choose the most blocks.
    return next((tile for tile in tiles[2:] if rows > tile.rows // 2), tiles[-1])


def is_one_kernel(schedule: Schedule) -> bool:
    """Return whether the product's kernel has all blocks: others are not bound to threads."""
    blocks = nodes_in(schedule.mod["main"].body, SBlock)
    return [block.name_hint for block in blocks] == ["root"]


class TensorCoreKernel:
    """A product on tensor cores as statements: copies into shared memory, fragments, products, the epilogue."""

    def __init__(self, contraction: Contraction, left: Any, right: Any, kind: Multiplication, tile: BlockTile):
        """Take the factors `left` and `right` as they are before they are widened."""
        self.contraction, self.kind, self.tile = contraction, kind, tile
        self.registers: dict[Any, Any] = {}
        """Buffers of the epilogue that are in registers, in the order of the sums."""
        depth = tile.parts * kind.depth
        self.left = Operand(
            "left_tile", left, contraction.batch, contraction.rows, contraction.reduced, kind, tile.rows, depth
        )
        self.right = Operand(
            "right_tile", right, contraction.batch, contraction.columns, contraction.reduced, kind, tile.columns, depth
        )
        self.high, self.wide = tile.rows // tile.down // ROWS, tile.columns // tile.across // COLUMNS
        """Instructions per warp: down and across."""
        self.steps = ceil_div(size_of(contraction.reduced), depth)
        """An expression where the sum's length is known at run time only."""
        self.stage = self.left.elements + self.right.elements
        """Elements of both tiles of one step."""
        # Halves are bits there: TVM loses memory of bf16 when it widens it. One allocation, because TVM forgets
        # those that it sees no load or store of.
        dtype = BITS if kind.bytes == 2 else kind.dtype
        self.tiles = buffer("tiles", (tile.stages * self.stage,), dtype, "shared.dyn")
        self.sums = buffer("sums", (tile.rows * tile.columns // tile.threads,), kind.sums, "local")
        self.parts = self._registers()
        self.block, self.lane, self.warp = (tirx.Var(name, "int64") for name in ("block", "lane", "warp"))

    def _registers(self) -> list[Any]:
        """Return the buffers of a thread's elements of both operands."""
        sizes = {"left_parts": 4 * self.high, "right_parts": 2 * self.wide}
        return [buffer(name, (size,), "uint32", "local") for name, size in sizes.items()]

    def written(self) -> Any:
        body = sequence(
            *(tirx.AllocBuffer(memory) for memory in (self.tiles, self.sums, *self.parts)),
            for_loop("at", int(self.sums.shape[0]), self._clear, tirx.ForKind.UNROLLED),
            *(self._start_copies(index(step), step) for step in range(self.tile.stages - 1)),
            for_loop("step", self.steps, self._step),
            self._epilogue(),
        )
        body = bound(self.lane, WARP, "threadIdx.x", body)
        body = bound(self.warp, self.tile.down * self.tile.across, "threadIdx.y", body) if self._warps > 1 else body
        blocks = index(self._blocks)
        limits = ir.Range(index(0), blocks)
        thread = tirx.IterVar(limits, tirx.Var("blockIdx.x", "int64"), tirx.IterVar.ThreadIndex, "blockIdx.x")
        return tirx.For(self.block, index(0), blocks, tirx.ForKind.THREAD_BINDING, body, thread, UNROLL)

    @property
    def _warps(self) -> int:
        return self.tile.down * self.tile.across

    @property
    def _cut(self) -> tuple[int, int]:
        sizes = (size_of(self.contraction.rows), size_of(self.contraction.columns))
        return -(-sizes[0] // self.tile.rows), -(-sizes[1] // self.tile.columns)

    @property
    def _blocks(self) -> int:
        down, across = self._cut
        return down * across * size_of(self.contraction.batch)

    def _tile_position(self) -> tuple[Values, Any, Any]:
        """Return the values of this block's batch axes, its first row and its first column."""
        down, across = self._cut
        tile = tirx.floormod(self.block, index(down * across))
        batch = axis_values(self.contraction.batch, tirx.floordiv(self.block, index(down * across)))
        together = min(TOGETHER, down)
        group, within = tirx.floordiv(tile, index(together * across)), tirx.floormod(tile, index(together * across))
        high = index(together)
        if down % together:
            high = tirx.min(high, index(down) - group * index(together))
        row, column = group * index(together) + tirx.floormod(within, high), tirx.floordiv(within, high)
        return batch, row * index(self.tile.rows), column * index(self.tile.columns)

    def _clear(self, number: Any) -> Any:
        return tirx.BufferStore(self.sums, zero_of(self.kind.sums), [number])

    @property
    def _copies(self) -> bool:
        return any(operand.is_vectorized for operand in (self.left, self.right))

    def _start_copies(self, step: Any, number: int | None = None) -> Any:
        """Start to copy the tiles of a step, if there is one."""
        batch, row, column = self._tile_position()
        slot = tirx.floormod(step, index(self.tile.stages))
        thread = self.warp * index(WARP) + self.lane if self._warps > 1 else self.lane
        loads = [
            operand.filled(self.tiles, self._tile_offset(slot, side), batch, first, step, thread, self.tile.threads)
            for side, (operand, first) in enumerate(zip((self.left, self.right), (row, column), strict=True))
        ]
        if number is None or not isinstance(self.steps, int):
            loads = [tirx.IfThenElse(tirx.LT(step, sized(self.steps)), sequence(*loads), None)]
        elif number >= self.steps:
            loads = []
        if self._copies:
            loads.append(commit_copies())
        return sequence(*loads) if loads else tirx.Evaluate(tirx.IntImm("int32", 0))

    def _tile_offset(self, slot: Any, side: int) -> Any:
        return slot * index(self.stage) + index(side * self.left.elements)

    def _step(self, step: Any) -> Any:
        waiting = [wait_for_copies(self.tile.stages - 2)] if self._copies else []
        ahead = self._start_copies(step + index(self.tile.stages - 1))
        slot = tirx.floormod(step, index(self.tile.stages))
        return sequence(*waiting, barrier(), ahead, *(self._multiply(slot, part) for part in range(self.tile.parts)))

    def _multiply(self, slot: Any, part: int) -> Any:
        """Return the products of one instruction's depth of this step."""
        warp_row, warp_column = self._warp_position()
        start = part * self.kind.depth

        def load_left(number: Any) -> Any:
            return self._fragment(0, slot, warp_row + number * index(ROWS), start, number)

        def load_right(number: Any) -> Any:
            return self._fragment(1, slot, warp_column + number * index(2 * COLUMNS), start, number)

        def row(down: Any) -> Any:
            def one(across: Any) -> Any:
                return multiply(
                    self.kind,
                    address(self.sums, (down * index(self.wide) + across) * index(4), 4),
                    address(self.parts[0], down * index(4), 4),
                    address(self.parts[1], across * index(2), 2),
                )

            return _unrolled("across", self.wide, one)

        return sequence(
            _unrolled("part", self.high, load_left),
            _unrolled("part", self.wide // 2, load_right),
            _unrolled("down", self.high, row),
        )

    def _fragment(self, side: int, slot: Any, first: Any, start: int, number: Any) -> Any:
        """Load four fragments of one operand: two neighbours along the kept axis, both halves along the sum.

        The left operand's neighbours are first rows, the right one's halves are, as the instructions have them.
        """
        operand, eight = (self.left, self.right)[side], index(8)
        outer, inner = tirx.floordiv(self.lane, index(16)), tirx.floormod(tirx.floordiv(self.lane, eight), index(2))
        neighbour, half = (inner, outer) if side == 0 else (outer, inner)
        row = tirx.floormod(self.lane, eight)
        bytes_ahead = index(16 // self.kind.bytes)
        if operand.is_along:
            line, column = first + neighbour * eight + row, index(start) + half * bytes_ahead
        else:
            line, column = index(start) + half * eight + row, first + neighbour * eight
        source = self._tile_offset(slot, side) + line * index(operand.stride) + column
        return fragments(
            address(self.parts[side], number * index(4), 4), address(self.tiles, source, 16 // self.kind.bytes),
            not operand.is_along,
        )  # fmt: skip

    def _warp_position(self) -> tuple[Any, Any]:
        if self._warps == 1:
            return index(0), index(0)
        width = index(self.tile.across)
        down, across = tirx.floordiv(self.warp, width), tirx.floormod(self.warp, width)
        return down * index(self.high * ROWS), across * index(self.wide * COLUMNS)

    def _epilogue(self) -> Any:
        batch, row, column = self._tile_position()
        warp_row, warp_column = self._warp_position()
        row = row + warp_row + tirx.floordiv(self.lane, index(4))
        column = column + warp_column + tirx.floormod(self.lane, index(4)) * index(2)

        def pair(down: Any, across: Any, below: Any) -> Any:
            high, wide = row + down * index(ROWS) + below * index(8), column + across * index(COLUMNS)
            first = (down * index(self.wide) + across) * index(4) + below * index(2)

            def one(lane: Any) -> Any:
                return self._store(batch, high, wide + lane, first + lane)

            if self._stores_together(2):
                return self._guarded(for_loop("lane", 2, one, tirx.ForKind.VECTORIZED), high, wide)
            return _unrolled("lane", 2, lambda lane: self._guarded(one(lane), high, wide + lane))

        def halves(down: Any, across: Any) -> Any:
            return _unrolled("below", 2, lambda half: pair(down, across, half))

        return _unrolled("down", self.high, lambda i: _unrolled("across", self.wide, lambda j: halves(i, j)))

    def _guarded(self, statement: Stmt, row: Any, column: Any) -> Any:
        sizes = (size_of(self.contraction.rows), size_of(self.contraction.columns))
        bounds = zip((row, column), sizes, (self.tile.rows, self.tile.columns), strict=True)
        checks = [tirx.LT(position, index(size)) for position, size, tile in bounds if size % tile]
        return tirx.IfThenElse(tirx.all(*checks), statement, None) if checks else statement

    def _stores_together(self, count: int) -> bool:
        """Return whether `count` columns may go into each store: neighbours, with no private value between stores.

        Nor with bools: TVM writes vectors of them in types that nvcc does not convert.
        """
        columns, stores = self.contraction.columns, self.contraction.stores
        is_even = len(columns) == 1 and columns[0].extent % count == 0
        has_bools = any(str(load.ty.dtype) == "bool" for store in stores for load in loads_in(store.value))
        last = [list(store.indices)[-1:] for store in stores]
        is_along = is_even and all(end and end[0].same_as(columns[0].variable) for end in last)
        return is_along and not has_bools and not self.contraction.private

    def _store(self, batch: Values, row: Any, column: Any, number: Any) -> Any:
        contraction = self.contraction
        values = {**batch, **axis_values(contraction.rows, row), **axis_values(contraction.columns, column)}
        private = {
            memory: buffer(memory.name, (1,), bits_dtype(str(memory.dtype)), "local") for memory in contraction.private
        }

        def load(node: Node) -> Any:
            if node.source in self.registers:
                return tirx.BufferLoad(self.registers[node.source], [number])
            if node.source.same_as(contraction.result):
                sum_element = tirx.BufferLoad(self.sums, [number])
                return sum_element if sum_element.ty == node.ty else tirx.Cast(str(node.ty.dtype), sum_element)
            if node.source not in private:
                return node
            value = tirx.BufferLoad(private[node.source], [index(0)])
            return value if value.ty == node.ty else tirx.reinterpret(str(node.ty.dtype), value)

        statements = [tirx.AllocBuffer(each) for each in private.values()]
        for store in contraction.stores:
            value = replaced(structural_map(store.value, (TensorLoad, load), order="post"), values)
            if store.buffer in self.registers:
                statements.append(tirx.BufferStore(self.registers[store.buffer], value, [number]))
                continue
            if store.buffer not in private:
                indices = [replaced(position, values) for position in store.indices]
                statements.append(tirx.BufferStore(store.buffer, value, indices))
                continue
            memory = private[store.buffer]
            value = value if str(value.ty.dtype) == str(memory.dtype) else tirx.reinterpret(str(memory.dtype), value)
            statements.append(tirx.BufferStore(memory, value, [index(0)]))
        return sequence(*statements)


def _unrolled(name: str, count: int, body: Stmt) -> Any:
    return for_loop(name, count, body, tirx.ForKind.UNROLLED)
