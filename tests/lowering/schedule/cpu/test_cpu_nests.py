"""The CPU's loops for elementwise work and reductions: every extent to its end, NaN, all dtypes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import mlirtri
from mlirtri import jit
from mlirtri.lowering.codegen.targets import vector_bits

EXTENTS = ((1, 1), (3, 5), (7, 16), (5, 37), (70, 1001))
DTYPES = ("float64", "float16", "int8", "int64", "uint8")


@jit
def sum_rows(x):
    return np.sum(x, axis=1)


@jit
def sum_columns(x):
    return np.sum(x, axis=0)


@jit
def sum_all(x):
    return np.sum(x)


@jit
def sum_middle(x):
    return np.sum(x, axis=1)


@jit
def extrema(x):
    return np.max(x, axis=1), np.min(x, axis=1), np.max(x, axis=0), np.min(x)


@jit
def positions(x):
    return np.argmax(x, axis=1), np.argmin(x, axis=1), np.argmax(x, axis=0), np.argmin(x)


@jit
def conditions(x):
    return np.any(x > 1, axis=1), np.all(x > 0, axis=1), np.any(x > 1, axis=0), np.all(x > 0)


@jit
def products(x):
    return np.prod(x, axis=1), np.prod(x, axis=0)


@jit
def bordered(x):
    return np.pad(x, ((1, 2), (3, 1)))


@jit
def joined(x):
    return np.concatenate([x, x + 1, x[:, 1:]], axis=1)


@jit
def spread(x):
    return x * 2 + x[0] + x[:, :1]


@jit
def turned(x):
    return x[::-1, ::-1] - x.T.T, x.T + 1


def _array(shape, dtype):
    random = np.random.default_rng(sum(shape))
    if np.dtype(dtype).kind in "iu":
        return random.integers(0, 5, shape).astype(dtype)
    return random.standard_normal(shape).astype(dtype)


def _compare(kernel, x):
    made, expected = kernel(x), kernel.__wrapped__(x)
    made, expected = ((each if isinstance(each, tuple) else (each,)) for each in (made, expected))
    for one, other in zip(made, expected, strict=True):
        assert np.asarray(one).dtype == np.asarray(other).dtype
        if np.asarray(other).dtype.kind != "f":
            np.testing.assert_array_equal(one, other)
            continue
        spacing = float(np.finfo(np.asarray(other).dtype).eps) * max(x.shape) ** 0.5 * 8
        np.testing.assert_allclose(one, other, rtol=spacing, atol=spacing * max(1.0, np.abs(x).max() * x.shape[0]))


@pytest.mark.parametrize("shape", EXTENTS, ids=str)
@pytest.mark.parametrize("kernel", [sum_rows, sum_columns, sum_all, extrema, positions, conditions, spread, bordered])
def test_every_extent_is_done_to_its_end(kernel, shape):
    _compare(kernel, _array(shape, "float32"))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kernel", [sum_columns, extrema, positions, products, bordered])
def test_all_dtypes(kernel, dtype):
    x = _array((6, 83), dtype)
    _compare(kernel, np.minimum(x, 2) if kernel is products else x)


@pytest.mark.parametrize("kernel", [extrema, positions])
def test_nan_and_infinity_are_numpys(kernel):
    x = _array((40, 77), "float32")
    x[3, 5] = x[3, 70] = x[7, 76] = x[8, 0] = np.nan
    x[10] = -np.inf
    x[11] = np.inf
    x[12, 4] = x[12, 44] = np.inf
    _compare(kernel, x)
    assert kernel.compile(x).ir["scheduled"].count("has_nan = ") >= 2


@pytest.mark.parametrize("shape", [(3, 5, 7), (2, 40, 33), (4, 3, 256), (1, 9, 1)], ids=str)
def test_the_middle_axis(shape):
    _compare(sum_middle, _array(shape, "float32"))


@pytest.mark.parametrize("shape", [(5, 37), (16, 16), (33, 130)], ids=str)
@pytest.mark.parametrize("kernel", [joined, turned])
def test_parts_of_arrays(kernel, shape):
    _compare(kernel, _array(shape, "float32"))


def test_first_of_equal_extrema():
    x = np.zeros((9, 100), np.float32)
    x[2, 17] = x[2, 18] = x[2, 99] = 1
    _compare(positions, x)


def whole_sums(x):
    return x.sum(), x.double().sum(), x.sum(0)


@pytest.mark.parametrize("shape", [(37, 301), (300,), (2000,)], ids=str)
def test_long_sums_end_in_one_function(shape):
    """Terms are added in fp32 by blocks where the sum ends in fp32, and only there."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0)) + 1
    kernel = mlirtri.jit(whole_sums).compile(x)
    found = kernel(x)
    exact = x.double()
    torch.testing.assert_close(found[0].double(), exact.sum(), rtol=3e-7, atol=0)
    torch.testing.assert_close(found[1], exact.sum(), rtol=1e-14, atol=0)
    torch.testing.assert_close(found[2].double(), exact.sum(0), rtol=3e-6, atol=1e-5)
    alone = mlirtri.jit(whole_sum).compile(x).ir["scheduled"]
    assert alone.count("@T.prim_func") == 1
    assert "tree" in alone


