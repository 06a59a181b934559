"""Control flow of imported programs, and loops beside straight-line code, against NumPy in every pipeline."""

from __future__ import annotations

import numpy as np
import pytest

import mlirtri as mt
from mlirtri.errors import ProgramAssertionError, UnsupportedOperationError

PIPELINES = ("linalg", pytest.param("relax", marks=pytest.mark.slow), "mlir")
"""Pipeline `relax` takes what `linalg` takes, by the same bridge."""
RNG = np.random.default_rng(5)
A = RNG.random((4, 8), np.float32)

HEAD = """
#place = affine_map<(d0)[s0] -> (d0 * 2 + s0)>
func.func @main(%a: tensor<4x8xf32>, %i: tensor<index>) -> {types} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c4 = arith.constant 4 : index
  %c8 = arith.constant 8 : index
  %half = arith.constant 0.5 : f32
  %n = tensor.extract %i[] : tensor<index>
  {body}
  return %r : {types}
}}"""
SAME = "tensor<4x8xf32>"


def program(body: str, types: str = SAME) -> str:
    return HEAD.format(body=body, types=types)


def forall(a: np.ndarray, _n: int) -> np.ndarray:
    result = a.copy()
    result[:, :4] = np.sqrt(a[:, :4])
    return result


def powers(a: np.ndarray, n: int) -> np.ndarray:
    for _ in range(n):
        a = a * np.float32(0.5)
    return a


def switched(a: np.ndarray, n: int) -> np.ndarray:
    return {2: a + a, 5: a}.get(n, np.sqrt(a))


CASES = {
    "scf.forall": (program("""
  %r = scf.forall (%x, %y) in (4, 2) shared_outs(%o = %a) -> (tensor<4x8xf32>) {
    %at = affine.apply #place(%y)[%c0]
    %s = tensor.extract_slice %a[%x, %at] [1, 2] [1, 1] : tensor<4x8xf32> to tensor<1x2xf32>
    %t = math.sqrt %s : tensor<1x2xf32>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %t into %o[%x, %at] [1, 2] [1, 1] : tensor<1x2xf32> into tensor<4x8xf32>
    }
  }"""), forall),
    "scf.parallel": (program("""
  %s:2 = scf.parallel (%x, %y) = (%c0, %c0) to (%c4, %c8) step (%c1, %c2) init (%half, %half) -> (f32, f32) {
    %e = tensor.extract %a[%x, %y] : tensor<4x8xf32>
    scf.reduce(%e, %e : f32, f32) {
    ^bb0(%l: f32, %m: f32):
      %q = arith.addf %l, %m : f32
      scf.reduce.return %q : f32
    }, {
    ^bb0(%l: f32, %m: f32):
      %q = arith.maximumf %l, %m : f32
      scf.reduce.return %q : f32
    }
  }
  %r = tensor.from_elements %s#0, %s#1 : tensor<2xf32>""", "tensor<2xf32>"),
        lambda a, n: np.array([0.5 + a[:, ::2].sum(), max(0.5, a[:, ::2].max())])),
    "scf.index_switch": (program("""
  %r = scf.index_switch %n -> tensor<4x8xf32>
  case 2 {
    %d = arith.addf %a, %a : tensor<4x8xf32>
    scf.yield %d : tensor<4x8xf32>
  }
  case 5 { scf.yield %a : tensor<4x8xf32> }
  default {
    %z = math.sqrt %a : tensor<4x8xf32>
    scf.yield %z : tensor<4x8xf32>
  }"""), switched),
    "scf.execute_region": (program("""
  %r = scf.execute_region -> tensor<4x8xf32> {
    %d = arith.addf %a, %a : tensor<4x8xf32>
    scf.yield %d : tensor<4x8xf32>
  }"""), lambda a, n: a + a),
    "affine.for": (program("""
  %h = tensor.splat %half : tensor<4x8xf32>
  %r = affine.for %k = 0 to %n iter_args(%x = %a) -> tensor<4x8xf32> {
    %y = arith.mulf %x, %h : tensor<4x8xf32>
    affine.yield %y : tensor<4x8xf32>
  }"""), powers),
    "blocks": (program("""
  %h = tensor.splat %half : tensor<4x8xf32>
  cf.br ^test(%c0, %a : index, tensor<4x8xf32>)
^test(%k: index, %x: tensor<4x8xf32>):
  %goes = arith.cmpi slt, %k, %n : index
  cf.cond_br %goes, ^body, ^end
^body:
  %y = arith.mulf %x, %h : tensor<4x8xf32>
  %next = arith.addi %k, %c1 : index
  cf.br ^test(%next, %y : index, tensor<4x8xf32>)
^end:
  %r = tensor.cast %x : tensor<4x8xf32> to tensor<4x8xf32>"""), powers),
    "ub.poison": (program("""
  %p = ub.poison : f32
  %big = arith.cmpi sge, %n, %c0 : index
  %v = scf.if %big -> f32 { scf.yield %half : f32 } else { scf.yield %p : f32 }
  %r = tensor.splat %v : tensor<4x8xf32>"""), lambda a, n: np.full_like(a, 0.5)),
}  # fmt: skip


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("name", CASES)
def test_control_flow(name, pipeline):
    text, oracle = CASES[name]
    kernel = mt.from_mlir(text).compile(pipeline=pipeline)
    for n in (0, 2, 5):
        np.testing.assert_allclose(kernel(A, np.array(n)), oracle(A, n), rtol=1e-6)


