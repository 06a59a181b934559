"""Decompose matrix factorisations and linear solves, which torch-mlir does not lower, into calls of library kernels.

The kernels compute one matrix of a batch after the other. Other dtypes than `DTYPES` are refused later.
"""

from __future__ import annotations

import torch

from mlirtri.lowering.frontend.library_functions import linear_algebra, torch_matrices
from mlirtri.lowering.importers.from_torch.decomposition_rules import Results, decomposes
from mlirtri.lowering.importers.from_torch.library_kernels import library_operator

aten = torch.ops.aten
Tensor = torch.Tensor


DTYPES = (torch.float32, torch.float64, torch.complex64, torch.complex128)


def _int32(a: Tensor, *shape: int) -> Tensor:
    return a.new_empty(shape, dtype=torch.int32)


_LU = library_operator(
    "lu(Tensor a) -> (Tensor, Tensor, Tensor, Tensor)",
    linear_algebra.lu,
    lambda a: (
        a.new_empty(a.shape),
        a.new_empty(a.shape[:-1], dtype=torch.int64),
        _int32(a, *a.shape[:-2], min(a.shape[-2:])),
        _int32(a, *a.shape[:-2]),
    ),
)
_ROW_ORDER = library_operator(
    "row_order(Tensor pivots, int rows) -> Tensor",
    linear_algebra.row_order,
    lambda pivots, rows: pivots.new_empty((*pivots.shape[:-1], rows), dtype=torch.int64),
)
_CHOLESKY = library_operator(
    "cholesky_ex(Tensor a) -> (Tensor, Tensor)",
    linear_algebra.cholesky_ex,
    lambda a: (a.new_empty(a.shape), _int32(a, *a.shape[:-2])),
)
_SOLVE_TRIANGULAR = library_operator(
    "solve_triangular(Tensor a, Tensor b, bool upper, bool left, bool unitriangular) -> Tensor",
    torch_matrices.substituted,
    lambda a, b, *_: b.new_empty(b.shape),
)


def row_and_column_indices(a: Tensor) -> tuple[Tensor, Tensor]:
    rows, columns = (torch.arange(size, device=a.device) for size in a.shape[-2:])
    return rows.unsqueeze(-1), columns


def is_factorable(*arrays: Tensor) -> bool:
    sizes = [size for array in arrays for size in array.shape[-2:]]
    return all(array.dtype in DTYPES for array in arrays) and all(isinstance(size, int) for size in sizes)


def _assert_all(condition: Tensor, message: str) -> None:
    aten._assert_scalar(condition.all().item(), message)


