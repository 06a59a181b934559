"""Decompose matrix factorisations and linear solves, which torch-mlir does not lower, into loops over columns.

The algorithms are LAPACK's unblocked xGETF2, xPOTF2, xGEQR2 and xTRSV on whole arrays: each iteration updates what its
column determines, in all matrices of a batch at once. Other dtypes than `DTYPES` are refused later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from mlirtri.lowering.importers.from_torch.decomposition_rules import Results, decomposes, while_loop

aten = torch.ops.aten
Tensor = torch.Tensor


DTYPES = (torch.float32, torch.float64, torch.complex64, torch.complex128)


def _loop(count: int, step: Callable[..., Sequence[Tensor]], carried: Sequence[Tensor], *fixed: Tensor) -> Results:
    """Return the values after ``carried = step(k, *carried, *fixed)`` for k from 0 to `count` - 1."""

    if not count or not all(value.numel() for value in carried):
        return list(carried)

    def condition(k: Tensor, *values: Tensor) -> Tensor:
        return k < count

    def body(k: Tensor, *values: Tensor) -> tuple[Tensor, ...]:
        return k + 1, *step(k, *values)

    start = torch.zeros((), dtype=torch.int64, device=carried[0].device)
    return while_loop(condition, body, (start, *carried), fixed)[1:]


def _row(a: Tensor, k: Tensor) -> Tensor:
    return a.index_select(-2, k.reshape(1))


def _column(a: Tensor, k: Tensor) -> Tensor:
    return a.index_select(-1, k.reshape(1))


def _row_and_column_indices(a: Tensor) -> tuple[Tensor, Tensor]:
    rows, columns = (torch.arange(size, device=a.device) for size in a.shape[-2:])
    return rows.unsqueeze(-1), columns


def _is_supported(*arrays: Tensor) -> bool:
    sizes = [size for array in arrays for size in array.shape[-2:]]
    return all(array.dtype in DTYPES for array in arrays) and all(isinstance(size, int) for size in sizes)


def _assert_all(condition: Tensor, message: str) -> None:
    aten._assert_scalar(condition.all().item(), message)


def _lu_factor(a: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return L and U in one array, the row permutation as a column, the pivots, and the first zero pivot, from 1."""
    rows, _ = _row_and_column_indices(a)
    batch, count = a.shape[:-2], min(a.shape[-2:])
    order = rows.expand(*batch, a.shape[-2], 1).contiguous()
    pivots = torch.zeros((*batch, count, 1), dtype=torch.int64, device=a.device)
    info = torch.zeros((*batch, 1, 1), dtype=torch.int64, device=a.device)
    lu, order, pivots, info = _loop(count, _lu_step, (a.contiguous(), order, pivots, info))
    return lu, order, pivots[..., 0].to(torch.int32), info[..., 0, 0].to(torch.int32)


def _lu_step(k: Tensor, a: Tensor, order: Tensor, pivots: Tensor, info: Tensor) -> Sequence[Tensor]:
    rows, columns = _row_and_column_indices(a)
    column = _column(a, k)
    index = torch.where(rows >= k, _magnitude(column), -1.0).argmax(-2, keepdim=True)
    swapped = torch.where(rows == k, index, torch.where(rows == index, k, rows))
    a = a.gather(-2, swapped.expand(a.shape))
    pivot = column.gather(-2, index)
    column = column.gather(-2, swapped)
    is_below = (rows > k) & (pivot != 0)
    column = torch.where(is_below, column / pivot, column)
    a = torch.where(is_below & (columns > k), a - column * _row(a, k), torch.where(columns == k, column, a))
    iota = torch.arange(pivots.shape[-2], device=a.device).unsqueeze(-1)
    pivots = torch.where(iota == k, index + 1, pivots)
    return a, order.gather(-2, swapped), pivots, torch.where((info == 0) & (pivot == 0), k + 1, info)


def _magnitude(x: Tensor) -> Tensor:
    """Return absolute values; of complex elements |re| + |im|, by which LAPACK chooses pivots."""
    return x.real.abs() + x.imag.abs() if x.is_complex() else x.abs()


def _permutation_of(pivots: Tensor, size: int) -> Tensor:
    rows = torch.arange(size, device=pivots.device).unsqueeze(-1)
    order = rows.expand(*pivots.shape[:-1], size, 1).contiguous()
    [order] = _loop(pivots.shape[-1], _swap_step, (order,), pivots.long().unsqueeze(-1))
    return order


