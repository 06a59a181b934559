"""Atomic updates on CUDA: loops and blocks that share elements run at the same time, with NumPy's numbers."""

from __future__ import annotations

import re
import shutil

import numpy as np
import pytest
import torch
from tiles import EXAMPLES

import mlirtri as mt
import mlirtri.tile as T

RNG = np.random.default_rng(0)
emulated = pytest.mark.skipif(shutil.which("c++") is None, reason="there is no C++ compiler")
SIZE, BINS = 300, 5000


UPDATES = {
    "add": np.add, "subtract": np.subtract, "least": np.minimum, "greatest": np.maximum, "product": np.multiply,
    "every": np.bitwise_and, "any": np.bitwise_or, "odd": np.bitwise_xor,
}  # fmt: skip


def of_floats(index, x, add, subtract, least, greatest, product):
    for i in mt.prange(index.shape[0]):
        mt.atomic_add(add[index[i]], x[i])
        subtract[index[i]] -= x[i]
        mt.atomic_min(least[index[i]], x[i])
        mt.atomic_max(greatest[index[i]], x[i])
        product[index[i]] *= 1 + x[i] / 100


def of_integers(index, x, add, subtract, least, greatest, product, every, any, odd):
    for i in mt.prange(index.shape[0]):
        mt.atomic_add(add[index[i]], x[i])
        subtract[index[i]] -= x[i]
        mt.atomic_min(least[index[i]], x[i])
        mt.atomic_max(greatest[index[i]], x[i])
        product[index[i]] *= x[i]
        mt.atomic_and(every[index[i]], x[i])
        mt.atomic_or(any[index[i]], x[i])
        mt.atomic_xor(odd[index[i]], x[i])


QUICK, SLOW = ("int32", "int64", "float16", "float32"), ("uint32", "uint64", "int16", "uint16", "float64")
NATIVE = {
    "int32": [f"atomic{name}((&" for name in ("Add", "Min", "Max", "And", "Or", "Xor")],
    "int64": [f"mlirtri_atomic_{name}_int64(" for name in ("add", "min", "max", "and", "or", "xor")],
    "float16": ["mlirtri_replace_16("], "float32": ["atomicAdd((&", "mlirtri_replace_32("],
    "float64": ["atomicAdd((&", "mlirtri_replace_64("], "int16": ["mlirtri_replace_16("],
}  # fmt: skip
"""Functions that updates call; others are a loop around `atomicCAS`."""


@emulated
@pytest.mark.parametrize("dtype", [*QUICK, *(pytest.param(dtype, marks=pytest.mark.slow) for dtype in SLOW)])
def test_updates_of_elements_that_iterations_share(dtype):
    is_float = dtype.startswith("float")
    names = list(UPDATES)[: 5 if is_float else None]
    index = RNG.integers(0, 40, SIZE)
    x, h = (RNG.standard_normal(size) if is_float else RNG.integers(0, 100, size) for size in (SIZE, BINS))
    x, h = x.astype(dtype), h.astype(dtype)
    if is_float:
        x[7] = np.nan
    expected, arrays = ({name: h.copy() for name in names} for _ in range(2))
    with np.errstate(invalid="ignore"):
        for name in names:
            factor = (1 + x / 100).astype(dtype) if is_float and name == "product" else x
            UPDATES[name].at(expected[name], index, factor)
    kernel = mt.jit(of_floats if is_float else of_integers).compile(index, x, *arrays.values(), target="cuda:emulated")
    kernel(index, x, *arrays.values())
    tolerance = {"float16": 3e-2, "float32": 1e-5, "float64": 1e-13}.get(dtype, 0)
    for name in names:
        np.testing.assert_allclose(arrays[name], expected[name], rtol=tolerance, atol=tolerance)
    source = kernel.ir["cuda"]
    assert [call for call in NATIVE.get(dtype, ()) if call not in source] == []
    assert "blockIdx.x" in source


@emulated
def test_what_an_element_was_before_is_a_ticket():
    @mt.jit
    def positive(a, out, count):
        for i in mt.prange(a.shape[0]):
            if a[i] > 0:
                out[mt.atomic_add(count[0], 1)] = a[i]

    a, out, count = RNG.standard_normal(SIZE), np.zeros(SIZE), np.zeros(1, np.int64)
    kernel = positive.compile(a, out, count, target="cuda:emulated")
    kernel(a, out, count)
    np.testing.assert_array_equal(np.sort(out[: count[0]]), np.sort(a[a > 0]))
    assert "before_ptr[0] = mlirtri_atomic_add_int64" in kernel.ir["cuda"]


@emulated
def test_one_iteration_takes_an_element_by_comparing():
    @mt.jit
    def claim(owner, index, won):
        for i in mt.prange(index.shape[0]):
            won[i] = mt.atomic_cas(owner[index[i]], -1, i) == -1

    owner, index = np.full(50, -1, np.int32), RNG.integers(0, 50, SIZE)
    won = np.zeros(SIZE, np.bool_)
    claim.compile(owner, index, won, target="cuda:emulated")(owner, index, won)
    assert won.sum() == len(set(index))
    assert all(index[i] == place and won[i] for place, i in enumerate(owner) if i >= 0)


