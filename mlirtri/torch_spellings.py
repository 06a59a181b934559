"""Functions of torch whose C++ asks for elements, which a trace does not have; in Python they are traced.

They ask whether weights add up to zero, which subsets there are, where a part begins, whether two tensors are alike.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, combinations_with_replacement
from math import comb
from typing import Any

import torch

from mlirtri.torch_checked import CHECKED

Tensor = torch.Tensor
MOST_SUBSETS = 1 << 20
"""Their places are a constant of the program."""


def covariance(
    x: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None
) -> Tensor:
    """`torch.cov`: of variables in rows, observations with weights."""
    x = x.reshape(1, -1) if x.dim() < 2 else x
    weights = [each for each in (fweights, aweights) if each is not None]
    weight = weights[0] * weights[-1] if len(weights) == 2 else weights[0] if weights else None
    weighted = x if weight is None else x * weight
    total = x.shape[1] if weight is None else weight.sum()
    lost = correction if aweights is None or not correction else correction * (weight * aweights).sum() / total
    centred = x - (weighted.sum(1) / total).unsqueeze(1)
    product = centred @ (centred if weight is None else centred * weight).mT.conj()
    degrees = max(total - lost, 0) if weight is None else torch.clamp(total - lost, min=0)
    return (product / degrees).squeeze()


def correlation(x: Tensor) -> Tensor:
    """`torch.corrcoef`"""
    found = covariance(x)
    if not found.dim():
        return found / found
    deviation = found.diagonal().real.sqrt() if found.is_complex() else found.diagonal().sqrt()
    found = found / deviation.unsqueeze(-1) / deviation
    if found.is_complex():
        return torch.complex(torch.clamp(found.real, -1, 1), torch.clamp(found.imag, -1, 1))
    return torch.clamp(found, -1, 1)


def subsets(x: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """`torch.combinations`"""
    count = x.shape[0] if x.dim() == 1 else None
    if type(count) is not int or r < 1 or comb(count + (r if with_replacement else 0), r) > MOST_SUBSETS:
        return NotImplemented
    choose = combinations_with_replacement if with_replacement else combinations
    found = list(choose(range(count), r))
    return x[torch.tensor(found, device=x.device)] if found else x.new_zeros((0, r))


def part(x: Tensor, dim: int, start: Any, length: int) -> Tensor:
    """`torch.narrow` from a place that is an element."""
    if not isinstance(start, Tensor):
        return NotImplemented
    size = x.shape[dim]
    torch._check_index(length <= size, lambda: f"narrow takes {length} of {size} elements")
    first = torch.where(start < 0, start + size, start).reshape(1)
    is_inside = (first >= 0) & (first + length <= size)
    torch.ops.aten._assert_async.msg(is_inside.all(), f"narrow: {length} elements from there are not inside of {size}")
    return x.index_select(dim, first + torch.arange(length, device=x.device))


def chosen(x: Tensor, mask: Tensor) -> Tensor:
    """`torch.masked_select`, which has no more elements than `x` to torch, whatever the mask makes of it."""
    if x.shape == mask.shape:
        return NotImplemented
    return torch.masked_select(*torch.broadcast_tensors(x, mask))


def are_close(x: Tensor, y: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Any:
    """`torch.allclose`"""
    return torch.isclose(x, y, rtol, atol, equal_nan).all().item()


def are_equal(x: Tensor, y: Tensor) -> Any:
    """`torch.equal`"""
    return x.shape == y.shape and (x == y).all().item()


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
