"""Linear algebra of NumPy and torch on stacks of matrices, and arrays that one arm of a branch in a loop writes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import mlirtri as mt

A = np.random.default_rng(3).standard_normal((2, 3, 3, 3))
WIDE = np.random.default_rng(4).standard_normal((5, 2, 3))
TALL = np.random.default_rng(6).standard_normal((2, 4, 3))


def solved(a, b):
    return np.linalg.solve(a, b), np.linalg.solve(a[0], b[0, 0, :, 0])


def inverted(a, b):
    return np.linalg.inv(a), np.linalg.det(a), np.linalg.slogdet(a)


def factored(a, b):
    symmetric = a + np.swapaxes(a, -1, -2)
    values, vectors = np.linalg.eigh(symmetric)
    positive = a @ np.swapaxes(a, -1, -2) + np.eye(3)
    same = vectors @ (values[..., None] * np.swapaxes(vectors, -1, -2))
    return values, same, np.linalg.eigvalsh(symmetric), np.linalg.cholesky(positive), np.linalg.cond(a, 1)


def torch_solved(a, b):
    return torch.linalg.solve(a, b), torch.linalg.solve(a, b[0, :, :, 0]), torch.linalg.solve(a, a[0, 0], left=False)


def wide(a):
    q, r = np.linalg.qr(a)
    u, values, vh = np.linalg.svd(a, full_matrices=False)
    full = np.linalg.svd(a)[2]
    same = u @ (values[..., None] * vh), full @ np.swapaxes(full, -1, -2)
    return q, r, values, same, np.linalg.pinv(a), np.linalg.matrix_rank(a), np.linalg.cond(a)


def least_squares(a, b):
    dependent = torch.stack([a[..., 0], a[..., 1], a[..., 0]], -1)
    stack, short = torch.linalg.lstsq(a, b), torch.linalg.lstsq(dependent, b[..., 0])
    return *stack, short.solution, short.rank, torch.linalg.lstsq(a[0].mT, b[0, :3]).solution


def norms(a):
    orders = [torch.linalg.matrix_norm(a, p) for p in ("fro", "nuc", 1, -1, 2, float("inf"), -float("inf"))]
    return torch.stack(orders), torch.linalg.matrix_norm(a, 1, (0, -1), True), torch.linalg.matrix_norm(a, dim=(2, 0))


def leaves(value):
    return [leaf for part in value for leaf in leaves(part)] if isinstance(value, tuple) else [value]


@pytest.mark.parametrize("pipeline", [pytest.param("linalg", marks=pytest.mark.slow), "mlir"])
@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (solved, (A, A[:, :, :, :2])), (factored, (A, A)), (wide, (WIDE,)),
        # The complex stack is inverted by the same loops.
        pytest.param(inverted, (A, A), marks=pytest.mark.slow),
        pytest.param(wide, (np.swapaxes(WIDE, 1, 2).copy(),), marks=pytest.mark.slow),
        (inverted, (A[0] + 1j * A[1], A)), (torch_solved, (torch.tensor(A), torch.tensor(A[:1, :, :, :2]))),
        (least_squares, (torch.tensor(TALL), torch.tensor(TALL[..., 1:] ** 2))), (norms, (torch.tensor(WIDE),)),
    ],
    ids=lambda part: getattr(part, "__name__", ""),
)  # fmt: skip
def test_each_matrix_of_a_stack(function, arguments, pipeline):
    ours, theirs = leaves(mt.jit(function, pipeline=pipeline)(*arguments)), leaves(function(*arguments))
    for got, wanted in zip(ours, theirs, strict=True):
        assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
        np.testing.assert_allclose(got, wanted, rtol=1e-10, atol=1e-10)


def written_in_one_arm(a):
    out = np.zeros(a.shape[0])
    for i in range(a.shape[0]):
        row = a[i].copy()
        if row[0] > 0:
            row[1:] /= row[0]
        if row[1] > 0:
            row[2] = 5
        out[i] = row[2]
    return out


def of_a_local_array(a):
    out, local = np.zeros(a.shape[0]), a * 2
    for i in range(a.shape[0]):
        row = local[i].copy()
        if row[0] > 0:
            row[1] = 7
        out[i] = row[1] + local[i, 1]
    return out, local


@pytest.mark.parametrize("pipeline", ["linalg", "relax", "mlir"])
@pytest.mark.parametrize("function", [written_in_one_arm, of_a_local_array], ids=lambda function: function.__name__)
def test_a_copy_that_one_arm_in_a_loop_writes(function, pipeline):
    a = np.random.default_rng(5).standard_normal((6, 3))
    for got, wanted in zip(leaves(mt.jit(function, pipeline=pipeline)(a)), leaves(function(a)), strict=True):
        np.testing.assert_array_equal(got, wanted)


def pairs(a):
    return [x * n for x, n in zip([a, a + 1], (2, 3), strict=True)], list(reversed([1, 2])), dict(enumerate([4, 5]))


def test_iterators_of_known_values():
    a = np.arange(3.0)
    (one, other), *rest = mt.jit(pairs)(a)
    np.testing.assert_array_equal((one, other), (a * 2, (a + 1) * 3))
    assert rest == list(pairs(a)[1:])
