"""Scalar operations through the bridge against NumPy: every dtype, NaN, signed zeros, the ends of the integers."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from bridge_helpers import BF16, MAPS, elementwise, function, generic, run

SPECIAL = [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 1.0, -1.0, 3.7, 0.49999997, 1e-30, 20.0, np.inf, -np.inf, np.nan]
UNARY = {
    "math.absf": np.abs, "math.ceil": np.ceil, "math.floor": np.floor, "math.trunc": np.trunc,
    "arith.negf": np.negative,
    "math.roundeven": np.rint, "math.exp": np.exp, "math.exp2": np.exp2, "math.expm1": np.expm1, "math.log": np.log,
    "math.log2": np.log2, "math.log10": np.log10, "math.log1p": np.log1p, "math.sqrt": np.sqrt, "math.sin": np.sin,
    "math.cos": np.cos, "math.tan": np.tan, "math.asin": np.arcsin, "math.acos": np.arccos, "math.atan": np.arctan,
    "math.sinh": np.sinh, "math.cosh": np.cosh, "math.tanh": np.tanh, "math.asinh": np.arcsinh,
    "math.acosh": np.arccosh, "math.atanh": np.arctanh, "math.cbrt": np.cbrt,
    "math.rsqrt": lambda x: 1 / np.sqrt(x), "math.round": lambda x: np.trunc(x + np.copysign(np.float64(0.5), x)),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    ("kind", "dtype", "ulps"),
    [("f32", np.float32, 3), ("f64", np.float64, 4), ("f16", np.float16, 1), ("bf16", BF16, 1)],
)
def test_unary_functions_are_a_few_ulp_exact(kind, dtype, ulps):
    rng = np.random.default_rng(6)
    x = np.concatenate([SPECIAL, rng.normal(size=200), rng.normal(size=200) * 1e-3]).astype(dtype)
    tensor = f"tensor<{len(x)}x{kind}>"
    results = run(elementwise([f"{name} %x : {tensor}" for name in UNARY], f"%x: {tensor}", [tensor] * len(UNARY)), x)
    for (name, reference), result in zip(UNARY.items(), results, strict=True):
        # In more than the tested precision; 0.49999997 + 0.5 is exact there.
        expected = reference(x.astype(np.float64 if dtype != np.float64 else np.longdouble)).astype(dtype)
        assert_close_in_ulps(name, result, expected, ulps)


def assert_close_in_ulps(name, result, expected, ulps):
    wide, wanted = result.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(wanted)
    np.testing.assert_array_equal(wide[~finite], wanted[~finite], err_msg=name)
    np.testing.assert_array_equal(np.signbit(wide[wanted == 0]), np.signbit(wanted[wanted == 0]), err_msg=name)
    step = np.abs(np.spacing(expected[finite])).astype(np.float64)
    worst = np.max(np.abs(wide[finite] - wanted[finite]) / step)
    assert worst <= ulps, f"{name}: {worst} ulp"


PAIRS = np.array(
    [(x, y) for x in SPECIAL[:2] + SPECIAL[6:10] + SPECIAL[-3:] for y in SPECIAL[:2] + SPECIAL[6:10] + SPECIAL[-3:]]
)
PREDICATES = {
    "oeq": lambda x, y: x == y, "one": lambda x, y: (x < y) | (x > y), "olt": lambda x, y: x < y,
    "ole": lambda x, y: x <= y, "ogt": lambda x, y: x > y, "oge": lambda x, y: x >= y,
    "ord": lambda x, y: ~(np.isnan(x) | np.isnan(y)), "uno": lambda x, y: np.isnan(x) | np.isnan(y),
    "ueq": lambda x, y: ~((x < y) | (x > y)), "une": lambda x, y: x != y, "ult": lambda x, y: ~(x >= y),
    "ule": lambda x, y: ~(x > y), "ugt": lambda x, y: ~(x <= y), "uge": lambda x, y: ~(x < y),
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "dtype"), [("f32", np.float32), ("f64", np.float64), ("f16", np.float16), ("bf16", BF16)]
)
def test_comparisons_with_nan(kind, dtype):
    x, y = PAIRS[:, 0].astype(dtype), PAIRS[:, 1].astype(dtype)
    tensor, answer = f"tensor<{len(x)}x{kind}>", f"tensor<{len(x)}xi1>"
    lines = [f"arith.cmpf {name}, %x, %y : {tensor}" for name in PREDICATES]
    lines += [f"arith.xori %r{at}, %true : {answer}" for at in range(len(PREDICATES))]
    text = elementwise(lines, f"%x: {tensor}, %y: {tensor}, %true: {answer}", [answer] * len(lines))
    results = run(text, x, y, np.ones(len(x), bool))
    expected = [reference(x.astype(np.float64), y.astype(np.float64)) for reference in PREDICATES.values()]
    for at, (result, wanted) in enumerate(zip(results, [*expected, *(~each for each in expected)], strict=True)):
        np.testing.assert_array_equal(result, wanted, err_msg=lines[at])


BINARY = {
    "arith.addf": np.add, "arith.subf": np.subtract, "arith.mulf": np.multiply, "arith.divf": np.divide,
    "arith.remf": np.fmod, "arith.maximumf": np.maximum, "arith.minimumf": np.minimum, "arith.maxnumf": np.fmax,
    "arith.minnumf": np.fmin, "math.atan2": np.arctan2, "math.powf": np.power, "math.copysign": np.copysign,
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    ("kind", "dtype"), [("f32", np.float32), ("f64", np.float64), ("f16", np.float16), ("bf16", BF16)]
)
def test_binary_float_operations(kind, dtype):
    x, y = PAIRS[:, 0].astype(dtype), PAIRS[:, 1].astype(dtype)
    tensor = f"tensor<{len(x)}x{kind}>"
    lines = [f"{name} %x, %y : {tensor}" for name in BINARY]
    results = run(elementwise(lines, f"%x: {tensor}, %y: {tensor}", [tensor] * len(lines)), x, y)
    for (name, reference), result in zip(BINARY.items(), results, strict=True):
        expected = reference(x.astype(np.float64), y.astype(np.float64)).astype(dtype)
        np.testing.assert_allclose(
            result.astype(np.float64),
            expected.astype(np.float64),
            rtol=4 * float(ml_dtypes.finfo(dtype).eps),
            err_msg=name,
        )


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_constant_zeros_are_not_folded_away():
    x = np.array(SPECIAL, np.float32)
    tensor = f"tensor<{len(x)}xf32>"
    lines = [
        f"arith.constant dense<0.0> : {tensor}", f"arith.mulf %x, %r0 : {tensor}", f"arith.divf %r0, %x : {tensor}",
        f"arith.divf %x, %r0 : {tensor}", f"arith.addf %x, %r0 : {tensor}",
    ]  # fmt: skip
    _, *results = run(elementwise(lines, f"%x: {tensor}", [tensor] * 5), x)
    zero = np.float32(0)
    for result, wanted in zip(results, [x * zero, zero / x, x / zero, x + zero], strict=True):
        np.testing.assert_array_equal(result, wanted)
        np.testing.assert_array_equal(np.signbit(result[wanted == 0]), np.signbit(wanted[wanted == 0]))


def test_floats_are_no_reals():
    """TVM's simplifier cancels ``(x + y) - x`` and takes ``x == x`` for true."""
    kind, answer = "tensor<4xf32>", "tensor<4xi1>"
    body = f"  %e = tensor.empty() : {kind}\n  %b = tensor.empty() : {answer}\n" + generic(
        "%r:5", [("%x", kind), ("%y", kind)], [("%e", kind)] * 3 + [("%b", answer)] * 2, [MAPS[1]] * 7, ["parallel"],
        """^bb0(%p: f32, %q: f32, %o0: f32, %o1: f32, %o2: f32, %o3: i1, %o4: i1):
     %s = arith.addf %p, %q : f32
     %d0 = arith.subf %s, %p : f32
     %d1 = arith.subf %p, %s : f32
     %d2 = arith.subf %p, %p : f32
     %c3 = arith.cmpf oeq, %p, %p : f32
     %c4 = arith.cmpf une, %p, %p : f32
     linalg.yield %d0, %d1, %d2, %c3, %c4 : f32, f32, f32, i1, i1""",
    )  # fmt: skip
    types = ", ".join([kind] * 3 + [answer] * 2)
    text = function(f"%x: {kind}, %y: {kind}", body, "%r#0, %r#1, %r#2, %r#3, %r#4", types)
    x, y = np.array([1e8, 1, np.inf, np.nan], np.float32), np.array([1.25, 1e-9, 1, 1], np.float32)
    with np.errstate(invalid="ignore"):
        expected = [(x + y) - x, x - (x + y), x - x, x == x, x != x]
    for result, wanted in zip(run(text, x, y), expected, strict=True):
        np.testing.assert_array_equal(result, wanted)