def whole_sum(x):
    return x.sum()


@pytest.mark.parametrize("axis", [0, 1])
def test_sums_of_large_numbers_that_cancel(axis):
    """A block of terms overflows fp32 where the sum, carried in fp64, does not."""
    x = torch.zeros(4, 2053)
    x[0, :1001], x[0, 1001:2002] = 3e38, -3e38
    x[1, :600], x[1, 600], x[2, 2051], x[3, 1000] = 3e38, torch.nan, torch.inf, -torch.inf
    x = x if axis == 1 else x.repeat_interleave(9, 0).T.contiguous()
    kernel = mlirtri.jit(lambda x: x.sum(axis)).compile(x)
    assert "if " in kernel.ir["scheduled"]
    torch.testing.assert_close(kernel(x).double(), x.double().sum(axis), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize(("dtype", "widening"), [("uint8", 1), ("int8", 1.5), ("int16", 1)], ids=str)
def test_narrow_integers_fill_their_vectors(dtype, widening):
    x = torch.arange(300).remainder(97).reshape(3, 100).to(getattr(torch, dtype))
    kernel = mlirtri.jit(lambda x: torch.where(x > 5, x + x, (x & 3) * 3) * widening).compile(x)
    torch.testing.assert_close(kernel(x), torch.where(x > 5, x + x, (x & 3) * 3) * widening)
    lanes = vector_bits() // (8 * x.itemsize)
    assert (f"T.vectorized(T.int64({lanes}))" in kernel.ir["scheduled"]) == (widening == 1)


def of_two_kinds(x):
    return torch.where(torch.arange(2) == 0, torch.tanh(x)[:, :, None], x[:, :, None] + 1)


def channels_behind(x):
    return x.permute(0, 2, 3, 1) * 2


@pytest.mark.parametrize(("kernel", "shape", "dtype"), [
    (of_two_kinds, (3, 37), torch.float32), (of_two_kinds, (2, 64), torch.float64),
    (of_two_kinds, (40, 5), torch.float32),
    (channels_behind, (2, 3, 5, 7), torch.float32), (channels_behind, (2, 7, 4, 9), torch.int64),
])  # fmt: skip
def test_results_of_few_columns_are_interleaved_vectors(kernel, shape, dtype):
    x = (torch.randn(shape, dtype=torch.float64) * 9).to(dtype)
    made = jit(kernel).compile(x)
    text = made.ir["scheduled"]
    assert "T.Shuffle([" in text
    assert '"PlainElementwise"' not in text
    torch.testing.assert_close(made(x), kernel(x))


def permuted(x):
    return x.permute(0, 2, 1).contiguous(), x.permute(2, 0, 1) * 2, x.permute(2, 1, 0) + x.permute(2, 1, 0)[:, :1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64], ids=str)
@pytest.mark.parametrize("shape", [(2, 35, 21), (3, 4, 70)], ids=str)
def test_permutations(shape, dtype):
    """Squares that are turned round in registers, the last ones over those before them."""
    x = (torch.arange(np.prod(shape)).reshape(shape) % 509).to(dtype)
    kernel = mlirtri.jit(permuted).compile(x)
    assert "T.Shuffle" in kernel.ir["scheduled"]
    for made, expected in zip(kernel(x), permuted(x), strict=True):
        torch.testing.assert_close(made, expected.contiguous(), rtol=0, atol=0)


def narrow_extrema(x):
    return x.amax(1), x.amin(), x.argmax(1), (x > 1).any(1)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.bfloat16, torch.float16], ids=str)
def test_extrema_of_narrow_dtypes(dtype):
    """Cells of another dtype than the results: unsigned bytes, bools as bytes, bf16 as fp32."""
    x = (torch.arange(7 * 331).reshape(7, 331) % 251).to(dtype)
    if dtype.is_floating_point:
        x[1, 300] = x[2, 7] = torch.nan
        x[3] = -torch.inf
    kernel = mlirtri.jit(narrow_extrema).compile(x)
    assert "PlainReduction" not in kernel.ir["scheduled"]
    for made, expected in zip(kernel(x), narrow_extrema(x), strict=True):
        torch.testing.assert_close(made, expected, rtol=0, atol=0, equal_nan=True)


def wrapped_position(x):
    return np.argmin(x * x, axis=1)


class Extremes(torch.nn.Module):
    def forward(self, x):
        return x.amax(), x.amin((0, 1), True), x.any(-1)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.float32])
def test_whole_arrays_of_torch_are_one_row_and_a_few_results_keep_the_vectors(dtype):
    """Three results have no vectors, which the 2000 numbers of each do."""
    x = (torch.arange(6000).reshape(3, 2000) % 251).to(dtype)
    kernel = mlirtri.from_torch(Extremes(), (x,)).compile()
    for found, wanted in zip(kernel(x), Extremes()(x), strict=True):
        assert torch.equal(found, wanted)
    text = kernel.ir["scheduled"]
    assert "Plain" not in text
    assert "int16" in text or dtype != torch.uint8


