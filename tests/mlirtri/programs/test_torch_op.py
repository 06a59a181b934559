"""Kernels as operators of torch: inside of torch.compile and torch.export, with gradients and declared writes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import mlirtri as mt
from mlirtri.errors import KernelTypeError, UnknownNameError

_NUMBERS = itertools.count()
N, M = mt.dyn["N"], mt.dyn["M"]


@mt.jit
def swish(x, scale=1.0):
    return x * scale / (1 + np.exp(-x * scale))


@mt.jit
def swish_gradient(x, scale, grad):
    s = 1 / (1 + np.exp(-x * scale))
    return grad * scale * (s + x * scale * s * (1 - s))


@mt.jit
def head_and_tail(x, n: int):
    return x[:n] * 2, x[n:].sum(0)


@mt.jit
def add_to(state, x: mt.Tensor[[4], mt.float32]):
    state += x


@mt.jit
def twice(x, w: mt.Tensor[[M], mt.float32]):
    return np.concatenate([x, x], 0) * w


@mt.jit
def products(a, b):
    return a * b, np.exp(a)


@mt.jit
def products_gradients(b, a, result_1, grad_0, grad_1):
    return grad_0 * b + grad_1 * result_1, grad_0 * a


@mt.jit
def positive(x):
    return x[x > 0]


def eager_swish(x, scale=1.0):
    return x * scale * torch.sigmoid(x * scale)


@pytest.fixture(scope="module")
def operators():
    """The operators of this file, once per process: torch keeps them."""
    return {
        "swish": mt.torch_op("mlirtri_tests::swish", swish, backward=swish_gradient),
        "parts": mt.torch_op("mlirtri_tests::parts", head_and_tail),
        "add_to": mt.torch_op("mlirtri_tests::add_to", add_to, writes=["state"]),
    }


def new_name() -> str:
    return f"mlirtri_tests::operator_{next(_NUMBERS)}"


def test_the_schema_comes_from_the_signature(operators):
    assert [str(operator._schema).partition("::")[2] for operator in operators.values()] == [
        "swish(Tensor x, float scale=1.) -> Tensor",
        "parts(Tensor x, int n) -> (Tensor, Tensor)",
        "add_to(Tensor(a0!) state, Tensor x) -> ()",
    ]


def test_torchs_own_checks_of_operators_pass(operators):
    x = torch.randn(8, 4)
    torch.library.opcheck(operators["swish"], (x.clone().requires_grad_(), 2.0))
    torch.library.opcheck(operators["parts"], (x, 3))
    torch.library.opcheck(operators["add_to"], (torch.randn(4), torch.randn(4)))


@pytest.mark.parametrize("backend", ["aot_eager", "mlirtri"])
def test_operators_stand_inside_of_torch_compile(operators, backend):
    def model(x, state):
        h = operators["swish"](torch.relu(x) + 1, 2.0)
        head, tail = operators["parts"](h * 3, 3)
        operators["add_to"](state, tail)
        return head.sum(0) + tail, state * 2

    def expected(x, state):
        h = eager_swish(torch.relu(x) + 1, 2.0) * 3
        state += h[3:].sum(0)
        return h[:3].sum(0) * 2 + h[3:].sum(0), state * 2

    x, states = torch.randn(8, 4), (torch.ones(4), torch.ones(4))
    results = torch.compile(model, backend=backend, fullgraph=True)(x, states[0])
    torch.testing.assert_close(results, expected(x, states[1]))
    torch.testing.assert_close(*states)

    def loss(function, x):
        return (function(torch.sin(x), 1.5) * 3).sum()

    x.requires_grad_()
    [gradient] = torch.autograd.grad(torch.compile(loss, backend=backend, fullgraph=True)(operators["swish"], x), x)
    torch.testing.assert_close(gradient, torch.autograd.grad(loss(eager_swish, x), x)[0])


def test_gradients_of_several_results():
    operator = mt.torch_op(new_name(), products, backward=products_gradients)
    a, b = (torch.randn(5, dtype=torch.float64, requires_grad=True) for _ in range(2))
    assert torch.autograd.gradcheck(operator, (a, b))
    product, _ = operator(a, b)
    torch.testing.assert_close(torch.autograd.grad(product.sum(), a)[0], b.detach())


def test_symbolic_sizes_of_an_export():
    operator = mt.torch_op(new_name(), twice)

    class Model(torch.nn.Module):
        def forward(self, x, w):
            return operator(x, w) + 1

    n, m = torch.export.Dim("n"), torch.export.Dim("m")
    program = torch.export.export(
        Model(), (torch.ones(3, 4), torch.ones(4)), dynamic_shapes={"x": {0: n, 1: m}, "w": {0: m}}
    )
    for rows, columns in ((2, 5), (7, 3)):
        x, w = torch.randn(rows, columns), torch.randn(columns)
        torch.testing.assert_close(program.module()(x, w), torch.cat([x, x]) * w + 1)


@mt.jit
def sum_and_halves(x: mt.Tensor[[N, M], mt.float32], scale: mt.float32):
    return x.sum(1) * scale, x.reshape(-1) * 0.5


def test_known_sizes_of_fake_tensors_for_a_kernel_of_run_time_sizes():
    operator = mt.torch_op(new_name(), sum_and_halves)
    with FakeTensorMode():
        sums, halves = operator(torch.empty(3, 4), 2.0)
        assert (sums.shape, halves.shape) == ((3,), (12,))
    compiled = torch.compile(lambda x: operator(x, 2.0)[0] + 1, fullgraph=True, dynamic=False, backend="aot_eager")
    for rows in (1, 3):
        x = torch.randn(rows, 5)
        torch.testing.assert_close(compiled(x), x.sum(1) * 2 + 1)


def test_what_an_operator_does_not_say_is_refused():
    with pytest.raises(KernelTypeError, match=r"writes 'state', and (.|\n)*writes=\['state'\]"):
        mt.torch_op(new_name(), add_to)(torch.ones(4), torch.ones(4))
    with pytest.raises(KernelTypeError, match=r"returns 2 tensors, and the operator .* says 1(.|\n)*results=2"):
        mt.torch_op(new_name(), products, results=1)(torch.ones(4), torch.ones(4))
    with pytest.raises(KernelTypeError, match="depends on elements"):
        mt.torch_op(new_name(), positive)(torch.ones(4))
    operator = mt.torch_op(new_name(), swish, backward=mt.jit(lambda x, grad: (x, grad)))
    result = operator(torch.ones(3, requires_grad=True)).sum()
    with pytest.raises(KernelTypeError, match=r"returns 2 gradients, and .* has 1 floating-point"):
        result.backward()
    with pytest.raises(UnknownNameError, match=r"has no parameter 'stat'(.|\n)*did you mean 'state'"):
        mt.torch_op(new_name(), add_to, writes=["stat"])
    with pytest.raises(UnknownNameError, match=r"'gradient', which is nothing of(.|\n)*did you mean 'grad'"):
        mt.torch_op(new_name(), swish, backward=mt.jit(lambda gradient: gradient))
    with pytest.raises(KernelTypeError, match="differentiates no such operator"):
        mt.torch_op(new_name(), add_to, writes=["state"], backward=swish_gradient)
    with pytest.raises(KernelTypeError, match="is not the name of an operator"):
        mt.torch_op("swish", swish)
    with pytest.raises(KernelTypeError, match="is not a kernel"):
        mt.torch_op(new_name(), eager_swish)
