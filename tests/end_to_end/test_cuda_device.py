"""On a CUDA device: kernels launch, compute what torch does, and take part in torch's streams. Skipped elsewhere."""

from __future__ import annotations

import elements
import numpy as np
import pytest
import tiles
import torch
from numpy_kernel_checks import check
from numpy_kernels import KERNELS

import mlirtri as mt
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
    return f"cuda:sm_{major}{minor}"


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


def called_with_arrays(function, **constants):
    """Return a function that calls the kernel of `function` on the device with NumPy's arrays, and writes them back."""
    kernel = mt.jit(function, target=target(), semantics="numpy")

    def call(*arguments):
        there = [torch.from_numpy(value).cuda() if isinstance(value, np.ndarray) else value for value in arguments]
        returned = kernel(*there, **constants)
        for here, value in zip(arguments, there, strict=True):
            if isinstance(here, np.ndarray):
                here[...] = value.cpu().numpy()
        return tuple(map(to_host, returned)) if isinstance(returned, tuple) else to_host(returned)

    return call


def to_host(value):
    return value.cpu().numpy() if isinstance(value, torch.Tensor) else value


@pytest.mark.parametrize("name", elements.EXAMPLES)
def test_element_kernels(name):
    example = elements.EXAMPLES[name]
    arguments = example.make(1)
    found = example.results(called_with_arrays(example.kernel), arguments)
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
        check(case, case.dtypes[-1], called_with_arrays(case.function))
    except mt.KernelError as error:
        pytest.skip(f"refused: {str(error).splitlines()[0]}")
