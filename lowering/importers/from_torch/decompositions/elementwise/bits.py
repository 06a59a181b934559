"""Decompose operators on the bits of floats and integers: signs, neighbours, and views of another element width."""

from __future__ import annotations

import torch

from mlirtri.lowering.importers.from_torch.decomposition_rules import Axes, Operand, decomposes
from mlirtri.lowering.special_functions import definitions

aten = torch.ops.aten

INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Integer dtypes by their size in bytes."""
FRACTIONS = {torch.float16: 10, torch.bfloat16: 7, torch.float32: 23, torch.float64: 52}
"""Bits of the mantissa."""


@decomposes(aten.view.dtype)
def view_as_dtype(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Reinterpret the bytes along the last axis as little-endian elements of another width."""
    source_width, width = x.element_size(), dtype.itemsize
    if source_width == width == 1 and torch.bool in (x.dtype, dtype):
        return x.to(dtype)
    if x.dtype.is_complex or dtype.is_complex or source_width == width:
        return NotImplemented
    bits = x.view(INTEGERS[source_width])
    return (_split_elements(bits, width) if source_width > width else _merge_elements(bits, width)).view(dtype)


def _split_elements(bits: torch.Tensor, width: int) -> torch.Tensor:
    parts = [(bits >> (8 * position)).to(INTEGERS[width]) for position in range(0, bits.element_size(), width)]
    return torch.stack(parts, -1).flatten(-2)


def _merge_elements(bits: torch.Tensor, width: int) -> torch.Tensor:
    step, count = bits.element_size(), width // bits.element_size()
    parts = bits.unflatten(-1, (bits.shape[-1] // count, count)).to(INTEGERS[width])
    merged = parts[..., count - 1] << (8 * step * (count - 1))
    for position in range(count - 1):
        merged = merged | ((parts[..., position] & ((1 << (8 * step)) - 1)) << (8 * step * position))
    return merged


@decomposes(aten.signbit.default)
def signbit(x: torch.Tensor) -> torch.Tensor:
    """Return whether the sign bit is set, also of zeros and NaN."""
    if x.dtype == torch.bool or not x.dtype.is_signed:
        return torch.zeros_like(x, dtype=torch.bool)
    return _bits(x) < 0 if x.dtype.is_floating_point else x < 0


@decomposes(aten.copysign.Tensor, aten.copysign.Scalar)
def copysign(x: torch.Tensor, y: Operand) -> torch.Tensor:
    kind = torch.result_type(x, y)
    kind = kind if kind.is_floating_point else torch.get_default_dtype()
    other = y if isinstance(y, torch.Tensor) else torch.full((), y, dtype=kind, device=x.device)
    x = x.to(kind)
    return torch.where(signbit(x) == signbit(other), x, -x)


@decomposes(aten.nextafter.default)
def nextafter(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return the float next to ``x`` in the direction of ``y``."""
    x, y = torch.broadcast_tensors(x, y)
    return definitions.nextafter(torch, x, y, INTEGERS[x.element_size()])


@decomposes(aten.frexp.Tensor)
def frexp(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return mantissa and exponent (`torch.frexp`)."""
    mantissa, exponent = definitions.frexp(torch, x, INTEGERS[x.element_size()], FRACTIONS[x.dtype])
    return mantissa, exponent.int()


@decomposes(aten.hash_tensor.default)
def hash_tensor(x: torch.Tensor, dim: Axes = (), *, keepdim: bool = False, mode: int = 0) -> torch.Tensor:
    """Return the exclusive or, over axes, of the bits of the elements as float64 or int64; the result is uint64."""
    if x.is_complex() or not all(type(size) is int for size in x.shape) or 0 in x.shape:
        return NotImplemented
    bits = x.to(torch.float64 if x.is_floating_point() else torch.int64).view(torch.int64)
    axes = {axis % max(x.dim(), 1) for axis in dim} or set(range(x.dim()))
    for axis in axes if x.dim() else ():
        bits = _exclusive_or(bits, axis)
    kept = [axis for axis in range(x.dim()) if keepdim or axis not in axes]
    return bits.reshape([bits.shape[axis] for axis in kept]).view(torch.uint64)


def _exclusive_or(bits: torch.Tensor, axis: int) -> torch.Tensor:
    """Reduce an axis to one element, by halves."""
    while (count := bits.shape[axis]) > 1:
        half = count // 2
        last = bits.narrow(axis, 2 * half, count % 2)
        bits = torch.cat([bits.narrow(axis, 0, half) ^ bits.narrow(axis, half, half), last], axis)
    return bits


def _bits(x: torch.Tensor) -> torch.Tensor:
    return x.view(INTEGERS[x.element_size()])
