"""Arguments that are read and written where they lie, whatever their strides."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

import mlirtri as mt
import mlirtri.tile as T
from mlirtri.calls.runtime import Runner

M, K, DYN = mt.dyn["M"], mt.dyn["K"], mt.dyn
PIPELINES = ("linalg", "relax", "mlir", "poly", "interpreter")
FREE = mt.StridedTensor[[M, K], [DYN, DYN], mt.float32]


def read(a: FREE, b: mt.StridedTensor[[K, M], [DYN, 1], mt.float32]):
    exponents = np.exp(a - a.max(axis=1, keepdims=True))
    return a @ b, exponents, a.sum(axis=0), a.T.reshape(-1), a[1:, ::2], a.argmax(axis=1)


def product(a: FREE, b: mt.StridedTensor[[K, M], [DYN, 1], mt.float32]):
    return a @ b


def write(a: FREE):
    m, k = a.shape
    for i in range(m):
        for j in range(k):
            a[i, j] = i * 100 + j
    a += 0.5


@pytest.fixture(autouse=True)
def _no_copies():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


# In `relax` and `poly`, views that are written come to the same loads.
OTHERS = [pytest.param(name, marks=pytest.mark.slow) for name in ("relax", "poly")]


@pytest.mark.parametrize("pipeline", ["linalg", "mlir", "interpreter", *OTHERS])
def test_views_are_read_without_a_copy_with_one_compile(pipeline):
    kernel, random = mt.jit(read, pipeline=pipeline, semantics="numpy"), np.random.default_rng(0)
    for shape, part in (((10, 14), np.s_[::2, ::2]), ((7, 9), np.s_[1:, 3:]), ((40, 60), np.s_[::3, ::4]),
                        ((5, 5), np.s_[::5, :]), ((6, 4), np.s_[:, :])):  # fmt: skip
        whole = random.random(shape, np.float32)
        for a in (whole[part], np.asfortranarray(whole)[part]):
            b = random.random((a.shape[1], a.shape[0] + 3), np.float32)[:, : a.shape[0]]
            for ours, expected in zip(kernel(a, b), read(a, b), strict=True):
                np.testing.assert_allclose(ours, expected, 1e-4, 1e-6)
    assert kernel.compiles == 1
    a, b = torch.from_numpy(whole)[::2, ::2], torch.from_numpy(b)[:2, :3]
    torch.testing.assert_close(kernel(a, b)[0], a @ b)
    assert kernel.compiles == 1


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_views_are_written_where_they_lie(pipeline):
    kernel = mt.jit(write, pipeline=pipeline)
    for part in (np.s_[::2, ::3], np.s_[1:, 1:4], np.s_[:1, ::2]):
        ours, expected = np.zeros((6, 9), np.float32), np.zeros((6, 9), np.float32)
        kernel(ours[part])
        write(expected[part])
        np.testing.assert_array_equal(ours, expected)
    tensor = torch.zeros(6, 9)
    kernel(tensor[:1, ::2])
    np.testing.assert_array_equal(tensor.numpy(), expected)


@pytest.mark.parametrize("pipeline", ["linalg", "mlir", "interpreter"])
def test_strides_of_compile_time_compile_again(pipeline):
    @mt.jit(pipeline=pipeline)
    def doubled(a: mt.StridedTensor[[4, int], [int, 1], mt.float64]):
        return a * 2

    whole = np.random.default_rng(0).random((8, 6))
    for a in (whole[::2, :3], whole[:4, :3], whole[4:, :3], whole[::2, :3]):
        np.testing.assert_array_equal(doubled(a), a * 2)
    assert doubled.compiles == 2
    frozen = whole[::2, :3]
    frozen.flags.writeable = False
    np.testing.assert_array_equal(doubled(frozen), frozen * 2)


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
@pytest.mark.parametrize("library", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])
def test_views_take_the_short_call(library, pipeline, monkeypatch):
    calls, own = [], Runner.__call__
    monkeypatch.setattr(Runner, "__call__", lambda self, *given: calls.append(self.name) or own(self, *given))
    whole = np.random.default_rng(0).random((9, 14), np.float32)
    reading, writing = mt.jit(product, semantics="numpy", pipeline=pipeline), mt.jit(write, pipeline=pipeline)
    for part in (np.s_[::2, ::2], np.s_[1:, 3:], np.s_[:, :], np.s_[::2, ::2]):
        for memory in (whole, np.asfortranarray(whole)):
            a, b = memory[part], whole[part].T.copy()
            np.testing.assert_allclose(np.asarray(reading(library(a), library(b))), a @ b, 1e-4)
            ours, expected = memory.copy(order="K"), memory.copy()
            writing(library(ours[part]))
            write(expected[part])
            np.testing.assert_array_equal(ours, expected)
    assert calls == []

    @mt.jit
    def add(a: FREE, b: FREE):
        a += b

    for _ in range(2):
        memory = library(np.zeros((4, 8), np.float32))
        add(memory[:, ::2], memory[:, 1::2])
        with pytest.raises(mt.KernelError, match="shares memory"):
            add(memory[:3, ::2], memory[1:, ::2])
    with pytest.raises(mt.KernelError, match="several elements at one address"):
        writing(torch.zeros(6).expand(4, 6))


@pytest.mark.parametrize("library", [np.asarray, torch.tensor])
def test_a_written_argument_whose_axes_interleave_is_refused(library):
    """Its elements would be written before others at their address are read: NumPy reads all of them first."""

    @mt.jit
    def add(a: FREE, b: mt.Tensor[[M, K], mt.float32]):
        a[...] = a + b

    memory = library(np.zeros(30, np.float32))
    for columns, is_allowed in ((2, True), (4, False), (2, True)):
        shape = (5, columns)
        view = torch.as_tensor(memory).as_strided(shape, (2, 1))
        a = view if library is torch.tensor else view.numpy()
        b = library(np.ones(shape, np.float32))
        if is_allowed:
            add(a, b)
            continue
        with pytest.raises(mt.KernelError, match="may have several elements at one address"):
            add(a, b)
    np.testing.assert_array_equal(np.asarray(memory)[:12], [2] * 10 + [0] * 2)


def test_a_stride_that_the_annotation_forbids_says_which_one_would_allow_it():
    kernel, a = mt.jit(read, semantics="numpy"), np.ones((4, 6), np.float32)
    with pytest.raises(
        mt.KernelError, match=r"axis 1 has the stride 2, and its annotation says 1: .*dyn for those of run"
    ):
        kernel(a, np.ones((6, 8), np.float32)[:, ::2])
    with pytest.raises(mt.KernelError, match="negative or between elements"):
        kernel(a[::-1], np.ones((6, 4), np.float32))
    with pytest.raises(mt.KernelError, match=r"(?s)upstream's passes read row-major arguments only.*mt.Tensor"):
        kernel.compile(a, a.T.copy(), pipeline="upstream")
    with pytest.raises(mt.KernelError, match="as long a list of strides"):
        mt.StridedTensor[[M, K], [1], mt.float32]
    with pytest.raises(mt.KernelError, match="-1 is not a stride"):
        mt.StridedTensor[[M], [-1], mt.float32]
    assert str(kernel.signature).split("\n")[1:3] == [
        "  a: float32[$dyn[M], $dyn[K]] strides [$dyn, $dyn]",
        "  b: float32[$dyn[K], $dyn[M]] strides [$dyn, 1]",
    ]
    assert "a_stride0" in kernel.compile().ir["tir"], "abstract arguments need not be given"


def test_strides_of_a_saved_kernel_are_its_last_arguments(tmp_path):
    kernel = mt.jit(write, pipeline="mlir", semantics="numpy").compile()
    kernel.save(tmp_path / "write")
    ours, expected = np.zeros((6, 9), np.float32), np.zeros((6, 9), np.float32)
    mt.load(tmp_path / "write")(ours[::2, ::3])
    write(expected[::2, ::3])
    np.testing.assert_array_equal(ours, expected)
    header = (tmp_path / "write" / "kernel.h").read_text()
    assert "int64_t in0_a_size1,\n    int64_t in0_a_stride0,\n    int64_t in0_a_stride1);" in header
    resumed = mt.resume("write.mlir", "tri", text=kernel.ir["tri"], pipeline="mlir")
    resumed(ours[::2, ::3])
    np.testing.assert_array_equal(ours, expected)


def test_a_dump_of_known_strides_resumes_with_them():
    @mt.jit(semantics="numpy", pipeline="mlir")
    def doubled(a: mt.StridedTensor[[4, 6], [int, int], mt.float32]):
        return a * 2

    a = np.random.default_rng(0).random((8, 12), np.float32)[::2, ::2]
    kernel = doubled.compile(a)
    for stage in ("tri", "fused", "bufferized", "llvmdialect"):
        resumed = mt.resume("doubled.mlir", stage, text=kernel.ir[stage], pipeline="mlir")
        np.testing.assert_array_equal(resumed(a), a * 2)
        with pytest.raises(mt.KernelError, match=r"compiled for the strides \[24, 2\], got \[6, 1\]"):
            resumed(a.copy())


ROWS, COLUMNS = T.dynamic("rows"), T.dynamic("columns")


@pytest.mark.parametrize("target", ["cpu", "cuda:emulated"])
def test_named_strides_of_run_time_in_a_tile_kernel(target):
    @mt.jit(target=target)
    def doubled(
        a: mt.StridedTensor((ROWS, COLUMNS), (T.dynamic("down"), T.dynamic("right")), "float32"),
        b: mt.Tensor((ROWS, COLUMNS), "float32"),
    ):
        with T.Kernel(T.ceildiv(a.shape[0], 16), T.ceildiv(a.shape[1], 16), threads=64) as (bx, by):
            tile = T.alloc_shared((16, 16), "float32")
            T.copy(a[bx * 16, by * 16], tile)
            for i, j in T.Parallel(16, 16):
                tile[i, j] *= 2
            T.copy(tile, b[bx * 16, by * 16])

    base = torch.arange(4000.0).reshape(40, 100)
    for a in (base[::2, ::4], base.T[::4, ::2], base):
        b = torch.zeros(a.shape)
        doubled(a, b)
        assert torch.equal(b, a * 2)
