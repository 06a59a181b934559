"""The short way into kernels of run-time sizes: shapes that were seen, and all that has to go the general way."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import mlirtri as mt
from mlirtri.errors import ArgumentMismatchError, KernelTypeError
from mlirtri.runtime import Runner

TOTAL = """
func.func @total(%x: tensor<?x?xf32>, %y: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %r = arith.addf %x, %y : tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}
"""


@pytest.fixture(scope="module")
def kernel():
    return mt.from_mlir(TOTAL).compile()


@pytest.fixture
def general(monkeypatch):
    """How often the general way was gone."""
    calls, own = [], Runner.__call__

    def counted(self, arguments, out=None):
        calls.append(len(arguments))
        return own(self, arguments, out)

    monkeypatch.setattr(Runner, "__call__", counted)
    return calls


@pytest.mark.parametrize("kind", [torch.Tensor, np.ndarray])
def test_shapes_that_were_seen_go_the_short_way(kernel, general, kind):
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


def test_the_rest_goes_the_general_way_and_is_right_or_refused(kernel):
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