def test_a_loop_that_does_not_end_is_refused_at_its_line():
    body = """
  %ever = arith.constant 9223372036854775807 : index
  %r = scf.for %k = %c0 to %ever step %c1 iter_args(%x = %a) -> tensor<4x8xf32> {
    %y = math.sqrt %x : tensor<4x8xf32>
    scf.yield %y : tensor<4x8xf32>
  }"""
    with pytest.raises(UnsupportedOperationError, match="does not end") as caught:
        mt.from_mlir(program(body)).compile()
    assert caught.value.span is not None
    assert "scf.for" in str(caught.value)


# --- loops beside straight-line code -------------------------------------------------------------------------------

SQUARE = "tensor<64x64xf32>"
OUTLINED_LOOPS = f"""
#same = affine_map<(d0, d1) -> (d0, d1)>
func.func @main(%a: {SQUARE}, %b: {SQUARE}, %n: tensor<i64>) -> ({SQUARE}, tensor<f32>) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : {SQUARE}
  %f = linalg.fill ins(%zero : f32) outs(%e : {SQUARE}) -> {SQUARE}
  %p = linalg.matmul ins(%a, %b : {SQUARE}, {SQUARE}) outs(%f : {SQUARE}) -> {SQUARE}
  %count = tensor.extract %n[] : tensor<i64>
  %turns = arith.index_cast %count : i64 to index
  %q = scf.for %i = %c0 to %turns step %c1 iter_args(%x = %p) -> {SQUARE} {{
    %y = linalg.generic {{indexing_maps = [#same, #same, #same], iterator_types = ["parallel", "parallel"]}}
        ins(%x, %a : {SQUARE}, {SQUARE}) outs(%e : {SQUARE}) {{
    ^bb0(%u: f32, %v: f32, %o: f32):
      %w = arith.addf %u, %v : f32
      linalg.yield %w : f32
    }} -> {SQUARE}
    scf.yield %y : {SQUARE}
  }}
  %s = linalg.matmul ins(%q, %b : {SQUARE}, {SQUARE}) outs(%f : {SQUARE}) -> {SQUARE}
  %k = scf.for %i = %c0 to %turns step %c1 iter_args(%x = %zero) -> f32 {{
    %one = tensor.extract %s[%i, %c1] : {SQUARE}
    %y = arith.addf %x, %one : f32
    scf.yield %y : f32
  }}
  %t = tensor.from_elements %k : tensor<f32>
  return %s, %t : {SQUARE}, tensor<f32>
}}"""


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_products_beside_loops_stay_straight_line_code(pipeline):
    kernel = mt.from_mlir(OUTLINED_LOOPS).compile(pipeline=pipeline)
    a, b = (RNG.random((64, 64), np.float32) for _ in range(2))
    for turns in (0, 3):
        squares = (a @ b + turns * a) @ b
        found, total = kernel(a, b, np.array(turns))
        np.testing.assert_allclose(found, squares, rtol=1e-4)
        np.testing.assert_allclose(total, squares[:turns, 1].sum(), rtol=1e-4)
    if pipeline == "mlir":
        return
    assert kernel.stats["kernels"] == 4
    text = kernel.ir["relax"]
    assert "main_loops_0" in text
    assert "main_loops_1" in text
    assert text.count('T.sblock("matmul")') == 2


