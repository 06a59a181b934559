"""Functions of torch whose C++ reads elements, which a trace does not have, written in Python with assertions.

Least squares is included because torch has no shape function for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations, combinations_with_replacement
from math import comb
from typing import Any

import torch
import torch.nn.functional as F

aten = torch.ops.aten
Tensor = torch.Tensor
MAX_SUBSETS = 1 << 20
"""The most subsets, whose indices are a constant of the program."""


def covariance(
    input: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None
) -> Tensor:
    """Return `torch.cov` of variables in rows; NotImplemented for what eager refuses."""
    x = input.reshape(1, -1) if input.dim() < 2 else input
    if input.dim() > 2 or input.dtype == torch.bool or not _are_weights(x.shape[1], fweights, aweights):
        return NotImplemented
    for weight in (fweights, aweights):
        if weight is not None:
            aten._assert_async.msg((weight >= 0).all(), "cov: weights cannot be negative")
    weights = [weight for weight in (fweights, aweights) if weight is not None]
    weight = weights[0] * weights[-1] if len(weights) == 2 else weights[0] if weights else None
    weighted = x if weight is None else x * weight
    total = x.shape[1] if weight is None else weight.sum()
    lost = correction if aweights is None or not correction else correction * (weight * aweights).sum() / total
    centred = x - (weighted.sum(1) / total).unsqueeze(1)
    product = centred @ (centred if weight is None else centred * weight).mT.conj()
    degrees = torch.clamp(total - lost, min=0) if isinstance(total, Tensor) else max(total - lost, 0)
    return (product / degrees).squeeze()


def _are_weights(count: Any, frequencies: Tensor | None, weights: Tensor | None) -> bool:
    tensors = [weight for weight in (frequencies, weights) if weight is not None]
    fits = all(weight.dim() <= 1 and weight.numel() == count for weight in tensors)
    is_counted = frequencies is None or not (frequencies.is_floating_point() or frequencies.is_complex())
    return fits and is_counted and (weights is None or weights.is_floating_point())


def correlation(input: Tensor) -> Tensor:
    result = covariance(input)
    if result is NotImplemented:
        return result
    if not result.dim():
        return result / result
    deviation = result.diagonal().real.sqrt() if result.is_complex() else result.diagonal().sqrt()
    result = result / deviation.unsqueeze(-1) / deviation
    if result.is_complex():
        return torch.complex(torch.clamp(result.real, -1, 1), torch.clamp(result.imag, -1, 1))
    return torch.clamp(result, -1, 1)


def subsets(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    count = input.shape[0] if input.dim() == 1 else None
    if type(count) is not int or r < 1 or comb(count + (r if with_replacement else 0), r) > MAX_SUBSETS:
        return NotImplemented
    choose = combinations_with_replacement if with_replacement else combinations
    indices = list(choose(range(count), r))
    return input[torch.tensor(indices, device=input.device)] if indices else input.new_zeros((0, r))


def narrow(input: Tensor, dim: int, start: Any, length: int) -> Tensor:
    """Return `torch.narrow` with a start that is an element of a tensor."""
    if not isinstance(start, Tensor):
        return NotImplemented
    size = input.shape[dim]
    torch._check_index(length <= size, lambda: f"narrow takes {length} of {size} elements")
    first = torch.where(start < 0, start + size, start).reshape(1)
    is_inside = (first >= 0) & (first + length <= size)
    aten._assert_async.msg(is_inside.all(), f"narrow: {length} elements from there are not inside of {size}")
    return input.index_select(dim, first + torch.arange(length, device=input.device))


def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """Return `torch.masked_select` of broadcast operands; torch takes the size bound from the input alone."""
    if input.shape == mask.shape:
        return NotImplemented
    return torch.masked_select(*torch.broadcast_tensors(input, mask))


def are_close(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Any:
    return torch.isclose(input, other, rtol, atol, equal_nan).all().item()


def are_equal(input: Tensor, other: Tensor) -> Any:
    return input.shape == other.shape and (input == other).all().item()


_WITH_RANK = ("gelsy", "gelsd", "gelss")
_WITH_VALUES = ("gelsd", "gelss")


def gaussian_loss(
    x: Tensor, target: Tensor, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Any:
    if not isinstance(var, Tensor):
        return NotImplemented
    aten._assert_async.msg(~(var < 0).any(), "gaussian_nll_loss: var has negative entries")
    if var.shape != x.shape:
        if x.shape[:-1] == var.shape:
            var = var.unsqueeze(-1)
        elif x.dim() != var.dim() or sum(b for a, b in zip(x.shape, var.shape, strict=True) if a != b) != 1:
            raise ValueError("var is of incorrect size")
    var = torch.clamp(var, min=eps)
    loss = 0.5 * (torch.log(var) + (x - target) ** 2 / var)
    loss = loss + 0.5 * math.log(2 * math.pi) if full else loss
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not valid")
    return loss if reduction == "none" else getattr(loss, reduction)()


def least_squares(a: Tensor, b: Tensor, rcond: float | None = None, *, driver: str | None = None) -> Any:
    """Return `torch.linalg.lstsq`, by singular values; NotImplemented for what eager refuses."""
    driver = driver or "gelsy"
    is_vector = b.dim() == 1 or (a.dim() - 1 == b.dim() and b.shape == a.shape[:-1])
    if driver not in ("gels", *_WITH_RANK) or b.shape[: b.dim() - 2 + is_vector] != a.shape[:-2]:
        return NotImplemented
    rows, columns = a.shape[-2:]
    rhs = b.unsqueeze(-1) if is_vector else b
    u, values, v = torch.linalg.svd(a, full_matrices=False)
    limit = torch.finfo(a.dtype).eps * max(rows, columns) if rcond is None else rcond
    is_counted = values > limit * values[..., :1]
    inverse = torch.where(is_counted, 1 / torch.where(is_counted, values, 1.0), 0.0).to(a.dtype)
    x = v.mH @ (inverse.unsqueeze(-1) * (u.mH @ rhs))
    rank, residuals = is_counted.sum(-1), x.new_empty(0)
    if rows > columns and driver != "gelsy":
        # Their shape would depend on the rank.
        aten._assert_async.msg((rank == columns).all(), "torch.linalg.lstsq: a matrix is not of full rank")
        residuals = ((a @ x - rhs).abs() ** 2).sum(-2)
    return torch.return_types.linalg_lstsq((
        x.squeeze(-1) if is_vector else x,
        residuals,
        rank if driver in _WITH_RANK else torch.empty(0, dtype=torch.int64, device=a.device),
        values if driver in _WITH_VALUES else values.new_empty(0),
    ))  # fmt: skip


def tensor_inverse(a: Tensor, ind: int = 2) -> Tensor:
    """Return `torch.linalg.tensorinv`, whose C++ reads the status of the inverse."""
    matrix = a.reshape(math.prod(a.shape[:ind]), -1)
    return torch.linalg.inv(matrix).reshape(*a.shape[ind:], *a.shape[:ind])


FUNCTIONS: dict[Any, Callable[..., Any]] = {
    **dict.fromkeys((torch.cov, Tensor.cov), covariance),
    **dict.fromkeys((torch.corrcoef, Tensor.corrcoef), correlation),
    torch.combinations: subsets,
    **dict.fromkeys((torch.narrow, Tensor.narrow), narrow),
    **dict.fromkeys((torch.masked_select, Tensor.masked_select), masked_select),
    **dict.fromkeys((torch.allclose, Tensor.allclose), are_close),
    **dict.fromkeys((torch.equal, Tensor.equal), are_equal),
    F.gaussian_nll_loss: gaussian_loss,
    torch.linalg.lstsq: least_squares,
    torch.linalg.tensorinv: tensor_inverse,
}
