"""Products of tiles: all warps of a block compute one, from copies of its operands in shared memory.

Those of halves and int8 go to tensor cores, those of fp32 to register tiles.

A pipelined loop that only adds products becomes one product with a longer sum, whose copies are asynchronous and some
steps ahead. Products among other statements of a loop are copied an iteration ahead (`products_in_blocks`), others are
copied and multiplied where they stand. What no instruction takes stays a loop.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from mlirtri.lowering.core.stage import STAGES
from mlirtri.lowering.core.target import Target
from mlirtri.lowering.schedule.cuda.common.instructions import (
    COLUMNS,
    FIRST_ARCHITECTURE,
    MULTIPLICATIONS,
    ROWS,
    Multiplication,
)
from mlirtri.lowering.schedule.cuda.common.phases import WARP
from mlirtri.lowering.schedule.cuda.tensor_cores.operands import narrow
from mlirtri.lowering.schedule.cuda.tensor_cores.products_in_blocks import (
    BlockFloatProduct,
    BlockGroupProduct,
    BlockProduct,
    InBlock,
    LoopGroupProduct,
    LoopProduct,
)
from mlirtri.lowering.schedule.cuda.tensor_cores.register_tiles import ACROSS, DOWN, FLOATS, VECTOR
from mlirtri.lowering.schedule.cuda.tensor_cores.tensor_core_kernel import BlockTile
from mlirtri.lowering.schedule.cuda.tensor_cores.warpgroup_kernel import DEPTH, EIGHT_LINES, GROUP, WIDTHS
from mlirtri.lowering.schedule.cuda.tiles.fragments import Fragments, Layout
from mlirtri.lowering.schedule.cuda.tiles.live_ranges import without_copies
from mlirtri.lowering.schedule.cuda.tiles.tile_statements import NUMBER, Finished
from mlirtri.lowering.schedule.imperative.allocations import with_allocations_inside
from mlirtri.lowering.schedule.imperative.interchange import FINISHED, with_parts
from mlirtri.lowering.schedule.imperative.perfect_nests import Nest, is_copy, nest_of
from mlirtri.lowering.schedule.imperative.summed_products import with_sum_inside
from mlirtri.lowering.schedule.products.statement_products import StatementProducts
from mlirtri.lowering.tir.contraction import Contraction, multiply_add, size_of
from mlirtri.lowering.tir.primfunc import buffer
from mlirtri.lowering.tir.statements import depends_on, flat, index, loads_in, nodes_in, sequence
from mlirtri.lowering.tir.tiles import replaced
from mlirtri.lowering.toolchain.tvm_names import (
    LOCATION,
    Expr,
    Stmt,
    TensorLoad,
    ir,
    structural_equal,
    structural_map,
    tirx,
)

LEAST_STAGES, MOST_STAGES = 2, 4
"""Steps of a sum whose copies are in shared memory at once."""
LEAST_GROUP_STAGES = 4
"""Of products of warpgroups, which read the tiles of two steps at once."""
MOST_SUMS = 128
"""Sums in the registers of a thread."""
MOST_LENGTH = 256
"""Length of a sum whose tiles are in shared memory as a whole."""


@dataclass(frozen=True)
class BlockBody:
    """The statement of a block, and the products in it that are finished."""

    statement: Any
    products: tuple[Finished, ...]
    is_as_asked: bool = True
    """Whether the products are there that the way of writing them is for."""


@dataclass(frozen=True)
class Way:
    """How the products of a block are written."""

    scope: str
    """The memory of copies of operands, ``shared`` or ``shared.dyn``."""
    limit: int
    """Its bytes."""
    has_groups: bool = False
    """Whether products of what is in global memory are by instructions of warpgroups."""
    is_ahead: bool = False
    """Whether products of a loop's iterations copy their tiles an iteration ahead."""


