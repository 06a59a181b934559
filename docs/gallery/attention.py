"""Attention as torch writes it: two products and a softmax, which become one kernel in pipeline linalg."""

import torch

import mlirtri as mt

Heads = mt.Tensor[[8, 128, 64], mt.float32]


@mt.jit
def attention(query: Heads, key: Heads, value: Heads):
    scores = query @ key.mT / query.shape[2] ** 0.5
    return torch.softmax(scores, dim=2) @ value
