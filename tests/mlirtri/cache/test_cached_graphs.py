"""Graphs of kernels from the disk cache."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from disk_caches import DiskCache

import mlirtri as mt
from mlirtri.errors import CacheMissError
from mlirtri.kernels import graph as graphs
from mlirtri.kernels import session

SCALE = 2.0


@mt.jit
def scaled(a, factor):
    return a * factor * SCALE


@mt.jit
def shifted(a, b):
    return np.exp(a) + b


@pytest.fixture
def cache(tmp_path, monkeypatch):
    cache = DiskCache(tmp_path / "cache", monkeypatch)
    later_stages = session._later_stages

    def counted(*arguments):
        cache.compiles += 1
        return later_stages(*arguments)

    monkeypatch.setattr(session, "_later_stages", counted)
    return cache


def recorded(cache, monkeypatch, factor, pipeline):
    """Return the graph as a new process records it."""
    cache.renew()
    monkeypatch.setattr(graphs, "_kernels", {})
    with mt.graph("step", pipeline=pipeline, semantics="numpy") as graph:
        x = graph.argument("x", mt.Tensor((3, 4), mt.float32))
        y = scaled(x, factor)
        graph.returns(y=y, z=shifted(y, x))
    return graph


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
def test_another_process_finds_the_graph(cache, monkeypatch, random, pipeline):
    x = random.standard_normal((3, 4)).astype(np.float32)

    def check(factor, count):
        graph = recorded(cache, monkeypatch, factor, pipeline)
        results = graph(x)
        y = x * np.float32(factor * SCALE)
        np.testing.assert_allclose(results["y"], y, rtol=1e-6)
        np.testing.assert_allclose(results["z"], np.exp(y) + x, rtol=1e-5, atol=1e-6)
        assert cache.compiles == count
        return graph

    first, second = check(0.5, 1), check(0.5, 1)
    assert dict(second.compile().ir) == dict(first.compile().ir)
    check(0.25, 2)
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    check(0.25, 3)
    assert len(cache.entries()) == 3
    monkeypatch.setenv("MLIRTRI_ASSERT_CACHE_HIT", "1")
    check(0.25, 3)
    with pytest.raises(CacheMissError, match="step"):
        recorded(cache, monkeypatch, 0.125, pipeline)(x)


def test_a_graph_whose_entry_is_gone_is_compiled_again(cache, monkeypatch, random):
    x = random.standard_normal((3, 4)).astype(np.float32)
    recorded(cache, monkeypatch, 0.5, "linalg")(x)
    graph = recorded(cache, monkeypatch, 0.5, "linalg")
    kernel = graph.compile()
    for folder in cache.entries():
        shutil.rmtree(folder)
    np.testing.assert_allclose(graph(x)["y"], x, rtol=1e-6)
    assert kernel.passes["tir"]
    assert cache.compiles == 1
