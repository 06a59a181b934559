"""The model of `model.py` once more, as kernels: plain functions over tensors that mlirtri compiles.

They are written with torch's own functions, so they run as plain Python too: `mlirtri.compare` times torch on them.
"""

from __future__ import annotations

import torch
from torch.nn import functional

import mlirtri as mt


@mt.jit
def attention(x, query, key, value, mix, mix_bias):
    """One head over tokens `[n, tokens, width]`; scores are scaled by the root of the width."""
    scores = (x @ query.T) @ (x @ key.T).mT / x.shape[2] ** 0.5
    return functional.linear(functional.softmax(scores, dim=-1) @ (x @ value.T), mix, mix_bias)


@mt.jit
def feed_forward(x, expand, expand_bias, contract, contract_bias):
    return functional.linear(functional.gelu(functional.linear(x, expand, expand_bias)), contract, contract_bias)


@mt.jit
def classify_digits(
    images, embed, embed_bias, position,
    attention_scale, attention_shift, query, key, value, mix, mix_bias,
    hidden_scale, hidden_shift, expand, expand_bias, contract, contract_bias,
    classify, classify_bias,
):  # fmt: skip
    """Images `[n, 8, 8]` → logits `[n, 10]`."""
    x = functional.linear(images, embed, embed_bias) + position
    y = functional.layer_norm(x, (x.shape[2],), attention_scale, attention_shift)
    x = x + attention(y, query, key, value, mix, mix_bias)
    y = functional.layer_norm(x, (x.shape[2],), hidden_scale, hidden_shift)
    x = x + feed_forward(y, expand, expand_bias, contract, contract_bias)
    return functional.linear(x.flatten(1), classify, classify_bias)


def weights_of(model: torch.nn.Module) -> list[torch.Tensor]:
    """The trained weights in the order of `classify_digits`' parameters."""
    named = {name: tensor.detach() for name, tensor in model.named_parameters()}
    order = (
        "embed.weight", "embed.bias", "position",
        "attention_norm.weight", "attention_norm.bias", "query.weight", "key.weight", "value.weight",
        "mix.weight", "mix.bias",
        "hidden_norm.weight", "hidden_norm.bias", "expand.weight", "expand.bias", "contract.weight", "contract.bias",
        "classify.weight", "classify.bias",
    )  # fmt: skip
    return [named.pop(name) for name in order]
