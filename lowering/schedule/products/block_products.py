"""Products of SBlocks: the function with a target's statements in place of a product and of what is fused with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from mlirtri.lowering.schedule.products.surroundings import Surroundings, surroundings_of, with_statement
from mlirtri.lowering.tir.blocks import BlockFacts, leaf_blocks
from mlirtri.lowering.tir.contraction import Contraction, shortened, without_units
from mlirtri.lowering.tir.product_recognition import Product
from mlirtri.lowering.toolchain.tvm_names import EXACT_BUFFERS, IRModule, PrimFunc, Schedule, Stmt, tirx

Loops = Callable[[Product, Surroundings], "Stmt | None"]
"""From a product and what is fused with it to their statements; None where the target has none."""


def with_product(
    schedule: Schedule,
    block: BlockFacts,
    product: Product,
    loops: Loops,
    beside: Callable[[Schedule, BlockFacts], None] | None = None,
) -> Schedule | None:
    """Return the function with `loops` of the product, fused with elementwise producers and consumers where possible.

    `beside` schedules the blocks that are not fused; without it there may be none. None where `loops` returns that.
    """
    blocks = leaf_blocks(schedule)
    around = surroundings_of(schedule, blocks, block, product)
    others = [other for other in blocks if other.name not in around.absorbed]
    if others and beside is None:
        return None
    statement = loops(*without_unit_axes(product, around))
    if statement is None:
        return None
    for other in others if beside is not None else ():
        beside(schedule, other)
    return in_one_block(with_statement(schedule.mod["main"], blocks, block, around, statement))


def in_one_block(function: PrimFunc) -> Schedule:
    """Return a function of statements as the `Schedule` that a rule gives, marked as a product in tiles."""
    # Stored values may contain `Let`, and are repeated for each vector.
    (unique,) = tirx.transform.ConvertSSA()(IRModule({"main": function})).functions.values()
    return Schedule(unique.with_attrs({EXACT_BUFFERS: True}))


def without_unit_axes(product: Product, around: Surroundings) -> tuple[Product, Surroundings]:
    """Return both without axes of extent 1 and with simplified indices, which show what is contiguous."""
    parts = (product.batch, product.rows, product.columns, product.reduced)
    axes = [axis for part in parts for axis in part]
    left, right, *stores = shortened([around.left, around.right, *around.stores], axes)
    batch, rows, columns, reduced = map(without_units, parts)
    product = replace(product, batch=batch, rows=rows, columns=columns, reduced=reduced)
    return product, replace(around, left=left, right=right, stores=tuple(stores))


def contraction_of(product: Product, around: Surroundings) -> Contraction:
    """Return a product with what is fused with it as one contraction, of operands in the dtype of its sums."""
    dtype = accumulators(product.dtype)
    left, right = (
        operand if dtype == product.dtype else tirx.Cast(dtype, operand) for operand in (around.left, around.right)
    )
    return Contraction(
        product.batch, product.rows, product.columns, product.reduced, left, right, dtype, product.result,
        around.stores, around.private, product.add,
    )  # fmt: skip


def accumulators(dtype: str) -> str:
    """Return the dtype of the sums: wrapping integers are the low bits of sums in int32."""
    return "int32" if dtype in ("int8", "uint8", "int16", "uint16") else dtype
