"""Writes a contraction as one kernel on tensor cores: tiles of both operands in shared memory, sums in registers.

Takes a `Contraction` whose factors are of 16 or 8 bits. Gives the statements of the kernel::

    a block for each tile of the result:
        start to copy the first tiles of both operands
        for each step along the sum:
            wait for this step's tiles; start to copy those some steps ahead
            each warp: load fragments, multiply and add
        each thread: what is done with a sum, for those that it has

Sizes need not be multiples of anything: past an operand's end are zeros, and nothing is stored past the result's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlirtri.lowering.schedule.cuda.instructions import (
    COLUMNS,
    ROWS,
    Multiplication,
    barrier,
    commit_copies,
    fragments,
    multiply,
    place,
    wait_for_copies,
)
from mlirtri.lowering.schedule.cuda.operands import Operand
from mlirtri.lowering.schedule.cuda.phases import WARP, bound
from mlirtri.lowering.tir.bfloat16_storage import BITS
from mlirtri.lowering.tir.contraction import Axis, Contraction, Values, size_of
from mlirtri.lowering.tir.statements import index, sequence
from mlirtri.lowering.tir.tiles import counted, replaced, spread, zero_of
from mlirtri.lowering.toolchain.tvm_names import TensorLoad, ir, structural_map, tirx

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

    @property
    def threads(self) -> int:
        return WARP * self.down * self.across


class TensorCoreKernel:
    def __init__(self, contraction: Contraction, left: Any, right: Any, kind: Multiplication, tile: BlockTile):
        """`left` and `right` are the factors as they are before they are widened."""
        self.contraction, self.kind, self.tile = contraction, kind, tile
        depth = 2 * kind.depth
        self.left = Operand(
            "left_tile", left, contraction.batch, contraction.rows, contraction.reduced, kind, tile.rows, depth
        )
        self.right = Operand(
            "right_tile", right, contraction.batch, contraction.columns, contraction.reduced, kind, tile.columns, depth
        )
        self.high, self.wide = tile.rows // tile.down // ROWS, tile.columns // tile.across // COLUMNS
        """Instructions per warp: down and across."""
        self.steps = -(-size_of(contraction.reduced) // depth)
        self.stage = self.left.elements + self.right.elements
        """Elements of both tiles of one step."""
        # Halves are bits there: TVM loses memory of bf16 when it widens it. One allocation, because TVM forgets
        # those that it sees no load or store of.
        dtype = BITS if kind.bytes == 2 else kind.dtype
        shape = [index(tile.stages * self.stage)]
        self.tiles = tirx.decl_buffer(shape, dtype, "tiles", scope="shared.dyn", layout=None)
        self.sums = _registers("sums", kind.sums, 4 * self.high * self.wide)
        sizes = {"left_parts": 4 * self.high, "right_parts": 2 * self.wide}
        self.parts = [_registers(name, "uint32", size) for name, size in sizes.items()]
        self.block, self.lane, self.warp = (tirx.Var(name, "int64") for name in ("block", "lane", "warp"))

    def written(self) -> Any:
        """Return the loops over blocks and threads with their bodies."""
        body = sequence(
            *(tirx.AllocBuffer(each) for each in (self.tiles, self.sums, *self.parts)),
            counted("at", int(self.sums.shape[0]), self._cleared, tirx.ForKind.UNROLLED),
            *(self._started(index(step), step) for step in range(self.tile.stages - 1)),
            counted("step", self.steps, self._step),
            self._finished(),
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
        """Return the number of tiles down and across."""
        sizes = (size_of(self.contraction.rows), size_of(self.contraction.columns))
        return -(-sizes[0] // self.tile.rows), -(-sizes[1] // self.tile.columns)

    @property
    def _blocks(self) -> int:
        down, across = self._cut
        return down * across * size_of(self.contraction.batch)

    def _place(self) -> tuple[Values, Any, Any]:
        """Of this block: what stands for the batch axes, its first row and its first column."""
        down, across = self._cut
        tile = tirx.floormod(self.block, index(down * across))
        batch = spread(self.contraction.batch, tirx.floordiv(self.block, index(down * across)))
        together = min(TOGETHER, down)
        group, rest = tirx.floordiv(tile, index(together * across)), tirx.floormod(tile, index(together * across))
        high = index(together)
        if down % together:
            high = tirx.min(high, index(down) - group * index(together))
        row, column = group * index(together) + tirx.floormod(rest, high), tirx.floordiv(rest, high)
        return batch, row * index(self.tile.rows), column * index(self.tile.columns)

    def _cleared(self, at: Any) -> Any:
        return tirx.BufferStore(self.sums, zero_of(self.kind.sums), [at])

    @property
    def _copies(self) -> bool:
        return any(each.width > 1 for each in (self.left, self.right))

    def _started(self, step: Any, number: int | None = None) -> Any:
        """Start to copy the tiles of a step, if there is one."""
        batch, row, column = self._place()
        slot = tirx.floormod(step, index(self.tile.stages))
        thread = self.warp * index(WARP) + self.lane if self._warps > 1 else self.lane
        loads = [
            each.filled(self.tiles, self._start(slot, side), batch, first, step, thread, self.tile.threads)
            for side, (each, first) in enumerate(zip((self.left, self.right), (row, column), strict=True))
        ]
        if number is None:
            loads = [tirx.IfThenElse(tirx.LT(step, index(self.steps)), sequence(*loads), None)]
        elif number >= self.steps:
            loads = []
        return sequence(*loads, *([commit_copies()] if self._copies else []), *([] if loads else [_nothing()]))

    def _start(self, slot: Any, side: int) -> Any:
        """Return where the tile of operand 0 or 1 begins in memory."""
        return slot * index(self.stage) + index(side * self.left.elements)

    def _step(self, step: Any) -> Any:
        waiting = [wait_for_copies(self.tile.stages - 2)] if self._copies else []
        ahead = self._started(step + index(self.tile.stages - 1))
        slot = tirx.floormod(step, index(self.tile.stages))
        return sequence(*waiting, barrier(), ahead, *(self._multiplied(slot, part) for part in range(2)))

    def _multiplied(self, slot: Any, part: int) -> Any:
        """One instruction's depth of this step."""
        warp_row, warp_column = self._warp_place()
        start = part * self.kind.depth

        def load_left(at: Any) -> Any:
            return self._fragment(0, slot, warp_row + at * index(ROWS), start, at)

        def load_right(at: Any) -> Any:
            return self._fragment(1, slot, warp_column + at * index(2 * COLUMNS), start, at)

        def row(down: Any) -> Any:
            def one(across: Any) -> Any:
                return multiply(
                    self.kind,
                    place(self.sums, (down * index(self.wide) + across) * index(4), 4),
                    place(self.parts[0], down * index(4), 4),
                    place(self.parts[1], across * index(2), 2),
                )

            return _unrolled("across", self.wide, one)

        return sequence(
            _unrolled("part", self.high, load_left),
            _unrolled("part", self.wide // 2, load_right),
            _unrolled("down", self.high, row),
        )

    def _fragment(self, side: int, slot: Any, first: Any, start: int, at: Any) -> Any:
        """Four fragments of one operand: two neighbours along the kept axis, both halves along the sum.

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
        source = self._start(slot, side) + line * index(operand.stride) + column
        return fragments(
            place(self.parts[side], at * index(4), 4), place(self.tiles, source, 16 // self.kind.bytes),
            not operand.is_along,
        )  # fmt: skip

    def _warp_place(self) -> tuple[Any, Any]:
        """Return the first row and column of this warp in the tile."""
        if self._warps == 1:
            return index(0), index(0)
        width = index(self.tile.across)
        down, across = tirx.floordiv(self.warp, width), tirx.floormod(self.warp, width)
        return down * index(self.high * ROWS), across * index(self.wide * COLUMNS)

    def _finished(self) -> Any:
        """Return the epilogue of each sum of this thread."""
        batch, row, column = self._place()
        warp_row, warp_column = self._warp_place()
        row = row + warp_row + tirx.floordiv(self.lane, index(4))
        column = column + warp_column + tirx.floormod(self.lane, index(4)) * index(2)

        def pair(down: Any, across: Any, below: Any) -> Any:
            high, wide = row + down * index(ROWS) + below * index(8), column + across * index(COLUMNS)
            first = (down * index(self.wide) + across) * index(4) + below * index(2)

            def one(lane: Any) -> Any:
                return self._stored(batch, high, wide + lane, first + lane)

            if self._stores_pairs():
                return self._guarded(counted("lane", 2, one, tirx.ForKind.VECTORIZED), high, wide)
            return _unrolled("lane", 2, lambda lane: self._guarded(one(lane), high, wide + lane))

        def halves(down: Any, across: Any) -> Any:
            return _unrolled("below", 2, lambda half: pair(down, across, half))

        return _unrolled("down", self.high, lambda down: _unrolled("across", self.wide, lambda at: halves(down, at)))

    def _guarded(self, statement: Any, row: Any, column: Any) -> Any:
        axes = (self.contraction.rows, self.contraction.columns)
        pairs = zip((row, column), axes, (self.tile.rows, self.tile.columns), strict=True)
        checks = [tirx.LT(at, index(size_of(each))) for at, each, size in pairs if size_of(each) % size]
        return tirx.IfThenElse(tirx.all(*checks), statement, None) if checks else statement

    def _stores_pairs(self) -> bool:
        """Whether two columns go into each store: they lie together, and nothing between stores is one element's."""
        columns, private = self.contraction.columns, self.contraction.private
        is_even = len(columns) == 1 and columns[0].extent % 2 == 0
        return is_even and not private and all(_ends_in(store, columns[0]) for store in self.contraction.stores)

    def _stored(self, batch: Values, row: Any, column: Any, at: Any) -> Any:
        """Return all stores of one sum."""
        contraction = self.contraction
        values = {**batch, **spread(contraction.rows, row), **spread(contraction.columns, column)}
        private = {each: _registers(each.name, _held(each), 1) for each in contraction.private}

        def load(node: Any) -> Any:
            if node.source.same_as(contraction.result):
                total = tirx.BufferLoad(self.sums, [at])
                return total if total.ty == node.ty else tirx.Cast(str(node.ty.dtype), total)
            if node.source not in private:
                return node
            value = tirx.BufferLoad(private[node.source], [index(0)])
            return value if value.ty == node.ty else tirx.reinterpret(str(node.ty.dtype), value)

        made = [tirx.AllocBuffer(each) for each in private.values()]
        for store in contraction.stores:
            value = replaced(structural_map(store.value, (TensorLoad, load), order="post"), values)
            if store.buffer not in private:
                made.append(tirx.BufferStore(store.buffer, value, [replaced(each, values) for each in store.indices]))
                continue
            buffer = private[store.buffer]
            value = value if str(value.ty.dtype) == str(buffer.dtype) else tirx.reinterpret(str(buffer.dtype), value)
            made.append(tirx.BufferStore(buffer, value, [index(0)]))
        return sequence(*made)


def _ends_in(store: Any, axis: Axis) -> bool:
    return len(store.indices) > 0 and store.indices[-1].same_as(axis.variable)


def _held(buffer: Any) -> str:
    """The dtype in which a register holds an element: TVM loses memory of bf16 when it widens it."""
    return "uint16" if str(buffer.dtype) == "bfloat16" else str(buffer.dtype)


def _registers(name: str, dtype: str, count: int) -> Any:
    return tirx.decl_buffer([index(count)], dtype, name, scope="local", layout=None)


def _unrolled(name: str, count: int, body: Any) -> Any:
    return counted(name, count, body, tirx.ForKind.UNROLLED)


def _nothing() -> Any:
    return tirx.Evaluate(tirx.IntImm("int32", 0))
