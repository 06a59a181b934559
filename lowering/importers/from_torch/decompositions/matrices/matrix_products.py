"""Decompose matrix products and convolutions that torch-mlir does not lower into those that it lowers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from mlirtri.lowering.importers.from_torch.decomposition_rules import HALVES, Operator, Results, Scalar, decomposes

aten = torch.ops.aten
Tensor = torch.Tensor


NARROW = (torch.int8, torch.uint8, torch.int16)


def product_of_narrow_integers(operator: Operator) -> Callable[..., Tensor]:
    """Return the rule that multiplies integers below 32 bits in int32 and wraps the result."""

    def multiply(x: Tensor, y: Tensor) -> Tensor:
        if x.dtype not in NARROW:
            return NotImplemented
        return operator(x.int(), y.int()).to(x.dtype)

    return multiply


@decomposes(aten._scaled_mm.default)
def scaled_mm(
    x: Tensor,
    y: Tensor,
    x_scale: Tensor,
    y_scale: Tensor,
    bias: Tensor | None = None,
    result_scale: Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    use_fast_accum: bool = False,
) -> Tensor:
    """Return the product of 8-bit floats, with one scale per operand, or per row of `x` and column of `y`."""
    if x_scale.dtype != torch.float32 or result_scale is not None:
        return NotImplemented
    product = torch.mm(x.float(), y.float()) * x_scale * y_scale
    product = product if bias is None else product + bias.float()
    kind = out_dtype or x.dtype
    if kind == torch.float8_e4m3fn:
        # This dtype has no infinities: eager saturates.
        product = torch.clamp(product, -torch.finfo(kind).max, torch.finfo(kind).max)
    return product.to(kind)


@decomposes(aten.conv_tbc.default)
def conv_tbc(x: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """Return the convolution of a tensor with axes time, batch, channels."""
    result = torch.conv1d(x.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad)
    return result.permute(2, 0, 1)


@decomposes(aten._trilinear.default)
def trilinear(
    x: Tensor,
    y: Tensor,
    z: Tensor,
    expand1: Sequence[int],
    expand2: Sequence[int],
    expand3: Sequence[int],
    sumdim: Sequence[int],
    unroll_dim: int = 1,
) -> Tensor:
    """Return the product of three tensors with added axes of size 1, summed over the axes `sumdim`."""
    expanded = []
    for operand, axes in ((x, expand1), (y, expand2), (z, expand3)):
        for axis in sorted(axes):
            operand = operand.unsqueeze(axis)
        # Halves are rounded once.
        expanded.append(operand.float() if operand.dtype in HALVES else operand)
    product = expanded[0] * expanded[1] * expanded[2]
    for axis in {*expand1} & {*expand2} & {*expand3}:
        # An axis that all three tensors expand has size 0 in eager.
        product = product.narrow(axis, 0, 0)
    # Integers are summed in their own dtype.
    return (product.sum(list(sumdim)) if sumdim else product).to(x.dtype)


@decomposes(aten.addmv.default)
def addmv(x: Tensor, matrix: Tensor, vector: Tensor, *, beta: Scalar = 1, alpha: Scalar = 1) -> Results:
    return _add_product(x, torch.mv(matrix, vector), beta, alpha)


@decomposes(aten.addbmm.default)
def addbmm(x: Tensor, left: Tensor, right: Tensor, *, beta: Scalar = 1, alpha: Scalar = 1) -> Results:
    if x.dtype in (torch.float16, torch.bfloat16):
        x, left, right, kind = x.float(), left.float(), right.float(), x.dtype
        return _add_product(x, torch.bmm(left, right).sum(0), beta, alpha).to(kind)
    return _add_product(x, torch.bmm(left, right).sum(0), beta, alpha)


def _add_product(x: Tensor, product: Tensor, beta: Scalar, alpha: Scalar) -> Tensor:
    if not (x.is_floating_point() or x.is_complex()):
        beta, alpha = int(beta), int(alpha)
    product = (alpha * product).to(x.dtype)
    return product + beta * x if beta else product.expand(torch.broadcast_shapes(product.shape, x.shape)).clone()


decomposes(aten.mm.default)(product_of_narrow_integers(aten.mm.default))
decomposes(aten.bmm.default)(product_of_narrow_integers(aten.bmm.default))
