"""A block of a transformer as a torch module: an imported program of several kernels."""

import torch
from torch import nn
from torch.nn import functional

import mlirtri as mt


class Block(nn.Module):
    """Attention over tokens and two linear layers, each after a layer norm and around what went in."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.project, self.mix = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.expand, self.contract = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens, width = x.shape
        parts = self.project(self.first(x)).view(tokens, 3, self.heads, -1)
        query, key, value = (parts[:, part].transpose(0, 1) for part in range(3))
        mixed = functional.scaled_dot_product_attention(query, key, value).transpose(0, 1).reshape(tokens, width)
        x = x + self.mix(mixed)
        return x + self.contract(functional.gelu(self.expand(self.second(x))))


torch.manual_seed(0)
program = mt.from_torch(Block(64, 4).eval(), (torch.randn(32, 64),))