def integers(dtype) -> tuple[np.ndarray, np.ndarray]:
    info = np.iinfo(dtype)
    values = [0, 1, -1, 2, 3, -3, 7, -7, 100, info.max, info.min, info.max - 1, info.min + 1]
    pairs = np.array([(x, y) for x in values for y in values], dtype)
    return pairs[:, 0].copy(), pairs[:, 1].copy()


def guarded(divide):
    """A division with our answer where MLIR leaves it open: by 1 for a divisor of 0 or an overflowing quotient."""

    def reference(x, y):
        bad = y == 0
        if np.issubdtype(y.dtype, np.signedinteger):
            bad = bad | ((x == np.iinfo(x.dtype).min) & (y == -1))
        return divide(x, np.where(bad, np.ones_like(y), y))

    return reference


def unsigned(operation):
    def reference(x, y):
        kind = np.dtype(f"u{x.dtype}")
        return operation(x.view(kind), y.view(kind)).view(x.dtype)

    return reference


def bits_of(x):
    return x & np.array(8 * x.dtype.itemsize - 1, x.dtype)


INTEGER = {
    "arith.addi": np.add, "arith.subi": np.subtract, "arith.muli": np.multiply, "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or, "arith.xori": np.bitwise_xor, "arith.maxsi": np.maximum, "arith.minsi": np.minimum,
    "arith.maxui": unsigned(np.maximum), "arith.minui": unsigned(np.minimum),
    "arith.floordivsi": guarded(np.floor_divide), "arith.remsi": guarded(np.fmod),
    "arith.divsi": guarded(lambda x, y: (x - np.fmod(x, y)) // y),
    "arith.ceildivsi": guarded(lambda x, y: np.floor_divide(x, y) + (np.mod(x, y) != 0)),
    "arith.divui": unsigned(guarded(np.floor_divide)), "arith.remui": unsigned(guarded(np.remainder)),
    "arith.shli": lambda x, y: x << bits_of(y), "arith.shrsi": lambda x, y: x >> bits_of(y),
    "arith.shrui": lambda x, y: unsigned(np.right_shift)(x, bits_of(y)),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
def test_integer_operations_wrap_and_never_trap(dtype):
    x, y = integers(dtype)
    tensor = f"tensor<{len(x)}xi{8 * x.itemsize}>"
    lines = [f"{name} %x, %y : {tensor}" for name in INTEGER]
    lines += [f"math.ipowi %x, %y : {tensor}", f"math.absi %x : {tensor}", f"math.ctpop %x : {tensor}"]
    results = run(elementwise(lines, f"%x: {tensor}, %y: {tensor}", [tensor] * len(lines)), x, y)
    for (name, reference), result in zip(INTEGER.items(), results[: len(INTEGER)], strict=True):
        np.testing.assert_array_equal(result, reference(x, y), err_msg=name)
    power, absolute, ones = results[len(INTEGER) :]
    is_small = (y >= 0) & (y <= 100)
    np.testing.assert_array_equal(power[is_small], np.power(x[is_small], y[is_small]))
    np.testing.assert_array_equal(power[y < 0], np.where(np.abs(x) == 1, np.where(y & 1, x, 1), 0)[y < 0])
    np.testing.assert_array_equal(absolute, np.abs(x))
    np.testing.assert_array_equal(
        ones, np.bitwise_count(x.view(f"u{x.dtype}")) if hasattr(np, "bitwise_count") else ones
    )


def test_wrapping_is_not_simplified_away():
    body = "  %e = tensor.empty() : tensor<2xi1>\n" + generic(
        "%r", [("%a", "tensor<2xi32>")], [("%e", "tensor<2xi1>")], [MAPS[1]] * 2, ["parallel"],
        """^bb0(%x: i32, %o: i1):
     %one = arith.constant 1 : i32
     %y = arith.addi %x, %one : i32
     %z = arith.cmpi sgt, %y, %x : i32
     linalg.yield %z : i1""",
    )  # fmt: skip
    (result,) = run(function("%a: tensor<2xi32>", body, "%r", "tensor<2xi1>"), np.array([5, 2**31 - 1], np.int32))
    np.testing.assert_array_equal(result, [True, False])


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64])
def test_comparisons_with_the_smallest_integer(dtype):
    """TVM's simplifier takes ``x == INT_MIN`` for false."""
    lowest = np.iinfo(dtype).min
    x = np.array([lowest, lowest + 1, 0, 5], dtype)
    kind = f"tensor<4xi{8 * x.itemsize}>"
    lines = [f"arith.constant dense<{lowest}> : {kind}", f"arith.constant dense<0> : {kind}"]
    lines += [f"arith.cmpi {name}, %x, %r0 : {kind}" for name in ("eq", "ne", "sle", "sgt", "ule")]
    lines += [f"arith.cmpi {name}, %x, %r1 : {kind}" for name in ("ule", "ugt")]
    results = run(elementwise(lines, f"%x: {kind}", [kind] * 2 + ["tensor<4xi1>"] * 7), x)[2:]
    expected = [x == lowest, x != lowest, x == lowest, x != lowest, (x == lowest) | (x >= 0), x == 0, x != 0]
    for line, result, wanted in zip(lines[2:], results, expected, strict=True):
        np.testing.assert_array_equal(result, wanted, err_msg=line)