def _swap_step(k: Tensor, order: Tensor, pivots: Tensor) -> Sequence[Tensor]:
    rows, _ = _row_and_column_indices(order)
    index = _row(pivots, k) - 1
    swapped = torch.where(rows == k, index, torch.where(rows == index, k, rows))
    return (order.gather(-2, swapped),)


def _sign(pivots: Tensor) -> Tensor:
    swaps = (pivots != torch.arange(1, pivots.shape[-1] + 1, device=pivots.device)).sum(-1)
    return 1 - 2 * (swaps % 2)


@decomposes(aten.linalg_lu_factor_ex.default)
def lu_factor_ex(a: Tensor, *, pivot: bool = True, check_errors: bool = False) -> Results:
    if not _is_supported(a) or not pivot:
        return NotImplemented
    lu, _, pivots, info = _lu_factor(a)
    if check_errors:
        _assert_all(info == 0, "torch.linalg.lu_factor: a matrix is singular")
    return lu, pivots, info


@decomposes(aten.linalg_lu_factor.default)
def lu_factor(a: Tensor, *, pivot: bool = True) -> Results:
    result = lu_factor_ex(a, pivot=pivot, check_errors=True)
    return NotImplemented if result is NotImplemented else result[:2]


@decomposes(aten.linalg_lu.default)
def lu(a: Tensor, *, pivot: bool = True) -> Results:
    if not _is_supported(a) or not pivot:
        return NotImplemented
    lu, order, _, _ = _lu_factor(a)
    return _lu_parts(lu, order)


@decomposes(aten.lu_unpack.default)
def lu_unpack(lu: Tensor, pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True) -> Results:
    """Unpack a factorisation into P, L and U; those that are not requested are empty."""
    if not _is_supported(lu):
        return NotImplemented
    permutation, lower, upper = _lu_parts(lu, _permutation_of(pivots, lu.shape[-2]))
    none = lu.new_empty(0)
    return permutation if unpack_pivots else none, lower if unpack_data else none, upper if unpack_data else none


