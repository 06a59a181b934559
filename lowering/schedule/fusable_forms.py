"""What the schedule rules of a target take as one function: asked by the passes of `relax` that make functions.

A pass merges calls, or folds an operand into a product, only where a rule computes the result faster than its parts.
"""

from __future__ import annotations

from mlirtri.lowering.core.target import Target
from mlirtri.lowering.schedule.cpu.attention.rule import takes_attention as cpu_takes_attention
from mlirtri.lowering.schedule.cpu.convolution.channels_first import is_channels_first, is_padded_channels_first
from mlirtri.lowering.schedule.cpu.convolution.channels_last import is_channels_last, is_padded_channels_last
from mlirtri.lowering.schedule.cpu.convolution.depthwise import is_depthwise
from mlirtri.lowering.schedule.cpu.convolution.packed_filters import packs_filters, takes_filters
from mlirtri.lowering.schedule.cpu.matmul.rule import is_tiled
from mlirtri.lowering.schedule.cpu.product_chains import takes_chain
from mlirtri.lowering.schedule.cpu.rows.rule import only_finishes
from mlirtri.lowering.schedule.cpu.rows.rule import plan_of as cpu_plan_of
from mlirtri.lowering.schedule.rows.nests import NotRows, nests_of, refuse_better_rules
from mlirtri.lowering.tir.product_recognition import Product
from mlirtri.lowering.toolchain.tvm_names import PrimFunc

__all__ = ["is_channels_first", "is_tiled", "packs_filters", "takes_chain", "takes_filters"]


def check_rows(function: PrimFunc, target: Target) -> None:
    """Raise `NotRows` where a function is no row kernel of the target, or no profitable one."""
    if target.is_cuda:
        from mlirtri.lowering.schedule.cuda.rows import plan_of  # late: a compilation for CPUs needs none of its files

        plan_of(function, target)
        return
    nests = nests_of(function)
    for nest in nests:
        refuse_better_rules(nest)
    cpu_plan_of(nests, function.params, target)


def takes_rows(function: PrimFunc, target: Target) -> bool:
    """Return whether a rule for row kernels takes a function."""
    try:
        check_rows(function, target)
    except NotRows:
        return not target.is_cuda and only_finishes(nests_of(function))
    return True


def takes_attention(function: PrimFunc, target: Target) -> bool:
    """Return whether a rule takes two products with a row kernel between them; no rule for CUDA does."""
    return not target.is_cuda and cpu_takes_attention(function)


def is_convolution(product: Product) -> bool:
    """Return whether a CPU rule computes a product as a convolution."""
    return any(is_of(product) for is_of in (is_channels_first, is_channels_last, is_depthwise))


def pads_image(product: Product) -> bool:
    """Return whether a CPU rule computes a product as a convolution that pads its image where it is read."""
    return any(is_of(product) for is_of in (is_padded_channels_first, is_padded_channels_last, is_depthwise))
