"""Products as statements of a block, whose threads have other statements, too.

One of a loop's iterations copies whole tiles an iteration ahead, while the other statements run:

    start to copy the tiles of the first iteration
    for each iteration:
        wait for its tiles; multiply
        start to copy the tiles of the next iteration
        …
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from mlirtri.lowering.schedule.cuda.common.instructions import (
    Multiplication,
    address,
    barrier,
    commit_copies,
    multiply,
    wait_for_copies,
)
from mlirtri.lowering.schedule.cuda.common.phases import WARP
from mlirtri.lowering.schedule.cuda.tensor_cores.register_tiles import RegisterTileKernel
from mlirtri.lowering.schedule.cuda.tensor_cores.tensor_core_kernel import BlockTile, TensorCoreKernel
from mlirtri.lowering.schedule.cuda.tensor_cores.warpgroup_kernel import WarpgroupKernel
from mlirtri.lowering.tir.contraction import Contraction, Values
from mlirtri.lowering.tir.primfunc import buffer
from mlirtri.lowering.tir.statements import depends_on, index, sequence
from mlirtri.lowering.tir.tiles import for_loop, replaced
from mlirtri.lowering.toolchain.tvm_names import Buffer, Expr, Stmt, TensorLoad, tirx


class InBlock(TensorCoreKernel):
    """A product as one statement of a block."""

    def place(self, left_is_global: bool, right_is_global: bool) -> None:
        """Note which operands are in global memory."""
        self.left = replace(self.left, is_global=left_is_global)
        self.right = replace(self.right, is_global=right_is_global)

    def statement(self, thread: Expr) -> Stmt:
        """Return the statement of a thread of the block."""
        return sequence(
            *self._start(thread),
            *(self._start_copies(index(step), step) for step in range(self._ahead)),
            for_loop("step", self.steps, self._step),
            *self._finish(),
            self._epilogue(),
        )

    def _start(self, thread: Expr) -> list[Stmt]:
        return [
            tirx.Bind(self.lane, tirx.floormod(thread, index(WARP))),
            tirx.Bind(self.warp, tirx.floordiv(thread, index(WARP))),
            *(tirx.AllocBuffer(memory) for memory in (self.sums, *self.operand_registers)),
            for_loop("at", int(self.sums.shape[0]), self._clear, tirx.ForKind.UNROLLED),
        ]

    def _tile_position(self) -> tuple[Values, Any, Any]:
        return {}, index(0), index(0)


class BlockProduct(InBlock):
    """A product on tensor cores in a block."""


class BlockGroupProduct(InBlock, WarpgroupKernel):
    """A product by instructions of warpgroups in a block."""


class BlockFloatProduct(InBlock, RegisterTileKernel):
    """A product of fp32 in a block, with a tile of sums for each thread."""


class LoopProduct(InBlock):
    """A product of each iteration of a loop, whose tiles are copied whole, an iteration ahead.

    A tile that no iteration changes is copied once. A left factor may be in registers, as another product left it.
    """

    def __init__(
        self, contraction: Contraction, factors: tuple[Expr, Expr], kind: Multiplication, tile: BlockTile,
        registers: Mapping[Buffer, Buffer], loop: Stmt, held: Buffer | None, scope: str,
    ):  # fmt: skip
        """Take the `loop` around the product, and the registers that have the left factor, if they do."""
        super().__init__(contraction, *factors, kind, tile, registers)
        self.loop, self.source, self.is_held = loop, held, held is not None
        self.held = None if held is None else registers.get(held)
        sides = [operand.elements for operand in (self.left, self.right)]
        names, dtype = ("left_tile", "right_tile"), str(self.tiles.dtype)
        self.memories = {
            side: buffer(names[side], [size], dtype, scope, self.alignment)
            for side, size in enumerate(sides)
            if side or not self.is_held
        }
        """The memory of each operand's tile."""

    def first_copies(self, thread: Expr) -> Stmt:
        """Return what starts to copy the tiles of the first iteration."""
        copies = replaced(sequence(*(self._copied(side, thread) for side in self.memories)), self._at(self.loop.min))
        return sequence(self._if_runs(tirx.LT(index(0), self.loop.extent), copies), commit_copies())

    def statement(self, thread: Expr, pending: int = 0) -> Stmt:
        """Return the statement of a thread; `pending` groups of copies are started after those of its tiles."""
        return sequence(
            *self._start(thread), wait_for_copies(pending), *self._multiplied(), *self._next_copies(thread),
            commit_copies(), self._epilogue(),
        )  # fmt: skip

    def _multiplied(self) -> list[Stmt]:
        return [barrier(), *(self._multiply(index(0), part) for part in range(self.tile.k_instructions))]

    def _next_copies(self, thread: Any) -> list[Any]:
        copies = [self._copied(side, thread) for side in self.memories]
        moving = [statement for statement in copies if depends_on(statement, [self.loop.loop_var])]
        if not moving:
            return []
        following = self.loop.loop_var + index(1)
        is_run = tirx.LT(following - self.loop.min, self.loop.extent)
        return [barrier(), self._if_runs(is_run, replaced(sequence(*moving), self._at(following)))]

    def _copied(self, side: int, thread: Expr) -> Stmt:
        operand = (self.left, self.right)[side]
        return operand.filled(self.memories[side], index(0), {}, index(0), index(0), thread, self.tile.threads)

    def _at(self, iteration: Expr) -> Values:
        return {self.loop.loop_var: iteration}

    def _if_runs(self, condition: Any, statement: Stmt) -> Any:
        is_known = isinstance(self.loop.extent, tirx.IntImm) and condition.a.same_as(index(0))
        return statement if is_known and int(self.loop.extent) > 0 else tirx.IfThenElse(condition, statement, None)

    def _tile_place(self, slot: Any, side: int) -> tuple[Any, Any]:
        return self.memories[side], index(0)

    def _left_loads(self, slot: Any, warp_row: Any, start: int) -> list[Any]:
        return [] if self.is_held else super()._left_loads(slot, warp_row, start)

    def _multiply_one(self, down: Any, across: Any, part: int) -> Any:
        if not self.is_held:
            return super()._multiply_one(down, across, part)
        sums = address(self.sums, (down * index(self.instructions_across) + across) * index(4), 4)
        right = address(self.operand_registers[1], across * index(2), 2)
        return multiply(self.kind, sums, self._held_part(down, part), right, is_left_held=True)

    def _held_part(self, down: Any, part: int) -> Any:
        """Return the address of one instruction's part of the left factor in registers."""
        registers = self.sums if self.held is None else self.held
        eights = self.left.depth // 8
        return address(registers, (down * index(eights) + index(2 * part)) * index(4), 8)

    @cached_property
    def _added_to(self) -> Any:
        """Return the registers that the product is added to, where nothing else becomes of it; else None."""
        [store, *others] = self.contraction.stores
        value = store.value
        if others or not isinstance(value, tirx.Add) or not all(isinstance(x, TensorLoad) for x in (value.a, value.b)):
            return None
        known, is_sum = self.registers.get(value.a.source), value.b.source.same_as(self.contraction.result)
        is_kept = known is not None and store.buffer in self.registers and str(known.dtype) == self.kind.sums
        return known if is_kept and is_sum else None

    def _clear(self, number: Any) -> Any:
        if self._added_to is None:
            return super()._clear(number)
        return tirx.BufferStore(self.sums, tirx.BufferLoad(self._added_to, [number]), [number])

    def _store(self, batch: Values, row: Any, column: Any, number: Any) -> Stmt:
        if self._added_to is None:
            return super()._store(batch, row, column, number)
        target = self.registers[self.contraction.stores[0].buffer]
        return tirx.BufferStore(target, tirx.BufferLoad(self.sums, [number]), [number])


class LoopGroupProduct(LoopProduct, WarpgroupKernel):
    """A product of each iteration of a loop by instructions of warpgroups."""

    def _multiplied(self) -> list[Stmt]:
        return [*self.show_tiles(), barrier(), *self.start_products(index(0)), *self._finish()]

    def _left_part(self, slot: Any, part: int, number: int) -> list[Any]:
        return [self._held_part(index(number), part)] if self.is_held else super()._left_part(slot, part, number)
