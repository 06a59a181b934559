"""Triangular systems and Cholesky factors of StableHLO against SciPy and NumPy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import mlirtri as mt

PIPELINES = ("linalg", "mlir")
RNG = np.random.default_rng(11)
KINDS = {np.dtype(np.float32): "f32", np.dtype(ml_dtypes.bfloat16): "bf16", np.dtype(np.complex128): "complex<f64>"}


def solve(left: bool, lower: bool, unit: bool, transpose: str, kinds: tuple[str, str], name: str) -> str:
    flags = f"left_side = {left}, lower = {lower}, unit_diagonal = {unit}".lower()
    return f"""  %{name} = "stablehlo.triangular_solve"(%a, %{"b" if left else "c"}) <{{{flags}, transpose_a = #stablehlo<transpose {transpose}>}}> : ({kinds[0]}, {kinds[1]}) -> {kinds[1]}
"""  # noqa: E501 - as it is printed


@pytest.mark.parametrize(
    ("dtype", "pipeline"), [(np.float32, "linalg"), (ml_dtypes.bfloat16, "mlir"), (np.complex128, "linalg")]
)
def test_triangular_systems(dtype, pipeline):
    element = KINDS[np.dtype(dtype)]
    a_kind, b_kind, c_kind = (f"tensor<{shape}x{element}>" for shape in ("2x4x4", "2x4x3", "2x3x4"))
    cases = [(True, True, False, "NO_TRANSPOSE"), (False, False, True, "NO_TRANSPOSE"), (True, False, False, "ADJOINT"), (False, True, False, "TRANSPOSE")]  # fmt: skip # noqa: E501
    body = "".join(
        solve(*case, (a_kind, b_kind if case[0] else c_kind), f"r{number}") for number, case in enumerate(cases)
    )
    outs = ", ".join(b_kind if case[0] else c_kind for case in cases)
    text = f"""func.func @main(%a: {a_kind}, %b: {b_kind}, %c: {c_kind}) -> ({outs}) {{
{body}  return %r0, %r1, %r2, %r3 : {outs}
}}"""
    values = [RNG.normal(size=(2, *shape)) for shape in ((4, 4), (4, 3), (3, 4))]
    if np.dtype(dtype).kind == "c":
        values = [value + 1j * RNG.normal(size=value.shape) for value in values]
    values[0] += 4 * np.eye(4)
    a, b, c = (value.astype(dtype) for value in values)
    found = mt.from_stablehlo(text).compile(pipeline=pipeline)(a, b, c)
    wide = np.complex128 if np.dtype(dtype).kind == "c" else np.float64
    tolerance = {"f32": 1e-4, "bf16": 2e-2, "complex<f64>": 1e-12}[element]
    for (left, lower, unit, transpose), x in zip(cases, found, strict=True):
        matrix = (np.tril if lower else np.triu)(a.astype(wide))
        if unit:
            matrix[:, range(4), range(4)] = 1
        matrix = matrix if transpose == "NO_TRANSPOSE" else matrix.swapaxes(1, 2)
        matrix = matrix.conj() if transpose == "ADJOINT" else matrix
        wanted = np.linalg.solve(matrix, b.astype(wide)) if left else (c.astype(wide) @ np.linalg.inv(matrix))
        np.testing.assert_allclose(x.astype(wide), wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_cholesky_factors(pipeline):
    kind = "tensor<2x4x4xf32>"
    text = f"""func.func @main(%a: {kind}) -> ({kind}, {kind}) {{
  %0 = stablehlo.cholesky %a, lower = true : {kind}
  %1 = stablehlo.cholesky %a, lower = false : {kind}
  return %0, %1 : {kind}, {kind}
}}"""
    root = RNG.normal(size=(2, 4, 4))
    a = (root @ root.swapaxes(1, 2) + 4 * np.eye(4)).astype(np.float32)
    lower, upper = mt.from_stablehlo(text).compile(pipeline=pipeline)(a)
    wanted = np.linalg.cholesky(a.astype(np.float64))
    np.testing.assert_allclose(lower, wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(upper, wanted.swapaxes(1, 2), rtol=1e-4, atol=1e-5)
