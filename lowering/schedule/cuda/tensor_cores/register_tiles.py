"""The CUDA rule for products of fp32: a tile of sums in the registers of each thread, with fused reads and epilogue.

Blocks, steps and copies are those of the products on tensor cores. The threads of a warp are 4 down and 8 across. In
each step a thread multiplies, for 4 elements along the sum at a time, its rows of the left tile by its columns of the
right one. Neighbours in a tile are loaded at once.
"""

from __future__ import annotations

import re
from typing import Any

from mlirtri.lowering.core.target import Target
from mlirtri.lowering.schedule.cuda.common.instructions import FIRST_ARCHITECTURE, Multiplication
from mlirtri.lowering.schedule.cuda.tensor_cores.matmul import tile_for
from mlirtri.lowering.schedule.cuda.tensor_cores.tensor_core_kernel import BlockTile, TensorCoreKernel
from mlirtri.lowering.schedule.products.block_products import contraction_of, with_product
from mlirtri.lowering.tir.contraction import Contraction, multiply_add, size_of
from mlirtri.lowering.tir.primfunc import buffer
from mlirtri.lowering.tir.product_recognition import only_product
from mlirtri.lowering.tir.statements import index, sequence
from mlirtri.lowering.tir.tiles import for_loop
from mlirtri.lowering.toolchain.tvm_names import (
    PrimFunc,
    Schedule,
    Stmt,
    tirx,
)

DOWN, ACROSS = 4, 8
"""The threads of a warp."""
VECTOR = 4
"""Elements that are loaded at once, and along the sum between loads."""
FLOATS = Multiplication("float32", "float32", "", "", "float32")
TILES = (
    BlockTile(128, 128, 4, 2),
    BlockTile(64, 128, 2, 2),
    BlockTile(64, 64, 2, 2),
    BlockTile(32, 64, 1, 2),
)
"""From the fewest reads per operation to the most blocks."""
MIN_SIZE = 16
"""Rows, columns and length of the sum below which a tile would be mostly empty."""


def register_tiles(function: PrimFunc, target: Target) -> Schedule | None:
    """Return a schedule of the product of fp32 in register tiles; None for any other function."""
    if int(re.sub(r"\D", "", target.architecture)) < FIRST_ARCHITECTURE:
        return None
    match = only_product(function)
    if match is None:
        return None
    product = match[-1]
    is_plain = product.add is multiply_add and product.dtype == "float32"
    if not is_plain or min(map(size_of, (product.rows, product.columns, product.reduced))) < MIN_SIZE:
        return None
    # A block beside the kernel would have no thread binding.
    return with_product(*match, lambda product, around: _kernel(contraction_of(product, around)))


def _kernel(contraction: Contraction) -> Stmt | None:
    factors = contraction.left, contraction.right
    if contraction.dtype != FLOATS.sums or any(str(factor.ty.dtype) != FLOATS.dtype for factor in factors):
        return None
    return RegisterTileKernel(contraction, *factors, FLOATS, tile_for(contraction, TILES)).written()


