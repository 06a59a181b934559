"""Functions that TIR calls by name as operations of `math`: `tirx.exp`, C's ``expm1f``, `tirx.sigmoid`.

A function takes the dtype and values of its operands and returns a value. fp16 and bf16 are computed in fp32 and
rounded once, as TVM's C functions and the other stages do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlirtri.dialect.bindings.mlir import arith, ir, math

Function = Callable[[str, Sequence[ir.Value]], ir.Value]
IDENTITIES = frozenset({"likely", "llvm.arithmetic.fence"})
"""Functions that return their last operand."""
C_NAMES = {"round": "round_away"}
"""C functions that differ from TIR's of the same name, which rounds ties to even."""
_MATH = {
    "abs": math.absf, "fabs": math.absf, "acos": math.acos, "acosh": math.acosh, "asin": math.asin,
    "asinh": math.asinh, "atan": math.atan, "atan2": math.atan2, "atanh": math.atanh, "cbrt": math.cbrt,
    "ceil": math.ceil, "copysign": math.copysign, "cos": math.cos, "cosh": math.cosh, "erf": math.erf,
    "erfc": math.erfc, "exp": math.exp, "exp2": math.exp2, "expm1": math.expm1, "floor": math.floor, "fma": math.fma,
    "fmod": arith.remf, "log": math.log, "log10": math.log10, "log1p": math.log1p, "log2": math.log2,
    "nearbyint": math.roundeven, "rint": math.roundeven, "pow": math.powf, "round": math.roundeven,
    "round_away": math.round, "sin": math.sin,
    "sinh": math.sinh, "sqrt": math.sqrt, "tan": math.tan, "tanh": math.tanh, "trunc": math.trunc,
}  # fmt: skip


def _number(value: float, like: ir.Value) -> ir.Value:
    return arith.constant(like.type, ir.FloatAttr.get(like.type, value))


def _sigmoid(x: ir.Value) -> ir.Value:
    one = _number(1.0, x)
    return arith.divf(one, arith.addf(one, math.exp(arith.negf(x))))


def _hypot(x: ir.Value, y: ir.Value) -> ir.Value:
    return math.sqrt(arith.addf(arith.mulf(x, x), arith.mulf(y, y)))


def _compare(name: str, x: ir.Value, y: ir.Value) -> ir.Value:
    return arith.cmpf(getattr(arith.CmpFPredicate, name), x, y)


_COMPOSED = {
    "rsqrt": lambda x: arith.divf(_number(1.0, x), math.sqrt(x)),
    "sigmoid": _sigmoid,
    "exp10": lambda x: math.powf(_number(10.0, x), x),
    "hypot": _hypot,
    "isnan": lambda x: _compare("UNO", x, x),
    "isinf": lambda x: _compare("OEQ", math.absf(x), _number(float("inf"), x)),
    "isfinite": lambda x: _compare("OLT", math.absf(x), _number(float("inf"), x)),
}
_BITS = {"popcount": math.ctpop, "clz": math.ctlz}


def _in_float32(compute: Callable[..., ir.Value]) -> Function:
    def call(dtype: str, operands: Sequence[ir.Value]) -> ir.Value:
        if dtype not in ("float16", "bfloat16"):
            return compute(*operands)
        kind = operands[0].type
        result = compute(*(arith.extf(ir.F32Type.get(), operand) for operand in operands))
        return result if isinstance(result.type, ir.IntegerType) else arith.truncf(kind, result)

    return call


FUNCTIONS: dict[str, Function] = {name: _in_float32(compute) for name, compute in (_MATH | _COMPOSED).items()}
FUNCTIONS |= {name: lambda _, operands, count=count: count(*operands) for name, count in _BITS.items()}
