"""Rules of torch's functions on bounded tensors: sums, products, windows, choices.

A rule has the name of its function in `bounded_tensor.RULES`, where importing this file puts it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from fuzz import bounds
from fuzz.bounded_tensor import NUMPY, RULES, BoundedTensor, bounded, convert, long, low, rounded, rule, tensor
from fuzz.bounds import NoRule, Undecided


def lengths(value: BoundedTensor, dim: Any) -> int:
    if dim is None:
        return value.numel()
    return math.prod(value.shape[each] for each in (dim if isinstance(dim, (tuple, list)) else (dim,)))


def reduction(name: str, combine: Callable[..., Any]) -> Callable[..., Any]:
    function = getattr(torch, name)

    def reduce(value: Any, dim: Any = None, **named: Any) -> Any:
        axes = {} if dim is None else {"dim": dim}
        plain = function(value.low, **axes, **named)
        if not plain.is_floating_point():
            return bounded(plain)
        source = convert(value, plain.dtype)

        def in_long(part: Any) -> Any:
            return long(function(torch.from_numpy(np.array(part, np.float64)), **axes, **named))

        high, error = combine(in_long, long(source.high), long(source.error), lengths(value, dim), NUMPY[plain.dtype])
        return tensor(plain, high, error)

    return reduce


for _name in ("sum", "cumsum"):
    RULES[_name] = reduction(_name, bounds.summed)
for _name in ("prod", "cumprod"):
    RULES[_name] = reduction(_name, bounds.multiplied)


def extremum(name: str) -> Callable[..., Any]:
    def reduce(value: Any, dim: Any = (), **named: Any) -> Any:
        plain = getattr(torch, name)(value.low, dim, **named)
        if value.error is None:
            return bounded(plain)
        return BoundedTensor(
            plain, getattr(torch, name)(value.high, dim, **named), torch.amax(value.error, dim, **named)
        )

    return reduce


RULES["amax"], RULES["amin"] = extremum("amax"), extremum("amin")


def as_torch(result: BoundedTensor, plain: torch.Tensor) -> BoundedTensor:
    """Return a composition's value and bound with the peer's own result."""
    return BoundedTensor(plain, result.high, rounded_tensor(result, plain.dtype))


def rounded_tensor(result: BoundedTensor, dtype: torch.dtype) -> torch.Tensor:
    return torch.from_numpy(np.array(rounded(long(result.high), long(result.error), dtype, 1), np.float64))


@rule
def mean(value: Any, dim: Any = None, keepdim: bool = False) -> Any:
    if value.error is None:
        raise NoRule("mean of integers")
    total = RULES["sum"](value, dim, keepdim=keepdim) if dim is not None else RULES["sum"](value)
    axes = {} if dim is None else {"dim": dim, "keepdim": keepdim}
    return as_torch(total / lengths(value, dim), torch.mean(value.low, **axes))


@rule
def var(value: Any, dim: Any = None, correction: int = 1, keepdim: bool = False) -> Any:
    axes = tuple(range(value.ndim)) if dim is None else dim
    count = lengths(value, axes) - correction
    if count <= 0:
        raise Undecided
    centred = value - mean(value, axes, keepdim=True)
    total = RULES["sum"](centred * centred, axes, keepdim=keepdim) / count
    return as_torch(total, torch.var(value.low, axes, correction=correction, keepdim=keepdim))


@rule
def softsign(value: Any) -> Any:
    """Return ``x / (1 + |x|)``, whose denominator eager rounds."""
    return value / (value.abs() + 1)


@rule
def softmax(value: Any, dim: int) -> Any:
    powers = (value - RULES["amax"](value, dim, keepdim=True)).exp()
    return as_torch(powers / RULES["sum"](powers, dim, keepdim=True), torch.softmax(value.low, dim))


@rule
def log_softmax(value: Any, dim: int) -> Any:
    moved_value = value - RULES["amax"](value, dim, keepdim=True)
    return as_torch(
        moved_value - RULES["sum"](moved_value.exp(), dim, keepdim=True).log(), torch.log_softmax(value.low, dim)
    )


@rule
def logsumexp(value: Any, dim: int) -> Any:
    top = RULES["amax"](value, dim, keepdim=True)
    total = RULES["sum"]((value - top).exp(), dim)
    return as_torch(total.log() + top.squeeze(dim), torch.logsumexp(value.low, dim))


@rule
def layer_norm(value: Any, shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    axes = tuple(range(-len(shape), 0))
    centred = value - mean(value, axes, keepdim=True)
    result = centred * (mean(centred * centred, axes, keepdim=True) + eps).rsqrt()
    result = result if weight is None else result * weight
    result = result if bias is None else result + bias
    return as_torch(result, F.layer_norm(value.low, shape, low(weight), low(bias), eps))


@rule
def normalize(value: Any, dim: int = 1) -> Any:
    length = RULES["sum"](value * value, dim, keepdim=True).sqrt()
    if not bool((length.low > 0.01).all()):
        raise Undecided
    return as_torch(value / length, F.normalize(value.low, dim=dim))


def product(function: Callable[..., Any], a: Any, b: Any, length: int) -> Any:
    plain = function(low(a), low(b))
    if not plain.is_floating_point():
        return bounded(plain)
    a, b = convert(a, plain.dtype), convert(b, plain.dtype)

    def in_long(x: Any, y: Any) -> Any:
        return long(function(*(torch.from_numpy(np.array(part, np.float64)) for part in (x, y))))

    parts = [long(each.high) for each in (a, b)], [long(each.error) for each in (a, b)]
    return tensor(plain, *bounds.bilinear(in_long, *parts, length, NUMPY[plain.dtype]))


@rule
def matmul(a: Any, b: Any) -> Any:
    return product(torch.matmul, a, b, low(a).shape[-1])


RULES["bmm"] = RULES["mm"] = RULES["mv"] = matmul


@rule
def linear(value: Any, weight: Any, bias: Any = None) -> Any:
    result = product(F.linear, value, weight, low(weight).shape[-1])
    return result if bias is None else result + bias


def convolution(name: str) -> Callable[..., Any]:
    def convolve(value: Any, weight: Any, bias: Any = None, **named: Any) -> Any:
        result = product(
            lambda x, y: getattr(F, name)(x, y, None, **named), value, weight, math.prod(low(weight).shape[1:])
        )
        return result if bias is None else result + bias.reshape(-1, *[1] * (low(value).ndim - 2))

    return convolve


RULES["conv1d"], RULES["conv2d"] = convolution("conv1d"), convolution("conv2d")


@rule
def avg_pool2d(value: Any, kernel: Any, stride: Any = None) -> Any:
    plain = F.avg_pool2d(value.low, kernel, stride)

    def in_long(part: Any) -> Any:
        return long(F.avg_pool2d(torch.from_numpy(np.array(part, np.float64)), kernel, stride))

    return tensor(
        plain, *bounds.summed(in_long, long(value.high), long(value.error), kernel * kernel, NUMPY[plain.dtype])
    )


@rule
def max_pool2d(value: Any, kernel: Any, stride: Any = None, padding: int = 0) -> Any:
    options = (kernel, stride, padding)
    return BoundedTensor(
        F.max_pool2d(value.low, *options), F.max_pool2d(value.high, *options), F.max_pool2d(value.error, *options)
    )


@rule
def where(condition: Any, a: Any, b: Any) -> Any:
    plain = torch.where(low(condition), low(a), low(b))
    if not plain.is_floating_point():
        return bounded(plain)
    a, b = convert(a, plain.dtype), convert(b, plain.dtype)
    return BoundedTensor(
        plain, torch.where(low(condition), a.high, b.high), torch.where(low(condition), a.error, b.error)
    )


@rule
def masked_fill(value: Any, mask: Any, number: Any) -> Any:
    return where(mask, number if value.error is not None else torch.tensor(number, dtype=value.dtype), value)


@rule
def clamp(value: Any, minimum: Any = None, maximum: Any = None) -> Any:
    plain = torch.clamp(value.low, minimum, maximum)
    if value.error is None:
        if plain.is_floating_point():
            raise NoRule("clamp of integers by floats")
        return bounded(plain)
    return BoundedTensor(plain, torch.clamp(value.high, minimum, maximum), value.error)


@rule
def pad(value: Any, width: Any, mode: str = "constant", number: float = 0) -> Any:
    plain = F.pad(value.low, width, mode, *([number] if mode == "constant" else []))
    if value.error is None:
        return bounded(plain)
    return BoundedTensor(
        plain,
        F.pad(value.high, width, mode, *([number] if mode == "constant" else [])),
        F.pad(value.error, width, mode),
    )


@rule
def to(value: Any, dtype: torch.dtype) -> Any:
    if dtype.is_floating_point:
        return convert(value, dtype)
    if value.error is not None:
        function = np.trunc if dtype != torch.bool else (lambda x: x != 0)
        whole = bounds.same_at_corners(function, [long(value.high)], [long(value.error)])
        if dtype != torch.bool and not np.all(np.abs(whole) < torch.iinfo(dtype).max):
            raise Undecided
        if dtype == torch.uint8 and not np.all(whole >= 0):
            raise Undecided
    return bounded(value.low.to(dtype))


@rule
def argmax(value: Any, dim: int) -> Any:
    if value.error is not None and value.shape[dim] > 1:
        top = torch.topk(value.high, 2, dim).values
        gap = top.select(dim, 0) - top.select(dim, 1)
        if bool((gap <= 2 * value.error.max()).any()) and bool((value.error > 0).any()):
            raise Undecided
        if bool((gap == 0).any()):
            raise Undecided
    elif value.error is None:
        raise Undecided
    return bounded(torch.argmax(value.low, dim))


@rule
def sort_values(value: Any, dim: int) -> Any:
    plain = torch.sort(value.low, dim).values
    if value.error is None:
        return bounded(plain)
    error = torch.amax(value.error, dim, keepdim=True).expand(value.shape)
    return BoundedTensor(plain, torch.sort(value.high, dim).values, error)


@rule
def addmm(bias: Any, a: Any, b: Any) -> Any:
    return matmul(a, b) + bias


@rule
def any_(value: Any, dim: int) -> Any:
    return bounded(torch.any(value.low if value.error is None else (value != 0).low, dim))


@rule
def all_(value: Any, dim: int) -> Any:
    return bounded(torch.all(value.low if value.error is None else (value != 0).low, dim))


@rule
def zeros_like(value: Any) -> Any:
    return bounded(torch.zeros_like(value.low))


@rule
def full_like(value: Any, number: float) -> Any:
    return bounded(torch.full_like(value.low, number))
