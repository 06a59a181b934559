"""Marks elementwise PrimFuncs with private buffers as elementwise for TVM's fusion.

Takes and gives a module before fusion. bf16, and other arithmetic that TVM must not simplify, uses such buffers, and
TVM takes every block with several stores for opaque. A function is marked if it is one block, each element of which
reads one element of each operand.
"""

from __future__ import annotations

from typing import Any

from mlirtri.lowering.tir.blocks import BlockFacts, NotStaticLoopsError, leaf_blocks
from mlirtri.lowering.tir.products import OP_PATTERN
from mlirtri.lowering.toolchain.tvm_names import IRModule, PrimFunc, Schedule

ELEMENTWISE, BROADCAST, OPAQUE = 0, 1, 8
"""TVM's `op_pattern` values."""


def mark_elements(mod: IRModule) -> IRModule:
    """Return the module where elementwise blocks with private buffers fuse as other elementwise blocks do."""
    marked = {
        gv: function.with_attr(OP_PATTERN, kind)
        for gv, function in mod.functions_items()
        if isinstance(function, PrimFunc) and (kind := _kind(function)) is not None
    }
    return IRModule({**dict(mod.functions_items()), **marked}, attrs=mod.attrs) if marked else mod


def _kind(function: PrimFunc) -> int | None:
    if (function.attrs or {}).get(OP_PATTERN) != OPAQUE:
        return None
    schedule = Schedule(function)
    try:
        blocks = leaf_blocks(schedule)
    except NotStaticLoopsError:
        return None
    if len(blocks) != 1 or not blocks[0].is_spatial or len(blocks[0].writes) != 1:
        return None
    block = blocks[0]
    if len(schedule.get(block.handle).alloc_buffers) == 0 or not _is_elementwise(block):
        return None
    # TVM, too, calls it elementwise if one operand has the result's indices; only such functions fuse behind products.
    return ELEMENTWISE if any(read.axes == block.writes[0].axes for read in block.operands) else BROADCAST


def _is_elementwise(block: BlockFacts) -> bool:
    """Return whether the block's axes index results and operands in order, operands perhaps by some of them."""
    all_axes = tuple(range(len(block.kinds)))
    return block.writes[0].axes == all_axes and all(_is_ordered(read.axes) for read in block.operands)


def _is_ordered(axes: Any) -> bool:
    return None not in axes and list(axes) == sorted(set(axes))
