"""Pointers: memory of any shape, which the kernel gives sizes and strides, known at compile time or at run time."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import mlirtri as mt

PIPELINES = ("linalg", "relax", "mlir", "interpreter")


def gemm(A: mt.ptr, B: mt.ptr, C: mt.ptr, M: mt.int32, N: mt.int32, K: int):
    a = mt.match_buffer(A, (M, K), mt.float32, strides=(K, 1))
    b = mt.match_buffer(B, (K, N), mt.float32)
    c = mt.match_buffer(C, (M, N), mt.float32)
    c[...] = a @ b


def columns(A: mt.ptr, rows: mt.int64, count: mt.int64, pitch: mt.int64):
    a = mt.match_buffer(A, (rows, count), strides=(1, pitch))
    for i in range(rows):
        for j in range(count):
            a[i, j] += 10 * i + j
    return a.sum(axis=0), np.zeros((count, 2))


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_a_product_of_matrices_behind_pointers_is_compiled_once(pipeline):
    kernel = mt.jit(gemm, pipeline=pipeline)
    for m, n in ((3, 4), (1, 1), (16, 9), (0, 2)):
        a, b = np.random.default_rng(m).random((m, 5), np.float32), np.random.default_rng(n).random((5, n), np.float32)
        c = np.full((m, n), np.nan, np.float32)
        kernel(a, b.reshape(-1), c, m, n, 5)
        np.testing.assert_allclose(c, a @ b, 1e-5)
    torches = torch.from_numpy(a.copy()), torch.from_numpy(b.copy()), torch.empty(n * m + 3)
    kernel(*torches, m, n, 5)
    assert kernel.compiles == 2, "one for torch's semantics"


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_strides_are_those_of_the_memory(pipeline):
    kernel = mt.jit(columns, pipeline=pipeline)
    for rows, count, pitch in ((3, 4, 3), (2, 3, 5), (1, 1, 1), (4, 0, 4)):
        memory = np.zeros(count * pitch + 1)
        sums, zeros = kernel(memory, rows, count, pitch)
        expected = np.zeros((count, pitch))
        expected[:, :rows] = 10 * np.arange(rows) + np.arange(count)[:, None]
        np.testing.assert_array_equal(memory[:-1].reshape(count, pitch), expected)
        np.testing.assert_array_equal(sums, expected.sum(1))
        assert (zeros.shape, memory[-1]) == ((count, 2), 0)
    assert kernel.compiles == 1


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_what_is_not_in_the_memory_is_refused_before_the_call(pipeline):
    kernel, a = mt.jit(gemm, pipeline=pipeline), np.ones((2, 3), np.float32)
    kernel(a, a, np.empty((2, 2), np.float32), 2, 2, 3)
    too_small = "'M' is 3 and axis 0 of 'A' is 6, .* is 9, which is more than axis 0 of 'A'$"
    for sizes, message in (((3, 2), too_small), ((-1, 2), "'M' is -1"), ((2, 9), "'N' is 9")):
        with pytest.raises(mt.KernelError, match=f"(?m){message}"):
            kernel(a, a, np.empty((2, 2), np.float32), *sizes, 3)
    with pytest.raises(mt.KernelError, match="'A' is a pointer, and this argument is not contiguous"):
        kernel(a[:, ::2], a, a, 1, 1, 3)
    with pytest.raises(mt.KernelError, match="memory of float64, not of float32"):
        kernel(a.astype(np.float64), a, a, 1, 1, 3)


def test_mistakes_name_what_to_write():
    @mt.jit
    def of_array(a):
        return mt.match_buffer(a, (1, 2))

    @mt.jit
    def of_strides(a: mt.ptr, n: mt.int32, m: mt.int32):
        return mt.match_buffer(a, (n, m), strides=(2, 3))

    a = np.ones((2, 3))
    with pytest.raises(mt.KernelError, match=r"(?s)annotated with mt.ptr.*reshape"):
        of_array(a)
    with pytest.raises(mt.KernelError, match=r"(?s)strides \(2, 3\) of the shape \(n, m\).*strides=\(K, 1\)") as error:
        of_strides(a, 1, 1)
    assert 'mt.StridedTensor[[mt.dyn["n"], mt.dyn["m"]], [mt.dyn, mt.dyn], mt.float64]' in str(error.value)
    with pytest.raises(mt.KernelError, match="expected an array or a tensor for a pointer, got int 3"):
        of_strides(3, 1, 1)
    kernel = of_strides.signature
    assert str(kernel).split("\n")[1] == "  a: $dyn ptr of $dtype"


def test_texts_by_the_names_of_other_compilers():
    abstract = [mt.Tensor((4,), mt.float32)] * 3
    assert "gemm_loops" in mt.jit(gemm).get_tir(*abstract, 1, 2, K=2)
    assert "define" in mt.jit(gemm).get_source(*abstract, 1, 2, K=2)
    with pytest.raises(mt.KernelError, match="no stage 'scheduled'"):
        mt.jit(gemm).get_tir(*abstract, 1, 2, K=2, pipeline="mlir")


def scaled_sum(x: mt.ptr, y: mt.ptr, n: mt.int32, stride: mt.int32, s: mt.float32):
    first = mt.match_buffer(x, (n,), mt.float32, strides=(stride,))
    second = mt.match_buffer(y, (n, 2), mt.float32, strides=(2 * stride, stride))
    second[:, 1] = second[:, 1] + s * first


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_smallest_strides_of_run_time(pipeline):
    kernel = mt.jit(scaled_sum, pipeline=pipeline)
    for n, stride in ((5, 3), (4, 1), (0, 2)):
        x, y = np.arange(n * stride, dtype=np.float32), np.ones(2 * n * stride, np.float32)
        expected = y.copy()
        expected[stride :: 2 * stride] += 2 * x[::stride]
        kernel(x, y, n, stride, 2.0)
        np.testing.assert_array_equal(y, expected)
    for stride, message in ((4, "is more than axis 0 of 'x'"), (0, "'stride' is 1 at least"), (-1, "'stride' is -1")):
        with pytest.raises(mt.KernelError, match=message):
            kernel(np.ones(6, np.float32), np.ones(12, np.float32), 2, stride, 1.0)
    assert kernel.compiles == 1
