"""Products of matrices and convolutions that torch-mlir has no lowering of, by those that it has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from mlirtri.lowering.importers.from_torch.decompositions.rules import decomposes

aten = torch.ops.aten
NARROW = (torch.int8, torch.uint8, torch.int16)


def narrow(operator: Any) -> Callable[..., torch.Tensor]:
    """The product of narrow integers, which wraps as theirs does."""

    def multiply(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        if x.dtype not in NARROW:
            return NotImplemented
        return operator(x.int(), y.int()).to(x.dtype)

    return multiply


@decomposes(aten._scaled_mm.default)
def scaled(
    x: torch.Tensor,
    y: torch.Tensor,
    x_scale: torch.Tensor,
    y_scale: torch.Tensor,
    bias: torch.Tensor | None = None,
    result_scale: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    use_fast_accum: bool = False,
) -> torch.Tensor:
    """Of floats of 8 bits, with a scale for each operand, or for each row of the first and column of the second."""
    if x_scale.dtype != torch.float32 or result_scale is not None:
        return NotImplemented
    product = torch.mm(x.float(), y.float()) * x_scale * y_scale
    product = product if bias is None else product + bias.float()
    return product.to(out_dtype or x.dtype)


@decomposes(aten.conv_tbc.default)
def convolved_in_time(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, pad: int = 0) -> torch.Tensor:
    """Of tensors whose axes are time, batch and channels."""
    found = torch.conv1d(x.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad)
    return found.permute(2, 0, 1)


@decomposes(aten._trilinear.default)
def trilinear(
    x: torch.Tensor,
    y: torch.Tensor,
    z: torch.Tensor,
    expand1: Sequence[int],
    expand2: Sequence[int],
    expand3: Sequence[int],
    sumdim: Sequence[int],
    unroll_dim: int = 1,
) -> torch.Tensor:
    """The product of three tensors, each with new axes of size 1, summed along axes."""
    lined_up = []
    for each, axes in ((x, expand1), (y, expand2), (z, expand3)):
        for axis in sorted(axes):
            each = each.unsqueeze(axis)
        lined_up.append(each)
    product = lined_up[0] * lined_up[1] * lined_up[2]
    for axis in {*expand1} & {*expand2} & {*expand3}:
        # To eager an axis that none of the three has is one of size 0.
        product = product.narrow(axis, 0, 0)
    return product.sum(list(sumdim)) if sumdim else product


decomposes(aten.mm.default)(narrow(aten.mm.default))
decomposes(aten.bmm.default)(narrow(aten.bmm.default))
