"""`docs/coverage.md` is what the lowerings' tables say, and its rows say what happens."""

from __future__ import annotations

import re

import numpy as np
import pytest

import mlirtri as mt
from mlirtri.errors import UnsupportedOperationError
from mlirtri.lowering.pipelines import IMPORT_STAGES
from mlirtri.pages import coverage_page as coverage

PAGE = coverage.PAGE.read_text()
ROWS = re.findall(r"^\| `([\w.]+)` \| (\w+) \| (\w+) \| (.*) \|$", PAGE, re.MULTILINE)


def test_the_page_is_the_generated_one_under_any_hash_seed():
    """Each run of the tests has another seed than the process that wrote the page."""
    assert coverage.page() == PAGE, "run python -m mlirtri.pages.coverage_page --write"


def test_every_language_comes_in_somehow():
    assert coverage.ENTRIES.keys() == IMPORT_STAGES.keys()
    names = re.findall(r"mt\.(\w+)", " ".join(coverage.ENTRIES.values()))
    assert all(callable(getattr(mt, name)) for name in names)


def test_every_translated_operation_is_named_by_a_test():
    untested = [name for name, word, _, file in ROWS if word != "refused" and file == "–"]
    assert untested == []
    assert len(ROWS) > 270


@pytest.mark.parametrize("name", ["arith.flush_denormals"])
def test_what_the_page_says_is_refused_is_refused(name):
    assert (name, "refused") in [row[:2] for row in ROWS]
    text = f"""
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {{
  %0 = {name} %a : tensor<4xf32>
  return %0 : tensor<4xf32>
}}
"""
    with pytest.raises(UnsupportedOperationError, match=name):
        mt.from_mlir(text).compile()


# --- operations that no other test names ------------------------------------------------------------------------------

Z = np.array([1 + 2j, -0.5 + 0.25j, 3 - 1j, 0.1 - 2j], np.complex64)
W = np.array([0.5 - 1j, 2 + 1j, -1 - 1j, 1 + 2j], np.complex64)
C = "tensor<4xcomplex<f32>>"
COMPLEX = {
    "complex.conj": ("%a : " + C, C, np.conj(Z)),
    "complex.neg": ("%a : " + C, C, -Z),
    "complex.sign": ("%a : " + C, C, Z / np.abs(Z)),
    "complex.pow": ("%a, %b : " + C, C, Z**W),
    "complex.neq": ("%a, %b : " + C, "tensor<4xi1>", Z != W),
    "complex.atan2": ("%a, %b : " + C, C, -1j * np.log((W + 1j * Z) / np.sqrt(W * W + Z * Z))),
}


@pytest.mark.parametrize("name", COMPLEX)
def test_operations_on_complex_numbers(name):
    operands, result, wanted = COMPLEX[name]
    inner = operands.replace(C, "complex<f32>").replace("%a", "%x").replace("%b", "%y")
    kind = "i1" if "i1" in result else "complex<f32>"
    text = f"""
#map = affine_map<(d0) -> (d0)>
func.func @main(%a: {C}, %b: {C}) -> {result} {{
  %e = tensor.empty() : {result}
  %r = linalg.generic {{indexing_maps = [#map, #map, #map], iterator_types = ["parallel"]}}
      ins(%a, %b : {C}, {C}) outs(%e : {result}) {{
  ^bb0(%x: complex<f32>, %y: complex<f32>, %o: {kind}):
    %s = {name} {inner}
    linalg.yield %s : {kind}
  }} -> {result}
  return %r : {result}
}}
"""
    found = mt.from_mlir(text).compile(pipeline="mlir")(Z, W)
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-4, atol=1e-5)


def test_a_switch_between_blocks():
    text = """
func.func @main(%a: tensor<f32>, %n: i32) -> tensor<f32> {
  cf.switch %n : i32, [default: ^other, 1: ^one, 2: ^two]
^one:
  %x = math.exp %a : tensor<f32>
  return %x : tensor<f32>
^two:
  %y = arith.addf %a, %a : tensor<f32>
  return %y : tensor<f32>
^other:
  return %a : tensor<f32>
}
"""
    kernel = mt.from_mlir(text).compile(pipeline="mlir")
    found = [float(np.asarray(kernel(np.float32(3), number))) for number in (1, 2, 7)]
    np.testing.assert_allclose(found, [np.exp(3), 6, 3], rtol=1e-6)


def test_a_conversion_between_floats_of_one_width():
    text = """
func.func @main(%a: tensor<4xf16>) -> tensor<4xbf16> {
  %r = arith.convertf %a : tensor<4xf16> to tensor<4xbf16>
  return %r : tensor<4xbf16>
}
"""
    found = mt.from_mlir(text).compile(pipeline="mlir")(np.array([1, 2.5, -0.125, 100], np.float16))
    assert np.asarray(found, np.float32).tolist() == [1, 2.5, -0.125, 100]


def test_random_numbers_of_linalg():
    text = """
func.func @main(%low: f64, %high: f64, %seed: i32) -> tensor<4x8xf32> {
  %e = tensor.empty() : tensor<4x8xf32>
  %r = linalg.fill_rng_2d ins(%low, %high, %seed : f64, f64, i32) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}
"""
    found = [np.asarray(mt.from_mlir(text).compile(pipeline=way)(-2.0, 3.0, 7)) for way in ("linalg", "mlir")]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6)
    assert found[1].min() >= -2
    assert found[1].max() <= 3
    assert len(np.unique(found[1])) == 32


def test_complex_powers_of_integers():
    text = f"""
#map = affine_map<(d0) -> (d0)>
func.func @main(%a: {C}, %n: tensor<4xi32>) -> {C} {{
  %r = linalg.generic {{indexing_maps = [#map, #map, #map], iterator_types = ["parallel"]}}
      ins(%a, %n : {C}, tensor<4xi32>) outs(%a : {C}) {{
  ^bb0(%x: complex<f32>, %y: i32, %o: complex<f32>):
    %s = complex.powi %x, %y : complex<f32>, i32
    linalg.yield %s : complex<f32>
  }} -> {C}
  return %r : {C}
}}
"""
    exponents = np.array([2, 3, 0, 1], np.int32)
    found = mt.from_mlir(text).compile(pipeline="mlir")(Z, exponents)
    np.testing.assert_allclose(np.asarray(found), Z**exponents, rtol=1e-4, atol=1e-5)
