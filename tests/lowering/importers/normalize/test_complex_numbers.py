"""Upstream's complex operations in imported programs, against NumPy in every pipeline."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

import mlirtri as mt
from mlirtri.errors import UnsupportedOperationError

PIPELINES = ("linalg", "relax", "mlir")
PARTS = {"f32": (np.complex64, 2e-5), "f64": (np.complex128, 1e-12)}
EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, float("inf"), float("-inf"), float("nan")]
LONG = {"f32": [1e-30, -1e30, 90.0], "f64": [1e-300, -1e300, 710.0]}
"""What vanishes squared, overflows squared, and has no exponential."""
COUNT = 6 + 12 * 12
MAP = "affine_map<(d0) -> (d0)>"

UNARY: dict[str, Callable] = {
    "neg": np.negative, "conj": np.conj, "sqrt": np.sqrt, "rsqrt": lambda z: 1 / np.sqrt(z), "exp": np.exp,
    "expm1": np.expm1, "log": np.log, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    # NumPy's loses what is next to 0.
    "log1p": lambda z: np.where((abs(z) < 1e-20) & (z.real > 0), z, np.log1p(z)), "tanh": np.tanh, "sign": np.sign,
}  # fmt: skip
TO_REAL: dict[str, Callable] = {"abs": np.abs, "angle": np.angle, "re": np.real, "im": np.imag}
BINARY: dict[str, Callable] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "pow": np.power,
    "atan2": lambda y, x: -1j * np.log((x + 1j * y) / np.sqrt(x * x + y * y)),
}  # fmt: skip
COMPARISONS: dict[str, Callable] = {"eq": np.equal, "neq": np.not_equal}


def numbers(dtype: type, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.normal(size=6) + 1j * rng.normal(size=6)).astype(dtype)


def edges(part: str) -> np.ndarray:
    """Every pair of parts that are no plain numbers."""
    pairs = np.array(list(itertools.product(EDGES + LONG[part], repeat=2)))
    return pairs.view(np.complex128)[:, 0].astype(PARTS[part][0])


def assert_at_edges(found: np.ndarray, wanted: np.ndarray, tolerance: float, name: str) -> None:
    """Every part near its own, NaN and signs too; beside NaN that of zero and infinity is nobody's."""
    parts = [(each.real, each.imag) if np.iscomplexobj(each) else (each,) for each in (found, wanted)]
    for at, (mine, theirs) in enumerate(zip(*parts, strict=True)):
        known = ~np.isnan(parts[1][-1 - at]) & ~np.isnan(theirs)
        np.testing.assert_allclose(abs(mine), abs(theirs), rtol=tolerance, err_msg=name)
        np.testing.assert_array_equal(np.signbit(mine[known]), np.signbit(theirs[known]), err_msg=name)


def every_operation(part: str) -> tuple[str, list[tuple[str, Callable]]]:
    """A module whose results are every operation on the elements of two arrays, and the oracles of the results."""
    kind = f"complex<{part}>"
    steps = [(f"complex.{n} %x : {kind}", kind, lambda a, _, f=f: f(a)) for n, f in UNARY.items()]
    steps += [(f"complex.{n} %x : {kind}", part, lambda a, _, f=f: f(a)) for n, f in TO_REAL.items()]
    steps += [(f"complex.{n} %x, %y : {kind}", kind, f) for n, f in BINARY.items()]
    steps += [(f"complex.{n} %x, %y : {kind}", "i1", f) for n, f in COMPARISONS.items()]
    types = [f"tensor<{COUNT}x{of}>" for _, of, _ in steps]
    count, names = len(steps), [step.split()[0] for step, _, _ in steps]
    empties = "\n".join(f"  %e{at} = tensor.empty() : {of}" for at, of in enumerate(types))
    body = "\n".join(f"    %v{at} = {step}" for at, (step, _, _) in enumerate(steps))
    outs = ", ".join(f"%o{at}: {of}" for at, (_, of, _) in enumerate(steps))
    text = f"""
func.func @main(%a: tensor<{COUNT}x{kind}>, %b: tensor<{COUNT}x{kind}>) -> ({", ".join(types)}) {{
{empties}
  %r:{count} = linalg.generic {{indexing_maps = [{", ".join([MAP] * (count + 2))}], iterator_types = ["parallel"]}}
      ins(%a, %b : tensor<{COUNT}x{kind}>, tensor<{COUNT}x{kind}>)
      outs({", ".join(f"%e{at}" for at in range(count))} : {", ".join(types)}) {{
  ^bb0(%x: {kind}, %y: {kind}, {outs}):
{body}
    linalg.yield {", ".join(f"%v{at}" for at in range(count))} : {", ".join(of for _, of, _ in steps)}
  }} -> ({", ".join(types)})
  return {", ".join(f"%r#{at}" for at in range(count))} : {", ".join(types)}
}}"""
    return text, [(name, oracle) for name, (_, _, oracle) in zip(names, steps, strict=True)]


