"""Greedy decoding with caches that are arguments and results of the program: a kernel for prompts, and one for steps.

    python examples/generate/generate.py [--model gpt2|llama] [--tokens 50] [--pipeline linalg|relax|mlir]

The prompt's kernel takes any number of tokens and is compiled once; the step's kernel takes one, whatever came before.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch
from decoders import Decoder, decoder

import mlirtri as mt

Call = Callable[..., Any]


def compiled(module: Decoder, pipeline: str) -> tuple[Call, Call]:
    """Return the kernels of prompts of any length, and of one token."""
    keys, values = module.empty_caches()
    start = torch.zeros((), dtype=torch.int64)
    count = torch.export.Dim("count", min=2, max=module.sizes.length)
    shapes = {"tokens": {0: count}, "start": None, "keys": None, "values": None}
    prompt = mt.from_torch(module, (torch.arange(4), start, keys, values), dynamic_shapes=shapes)
    step = mt.from_torch(module, (torch.arange(1), start, keys, values))
    return prompt.compile(pipeline=pipeline), step.compile(pipeline=pipeline)


def generated(module: Decoder, prompt_call: Call, step_call: Call, prompt: torch.Tensor, count: int) -> list[int]:
    """Return the `count` tokens that follow a prompt, each the likeliest one."""
    keys, values = module.empty_caches()
    logits, keys, values = prompt_call(prompt, torch.tensor(0), keys, values)
    tokens = [int(logits.argmax())]
    while len(tokens) < count:
        position = torch.tensor(prompt.shape[0] + len(tokens) - 1)
        logits, keys, values = step_call(torch.tensor(tokens[-1:]), position, keys, values)
        tokens.append(int(logits.argmax()))
    return tokens


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="llama", choices=("gpt2", "llama"))
    parser.add_argument("--tokens", type=int, default=50)
    parser.add_argument("--pipeline", default="linalg", choices=("linalg", "relax", "mlir"))
    options = parser.parse_args()
    torch.manual_seed(0)
    module = decoder(options.model)
    started = time.perf_counter()
    prompt_call, step_call = compiled(module, options.pipeline)
    print(f"compiled in {time.perf_counter() - started:.1f} s")
    prompt = torch.randint(0, module.sizes.vocabulary, (7,))
    with torch.no_grad():
        for name, calls in (("mlirtri", (prompt_call, step_call)), ("eager", (module, module))):
            generated(module, *calls, prompt, 2)  # the first calls
            started = time.perf_counter()
            tokens = generated(module, *calls, prompt, options.tokens)
            milliseconds = (time.perf_counter() - started) / options.tokens * 1000
            print(f"{name:<8} {milliseconds:.2f} ms per token: {' '.join(map(str, tokens))}")


if __name__ == "__main__":
    main()
