"""Which blocks are matrix products, whatever their operands' order, batch axes and dtypes.

Takes the facts of a block, or a module before fusion. Gives the axes' parts in the product, or the module in which
fusion treats such functions as products: elementwise work that follows is fused, what comes before is not.
"""

from __future__ import annotations

from dataclasses import dataclass

from mlirtri.lowering.schedule_blocks import BlockFacts, leaf_blocks
from mlirtri.lowering.tvm_names import IRModule, PrimFunc, Schedule

OP_PATTERN = "op_pattern"
REDUCTION, PRODUCT = 3, 4
"""TVM's kinds of a PrimFunc for fusion: `kCommReduce` and `kOutEWiseFusable`."""


@dataclass(frozen=True)
class Product:
    """Axis numbers of the block: outer ones (batch and the like), then row, column and reduction."""

    outer: tuple[int, ...]
    row: int
    column: int
    reduced: tuple[int, ...]
    right: int
    """Which of the two operands has the columns."""


def find_product(block: BlockFacts) -> Product | None:
    """How the block is a matrix product; None if it is not."""
    operands = block.operands
    if len(operands) != 2 or len(block.writes) != 1 or block.calls or block.binds:
        return None
    accesses = (*operands, block.writes[0])
    if any(None in access.axes for access in accesses):
        return None
    sets = [set(access.axes) for access in accesses]
    reduced = block.axes("R")
    if not reduced or any(axis not in sets[0] & sets[1] for axis in reduced):
        return None
    column = block.writes[0].axes[-1] if block.writes[0].axes else None
    right = next((side for side in (0, 1) if column in sets[side] and column not in sets[1 - side]), None)
    if right is None or column is None:
        return None
    rows = [a for a in block.writes[0].axes if a is not None and a in sets[1 - right] and a not in sets[right]]
    if not rows:
        return None
    outer = tuple(axis for axis in block.axes("S") if axis not in (rows[-1], column))
    return Product(outer, rows[-1], column, reduced, right)


def mark_products(mod: IRModule) -> IRModule:
    """The module where products whose operands are cast count as products; TVM sees plain ones only."""
    marked = {
        gv: function.with_attr(OP_PATTERN, PRODUCT)
        for gv, function in mod.functions_items()
        if isinstance(function, PrimFunc)
        and (function.attrs or {}).get(OP_PATTERN) == REDUCTION
        and _is_product(function)
    }
    return IRModule({**dict(mod.functions_items()), **marked}, attrs=mod.attrs) if marked else mod


def _is_product(function: PrimFunc) -> bool:
    if (function.attrs or {}).get(OP_PATTERN) != REDUCTION:
        return False
    try:
        blocks = leaf_blocks(Schedule(function))
    except ValueError:  # opaque or symbolic loops: no product that we know
        return False
    return len(blocks) == 1 and find_product(blocks[0]) is not None
