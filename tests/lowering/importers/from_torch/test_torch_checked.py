"""Functions of torch that look at elements first, and samples of grids in space, through from_torch against eager."""

from __future__ import annotations

from itertools import product

import pytest
import torch
import torch.nn.functional as F

import mlirtri as mt

GENERATOR = torch.Generator().manual_seed(5)


def rand(*shape):
    return torch.rand(*shape, generator=GENERATOR)


def check(function, *arguments, pipeline="linalg"):
    given = [each.clone() for each in arguments]
    kernel = mt.from_torch(function, arguments).compile(pipeline=pipeline)
    torch.testing.assert_close(kernel(*arguments), function(*given))
    torch.testing.assert_close(arguments, tuple(given))
    return kernel


def test_a_gaussian_loss_and_rows_of_a_longest_norm():
    places = torch.tensor([[2, 0], [2, 3]])
    x, y, var, rows = rand(3, 2), rand(3, 2), rand(3), rand(5, 4) * 3

    def compute(x, y, var, rows):
        return F.gaussian_nll_loss(x, y, var, full=True), F.embedding(places, rows, max_norm=1.5)

    kernel = check(compute, x, y, var, rows)
    with pytest.raises(mt.KernelError, match="negative"):
        kernel(x, y, -var, rows)


def test_samples_in_space():
    check(
        lambda x, grid: F.grid_sample(x, grid, "nearest", "reflection", False),
        rand(2, 3, 4, 5, 6),
        rand(2, 2, 3, 4, 3) * 4 - 2,
    )


@pytest.mark.slow
def test_all_samples_in_space():
    modes = list(product(("bilinear", "nearest"), ("zeros", "border", "reflection"), (False, True)))

    def compute(x, grid):
        return [F.grid_sample(x, grid, *mode) for mode in modes]

    check(compute, rand(2, 3, 4, 5, 6), rand(2, 2, 3, 4, 3) * 4 - 2)


@pytest.mark.slow
@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd"])
def test_least_squares(driver):
    def compute(a, b):
        found = torch.linalg.lstsq(a, b, driver=driver)
        return found.solution, found.residuals, found.rank, torch.linalg.lstsq(a.mT, b[:, :3], driver=driver).solution

    check(compute, rand(2, 5, 3).double(), rand(2, 5, 2).double(), pipeline="mlir")


@pytest.mark.slow
def test_residuals_of_complex_systems_are_real():
    check(lambda a, b: torch.linalg.lstsq(a, b).residuals, rand(2, 3).to(torch.complex64), rand(2, 1) * 1j)


@pytest.mark.slow
def test_an_inverse_of_a_tensor():
    check(torch.linalg.tensorinv, rand(2, 3, 6), pipeline="mlir")
