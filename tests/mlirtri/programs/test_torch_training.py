"""Training under ``torch.compile``: forward and backward graphs are kernels, and gradients are eager's."""

from __future__ import annotations

import copy
from collections import deque

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import mlirtri as mt
from mlirtri.programs.torch_programs.compile_report import RECORDER


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.second, self.last = nn.Conv2d(4, 4, 3, stride=2), nn.Linear(4, 3)

    def forward(self, x):
        x = torch.max_pool2d(torch.relu(self.norm(self.first(x))), 2)
        return self.last(torch.relu(self.second(x)).mean((2, 3)))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.norm, self.second = nn.LayerNorm(8), nn.LayerNorm(8)
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))

    def forward(self, x):
        normed = self.norm(x)
        x = x + self.attention(normed, normed, normed, need_weights=False)[0]
        return x + self.layers(self.second(x))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.last = nn.LSTMCell(3, 4), nn.Linear(4, 2)

    def forward(self, x):
        state = x.new_zeros(2, x.shape[0], 4).unbind()
        for step in x.unbind(1):
            state = self.cell(step, state)
        return self.last(state[0])


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.norm, self.last = nn.Embedding(9, 6, padding_idx=0), nn.LayerNorm(6), nn.Linear(6, 9)

    def forward(self, indices):
        return self.last(torch.tanh(self.norm(self.words(indices))))


def perceptron():
    return nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3))


MODELS = {
    "perceptron": (perceptron, lambda: torch.randn(4, 5)),
    "convolutions": (Convolutions, lambda: torch.randn(2, 2, 10, 10)),
    "transformer block": (Block, lambda: torch.randn(2, 5, 8)),
    "LSTM cell": (Recurrent, lambda: torch.randn(2, 3, 3)),
    "embedding and layer norm": (Words, lambda: torch.randint(0, 9, (3, 4))),
}


@pytest.fixture(autouse=True)
def _fresh(monkeypatch):
    from torch._dynamo.utils import clear_compilation_metrics

    torch._dynamo.reset()
    clear_compilation_metrics()
    monkeypatch.setattr(RECORDER, "graphs", deque())


def gradients(run, module, argument):
    """Results, gradients of the argument and of every parameter, and buffers after one step."""
    leaf = argument.clone().requires_grad_() if argument.is_floating_point() else argument
    torch.manual_seed(1)
    result = run(leaf)
    (result * result).sum().backward()
    return [result.detach(), leaf.grad, *(each.grad for each in module.parameters()), *module.buffers()]


@pytest.mark.parametrize("pipeline", ["linalg", pytest.param("mlir", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name == "convolutions")) for name in MODELS]
)
def test_both_graphs_are_kernels_and_gradients_are_those_of_eager(name, pipeline):
    make, argument = MODELS[name]
    torch.manual_seed(0)
    module, x = make(), argument()
    reference = copy.deepcopy(module)
    compiled = torch.compile(module, backend="mlirtri", options={"pipeline": pipeline})
    found, wanted = gradients(compiled, module, x), gradients(reference, reference, x)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    report = mt.torch_report()
    assert report.is_total, str(report)
    assert [(graph.name, graph.kernels(), graph.refused) for graph in report.graphs] == [
        ("forward", 1, None), ("backward", 1, None),
    ]  # fmt: skip


@pytest.mark.parametrize("options", [{"is_causal": True}, {"scale": 0.3}, {"attn_mask": torch.ones(5, 6).tril(1) - 1}])
def test_attention_that_torch_differentiates_as_one_operator(options):
    def attended(query, key, value):
        return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(query, key, value, **options)

    def results(run):
        operands = [operand.clone().requires_grad_() for operand in given]
        result, logarithms = run(*operands)
        (result * result).sum().backward()
        return [result.detach(), logarithms.detach(), *(each.grad for each in operands)]

    given = torch.randn(2, 3, 5, 4), torch.randn(2, 3, 6, 4), torch.randn(2, 3, 6, 4)
    torch.testing.assert_close(results(torch.compile(attended, backend="mlirtri")), results(attended))


def test_a_row_that_sees_no_key_has_no_gradients():
    mask = torch.ones(3, 3, dtype=torch.bool).tril(-1)
    query = torch.randn(1, 1, 3, 4)

    def results(run):
        leaf = query.clone().requires_grad_()
        result = run(leaf)
        result.sum().backward()
        return [result.detach(), leaf.grad]

    def attended(x):
        return F.scaled_dot_product_attention(x, x, x, attn_mask=mask)

    torch.testing.assert_close(results(torch.compile(attended, backend="mlirtri")), results(attended))