@pytest.mark.parametrize(
    ("part", "pipeline"), [pytest.param("f32", "linalg", marks=pytest.mark.slow), ("f32", "mlir"), ("f64", "mlir")]
)
def test_every_operation(part, pipeline):
    dtype, tolerance = PARTS[part]
    text, oracles = every_operation(part)
    special = edges(part)
    a, b = np.concatenate([numbers(dtype, 1), special]), np.concatenate([numbers(dtype, 2), special[::-1]])
    b[3] = a[3]
    found = mt.from_mlir(text).compile(pipeline=pipeline)(a, b)
    for (name, oracle), result in zip(oracles, found, strict=True):
        with np.errstate(all="ignore"):
            wanted = oracle(a, b)
        np.testing.assert_allclose(result[:6], wanted[:6], rtol=tolerance, err_msg=name)
        assert result.dtype == (wanted.real if name == "complex.angle" else wanted).dtype
        # Powers of numbers so long are rounding alone, and that quotient of roots is not scaled.
        if name not in ("complex.pow", "complex.atan2") and result.dtype != bool:
            assert_at_edges(result[6:], wanted[6:].astype(result.dtype), tolerance, name)


def test_angles_of_numbers_whose_squares_overflow():
    """Squares neither overflow nor vanish."""
    kind = "complex<f64>"
    text = f"""
func.func @main(%a: tensor<{kind}>, %b: tensor<{kind}>) -> tensor<{kind}> {{
  %y = tensor.extract %a[] : tensor<{kind}>
  %x = tensor.extract %b[] : tensor<{kind}>
  %r = complex.atan2 %y, %x : {kind}
  %t = tensor.from_elements %r : tensor<{kind}>
  return %t : tensor<{kind}>
}}"""
    run = mt.from_mlir(text).compile(pipeline="mlir")
    y, x = np.array(1 + 2j), np.array(-0.5 + 1j)
    np.testing.assert_allclose([run(y * size, x * size) for size in (1e250, 1e-250)], run(y, x), rtol=1e-12)


