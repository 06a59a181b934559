"""Pipeline `upstream`: MLIR's own passes compute the same numbers, and what is ours among them is glue."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest
import torch

import mlirtri as mt
from mlirtri.cli.main import run_command

GLUE = {
    "decompose", "separate-shared-memory", "results-to-arguments", "strided-copies-to-linalg", "prepare-functions",
    "sizes-to-arguments", "narrow-floats", "locations-of-calls", "narrow-memory", "rounding-to-halves",
    "failed-allocations", "open-copies-to-linalg",
}  # fmt: skip
"""Passes of ours: from `tri` to linalg, the calling convention, arithmetic of 16 bits."""
RANDOM = np.random.default_rng(0)


def rows(a, b):
    e = np.exp(a @ b - np.max(a, axis=1)[:, None])
    return e / np.sum(e, axis=1)[:, None], np.argmax(e, axis=1), e.T[1:, ::2]


def updates(a, b):
    total = 0.0
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            if a[i, j] > 0:
                total += a[i, j] * b[j, i]
            else:
                a[i, j] = total
    return total, a + 1


def until(a, b):
    steps = 0
    while a[0, 0] < 100:
        a += np.abs(b) + 1
        steps += 1
    return steps, np.sum(a)


def integers(a, b):
    return a // b + (a << 1) % b, np.cumsum(a, axis=1), np.sort(a, axis=0), a > b


def parts(a, b):
    return (a + 1j * b) * np.conj(b), np.abs(a - 1j)


@pytest.mark.parametrize("function", [rows, updates, until, parts])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_numbers_are_numpys(function, dtype):
    plain = [RANDOM.standard_normal((12, 12)).astype(dtype) for _ in range(2)]
    ours = [each.copy() for each in plain]
    expected, found = function(*plain), mt.jit(function, pipeline="upstream")(*ours)
    tolerance = 1e-4 if dtype == "float32" else 1e-10
    for mine, other in zip((*found, *ours), (*expected, *plain), strict=True):
        np.testing.assert_allclose(mine, other, tolerance, tolerance)


def test_integers_and_narrow_floats():
    a, b = RANDOM.integers(1, 50, (2, 9, 8), dtype=np.int32)
    for mine, other in zip(mt.jit(integers, pipeline="upstream")(a, b), integers(a, b), strict=True):
        np.testing.assert_array_equal(mine, other)
    x = np.linspace(-2, 2, 33).astype(ml_dtypes.bfloat16)
    found = mt.jit(lambda x: np.exp(x) * x, pipeline="upstream")(x).astype(np.float32)
    np.testing.assert_allclose(found, np.exp(x.astype(np.float32)) * x.astype(np.float32), rtol=2e-2, atol=1e-2)


def test_a_torch_program_and_sizes_of_run_time():
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.ReLU(), torch.nn.Flatten())
    x = torch.randn(2, 3, 8, 8)
    program = mt.from_torch(model, (x,), dynamic_shapes=({0: torch.export.Dim("n", min=2)},))
    for size in (2, 5):
        x = torch.randn(size, 3, 8, 8)
        torch.testing.assert_close(program.compile(pipeline="upstream")(x), model(x).detach(), rtol=1e-4, atol=1e-4)


def test_no_rewrite_of_ours_but_glue():
    kernel = mt.jit(rows).compile(*np.ones((2, 8, 8), np.float32), pipeline="upstream")
    ours = {each.name for passes in kernel.observed.context.passes.values() for each in passes if each.is_ours}
    assert ours <= GLUE
    assert kernel.stats["kernels"] > mt.jit(rows).compile(*np.ones((2, 8, 8), np.float32)).stats["kernels"]


def test_the_command_says_whose_each_pass_is(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert run_command(["stages", "--passes", "--pipeline=mlir"]) == 0
    text = capsys.readouterr().out
    assert re.search(r"bufferized +one-shot-bufferize +MLIR", text)
    assert re.search(r"llvmdialect +tile-contractions +ours", text)
