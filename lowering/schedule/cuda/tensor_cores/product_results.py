"""The epilogue of a product on tensor cores: what each thread computes from its sums, and its stores.

Of each instruction's 16x8 result a thread has two neighbours in a row, and two 8 rows below. Results of 16-bit floats
that tiles divide evenly are stored 16 bytes at once: four threads exchange what they have of four instructions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from mlirtri.lowering.schedule.cuda.common.instructions import COLUMNS, ROWS, address, transpose_among_four
from mlirtri.lowering.tir.bfloat16_storage import HALF, bits_dtype, bits_of
from mlirtri.lowering.tir.contraction import Contraction, Values, size_of
from mlirtri.lowering.tir.primfunc import buffer
from mlirtri.lowering.tir.statements import depends_on, index, loads_in, nodes_in, sequence
from mlirtri.lowering.tir.tiles import axis_values, for_loop, replaced
from mlirtri.lowering.toolchain.tvm_names import Buffer, Expr, Node, Stmt, TensorLoad, structural_map, tirx

CHUNK = 8
"""16-bit elements of what a thread stores at once."""


def unrolled(name: str, count: int, body: Stmt) -> Any:
    return for_loop(name, count, body, tirx.ForKind.UNROLLED)


def in_chunks(counts: tuple[int, int], dtype: str, element: Callable[..., Any], whole: Callable[..., Any]) -> Any:
    """Return the loops over a thread's elements of 16-bit floats, in the layout of sums, which store 16 bytes at once.

    `counts` are the instructions down and across. `element` gives statements and the value of an element, by the
    numbers of its instruction, of its half and of its place there; `whole` the store of element `number` of a chunk.
    """

    def chunk(down: Any, group: Any, below: Any) -> Any:
        line = buffer("line", (CHUNK,), bits_dtype(dtype), "local")

        def one(part: Any, lane: Any) -> Any:
            before, value = element(down, group * index(4) + part, below, lane)
            value = bits_of(value) if dtype == HALF else value
            return sequence(*before, tirx.BufferStore(line, value, [part * index(2) + lane]))

        def stored(number: Any) -> Any:
            value = tirx.BufferLoad(line, [number])
            return whole(down, group, below, number, tirx.reinterpret(HALF, value) if dtype == HALF else value)

        return sequence(
            tirx.AllocBuffer(line),
            unrolled("part", 4, lambda part: unrolled("lane", 2, lambda lane: one(part, lane))),
            transpose_among_four(address(line, index(0), CHUNK)),
            for_loop("lane", CHUNK, stored, tirx.ForKind.VECTORIZED),
        )

    def groups(down: Any) -> Any:
        return unrolled("across", counts[1] // 4, lambda group: unrolled("below", 2, lambda n: chunk(down, group, n)))

    return unrolled("down", counts[0], groups)


class ProductResults(ABC):
    """The epilogue of a kernel of a product, whose threads have their sums in `sums`."""

    contraction: Contraction
    tile: Any
    lane: Any
    sums: Any
    registers: Mapping[Buffer, Buffer]
    instructions_down: int
    instructions_across: int

    @abstractmethod
    def _tile_position(self) -> tuple[Values, Any, Any]:
        """Return the values of the batch axes, and the first row and column of the block's tile."""

    @abstractmethod
    def _warp_position(self) -> tuple[Any, Any]:
        """Return the first row and column of the warp in the tile."""

    def _epilogue(self) -> Stmt:
        """Store a thread's sums: of each instruction's 16x8 result two neighbours in a row, and two 8 rows below."""
        batch, row, column = self._tile_position()
        warp_row, warp_column = self._warp_position()
        row = row + warp_row + tirx.floordiv(self.lane, index(4))
        if self._stores_chunks():
            return self._epilogue_of_chunks(batch, row, column + warp_column)
        column = column + warp_column + tirx.floormod(self.lane, index(4)) * index(2)

        def halves(down: Any, across: Any) -> Stmt:
            number = (down * index(self.instructions_across) + across) * index(4)
            corner = row + down * index(ROWS), column + across * index(COLUMNS)
            return unrolled(
                "below", 2,
                lambda below: self._pair(
                    batch, corner[0] + below * index(8), corner[1], number + below * index(2)
                ),
            )  # fmt: skip

        return unrolled(
            "down",
            self.instructions_down,
            lambda down: unrolled("across", self.instructions_across, lambda across: halves(down, across)),
        )

    def _stores_chunks(self) -> bool:
        """Return whether threads store 16 bytes each, of a result of 16-bit floats that tiles divide evenly."""
        rows, columns = size_of(self.contraction.rows), size_of(self.contraction.columns)
        is_even = isinstance(rows, int) and isinstance(columns, int) and rows % self.tile.rows == 0
        if not is_even or columns % self.tile.columns or self.instructions_across % 4:
            return False
        *others, last = self.contraction.stores
        target, is_once = last.buffer, {store.buffer for store in others} <= set(self.contraction.private)
        is_half = str(target.dtype) in ("float16", HALF) and str(last.value.ty.dtype) == str(target.dtype)
        is_outside = target not in self.registers and target not in self.contraction.private
        return is_once and is_half and is_outside and self._lies_along(last, CHUNK)

    def _lies_along(self, store: Any, count: int) -> bool:
        """Return whether a store is along the columns, with rows of a multiple of `count` elements."""
        columns, indices = self.contraction.columns, list(store.indices)
        if len(columns) != 1 or not indices:
            return False
        size = store.buffer.shape[-1]
        return (
            isinstance(size, tirx.IntImm) and not int(size) % count and bool(indices[-1].same_as(columns[0].variable))
        )

    def _epilogue_of_chunks(self, batch: Values, row: Any, column: Any) -> Stmt:
        """Store the sums of four instructions at once: four threads exchange theirs, so that each has 16 bytes."""
        pair = tirx.floormod(self.lane, index(4))
        store = self.contraction.stores[-1]

        def element(down: Any, across: Any, below: Any, lane: Any) -> Any:
            number = (down * index(self.instructions_across) + across) * index(4) + below * index(2) + lane
            at = row + down * index(ROWS) + below * index(8), column + across * index(8) + pair * index(2) + lane
            stored: Any = self._store(batch, *at, number)
            *before, last = stored.seq if isinstance(stored, tirx.SeqStmt) else [stored]
            return before, last.value

        def whole(down: Any, group: Any, below: Any, number: Any, value: Any) -> Any:
            at_row = row + down * index(ROWS) + below * index(8)
            at_column = column + (group * index(4) + pair) * index(8) + number
            values = {**batch, **axis_values(self.contraction.rows, at_row)}
            values.update(axis_values(self.contraction.columns, at_column))
            return tirx.BufferStore(store.buffer, value, [replaced(each, values) for each in store.indices])

        return in_chunks((self.instructions_down, self.instructions_across), str(store.buffer.dtype), element, whole)

    def _pair(self, batch: Values, row: Any, column: Any, number: Any) -> Stmt:
        """Store two neighbours in a row, the thread's sums from `number` on; as a vector where that is possible."""

        def one(lane: Any) -> Stmt:
            return self._store(batch, row, column + lane, number + lane)

        if self._stores_vectors(2):
            return self._guarded(for_loop("lane", 2, one, tirx.ForKind.VECTORIZED), row, column)
        return unrolled("lane", 2, lambda lane: self._guarded(one(lane), row, column + lane))

    def _guarded(self, statement: Stmt, row: Any, column: Any) -> Any:
        sizes = (size_of(self.contraction.rows), size_of(self.contraction.columns))
        bounds = zip((row, column), sizes, (self.tile.rows, self.tile.columns), strict=True)
        checks = [tirx.LT(position, index(size)) for position, size, tile in bounds if size % tile]
        return tirx.IfThenElse(tirx.all(*checks), statement, None) if checks else statement

    def _stores_vectors(self, count: int) -> bool:
        """Return whether each store may write `count` neighbouring columns, with no private value between stores.

        False for bool operands, which nvcc cannot convert in the vector types that TVM writes for them, and for choices
        that may be the same for neighbours, of which TVM writes the condition in the type of the values.
        """
        columns, stores = self.contraction.columns, self.contraction.stores
        is_even = len(columns) == 1 and columns[0].extent % count == 0
        has_bools = any(str(load.ty.dtype) == "bool" for store in stores for load in loads_in(store.value))
        choices = [choice for store in stores for choice in nodes_in(store.value, tirx.Select)]
        has_bools |= any(not depends_on(choice.condition, [self.contraction.result]) for choice in choices)
        last = [list(store.indices)[-1:] for store in stores]
        is_along = is_even and all(end and end[0].same_as(columns[0].variable) for end in last)
        return is_along and not has_bools and not self.contraction.private

    def _store(self, batch: Values, row: Any, column: Any, number: Any) -> Stmt:
        """Write the stores of the epilogue for one element of the result, the thread's sum `number`."""
        contraction = self.contraction
        values = {**batch, **axis_values(contraction.rows, row), **axis_values(contraction.columns, column)}
        private = {
            memory: buffer(memory.name, (1,), bits_dtype(str(memory.dtype)), "local") for memory in contraction.private
        }
        statements = [tirx.AllocBuffer(each) for each in private.values()]
        for store in contraction.stores:
            loads = (TensorLoad, partial(self._loaded, number, private))
            value = replaced(structural_map(store.value, loads, order="post"), values)
            if store.buffer in self.registers:
                target, indices = self.registers[store.buffer], [number]
            elif store.buffer in private:
                target, indices = private[store.buffer], [index(0)]
                value = (
                    value if str(value.ty.dtype) == str(target.dtype) else tirx.reinterpret(str(target.dtype), value)
                )
            else:
                target, indices = store.buffer, [replaced(position, values) for position in store.indices]
            statements.append(tirx.BufferStore(target, value, indices))
        return sequence(*statements)

    def _loaded(self, number: Any, private: Mapping[Buffer, Buffer], load: Node) -> Expr:
        """Return what a load of the epilogue reads: a register, the thread's sum, a private value, or memory."""
        if load.source in self.registers:
            return tirx.BufferLoad(self.registers[load.source], [number])
        if load.source.same_as(self.contraction.result):
            value = tirx.BufferLoad(self.sums, [number])
            return value if value.ty == load.ty else tirx.Cast(str(load.ty.dtype), value)
        if load.source not in private:
            return load
        value = tirx.BufferLoad(private[load.source], [index(0)])
        return value if value.ty == load.ty else tirx.reinterpret(str(load.ty.dtype), value)