def _lu_parts(lu: Tensor, order: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    rows, columns = _row_and_column_indices(lu)
    least = min(lu.shape[-2:])
    lower = torch.where(rows == columns, 1.0, torch.where(rows > columns, lu, 0.0))[..., :least]
    upper = torch.where(rows <= columns, lu, 0.0)[..., :least, :]
    # Row `order[i]` of the product is row i of L U.
    permutation = (order.transpose(-2, -1) == rows).to(lu.dtype)
    return permutation, lower.to(lu.dtype), upper


@decomposes(aten._linalg_det.default)
def det(a: Tensor) -> Results:
    if not _is_supported(a):
        return NotImplemented
    lu, _, pivots, _ = _lu_factor(a)
    return lu.diagonal(0, -2, -1).prod(-1) * _sign(pivots).to(a.dtype), lu, pivots


@decomposes(aten._linalg_slogdet.default)
def slogdet_ex(a: Tensor) -> Results:
    if not _is_supported(a):
        return NotImplemented
    lu, _, pivots, _ = _lu_factor(a)
    diagonal = lu.diagonal(0, -2, -1)
    sign = torch.sgn(diagonal).prod(-1) * _sign(pivots).to(a.dtype)
    return sign, diagonal.abs().log().sum(-1), lu, pivots


@decomposes(aten.linalg_slogdet.default)
def slogdet(a: Tensor) -> Results:
    """Return sign and logarithm of the absolute determinant; torch-mlir's decomposition does not pivot."""
    result = slogdet_ex(a)
    return NotImplemented if result is NotImplemented else result[:2]


def _solve_triangular(a: Tensor, b: Tensor, upper: bool, unit: bool) -> Tensor:
    size = a.shape[-1]

    def step(k: Tensor, x: Tensor, a: Tensor) -> Sequence[Tensor]:
        k = size - 1 - k if upper else k
        rows, _ = _row_and_column_indices(x)
        column = _column(a, k)
        row = _row(x, k) if unit else _row(x, k) / _row(column, k)
        is_unsolved = rows < k if upper else rows > k
        return (torch.where(rows == k, row, torch.where(is_unsolved, x - column * row, x)),)

    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    x = b.expand(*batch, *b.shape[-2:]).contiguous()
    [x] = _loop(size, step, (x,), a.expand(*batch, *a.shape[-2:]).contiguous())
    return x


@decomposes(aten.linalg_solve_triangular.default)
def solve_triangular(a: Tensor, b: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Results:
    if not _is_supported(a, b):
        return NotImplemented
    if left:
        return _solve_triangular(a, b, upper, unitriangular)
    return _solve_triangular(a.mT, b.mT, not upper, unitriangular).mT


@decomposes(aten.triangular_solve.default)
def triangular_solve(b: Tensor, a: Tensor, upper: bool = True, transpose: bool = False, unit: bool = False) -> Results:
    if not _is_supported(a, b):
        return NotImplemented
    x = _solve_triangular(a.mT, b, not upper, unit) if transpose else _solve_triangular(a, b, upper, unit)
    return x, a.clone()


def _solve_factored(lu: Tensor, order: Tensor, b: Tensor, transposed: bool) -> Tensor:
    """Solve A x = b, or A^T x = b, given A's factors."""
    batch = torch.broadcast_shapes(lu.shape[:-2], b.shape[:-2])
    b, order = b.expand(*batch, *b.shape[-2:]), order.expand(*batch, *order.shape[-2:])
    if not transposed:
        y = _solve_triangular(lu, b.gather(-2, order.expand(b.shape)), False, True)
        return _solve_triangular(lu, y, True, False)
    y = _solve_triangular(lu.mT, _solve_triangular(lu.mT, b, False, False), True, True)
    return y.gather(-2, order.argsort(-2).expand(b.shape))


def _solve(a: Tensor, b: Tensor, left: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    lu, order, pivots, info = _lu_factor(a)
    is_vector = b.dim() == 1 or (a.dim() - 1 == b.dim() and b.shape == a.shape[:-1])
    b = b.unsqueeze(-1) if is_vector else b
    x = _solve_factored(lu, order, b, False) if left else _solve_factored(lu, order, b.mT, True).mT
    return x.squeeze(-1) if is_vector else x, lu, pivots, info


def _as_real_matrix(a: Tensor) -> Tensor:
    """Return the real matrix [[re, -im], [im, re]] that acts on stacked real and imaginary parts like `a`."""
    return torch.cat([torch.cat([a.real, -a.imag], -1), torch.cat([a.imag, a.real], -1)], -2)


def _as_complex(x: Tensor) -> Tensor:
    half = x.shape[-2] // 2
    return torch.complex(x[..., :half, :], x[..., half:, :])


@decomposes(aten.linalg_solve.default)
def solve(a: Tensor, b: Tensor, *, left: bool = True) -> Results:
    if a.is_complex() and b.is_complex() and left:
        is_vector = b.dim() == 1 or (a.dim() - 1 == b.dim() and b.shape == a.shape[:-1])
        b = b.unsqueeze(-1) if is_vector else b
        result = solve_ex(_as_real_matrix(a), torch.cat([b.real, b.imag], -2), check_errors=True)
        if result is NotImplemented:
            return result
        return _as_complex(result[0]).squeeze(-1) if is_vector else _as_complex(result[0])
    result = solve_ex(a, b, left=left, check_errors=True)
    return NotImplemented if result is NotImplemented else result[0]


@decomposes(aten._linalg_solve_ex.default)
def solve_ex(a: Tensor, b: Tensor, *, left: bool = True, check_errors: bool = False) -> Results:
    if not _is_supported(a, b.unsqueeze(-1)):
        return NotImplemented
    x, lu, pivots, info = _solve(a, b, left)
    if check_errors:
        _assert_all(info == 0, "torch.linalg.solve: a matrix is singular")
    return x, lu, pivots, info


@decomposes(aten.linalg_inv_ex.default)
def inv_ex(a: Tensor, *, check_errors: bool = False) -> Results:
    if not _is_supported(a):
        return NotImplemented
    # Expanded to the batch: torch takes a right-hand side with one axis less as a batch of vectors.
    unit = torch.eye(a.shape[-1], dtype=a.dtype, device=a.device).expand(a.shape)
    x, _, _, info = _solve(a, unit, True)
    if check_errors:
        _assert_all(info == 0, "torch.linalg.inv: a matrix is singular")
    return x, info


@decomposes(aten.linalg_inv.default, aten.inverse.default)
def inv(a: Tensor) -> Results:
    result = inv_ex(_as_real_matrix(a) if a.is_complex() else a, check_errors=True)
    if result is NotImplemented:
        return result
    return _as_complex(result[0][..., : a.shape[-1]]) if a.is_complex() else result[0]


@decomposes(aten.linalg_lu_solve.default)
def lu_solve(lu: Tensor, pivots: Tensor, b: Tensor, *, left: bool = True, adjoint: bool = False) -> Results:
    if not _is_supported(lu, b):
        return NotImplemented
    order = _permutation_of(pivots, lu.shape[-1])
    # The adjoint is the transpose of the conjugate: conjugate the sides in place of the factors.
    b = b.conj() if adjoint else b
    x = _solve_factored(lu, order, b, adjoint) if left else _solve_factored(lu, order, b.mT, not adjoint).mT
    return x.conj() if adjoint else x


def _cholesky_step(k: Tensor, a: Tensor, info: Tensor) -> Sequence[Tensor]:
    rows, columns = _row_and_column_indices(a)
    column = _column(a, k)
    square = _row(column, k).real
    is_positive = square > 0
    pivot = torch.where(is_positive, square, 1.0).sqrt()
    column = torch.where(rows > k, column / pivot, torch.where(rows == k, pivot, 0.0))
    a = torch.where((rows > k) & (columns > k), a - column * column.mH, torch.where(columns == k, column, a))
    return a, torch.where((info == 0) & ~is_positive, k + 1, info)


@decomposes(aten.linalg_cholesky_ex.default)
def cholesky_ex(a: Tensor, *, upper: bool = False, check_errors: bool = False) -> Results:
    if not _is_supported(a):
        return NotImplemented
    info = torch.zeros((*a.shape[:-2], 1, 1), dtype=torch.int64, device=a.device)
    lower, info = _loop(a.shape[-1], _cholesky_step, ((a.mH if upper else a).contiguous(), info))
    if check_errors:
        _assert_all(info == 0, "torch.linalg.cholesky: a matrix is not positive-definite")
    return (lower.tril().mH if upper else lower.tril()), info[..., 0, 0].to(torch.int32)


@decomposes(aten.linalg_cholesky.default, aten.cholesky.default)
def cholesky(a: Tensor, upper: bool = False) -> Results:
    result = cholesky_ex(a, upper=upper, check_errors=True)
    return NotImplemented if result is NotImplemented else result[0]


@decomposes(aten.cholesky_solve.default)
def cholesky_solve(b: Tensor, root: Tensor, upper: bool = False) -> Results:
    if not _is_supported(root, b):
        return NotImplemented
    lower = root.mH if upper else root
    return _solve_triangular(lower.mH, _solve_triangular(lower, b, False, False), True, False)


@decomposes(aten.cholesky_inverse.default)
def cholesky_inverse(root: Tensor, upper: bool = False) -> Results:
    return cholesky_solve(torch.eye(root.shape[-1], dtype=root.dtype, device=root.device), root, upper)


def householder_reflection(r: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
    """Return the vector and tau of LAPACK's reflection (xLARFG) that zeroes column k below the diagonal."""
    rows, _ = _row_and_column_indices(r)
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


def _householder_step(k: Tensor, r: Tensor, q: Tensor) -> Sequence[Tensor]:
    vector, factor = householder_reflection(r, k)
    r = r - factor.conj() * vector * (vector.conj() * r).sum(-2, keepdim=True)
    return r, q - factor * (q * vector.mT).sum(-1, keepdim=True) * vector.mH


@decomposes(aten.linalg_qr.default)
def qr(a: Tensor, mode: str = "reduced") -> Results:
    if not _is_supported(a):
        return NotImplemented
    rows, columns = a.shape[-2:]
    least = min(rows, columns)
    q = torch.eye(rows, dtype=a.dtype, device=a.device).expand(*a.shape[:-2], rows, rows).contiguous()
    r, q = _loop(least, _householder_step, (a.contiguous(), q))
    if mode == "complete":
        return q, r.triu()
    return a.new_empty(0) if mode == "r" else q[..., :least], r[..., :least, :].triu()
