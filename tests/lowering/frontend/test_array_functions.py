"""Functions of NumPy on whole arrays that are written in the kernel language, against NumPy."""

from __future__ import annotations

import math
from copy import deepcopy

import numpy as np
import pytest
from combinations import in_turn

import mlirtri as mt

X = np.array([[0.5, -1.5, 3.0, 2.0], [1.0, np.nan, -0.25, 4.0], [2.5, 0.75, -2.0, 1.0]])
INDICES = np.array([3, 0, 2, 5, 1, 4])
BYTES = np.array([0, 255, 7, 128, 9], np.uint8)
MASK = X > 0


def written(x, i, u, m):
    np.put_along_axis(x, np.array([[1], [0], [3]]), 9.0, 1)
    np.put(i, [0, -1], [9, 8])
    i.put([1, 2], 7)
    np.place(x, m, [1.0, 2.0])
    return x[np.ix_([0, 2], [1, 3])]


def inserted(x, i, u, m):
    rows = np.insert(x, 1, 9.0, axis=0), np.insert(x, -1, x[:, 0], axis=1), np.insert(x, [0, 2], x[:2], axis=0)
    return rows, np.insert(i, [1, 3, 3], [7, 8, 9]), np.insert(i, i[1], [1, 2]), np.resize(i, (2, 4)), np.resize(x, 3)


def selected(x, i, u, m):
    parts = np.extract(m, x), np.compress([True, False, True], x, axis=0), x.compress(m[1], axis=1)
    return (
        parts,
        np.lexsort((i % 2, i // 3)),
        np.partition(i, 2)[2],
        np.argpartition(i, 3)[3],
        np.block([[x, x], [x, x]]),
    )


def of_bits(x, i, u, m):
    packed = np.packbits(m), np.packbits(m, axis=1, bitorder="little"), np.unpackbits(u), np.unpackbits(u, count=11)
    return packed, np.bitwise_count(u), np.bitwise_count(i - 3), np.bitwise_count(np.int8(-128) + i.astype(np.int8))


def statistics(x, i, u, m):
    quantiles = np.nanmedian(x, axis=1), np.nanpercentile(x, [10, 50], axis=0), np.nanquantile(x, 0.3, keepdims=True)
    down = np.digitize(x[0], [3.0, 1.0, 0.0]), np.digitize(x[0], [3.0, 2.0, 0.0], right=True)
    return (
        quantiles,
        down,
        np.histogram2d(x[0], x[2], bins=[2, 3]),
        np.piecewise(x[2], [x[2] < 0, x[2] > 2], [-1, 1, abs]),
    )


def polynomials(x, i, u, m):
    p = x[0]
    return np.polymul(p, i), np.polyder(p), np.polyint(p, 2), np.polyadd(p, i), np.polyfit(i, p[0] * i * i, 2)


def divided(x, i, u, m):
    quotient, rest = np.polydiv(x[2], x[0, :2])
    fits = np.polyfit(i, x[0, 0] * i, 1, w=i + 1.0), np.poly(x[2]), np.poly(i)
    return quotient, rest, fits, np.unique(i.reshape(-1, 1) % 2, axis=0), np.unique(u.reshape(1, -1) % 3, axis=1)


def padded(x, i, u, m):
    statistics = [np.pad(x, ((1, 2), (0, 3)), mode) for mode in ("mean", "maximum", "minimum", "median")]
    short = np.pad(i, 2, "mean", stat_length=2), np.pad(x, {1: (1, 2)}), np.pad(i, 2, "linear_ramp", end_values=(-3, 5))
    ramps = np.pad(x, 2, "linear_ramp", end_values=1.5), np.pad(x, 2, "reflect", reflect_type="odd")
    return statistics, short, ramps, np.pad(x, 1, "symmetric", reflect_type="odd")


def sloped(x, i, u, m):
    at = np.cumsum(i + 1.0)
    rows, columns = np.gradient(x, np.array([0.0, 1.5, 2.0]), 0.5)
    ends = np.gradient(i * 2.0, at, edge_order=2), np.gradient(i * 2.0, at)
    return rows, columns, ends, np.einsum(x, [0, 1], x, [2, 1], [2, 0]), np.einsum(x, [5, 3], x, [5, 3])


def numbers(x, i, u, m):
    a, b = x[0, 0], x[0, 1]
    floats = (
        math.hypot(a, b),
        math.copysign(a, b),
        math.fmod(x[0, 2], a),
        math.ldexp(a, 3),
        math.gcd(i[0], 12),
        math.fmod(7, 4),
    )
    near = math.isclose(a, a + 1e-12), math.isclose(a, b), math.isclose(a, b, abs_tol=3.0), math.isclose(a, x[1, 1])
    vectors = np.linalg.cross(x[0, :3], x[2, :3]), np.linalg.vecdot(x[0], x[2]), np.linalg.outer(x[0], i)
    norms = np.linalg.vector_norm(x[::2]), np.linalg.vector_norm(x, axis=1), np.linalg.matrix_norm(x[::2])
    return floats, near, vectors, norms


def same(result, expected):
    if isinstance(expected, (tuple, list)):
        for mine, other in zip(result, expected, strict=True):
            same(mine, other)
    else:
        assert np.asarray(result).dtype == np.asarray(expected).dtype
        np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("function", "pipeline"),
    in_turn(
        [written, inserted, selected, of_bits, statistics, polynomials, divided, padded, sloped, numbers],
        ["linalg", "mlir"],
    ),
)
def test_functions_of_arrays(function, pipeline):
    ours, plain = deepcopy((X, INDICES, BYTES, MASK)), deepcopy((X, INDICES, BYTES, MASK))
    same(mt.jit(function, pipeline=pipeline)(*ours), function(*plain))
    same(ours, plain)


def beyond(i):
    return np.insert(i, 7, 1)


def unordered(i):
    return np.digitize(i, i)


def outside(i):
    return np.partition(i, 6)


@pytest.mark.parametrize(
    ("function", "error", "text"),
    [
        (beyond, IndexError, "out of bounds"),
        (unordered, ValueError, "monotonically"),
        (outside, ValueError, r"kth\(=6\) out of bounds"),
    ],
)
def test_what_numpy_refuses_is_refused(function, error, text):
    with pytest.raises(error, match=text):
        mt.jit(function, pipeline="mlir")(INDICES)


COUNTS = tuple((np.arange(60) % 4).tolist())


@pytest.mark.parametrize(
    "function", [lambda x: np.repeat(x, COUNTS, axis=1), lambda x: np.delete(x, slice(0, 60, 2), 1)]
)
def test_many_known_positions_are_a_table(function):
    x = np.random.default_rng(3).random((2, 60))
    kernel = mt.jit(function).compile(x)
    np.testing.assert_array_equal(kernel(x), function(x))
    assert len(kernel.ir["tri"].splitlines()) < 12
