"""Complex numbers on CUDA: kernels over tensors of parts, on the emulated device, with NumPy's numbers."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import mlirtri as mt

RNG = np.random.default_rng(0)
TARGET = "cuda:emulated"
pytestmark = pytest.mark.skipif(shutil.which("c++") is None, reason="there is no C++ compiler")


def random(*shape, dtype=np.complex64):
    return (RNG.standard_normal(shape) + 1j * RNG.standard_normal(shape)).astype(dtype)


FUNCTIONS = {
    "quotient": (lambda a, b: a / (b + 1) * 1j, [(20, 30), (20, 30)]),
    "functions": (lambda a: np.exp(a) + np.sqrt(a) - np.log(np.conj(a)) * np.abs(a), [(20, 30)]),
    "product": (lambda a, b: a @ b, [(20, 30), (30, 25)]),
    "sums": (lambda a: np.sum(a, axis=1) / np.prod(a[:, :3], axis=1), [(20, 300)]),
    "fft": (lambda a: np.fft.fft(a, axis=1), [(5, 64)]),
    "parts": (lambda a: a.real * 2 + a.imag, [(20, 30)]),
}


@pytest.mark.parametrize("dtype", [np.complex64, pytest.param(np.complex128, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_arrays(name, dtype):
    function, shapes = FUNCTIONS[name]
    arguments = [random(*shape, dtype=dtype) for shape in shapes]
    got, want = np.asarray(mt.jit(function, target=TARGET)(*arguments)), function(*arguments)
    assert got.dtype == want.dtype
    tolerance = 1e-4 if dtype == np.complex64 else 1e-12
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * np.abs(want).max())


def test_loops_reductions_and_updates_of_shared_elements():
    def kernel(a, index, turned, sums):
        total = 0j
        for i in mt.prange(a.shape[0]):
            for j in range(a.shape[1]):
                turned[i, j] = a[i, j] * 1j + a[i, j].real
            total += a[i, 0] * a[i, 1]
            sums[index[i]] += a[i, 2]
        return total

    a, index = random(40, 6), RNG.integers(0, 5, 40)
    got, want = ([np.zeros((40, 6), np.complex64), np.zeros(6000, np.complex64)] for _ in range(2))
    total = mt.jit(kernel, target=TARGET)(a, index, *got)
    np.testing.assert_allclose(total, kernel(a, index, *want), rtol=1e-5)
    for one, other in zip(got, want, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan, 0.0, -0.0])
def test_what_no_number_divides(special):
    def quotient(a, b):
        return a / b

    a = np.array([1 + 2j, special + 1j, complex(0, special), complex(special, special)] * 2, np.complex128)
    b = np.array([special + 1j, 3 - 1j, complex(2, special), 1 + 0j, 2j, complex(special, 0), 1 + 1j, -1 + 0j])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(mt.jit(quotient, target=TARGET)(a, b), a / b)


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="there is no nvcc")
def test_nvcc_compiles_them():
    a = random(20, 30)
    kernel = mt.jit(FUNCTIONS["functions"][0]).compile(a, target="cuda:sm_80")
    assert ".visible .entry" in kernel.ir["ptx"]
