"""Float arithmetic of imported programs: every operation of every float dtype, with NaN, infinities, signed zeros."""

from __future__ import annotations

import warnings

import ml_dtypes
import numpy as np
import pytest
import torch
from imported import PIPELINES, Row, module_of, numpy_of, run
from scipy import special
from tolerances import tolerance

import mlirtri as mt

ONE_KIND = {kind: [pytest.param(each, marks=[] if each == kind else pytest.mark.slow)
                   for each in ("f16", "bf16", "f32", "f64")] for kind in ("f32", "bf16")}  # fmt: skip
"""All float dtypes, all but one of them in slow tests."""
NAN, INF = float("nan"), float("inf")
NUMBERS = [NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -2.5, 3.0, 0.75, -7.25, 1e-3, 100.0]


def pairs(kind: str) -> list[np.ndarray]:
    dtype = numpy_of(kind)
    tiny = [float(ml_dtypes.finfo(dtype).smallest_normal), float(ml_dtypes.finfo(dtype).smallest_subnormal)]
    numbers = np.array([*NUMBERS, *tiny], dtype)
    count = len(numbers)
    return [np.repeat(numbers, count), np.tile(numbers, count), np.resize(numbers[::-1], count * count)]


def wide(function):
    """`function` computed in float64 and rounded to the dtype of its operands."""

    def compute(*arrays):
        with np.errstate(all="ignore"):
            return np.asarray(function(*(each.astype(np.float64) for each in arrays))).astype(arrays[0].dtype)

    return compute


def comparison(function):
    return lambda x, y, z: function(x.astype(np.float64), y.astype(np.float64))


def unordered(x, y):
    return np.isnan(x) | np.isnan(y)


def largest(x, y):
    return np.where(unordered(x, y), NAN, np.where((x > y) | ((x == y) & ~np.signbit(x)), x, y))


def half_away(x):
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(1.0, x), whole)


EXACT = [
    Row("arith.addf %x, %y : {t}", wide(lambda x, y, z: x + y)),
    Row("arith.subf %x, %y : {t}", wide(lambda x, y, z: x - y)),
    Row("arith.mulf %x, %y : {t}", wide(lambda x, y, z: x * y)),
    Row("arith.divf %x, %y : {t}", wide(lambda x, y, z: x / y)),
    Row("arith.remf %x, %y : {t}", wide(lambda x, y, z: np.fmod(x, y))),
    Row("arith.addf %x, %y fastmath<fast> : {t}", wide(lambda x, y, z: x + y)),
    Row("arith.negf %x : {t}", wide(lambda x, y, z: -x)),
    Row("arith.maximumf %x, %y : {t}", wide(lambda x, y, z: largest(x, y))),
    Row("arith.minimumf %x, %y : {t}", wide(lambda x, y, z: -largest(-x, -y))),
    Row("math.absf %x : {t}", wide(lambda x, y, z: np.abs(x))),
    Row("math.ceil %x : {t}", wide(lambda x, y, z: np.ceil(x))),
    Row("math.floor %x : {t}", wide(lambda x, y, z: np.floor(x))),
    Row("math.trunc %x : {t}", wide(lambda x, y, z: np.trunc(x))),
    Row("math.round %x : {t}", wide(lambda x, y, z: half_away(x))),
    Row("math.roundeven %x : {t}", wide(lambda x, y, z: np.rint(x))),
    Row("math.copysign %x, %y : {t}", wide(lambda x, y, z: np.copysign(x, y))),
    Row("math.sqrt %x : {t}", wide(lambda x, y, z: np.sqrt(x))),
    Row("math.clampf %x to [%y, %z] : {t}",
        wide(lambda x, y, z: -largest(-largest(x, y), -z))),
    Row("math.isnan %x : {t}", comparison(lambda x, y: np.isnan(x)), "i1"),
    Row("math.isinf %x : {t}", comparison(lambda x, y: np.isinf(x)), "i1"),
    Row("math.isfinite %x : {t}", comparison(lambda x, y: np.isfinite(x)), "i1"),
    Row("math.isnormal %x : {t}", lambda x, y, z: np.isfinite(x) & (
        np.abs(x.astype(np.float64)) >= float(ml_dtypes.finfo(x.dtype).smallest_normal)), "i1"),
]  # fmt: skip

