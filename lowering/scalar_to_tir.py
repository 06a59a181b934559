"""scalar to TIR: the `arith` and `math` operations on single elements, as TIR expressions of the same meaning.

Takes an operation and its operands as TIR expressions. Gives one expression. Exact where TVM is not:
TVM's simplifier treats floats as reals and int32/int64 as unbounded, so what would be simplified wrongly is spelled
in a way that it leaves alone (see `_hide_zero`, `_wrapping`, `_combine_bits`); a division never traps; half types compute in float32.
Math functions are a few ulp exact on the CPU, and their names exist in CUDA as well.

    arith.maximumf %a, %b   ──►   T.Select(T.isnan(a) or a > b, a, b)
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mlirtri.dialect.dtypes import DTYPES
from mlirtri.dialect.mlir import ir
from mlirtri.errors import UnsupportedOperationError
from mlirtri.lowering.mlir_reading import dtype_of, scalar_constant
from mlirtri.lowering.tvm_names import ir as tvm_ir
from mlirtri.lowering.tvm_names import structural_equal, tirx

Expr = Any
Build = Callable[[ir.Operation, Sequence[Expr]], Expr]


@dataclass(frozen=True)
class ScalarRule:
    """How one operation becomes an expression."""

    build: Build
    repeats: bool = False
    """The expression mentions an operand more than once, so that operand should be a variable."""
    is_expensive: bool = False
    """Worth a variable when the result is used twice."""


SCALAR_RULES: dict[str, ScalarRule] = {}


def _rule(*names: str, repeats: bool = False, is_expensive: bool = False):
    """Register a function ``(operation, operands) -> expression`` for these operations."""

    def register(build: Build) -> Build:
        for name in names:
            if name in SCALAR_RULES:
                raise ValueError(f"two scalar rules for {name}")
            SCALAR_RULES[name] = ScalarRule(build, repeats, is_expensive)
        return build

    return register


def literal(number: float | int | bool, dtype: str) -> Expr:
    """A TIR constant; integers wrap to the width of the dtype."""
    if dtype.startswith(("float", "bfloat")):
        return tirx.FloatImm(dtype, float(number))
    if dtype == "bool":
        return tirx.IntImm("bool", int(bool(number)))
    bits = DTYPES[dtype].bits
    number = int(number) & ((1 << bits) - 1)
    is_negative = not dtype.startswith("u") and number >> (bits - 1)
    return tirx.const(number - (1 << bits) if is_negative else number, dtype)


def dtype_name(expression: Expr) -> str:
    return str(expression.ty)


def cast(expression: Expr, dtype: str) -> Expr:
    if dtype_name(expression) == dtype:
        return expression
    if dtype == "bfloat16" and not isinstance(expression, tirx.FloatImm):
        return _round_to_bfloat16(cast(expression, "float32"))
    if dtype_name(expression) == "bfloat16" and not isinstance(expression, tirx.FloatImm):
        return cast(_widen_bfloat16(expression), dtype)
    return tirx.Cast(dtype, expression)


def _widen_bfloat16(expression: Expr) -> Expr:
    """bfloat16 is the upper half of float32. TVM forgets to widen the arguments of external calls."""
    bits = tirx.Cast("uint32", tirx.reinterpret("uint16", expression))
    return tirx.reinterpret("float32", tirx.shift_left(bits, literal(16, "uint32")))


def _round_to_bfloat16(expression: Expr) -> Expr:
    """To the nearest, ties to even, by bits. TVM's own rounding makes a number of some NaNs, and writes its operand out
    twice: chains grow exponentially, and a variable in it is bound twice."""
    bits = tirx.Var("bits", "uint32")
    odd = tirx.bitwise_and(tirx.shift_right(bits, literal(16, "uint32")), literal(1, "uint32"))
    rounded = tirx.shift_right(bits + odd + literal(0x7FFF, "uint32"), literal(16, "uint32"))
    magnitude = tirx.bitwise_and(bits, literal(0x7FFFFFFF, "uint32"))
    is_nan = tirx.reinterpret("int32", magnitude) > literal(0x7F800000, "int32")
    kept = tirx.Select(is_nan, literal(0x7FC0, "uint32"), rounded)
    half = tirx.reinterpret("bfloat16", tirx.Cast("uint16", kept))
    return tirx.Let(bits, tirx.reinterpret("uint32", expression), half)


def result_dtype(operation: ir.Operation) -> str:
    return dtype_of(operation.results[0].type)


# --- unsigned and wrapping arithmetic -------------------------------------------------------------------------------


def _unsigned(expression: Expr) -> Expr:
    """The same bits as an unsigned integer; takes off what `_signed` put on."""
    dtype = dtype_name(expression)
    return expression if dtype == "bool" or dtype.startswith("u") else _same_bits(expression, f"u{dtype}")


def _signed(expression: Expr) -> Expr:
    return _same_bits(expression, dtype_name(expression).removeprefix("u"))


def is_reinterpretation(expression: Expr) -> bool:
    return isinstance(expression, tvm_ir.Call) and expression.op.same_as(tvm_ir.Op.get("tirx.reinterpret"))


def _same_bits(expression: Expr, dtype: str) -> Expr:
    """A reinterpretation, which TVM's analyzer does not look through: a cast of an unsigned sum is positive to it."""
    if dtype_name(expression) == dtype:
        return expression
    if isinstance(expression, tirx.IntImm):
        return literal(expression.value, dtype)
    if is_reinterpretation(expression) and dtype_name(expression.args[0]) == dtype:
        return expression.args[0]
    return tirx.reinterpret(dtype, expression)


