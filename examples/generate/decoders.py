"""Two decoders of tokens whose keys and values are kept in caches: one shaped like GPT-2, one like Llama.

A call takes some tokens, the position of the first one, and the caches of earlier tokens. It returns the logits of the
last token and the new caches, so that one program serves all lengths up to that of the caches.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass(frozen=True)
class Sizes:
    vocabulary: int = 256
    width: int = 64
    heads: int = 4
    groups: int = 4
    """Heads of keys and values; fewer than heads of queries share them."""
    layers: int = 2
    length: int = 64
    """The most tokens, and the length of the caches."""

    @property
    def depth(self) -> int:
        return self.width // self.heads


def rotated(x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """Return queries or keys turned by their positions, as Su et al., RoFormer (2021)."""
    half = x.shape[-1] // 2
    rates = 10000.0 ** (-torch.arange(half, dtype=torch.float32) / half)
    angles = positions.to(torch.float32)[:, None] * rates
    cosines, sines = angles.cos(), angles.sin()
    first, second = x[..., :half], x[..., half:]
    return torch.cat((first * cosines - second * sines, second * cosines + first * sines), -1)


class Attention(nn.Module):
    """Attention of new tokens to those in the cache, themselves included."""

    def __init__(self, sizes: Sizes, is_rotary: bool):
        super().__init__()
        self.sizes, self.is_rotary = sizes, is_rotary
        small = sizes.groups * sizes.depth
        self.query = nn.Linear(sizes.width, sizes.width, bias=not is_rotary)
        self.key = nn.Linear(sizes.width, small, bias=not is_rotary)
        self.value = nn.Linear(sizes.width, small, bias=not is_rotary)
        self.merge = nn.Linear(sizes.width, sizes.width, bias=not is_rotary)

    def forward(
        self, x: torch.Tensor, positions: torch.Tensor, keys: torch.Tensor, values: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        count, sizes = x.shape[0], self.sizes
        query = self.query(x).view(count, sizes.heads, sizes.depth).transpose(0, 1)
        key = self.key(x).view(count, sizes.groups, sizes.depth).transpose(0, 1)
        value = self.value(x).view(count, sizes.groups, sizes.depth).transpose(0, 1)
        if self.is_rotary:
            query, key = rotated(query, positions), rotated(key, positions)
        keys, values = keys.index_copy(1, positions, key), values.index_copy(1, positions, value)
        is_seen = torch.arange(sizes.length) <= positions[:, None]
        y = F.scaled_dot_product_attention(
            query[None], keys[None], values[None], attn_mask=is_seen, enable_gqa=sizes.groups < sizes.heads
        )[0]
        return self.merge(y.transpose(0, 1).reshape(count, sizes.width)), keys, values


class Gated(nn.Module):
    """The perceptron of Llama: one product gates the other."""

    def __init__(self, width: int):
        super().__init__()
        self.gate, self.up = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, 3 * width, bias=False)
        self.down = nn.Linear(3 * width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    def __init__(self, sizes: Sizes, is_llama: bool):
        super().__init__()
        width = sizes.width
        norm = nn.RMSNorm if is_llama else nn.LayerNorm
        self.before_attention, self.before_perceptron = norm(width), norm(width)
        self.attention = Attention(sizes, is_llama)
        plain = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width))
        self.perceptron = Gated(width) if is_llama else plain

    def forward(
        self, x: torch.Tensor, positions: torch.Tensor, keys: torch.Tensor, values: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        y, keys, values = self.attention(self.before_attention(x), positions, keys, values)
        x = x + y
        return x + self.perceptron(self.before_perceptron(x)), keys, values


class Decoder(nn.Module):
    """Tokens ``(count,)``, a position and caches ``(layers, groups, length, depth)`` to logits and caches."""

    def __init__(self, sizes: Sizes, is_llama: bool):
        super().__init__()
        self.sizes, self.is_llama = sizes, is_llama
        self.tokens = nn.Embedding(sizes.vocabulary, sizes.width)
        self.positions = None if is_llama else nn.Embedding(sizes.length, sizes.width)
        self.blocks = nn.ModuleList(Block(sizes, is_llama) for _ in range(sizes.layers))
        self.norm = nn.RMSNorm(sizes.width) if is_llama else nn.LayerNorm(sizes.width)
        self.head = nn.Linear(sizes.width, sizes.vocabulary, bias=False)

    def forward(
        self, tokens: torch.Tensor, start: torch.Tensor, keys: torch.Tensor, values: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        positions = start + torch.arange(tokens.shape[0])
        x = self.tokens(tokens)
        if self.positions is not None:
            x = x + self.positions(positions)
        new_keys, new_values = [], []
        for number, block in enumerate(self.blocks):
            x, key, value = block(x, positions, keys[number], values[number])
            new_keys.append(key)
            new_values.append(value)
        return self.head(self.norm(x[-1])), torch.stack(new_keys), torch.stack(new_values)

    def empty_caches(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return caches of no tokens yet."""
        sizes = self.sizes
        shape = (sizes.layers, sizes.groups, sizes.length, sizes.depth)
        return torch.zeros(shape), torch.zeros(shape)


def decoder(name: str, sizes: Sizes | None = None) -> Decoder:
    """Return the decoder ``"gpt2"`` or ``"llama"`` with random weights."""
    is_llama = name == "llama"
    sizes = sizes or Sizes(groups=2 if is_llama else 4)
    return Decoder(sizes, is_llama).eval()
