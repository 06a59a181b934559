"""The scalar rules of elementwise ops on real values, as `arith` and `math` operations on one element.

Most are functions of `dialect.scalar.algebra` or one operation of `math`; the rest is written with those.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import log, pi, sqrt

from mlirtri.dialect.base.dtypes import DTYPES, as_dtype
from mlirtri.dialect.base.registry import Registry
from mlirtri.dialect.bindings.mlir import math
from mlirtri.dialect.scalar import algebra as s
from mlirtri.dialect.scalar.algebra import Scalar


def _number(x: Scalar, value: float) -> Scalar:
    return s.constant(value, x.dtype)


def _one_plus_exp_of_minus(x: Scalar) -> Scalar:
    return s.add(_number(x, 1), s.unary(math.exp)(s.negate(x)))


def sigmoid(x: Scalar) -> Scalar:
    return s.divide(_number(x, 1), _one_plus_exp_of_minus(x))


def silu(x: Scalar) -> Scalar:
    return s.divide(x, _one_plus_exp_of_minus(x))


def _half_of_one_plus(x: Scalar, y: Scalar) -> Scalar:
    return s.multiply(s.multiply(_number(x, 0.5), x), s.add(_number(x, 1), y))


def gelu(x: Scalar) -> Scalar:
    """Return x * Phi(x): Hendrycks & Gimpel, "Gaussian Error Linear Units", arXiv:1606.08415."""
    return _half_of_one_plus(x, s.unary(math.erf)(s.multiply(x, _number(x, sqrt(0.5)))))


def gelu_tanh(x: Scalar) -> Scalar:
    """Return the same paper's tanh approximation."""
    cube = s.multiply(s.multiply(x, x), x)
    inner = s.add(x, s.multiply(_number(x, 0.044715), cube))
    return _half_of_one_plus(x, s.unary(math.tanh)(s.multiply(_number(x, sqrt(2 / pi)), inner)))


def softplus(x: Scalar, beta: float, threshold: float) -> Scalar:
    """Return log(1 + exp(beta x)) / beta, and x itself beyond the threshold, where the two are equal."""
    scaled = s.multiply(x, _number(x, beta))
    soft = s.divide(s.unary(math.log1p)(s.unary(math.exp)(scaled)), _number(x, beta))
    return s.select(s.compare("gt", scaled, _number(x, threshold)), x, soft)


def hypot(x: Scalar, y: Scalar) -> Scalar:
    """Return sqrt(x² + y²) without intermediate overflow; infinite if an operand is, even beside NaN (C99, F.9.4).

    The squares of fp32 fit fp64; fp64 is scaled by the larger operand.
    """
    infinite = s.bit_or(s.is_infinite(x), s.is_infinite(y))
    length = _wide_length(x, y) if x.dtype.bits < 64 else _scaled_length(x, y)
    return s.select(infinite, _number(x, float("inf")), length)


def _wide_length(x: Scalar, y: Scalar) -> Scalar:
    x_wide, y_wide = s.cast(x, DTYPES["float64"]), s.cast(y, DTYPES["float64"])
    squares = s.add(s.multiply(x_wide, x_wide), s.multiply(y_wide, y_wide))
    return s.cast(s.unary(math.sqrt)(squares), x.dtype)


def _scaled_length(x: Scalar, y: Scalar) -> Scalar:
    x, y = s.absolute(x), s.absolute(y)
    large = s.maximum(x, y)
    ratio = s.divide(s.minimum(x, y), large)
    length = s.multiply(large, s.unary(math.sqrt)(s.add(_number(x, 1), s.multiply(ratio, ratio))))
    return s.select(s.compare("eq", large, _number(x, 0)), large, length)


def logaddexp(x: Scalar, y: Scalar) -> Scalar:
    """Return log(exp(x) + exp(y)) as max + log1p(exp(min - max)); equal operands apart, since inf - inf is NaN."""
    large = s.maximum(x, y)
    soft = s.unary(math.log1p)(s.unary(math.exp)(s.subtract(s.minimum(x, y), large)))
    return s.select(s.compare("eq", x, y), s.add(x, _number(x, log(2))), s.add(large, soft))


def logaddexp2(x: Scalar, y: Scalar) -> Scalar:
    """Return log2(2**x + 2**y), likewise."""
    large = s.maximum(x, y)
    soft = s.unary(math.log1p)(s.unary(math.exp2)(s.subtract(s.minimum(x, y), large)))
    sum_ = s.add(large, s.multiply(soft, _number(x, 1 / log(2))))
    return s.select(s.compare("eq", x, y), s.add(x, _number(x, 1)), sum_)


def relu(x: Scalar) -> Scalar:
    """Return x, or 0 where x is less: NaN and -0.0 stay, as in torch."""
    zero = _number(x, 0)
    return s.select(s.compare("lt", x, zero), zero, x) if x.dtype.is_float else s.maximum(x, zero)


def cast(x: Scalar, dtype: str) -> Scalar:
    return s.cast(x, as_dtype(dtype))


def bitcast(x: Scalar, dtype: str) -> Scalar:
    return s.bitcast(x, as_dtype(dtype))


_MATH = (
    "exp", "exp2", "log", "log2", "log10", "log1p", "expm1", "sqrt", "sin", "cos", "tan", "asin", "acos", "atan",
    "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "cbrt", "erf", "floor", "ceil", "trunc",
)  # fmt: skip
_COMPARISONS = {
    "equal": "eq", "not_equal": "ne", "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge",
}  # fmt: skip

RULES: Registry[str, Callable[..., Scalar]] = Registry("scalar rule", {
    "add": s.add, "subtract": s.subtract, "multiply": s.multiply, "divide": s.divide,
    "floor_divide": s.floor_divide, "remainder": s.remainder, "power": s.power, "atan2": s.atan2,
    "maximum": s.maximum, "minimum": s.minimum, "where": s.select, "cast": cast, "complex": s.create,
    "bitcast": bitcast,
    "bitwise_and": s.bit_and, "bitwise_or": s.bit_or, "bitwise_xor": s.bit_xor, "bitwise_not": s.bit_not,
    "logical_and": s.bit_and, "logical_or": s.bit_or, "logical_xor": s.bit_xor, "logical_not": s.logical_not,
    "left_shift": s.left_shift, "right_shift": s.right_shift,
    "negative": s.negate, "abs": s.absolute, "sign": s.sign,
    "isnan": s.is_nan, "isinf": s.is_infinite, "isfinite": s.is_finite, "signbit": s.sign_bit,
    "fmin": s.least_number, "fmax": s.greatest_number, "fmod": s.truncated_remainder, "copysign": s.copy_sign,
    "hypot": hypot, "logaddexp": logaddexp, "logaddexp2": logaddexp2,
    "square": lambda x: s.multiply(x, x), "reciprocal": lambda x: s.divide(_number(x, 1), x),
    "relu": relu, "round": s.unary(math.roundeven),
    "rsqrt": lambda x: s.divide(_number(x, 1), s.unary(math.sqrt)(x)),
    "sigmoid": sigmoid, "silu": silu, "gelu": gelu, "gelu_tanh": gelu_tanh, "softplus": softplus,
}, {name: partial(s.compare, predicate) for name, predicate in _COMPARISONS.items()}, {
    name: s.unary(getattr(math, name)) for name in _MATH
})  # fmt: skip
