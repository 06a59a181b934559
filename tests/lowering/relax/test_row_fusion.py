"""Row kernels: reductions of rows and what goes along the same rows are one PrimFunc, with the numbers of torch."""

from __future__ import annotations

import re
import shutil

import numpy as np
import pytest
import torch
from row_kernels import KERNELS, arguments, layernorm, rules, softmax, unit_rows
from tolerances import within
from tvm_stage_helpers import random

import mlirtri as mt
from mlirtri.lowering.codegen.targets import vector_bits

SHAPES = ((128, 4096), (5, 49), (3, 17), (7, 1), (1, 33), (2, 3, 100), (4, 1000), (6, 5, 2, 31))


@pytest.mark.parametrize(
    ("shape", "pipeline"),
    [*((shape, "linalg") for shape in SHAPES), *((shape, "relax") for shape in SHAPES[::3])],
    ids=str,
)
@pytest.mark.parametrize("name", KERNELS)
def test_a_row_kernel_is_one_function(name, shape, pipeline):
    function, reference, _ = KERNELS[name]
    given = arguments(name, shape)
    kernel = function.compile(*given, pipeline=pipeline)
    torch.testing.assert_close(kernel(*given), reference(*given), rtol=2e-5, atol=2e-6)
    if shape[-1] > 1:
        assert kernel.stats["kernels"] == 1
        assert rules(kernel) == ["Rows"]


def test_what_a_row_kernel_makes_and_returns_is_a_result_too():
    @mt.jit
    def several(x):
        m = torch.amax(x, dim=-1)
        e = torch.exp(x - m[:, None])
        s = torch.sum(e, dim=-1)
        return m, e, s, e / s[:, None]

    x = torch.randn(10, 77)
    kernel = several.compile(x)
    m, e, s, y = kernel(x)
    assert kernel.stats["kernels"] == 1
    torch.testing.assert_close(m, x.amax(-1))
    torch.testing.assert_close(e, torch.exp(x - x.amax(-1, keepdim=True)))
    torch.testing.assert_close(s, e.sum(-1))
    torch.testing.assert_close(y, torch.softmax(x, -1))


def test_rows_of_several_axes():
    @mt.jit
    def instance_norm(x, w):
        mean = torch.mean(x, dim=(2, 3), keepdim=True)
        c = x - mean
        return c / torch.sqrt(torch.mean(c * c, dim=(2, 3), keepdim=True) + 1e-5) * w[None, :, None, None]

    x, w = torch.randn(2, 3, 9, 11), torch.randn(3)
    kernel = instance_norm.compile(x, w)
    torch.testing.assert_close(kernel(x, w), torch.nn.functional.instance_norm(x, weight=w), rtol=1e-4, atol=1e-5)
    assert kernel.stats["kernels"] == 1
    # Lanes are neighbours also where no axis holds whole vectors.
    assert "T.int64(11)" not in "".join(line for line in kernel.ir["scheduled"].splitlines() if "lane]" in line)


