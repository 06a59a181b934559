"""Decompose operators on Householder reflections as LAPACK packs them, xGEQRF, xORGQR and xORMQR, into loops.

Column k of a packed matrix has the reflection's vector below the diagonal, whose element k is 1; tau scales it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from mlirtri.lowering.importers.from_torch.decomposition_rules import Results, decomposes
from mlirtri.lowering.importers.from_torch.decompositions.matrices.linear_algebra import (
    _column,
    _is_supported,
    _loop,
    _row,
    _row_and_column_indices,
    householder_reflection,
)

aten = torch.ops.aten
Tensor = torch.Tensor


def _geqrf_step(k: Tensor, a: Tensor, tau: Tensor) -> Sequence[Tensor]:
    rows, columns = _row_and_column_indices(a)
    vector, factor = householder_reflection(a, k)
    reflected = a - factor.conj() * vector * (vector.conj() * a).sum(-2, keepdim=True)
    packed = torch.where((columns == k) & (rows > k), vector, torch.where(columns >= k, reflected, a))
    iota = torch.arange(tau.shape[-1], device=a.device)
    return torch.where((columns == k) & (rows < k), a, packed), torch.where(iota == k, factor, tau)


@decomposes(aten.geqrf.default)
def geqrf(a: Tensor) -> Results:
    if not _is_supported(a):
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
        rows, _ = _row_and_column_indices(packed)
        vector = torch.where(rows == k, 1.0, torch.where(rows > k, _column(packed, k), 0.0)).to(packed.dtype)
        factor = _row(tau, k)
        factor = factor.conj() if conjugate else factor
        return (x - factor * vector * (vector.conj() * x).sum(-2, keepdim=True),)

    [x] = _loop(count, step, (x.contiguous(),), packed.contiguous(), tau.unsqueeze(-1).contiguous())
    return x


@decomposes(aten.linalg_householder_product.default)
def householder_product(packed: Tensor, tau: Tensor) -> Results:
    """Return the first columns of the product of all reflections."""
    if not _is_supported(packed):
        return NotImplemented
    rows, columns = packed.shape[-2:]
    unit = torch.eye(rows, columns, dtype=packed.dtype, device=packed.device)
    return _reflect(packed, tau, unit.expand(*packed.shape[:-2], rows, columns), False, False)


@decomposes(aten.ormqr.default)
def ormqr(packed: Tensor, tau: Tensor, x: Tensor, left: bool = True, transpose: bool = False) -> Results:
    """Return the product of Q, or its adjoint, and `x`, or of `x` and it."""
    if not _is_supported(packed, x):
        return NotImplemented
    if left:
        return _reflect(packed, tau, x, transpose, transpose)
    # x Q is the adjoint of Q^H x^H.
    return _reflect(packed, tau, x.mH, not transpose, not transpose).mH