def test_scalars_pass_between_outlined_loops():
    """An index and a number that one loop ends with: the next one, after a product, begins with them."""
    text = OUTLINED_LOOPS.replace("%q = scf.for", "%q, %half, %last = scf.for")
    text = text.replace(
        f"iter_args(%x = %p) -> {SQUARE} {{",
        f"iter_args(%x = %p, %h = %zero, %l = %c0) -> ({SQUARE}, f32, index) {{\n"
        "    %first = tensor.extract %x[%c0, %c1] : " + SQUARE,
    ).replace(f"scf.yield %y : {SQUARE}", f"scf.yield %y, %first, %i : {SQUARE}, f32, index")
    text = text.replace(
        "%i = %c0 to %turns step %c1 iter_args(%x = %zero)", "%i = %last to %turns step %c1 iter_args(%x = %half)"
    )
    kernel = mt.from_mlir(text).compile()
    a, b = (RNG.random((64, 64), np.float32) for _ in range(2))
    for turns in (1, 3):
        squares = (a @ b + turns * a) @ b
        found, total = kernel(a, b, np.array(turns))
        np.testing.assert_allclose(found, squares, rtol=1e-4)
        half = (a @ b + (turns - 1) * a)[0, 1]
        np.testing.assert_allclose(total, half + squares[turns - 1 : turns, 1].sum(), rtol=1e-4)
    assert kernel.stats["kernels"] == 4


def test_many_small_products_are_not_compiled_with_the_loops_around_them():
    """Sixteen products of 16x16 matrices are as much to schedule as one of 64x64."""
    text = OUTLINED_LOOPS.replace("64x64", "16x16")
    product = text[text.index("  %s = ") : text.index("  %k = ")]
    more = [product.replace("%s =", f"%s{number} =").replace("%q", f"%s{number - 1}") for number in range(1, 15)]
    text = text.replace(product, product.replace("%s =", "%s0 =") + "".join(more) + product.replace("%q", "%s14"))
    kernel = mt.from_mlir(text).compile()
    assert kernel.stats["kernels"] > 15
    a, b = (RNG.random((16, 16), np.float32) / 8 for _ in range(2))
    wanted = (a @ b + 2 * a) @ np.linalg.matrix_power(b.astype(np.float64), 16)
    np.testing.assert_allclose(kernel(a, b, np.array(2))[0], wanted, rtol=1e-4)


def test_small_products_are_compiled_with_the_loops_around_them():
    kernel = mt.from_mlir(OUTLINED_LOOPS.replace("64x64", "8x8")).compile()
    assert kernel.stats["kernels"] == 1


# --- sizes and stages ----------------------------------------------------------------------------------------------

