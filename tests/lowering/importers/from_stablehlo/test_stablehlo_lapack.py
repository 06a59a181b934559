"""JAX's calls of LAPACK, by the decompositions of torch's operators: NumPy is the oracle of products and values."""

from __future__ import annotations

import numpy as np
import pytest

import mlirtri as mt
from mlirtri.errors import UnsupportedOperationError

PIPELINES = ("linalg", "mlir")
GENERATOR = np.random.default_rng(1)
LETTERS = {"float32": ("s", "f32"), "complex128": ("z", "complex<f64>")}


def matrix(*shape: int, dtype: str = "float32") -> np.ndarray:
    values = GENERATOR.normal(size=shape)
    return (values + 1j * GENERATOR.normal(size=shape) if dtype.startswith("c") else values).astype(dtype)


def call(routine: str, results: list[str], *operands: np.ndarray, pipeline: str = "linalg", **options: str):
    """Return what a call of a routine gives; results are types with E for the element type and R for a real one."""
    letter, element = LETTERS[operands[0].dtype.name]
    real = "f64" if letter == "z" else "f32"
    types = [f"tensor<{kind.replace('E', element).replace('R', real)}>" for kind in results]
    given = [f"tensor<{'x'.join(map(str, operand.shape))}x{element}>" for operand in operands]
    names = [f"%arg{number}" for number in range(len(operands))]
    parameters = ", ".join(f"{name}: {kind}" for name, kind in zip(names, given, strict=True))
    config = ", ".join(f"{name} = {ord(code)} : ui8" for name, code in options.items())
    numbers = ", ".join(f"%0#{number}" for number in range(len(results))) if len(results) > 1 else "%0"
    text = f"""
    func.func public @main({parameters}) -> ({", ".join(types)}) {{
      %0{f":{len(results)}" if len(results) > 1 else ""} = stablehlo.custom_call @lapack_{letter}{routine}_ffi(
        {", ".join(names)}) {{mhlo.backend_config = {{{config}}}}} : ({", ".join(given)}) -> ({", ".join(types)})
      return {numbers} : {", ".join(types)}
    }}"""
    return mt.from_stablehlo(text).compile(pipeline=pipeline)(*operands)


def close(x: np.ndarray, y: np.ndarray) -> None:
    precision = 1e-4 if np.float32 in (x.dtype, y.dtype) else 1e-10
    np.testing.assert_allclose(x, y, rtol=precision, atol=precision)


@pytest.mark.parametrize(("pipeline", "dtype"), [("linalg", "float32"), ("mlir", "complex128")])
def test_lu_factors_and_triangular_solutions(pipeline, dtype):
    a, b = matrix(4, 4, dtype=dtype), matrix(4, 2, dtype=dtype)
    factors, pivots, info = call("getrf", ["4x4xE", "4xi32", "i32"], a, pipeline=pipeline)
    assert info == 0
    rows = np.arange(4)
    for step, pivot in enumerate(pivots - 1):
        rows[[step, pivot]] = rows[[pivot, step]]
    lower, upper = np.tril(factors, -1) + np.eye(4), np.triu(factors)
    close(lower @ upper, a[rows])
    options = {"side": "L", "uplo": "L", "trans_x": "C", "diag": "U"}
    x = call("trsm", ["4x2xE"], factors.astype(dtype), b, pipeline=pipeline, **options)
    close(lower.conj().T @ x, b)


def test_cholesky_factors_of_a_batch_and_their_status():
    a = matrix(2, 3, 3)
    a = a @ a.swapaxes(1, 2) + np.eye(3, dtype=np.float32)
    a[1, 2, 2] = -5
    factor, info = call("potrf", ["2x3x3xE", "2xi32"], a, uplo="L")
    assert info.tolist() == [0, 3]
    close(np.tril(factor[0]), np.linalg.cholesky(a[0]))


def test_orthogonal_factors():
    a = matrix(4, 3)
    packed, scales = call("geqrf", ["4x3xE", "3xE"], a)
    q = call("orgqr", ["4x3xE"], packed, scales)
    close(q @ np.triu(packed[:3]), a)
    close(q.T @ q, np.eye(3, dtype=np.float32))


@pytest.mark.slow
def test_singular_values_and_eigenvalues():
    a = matrix(4, 3)
    _, values, u, v, info = call("gesdd", ["4x3xE", "3xR", "4x3xE", "3x3xE", "i32"], a, mode="S")
    assert info == 0
    close(values, np.linalg.svd(a, compute_uv=False))
    close(u * values @ v, a)
    square = matrix(3, 3, dtype="complex128")
    vectors, values, _ = call("heevd", ["3x3xE", "3xR", "i32"], square, mode="V", uplo="U")
    whole = np.triu(square, 1) + np.triu(square, 1).conj().T + np.diag(np.diag(square).real)
    close(values, np.linalg.eigvalsh(whole))
    close(vectors * values @ vectors.conj().T, whole)


def test_routines_without_an_algorithm_or_options_are_refused():
    with pytest.raises(UnsupportedOperationError, match="custom_call @lapack_sgehrd_ffi"):
        call("gehrd", ["3x3xE", "2xE", "i32"], matrix(3, 3))
    with pytest.raises(UnsupportedOperationError, match="custom_call @lapack_spotrf_ffi"):
        call("potrf", ["3x3xE", "i32"], matrix(3, 3))
