"""On a CUDA device: kernels launch, compute what torch does, and take part in torch's streams. Skipped elsewhere."""

from __future__ import annotations

import subprocess
import sys

import elements
import numpy as np
import pytest
import tiles
import torch
from numpy_kernel_checks import check
from numpy_kernels import KERNELS

import mlirtri as mt
import mlirtri.tile as T
from mlirtri.lowering.toolchain.tvm_names import tvm


def has_device() -> bool:
    """Whether both torch and TVM find one."""
    runtime = tvm.get_global_func("device_api.cuda", allow_missing=True)
    return torch.cuda.is_available() and runtime is not None and bool(tvm.cuda(0).exist)


pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not has_device(), reason="no CUDA device that torch and TVM find"),
]


def target() -> str:
    major, minor = torch.cuda.get_device_capability()
    # Of sm_90, and of it alone, the schedules know what only that architecture has.
    return f"cuda:sm_{major}{minor}{'a' * ((major, minor) == (9, 0))}"


def chain(a, b):
    return torch.tanh(a + b) * a


def softmax(a, b):
    return torch.softmax(a, -1)


def normed(a, b):
    centered = a - a.mean(-1, keepdim=True)
    return centered / torch.sqrt((centered * centered).mean(-1, keepdim=True) + 1e-5)


def total(a, b):
    return torch.sum(a)


def columns(a, b):
    return torch.amax(a, 0)


def places(a, b):
    return torch.argmax(a, -1)


def product(a, b):
    return torch.relu(a @ b.T)


FUNCTIONS = (chain, softmax, normed, total, columns, places, product)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("shape", [(256, 1024), (37, 130), (3, 70000)], ids=str)
@pytest.mark.parametrize(
    "function", [chain, softmax, normed, total, columns, places, product], ids=lambda f: f.__name__
)
def test_numbers_are_torchs(function, shape, dtype):
    a, b = (torch.randn(shape, device="cuda").to(getattr(torch, dtype)) for _ in range(2))
    tolerance = {"float32": 1e-4, "float16": 1e-2, "bfloat16": 5e-2}[dtype]
    kernel = mt.jit(function, target=target())
    expected = function(a.float(), b.float()) if function is not places else function(a, b)
    found = kernel(a, b)
    found = found if function is places else found.float()
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance * max(1.0, float(expected.abs().max())))


def plain_product(a, b):
    return a @ b


def product_of_transposed(a, b):
    return torch.relu(a.T @ b.T + 1)


