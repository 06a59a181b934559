"""Scalar rules of floats: arithmetic and comparisons with NaN and signed zeros, functions within a few ulp.

TVM folds ``x * 0``, ``x - x``, ``(x + y) - x``, ``x == x`` and ``not a <= b`` as if there were no NaN and no rounding.
Functions are TVM's where they are accurate (libm and LLVM's intrinsics), the C library's otherwise: their names
exist in CUDA as well. Half types compute in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlirtri.dialect.base.dtypes import DTYPES
from mlirtri.dialect.bindings.mlir import ir
from mlirtri.lowering.bridge.scalar.scalar_rules import (
    Build,
    Expr,
    cast,
    dtype_name,
    hide_zero,
    in_float32,
    is_nan,
    literal,
    scalar_rule,
)  # fmt: skip
from mlirtri.lowering.tir.arithmetic import difference
from mlirtri.lowering.toolchain.tvm_names import ir as tvm_ir
from mlirtri.lowering.toolchain.tvm_names import structural_equal, tirx


def _float_binary(node: Callable[[Expr, Expr], Expr]) -> Build:
    compute = in_float32(lambda x, y: node(hide_zero(x), hide_zero(y)))
    return lambda operation, operands: compute(*map(hide_zero, operands))


scalar_rule("arith.addf")(_float_binary(tirx.Add))
scalar_rule("arith.subf")(_float_binary(difference))
scalar_rule("arith.mulf")(_float_binary(tirx.Mul))
scalar_rule("arith.divf", is_expensive=True)(_float_binary(tirx.Div))


@scalar_rule("arith.negf")
def _negate(operation, operands):
    # 0 - x has the wrong sign for x = 0.
    (x,) = operands
    return tirx.Mul(x, literal(-1, dtype_name(x)))


def _compared(node: Callable[[Expr, Expr], Expr], x: Expr, y: Expr) -> Expr:
    is_half = DTYPES[dtype_name(x)].is_half
    return node(cast(x, "float32"), cast(y, "float32")) if is_half else node(x, y)


def _extremum(node, *, propagates_nan: bool) -> Build:
    def build(operation: ir.Operation, operands: Sequence[Expr]) -> Expr:
        x, y = operands
        return tirx.Select(tirx.Or(_compared(node, x, y), is_nan(x if propagates_nan else y)), x, y)

    return build


scalar_rule("arith.maximumf", repeats=True)(_extremum(tirx.GT, propagates_nan=True))
scalar_rule("arith.minimumf", repeats=True)(_extremum(tirx.LT, propagates_nan=True))
scalar_rule("arith.maxnumf", repeats=True)(_extremum(tirx.GT, propagates_nan=False))
scalar_rule("arith.minnumf", repeats=True)(_extremum(tirx.LT, propagates_nan=False))


def equal(x: Expr, y: Expr) -> Expr:
    """Return x == y, without TVM's folding of ``x == x`` to true, wrong for NaN."""
    if structural_equal(x, y):
        return tirx.bitwise_xor(is_nan(x), literal(True, "bool"))
    return tirx.EQ(x, y)


# Numbers of MLIR's predicates. The unordered ones are "ordered, or a NaN": TVM would turn `not a <= b` into `b < a`.
_CMPF = (
    None, equal, tirx.GT, tirx.GE, tirx.LT, tirx.LE, "one", "ord",
    "ueq", tirx.GT, tirx.GE, tirx.LT, tirx.LE, "une", "uno", None,
)  # fmt: skip


@scalar_rule("arith.cmpf", repeats=True)
def _compare_floats(operation, operands):
    number = operation.attributes["predicate"].value
    x, y = operands
    either_nan = tirx.Or(is_nan(x), is_nan(y))
    node = _CMPF[number]
    if node is None:
        return literal(number == 15, "bool")
    if node in ("ord", "uno"):
        return tirx.bitwise_xor(either_nan, literal(True, "bool")) if node == "ord" else either_nan
    if node == "une":
        # TVM's own != is false for NaN.
        return tirx.bitwise_xor(_compared(equal, x, y), literal(True, "bool"))
    if node == "one":
        return tirx.Or(_compared(tirx.LT, x, y), _compared(tirx.GT, x, y))
    if node == "ueq":
        return tirx.Or(_compared(equal, x, y), either_nan)
    ordered = _compared(node, x, y)
    return tirx.Or(ordered, either_nan) if 8 < number < 13 else ordered


