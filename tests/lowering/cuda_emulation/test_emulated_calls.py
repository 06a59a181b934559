"""Calls of kernels for the emulated device: NumPy and torch, both pipelines, regions, TensorIR functions, refusals."""

from __future__ import annotations

import re
import shutil

import numpy as np
import pytest
import torch
from tvm.script import tirx as T  # noqa: TID251 - a user's TensorIR

import mlirtri as mt
import mlirtri.tile as Tile
from mlirtri.errors import DeviceCheckError, DeviceError, ParseError, UnknownOptionError, UnsupportedOperationError
from mlirtri.lowering.core.target import as_target
from mlirtri.lowering.cuda_emulation.ptx import without_ptx

needs_compiler = pytest.mark.skipif(shutil.which("c++") is None, reason="there is no C++ compiler")


def blend(a, b):
    return np.where(a > b, a * b + 1, a - b)


def torch_blend(a, b):
    return torch.where(a > b, a * b + 1, a - b)


@needs_compiler
@pytest.mark.parametrize("pipeline", ["linalg", "relax"])
def test_arrays_and_tensors_give_the_numbers_of_their_library(pipeline):
    array = np.random.default_rng(0).integers(0, 200, (37, 20)).astype(np.uint8)
    kernel = mt.jit(blend).compile(array, array[::-1].copy(), target="cuda:emulated", pipeline=pipeline)
    found = kernel(array, array[::-1].copy())
    assert isinstance(found, np.ndarray)
    np.testing.assert_array_equal(found, blend(array, array[::-1]))
    tensor = torch.randn(7, 33).bfloat16()
    kernel = mt.jit(torch_blend).compile(tensor, tensor.flip(0), target="cuda:emulated", pipeline=pipeline)
    out = torch.empty_like(tensor)
    assert kernel(tensor, tensor.flip(0), out=out) is out
    torch.testing.assert_close(out, torch_blend(tensor, tensor.flip(0)))


def with_region(x, y):
    with mt.device("cpu"):
        mixed = x * y + 1
    return mixed * x


@needs_compiler
def test_regions_of_the_cpu_run_beside_the_emulated_device():
    x, y = np.random.default_rng(1).random((2, 5, 40), np.float32)
    kernel = mt.jit(with_region).compile(x, y, target="cuda:emulated")
    assert kernel.stats["kernels"] == 2
    np.testing.assert_allclose(kernel(x, y), (x * y + 1) * x, rtol=1e-6)


@mt.tensorir
@T.prim_func(s_tir=True)
def halved(x: T.handle, result: T.handle):
    X = T.match_buffer(x, (64,), "float32")
    R = T.match_buffer(result, (64,), "float32")
    for i in range(64):
        with T.sblock("halved"):
            vi = T.axis.spatial(64, i)
            R[vi // 2] = X[vi]


@mt.tensorir
@T.prim_func(s_tir=True)
def shifted(x: T.handle, result: T.handle):
    X = T.match_buffer(x, (64,), "float32")
    R = T.match_buffer(result, (64,), "float32")
    for i in range(64):
        with T.sblock("shifted"):
            vi = T.axis.spatial(64, i)
            R[vi] = X[vi + 1]


@needs_compiler
@pytest.mark.parametrize(
    ("wrong", "check", "words"),
    [(halved, "racecheck", "with no barrier between"), (shifted, "memcheck", "at byte 256 of 256")],
    ids=["axis declared parallel", "index past the end"],
)
def test_mistakes_in_tensorir_of_the_user(wrong, check, words):
    def kernel(x):
        return wrong(x)

    x = np.ones(64, np.float32)
    with pytest.raises(DeviceCheckError, match=words) as caught:
        mt.jit(kernel).compile(x, target="cuda:emulated")(x)
    assert caught.value.check == check
    assert caught.value.span.file == __file__
    assert "return wrong(x)" in str(caught.value)


def tile_product(a, b, c):
    with Tile.Kernel(2, threads=64) as block:
        left, right, sums = Tile.alloc_shared((8, 16)), Tile.alloc_shared((16, 16)), Tile.alloc_fragment((8, 16))
        Tile.clear(sums)
        Tile.copy(a[block * 8, 0], left)
        Tile.copy(b[0, 0], right)
        Tile.gemm(left, right, sums)
        Tile.copy(sums, c[block * 8, 0])


@needs_compiler
def test_an_error_in_a_tile_program_is_on_the_line_of_a_statement():
    a, b, c = torch.randn(13, 16), torch.randn(16, 16), torch.zeros(13, 16)
    kernel = mt.jit(tile_product).compile(a, b, c, target="cuda:emulated")
    kernel(a, b, c)
    torch.testing.assert_close(c, a @ b)
    broken = kernel.compilation.executable.with_source(kernel.ir["cuda"].replace("__syncthreads();", ""))
    with pytest.raises(DeviceCheckError, match="racecheck") as caught:
        broken.launch([a, b, c], [c])
    assert caught.value.span.file == __file__
    assert caught.value.span.line > tile_product.__code__.co_firstlineno + 3
    assert re.search(r"\n {12}Tile\.\w+\(.*\)\n {12}\^", str(caught.value))


def test_names_of_the_target():
    assert str(as_target("cuda:emulated")) == "cuda:emulated:sm_80"
    target = as_target("cuda:emulated:sm_90")
    assert (target.architecture, target.device, target) == ("sm_90", "cpu", as_target("cuda:sm_90").emulated())
    assert as_target("cuda:sm_90").device == "cuda"
    with pytest.raises(UnknownOptionError, match="not emulated"):
        as_target("cpu").emulated()
    with pytest.raises(UnknownOptionError, match="mlir"):
        mt.jit(blend).compile(np.ones(3), np.ones(3), target="cuda:emulated", pipeline="mlir")


def test_no_compiler_is_said_so(monkeypatch):
    monkeypatch.setenv("CXX", "/no/such/compiler")
    kernel = mt.jit(blend).compile(np.ones(3), np.ones(3), target="cuda:emulated")
    with pytest.raises(DeviceError, match="name another one in CXX"):
        kernel(np.ones(3), np.ones(3))
    monkeypatch.delenv("CXX")
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    with pytest.raises(DeviceError, match=r"install g\+\+"):
        kernel(np.ones(3), np.ones(3))


def test_ptx_becomes_calls_and_what_is_not_emulated_is_refused():
    wait = 'asm volatile("cp.async.wait_group 2;");\n'
    assert without_ptx(wait) == "emulated::cp_async_wait_group(2);\n"
    copy = 'asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"\n :: "r"(f(a, b)), "l"(from), "r"(n));'
    assert without_ptx(copy) == "emulated::cp_async_cg_shared_global((f(a, b)), (from), 16, (n))\n;"
    with pytest.raises(UnsupportedOperationError, match=r"mbarrier\.init"):
        without_ptx('asm volatile("mbarrier.init.shared.b64 [%0], 1;");')


def test_an_edited_source_has_the_same_kernels(tmp_path, monkeypatch):
    (tmp_path / "cuda.cu").write_text('extern "C" __global__ void other(float* x) {\n}\n')
    monkeypatch.setenv("MLIRTRI_OVERRIDE_DIR", str(tmp_path))
    with pytest.raises(ParseError, match="this file has no kernel"):
        mt.jit(blend).compile(np.ones(3), np.ones(3), target="cuda:emulated")
