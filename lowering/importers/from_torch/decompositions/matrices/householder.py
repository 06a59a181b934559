"""Decompose QR and operators on Householder reflections, LAPACK's xGEQRF, xORGQR and xORMQR, into loops over columns.

Each iteration updates what its column determines, in all matrices of a batch at once. Column k of a packed matrix has
the reflection's vector below the diagonal, whose element k is 1; tau scales it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from mlirtri.lowering.importers.from_torch.decomposition_rules import Results, counted_loop, decomposes
from mlirtri.lowering.importers.from_torch.decompositions.matrices.linear_algebra import (
    is_factorable,
    row_and_column_indices,
)

aten = torch.ops.aten
Tensor = torch.Tensor


def _loop(count: int, step: Callable[..., Sequence[Tensor]], carried: Sequence[Tensor], *fixed: Tensor) -> Results:
    """Return the values after ``carried = step(k, *carried, *fixed)`` for k from 0 to `count` - 1."""
    is_empty = not count or not all(value.numel() for value in carried)
    return list(carried) if is_empty else counted_loop(count, step, carried, fixed)


def _row(a: Tensor, k: Tensor) -> Tensor:
    return a.index_select(-2, k.reshape(1))


def _column(a: Tensor, k: Tensor) -> Tensor:
    return a.index_select(-1, k.reshape(1))


def _reflection(r: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
    """Return the vector and tau of LAPACK's reflection (xLARFG) that zeroes column k below the diagonal."""
    rows, _ = row_and_column_indices(r)
    column = _column(r, k)
    first = _row(column, k)
    below = torch.where(rows > k, column, 0.0)
    scale = torch.where(rows >= k, column, 0.0).abs().amax(-2, keepdim=True)
    scale = torch.where(scale == 0, 1.0, scale)
    length = scale * (torch.where(rows >= k, column / scale, 0.0).abs() ** 2).sum(-2, keepdim=True).sqrt()
    is_done = (below == 0).all(-2, keepdim=True) & (first.real == first)
    image = torch.where(is_done, 1.0, -torch.copysign(length, first.real))
    vector = torch.where(rows == k, 1.0, below / torch.where(is_done, 1.0, first - image)).to(r.dtype)
    return vector, torch.where(is_done, 0.0, (image - first) / image).to(r.dtype)


def _geqrf_step(k: Tensor, a: Tensor, tau: Tensor) -> Sequence[Tensor]:
    rows, columns = row_and_column_indices(a)
    vector, factor = _reflection(a, k)
    reflected = a - factor.conj() * vector * (vector.conj() * a).sum(-2, keepdim=True)
    packed = torch.where((columns == k) & (rows > k), vector, torch.where(columns >= k, reflected, a))
    iota = torch.arange(tau.shape[-1], device=a.device)
    return torch.where((columns == k) & (rows < k), a, packed), torch.where(iota == k, factor, tau)


@decomposes(aten.geqrf.default)
def geqrf(a: Tensor) -> Results:
    if not is_factorable(a):
        return NotImplemented
    count = min(a.shape[-2:])
    tau = torch.zeros((*a.shape[:-2], 1, count), dtype=a.dtype, device=a.device)
    packed, tau = _loop(count, _geqrf_step, (a.contiguous(), tau))
    return packed, tau.squeeze(-2)


def _reflect(packed: Tensor, tau: Tensor, x: Tensor, conjugate: bool, forward: bool) -> Tensor:
    """Return H(0) H(1) … x if `forward` is false, else … H(1) H(0) x; `conjugate` takes the adjoint reflections."""
    count = tau.shape[-1]

    def step(k: Tensor, x: Tensor, packed: Tensor, tau: Tensor) -> Sequence[Tensor]:
        k = k if forward else count - 1 - k
        rows, _ = row_and_column_indices(packed)
        vector = torch.where(rows == k, 1.0, torch.where(rows > k, _column(packed, k), 0.0)).to(packed.dtype)
        factor = _row(tau, k)
        factor = factor.conj() if conjugate else factor
        return (x - factor * vector * (vector.conj() * x).sum(-2, keepdim=True),)

    [x] = _loop(count, step, (x.contiguous(),), packed.contiguous(), tau.unsqueeze(-1).contiguous())
    return x


@decomposes(aten.linalg_householder_product.default)
def householder_product(packed: Tensor, tau: Tensor) -> Results:
    """Return the first columns of the product of all reflections."""
    if not is_factorable(packed):
        return NotImplemented
    rows, columns = packed.shape[-2:]
    unit = torch.eye(rows, columns, dtype=packed.dtype, device=packed.device)
    return _reflect(packed, tau, unit.expand(*packed.shape[:-2], rows, columns), False, False)


@decomposes(aten.ormqr.default)
def ormqr(packed: Tensor, tau: Tensor, x: Tensor, left: bool = True, transpose: bool = False) -> Results:
    """Return the product of Q, or its adjoint, and `x`, or of `x` and it."""
    if not is_factorable(packed, x):
        return NotImplemented
    if left:
        return _reflect(packed, tau, x, transpose, transpose)
    # x Q is the adjoint of Q^H x^H.
    return _reflect(packed, tau, x.mH, not transpose, not transpose).mH


def _householder_step(k: Tensor, r: Tensor, q: Tensor) -> Sequence[Tensor]:
    vector, factor = _reflection(r, k)
    r = r - factor.conj() * vector * (vector.conj() * r).sum(-2, keepdim=True)
    return r, q - factor * (q * vector.mT).sum(-1, keepdim=True) * vector.mH


@decomposes(aten.linalg_qr.default)
def qr(a: Tensor, mode: str = "reduced") -> Results:
    if not is_factorable(a):
        return NotImplemented
    rows, columns = a.shape[-2:]
    least = min(rows, columns)
    # One loop for both factors: `geqrf` and `householder_product` would take .2 s more to compile.
    q = torch.eye(rows, dtype=a.dtype, device=a.device).expand(*a.shape[:-2], rows, rows).contiguous()
    r, q = _loop(least, _householder_step, (a.contiguous(), q))
    if mode == "complete":
        return q, r.triu()
    return a.new_empty(0) if mode == "r" else q[..., :least], r[..., :least, :].triu()