def _is_index(operation: ir.Operation) -> bool:
    return isinstance(operation.results[0].type, ir.IndexType)


def _is_widened(expression: Expr, dtype: str) -> bool:
    """Whether an integer came from one of at most half its width, so that a product cannot overflow."""
    if not isinstance(expression, tirx.Cast):
        return False
    source = DTYPES.get(dtype_name(expression.value))
    return source is not None and not source.is_float and source.bits * 2 < DTYPES[dtype].bits


_TWICE_AS_WIDE = {"int32": "int64", "int64": "int128"}


def _wrapping(node: Callable[[Expr, Expr], Expr]) -> Build:
    """Integers that wrap: exact in twice the width, then cut. TVM's LLVM code marks overflow of 32 and 64 bits as
    undefined, signed and unsigned alike, and its simplifier relies on that. LLVM makes the wide code narrow again."""

    def build(operation: ir.Operation, operands: Sequence[Expr]) -> Expr:
        dtype = result_dtype(operation)
        if dtype == "bool":
            return _BOOLEAN_ARITHMETIC[operation.name](*operands)
        exact = all(_is_widened(operand, dtype) for operand in operands)
        return node(*operands) if _is_index(operation) or exact else _wrapped(node, *operands)

    return build


def _wrapped(node: Callable[[Expr, Expr], Expr], x: Expr, y: Expr) -> Expr:
    dtype = dtype_name(x)
    if dtype not in _TWICE_AS_WIDE:
        return node(x, y)
    wide = _TWICE_AS_WIDE[dtype]
    return tirx.Cast(dtype, node(tirx.Cast(wide, x), tirx.Cast(wide, y)))


def _combine_bits(function: Callable[[Expr, Expr], Expr]) -> Build:
    # Bitwise on bools as well: TVM's logical simplifications (`not a <= b` is `b < a`) are wrong when NaN is around.
    def build(operation: ir.Operation, operands: Sequence[Expr]) -> Expr:
        x, y = operands
        if isinstance(x, tirx.IntImm) and isinstance(y, tirx.IntImm):
            return literal(_BITS_OF_NUMBERS[operation.name](x.value, y.value), dtype_name(x))
        return function(x, y)

    return build


