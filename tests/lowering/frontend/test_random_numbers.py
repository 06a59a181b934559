"""Generators of NumPy in kernels: the numbers are NumPy's own for the seed, also where a kernel takes rare branches."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import mlirtri as mt
from mlirtri.lowering.frontend.library_functions import ziggurat_tables


def floats():
    rng = np.random.default_rng(11)
    return (rng.random(5), rng.random((2, 3)), rng.random(), rng.uniform(-1, 2, 4), rng.random(3, np.float32),
            rng.random(dtype=np.float32), rng.normal(1.5, 2, (3, 3)), rng.standard_normal(), rng.lognormal(0, 1, 3),
            rng.exponential(2.0, (2, 2)))  # fmt: skip


def tails():
    """So many numbers that some come from wedges and tails, about one in a hundred and one in four thousand."""
    rng = np.random.default_rng((1, 2, 3))
    return rng.standard_normal(20000), rng.standard_exponential(20000)


def whole_numbers():
    rng = np.random.default_rng(13)
    return (rng.integers(10, size=20), rng.integers(-5, 5, (3, 3)), rng.random(2), rng.integers(0, 2**40, 4),
            rng.integers(0, 2**32, 3), rng.integers(0, 1, 3), rng.integers(3), rng.integers(0, 9, 5, endpoint=True),
            rng.integers(0, 100, 6, dtype=np.int32), rng.integers(-(2**63), 2**63 - 1, 4, endpoint=True),
            rng.integers(2**62, 2**63 - 1, 2, np.uint64), rng.integers(0, 2**64, 2, np.uint64),
            rng.integers(-(2**63), 2**63, 2))  # fmt: skip


def orders():
    rng = np.random.default_rng(3)
    x, y = np.arange(10.0), np.arange(12).reshape(4, 3)
    rng.shuffle(x)
    rng.shuffle(y)
    p = np.array([0.2, 0.5, 0.3])
    return x, y, rng.permutation(9), rng.permutation(y), rng.choice(5, 7), rng.choice(x, 4), rng.choice(3, 6, p=p)


def shapes():
    rng = np.random.default_rng(77)
    return (rng.gamma(2.0, 1.5, 20), rng.standard_gamma(0.4, 20), rng.gamma(3.3), rng.chisquare(3.0, 9),
            rng.triangular(0, 1, 2, 9), rng.laplace(1.0, 2.0, 9), rng.gumbel(0.0, 1.0, 9), rng.logistic(0.0, 2.0, 9),
            rng.rayleigh(2.0, 9), rng.weibull(1.5, 9), rng.pareto(3.0, 9), rng.power(2.0, 9), rng.random())  # fmt: skip


def counts():
    rng = np.random.default_rng(3)
    return (rng.poisson(3.0, 50), rng.poisson(25.0, 50), rng.poisson(), rng.geometric(0.3, 20), rng.geometric(0.5, 9),
            rng.binomial(10, 0.3, 50), rng.binomial(40, 0.6, 50), rng.binomial(0, 0.3, 3), rng.random())  # fmt: skip


def choices():
    rng = np.random.default_rng(5)
    return (rng.choice(10, 4, replace=False), rng.random(), rng.choice(20, replace=False), rng.integers(0, 9, 3),
            rng.choice(np.arange(8) * 2.0, (2, 3), replace=False), rng.choice(12000, 400, replace=False).sum(),
            rng.choice(9, 5, replace=False, shuffle=False))  # fmt: skip


def agree(function, *arguments, pipeline="mlir", rtol=4e-16):
    for mine, other in zip(mt.jit(function, pipeline=pipeline)(*arguments), function(*arguments), strict=True):
        mine, other = np.asarray(mine), np.asarray(other)
        assert (mine.dtype, mine.shape) == (other.dtype, other.shape)
        # The exponential function and log1p are not rounded as the C library's.
        np.testing.assert_allclose(mine, other, rtol=rtol if mine.dtype.kind == "f" else 0)


@pytest.mark.parametrize("function", [pytest.param(shapes, marks=pytest.mark.slow), counts, choices])
def test_numbers_of_other_distributions(function):
    # Of log, expm1 and powers, which are not rounded as the C library's.
    agree(function, rtol=1e-14)


@pytest.mark.parametrize("function", [floats, tails, whole_numbers, orders])
def test_the_numbers_are_numpys(function):
    agree(function)


def seeded(seed, a):
    rng = np.random.default_rng(seed)
    for _ in range(3):
        a = a + rng.normal(0, 0.1, a.shape)
        if rng.random() < 0.5:
            a = a * rng.integers(1, 3)
    return a, rng.random(2)


@pytest.mark.slow
@pytest.mark.parametrize("pipeline", ["linalg", "relax"])
def test_seeds_of_run_time_and_generators_across_branches(pipeline):
    kernel = mt.jit(seeded, pipeline=pipeline)
    a = np.ones((3, 2))
    for seed in (0, 5, 2**31, 2**40 + 17, np.int64(2**62)):
        for mine, other in zip(kernel(seed, a), seeded(seed, a), strict=True):
            np.testing.assert_array_equal(mine, other)


def test_bounds_of_run_time():
    def drawn(n: mt.int64):
        return np.random.default_rng(1).integers(5, n, 3)

    kernel = mt.jit(drawn)
    for n in (9, 6, 5 + 2**32, 2**40, 2**63 - 1):
        np.testing.assert_array_equal(kernel(n), drawn(n))
    with pytest.raises(ValueError, match="low >= high"):
        kernel(4)


def test_among_tensors_of_torch():
    def noisy(x):
        rng = np.random.default_rng(3)
        return x * rng.standard_normal(3) + rng.integers(0, 5, 3)

    found = mt.jit(noisy, pipeline="mlir")(torch.ones(3, dtype=torch.float64))
    np.testing.assert_array_equal(found.numpy(), noisy(np.ones(3)))


@pytest.mark.parametrize(("function", "arguments", "message"), [
    (lambda: np.random.default_rng().random(3), (), "give it a seed"),
    (lambda seed: np.random.default_rng(seed).random(3), (2.5,), "a seed is an integer"),
    (lambda: np.random.default_rng(1).integers(5, 2), (), "low >= high"),
    (lambda: np.random.default_rng(1).integers(5, dtype=np.int8), (), "32 and 64 bits"),
    (lambda: np.random.default_rng(1).choice(2, 1, False, [0.5, 0.5]), (), "replace=False with p="),
    (lambda: np.random.default_rng(1).beta(2.0, 3), (), "'beta' is not supported"),
    (lambda: np.random.default_rng(1).integers(2**40, dtype=np.int32), (), "high is out of bounds"),
    (lambda: np.random.default_rng(1).integers(-1, 5, dtype=np.uint64), (), "low is out of bounds"),
    (lambda: np.random.default_rng(1).integers(0, 5.5), (), "the bounds are integers"),
    (lambda: np.random.default_rng(-1).random(), (), "expected non-negative integer"),
    (lambda: np.random.default_rng(1).uniform(3, 1), (), "high - low < 0"),
    (lambda p: np.random.default_rng(1).choice(3, p=p), (np.ones(2) / 2,), "a and p have the same size"),
    (lambda rng: rng.random(3), (np.random.default_rng(1),), "make it in the kernel"),
])  # fmt: skip
def test_what_is_refused(function, arguments, message):
    with pytest.raises(mt.KernelError, match=message):
        mt.jit(function)(*arguments)


def test_probabilities_and_scales_of_run_time_are_checked():
    def drawn(p, scale):
        rng = np.random.default_rng(1)
        return rng.choice(2, p=p) + rng.normal(0, scale)

    kernel = mt.jit(drawn, pipeline="mlir")
    assert np.isnan(kernel(np.array([0.5, 0.5]), np.float64("nan")))
    for p, scale, message in (
        ([0.5, 0.6], 1, "do not sum to 1"), ([1.5, -0.5], 1, "non-negative"), ([np.nan, 1], 1, "contain NaN"),
        ([0.5, 0.5], -1, "scale < 0"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            kernel(np.array(p), np.float64(scale))


def test_a_negative_seed_of_run_time_raises():
    with pytest.raises(ValueError, match="expected non-negative integer"):
        mt.jit(lambda seed: np.random.default_rng(seed).random(2), pipeline="mlir")(np.int64(-3))


def test_widths_of_layers_are_exact():
    for layers, base in (
        (ziggurat_tables.normal(), 3.6541528853610088),
        (ziggurat_tables.exponential(), 7.697117470131050),
    ):
        assert len(layers.widths) == len(layers.limits) == ziggurat_tables.LAYERS
        assert list(layers.widths[1:]) == sorted(layers.widths[1:])
        bits = 52 if base < 4 else 53
        assert layers.widths[-1] * 2.0**bits == base


def test_what_a_loop_runs_over_is_drawn_once():
    @mt.jit
    def drawn():
        rng = np.random.default_rng(3)
        total = 0.0
        for number in rng.random(3).copy():
            total += number
        return total, rng.random()

    rng = np.random.default_rng(3)
    assert drawn() == (sum(rng.random(3).tolist()), rng.random())