def test_rows_of_several_axes_of_a_part():
    """Its axes end before the tensor's dimensions do: one index of both would read on past them."""

    def normed(x):
        part = x[:, :6, :5]
        pooled = torch.nn.functional.avg_pool2d(x[:, :4, :5], 3)
        normed = torch.nn.functional.layer_norm(part, (6, 5)) + x[:, :6, 2:]
        return normed, part / part.norm(dim=(1, 2), keepdim=True), pooled

    x = torch.randn(3, 8, 7)
    for found, wanted in zip(mt.from_torch(normed, (x,)).compile()(x), normed(x), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


def test_a_row_longer_than_the_cache_is_several_kernels(monkeypatch):
    monkeypatch.delenv("MLIRTRI_FORCE_SCHEDULES", raising=False)
    x = torch.randn(3, 1 << 18)
    kernel = softmax.compile(x)
    assert kernel.stats["kernels"] > 1
    torch.testing.assert_close(kernel(x), torch.softmax(x, -1), rtol=1e-5, atol=1e-9)


def test_a_tile_that_somebody_asks_for_overrides_the_check(monkeypatch):
    monkeypatch.setenv("MLIRTRI_ROW_TILE", "2")
    x = torch.randn(5, 1 << 18)
    kernel = softmax.compile(x)
    assert kernel.stats["kernels"] == 1
    assert "for row in range(T.min(T.int64(2)," in kernel.ir["scheduled"]
    torch.testing.assert_close(kernel(x), torch.softmax(x, -1), rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("length", [49, 11])
def test_partial_results_are_read_in_the_vectors_that_were_stored(length):
    """Three vectors halved are vectors across two stores each, which a CPU waits for: 13 times as slow."""
    x = torch.randn(64, length)
    kernel = unit_rows.compile(x)
    widths = [int(each) for each in re.findall(r"vectorized\(T\.int64\((\d+)\)\)", kernel.ir["scheduled"])]
    lanes = vector_bits() // 32
    whole = (length, length % lanes)  # a row, or what is left of it after whole vectors
    assert all(each in whole or (each <= lanes and not each & (each - 1)) for each in widths)
    torch.testing.assert_close(kernel(x), x / x.norm(dim=-1, keepdim=True))


def test_columns_and_products_are_no_rows():
    @mt.jit
    def columns(x):
        return torch.exp(x) / torch.sum(torch.exp(x), dim=0, keepdim=True)

    @mt.jit
    def product(x, w):
        y = x @ w
        return y / torch.sum(y, dim=-1, keepdim=True)

    x, w = torch.rand(40, 24), torch.rand(24, 24)
    torch.testing.assert_close(columns(x), torch.softmax(x, 0))
    y = x @ w
    torch.testing.assert_close(product(x, w), y / y.sum(-1, keepdim=True))
    assert "Matmul" in rules(product.compile(x, w))


@pytest.mark.parametrize("pipeline", ["linalg", "relax"])
def test_a_product_over_one_element_keeps_its_columns(pipeline):
    class Spread(torch.nn.Module):
        def forward(self, x, y):
            return torch.exp(x.sum(dim=(0, 1), keepdim=True)) @ y

    x, y = torch.rand(5, 13) / 9, torch.rand(1, 5)
    made = mt.from_torch(Spread(), (x, y)).compile(pipeline=pipeline)(x, y)
    torch.testing.assert_close(made, Spread()(x, y))


@pytest.mark.parametrize("pipeline", ["linalg", "relax"])
def test_results_without_elements_fail_no_rule(pipeline):
    @mt.jit(pipeline=pipeline)
    def empty(x):
        return torch.sum(x * 2, dim=1)

    x = torch.ones(3, 4, 0)
    kernel = empty.compile(x)
    assert kernel(x).shape == (3, 0)
    assert "mlirtri.schedule_failures" not in kernel.ir["scheduled"]


def test_a_reader_between_two_parts_of_a_row_kernel():
    @mt.jit
    def between(x, w):
        s = torch.sum(x, dim=-1)
        other = s @ w
        return x / s[:, None] + other

    x, w = torch.rand(16, 32), torch.rand(16, 32)
    torch.testing.assert_close(between(x, w), x / x.sum(-1, keepdim=True) + x.sum(-1) @ w)


class CrossedRows(torch.nn.Module):
    """Two sums over rows, each of which feeds an operand of the other, as class tokens of crossed attention do."""

    def forward(self, a, b, w, v):
        first = torch.cat([a[:1] @ w, b[1:]]).sum(0, keepdim=True)
        second = torch.cat([b[:1] @ w, a[1:]]).sum(0, keepdim=True)
        return torch.cat([first @ v, a[1:]]), torch.cat([second @ v, b[1:]])


@pytest.mark.parametrize("pipeline", ["linalg", "relax"])
def test_groups_that_would_wait_for_one_another_stay_apart(pipeline):
    arguments = (random(5, 8), random(5, 8), random(8, 8), random(8, 8))
    results = mt.from_torch(CrossedRows(), arguments).compile(pipeline=pipeline)(*arguments)
    for result, expected in zip(results, CrossedRows()(*arguments), strict=True):
        torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-5)


def test_the_next_row_is_on_its_way_where_rows_come_from_memory():
    large, vector = mt.Tensor[[8192, 4096], mt.float32], mt.Tensor[[4096], mt.float32]
    assert "llvm.prefetch" in layernorm.compile(large, vector, vector).ir["scheduled"]
    assert "llvm.prefetch" not in layernorm.compile(mt.Tensor[[2, 4096], mt.float32], vector, vector).ir["scheduled"]


def test_group_norm_of_torch_is_a_row_kernel_and_what_scales_it():
    """The factors of channels part a row of groups, so that what comes after the sums stays apart."""
    norm = torch.nn.GroupNorm(3, 12)
    norm.weight.data, norm.bias.data = torch.randn(12), torch.randn(12)
    x = torch.randn(2, 12, 5, 7)
    program = mt.from_torch(norm, (x,)).compile()
    torch.testing.assert_close(program(x), norm(x), rtol=2e-5, atol=2e-5)
    assert program.stats["kernels"] == 2


@mt.jit
def channel_norm(x, w):
    c = x - torch.mean(x, dim=1, keepdim=True)
    return c / torch.sqrt(torch.mean(c * c, dim=1, keepdim=True) + 1e-5) * w[None, :, None, None]


@mt.jit
def channel_softmax(x):
    return torch.softmax(x, 1)


@pytest.mark.parametrize(
    "shape", [(2, 5, 3, 7), (1, 33, 9, 15), (2, 64, 12, 12), (3, 40, 1, 130), (5, 1, 4, 6)], ids=str
)
@pytest.mark.parametrize("pipeline", ["linalg", "relax"])
def test_rows_that_are_adjacent_in_memory(shape, pipeline, monkeypatch):
    """Softmax over channels: each lane of a vector is a row."""
    monkeypatch.setenv("MLIRTRI_FORCE_SCHEDULES", "1")
    x, w = torch.randn(shape), torch.randn(shape[1])
    x[0, 0, 0, 0], x[0, -1, 1 % shape[2], 2], x[-1, :, 0, 1] = torch.nan, torch.inf, -torch.inf
    kernel = channel_softmax.compile(x, pipeline=pipeline)
    torch.testing.assert_close(kernel(x), torch.softmax(x, 1), rtol=2e-5, atol=2e-6, equal_nan=True)
    norm = channel_norm.compile(x, w, pipeline=pipeline)
    expected = torch.nn.functional.layer_norm(x.movedim(1, -1), shape[1:2], w).movedim(-1, 1)
    torch.testing.assert_close(norm(x, w), expected, rtol=2e-4, atol=2e-5, equal_nan=True)
    if shape[1] > 1:
        assert kernel.stats["kernels"] == norm.stats["kernels"] == 1
        assert rules(kernel) == ["Rows"]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_rows_side_by_side_of_other_dtypes(dtype):
    x = torch.randn(3, 20, 5, 9).to(dtype)
    close = {torch.float64: 1e-12, torch.float16: 4e-3, torch.bfloat16: 3e-2}[dtype]
    kernel = channel_softmax.compile(x)
    expected = torch.softmax(x.double(), 1).to(dtype)
    torch.testing.assert_close(kernel(x), expected, rtol=close, atol=close)
    assert "mlirtri.schedule_failures" not in kernel.ir["scheduled"]


def test_sums_that_start_from_elements_are_no_rows(monkeypatch):
    """The bias that a convolution of relax starts from is read in places of the result."""

    class Convolution(torch.nn.Module):
        def forward(self, x, w, first, second):
            return torch.conv2d(x, w, first) + second

    monkeypatch.setenv("MLIRTRI_FORCE_SCHEDULES", "1")
    arguments = (random(1, 1, 9, 11), random(5, 1, 3, 4), random(5), random(5, 1, 1))
    kernel = mt.from_torch(Convolution(), arguments).compile(pipeline="relax")
    torch.testing.assert_close(kernel(*arguments), Convolution()(*arguments), **within("float32", 12))


STARTS_FROM_A_RESULT = """
#sum = {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>], iterator_types = ["reduction"]}
func.func @program(%x: tensor<4xf32>) -> (tensor<f32>, tensor<f32>) {
  %zero = arith.constant dense<0.0> : tensor<f32>
  %total = linalg.generic #sum ins(%x : tensor<4xf32>) outs(%zero : tensor<f32>) {
  ^bb0(%element: f32, %sum: f32):
    %square = arith.mulf %element, %element : f32
    %next = arith.addf %square, %sum : f32
    linalg.yield %next : f32
  } -> tensor<f32>
  %largest = linalg.generic #sum ins(%x : tensor<4xf32>) outs(%total : tensor<f32>) {
  ^bb0(%element: f32, %best: f32):
    %next = arith.maximumf %element, %best : f32
    linalg.yield %next : f32
  } -> tensor<f32>
  return %largest, %total : tensor<f32>, tensor<f32>
}
"""


def test_a_reduction_that_starts_from_the_result_of_another_comes_after_it():
    x = np.array([-3.0, 1.0, 2.0, -1.0], np.float32)
    largest, total = mt.from_mlir(STARTS_FROM_A_RESULT)(x)
    assert (largest, total) == (15.0, 15.0)


def rows_of_shared_weights(x, w):
    y = torch.nn.functional.softmax(x * (1 + w), dim=-1)
    return torch.nn.functional.layer_norm(y, (40,)) * (1 + w)


def rows_in_groups(x, w):
    y = x * torch.rsqrt(torch.mean(x * x, dim=-1, keepdim=True) + 1e-6) * w
    z = torch.transpose(y, 0, 1)
    rotated = torch.cat((-z[:, :, 20:], z[:, :, :20]), dim=-1)
    return torch.reshape(rotated, (3, 2, 7, 40))


@pytest.mark.parametrize("target", ["cpu", "cuda:emulated"])
@pytest.mark.parametrize(("function", "shape"), [(rows_of_shared_weights, (9, 40)), (rows_in_groups, (7, 6, 40))])
def test_rows_compute_what_they_share_and_part_what_they_store(function, shape, target):
    if target != "cpu" and shutil.which("c++") is None:
        pytest.skip("threads are emulated in C++")
    x, w = torch.randn(shape), torch.randn(shape[-1])
    kernel = mt.jit(function).compile(x, w, target=target)
    torch.testing.assert_close(kernel(x, w), function(x, w), rtol=2e-5, atol=2e-5)
    assert kernel.stats["kernels"] == 1
