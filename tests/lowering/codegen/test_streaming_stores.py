"""Results larger than the last cache are stored past the caches, and are right wherever they begin."""

from __future__ import annotations

import pytest
import torch

import mlirtri as mt
from mlirtri.lowering.codegen.passes import streaming_stores
from mlirtri.lowering.codegen.targets import vector_bits


@pytest.fixture(autouse=True)
def small_caches(monkeypatch):
    monkeypatch.setattr(streaming_stores, "cache_bytes", lambda: {1: 1024, 2: 2048, 3: 65536})


def from_any_place(kernel, arguments, expected):
    """Into memory that begins with a line, and into memory that does not."""
    for first in (0, 1, 3, 16):
        memory = torch.full((expected.numel() + 80,), 7.0, dtype=expected.dtype)
        first += -memory.data_ptr() // memory.element_size() % (64 // memory.element_size())
        out = memory[first : first + expected.numel()].view(expected.shape)
        kernel(*arguments, out=out)
        torch.testing.assert_close(out, expected)
        assert bool((memory[:first] == 7).all())
        assert bool((memory[first + expected.numel() :] == 7).all())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32])
def test_large_results_bypass_the_caches_at_any_address(dtype):
    @mt.jit
    def total(a, b):
        return a + b

    a, b = ((100 * torch.randn(257, 515)).to(dtype) for _ in range(2))
    kernel = total.compile(a, b)
    assert ("!nontemporal" in str(kernel.ir["llvm"])) == (vector_bits() >= 512)
    from_any_place(kernel, (a, b), a + b)


def test_small_results_and_those_that_are_read_again_stay_in_the_caches():
    @mt.jit
    def total(a, b):
        return a + b

    @mt.jit
    def raised(a, b):
        a += b

    small, large = torch.randn(64, 64), torch.randn(257, 512)
    assert "!nontemporal" not in str(total.compile(small, small).ir["llvm"])
    kernel = raised.compile(large, large)
    assert "!nontemporal" not in str(kernel.ir["llvm"])


def test_kinds_of_stores():
    @mt.jit
    def turned(a):
        return a.T + 0, torch.softmax(a, 1)

    a = torch.randn(272, 528)
    kernel = turned.compile(a)
    for found, expected in zip(kernel(a), (a.T, torch.softmax(a, 1)), strict=True):
        torch.testing.assert_close(found, expected)
