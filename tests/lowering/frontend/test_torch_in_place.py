"""Functions and methods of torch that write into tensors or give views of them, and what does not fit into an array."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import mlirtri as mt
from mlirtri.errors import KernelTypeError, KernelValueError

PIPELINES = ["linalg", "relax", "mlir"]


def arithmetic(x, y):
    x.lerp_(y, 0.3).addcmul_(y, y, value=0.1).addcdiv_(y, y.abs() + 1, value=-0.5)
    y.square_().sqrt_().log1p_().clip_(0, 2).nan_to_num_()
    torch.exp_(x)
    torch.relu_(y)
    x.T.sub_(1)
    return x.eq_(y).logical_not_()


def views(x, y):
    x.select(1, 0).copy_(torch.ones(4))
    x.select(-1, -1).mul_(2)
    y.hsplit(2)[0].zero_()
    torch.vsplit(y, 2)[1].add_(1)
    torch.linalg.diagonal(y).zero_()
    x.split_with_sizes([1, 3])[1].neg_()
    return x + y


def scatters(x, y):
    index = torch.tensor([[0, 1, 3], [2, 0, 1]])
    a = x.scatter(0, index, y), x.scatter(1, index, 5.0), x.scatter(1, index, value=2)
    x.scatter_(1, index, y)
    chosen = x > 0
    b = x.masked_scatter(chosen, y)
    x.masked_scatter_(chosen[0], y)
    return a, b


def distinct(x, y):
    whole = (x * 2).long()
    return whole.unique(), torch.unique(whole, return_counts=True), torch.unique(whole, return_inverse=True)


def without_gradients(x, y):
    with torch.no_grad():
        x += y
    with torch.inference_mode():
        return x * y if hasattr(x, "shape") and not hasattr(x, "shapes") else x


FUNCTIONS = [arithmetic, views, scatters, distinct, without_gradients]


def tensors():
    generator = torch.Generator().manual_seed(7)
    return [torch.randn(4, 4, generator=generator) for _ in range(2)]


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_they_write_what_torch_writes(function, pipeline):
    ours, torchs = tensors(), tensors()
    result = mt.jit(function, pipeline=pipeline)(*ours)
    torch.testing.assert_close((result, ours), (function(*torchs), torchs))


def narrowed(x, y):
    return x.add_(1.5)


def narrowed_by_lerp(x, y):
    return x.lerp_(x * 1.5, 0.5)


def narrowed_to_real(x, y):
    return y.mul_(y * 1j)


def too_few(x, y):
    return y.masked_scatter(y > -99, y[0])


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (narrowed, KernelTypeError, r"add_ gives float32\[3\], which does not fit into int64\[3\]"),
        (narrowed_by_lerp, KernelTypeError, r"lerp_ gives float32\[3\], which does not fit into int64\[3\]"),
        (narrowed_to_real, KernelTypeError, r"mul_ gives complex64\[2, 2\], which does not fit"),
        (too_few, KernelValueError, "fewer elements than the mask takes"),
    ],
)
def test_what_torch_refuses_is_refused(function, error, message):
    for call in (function, mt.jit(function)):
        with pytest.raises((RuntimeError, error)):
            call(torch.arange(3), torch.ones(2, 2))
    with pytest.raises(error, match=message):
        mt.jit(function)(torch.arange(3), torch.ones(2, 2))


def into_floats(x, out):
    np.add(x, x, out=out)
    np.cumsum(x * 1.5, out=out[:3])


def copied(x, out):
    np.copyto(out, x * 1.5)


def copied_unsafely(x, out):
    np.copyto(out, x * 1.5, casting="unsafe")


@pytest.mark.parametrize(
    ("function", "dtype", "fits"),
    [
        (into_floats, np.float32, True), (into_floats, np.int8, True), (into_floats, np.uint8, False),
        (into_floats, np.bool_, False), (copied, np.float32, True), (copied, np.int64, False),
        (copied_unsafely, np.int64, True),
    ],
)  # fmt: skip
def test_ufuncs_of_numpy_write_no_lower_kind(function, dtype, fits):
    x, ours, numpys = np.arange(3), np.ones(3, dtype), np.ones(3, dtype)
    if fits:
        function(x, numpys)
        mt.jit(function)(x, ours)
        np.testing.assert_array_equal(ours, numpys)
        return
    for call in (function, mt.jit(function)):
        with pytest.raises(TypeError):
            call(x, ours)


def drawn(x):
    return x + torch.rand(3)


def mapped(x):
    return torch.vmap(lambda row: row * 2)(x)


@pytest.mark.parametrize(("function", "message"), [(drawn, "draws from a generator"), (mapped, "torch.vmap is not")])
def test_what_kernels_do_not_have_says_what_to_write(function, message):
    with pytest.raises(mt.KernelError, match=message) as caught:
        mt.jit(function)(torch.ones(3))
    assert caught.value.help
