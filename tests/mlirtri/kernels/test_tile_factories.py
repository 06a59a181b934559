"""TileLang's `jit` and `compile`: factories of tile kernels, results that calls allocate, and what is refused."""

import numpy as np
import pytest
import torch

import mlirtri as mt
import mlirtri.tile as T


@T.jit(out_idx=[-1])
def doubled(n, block, dtype="float32"):
    @T.prim_func
    def main(x: T.Tensor((n,), dtype), y: T.Tensor((n,), dtype)):
        with T.Kernel(T.ceildiv(n, block)) as bx:
            tile = T.alloc_fragment((block,), dtype)
            T.copy(x[bx * block], tile)
            for i in T.Parallel(block):
                tile[i] *= 2
            T.copy(tile, y[bx * block])

    return main


def test_a_factory_makes_one_kernel_for_the_same_values():
    assert doubled(40, 16) is doubled(40, 16)
    assert doubled(40, 16) is not doubled(40, 8)


@pytest.mark.parametrize("x", [np.arange(40, dtype=np.float32), torch.arange(40, dtype=torch.float32)], ids=type)
def test_results_are_allocated_as_the_arguments_are(x):
    y = doubled(40, 16)(x)
    assert type(y) is type(x)
    assert (y == x * 2).all()
    given = x * 0
    assert doubled(40, 16)(x, given) is None
    assert (given == x * 2).all()


def test_sizes_of_results_follow_from_the_arguments():
    n = T.dynamic("n")

    @T.prim_func
    def with_one_more(x: T.Tensor((n,)), y: T.Tensor((n * 2 + 1,))):
        with T.Kernel(T.ceildiv(n, 8)) as bx:
            for i in T.Parallel(8):
                y[bx * 8 + i] = x[bx * 8 + i]

    kernel = T.compile(with_one_more, out_idx=1)
    assert [kernel(np.ones(n, np.float32)).shape for n in (3, 20)] == [(7,), (41,)]


def test_a_kernel_that_returns_what_it_allocates():
    @T.lazy_jit
    def gemm(a: T.Tensor[[int, int], T.float16], b: T.Tensor[[int, int], T.float16], block: int = 16):
        (m, k), (_, n) = a.shape, b.shape
        c = T.empty((m, n), "float")
        with T.Kernel(T.ceildiv(n, block), T.ceildiv(m, block)) as (bx, by):
            a_shared, b_shared = T.alloc_shared((block, block), a.dtype), T.alloc_shared((block, block), b.dtype)
            sums = T.alloc_fragment((block, block))
            for step in T.Pipelined(T.ceildiv(k, block)):
                T.copy(a[by * block, step * block], a_shared)
                T.copy(b[step * block, bx * block], b_shared)
                T.gemm(a_shared, b_shared, sums)
            T.copy(sums, c[by * block, bx * block])
        return c

    a, b = torch.randn(20, 30).half(), torch.randn(30, 25).half()
    got = gemm(a, b)
    assert got.dtype == torch.float32
    torch.testing.assert_close(got, a.float() @ b.float(), rtol=1e-4, atol=1e-4)


def test_memory_in_another_shape():
    @mt.jit
    def ones(x):
        with T.Kernel(1) as _:
            flat = T.Tensor((x.shape[0] * x.shape[1],), x.dtype, x.data)
            tile = T.alloc_fragment((12,))
            for i in T.Parallel(12):
                tile[i] = i
            T.copy(tile, flat)

    x = np.zeros((3, 4), np.float32)
    ones(x)
    assert (x.ravel() == np.arange(12)).all()


def no_kernel(n):
    return T.prim_func and n


def without_sizes(x, y):
    with T.Kernel(1) as _:
        T.copy(x, y)


MISTAKES = [
    (lambda: T.jit(no_kernel)(3), "no_kernel makes no kernel: it returns int"),
    (lambda: T.jit(no_kernel, out_index=[1]), "jit of tile kernels has no option 'out_index'"),
    (lambda: T.compile(T.prim_func(without_sizes), out_idx=[2]), r"out_idx=\[2\]: without_sizes has 2 arguments"),
    (lambda: T.compile(T.prim_func(without_sizes), out_idx=[1]), "argument 'y' cannot be allocated"),
    (lambda: T.compile(without_sizes), "is no kernel"),
    (lambda: doubled(40, 16)(np.ones(40, "f"), np.ones(40, "f"), 3), "takes 1 arguments beside its results, got 3"),
]


@pytest.mark.parametrize(("call", "message"), MISTAKES, ids=[message for _, message in MISTAKES])
def test_mistakes(call, message):
    with pytest.raises(mt.KernelError, match=message):
        call()


def test_names_that_tile_kernels_do_not_have_say_what_to_write():
    @mt.jit
    def by_thread(x):
        with T.Kernel(1, threads=32) as _:
            x[T.get_thread_binding(0)] = 1

    with pytest.raises(mt.KernelError, match="no attribute 'get_thread_binding'") as caught:
        by_thread(np.zeros(32, np.float32))
    assert "T.Parallel" in caught.value.help
    with pytest.raises(AttributeError, match=r"no attribute 'Persistent': write the number of tiles"):
        _ = T.Persistent
