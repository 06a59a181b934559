"""Statements that imperative functions repeat are compiled once (`codegen/passes/repeated_statements.py`)."""

from __future__ import annotations

import re

import numpy as np
import torch

import mlirtri


class Layers(torch.nn.Module):
    def __init__(self, count: int):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(16, 16) for _ in range(count))

    def forward(self, x):
        for layer in self.layers:
            x = torch.nn.functional.layer_norm(torch.relu(layer(x)), (16,))
        return x


def compiled(count: int):
    torch.manual_seed(0)
    module = Layers(count).eval()
    sizes = {"x": {0: torch.export.Dim("n", min=2, max=4096)}}
    return module, mlirtri.from_torch(module, (torch.randn(8, 16),), dynamic_shapes=sizes).compile()


def operations_in(kernel) -> int:
    return len(re.findall(r"^  %", kernel.ir["llvm"], re.MULTILINE))


def factorised(a, b):
    return np.linalg.solve(a, b), np.linalg.inv(a)


def test_functions_are_not_inlined_as_their_alias_sets_are_their_own():
    a = np.random.default_rng(3).uniform(-9, 9, (6, 6))
    kernel = mlirtri.jit(factorised).compile(a, a[0])
    parts = re.findall(r"^define .*_part\d.*?^}", kernel.ir["llvm"], re.MULTILINE | re.DOTALL)
    assert parts
    assert all("call void (...) @llvm.localescape()" in part for part in parts)
    for result, expected in zip(kernel(a, a[0]), factorised(a, a[0]), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-12)


def test_equal_layers_are_compiled_once_and_are_right():
    _, two = compiled(2)
    module, four = compiled(4)
    assert operations_in(four) < 1.4 * operations_in(two)
    for rows in (2, 7, 300):
        x = torch.randn(rows, 16)
        with torch.no_grad():
            torch.testing.assert_close(four(x), module(x), rtol=1e-5, atol=1e-5)
