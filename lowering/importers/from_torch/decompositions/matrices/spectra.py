"""Decompose singular values, symmetric eigenvalues and what derives from them, and matrix exponentials.

Singular values by one-sided Jacobi rotations of columns (M. Hestenes, Inversion of matrices by biorthogonalization,
1958), in round-robin pairs; eigenvalues are those of a matrix shifted to be positive semidefinite. All is computed in
float64 or complex128. Signs and phases of vectors are arbitrary and differ from eager's.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from mlirtri.lowering.importers.from_torch.decomposition_rules import HALVES, Results, Scalar, counted_loop, decomposes
from mlirtri.lowering.importers.from_torch.decompositions.matrices.householder import qr
from mlirtri.lowering.importers.from_torch.decompositions.matrices.linear_algebra import DTYPES

aten = torch.ops.aten
Tensor = torch.Tensor
EPSILON = torch.finfo(torch.float64).eps
SWEEPS = 30
"""The most sweeps over all pairs; about ten are needed."""
TERMS = 18
"""Terms of the exponential of a matrix of norm at most 1: the next one is below 1e-17."""


@decomposes(aten._linalg_svd.default)
def svd(a: Tensor, full_matrices: bool = False, compute_uv: bool = True, *, driver: str | None = None) -> Results:
    """Return U, S and V transposed, or S alone with empty U and V."""
    if not is_supported(a):
        return NotImplemented
    none = a.new_empty(0)
    if 0 in a.shape:
        u, s, v = _empty_svd(a, full_matrices)
    elif a.shape[-2] < a.shape[-1]:
        v, s, u = _svd_tall(_assert_finite(a, "svd").mH, full_matrices, compute_uv)
    else:
        u, s, v = _svd_tall(_assert_finite(a, "svd"), full_matrices, compute_uv)
    s = s.to(a.dtype.to_real())
    return (u.to(a.dtype), s, v.mH.to(a.dtype)) if compute_uv else (none, s, none)


def _svd_tall(a: Tensor, full: bool, with_vectors: bool) -> tuple[Tensor, Tensor, Tensor]:
    rotated, v, scale = _jacobi(a)
    lengths, order = torch.sort(_squares(rotated).sum(-2, keepdim=True).sqrt(), -1, descending=True)
    s = (lengths * scale).squeeze(-2)
    if not with_vectors:
        return rotated, s, v
    rotated, v = (operand.gather(-1, order.expand(operand.shape)) for operand in (rotated, v))
    # Q completes the columns of norm 0.
    q, r = qr(rotated, "complete" if full else "reduced")
    count = a.shape[-1]
    signs = torch.where(r.diagonal(0, -2, -1).real.unsqueeze(-2) < 0, -1.0, 1.0).to(q.dtype)
    u = q[..., :count] * signs
    return (torch.cat([u, q[..., count:]], -1) if q.shape[-1] > count else u), s, v


@decomposes(aten._linalg_eigh.default)
def eigh(a: Tensor, UPLO: str = "L", compute_v: bool = True) -> Results:
    """Return ascending eigenvalues and the eigenvectors of a symmetric matrix, of which one triangle is read."""
    if not is_supported(a):
        return NotImplemented
    if 0 in a.shape:
        return a.new_zeros(a.shape[:-1], dtype=a.dtype.to_real()), a.clone() if compute_v else a.new_empty(0)
    wide = _assert_finite(a, "eigh")
    iota = torch.arange(a.shape[-1], device=a.device)
    rows, columns = (iota.unsqueeze(-1), iota) if UPLO.upper() == "L" else (iota, iota.unsqueeze(-1))
    wide = torch.where(rows == columns, wide.real, torch.where(rows > columns, wide, wide.mH))
    bound = wide.abs().sum(-1).amax(-1).unsqueeze(-1).unsqueeze(-1)
    _, v, _ = _jacobi(wide + bound * _identity(wide))
    values, order = torch.sort((v.conj() * (wide @ v)).sum(-2, keepdim=True).real, -1)
    vectors = v.gather(-1, order.expand(v.shape)).to(a.dtype) if compute_v else a.new_empty(0)
    return values.squeeze(-2).to(a.dtype.to_real()), vectors


@decomposes(aten.linalg_matrix_exp.default)
def matrix_exp(a: Tensor) -> Results:
    """Return the exponential: the Taylor polynomial of the matrix scaled by a power of 2, then squared repeatedly."""
    if a.dtype in HALVES:
        return matrix_exp(a.float()).to(a.dtype)
    if not is_supported(a) or 0 in a.shape:
        return a.clone() if is_supported(a) else NotImplemented
    wide = _wide(a)
    norm = wide.abs().sum(-2).amax(-1).unsqueeze(-1).unsqueeze(-1)
    halvings = torch.ceil(torch.log2(torch.where(torch.isfinite(norm) & (norm > 1), norm, 1.0)))
    small = wide * torch.exp2(-halvings)
    unit = _identity(small)

    def add_term(k: Tensor, total: Tensor, small: Tensor) -> Sequence[Tensor]:
        return (_identity(small) + small @ total / (TERMS - k),)

    def square(k: Tensor, power: Tensor, halvings: Tensor) -> Sequence[Tensor]:
        return (torch.where(k < halvings, power @ power, power),)

    [power] = counted_loop(TERMS, add_term, (unit,), (small,))
    [power] = counted_loop(lambda k, _, halvings: k < halvings.amax(), square, (power,), (halvings,))
    return power.to(a.dtype)


@decomposes(aten.linalg_pinv.atol_rtol_tensor)
def pinv(a: Tensor, *, atol: Scalar = None, rtol: Scalar = None, hermitian: bool = False) -> Results:
    """Return the pseudo-inverse; singular values up to `atol`, or `rtol` times the largest, count as 0."""
    if not is_supported(a):
        return NotImplemented
    if 0 in a.shape:
        return torch.zeros_like(a.mT).contiguous()
    if rtol is None:
        least = torch.finfo(a.dtype).eps * max(a.shape[-2:])
        rtol = torch.full((), least, dtype=a.dtype.to_real(), device=a.device)
        rtol = rtol if atol is None else torch.where(atol > 0, 0.0, rtol)
    if hermitian:
        s, u = eigh(a)
        v = u
    else:
        u, s, v = svd(a)
        v = v.mH
    sizes = s.abs()
    limit = rtol.unsqueeze(-1) * sizes.amax(-1, keepdim=True)
    limit = limit if atol is None else torch.maximum(atol.unsqueeze(-1).to(limit.dtype), limit)
    is_kept = sizes > limit
    inverse = torch.where(is_kept, 1 / torch.where(is_kept, s, 1.0), 0.0)
    return (v * inverse.unsqueeze(-2)) @ u.mH


def _jacobi(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return A V with orthogonal columns, the rotation V, and the scale that was divided out of A."""
    rows, columns = a.shape[-2:]
    scale = a.abs().amax((-2, -1), keepdim=True)
    scale = torch.where(scale == 0, 1.0, scale)
    both = torch.cat([a / scale, _identity(a.new_zeros((*a.shape[:-2], columns, columns)))], -2)
    if columns > 1:
        # A zero column makes the number even; it is paired but never rotated.
        padded = torch.cat([both, torch.zeros_like(both[..., :1])], -1) if columns % 2 else both
        both = _jacobi_sweeps(padded.contiguous(), rows)[..., :columns]
    return both[..., :rows, :], both[..., rows:, :], scale


