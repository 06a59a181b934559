"""Factorizations and solutions of systems, which torch-mlir has no lowering for, as loops over columns.

The algorithms are the unblocked ones of LAPACK, xGETF2, xPOTF2, xGEQR2 and xTRSV, on whole arrays: each turn of a loop
changes what its column says, of all matrices of a stack at once. Of real floats; the rest is left to be refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._higher_order_ops.while_loop import while_loop_op

from mlirtri.lowering.importers.from_torch.decompositions.rules import decomposes

aten = torch.ops.aten
Tensor = torch.Tensor


def _turns(count: int, step: Callable[..., Sequence[Tensor]], carried: Sequence[Tensor], *fixed: Tensor) -> Any:
    """``step(k, *carried, *fixed)`` for k from 0, which gives what is carried on."""

    def goes_on(k: Tensor, *values: Tensor) -> Tensor:
        return k < count

    def turn(k: Tensor, *values: Tensor) -> tuple[Tensor, ...]:
        return k + 1, *step(k, *values)

    start = torch.zeros((), dtype=torch.int64, device=carried[0].device)
    return while_loop_op(goes_on, turn, (start, *carried), fixed)[1:]


def _row(a: Tensor, k: Tensor) -> Tensor:
    return a.index_select(-2, k.reshape(1))


def _column(a: Tensor, k: Tensor) -> Tensor:
    return a.index_select(-1, k.reshape(1))


def _places(a: Tensor) -> tuple[Tensor, Tensor]:
    """The numbers of the rows, as a column, and of the columns, as a row."""
    rows, columns = (torch.arange(size, device=a.device) for size in a.shape[-2:])
    return rows.unsqueeze(-1), columns


def _is_taken(*arrays: Tensor) -> bool:
    """Whether these are real floats with matrices of known sizes that are not empty."""
    sizes = [size for each in arrays for size in each.shape[-2:]]
    if any(type(size) is int and size == 0 for each in arrays for size in each.shape):
        return False
    return all(each.dtype in (torch.float32, torch.float64) for each in arrays) and all(
        isinstance(size, int) and size > 0 for size in sizes
    )


def _refuse_unless(truth: Tensor, message: str) -> None:
    aten._assert_scalar(truth.all().item(), message)


# --- LU ------------------------------------------------------------------------------------------------------------


def _factored(a: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """L and U in one array, the order of the rows as a column, the pivots from 1, and the first that is zero from 1."""
    rows, _ = _places(a)
    batch, turns = a.shape[:-2], min(a.shape[-2:])
    order = rows.expand(*batch, a.shape[-2], 1).contiguous()
    pivots = torch.zeros((*batch, turns, 1), dtype=torch.int64, device=a.device)
    info = torch.zeros((*batch, 1, 1), dtype=torch.int64, device=a.device)
    lu, order, pivots, info = _turns(turns, _eliminate, (a.contiguous(), order, pivots, info))
    return lu, order, pivots[..., 0].to(torch.int32), info[..., 0, 0].to(torch.int32)


def _eliminate(k: Tensor, a: Tensor, order: Tensor, pivots: Tensor, info: Tensor) -> Sequence[Tensor]:
    rows, columns = _places(a)
    column = _column(a, k)
    place = torch.where(rows >= k, column.abs(), -1.0).argmax(-2, keepdim=True)
    swapped = torch.where(rows == k, place, torch.where(rows == place, k, rows))
    a = a.gather(-2, swapped.expand(a.shape))
    pivot = column.gather(-2, place)
    column = column.gather(-2, swapped)
    is_below = (rows > k) & (pivot != 0)
    column = torch.where(is_below, column / pivot, column)
    a = torch.where(is_below & (columns > k), a - column * _row(a, k), torch.where(columns == k, column, a))
    number = torch.arange(pivots.shape[-2], device=a.device).unsqueeze(-1)
    pivots = torch.where(number == k, place + 1, pivots)
    return a, order.gather(-2, swapped), pivots, torch.where((info == 0) & (pivot == 0), k + 1, info)


def _order_of(pivots: Tensor, size: int) -> Tensor:
    """The order of the rows that swaps in turn come to, as a column."""
    rows = torch.arange(size, device=pivots.device).unsqueeze(-1)
    order = rows.expand(*pivots.shape[:-1], size, 1).contiguous()
    [order] = _turns(pivots.shape[-1], _swap, (order,), pivots.long().unsqueeze(-1))
    return order


def _swap(k: Tensor, order: Tensor, pivots: Tensor) -> Sequence[Tensor]:
    rows, _ = _places(order)
    place = _row(pivots, k) - 1
    swapped = torch.where(rows == k, place, torch.where(rows == place, k, rows))
    return (order.gather(-2, swapped),)


def _sign(pivots: Tensor) -> Tensor:
    swaps = (pivots != torch.arange(1, pivots.shape[-1] + 1, device=pivots.device)).sum(-1)
    return 1 - 2 * (swaps % 2)


@decomposes(aten.linalg_lu_factor_ex.default)
def factor_ex(a: Tensor, *, pivot: bool = True, check_errors: bool = False) -> Any:
    if not _is_taken(a) or not pivot:
        return NotImplemented
    lu, _, pivots, info = _factored(a)
    if check_errors:
        _refuse_unless(info == 0, "torch.linalg.lu_factor: a matrix is singular")
    return lu, pivots, info


@decomposes(aten.linalg_lu_factor.default)
def factor(a: Tensor, *, pivot: bool = True) -> Any:
    found = factor_ex(a, pivot=pivot, check_errors=True)
    return NotImplemented if found is NotImplemented else found[:2]


@decomposes(aten.linalg_lu.default)
def unpacked(a: Tensor, *, pivot: bool = True) -> Any:
    """P, L and U."""
    if not _is_taken(a) or not pivot:
        return NotImplemented
    lu, order, _, _ = _factored(a)
    return _parts(lu, order)


@decomposes(aten.lu_unpack.default)
def unpack(lu: Tensor, pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True) -> Any:
    """P, L and U; those that are not asked for are empty."""
    if not _is_taken(lu):
        return NotImplemented
    permutation, lower, upper = _parts(lu, _order_of(pivots, lu.shape[-2]))
    none = lu.new_empty(0)
    return permutation if unpack_pivots else none, lower if unpack_data else none, upper if unpack_data else none


def _parts(lu: Tensor, order: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    rows, columns = _places(lu)
    least = min(lu.shape[-2:])
    lower = torch.where(rows == columns, 1.0, torch.where(rows > columns, lu, 0.0))[..., :least]
    upper = torch.where(rows <= columns, lu, 0.0)[..., :least, :]
    # Row `order[i]` of the product is row i of L U.
    permutation = (order.transpose(-2, -1) == rows).to(lu.dtype)
    return permutation, lower.to(lu.dtype), upper


@decomposes(aten._linalg_det.default)
def determinant(a: Tensor) -> Any:
    if not _is_taken(a):
        return NotImplemented
    lu, _, pivots, _ = _factored(a)
    return lu.diagonal(0, -2, -1).prod(-1) * _sign(pivots).to(a.dtype), lu, pivots


@decomposes(aten._linalg_slogdet.default)
def sign_and_logarithm(a: Tensor) -> Any:
    if not _is_taken(a):
        return NotImplemented
    lu, _, pivots, _ = _factored(a)
    diagonal = lu.diagonal(0, -2, -1)
    sign = torch.sgn(diagonal).prod(-1) * _sign(pivots).to(a.dtype)
    return sign, diagonal.abs().log().sum(-1), lu, pivots


@decomposes(aten.linalg_slogdet.default)
def sign_and_logarithm_alone(a: Tensor) -> Any:
    """What torch-mlir makes of this does not swap rows."""
    found = sign_and_logarithm(a)
    return NotImplemented if found is NotImplemented else found[:2]


# --- triangles -----------------------------------------------------------------------------------------------------


def _triangle(a: Tensor, b: Tensor, upper: bool, unit: bool) -> Tensor:
    """X of A X = B, of a triangular A."""
    size = a.shape[-1]

    def step(k: Tensor, x: Tensor, a: Tensor) -> Sequence[Tensor]:
        k = size - 1 - k if upper else k
        rows, _ = _places(x)
        column = _column(a, k)
        row = _row(x, k) if unit else _row(x, k) / _row(column, k)
        rest = rows < k if upper else rows > k
        return (torch.where(rows == k, row, torch.where(rest, x - column * row, x)),)

    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    x = b.expand(*batch, *b.shape[-2:]).contiguous()
    [x] = _turns(size, step, (x,), a.expand(*batch, *a.shape[-2:]).contiguous())
    return x


@decomposes(aten.linalg_solve_triangular.default)
def solved_triangle(a: Tensor, b: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Any:
    if not _is_taken(a, b):
        return NotImplemented
    if left:
        return _triangle(a, b, upper, unitriangular)
    return _triangle(a.mT, b.mT, not upper, unitriangular).mT


@decomposes(aten.triangular_solve.default)
def solved_triangle_of(b: Tensor, a: Tensor, upper: bool = True, transpose: bool = False, unit: bool = False) -> Any:
    if not _is_taken(a, b):
        return NotImplemented
    x = _triangle(a.mT, b, not upper, unit) if transpose else _triangle(a, b, upper, unit)
    return x, a.clone()


# --- systems -------------------------------------------------------------------------------------------------------


def _of_factors(lu: Tensor, order: Tensor, b: Tensor, transposed: bool) -> Tensor:
    """X of A X = B, or of its transposed; the rows of A in their order are L U."""
    batch = torch.broadcast_shapes(lu.shape[:-2], b.shape[:-2])
    b, order = b.expand(*batch, *b.shape[-2:]), order.expand(*batch, *order.shape[-2:])
    if not transposed:
        y = _triangle(lu, b.gather(-2, order.expand(b.shape)), False, True)
        return _triangle(lu, y, True, False)
    y = _triangle(lu.mT, _triangle(lu.mT, b, False, False), True, True)
    return y.gather(-2, order.argsort(-2).expand(b.shape))


def _solution(a: Tensor, b: Tensor, left: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """X of A X = B, or of X A = B, with the factors of A."""
    lu, order, pivots, info = _factored(a)
    is_vector = b.dim() == 1 or (a.dim() - 1 == b.dim() and b.shape == a.shape[:-1])
    b = b.unsqueeze(-1) if is_vector else b
    x = _of_factors(lu, order, b, False) if left else _of_factors(lu, order, b.mT, True).mT
    return x.squeeze(-1) if is_vector else x, lu, pivots, info


def _in_reals(a: Tensor) -> Tensor:
    """The real matrix that is to both parts of a vector, one behind the other, what `a` is to the vector."""
    return torch.cat([torch.cat([a.real, -a.imag], -1), torch.cat([a.imag, a.real], -1)], -2)


def _of_reals(x: Tensor) -> Tensor:
    half = x.shape[-2] // 2
    return torch.complex(x[..., :half, :], x[..., half:, :])


@decomposes(aten.linalg_solve.default)
def solved(a: Tensor, b: Tensor, *, left: bool = True) -> Any:
    if a.is_complex() and b.is_complex() and left:
        is_vector = b.dim() == 1 or (a.dim() - 1 == b.dim() and b.shape == a.shape[:-1])
        b = b.unsqueeze(-1) if is_vector else b
        found = solved_ex(_in_reals(a), torch.cat([b.real, b.imag], -2), check_errors=True)
        if found is NotImplemented:
            return found
        return _of_reals(found[0]).squeeze(-1) if is_vector else _of_reals(found[0])
    found = solved_ex(a, b, left=left, check_errors=True)
    return NotImplemented if found is NotImplemented else found[0]


@decomposes(aten._linalg_solve_ex.default)
def solved_ex(a: Tensor, b: Tensor, *, left: bool = True, check_errors: bool = False) -> Any:
    if not _is_taken(a, b.unsqueeze(-1)):
        return NotImplemented
    x, lu, pivots, info = _solution(a, b, left)
    if check_errors:
        _refuse_unless(info == 0, "torch.linalg.solve: a matrix is singular")
    return x, lu, pivots, info


@decomposes(aten.linalg_inv_ex.default)
def inverse_ex(a: Tensor, *, check_errors: bool = False) -> Any:
    if type(a.shape[0]) is int and a.shape[0] == 0:
        return a.clone(), torch.zeros(a.shape[:-2], dtype=torch.int32, device=a.device)
    if not _is_taken(a):
        return NotImplemented
    # As many as there are matrices: else it might be taken for a vector of each.
    unit = torch.eye(a.shape[-1], dtype=a.dtype, device=a.device).expand(a.shape)
    x, _, _, info = _solution(a, unit, True)
    if check_errors:
        _refuse_unless(info == 0, "torch.linalg.inv: a matrix is singular")
    return x, info


@decomposes(aten.linalg_inv.default, aten.inverse.default)
def inverse(a: Tensor) -> Any:
    found = inverse_ex(_in_reals(a) if a.is_complex() else a, check_errors=True)
    if found is NotImplemented:
        return found
    return _of_reals(found[0][..., : a.shape[-1]]) if a.is_complex() else found[0]


@decomposes(aten.linalg_lu_solve.default)
def solved_by_factors(lu: Tensor, pivots: Tensor, b: Tensor, *, left: bool = True, adjoint: bool = False) -> Any:
    if not _is_taken(lu, b):
        return NotImplemented
    order = _order_of(pivots, lu.shape[-1])
    return _of_factors(lu, order, b, adjoint) if left else _of_factors(lu, order, b.mT, not adjoint).mT


# --- Cholesky ------------------------------------------------------------------------------------------------------


def _root(k: Tensor, a: Tensor, info: Tensor) -> Sequence[Tensor]:
    rows, columns = _places(a)
    column = _column(a, k)
    square = _row(column, k)
    is_positive = square > 0
    pivot = torch.where(is_positive, square, 1.0).sqrt()
    column = torch.where(rows > k, column / pivot, torch.where(rows == k, pivot, 0.0))
    a = torch.where((rows > k) & (columns > k), a - column * column.mT, torch.where(columns == k, column, a))
    return a, torch.where((info == 0) & ~is_positive, k + 1, info)


@decomposes(aten.linalg_cholesky_ex.default)
def cholesky_ex(a: Tensor, *, upper: bool = False, check_errors: bool = False) -> Any:
    if not _is_taken(a):
        return NotImplemented
    info = torch.zeros((*a.shape[:-2], 1, 1), dtype=torch.int64, device=a.device)
    lower, info = _turns(a.shape[-1], _root, ((a.mT if upper else a).contiguous(), info))
    if check_errors:
        _refuse_unless(info == 0, "torch.linalg.cholesky: a matrix is not positive-definite")
    return (lower.tril().mT if upper else lower.tril()), info[..., 0, 0].to(torch.int32)


@decomposes(aten.linalg_cholesky.default, aten.cholesky.default)
def cholesky(a: Tensor, upper: bool = False) -> Any:
    found = cholesky_ex(a, upper=upper, check_errors=True)
    return NotImplemented if found is NotImplemented else found[0]


@decomposes(aten.cholesky_solve.default)
def solved_by_root(b: Tensor, root: Tensor, upper: bool = False) -> Any:
    if not _is_taken(root, b):
        return NotImplemented
    lower = root.mT if upper else root
    return _triangle(lower.mT, _triangle(lower, b, False, False), True, False)


@decomposes(aten.cholesky_inverse.default)
def inverse_by_root(root: Tensor, upper: bool = False) -> Any:
    return solved_by_root(torch.eye(root.shape[-1], dtype=root.dtype, device=root.device), root, upper)


# --- QR ------------------------------------------------------------------------------------------------------------


def _reflect(k: Tensor, r: Tensor, q: Tensor) -> Sequence[Tensor]:
    rows, _ = _places(r)
    column = _column(r, k)
    first = _row(column, k)
    below = torch.where(rows > k, column, 0.0)
    scale = torch.where(rows >= k, column, 0.0).abs().amax(-2, keepdim=True)
    scale = torch.where(scale == 0, 1.0, scale)
    length = scale * (torch.where(rows >= k, column / scale, 0.0) ** 2).sum(-2, keepdim=True).sqrt()
    is_done = (below == 0).all(-2, keepdim=True)
    turned = torch.where(is_done, 1.0, -torch.copysign(length, first))
    vector = torch.where(rows == k, 1.0, below / torch.where(is_done, 1.0, first - turned)).to(r.dtype)
    factor = torch.where(is_done, 0.0, (turned - first) / turned).to(r.dtype)
    r = r - factor * vector * (vector * r).sum(-2, keepdim=True)
    return r, q - factor * (q * vector.mT).sum(-1, keepdim=True) * vector.mT


@decomposes(aten.linalg_qr.default)
def orthogonal(a: Tensor, mode: str = "reduced") -> Any:
    if not _is_taken(a):
        return NotImplemented
    rows, columns = a.shape[-2:]
    least = min(rows, columns)
    q = torch.eye(rows, dtype=a.dtype, device=a.device).expand(*a.shape[:-2], rows, rows).contiguous()
    r, q = _turns(least, _reflect, (a.contiguous(), q))
    if mode == "complete":
        return q, r.triu()
    return a.new_empty(0) if mode == "r" else q[..., :least], r[..., :least, :].triu()
