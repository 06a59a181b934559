"""Blocks of transformers are few kernels: products with what follows them, attention, and what runs along rows."""

from __future__ import annotations

import re

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import mlirtri as mt

WIDTH, HEADS, GROUPS, LENGTH = 64, 4, 2, 24
SIZE = WIDTH // HEADS


def in_heads(x: torch.Tensor) -> torch.Tensor:
    return x.view(1, LENGTH, -1, SIZE).transpose(1, 2)


class Block(nn.Module):
    """What the blocks share: a projection after attention, and a perceptron with two matrices."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.merge = nn.Linear(WIDTH, WIDTH)
        self.widen, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def attended(self, q, k, v, is_causal=False):
        y = F.scaled_dot_product_attention(q, k, v, is_causal=is_causal)
        return self.merge(y.transpose(1, 2).reshape(1, LENGTH, WIDTH))

    def perceptron(self, x):
        return self.narrow(F.gelu(self.widen(x)))


class GPT2(Block):
    """Norms come first; one matrix has queries, keys and values."""

    def __init__(self):
        super().__init__()
        self.project = nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, x):
        q, k, v = map(in_heads, self.project(self.first(x)).split(WIDTH, -1))
        x = x + self.attended(q, k, v, is_causal=True)
        return x + self.perceptron(self.second(x))


class ViT(GPT2):
    def forward(self, x):
        parts = self.project(self.first(x)).reshape(1, LENGTH, 3, HEADS, SIZE).permute(2, 0, 3, 1, 4)
        x = x + self.attended(*parts.unbind(0))
        return x + self.perceptron(self.second(x))


class Encoder(nn.TransformerEncoderLayer):
    """Torch's own layer, which moves queries, keys and values to the front before it splits heads."""

    def __init__(self):
        super().__init__(WIDTH, HEADS, 4 * WIDTH, batch_first=True, activation="gelu")


class BERT(Block):
    """Norms come last; queries, keys and values have matrices of their own."""

    def __init__(self):
        super().__init__()
        self.queries, self.keys, self.values = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x):
        q, k, v = (in_heads(project(x)) for project in (self.queries, self.keys, self.values))
        x = self.first(x + self.attended(q, k, v))
        return self.second(x + self.perceptron(x))


class Whisper(Block):
    """Queries are scaled after their projection, and keys have no bias."""

    def __init__(self):
        super().__init__()
        self.queries, self.values = (nn.Linear(WIDTH, WIDTH) for _ in range(2))
        self.keys = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x):
        y = self.first(x)
        q, k, v = map(in_heads, (self.queries(y) * SIZE**-0.5, self.keys(y), self.values(y)))
        y = torch.softmax(q @ k.transpose(2, 3), -1) @ v
        x = x + self.merge(y.transpose(1, 2).reshape(1, LENGTH, WIDTH))
        return x + self.perceptron(self.second(x))