def _lu_factor(a: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return L and U in one array, the row permutation as a column, the pivots, and the first zero pivot, from 1."""
    lu, order, pivots, info = _LU(a)
    return lu, order.unsqueeze(-1), pivots, info


def _permutation_of(pivots: Tensor, size: int) -> Tensor:
    return _ROW_ORDER(pivots, size).unsqueeze(-1)


def _sign(pivots: Tensor) -> Tensor:
    swaps = (pivots != torch.arange(1, pivots.shape[-1] + 1, device=pivots.device)).sum(-1)
    return 1 - 2 * (swaps % 2)


@decomposes(aten.linalg_lu_factor_ex.default)
def lu_factor_ex(a: Tensor, *, pivot: bool = True, check_errors: bool = False) -> Results:
    if not is_factorable(a) or not pivot:
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
    if not is_factorable(a) or not pivot:
        return NotImplemented
    lu, order, _, _ = _lu_factor(a)
    return _lu_parts(lu, order)


@decomposes(aten.lu_unpack.default)
def lu_unpack(lu: Tensor, pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True) -> Results:
    """Unpack a factorisation into P, L and U; those that are not requested are empty."""
    if not is_factorable(lu):
        return NotImplemented
    permutation, lower, upper = _lu_parts(lu, _permutation_of(pivots, lu.shape[-2]))
    none = lu.new_empty(0)
    return permutation if unpack_pivots else none, lower if unpack_data else none, upper if unpack_data else none


def _lu_parts(lu: Tensor, order: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    rows, columns = row_and_column_indices(lu)
    least = min(lu.shape[-2:])
    lower = torch.where(rows == columns, 1.0, torch.where(rows > columns, lu, 0.0))[..., :least]
    upper = torch.where(rows <= columns, lu, 0.0)[..., :least, :]
    # Row `order[i]` of the product is row i of L U.
    permutation = (order.transpose(-2, -1) == rows).to(lu.dtype)
    return permutation, lower.to(lu.dtype), upper


@decomposes(aten._linalg_det.default)
def det(a: Tensor) -> Results:
    if not is_factorable(a):
        return NotImplemented
    lu, _, pivots, _ = _lu_factor(a)
    return lu.diagonal(0, -2, -1).prod(-1) * _sign(pivots).to(a.dtype), lu, pivots


@decomposes(aten._linalg_slogdet.default)
def slogdet_ex(a: Tensor) -> Results:
    if not is_factorable(a):
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


def _solve_triangular(a: Tensor, b: Tensor, upper: bool, unit: bool, left: bool = True) -> Tensor:
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = (operand.expand(*batch, *operand.shape[-2:]) for operand in (a, b))
    return _SOLVE_TRIANGULAR(a, b, upper, left, unit)


@decomposes(aten.linalg_solve_triangular.default)
def solve_triangular(a: Tensor, b: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Results:
    return _solve_triangular(a, b, upper, unitriangular, left) if is_factorable(a, b) else NotImplemented


@decomposes(aten.triangular_solve.default)
def triangular_solve(b: Tensor, a: Tensor, upper: bool = True, transpose: bool = False, unit: bool = False) -> Results:
    if not is_factorable(a, b):
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


@decomposes(aten.linalg_solve.default)
def solve(a: Tensor, b: Tensor, *, left: bool = True) -> Results:
    result = solve_ex(a, b, left=left, check_errors=True)
    return NotImplemented if result is NotImplemented else result[0]


@decomposes(aten._linalg_solve_ex.default)
def solve_ex(a: Tensor, b: Tensor, *, left: bool = True, check_errors: bool = False) -> Results:
    if not is_factorable(a, b.unsqueeze(-1)):
        return NotImplemented
    x, lu, pivots, info = _solve(a, b, left)
    if check_errors:
        _assert_all(info == 0, "torch.linalg.solve: a matrix is singular")
    return x, lu, pivots, info


@decomposes(aten.linalg_inv_ex.default)
def inv_ex(a: Tensor, *, check_errors: bool = False) -> Results:
    if not is_factorable(a):
        return NotImplemented
    # Expanded to the batch: torch takes a right-hand side with one axis less as a batch of vectors.
    unit = torch.eye(a.shape[-1], dtype=a.dtype, device=a.device).expand(a.shape)
    x, _, _, info = _solve(a, unit, True)
    if check_errors:
        _assert_all(info == 0, "torch.linalg.inv: a matrix is singular")
    return x, info


@decomposes(aten.linalg_inv.default, aten.inverse.default)
def inv(a: Tensor) -> Results:
    result = inv_ex(a, check_errors=True)
    return NotImplemented if result is NotImplemented else result[0]


@decomposes(aten.linalg_lu_solve.default)
def lu_solve(lu: Tensor, pivots: Tensor, b: Tensor, *, left: bool = True, adjoint: bool = False) -> Results:
    if not is_factorable(lu, b):
        return NotImplemented
    order = _permutation_of(pivots, lu.shape[-1])
    # The adjoint is the transpose of the conjugate: conjugate the sides in place of the factors.
    b = b.conj() if adjoint else b
    x = _solve_factored(lu, order, b, adjoint) if left else _solve_factored(lu, order, b.mT, not adjoint).mT
    return x.conj() if adjoint else x


@decomposes(aten.linalg_cholesky_ex.default)
def cholesky_ex(a: Tensor, *, upper: bool = False, check_errors: bool = False) -> Results:
    if not is_factorable(a):
        return NotImplemented
    lower, info = _CHOLESKY(a.mH if upper else a)
    if check_errors:
        _assert_all(info == 0, "torch.linalg.cholesky: a matrix is not positive-definite")
    return (lower.mH if upper else lower), info


@decomposes(aten.linalg_cholesky.default, aten.cholesky.default)
def cholesky(a: Tensor, upper: bool = False) -> Results:
    result = cholesky_ex(a, upper=upper, check_errors=True)
    return NotImplemented if result is NotImplemented else result[0]


@decomposes(aten.cholesky_solve.default)
def cholesky_solve(b: Tensor, root: Tensor, upper: bool = False) -> Results:
    if not is_factorable(root, b):
        return NotImplemented
    lower = root.mH if upper else root
    return _solve_triangular(lower.mH, _solve_triangular(lower, b, False, False), True, False)


@decomposes(aten.cholesky_inverse.default)
def cholesky_inverse(root: Tensor, upper: bool = False) -> Results:
    return cholesky_solve(torch.eye(root.shape[-1], dtype=root.dtype, device=root.device), root, upper)
