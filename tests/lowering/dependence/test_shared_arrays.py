"""Parallel loops whose iterations write one array: at offsets of run time, extrema of elements, lists by counters."""

from __future__ import annotations

import numpy as np
import pytest

import mlirtri as mt
from mlirtri.errors import KernelError, LoopDependenceError

WAYS = pytest.mark.parametrize("way", [{}, {"pipeline": "mlir"}, {"target": "cuda:emulated"}], ids=str)


@WAYS
def test_writes_at_an_offset_of_run_time(way):
    def shifted(o, a, offset: mt.int32, n: mt.int32):
        for i in mt.prange(n):
            o[offset + i] = o[offset + i] + a[i]

    a, o = np.arange(1.0, 7.0), np.zeros(8)
    kernel = mt.jit(shifted, **way)
    kernel(o, a, 3, 5)
    np.testing.assert_array_equal(o, [0, 0, 0, 1, 2, 3, 4, 5])
    if not way.get("target"):
        # The last but one and element 6 are the same: no index counts from the end here.
        for outside in (-2, 4):
            with pytest.raises(IndexError, match="counts from the end"):
                kernel(o, a, outside, 5)


def test_inner_loops_that_end_early():
    def steps(o, n: mt.int32):
        for i, j in mt.ndrange(o.shape[0], o.shape[1]):
            count = 0
            while count < n:
                if count > i + j:
                    break
                count += 1
            o[i, j] = count

    o = np.zeros((3, 4))
    mt.jit(steps)(o, 4)
    np.testing.assert_array_equal(o, [[1, 2, 3, 4], [2, 3, 4, 4], [3, 4, 4, 4]])


@pytest.mark.parametrize(
    ("way", "dtype"), [({}, "uint8"), ({"pipeline": "mlir"}, "float32"), ({"target": "cuda:emulated"}, "int32")]
)
def test_extrema_of_elements(way, dtype):
    def bounds(a, least, most):
        for i, j in mt.ndrange(a.shape[0], a.shape[1]):
            least[j] = min(least[j], a[i, j])
            most[j] = max(a[i, j], most[j])

    a = np.random.default_rng(0).integers(0, 200, (50, 3)).astype(dtype)
    least, most = np.full(3, 255, dtype), np.zeros(3, dtype)
    mt.jit(bounds, **way)(a, least, most)
    np.testing.assert_array_equal(least, a.min(0))
    np.testing.assert_array_equal(most, a.max(0))


def test_an_extremum_of_other_dtypes_is_what_python_s_is():
    def least(a, h, k):
        for i in mt.prange(a.shape[0]):
            h[0] = min(h[0], a[i] + mt.atomic_add(k[0], 1))

    with pytest.raises(KernelError):  # of int16 and int64
        mt.jit(least)(np.arange(4), np.ones(1, np.int16), np.zeros(1, np.int64))


@WAYS
def test_lists_by_counters(way):
    def lists_of(cells, counts, lists):
        for i in mt.prange(cells.shape[0]):
            cell = cells[i]
            k = mt.atomic_add(counts[cell], 1)
            if k < lists.shape[1]:
                lists[cell, k] = i

    cells = np.random.default_rng(0).integers(0, 3, 30)
    counts, lists = np.zeros(3, np.int32), np.full((3, 30), -1)
    mt.jit(lists_of, **way)(cells, counts, lists)
    for cell in range(3):
        np.testing.assert_array_equal(np.sort(lists[cell, : counts[cell]]), np.flatnonzero(cells == cell))


def test_a_number_of_one_counter_is_not_one_of_another():
    def lists_of(cells, counts, lists):
        for i in mt.prange(cells.shape[0]):
            k = mt.atomic_add(counts[cells[i]], 1)
            lists[cells[i] // 2, k] = i

    with pytest.raises(LoopDependenceError, match="'lists'"):
        mt.jit(lists_of)(np.zeros(4, np.int64), np.zeros(3, np.int32), np.zeros((3, 4)))