PREDICATES = {
    "false": lambda x, y: np.zeros(x.shape, bool), "oeq": lambda x, y: x == y, "ogt": lambda x, y: x > y,
    "oge": lambda x, y: x >= y, "olt": lambda x, y: x < y, "ole": lambda x, y: x <= y,
    "one": lambda x, y: (x < y) | (x > y), "ord": lambda x, y: ~unordered(x, y),
    "ueq": lambda x, y: (x == y) | unordered(x, y), "ugt": lambda x, y: ~(x <= y), "uge": lambda x, y: ~(x < y),
    "ult": lambda x, y: ~(x >= y), "ule": lambda x, y: ~(x > y), "une": lambda x, y: x != y,
    "uno": unordered, "true": lambda x, y: np.ones(x.shape, bool),
}  # fmt: skip
COMPARISONS = [
    *(Row(f"arith.cmpf {name}, %x, %y : {{t}}", comparison(each), "i1") for name, each in PREDICATES.items()),
    Row("arith.cmpf ult, %x, %x fastmath<nnan> : {t}", comparison(lambda x, y: np.isnan(x)), "i1"),
]

FUNCTIONS = {
    "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh, "atan": np.arctan,
    "atanh": np.arctanh, "cbrt": np.cbrt, "cos": np.cos, "cosh": np.cosh, "erf": special.erf, "erfc": special.erfc,
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log10": np.log10, "log1p": np.log1p,
    "log2": np.log2, "rsqrt": lambda x: 1 / np.sqrt(x), "sin": np.sin, "sinh": np.sinh, "tan": np.tan, "tanh": np.tanh,
}  # fmt: skip
ROUNDED = [
    *(Row(f"math.{name} %x : {{t}}", wide(lambda x, y, z, of=of: of(x))) for name, of in FUNCTIONS.items()),
    Row("arith.maxnumf %x, %y : {t}", wide(lambda x, y, z: np.fmax(x, y))),
    Row("arith.minnumf %x, %y : {t}", wide(lambda x, y, z: np.fmin(x, y))),
    Row("math.atan2 %x, %y : {t}", wide(lambda x, y, z: np.arctan2(x, y))),
    Row("math.powf %x, %y : {t}", wide(lambda x, y, z: np.power(x, y))),
    Row("math.fma %x, %y, %z : {t}", wide(lambda x, y, z: x * y + z)),
    Row("math.sincos %x : {t}", (wide(lambda x, y, z: np.sin(x)), wide(lambda x, y, z: np.cos(x))), ("{t}", "{t}")),
]


def same(found: np.ndarray, right: np.ndarray, near: float = 0.0) -> bool:
    """Equal with the signs of zeros, or `near` in what is no zero."""
    if found.dtype != right.dtype:
        return False
    x, y = found.astype(np.float64), right.astype(np.float64)
    if near:
        return bool(np.allclose(x, y, rtol=near, atol=near * float(ml_dtypes.finfo(found.dtype).smallest_normal),
                                equal_nan=True))  # fmt: skip
    return bool(np.array_equal(x, y, equal_nan=True) and np.array_equal(np.signbit(x[x == 0]), np.signbit(y[y == 0])))


def wrong_rows(rows: list[Row], kind: str, pipeline: str, arrays: list[np.ndarray], near: float = 0.0) -> list:
    results = iter(run(module_of(rows, kind, len(arrays[0]), "xyz"[: len(arrays)]), *arrays, pipeline=pipeline))
    wrong = []
    for row in rows:
        for reference in row.reference if isinstance(row.reference, tuple) else (row.reference,):
            found, right = next(results), np.asarray(reference(*arrays))
            if not same(found, right, near):
                x, y = found.astype(np.float64), right.astype(np.float64)
                bad = ~((x == y) | (np.isnan(x) & np.isnan(y))) | ((x == 0) & (np.signbit(x) != np.signbit(y)))
                at = np.flatnonzero(bad)[:4]
                wrong.append((row.text, [(*(each[i] for each in arrays), found[i], right[i]) for i in at]))
    return wrong


