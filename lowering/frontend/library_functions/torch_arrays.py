"""Arrays and statistics of torch that few programs use, in the kernel language, and other names of its functions.

Python never runs them. Like `torch_functions.py` they are written with NumPy's spellings.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mlirtri.lowering.frontend.library_functions import torch_functions, torch_losses, torch_matrices
from mlirtri.lowering.frontend.library_functions.linear_algebra import (
    cholesky,
    det,
    factored,
    inv,
    refuse,
    torch_solve,
)
from mlirtri.lowering.frontend.library_functions.matrix_factors import logdet, slogdet, svd, torch_qr


class Mode(NamedTuple):
    """The result of `torch.mode` and of `torch.nanmedian` along a dimension."""

    values: Any
    indices: Any


class Histogram(NamedTuple):
    """The result of `torch.histogram`."""

    hist: Any
    bin_edges: Any


class Result(NamedTuple):
    """The result of a function of `torch.linalg` that reports what went wrong instead of raising."""

    result: Any
    info: Any


class Factors(NamedTuple):
    """The result of `torch.linalg.lu`."""

    P: Any
    L: Any
    U: Any


# --- arrays ----------------------------------------------------------------------------------------------------------


def tril_indices(row, col, offset=0, *, dtype=None):
    return np.stack(np.tril_indices(row, offset, col)).astype(np.int64 if dtype is None else dtype)


def triu_indices(row, col, offset=0, *, dtype=None):
    return np.stack(np.triu_indices(row, offset, col)).astype(np.int64 if dtype is None else dtype)


def block_diag(*tensors):
    blocks = [x.reshape(1, -1) if x.ndim < 2 else x for x in tensors]
    dtype = np.concatenate([x.reshape(-1) for x in blocks]).dtype
    total = np.zeros((sum([x.shape[0] for x in blocks]), sum([x.shape[1] for x in blocks])), dtype)
    row, column = 0, 0
    for x in blocks:
        total[row : row + x.shape[0], column : column + x.shape[1]] = x
        row, column = row + x.shape[0], column + x.shape[1]
    return total


def broadcast_tensors(*tensors):
    return np.broadcast_arrays(*tensors)


def unravel_index(indices, shape):
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    parts, rest = [], indices
    for size in reversed(sizes):
        parts = [rest % size, *parts]
        rest = rest // size
    return tuple(parts)


def vander(x, N=None, increasing=False):
    if N is not None and N < 0:
        refuse("N= is 0 or more")
    powers = np.arange(x.shape[0] if N is None else N)
    return x[:, None] ** (powers if increasing else np.flip(powers))


def fill(input, value):
    if np.ndim(value) != 0:
        refuse("the value is a number, or a tensor of rank 0")
    return np.zeros(input.shape, input.dtype) + np.asarray(value).astype(input.dtype)


def put(input, index, source, accumulate=False):
    result = input.reshape(-1).copy()
    if accumulate:
        np.add.at(result, index.reshape(-1), source.reshape(-1))
    else:
        result[index.reshape(-1)] = source.reshape(-1)
    return result.reshape(input.shape)


def diagonal_scatter(input, src, offset=0, dim1=0, dim2=1):
    result = input.copy()
    diagonal = np.diagonal(result, offset, dim1, dim2)
    diagonal[...] = src
    return result


def sum_to_size(self, *size):
    shape = size[0] if len(size) == 1 and isinstance(size[0], (tuple, list)) else size
    extra = self.ndim - len(shape)
    axes = tuple([i for i in range(self.ndim) if i < extra or (shape[i - extra] == 1 and self.shape[i] != 1)])
    return np.sum(self, axis=axes).reshape(shape) if axes else self.reshape(shape)


def gradient(input, *, spacing=1, dim=None, edge_order: Any = 1):
    if not isinstance(spacing, (int, float)):
        refuse("spacing= is a number")
    axes = tuple(range(input.ndim)) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    return tuple([np.gradient(input, spacing, axis=axis, edge_order=edge_order) for axis in axes])


def kaiser_window(window_length, periodic=True, beta=12.0, *, dtype=None):
    return _cut(np.kaiser(_points(window_length, periodic), beta), window_length, dtype)


def hamming_window(window_length, periodic=True, alpha=0.54, beta=0.46, *, dtype=None):
    count = _points(window_length, periodic)
    values = alpha - beta * np.cos(2 * math.pi * np.arange(count, dtype=np.float64) / max(count - 1, 1))
    return _cut(values if count > 1 else np.ones(count), window_length, dtype)


def _window_of(values: Callable[..., Any]) -> Callable[..., Any]:
    def window(window_length, periodic=True, *, dtype=None):
        return _cut(values(_points(window_length, periodic)), window_length, dtype)

    return window


def _points(window_length, periodic):
    if window_length < 0:
        refuse("the length of a window is 0 or more")
    return window_length + 1 if periodic and window_length > 1 else window_length


def _cut(values, window_length, dtype):
    return values[:window_length].astype(np.float32 if dtype is None else dtype)


# --- statistics ------------------------------------------------------------------------------------------------------


def mode(input, dim=-1, keepdim=False):
    x = np.moveaxis(input.reshape(1) if input.ndim == 0 else input, dim if input.ndim else 0, -1)
    ordered = np.sort(x, axis=-1)
    counts = np.sum(x[..., :, None] == ordered[..., None, :], axis=-2)
    # The smallest of the most frequent ones; torch gives its last position.
    first = np.argmax(counts, axis=-1)[..., None]
    values = np.take_along_axis(ordered, first, -1)
    indices = x.shape[-1] - 1 - np.argmax(np.flip(x == values, -1).astype(np.int8), axis=-1)[..., None]
    if keepdim and input.ndim:
        return Mode(np.moveaxis(values, -1, dim), np.moveaxis(indices, -1, dim))
    shape = input.shape if input.ndim == 0 else values.shape[:-1]
    return Mode(values.reshape(shape), indices.reshape(shape))


def nanmedian(input, dim=None, keepdim=False):
    x = input.reshape(-1) if dim is None else np.moveaxis(input, dim, -1)
    order = np.argsort(x, axis=-1, kind="stable")
    counts = np.sum(~np.isnan(x) if x.dtype.is_float else np.ones(x.shape, np.bool_), axis=-1)[..., None]
    indices = np.take_along_axis(order, np.maximum(counts - 1, 0) // 2, -1)
    values = np.take_along_axis(x, indices, -1)
    if dim is None:
        return values.reshape([])
    if keepdim:
        return Mode(np.moveaxis(values, -1, dim), np.moveaxis(indices, -1, dim))
    return Mode(values[..., 0], indices[..., 0])


def histogram(input, bins, *, range=None, weight=None, density=False):  # noqa: A002 - torch's name
    if not isinstance(bins, int) or range is None:
        refuse("it takes a number of bins, and range=")
    counts, edges = np.histogram(input, bins, range, density, weight)
    return Histogram(counts.astype(input.dtype), edges.astype(input.dtype))


# --- networks --------------------------------------------------------------------------------------------------------


def embedding(weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    return weight[indices]


def dropout(input, p, train):
    if train:
        refuse("it draws random numbers: leave it out, or pass the mask as an argument")
    return input.copy()


def group_norm(input, num_groups, weight=None, bias=None, eps=1e-05, cudnn_enabled=True):
    return torch_losses.group_norm(input, num_groups, weight, bias, eps)


def batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled):
    return torch_losses.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


def instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, cudnn_enabled):
    return torch_losses.instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


def lp_pool2d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    sizes = (kernel_size, kernel_size) if isinstance(kernel_size, int) else tuple(kernel_size)
    steps = sizes if stride is None else (stride, stride) if isinstance(stride, int) else tuple(stride)
    if ceil_mode:
        refuse("ceil_mode=True")
    windows = np.lib.stride_tricks.sliding_window_view(input, sizes, (-2, -1))[..., :: steps[0], :: steps[1], :, :]
    return np.sum(windows**norm_type, axis=(-2, -1)) ** (1.0 / norm_type)


# --- linear algebra --------------------------------------------------------------------------------------------------


def no_error(input):
    return np.zeros(input.shape[:-2], np.int32)


def inv_ex(A, *, check_errors=False):
    return Result(inv(A), no_error(A))


def cholesky_ex(A, *, upper=False, check_errors=False):
    lower = cholesky(A)
    return Result(np.conj(np.swapaxes(lower, -1, -2)) if upper else lower, no_error(A))


def solve_ex(A, B, *, left=True, check_errors=False):
    return Result(torch_solve(A, B, left=left), no_error(A))


def old_cholesky(input, upper=False):
    return cholesky_ex(input, upper=upper)[0]


def lu(A, *, pivot=True):
    if A.ndim != 2 or A.shape[0] != A.shape[1] or not pivot:
        refuse("it takes one square matrix, with pivoting")
    packed = A.copy()
    order, _, _ = factored(packed)
    n = A.shape[0]
    identity = np.eye(n, dtype=A.dtype)
    # Row `order[i]` of the matrix became row i.
    return Factors(identity[:, order], np.tril(packed, -1) + identity, np.triu(packed))


def old_svd(input, some=True, compute_uv=True):
    u, s, vh = svd(input, full_matrices=not some)
    return u, s, np.conj(np.swapaxes(vh, -1, -2))


def old_qr(input, some=True):
    return torch_qr(input, "reduced" if some else "complete")


def matrix_exp(A):
    if A.ndim > 2:
        flat = A.reshape(-1, A.shape[-2], A.shape[-1])
        results = np.zeros_like(flat)
        for i in range(flat.shape[0]):
            results[i] = matrix_exp(flat[i])
        return results.reshape(A.shape)
    # Scale until the series converges in a few terms, and square the result as often.
    wide = A.astype(np.complex128 if A.dtype.is_complex else np.float64)
    halvings = 0
    while np.max(np.sum(np.abs(wide), axis=0), initial=0.0) > 0.5:
        wide, halvings = wide * 0.5, halvings + 1
    total = np.eye(A.shape[0], dtype=wide.dtype)
    term = np.eye(A.shape[0], dtype=wide.dtype)
    for k in range(1, 18):
        term = term @ wide / k
        total = total + term
    for _ in range(halvings):
        total = total @ total
    return total.astype(A.dtype)


_NAMED: tuple[Callable[..., Any], ...] = (
    tril_indices, triu_indices, block_diag, broadcast_tensors, unravel_index, vander, fill, put, diagonal_scatter,
    gradient, hamming_window, kaiser_window, mode, nanmedian, matrix_exp, histogram, embedding, dropout,
    group_norm, batch_norm, instance_norm,
)  # fmt: skip
_OF_LINALG: tuple[Callable[..., Any], ...] = (inv_ex, cholesky_ex, solve_ex, lu, matrix_exp)
_OLD = {"cholesky": old_cholesky, "qr": old_qr, "svd": old_svd}
"""Names outside of `torch.linalg`, whose results have another form."""
FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{f"torch.{function.__name__}": function for function in _NAMED},
    **{f"torch.linalg.{function.__name__}": function for function in _OF_LINALG},
    **{f"torch.{name}": function for name, function in _OLD.items()},
    "torch.hann_window": _window_of(np.hanning),
    "torch.blackman_window": _window_of(np.blackman),
    "torch.bartlett_window": _window_of(np.bartlett),
    "torch.chain_matmul": lambda *matrices: torch_matrices.multi_dot(matrices),
    "torch.special.logit": torch_functions.logit,
    "torch.special.xlogy": torch_functions.xlogy,
    "torch.nn.functional.lp_pool2d": lp_pool2d,
}
"""Inlined functions of torch by qualified name."""
METHODS: dict[str, Callable[..., Any]] = {
    **{function.__name__: function for function in (put, diagonal_scatter, mode, nanmedian, matrix_exp, sum_to_size)},
    **{function.__name__: function for function in (det, logdet, slogdet)},
    **_OLD,
    "inverse": inv,
}
"""Inlined methods of tensors by name; each takes the tensor first."""
