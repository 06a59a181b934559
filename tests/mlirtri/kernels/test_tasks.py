"""`kernel.tasks`: which loops run on threads, over which indices, and what they read, write and combine."""

from __future__ import annotations

import numpy as np
import pytest

import mlirtri as mt


def relaxed(a, b, steps: mt.int64):
    change = 0.0
    for step in mt.serial(steps):
        for i, j in mt.ndrange((1, a.shape[0] - 1), (1, a.shape[1] - 1)):
            b[i, j] = (a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1]) / 4
        change = 0.0
        for i in mt.prange(1, a.shape[0] - 1):
            for j in range(1, a.shape[1] - 1):
                change = max(change, abs(b[i, j] - a[i, j]))
                a[i, j] = b[i, j]
    b[0, 0] = change
    return change


def counted(k, h, n: mt.int32):
    for i in mt.prange(n):
        h[k[i]] += 1


@pytest.mark.parametrize("pipeline", ["linalg", "relax", "mlir"])
def test_tasks_of_loops_in_a_serial_loop(pipeline, monkeypatch):
    monkeypatch.setenv("MLIRTRI_NUM_THREADS", "2")
    a, b = np.zeros((1000, 500)), np.zeros((1000, 500))
    tasks = mt.jit(relaxed, pipeline=pipeline).compile(a, b, 3).tasks
    outer, stencil, update, end = tasks
    first = relaxed.__code__.co_firstlineno
    assert [(task.kind, task.depth, task.line.line - first) for task in tasks] == [
        ("serial", 0, 2), ("range_for", 1, 3), ("range_for", 1, 6), ("serial", 0, 10)
    ]  # fmt: skip
    assert (outer.bounds, stencil.bounds) == (("0..steps",), ("1..999",))
    assert (stencil.reads, stencil.writes, stencil.reduces, stencil.block) == (("a",), ("b",), (), "32")
    assert (set(update.reads), update.writes, update.reduces, update.block) == ({"a", "b"}, ("a",), ("change",), "16")
    assert "b" in end.writes
    assert "  1: range_for; 1..999; block 32; reads a; writes b  // test_tasks.py" in str(tasks)


def test_tasks_of_open_bounds():
    tasks = mt.jit(counted).compile(mt.Tensor((9000,), mt.int64), mt.Tensor((10,), mt.int64), 5).tasks
    assert [(task.bounds, task.block, task.reduces) for task in tasks] == [(("0..n",), "n/64, at least 1024", ("h",))]
