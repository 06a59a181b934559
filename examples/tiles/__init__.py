"""Tile kernels with what torch computes: ``EXAMPLES`` has them by name, with arguments of any scale."""

from __future__ import annotations

from . import (
    convolution,
    dequantize_gemm,
    dynamic_gemm,
    flash_attention,
    gemm,
    layer_norm,
    softmax,
    split_k,
)
from .example import Example

EXAMPLES: dict[str, Example] = {
    example.name: example
    for module in (
        gemm,
        dynamic_gemm,
        flash_attention,
        dequantize_gemm,
        softmax,
        layer_norm,
        convolution,
        split_k,
    )
    for example in module.EXAMPLES
}

__all__ = ["EXAMPLES", "Example"]
