"""Products of halves of run-time sizes, and in loops, are on tensor cores; the emulated device runs them."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import torch

import mlirtri as mt

pytestmark = pytest.mark.skipif(shutil.which("c++") is None, reason="there is no C++ compiler")
M, N, K, B = mt.dyn["M"], mt.dyn["N"], mt.dyn["K"], mt.dyn["B"]
TARGET = "cuda:emulated"


def plain(a: mt.Tensor[[M, K], None], b: mt.Tensor[[K, N], None]):
    return a @ b


def layer(x: mt.Tensor[[M, K], mt.float16], w: mt.Tensor[[N, K], mt.float16], bias: mt.Tensor[[N], mt.float16]):
    return torch.relu(x @ w.T + bias)


def batched(a: mt.Tensor[[B, M, K], mt.float16], b: mt.Tensor[[B, K, N], mt.float16]):
    return a @ b


def checked(function, arguments, tolerance=2e-3):
    kernel = mt.jit(function, target=TARGET).compile(*arguments)
    expected = function(*(each.double() if isinstance(each, torch.Tensor) else each for each in arguments))
    found = kernel(*arguments)
    scale = float(expected.abs().max()) if expected.numel() else 1.0
    torch.testing.assert_close(found.double(), expected, rtol=tolerance, atol=tolerance * scale)
    assert "mlirtri_multiply_" in kernel.ir["cuda"]
    return kernel


def test_all_sizes_are_one_compile():
    kernel = checked(plain, [torch.randn(70, 40).half(), torch.randn(40, 50).half()])
    for rows, depth, columns in ((64, 64, 64), (1, 5, 3), (0, 8, 8), (65, 0, 130)):
        a, b = torch.randn(rows, depth).half(), torch.randn(depth, columns).half()
        torch.testing.assert_close(kernel(a, b).float(), a.float() @ b.float(), rtol=2e-3, atol=2e-2)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_layer_is_one_kernel(dtype):
    x, w, bias = (torch.randn(shape).half() for shape in ((33, 48), (70, 48), (70,)))
    kernel = checked(layer, [x, w, bias]) if dtype == torch.float16 else None
    if kernel is not None:
        assert kernel.ir["cuda"].count("__launch_bounds__") == 2  # declared and defined
    if dtype == torch.bfloat16:
        checked(plain, [x.to(dtype), w.T.contiguous().to(dtype)], 2e-2)


def test_batches():
    checked(batched, [torch.randn(3, 20, 24).half(), torch.randn(3, 24, 70).half()])


def powers(x, w):
    for _ in mt.serial(3):
        x = x @ w
    return x


def chosen(x, w, out):
    if x[0, 0] > 0:
        out[:] = (x @ w) * 2
    else:
        out[:] = 1


def test_products_in_loops():
    x, w = (np.random.default_rng(0).standard_normal((80, 80)).astype(np.float16) / 8 for _ in range(2))
    kernel = mt.jit(powers, target=TARGET).compile(x, w)
    assert "mlirtri_multiply_" in kernel.ir["cuda"]
    expected = x.astype(np.float32) @ np.linalg.matrix_power(w.astype(np.float32), 3)
    np.testing.assert_allclose(kernel(x, w), expected, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_product_under_a_condition_in_device_memory(sign):
    x, w = (np.random.default_rng(0).random((32, 32)).astype(np.float16) for _ in range(2))
    x[0, 0] = sign
    out, want = np.zeros((32, 32), np.float32), np.zeros((32, 32), np.float32)
    kernel = mt.jit(chosen, target=TARGET).compile(x, w, out)
    kernel(x, w, out)
    want[:] = (x.astype(np.float32) @ w.astype(np.float32)) * 2 if sign > 0 else 1
    np.testing.assert_allclose(out, want, rtol=2e-3, atol=1e-2)
    assert "mlirtri_multiply_" in kernel.ir["cuda"]
