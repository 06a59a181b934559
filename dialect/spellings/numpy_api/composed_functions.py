"""The functions of `numpy` on each element that are composed of several table ops, with NumPy 2's signatures."""

from __future__ import annotations

from math import pi
from typing import Any, NamedTuple

from mlirtri.dialect.base.dtypes import DTYPES, DType, as_dtype
from mlirtri.dialect.promotion.dtype_rules import Operand, result_dtypes
from mlirtri.dialect.spellings.base import helpers
from mlirtri.dialect.spellings.base.spelling import Argument, Builder, Value, register, spelling, unsupported
from mlirtri.dialect.spellings.numpy_api.ufuncs import (
    COMPLEX128,
    FLOAT64,
    as_array,
    computed_in,
    dtype_of,
    float_of,
    numpy_dtype,
    strong,
)


def in_floats(b: Builder, *operands: Value) -> tuple[Value, ...]:
    """Return the operands in the common float or complex dtype of NumPy's binary functions."""
    kinds = [Operand(None, weak) if (weak := b.weak_kind(x)) else Operand(b.type_of(x).dtype) for x in operands]
    has_complex = any(kind.own.is_complex for kind in kinds)
    if all(kind.weak for kind in kinds):
        return tuple(b.cast(x, COMPLEX128 if has_complex else FLOAT64) for x in operands)
    dtype = result_dtypes("numpy", "divide" if has_complex else "hypot", kinds).result
    return tuple(b.cast(x, dtype) for x in operands)


def inexact_of(b: Builder, x: Value) -> Value:
    """Return `x`, cast to float64 unless its dtype is inexact, as NumPy's Python functions do."""
    x = as_array(b, x)
    return x if b.type_of(x).dtype.is_inexact else b.cast(x, FLOAT64)


@spelling("numpy.reciprocal", ops="reciprocal equal where cast")
def _(b, x, /, out=unsupported(), *, where=unsupported(True), dtype=None):
    (x,) = computed_in(b, dtype, x)
    kind = b.type_of(x).dtype
    if kind.is_inexact:
        return b.reciprocal(x)
    x = b.cast(x, DTYPES["int8"]) if kind.is_bool else x
    kind = b.type_of(x).dtype
    # 1 // x truncated. NumPy's 1 // 0 is the C compiler's result of an undefined conversion.
    of_zero = -(1 << (kind.bits - 1)) if kind.kind == "i" and kind.bits >= 32 else 0
    units = b.where(b.equal(x, 1), 1, b.where(b.equal(x, 0), of_zero, 0))
    return b.cast(units if kind.is_unsigned else b.where(b.equal(x, -1), -1, units), kind)


@spelling("numpy.positive", ops="cast")
def _(b, x, /, out=unsupported(), *, where=unsupported(True), dtype=None):
    (x,) = computed_in(b, dtype, x)
    if b.type_of(x).dtype.is_bool:
        b.fail("numpy.positive does not take bools, as in NumPy")
    return x


def _scaled(factor: float):
    def function(b, x, /, out=unsupported(), *, where=unsupported(True), dtype=None):
        x = float_of(b, x) if dtype is None else b.cast(x, numpy_dtype(b, dtype))
        kind = b.type_of(x).dtype
        # The factor is no half: NumPy multiplies in fp32 and rounds once.
        wide = as_dtype("float32") if kind.is_half else kind
        return b.cast(b.multiply(b.cast(x, wide), b.cast(factor, wide)), kind)

    return function


register("numpy.deg2rad numpy.radians", _scaled(pi / 180), "multiply cast")
register("numpy.rad2deg numpy.degrees", _scaled(180 / pi), "multiply cast")


@spelling("numpy.heaviside", ops="isnan equal less where cast")
def _(b, x1, x2, /, out=unsupported(), *, where=unsupported(True)):
    x, at_zero = in_floats(b, x1, x2)
    step = b.where(b.equal(x, 0), at_zero, b.where(b.less(x, 0), 0.0, 1.0))
    return b.cast(b.where(b.isnan(x), x, step), b.type_of(x).dtype)


@spelling("numpy.sinc", ops="multiply equal where sin divide cast")
def _(b, x):
    x = inexact_of(b, x)
    angle = b.multiply(x, pi)
    return b.where(b.equal(x, 0), b.cast(1.0, b.type_of(x).dtype), b.divide(b.sin(angle), angle))


@spelling("numpy.modf", ops="trunc subtract isinf where copysign cast")
def _(b, x, /, out=unsupported(), *, where=unsupported(True)):
    x = float_of(b, x)
    integral = b.trunc(x)
    fraction = b.where(b.isinf(x), b.cast(0.0, b.type_of(x).dtype), b.subtract(x, integral))
    return b.copysign(fraction, x), integral


class FloatInfo(NamedTuple):
    """The fields of `numpy.finfo`, as scalars of the dtype."""

    eps: Any
    max: Any
    min: Any
    tiny: Any
    smallest_normal: Any
    smallest_subnormal: Any
    resolution: Any
    bits: int
    dtype: DType


