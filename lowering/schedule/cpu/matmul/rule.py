"""The CPU rule for products of tensors: a contraction in tiles, fused with its elementwise producers and consumers.

Products are batched or transposed, of converted operands, with several axes of each kind (`tir.products`). Elementwise
producers are computed in the copies of the operands, elementwise consumers on each tile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from mlirtri.lowering.codegen.targets import lanes_for
from mlirtri.lowering.core.cpu import cache_bytes
from mlirtri.lowering.core.target import Target
from mlirtri.lowering.schedule.cpu.common.loops import spatial
from mlirtri.lowering.schedule.cpu.matmul.column_sums import MAX_ROWS
from mlirtri.lowering.schedule.cpu.matmul.dot_products import add_halves, in_groups, with_functions
from mlirtri.lowering.schedule.cpu.matmul.nest import contraction_loops, paired_loops
from mlirtri.lowering.schedule.products.block_products import (
    accumulators,
    contraction_of,
    with_product,
    without_unit_axes,
)
from mlirtri.lowering.schedule.products.packed_weights import is_packed
from mlirtri.lowering.schedule.products.surroundings import Surroundings
from mlirtri.lowering.tir.blocks import BlockFacts
from mlirtri.lowering.tir.contraction import (
    Axis,
    Contraction,
    Way,
    depends,
    lies_along,
    size_of,
)
from mlirtri.lowering.tir.product_recognition import Product, only_product
from mlirtri.lowering.tir.statements import index, loads_in
from mlirtri.lowering.toolchain.tvm_names import (
    Expr,
    PrimFunc,
    Schedule,
    Stmt,
    TensorLoad,
    tirx,
)

MAX_ROWS_IN_PLACE = 48
"""Rows up to which a right operand that is contiguous along the columns is not packed, whatever its size."""
MAX_ROWS_OF_DOTS = 32
"""Rows up to which a right operand that is contiguous along the sum is not packed."""
OPERATIONS_PER_SUM = 3
"""Instructions per horizontal sum of a vector, where four vectors are reduced together."""


def matmul(function: PrimFunc, target: Target) -> Schedule | None:
    """Return the function with its product in tiles; None where there is no product, or tiles are not profitable."""
    match = only_product(function)
    if match is None or not is_tiled(match[-1]):
        return None
    return in_tiles(*match, _loops, target)


def _loops(contraction: Contraction, target: Target) -> Stmt:
    return tile_loops(_choose_way(contraction), target)


def tile_loops(contraction: Contraction, target: Target, least: int = 1) -> Stmt:
    """Return the statements of a contraction in the way that it says; it has at least `least` rows."""
    contraction = in_groups(contraction) if contraction.way is Way.TILES else contraction
    statement = contraction_loops(contraction, target, least)
    return with_functions(statement) if contraction.add is add_halves else statement


def product_loops(product: Product, around: Surroundings, target: Target) -> Stmt:
    """Return the statements of a product with its elementwise producers and consumers."""
    return _loops(_contraction(*without_unit_axes(product, around)), target)


def pair_loops(pair: Sequence[tuple[Product, Surroundings]], target: Target) -> Stmt:
    """Return the statements of two products, of which the second reads only those elements of the first's result that
    its own result has in the same places.
    """
    first, second = (_choose_way(_contraction(*without_unit_axes(*each))) for each in pair)
    first, second = (in_groups(each) if each.way is Way.TILES else each for each in (first, second))
    statement = paired_loops(first, second, target)
    return with_functions(statement) if add_halves in (first.add, second.add) else statement


def open_loops(contraction: Contraction, target: Target) -> Stmt:
    """Return the statements of a contraction with dynamic sizes."""
    rows, columns, inner = size_of(contraction.rows), contraction.columns[-1], contraction.reduced[-1]
    right = contraction.right
    if isinstance(rows, int) and rows == 1 and are_dots(contraction.left, right, contraction.reduced):
        return tile_loops(replace(contraction, way=Way.DOTS), target)
    if not all(isinstance(axis.extent, int) for axis in (*contraction.columns, *contraction.reduced)):
        return tile_loops(contraction, target)
    few, most = None, 0
    if all(_lies_along(operand, inner) for operand in (contraction.left, right)) and inner.extent >= lanes_for(
        "float32"
    ):
        most, few = MAX_ROWS_OF_DOTS, replace(contraction, way=Way.DOTS)
    elif isinstance(right, TensorLoad) and lies_along(right, columns):
        most, few = MAX_ROWS_IN_PLACE, replace(contraction, packs_right=False)
        if _right_bytes(contraction) <= cache_bytes()[2] // 2:
            return tile_loops(few, target)
    if few is None or isinstance(rows, int):
        return tile_loops(contraction if few is None or rows > most else few, target)
    tiled = tile_loops(contraction, target, most + 1)
    return tirx.IfThenElse(tirx.LE(rows, index(most)), tile_loops(few, target), tiled)


def are_dots(left: Expr, right: Expr, reduced: Sequence[Axis]) -> bool:
    """Return whether both operands are contiguous along a sum of static length that is long enough for vectors."""
    inner = reduced[-1]
    are_known = all(isinstance(axis.extent, int) for axis in reduced)
    return (
        are_known
        and inner.extent >= lanes_for("float32")
        and all(_lies_along(operand, inner) for operand in (left, right))
    )


def _right_bytes(product: Product | Contraction) -> int:
    return size_of(product.columns) * size_of(product.reduced) * 4


def _choose_way(contraction: Contraction) -> Contraction:
    """Return the contraction with its `Way`: few rows take less time than packing the right operand."""
    rows, inner = size_of(contraction.rows), contraction.reduced[-1]
    if contraction.is_right_packed:
        return contraction
    if rows <= MAX_ROWS and _lies_along(contraction.right, contraction.columns[-1]):
        return replace(contraction, way=Way.COLUMNS)
    lanes = lanes_for(contraction.dtype)
    if not _lies_along(contraction.left, inner) or inner.extent < lanes_for("float32"):
        return contraction
    transposes = not _lies_along(contraction.right, inner)
    # Tiles read more streams at once, which is faster where the operand is not in the cache.
    is_cached = rows * size_of(contraction.reduced) * 4 <= cache_bytes()[3]
    is_narrow = size_of(contraction.columns) <= lanes and _is_plain(contraction) and is_cached
    if not is_narrow and (transposes or rows > MAX_ROWS_OF_DOTS):
        return contraction
    dots = replace(contraction, way=Way.DOTS, transposes_right=transposes)
    return dots if _operations_of_dots(dots, lanes) < _operations_of_tiles(contraction, lanes) else contraction


def _is_plain(contraction: Contraction) -> bool:
    """Return whether operands are plain loads: any computation on them would be repeated for each group of columns."""
    return all(isinstance(operand, TensorLoad) for operand in (contraction.left, contraction.right))


def _operations_of_dots(contraction: Contraction, lanes: int) -> int:
    """Estimate the instructions of sums along lanes, including horizontal sums and the copy, if there is one."""
    *outer, inner = contraction.reduced
    vectors = size_of(outer) * -(-inner.extent // lanes)
    columns = size_of(contraction.columns)
    copied = columns * size_of(contraction.reduced) if contraction.transposes_right else 0
    return size_of(contraction.rows) * columns * (vectors + OPERATIONS_PER_SUM) + copied


def _operations_of_tiles(contraction: Contraction, lanes: int) -> int:
    columns, reduced = size_of(contraction.columns), size_of(contraction.reduced)
    copied = columns * reduced if contraction.packs_right else 0
    return size_of(contraction.rows) * -(-columns // lanes) * reduced + copied


def _lies_along(operand: Any, axis: Axis) -> bool:
    loads = loads_in(operand)
    return len(loads) == 1 and lies_along(loads[0], axis)


def in_tiles(
    schedule: Schedule,
    block: BlockFacts,
    product: Product,
    loops: Callable[[Contraction, Target], Stmt | None],
    target: Target,
) -> Schedule | None:
    """Return the function with `loops` of the product, and CPU loops of the blocks that are not fused with it.

    `loops` returns the statements of the contraction, or None, which is then returned.
    """
    return with_product(
        schedule,
        block,
        product,
        lambda product, around: loops(_contraction(product, around), target),
        lambda schedule, other: spatial(schedule, other, target),
    )


def is_tiled(product: Product) -> bool:
    """Return whether tiles are profitable for a product, which is no convolution."""
    return product.fits_tiles and not _slides(product)


def _slides(product: Product) -> bool:
    """Return whether the right operand is read at sums of a column and a window's axis, as in convolutions."""
    indices = [position for load in loads_in(product.right) for position in load.indices]
    return any(depends(position, product.columns) and depends(position, product.reduced) for position in indices)


def _contraction(product: Product, around: Surroundings) -> Contraction:
    """Return a product without axes of extent 1 as a contraction, with the operands that are copied first."""
    rows_are_many = size_of(product.rows) > MAX_ROWS_IN_PLACE
    is_plain = isinstance(around.right, TensorLoad)
    in_place = (
        is_plain
        and lies_along(around.right, product.columns[-1])
        and (_right_bytes(product) <= cache_bytes()[2] // 2 or not rows_are_many)
    )
    contraction = contraction_of(product, around)
    return replace(
        contraction,
        packs_left=_packs_left(around.left, product),
        packs_right=not in_place,
        is_right_packed=is_packed(around.right, product.columns, product.reduced, contraction.dtype),
    )


def _packs_left(left: Any, product: Product) -> bool:
    """Return whether elements are computed, or a row's stride is so large that they evict each other from L1."""
    if not isinstance(left, TensorLoad):
        return True
    lines = size_of(product.reduced) * 64
    is_used_often = size_of(product.columns) >= 16 * lanes_for(accumulators(product.dtype))
    return not _lies_along(left, product.reduced[-1]) and lines > cache_bytes()[1] // 2 and is_used_often
