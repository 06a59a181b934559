"""Programs from the disk cache: one entry for all weights, none for another program, and torch.compile's graphs."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from disk_caches import DiskCache

import mlirtri as mt
from mlirtri.errors import CacheMissError
from mlirtri.programs import program as programs

MODULE = """
func.func @main(%a: tensor<?xf32>, %b: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>) {
  %0 = arith.OP %a, %b : tensor<?xf32>
  %1 = math.exp %0 : tensor<?xf32>
  return %0, %1 : tensor<?xf32>, tensor<?xf32>
}
"""


@pytest.fixture
def cache(tmp_path, monkeypatch):
    cache = DiskCache(tmp_path / "cache", monkeypatch)
    rest = programs._Run.rest

    def counted(*arguments):
        cache.compiles += 1
        return rest(*arguments)

    monkeypatch.setattr(programs._Run, "rest", counted)
    return cache


@pytest.mark.parametrize("pipeline", ["mlir", "linalg"])
def test_a_program_of_mlir(cache, random, pipeline):
    def check(operation, expected, count, size=5, **options):
        cache.renew()
        a, b = random.standard_normal((2, size)).astype(np.float32)
        kernel = mt.from_mlir(MODULE.replace("OP", operation)).compile(pipeline=pipeline, **options)
        results = kernel(a, b)
        np.testing.assert_allclose(results[0], expected(a, b), rtol=1e-6)
        np.testing.assert_allclose(results[1], np.exp(expected(a, b)), rtol=1e-5)
        assert cache.compiles == count
        return kernel

    first = check("addf", np.add, 1)
    second = check("addf", np.add, 1, size=7)
    assert dict(second.ir) == dict(first.ir)
    assert second.interface == first.interface
    check("subf", np.subtract, 2)
    check("addf", np.add, 3, shapes={"a": (5,), "b": (5,)})
    assert len(cache.entries()) == 3
    assert second.passes["fused"], "compiles again"


class Counter(torch.nn.Module):
    def __init__(self, seed):
        super().__init__()
        torch.manual_seed(seed)
        self.linear = torch.nn.Linear(4, 3)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        return self.linear(x) * self.calls


def test_a_torch_module_with_other_weights_and_a_state(cache, monkeypatch):
    x = torch.ones(2, 4)
    for seed in (0, 1):
        cache.renew()
        module = Counter(seed)
        program = mt.from_torch(Counter(seed), (x,))
        for _ in range(2):
            torch.testing.assert_close(program(x), module(x))
    assert cache.compiles == 1
    monkeypatch.setenv("MLIRTRI_ASSERT_CACHE_HIT", "1")
    cache.renew()
    mt.from_torch(Counter(2), (x,))(x)
    with pytest.raises(CacheMissError, match="text differs"):
        mt.from_torch(Counter(2), (torch.ones(3, 4),))(torch.ones(3, 4))


def test_graphs_of_torch_compile(cache):
    x = torch.ones(2, 4)
    for seed in (0, 1):
        cache.renew()
        torch._dynamo.reset()
        module = torch.nn.Sequential(Counter(seed).linear, torch.nn.Tanh())
        compiled = torch.compile(module, backend="mlirtri")
        with torch.no_grad():
            torch.testing.assert_close(compiled(x), module(x))
    assert cache.compiles == 1
