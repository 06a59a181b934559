"""Functions and methods that write into their argument, as NumPy and torch have them: seen by callers and views."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import mlirtri as mt

X = np.random.default_rng(1).uniform(-1, 1, (4, 5))
AT = np.array([0, 2, 2, -1])


def sorts(x):
    x.sort()
    return x.sum()


def sorts_rows(x):
    for i in range(x.shape[0]):
        x[i].sort()
    return x[0, 0]


def sorts_the_other_axis(x):
    x.sort(axis=0)


def fills(x):
    y = np.empty_like(x)
    y.fill(2.5)
    x[1:].fill(-1)
    return y


def fills_the_diagonal(x):
    np.fill_diagonal(x, 7)
    y = np.zeros((4, 4))
    np.fill_diagonal(y, x[:, 0])
    return y


def copies(x):
    y = np.zeros(x.shape)
    np.copyto(y, x)
    np.copyto(x, 3.0, where=y > 0)
    np.putmask(y, y < 0, 0.0)
    return y


def adds_at(x):
    y = np.zeros(4)
    np.add.at(y, [0, 2, 2, -1], x[:, 0])
    np.subtract.at(y, [1, 1], 1.0)
    return y


def adds_at_of(x, at):
    np.add.at(x, (at, at), 1.5)
    return x.sum()


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
@pytest.mark.parametrize(
    "function", [sorts, sorts_rows, sorts_the_other_axis, fills, fills_the_diagonal, copies, adds_at, adds_at_of]
)
def test_numpy_writes(function, pipeline):
    mine, theirs = X.copy(), X.copy()
    extra = (AT,) if function is adds_at_of else ()
    found, wanted = mt.jit(function, pipeline=pipeline)(mine, *extra), function(theirs, *extra)
    assert (found is None) == (wanted is None)
    if wanted is not None:
        np.testing.assert_allclose(found, wanted, rtol=1e-13)
    np.testing.assert_allclose(mine, theirs, rtol=1e-13)


def torch_writes(x):
    y = x.clone()
    x.add_(1).mul_(2)
    x[0].zero_()
    y.clamp_(0, 0.5).copy_(y + x)
    return y


def test_torch_writes():
    mine, theirs = torch.from_numpy(X.copy()), torch.from_numpy(X.copy())
    found, wanted = mt.jit(torch_writes)(mine), torch_writes(theirs)
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(mine, theirs)


def test_only_arrays_are_written_into():
    @mt.jit
    def number(x):
        y = x.sum() * 2.0
        np.copyto(3.0, y)
        return y

    with pytest.raises(mt.KernelError, match=r"numpy.copyto writes into an array, got float 3.0"):
        number(X)
