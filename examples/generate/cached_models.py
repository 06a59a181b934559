"""Greedy decoding of models of `transformers` by kernels, with the caches of that library as arguments and results.

    python examples/generate/cached_models.py [--model NAME] [--tokens 50] [--pipeline linalg|relax|mlir]

The weights are random, so that nothing is downloaded. Keys and values lie in a `StaticCache`, which kernels write where
it lies: one kernel serves all positions. An encoder and the first step, which fills the keys and values of the
encoder's states, are kernels of their own.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from transformers.cache_utils import DynamicCache, EncoderDecoderCache, StaticCache
from transformers.modeling_outputs import BaseModelOutput

import mlirtri as mt

Call = Callable[..., Any]
WORDS, WIDTH, LAYERS, HEADS, LENGTH = 99, 32, 2, 4, 64
CONFIGURATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("GPT2LMHeadModel", {"n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS, "n_positions": LENGTH}),
    "llama": ("LlamaForCausalLM", {
        "hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "num_key_value_heads": 2,
        "intermediate_size": 64, "max_position_embeddings": LENGTH,
    }),
    "t5": ("T5ForConditionalGeneration", {
        "d_model": WIDTH, "d_kv": WIDTH // HEADS, "d_ff": 64, "num_layers": LAYERS, "num_heads": HEADS,
    }),
    "whisper": ("WhisperForConditionalGeneration", {
        "d_model": WIDTH, "encoder_layers": LAYERS, "decoder_layers": LAYERS, "encoder_attention_heads": HEADS,
        "decoder_attention_heads": HEADS, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "num_mel_bins": 8,
        "max_source_positions": 24, "max_target_positions": LENGTH, "pad_token_id": 0, "bos_token_id": 1,
        "eos_token_id": 2, "decoder_start_token_id": 1,
    }),
}  # fmt: skip


class Step(torch.nn.Module):
    """Tokens, a cache and, after an encoder, its states to the logits of the last token."""

    def __init__(self, model: torch.nn.Module):
        super().__init__()
        self.model = model

    def forward(self, tokens: torch.Tensor, cache: Any, states: torch.Tensor | None = None) -> tuple[torch.Tensor, Any]:
        if states is None:
            outputs = self.model(input_ids=tokens, past_key_values=cache, use_cache=True)
        else:
            encoded = BaseModelOutput(states)
            outputs = self.model(
                decoder_input_ids=tokens, encoder_outputs=encoded, past_key_values=cache, use_cache=True
            )
        return outputs.logits[:, -1], outputs.past_key_values


class Encoder(torch.nn.Module):
    def __init__(self, model: torch.nn.Module):
        super().__init__()
        self.encoder = model.get_encoder()

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.encoder(inputs).last_hidden_state


@dataclass
class Model:
    step: Step
    encoder: Encoder | None
    inputs: torch.Tensor
    """What the encoder takes, or the prompt."""

    def empty_cache(self) -> Any:
        config = self.step.model.config
        cache = StaticCache(config.get_text_config(decoder=True), max_cache_len=LENGTH)
        groups = getattr(config, "num_key_value_heads", HEADS)
        cache.early_initialization(1, groups, WIDTH // HEADS, torch.float32, torch.device("cpu"))
        return EncoderDecoderCache(cache, DynamicCache()) if self.encoder else cache


def model(name: str) -> Model:
    """Return one of the models with random weights, larger than at the start of training: tokens then vary."""
    torch.manual_seed(0)
    kind, settings = CONFIGURATIONS[name]
    network = getattr(transformers, kind)
    network = network(network.config_class(vocab_size=WORDS, **settings)).eval()
    for parameter in network.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.3)
    encoder = Encoder(network) if name in ("t5", "whisper") else None
    inputs = torch.randn(1, 8, 48) if name == "whisper" else torch.randint(3, WORDS, (1, 7))
    return Model(Step(network), encoder, inputs)


def tokens_of(model: Model, encode: Call | None, first: Call, step: Call, count: int) -> list[int]:
    """Return `count` tokens, each the likeliest one after the prompt or the tokens so far."""
    cache, tokens = model.empty_cache(), []
    states = () if encode is None else (encode(model.inputs),)
    prompt = model.inputs if encode is None else torch.ones(1, 1, dtype=torch.int64)
    logits, cache = first(prompt, cache, *states)
    tokens.append(int(logits.argmax()))
    while len(tokens) < count:
        logits, cache = step(torch.tensor([tokens[-1:]]), cache, *states)
        tokens.append(int(logits.argmax()))
    return tokens


@torch.no_grad()
def eager_tokens(model: Model, count: int) -> list[int]:
    return tokens_of(model, model.encoder, model.step, model.step, count)


@torch.no_grad()
def compiled_tokens(model: Model, count: int, pipeline: str = "linalg") -> list[int]:
    """Return the tokens that kernels choose: one for the prompt or first token, and one for each later one."""
    token = torch.ones(1, 1, dtype=torch.int64)
    encode, states = None, ()
    if model.encoder is not None:
        encode = mt.from_torch(model.encoder, (model.inputs,)).compile(pipeline=pipeline)
        states = (model.encoder(model.inputs),)
    prompt = token if states else model.inputs
    first = mt.from_torch(model.step, (prompt, model.empty_cache(), *states)).compile(pipeline=pipeline)
    _, filled = model.step(token, model.empty_cache(), *states)
    step = mt.from_torch(model.step, (token, filled, *states)).compile(pipeline=pipeline)
    return tokens_of(model, encode, first, step, count)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="llama", choices=sorted(CONFIGURATIONS))
    parser.add_argument("--tokens", type=int, default=50)
    parser.add_argument("--pipeline", default="linalg", choices=("linalg", "relax", "mlir"))
    options = parser.parse_args()
    chosen = model(options.model)
    for name, tokens in (("mlirtri", lambda: compiled_tokens(chosen, options.tokens, options.pipeline)),
                         ("eager", lambda: eager_tokens(chosen, options.tokens))):  # fmt: skip
        started = time.perf_counter()
        print(f"{name:<8} {' '.join(map(str, tokens()))} ({time.perf_counter() - started:.1f} s)")


if __name__ == "__main__":
    main()
