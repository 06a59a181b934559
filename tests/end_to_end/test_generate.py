"""Greedy decoding by kernels, whose caches are arguments and results, gives the tokens that eager torch gives."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

import mlirtri as mt

EXAMPLE = Path(__file__).parents[2] / "examples" / "generate"


@pytest.fixture
def example(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLE))
    import decoders
    import generate

    yield decoders, generate
    for name in ("decoders", "generate"):
        sys.modules.pop(name)


@pytest.mark.slow
def test_one_step_serves_all_positions(example):
    decoders, _ = example
    torch.manual_seed(0)
    module = decoders.decoder("llama", decoders.Sizes(40, 32, 4, 2, layers=1, length=24))
    keys, values = module.empty_caches()
    start = torch.zeros((), dtype=torch.int64)
    step = mt.from_torch(module, (torch.arange(1), start, keys, values)).compile()
    others = keys.clone(), values.clone()
    token = torch.tensor([3])
    with torch.no_grad():
        for position in range(24):
            where = torch.tensor(position)
            wanted, *others = module(token, where, *others)
            logits, keys, values = step(token, where, keys, values)
            torch.testing.assert_close(logits, wanted, atol=1e-5, rtol=1e-4)
            assert int(logits.argmax()) == int(wanted.argmax())
            token = wanted.argmax()[None]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "pipeline"), [("gpt2", "linalg"), ("llama", "linalg"), ("llama", "mlir")])
def test_prompts_of_any_length(example, name, pipeline):
    decoders, generate = example
    torch.manual_seed(0)
    module = decoders.decoder(name)
    calls = generate.compiled(module, pipeline)
    with torch.no_grad():
        for length in (2, 5, 13):
            prompt = torch.randint(0, module.sizes.vocabulary, (length,))
            found = generate.generated(module, *calls, prompt, 50)
            assert found == generate.generated(module, module, module, prompt, 50)
