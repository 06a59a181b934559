"""Complex numbers, operation by operation, through the `mlir` pipeline's stages against NumPy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

import mlirtri as mt
from mlirtri.dialect.base.dtypes import as_dtype
from mlirtri.dialect.base.tensor_type import TensorType
from mlirtri.dialect.bindings.mlir import func, ir
from mlirtri.dialect.builder import TriBuilder, TriValue
from mlirtri.dialect.definition import mlir_type, new_context
from mlirtri.dialect.ops.table import TABLE
from mlirtri.errors import KernelTypeError
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.core.target import as_target
from mlirtri.lowering.fusion import linalg_to_fused
from mlirtri.lowering.linalg import tri_to_linalg
from mlirtri.lowering.mlir_backend.bufferize import fused_to_bufferized
from mlirtri.lowering.mlir_backend.llvm import bufferized_to_llvmdialect, llvmdialect_to_asm

LOWERINGS = (tri_to_linalg, linalg_to_fused, fused_to_bufferized, bufferized_to_llvmdialect, llvmdialect_to_asm)
EPSILON = {np.dtype(np.complex64): 2.0**-23, np.dtype(np.complex128): 2.0**-52}
EDGES = [0.0, -0.0, 1.0, -2.5, float("inf"), float("-inf"), float("nan")]
REAL, IMAGINARY = (np.array(parts) for parts in zip(*itertools.product(EDGES, repeat=2), strict=True))
SPECIAL = np.empty(REAL.shape, np.complex128)
SPECIAL.real, SPECIAL.imag = REAL, IMAGINARY
random = np.random.default_rng(5)
PLAIN = random.standard_normal(200) * 3 + 3j * random.standard_normal(200)
COMPLEX = pytest.mark.parametrize("dtype", [np.complex64, np.complex128])


def results_of(build, *arrays):
    """The list of what `build(builder, tensor, …)` computes of arrays, all stages down to machine code."""
    types = [TensorType(each.shape, as_dtype(each.dtype)) for each in arrays]
    context = CompileContext("f", as_target("cpu"), keep_passes=False)
    with new_context(), ir.Location.unknown():
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            function = func.FuncOp("f", ([mlir_type(of) for of in types], []))
        block = function.add_entry_block()
        with ir.InsertionPoint(block):
            inputs = [TriValue(value, of) for value, of in zip(block.arguments, types, strict=True)]
            results = build(TriBuilder(), *inputs)
            func.ReturnOp([result.value for result in results])
        function.attributes["function_type"] = ir.TypeAttr.get(
            ir.FunctionType.get([mlir_type(of) for of in types], [mlir_type(result.type) for result in results])
        )
        for lowering in LOWERINGS:
            context.stage = lowering.__name__.rpartition("_")[2]
            module = lowering.lower(module, context)
    outputs = [torch.empty(result.type.shape, dtype=result.type.dtype.torch) for result in results]
    module.executable.launch([torch.from_numpy(each.copy()) for each in arrays], outputs)
    return [output.numpy() for output in outputs]


def of_arrays(build, *arrays):
    """The one result of `build(builder, tensor, …)` of arrays."""
    return results_of(lambda t, *inputs: [build(t, *inputs)], *arrays)[0]


def apply(name, *arrays, **attributes):
    return of_arrays(lambda t, *inputs: t.emit(name, *inputs, **attributes), *arrays)


def apply_each(names, *arrays, **attributes):
    """The results of several operations on the same arrays by name, compiled as one function."""
    results = results_of(lambda t, *inputs: [t.emit(name, *inputs, **attributes) for name in names], *arrays)
    return zip(names, results, strict=True)


def wanted(name, *arrays, **attributes):
    with np.errstate(all="ignore"):
        return np.asarray(TABLE[name].numpy(*arrays, **attributes))


def parts(x):
    return (x.real, x.imag) if np.iscomplexobj(x) else (x,)


def assert_same(got, expected, name=""):
    """Equal, NaN where NaN is, zeros with their sign."""
    assert got.dtype == expected.dtype, name
    for mine, theirs in zip(parts(got), parts(expected), strict=True):
        np.testing.assert_array_equal(mine, theirs, err_msg=name)
        known = ~np.isnan(theirs) if theirs.dtype.kind == "f" else np.zeros(theirs.shape, bool)
        np.testing.assert_array_equal(np.signbit(mine[known]), np.signbit(theirs[known]), err_msg=name)


def assert_near(got, expected, ulps, name=""):
    """Within some roundings of the absolute value: a part may lose what the other one dwarfs."""
    assert got.dtype == expected.dtype, name
    error = np.abs(got.astype(np.complex128) - expected)
    unit = EPSILON[np.result_type(expected, np.complex64)] * np.abs(expected)
    assert (error <= ulps * unit).all(), (name, float((error / unit).max()))


EXACT = ["negative", "conj", "real", "imag", "isnan", "isinf", "isfinite", "reciprocal", "round"]
BINARY = [
    "add", "subtract", "multiply", "divide", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal",
    "maximum", "minimum", "fmax", "fmin",
]  # fmt: skip
# How many roundings a function may be off; powers and quotients of logarithms have a few more.
FUNCTIONS = {
    "abs": 2, "sign": 2, "sqrt": 2, "rsqrt": 3, "exp": 3, "exp2": 6, "expm1": 4, "log": 3, "log2": 4, "log10": 4,
    "sin": 3, "cos": 3, "tan": 6, "sinh": 3, "cosh": 3, "tanh": 6, "asin": 4, "acos": 4, "atan": 4, "asinh": 4,
    "acosh": 4, "atanh": 4, "sigmoid": 30, "silu": 30,
}  # fmt: skip


@COMPLEX
def test_unary_is_numpys_to_the_bit(dtype):
    values = np.concatenate([SPECIAL, PLAIN]).astype(dtype)
    for name, got in apply_each(EXACT, values):
        assert_same(got, wanted(name, values), name)


@COMPLEX
def test_binary_is_numpys_to_the_bit(dtype):
    """All pairs of edge cases, NaN and infinity among them; order is by real and then imaginary part."""
    left, right = (each.astype(dtype) for each in (SPECIAL[:, None], SPECIAL))
    for name, got in apply_each(BINARY, left, right):
        expected = wanted(name, left, right)
        if name == "divide":
            # NumPy branches; which part is NaN beside an infinite operand is not worth another division.
            known = np.isfinite(left) & np.isfinite(right)
            assert (np.isfinite(got) == np.isfinite(expected)).all()
            got, expected = got[known], expected[known]
        assert_same(got, expected, name)


@COMPLEX
@pytest.mark.parametrize("name", ["multiply", "divide"])
def test_products_and_quotients(name, dtype):
    """NumPy's loops may fuse a multiplication with an addition: one rounding less."""
    left, right = PLAIN.astype(dtype), PLAIN[::-1].astype(dtype)
    assert_near(apply(name, left, right), wanted(name, left, right), 3)
    assert_near(apply("square", left), wanted("square", left), 2)


