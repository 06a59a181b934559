"""NumPy's functions of whole arrays on slices whose length only the run shows, in both pipelines that have loops."""

from __future__ import annotations

import numpy as np
import pytest
from combinations import in_turn

import mlirtri as mt

X = np.random.default_rng(3).uniform(0.1, 1, 120)


def moved(x):
    total = np.zeros(9)
    for i in range(4, x.shape[0] - 4):
        part = x[:i]
        total[0] += np.sum(np.roll(part, 1) * part)
        total[1] += np.sum(np.roll(x, i) * x)
        total[2] += np.sum(np.diff(part) * part[1:])
        total[3] += np.concatenate((part, x[i:]))[i]
        total[4] += np.sum(np.pad(part, 2, constant_values=1.5))
        total[5] += np.sum(np.triu(np.outer(part, part)))
        total[6] += np.trace(np.outer(part, part))
        total[7] += np.sum(np.gradient(x[: i + 2]))
        total[8] += np.append(part, 1.0)[i]
    return total


def in_order(x):
    total = np.zeros(8)
    for i in range(4, x.shape[0] - 4):
        part = x[:i]
        total[0] += np.cumsum(part)[-1]
        total[1] += np.sort(part)[0]
        total[2] += np.argsort(part)[1]
        total[3] += np.median(part)
        total[4] += np.percentile(part, 30)
        total[5] += np.histogram(part, 5)[0][2]
        total[6] += np.searchsorted(np.sort(part), 0.5)
        total[7] += np.interp(0.5, np.sort(part), part)
    return total


def made(x):
    total = np.zeros(8)
    for i in range(4, x.shape[0] - 4):
        part = x[:i]
        total[0] += np.eye(i)[1, 1]
        total[1] += np.linspace(0, 1, i)[2]
        total[2] += np.arange(i)[-1]
        total[3] += np.mgrid[0:i, 0:2].sum()
        total[4] += np.einsum("i,j->ij", part, part).sum()
        total[5] += np.convolve(part, x[:3]).sum()
        total[6] += np.cov(part)
        total[7] += np.average(part, weights=part) + np.ptp(part) + np.linalg.norm(part)
    return total


def masked(x):
    chosen = x[x > 0.5]
    return np.sort(chosen), np.cumsum(chosen), np.median(chosen), np.diff(chosen), np.searchsorted(chosen, x)


def test_counts_as_long_as_the_largest_number_says():
    @mt.jit
    def most_frequent(x):
        counts = np.bincount(x)
        return np.argmax(counts), len(counts), np.bincount(x, minlength=12)

    x = np.random.default_rng(0).integers(0, 9, 50)
    where, length, counts = most_frequent(x)
    assert (where, length) == (np.argmax(np.bincount(x)), x.max() + 1)
    assert np.array_equal(counts, np.bincount(x, minlength=12))
    with pytest.raises(ValueError, match=r"numpy.bincount met a number that is negative or not below minlength"):
        most_frequent(x + 4)


@pytest.mark.parametrize(("function", "pipeline"), in_turn([moved, in_order, made, masked], ["linalg", "mlir"]))
def test_lengths_of_run_time(function, pipeline):
    x = np.sort(X) if function is masked else X
    found, wanted = mt.jit(function, pipeline=pipeline)(x), function(x)
    for mine, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-12)


def test_what_needs_a_known_length():
    def one_of_two(x):
        total = 0.0
        for i in range(4, x.shape[0] - 4):
            total += np.convolve(x[:i], x[i:], "same")[0]
        return total

    with pytest.raises(mt.KernelError, match="which operand is longer decides about mode='same'"):
        mt.jit(one_of_two)(X)
