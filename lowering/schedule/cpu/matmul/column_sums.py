"""Contractions of a few rows, whose right operand is contiguous along the columns: it is read once, row by row.

The sums of a chunk of columns stay in the first-level cache::

    parallel over batch, chunks of columns:
        sums = 0
        for four k at a time:  for vectors:  sums[row, v] += left[row, k] * right[k, v] + … (four)
        stores of sums
"""

from __future__ import annotations

from typing import Any

from mlirtri.lowering.core.target import Target
from mlirtri.lowering.schedule.cpu.common.contraction_tiles import Cut, loop_kind
from mlirtri.lowering.schedule.cpu.matmul.tile import ReductionBlock, Tile, TilePosition
from mlirtri.lowering.tir.contraction import Contraction, Values, size_of
from mlirtri.lowering.tir.statements import index, new_buffer, sequence
from mlirtri.lowering.tir.tiles import axis_values, for_loop, in_lanes, loop_nest, ramp, replaced, temporary, zero_of
from mlirtri.lowering.toolchain.tvm_names import Expr, Stmt, tirx

MAX_ROWS = 3
CHUNK = 32
"""Vectors of columns in a chunk: contiguous enough for the prefetcher, and sums that stay in the first-level cache."""
STEPS = 4
"""Rows of the right operand per load and store of the sums."""


def column_sums(contraction: Contraction, lanes: int, target: Target) -> Stmt:
    """Return the statements that compute the contraction."""
    return _Columns(contraction, lanes, target).statement()


class _Columns:
    def __init__(self, contraction: Contraction, lanes: int, target: Target):
        self.contraction, self.lanes, self.target = contraction, lanes, target
        self.columns, self.rows = size_of(contraction.columns), size_of(contraction.rows)
        vectors = -(-self.columns // lanes)
        chunks = max(-(-vectors // CHUNK), min(target.threads, vectors // 4), 1)
        self.cut = Cut(vectors, chunks)
        self.sums = temporary("sums", contraction.dtype, [self.rows, self.cut.size, lanes])

    def statement(self) -> Any:
        contraction, cut = self.contraction, self.cut
        work = size_of(contraction.batch) * self.rows * cut.total * size_of(contraction.reduced)

        def task(position: Expr) -> Any:
            batch = axis_values(contraction.batch, tirx.floordiv(position, index(cut.count)))
            number = tirx.floormod(position, index(cut.count))
            return sequence(tirx.AllocBuffer(self.sums), self._chunk(batch, number))

        return for_loop("task", size_of(contraction.batch) * cut.count, task, loop_kind(work, self.target))

    def _chunk(self, batch: Values, number: Any) -> Any:
        cut = self.cut
        first = number * index(cut.size) - tirx.max(index(0), number - index(cut.large))
        size: Any = cut.size
        if cut.large < cut.count:
            size = tirx.Select(tirx.LT(number, index(cut.large)), index(cut.size), index(cut.size - 1))
        partial_lanes = self.columns % self.lanes
        if not partial_lanes:
            return self._vectors(batch, first, size, self.lanes, 0)
        last = cut.size - (cut.large < cut.count)
        partial = [self._vectors(batch, first, last - 1, self.lanes, 0)] if last > 1 else []
        partial.append(self._vectors(batch, first, 1, partial_lanes, last - 1))
        if cut.count == 1:
            return sequence(*partial)
        is_last = tirx.EQ(number, index(cut.count - 1))
        return tirx.IfThenElse(is_last, sequence(*partial), self._vectors(batch, first, size, self.lanes, 0))

    def _vectors(self, batch: Values, first: Any, count: Any, lanes: int, first_vector: int) -> Any:
        """Return the sums of `count` vectors of `lanes` lanes in a chunk, from vector `first_vector` on."""
        zero = tirx.Broadcast(zero_of(self.contraction.dtype), self.lanes)

        def start(row: Any, vector: Any) -> Any:
            return tirx.BufferStore(self.sums, zero, [row, vector, ramp(index(0), self.lanes)])

        def for_vectors(make: Any) -> Any:
            return for_loop(
                "row",
                self.rows,
                lambda row: for_loop("vector", count, lambda vector: make(row, vector + index(first_vector))),
            )

        *outer, inner = self.contraction.reduced
        groups, remaining = divmod(inner.extent, STEPS)

        def steps(values: Values) -> Any:
            parts = []
            if groups:
                parts.append(
                    for_loop(
                        inner.variable.name,
                        groups,
                        lambda group: for_vectors(
                            lambda row, v: self._add(batch, values, group * index(STEPS), STEPS, row, first, v, lanes)
                        ),
                    )
                )
            if remaining:
                offset = index(groups * STEPS)
                parts.append(
                    for_vectors(lambda row, v: self._add(batch, values, offset, remaining, row, first, v, lanes))
                )
            return sequence(*parts)

        finish = for_vectors(lambda row, vector: self._stored(batch, row, first, vector, lanes))
        return sequence(for_vectors(start), loop_nest(outer, steps), finish)

    def _stored(self, batch: Values, row: Any, first: Any, vector: Any, lanes: int) -> Any:
        """Return the statements that store one vector of sums into the result."""
        position = TilePosition(batch, row, 1, (first + vector) * index(self.lanes), 1, lanes)
        sums = new_buffer("row_sums", self.contraction.dtype, 1, self.lanes)
        everything = ramp(index(0), self.lanes)
        copy = tirx.BufferStore(sums, tirx.BufferLoad(self.sums, [row, vector, everything]), [index(0), everything])
        tile = Tile(self.contraction, self.lanes, position, ReductionBlock(index(0), 1, 1, None, ()))
        return sequence(tirx.AllocBuffer(sums), copy, tile.store(index(0), index(0), lanes, sums, index(0)))

    def _add(
        self, batch: Values, outer: Values, start: Any, steps: int, row: Any, first: Any, vector: Any, lanes: int
    ) -> Any:
        inner = self.contraction.reduced[-1].variable
        sums = new_buffer("vector_sums", self.contraction.dtype, self.lanes)
        indices, everything = [ramp(index(0), lanes)], ramp(index(0), self.lanes)
        statements = [
            tirx.AllocBuffer(sums),
            tirx.BufferStore(sums, tirx.BufferLoad(self.sums, [row, vector, everything]), [everything]),
        ]
        for step in range(steps):
            values = {**batch, **outer, inner: start + index(step)}
            right = new_buffer(f"right{step}", str(self.contraction.right.ty.dtype), lanes)

            def element(lane: Any, values: Values = values, right: Any = right) -> Any:
                columns = axis_values(self.contraction.columns, (first + vector) * index(self.lanes) + lane)
                return tirx.BufferStore(right, replaced(self.contraction.right, {**values, **columns}), [lane])

            left = replaced(self.contraction.left, {**values, **axis_values(self.contraction.rows, row)})
            left = left if lanes == 1 else tirx.Broadcast(left, lanes)
            added = self.contraction.add(tirx.BufferLoad(sums, indices), left, tirx.BufferLoad(right, indices))
            statements += [tirx.AllocBuffer(right), in_lanes(lanes, element), tirx.BufferStore(sums, added, indices)]
        statements.append(tirx.BufferStore(self.sums, tirx.BufferLoad(sums, [everything]), [row, vector, everything]))
        return sequence(*statements)
