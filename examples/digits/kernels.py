"""The model of `model.py` once more, as kernels: plain functions over tensors that mlirtri compiles."""

from __future__ import annotations

import torch

import mlirtri as mt


@mt.jit
def linear(x, weight, bias):
    """torch's layout: `weight` is `[outputs, inputs]`."""
    return x @ weight.T + bias


@mt.jit
def attention(x, query, key, value, mix, mix_bias):
    """One head over tokens `[n, tokens, width]`; scores are scaled by the root of the width."""
    scores = (x @ query.T) @ mt.transpose(x @ key.T, (0, 2, 1)) / x.shape[2] ** 0.5
    return linear(mt.softmax(scores, axis=-1) @ (x @ value.T), mix, mix_bias)


@mt.jit
def feed_forward(x, expand, expand_bias, contract, contract_bias):
    return linear(mt.gelu(linear(x, expand, expand_bias)), contract, contract_bias)


@mt.jit
def classify_digits(
    images, embed, embed_bias, position,
    attention_scale, attention_shift, query, key, value, mix, mix_bias,
    hidden_scale, hidden_shift, expand, expand_bias, contract, contract_bias,
    classify, classify_bias,
):  # fmt: skip
    """Images `[n, 8, 8]` → logits `[n, 10]`."""
    x = linear(images, embed, embed_bias) + position
    y = mt.layer_norm(x, 1, attention_scale, attention_shift, 1e-5)
    x = x + attention(y, query, key, value, mix, mix_bias)
    y = mt.layer_norm(x, 1, hidden_scale, hidden_shift, 1e-5)
    x = x + feed_forward(y, expand, expand_bias, contract, contract_bias)
    return linear(mt.reshape(x, (x.shape[0], -1)), classify, classify_bias)


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
