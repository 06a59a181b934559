"""A tile of a contraction both of whose operands are contiguous along the sum: lanes hold partial sums.

Both operands are read in place, so that a product with few rows costs no more than to read its right operand::

    for a few columns:  dots = 0                          a vector for each row and column
        for k in vectors:  dots[row, column] += left[row, k:k+16] * right[column, k:k+16]
        sums[row, column] = the sum of the lanes of dots[row, column]
    stores of sums
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlirtri.lowering.schedule.cpu.matmul.tile import Tile
from mlirtri.lowering.tir.contraction import Values
from mlirtri.lowering.tir.statements import index, new_buffer, sequence
from mlirtri.lowering.tir.tiles import (
    axis_values,
    ceil_div,
    for_loop,
    groups_of,
    in_lanes,
    loop_nest,
    ramp,
    replaced,
    zero_of,
)
from mlirtri.lowering.toolchain.tvm_names import Buffer, Expr, Stmt, tirx

MAX_ROWS = 6
"""Rows of a tile: with four columns, their vectors and those of both operands take all registers."""


class DotTile(Tile):
    """Writes the statements of one tile, with lanes along the innermost axis of the sum."""

    def body(self) -> Stmt:
        [sums] = self.sums
        width = 4 if self.position.rows > 1 else 8
        if not isinstance(self.position.columns, int):
            return self._open_body(sums, width)
        count = self._count(0)
        groups, remaining = divmod(count, width)
        statements = [tirx.AllocBuffer(sums)]
        if groups:
            statements.append(for_loop("group", groups, lambda group: self._dots(sums, group * index(width), width)))
        if remaining:
            statements.append(self._dots(sums, index(groups * width), remaining))
        rows = self._written_rows(lambda row: self.store(row, index(0), count, sums, index(0)))
        return sequence(*statements, rows)

    def _open_body(self, sums: Any, width: int) -> Any:
        """Return the tile for a dynamic number of columns; columns after the last one read its elements."""
        groups = ceil_div(self.position.columns, width)
        dots = for_loop("group", groups, lambda group: self._dots(sums, group * index(width), width))

        def of_row(row: Any) -> Any:
            return groups_of(
                self.position.columns, self.lanes, lambda first, count: self.store(row, first, count, sums, first)
            )

        return sequence(tirx.AllocBuffer(sums), dots, self._written_rows(of_row))

    def _column(self, offset: Expr) -> Values:
        column = self.position.column + offset
        if not isinstance(self.position.columns, int):
            column = tirx.min(column, self.position.column + self.position.columns - index(1))
        return axis_values(self.contraction.columns, column)

    def _dots(self, sums: Any, first: Any, width: int) -> Any:
        dtype, rows = self.contraction.dtype, self.position.rows
        dots = [new_buffer(f"dots{column}", dtype, rows, self.lanes) for column in range(width)]
        zero = tirx.Broadcast(zero_of(dtype), self.lanes)
        *outer, inner = self.contraction.reduced
        vectors, remaining = divmod(inner.extent, self.lanes)

        def step(values: Values, start: Any, count: int) -> Any:
            return self._step_of(dots, first, {**values, inner.variable: start}, count)

        def steps(values: Values) -> Any:
            parts = []
            if vectors:
                parts.append(
                    for_loop(
                        inner.variable.name,
                        vectors,
                        lambda vector: step(values, vector * index(self.lanes), self.lanes),
                    )
                )
            if remaining:
                parts.append(step(values, index(vectors * self.lanes), remaining))
            return sequence(*parts)

        def together(row: Any) -> Any:
            return self._horizontal_sums(
                [tirx.BufferLoad(dot, self._register_indices(row)) for dot in dots], sums, row, first
            )

        statements = [tirx.AllocBuffer(dot) for dot in dots]
        statements.append(
            self._rows_of(
                lambda row: sequence(*(tirx.BufferStore(dot, zero, self._register_indices(row)) for dot in dots))
            )
        )
        return sequence(*statements, loop_nest(outer, steps), self._rows_of(together))

    def _rows_of(self, make: Callable[[Any], Any]) -> Any:
        return for_loop("row", self.position.rows, make, tirx.ForKind.UNROLLED)

    def _step_of(self, dots: list[Any], first: Any, values: Values, count: int) -> Any:
        inner = self.contraction.reduced[-1].variable
        start = values[inner]
        rights = [
            new_buffer(f"right{column}", str(self.contraction.right.ty.dtype), count) for column in range(len(dots))
        ]  # fmt: skip
        statements = []
        for column, right in enumerate(rights):
            columns = self._column(first + index(column))
            fill = self._filled(right, self.contraction.right, {**values, **columns}, start, count)
            statements += [tirx.AllocBuffer(right), fill]

        def of_row(row: Any) -> Any:
            left = new_buffer("left", str(self.contraction.left.ty.dtype), count)
            fill = self._filled(left, self.contraction.left, {**values, **self._rows(row)}, start, count)
            lanes = ramp(index(0), count)
            added = []
            for dot, right in zip(dots, rights, strict=True):
                operands = [tirx.BufferLoad(vector, [lanes]) for vector in (left, right)]
                sums = self.contraction.add(tirx.BufferLoad(dot, [row, lanes]), *operands)
                added.append(tirx.BufferStore(dot, sums, [row, lanes]))
            return sequence(tirx.AllocBuffer(left), fill, *added)

        return sequence(*statements, self._rows_of(of_row))

    def _filled(self, buffer: Buffer, operand: Any, values: Values, start: Any, count: int) -> Any:
        inner = self.contraction.reduced[-1].variable

        def element(lane: Any) -> Any:
            value = replaced(operand, {**self.position.batch, **values, inner: start + lane})
            return tirx.BufferStore(buffer, value, [lane])

        return in_lanes(count, element)

    def _horizontal_sums(self, dots: list[Any], sums: Any, row: Any, first: Any) -> Any:
        """Return the horizontal sums of all vectors at once: halves of vectors are added until one is left."""
        statements: list[Any] = []
        vectors, part = dots, self.lanes

        def added(pair: list[Any]) -> Any:
            """Return the sums of the first and the second half of each part of one vector, or of two."""
            lanes = [lane for lane in range(sum(_lanes_of(vector) for vector in pair)) if lane % part < part // 2]
            halves = [tirx.Shuffle(pair, [index(lane + offset) for lane in lanes]) for offset in (0, part // 2)]
            halved = new_buffer("halves", self.contraction.dtype, len(lanes))
            everything = ramp(index(0), len(lanes))
            statements.extend([tirx.AllocBuffer(halved), tirx.BufferStore(halved, halves[0] + halves[1], [everything])])
            return tirx.BufferLoad(halved, [everything])

        while part > 1:
            pairs = [vectors[start : start + 2] for start in range(0, len(vectors), 2)]
            if len(vectors) > 1:
                # The last vector is paired with itself; the second sums are unused.
                pairs = [pair if len(pair) == 2 else pair * 2 for pair in pairs]
            vectors = [added(pair) for pair in pairs]
            part //= 2
        [result] = vectors
        store = tirx.BufferStore(sums, result, [row, ramp(first, _lanes_of(result))])
        return sequence(*statements, store)


def _lanes_of(vector: Any) -> int:
    return int(vector.ty.dtype.lanes)
