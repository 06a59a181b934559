"""`mt.from_torch` of modules that call kernels: lowered with the module, their writes and checks kept."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
import torch

import mlirtri as mt
from mlirtri.errors import ParseError, UnsupportedOperationError
from mlirtri.programs.torch_programs.custom_op import OPERATORS


@mt.torch_op("kernels_in_programs::scaled", writes=["calls", "out"])
@mt.jit
def scaled(calls, x, out, factor: int = 2, counts: bool = True):
    if counts:
        calls += 1
    out[:] = x * factor
    return x + 1


@mt.torch_op("kernels_in_programs::taken")
@mt.jit
def taken(x, indices, factor: mt.float32):
    total = 0.0
    for i in range(indices.shape[0]):
        total += x[indices[i], 0]  # line of the check
    return x[indices] * factor + total, x - np.max(x)


@mt.torch_op("kernels_in_programs::bump", writes=["calls"])
@mt.jit
def bump(calls):
    calls += 1


@mt.torch_op("kernels_in_programs::shown")
@mt.jit(debug=True)
def shown(x):
    mt.device_print("x", x)
    return x + 1


pytestmark = pytest.mark.filterwarnings("ignore:.* is not contiguous")


class Model(torch.nn.Module):
    def __init__(self, counts: bool = True):
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))
        self.counts = counts

    def forward(self, x, indices):
        out = torch.empty(4, x.shape[0]).t()  # written through a view
        plus_one = scaled(self.calls, x, out, factor=3, counts=self.counts)
        bump(self.calls)
        first, shifted = taken(plus_one + out, indices, 0.5)
        second, _ = taken(shifted, indices, 0.25)
        return first + second, shifted


X, INDICES = torch.arange(20.0).reshape(5, 4).flip(1), torch.tensor([0, 3, -1, 4])


@pytest.mark.parametrize(("pipeline", "counts"), [("linalg", True), ("mlir", True), ("linalg", False)])
def test_results_and_writes_are_those_of_eager(pipeline, counts):
    expected, model = Model(counts), Model(counts)
    kernel = mt.from_torch(model, (X, INDICES)).compile(pipeline=pipeline)
    for result, wanted in zip(kernel(X, INDICES), expected(X, INDICES), strict=True):
        torch.testing.assert_close(result, wanted)
    assert model.calls.item() == expected.calls.item() == (2 if counts else 1)
    with pytest.raises(IndexError, match="out of bounds for axis 0 of size 5") as caught:
        kernel(X, torch.tensor([0, 7, 1, 1]))
    assert caught.value.span.file == __file__
    assert "line of the check" in Path(__file__).read_text().splitlines()[caught.value.span.line - 1]


def test_a_kernel_may_check_and_write():
    @mt.torch_op("kernels_in_programs::counted", writes=["histogram"])
    @mt.jit
    def counted(histogram, indices):
        for i in range(indices.shape[0]):
            histogram[indices[i]] += 1
        return histogram.sum()

    class Counting(torch.nn.Module):
        def forward(self, histogram, indices):
            return torch.ops.kernels_in_programs.counted(histogram, indices) * 2

    kernel = mt.from_torch(Counting(), (torch.zeros(6), INDICES)).compile()
    histogram = torch.zeros(6)
    assert kernel(histogram, INDICES).item() == 8
    np.testing.assert_array_equal(histogram, [1, 0, 0, 1, 1, 1])
    with pytest.raises(IndexError, match="out of bounds for axis 0 of size 6"):
        kernel(histogram, INDICES + 3)


def test_run_time_sizes_stay_so():
    sizes = {"x": {0: torch.export.Dim("rows", min=2)}, "indices": {0: torch.export.Dim("count", min=2)}}
    kernel = mt.from_torch(Model(), (X, INDICES), dynamic_shapes=sizes).compile()
    for rows, count in ((5, 4), (9, 2), (33, 50)):
        x, indices = torch.randn(rows, 4), torch.randint(0, rows, (count,))
        torch.testing.assert_close(kernel(x, indices), Model()(x, indices))


def test_a_kernel_fuses_with_what_surrounds_it():
    class Surrounded(torch.nn.Module):
        def forward(self, x):
            return torch.relu(torch.ops.kernels_in_programs.fused(x * 2)) + 1

    @mt.torch_op("kernels_in_programs::fused")
    @mt.jit
    def fused(x):
        return np.tanh(x) * 3

    kernel = mt.from_torch(Surrounded(), (X,)).compile()
    assert kernel.stats["kernels"] == 1
    torch.testing.assert_close(kernel(X), Surrounded()(X))


def test_an_exported_program_is_left_as_it_is():
    exported = torch.export.export(Model(), (X, INDICES))
    before, code = copy.deepcopy(exported.graph), exported.graph_module.code
    mt.from_torch(exported)
    assert exported.graph_module.code == code
    assert str(exported.graph) == str(before)


def test_a_kernel_that_prints_is_refused():
    class Printing(torch.nn.Module):
        def forward(self, x):
            return torch.ops.kernels_in_programs.shown(x)

    with pytest.raises(UnsupportedOperationError, match="kernels_in_programs::shown prints"):
        mt.from_torch(Printing(), (X,))


def test_a_program_that_is_functionalized_already_is_refused():
    exported = torch.export.export(Model(), (X, INDICES)).run_decompositions()
    with pytest.raises(UnsupportedOperationError, match="scaled writes, and torch has functionalized") as caught:
        mt.from_torch(exported)
    assert "before run_decompositions" in caught.value.help


def test_an_archive_may_call_the_kernels_that_this_process_has_registered(tmp_path, monkeypatch):
    file, x, indices = tmp_path / "model.pt2", torch.randn(3, 4), torch.tensor([2, 0])
    torch.export.save(torch.export.export(Model(), (x, indices)), file)
    program = mt.from_torch(file)
    for ours, eager in zip(program(x, indices), Model()(x, indices), strict=True):
        torch.testing.assert_close(ours, eager)
    monkeypatch.delitem(OPERATORS, torch.ops.kernels_in_programs.taken.default)
    with pytest.raises(ParseError, match=r"taken.default', which is not .*, nor a kernel of mt.torch_op") as caught:
        mt.from_torch(file)
    assert "import the file that registers its kernels" in caught.value.help