@COMPLEX
def test_division_does_not_overflow_in_between(dtype):
    """Smith's algorithm: the textbook formula squares the divisor."""
    large = np.array([np.finfo(dtype).max / 4], dtype) * np.array([1 + 1j, 1 - 1j, 1j, 1], dtype)
    assert_near(apply("divide", large, large[::-1].copy()), large / large[::-1], 4)


@COMPLEX
def test_functions(dtype):
    on_axes = [PLAIN.real + 0j, 1j * PLAIN.imag, np.exp(1j * np.linspace(-3, 3, 30))]
    values = np.concatenate([PLAIN, PLAIN * 1e-3, 1 + PLAIN * 1e-5, *on_axes]).astype(dtype)
    for name, got in apply_each(FUNCTIONS, values):
        # The oracle in double precision, since NumPy's in single is no better than ours.
        expected = wanted(name, values.astype(np.complex128))
        assert_near(got, expected.astype(np.result_type(wanted(name, values[:1]))), FUNCTIONS[name], name)


def test_functions_at_the_edges():
    """Infinities, NaN, overflow and signs of zero; the sign of what is beside NaN is nobody's."""
    edges = [*EDGES, 1e-300, -1e300, 710.0]
    points = np.array(list(itertools.product(edges, repeat=2))).view(np.complex128)[:, 0]
    names = ["sign", "log", "sinh", "cosh", "asin", "acos", "atan", "asinh", "acosh", "atanh", "exp2", "rsqrt"]
    found = of_arrays(lambda t, z: t.concatenate(*(t.emit(name, z) for name in names), axis=0), points)
    for name, got in zip(names, found.reshape(len(names), -1), strict=True):
        expected = wanted(name, points)
        if name == "acosh":  # C17 has NaN ± iπ/2, which NumPy gives from 2.3 on; C11 and NumPy 2.2 have NaN + i NaN.
            expected[(points.real == 0) & np.isnan(points.imag)] = complex(np.nan, np.pi / 2)
        for mine, theirs, other in zip(parts(got), parts(expected), parts(expected)[::-1], strict=True):
            np.testing.assert_allclose(abs(mine), abs(theirs), rtol=1e-13, err_msg=name)
            known = ~np.isnan(theirs) & ~np.isnan(other)
            np.testing.assert_array_equal(np.signbit(mine[known]), np.signbit(theirs[known]), err_msg=name)