def test_positions_of_terms_that_wrap():
    x = np.full((3, 40), np.iinfo(np.int32).min, np.int32)
    x[:, :7] = 3
    np.testing.assert_array_equal(mlirtri.jit(wrapped_position)(x), wrapped_position(x))


WINDOWS = {
    "maximum": (lambda x: F.max_pool2d(x, 3, 2, 1), [(2, 5, 23, 37)]),
    "maximum, wide": (lambda x: F.max_pool2d(x, 3, 2, 1), [(1, 2, 112, 112)]),
    "maximum, narrow": (lambda x: F.max_pool2d(x, 2), [(1, 3, 9, 10)]),
    "mean": (lambda x: F.avg_pool2d(x, 3, 1, 1), [(1, 5, 14, 19)]),
    "one axis": (lambda x: F.max_pool1d(x, 5, 1, 2), [(2, 3, 50)]),
    "three axes": (lambda x: F.avg_pool3d(x, 2, 1), [(1, 2, 5, 6, 21)]),
    "depthwise": (lambda x, w: F.conv2d(x, w, padding=1, groups=6), [(2, 6, 15, 18), (6, 1, 3, 3)]),
    "depthwise, strided": (lambda x, w: F.conv2d(x, w, stride=2, groups=6), [(1, 6, 41, 43), (6, 1, 5, 5)]),
    "two results per channel": (lambda x, w: F.conv2d(x, w, padding=1, groups=4), [(1, 4, 15, 18), (8, 1, 3, 3)]),
}


@pytest.mark.parametrize("case", WINDOWS)
def test_windows(case):
    class Net(torch.nn.Module):
        def forward(self, *tensors):
            return WINDOWS[case][0](*tensors)

    torch.manual_seed(0)
    tensors = tuple(torch.randn(shape) for shape in WINDOWS[case][1])
    kernel = mlirtri.from_torch(Net(), tensors).compile()
    # TVM takes four times as long for twice as much. Narrower vectors need more statements.
    assert len(kernel.ir["scheduled"]) < (200_000 if vector_bits() == 512 else 250_000)
    torch.testing.assert_close(kernel(*tensors), Net()(*tensors), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(333, 777), (70001,), (3, 5, 4001)], ids=str)
def test_one_result_by_several_threads(shape, monkeypatch):
    monkeypatch.setenv("MLIRTRI_NUM_THREADS", "3")
    x = _array(shape, "float32")
    kernel = mlirtri.jit(whole)
    assert "T.parallel" in kernel.compile(x).ir["scheduled"]
    total, largest, place = kernel(x)
    np.testing.assert_allclose(total, x.sum(), rtol=1e-4, atol=1e-2)
    assert (largest, place) == (x.max(), x.argmax())


def whole(x):
    return np.sum(x), np.max(x), np.argmax(x)


@jit
def places(x):
    return np.argmax(x), np.argmin(x * 2), np.argmax(x.T)


@pytest.mark.parametrize("dtype", ["float32", "int64"])
@pytest.mark.parametrize("shape", [(9, 77), (3, 5, 41), (2, 3, 4, 50)], ids=str)
def test_place_in_a_whole_array_is_searched_in_vectors(shape, dtype):
    x = np.random.default_rng(0).integers(-500, 500, shape).astype(dtype)
    x[-1, -1] = x[0, 1] = 501  # the first of equal ones
    assert places.compile(x).ir["scheduled"].count("first_1 = T.alloc_buffer") == 2
    assert places(x) == (x.argmax(), x.argmin(), x.T.argmax())
    if dtype == "float32":
        x[1, 2, ...] = x[0, 2] = np.nan
        assert places(x) == (x.argmax(), x.argmin(), x.T.argmax())


@jit
def remainders(x):
    return x % 3


def test_a_block_with_buffers_of_its_own_runs_on_several_threads(monkeypatch):
    """TVM's inlining of what such a block reads took it for work that cannot be parallel."""
    monkeypatch.setenv("MLIRTRI_FORCE_SCHEDULES", "1")
    monkeypatch.setenv("MLIRTRI_NUM_THREADS", "2")
    x = torch.tensor([False, True])
    kernel = remainders.compile(x, pipeline="relax")
    assert "T.parallel" in kernel.ir["scheduled"]
    assert torch.equal(kernel(x), x % 3)


class _ConstantRows(torch.nn.Module):
    """Two tables, one of which is read at constant indices: its check reduces constants to a tensor of rank 0."""

    def __init__(self):
        super().__init__()
        self.words, self.kinds = torch.nn.Embedding(9, 8), torch.nn.Embedding(2, 8)

    def forward(self, words):
        return self.words(words) + self.kinds(torch.zeros(1, 16, dtype=torch.int64))


def test_checks_of_constant_indices_have_a_schedule():
    module, words = _ConstantRows().eval(), torch.arange(16).reshape(1, 16) % 9
    kernel = mlirtri.from_torch(module, (words,)).compile()
    torch.testing.assert_close(kernel(words), module(words))