class IntegerInfo(NamedTuple):
    """The fields of `numpy.iinfo`, as Python ints."""

    min: int
    max: int
    bits: int
    dtype: DType


def _described(b: Builder, value: Value) -> DType:
    kind = b.type_of(value)
    return dtype_of(b, value) if kind is None else kind.dtype


@spelling("numpy.finfo", ops="cast")
def _(b, dtype):
    import ml_dtypes

    dtype = _described(b, dtype)
    dtype = getattr(dtype, "part", dtype)
    if not dtype.is_float:
        b.fail(f"numpy.finfo is of floats, not {dtype}", help="numpy.iinfo")
    info = ml_dtypes.finfo(dtype.numpy)
    fields = {name: b.cast(float(getattr(info, name)), dtype) for name in FloatInfo._fields[:-2]}
    return FloatInfo(**fields, bits=dtype.bits, dtype=dtype)


@spelling("numpy.iinfo", ops="")
def _(b, int_type):
    dtype = _described(b, int_type)
    if not dtype.is_integer:
        b.fail(f"numpy.iinfo is of integers, not {dtype}", help="numpy.finfo")
    low = 0 if dtype.is_unsigned else -(1 << (dtype.bits - 1))
    return IntegerInfo(low, low + (1 << dtype.bits) - 1, dtype.bits, dtype)


def largest(dtype: DType) -> float:
    """Return the largest finite value of a float dtype."""
    import ml_dtypes

    return float(ml_dtypes.finfo(dtype.numpy).max)


def numbers_of(b: Builder, x: Value, nan: Value, posinf: Value, neginf: Value) -> Value:
    """Return `nan_to_num` of NumPy and torch."""
    dtype = helpers.dtype_of(b, "nan_to_num", x)
    if dtype.is_complex:
        return b.complex(*(numbers_of(b, part, nan, posinf, neginf) for part in (b.real(x), b.imag(x))))
    if not dtype.is_float:
        return x
    nan = 0.0 if nan is None else nan
    posinf = largest(dtype) if posinf is None else posinf
    neginf = -largest(dtype) if neginf is None else neginf
    result = b.where(b.isnan(x), b.cast(nan, dtype), x)
    result = b.where(b.equal(x, float("inf")), b.cast(posinf, dtype), result)
    return b.where(b.equal(x, float("-inf")), b.cast(neginf, dtype), result)


@spelling("numpy.nan_to_num", ops="isnan equal where cast complex real imag")
def _(b, x, copy=unsupported(True), nan=0.0, posinf=None, neginf=None):
    return numbers_of(b, as_array(b, x), nan, posinf, neginf)


register("numpy.isposinf", lambda b, x, out=unsupported(): b.equal(as_array(b, x), float("inf")), "equal")
register("numpy.isneginf", lambda b, x, out=unsupported(): b.equal(as_array(b, x), float("-inf")), "equal")


# --- closeness -----------------------------------------------------------------------------------------------------

CLOSE = "subtract abs multiply add less_equal isfinite logical_and logical_or equal isnan cast"


def close(b: Builder, x: Value, y: Value, rtol: Value, atol: Value, equal_nan: Argument) -> Value:
    """Return ``|x - y| <= atol + rtol * |y|``; infinities are close to themselves only."""
    x, y = in_floats(b, x, y)
    return within(b, x, y, b.add(b.multiply(b.abs(y), rtol), atol), equal_nan)


def within(b: Builder, x: Value, y: Value, bound: Value, equal_nan: Argument) -> Value:
    """Return ``|x - y| <= bound`` for finite y, and ``x == y``; with `equal_nan` two NaN are equal."""
    near = b.logical_and(b.less_equal(b.abs(b.subtract(x, y)), bound), b.isfinite(y))
    result = b.logical_or(near, b.equal(x, y))
    return b.logical_or(result, b.logical_and(b.isnan(x), b.isnan(y))) if equal_nan else result


@spelling("numpy.isclose", ops=CLOSE)
def _(builder, a, b, rtol=1e-05, atol=1e-08, equal_nan=False):
    return close(builder, a, b, rtol, atol, equal_nan)


@spelling("numpy.allclose", ops=f"all {CLOSE}")
def _(builder, a, b, rtol=1e-05, atol=1e-08, equal_nan=False):
    return builder.python_scalar(builder.all(close(builder, a, b, rtol, atol, equal_nan), axis=None, keepdims=False))


@spelling("numpy.array_equal", ops="equal all isnan logical_and logical_or")
def _(b, a1, a2, equal_nan=False):
    if helpers.shape_of(b, a1) != helpers.shape_of(b, a2):
        return False
    same = b.equal(*strong(b, a1, a2))
    if equal_nan:
        same = b.logical_or(same, b.logical_and(b.isnan(a1), b.isnan(a2)))
    return b.python_scalar(b.all(same, axis=None, keepdims=False))
