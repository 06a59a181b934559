"""Tile kernels whose rows are found in an array: groups of rows, pages, and blocks that share their work."""

from __future__ import annotations

import numpy as np
import pytest

import mlirtri as mt
import mlirtri.tile as T

WAYS = pytest.mark.parametrize("way", [{}, {"pipeline": "mlir"}, {"target": "cuda:emulated"}], ids=str)


def grouped_product(a, b, starts, experts, c, BM=16, BN=16, BK=16):
    with T.Kernel(T.ceildiv(b.shape[2], BN), experts.shape[0], threads=32) as (bx, by):
        tile_a, tile_b = T.alloc_shared((BM, BK)), T.alloc_shared((BK, BN))
        sums = T.alloc_fragment((BM, BN))
        row, expert = starts[by], experts[by]
        count = starts[by + 1] - row
        for k in T.Pipelined(T.ceildiv(a.shape[1], BK), num_stages=2):
            T.copy(a[row : row + BM, k * BK : (k + 1) * BK], tile_a)
            for i, j in T.Parallel(BK, BN):
                tile_b[i, j] = b[expert, k * BK + i, bx * BN + j]
            T.gemm(tile_a, tile_b, sums)
        for i, j in T.Parallel(BM, BN):
            if i < count:
                c[row + i, bx * BN + j] = sums[i, j]


@WAYS
def test_rows_start_where_an_array_says(way):
    rng = np.random.default_rng(0)
    starts, experts = np.array([0, 16, 21, 30], np.int32), np.array([0, 2, 1], np.int32)
    a, b = rng.standard_normal((30, 20), np.float32), rng.standard_normal((3, 20, 21), np.float32)
    c = np.zeros((30, 21), np.float32)
    mt.jit(grouped_product, **way)(a, b, starts, experts, c)
    parts = [a[starts[n] : starts[n + 1]] @ b[expert] for n, expert in enumerate(experts)]
    np.testing.assert_allclose(c, np.concatenate(parts), rtol=1e-4, atol=1e-5)


def pages(table, lengths, memory, out, SIZE=4):
    with T.Kernel(table.shape[0], threads=32) as bx:
        tile = T.alloc_fragment((table.shape[1], SIZE))
        for page, i in T.Parallel(table.shape[1], SIZE):
            tile[page, i] = T.if_then_else(page * SIZE + i < lengths[bx], memory[table[bx, page], i], -1.0)
        for page, i in T.Parallel(table.shape[1], SIZE):
            out[bx, page * SIZE + i] = tile[page, i]


def test_a_page_that_is_not_chosen_may_be_out_of_bounds():
    table = np.array([[2, 0, 99], [1, -99, 99]], np.int32)
    memory, out = np.arange(12, dtype=np.float32).reshape(3, 4), np.zeros((2, 12), np.float32)
    mt.jit(pages)(table, np.array([6, 4], np.int32), memory, out)
    np.testing.assert_array_equal(out, [[8, 9, 10, 11, 0, 1, *[-1] * 6], [4, 5, 6, 7, *[-1] * 8]])
    with pytest.raises(IndexError):
        mt.jit(pages)(table, np.array([12, 4], np.int32), memory, out)


def shared_work(a, b, c, BM=16, BN=16, BK=16, WORKERS=3):
    steps, columns = T.ceildiv(a.shape[1], BK), T.ceildiv(b.shape[1], BN)
    total = T.ceildiv(a.shape[0], BM) * columns * steps
    part = T.ceildiv(total, WORKERS)
    with T.Kernel(WORKERS, threads=32) as worker:
        tile_a, tile_b = T.alloc_shared((BM, BK)), T.alloc_shared((BK, BN))
        sums = T.alloc_fragment((BM, BN))
        T.clear(sums)
        for turn in T.serial(part):
            work = worker * part + turn
            place, k = work // steps, work % steps
            if work < total:
                T.copy(a[place // columns * BM, k * BK], tile_a)
                T.copy(b[k * BK, place % columns * BN], tile_b)
                T.gemm(tile_a, tile_b, sums)
                if k == steps - 1 or turn == part - 1:
                    T.atomic_add(c[place // columns * BM, place % columns * BN], sums)
                    T.clear(sums)


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
def test_workers_that_take_parts_of_sums(pipeline):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((20, 35), np.float32), rng.standard_normal((35, 18), np.float32)
    c = np.zeros((20, 18), np.float32)
    mt.jit(shared_work, pipeline=pipeline)(a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-5)
