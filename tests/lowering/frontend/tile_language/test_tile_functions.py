"""The functions of `mlirtri.tile` one by one: reductions, scans, casts, regions, loops; and their errors."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import mlirtri as mt
import mlirtri.tile as T

RNG = np.random.default_rng(1)
PIPELINES = pytest.mark.parametrize("pipeline", ["linalg", "mlir"])


def random(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


@PIPELINES
def test_reductions_scans_and_casts(pipeline):
    @mt.jit(pipeline=pipeline)
    def kernel(x, out, sums, halves):
        with T.Kernel(2) as bx:
            tile, scan = T.alloc_shared((4, 8)), T.alloc_shared((4, 8))
            row, small = T.alloc_fragment((4, 1)), T.alloc_fragment((4,), T.float16)
            T.copy(x[bx * 4, 0], tile)
            T.reduce_absmax(tile, row, dim=1)
            T.copy(row, out[bx * 4 : bx * 4 + 4, 0:1])
            T.reduce_abssum(tile, row)
            T.copy(row[0:4, 0], out[bx * 4 : bx * 4 + 4, 1])
            T.reduce_min(tile, row, dim=1)
            T.reduce_max(tile, row, dim=1, clear=False)
            T.copy(row, out[bx * 4, 2])
            T.cumsum(tile, scan, dim=1, reverse=True)
            T.copy(scan, sums[bx * 4, 0])
            for i in T.Parallel(4):
                small[i] = T.cast(tile[i, 0], "float16") + tile[i, 1].astype(np.float16)
            T.copy(small, halves[bx * 4])

    x, out, sums, halves = random(8, 8), np.zeros((8, 3), "f"), np.zeros((8, 8), "f"), np.zeros(8, np.float16)
    kernel(x, out, sums, halves)
    np.testing.assert_array_equal(out[:, 0], np.abs(x).max(1))
    np.testing.assert_allclose(out[:, 1], np.abs(x).sum(1), rtol=1e-6)
    np.testing.assert_array_equal(out[:, 2], x.max(1))
    np.testing.assert_allclose(sums, x[:, ::-1].cumsum(1)[:, ::-1], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(halves, x[:, 0].astype(np.float16) + x[:, 1].astype(np.float16))


@PIPELINES
def test_loops_variables_and_elements(pipeline):
    @mt.jit(pipeline=pipeline)
    def kernel(x, y, most):
        with T.Kernel(T.ceildiv(x.shape[0], 8), threads=32) as bx:
            tile, local = T.alloc_shared((8,)), T.alloc_local((8,))
            T.copy(x[bx * 8], tile)
            total = T.alloc_var("float32", init=1)
            for i in T.serial(8):
                total = total + tile[i]
            for i in T.unroll(2):
                for j in T.vectorized(4):
                    local[i * 4 + j] = T.clamp(tile[i * 4 + j], -0.5, T.min(0.5, 1.0)) * total
            for i, j in T.grid(2, 4):
                y[bx * 8 + i * 4 + j] = local[i * 4 + j] + T.pow(tile[i * 4 + j], 2.0)
            for i in T.Parallel(8):
                T.atomic_max(most[0], tile[i])

    x, y, most = random(20), np.zeros(20, np.float32), np.full(1, -1, np.float32)
    kernel(x, y, most)
    blocks = np.pad(x, (0, 4)).reshape(3, 8)
    total = np.repeat(blocks.sum(1) + 1, 8)[:20]
    np.testing.assert_allclose(y, np.clip(x, -0.5, 0.5) * total + x**2, rtol=1e-5, atol=1e-6)
    assert most[0] == max(x.max(), 0)


@PIPELINES
def test_macros_change_tiles_and_references(pipeline):
    @T.macro
    def halve(tile, count: T.Ref):
        for i in T.Parallel(tile.shape[0]):
            tile[i] = tile[i] / 2
        count = count + 1

    @T.macro
    def put(target: T.Ref, value):
        target = value  # noqa: F841 - the caller's

    @mt.jit(pipeline=pipeline)
    def kernel(x, y):
        with T.Kernel(2) as bx:
            tile = T.alloc_shared((6,))
            count = 0
            T.copy(x[bx * 6], tile)
            halve(tile, count)
            halve(tile, count)
            put(tile[2], 7.0 + count)
            T.copy(tile, y[bx * 6])

    x, y = random(12), np.zeros(12, np.float32)
    kernel(x, y)
    expected = x / 4
    expected[2::6] = 9
    np.testing.assert_array_equal(y, expected)


@PIPELINES
def test_parts_of_arrays_of_more_axes(pipeline):
    @mt.jit(pipeline=pipeline)
    def kernel(x, y):
        with T.Kernel(x.shape[1], x.shape[0]) as (h, b):
            tile = T.alloc_shared((6, 8))
            T.copy(x[b, h, 1, -1], tile)
            T.copy(tile[1:5, 0:8], y[b, 2:6, h, :])

    x, y = random(2, 3, 6, 8), np.zeros((2, 7, 3, 8), np.float32)
    kernel(x, y)
    expected = np.zeros_like(y)
    tile = np.zeros((2, 3, 6, 8), np.float32)
    tile[:, :, :5, 1:] = x[:, :, 1:, :7]
    expected[:, 2:6] = tile[:, :, 1:5].transpose(0, 2, 1, 3)
    np.testing.assert_array_equal(y, expected)


def test_exported_mlir_is_upstream_s():
    @mt.jit(pipeline="mlir")
    def kernel(a, b, c):
        with T.Kernel(2, 3) as (bx, by):
            x, y, z = T.alloc_shared((8, 8)), T.alloc_shared((8, 16)), T.alloc_fragment((8, 16))
            for k in T.Pipelined(2, num_stages=2):
                T.copy(a[by * 8, k * 8], x)
                T.copy(b[k * 8, bx * 16], y)
                T.gemm(x, y, z)
            T.copy(z, c[by * 8, bx * 16])

    a, b, c = random(20, 12), random(12, 30), np.zeros((20, 30), np.float32)
    text = kernel.compile(a, b, c).to_mlir("linalg", bare=True)
    assert "tri." not in text
    assert "linalg.matmul" in text
    np.testing.assert_allclose(mt.from_mlir(text).compile(pipeline="mlir")(a, b, c), a @ b, rtol=1e-5, atol=1e-5)


def _refused(kernel, *arguments, **options):
    with pytest.raises(mt.KernelError) as caught:
        mt.jit(kernel, **options)(*arguments)
    return str(caught.value)


def test_a_gemm_that_does_not_fit_names_the_allocations():
    def kernel(x):
        with T.Kernel(1) as _:
            a = T.alloc_shared((4, 8))
            b = T.alloc_shared((4, 8))
            T.gemm(a, b, a)

    message = _refused(kernel, random(4))
    assert "T.gemm of float32[4, 8] and float32[4, 8] cannot be added to float32[4, 8]" in message
    assert message.count("note: float32[4, 8] is allocated here") == 3
    assert "a = T.alloc_shared((4, 8))" in message
    assert "b = T.alloc_shared((4, 8))" in message


def test_a_copy_between_tiles_that_do_not_match_names_the_allocations():
    def kernel(x):
        with T.Kernel(1) as _:
            wide = T.alloc_shared((4, 16))
            narrow = T.alloc_fragment((4, 8))
            T.copy(wide, narrow)

    message = _refused(kernel, random(4))
    assert "T.copy from 16 elements to 8 along axis 1" in message
    assert "note: float32[4, 16] is allocated here" in message
    assert "note: float32[4, 8] is allocated here" in message
    assert "give both the same extent, or one as a corner: A[i, j]" in message


def test_a_pipelined_loop_that_breaks():
    def kernel(x):
        with T.Kernel(1) as _:
            for k in T.Pipelined(4, num_stages=2):
                if x[k] > 0:
                    break

    message = _refused(kernel, random(4))
    assert ":13: error: a pipelined loop cannot end early" in message
    assert "T.serial(n)" in message


def test_a_block_that_returns():
    def kernel(x):
        with T.Kernel(4) as bx:
            if x[bx] > 0:
                return

    assert "a block cannot end a tile kernel" in _refused(kernel, random(4))


def test_parallel_elements_that_depend_on_each_other():
    def kernel(x):
        with T.Kernel(1) as _:
            for i in T.Parallel(7):
                x[i + 1] = x[i]

    message = _refused(kernel, random(8))
    assert ":17: error: the iterations of this parallel loop depend on each other: 'x' is written here" in message
    assert "with T.serial, write into another tile" in message


def test_mistakes_in_calls():
    def reduction(x):
        with T.Kernel(1) as _:
            T.reduce_sum(T.alloc_shared((4, 8)), T.alloc_shared((8,)), dim=1)

    assert "does not fit float32[8]" in _refused(reduction, random(4))

    def hint(x):
        with T.Kernel(1) as _:
            T.copy(x, T.alloc_shared((4,)), speed=2)

    assert "T.copy has no argument 'speed'" in _refused(hint, random(4))

    def infinite(x):
        return x + T.infinity("int32")

    assert "int32 has no infinity" in _refused(infinite, random(4))


@PIPELINES
def test_an_element_that_was_read_stays_what_it_was_on_torch_tensors(pipeline):
    @mt.jit(pipeline=pipeline)
    def kernel(x, out):
        with T.Kernel(1):
            most = T.alloc_fragment((16,))
            T.copy(x, most)
            for i in T.Parallel(16):
                old = most[i]
                most[i] = T.max(most[i], 1.0)
                out[i] = most[i] - old

    x, out = torch.arange(16.0) / 8, torch.zeros(16)
    kernel(x, out)
    torch.testing.assert_close(out, x.clamp(min=1) - x)


@PIPELINES
def test_limits_of_dtypes_and_hints(pipeline):
    def limits(x, out):
        with T.Kernel(1, threads=64):
            tile = T.alloc_fragment((5,), "float32")
            T.no_set_max_nreg()
            T.set_max_nreg(240, 1)
            T.assume(x[0] > 0)
            for i in T.Parallel(5):
                tile[i] = T.if_then_else(
                    i < 1, T.max_value("float16"), T.if_then_else(i < 3, T.min_value("int8"), x[i])
                )
            T.copy(tile, out)

    assert T.PassConfigKey.TL_ENABLE_FAST_MATH == "TL_ENABLE_FAST_MATH"
    x, out = torch.arange(5.0), torch.zeros(5)
    mt.jit(limits, pipeline=pipeline)(x, out)
    assert out.tolist() == [65504.0, -128.0, -128.0, 3.0, 4.0]
