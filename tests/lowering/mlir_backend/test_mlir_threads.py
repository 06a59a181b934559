"""Pipeline `mlir` has threads by OpenMP where its runtime is installed, and one where it is not."""

from __future__ import annotations

import subprocess
import sys
import threading

import numpy as np
import pytest

import mlirtri as mt
from mlirtri.lowering.runtime import openmp

needs_runtime = pytest.mark.skipif(openmp.runtime_library() is None, reason="there is no OpenMP runtime")


@mt.jit(pipeline="mlir")
def chain(a, b):
    return np.exp(a) * b + a


@mt.jit(pipeline="mlir")
def sums(a):
    return np.sum(a, axis=1), np.sum(a, axis=0), np.max(a)


@mt.jit(pipeline="mlir")
def product(a, b):
    return a @ b


@mt.jit(pipeline="mlir")
def product_of_integers(a, b):
    return a.astype(np.int32) @ b.astype(np.int32)


@mt.jit(pipeline="mlir")
def turned(a):
    return a.transpose(0, 2, 1) * 2


@pytest.fixture
def two_threads(monkeypatch):
    monkeypatch.setenv("MLIRTRI_NUM_THREADS", "2")


def random(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


@needs_runtime
@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("shape", [(301, 403), (2, 70_000), (1, 100_000), (100_000, 1)], ids=str)
def test_chunks_of_any_size_are_right(shape):
    a, b = random(*shape), random(*shape)
    np.testing.assert_allclose(chain(a, b), np.exp(a) * b + a, rtol=1e-5, atol=1e-5)
    rows, columns, most = sums(a)
    np.testing.assert_allclose(rows, a.sum(1, dtype=np.float64), rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(columns, a.sum(0, dtype=np.float64), rtol=1e-4, atol=1e-3)
    assert most == a.max()


@needs_runtime
@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("shape", [(130, 257, 70), (64, 640, 64)], ids=str)
def test_products_share_chunks_out(shape):
    rows, columns, depth = shape
    a, b = random(rows, depth), random(depth, columns)
    np.testing.assert_allclose(product(a, b), a.astype(np.float64) @ b, rtol=1e-4, atol=1e-4)
    assert "omp.parallel num_threads" in product.compile(a, b).ir["llvmdialect"]


@pytest.mark.usefixtures("two_threads")
def test_small_work_starts_no_threads():
    assert "omp.parallel" not in chain.compile(random(100, 100), random(100, 100)).ir["llvmdialect"]


def test_one_thread_when_one_is_asked_for(monkeypatch):
    monkeypatch.setenv("MLIRTRI_NUM_THREADS", "1")
    assert "omp.parallel" not in chain.compile(random(600, 600), random(600, 600)).ir["llvmdialect"]


@needs_runtime
@pytest.mark.usefixtures("two_threads")
def test_kernels_of_several_python_threads():
    a, b = random(400, 400), random(400, 400)
    wanted, found = chain(a, b), [None] * 4

    def run(at: int) -> None:
        for _ in range(20):
            found[at] = chain(a, b)

    threads = [threading.Thread(target=run, args=(at,)) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for each in found:
        np.testing.assert_array_equal(each, wanted)


def test_code_with_threads_is_refused_where_there_is_no_runtime(monkeypatch):
    text = "llvm.func @mlirtri_f() { omp.parallel { omp.terminator } llvm.return }"
    monkeypatch.setattr("mlirtri.lowering.mlir_backend.llvm.llvmdialect_to_asm.runtime_library", lambda: None)
    from mlirtri.dialect.bindings.mlir import ir
    from mlirtri.lowering.core.stage import CompileContext
    from mlirtri.lowering.core.target import as_target
    from mlirtri.lowering.mlir_backend.llvm import llvmdialect_to_asm

    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        with pytest.raises(mt.errors.CodegenError, match="no OpenMP runtime") as caught:
            llvmdialect_to_asm.lower(module, CompileContext(target=as_target("cpu"), kernel="f"))
    assert "openmp" in caught.value.help


def test_the_runtime_is_looked_for_once_and_is_no_gnu_one():
    program = "from mlirtri.lowering.runtime.openmp import runtime_library; print(runtime_library())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(openmp.runtime_library())
    assert "gomp" not in done.stdout


@needs_runtime
@pytest.mark.usefixtures("two_threads")
def test_products_in_pairs_and_turned_squares_are_shared_out():
    a, b = (np.random.default_rng(0).integers(-128, 128, shape, np.int8) for shape in [(3, 101, 60), (3, 60, 75)])
    kernel = product_of_integers.compile(a, b)
    np.testing.assert_array_equal(kernel(a, b), a.astype(np.int32) @ b.astype(np.int32))
    assert "scf.forall" in kernel.passes["llvmdialect"]["products-in-pairs"]
    value = random(5, 131, 213)
    np.testing.assert_array_equal(turned(value), value.transpose(0, 2, 1) * 2)
    value = random(1, 531, 213)
    np.testing.assert_array_equal(turned(value), value.transpose(0, 2, 1) * 2)
