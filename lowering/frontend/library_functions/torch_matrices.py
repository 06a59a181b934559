"""Linear algebra of torch, its recurrent cells and what is left of `torch.nn.functional`, in the kernel language.

Python never runs them. Like `torch_functions.py` they are written with NumPy's spellings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mlirtri.lowering.frontend.library_functions.linear_algebra import lu, refuse, row_order, solve
from mlirtri.lowering.frontend.library_functions.torch_losses import reduced, refuse_old


class TriangularSolution(NamedTuple):
    """The result of `torch.triangular_solve`."""

    solution: Any
    cloned_coefficient: Any


# --- matrices --------------------------------------------------------------------------------------------------------


def matrix_power(A, n):
    if n < 0:
        return matrix_power(np.linalg.inv(A), -n)
    if n == 0:
        return np.zeros(A.shape, A.dtype) + np.eye(A.shape[-1], dtype=A.dtype)
    half = matrix_power(A, n // 2) if n > 1 else A
    square = np.matmul(half, half) if n > 1 else A
    return np.matmul(square, A) if n > 1 and n % 2 else square


def multi_dot(tensors):
    result = tensors[0]
    for tensor in tensors[1:]:
        result = np.matmul(result, tensor)
    return result


def vecdot(x, y, *, dim=-1):
    return np.sum(np.conj(x) * y, axis=dim)


def diagonal(A, *, offset=0, dim1=-2, dim2=-1):
    return np.diagonal(A, offset, dim1, dim2)


def vander(x, *, N=None):
    x = x if x.ndim else x.reshape(1)
    return x[..., None] ** np.arange(x.shape[-1] if N is None else N)


class FactoredRows(NamedTuple):
    """The result of `torch.linalg.lu_factor`."""

    LU: Any
    pivots: Any


class FactoredRowsAndInfo(NamedTuple):
    """The result of `torch.linalg.lu_factor_ex`."""

    LU: Any
    pivots: Any
    info: Any


def lu_factor(A, *, pivot=True):
    if not pivot:
        refuse("it takes pivot=True alone in kernels")
    packed, _, pivots, _ = lu(A)
    return FactoredRows(packed, pivots)


def lu_factor_ex(A, *, pivot=True, check_errors=False):
    if not pivot or check_errors:
        refuse("it takes pivot=True and check_errors=False alone in kernels")
    packed, _, pivots, info = lu(A)
    return FactoredRowsAndInfo(packed, pivots, info)


def lu_solve(LU, pivots, B, *, left=True, adjoint=False):
    if not left or adjoint:
        refuse("it takes left=True and adjoint=False alone in kernels")
    order = row_order(pivots, LU.shape[-1]).astype(np.int64)
    moved = np.take_along_axis(
        np.broadcast_to(B, np.broadcast_shapes(B.shape, (*LU.shape[:-1], 1))), order[..., None], -2
    )
    return substituted(LU, substituted(LU, moved, False, True, True), True, True, False)


def old_lu_solve(b, LU_data, LU_pivots):
    return lu_solve(LU_data, LU_pivots, b)


def solve_triangular(A, B, *, upper, left=True, unitriangular=False):
    batch = np.broadcast_shapes(A.shape[:-2], B.shape[:-2])
    return substituted(A, np.broadcast_to(B, [*batch, *B.shape[-2:]]), upper, left, unitriangular)


def substituted(a, b, upper, left, unitriangular):
    """Return the solutions by substitution, of the shape of `b`."""
    if not left:
        swapped = substituted(np.swapaxes(a, -1, -2), np.swapaxes(b, -1, -2), not upper, True, unitriangular)
        return np.swapaxes(swapped, -1, -2)
    n = a.shape[-1]
    x = b.copy()
    for step in range(n):
        k = n - 1 - step if upper else step
        known = slice(k + 1, n) if upper else slice(0, k)
        row = x[..., k, :] - np.matmul(a[..., k : k + 1, known], x[..., known, :])[..., 0, :]
        x[..., k, :] = row if unitriangular else row / a[..., k, k][..., None]
    return x


def cholesky(A, *, upper=False):
    lower = np.linalg.cholesky(A)
    return np.conj(np.swapaxes(lower, -1, -2)) if upper else lower


def triangular_solve(input, A, upper=True, transpose=False, unitriangular=False):
    matrix = np.swapaxes(A, -1, -2) if transpose else A
    return TriangularSolution(solve_triangular(matrix, input, upper=upper != transpose, unitriangular=unitriangular), A)


def cholesky_solve(B, L, upper=False):
    lower = np.conj(np.swapaxes(L, -1, -2)) if upper else L
    below = solve_triangular(lower, B, upper=False)
    return solve_triangular(np.conj(np.swapaxes(lower, -1, -2)), below, upper=True)


def cholesky_inverse(L, upper=False):
    unit = np.zeros(L.shape, L.dtype) + np.eye(L.shape[-1], dtype=L.dtype)
    return cholesky_solve(unit, L, upper)


def tensorinv(A, ind=2):
    rows = A.shape[:ind]
    columns = A.shape[ind:]
    size = 1
    for extent in rows:
        size = size * extent
    return np.linalg.inv(A.reshape(size, -1)).reshape([*columns, *rows])


def tensorsolve(A, B, dims=None):
    if dims is not None:
        A = np.moveaxis(A, dims, tuple(range(A.ndim - len(dims), A.ndim)))
    return solve(A.reshape(B.reshape(-1).shape[0], -1), B.reshape(-1)).reshape(A.shape[B.ndim :])


def pinverse(input, rcond=1e-15):
    return np.linalg.pinv(input, rcond)


# --- recurrent cells -------------------------------------------------------------------------------------------------


def _gates(input, hx, w_ih, w_hh, b_ih, b_hh):
    from_input, from_state = np.matmul(input, w_ih.T), np.matmul(hx, w_hh.T)
    if b_ih is not None:
        from_input, from_state = from_input + b_ih, from_state + b_hh
    return from_input, from_state


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def rnn_tanh_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    from_input, from_state = _gates(input, hx, w_ih, w_hh, b_ih, b_hh)
    return np.tanh(from_input + from_state)


def rnn_relu_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    from_input, from_state = _gates(input, hx, w_ih, w_hh, b_ih, b_hh)
    return np.maximum(from_input + from_state, 0)


def lstm_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    state, memory = hx
    from_input, from_state = _gates(input, state, w_ih, w_hh, b_ih, b_hh)
    enter, forget, candidate, leave = np.split(from_input + from_state, 4, axis=-1)
    memory = _sigmoid(forget) * memory + _sigmoid(enter) * np.tanh(candidate)
    return _sigmoid(leave) * np.tanh(memory), memory


def gru_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    from_input, from_state = _gates(input, hx, w_ih, w_hh, b_ih, b_hh)
    reset_i, update_i, new_i = np.split(from_input, 3, axis=-1)
    reset_h, update_h, new_h = np.split(from_state, 3, axis=-1)
    update = _sigmoid(update_i + update_h)
    candidate = np.tanh(new_i + _sigmoid(reset_i + reset_h) * new_h)
    return (1 - update) * candidate + update * hx


# --- networks --------------------------------------------------------------------------------------------------------


def bilinear(input1, input2, weight, bias=None):
    left = np.matmul(input1.reshape(-1, input1.shape[-1]), weight.transpose(0, 1).reshape(input1.shape[-1], -1))
    left = left.reshape(-1, weight.shape[0], weight.shape[2])
    result = np.matmul(left, input2.reshape(-1, input2.shape[-1], 1)).reshape([*input1.shape[:-1], weight.shape[0]])
    return result if bias is None else result + bias


def multi_margin_loss(input, target, p=1, margin=1.0, weight=None, size_average=None, reduce=None, reduction="mean"):
    refuse_old(size_average, reduce)
    x = input if input.ndim == 2 else input.reshape(1, -1)
    classes = target.reshape(-1, 1)
    own = np.take_along_axis(x, classes, axis=1)
    parts = np.maximum(margin - own + x, 0) ** p
    parts = parts if weight is None else parts * weight[classes]
    is_other = np.arange(x.shape[1]) != classes
    loss = np.sum(np.where(is_other, parts, 0), axis=1) / x.shape[1]
    return reduced(loss if input.ndim == 2 else loss[0], reduction)


def multilabel_soft_margin_loss(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    refuse_old(size_average, reduce)
    positive = np.minimum(input, 0) - np.log1p(np.exp(-np.abs(input)))
    loss = -(target * positive + (1 - target) * (positive - input))
    loss = loss if weight is None else loss * weight
    return reduced(np.sum(loss, axis=-1) / input.shape[-1], reduction)


def lp_pool1d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    if ceil_mode:
        refuse("ceil_mode=True is not supported: pad before")
    size = kernel_size[0] if isinstance(kernel_size, (tuple, list)) else kernel_size
    step = stride[0] if isinstance(stride, (tuple, list)) else stride or size
    windows = np.lib.stride_tricks.sliding_window_view(input, size, axis=-1)[..., ::step, :]
    return np.sum(windows**norm_type, axis=-1) ** (1.0 / norm_type)


def embedding_bag(
    input, weight, offsets=None, max_norm=None, norm_type=2, scale_grad_by_freq=False, mode="mean", sparse=False,
    per_sample_weights=None, include_last_offset=False, padding_idx=None,
):  # fmt: skip
    if offsets is not None or input.ndim != 2 or max_norm is not None or padding_idx is not None:
        refuse("it takes bags of one length, as rows of a matrix, without max_norm= and padding_idx=")
    rows = weight[input]
    if per_sample_weights is not None:
        rows = rows * per_sample_weights[..., None]
    if mode == "sum":
        return np.sum(rows, axis=1)
    return np.mean(rows, axis=1) if mode == "mean" else np.max(rows, axis=1)


_OF_LINALG: tuple[Callable[..., Any], ...] = (
    cholesky, matrix_power, multi_dot, vecdot, diagonal, vander, solve_triangular, tensorinv, tensorsolve,
    lu_factor, lu_factor_ex, lu_solve,
)  # fmt: skip
_NAMED: tuple[Callable[..., Any], ...] = (
    matrix_power, cholesky_solve, cholesky_inverse, triangular_solve, pinverse, rnn_tanh_cell, rnn_relu_cell,
    lstm_cell, gru_cell,
)  # fmt: skip
_OF_NETWORKS: tuple[Callable[..., Any], ...] = (
    bilinear, multi_margin_loss, multilabel_soft_margin_loss, lp_pool1d, embedding_bag,
)  # fmt: skip
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "torch.lu_solve": old_lu_solve,
    "numpy.linalg.matrix_power": lambda a, n: matrix_power(a if a.dtype.is_inexact else a.astype(np.float64), n),
    **{f"torch.linalg.{function.__name__}": function for function in _OF_LINALG},
    **{f"torch.{function.__name__}": function for function in _NAMED},
    **{f"torch.nn.functional.{function.__name__}": function for function in _OF_NETWORKS},
}
"""Inlined functions of torch by qualified name."""
METHODS: dict[str, Callable[..., Any]] = {
    "matrix_power": matrix_power,
    "cholesky_solve": cholesky_solve,
    "cholesky_inverse": cholesky_inverse,
    "triangular_solve": triangular_solve,
    "pinverse": pinverse,
}
"""Inlined methods of tensors by name; each takes the tensor first."""
