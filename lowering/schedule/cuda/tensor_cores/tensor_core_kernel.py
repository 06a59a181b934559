"""The kernel of a product on tensor cores, as statements of TIR: a tile of the result for each block of threads.

    a block for each tile of the result:
        start to copy the first tiles of both operands
        for each step along the sum:
            wait for this step's tiles; start to copy those some steps ahead
            each warp: load fragments, multiply and add
        each thread: the epilogue of its sums

Elements past the end of an operand are zeros, and nothing is stored past the end of the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from mlirtri.lowering.schedule.cuda.common.instructions import (
    COLUMNS,
    ROWS,
    Multiplication,
    address,
    barrier,
    commit_copies,
    fragments,
    multiply,
    wait_for_copies,
)
from mlirtri.lowering.schedule.cuda.common.phases import WARP, bound
from mlirtri.lowering.schedule.cuda.tensor_cores.operands import Operand
from mlirtri.lowering.schedule.cuda.tensor_cores.product_results import ProductResults, unrolled
from mlirtri.lowering.tir.bfloat16_storage import BITS
from mlirtri.lowering.tir.contraction import Contraction, Values, size_of
from mlirtri.lowering.tir.primfunc import buffer
from mlirtri.lowering.tir.statements import index, sequence
from mlirtri.lowering.tir.tiles import axis_values, ceil_div, for_loop, sized, zero_of
from mlirtri.lowering.toolchain.tvm_names import Buffer, Expr, Stmt, ir, tirx

GROUP_ROWS = 8
"""Rows of tiles in a group. Blocks are numbered group by group, and within a group column by column:

    0 2 4 6    with GROUP_ROWS = 2: the blocks that run at the same time are in few rows and few columns,
    1 3 5 7    so that they read the same parts of both operands from the cache
    8 …
