"""Functions of torch on tensors in the kernel language: composed arithmetic, distances, scatters.

Python never runs them. Each is the documented meaning of torch's function of that name. They are written with NumPy's
spellings, which have torch's dtypes in a kernel with torch's semantics, so that torch need not be loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mlirtri.dialect.spellings.torch_api.elementwise import ValuesAndIndices
from mlirtri.lowering.frontend.library_functions.linear_algebra import refuse
from mlirtri.lowering.special_functions import definitions

# --- arithmetic ------------------------------------------------------------------------------------------------------


def addcmul(input, tensor1, tensor2, *, value=1):
    return input + value * tensor1 * tensor2


def addcdiv(input, tensor1, tensor2, *, value=1):
    return input + value * (tensor1 / tensor2)


def lerp(input, end, weight):
    # The form that is exact at both ends.
    return np.where(np.abs(weight) < 0.5, input + weight * (end - input), end - (end - input) * (1 - weight))


def rsub(input, other, *, alpha=1):
    return other - alpha * input


def addmv(input, mat, vec, *, beta=1, alpha=1):
    return _scaled(input, beta) + _scaled(np.matmul(mat, vec), alpha)


def _scaled(x, factor):
    """Return a multiple in the dtype of `x`: of integers by the whole part of a factor."""
    return x * (int(factor) if x.dtype.is_integer else factor)


def addr(input, vec1, vec2, *, beta=1, alpha=1):
    product = np.outer(vec1, vec2)
    if input.dtype.name == "bool" and product.dtype.name == "bool":
        if beta not in (False, True) or alpha not in (False, True):
            refuse("beta= and alpha= of bools are 0 or 1")
        return (input & bool(beta)) | (product & bool(alpha))
    # NaN that is multiplied by 0 is not the result's.
    return (np.zeros_like(input) if beta == 0 else beta * input) + alpha * product


def addbmm(input, batch1, batch2, *, beta=1, alpha=1):
    product = np.sum(np.matmul(batch1, batch2), axis=0).astype(batch1.dtype)
    return _scaled(input, beta) + _scaled(product, alpha)


def logit(input, eps=None):
    x = input if eps is None else np.clip(input, eps, 1 - eps)
    return np.log(x / (1 - x))


def xlogy(input, other):
    return definitions.times_logarithm(np, input, other, np.log(other))


def hardshrink(input, lambd=0.5):
    return np.where((input >= -lambd) & (input <= lambd), 0, input)


def softshrink(input, lambd=0.5):
    return np.where(input > lambd, input - lambd, np.where(input < -lambd, input + lambd, input * 0))


def threshold(input, threshold, value, inplace=False):
    return np.where(input <= threshold, value, input)


def celu(input, alpha=1.0, inplace=False):
    return np.where(input > 0, input, alpha * np.expm1(input / alpha))


def selu(input, inplace=False):
    alpha, scale = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
    return scale * np.where(input > 0, input, alpha * np.expm1(input))


def rrelu(input, lower=0.125, upper=1.0 / 3, training=False, inplace=False):
    if training:
        refuse("rrelu draws its slopes at random in training")
    return np.where(input > 0, input, input * ((lower + upper) / 2))


def prelu(input, weight):
    slope = (
        weight if input.ndim < 2 or weight.reshape(-1).shape[0] == 1 else weight.reshape([-1] + [1] * (input.ndim - 2))
    )
    return np.where(input > 0, input, slope * input)


def hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False):
    if input.dtype.is_integer:
        return np.clip(input, int(min_val), int(max_val))
    return np.clip(input, min_val, max_val)


def hardsigmoid(input, inplace=False):
    return np.clip(input + 3, 0, 6) / 6


def hardswish(input, inplace=False):
    return input * np.clip(input + 3, 0, 6) / 6


def mish(input, inplace=False):
    # tanh(log(1 + e)) of e = exp(x), without overflow.
    e = np.exp(-np.abs(input))
    ratio = np.where(input > 0, (1 + 2 * e) / (1 + 2 * e + 2 * e * e), (e * e + 2 * e) / (e * e + 2 * e + 2))
    return input * ratio


def softsign(input):
    return input / (1 + np.abs(input))


def tanhshrink(input):
    return input - np.tanh(input)


def glu(input, dim=-1):
    half = input.shape[dim] // 2
    if input.shape[dim] % 2:
        refuse("it halves an axis of an even size")
    moved = np.moveaxis(input, dim, -1)
    return np.moveaxis(moved[..., :half] / (1 + np.exp(-moved[..., half:])), -1, dim)


def is_half(x):
    """Return whether torch computes functions of a tensor in float32 and rounds the result."""
    return x.dtype.is_float and x.dtype.bits == 16


# --- distances -------------------------------------------------------------------------------------------------------


def norm_of(x, p, axis, keepdims=False):
    """Return the norm of vectors along an axis, of halves computed in float32 and rounded once."""
    if is_half(x):
        return norm_of(x.astype(np.float32), p, axis, keepdims).astype(x.dtype)
    x = np.abs(x)
    if p == 2:
        return np.sqrt(np.sum(x * x, axis=axis, keepdims=keepdims))
    if p == 1:
        return np.sum(x, axis=axis, keepdims=keepdims)
    if p == 0:
        return np.sum(np.where(x == 0, x * 0, x * 0 + 1), axis=axis, keepdims=keepdims)
    if p == float("inf"):
        return np.max(x, axis=axis, keepdims=keepdims)
    return np.sum(x**p, axis=axis, keepdims=keepdims) ** (1.0 / p)


def cdist(x1, x2, p=2.0, compute_mode=None):
    return norm_of(x1[..., :, None, :] - x2[..., None, :, :], p, -1)


def dist(input, other, p=2.0):
    return norm_of((input - other).reshape(-1), p, 0)


def pdist(input, p=2.0):
    distances = cdist(input, input, p)
    rows, columns = np.triu_indices(input.shape[0], 1)
    return distances[rows, columns]


def pairwise_distance(x1, x2, p=2.0, eps=1e-6, keepdim=False):
    return norm_of(x1 - x2 + eps, p, -1, keepdim)


def cosine_similarity(x1, x2, dim=1, eps=1e-8):
    x1, x2 = [x / np.maximum(norm_of(x, 2, dim, True), eps) for x in np.broadcast_arrays(x1, x2)]
    return np.sum(x1 * x2, axis=dim)


def normalize(input, p=2.0, dim=1, eps=1e-12):
    return input / np.maximum(norm_of(input, p, dim, True), eps)


# --- positions -------------------------------------------------------------------------------------------------------


def _latest(x, best, dim):
    shape = [-1 if axis == dim % x.ndim else 1 for axis in range(x.ndim)]
    number = np.arange(x.shape[dim]).reshape(shape)
    is_new = (x == best) | np.isnan(x) if x.dtype.is_float else x == best
    return np.maximum.accumulate(np.where(is_new, number, 0), axis=dim)


def cummax(input, dim):
    return _running(input, dim, np.maximum)


def cummin(input, dim):
    return _running(input, dim, np.minimum)


def _running(input, dim, extreme):
    x = input.reshape(1) if input.ndim == 0 else input
    best = extreme.accumulate(x, axis=dim)
    return ValuesAndIndices(best.reshape(input.shape), _latest(x, best, dim).reshape(input.shape))


def kthvalue(input, k, dim=-1, keepdim=False) -> Any:
    if input.ndim == 0:
        values, indices = kthvalue(input.reshape(1), k)
        return ValuesAndIndices(values.reshape(()), indices.reshape(()))
    if k < 1 or k > input.shape[dim]:
        refuse(f"there is no value number {k} of {input.shape[dim]}")
    order = np.argsort(input, axis=dim, kind="stable")
    indices = np.take(order, [k - 1], axis=dim)
    values = np.take_along_axis(input, indices, axis=dim)
    if keepdim:
        return ValuesAndIndices(values, indices)
    return ValuesAndIndices(np.squeeze(values, axis=dim), np.squeeze(indices, axis=dim))


def unique(input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    if dim is not None:
        if return_inverse or return_counts:
            refuse("torch.unique along dim= gives the slices alone in kernels")
        return np.unique(input, axis=dim)
    if return_inverse or return_counts:
        return np.unique(input, return_inverse=return_inverse, return_counts=return_counts)
    return np.unique(input)


def median(input, dim=None, keepdim=False):
    if dim is None:
        return median(input.reshape(-1), 0).values
    middle = kthvalue(input, (input.shape[dim] - 1) // 2 + 1, dim, keepdim)
    if not input.dtype.is_float:
        return middle
    is_missing = np.isnan(input)
    first = np.argmax(is_missing.astype(np.int64), axis=dim, keepdims=keepdim)
    has_missing = np.any(is_missing, axis=dim, keepdims=keepdim)
    values, indices = middle
    return ValuesAndIndices(np.where(has_missing, float("nan"), values), np.where(has_missing, first, indices))


def unique_consecutive(input, return_inverse=False, return_counts=False, dim=None):
    if dim is not None or return_inverse or return_counts:
        refuse("it gives the values of a whole tensor alone")
    flat = input.reshape(-1)
    is_new = np.ones(flat.shape[0], np.bool_)
    is_new[1:] = flat[1:] != flat[:-1]
    return flat[is_new]


def steps(x, rank, dim):
    """Return the distances of the positions `x`, of one axis or of all `rank` axes, along the last axis."""
    return np.diff(np.moveaxis(x, dim, -1) if x.ndim == rank else x, axis=-1)


def trapezoid(y, x=None, *, dx=1.0, dim=-1):
    moved = np.moveaxis(y, dim, -1)
    if x is None:
        return (np.sum(moved, axis=-1) - (moved[..., 0] + moved[..., -1]) * 0.5) * dx
    return np.sum(steps(x, y.ndim, dim) * (moved[..., 1:] + moved[..., :-1]), axis=-1) / 2


_NAMED: tuple[Callable[..., Any], ...] = (
    addcmul, addcdiv, lerp, rsub, addmv, addr, addbmm, logit, xlogy, hardshrink, threshold, celu, selu, rrelu, prelu,
    cdist, dist, pdist, pairwise_distance, cosine_similarity, cummax, cummin, kthvalue, unique_consecutive, trapezoid,
    median, unique,
)  # fmt: skip
_OF_NETWORKS: tuple[Callable[..., Any], ...] = (
    hardshrink, softshrink, threshold, celu, selu, rrelu, prelu, hardtanh, hardsigmoid, hardswish, mish, softsign,
    tanhshrink, glu, pdist, pairwise_distance, cosine_similarity, normalize,
)  # fmt: skip
FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{f"torch.{function.__name__}": function for function in _NAMED},
    **{f"torch.nn.functional.{function.__name__}": function for function in _OF_NETWORKS},
    "torch.trapz": trapezoid,
}
"""Inlined functions of torch by qualified name."""
_METHODS: tuple[Callable[..., Any], ...] = (
    addcmul, addcdiv, lerp, addmv, addr, addbmm, logit, xlogy, hardshrink, prelu, dist, cummax, cummin, kthvalue,
    unique_consecutive, median, unique,
)  # fmt: skip
METHODS: dict[str, Callable[..., Any]] = {function.__name__: function for function in _METHODS}
"""Inlined methods of tensors by name; each takes the tensor first."""
