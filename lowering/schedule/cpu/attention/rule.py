"""The CPU rule for attention: blocks of rows in parallel, whose scores stay in the second-level cache.

pack k;  parallel over heads and blocks of rows:  s = q[rows] k^T;  each row of s: softmax;  out[rows] = s v
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import lcm, prod
from typing import Any

from mlirtri.lowering.codegen.targets import lanes_for, vector_registers
from mlirtri.lowering.core.cpu import cache_bytes
from mlirtri.lowering.core.target import Target
from mlirtri.lowering.schedule.cpu.attention.chains import Chain, chain_of, loads_of
from mlirtri.lowering.schedule.cpu.attention.masks import Magnitudes, Sight, sight_of, stays_finite
from mlirtri.lowering.schedule.cpu.common.contraction_tiles import choose_tiles, loop_kind
from mlirtri.lowering.schedule.cpu.matmul.nest import contraction_loops
from mlirtri.lowering.schedule.cpu.matmul.packing import packed_right
from mlirtri.lowering.schedule.cpu.rows.row_loops import RowWriter, unit_of_bounds
from mlirtri.lowering.schedule.cpu.rows.rule import with_statement
from mlirtri.lowering.tir.contraction import Axis, Contraction, Values, size_of
from mlirtri.lowering.tir.product_recognition import Product
from mlirtri.lowering.tir.statements import index, sequence
from mlirtri.lowering.tir.tiles import axis_values, for_loop, linearized, replaced, temporary
from mlirtri.lowering.tir.vectors import INFINITY_BITS
from mlirtri.lowering.toolchain.tvm_names import (
    EXACT_BUFFERS,
    Node,
    PrimFunc,
    Schedule,
    TensorLoad,
    structural_map,
    tirx,
)

MIN_ROWS = 8
"""Rows of a block below which the tiles of a product are too small."""
MOST_REPEATED = 0.015
"""The part of the rows that blocks of whole tiles may compute twice."""


def attention(function: PrimFunc, target: Target) -> Schedule | None:
    """Return the function in blocks of rows, each through both products; None where it is no attention."""
    chain = chain_of(function)
    if chain is None or not _has_blocks(chain):
        return None
    written = with_statement(function, "attention", _Writer(function, chain, target).statement())
    return Schedule(written.with_attrs({EXACT_BUFFERS: True}))


def takes_attention(function: PrimFunc) -> bool:
    """Return whether the rule takes a function."""
    chain = chain_of(function)
    return chain is not None and _has_blocks(chain)


def _has_blocks(chain: Chain) -> bool:
    return rows_of_block(chain) >= min(MIN_ROWS, chain.row)


def rows_of_block(chain: Chain) -> int:
    """Return the number of rows whose scores take a quarter of the second-level cache."""
    most = cache_bytes()[2] // 4 // (chain.length * int(chain.scores.target.dtype.bits) // 8)
    return min(chain.row, most // MIN_ROWS * MIN_ROWS)


def _rows_in_whole_tiles(chain: Chain, most: int) -> int | None:
    """Return at most `most` rows that are whole tiles of both products; None where blocks of them repeat many rows.

    One size of tiles is half of the code that two sizes are, and a last block that reaches back needs none of its own.
    """
    tall = lcm(*(_tall(product, most) for product in (chain.first, chain.second)))

    def computed(rows: int) -> int:
        return -(-chain.row // rows) * rows

    options = range(most // tall * tall, most // 2, -tall)
    rows = min(options, key=computed, default=None)
    return rows if rows is not None and computed(rows) <= chain.row * (1 + MOST_REPEATED) else None


def _tall(product: Product, rows: int) -> int:
    lanes = lanes_for(product.dtype)
    return choose_tiles(rows, -(-size_of(product.columns) // lanes), vector_registers()).rows.size


def _width(chain: Chain) -> int:
    """Return how many weights a row has: a sink beside the scores is one more, which the second product leaves out."""
    number = next(number for number, nest in enumerate(chain.rows.nests) if nest is chain.weights)
    rows = chain.rows.rows.axes[number]
    sizes = zip(chain.weights.target_axes, chain.weights.target.shape, strict=True)
    return max(chain.length, prod(int(size) for axis, size in sizes if axis not in rows))


class _Writer:
    def __init__(self, function: PrimFunc, chain: Chain, target: Target):
        self.function, self.chain, self.target = function, chain, target
        self.sight = _usable_sight(chain)
        self.rows, self.reaches_back = rows_of_block(chain), False
        # A row that two blocks compute is the same in both where both read all columns.
        if self.sight is None and (rows := _rows_in_whole_tiles(chain, self.rows)) is not None:
            self.rows, self.reaches_back = rows, chain.row % rows > 0
        self.scores = temporary("scores", str(chain.scores.target.dtype), [self.rows, _width(chain)])
        first, second = chain.first, chain.second
        self.values = Magnitudes(second, second.right, (*second.reduced, *second.columns), "largest_values")
        self.queries = Magnitudes(first, first.left, (*first.rows, *first.reduced), "largest_queries")
        self.keys = Magnitudes(first, first.right, (*first.columns, *first.reduced), "largest_keys")
        self.bounds: tuple[Any, Any] | None = None
        """First and end of the visible columns of the current block; None for all."""

    def statement(self) -> Any:
        chain, prologue = self.chain, []
        first = _contraction(chain.first, ())
        first, statements = packed_right(first, lanes_for(first.dtype), self.target)
        prologue += statements
        second = _contraction(chain.second, chain.stores)
        if not _is_contiguous(second):
            second, statements = packed_right(second, lanes_for(second.dtype), self.target)
            prologue += statements
        if self.sight is not None:
            prologue += self.values.statements(self.target)
            if self.sight.factor is not None:
                prologue += [*self.queries.statements(self.target), *self.keys.statements(self.target)]
        extents = [extent for axis, extent in enumerate(chain.rows.rows.extents) if axis != chain.block]
        blocks = -(-chain.row // self.rows)
        work = prod(extents) * chain.row * chain.length * size_of(chain.first.reduced) // 16

        def task(number: Any) -> Any:
            outer = self._outer(tirx.floordiv(number, index(blocks)), extents)
            block = tirx.floormod(number, index(blocks))
            if self.sight is not None:
                # Alternately from both ends, so that threads with neighbouring tasks have equal work.
                half = tirx.floordiv(block, index(2))
                is_even = tirx.EQ(tirx.floormod(block, index(2)), index(0))
                block = tirx.Select(is_even, half, index(blocks - 1) - half)
            return self._block(first, second, outer, block, blocks)

        return sequence(*prologue, for_loop("task", prod(extents) * blocks, task, loop_kind(work, self.target)))

    def _outer(self, number: Any, extents: Sequence[int]) -> list[Any]:
        axes = [Axis(tirx.Var(f"outer{axis}", "int64"), extent) for axis, extent in enumerate(extents)]
        values = axis_values(axes, number)
        return [values[axis.variable] for axis in axes]

    def _block(self, first: Contraction, second: Contraction, outer: list[Any], block: Any, blocks: int) -> Any:
        start, remaining = block * index(self.rows), self.chain.row % self.rows
        if self.reaches_back:
            start, remaining = tirx.min(start, index(self.chain.row - self.rows)), 0
        bounds = [] if self.sight is None else self._bound(outer, start)
        full = self._rows_of(first, second, outer, start, self.rows)
        body = full
        if remaining:
            last = self._rows_of(first, second, outer, start, remaining)
            body = last if blocks == 1 else tirx.IfThenElse(tirx.LT(block, index(blocks - 1)), full, last)
        return sequence(tirx.AllocBuffer(self.scores), *bounds, body)

    def _bound(self, outer: list[Any], start: Any) -> list[Any]:
        """Set and return the bounds of the visible columns from row `start` on: all, where an operand is not finite.

        A mask that is added does not hide NaN.
        """
        chain, product = self.chain, self.chain.second
        end = tirx.min(start + index(self.rows), index(chain.row)) - index(1)
        low, high = self.sight.of_block(start, end, chain.length, unit_of_bounds())
        is_finite = self.values.is_finite(_batch_position(product, self._weighted(outer)))
        if self.sight.factor is not None:
            position = _batch_position(chain.first, self._values(chain.first, outer))
            is_finite = tirx.And(is_finite, stays_finite(self.queries, self.keys, position, self.sight.factor))
        self.bounds = tirx.Var("first", "int64"), tirx.Var("end", "int64")
        values = tirx.Select(is_finite, low, index(0)), tirx.Select(is_finite, high, index(chain.length))
        return [tirx.Bind(variable, value) for variable, value in zip(self.bounds, values, strict=True)]

    def _rows_of(self, first: Contraction, second: Contraction, outer: list[Any], start: Any, count: int) -> Any:
        chain = self.chain
        alone = replace(self.target, threads=1)
        local = Axis(tirx.Var("row", "int64"), count)
        indices = [local.variable, linearized(first.columns, _identity(first.columns))]
        first = replace(
            first, stores=(tirx.BufferStore(self.scores, chain.scores.value, indices),), column_range=self.bounds
        )  # fmt: skip
        second = replace(second, reduced_range=self.bounds)
        # Computed queries are kept, as each column of tiles reads them.
        first = replace(first, packs_left=not isinstance(first.left, TensorLoad))
        products = [
            contraction_loops(self._part(first, chain.first, self._values(chain.first, outer), start, local), alone),
            contraction_loops(self._part(second, chain.second, self._weighted(outer), start, local), alone),
        ]
        rows = for_loop("row", count, lambda row: self._row(outer, start, row))
        return sequence(products[0], rows, products[1])

    def _values(self, product: Product, outer: list[Any]) -> Values:
        chain = self.chain
        axes = [axis for axis in range(len(chain.rows.rows.extents)) if axis != chain.block]
        numbered: dict[int | None, Any] = dict(zip(axes, outer, strict=True))
        axis_of = dict(zip(chain.scores.indices, chain.dimensions, strict=True))
        return {axis.variable: numbered.get(axis_of.get(axis.variable), index(0)) for axis in product.batch}

    def _weighted(self, outer: list[Any]) -> Values:
        """Return the values of the second product's batch axes, which reads the weights along the rows' axes."""
        chain = self.chain
        n = next(number for number, nest in enumerate(chain.rows.nests) if nest is chain.weights)
        rows = chain.rows.rows.axes[n]
        [load] = loads_of(chain.second.left, chain.weights.target)
        numbered = dict(zip([number for number in range(len(rows)) if number != chain.block], outer, strict=True))
        values: Values = {axis.variable: index(0) for axis in chain.second.batch}
        for axis, position in zip(chain.weights.target_axes, load.indices, strict=True):
            if axis in rows and rows.index(axis) in numbered and position in values:
                values[position] = numbered[rows.index(axis)]
        return values

    def _part(self, contraction: Contraction, product: Product, batch: Values, start: Any, local: Axis) -> Contraction:
        values = {**batch, product.rows[0].variable: start + local.variable}
        reduced = linearized(contraction.reduced, _identity(contraction.reduced))

        def load(node: Node) -> Any:
            if node.source.same_as(self.chain.weights.target):
                return tirx.BufferLoad(self.scores, [local.variable, reduced])
            return node

        left = structural_map(contraction.left, (TensorLoad, load), order="post")
        return replace(
            contraction, batch=(), rows=(local,), left=replaced(left, values),
            right=replaced(contraction.right, values), packs_right=False,
            stores=tuple(replaced(store, values) for store in contraction.stores),
        )  # fmt: skip

    def _row(self, outer: list[Any], start: Any, row: Any) -> Any:
        chain = self.chain
        indices = list(outer)
        indices.insert(chain.block, start + row)
        writer = RowWriter(chain.rows, indices, [*self.function.params, chain.weights.target], (), self.bounds)
        body = writer.written()

        def score_indices(
            dimensions: Sequence[int | None], positions: Sequence[Any], shape: Sequence[Any]
        ) -> list[Any]:
            position = index(0)
            for dimension, coordinate, size in zip(dimensions, positions, shape, strict=True):
                if dimension is None:
                    position = position * size + coordinate
            return [row, position]

        n = next(number for number, nest in enumerate(chain.rows.nests) if nest is chain.weights)
        rows = chain.rows.rows.axes[n]
        weights = tuple(rows.index(axis) if axis in rows else None for axis in chain.weights.target_axes)

        def load(node: Node) -> Any:
            if node.source.same_as(chain.scores.target):
                return tirx.BufferLoad(self.scores, score_indices(chain.dimensions, node.indices, node.source.shape))
            return node

        def store(node: Node) -> Any:
            if node.buffer.same_as(chain.weights.target):
                return tirx.BufferStore(
                    self.scores, node.value, score_indices(weights, node.indices, node.buffer.shape)
                )
            return node

        body = structural_map(body, [(TensorLoad, load), (tirx.BufferStore, store)], order="post")
        return sequence(*(tirx.AllocBuffer(buffer) for buffer in writer.memory), body)


def _usable_sight(chain: Chain) -> Sight | None:
    is_along = len(chain.second.reduced) == 1 and all(
        step.extents in ((), (chain.length,)) for step in chain.rows.steps
    )
    is_known = chain.first.dtype in INFINITY_BITS and chain.second.dtype in INFINITY_BITS
    if not is_along or not is_known or chain.length < 2 * unit_of_bounds():
        return None
    return sight_of(chain)


def _batch_position(product: Product, values: Values) -> Any:
    return linearized(product.batch, values) if product.batch else index(0)


def _identity(axes: Sequence[Axis]) -> Values:
    return {axis.variable: axis.variable for axis in axes}


def _contraction(product: Product, stores: Sequence[Any]) -> Contraction:
    return Contraction(
        product.batch, product.rows, product.columns, product.reduced, product.left, product.right, product.dtype,
        product.result, tuple(stores), add=product.add,
    )  # fmt: skip


def _is_contiguous(contraction: Contraction) -> bool:
    right = contraction.right
    last = contraction.columns[-1].variable
    return len(contraction.columns) == 1 and isinstance(right, TensorLoad) and right.indices[-1].same_as(last)