_BITS_OF_NUMBERS = {"arith.andi": operator.and_, "arith.ori": operator.or_, "arith.xori": operator.xor}


def _unsigned_binary(node: Callable[[Expr, Expr], Expr]) -> Build:
    def build(operation: ir.Operation, operands: Sequence[Expr]) -> Expr:
        x, y = map(_unsigned, operands)
        return _signed(node(x, y)) if dtype_name(x) != "bool" else _BOOLEAN_ARITHMETIC[operation.name](x, y)

    return build


_BOOLEAN_ARITHMETIC = {
    "arith.addi": tirx.bitwise_xor,
    "arith.subi": tirx.bitwise_xor,
    "arith.muli": tirx.bitwise_and,
    "arith.maxui": tirx.bitwise_or,
    "arith.minui": tirx.bitwise_and,
    "arith.maxsi": tirx.bitwise_and,
    "arith.minsi": tirx.bitwise_or,
}

_rule("arith.addi")(_wrapping(tirx.Add))
_rule("arith.subi")(_wrapping(tirx.Sub))
_rule("arith.muli")(_wrapping(tirx.Mul))
_rule("arith.andi")(_combine_bits(tirx.bitwise_and))
_rule("arith.ori")(_combine_bits(tirx.bitwise_or))
_rule("arith.xori")(_combine_bits(tirx.bitwise_xor))
_rule("arith.maxui")(_unsigned_binary(tirx.Max))
_rule("arith.minui")(_unsigned_binary(tirx.Min))


@_rule("arith.maxsi")
@_rule("arith.minsi")
def _signed_extremum(operation, operands):
    if dtype_name(operands[0]) == "bool":
        return _BOOLEAN_ARITHMETIC[operation.name](*operands)
    return (tirx.Max if operation.name == "arith.maxsi" else tirx.Min)(*operands)


# --- integer division and shifts: total, because both arms of a select are evaluated --------------------------------


def _hide_lowest(x: Expr) -> Expr:
    """The smallest int32 as TVM does not see it: its simplifier takes ``x == INT_MIN`` and ``x <= INT_MIN`` for false."""
    dtype = dtype_name(x)
    lowest = -(1 << (DTYPES[dtype].bits - 1))
    if not isinstance(x, tirx.IntImm) or x.value != lowest:
        return x
    return tirx.bitwise_not(literal(-1 - lowest, dtype))


def _safe_divisor(x: Expr, y: Expr) -> Expr:
    """A divisor that cannot trap: 1 where `y` is 0, and where the quotient would overflow (which wraps to x / 1)."""
    dtype = dtype_name(y)
    one = literal(1, dtype)
    if isinstance(y, tirx.IntImm) and y.value not in (0, -1):
        return y
    is_bad = tirx.EQ(y, literal(0, dtype))
    if not dtype.startswith("u"):
        lowest = _hide_lowest(literal(1 << (DTYPES[dtype].bits - 1), dtype))
        is_bad = tirx.Or(is_bad, tirx.And(tirx.EQ(x, lowest), tirx.EQ(y, literal(-1, dtype))))
    return tirx.Select(is_bad, one, y)


def _division(node: Callable[[Expr, Expr], Expr], *, is_unsigned: bool = False) -> Build:
    def build(operation: ir.Operation, operands: Sequence[Expr]) -> Expr:
        x, y = map(_unsigned, operands) if is_unsigned else operands
        return _signed(node(x, _safe_divisor(x, y)))

    return build


def _ceiling_quotient(x: Expr, y: Expr) -> Expr:
    dtype = dtype_name(x)
    zero = literal(0, dtype)
    quotient, remainder = tirx.Div(x, y), tirx.Mod(x, y)
    is_positive = tirx.And(tirx.GT(remainder, zero), tirx.GT(y, zero))
    is_rounded_down = tirx.Or(is_positive, tirx.And(tirx.LT(remainder, zero), tirx.LT(y, zero)))
    return tirx.Select(is_rounded_down, tirx.Add(quotient, literal(1, dtype)), quotient)