def with_tensor_cores(
    statement: Stmt, thread: Expr, threads: int, target: Target, way: Way, fragments: Fragments
) -> BlockBody:
    """Return a block's statement with its products of halves and int8 on tensor cores; `fragments` are in registers."""
    if int(re.sub(r"\D", "", target.architecture)) < FIRST_ARCHITECTURE:
        return BlockBody(statement, (), not (way.has_groups or way.is_ahead))
    tiles = {node.buffer for node in nodes_in(statement, tirx.AllocBuffer)}
    stages = [int(loop.annotations[STAGES]) for loop in nodes_in(statement, tirx.For) if STAGES in loop.annotations]
    steps = min(max([LEAST_STAGES, *stages]), MOST_STAGES)
    first = _Writer(thread, threads, way, tiles, steps, fragments)
    first.visit(statement)
    # One product at a time: they share the memory of the largest.
    alignment = EIGHT_LINES if way.has_groups else None
    copies = {dtype: buffer("tiles", [size], dtype, way.scope, alignment) for dtype, size in first.sizes.items()}
    writer = _Writer(thread, threads, way, tiles, steps, fragments, copies, first.counts)
    written = writer.visit(statement)
    written = without_copies(written, writer.forwarded - {load.source for load in loads_in(written)})
    allocated = sequence(*map(tirx.AllocBuffer, (*copies.values(), *writer.own)), written)
    is_as_asked = (writer.found_groups or not way.has_groups) and (bool(writer.own) or not way.is_ahead)
    return BlockBody(allocated, tuple(writer.finished), is_as_asked)


@dataclass
class _Loop:
    """A loop around products, whose tiles are copied an iteration ahead."""

    loop: Any
    number: int
    """Its place among such loops."""
    first_copies: list[Any] = field(default_factory=list)
    """What starts the copies of the first iteration."""