class Llama(Block):
    """Rotary embeddings, two heads of queries for one of keys, a gate in the perceptron."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        sizes = (WIDTH, GROUPS * SIZE, GROUPS * SIZE)
        self.queries, self.keys, self.values = (nn.Linear(WIDTH, size, bias=False) for size in sizes)
        self.gate = nn.Linear(WIDTH, 4 * WIDTH)

    def forward(self, x):
        angles = torch.arange(LENGTH)[:, None] * 10000.0 ** (torch.arange(SIZE) % (SIZE // 2) / -(SIZE // 2))
        y = self.first(x)
        q, k = (rotated(in_heads(project(y)), angles) for project in (self.queries, self.keys))
        k, v = (self.repeated(heads) for heads in (k, in_heads(self.values(y))))
        x = x + self.attended(q, k, v, is_causal=True)
        y = self.second(x)
        return x + self.narrow(F.silu(self.gate(y)) * self.widen(y))

    @staticmethod
    def repeated(x):
        each = HEADS // GROUPS
        return x[:, :, None].expand(1, GROUPS, each, LENGTH, SIZE).reshape(1, HEADS, LENGTH, SIZE)


def rotated(x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, -1)
    return x * angles.cos() + torch.cat((-second, first), -1) * angles.sin()


class Qwen3(Llama):
    """Heads of queries and of keys have norms of their own, before rotary embeddings."""

    def __init__(self):
        super().__init__()
        self.of_queries, self.of_keys = nn.RMSNorm(SIZE), nn.RMSNorm(SIZE)

    def forward(self, x):
        angles = torch.arange(LENGTH)[:, None] * 10000.0 ** (torch.arange(SIZE) % (SIZE // 2) / -(SIZE // 2))
        y = self.first(x)
        q, k = (part(y).view(1, LENGTH, -1, SIZE) for part in (self.queries, self.keys))
        q, k = (rotated(z.transpose(1, 2), angles) for z in (self.of_queries(q), self.of_keys(k)))
        x = x + self.attended(q, self.repeated(k), self.repeated(in_heads(self.values(y))), is_causal=True)
        y = self.second(x)
        return x + self.narrow(F.silu(self.gate(y)) * self.widen(y))


class Gemma2(Llama):
    """Norms with ``1 + weight``, also behind attention and perceptron; scores are capped before their mask is added."""

    def __init__(self):
        super().__init__()
        self.scales = nn.ParameterList(torch.randn(WIDTH) for _ in range(4))

    def norm(self, x, number):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * (1 + self.scales[number])

    def forward(self, x):
        angles = torch.arange(LENGTH)[:, None] * 10000.0 ** (torch.arange(SIZE) % (SIZE // 2) / -(SIZE // 2))
        y = self.norm(x, 0)
        q, k = (rotated(in_heads(project(y)), angles) for project in (self.queries, self.keys))
        k, v = (self.repeated(heads) for heads in (k, in_heads(self.values(y))))
        scores = torch.tanh(q @ k.transpose(2, 3) * SIZE**-0.5 / 50) * 50
        is_seen = (x.new_zeros(LENGTH).cumsum(0) == 0) & torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()
        y = torch.softmax(scores + torch.where(is_seen, 0.0, -torch.inf), -1) @ v
        x = x + self.norm(self.merge(y.transpose(1, 2).reshape(1, LENGTH, WIDTH)), 1)
        y = self.norm(x, 2)
        return x + self.norm(self.narrow(F.gelu(self.gate(y), approximate="tanh") * self.widen(y)), 3)


class Phi(Llama):
    """One matrix has queries, keys and values, another one the gate and what it is multiplied with."""

    def __init__(self):
        super().__init__()
        self.project = nn.Linear(WIDTH, WIDTH + 2 * GROUPS * SIZE, bias=False)
        self.both = nn.Linear(WIDTH, 8 * WIDTH, bias=False)

    def forward(self, x):
        angles = torch.arange(LENGTH)[:, None] * 10000.0 ** (torch.arange(SIZE) % (SIZE // 2) / -(SIZE // 2))
        q, k, v = map(in_heads, self.project(self.first(x)).split((WIDTH, GROUPS * SIZE, GROUPS * SIZE), -1))
        x = x + self.attended(rotated(q, angles), *map(self.repeated, (rotated(k, angles), v)), is_causal=True)
        gate, up = self.both(self.second(x)).chunk(2, -1)
        return x + self.narrow(up * F.silu(gate))


class Step(Llama):
    """One token of the same, after a cache of keys and values, which it returns with its own."""

    def forward(self, x, keys, values):
        angles = LENGTH * 10000.0 ** (torch.arange(SIZE) % (SIZE // 2) / -(SIZE // 2))
        y = self.first(x)
        q, k, v = (part(y).view(1, 1, -1, SIZE).transpose(1, 2) for part in (self.queries, self.keys, self.values))
        keys, values = torch.cat((keys, rotated(k, angles)), 2), torch.cat((values, v), 2)
        y = F.scaled_dot_product_attention(rotated(q, angles), keys, values, enable_gqa=True)
        x = x + self.merge(y.transpose(1, 2).reshape(1, 1, WIDTH))
        y = self.second(x)
        return x + self.narrow(F.silu(self.gate(y)) * self.widen(y)), keys, values


def compiled(block: type[nn.Module]):
    torch.manual_seed(0)
    module, x = block().eval(), torch.randn(1, LENGTH, WIDTH)
    return module, x, mt.from_torch(module, (x,))


# Norms of heads and norms behind products are rows of their own; what makes the table of angles runs once.
@pytest.mark.parametrize(
    ("block", "kernels"),
    [(GPT2, 7), (Gemma2, 8)]
    + [
        pytest.param(*case, marks=pytest.mark.slow)
        for case in ((ViT, 7), (Encoder, 7), (BERT, 7), (Whisper, 7), (Llama, 7), (Phi, 7), (Qwen3, 9))
    ],
)
def test_a_block_is_few_kernels(block, kernels):
    module, x, program = compiled(block)
    kernel = program.compile()
    with torch.no_grad():
        torch.testing.assert_close(kernel(x), module(x), rtol=2e-5, atol=2e-5)
    assert kernel.stats["kernels"] <= kernels
    assert kernel.ir["scheduled"].count('"mlirtri.schedule": "Attention"') == 1


@pytest.mark.parametrize("pipeline", ["linalg", pytest.param("relax", marks=pytest.mark.slow)])
def test_a_step_of_decoding_is_few_kernels(pipeline):
    torch.manual_seed(0)
    module, cache = Step().eval(), torch.randn(2, 1, GROUPS, LENGTH, SIZE)
    inputs = torch.randn(1, 1, WIDTH), cache[0], cache[1]
    kernel = mt.from_torch(module, inputs).compile(pipeline=pipeline)
    with torch.no_grad():
        for found, wanted in zip(kernel(*inputs), module(*inputs), strict=True):
            torch.testing.assert_close(found, wanted, rtol=2e-5, atol=2e-5)
    assert kernel.stats["kernels"] <= {"linalg": 10, "relax": 14}[pipeline]


def test_merged_weights_follow_another_state():
    """Queries, keys and values of new weights are concatenated and packed again."""
    module, x, program = compiled(BERT)
    kernel = program.compile()
    kernel(x)
    assert kernel.stats["kernels"] <= 7
    other = BERT().eval()
    program.load_state_dict(other.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(program.compile()(x), other(x), rtol=2e-5, atol=2e-5)
        assert (other(x) - module(x)).abs().max() > 0.1


def test_a_block_without_tvm_reads_the_weights_where_they_are():
    module, x, program = compiled(Llama)
    kernel = program.compile(pipeline="mlir")
    with torch.no_grad():
        torch.testing.assert_close(kernel(x), module(x), rtol=2e-5, atol=2e-5)
    assert "tensor.concat dim(0)" not in kernel.ir["fused"]


class Projections(nn.Module):
    """Queries and keys of one token, as in a step of decoding."""

    def __init__(self):
        super().__init__()
        self.queries, self.keys = nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, GROUPS * SIZE, bias=False)

    def forward(self, x):
        q, k = (project(x).view(1, -1, SIZE) for project in (self.queries, self.keys))
        return torch.tanh(q), torch.sin(k)


def test_weights_of_one_token_are_concatenated_once():
    """A product with a vector sums rows: the concatenation must not become a part of that row kernel."""
    module, x = Projections(), torch.randn(1, WIDTH)
    kernel = mt.from_torch(module, (x,)).compile()
    torch.testing.assert_close(kernel(x), module(x), rtol=2e-5, atol=2e-5)
    assert re.search(r'def concatenate\(.*\n *T\.func_attr\(\{"mlirtri\.once": True', kernel.ir["tir"])
