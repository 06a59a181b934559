"""Products of halves and int8 among the loops of imperative kernels, as tile programs: of run-time sizes, in loops.

A product of arrays, with its fill and its elementwise consumers, becomes a grid of blocks that `tile_programs` puts on
tensor cores. Elements past the end of an operand are zeros, and nothing is stored past the end of the result::

    for i, j, k: c[i, j] += a[i, k] * b[k, j]   ──►   for by, bx:  # blocks
                                                          for i, j: sums[i, j] = 0
                                                          for step: sums += tile of a @ tile of b
                                                          for i, j: c[64 by + i, 64 bx + j] = sums[i, j]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from mlirtri.lowering.core.stage import BLOCKS, STAGES
from mlirtri.lowering.core.target import Target
from mlirtri.lowering.schedule.cuda.common.instructions import FIRST_ARCHITECTURE, MULTIPLICATIONS
from mlirtri.lowering.schedule.cuda.tensor_cores.operands import narrow
from mlirtri.lowering.schedule.imperative.allocations import with_allocations_inside
from mlirtri.lowering.schedule.imperative.interchange import with_parts
from mlirtri.lowering.schedule.products.statement_products import StatementProducts
from mlirtri.lowering.tir.arithmetic import reads_memory
from mlirtri.lowering.tir.bfloat16_storage import BITS
from mlirtri.lowering.tir.contraction import Axis, Contraction
from mlirtri.lowering.tir.primfunc import buffer
from mlirtri.lowering.tir.statements import depends_on, index, nodes_in, sequence, with_body
from mlirtri.lowering.tir.tiles import ceil_div, replaced, sized, zero_of
from mlirtri.lowering.toolchain.tvm_names import (
    INDEPENDENT,
    LOCATION,
    Expr,
    Stmt,
    TensorLoad,
    structural_map,
    tirx,
)

ROWS, COLUMNS, DEPTH, STEPS = 64, 64, 32, 3
"""The tile of a block, the terms of its sums in a step, and the steps whose copies are in memory at once."""
MOST_NAMES = 2
"""Named values of an epilogue, which are computed anew wherever they are used."""
LEAST_ROWS = 16
"""Rows and columns from which tiles are worth their copies, where they are known."""


def with_product_blocks(statement: Stmt, target: Target) -> Stmt:
    """Return a statement with its products of halves and int8 as loops over blocks.

    Not in loops whose bounds are in device memory: one thread runs them.
    """
    if int(re.sub(r"\D", "", target.architecture)) < FIRST_ARCHITECTURE:
        return statement
    named = [node.var for node in nodes_in(statement, tirx.Bind) if reads_memory(node.value)]
    return _visited(statement, named)


def _visited(statement: Any, in_memory: Sequence[Any]) -> Any:
    """Return a statement with its products as loops over blocks; `in_memory` are variables of device memory."""
    if isinstance(statement, tirx.For):
        if any(reads_memory(bound) or depends_on(bound, in_memory) for bound in (statement.min, statement.extent)):
            return statement
        return with_body(statement, _visited(statement.body, in_memory))
    if not isinstance(statement, tirx.SeqStmt):
        return with_parts(statement, lambda part: _visited(part, in_memory))
    children = [_visited(child, in_memory) for child in with_allocations_inside(list(statement.seq))]
    return StatementProducts(children, _blocks, is_open=None, widens=True).statement()


def _blocks(contraction: Contraction) -> Stmt | None:
    """Return the loops over blocks of a product; None for one that tensor cores do not take."""
    left, right = narrow(contraction.left), narrow(contraction.right)
    kind = None if left is None or right is None else MULTIPLICATIONS.get((left[0], right[0]))
    axes = (contraction.rows, contraction.columns, contraction.reduced)
    if left is None or right is None or kind is None or kind.sums != contraction.dtype:
        return None
    if len(contraction.batch) > 1 or len(contraction.private) > MOST_NAMES:
        return None
    if any(len(each) != 1 for each in axes) or contraction.column_terms is not None:
        return None
    if any(isinstance(extent := each[0].extent, int) and extent < LEAST_ROWS for each in axes[:2]):
        return None
    return _Blocks(contraction, left[1], right[1]).written()


class _Blocks:
    """The statements of one product, while they are written."""

    def __init__(self, contraction: Contraction, left: Expr, right: Expr):
        self.contraction, self.left, self.right = contraction, left, right
        self.row, self.column, self.term = (each[0] for each in (contraction.rows, contraction.columns,
                                                                 contraction.reduced))  # fmt: skip
        self.down, self.across = (tirx.Var(name, "int64") for name in ("by", "bx"))
        self.sums = buffer("sums", (ROWS, COLUMNS), contraction.dtype, "global")
        self.parallel = {INDEPENDENT: index(1)}
        if contraction.location:
            self.parallel[LOCATION] = contraction.location

    def written(self) -> Any:
        body = sequence(
            tirx.AllocBuffer(self.sums),
            self._elements(lambda i, j: tirx.BufferStore(self.sums, zero_of(self.contraction.dtype), [i, j])),
            _loop("step", ceil_div(self.term.extent, DEPTH), self._step, {STAGES: index(STEPS)}),
            self._elements(self._stored),
        )
        across = ceil_div(self.column.extent, COLUMNS), ceil_div(self.row.extent, ROWS)
        for variable, extent in zip((self.across, self.down), across, strict=True):
            body = _for(variable, extent, body, {BLOCKS: index(1)})
        for axis in self.contraction.batch:
            body = _for(axis.variable, axis.extent, body, {BLOCKS: index(1)})
        return body

    def _elements(self, body: Callable[[Any, Any], Any]) -> Any:
        """Return parallel loops over the elements of the tile."""
        return _loop("i", ROWS, lambda i: _loop("j", COLUMNS, lambda j: body(i, j), self.parallel), self.parallel)

    def _step(self, step: Any) -> Any:
        """Return the product of the tiles of a step, which adds to the sums."""

        def product(i: Any, j: Any, k: Any) -> Any:
            term = step * index(DEPTH) + k
            left = self._element(self.left, (self.row, self._row(i)), (self.term, term))
            right = self._element(self.right, (self.column, self._column(j)), (self.term, term))
            total = tirx.BufferLoad(self.sums, [i, j]) + left * right
            return tirx.BufferStore(self.sums, total, [i, j])

        return self._elements(lambda i, j: _loop("k", DEPTH, lambda k: product(i, j, k), {}))

    def _row(self, i: Any) -> Any:
        return self.down * index(ROWS) + i

    def _column(self, j: Any) -> Any:
        return self.across * index(COLUMNS) + j

    def _element(self, element: Any, *values: tuple[Axis, Any]) -> Any:
        """Return an element of an operand in the dtype of the sums, 0 past its end."""
        inside = [tirx.LT(value, sized(axis.extent)) for axis, value in values]
        here = replaced(element, {axis.variable: value for axis, value in values})
        narrowed = tirx.if_then_else(tirx.all(*inside), here, zero_of(str(here.ty.dtype)))
        if str(here.ty.dtype) != BITS:
            return tirx.Cast(self.contraction.dtype, narrowed)
        # The bits of a bf16 are the upper half of those of the same number in fp32.
        return tirx.reinterpret("float32", tirx.Cast("uint32", narrowed) << tirx.IntImm("uint32", 16))

    def _stored(self, i: Any, j: Any) -> Any:
        """Return the stores of one element of the result, where it has one there."""
        values = {self.row.variable: self._row(i), self.column.variable: self._column(j)}

        known: dict[Any, Any] = {self.contraction.result: tirx.BufferLoad(self.sums, [i, j])}
        stores = []
        for store in self.contraction.stores:
            loads = (TensorLoad, lambda node: known.get(node.source, node))
            value = replaced(structural_map(store.value, loads, order="post"), values)
            if store.buffer in self.contraction.private:
                known[store.buffer] = value
                continue
            stores.append(tirx.BufferStore(store.buffer, value, [replaced(at, values) for at in store.indices]))
        sizes = ((self.row, ROWS), (self.column, COLUMNS))
        checks = [
            tirx.LT(values[axis.variable], sized(axis.extent))
            for axis, tile in sizes
            if not isinstance(axis.extent, int) or axis.extent % tile
        ]
        return tirx.IfThenElse(tirx.all(*checks), sequence(*stores), None) if checks else sequence(*stores)


def _loop(name: str, extent: Any, body: Callable[[Any], Any], annotations: dict[str, Any]) -> Any:
    variable = tirx.Var(name, "int64")
    return _for(variable, extent, body(variable), annotations)


def _for(variable: Any, extent: Any, body: Any, annotations: dict[str, Any]) -> Any:
    return tirx.For(variable, index(0), sized(extent), tirx.ForKind.SERIAL, body, annotations=annotations)