def test_logistics_do_not_overflow():
    points = np.array([-800 + 1j, -1e300 + 1j, 800 - 1j, 1e300 + 1j, -2 + 0j])
    assert_near(apply("sigmoid", points), np.array([0, 0, 1, 1, 1 / (1 + np.exp(2))], np.complex128), 4)


def test_sizes_that_would_overflow_or_vanish():
    extremes = np.array([1e200 + 1e200j, 1e-200 + 1e-200j, 1e300j, -1e300 + 1e-300j, 1e-320 + 1e-320j])
    for name in ("abs", "sqrt", "log"):
        assert_near(apply(name, extremes), wanted(name, extremes), 3)
    assert_near(apply("abs", np.array([3e38 + 1e38j, 1e-44 + 0j], np.complex64)), np.float32([3.1622777e38, 1e-44]), 1)


def test_roots_have_the_sign_of_the_imaginary_part_on_the_cut():
    cut = np.array([complex(-4, 0.0), complex(-4, -0.0), complex(0.0, -0.0), complex(0.0, 0.0)])
    assert_same(apply("sqrt", cut), np.sqrt(cut))


@COMPLEX
def test_powers(dtype):
    base = PLAIN[:40].astype(dtype)[:, None]
    exponents = np.array([0, 1, 2, 3, -1, -2, 7, 0.5, -0.5, 1.5 + 1j, 2j, 13], dtype)
    assert_near(apply("power", base, exponents), wanted("power", base, exponents), 40)


def test_powers_of_zero():
    exponents = np.array([0, 1, 2.5, 1 + 1j, -1, 1j], np.complex128)
    base = np.zeros_like(exponents)
    assert_same(apply("power", base, exponents), np.array([1, 0, 0, 0, np.nan * (1 + 1j), np.nan * (1 + 1j)]))


@pytest.mark.parametrize("to", ["bool", "int8", "int64", "uint16", "float16", "float32", "float64", "complex64"])
def test_casts(to):
    values = np.array([0, 1 + 2j, -3.75 + 1j, 1j, 100.2 - 1e3j])
    assert_same(apply("cast", values, dtype=to), wanted("cast", values, dtype=to))
    real = np.arange(5).astype(to)
    assert_same(apply("cast", real, dtype="complex128"), real.astype(np.complex128))


def test_a_complex_number_of_two_parts():
    assert_same(apply("complex", REAL, IMAGINARY), SPECIAL)
    assert apply("complex", np.float32([1]), np.float32([2])).dtype == np.complex64
    with pytest.raises(KernelTypeError, match="parts of float32 or float64"):
        apply("complex", np.float16([1]), np.float16([2]))


