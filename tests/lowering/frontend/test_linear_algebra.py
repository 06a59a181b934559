"""`numpy.linalg` and `torch.linalg` in kernels against the libraries."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tolerances import tolerance

import mlirtri as mt


def factors(a, b):
    spd = a @ a.conj().T + np.eye(6, dtype=a.dtype)
    return (np.linalg.solve(a, b), np.linalg.solve(a, b[:, 0]), np.linalg.inv(a), np.linalg.det(a),
            np.linalg.cholesky(spd))  # fmt: skip


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128", "int64"])
def test_linear_algebra(dtype, pipeline):
    rng = np.random.default_rng(3)
    a, b = (rng.uniform(-9, 9, (6, 6)) + 1j * rng.uniform(-9, 9, (6, 6)) for _ in range(2))
    a, b = ((each if dtype == "complex128" else each.real).astype(dtype) for each in (a, b))
    near = 100 * tolerance("float32" if dtype == "float32" else "float64", 36)
    for mine, other in zip(mt.jit(factors, pipeline=pipeline)(a, b), factors(a, b), strict=True):
        assert mine.dtype == other.dtype
        np.testing.assert_allclose(mine, other, rtol=near, atol=near * np.abs(other).max())


def test_stacks_of_matrices():
    rng = np.random.default_rng(4)
    a = rng.uniform(-1, 1, (3, 4, 4)) + 3 * np.eye(4)
    b = rng.uniform(-1, 1, (3, 4, 2))
    found = mt.jit(lambda a, b: (np.linalg.solve(a, b), np.linalg.inv(a), np.linalg.det(a)))(a, b)
    for mine, other in zip(found, (np.linalg.solve(a, b), np.linalg.inv(a), np.linalg.det(a)), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-12, atol=1e-12)


def test_torch():
    a = torch.eye(3) * 4 + torch.arange(9.0).reshape(3, 3) / 9
    found = mt.jit(lambda a: (torch.linalg.inv(a), torch.det(a)))(a)
    torch.testing.assert_close(found[0], torch.linalg.inv(a))
    torch.testing.assert_close(found[1], torch.det(a))


@pytest.mark.parametrize(("function", "message"), [
    (lambda a: np.linalg.inv(a), "Singular matrix"),
    (lambda a: np.linalg.cholesky(a), "Matrix is not positive definite"),
])  # fmt: skip
def test_what_the_library_raises(function, message):
    with pytest.raises(np.linalg.LinAlgError, match=message) as caught:
        mt.jit(function)(np.zeros((3, 3)))
    assert caught.value.span.file == __file__


def test_matrices_are_square():
    def inverse(a):
        return np.linalg.inv(a)

    with pytest.raises(mt.KernelError) as caught:
        mt.jit(inverse)(np.zeros((3, 4)))
    assert (caught.value.span.file, caught.value.span.line) == (__file__, inverse.__code__.co_firstlineno + 1)
    assert caught.value.message == (
        "np.linalg.inv of a tensor float64[3, 4]: the last two axes of a matrix have the same size"
    )
    assert not caught.value.notes
