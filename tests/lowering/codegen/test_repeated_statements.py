"""Statements that imperative functions repeat are compiled once (`codegen/passes/repeated_statements.py`)."""

from __future__ import annotations

import re

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


def test_equal_layers_are_compiled_once_and_are_right():
    _, two = compiled(2)
    module, four = compiled(4)
    assert operations_in(four) < 1.4 * operations_in(two)
    for rows in (2, 7, 300):
        x = torch.randn(rows, 16)
        with torch.no_grad():
            torch.testing.assert_close(four(x), module(x), rtol=1e-5, atol=1e-5)