def test_where_and_constants():
    condition = PLAIN.real > 0
    assert_same(apply("where", condition, PLAIN, PLAIN[::-1].copy()), np.where(condition, PLAIN, PLAIN[::-1]))
    got = of_arrays(lambda t, x: t.add(x, t.constant(2 - 1j, as_dtype("complex128"), (200,))), PLAIN)
    assert_same(got, PLAIN + (2 - 1j))
    assert_same(apply("eye", rows=2, columns=3, diagonal=1, dtype="complex64"), np.eye(2, 3, 1, np.complex64))
    assert_same(apply("arange", start=1, step=2, size=4, dtype="complex128"), np.arange(1, 9, 2, np.complex128))


@COMPLEX
@pytest.mark.parametrize("axes", [(0,), (1,)])
def test_reductions(axes, dtype):
    values = PLAIN.astype(dtype).reshape(20, 10)
    names = ["sum", "prod", "mean", "max", "min", "argmax", "argmin"]
    for name, got in apply_each(names, values, axes=axes, keepdims=False):
        assert_near(got, wanted(name, values, axes=axes, keepdims=False), 60, name)


@COMPLEX
def test_variances_are_real(dtype):
    values = PLAIN.astype(dtype).reshape(20, 10)
    attributes = {"axes": (0,), "keepdims": True, "correction": 1}
    for name, got in apply_each(["var", "std"], values, **attributes):
        assert got.dtype == values.real.dtype
        np.testing.assert_allclose(got, wanted(name, values, **attributes), rtol=1e-5, err_msg=name)


def test_long_sums_of_single_precision_are_carried_in_double():
    values = np.full(20000, 0.1 + 0.2j, np.complex64)
    total = apply("sum", values, axes=(0,), keepdims=False)
    assert abs(total - values.astype(np.complex128).sum()) < 1e-3


@COMPLEX
@pytest.mark.parametrize("shapes", [((4, 5), (5, 3)), ((2, 4, 5), (2, 5, 3)), ((2, 4, 5), (5, 3)), ((1, 5), (5, 1))])
def test_matmul(shapes, dtype):
    x, y = (np.resize(PLAIN, shape).astype(dtype) for shape in shapes)
    assert_near(apply("matmul", x, y), x @ y, 60)


@pytest.mark.parametrize("shapes", [((20, 30), (30, 25)), ((2, 20, 30), (2, 30, 25)), ((3, 20, 30), (1, 30, 25))])
def test_large_complex_matmul_is_four_real_ones(shapes):
    x, y = (random.standard_normal(shape) + 1j * random.standard_normal(shape) for shape in shapes)
    # Of a cancelling sum the error is that of the terms.
    assert np.abs(apply("matmul", x, y) - x @ y).max() < 1e-13


def test_what_complex_numbers_have_not():
    for name in ("floor", "erf", "gelu", "floor_divide", "bitwise_and", "hypot"):
        operands = [PLAIN] * len(TABLE[name].operands)
        with pytest.raises(KernelTypeError, match="complex128 is not a dtype this operation takes"):
            apply(name, *operands)


def test_infinities_and_overflow_in_torch_programs():
    """Those of C99's annex G, as eager has them; beside 1 the square of a small part vanishes."""
    edges = [*EDGES, 89.0, 1e-30]
    z = torch.tensor([complex(a, b) for a, b in itertools.product(edges, repeat=2)], dtype=torch.complex64)

    def functions(z):
        return torch.exp(z), torch.cosh(z), torch.atan(z), torch.reciprocal(z), torch.isfinite(z)

    found = mt.from_torch(functions, (z,)).compile()(z)
    for got, expected in zip(found, functions(z), strict=True):
        of_parts = [torch.view_as_real(each) if each.is_complex() else each for each in (got, expected)]
        torch.testing.assert_close(*of_parts, equal_nan=True)