@dataclass
class _Writer:
    thread: Any
    threads: int
    way: Way
    tiles: set[Any]
    """Buffers of the block, which are in shared memory."""
    stages: int
    fragments: Fragments
    copies: dict[str, Any] = field(default_factory=dict)
    """Shared memory for copies of operands, by dtype."""
    known_counts: Sequence[int] = ()
    """The products of each loop that are copied ahead, from the first visit."""
    sizes: dict[str, int] = field(default_factory=dict)
    """Elements that the products need there."""
    own: list[Any] = field(default_factory=list)
    """Shared memory that one product has for itself."""
    counts: list[int] = field(default_factory=list)
    finished: list[Finished] = field(default_factory=list)
    found_groups: bool = False
    around: _Loop | None = None
    written: Counter[Any] = field(default_factory=Counter)
    """Buffers that the block stores to, and how often."""
    known: dict[Any, Nest] = field(default_factory=dict)
    """Tiles that were filled once before the statement at hand, and how."""
    forwarded: set[Any] = field(default_factory=set)
    """Tiles of which a product reads what they were copied from."""

    def visit(self, statement: Stmt) -> Any:
        self.written = self.written or Counter(store.buffer for store in nodes_in(statement, tirx.BufferStore))
        if isinstance(statement, tirx.For):
            return self._loop(statement)
        if not isinstance(statement, tirx.SeqStmt):
            around, self.around = self.around, self.around if isinstance(statement, tirx.AttrStmt) else None
            result = with_parts(statement, self.visit)
            self.around = around
            return result
        known = dict(self.known)
        children = with_allocations_inside(list(statement.seq))
        children = flat([with_sum_inside(child, widens=True) or child for child in children])
        children = [self._noted(self.visit(child)) for child in children]
        written = StatementProducts(children, self._product, widens=True).statement()
        self.known = known
        return written

    def _noted(self, statement: Any) -> Any:
        """Return a statement that others follow; one that alone fills a tile, with what no other writes, is noted."""
        nest = nest_of(statement) if isinstance(statement, tirx.For) else None
        is_once = nest is not None and nest.store.buffer in self.tiles and self.written[nest.store.buffer] == 1
        if nest is not None and is_once and nest.reaches_all() and is_copy(nest, widens=True):
            if not {load.source for load in loads_in(nest.store.value)} & (self.tiles | set(self.written)):
                self.known[nest.store.buffer] = nest
        return statement

    def _forwarded(self, element: Any) -> Any:
        """Return an operand that reads what a tile was copied from in place of the tile."""

        def load(node: Any) -> Any:
            nest = self.known.get(node.source)
            return node if nest is None else replaced(nest.store.value, dict(zip(nest.store.indices, node.indices)))

        return structural_map(element, (TensorLoad, load), order="post")

    def _loop(self, loop: Any) -> Any:
        around, self.around = self.around, _Loop(loop, len(self.counts))
        self.counts.append(0)
        body = self.visit(loop.body)
        first_copies, self.around = self.around.first_copies, around
        parts = (loop.loop_var, loop.min, loop.extent, loop.kind, body)
        return sequence(*first_copies, tirx.For(*parts, loop.thread_binding, loop.annotations, loop.step))

    def _product(self, contraction: Contraction) -> Any:
        is_plain = contraction.add is multiply_add or contraction.dtype == "int32"
        if not is_plain or contraction.batch:
            return None
        product = self._on_tensor_cores(contraction) or self._of_floats(contraction)
        if product is None:
            return None
        if isinstance(product, LoopProduct) and self.around is not None:
            return self._ahead(contraction, product, self.around)
        product.place(*(self._is_global(operand.element) for operand in (product.left, product.right)))
        steps = product.tile.stages if not isinstance(product.steps, int) else min(product.tile.stages, product.steps)
        dtype, size = str(product.tiles.dtype), steps * product.stage
        self.sizes[dtype] = max(size, self.sizes.get(dtype, 0))
        product.tiles = self.copies.get(dtype, product.tiles)
        known = self._finished(contraction, product, (product.tiles,))
        return self._numbered(known, product.statement(self.thread))

    def _ahead(self, contraction: Contraction, product: LoopProduct, around: _Loop) -> Any:
        """Return a product of a loop's iterations; its first copies are noted to stand before the loop."""
        self.counts[around.number] += 1
        self.own += product.memories.values()
        known = Finished((), tuple(product.memories.values()), location=contraction.location)
        first = self._numbered(known, product.first_copies(self.thread))
        around.first_copies.append(tirx.AttrStmt(index(0), FINISHED, index(1), first))
        pending = self.known_counts[around.number] - 1 if self.known_counts else 0
        # The product has its barriers: its tiles are nothing that others wait for.
        return self._numbered(self._finished(contraction, product, ()), product.statement(self.thread, pending))

    def _numbered(self, known: Finished, statement: Stmt) -> Any:
        number = index(len(self.finished))
        self.finished.append(known)
        if known.location:
            statement = tirx.AttrStmt(index(0), LOCATION, ir.StringImm(known.location), statement)
        return tirx.AttrStmt(index(0), NUMBER, number, statement)

    def _on_tensor_cores(self, contraction: Contraction) -> InBlock | None:
        factors = narrow(contraction.left), narrow(contraction.right)
        if factors[0] is None or factors[1] is None:
            return None
        (left, left_element), (right, right_element) = factors[0], factors[1]
        kind, tile = MULTIPLICATIONS.get((left, right)), self._tile(contraction, ROWS, 2 * COLUMNS)
        if kind is not None and (of_loop := self._of_loop(contraction, kind, left_element, right_element)) is not None:
            return of_loop
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

    def _of_loop(self, contraction: Contraction, kind: Multiplication, left: Any, right: Any) -> LoopProduct | None:
        """Return the product as one of the iterations of the loop around it; None where it cannot be."""
        around, length = self.around, size_of(contraction.reduced)
        if not self.way.is_ahead or around is None or around.loop.step is not None or kind.sums != contraction.dtype:
            return None
        has_groups, warps = self.way.has_groups, self.threads // WARP
        depth = kind.depth * (DEPTH if has_groups else 1)
        if not isinstance(length, int) or length % depth or length > MOST_LENGTH or not self._is_even(contraction):
            return None
        if has_groups and (size_of(contraction.columns) not in WIDTHS or warps % GROUP):
            return None
        held = self._held(contraction, kind, left)
        read = [right] if held is not None else [right, left]
        sources = {load.source for each in read for load in loads_in(each)}
        right, *others = [self._forwarded(each) for each in read]
        if not all(self._is_readable_ahead(each, around.loop) for each in (right, *others)):
            return None
        left = others[0] if others else left
        self.forwarded |= sources & set(self.known)
        self.found_groups |= has_groups
        tile = BlockTile(
            size_of(contraction.rows), size_of(contraction.columns), warps, 1, 1, length // kind.depth
        )  # fmt: skip
        written = LoopGroupProduct if has_groups else LoopProduct
        return written(
            contraction, (left, right), kind, tile, self.fragments.registers, around.loop, held, self.way.scope
        )

    def _is_even(self, contraction: Contraction) -> bool:
        """Return whether warps divide the rows of a product evenly, with sums that fit their registers."""
        rows, columns = size_of(contraction.rows), size_of(contraction.columns)
        if not isinstance(rows, int) or not isinstance(columns, int) or columns % (2 * COLUMNS):
            return False
        return rows % (self.threads // WARP * ROWS) == 0 and rows * columns <= MOST_SUMS * self.threads

    def _held(self, contraction: Contraction, kind: Multiplication, left: Any) -> Any:
        """Return the tile of the block that is the left factor, if its layout in registers is one of instructions."""
        at = [axes[0].variable for axes in (contraction.rows, contraction.reduced) if len(axes) == 1]
        is_tile = isinstance(left, TensorLoad) and left.source in self.tiles - set(self.known) and kind.bytes == 2
        if not is_tile or not _are(left.indices, at) or int(left.source.dtype.bits) != 16:
            return None
        shape = [size_of(contraction.rows), size_of(contraction.reduced)]
        return left.source if [int(size) for size in left.source.shape] == shape else None

    def _is_readable_ahead(self, element: Any, loop: Any) -> bool:
        """Return whether an operand may be read before its iteration: of what the block does not write or compute."""
        computed = depends_on(element, [node.var for node in nodes_in(loop.body, tirx.Bind)])
        sources = {load.source for load in loads_in(element)}
        return self._is_global(element) and not sources & set(self.written) and not computed

    def _is_of_groups(self, contraction: Contraction, kind: Multiplication, left: Any, right: Any) -> bool:
        """Return whether a product is one of warpgroups: of operands in global memory, and of more than one step."""
        if not self.way.has_groups or kind.sums != contraction.dtype:
            return False
        rows, columns, length = (size_of(axes) for axes in (contraction.rows, contraction.columns, contraction.reduced))
        is_tile = isinstance(rows, int) and columns in WIDTHS and self.threads % (GROUP * WARP) == 0
        is_long = not isinstance(length, int) or length > DEPTH * kind.depth
        is_even = is_tile and rows % (self.threads // WARP * ROWS) == 0 and rows * columns <= MOST_SUMS * self.threads
        return is_even and is_long and self._is_global(left) and self._is_global(right)

    def _of_floats(self, contraction: Contraction) -> InBlock | None:
        factors, tile = (contraction.left, contraction.right), self._tile(contraction, VECTOR * DOWN, VECTOR * ACROSS)
        is_float = contraction.dtype == "float32" and all(str(factor.ty.dtype) == "float32" for factor in factors)
        if not is_float or tile is None:
            return None
        return BlockFloatProduct(contraction, *factors, FLOATS, tile, self.fragments.registers)

    def _finished(self, contraction: Contraction, product: InBlock, memory: tuple[Any, ...]) -> Finished:
        read = (product.left.element, product.right.element, *contraction.stores)
        reads = [load.source for node in read for load in loads_in(node)]
        writes = [store.buffer for store in contraction.stores]
        outer = [each for each in (*reads, *writes) if not each.same_as(contraction.result)]
        kept = {each for each in outer if each not in set(contraction.private)}
        tile, results = product.tile, tuple(self._results(contraction, product))
        layout = Layout(tile.rows, tile.columns, tile.down, tile.across) if results else None
        writes, sources = (*(kept & set(writes)), *memory), {}
        if isinstance(product, LoopProduct) and product.source is not None:
            sources[product.source] = Layout(tile.rows, product.left.depth, tile.down, tile.across)
            kept -= set(sources)
        return Finished(tuple(kept & set(reads)), writes, layout, results, contraction.location, sources)

    def _results(self, contraction: Contraction, product: InBlock) -> list[Any]:
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
