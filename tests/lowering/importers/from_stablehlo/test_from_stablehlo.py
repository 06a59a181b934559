"""Programs from StableHLO text, as JAX prints it, against NumPy; and what `from_jax` does with JAX's objects."""

from __future__ import annotations

import sys
from math import erf

import ml_dtypes
import numpy as np
import pytest
import torch

import mlirtri as mt
from mlirtri.errors import KernelError, KernelTypeError, ParseError, UnsupportedOperationError

PIPELINES = ("linalg", "mlir")
RNG = np.random.default_rng(3)


def random(*shape: int, dtype: str = "float32") -> np.ndarray:
    if np.dtype(dtype).kind in "iu":
        return RNG.integers(0, 200, shape).astype(dtype)
    return RNG.uniform(-1, 1, shape).astype(dtype)


def run(text: str, *arguments: np.ndarray, pipeline: str = "linalg"):
    return mt.from_stablehlo(text).compile(pipeline=pipeline)(*arguments)


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_large_unsigned_constants(pipeline):
    constants = np.arange(60000, 60100, dtype=np.uint16)
    text = f"""func.func @main(%a: tensor<100xui16>) -> (tensor<100xui16>, tensor<100xui16>) {{
        %c = stablehlo.constant dense<{constants.tolist()}> : tensor<100xui16>
        %d = stablehlo.constant dense<{constants.tolist()}> : tensor<100xui16>
        %0 = stablehlo.divide %c, %a : tensor<100xui16>
        return %0, %d : tensor<100xui16>, tensor<100xui16> }}"""
    a = np.arange(1, 101, dtype=np.uint16)
    quotient, same = run(text, a, pipeline=pipeline)
    assert quotient.dtype == same.dtype == np.uint16
    np.testing.assert_array_equal(quotient, constants // a)
    np.testing.assert_array_equal(same, constants)


MLP = """
#loc1 = loc("net.py":7:4)
module @jit_net attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%x: tensor<3x4xf32> loc("x"), %w: tensor<4x5xf32> loc("w")) -> (tensor<3x5xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x4xf32>, tensor<4x5xf32>) -> tensor<3x5xf32> loc("h"(#loc1))
    %1 = call @relu(%0) : (tensor<3x5xf32>) -> tensor<3x5xf32>
    return %1 : tensor<3x5xf32>
  }
  func.func private @relu(%x: tensor<3x5xf32>) -> tensor<3x5xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<3x5xf32>
    %1 = stablehlo.maximum %x, %0 : tensor<3x5xf32>
    return %1 : tensor<3x5xf32>
  }
}
"""  # noqa: E501 - as it is printed


@pytest.mark.parametrize("pipeline", [*PIPELINES, "relax"])
def test_functions_that_call_each_other(pipeline):
    x, w = random(3, 4), random(4, 5)
    kernel = mt.from_stablehlo(MLP).compile(pipeline=pipeline)
    np.testing.assert_allclose(kernel(x, w=w), np.maximum(x @ w, 0), rtol=1e-5, atol=1e-6)
    assert "stablehlo.dot_general" in kernel.ir["stablehlo"]
    assert "mhlo" not in kernel.ir["stablehlo"]
    assert "linalg.matmul" in kernel.ir["linalg"]


def test_bytes_and_files_are_read(tmp_path):
    x, w = random(3, 4), random(4, 5)
    path = tmp_path / "net.mlir"
    path.write_text(MLP)
    np.testing.assert_allclose(mt.from_stablehlo(path)(x, w), np.maximum(x @ w, 0), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(mt.from_stablehlo(str(path))(x, w), mt.from_stablehlo(MLP.encode())(x, w))


def test_a_portable_artifact_is_read():
    from torch_mlir._mlir_libs import _stablehlo  # noqa: TID251 - only this test writes artifacts

    from mlirtri.programs.stablehlo_program import _parsed

    data = _stablehlo.serialize_portable_artifact(_parsed(MLP, "<text>"), _stablehlo.get_current_version())
    x, w = random(3, 4), random(4, 5)
    np.testing.assert_allclose(mt.from_stablehlo(data)(x, w), np.maximum(x @ w, 0), rtol=1e-5, atol=1e-6)
    with pytest.raises(ParseError, match="not a portable artifact"):
        mt.from_stablehlo(data[:40])


def elementwise(body: str, kind: str, result: str = "") -> str:
    return f"""
func.func public @main(%a: tensor<5x{kind}>, %b: tensor<5x{kind}>) -> tensor<5x{result or kind}> {{
  {body}
  return %0 : tensor<5x{result or kind}>
}}"""


A, B = np.uint8([250, 3, 200, 7, 255]), np.uint8([7, 200, 3, 250, 1])
UNSIGNED = {
    "maximum": ("%0 = stablehlo.maximum %a, %b : tensor<5xui8>", "", np.maximum(A, B)),
    "divide": ("%0 = stablehlo.divide %a, %b : tensor<5xui8>", "", A // B),
    "remainder": ("%0 = stablehlo.remainder %a, %b : tensor<5xui8>", "", A % B),
    "compare": ("%0 = stablehlo.compare LT, %a, %b : (tensor<5xui8>, tensor<5xui8>) -> tensor<5xi1>", "i1", A < B),
    "convert": ("%0 = stablehlo.convert %a : (tensor<5xui8>) -> tensor<5xf32>", "f32", A.astype(np.float32)),
    "shift": ("%0 = stablehlo.shift_right_logical %a, %c : tensor<5xui8>", "", A >> 1),
}


@pytest.mark.parametrize("name", UNSIGNED)
def test_unsigned_integers_stay_unsigned(name):
    body, result, wanted = UNSIGNED[name]
    body = f"%c = stablehlo.constant dense<1> : tensor<5xui8>\n  {body}"
    found = run(elementwise(body, "ui8", result), A, B)
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)


def test_chlo_and_bfloat16():
    text = elementwise("%0 = chlo.erf %a : tensor<5xf32> -> tensor<5xf32>", "f32")
    x = random(5)
    np.testing.assert_allclose(run(text, x, x), [erf(each) for each in x], rtol=1e-6, atol=1e-6)
    half = x.astype(ml_dtypes.bfloat16)
    found = run(elementwise("%0 = stablehlo.add %a, %b : tensor<5xbf16>", "bf16"), half, half)
    np.testing.assert_array_equal(found, half + half)


SUMS_OF_HALVES = """
func.func public @main(%x: tensor<2x9x9x60xbf16>, %w: tensor<3x3x30x8xbf16>, %a: tensor<4x30x9xbf16>, %b: tensor<9x30x5xbf16>, %p: tensor<3x300xf16>, %q: tensor<300xf16>)
    -> (tensor<2x7x7x8xbf16>, tensor<4x5xbf16>, tensor<3xf16>, tensor<3xf16>) {
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1]} {batch_group_count = 1 : i64, feature_group_count = 2 : i64} : (tensor<2x9x9x60xbf16>, tensor<3x3x30x8xbf16>) -> tensor<2x7x7x8xbf16>
  %1 = stablehlo.dot_general %a, %b, contracting_dims = [1, 2] x [1, 0] : (tensor<4x30x9xbf16>, tensor<9x30x5xbf16>) -> tensor<4x5xbf16>
  %2 = stablehlo.dot %p, %q : (tensor<3x300xf16>, tensor<300xf16>) -> tensor<3xf16>
  %one = stablehlo.constant dense<1.0> : tensor<f16>
  %3 = stablehlo.reduce(%p init: %one) applies stablehlo.add across dimensions = [1] : (tensor<3x300xf16>, tensor<f16>) -> tensor<3xf16>
  return %0, %1, %2, %3 : tensor<2x7x7x8xbf16>, tensor<4x5xbf16>, tensor<3xf16>, tensor<3xf16>
}"""  # noqa: E501 - as it is printed


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_halves_are_added_up_in_fp32(pipeline):
    """Rounded at every step, these sums are off by 20 times the tolerance and more."""
    shapes = (2, 9, 9, 60), (3, 3, 30, 8), (4, 30, 9), (9, 30, 5), (3, 300), (300,)
    halves = [
        torch.from_numpy(random(*each)).to(torch.float16 if each[-1] == 300 else torch.bfloat16) for each in shapes
    ]
    x, w, a, b, p, q = (each.double() for each in halves)
    image = torch.nn.functional.conv2d(x.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1), groups=2).permute(0, 2, 3, 1)
    wanted = image, torch.einsum("aij,jib->ab", a, b), p @ q, p.sum(1) + 1
    for found, each in zip(run(SUMS_OF_HALVES, *halves, pipeline=pipeline), wanted, strict=True):
        unit = 2.0**-8 if found.dtype == torch.bfloat16 else 2.0**-11
        torch.testing.assert_close(found.double(), each, rtol=unit, atol=1e-4)


COUNTED = """
func.func public @main(%x: tensor<4xf32>) -> (tensor<i32>, tensor<4xf32>) {
  %start = stablehlo.constant dense<2> : tensor<i32>
  %stop = stablehlo.constant dense<STOP> : tensor<i32>
  %0:2 = stablehlo.while(%i = %start, %s = %x) : tensor<i32>, tensor<4xf32> cond {
    %c = stablehlo.compare LT, %i, %stop : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %f = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %b = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %t = stablehlo.add %s, %b : tensor<4xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %t : tensor<i32>, tensor<4xf32>
  }
  return %0#0, %0#1 : tensor<i32>, tensor<4xf32>
}"""


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("stop", [6, 1])
def test_a_loop_that_counts_is_a_for(stop, pipeline):
    x = random(4)
    kernel = mt.from_stablehlo(COUNTED.replace("STOP", str(stop))).compile(pipeline=pipeline)
    count, total = kernel(x)
    assert count == max(stop, 2)
    np.testing.assert_allclose(total, x + sum(range(2, stop)), rtol=1e-6)
    assert "stablehlo.while" in kernel.ir["stablehlo"]
    assert "scf.while" not in kernel.ir["linalg"]


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_another_loop_is_a_while(pipeline):
    text = """
func.func public @main(%x: tensor<f32>) -> tensor<f32> {
  %top = stablehlo.constant dense<100.0> : tensor<f32>
  %0 = stablehlo.while(%s = %x) : tensor<f32> cond {
    %c = stablehlo.compare LT, %s, %top : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %t = stablehlo.add %s, %s : tensor<f32>
    stablehlo.return %t : tensor<f32>
  }
  return %0 : tensor<f32>
}"""
    kernel = mt.from_stablehlo(text).compile(pipeline=pipeline)
    assert kernel(np.float32(3)) == 192
    assert kernel(np.float32(300)) == 300


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_the_last_branch_is_for_every_other_number(pipeline):
    text = """
func.func public @main(%i: tensor<i32>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "stablehlo.case"(%i) ({
    %t = stablehlo.add %x, %x : tensor<4xf32>
    stablehlo.return %t : tensor<4xf32>
  }, {
    %t = stablehlo.negate %x : tensor<4xf32>
    stablehlo.return %t : tensor<4xf32>
  }, {
    stablehlo.return %x : tensor<4xf32>
  }) : (tensor<i32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}"""
    x = random(4)
    kernel = mt.from_stablehlo(text).compile(pipeline=pipeline)
    for number, wanted in ((0, x + x), (1, -x), (2, x), (9, x), (-1, x)):
        np.testing.assert_array_equal(kernel(np.int32(number), x), wanted)


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_sort_moves_all_operands_by_the_first(pipeline):
    text = """
func.func public @main(%k: tensor<3x6xf32>, %v: tensor<3x6xi32>) -> (tensor<3x6xf32>, tensor<3x6xi32>) {
  %0:2 = "stablehlo.sort"(%k, %v) <{dimension = 1 : i64, is_stable = true}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>):
    %p = stablehlo.compare GT, %a, %b, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }) : (tensor<3x6xf32>, tensor<3x6xi32>) -> (tensor<3x6xf32>, tensor<3x6xi32>)
  return %0#0, %0#1 : tensor<3x6xf32>, tensor<3x6xi32>
}"""
    keys, values = random(3, 6), random(3, 6, dtype="int32")
    keys[0, 2] = keys[0, 4]
    order = np.argsort(-keys, axis=1, kind="stable")
    first, second = run(text, keys, values, pipeline=pipeline)
    np.testing.assert_array_equal(first, np.take_along_axis(keys, order, 1))
    np.testing.assert_array_equal(second, np.take_along_axis(values, order, 1))


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_scatter_combines_in_order_and_drops_updates_out_of_bounds(pipeline):
    text = """
func.func public @main(%x: tensor<4x3xf32>, %i: tensor<5x1xi32>, %u: tensor<5x3xf32>) -> tensor<4x3xf32> {
  %0 = "stablehlo.scatter"(%x, %i, %u) <{indices_are_sorted = false, unique_indices = false,
    scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0],
      scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %two = stablehlo.constant dense<2.0> : tensor<f32>
    %h = stablehlo.divide %a, %two : tensor<f32>
    %s = stablehlo.add %h, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4x3xf32>, tensor<5x1xi32>, tensor<5x3xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}"""
    x, updates = random(4, 3), random(5, 3)
    places = np.int32([1, 3, 1, -1, 7])
    wanted = x.copy()
    for place, update in zip(places, updates, strict=True):
        if 0 <= place < 4:
            wanted[place] = wanted[place] / 2 + update
    np.testing.assert_allclose(run(text, x, places[:, None], updates, pipeline=pipeline), wanted, rtol=1e-6)


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_dynamic_sizes_and_the_assertions_of_jax(pipeline):
    text = """
func.func public @main(%a: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %n = stablehlo.get_dimension_size %a, dim = 0 : (tensor<?x4xf32>) -> tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %enough = stablehlo.compare GE, %n, %two, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
  stablehlo.custom_call @shape_assertion(%enough, %n) {error_message = "Too short. It is {0}.", has_side_effect = true} : (tensor<i1>, tensor<i32>) -> ()
  %list = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
  %four = stablehlo.constant dense<4> : tensor<1xi32>
  %shape = stablehlo.concatenate %list, %four, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %factor = stablehlo.constant dense<2.0> : tensor<f32>
  %all = stablehlo.dynamic_broadcast_in_dim %factor, %shape, dims = [] : (tensor<f32>, tensor<2xi32>) -> tensor<?x4xf32>
  %0 = stablehlo.multiply %a, %all : tensor<?x4xf32>
  return %0 : tensor<?x4xf32>
}"""  # noqa: E501 - as it is printed
    kernel = mt.from_stablehlo(text).compile(pipeline=pipeline)
    for count in (2, 5):
        x = random(count, 4)
        np.testing.assert_array_equal(kernel(x), 2 * x)
    with pytest.raises(KernelError, match="Too short"):
        kernel(random(1, 4))


TRANSFORMS = {
    "FFT": ((3, 12), "complex64", [12], np.fft.fft),
    "IFFT": ((4, 6), "complex128", [4, 6], np.fft.ifft2),
    "RFFT": ((2, 130), "float32", [130], np.fft.rfft),
    "IRFFT": ((3, 5), "complex64", [9], lambda x: np.fft.irfft(x, 9)),
}
SHORT = {"float32": "f32", "float64": "f64", "complex64": "complex<f32>", "complex128": "complex<f64>"}


@pytest.mark.parametrize("kind", TRANSFORMS)
def test_fourier_transforms(kind):
    shape, dtype, lengths, oracle = TRANSFORMS[kind]
    x = (random(*shape) + (1j * random(*shape) if "complex" in dtype else 0)).astype(dtype)
    narrow = dtype in ("float32", "complex64")
    wanted = oracle(x.astype("complex128" if "complex" in dtype else "float64"))
    wanted = wanted.astype({"c": "complex64", "f": "float32"}[wanted.dtype.kind] if narrow else wanted.dtype)
    types = [f"tensor<{''.join(f'{size}x' for size in each.shape)}{SHORT[each.dtype.name]}>" for each in (x, wanted)]
    found = run(
        f"""
func.func public @main(%x: {types[0]}) -> {types[1]} {{
  %0 = stablehlo.fft %x, type = {kind}, length = [{", ".join(map(str, lengths))}] : ({types[0]}) -> {types[1]}
  return %0 : {types[1]}
}}""",
        x,
    )
    near = 2e-6 if narrow else 1e-14
    np.testing.assert_allclose(found, wanted, rtol=near, atol=near * np.abs(wanted).max())


def test_large_constants_are_parameters():
    values = np.arange(100, dtype=np.float32)
    rows = ", ".join(f"{each:.1f}" for each in values)
    text = f"""
func.func public @main(%x: tensor<100xf32>) -> tensor<100xf32> {{
  %c = stablehlo.constant dense<[{rows}]> : tensor<100xf32>
  %0 = stablehlo.multiply %x, %c : tensor<100xf32>
  return %0 : tensor<100xf32>
}}"""
    program = mt.from_stablehlo(text)
    [held] = program.params.values()
    np.testing.assert_array_equal(held, values)
    x = random(100)
    np.testing.assert_array_equal(program(x), x * values)


def test_bitcasts_of_complex_numbers_to_their_own_type():
    kind = "tensor<2xcomplex<f64>>"
    text = f"""func.func public @main(%a: {kind}) -> {kind} {{
      %0 = stablehlo.bitcast_convert %a : ({kind}) -> {kind}
      return %0 : {kind}
    }}"""
    z = np.array([1 + 2j, 3j])
    np.testing.assert_array_equal(run(text, z), z)


def test_operations_without_a_lowering_are_refused_all_at_once():
    text = """
func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.custom_call @my_library(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = stablehlo.custom_call @lapack_sgetrf(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}"""
    with pytest.raises(UnsupportedOperationError) as caught:
        mt.from_stablehlo(text).compile()
    assert "custom_call @my_library" in str(caught.value)
    assert "custom_call @lapack_sgetrf" in str(caught.value)
    assert "<text>:3:" in str(caught.value)


def test_text_that_does_not_parse_is_shown():
    with pytest.raises(ParseError, match="<text>:2"):
        mt.from_stablehlo("func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n  %0 = stablehlo.nope %x\n}")


class Lowered:  # what `jax.jit(f).lower(…)` gives, as far as it is looked at
    def as_text(self, debug_info: bool = False) -> str:
        assert debug_info
        return MLP


class Jitted:
    def lower(self, *arguments, **keywords):
        assert (arguments, keywords) == ((1,), {"k": 2})
        return Lowered()


def test_programs_lowered_by_jax(monkeypatch):
    x, w = random(3, 4), random(4, 5)
    np.testing.assert_allclose(mt.from_jax(Lowered())(x, w), np.maximum(x @ w, 0), rtol=1e-5, atol=1e-6)
    monkeypatch.setitem(sys.modules, "jax", sys)
    assert mt.from_jax(Jitted(), 1, k=2).functions == ("main",)


def test_without_jax_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(KernelTypeError, match=r"mlirtri\[jax\]"):
        mt.from_jax(lambda x: x, np.float32(1))


def test_errors_are_the_users_to_catch():
    with pytest.raises(KernelError):
        mt.from_stablehlo("module {}").compile()
