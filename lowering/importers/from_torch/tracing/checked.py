"""Functions of torch that look at elements before they compute, which a trace does not have: they compute, and assert.

Also least squares, of which torch knows no shapes while it traces.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

aten = torch.ops.aten
Tensor = torch.Tensor

_WITH_RANK = ("gelsy", "gelsd", "gelss")
_WITH_VALUES = ("gelsd", "gelss")


def gaussian_loss(
    x: Tensor, target: Tensor, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Any:
    """`torch.nn.functional.gaussian_nll_loss`"""
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
    """`torch.linalg.lstsq`, by singular values. What eager refuses it refuses itself."""
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
    """`torch.linalg.tensorinv`, whose C++ looks at what the inverse found."""
    matrix = a.reshape(math.prod(a.shape[:ind]), -1)
    return torch.linalg.inv(matrix).reshape(*a.shape[ind:], *a.shape[:ind])


CHECKED: dict[Any, Callable[..., Any]] = {
    F.gaussian_nll_loss: gaussian_loss,
    torch.linalg.lstsq: least_squares,
    torch.linalg.tensorinv: tensor_inverse,
}
