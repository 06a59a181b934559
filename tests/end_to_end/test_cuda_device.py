"""On a CUDA device: kernels launch, compute what torch does, and take part in torch's streams. Skipped elsewhere."""

from __future__ import annotations

import pytest
import torch

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
