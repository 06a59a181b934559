"""Functions of torch whose C++ asks for elements, which a trace does not have; in Python they are traced.

They ask whether weights add up to zero, which subsets there are, where a part begins, whether two tensors are alike.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, combinations_with_replacement
from math import comb
from typing import Any

import torch

from mlirtri.lowering.importers.from_torch.tracing.checked import CHECKED

Tensor = torch.Tensor
MOST_SUBSETS = 1 << 20
"""Their places are a constant of the program."""


def covariance(
    input: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None
) -> Tensor:
    """`torch.cov`: of variables in rows, observations with weights. What eager refuses it refuses itself."""
    x = input.reshape(1, -1) if input.dim() < 2 else input
    if input.dim() > 2 or input.dtype == torch.bool or not _are_weights(x.shape[1], fweights, aweights):
        return NotImplemented
    for each in (fweights, aweights):
        if each is not None:
            torch.ops.aten._assert_async.msg((each >= 0).all(), "cov: weights cannot be negative")
    weights = [each for each in (fweights, aweights) if each is not None]
    weight = weights[0] * weights[-1] if len(weights) == 2 else weights[0] if weights else None
    weighted = x if weight is None else x * weight
    total = x.shape[1] if weight is None else weight.sum()
    lost = correction if aweights is None or not correction else correction * (weight * aweights).sum() / total
    centred = x - (weighted.sum(1) / total).unsqueeze(1)
    product = centred @ (centred if weight is None else centred * weight).mT.conj()
    degrees = max(total - lost, 0) if weight is None else torch.clamp(total - lost, min=0)
    return (product / degrees).squeeze()


def _are_weights(count: Any, frequencies: Tensor | None, weights: Tensor | None) -> bool:
    given = [each for each in (frequencies, weights) if each is not None]
    fit = all(each.dim() <= 1 and each.numel() == count for each in given)
    is_counted = frequencies is None or not (frequencies.is_floating_point() or frequencies.is_complex())
    return fit and is_counted and (weights is None or weights.is_floating_point())


def correlation(input: Tensor) -> Tensor:
    """`torch.corrcoef`"""
    found = covariance(input)
    if found is NotImplemented:
        return found
    if not found.dim():
        return found / found
    deviation = found.diagonal().real.sqrt() if found.is_complex() else found.diagonal().sqrt()
    found = found / deviation.unsqueeze(-1) / deviation
    if found.is_complex():
        return torch.complex(torch.clamp(found.real, -1, 1), torch.clamp(found.imag, -1, 1))
    return torch.clamp(found, -1, 1)


def subsets(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """`torch.combinations`"""
    count = input.shape[0] if input.dim() == 1 else None
    if type(count) is not int or r < 1 or comb(count + (r if with_replacement else 0), r) > MOST_SUBSETS:
        return NotImplemented
    choose = combinations_with_replacement if with_replacement else combinations
    found = list(choose(range(count), r))
    return input[torch.tensor(found, device=input.device)] if found else input.new_zeros((0, r))


def part(input: Tensor, dim: int, start: Any, length: int) -> Tensor:
    """`torch.narrow` from a place that is an element."""
    if not isinstance(start, Tensor):
        return NotImplemented
    size = input.shape[dim]
    torch._check_index(length <= size, lambda: f"narrow takes {length} of {size} elements")
    first = torch.where(start < 0, start + size, start).reshape(1)
    is_inside = (first >= 0) & (first + length <= size)
    torch.ops.aten._assert_async.msg(is_inside.all(), f"narrow: {length} elements from there are not inside of {size}")
    return input.index_select(dim, first + torch.arange(length, device=input.device))


def chosen(input: Tensor, mask: Tensor) -> Tensor:
    """`torch.masked_select`, which has no more elements than its input to torch, whatever the mask makes of it."""
    if input.shape == mask.shape:
        return NotImplemented
    return torch.masked_select(*torch.broadcast_tensors(input, mask))


def are_close(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Any:
    """`torch.allclose`"""
    return torch.isclose(input, other, rtol, atol, equal_nan).all().item()


def are_equal(input: Tensor, other: Tensor) -> Any:
    """`torch.equal`"""
    return input.shape == other.shape and (input == other).all().item()


SPELLINGS: dict[Any, Callable[..., Any]] = {
    **dict.fromkeys((torch.cov, Tensor.cov), covariance),
    **dict.fromkeys((torch.corrcoef, Tensor.corrcoef), correlation),
    torch.combinations: subsets,
    **dict.fromkeys((torch.narrow, Tensor.narrow), part),
    **dict.fromkeys((torch.masked_select, Tensor.masked_select), chosen),
    **dict.fromkeys((torch.allclose, Tensor.allclose), are_close),
    **dict.fromkeys((torch.equal, Tensor.equal), are_equal),
    **CHECKED,
}
