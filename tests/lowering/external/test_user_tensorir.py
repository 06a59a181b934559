"""TensorIR of the user's in kernels: registered once, called like any function, fused where it says that it may be."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tolerances import within
from tvm.script import tirx as T  # noqa: TID251 - as a user writes it

import mlirtri as mt
from mlirtri.errors import KernelTypeError, UnknownNameError, UnsupportedOperationError

PIPELINES = ("linalg", "relax", "interpreter")
MATRIX = mt.Tensor((4, 8), mt.float32)


def array(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(sum(shape)).uniform(0.5, 1.5, shape).astype(dtype)


@mt.tensorir
@T.prim_func(s_tir=True)
def custom_add(a: T.handle, b: T.handle, c: T.handle):
    T.func_attr({"op_pattern": 0})
    n = T.int64()
    m = T.int64()
    A = T.match_buffer(a, (n, m), "float32")
    B = T.match_buffer(b, (n, m), "float32")
    C = T.match_buffer(c, (n, m), "float32")
    for i, j in T.grid(n, m):
        with T.sblock("add"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] + B[vi, vj] * T.float32(2)


@T.prim_func(s_tir=True)
def plain(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
    for i, j in T.grid(4, 8):
        with T.sblock("twice"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)


twice = mt.tensorir(plain)
twice_fused = mt.tensorir(plain.with_attr("op_pattern", 0))


@mt.tensorir(outputs=2)
@T.prim_func(s_tir=True)
def scaled_and_repeated(a: T.handle, factor: T.float32, b: T.handle, c: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    C = T.match_buffer(c, (n * 2,), "float32")
    for i in T.serial(n):
        with T.sblock("scaled"):
            vi = T.axis.remap("S", [i])
            B[vi] = A[vi] * factor
    for i in T.serial(n * 2):
        with T.sblock("repeated"):
            vi = T.axis.remap("S", [i])
            C[vi] = A[vi // 2]


@T.prim_func(s_tir=True)
def corner(a: T.handle, b: T.handle):
    n = T.int64()
    m = T.int64()
    A = T.match_buffer(a, (n, n), "float32")
    B = T.match_buffer(b, (m, m), "float32")
    for i, j in T.grid(m, m):
        with T.sblock("corner"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]


half_corner = mt.tensorir(corner, shape=lambda x: (x.shape[0] // 2, x.shape[0] // 2))
lost_corner = mt.tensorir(corner)


def compiled(function, *arguments, pipeline="linalg"):
    return mt.jit(function).compile(*arguments, pipeline=pipeline)


@mt.jit
def chain(x, y):
    out = custom_add(x, y)
    return out * 3 + 1


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("shape", [(4, 8), (3, 5)])
def test_a_registered_function_is_called_without_a_buffer_for_its_result(pipeline, shape):
    x, y = array(*shape), array(*shape) + 1
    found = chain.compile(x, y, pipeline=pipeline)(x, y)
    np.testing.assert_allclose(found, (x + 2 * y) * 3 + 1, **within("float32"))


def test_tensors_of_torch_as_well():
    x, y = torch.ones(2, 3), torch.ones(2, 3)
    assert torch.equal(chain(x, y), torch.full((2, 3), 10.0))


@pytest.mark.parametrize("pipeline", ["linalg", "relax"])
def test_it_fuses_if_it_says_that_it_may(pipeline):
    kernel = chain.compile(MATRIX, MATRIX, pipeline=pipeline)
    assert kernel.stats["kernels"] == 1
    assert "def fused_custom_add_mul" in kernel.ir["tir"]
    assert compiled(lambda x: twice(x + 1) * 3, MATRIX, pipeline=pipeline).stats["kernels"] == 3
    assert compiled(lambda x: twice_fused(x + 1) * 3, MATRIX, pipeline=pipeline).stats["kernels"] == 1


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_sizes_of_32_bits_fuse_and_compute(pipeline):
    x = array(4, 8)
    for function in (twice, twice_fused):
        found = compiled(lambda x, function=function: function(x + 1) * 3, x, pipeline=pipeline)(x)
        np.testing.assert_allclose(found, (x + 1) * 6, **within("float32"))


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_several_results_and_numbers(pipeline):
    def both(x):
        scaled, repeated = scaled_and_repeated(x, 3.0)
        return scaled, repeated + 1

    x = array(6)
    scaled, repeated = compiled(both, x, pipeline=pipeline)(x)
    np.testing.assert_allclose(scaled, x * 3, **within("float32"))
    np.testing.assert_allclose(repeated, np.repeat(x, 2) + 1, **within("float32"))


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_a_rule_gives_the_sizes_that_do_not_follow(pipeline):
    x = array(6, 6)
    np.testing.assert_array_equal(compiled(lambda x: half_corner(x), x, pipeline=pipeline)(x), x[:3, :3])


@mt.tensorir
def power_by_squaring(x, exponent):
    """Makes the function for a dtype, a shape and an exponent: what a call is given is known when it is made."""

    @T.prim_func(s_tir=True)
    def power(A: T.Buffer(x.shape, x.dtype.name), B: T.Buffer(x.shape, x.dtype.name)):
        for i in T.serial(x.shape[0]):
            with T.sblock("power"):
                vi = T.axis.remap("S", [i])
                B[vi] = A[vi] * A[vi] if exponent == 2 else A[vi]

    return power


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8"])
@pytest.mark.parametrize("pipeline", PIPELINES)
def test_a_maker_of_functions_sees_types_and_constants(pipeline, dtype):
    x = np.arange(200, 206).astype(dtype)
    np.testing.assert_array_equal(compiled(lambda x: power_by_squaring(x, 2), x, pipeline=pipeline)(x), x * x)


def test_a_maker_without_a_name_of_its_own():
    x = array(4, 8)
    nameless = mt.tensorir(lambda x: plain)
    kernel = mt.jit(lambda x: nameless(x)).compile(x)
    np.testing.assert_array_equal(kernel(x), x * 2)
    assert "def plain(" in kernel.ir["relax"]


TILE = 16


@mt.tensorir
def tiled_matmul(a, b):
    """A matmul by tiles, as one would write it in a tile language: a program per tile of the result, a loop over K."""
    (rows, inner), columns = a.shape, b.shape[1]

    @T.prim_func(s_tir=True)
    def matmul(
        A: T.Buffer((rows, inner), "float32"), B: T.Buffer((inner, columns), "float32"),
        C: T.Buffer((rows, columns), "float32"),
    ):  # fmt: skip
        for tile_i, tile_j in T.grid(rows // TILE, columns // TILE):
            for tile_k in T.serial(inner // TILE):
                for i, j, k in T.grid(TILE, TILE, TILE):
                    with T.sblock("tile"):
                        vi = T.axis.spatial(rows, tile_i * TILE + i)
                        vj = T.axis.spatial(columns, tile_j * TILE + j)
                        vk = T.axis.reduce(inner, tile_k * TILE + k)
                        with T.init():
                            C[vi, vj] = T.float32(0)
                        C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    return matmul.with_attr("op_pattern", 4)


@mt.jit
def layer(x, w, bias):
    return np.maximum(tiled_matmul(x, w) + bias, 0)


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_a_tiled_matmul_with_an_epilogue(pipeline):
    x, w, bias = array(32, 48) - 1, array(48, 64), array(64)
    kernel = layer.compile(x, w, bias, pipeline=pipeline)
    np.testing.assert_allclose(kernel(x, w, bias), np.maximum(x @ w + bias, 0), **within("float32", 48))
    if pipeline == "linalg":
        assert kernel.stats["kernels"] == 1


@T.prim_func(s_tir=True)
def by_threads(A: T.Buffer((256,), "float32"), B: T.Buffer((256,), "float32")):
    for block in T.thread_binding(4, thread="blockIdx.x"):
        for thread in T.thread_binding(64, thread="threadIdx.x"):
            with T.sblock("copy"):
                vi = T.axis.spatial(256, block * 64 + thread)
                B[vi] = A[vi] + T.float32(1)


@T.prim_func(s_tir=True)
def by_vectors(A: T.Buffer((256,), "float32"), B: T.Buffer((256,), "float32")):
    for outer in T.parallel(32):
        for inner in T.vectorized(8):
            with T.sblock("copy"):
                vi = T.axis.spatial(256, outer * 8 + inner)
                B[vi] = A[vi] + T.float32(1)


def test_a_schedule_of_the_users_is_kept():
    threads, vectors = mt.tensorir(by_threads), mt.tensorir(by_vectors)
    vector = mt.Tensor((256,), mt.float32)
    source = mt.jit(lambda x: threads(x)).compile(vector, target="cuda").ir["cuda"]
    assert "__launch_bounds__(64)" in source
    kernel = mt.jit(lambda x: vectors(x)).compile(vector)
    assert "T.parallel(T.int64(32))" in kernel.ir["scheduled"]
    x = array(256)
    np.testing.assert_array_equal(kernel(x), x + 1)


def test_a_kernel_follows_the_function_that_a_name_stands_for():
    factor = 2

    @mt.tensorir
    def scale(x):
        @T.prim_func(s_tir=True)
        def scaled(A: T.Buffer(x.shape, "float32"), B: T.Buffer(x.shape, "float32")):
            for i in T.serial(x.shape[0]):
                with T.sblock("scaled"):
                    vi = T.axis.remap("S", [i])
                    B[vi] = A[vi] * T.float32(factor)

        return scaled

    x = array(6)
    np.testing.assert_array_equal(mt.jit(lambda x: scale(x))(x), x * 2)
    factor = 5
    np.testing.assert_array_equal(mt.jit(lambda x: scale(x))(x), x * 5)


def test_stages_are_read_back(tmp_path, monkeypatch):
    monkeypatch.setenv("MLIRTRI_DUMP_DIR", str(tmp_path))
    x, y = array(4, 8), array(4, 8) + 1
    kernel = mt.jit(lambda x, y: custom_add(x, y) / 3).compile(x, y)
    monkeypatch.delenv("MLIRTRI_DUMP_DIR")
    for stage in ("tri", "fused", "relax", "tir"):
        [file] = tmp_path.glob(f"*/??_{stage}.*")
        np.testing.assert_array_equal(mt.resume(file, stage)(x, y), kernel(x, y))


def refused(function, message, *arguments, error=KernelTypeError, **options):
    with pytest.raises(error, match=message) as caught:
        mt.jit(function).compile(*(arguments or (MATRIX,)), **options)
    text = str(caught.value)
    assert f"{__file__}:" in text
    assert "^" in text
    return caught.value


def test_a_wrong_number_of_arguments():
    error = refused(lambda x: custom_add(x, x, x), r"custom_add\(\) takes 2 arguments \(A, B\), got 3")
    assert error.help == "the buffer of the result is not passed: the call gives it"
    refused(lambda x: custom_add(x), "takes 2 arguments")
    refused(lambda x: custom_add(x, C=x), "takes 2 arguments")


def test_wrong_shapes_and_dtypes():
    refused(lambda x: twice(x.T), r"got float32\[8, 4\] for 'A', which is float32\[4, 8\]")
    refused(lambda x: twice(x.astype(mt.float64)), r"'A' is float32\[4, 8\], got float64\[4, 8\]")
    refused(lambda x: custom_add(x, x[:2]), r"got float32\[2, 8\] for 'B', which is float32\[n, m\], where n is 4")
    refused(lambda x: custom_add(x, x[0]), r"got float32\[8\] for 'B'")
    refused(lambda x: twice(3.0), "'A' is a buffer, got 3.0")
    refused(lambda x: scaled_and_repeated(x[0], x[0, 0]), "'factor' is a number")


def test_sizes_that_do_not_follow_need_a_rule():
    square = mt.Tensor((6, 6), mt.float32)
    assert "shape=lambda" in refused(lambda x: lost_corner(x), "the size 'm' of its result 'B'", square).help
    wrong = mt.tensorir(plain, shape=lambda x: (2, 2))
    refused(lambda x: wrong(x), r"its shape rule says \(2, 2\) for 'B', which is float32\[4, 8\]")


def test_functions_that_kernels_cannot_call():
    @T.prim_func(s_tir=True)
    def in_place(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
        for i, j in T.grid(4, 8):
            with T.sblock("twice"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = A[vi, vj] * T.float32(2)

    @T.prim_func
    def without_blocks(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
        for i, j in T.grid(4, 8):
            B[i, j] = A[i, j]

    first, second, third = mt.tensorir(in_place), mt.tensorir(without_blocks), mt.tensorir(lambda x: 3)
    refused(lambda x: first(x), "writes into its argument 'A'")
    refused(lambda x: second(x), "without_blocks has no blocks")
    refused(lambda x: third(x), "gives int, not a PrimFunc")
    refused(lambda x: power_by_squaring(x), "made no PrimFunc: .* missing 1 required positional argument")
    error = refused(lambda x: plain(x), "plain is a function of TVM's", error=UnknownNameError)
    assert "plain = mlirtri.tensorir(plain)" in error.help


def test_where_such_calls_are_refused():
    refused(lambda x: twice(x), "a call of TensorIR", error=UnsupportedOperationError, pipeline="mlir")


@pytest.mark.parametrize("pipeline", ["linalg", "relax"])
def test_loops_compile_what_they_call(pipeline):
    def loops(x):
        for i in range(4):
            x[i, 0] = 1.0
        y = x
        for _ in mt.serial(3):
            y = twice(y)
        return y

    x = np.random.default_rng(0).random((4, 8), np.float32)
    expected = x.copy()
    expected[:, 0] = 1
    np.testing.assert_array_equal(mt.jit(loops, pipeline=pipeline, unroll=0)(x), 8 * expected)


def test_registration_checks_what_it_is_given():
    with pytest.raises(KernelTypeError, match="takes a PrimFunc"):
        mt.tensorir(3)
    with pytest.raises(mt.KernelError, match="one result or more"):
        mt.tensorir(plain, outputs=0)
    with pytest.raises(mt.KernelError, match="plain is a function of kernels"):
        twice(array(4, 8))