_rule("arith.divsi", repeats=True, is_expensive=True)(_division(tirx.Div))
_rule("arith.remsi", repeats=True, is_expensive=True)(_division(tirx.Mod))
_rule("arith.floordivsi", repeats=True, is_expensive=True)(_division(tirx.FloorDiv))
_rule("arith.ceildivsi", repeats=True, is_expensive=True)(_division(_ceiling_quotient))
_rule("arith.divui", repeats=True, is_expensive=True)(_division(tirx.Div, is_unsigned=True))
_rule("arith.remui", repeats=True, is_expensive=True)(_division(tirx.Mod, is_unsigned=True))
_rule("arith.ceildivui", repeats=True, is_expensive=True)(_division(_ceiling_quotient, is_unsigned=True))


def _shift(node: Callable[[Expr, Expr], Expr], *, is_unsigned: bool) -> Build:
    """A shift whose amount stays below the width; more is poison in MLIR, and a fatal error in TVM's folding."""

    def build(operation: ir.Operation, operands: Sequence[Expr]) -> Expr:
        x, y = map(_unsigned, operands) if is_unsigned else operands
        dtype = dtype_name(x)
        amount = tirx.bitwise_and(y, literal(DTYPES[dtype].bits - 1, dtype))
        return _signed(node(x, amount))

    return build


_rule("arith.shli")(_shift(tirx.shift_left, is_unsigned=True))
_rule("arith.shrui")(_shift(tirx.shift_right, is_unsigned=True))
_rule("arith.shrsi")(_shift(tirx.shift_right, is_unsigned=False))


# --- floats ---------------------------------------------------------------------------------------------------------


def _hide_zero(expression: Expr) -> Expr:
    """A float zero that TVM does not see: it folds ``x * 0`` and ``0 / x`` to 0 (wrong for NaN), ``x / 0`` to an error."""
    dtype = dtype_name(expression)
    if not isinstance(expression, tirx.FloatImm) or expression.value != 0:
        return expression
    bits = DTYPES[dtype].bits
    # TVM has no code for a reinterpretation of integer 0, so that +0.0 is the magnitude of -0.0.
    negative_zero = tirx.reinterpret(dtype, literal(1 << (bits - 1), f"uint{bits}"))
    # str(-0.0) keeps the sign that `== 0` does not see.
    return negative_zero if str(expression.value).startswith("-") else tirx.abs(negative_zero)


def _in_float32(compute: Callable[..., Expr]) -> Callable[..., Expr]:
    """`compute` on operands widened from a half type, its result rounded back."""

    def build(*operands: Expr) -> Expr:
        dtype = dtype_name(operands[0])
        if not DTYPES[dtype].is_half:
            return compute(*operands)
        return cast(compute(*(cast(operand, "float32") for operand in operands)), dtype)

    return build


def _float_binary(node: Callable[[Expr, Expr], Expr]) -> Build:
    compute = _in_float32(lambda x, y: node(_hide_zero(x), _hide_zero(y)))
    return lambda operation, operands: compute(*map(_hide_zero, operands))


def _float_minus(x: Expr, y: Expr) -> Expr:
    """x - y as x + y * -1: TVM cancels float differences, ``x - x`` to 0 (wrong for NaN) and ``(x + y) - x`` to y."""
    if isinstance(y, tirx.FloatImm):
        return tirx.Add(x, literal(-y.value, dtype_name(y)))
    return tirx.Add(x, tirx.Mul(y, literal(-1, dtype_name(y))))


_rule("arith.addf")(_float_binary(tirx.Add))
_rule("arith.subf")(_float_binary(_float_minus))
_rule("arith.mulf")(_float_binary(tirx.Mul))
_rule("arith.divf", is_expensive=True)(_float_binary(tirx.Div))


@_rule("arith.negf")
def _negate(operation, operands):
    # 0 - x has the wrong sign for x = 0.
    (x,) = operands
    return tirx.Mul(x, literal(-1, dtype_name(x)))


