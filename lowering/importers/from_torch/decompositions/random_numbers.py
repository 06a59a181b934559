"""Decompose random operators into draws whose number depends on shapes alone, and arithmetic on them.

Eager's CPU implementations draw the same numbers in the same order, so that the results are eager's for the same state
of torch's generator.
"""

from __future__ import annotations

import torch

from mlirtri.lowering.importers.from_torch.decomposition_rules import Results, decomposes

aten = torch.ops.aten
Tensor = torch.Tensor


@decomposes(aten.native_dropout.default)
def native_dropout(x: Tensor, p: float, train: bool | None) -> Results:
    """Return the product of `x` and scaled Bernoulli draws, rounded as `torch.nn.functional.dropout` rounds it."""
    if train is False or p == 0:
        return x.clone(), torch.ones_like(x, dtype=torch.bool)
    if p == 1:
        return x * torch.zeros_like(x), torch.zeros_like(x, dtype=torch.bool)
    noise = aten.bernoulli.p(x, 1 - p)
    return x * (noise / (1 - p)), noise != 0


@decomposes(aten.bernoulli.default)
def bernoulli(x: Tensor, *, generator: torch.Generator | None = None) -> Tensor:
    """Return ones with the probabilities `x`, one uniform draw each."""
    return bernoulli_tensor(x, x, generator=generator)


@decomposes(aten.bernoulli.Tensor)
def bernoulli_tensor(x: Tensor, p: Tensor, *, generator: torch.Generator | None = None) -> Tensor:
    """Return a tensor like `x` of ones with the probabilities `p`."""
    if generator is not None:
        return NotImplemented
    # Eager compares in the dtype of the probabilities, halves in float32.
    kind = torch.float64 if p.dtype == torch.float64 else torch.float32
    drawn = torch.rand(x.shape, dtype=kind, device=x.device)
    return (drawn < p.to(kind)).to(x.dtype)


@decomposes(aten.multinomial.default)
def multinomial(
    x: Tensor, num_samples: int, replacement: bool = False, *, generator: torch.Generator | None = None
) -> Tensor:
    """Draw indices with probabilities `x`, one row of them for each row of `x`."""
    if generator is not None:
        return NotImplemented
    if not replacement or num_samples == 1:
        # The largest quotients of weights and exponential draws are a sample without replacement (Efraimidis and
        # Spirakis, Weighted random sampling with a reservoir, 2006).
        scores = x / aten.exponential.default(x, 1.0)
        if num_samples == 1:
            return torch.argmax(scores, -1, True)
        return torch.topk(scores, num_samples)[1]
    rows = x.reshape(-1, x.shape[-1])
    sums = torch.cumsum(rows, 1)
    sums = sums / sums[:, -1:]
    drawn = torch.rand(rows.shape[0], num_samples, dtype=torch.float64, device=x.device)
    below = (sums.unsqueeze(1) < drawn.unsqueeze(2)).sum(2)
    # Rounding may leave the last sum below the draw; then the last non-zero weight is drawn.
    last = torch.where(rows > 0, torch.arange(x.shape[-1], device=x.device), 0).amax(1, True)
    return torch.minimum(below, last).view(*x.shape[:-1], num_samples)


@decomposes(aten.normal.Tensor_float)
def normal_around(mean: Tensor, std: float = 1.0, *, generator: torch.Generator | None = None) -> Tensor:
    """Return normal draws around the elements of `mean`."""
    if generator is not None:
        return NotImplemented
    return aten.normal_functional.default(torch.empty_like(mean), 0.0, 1.0) * std + mean


@decomposes(aten.normal.float_Tensor)
def normal_of_width(mean: float, std: Tensor, *, generator: torch.Generator | None = None) -> Tensor:
    """Return normal draws around `mean` with the standard deviations `std`."""
    if generator is not None:
        return NotImplemented
    return aten.normal_functional.default(torch.empty_like(std), 0.0, 1.0) * std + mean


@decomposes(aten.normal.Tensor_Tensor)
def normal_of(mean: Tensor, std: Tensor, *, generator: torch.Generator | None = None) -> Tensor:
    """Return normal draws around the elements of `mean` with the standard deviations `std`."""
    if generator is not None:
        return NotImplemented
    shape = torch.broadcast_shapes(mean.shape, std.shape)
    drawn = aten.normal_functional.default(torch.empty(shape, dtype=mean.dtype, device=mean.device), 0.0, 1.0)
    return drawn * std + mean