def test_values_with_names_are_stored_as_vectors_of_bf16():
    rows = [row for row in EXACT if "copysign" in row.text or "clampf" in row.text]
    scheduled = mt.from_mlir(module_of(rows, "bf16", 324)).compile().ir["scheduled"]
    assert "T.vectorized" in scheduled
    assert "mlirtri.schedule_failures" not in scheduled


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("kind", ONE_KIND["bf16"])
def test_exact_operations_and_comparisons(kind, pipeline):
    assert not wrong_rows([*EXACT, *COMPARISONS], kind, pipeline, pairs(kind))


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("kind", ONE_KIND["f32"])
def test_functions_are_a_few_ulp_exact(kind, pipeline):
    assert not wrong_rows(ROUNDED, kind, pipeline, pairs(kind), tolerance(numpy_of(kind)))


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("kind", ["f32", pytest.param("f64", marks=pytest.mark.slow), "bf16"])
def test_integer_powers_of_floats(kind, pipeline):
    text = (
        "func.func @k(%x: tensor<64x{t}>, %n: tensor<64xi32>) -> tensor<64x{t}> {\n"
        "  %r = math.fpowi %x, %n : tensor<64x{t}>, tensor<64xi32>\n  return %r : tensor<64x{t}>\n}"
    ).replace("{t}", kind)
    numbers = np.array([NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 1.5], numpy_of(kind))
    exponents = np.array([0, 1, 2, -1, -3, 7, 2**31 - 1, -(2**31)], np.int32)
    x, n = np.repeat(numbers, 8), np.tile(exponents, 8)
    (found,) = run(text, x, n, pipeline=pipeline)
    with np.errstate(all="ignore"):
        right = np.power(x.astype(np.float64), n.astype(np.float64)).astype(x.dtype)
    assert same(found, right, tolerance(numpy_of(kind)))


TO_INTEGERS = [
    *(
        Row(f"arith.fptosi %x : {{t}} to {{i{bits}}}", lambda x, bits=bits: torch_cast(x, getattr(torch, f"int{bits}")),
            f"i{bits}")
        for bits in (8, 16, 32, 64)
    ),
    Row("arith.fptoui %x : {t} to {i8}", lambda x: torch_cast(x, torch.uint8).view(np.int8), "i8"),
]  # fmt: skip


def torch_cast(x: np.ndarray, dtype: torch.dtype) -> np.ndarray:
    bits = (
        torch.from_numpy(x.view(np.int16)).view(torch.bfloat16)
        if x.dtype == ml_dtypes.bfloat16
        else torch.from_numpy(x)
    )
    return bits.to(dtype).numpy()


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("kind", ["f32", pytest.param("f64", marks=pytest.mark.slow), "bf16"])
def test_conversions_to_integers_are_those_of_torch(kind, pipeline):
    numbers = [NAN, INF, -INF, 0.0, -0.0, 0.9, -0.9, 1.0, -1.0, 127.5, -128.5, 200.0, 255.0, 300.0, 3e4, -3e4, 4e4,
               2147483520.0, 2147483648.0, -2147483648.0, 1e12, -1e12, 9e18, -9.3e18, 1e19, 1e30]  # fmt: skip
    assert not wrong_rows(TO_INTEGERS, kind, pipeline, [np.array(numbers, numpy_of(kind))])


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_large_numbers_become_unsigned_integers_and_one_bit(pipeline):
    rows = [
        Row("arith.fptoui %x : {t} to {i32}", lambda x: x.astype(np.uint32).view(np.int32), "i32"),
        Row("arith.fptoui %x : {t} to {i64}", lambda x: x.astype(np.uint64).view(np.int64), "i64"),
    ]
    assert not wrong_rows(rows, "f64", pipeline, [np.array([0.0, 0.5, 3e9, 4294967295.0])])
    rows = [
        Row("arith.fptoui %x : {t} to {i64}", lambda x: x.astype(np.uint64).view(np.int64), "i64"),
        Row("arith.fptoui %x : {t} to {i1}", lambda x: x >= 1, "i1"),
    ]
    assert not wrong_rows(rows[:1], "f32", pipeline, [np.array([0.0, 9.3e18, 1.8e19], np.float32)])
    assert not wrong_rows(rows[1:], "f32", pipeline, [np.array([0.0, 0.5, -0.5, 1.0], np.float32)])


