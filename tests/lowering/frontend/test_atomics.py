"""Atomic updates in parallel loops: the values that the loop in order gives, and what they return."""

from __future__ import annotations

import numpy as np
import pytest

import mlirtri as mt

PIPELINES = ("linalg", "mlir", "relax", "interpreter")


def positive(a, out, count):
    for i in mt.prange(a.shape[0]):
        if a[i] > 0:
            position = mt.atomic_add(count[0], 1)
            out[position] = a[i]


def several(k, h, least, most, bits, first):
    for i in mt.prange(k.shape[0]):
        mt.atomic_add(h[k[i]], 2)
        mt.atomic_min(least[k[i] % 2], k[i])
        mt.atomic_max(most[0, k[i] % 2], k[i])
        mt.atomic_or(bits[0], 1 << (k[i] % 8))
        mt.atomic_xor(bits[1], k[i])
        mt.atomic_and(bits[2], k[i])
        mt.atomic_cas(first[i % 3], 0, k[i])


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_a_counter_gives_each_iteration_a_position_of_its_own(pipeline):
    a, out, count = np.random.default_rng(0).standard_normal(1000), np.zeros(1000), np.zeros(1, np.int64)
    mt.jit(positive, pipeline=pipeline)(a, out, count)
    assert count[0] == (a > 0).sum()
    np.testing.assert_array_equal(np.sort(out[: count[0]]), np.sort(a[a > 0]))


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_updates(pipeline):
    k = np.random.default_rng(1).integers(1, 50, 3000)
    h, least, most = np.zeros(50, np.int32), np.full(2, 99), np.zeros((1, 2), np.int64)
    bits, first = np.array([0, 0, -1]), np.zeros(3, np.int64)
    mt.jit(several, pipeline=pipeline)(k, h, least, most, bits, first)
    assert np.array_equal(h, 2 * np.bincount(k, minlength=50))
    assert np.array_equal(least, [k[k % 2 == odd].min() for odd in (0, 1)])
    assert np.array_equal(most[0], [k[k % 2 == odd].max() for odd in (0, 1)])
    assert np.array_equal(bits, [255, np.bitwise_xor.reduce(k), np.bitwise_and.reduce(k)])
    assert all(first[lane] in k[lane::3] for lane in range(3))


def whole_rows(h, x):
    mt.atomic_add(h[0], x)


def no_element(h, x):
    mt.atomic_max(h, x)


def floats_in_integers(h, x):
    mt.atomic_add(h[0, 0], x)


def bits_of_floats(h, x):
    mt.atomic_or(h[0, 0], h[0, 1])


@pytest.mark.parametrize(
    ("kernel", "dtype", "message", "column"),
    [
        (whole_rows, np.int64, "atomic_add updates one element, and `h\\[0\\]` is int64\\[3\\]", 18),
        (no_element, np.int64, "atomic_max takes an element of an array, and a value", 4),
        (floats_in_integers, np.int64, "atomic_add of .* does not fit into an element of dtype int64", 4),
        (bits_of_floats, np.float64, "atomic_or is for integers and bools, not for float64", 4),
    ],
)
def test_refusals(kernel, dtype, message, column):
    with pytest.raises(mt.KernelError, match=message) as caught:
        mt.jit(kernel)(np.zeros((2, 3), dtype), 0.5)
    assert (caught.value.span.line, caught.value.span.column) == (kernel.__code__.co_firstlineno + 1, column + 1)


def test_reads_beside_atomic_updates_are_refused():
    @mt.jit
    def racing(h, out):
        for i in mt.prange(out.shape[0]):
            mt.atomic_add(h[0], 1)
            out[i] = h[0]

    with pytest.raises(mt.KernelError, match="'h' is written here"):
        racing(np.zeros(1, np.int64), np.zeros(5, np.int64))
    with pytest.raises(mt.KernelError, match=r"mlirtri.atomic_add is a function of kernels"):
        mt.atomic_add(np.zeros(1)[0], 1)
