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

from mlirtri.errors import UnsupportedOperationError
from mlirtri.lowering.importers.from_torch.tracing.ctc_losses import ctc_loss

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


def tensor_split(input: Tensor, tensor_indices_or_sections: object = None, dim: int = 0, **named: object) -> Any:
    """Return `torch.tensor_split` at the elements of a tensor, as slices of run-time lengths."""
    positions = named.get("indices") if tensor_indices_or_sections is None else tensor_indices_or_sections
    if not isinstance(positions, Tensor) or type(size := input.shape[dim]) is not int:
        return NotImplemented
    if not positions.dim():
        raise UnsupportedOperationError(
            "the number of results of tensor_split is an element of a tensor", help="pass it as a Python int"
        )
    if not size:
        return tuple(input.clone() for _ in range(positions.shape[0] + 1))
    ends = torch.clamp(torch.where(positions < 0, positions + size, positions), 0, size).long()
    starts = torch.cat([ends.new_zeros(1), ends])
    lengths = torch.clamp(torch.cat([ends, ends.new_full((1,), size)]) - starts, min=0)
    parts, iota = [], torch.arange(size, device=input.device)
    for part in range(starts.shape[0]):
        length: Any = lengths[part].item()
        torch._check(length >= 0)
        torch._check(length <= size)
        moved = input.index_select(dim, torch.clamp(iota + starts[part], max=size - 1))
        parts.append(moved.narrow(dim, 0, length))
    return tuple(parts)


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
    rank, residuals = is_counted.sum(-1), values.new_empty(0)
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


def _equal_bins(x: Tensor, count: int, limits: Any) -> Tensor:
    """Return the edges that `torch.histogram` has for these elements."""
    return torch.histogram(x, count, range=limits).bin_edges if limits else torch.histogram(x, count).bin_edges


def joint_histogram(
    input: Tensor, bins: Any, range: Any = None, weight: Tensor | None = None, density: bool = False
) -> Any:
    """Return `torch.histogramdd`; NotImplemented for what eager refuses."""
    if input.dim() < 2 or (weight is not None and weight.shape != input.shape[:-1]):
        return NotImplemented
    x, count = input.reshape(-1, input.shape[-1]), input.shape[-1]
    bins = [bins] * count if isinstance(bins, int) else bins
    if len(bins) != count or not (range is None or len(range) == 2 * count):
        return NotImplemented
    edges = [
        each if isinstance(each, Tensor) else _equal_bins(x[:, axis], each, range and range[2 * axis : 2 * axis + 2])
        for axis, each in enumerate(bins)
    ]
    sizes = [each.shape[0] - 1 for each in edges]
    position = torch.zeros(x.shape[0], dtype=torch.int64, device=x.device)
    is_inside = torch.ones(x.shape[0], dtype=torch.bool, device=x.device)
    for axis, each in enumerate(edges):
        element = x[:, axis : axis + 1]
        index = torch.clamp((element >= each).long().sum(1) - 1, min=0, max=sizes[axis] - 1)
        position = position * sizes[axis] + index
        is_inside = is_inside & ((element >= each[0]) & (element <= each[-1])).squeeze(1)
    weights = torch.ones_like(x[:, 0]) if weight is None else weight.reshape(-1)
    sums = x.new_zeros(math.prod(sizes)).scatter_add(0, position, torch.where(is_inside, weights, 0.0)).reshape(sizes)
    if density:
        sums = sums / sums.sum()
        for axis, each in enumerate(edges):
            sums = sums / each.diff().reshape(-1, *[1] * (count - 1 - axis))
    return torch.return_types.histogramdd((sums, tuple(edges)))


FUNCTIONS: dict[Any, Callable[..., Any]] = {
    **dict.fromkeys((torch.cov, Tensor.cov), covariance),
    **dict.fromkeys((torch.corrcoef, Tensor.corrcoef), correlation),
    torch.combinations: subsets,
    **dict.fromkeys((torch.narrow, Tensor.narrow), narrow),
    **dict.fromkeys((torch.tensor_split, Tensor.tensor_split), tensor_split),
    **dict.fromkeys((torch.masked_select, Tensor.masked_select), masked_select),
    **dict.fromkeys((torch.allclose, Tensor.allclose), are_close),
    **dict.fromkeys((torch.equal, Tensor.equal), are_equal),
    F.gaussian_nll_loss: gaussian_loss,
    torch.linalg.lstsq: least_squares,
    torch.linalg.tensorinv: tensor_inverse,
    torch.histogramdd: joint_histogram,
    **dict.fromkeys((F.ctc_loss, torch.ctc_loss), ctc_loss),
}
