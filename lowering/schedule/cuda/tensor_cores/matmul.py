"""The CUDA rule for products of 16-bit floats and int8 on tensor cores, with fused operand reads and epilogue.

Operands may be in any layout, batched, or a convolution's. Devices before sm_80 are refused.
"""

from __future__ import annotations

import re

from mlirtri.lowering.core.target import Target
from mlirtri.lowering.schedule.cuda.common.instructions import FIRST_ARCHITECTURE, MULTIPLICATIONS
from mlirtri.lowering.schedule.cuda.tensor_cores.operands import narrow
from mlirtri.lowering.schedule.cuda.tensor_cores.tensor_core_kernel import BlockTile, TensorCoreKernel
from mlirtri.lowering.schedule.cuda.tensor_cores.warpgroup_kernel import (
    ARCHITECTURE_OF_GROUPS,
    GROUP_TILES,
    WarpgroupKernel,
)
from mlirtri.lowering.schedule.products.block_products import contraction_of, with_product
from mlirtri.lowering.tir.contraction import Contraction, multiply_add, size_of
from mlirtri.lowering.tir.product_recognition import Product, only_product
from mlirtri.lowering.toolchain.tvm_names import PrimFunc, Schedule, Stmt

TILES = (
    BlockTile(128, 128, 2, 2),
    BlockTile(64, 128, 2, 2),
    BlockTile(64, 64, 2, 2),
    BlockTile(32, 64, 1, 2),
    BlockTile(16, 64, 1, 2),
)
"""Tiles from the fewest reads per operation to the most blocks."""
ENOUGH = 128
"""Number of blocks that keep a large device busy."""


def tensor_cores(function: PrimFunc, target: Target) -> Schedule | None:
    """Return a schedule of the product on tensor cores; None for any other function."""
    if int(re.sub(r"\D", "", target.architecture)) < FIRST_ARCHITECTURE:
        return None
    match = only_product(function)
    # Tiles have at least 16 rows: a depthwise convolution, which has one, would waste them.
    if match is None or not _is_narrow(match[-1]) or size_of(match[-1].rows) == 1:
        return None
    # A block beside the kernel would have no thread binding.
    has_groups = target.architecture == ARCHITECTURE_OF_GROUPS
    return with_product(*match, lambda product, around: _kernel(contraction_of(product, around), has_groups))


def _is_narrow(product: Product) -> bool:
    # Integer products are exact in any order and width: the low bits that are kept are the same.
    adds_plainly = product.add is multiply_add or product.dtype == "int32"
    return adds_plainly and all(narrow(factor) is not None for factor in (product.left, product.right))


def _kernel(contraction: Contraction, has_groups: bool) -> Stmt | None:
    left, right = narrow(contraction.left), narrow(contraction.right)
    if left is None or right is None:
        return None
    kind = MULTIPLICATIONS.get((left[0], right[0]))
    if kind is None or kind.sums != contraction.dtype:
        return None
    of_groups = filling_tile(contraction, GROUP_TILES) if has_groups else None
    if of_groups is not None:
        return WarpgroupKernel(contraction, left[1], right[1], kind, of_groups).written()
    return TensorCoreKernel(contraction, left[1], right[1], kind, tile_for(contraction, TILES)).written()


def filling_tile(contraction: Contraction, tiles: tuple[BlockTile, ...]) -> BlockTile | None:
    """Return the first of `tiles` that fills the device; None if none does."""
    rows, columns, batch = (size_of(axes) for axes in (contraction.rows, contraction.columns, contraction.batch))
    for tile in tiles:
        is_filled = rows > tile.rows // 2 and columns > tile.columns // 2
        if is_filled and -(-rows // tile.rows) * -(-columns // tile.columns) * batch >= ENOUGH:
            return tile
    return None


def tile_for(contraction: Contraction, tiles: tuple[BlockTile, ...]) -> BlockTile:
    """Return the first of `tiles` that fills the device; they are ordered from the largest to the smallest."""
    if (tile := filling_tile(contraction, tiles)) is not None:
        return tile
    # Too little work to fill the device with any tile: choose the most blocks.
    rows = size_of(contraction.rows)
    return next((tile for tile in tiles[2:] if rows > tile.rows // 2), tiles[-1])