def _is_nan(x: Expr) -> Expr:
    return tirx.isnan(cast(x, "float32") if DTYPES[dtype_name(x)].is_half else x)


def _compared(node: Callable[[Expr, Expr], Expr], x: Expr, y: Expr) -> Expr:
    is_half = DTYPES[dtype_name(x)].is_half
    return node(cast(x, "float32"), cast(y, "float32")) if is_half else node(x, y)


def _extremum(node, *, propagates_nan: bool) -> Build:
    def build(operation: ir.Operation, operands: Sequence[Expr]) -> Expr:
        x, y = operands
        return tirx.Select(tirx.Or(_compared(node, x, y), _is_nan(x if propagates_nan else y)), x, y)

    return build


_rule("arith.maximumf", repeats=True)(_extremum(tirx.GT, propagates_nan=True))
_rule("arith.minimumf", repeats=True)(_extremum(tirx.LT, propagates_nan=True))
_rule("arith.maxnumf", repeats=True)(_extremum(tirx.GT, propagates_nan=False))
_rule("arith.minnumf", repeats=True)(_extremum(tirx.LT, propagates_nan=False))


# --- comparisons and choice -----------------------------------------------------------------------------------------


def _equal(x: Expr, y: Expr) -> Expr:
    """x == y, also where both are the same expression, which TVM takes to be true for NaN."""
    if structural_equal(x, y):
        return tirx.bitwise_xor(_is_nan(x), literal(True, "bool"))
    return tirx.EQ(x, y)


# Numbers of MLIR's predicates. The unordered ones are "ordered, or a NaN": TVM would turn `not a <= b` into `b < a`.
_CMPF = (
    None, _equal, tirx.GT, tirx.GE, tirx.LT, tirx.LE, "one", "ord",
    "ueq", tirx.GT, tirx.GE, tirx.LT, tirx.LE, "une", "uno", None,
)  # fmt: skip
_CMPI = (tirx.EQ, tirx.NE, tirx.LT, tirx.LE, tirx.GT, tirx.GE, tirx.LT, tirx.LE, tirx.GT, tirx.GE)
_COMPARE_NUMBERS = (
    operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge,
    operator.lt, operator.le, operator.gt, operator.ge,
)  # fmt: skip
_FIRST_UNSIGNED = 6


@_rule("arith.cmpf", repeats=True)
def _compare_floats(operation, operands):
    number = operation.attributes["predicate"].value
    x, y = operands
    either_nan = tirx.Or(_is_nan(x), _is_nan(y))
    node = _CMPF[number]
    if node is None:
        return literal(number == 15, "bool")
    if node in ("ord", "uno"):
        return tirx.bitwise_xor(either_nan, literal(True, "bool")) if node == "ord" else either_nan
    if node == "une":
        # TVM's own != is false for NaN.
        return tirx.bitwise_xor(_compared(_equal, x, y), literal(True, "bool"))
    if node == "one":
        return tirx.Or(_compared(tirx.LT, x, y), _compared(tirx.GT, x, y))
    if node == "ueq":
        return tirx.Or(_compared(_equal, x, y), either_nan)
    ordered = _compared(node, x, y)
    return tirx.Or(ordered, either_nan) if 8 < number < 13 else ordered


@_rule("arith.cmpi")
def _compare_integers(operation, operands):
    number = operation.attributes["predicate"].value
    x, y = operands
    if dtype_name(x) == "bool":
        # As a signed number, true is -1.
        sign = 1 if number < 2 or number >= _FIRST_UNSIGNED else -1
        x, y = (tirx.Select(each, literal(sign, "int32"), literal(0, "int32")) for each in operands)
    elif number >= _FIRST_UNSIGNED:
        x, y = _ordered_as_unsigned(x), _ordered_as_unsigned(y)
    return _CMPI[number](_hide_lowest(x), _hide_lowest(y))


