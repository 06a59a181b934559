"""What imported functions take and give: numbers, indices, integers with signs, 8-bit floats."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch

import mlirtri as mt
from mlirtri.errors import ArgumentMismatchError, KernelError, UnsupportedOperationError

PIPELINES = ("linalg", "relax", "mlir")
MOST_PIPELINES = ("linalg", pytest.param("relax", marks=pytest.mark.slow), "mlir")
"""Pipeline `relax` takes what `linalg` takes, by the same bridge."""
X = np.arange(4, dtype=np.float32)


def compiled(text: str, pipeline: str, entry: str | None = None):
    return mt.from_mlir(text).compile(entry, pipeline=pipeline)


# --- numbers -------------------------------------------------------------------------------------------------------

NUMBERS = """func.func @f(%n: index, %p: i1, %i: i8, %h: f16, %b: bf16, %x: f32, %d: f64)
    -> (index, i1, i8, f16, bf16, f32, f64, tensor<4xf32>) {
  %m = arith.addi %n, %n : index
  %true = arith.constant true
  %q = arith.xori %p, %true : i1
  %j = arith.addi %i, %i : i8
  %e = tensor.empty() : tensor<4xf32>
  %y = arith.addf %x, %x : f32
  %t = linalg.fill ins(%y : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  return %m, %q, %j, %h, %b, %y, %d, %t : index, i1, i8, f16, bf16, f32, f64, tensor<4xf32>
}"""


@pytest.mark.parametrize("pipeline", MOST_PIPELINES)
def test_scalars_are_python_numbers(pipeline):
    kernel = compiled(NUMBERS, pipeline)
    *numbers, tensor = kernel(2**40, True, -3, 0.1, 1.5, 2.5, 0.1)
    assert numbers == [2**41, False, -6, float(np.float16(0.1)), 1.5, 5.0, 0.1]
    assert [type(each) for each in numbers] == [int, bool, int, float, float, float, float]
    np.testing.assert_array_equal(tensor, np.full(4, 5, np.float32))
    *numbers, tensor = kernel(*map(torch.tensor, (1, True)), *(torch.tensor(v, dtype=getattr(torch, d)) for v, d in
        ((1, "int8"), (1, "float16"), (1, "bfloat16"), (1, "float32"), (1, "float64"))))  # fmt: skip
    assert numbers == [2, False, 2, 1.0, 1.0, 2.0, 1.0]
    assert isinstance(tensor, torch.Tensor)


def test_numbers_that_do_not_fit_are_refused():
    kernel = compiled(NUMBERS, "mlir")
    good = [1, True, 1, 1.0, 1.0, 1.0, 1.0]
    for at, value in ((0, 1.5), (0, 2**70), (2, 300), (5, 1j), (5, "1"), (1, np.float32(1))):
        with pytest.raises(ArgumentMismatchError, match=f"'{'npihbxd'[at]}' was compiled for"):
            kernel(*good[:at], value, *good[at + 1 :])


def test_a_scalar_argument_is_read_in_bodies():
    text = """func.func @f(%x: tensor<4xf32>, %s: f32) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>, affine_map<(d0) -> (d0)>],
      iterator_types = ["parallel"]} ins(%x, %s : tensor<4xf32>, f32) outs(%e : tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %d = arith.mulf %a, %b : f32
    %f = arith.addf %d, %s : f32
    linalg.yield %f : f32
  } -> tensor<4xf32>
  return %y : tensor<4xf32>
}"""
    for pipeline in PIPELINES:
        np.testing.assert_array_equal(compiled(text, pipeline)(X, 3.0), 3 * X + 3)


@pytest.mark.parametrize("pipeline", MOST_PIPELINES)
def test_tensors_of_indices_are_int64(pipeline):
    text = """func.func @f(%x: tensor<4xindex>) -> (tensor<4xindex>, tensor<100xindex>) {
  %y = arith.addi %x, %x : tensor<4xindex>
  %w = arith.constant dense<WORDS> : tensor<100xindex>
  return %y, %w : tensor<4xindex>, tensor<100xindex>
}""".replace("WORDS", str(list(range(100))))
    doubled, words = compiled(text, pipeline)(np.arange(4))
    np.testing.assert_array_equal(doubled, np.arange(4) * 2)
    np.testing.assert_array_equal(words, np.arange(100))
    assert doubled.dtype == words.dtype == np.int64


def test_results_that_are_arguments_or_the_same_value_twice():
    text = """func.func @f(%x: tensor<4xf32>, %n: i32) -> (tensor<4xf32>, tensor<4xf32>, i32, i32) {
  return %x, %x, %n, %n : tensor<4xf32>, tensor<4xf32>, i32, i32
}
func.func @none(%x: tensor<4xf32>) { return }"""
    for pipeline in PIPELINES:
        first, second, *numbers = compiled(text, pipeline, "f")(X, 7)
        np.testing.assert_array_equal(first, X)
        np.testing.assert_array_equal(second, X)
        assert numbers == [7, 7]
        assert compiled(text, pipeline, "none")(X) is None


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("memref<4xf32>", "is a memref<4xf32>"),
        ("vector<4xf32>", "is a vector<4xf32>"),
        ("tensor<*xf32>", "is a tensor<[*]xf32>"),
        ("tensor<4xi4>", "there are no tensors of i4 here"),
        ("tensor<4xi128>", "there are no tensors of i128 here"),
        ("i24", "there are no tensors of i24 here"),
        ("tensor<4xf80>", "there are no tensors of f80 here"),
        ("tensor<4xf8E4M3>", "there are no tensors of f8E4M3 here"),
        ("tensor<4xcomplex<f16>>", "there are no tensors of complex<f16> here"),
        ("tensor<4xcomplex<i32>>", "there are no tensors of complex<i32> here"),
        ("tensor<4xf32, #sparse_tensor.encoding<{ map = (d0) -> (d0 : compressed) }>>", "is a tensor"),
        ("none", "is a none"),
        ("tuple<tensor<4xf32>>", "is a tuple"),
    ],
)
def test_other_types_are_refused_at_the_argument(kind, message):
    with pytest.raises(UnsupportedOperationError, match=message) as caught:
        mt.from_mlir(f"func.func @f(%x: f32, %y: {kind}) {{ return }}").compile()
    assert "argument 'y'" in str(caught.value)
    assert caught.value.span.column == 23
    assert caught.value.help


def test_all_types_that_are_refused_are_in_one_report():
    text = """func.func @f(%x: memref<4xf32>, %y: tensor<4xi4>) -> vector<4xf32> {
  %z = arith.constant dense<1.0> : vector<4xf32>
  return %z : vector<4xf32>
}"""
    with pytest.raises(KernelError) as caught:
        mt.from_mlir(text).compile()
    assert [str(each.message).split(" is a ")[0] for each in caught.value.errors] == [
        "argument 'x'", "argument 'y'", "result 0",
    ]  # fmt: skip


def test_attributes_of_other_tools_are_dropped():
    text = """func.func @f(%x: tensor<4xf32> {bufferization.writable = false, llvm.noalias})
    -> (tensor<4xf32> {llvm.nonnull}) attributes {llvm.emit_c_interface} {
  return %x : tensor<4xf32>
}"""
    kernel = mt.from_mlir(text).compile(pipeline="mlir")
    assert not any(each in kernel.ir["linalg"] for each in ("writable", "noalias", "nonnull", "emit_c_interface"))
    np.testing.assert_array_equal(kernel(X), X)


# --- signs ---------------------------------------------------------------------------------------------------------

SIGNS = """func.func @f(%x: tensor<4xui8>, %y: tensor<4xsi16>, %n: ui32) -> (tensor<4xui8>, tensor<4xi16>, ui32) {
  %z = builtin.unrealized_conversion_cast %x : tensor<4xui8> to tensor<4xi8>
  %v = builtin.unrealized_conversion_cast %y : tensor<4xsi16> to tensor<4xi16>
  %e = arith.extui %z : tensor<4xi8> to tensor<4xi16>
  %w = arith.addi %e, %v : tensor<4xi16>
  return %x, %w, %n : tensor<4xui8>, tensor<4xi16>, ui32
}"""


@pytest.mark.parametrize("pipeline", MOST_PIPELINES)
def test_types_with_signs_keep_their_numpy_dtypes(pipeline):
    kernel = compiled(SIGNS, pipeline)
    x, y = np.array([200, 1, 2, 255], np.uint8), np.array([-1, 1, 2, -300], np.int16)
    same, total, number = kernel(x, y, 2**32 - 1)
    assert same.dtype == np.uint8
    np.testing.assert_array_equal(same, x)
    np.testing.assert_array_equal(total, x + y)
    assert number == 2**32 - 1
    with pytest.raises(ArgumentMismatchError, match=r"compiled for uint8\[4\]"):
        kernel(x.view(np.int8), y, 1)


# --- 8-bit floats --------------------------------------------------------------------------------------------------

FLOAT8 = {
    "f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E5M2": ml_dtypes.float8_e5m2, "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "f8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
}  # fmt: skip


def converting(name: str, count: int) -> str:
    """A function that widens all of a format, and narrows `count` numbers of each wider one."""
    wide = ("f16", "bf16", "f32", "f64")
    small = f"tensor<256x{name}>"
    arguments = ", ".join(f"%{kind}: tensor<{count}x{kind}>" for kind in wide)
    lines = [f"  %w{kind} = arith.extf %x : {small} to tensor<256x{kind}>" for kind in wide]
    lines += [f"  %n{kind} = arith.truncf %{kind} : tensor<{count}x{kind}> to tensor<{count}x{name}>" for kind in wide]
    values = ", ".join([*(f"%w{kind}" for kind in wide), *(f"%n{kind}" for kind in wide)])
    kinds = ", ".join([*(f"tensor<256x{kind}>" for kind in wide), *[f"tensor<{count}x{name}>"] * 4])
    body = "\n".join(lines)
    return f"func.func @f(%x: {small}, {arguments}) -> ({kinds}) {{\n{body}\n  return {values} : {kinds}\n}}"


def interesting(numbers: np.ndarray) -> np.ndarray:
    """All numbers of a format, what lies half-way between two, and a little to each side of it."""
    finite = np.unique(numbers[np.isfinite(numbers)])
    middle = (finite[1:] + finite[:-1]) / 2
    far = [1e30, -1e30, np.inf, -np.inf, np.nan, -np.nan, 0.0, -0.0, 1e-30, 2 * finite[-1], 1.03 * finite[-1]]
    sides = [np.nextafter(middle, np.inf), np.nextafter(middle, -np.inf)]
    coarse = [middle * (1 + 2.0**-7), middle * (1 - 2.0**-7), middle * (1 + 2.0**-20)]
    return np.concatenate([finite, middle, *sides, *coarse, far])


def nearest(values: np.ndarray, dtype: type) -> np.ndarray:
    """Rounded once: ml_dtypes narrows fp64 by way of fp32, so to odd first."""
    wide = values.astype(np.float64)
    middle = wide.astype(np.float32)
    bits = middle.view(np.uint32)
    away = np.isfinite(wide) & (middle != wide)
    toward = np.where(np.abs(middle.astype(np.float64)) > np.abs(wide), bits - 1, bits)
    return np.where(away, toward | 1, bits).astype(np.uint32).view(np.float32).astype(dtype)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", FLOAT8)
@pytest.mark.parametrize("pipeline", MOST_PIPELINES)
def test_8_bit_floats_are_converted_exactly(name, pipeline):
    every = np.arange(256, dtype=np.uint8).view(FLOAT8[name])
    wide = (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)
    numbers = interesting(every.astype(np.float64))
    given = [numbers.astype(dtype) for dtype in wide]
    right = [nearest(each, FLOAT8[name]) for each in given]
    results = compiled(converting(name, len(numbers)), pipeline)(every, *given)
    for dtype, found in zip(wide, results[:4], strict=True):
        expected = every.astype(np.float32).astype(np.float64).astype(dtype)
        np.testing.assert_array_equal(found.astype(np.float64), expected.astype(np.float64))
        number = ~np.isnan(every.astype(np.float64))
        np.testing.assert_array_equal(np.signbit(found[number]), np.signbit(expected[number]))
    for source, found, expected in zip(given, results[4:], right, strict=True):
        is_nan = np.isnan(expected.astype(np.float32))
        np.testing.assert_array_equal(np.isnan(found.astype(np.float32)), is_nan, err_msg=str(source.dtype))
        np.testing.assert_array_equal(found.view(np.uint8)[~is_nan], expected.view(np.uint8)[~is_nan])


@pytest.mark.parametrize("pipeline", MOST_PIPELINES)
def test_8_bit_floats_are_computed_with_in_fp32(pipeline):
    dtype, name, tensor = ml_dtypes.float8_e4m3fn, "f8E4M3FN", "tensor<8x8xf8E4M3FN>"
    results = f"tensor<8x8xf32>, {tensor}, tensor<8x8xi1>, {name}"
    text = f"""func.func @f(%x: {tensor}, %y: {tensor}, %s: {name}) -> ({results}) {{
  %c = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x8xf32>
  %f = linalg.fill ins(%c : f32) outs(%e : tensor<8x8xf32>) -> tensor<8x8xf32>
  %m = linalg.matmul ins(%x, %y : {tensor}, {tensor}) outs(%f : tensor<8x8xf32>) -> tensor<8x8xf32>
  %k = arith.constant dense<1.5> : {tensor}
  %w = arith.constant dense<WORDS> : tensor<64x{name}>
  %v = tensor.expand_shape %w [[0, 1]] output_shape [8, 8] : tensor<64x{name}> into {tensor}
  %p = arith.mulf %x, %k : {tensor}
  %q = arith.addf %p, %v : {tensor}
  %r = arith.cmpf olt, %x, %y : {tensor}
  %o = arith.select %r, %q, %x : tensor<8x8xi1>, {tensor}
  return %m, %o, %r, %s : {results}
}}""".replace("WORDS", str([each / 8 for each in range(64)]))
    random = np.random.default_rng(1)
    x, y = (random.normal(size=(8, 8)).astype(dtype) for _ in range(2))
    product, chosen, less, number = compiled(text, pipeline)(x, y, 0.3)
    wide, other = x.astype(np.float32), y.astype(np.float32)
    np.testing.assert_allclose(product, wide @ other, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(less, wide < other)
    words = (np.arange(64) / 8).astype(dtype).astype(np.float32).reshape(8, 8)
    total = ((wide * 1.5).astype(dtype).astype(np.float32) + words).astype(dtype)
    np.testing.assert_array_equal(chosen.view(np.uint8), np.where(wide < other, total, x).view(np.uint8))
    assert number == float(dtype(0.3))
    tensors = [torch.from_numpy(each.view(np.uint8)).view(torch.float8_e4m3fn) for each in (x, y)]
    assert compiled(text, pipeline)(*tensors, 1.0)[1].dtype == torch.float8_e4m3fn


@pytest.mark.parametrize("pipeline", MOST_PIPELINES)
def test_dumped_stages_keep_the_dtypes_of_python(pipeline, tmp_path, monkeypatch):
    dtype, bits = ml_dtypes.float8_e5m2, bytes(range(100))
    text = f"""func.func @f(%x: tensor<4xf8E5M2>, %n: index, %u: tensor<4xui8>)
    -> (tensor<4xf8E5M2>, index, tensor<4xui8>, tensor<100xf8E5M2>) {{
  %w = arith.constant dense<"0x{bits.hex()}"> : tensor<100xf8E5M2>
  %y = arith.addf %x, %x : tensor<4xf8E5M2>
  return %y, %n, %u, %w : tensor<4xf8E5M2>, index, tensor<4xui8>, tensor<100xf8E5M2>
}}"""
    monkeypatch.setenv("MLIRTRI_DUMP_DIR", str(tmp_path))
    mt.from_mlir(text).compile(pipeline=pipeline)
    monkeypatch.delenv("MLIRTRI_DUMP_DIR")
    [folder] = tmp_path.iterdir()
    x, u = np.arange(4).astype(dtype), np.array([1, 200, 3, 4], np.uint8)
    for file in sorted(each for each in folder.glob("0*") if each.suffix in (".mlir", ".py")):
        doubled, number, unsigned, words = mt.resume(file, file.stem[3:])(x, 7, u)
        np.testing.assert_array_equal(doubled.astype(np.float32), [0, 2, 4, 6], err_msg=file.name)
        assert (number, type(number), unsigned.tolist(), words.tobytes()) == (7, int, u.tolist(), bits)
