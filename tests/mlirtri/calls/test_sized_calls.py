"""The short way into kernels of run-time sizes: shapes that were seen, and all that has to go the general way."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import mlirtri as mt
from mlirtri.errors import ArgumentMismatchError, KernelTypeError

TOTAL = """
func.func @total(%x: tensor<?x?xf32>, %y: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %r = arith.addf %x, %y : tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}
"""


BOTH = """
func.func @both(%x: tensor<?x?xf32>, %y: tensor<?x?xf32>) -> (tensor<?x?xf32>, tensor<?x?xf32>) {
  %r = arith.addf %x, %y : tensor<?x?xf32>
  %s = arith.subf %x, %y : tensor<?x?xf32>
  return %r, %s : tensor<?x?xf32>, tensor<?x?xf32>
}
"""


@mt.jit
def parts(a, b):
    return a + b, (a - b, a + b)


@mt.jit
def bytes_of(a, b):
    return a + b, a * b


@pytest.fixture(scope="module")
def kernel():
    return mt.from_mlir(TOTAL).compile()


@pytest.mark.parametrize("kind", [torch.Tensor, np.ndarray])
def test_known_shapes_take_the_short_call(kernel, general, kind):
    for shape in ((3, 7), (7, 3), (3, 7), (1, 1), (7, 3), (300, 5)) * 2:
        a, b = torch.randn(shape), torch.randn(shape)
        found = kernel(a, b) if kind is torch.Tensor else kernel(a.numpy(), b.numpy())
        assert type(found) is kind
        assert np.array_equal(np.asarray(found), (a + b).numpy())
    seen = len(general)
    assert seen <= 6
    kernel(*(torch.ones(300, 5) if kind is torch.Tensor else np.ones((300, 5), np.float32) for _ in range(2)))
    assert len(general) == seen


def test_empty_tensors_stay_empty(kernel):
    for _ in range(3):
        assert kernel(torch.ones(0, 4), torch.ones(0, 4)).shape == (0, 4)


def test_other_arguments_take_the_general_call_and_are_right_or_refused(kernel):
    a, b = torch.randn(5, 6), torch.randn(5, 6)
    kernel(a, b)
    kernel(a, b)
    out = torch.empty(5, 6)
    assert kernel(a, b, out=out) is out
    assert torch.equal(out, a + b)
    with pytest.warns(UserWarning, match="not contiguous"):
        assert torch.equal(kernel(torch._neg_view(a), b), b - a)
    assert torch.equal(kernel(torch.randn(6, 5).copy_(a.T).T, b), a + b)
    with pytest.raises(KernelTypeError, match="gradient"):
        kernel(a.clone().requires_grad_(), b)
    with pytest.raises(ArgumentMismatchError):
        kernel(a.double(), b)
    with pytest.raises(ArgumentMismatchError):
        kernel(a, b[:3])
    with pytest.raises(ArgumentMismatchError):
        kernel(a)
    assert isinstance(kernel(a, b.numpy()), torch.Tensor)


def test_several_results_of_known_shapes_take_the_short_call(general):
    kernel, a, b = mt.from_mlir(BOTH).compile(), torch.randn(5, 6), torch.randn(5, 6)
    for shape in ((3, 7), (7, 3), (3, 7), (300, 5), (7, 3), (2, 4)) * 2:
        a, b = torch.randn(shape), torch.randn(shape)
        total, difference = kernel(a, b)
        assert torch.equal(total, a + b)
        assert torch.equal(difference, a - b)
        assert torch.equal(kernel(a, a)[1], a - a)
    seen = len(general)
    kernel(a, b)
    assert len(general) == seen <= 6
    with pytest.raises(ArgumentMismatchError):
        kernel(a, b.double())
    with pytest.raises(ArgumentMismatchError):
        kernel(a)
    assert kernel(torch.ones(0, 4), torch.ones(0, 4))[1].shape == (0, 4)
    arrays = kernel(a.numpy(), b.numpy())
    assert all(type(each) is np.ndarray for each in arrays)


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
def test_several_results_keep_their_structure_and_what_is_refused(pipeline):
    a, b = torch.randn(4, 4), torch.randn(4, 4)
    kernel = parts.compile(a, b, pipeline=pipeline)
    for left in (a, b, a.T, torch._neg_view(a), a):
        total, (difference, again) = kernel(left, b)
        assert torch.equal(total, left + b)
        assert torch.equal(again, left + b)
        assert torch.equal(difference, left - b)
        assert len({each.data_ptr() for each in (left, b, total, difference, again)}) >= 4
    with pytest.raises(KernelTypeError, match="gradient"):
        kernel(a.clone().requires_grad_(), b)
    for other in (b.double(), b[:3], 1.0):
        with pytest.raises(ArgumentMismatchError):
            kernel(a, other)
    with pytest.raises(KernelTypeError, match="layout"):
        kernel(a, b.to_sparse())
    whole = [torch.ones(3, dtype=torch.uint8) * 200, torch.ones(3, dtype=torch.uint8) * 100]
    for _ in range(3):
        assert torch.equal(bytes_of(*whole)[0], whole[0] + whole[1])
