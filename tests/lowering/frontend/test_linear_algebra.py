"""`numpy.linalg` and `torch.linalg` in kernels against the libraries."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from combinations import in_turn
from tolerances import tolerance

import mlirtri as mt


def factors(a, b):
    spd = a @ a.conj().T + np.eye(6, dtype=a.dtype)
    return (np.linalg.solve(a, b), np.linalg.solve(a, b[:, 0]), np.linalg.inv(a), np.linalg.det(a),
            np.linalg.cholesky(spd))  # fmt: skip


@pytest.mark.parametrize(
    ("pipeline", "dtype"), in_turn(["linalg", "mlir"], ["float32", "complex128", "float64", "int64"])
)
def test_linear_algebra(pipeline, dtype):
    rng = np.random.default_rng(3)
    a, b = (rng.uniform(-9, 9, (6, 6)) + 1j * rng.uniform(-9, 9, (6, 6)) for _ in range(2))
    a, b = ((each if dtype == "complex128" else each.real).astype(dtype) for each in (a, b))
    near = 100 * tolerance("float32" if dtype == "float32" else "float64", 36)
    for mine, other in zip(mt.jit(factors, pipeline=pipeline)(a, b), factors(a, b), strict=True):
        assert mine.dtype == other.dtype
        np.testing.assert_allclose(mine, other, rtol=near, atol=near * np.abs(other).max())


@pytest.mark.slow
def test_stacks_of_matrices():
    """Beside those of test_stacks_of_matrices.py, through the default pipeline."""
    rng = np.random.default_rng(4)
    a = rng.uniform(-1, 1, (3, 4, 4)) + 3 * np.eye(4)
    b = rng.uniform(-1, 1, (3, 4, 2))
    found = mt.jit(lambda a, b: (np.linalg.solve(a, b), np.linalg.inv(a), np.linalg.det(a)))(a, b)
    for mine, other in zip(found, (np.linalg.solve(a, b), np.linalg.inv(a), np.linalg.det(a)), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-12, atol=1e-12)


def orthogonal(a):
    return (*np.linalg.qr(a), *np.linalg.qr(a, "complete"), np.linalg.qr(a.T, "r"), np.linalg.svdvals(a),
            np.linalg.eigvalsh(a.conj().T @ a, "U"))  # fmt: skip


def spectral(a):
    return (*np.linalg.svd(a), *np.linalg.svd(a.T, full_matrices=False), *np.linalg.eigh(a.conj().T @ a))


def solving(a, b):
    return (np.linalg.pinv(a), np.linalg.matrix_rank(a), np.linalg.cond(a), *np.linalg.lstsq(a, b),
            *np.linalg.lstsq(a[:3], b[:3, 0]), *np.linalg.slogdet(a[:3]), np.linalg.cond(a[:3], 1))  # fmt: skip


def matrices(dtype):
    rng = np.random.default_rng(5)
    a, b = (rng.standard_normal((5, 3)) + 1j * rng.standard_normal((5, 3)) for _ in range(2))
    return ((each if dtype == "complex128" else each.real).astype(dtype) for each in (a, b))


@pytest.mark.parametrize(("dtype", "pipeline"), [
    ("float64", "mlir"),
    *(pytest.param(*case, marks=pytest.mark.slow) for case in (("float32", "linalg"), ("complex128", "mlir"))),
])  # fmt: skip
def test_factors(dtype, pipeline):
    a, b = matrices(dtype)
    near = 100 * tolerance("float32" if dtype == "float32" else "float64", 15)
    for function, arguments in ((orthogonal, (a,)), (solving, (a, b))):
        for mine, other in zip(mt.jit(function, pipeline=pipeline)(*arguments), function(*arguments), strict=True):
            mine, other = np.asarray(mine), np.asarray(other)
            assert (mine.dtype, mine.shape) == (other.dtype, other.shape)
            np.testing.assert_allclose(mine, other, rtol=near, atol=near * np.abs(other).max(initial=1))


def check_spectra(a, near):
    u, s, vh, small_u, small_s, small_vh, values, vectors = mt.jit(spectral, pipeline="mlir")(a)
    expected = np.linalg.svd(a, compute_uv=False)
    hermitian = a.conj().T @ a
    scale = max(np.abs(hermitian).max(), 1)
    for found, wanted in (
        (s, expected), (small_s, expected), (u[:, :3] * s @ vh, a), (small_u * small_s @ small_vh, a.T),
        (u.conj().T @ u, np.eye(5)), (vh @ vh.conj().T, np.eye(3)), (small_vh @ small_vh.conj().T, np.eye(3)),
        (hermitian @ vectors, vectors * values), (vectors.conj().T @ vectors, np.eye(3)),
        (values, np.linalg.eigvalsh(hermitian)),
    ):  # fmt: skip
        np.testing.assert_allclose(found, wanted, rtol=near, atol=near * scale)


def test_vectors_are_orthogonal_of_deficient_rank_too():
    a, _ = matrices("float64")
    for case in (a, a[:, [0, 1, 0]].copy(), a * 0, a * 1e-100):
        check_spectra(case, 100 * tolerance("float64", 15))


def test_what_is_refused():
    for function, message in (
        (
            lambda a: np.linalg.eig(a),
            "numpy.linalg.eig is not supported: eigenvalues of a matrix that is not Hermitian",
        ),
        (lambda a: np.linalg.eigh(a), "the last two axes of a matrix have the same size"),
        (lambda a: np.linalg.svd(a[0]), "it takes matrices"),
        (lambda a: np.linalg.qr(a, "raw"), "the mode is 'reduced', 'complete' or 'r'"),
    ):
        with pytest.raises(mt.KernelError) as caught:
            mt.jit(function)(np.zeros((3, 4)))
        assert message in caught.value.message


def test_torch():
    a = torch.eye(3) * 4 + torch.arange(9.0).reshape(3, 3) / 9

    def results(a):
        return (torch.linalg.inv(a), torch.det(a), torch.linalg.pinv(a), torch.linalg.svdvals(a),
                torch.logdet(a), *torch.linalg.qr(a[:2]))  # fmt: skip

    for mine, other in zip(mt.jit(results)(a), results(a), strict=True):
        torch.testing.assert_close(mine, other)


@pytest.mark.parametrize(("function", "message"), [
    (lambda a: np.linalg.inv(a), "Singular matrix"),
    (lambda a: np.linalg.cholesky(a), "Matrix is not positive definite"),
    (lambda a: np.linalg.svdvals(a * np.nan), "SVD did not converge"),
    (lambda a: np.linalg.eigvalsh(a + np.nan), "Eigenvalues did not converge"),
])  # fmt: skip
def test_what_the_library_raises(function, message):
    with pytest.raises(np.linalg.LinAlgError, match=message) as caught:
        mt.jit(function)(np.zeros((3, 3)))
    assert caught.value.span.file == __file__


@pytest.mark.parametrize("size", [1e30, 1e-30])
def test_reflections_of_elements_whose_squares_overflow_or_vanish(size):
    a = (np.random.default_rng(8).uniform(-1, 1, (4, 3)) * size).astype("float32")
    for mine, other in zip(mt.jit(lambda a: np.linalg.qr(a))(a), np.linalg.qr(a), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-6 * np.abs(other).max())


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