def _power(x: Expr, y: Expr) -> Expr:
    """Return x ** y; `tirx.pow` would warn about negative operands for each exponent from 3 on."""
    return tvm_ir.Call(tvm_ir.Op.get("tirx.pow"), [x, y], ret_ty=dtype_name(x))


_TVM_MATH = {
    "absf": tirx.abs, "ceil": tirx.ceil, "floor": tirx.floor, "trunc": tirx.trunc, "roundeven": tirx.nearbyint,
    "exp": tirx.exp, "exp2": tirx.exp2, "log": tirx.log, "log2": tirx.log2, "log10": tirx.log10, "log1p": tirx.log1p,
    "sqrt": tirx.sqrt, "sin": tirx.sin, "cos": tirx.cos, "tan": tirx.tan, "erf": tirx.erf, "atan2": tirx.atan2,
    "powf": _power, "copysign": tirx.copysign,
}  # fmt: skip
_LIBM = {
    # TVM computes tanh as a rational function that is 0 near 0 and atanh by logarithms, other inverse functions by
    # approximations; it has no expm1, erfc and cbrt, and no vector code for sinh and cosh.
    "math.asin": "asin", "math.acos": "acos", "math.atan": "atan", "math.sinh": "sinh", "math.cosh": "cosh",
    "math.asinh": "asinh", "math.acosh": "acosh", "math.tanh": "tanh", "math.atanh": "atanh",
    "math.expm1": "expm1", "math.erfc": "erfc", "math.cbrt": "cbrt", "arith.remf": "fmod", "math.fma": "fma",
}  # fmt: skip
_CHEAP = {"absf", "ceil", "floor", "trunc", "roundeven", "copysign"}


def _library_call(name: str) -> Callable[..., Expr]:
    def call(*operands: Expr) -> Expr:
        dtype = dtype_name(operands[0])
        return tirx.call_pure_extern(dtype, name if dtype == "float64" else f"{name}f", *operands)

    return call


def _float_function(compute: Callable[..., Expr]) -> Build:
    computed = in_float32(compute)
    return lambda operation, operands: computed(*operands)


for _name, _compute in _TVM_MATH.items():
    scalar_rule(f"math.{_name}", is_expensive=_name not in _CHEAP)(_float_function(_compute))
for _name, _symbol in _LIBM.items():
    scalar_rule(_name, is_expensive=True)(_float_function(_library_call(_symbol)))


def _round_half_away(x: Expr) -> Expr:
    dtype, truncated = dtype_name(x), tirx.trunc(x)
    is_far = tirx.GE(tirx.abs(tirx.Sub(x, truncated)), literal(0.5, dtype))
    return tirx.Select(is_far, tirx.Add(truncated, tirx.copysign(literal(1, dtype), x)), truncated)


def _reciprocal_root(x: Expr) -> Expr:
    return tirx.Div(literal(1, dtype_name(x)), tirx.sqrt(x))


scalar_rule("math.rsqrt", is_expensive=True)(_float_function(_reciprocal_root))
scalar_rule("math.round", repeats=True)(_float_function(_round_half_away))
scalar_rule("math.isnan")(lambda operation, operands: is_nan(operands[0]))


@scalar_rule("math.isinf", "math.isfinite", repeats=True)
def _test_infinity(operation, operands):
    (x,) = operands
    wide = cast(x, "float32") if DTYPES[dtype_name(x)].is_half else x
    infinity = literal(float("inf"), dtype_name(wide))
    return (tirx.EQ if operation.name == "math.isinf" else tirx.LT)(tirx.abs(wide), infinity)


@scalar_rule("math.fpowi", is_expensive=True)
def _float_to_integer_power(operation, operands):
    x, exponent = operands
    return in_float32(lambda base: _power(base, cast(exponent, dtype_name(base))))(x)