@pytest.mark.parametrize("dtype", [np.int8, np.int64])
def test_integer_comparisons(dtype):
    x, y = integers(dtype)
    kind = f"tensor<{len(x)}xi{8 * x.itemsize}>"
    signed = {"eq": np.equal, "ne": np.not_equal, "slt": np.less, "sle": np.less_equal, "sgt": np.greater,
              "sge": np.greater_equal}  # fmt: skip
    below = {"ult": np.less, "ule": np.less_equal, "ugt": np.greater, "uge": np.greater_equal}
    lines = [f"arith.cmpi {name}, %x, %y : {kind}" for name in (*signed, *below)]
    results = run(elementwise(lines, f"%x: {kind}, %y: {kind}", [f"tensor<{len(x)}xi1>"] * len(lines)), x, y)
    u, v = x.view(f"u{x.dtype}"), y.view(f"u{y.dtype}")
    expected = [compare(x, y) for compare in signed.values()] + [compare(u, v) for compare in below.values()]
    for line, result, wanted in zip(lines, results, expected, strict=True):
        np.testing.assert_array_equal(result, wanted, err_msg=line)


def test_bool_arithmetic_is_that_of_one_bit():
    x, y = np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)
    kind = "tensor<4xi1>"
    cases = {
        "arith.addi": x ^ y, "arith.muli": x & y, "arith.maxui": x | y, "arith.minui": x & y, "arith.maxsi": x & y,
        "arith.minsi": x | y, "arith.cmpi slt,": x & ~y, "arith.cmpi ult,": ~x & y, "arith.cmpi eq,": x == y,
    }  # fmt: skip
    results = run(
        elementwise([f"{name} %x, %y : {kind}" for name in cases], f"%x: {kind}, %y: {kind}", [kind] * 9), x, y
    )
    for (name, expected), result in zip(cases.items(), results, strict=True):
        np.testing.assert_array_equal(result, expected, err_msg=name)


