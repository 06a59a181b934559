"""Names that only some paths assign: right where the path that ran did, else `UnboundLocalError`, as in Python."""

from __future__ import annotations

import numpy as np
import pytest

import mlirtri as mt

X = np.array([0.0, 1, 5, 2, 6])


def first_above(x, limit):
    index = -1
    for i in range(x.shape[0]):
        if x[i] > limit:
            index, value = i, x[i]
            break
    return value if index >= 0 else -1.0


def first_or_none(x, limit):
    for i in range(x.shape[0]):
        if x[i] > limit:
            found = i
            break
    else:
        found = -1
    return found


def last_scaled(x, limit):
    is_found = False
    for i in range(x.shape[0]):
        if x[i] > limit:
            best, is_found = x * i, True
    return best.sum() if is_found else -1.0


def pair(x, limit):
    count = 0
    for i in range(3):
        for j in range(x.shape[0]):
            if x[j] > limit + i:
                last, count = (i, j), count + 1
    return last if count else (-1, -1)


def updated(x, limit):
    for v in x:
        if v > limit:
            s = v
            s += 1
    s *= 2
    return s


def after_while(x, limit):
    i = 0
    while i < x.shape[0] and x[i] <= limit:
        last = x[i]
        i += 1
    return last, i


def in_branches(x, limit):
    if limit > 1:
        scale, rows = 2, x + 1
    elif limit > 0:
        rows = x * 2
    if limit > 1:
        return scale * rows.sum()
    return rows.sum()


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
@pytest.mark.parametrize(
    "function",
    [first_above, first_or_none, last_scaled, pair, updated, after_while, in_branches],
    ids=lambda f: f.__name__,
)
def test_names_that_some_paths_assign(function, pipeline):
    kernel = mt.jit(function, pipeline=pipeline)
    for limit in (3.0, 9.0, -1.0, 0.5):
        try:
            expected = function(X, limit)
        except UnboundLocalError:
            with pytest.raises(UnboundLocalError, match="before the path that ran has assigned it"):
                kernel(X, limit)
        else:
            assert kernel(X, limit) == expected


def aliased(x, limit):
    if limit > 0:
        y = x
    if limit > 0:
        y[1] = 7.0


def test_a_name_that_may_be_an_argument_is_not_written():
    with pytest.raises(mt.KernelError, match="may be another name of the same array"):
        mt.jit(aliased)(X.copy(), 1.0)