@pytest.mark.parametrize("function", [plain_product, product_of_transposed], ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_products_that_fill_a_device(function, dtype):
    sizes = ((1500, 2001), (2001, 1800)) if function is plain_product else ((2001, 1500), (1800, 2001))
    a, b = (torch.randn(size, device="cuda").to(getattr(torch, dtype)) for size in sizes)
    expected = function(a.double(), b.double())
    error = (mt.jit(function, target=target())(a, b).double() - expected).abs().max() / expected.abs().max()
    assert float(error) <= torch.finfo(a.dtype).eps


def tile_product(a, b, c):
    with T.Kernel(T.ceildiv(b.shape[1], 128), T.ceildiv(a.shape[0], 128), threads=128) as (bx, by):
        left, right = T.alloc_shared((128, 32), a.dtype), T.alloc_shared((32, 128), b.dtype)
        sums = T.alloc_fragment((128, 128), "float32")
        T.clear(sums)
        for k in T.Pipelined(T.ceildiv(a.shape[1], 32), num_stages=3):
            T.copy(a[by * 128, k * 32], left)
            T.copy(b[k * 32, bx * 128], right)
            T.gemm(left, right, sums)
        T.copy(sums, c[by * 128, bx * 128])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_products_of_tiles(dtype):
    a, b = (torch.randn(size, device="cuda").to(getattr(torch, dtype)) for size in ((500, 300), (300, 700)))
    c = torch.empty(500, 700, dtype=a.dtype, device="cuda")
    mt.jit(tile_product, target=target())(a, b, c)
    expected = a.double() @ b.double()
    assert float((c.double() - expected).abs().max() / expected.abs().max()) <= torch.finfo(a.dtype).eps


def test_kernels_run_in_the_current_stream():
    a = torch.randn(1 << 22, device="cuda")
    kernel = mt.jit(lambda_free, target=target())
    kernel(a)
    with torch.cuda.stream(torch.cuda.Stream()):
        found = kernel(a * 2) + 1
    torch.cuda.synchronize()
    torch.testing.assert_close(found, torch.exp(torch.sin(a * 2)) + 1)


def lambda_free(a):
    return torch.exp(torch.sin(a))


def test_schedules_are_searched_on_the_device(tmp_path, monkeypatch):
    monkeypatch.setenv("MLIRTRI_TUNING_FILE", str(tmp_path / "tuning.jsonl"))
    a, b = (torch.randn(256, 256, device="cuda") for _ in range(2))
    kernel = mt.jit(product, target=target(), schedule="meta:trials=8,seconds=60")
    torch.testing.assert_close(kernel(a, b), product(a, b), rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("name", elements.EXAMPLES)
def test_element_kernels(name):
    example = elements.EXAMPLES[name]
    arguments = example.make(1)
    found = example.results(mt.jit(example.kernel, target=target()), arguments)
    for here, there in zip(found, example.results(example.reference, arguments), strict=True):
        np.testing.assert_allclose(here, there, rtol=max(example.tolerance, 1e-4), atol=1e-3)


@pytest.mark.parametrize("name", tiles.EXAMPLES)
def test_tile_kernels(name):
    example = tiles.EXAMPLES[name]
    torch.manual_seed(0)
    inputs = example.make(1)
    expected = example.reference(*inputs).double()
    out = torch.zeros(expected.shape, dtype=example.dtype, device="cuda")
    there = [value.cuda() if isinstance(value, torch.Tensor) else value for value in inputs]
    mt.jit(example.kernel, target=target())(*there, out, **example.constants)
    error = (out.cpu().double() - expected).abs().max() / expected.abs().max()
    assert float(error) <= example.tolerance


@pytest.mark.parametrize("name", KERNELS)
def test_numpy_kernels(name):
    case = KERNELS[name]
    try:
        check(case, case.dtypes[-1], mt.jit(case.function, target=target()))
    except mt.KernelError as error:
        # Any other refusal is a failure.
        if "an array of its own" not in str(error):
            raise
        pytest.skip(f"refused: {str(error).splitlines()[0]}")


def test_arrays_are_copied_to_the_device_and_back():
    @mt.jit(target=target())
    def step(a, scale):
        a += scale
        return a.sum(), a * 2

    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    want = a + 1.5
    total, twice = step(a, np.float32(1.5))
    np.testing.assert_array_equal(a, want)
    assert isinstance(total, np.float32)
    assert total == want.sum()
    np.testing.assert_array_equal(twice, want * 2)
    out = np.empty((3, 4), np.float32)
    mt.jit(lambda_free, target=target())(a, out=out)
    np.testing.assert_allclose(out, np.exp(np.sin(a)), rtol=1e-5)


def test_tensors_of_the_host_are_refused_but_scalars():
    scaled = mt.jit(lambda a, s: a * s, target=target())
    a = torch.ones(3, device="cuda")
    assert scaled(a, torch.tensor(2.0)).tolist() == [2, 2, 2]
    with pytest.raises(mt.KernelError, match="'a' is on cpu"):
        scaled(a.cpu(), torch.tensor(2.0))


def test_edited_source_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("MLIRTRI_OVERRIDE_DIR", str(tmp_path))
    source = mt.jit(lambda_free).compile(mt.Tensor((64,), mt.float32), target=target()).ir["cuda"]
    assert "sinf(" in source
    (tmp_path / "cuda.cu").write_text(source.replace("sinf(", "cosf("))
    a = torch.randn(64, device="cuda")
    torch.testing.assert_close(mt.jit(lambda_free, target=target())(a), torch.exp(torch.cos(a)))


PROGRAM = """
import torch
import mlirtri as mt

a = torch.ones(64, device="cuda")
loaded = mt.load("saved")
torch.testing.assert_close(loaded(a), torch.exp(torch.sin(a)))
plus = mt.jit(lambda a: a + 1, target="TARGET")
assert plus(a).sum().item() == 128
"""


def test_a_process_loads_a_kernel_and_then_compiles_one(tmp_path):
    a = torch.randn(64, device="cuda")
    mt.jit(lambda_free).compile(a, target=target()).save(tmp_path / "saved")
    (tmp_path / "program.py").write_text(PROGRAM.replace("TARGET", target()))
    subprocess.run([sys.executable, "program.py"], cwd=tmp_path, check=True)


def chain_of(x, y):
    return torch.tanh(x + y) * x


def softmax_of(x, y):
    return torch.softmax(x, -1)


def total_of(x, y):
    return torch.sum(x)


def columns_of(x, y):
    return torch.sum(x, 0)


def product_of(x, y):
    return x @ y.T


def scan_of(x, y):
    return torch.cumsum(x, -1)


@pytest.mark.parametrize(
    "function", [chain_of, softmax_of, total_of, columns_of, product_of, scan_of], ids=lambda f: f.__name__
)
def test_sizes_of_run_time(function):
    rows, columns = mt.dyn["N"], mt.dyn["K"]
    annotation = mt.Tensor[[rows, columns], mt.float32]
    function.__annotations__ = {"x": annotation, "y": annotation}
    kernel = mt.jit(function, target=target())
    for shape in ((1, 1), (3, 70), (64, 1024), (37, 131), (5, 70000), (1000, 8)):
        x, y = (torch.randn(shape, device="cuda") for _ in range(2))
        torch.testing.assert_close(kernel(x, y), function(x, y), rtol=1e-4, atol=2e-3)
    assert kernel.compiles == 1
