"""The CPU rule for products that share a function with other work: a second product, and moves of the columns.

    up = x wu;  gate = x wg;  y = silu(gate) * up     chunk by chunk: each of `up` is read while it is in a cache
    qkv = x w;  q = rotated(qkv[:, :512]);  …         the tiles of the product, then the loops of the elementwise blocks

`lowering.relax.product_joining` makes such functions, of calls that this rule takes together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mlirtri.lowering.core.target import Target
from mlirtri.lowering.schedule.cpu.common.nest import nest_of, unflattened
from mlirtri.lowering.schedule.cpu.common.profitability import serial_loops
from mlirtri.lowering.schedule.cpu.matmul.rule import are_dots, is_tiled, pair_loops, product_loops
from mlirtri.lowering.schedule.cpu.nests.elementwise import element_loops
from mlirtri.lowering.schedule.products.block_products import in_one_block
from mlirtri.lowering.schedule.products.surroundings import Surroundings, surroundings_of
from mlirtri.lowering.tir.blocks import BlockFacts, NotStaticLoopsError, blocks_of, inline_cheap, leaf_blocks
from mlirtri.lowering.tir.contraction import Axis, size_of
from mlirtri.lowering.tir.product_recognition import Product, find_product
from mlirtri.lowering.tir.statements import fresh, loads_in, sequence
from mlirtri.lowering.toolchain.tvm_names import (
    PrimFunc,
    SBlock,
    SBlockRealize,
    Schedule,
    Stmt,
    structural_equal,
)

MOST_PRODUCTS = 2
MAX_SCALAR_ELEMENTS = 64
"""Elements up to which an elementwise block is not vectorised."""


@dataclass(frozen=True)
class _Part:
    """A product with the blocks that its tiles compute."""

    position: int
    product: Product
    around: Surroundings


def product_chain(function: PrimFunc, target: Target) -> Schedule | None:
    """Return the function with its products in tiles, and loops for what tiles cannot compute.

    None where there is no product, more than two, or nothing beside a single one, and for two of a single row.
    """
    if not _has_products_alone(function):
        return None
    schedule = Schedule(function, error_render_level="fast")
    parts = _parts(schedule)
    blocks = leaf_blocks(schedule)
    kept = frozenset().union(*(part.around.absorbed for part in parts))
    if len(parts) == 1 and len(kept) == len(blocks):
        return None
    if len(parts) == MOST_PRODUCTS and all(_is_one_row_of_dots(part) for part in parts):
        return None
    inline_cheap(schedule, kept)
    parts, blocks = _parts(schedule), leaf_blocks(schedule)
    statements = _statements(schedule, blocks, parts, target)
    if statements is None:
        return None
    root = schedule.get(schedule.get_sblock("root"))
    removed = [buffer for part in parts for buffer in part.around.buffers]
    buffers = [buffer for buffer in root.alloc_buffers if not any(buffer.same_as(other) for other in removed)]
    body = SBlock([], [], [], "root", sequence(*statements), None, buffers)
    written = PrimFunc(function.params, SBlockRealize([], True, body), function.ret_type, function.attrs)
    return in_one_block(written)


def _is_one_row_of_dots(part: _Part) -> bool:
    """Return whether a product is a matrix times a vector, whose time is that of reading the matrix row by row.

    The rule for row kernels reads one row of each of two matrices at once: tiles read eight of one, which takes up to
    a quarter longer where the matrices come from memory.
    """
    product, around = part.product, part.around
    return size_of(product.rows) == 1 and are_dots(around.left, around.right, product.reduced)


def takes_chain(function: PrimFunc, target: Target) -> bool:
    """Return whether the rule takes a function."""
    return product_chain(function, target) is not None


def _has_products_alone(function: PrimFunc) -> bool:
    """Return whether all reductions of a function are products for tiles, one or two of them."""
    try:
        reductions = [(facts, block) for facts, block in blocks_of(function) if not facts.is_spatial]
    except NotStaticLoopsError:
        return False
    products = [find_product(facts, block) for facts, block in reductions]
    return 0 < len(products) <= MOST_PRODUCTS and all(product and is_tiled(product) for product in products)


def _parts(schedule: Schedule) -> list[_Part]:
    blocks, parts, end = leaf_blocks(schedule), [], None
    for position in reversed(range(len(blocks))):
        block = blocks[position]
        product = None if block.is_spatial else find_product(block, schedule.get(block.handle))
        if product is None:
            continue
        parts.insert(0, _Part(position, product, surroundings_of(schedule, blocks, block, product, end)))
        end = position
    return parts


def _statements(
    schedule: Schedule, blocks: Sequence[BlockFacts], parts: Sequence[_Part], target: Target
) -> list[Stmt] | None:
    """Return the statements of all blocks in order.

    None where an elementwise block has no vectors, or where two products cannot be computed chunk by chunk.
    """
    absorbed = [part.around.absorbed for part in parts]
    known = frozenset().union(*absorbed)
    if sum(map(len, absorbed)) != len(known):
        return None
    statements: list[Stmt] = []
    part_at = {part.position: part for part in parts}
    is_paired = len(parts) == MOST_PRODUCTS
    if is_paired and not _runs_together(parts, [block.name in known for block in blocks]):
        return None
    for position, block in enumerate(blocks):
        part = part_at.get(position)
        if part is None and block.name not in known:
            statement = _elements(schedule, block, target)
            if statement is None:
                return None
            statements.append(statement)
        elif part is not None and not is_paired:
            statements.append(product_loops(part.product, part.around, target))
        elif part is parts[-1]:
            statements.append(pair_loops([(each.product, each.around) for each in parts], target))
    return statements


def _elements(schedule: Schedule, block: BlockFacts, target: Target) -> Stmt | None:
    if not block.iterations:
        return None
    nest = nest_of(schedule, block)
    statement = element_loops(nest, target)
    if statement is None and nest.iterations <= MAX_SCALAR_ELEMENTS:
        statement = fresh(serial_loops(nest.axes, nest.body))
    return None if statement is None else unflattened(fresh(statement), nest.flat)


def _runs_together(parts: Sequence[_Part], is_absorbed: Sequence[bool]) -> bool:
    """Return whether a chunk of the second product may follow the same chunk of the first.

    Nothing else runs between them, and the second reads the first's results where it stores its own.
    """
    first, second = parts
    if not all(is_absorbed[first.position : second.position]):
        return False
    extents = [[axis.extent for axis in _result_axes(part.product)] for part in parts]
    if extents[0] != extents[1]:
        return False
    stored = {store.buffer: store.indices for store in first.around.stores if store.buffer not in first.around.private}
    if any(
        load.source in stored for operand in (second.around.left, second.around.right) for load in loads_in(operand)
    ):
        return False
    loads = [load for store in second.around.stores for load in loads_in(store.value) if load.source in stored]
    own = list(second.product.update.indices)
    results = list(first.product.update.indices)
    return all(_are_same(load.indices, own) and _are_same(stored[load.source], results) for load in loads)


def _result_axes(product: Product) -> tuple[Axis, ...]:
    return (*product.batch, *product.rows, *product.columns)


def _are_same(indices: Sequence[Any], others: Sequence[Any]) -> bool:
    return len(indices) == len(others) and all(map(structural_equal, indices, others))