MODES = ["to_nearest_even", "downward", "upward", "toward_zero", "to_nearest_away"]


def rounded(x: np.ndarray, dtype: np.dtype, mode: str) -> np.ndarray:
    """By looking at the two numbers of `dtype` around each element."""
    with np.errstate(over="ignore"):
        nearest = x.astype(dtype)
    below = np.where(nearest.astype(np.float64) > x, np.nextafter(nearest, np.array(-INF, dtype)), nearest).astype(
        dtype
    )
    above = np.where(nearest.astype(np.float64) < x, np.nextafter(nearest, np.array(INF, dtype)), nearest).astype(dtype)
    if mode == "to_nearest_away":
        down, up = x - below.astype(np.float64), above.astype(np.float64) - x
        tie = np.where(x > 0, above, below)
        return np.where((down == up) & (down > 0), tie, nearest).astype(dtype)
    chosen = {"downward": below, "upward": above, "toward_zero": np.where(x > 0, below, above)}.get(mode, nearest)
    return np.where(np.isnan(x), np.array(NAN, dtype), chosen).astype(dtype)


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("f64", "bf16"),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in (("f64", "f32"), ("f32", "f16"), ("f64", "f16"))),
    ],
)
def test_rounding_modes(source, target, pipeline):
    dtype = numpy_of(target)
    eps = float(ml_dtypes.finfo(dtype).eps)
    largest_number = float(ml_dtypes.finfo(dtype).max)
    numbers = [NAN, INF, -INF, 0.0, -0.0, 1.0, 1 + eps / 2, 1 + eps / 4, 1 + 3 * eps / 2, 1 + 3 * eps / 4, 1e-3,
               largest_number, largest_number * (1 + eps / 8), 3.14159265]  # fmt: skip
    x = np.array([*numbers, *(-each for each in numbers)], numpy_of(source))
    rows = [
        Row(f"arith.truncf %x {mode} : {{t}} to {{{target}}}",
            lambda x, mode=mode: rounded(x.astype(np.float64), dtype, mode), target)
        for mode in MODES
    ]  # fmt: skip
    with np.errstate(all="ignore"):
        assert not wrong_rows(rows, source, pipeline, [x])


@pytest.mark.parametrize("pipeline", ["linalg", "relax", "mlir"])
def test_zeros_beside_nan_and_infinity_are_not_simplified(pipeline):
    def program(x, e):
        zeros = np.zeros(4)
        return zeros / x, 0.0 * x, 0.0 / x, zeros * x, zeros + x, e.mean(), e.sum() / x, e.prod() * x

    x = np.array([0.0, np.nan, np.inf, -1.0])
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = program(x, np.zeros(0))
    for mine, other in zip(mt.jit(program, pipeline=pipeline)(x, np.zeros(0)), expected, strict=True):
        np.testing.assert_array_equal(mine, other)


@pytest.mark.parametrize("pipeline", ["linalg", "relax", "mlir"])
def test_a_choice_of_two_zeros_keeps_the_sign_and_is_no_literal_zero(pipeline):
    def kernel(a):
        return np.where(a > 0, np.float32(-0.0), np.float32(0.0)) * a

    a = np.array([0.3, -2.5, np.nan, np.inf, 0.0], np.float32)
    with np.errstate(invalid="ignore"):
        expected = kernel(a)
    result = mt.jit(kernel, pipeline=pipeline)(a)
    np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(np.signbit(result[~np.isnan(a * 0)]), np.signbit(expected[~np.isnan(a * 0)]))
