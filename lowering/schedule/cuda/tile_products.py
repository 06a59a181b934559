"""Products of tiles: all warps of a block compute one, from copies of its operands in shared memory.

Those of halves and int8 go to tensor cores, those of fp32 to register tiles.

A pipelined loop that only adds products becomes one product with a longer sum, whose copies are asynchronous and some
steps ahead. Other products are copied and multiplied where they stand. What no instruction takes stays a loop.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mlirtri.lowering.core.stage import STAGES
from mlirtri.lowering.core.target import Target
from mlirtri.lowering.schedule.cuda.fragments import Fragments, Layout
from mlirtri.lowering.schedule.cuda.instructions import (
    COLUMNS,
    FIRST_ARCHITECTURE,
    MULTIPLICATIONS,
    ROWS,
    Multiplication,
)
from mlirtri.lowering.schedule.cuda.operands import narrow
from mlirtri.lowering.schedule.cuda.phases import WARP
from mlirtri.lowering.schedule.cuda.register_tiles import ACROSS, DOWN, FLOATS, VECTOR, RegisterTileKernel
from mlirtri.lowering.schedule.cuda.tensor_core_kernel import BlockTile, TensorCoreKernel
from mlirtri.lowering.schedule.cuda.tile_statements import NUMBER, Finished
from mlirtri.lowering.schedule.cuda.warpgroup_kernel import (
    DEPTH,
    EIGHT_LINES,
    GROUP,
    OPERANDS,
    WIDTHS,
    WarpgroupKernel,
)
from mlirtri.lowering.schedule.imperative.allocations import with_allocations_inside
from mlirtri.lowering.schedule.imperative.interchange import with_parts
from mlirtri.lowering.schedule.imperative.summed_products import with_sum_inside
from mlirtri.lowering.schedule.products.statement_products import StatementProducts
from mlirtri.lowering.tir.contraction import Contraction, Values, multiply_add, size_of
from mlirtri.lowering.tir.primfunc import buffer
from mlirtri.lowering.tir.statements import flat, index, loads_in, nodes_in, sequence
from mlirtri.lowering.tir.tiles import for_loop
from mlirtri.lowering.toolchain.tvm_names import LOCATION, Expr, Stmt, ir, structural_equal, tirx

LEAST_STAGES, MOST_STAGES = 2, 4
"""Steps of a sum whose copies are in shared memory at once."""
LEAST_GROUP_STAGES = 4
"""Of products of warpgroups, which read the tiles of two steps at once."""
MOST_SUMS = 128
"""Sums in the registers of a thread."""


@dataclass(frozen=True)
class BlockBody:
    """The statement of a block, and the products in it that are finished."""

    statement: Any
    products: tuple[Finished, ...]
    has_groups: bool = False
    """Whether a product is by instructions of warpgroups."""


def with_tensor_cores(
    statement: Stmt, thread: Expr, threads: int, target: Target, scope: str, fragments: Fragments,
    has_groups: bool = False,
) -> BlockBody:  # fmt: skip
    """Return a block's statement with its products of halves and int8 on tensor cores.

    `scope` is that of the copies of their operands, ``shared`` or ``shared.dyn``; `fragments` are in registers. With
    `has_groups` products of what is in global memory are by instructions of warpgroups.
    """
    if int(re.sub(r"\D", "", target.architecture)) < FIRST_ARCHITECTURE:
        return BlockBody(statement, ())
    tiles = {node.buffer for node in nodes_in(statement, tirx.AllocBuffer)}
    stages = [int(loop.annotations[STAGES]) for loop in nodes_in(statement, tirx.For) if STAGES in loop.annotations]
    steps = min(max([LEAST_STAGES, *stages]), MOST_STAGES)
    first = _Writer(thread, threads, scope, tiles, steps, fragments, has_groups)
    first.visit(statement)
    # One product at a time: they share the memory of the largest.
    alignment = EIGHT_LINES if has_groups else None
    copies = {dtype: buffer("tiles", [size], dtype, scope, alignment) for dtype, size in first.sizes.items()}
    writer = _Writer(thread, threads, scope, tiles, steps, fragments, has_groups, copies)
    written = writer.visit(statement)
    allocated = sequence(*map(tirx.AllocBuffer, copies.values()), written)
    return BlockBody(allocated, tuple(writer.finished), writer.found_groups)


@dataclass
class _Writer:
    thread: Any
    threads: int
    scope: str
    tiles: set[Any]
    """Buffers of the block, which are in shared memory."""
    stages: int
    fragments: Fragments
    has_groups: bool
    copies: dict[str, Any] = field(default_factory=dict)
    """Shared memory for copies of operands, by dtype."""
    sizes: dict[str, int] = field(default_factory=dict)
    """Elements that the products need there."""
    finished: list[Finished] = field(default_factory=list)
    found_groups: bool = False

    def visit(self, statement: Stmt) -> Any:
        if isinstance(statement, tirx.For):
            body = self.visit(statement.body)
            parts = (statement.loop_var, statement.min, statement.extent, statement.kind, body)
            return tirx.For(*parts, statement.thread_binding, statement.annotations, statement.step)
        if not isinstance(statement, tirx.SeqStmt):
            return with_parts(statement, self.visit)
        children = with_allocations_inside(list(statement.seq))
        children = flat([with_sum_inside(child, widens=True) or child for child in children])
        children = [self.visit(child) for child in children]
        return StatementProducts(children, self._product, widens=True).statement()

    def _product(self, contraction: Contraction) -> Any:
        is_plain = contraction.add is multiply_add or contraction.dtype == "int32"
        if not is_plain or contraction.batch:
            return None
        product = self._on_tensor_cores(contraction) or self._of_floats(contraction)
        if product is None:
            return None
        product.place(*(self._is_global(operand.element) for operand in (product.left, product.right)))
        steps = product.tile.stages if not isinstance(product.steps, int) else min(product.tile.stages, product.steps)
        dtype, size = str(product.tiles.dtype), steps * product.stage
        self.sizes[dtype] = max(size, self.sizes.get(dtype, 0))
        product.tiles = self.copies.get(dtype, product.tiles)
        number = index(len(self.finished))
        self.finished.append(self._finished(contraction, product))
        statement = product.statement(self.thread)
        if contraction.location:
            statement = tirx.AttrStmt(index(0), LOCATION, ir.StringImm(contraction.location), statement)
        return tirx.AttrStmt(index(0), NUMBER, number, statement)

    def _on_tensor_cores(self, contraction: Contraction) -> _InBlock | None:
        factors = narrow(contraction.left), narrow(contraction.right)
        if factors[0] is None or factors[1] is None:
            return None
        (left, left_element), (right, right_element) = factors[0], factors[1]
        kind, tile = MULTIPLICATIONS.get((left, right)), self._tile(contraction, ROWS, 2 * COLUMNS)
        if kind is not None and self._is_of_groups(contraction, kind, left_element, right_element):
            self.found_groups = True
            of_groups = BlockTile(
                size_of(contraction.rows), size_of(contraction.columns), self.threads // WARP, 1,
                max(self.stages, LEAST_GROUP_STAGES), DEPTH,
            )  # fmt: skip
            return BlockGroupProduct(
                contraction, left_element, right_element, kind, of_groups, self.fragments.registers
            )
        if kind is None or kind.sums != contraction.dtype or tile is None:
            return None
        return BlockProduct(contraction, left_element, right_element, kind, tile, self.fragments.registers)

    def _is_of_groups(self, contraction: Contraction, kind: Multiplication, left: Any, right: Any) -> bool:
        """Return whether a product is one of warpgroups: of operands in global memory, and of more than one step."""
        if not self.has_groups or kind.dtype not in OPERANDS or kind.sums != contraction.dtype:
            return False
        rows, columns, length = (size_of(axes) for axes in (contraction.rows, contraction.columns, contraction.reduced))
        is_tile = isinstance(rows, int) and columns in WIDTHS and self.threads % (GROUP * WARP) == 0
        is_long = not isinstance(length, int) or length > DEPTH * kind.depth
        is_even = is_tile and rows % (self.threads // WARP * ROWS) == 0 and rows * columns <= MOST_SUMS * self.threads
        return is_even and is_long and self._is_global(left) and self._is_global(right)

    def _of_floats(self, contraction: Contraction) -> _InBlock | None:
        factors, tile = (contraction.left, contraction.right), self._tile(contraction, VECTOR * DOWN, VECTOR * ACROSS)
        is_float = contraction.dtype == "float32" and all(str(factor.ty.dtype) == "float32" for factor in factors)
        if not is_float or tile is None:
            return None
        return BlockFloatProduct(contraction, *factors, FLOATS, tile, self.fragments.registers)

    def _finished(self, contraction: Contraction, product: _InBlock) -> Finished:
        read = (product.left.element, product.right.element, *contraction.stores)
        reads = [load.source for node in read for load in loads_in(node)]
        writes = [store.buffer for store in contraction.stores]
        outer = [each for each in (*reads, *writes) if not each.same_as(contraction.result)]
        kept = {each for each in outer if each not in set(contraction.private)}
        tile, results = product.tile, tuple(self._results(contraction, product))
        layout = Layout(tile.rows, tile.columns, tile.down, tile.across) if results else None
        writes = (*(kept & set(writes)), product.tiles)
        return Finished(tuple(kept & set(reads)), writes, layout, results, contraction.location)

    def _results(self, contraction: Contraction, product: _InBlock) -> list[Any]:
        """Return the buffers that may be in registers as the sums of the product are."""
        if isinstance(product, BlockFloatProduct):
            return []
        at = [axes[0].variable for axes in (contraction.rows, contraction.columns) if len(axes) == 1]
        return _at_their_place(contraction.stores, at)

    def _is_global(self, element: Any) -> bool:
        return not any(load.source in self.tiles for load in loads_in(element))

    def _tile(self, contraction: Contraction, least_rows: int, least_columns: int) -> BlockTile | None:
        """Return how the warps divide a product into multiples of these rows and columns; None if they cannot."""
        rows, columns, warps = size_of(contraction.rows), size_of(contraction.columns), self.threads // WARP
        if not isinstance(rows, int) or not isinstance(columns, int):
            return None
        ways: Sequence[tuple[int, int]] = [(down, warps // down) for down in range(1, warps + 1) if warps % down == 0]
        fitting = [
            (down, across) for down, across in ways
            if rows % (least_rows * down) == 0 and columns % (least_columns * across) == 0
            and rows * columns // self.threads <= MOST_SUMS
        ]  # fmt: skip
        if not fitting:
            return None
        if self.fragments.full_rows:
            fitting = [way for way in fitting if way[1] == 1] or fitting
        # Warps that are as high as wide read the least.
        down, across = min(fitting, key=lambda way: abs(rows // way[0] - columns // way[1]))
        return BlockTile(rows, columns, down, across, self.stages)


def _at_their_place(stores: Sequence[Any], at: Sequence[Any]) -> list[Any]:
    """Return the buffers that the stores of an element access at its row and column, and nowhere else."""
    accesses = [(store.buffer, store.indices) for store in stores]
    accesses += [(load.source, load.indices) for store in stores for load in loads_in(store.value)]
    elsewhere = {each for each, indices in accesses if not _are(indices, at)}
    return [each for each in {each for each, _ in accesses} if each not in elsewhere]


def _are(indices: Sequence[Any], variables: Sequence[Any]) -> bool:
    return len(indices) == len(variables) == 2 and all(map(structural_equal, indices, variables))


class _InBlock(TensorCoreKernel):
    """A product as one statement of a block, whose threads have other statements, too."""

    def place(self, left_is_global: bool, right_is_global: bool) -> None:
        """Note which operands are in global memory."""
        self.left = replace(self.left, is_global=left_is_global)
        self.right = replace(self.right, is_global=right_is_global)

    def statement(self, thread: Any) -> Any:
        """Return the statement of a thread of the block."""
        return sequence(
            tirx.Bind(self.lane, tirx.floormod(thread, index(WARP))),
            tirx.Bind(self.warp, tirx.floordiv(thread, index(WARP))),
            *(tirx.AllocBuffer(memory) for memory in (self.sums, *self.operand_registers)),
            for_loop("at", int(self.sums.shape[0]), self._clear, tirx.ForKind.UNROLLED),
            *(self._start_copies(index(step), step) for step in range(self._ahead)),
            for_loop("step", self.steps, self._step),
            *self._finish(),
            self._epilogue(),
        )

    def _tile_position(self) -> tuple[Values, Any, Any]:
        return {}, index(0), index(0)


class BlockProduct(_InBlock):
    """A product on tensor cores in a block."""


class BlockGroupProduct(_InBlock, WarpgroupKernel):
    """A product by instructions of warpgroups in a block."""


class BlockFloatProduct(_InBlock, RegisterTileKernel):
    """A product of fp32 in a block, with a tile of sums for each thread."""
