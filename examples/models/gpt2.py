"""GPT-2 as in Radford et al., Language Models are Unsupervised Multitask Learners (2019), section 2.3."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    """Each position looks at those before it, and at itself."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(width, 3 * width)
        self.merge = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.project(x).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.merge(y.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    """Attention and a perceptron, each after a normalisation and added to what it got."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.before_attention = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.before_perceptron = nn.LayerNorm(width)
        self.perceptron = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.before_attention(x))
        return x + self.perceptron(self.before_perceptron(x))


class GPT2(nn.Module):
    """Tokens ``(batch, length)`` to logits ``(batch, length, vocabulary)``; the defaults are those of the small one."""

    def __init__(
        self, vocabulary: int = 50257, context: int = 1024, width: int = 768, heads: int = 12, blocks: int = 12
    ):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(blocks)))
        self.normalise = nn.LayerNorm(width)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.blocks(self.tokens(tokens) + self.positions(places))
        # The embedding of tokens is used once more, to say which token comes next.
        return F.linear(self.normalise(x), self.tokens.weight)