@emulated
def test_plain_loops_with_updates_of_integers_only():
    @mt.jit
    def both(index, x, counts, sums):
        for i in range(index.shape[0]):
            counts[index[i]] += 1
        for i in range(index.shape[0]):
            sums[index[i]] += x[i]

    index, x = RNG.integers(0, BINS, SIZE), RNG.standard_normal(SIZE)
    counts, sums = np.zeros(BINS, np.int32), np.zeros(BINS)
    kernel = both.compile(index, x, counts, sums, target="cuda:emulated")
    kernel(index, x, counts, sums)
    np.testing.assert_array_equal(counts, np.bincount(index, minlength=BINS))
    # In order, as NumPy adds them up.
    np.testing.assert_array_equal(sums, np.bincount(index, x, BINS))
    assert len(re.findall(r"atomicAdd\(", kernel.ir["cuda"])) == 1


@emulated
def test_bytes_stay_in_order():
    @mt.jit
    def mark(index, seen):
        for i in mt.prange(index.shape[0]):
            seen[index[i]] |= np.uint8(1)

    index, seen = RNG.integers(0, BINS, SIZE), np.zeros(BINS, np.uint8)
    kernel = mark.compile(index, seen, target="cuda:emulated")
    kernel(index, seen)
    np.testing.assert_array_equal(np.flatnonzero(seen), np.unique(index))
    assert "atomicAdd(" not in kernel.ir["cuda"]
    assert "atomicCAS(" not in kernel.ir["cuda"]


@emulated
def test_a_divided_sum_has_a_grid_of_three_axes():
    torch.manual_seed(0)
    example = EXAMPLES["split k"]
    a, b = (tensor.half() for tensor in example.make(2))
    out = torch.zeros(a.shape[0], b.shape[1])
    kernel = mt.jit(example.kernel).compile(a, b, out, BM=32, BN=64, BK=32, target="cuda:emulated")
    kernel(a, b, out)
    torch.testing.assert_close(out, a.float() @ b.float(), rtol=1e-4, atol=1e-3)
    [launch] = kernel.stats["launches"]
    assert launch.grid == (2, 2, 4)
    # The copies of a block run ahead of its products, which stay in registers.
    source = kernel.ir["cuda"]
    assert "atomicAdd((&(c_ptr[" in source
    assert "mlirtri_multiply_float16" in source
    assert "mlirtri_wait_for_all_but_0" in source


@emulated
def test_updates_of_shared_tiles_and_of_elements_by_blocks():
    @mt.jit
    def histogram(x, h, most):
        with T.Kernel(T.ceildiv(x.shape[0], 64), threads=64) as bx:
            own = T.alloc_shared((32,), "int32")
            T.clear(own)
            for i in T.Parallel(64):
                if bx * 64 + i < x.shape[0]:
                    T.atomic_add(own[x[bx * 64 + i]], 1)
            for i in T.Parallel(32):
                T.atomic_add(h[i], own[i])
                T.atomic_max(most[0], T.cast(own[i], "float32"))

    x, h, most = RNG.integers(0, 32, SIZE).astype(np.int32), np.zeros(32, np.int32), np.zeros(1, np.float32)
    kernel = histogram.compile(x, h, most, target="cuda:emulated")
    kernel(x, h, most)
    np.testing.assert_array_equal(h, np.bincount(x, minlength=32))
    parts = [np.bincount(x[first : first + 64], minlength=32).max() for first in range(0, SIZE, 64)]
    assert most[0] == max(parts)
    [launch] = kernel.stats["launches"]
    assert launch.grid[0] == 5


@emulated
def test_blocks_that_overwrite_one_another_stay_in_order():
    @mt.jit
    def halves(x, y):
        with T.Kernel(4, threads=64) as bx:
            for i in T.Parallel(64):
                y[i] = y[i] * 0.5 + x[bx * 64 + i]

    x, y = RNG.standard_normal(256), np.zeros(64)
    expected = y.copy()
    for part in x.reshape(4, 64):
        expected = expected * 0.5 + part
    kernel = halves.compile(x, y, target="cuda:emulated")
    kernel(x, y)
    np.testing.assert_allclose(y, expected, rtol=1e-12)
    assert "atomicAdd(" not in kernel.ir["cuda"]
    assert "atomicCAS(" not in kernel.ir["cuda"]


def image_histogram(image, counts):
    for i, j in mt.ndrange(image.shape[0], image.shape[1]):
        counts[image[i, j]] += 1


def test_a_nest_with_atomic_updates_has_a_thread_for_each_element():
    image, counts = mt.Tensor((40, 50), mt.uint8), mt.Tensor((5000,), mt.int32)
    [launch] = mt.jit(image_histogram).compile(image, counts, target="cuda").stats["launches"]
    assert launch.grid[0] * launch.threads >= 40 * 50