def _jacobi_sweeps(x: Tensor, rows: int) -> Tensor:
    rounds = max(x.shape[-1] - 1, 1)
    least = EPSILON * max(8, rows)

    def condition(k: Tensor, x: Tensor, worst: Tensor) -> Tensor:
        has_converged = (k % rounds == 0) & (k > 0) & (worst <= least)
        return (k < SWEEPS * rounds) & torch.logical_not(has_converged)

    def rotate(k: Tensor, x: Tensor, worst: Tensor) -> Sequence[Tensor]:
        x, largest = _rotate_pairs(x, rows, least)
        return x, torch.maximum(torch.where(k % rounds == 0, 0.0, worst), largest)

    return counted_loop(condition, rotate, (x, torch.zeros((), dtype=torch.float64, device=x.device)))[0]


def _rotate_pairs(x: Tensor, rows: int, least: float) -> tuple[Tensor, Tensor]:
    """Rotate column i with column i of the second half, reorder for the next step; also return the largest cosine."""
    half = x.shape[-1] // 2
    left, right = x[..., :half], x[..., half:]
    a, b = left[..., :rows, :], right[..., :rows, :]
    square, other = _squares(a).sum(-2, keepdim=True), _squares(b).sum(-2, keepdim=True)
    product = (a.conj() * b).sum(-2, keepdim=True)
    if x.is_complex():
        # With the product's phase taken out of the right columns, the rotation is that of real ones.
        size = product.abs()
        phase = torch.where(size > 0, product / torch.where(size > 0, size, 1.0), 1.0)
        right, product = right * phase.conj(), size
    sizes = square.sqrt() * other.sqrt()
    cosines = product.abs() / torch.where(sizes > EPSILON, sizes, EPSILON)
    is_far = cosines > least
    ratio = (other - square) / torch.where(is_far, 2 * product, 1.0)
    tangent = 1 / (ratio.abs() + torch.sqrt(1 + ratio * ratio))
    tangent = torch.where(is_far, torch.where(ratio < 0, -tangent, tangent), 0.0)
    cosine = 1 / torch.sqrt(1 + tangent * tangent)
    sine = cosine * tangent
    left, right = cosine * left - sine * right, sine * left + cosine * right
    return torch.cat(_next_pairing(left, right, half), -1), cosines.amax()


def _next_pairing(left: Tensor, right: Tensor, half: int) -> list[Tensor]:
    """Return the columns in the order of the next round-robin iteration: all but the first advance."""
    if half == 1:
        return [left, right]
    parts = (left[..., :1], right[..., :1], left[..., 1 : half - 1], right[..., 1:], left[..., half - 1 :])
    return [part for part in parts if part.shape[-1]]


def is_supported(a: Tensor) -> bool:
    """Return whether a matrix has static sizes and a dtype of LAPACK."""
    return a.dtype in DTYPES and all(type(size) is int for size in a.shape)


def _assert_finite(a: Tensor, name: str) -> Tensor:
    message = f"torch.linalg.{name}: a matrix has elements that are not finite"
    aten._assert_scalar(torch.isfinite(a).all().item(), message)
    return _wide(a)


def _wide(a: Tensor) -> Tensor:
    return a.to(torch.complex128) if a.is_complex() else a.double()


def _squares(a: Tensor) -> Tensor:
    return a.real * a.real + a.imag * a.imag if a.is_complex() else a * a


def _identity(like: Tensor) -> Tensor:
    return torch.eye(like.shape[-1], dtype=like.dtype, device=like.device).expand(like.shape)


def _empty_svd(a: Tensor, full: bool) -> tuple[Tensor, Tensor, Tensor]:
    batch, (rows, columns) = a.shape[:-2], a.shape[-2:]
    least = min(rows, columns)
    u, v = (a.new_zeros((*batch, size, size if full else least)) for size in (rows, columns))
    values = a.new_zeros((*batch, least), dtype=a.dtype.to_real())
    return (_identity(u), values, _identity(v)) if full else (u, values, v)