class RegisterTileKernel(TensorCoreKernel):
    """The statements of a product of fp32, whose tile of sums is in the registers of each thread."""

    def _registers(self) -> list[Any]:
        tile = self.tile
        self.rows, self.columns = tile.rows // tile.down // DOWN, tile.columns // tile.across // ACROSS
        """Of the sums of a thread."""
        sizes = {"left_part": self.rows * VECTOR, "right_part": self.columns * VECTOR}
        return [buffer(name, (size,), FLOATS.dtype, "local") for name, size in sizes.items()]

    def _multiply(self, slot: Any, part: int) -> Any:
        def some(number: Any) -> Any:
            return self._products(slot, index(part * FLOATS.depth) + number * index(VECTOR))

        return _unrolled("group", FLOATS.depth // VECTOR, some)

    def _products(self, slot: Any, start: Any) -> Any:
        """Return the products of 4 elements along the sum."""

        def along(element: Any) -> Any:
            return _unrolled("row", self.rows, lambda row: across(element, row))

        def across(element: Any, row: Any) -> Any:
            return _unrolled("column", self.columns, lambda column: one(element, row, column))

        def one(element: Any, row: Any, column: Any) -> Any:
            number = row * index(self.columns) + column
            factors = [
                tirx.BufferLoad(part, [self._register(side, kept, element)])
                for side, (part, kept) in enumerate(zip(self.operand_registers, (row, column), strict=True))
            ]
            value = multiply_add(tirx.BufferLoad(self.sums, [number]), *factors)
            return tirx.BufferStore(self.sums, value, [number])

        return sequence(self._load(0, slot, start), self._load(1, slot, start), _unrolled("element", VECTOR, along))

    def _register(self, side: int, kept: Any, element: Any) -> Any:
        """Return where a thread has an element of an operand: neighbours are those of the tile in shared memory."""
        operand, count = (self.left, self.right)[side], (self.rows, self.columns)[side]
        return kept * index(VECTOR) + element if operand.is_along else element * index(count) + kept

    def _load(self, side: int, slot: Any, start: Any) -> Any:
        """Load the elements of a thread's rows, or columns, of 4 elements along the sum."""
        operand, count = (self.left, self.right)[side], (self.rows, self.columns)[side]
        tiles, memory = self._tile_place(slot, side)

        def vector(outer: Any, inner: Any) -> Any:
            # Lines are along the sum, or else the kept axis, of which each line has `count` elements of the thread.
            if operand.is_along:
                line, column = self._kept(side, outer), start
                first = outer * index(VECTOR)
            else:
                line, column = start + outer, self._kept(side, inner * index(VECTOR))
                first = outer * index(count) + inner * index(VECTOR)
            source = memory + line * index(operand.stride) + column

            def lane(number: Any) -> Any:
                value = tirx.BufferLoad(tiles, [source + number])
                return tirx.BufferStore(self.operand_registers[side], value, [first + number])

            return for_loop("lane", VECTOR, lane, tirx.ForKind.VECTORIZED)

        outer, inner = (count, 1) if operand.is_along else (VECTOR, count // VECTOR)
        return _unrolled("line", outer, lambda i: _unrolled("vector", inner, lambda j: vector(i, j)))

    def _kept(self, side: int, number: Any) -> Any:
        """Return the row, or column, of the block's tile that is number `number` of the thread.

        Where they are loaded at once, 4 neighbours are one thread's; else neighbours are different threads', whose
        addresses are in different banks.
        """
        operand, threads = (self.left, self.right)[side], (DOWN, ACROSS)[side]
        lane = tirx.floordiv(self.lane, index(ACROSS)) if side == 0 else tirx.floormod(self.lane, index(ACROSS))
        first = self._warp_position()[side]
        if operand.is_along:
            return first + number * index(threads) + lane
        group, within = tirx.floordiv(number, index(VECTOR)), tirx.floormod(number, index(VECTOR))
        return first + group * index(VECTOR * threads) + lane * index(VECTOR) + within

    def _warp_position(self) -> tuple[Any, Any]:
        width = index(self.tile.across)
        down, across = tirx.floordiv(self.warp, width), tirx.floormod(self.warp, width)
        return down * index(self.rows * DOWN), across * index(self.columns * ACROSS)

    def _epilogue(self) -> Any:
        batch, row, column = self._tile_position()
        stores_vectors = not self.right.is_along and self._stores_vectors(VECTOR)

        def store(down: Any, across: Any) -> Any:
            high, wide = row + self._kept(0, down), column + self._kept(1, across)
            return self._store(batch, high, wide, down * index(self.columns) + across)

        def guarded(down: Any, across: Any, statement: Stmt) -> Any:
            return self._guarded(statement, row + self._kept(0, down), column + self._kept(1, across))

        def vector(down: Any, group: Any) -> Any:
            first = group * index(VECTOR)
            stores = for_loop("lane", VECTOR, lambda lane: store(down, first + lane), tirx.ForKind.VECTORIZED)
            return guarded(down, first, stores)

        def line(down: Any) -> Any:
            if stores_vectors:
                return _unrolled("vector", self.columns // VECTOR, lambda group: vector(down, group))
            return _unrolled("across", self.columns, lambda across: guarded(down, across, store(down, across)))

        return _unrolled("down", self.rows, line)


def _unrolled(name: str, count: int, body: Stmt) -> Any:
    return for_loop(name, count, body, tirx.ForKind.UNROLLED)