def _ordered_as_unsigned(x: Expr) -> Expr:
    """A signed number that compares as the unsigned `x`: TVM's simplifier computes negative unsigned differences."""
    dtype = dtype_name(x)
    lowest = 1 << (DTYPES[dtype].bits - 1)
    if isinstance(x, tirx.IntImm):
        return literal(x.value ^ lowest, dtype)
    return tirx.bitwise_xor(x, literal(lowest, dtype))


@_rule("arith.select")
def _select(operation, operands):
    condition, x, y = operands
    if isinstance(condition, tirx.IntImm):
        return x if condition.value else y
    return tirx.Select(condition, x, y)


# --- conversions ----------------------------------------------------------------------------------------------------


@_rule("arith.extf", "arith.fptosi", "arith.index_cast")
def _convert(operation, operands):
    (x,) = operands
    dtype = result_dtype(operation)
    is_half = DTYPES[dtype_name(x)].is_half
    if dtype_name(x) == "bool":
        return tirx.Select(x, literal(-1, dtype), literal(0, dtype))
    return cast(cast(x, "float32"), dtype) if is_half else cast(x, dtype)


@_rule("arith.truncf", "arith.extsi", "arith.sitofp")
def _convert_signed(operation, operands):
    (x,) = operands
    dtype = result_dtype(operation)
    if dtype_name(x) == "bool":
        return tirx.Select(x, literal(-1, dtype), literal(0, dtype))
    return cast(x, dtype)


@_rule("arith.extui", "arith.uitofp", "arith.index_castui")
def _convert_unsigned(operation, operands):
    (x,) = operands
    return cast(_unsigned(x), result_dtype(operation))


@_rule("arith.fptoui")
def _float_to_unsigned(operation, operands):
    (x,) = operands
    dtype = result_dtype(operation)
    if dtype == "bool":
        return tirx.NE(cast(x, "float64"), literal(0, "float64"))
    wide = cast(x, "float32") if DTYPES[dtype_name(x)].is_half else x
    return _signed(cast(wide, f"u{dtype}"))


@_rule("arith.trunci")
def _narrow(operation, operands):
    (x,) = operands
    dtype = result_dtype(operation)
    if dtype != "bool":
        return cast(x, dtype)
    wide = dtype_name(x)
    return tirx.NE(tirx.bitwise_and(x, literal(1, wide)), literal(0, wide))


@_rule("arith.bitcast")
def _reinterpret(operation, operands):
    return tirx.reinterpret(result_dtype(operation), operands[0])


# --- math -----------------------------------------------------------------------------------------------------------

_TVM_MATH = {
    "absf": tirx.abs, "ceil": tirx.ceil, "floor": tirx.floor, "trunc": tirx.trunc, "roundeven": tirx.nearbyint,
    "exp": tirx.exp, "exp2": tirx.exp2, "log": tirx.log, "log2": tirx.log2, "log10": tirx.log10, "log1p": tirx.log1p,
    "sqrt": tirx.sqrt, "sin": tirx.sin, "cos": tirx.cos, "tan": tirx.tan, "asin": tirx.asin,
    "acos": tirx.acos, "atan": tirx.atan, "sinh": tirx.sinh, "cosh": tirx.cosh, "asinh": tirx.asinh,
    "acosh": tirx.acosh, "erf": tirx.erf, "atan2": tirx.atan2, "powf": tirx.pow, "copysign": tirx.copysign,
}  # fmt: skip
_LIBM = {
    # TVM computes tanh as a rational function that is 0 near 0, atanh by logarithms; it has no expm1, erfc and cbrt.
    "math.tanh": "tanh", "math.atanh": "atanh", "math.expm1": "expm1", "math.erfc": "erfc", "math.cbrt": "cbrt",
    "arith.remf": "fmod", "math.fma": "fma",
}  # fmt: skip
_CHEAP = {"absf", "ceil", "floor", "trunc", "roundeven", "copysign"}


