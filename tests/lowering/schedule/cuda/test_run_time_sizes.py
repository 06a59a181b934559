"""Whole-array kernels of run-time sizes and strides on CUDA: one compile serves all sizes, on the emulated device."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import mlirtri as mt
from mlirtri.lowering.codegen import cuda_to_ptx

TARGET = "cuda:emulated"
M, K, N = mt.dyn["M"], mt.dyn["K"], mt.dyn["N"]
SIZES = (
    *((1, 1, 1), (2, 3, 5), (0, 4, 3), (3, 0, 2), (4, 5, 0), (7, 11, 13), (16, 16, 16), (31, 33, 32), (17, 64, 1)),
    *((64, 1, 19), (1, 257, 3), (300, 2, 2), (5, 130, 129), (128, 7, 64), (33, 100, 65), (2, 1000, 3), (97, 89, 83)),
    *((1000, 3, 1), (3, 4, 1025), (65, 66, 67)),
)  # fmt: skip
Matrix, Row = mt.Tensor[[M, K], mt.float32], mt.Tensor[[K], mt.float32]
FREE = mt.StridedTensor[[M, K], [mt.dyn, mt.dyn], mt.float32]


def elements(a: Matrix, b: Row):
    return np.exp(a) * b + a.shape[0], a.T + 1


def rows(a: Matrix, b: Row):
    e = np.exp(a - a.max(1, keepdims=True))
    centred = a - a.mean(1, keepdims=True)
    return e / e.sum(1, keepdims=True), centred / np.sqrt((centred * centred).mean(1, keepdims=True) + 1e-5) * b


def totals(a: Matrix, b: Row):
    return a.sum(), a.sum(0), np.abs(a).max(), np.argmax(a, 1), (a * b).min(0), a.argmin()


def scans(a: Matrix, b: Row):
    return np.cumsum(a, 1), np.cumsum(a, 0), np.cumprod(b)


def parts(a: Matrix, b: Row):
    m, k = a.shape
    return a.reshape(m * k), np.concatenate([a[:, k // 2 :], a[:, : k // 2]], axis=1), a[::-1], np.pad(a, 1), b[::2]


def products(a: Matrix, b: mt.Tensor[[K, N], mt.float32], c: mt.Tensor[[N], mt.float32]):
    return a @ b, np.maximum(a @ b + c, 0), b @ c, c @ b.T


def steps(a: Matrix, b: Row):
    """Change `a` in place, in loops of which the host runs one."""
    for step in range(a.shape[1]):
        for i in range(a.shape[0]):
            a[i, step] += b[step] * step
    if a.shape[0] > 5:
        for i in range(a.shape[0]):
            a[i, 0] = -1


def normal(generator, *shape):
    return generator.standard_normal(shape, dtype=np.float32)


@pytest.mark.parametrize("function", [elements, rows, totals, scans, parts, products, steps])
def test_one_compile_serves_all_sizes(function):
    kernel, generator = mt.jit(function, target=TARGET), np.random.default_rng(0)
    for m, k, n in SIZES:
        if function in (rows, totals) and 0 in (m, k):
            continue
        a = normal(generator, m, k)
        others = (normal(generator, k, n), normal(generator, n)) if function is products else (normal(generator, k),)
        expected = a.copy()
        want = function(expected, *others)
        got = kernel(a, *others)
        np.testing.assert_array_equal(a, expected)
        for one, other in zip(got or (), want or (), strict=True):
            np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-4, err_msg=f"{(m, k, n)}")
    assert kernel.compiles == 1


def test_sizes_that_do_not_fit_are_refused():
    kernel = mt.jit(products, target=TARGET)
    generator = np.random.default_rng(0)
    with pytest.raises(mt.KernelError, match="axis 0 of 'b' is 4 and axis 1 of 'a' is 3"):
        kernel(normal(generator, 2, 3), normal(generator, 4, 5), normal(generator, 5))
    with pytest.raises(ValueError, match="has no elements and no identity"):
        mt.jit(rows, target=TARGET)(np.ones((2, 0), np.float32), np.ones(0, np.float32))


def strided(a: FREE, b: FREE):
    a[...] = a * 2 + b.sum(1, keepdims=True)
    return b.T + 1


def test_strided_arguments_are_read_and_written_where_they_lie():
    kernel, generator = mt.jit(strided, target=TARGET), np.random.default_rng(0)
    parts = (np.s_[::2, ::3], np.s_[1:5, 2:9], np.s_[:, :0], np.s_[3:4])
    for part, order in ((part, order) for part in parts for order in "CF"):
        a, b = (np.asarray(normal(generator, 12, 14), order=order) for _ in range(2))
        expected = a.copy(order=order)
        want = strided(expected[part], b[part])
        got = kernel(a[part], b[part])
        np.testing.assert_allclose(a, expected, rtol=1e-5)
        np.testing.assert_allclose(got, want, rtol=1e-5)
    b = np.broadcast_to(normal(generator, 5), (4, 5))
    np.testing.assert_allclose(kernel(np.ones((4, 5), np.float32), b), b.T + 1, rtol=1e-6)
    assert kernel.compiles == 1


def test_the_grid_depends_on_the_sizes():
    kernel = mt.jit(elements, target="cuda:sm_90", semantics="numpy").compile()
    assert [launch.grid[0] for launch in kernel.stats["launches"] if launch.threads == 256] == [None, None]
    assert kernel.stats["kernels"] == 1


def test_a_long_row_has_a_block_of_threads():
    kernel = mt.jit(rows, target="cuda:sm_90", semantics="numpy").compile()
    blocks, threads, *_ = kernel.stats["launches"]
    assert (blocks.threads, blocks.grid[0], threads.threads, threads.barriers) == (128, None, 256, 0)
    assert blocks.barriers > 0
    assert "if m >= T.int64(64)" in kernel.ir["scheduled"], "short rows have one thread"
    columns = mt.jit(lambda a: a.sum(0), target="cuda:sm_90", semantics="numpy").compile(Matrix)
    assert all(launch.threads in (1, 256) for launch in columns.stats["launches"])


@pytest.mark.nvcc
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on PATH")
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_nvcc_takes_every_source(architecture):
    for function in (elements, rows, totals, scans, parts, products, steps):
        kernel = mt.jit(function, target=f"cuda:{architecture}", semantics="numpy").compile()
        assert cuda_to_ptx.run_nvcc(kernel.ir["cuda"], architecture, "-cubin").startswith(b"\x7fELF")