CONVERSIONS = [
    ("arith.extsi", "i1", "i32", np.array([0, 1], bool), np.array([0, -1], np.int32)),
    ("arith.extui", "i1", "i32", np.array([0, 1], bool), np.array([0, 1], np.int32)),
    ("arith.uitofp", "i1", "f32", np.array([0, 1], bool), np.array([0, 1], np.float32)),
    ("arith.sitofp", "i1", "f32", np.array([0, 1], bool), np.array([0, -1], np.float32)),
    ("arith.extsi", "i8", "i64", np.array([-5, 5], np.int8), np.array([-5, 5])),
    ("arith.extui", "i8", "i64", np.array([-5, 5], np.int8), np.array([251, 5])),
    ("arith.trunci", "i32", "i8", np.array([300, -1], np.int32), np.array([44, -1], np.int8)),
    ("arith.trunci", "i32", "i1", np.array([2, 3], np.int32), np.array([False, True])),
    ("arith.sitofp", "i32", "f16", np.array([-7, 2049], np.int32), np.array([-7, 2048], np.float16)),
    ("arith.sitofp", "i64", "bf16", np.array([-7, 257], np.int64), np.array([-7, 256], BF16)),
    ("arith.uitofp", "i32", "f64", np.array([-1, 1], np.int32), np.array([2**32 - 1, 1], np.float64)),
    ("arith.uitofp", "i64", "f32", np.array([-1, 1]), np.array([2**64, 1], np.float32)),
    ("arith.fptosi", "f32", "i8", np.array([-3.9, 3.9], np.float32), np.array([-3, 3], np.int8)),
    ("arith.fptosi", "bf16", "i64", np.array([-3.5, 3.5], BF16), np.array([-3, 3])),
    ("arith.fptoui", "f64", "i32", np.array([2.0**31, 3.9]), np.array([-(2**31), 3], np.int32)),
    ("arith.truncf", "f32", "bf16", np.array([1.00390625, np.nan], np.float32), np.array([1.0, np.nan], BF16)),
    ("arith.truncf", "f64", "f16", np.array([1.0 + 2**-12, 1e6]), np.array([1, np.inf], np.float16)),
    ("arith.truncf", "f64", "bf16", np.array([1.01171875, -2.5]), np.array([1.015625, -2.5], BF16)),
    ("arith.truncf", "f32", "f16", np.array([0.1, 65520], np.float32), np.array([0.1, np.inf], np.float16)),
    ("arith.extf", "bf16", "f64", np.array([1.5, -2], BF16), np.array([1.5, -2])),
    ("arith.extf", "f16", "f64", np.array([1.5, -2], np.float16), np.array([1.5, -2])),
    ("arith.bitcast", "f32", "i32", np.array([1.0, -0.0], np.float32), np.array([0x3F800000, -(2**31)], np.int32)),
]


def test_conversions():
    arguments = ", ".join(f"%x{at}: tensor<2x{case[1]}>" for at, case in enumerate(CONVERSIONS))
    lines = [f"{name} %x{at} : tensor<2x{a}> to tensor<2x{b}>" for at, (name, a, b, _, _) in enumerate(CONVERSIONS)]
    results = run(elementwise(lines, arguments, [f"tensor<2x{b}>" for _, _, b, _, _ in CONVERSIONS]),
                  *(case[3] for case in CONVERSIONS))  # fmt: skip
    for line, case, result in zip(lines, CONVERSIONS, results, strict=True):
        np.testing.assert_array_equal(result.astype(np.float64), case[4].astype(np.float64), err_msg=line)
        assert result.dtype == case[4].dtype, line