SIZE = """
func.func @main(%x: tensor<?x5xf32>, %n: tensor<i64>) -> tensor<i64> {
  %v = tensor.extract %n[] : tensor<i64>
  %axis = arith.index_cast %v : i64 to index
  %d = tensor.dim %x, %axis : tensor<?x5xf32>
  %c = arith.index_cast %d : index to i64
  %r = tensor.from_elements %c : tensor<i64>
  return %r : tensor<i64>
}"""


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
def test_the_size_along_an_axis_given_at_run_time(pipeline):
    kernel = mt.from_mlir(SIZE).compile(pipeline=pipeline)
    x = np.zeros((3, 5), np.float32)
    assert [kernel(x, np.array(axis)) for axis in (0, 1)] == [3, 5]


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_loops_keep_to_the_contracts_of_the_stages(pipeline, monkeypatch):
    monkeypatch.setenv("MLIRTRI_VERIFY", "1")
    kernel = mt.from_mlir(OUTLINED_LOOPS).compile(pipeline=pipeline)
    assert "scf.for" in kernel.ir["linalg"]


SHAPE = """
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %s = shape.shape_of %x : tensor<2x3xf32> -> tensor<2xindex>
  %r = tensor.reshape %x(%s) : (tensor<2x3xf32>, tensor<2xindex>) -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}"""


def test_computed_shapes():
    x = RNG.random((2, 3), np.float32)
    np.testing.assert_array_equal(mt.from_mlir(SHAPE).compile(pipeline="mlir")(x), x)


STEPPING = """func.func @main(%x: tensor<3xf32>, %by: i8) -> tensor<3xf32> {
  %low = arith.constant 0 : i8
  %high = arith.constant 127 : i8
  %r = scf.for %i = %low to %high step %by iter_args(%a = %x) -> tensor<3xf32> : i8 {
    %t = math.sqrt %a : tensor<3xf32>
    scf.yield %t : tensor<3xf32>
  }
  return %r : tensor<3xf32>
}"""


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
def test_dynamic_steps_are_checked_and_counters_do_not_wrap(pipeline):
    kernel = mt.from_mlir(STEPPING).compile(pipeline=pipeline)
    x = np.array([16, 81, 1], np.float32)
    np.testing.assert_allclose(kernel(x, np.int8(64)), x**0.25, rtol=1e-6)
    for step in (0, -1):
        with pytest.raises(mt.KernelError, match="the step of a loop is not positive"):
            kernel(x, np.int8(step))


def test_a_known_step_of_zero_is_refused():
    text = STEPPING.replace("%high step %by", "%high step %low")
    with pytest.raises(UnsupportedOperationError, match="the step of a loop is not positive") as caught:
        mt.from_mlir(text).compile()
    assert caught.value.span.line == 4


UNSIGNED = """
func.func @main(%a: tensor<i32>, %b: tensor<i32>) -> tensor<i32> {
  %lower = tensor.extract %a[] : tensor<i32>
  %upper = tensor.extract %b[] : tensor<i32>
  %one = arith.constant 1 : i32
  %zero = arith.constant 0 : i32
  %r = scf.for unsigned %k = %lower to %upper step %one iter_args(%x = %zero) -> (i32) : i32 {
    %y = arith.addi %x, %one : i32
    scf.yield %y : i32
  }
  %t = tensor.from_elements %r : tensor<i32>
  return %t : tensor<i32>
}
"""


def test_bounds_without_a_sign():
    trips = mt.from_mlir(UNSIGNED)
    for lower, upper, count in ((0, 5, 5), (-3, 4, 0), (-5, -2, 3), (2**31 - 2, 3 - 2**31, 5)):
        assert trips(np.array(lower, "int32"), np.array(upper, "int32")) == count
    wide = mt.from_mlir(UNSIGNED.replace("i32", "i64"))
    assert wide(np.array(2), np.array(5)) == 3
    with pytest.raises(ProgramAssertionError, match=r"unsigned loop is 2\*\*63 or more"):
        wide(np.array(-3), np.array(4))
