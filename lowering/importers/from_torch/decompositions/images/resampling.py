"""Decompose interpolations whose weights depend on sizes alone: with antialiasing, and of uint8 images.

The weights of an axis are a matrix of [output size, input size]. Eager interpolates the last axis, then the one before.
Of uint8 it rounds the weights to 16-bit integers and each sum to uint8; the same is done here, so that results are
equal. The filters are the triangle and Keys' cubic (Keys, Cubic convolution interpolation for digital image processing,
1981).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from mlirtri.dialect.bindings.mlir import torch_decompositions
from mlirtri.lowering.importers.from_torch.decomposition_rules import Operator, Results, decomposes
from mlirtri.lowering.special_functions.definitions import keys_filter

aten = torch.ops.aten
Tensor = torch.Tensor

MAX_WEIGHT_BITS = 15
"""Bits of a weight for uint8 images, without its sign."""


def triangle(x: Tensor) -> Tensor:
    """Return the weights of linear interpolation at the distances `x`."""
    return torch.clamp(1 - x.abs(), min=0.0)


@dataclass(frozen=True)
class Axis:
    """The interpolation of one axis."""

    size: int
    count: int
    scale: float
    """The distance of two results, in elements."""
    aligned: bool
    """Whether the first and last elements are the first and last results."""
    antialias: bool
    width: int
    """Elements under the filter: 2 of the triangle, 4 of the cubic."""

    @property
    def is_identity(self) -> bool:
        return self.size == self.count and self.scale == 1

    def weights(self) -> Tensor:
        """Return the weights, float64 [count, size]."""
        position = torch.arange(self.count, dtype=torch.float64).unsqueeze(1)
        index = torch.arange(self.size, dtype=torch.float64)
        return self._smoothed(position, index) if self.antialias else self._interpolated(position, index)

    def _smoothed(self, position: Tensor, index: Tensor) -> Tensor:
        """Widen the filter by the scale where the image shrinks, and cut it off at the borders."""
        weight = triangle if self.width == 2 else partial(keys_filter, torch, a=-0.5)
        wider = max(self.scale, 1.0)
        support = self.width * 0.5 * wider
        center = (position + 0.5) * self.scale
        is_under = (index >= (center - support + 0.5).trunc()) & (index < (center + support + 0.5).trunc())
        weights = torch.where(is_under, weight((index - center + 0.5) / wider), 0.0)
        return weights / weights.sum(1, True)

    def _interpolated(self, position: Tensor, index: Tensor) -> Tensor:
        """Place the filter around each position; the borders are repeated."""
        weight = triangle if self.width == 2 else partial(keys_filter, torch, a=-0.75)
        source = position * self.scale if self.aligned else (position + 0.5) * self.scale - 0.5
        source = torch.clamp(source, min=0.0) if self.width == 2 else source
        first = torch.clamp(source.floor(), max=self.size - 1)
        fraction = torch.clamp(source - first, 0.0, 1.0)
        parts = [
            torch.where(index == torch.clamp(first + step, 0, self.size - 1), weight(fraction - step), 0.0)
            for step in range(1 - self.width // 2, 1 + self.width // 2)
        ]
        return reduce(torch.add, parts)


def _scale(size: int, count: int, aligned: bool, factor: float | None) -> float:
    if aligned:
        return (size - 1) / (count - 1) if count > 1 else 0.0
    return 1 / factor if factor is not None and factor > 0 else size / count


def resample(width: int, antialias: bool) -> Callable[..., Results]:
    """Return the rule of bilinear (`width` 2) or bicubic (4) interpolation of the last two axes."""

    def apply(x: Tensor, counts: Sequence[int], aligned: bool, height: Any = None, across: Any = None) -> Results:
        if not all(isinstance(each, int) and each for each in (*x.shape[-2:], *counts)):
            return NotImplemented
        for axis, factor in ((-1, across), (-2, height)):
            size, count = x.shape[axis], counts[axis]
            scale = _scale(size, count, aligned, factor)
            x = _along(x, axis, Axis(size, count, scale, aligned, antialias, width))
        return x

    return apply


def _along(x: Tensor, position: int, axis: Axis) -> Tensor:
    """Return the products of an axis' weights and the elements along the axis at `position`."""
    if axis.is_identity:
        return x
    elements, weights = x.transpose(position, -1), axis.weights().t()
    if x.dtype != torch.uint8:
        kind = x.dtype if x.dtype == torch.float64 else torch.float32
        return (elements.to(kind) @ weights.to(kind)).to(x.dtype).transpose(position, -1)
    with _disable_current_modes():
        # Outside of the trace: the number of bits is part of the program.
        largest = axis.weights().max().item()
    bits = 0
    while bits < 22 and int(0.5 + largest * (1 << (bits + 1))) < 1 << MAX_WEIGHT_BITS:
        bits += 1
    whole = weights * (1 << bits)
    whole = torch.where(whole < 0, whole - 0.5, whole + 0.5).to(torch.int32)
    sums = (elements.int() @ whole + (1 << (bits - 1))) >> bits
    return torch.clamp(sums, 0, 255).to(torch.uint8).transpose(position, -1)


def of_bytes(operator: Operator, rule: Callable[..., object]) -> Callable[..., Results]:
    """Return the rule that applies to uint8 alone; other dtypes have torch-mlir's rule, or none."""

    def apply(x: Tensor, *arguments: Any) -> Results:
        if x.dtype == torch.uint8 and x.dim() == 4:
            return rule(x, *arguments)
        other = torch_decompositions().get(operator)
        return NotImplemented if other is None else other(x, *arguments)

    return apply


def by_factors(rule: Callable[..., object]) -> Callable[..., Results]:
    """Return the rule of the overload that takes sizes or factors, given that of sizes."""

    def apply(x: Tensor, counts: Any, aligned: bool, factors: Sequence[float] | None) -> Results:
        if counts is None:
            assert factors is not None
            counts = [int(size * factor) for size, factor in zip(x.shape[-2:], factors, strict=True)]
        return rule(x, counts, aligned, *(factors or (None, None)))

    return apply


for _operator, _width in ((aten._upsample_bilinear2d_aa, 2), (aten._upsample_bicubic2d_aa, 4)):
    decomposes(_operator.default)(resample(_width, antialias=True))
    decomposes(_operator.vec)(by_factors(resample(_width, antialias=True)))
for _operator, _width in ((aten.upsample_bilinear2d, 2), (aten.upsample_bicubic2d, 4)):
    decomposes(_operator.default)(of_bytes(_operator.default, resample(_width, antialias=False)))
    decomposes(_operator.vec)(of_bytes(_operator.vec, by_factors(resample(_width, antialias=False))))
