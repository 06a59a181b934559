"""Loops of tile kernels that are refused: pipelined ones that read what they wrote, blocks that overwrite others."""

from __future__ import annotations

import numpy as np
import pytest

import mlirtri as mt
import mlirtri.tile as T
from mlirtri.errors import KernelTypeError, LoopDependenceError


def steps(a, c, NEXT=8, STAGES=3):
    with T.Kernel(1, threads=32):
        tile = T.alloc_shared((8,), "float32")
        for k in T.Pipelined(4, num_stages=STAGES):
            T.copy(c[k * 8], tile)
            for i in T.Parallel(8):
                tile[i] += a[k * 8 + i]
            T.copy(tile, c[k * 8 + NEXT])


def test_a_pipelined_loop_that_reads_what_it_wrote_is_refused():
    a, c = np.ones(32, np.float32), np.zeros(64, np.float32)
    with pytest.raises(LoopDependenceError, match="cannot be pipelined: 'c' is written here, and a later") as caught:
        mt.jit(steps).compile(a, c)
    first = steps.__code__.co_firstlineno
    assert caught.value.span.line == first + 7
    assert [note.span.line - first for note in caught.value.notes] == [4, 3]
    assert "T.serial" in caught.value.help


@pytest.mark.parametrize(("following", "stages"), [(0, 3), (8, 1), (32, 3), (7, 0)])
def test_one_that_does_not_or_has_one_stage_is_right(following, stages):
    a, c = np.arange(32, dtype=np.float32), np.arange(64, dtype=np.float32)
    expected = c.copy()
    for k in range(4):
        start = 8 * k + following
        expected[start : start + 8] = expected[8 * k : 8 * k + 8] + a[8 * k : 8 * k + 8]
    mt.jit(steps)(a, c, following, stages)
    np.testing.assert_array_equal(c, expected)


def last_one_counts(a, c):
    with T.Kernel(4, 2, threads=32) as (bx, by):
        tile = T.alloc_shared((8,), "float32")
        T.copy(a[by, bx * 8], tile)
        T.copy(tile, c[by, 0])


def elements_of_one_row(a, c):
    with T.Kernel(4, threads=32) as bx:
        for i in T.Parallel(8):
            c[0, i] = a[0, bx * 8 + i]


@pytest.mark.parametrize("function", [last_one_counts, elements_of_one_row], ids=lambda function: function.__name__)
def test_blocks_that_overwrite_each_other_are_refused(function):
    a, c = np.ones((2, 32), np.float32), np.zeros((2, 8), np.float32)
    with pytest.raises(LoopDependenceError, match=r"each block along an axis of the grid overwrites .* 'c'") as caught:
        mt.jit(function).compile(a, c)
    assert caught.value.span.line in (function.__code__.co_firstlineno + 3, function.__code__.co_firstlineno + 4)
    assert "T.atomic_add" in caught.value.help


def one_block(a, c):
    with T.Kernel(4, threads=32) as bx:
        tile = T.alloc_shared((8,), "float32")
        T.copy(a[0, bx * 8], tile)
        if bx == 2:
            T.copy(tile, c[0, 0])


def same_values(a, c):
    with T.Kernel(4, threads=32):
        tile = T.alloc_shared((8,), "float32")
        T.copy(a[0, 16], tile)
        T.copy(tile, c[0, 0])


def added(a, c):
    with T.Kernel(4, threads=32) as bx:
        for i in T.Parallel(8):
            T.atomic_add(c[0, i], a[0, 16 + i] * (bx == 2))


@pytest.mark.parametrize("function", [one_block, same_values, added], ids=lambda function: function.__name__)
def test_blocks_that_write_in_one_the_same_or_sums_are_right(function):
    a, c = np.arange(64, dtype=np.float32).reshape(2, 32), np.zeros((2, 8), np.float32)
    mt.jit(function)(a, c)
    np.testing.assert_array_equal(c[0], a[0, 16:24])


def two_dtypes(a, b, c):
    with T.Kernel(1, threads=128):
        left, right = T.alloc_shared((32, 16), "float16"), T.alloc_shared((16, 32), "float32")
        sums = T.alloc_fragment((32, 32), "float32")
        T.clear(sums)
        T.copy(a, left)
        T.copy(b, right)
        T.gemm(left, right, sums)
        T.copy(sums, c)


def test_a_product_of_tiles_of_two_dtypes_is_refused():
    a, b, c = np.ones((32, 16), np.float16), np.ones((16, 32), np.float32), np.ones((32, 32), np.float32)
    match = r"of one dtype, got float16\[32, 16\] and float32\[16, 32\]"
    with pytest.raises(KernelTypeError, match=match) as caught:
        mt.jit(two_dtypes).compile(a, b, c)
    assert [note.span.line for note in caught.value.notes] == [two_dtypes.__code__.co_firstlineno + 2] * 2