CONSTANTS = """
func.func @main(%a: tensor<2xcomplex<f64>>, %s: tensor<complex<f64>>)
    -> (tensor<2xcomplex<f64>>, tensor<complex<f64>>) {
  %k = arith.constant dense<[(1.0, 2.0), (3.0, -4.0)]> : tensor<2xcomplex<f64>>
  %z = arith.constant dense<(0.5, -1.0)> : tensor<2xcomplex<f64>>
  %c = complex.constant [2.0, -3.0] : complex<f64>
  %r = linalg.generic {indexing_maps = [MAP, MAP, MAP], iterator_types = ["parallel"]}
      ins(%a, %k : tensor<2xcomplex<f64>>, tensor<2xcomplex<f64>>) outs(%z : tensor<2xcomplex<f64>>) {
  ^bb0(%x: complex<f64>, %y: complex<f64>, %o: complex<f64>):
    %p = complex.mul %x, %y : complex<f64>
    %q = complex.add %p, %o : complex<f64>
    %t = complex.mul %q, %c : complex<f64>
    linalg.yield %t : complex<f64>
  } -> tensor<2xcomplex<f64>>
  %e = tensor.extract %s[] : tensor<complex<f64>>
  %f = complex.exp %e : complex<f64>
  %g = tensor.from_elements %f : tensor<complex<f64>>
  return %r, %g : tensor<2xcomplex<f64>>, tensor<complex<f64>>
}""".replace("MAP", MAP)


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_arguments_results_constants_and_single_numbers(pipeline):
    a, s = numbers(np.complex128, 3)[:2], np.array(0.5 - 1.5j)
    found, number = mt.from_mlir(CONSTANTS).compile(pipeline=pipeline)(a, s)
    np.testing.assert_allclose(found, (a * [1 + 2j, 3 - 4j] + (0.5 - 1j)) * (2 - 3j), rtol=1e-14)
    np.testing.assert_allclose(number, np.exp(s), rtol=1e-14)


PRODUCT = """
func.func @main(%a: tensor<3x4xcomplex<f32>>, %b: tensor<4x2xcomplex<f32>>) -> tensor<3x2xcomplex<f32>> {
  %zero = complex.constant [0.0 : f32, 0.0 : f32] : complex<f32>
  %e = tensor.empty() : tensor<3x2xcomplex<f32>>
  %f = linalg.fill ins(%zero : complex<f32>) outs(%e : tensor<3x2xcomplex<f32>>) -> tensor<3x2xcomplex<f32>>
  %r = linalg.matmul ins(%a, %b : tensor<3x4xcomplex<f32>>, tensor<4x2xcomplex<f32>>)
      outs(%f : tensor<3x2xcomplex<f32>>) -> tensor<3x2xcomplex<f32>>
  return %r : tensor<3x2xcomplex<f32>>
}"""


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
def test_products_of_matrices(pipeline):
    a, b = (numbers(np.complex64, seed) for seed in (4, 5))
    a, b = np.resize(a, (3, 4)), np.resize(b, (4, 2))
    np.testing.assert_allclose(mt.from_mlir(PRODUCT).compile(pipeline=pipeline)(a, b), a @ b, rtol=1e-5, atol=1e-6)


BITS = """
func.func @main(%a: tensor<complex<f32>>) -> (tensor<i64>, tensor<complex<f32>>) {
  %z = tensor.extract %a[] : tensor<complex<f32>>
  %bits = complex.bitcast %z : complex<f32> to i64
  %back = complex.bitcast %bits : i64 to complex<f32>
  %r = tensor.from_elements %bits : tensor<i64>
  %s = tensor.from_elements %back : tensor<complex<f32>>
  return %r, %s : tensor<i64>, tensor<complex<f32>>
}"""


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
def test_bitcasts_of_complex_numbers(pipeline):
    z = np.array(1.5 - 0.25j, np.complex64)
    bits, back = mt.from_mlir(BITS).compile(pipeline=pipeline)(z)
    assert bits == z.view(np.int64)
    assert back == z


def test_element_types_without_a_numpy_dtype_are_refused_at_their_line():
    text = """
func.func @main(%a: tensor<f16>) -> tensor<f16> {
  %x = tensor.extract %a[] : tensor<f16>
  %z = complex.create %x, %x : complex<f16>
  %w = complex.exp %z : complex<f16>
  %r = complex.re %w : complex<f16>
  %t = tensor.from_elements %r : tensor<f16>
  return %t : tensor<f16>
}"""
    with pytest.raises(UnsupportedOperationError, match="complex<f16>") as caught:
        mt.from_mlir(text).compile()
    assert caught.value.span is not None