"""
UNROLL = {"pragma_unroll_explicit": False}
"""On the outermost loop: TVM writes `#pragma unroll` instead of unrolling, which keeps the source short."""


@dataclass(frozen=True)
class BlockTile:
    """The tile of a block, divided among `down` times `across` warps."""

    rows: int
    columns: int
    down: int
    across: int
    stages: int = 4
    """Pipeline stages: steps whose tiles are in memory at once."""
    k_instructions: int = 2
    """Instructions along the sum, k, in each step."""

    @property
    def threads(self) -> int:
        return WARP * self.down * self.across


class TensorCoreKernel(ProductResults):
    """A product on tensor cores as statements: copies into shared memory, fragments, products, the epilogue."""

    operand_type = Operand
    alignment: int | None = None
    """Of the tiles in shared memory, in bytes; None for TVM's own."""

    def __init__(
        self,
        contraction: Contraction,
        left: Expr,
        right: Expr,
        kind: Multiplication,
        tile: BlockTile,
        registers: Mapping[Buffer, Buffer] = MappingProxyType({}),
    ):
        """Take the factors `left` and `right` as they are before they are widened.

        `registers` has the tiles of the epilogue that are in registers: a thread's elements in the order of its sums.
        """
        self.contraction, self.kind, self.tile, self.registers = contraction, kind, tile, registers
        depth = tile.k_instructions * kind.depth
        self.left = self.operand_type(
            "left_tile", left, contraction.batch, contraction.rows, contraction.reduced, kind, tile.rows, depth
        )
        self.right = self.operand_type(
            "right_tile", right, contraction.batch, contraction.columns, contraction.reduced, kind, tile.columns, depth
        )
        self.instructions_down, self.instructions_across = (
            tile.rows // tile.down // ROWS,
            tile.columns // tile.across // COLUMNS,
        )
        """Instructions per warp: down and across."""
        self.steps = ceil_div(size_of(contraction.reduced), depth)
        """An expression where the sum's length is known at run time only."""
        self.stage = self.left.elements + self.right.elements
        """Elements of both tiles of one step."""
        # 16-bit floats are stored as uint16: TVM loses a buffer of bf16 when it legalizes the dtype. Both operands
        # share one allocation, because TVM drops allocations without a load or store, and PTX accesses are neither.
        dtype = BITS if kind.bytes == 2 else kind.dtype
        self.tiles = buffer("tiles", (tile.stages * self.stage,), dtype, "shared.dyn", self.alignment)
        self.sums = buffer("sums", (tile.rows * tile.columns // tile.threads,), kind.sums, "local")
        self.operand_registers = self._registers()
        self.block, self.lane, self.warp = (tirx.Var(name, "int64") for name in ("block", "lane", "warp"))

    def _registers(self) -> list[Any]:
        """Return the buffers of a thread's elements of both operands."""
        sizes = {"left_parts": 4 * self.instructions_down, "right_parts": 2 * self.instructions_across}
        return [buffer(name, (size,), "uint32", "local") for name, size in sizes.items()]

    def written(self) -> Stmt:
        body = sequence(
            *(tirx.AllocBuffer(memory) for memory in (self.tiles, self.sums, *self.operand_registers)),
            for_loop("at", int(self.sums.shape[0]), self._clear, tirx.ForKind.UNROLLED),
            *(self._start_copies(index(step), step) for step in range(self._ahead)),
            for_loop("step", self.steps, self._step),
            *self._finish(),
            self._epilogue(),
        )
        body = bound(self.lane, WARP, "threadIdx.x", body)
        body = bound(self.warp, self._warps, "threadIdx.y", body) if self._warps > 1 else body
        blocks = index(self._blocks)
        limits = ir.Range(index(0), blocks)
        thread = tirx.IterVar(limits, tirx.Var("blockIdx.x", "int64"), tirx.IterVar.ThreadIndex, "blockIdx.x")
        return tirx.For(self.block, index(0), blocks, tirx.ForKind.THREAD_BINDING, body, thread, UNROLL)

    @property
    def _ahead(self) -> int:
        """Return how many steps before their products copies of tiles start."""
        return self.tile.stages - 1

    def _finish(self) -> list[Stmt]:
        """Return what is between the last step and the epilogue."""
        return []

    @property
    def _warps(self) -> int:
        return self.tile.down * self.tile.across

    @property
    def _grid(self) -> tuple[int, int]:
        sizes = (size_of(self.contraction.rows), size_of(self.contraction.columns))
        return -(-sizes[0] // self.tile.rows), -(-sizes[1] // self.tile.columns)

    @property
    def _blocks(self) -> int:
        down, across = self._grid
        return down * across * size_of(self.contraction.batch)

    def _tile_position(self) -> tuple[Values, Any, Any]:
        """Return the values of this block's batch axes, its first row and its first column."""
        down, across = self._grid
        tile = tirx.floormod(self.block, index(down * across))
        batch = axis_values(self.contraction.batch, tirx.floordiv(self.block, index(down * across)))
        group_rows = min(GROUP_ROWS, down)
        in_group = index(group_rows * across)
        group, within = tirx.floordiv(tile, in_group), tirx.floormod(tile, in_group)
        height = index(group_rows)
        if down % group_rows:
            # The last group has fewer rows.
            height = tirx.min(height, index(down) - group * index(group_rows))
        row, column = group * index(group_rows) + tirx.floormod(within, height), tirx.floordiv(within, height)
        return batch, row * index(self.tile.rows), column * index(self.tile.columns)

    def _clear(self, number: Any) -> Any:
        return tirx.BufferStore(self.sums, zero_of(self.kind.sums), [number])

    @property
    def _copies_async(self) -> bool:
        return any(operand.is_vectorized for operand in (self.left, self.right))

    def _start_copies(self, step: Any, number: int | None = None) -> Any:
        """Start to copy the tiles of a step, if there is one."""
        batch, row, column = self._tile_position()
        slot = tirx.floormod(step, index(self.tile.stages))
        thread = self.warp * index(WARP) + self.lane if self._warps > 1 else self.lane
        loads = [
            operand.filled(*self._tile_place(slot, side), batch, first, step, thread, self.tile.threads)
            for side, (operand, first) in enumerate(zip((self.left, self.right), (row, column), strict=True))
        ]
        if number is None or not isinstance(self.steps, int):
            loads = [tirx.IfThenElse(tirx.LT(step, sized(self.steps)), sequence(*loads), None)]
        elif number >= self.steps:
            loads = []
        if self._copies_async:
            loads.append(commit_copies())
        return sequence(*loads)

    def _tile_place(self, slot: Any, side: int) -> tuple[Any, Any]:
        """Return the memory of an operand's tile, and where in it the tile begins."""
        return self.tiles, slot * index(self.stage) + index(side * self.left.elements)

    def _step(self, step: Any) -> Any:
        waiting = [wait_for_copies(self.tile.stages - 2)] if self._copies_async else []
        ahead = self._start_copies(step + index(self.tile.stages - 1))
        slot = tirx.floormod(step, index(self.tile.stages))
        return sequence(
            *waiting, barrier(), ahead, *(self._multiply(slot, part) for part in range(self.tile.k_instructions))
        )

    def _multiply(self, slot: Any, part: int) -> Any:
        """Return the products of one instruction's depth of this step."""
        warp_row, warp_column = self._warp_position()
        start = part * self.kind.depth

        def load_right(number: Any) -> Any:
            return self._fragment(1, slot, warp_column + number * index(2 * COLUMNS), start, number)

        def row(down: Any) -> Any:
            return unrolled("across", self.instructions_across, lambda across: self._multiply_one(down, across, part))

        return sequence(
            *self._left_loads(slot, warp_row, start),
            unrolled("part", self.instructions_across // 2, load_right),
            unrolled("down", self.instructions_down, row),
        )

    def _left_loads(self, slot: Any, warp_row: Any, start: int) -> list[Any]:
        """Return the statements that load the left operand's fragments of one instruction's depth."""

        def load(number: Any) -> Any:
            return self._fragment(0, slot, warp_row + number * index(ROWS), start, number)

        return [unrolled("part", self.instructions_down, load)]

    def _multiply_one(self, down: Any, across: Any, part: int) -> Any:
        """Return one instruction, of the depth `part` of this step."""
        return multiply(
            self.kind,
            address(self.sums, (down * index(self.instructions_across) + across) * index(4), 4),
            address(self.operand_registers[0], down * index(4), 4),
            address(self.operand_registers[1], across * index(2), 2),
        )

    def _fragment(self, side: int, slot: Any, first: Any, start: int, number: Any) -> Any:
        """Load four 8x8 matrices of one operand by one `ldmatrix`: two along the rows or columns, two along k.

        They are in the order of `mma`'s registers: the row changes first in the left operand, k in the right one.
        Lane n gives the address of row n % 8 of matrix n / 8.
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
        memory, offset = self._tile_place(slot, side)
        source = offset + line * index(operand.stride) + column
        registers = address(self.operand_registers[side], number * index(4), 4)
        return fragments(registers, address(memory, source, 16 // self.kind.bytes), not operand.is_along)

    def _warp_position(self) -> tuple[Any, Any]:
        if self._warps == 1:
            return index(0), index(0)
        width = index(self.tile.across)
        down, across = tirx.floordiv(self.warp, width), tirx.floormod(self.warp, width)
        return down * index(self.instructions_down * ROWS), across * index(self.instructions_across * COLUMNS)
