"""torch.linalg through from_torch, against eager; and loops that torch-mlir loses."""

from __future__ import annotations

import pytest
import torch
from torch._higher_order_ops.while_loop import while_loop

import mlirtri as mt
from mlirtri.errors import ProgramAssertionError

GENERATOR = torch.Generator().manual_seed(3)
A = torch.rand(2, 4, 4, generator=GENERATOR, dtype=torch.float64)
B = torch.rand(2, 4, 3, generator=GENERATOR, dtype=torch.float64)
POSITIVE = A @ A.mT + torch.eye(4, dtype=torch.float64)


def solutions(a, b, s):
    """All that is made of LU."""
    lu, pivots = torch.linalg.lu_factor(a)
    return (
        torch.linalg.inv(a),
        torch.linalg.solve(a, b),
        torch.linalg.solve(a, b.mT, left=False),
        torch.linalg.solve(torch.complex(a, a.mT), torch.complex(b, -b)),
        torch.linalg.inv(torch.complex(a, a.mT)),
        torch.linalg.det(a),
        torch.linalg.slogdet(a),
        lu,
        pivots,
        torch.linalg.lu_solve(lu, pivots, b, adjoint=True),
        torch.linalg.lu(b),
    )


def solution(a, b, s):
    """With a logarithm of what has no pivot on its diagonal, and of as many matrices as these have rows."""
    return torch.linalg.solve(a, b), torch.linalg.inv(a[:, :2, :2]), torch.linalg.slogdet(a * torch.eye(4).flip(0))


def roots(a, b, s):
    """Of positive matrices; and triangles."""
    root = torch.linalg.cholesky(s)
    return (
        root,
        torch.linalg.cholesky(s, upper=True),
        torch.cholesky_solve(b, root),
        torch.cholesky_inverse(root),
        torch.linalg.solve_triangular(a, b, upper=True),
        torch.linalg.solve_triangular(a, b.mT, upper=False, left=False, unitriangular=True),
    )


def orthogonal(a, b, s):
    return torch.linalg.qr(b), torch.linalg.qr(b.mT), torch.linalg.qr(b, mode="complete")


def rebuilt(a, b, s):
    """Vectors have a sign of their own: what they make of the values has none."""
    u, values, v = torch.linalg.svd(b.mT, full_matrices=False)
    return u * values.unsqueeze(-2) @ v, values, torch.linalg.matrix_exp(b[..., :3, :] * 3)


def spectra(a, b, s):
    """With a matrix of less than full rank, and vectors that no singular value is for."""
    u, values, v = torch.linalg.svd(b, full_matrices=True)
    low, vectors = torch.linalg.eigh(s - torch.eye(4), UPLO="U")
    return (
        (u.mT @ u, v @ v.mT, u[..., :3] * values.unsqueeze(-2) @ v),
        (low, vectors * low.unsqueeze(-2) @ vectors.mT),
        torch.linalg.pinv(b[..., :1] @ b[..., :1].mT),
        torch.linalg.pinv(s, hermitian=True, rtol=1e-3),
        torch.linalg.matrix_norm(a, "nuc", dim=(2, 0), keepdim=True),
        torch.linalg.norm(b[0], -2),
        torch.linalg.matrix_rank(b[..., :2] @ b[..., :2].mT),
    )


@pytest.mark.parametrize(
    ("function", "pipeline"),
    [
        (solution, "mlir"),
        (rebuilt, "mlir"),
        pytest.param(spectra, "linalg", marks=pytest.mark.slow),
        pytest.param(solutions, "mlir", marks=pytest.mark.slow),
        pytest.param(roots, "mlir", marks=pytest.mark.slow),
        (orthogonal, "linalg"),
    ],
)
def test_factors_and_solutions(function, pipeline):
    kernel = mt.from_torch(function, (A, B, POSITIVE)).compile(pipeline=pipeline)
    torch.testing.assert_close(kernel(A, B, POSITIVE), function(A, B, POSITIVE), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("function", "matrix", "message"),
    [
        (torch.linalg.inv, torch.ones(3, 3), "a matrix is singular"),
        (torch.linalg.lu_factor, torch.ones(3, 3), "a matrix is singular"),
        (torch.linalg.cholesky, -torch.eye(3), "not positive-definite"),
        (torch.linalg.svdvals, torch.full((1, 1), float("inf")), "not finite"),
    ],
)
def test_matrices_without_a_solution_are_refused(function, matrix, message):
    kernel = mt.from_torch(lambda a: function(a), (matrix,)).compile(pipeline="mlir")
    with pytest.raises(ProgramAssertionError, match=message):
        kernel(matrix)


def test_batches_of_run_time_size_and_complex_pivots():
    def f(a):
        z = torch.complex(a, a.mT)
        return torch.linalg.solve(a, a[..., :1]), torch.linalg.lu_factor_ex(z)[:2]

    sizes = ({0: torch.export.Dim("count", min=2)},)
    kernel = mt.from_torch(f, (A,), dynamic_shapes=sizes).compile(pipeline="mlir")
    a = torch.cat([A, A.mT])[1:]
    torch.testing.assert_close(kernel(a), f(a))


class Doubled(torch.nn.Module):
    """Whose first test torch-mlir sees to be true."""

    def forward(self, x, y):
        start = torch.zeros((), dtype=torch.int64)
        return while_loop(lambda k, x: k < 5, lambda k, x: (k + 1, x * 2 + y), (start, x.clone()))


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
def test_loops_stop_at_their_condition_and_read_captured_tensors(pipeline):
    x, y = torch.ones(3), torch.arange(3.0)
    count, found = mt.from_torch(Doubled(), (x, y)).compile(pipeline=pipeline)(x, y)
    assert count == 5
    torch.testing.assert_close(found, x * 32 + y * 31)


def of_complex(z):
    """Factors of complex matrices, of none, and of matrices without elements."""
    hermitian = z @ z.mH + torch.eye(4)
    root, packed = torch.linalg.cholesky(hermitian), torch.geqrf(z[..., :3])
    u, values, v = torch.linalg.svd(z[..., :3], full_matrices=False)
    spectra = values, (u * values.unsqueeze(-2)) @ v, torch.linalg.eigvalsh(hermitian), torch.linalg.eig(z[:0])
    reflected = torch.linalg.householder_product(*packed), torch.ormqr(*packed, z, left=False, transpose=True)
    lu, pivots = torch.linalg.lu_factor(z)
    solved = torch.linalg.lu_solve(lu, pivots, z, adjoint=True), torch.cholesky_inverse(root)
    empty = torch.linalg.det(z[:0]), torch.linalg.slogdet(z[:, :0, :0]), torch.linalg.qr(z[:, :, :0])
    return root, lu, torch.linalg.det(z), torch.linalg.qr(z[:, :, :3]), solved, empty, spectra, reflected


@pytest.mark.slow
def test_complex_and_empty_matrices():
    z = torch.complex(A, B @ B.mT)
    results = mt.from_torch(of_complex, (z,)).compile(pipeline="mlir")(z)
    torch.testing.assert_close(results, of_complex(z))


def test_exponentials_of_matrices_of_halves():
    # Eager's own are off by their size.
    a = torch.randn(2, 3, 3).half() / 4
    result = mt.from_torch(torch.linalg.matrix_exp, (a,)).compile(pipeline="mlir")(a)
    torch.testing.assert_close(result, torch.linalg.matrix_exp(a.float()).half(), rtol=2e-3, atol=2e-3)
