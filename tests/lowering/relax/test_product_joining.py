"""Products joined with a second product or with what moves their columns: one PrimFunc, with the numbers of torch."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from row_kernels import rules
from torch import nn

import mlirtri as mt

SIZES = ((24, 64, 96), (7, 33, 50), (1, 64, 48), (3, 20, 34), (200, 70, 300), (40, 5000, 33))
"""Rows, terms and columns: whole tiles and parts of some, one row, several chunks, a sum in blocks."""
LARGE = SIZES[-2:]


class Gate(nn.Module):
    """The gate of a feed-forward layer: two products of one matrix."""

    def __init__(self, terms: int, columns: int, bias: bool = False):
        super().__init__()
        self.gate, self.up = (nn.Linear(terms, columns, bias=bias) for _ in range(2))

    def forward(self, x):
        return F.silu(self.gate(x)) * self.up(x)


class Halves(nn.Module):
    """The same of one product, whose columns are cut in two."""

    def __init__(self, terms: int, columns: int):
        super().__init__()
        self.both = nn.Linear(terms, 2 * columns)

    def forward(self, x):
        gate, up = self.both(x).chunk(2, -1)
        return F.gelu(gate, approximate="tanh") * up


class Rotated(nn.Module):
    """Rotary embeddings of heads, and heads that stay as they are."""

    def __init__(self, terms: int, columns: int):
        super().__init__()
        self.project = nn.Linear(terms, 6 * columns, bias=False)
        self.columns = columns

    def forward(self, x, cos, sin):
        heads = self.project(x).view(-1, 6, self.columns).transpose(0, 1)
        half = self.columns // 2
        turned = torch.cat((-heads[:4, :, half:], heads[:4, :, :half]), -1)
        return heads[:4] * cos + turned * sin, heads[4:] + 1


def checked(module, *inputs: torch.Tensor, pipeline: str = "linalg"):
    kernel = mt.from_torch(module, inputs).compile(pipeline=pipeline)
    found, wanted = kernel(*inputs), module(*inputs)
    is_one = isinstance(found, torch.Tensor)
    for part, other in zip([found] if is_one else found, [wanted] if is_one else wanted, strict=True):
        torch.testing.assert_close(part, other, rtol=2e-5, atol=2e-5)
    return kernel


@pytest.fixture(autouse=True)
def _without_gradients():
    torch.manual_seed(0)
    with torch.no_grad():
        yield


@pytest.mark.parametrize(
    ("make", "size"),
    [(make, size) for make in (Gate, Halves, Rotated) for size in SIZES[:-2]]
    + [(Gate, LARGE[0]), (Rotated, LARGE[1])]
    + [pytest.param(*case, marks=pytest.mark.slow) for case in ((Gate, LARGE[1]), (Rotated, LARGE[0]))]
    + [pytest.param(Halves, size, marks=pytest.mark.slow) for size in LARGE],
    ids=str,
)
def test_one_kernel(make, size):
    rows, terms, columns = size
    tables = (torch.randn(rows, columns - columns % 2) for _ in range(2 if make is Rotated else 0))
    kernel = checked(make(terms, columns - columns % 2), torch.randn(rows, terms), *tables)
    if rows > 1:
        assert kernel.stats["kernels"] == 1
        assert "ProductChain" in rules(kernel)


def test_one_kernel_of_relax():
    for make in (Gate, Halves):
        assert checked(make(64, 96), torch.randn(24, 64), pipeline="relax").stats["kernels"] == 1


@pytest.mark.parametrize("pipeline", ["linalg", "relax"])
def test_two_products_of_one_row_are_a_row_kernel(pipeline):
    """A step of decoding takes as long as its weights are read, which is slower in tiles."""
    assert rules(checked(Gate(64, 96), torch.randn(1, 64), pipeline=pipeline)) == ["Rows"]
    assert rules(checked(Gate(64, 96), torch.randn(2, 64), pipeline=pipeline)) == ["ProductChain"]


def test_one_kernel_of_arguments():
    """Weights that are arguments are packed in each call."""
    x, g, u = torch.randn(30, 40), torch.randn(40, 50) / 7, torch.randn(40, 50) / 7
    kernel = checked(lambda x, g, u: torch.tanh(x @ g) * (x @ u), x, g, u)
    assert kernel.stats["kernels"] == 1


def test_biases_and_halves():
    checked(Gate(64, 96, bias=True), torch.randn(24, 64))
    module, x = Gate(64, 96).to(torch.bfloat16), torch.randn(24, 64, dtype=torch.bfloat16)
    kernel = mt.from_torch(module, (x,)).compile()
    torch.testing.assert_close(kernel(x), module(x), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, g, u: torch.sigmoid(x @ g) * (x @ u).flip(1),  # another place of the first product
        lambda x, g, u: torch.sigmoid(x @ g) * (x @ u).sum(0),
        lambda x, g, u: torch.sigmoid(x @ g) * (x @ u).roll(1, 0),
        lambda x, g, u: torch.relu(x @ g) @ u.T[:, :40] + x,  # a product of the other one
        lambda x, g, u: (torch.sigmoid(x @ g) * (x @ u), x @ u),  # the first is a result, too
        lambda x, g, u: (x @ g)[:, :20] * (x @ g).amax(1, keepdim=True) + (x @ u)[:, 20:40],  # a reduction between both
        lambda x, g, u: ((x @ g)[:, :25] * (x @ u)[:, 25:], (x @ g)[:, 25:] - 1),  # two products, one call
        lambda x, g, u: torch.cat((x @ g, x @ u, (x @ g)[:, :3]), 1),
    ],
)
def test_what_cannot_run_by_chunks_is_right(function):
    checked(function, torch.randn(30, 40), torch.randn(40, 50) / 7, torch.randn(40, 50) / 7)


def test_other_weights_are_packed_again():
    module, x = Gate(64, 96), torch.randn(24, 64)
    program = mt.from_torch(module, (x,))
    program.compile()(x)
    other = Gate(64, 96)
    program.load_state_dict(other.state_dict())
    torch.testing.assert_close(program.compile()(x), other(x), rtol=2e-5, atol=2e-5)
    packed = program.compile().ir["tir"]
    assert packed.count("call_tir(cls.pack_weight") == 2