def _library_call(name: str) -> Callable[..., Expr]:
    def call(*operands: Expr) -> Expr:
        dtype = dtype_name(operands[0])
        return tirx.call_pure_extern(dtype, name if dtype == "float64" else f"{name}f", *operands)

    return call


def _float_function(compute: Callable[..., Expr]) -> Build:
    computed = _in_float32(compute)
    return lambda operation, operands: computed(*operands)


for _name, _compute in _TVM_MATH.items():
    _rule(f"math.{_name}", is_expensive=_name not in _CHEAP)(_float_function(_compute))
for _name, _symbol in _LIBM.items():
    _rule(_name, is_expensive=True)(_float_function(_library_call(_symbol)))


@_rule("math.rsqrt", is_expensive=True)
def _reciprocal_root(operation, operands):
    compute = _in_float32(lambda x: tirx.Div(literal(1, dtype_name(x)), tirx.sqrt(x)))
    return compute(*operands)


@_rule("math.round", repeats=True)
def _round_half_away(operation, operands):
    def compute(x: Expr) -> Expr:
        dtype = dtype_name(x)
        whole = tirx.trunc(x)
        is_far = tirx.GE(tirx.abs(tirx.Sub(x, whole)), literal(0.5, dtype))
        return tirx.Select(is_far, tirx.Add(whole, tirx.copysign(literal(1, dtype), x)), whole)

    return _in_float32(compute)(*operands)


@_rule("math.absi", repeats=True)
def _absolute_integer(operation, operands):
    (x,) = operands
    dtype = dtype_name(x)
    return tirx.Select(tirx.LT(x, literal(0, dtype)), _wrapped(tirx.Sub, literal(0, dtype), x), x)


@_rule("math.isnan")
def _test_nan(operation, operands):
    return _is_nan(operands[0])


@_rule("math.isinf", "math.isfinite", repeats=True)
def _test_infinity(operation, operands):
    (x,) = operands
    wide = cast(x, "float32") if DTYPES[dtype_name(x)].is_half else x
    infinity = literal(float("inf"), dtype_name(wide))
    return (tirx.EQ if operation.name == "math.isinf" else tirx.LT)(tirx.abs(wide), infinity)


@_rule("math.ctpop")
def _count_ones(operation, operands):
    (x,) = operands
    # Counted in 64 bits, without the copies of the sign.
    return cast(tirx.popcount(cast(_unsigned(x), "uint64")), dtype_name(x))


@_rule("math.fpowi", is_expensive=True)
def _float_to_integer_power(operation, operands):
    x, exponent = operands
    return _in_float32(lambda base: tirx.pow(base, cast(exponent, dtype_name(base))))(x)


def integer_power(base: Expr, exponent: Expr, name: Callable[[Expr, str], Expr]) -> Expr:
    """``math.ipowi``: `base ** exponent` that wraps; a negative exponent gives 0 unless the base is 1 or -1.

    `name` makes a variable of an expression: there are two for every bit.
    """
    dtype = dtype_name(base)
    one, zero = literal(1, dtype), literal(0, dtype)
    power, square = one, name(base, "square")
    for bit in range(DTYPES[dtype].bits - 1):
        is_set = tirx.NE(tirx.bitwise_and(exponent, literal(1 << bit, dtype)), zero)
        power = name(_wrapped(tirx.Mul, power, tirx.Select(is_set, square, one)), "power")
        square = name(_wrapped(tirx.Mul, square, square), "square")
    # The power of 1 and -1 is right for any exponent in two's complement.
    is_unit = tirx.Or(tirx.EQ(base, one), tirx.EQ(base, literal(-1, dtype)))
    return tirx.Select(tirx.Or(tirx.GE(exponent, zero), is_unit), power, zero)


@_rule("arith.constant")
def _constant(operation, operands):
    number = scalar_constant(operation.attributes["value"])
    if number is None:
        raise UnsupportedOperationError("a tensor constant inside the body of an operation")
    return literal(number, result_dtype(operation))
