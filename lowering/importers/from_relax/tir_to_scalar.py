"""Translate TIR expressions to `arith` and `math` on scalars, at the insertion point: the inverse of `scalar_to_tir`.

Sums computed in twice the width to wrap become plain ones, which wrap in MLIR. Both arms of an `if_then_else` are
evaluated: loads stay in bounds, and a divisor is never zero there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlirtri.dialect.bindings.mlir import arith, ir, math
from mlirtri.errors import UnsupportedOperationError
from mlirtri.lowering.importers.from_relax.types import (
    bits_of,
    constant,
    converted,
    dtype_of,
    is_float,
    is_signed,
    mlir_type,
)
from mlirtri.lowering.mlir_common.index_values import index_constant
from mlirtri.lowering.toolchain.tvm_names import Analyzer, Buffer, Expr, TensorLoad, Var, tirx
from mlirtri.lowering.toolchain.tvm_names import ir as tvm_ir

Load = Callable[[Buffer, Sequence[Expr]], ir.Value]
_CMPF = {"EQ": "OEQ", "NE": "UNE", "LT": "OLT", "LE": "OLE", "GT": "OGT", "GE": "OGE"}
_CMPI = {"EQ": "eq", "NE": "ne", "LT": "slt", "LE": "sle", "GT": "sgt", "GE": "sge"}
_FLOATS = {"Add": arith.addf, "Sub": arith.subf, "Mul": arith.mulf, "Div": arith.divf, "Mod": arith.remf}
_WRAPPING = {"Add": arith.addi, "Sub": arith.subi, "Mul": arith.muli}
"""Operations whose low bits do not depend on the high bits of their operands."""
_BITS = {
    "And": arith.andi, "Or": arith.ori, "BitwiseAnd": arith.andi, "BitwiseOr": arith.ori, "BitwiseXor": arith.xori,
    "LShift": arith.shli,
}  # fmt: skip
_DIVISIONS = {
    ("Div", True): arith.divsi, ("Mod", True): arith.remsi, ("FloorDiv", True): arith.floordivsi,
    ("Div", False): arith.divui, ("FloorDiv", False): arith.divui, ("Mod", False): arith.remui,
    ("FloorMod", False): arith.remui,
}  # fmt: skip


class Scalars:
    """The translation of expressions: the values of variables, the emitter of loads, and the known ranges."""

    def __init__(self, load: Load, analyzer: Analyzer):
        self.load = load
        self.analyzer = analyzer
        self.variables: dict[Var, ir.Value] = {}
        """TIR variables, in their own dtype."""
        self.indices: dict[Var, ir.Value] = {}
        """Loop variables and sizes, as `index`."""
        self._emitted_values: dict[int, tuple[Expr, ir.Value]] = {}
        self._is_guarded = False
        self._depth = 0

    def evaluate(self, expression: Expr) -> ir.Value:
        """Return the value of an expression, at a point where memory may have changed since the last call."""
        return self._evaluated(self.value, expression)

    def value(self, expression: Expr) -> ir.Value:
        """Return the value of a part of the current expression; shared parts are emitted once."""
        emitted = self._emitted_values.get(hash(expression))
        # Constants of different dtypes have one hash.
        if emitted is None or not emitted[0].same_as(expression):
            emitted = self._emitted_values[hash(expression)] = (expression, self._emitted(expression))
        return emitted[1]

    def index(self, expression: Expr) -> ir.Value:
        """Return the value of an integer as `index`; loop variables and sizes need no cast."""
        return self._index(expression) if self._depth else self._evaluated(self._index, expression)

    def _evaluated(self, make: Callable[[Expr], ir.Value], expression: Expr) -> ir.Value:
        self._emitted_values.clear()
        self._depth += 1
        try:
            return make(expression)
        finally:
            self._depth -= 1
            self._emitted_values.clear()

    def _index(self, expression: Expr) -> ir.Value:
        if isinstance(expression, tirx.IntImm):
            return index_constant(int(expression.value))
        if isinstance(expression, tirx.Var) and expression in self.indices:
            return self.indices[expression]
        kind = type(expression).__name__
        if kind in _WRAPPING:
            return _WRAPPING[kind](self._index(expression.a), self._index(expression.b))
        if kind in ("FloorDiv", "FloorMod") and self.is_nonnegative(expression):
            return _NONNEGATIVE[kind](self._index(expression.a), self._index(expression.b))
        cast = arith.index_cast if is_signed(dtype_of(expression)) else arith.index_castui
        return cast(ir.IndexType.get(), self.value(expression))

    def is_nonnegative(self, expression: Expr) -> bool:
        """Return whether a division has a dividend that is not negative and a positive divisor."""
        return self.least(expression.a) >= 0 and self.least(expression.b) > 0

    def least(self, expression: Expr) -> int:
        """Return the smallest value that an integer can have."""
        return int(self.analyzer.const_int_bound(expression).min_value)

    def is_below(self, expression: Expr, size: Expr) -> bool:
        """Return whether an index is proven to be smaller than a size."""
        return bool(self.analyzer.can_prove(expression < size))

    def _emitted(self, node: Expr) -> ir.Value:
        kind = type(node).__name__
        if isinstance(node, (tirx.IntImm, tirx.FloatImm)):
            return constant(node.value, dtype_of(node))
        if isinstance(node, tirx.Var):
            return self._variable(node)
        if isinstance(node, TensorLoad):
            return self.load(node.source, list(node.indices))
        if isinstance(node, tvm_ir.Call):
            return self._call(node)
        if kind in _NODES:
            return _NODES[kind](self, node)
        if hasattr(node, "a") and hasattr(node, "b"):
            return self._binary(kind, node)
        raise UnsupportedOperationError(f"TIR's {kind} has no counterpart in linalg")

    def _variable(self, node: Expr) -> ir.Value:
        if node in self.variables:
            return self.variables[node]
        if node not in self.indices:
            raise UnsupportedOperationError(f"the TIR variable {node.name} is not defined")
        return arith.index_cast(mlir_type(dtype_of(node)), self.indices[node])

    def _binary(self, kind: str, node: Expr) -> ir.Value:
        dtype = dtype_of(node.a)
        if kind in _CMPI:
            return self._comparison(kind, dtype, self.value(node.a), self.value(node.b))
        if kind in ("Min", "Max"):
            return self._extremum(kind, dtype, node)
        if is_float(dtype) and kind in ("FloorDiv", "FloorMod"):
            return self._float_division(kind, node)
        if kind in ("Div", "Mod", "FloorDiv", "FloorMod") and not is_float(dtype):
            return self._division(kind, dtype, node)
        table = _FLOATS if is_float(dtype) else {**_WRAPPING, **_BITS, "RShift": _right_shift(dtype)}
        if kind not in table:
            raise UnsupportedOperationError(f"TIR's {kind} of {dtype} has no counterpart in linalg")
        return table[kind](self.value(node.a), self.value(node.b))

    def _comparison(self, kind: str, dtype: str, x: ir.Value, y: ir.Value) -> ir.Value:
        if is_float(dtype):
            return _compared(arith.CmpFPredicate, arith.cmpf, _CMPF[kind], x, y)
        name = _CMPI[kind] if is_signed(dtype) or kind in ("EQ", "NE") else f"u{_CMPI[kind][1:]}"
        return _compared(arith.CmpIPredicate, arith.cmpi, name, x, y)

    def _extremum(self, kind: str, dtype: str, node: Expr) -> ir.Value:
        # As TVM computes it, also for NaN: the first operand only where it compares beyond the second.
        x, y = self.value(node.a), self.value(node.b)
        if not is_float(dtype):
            return _INTEGER_EXTREMA[kind, is_signed(dtype)](x, y)
        return arith.select(self._comparison("GT" if kind == "Max" else "LT", dtype, x, y), x, y)

    def _float_division(self, kind: str, node: Expr) -> ir.Value:
        dtype, x, y = dtype_of(node.a), self.value(node.a), self.value(node.b)
        quotient = FUNCTIONS["floor"](dtype, [arith.divf(x, y)])
        return quotient if kind == "FloorDiv" else arith.subf(x, arith.mulf(quotient, y))

    def _division(self, kind: str, dtype: str, node: Expr) -> ir.Value:
        x, y = self.value(node.a), self.value(node.b)
        if self._is_guarded and not self._is_positive(node.b):
            y = self._safe_divisor(dtype, x, y)
        if is_signed(dtype) and kind in _NONNEGATIVE and self.is_nonnegative(node):
            return _NONNEGATIVE[kind](x, y)
        if (kind, is_signed(dtype)) in _DIVISIONS:
            return _DIVISIONS[kind, is_signed(dtype)](x, y)
        remainder, zero = arith.remsi(x, y), constant(0, dtype)
        is_off = arith.andi(
            self._comparison("NE", dtype, remainder, zero),
            arith.xori(self._comparison("LT", dtype, remainder, zero), self._comparison("LT", dtype, y, zero)),
        )
        return arith.select(is_off, arith.addi(remainder, y), remainder)

    def _is_positive(self, expression: Expr) -> bool:
        return bits_of(dtype_of(expression)) <= 64 and self.least(expression) > 0

    def _safe_divisor(self, dtype: str, x: ir.Value, y: ir.Value) -> ir.Value:
        is_undefined = self._comparison("EQ", dtype, y, constant(0, dtype))
        if is_signed(dtype):
            lowest = self._comparison("EQ", dtype, x, constant(1 << (bits_of(dtype) - 1), dtype))
            overflows = arith.andi(lowest, self._comparison("EQ", dtype, y, constant(-1, dtype)))
            is_undefined = arith.ori(is_undefined, overflows)
        return arith.select(is_undefined, constant(1, dtype), y)

    def _not(self, node: Expr) -> ir.Value:
        return arith.xori(self.value(node.a), constant(True, "bool"))

    def _let(self, node: Expr) -> ir.Value:
        self.variables[node.var] = self.value(node.value)
        return self.value(node.body)

    def _select(self, node: Expr) -> ir.Value:
        return arith.select(*(self.value(operand) for operand in (node.condition, node.true_value, node.false_value)))

    def _cast(self, node: Expr) -> ir.Value:
        source, target = dtype_of(node.value), dtype_of(node)
        if source == target:
            return self.value(node.value)
        if target == "bool":
            return self._comparison("NE", source, self.value(node.value), constant(0, source))
        if not is_float(source) and not is_float(target) and bits_of(target) < bits_of(source):
            return self._low_bits(node.value, target)
        return converted(self.value(node.value), source, target)

    def _low_bits(self, node: Expr, target: str) -> ir.Value:
        """Return the low bits of an integer; those of sums and products need the low bits of their operands only."""
        source, kind = dtype_of(node), type(node).__name__
        if bits_of(source) == bits_of(target):
            return self.value(node)
        if kind in _WRAPPING:
            return _WRAPPING[kind](self._low_bits(node.a, target), self._low_bits(node.b, target))
        if isinstance(node, tirx.IntImm):
            return constant(node.value, target)
        if isinstance(node, tirx.Cast) and not is_float(dtype_of(node.value)):
            inner = dtype_of(node.value)
            if inner != "bool" and bits_of(inner) >= bits_of(target):
                return self._low_bits(node.value, target)
            return converted(self.value(node.value), inner, target)
        return arith.trunci(mlir_type(target), self.value(node))

    def _call(self, node: Expr) -> ir.Value:
        name = str(getattr(node.op, "name", node.op)).rpartition(".")[2]
        if name == "if_then_else":
            return self._if_then_else(node)
        if name == "reinterpret":
            return _same_bits(self.value(node.args[0]), dtype_of(node))
        if name == "popcount" or name == "clz":
            return self._counted_bits(name, node)
        operands = list(node.args)
        if name in ("call_pure_extern", "call_extern"):
            name, operands = str(operands[0].value), operands[1:]
            name = name[:-1] if name.endswith("f") and name[:-1] in FUNCTIONS else name
            name = C_NAMES.get(name, name)
        if name in IDENTITIES:
            return self.value(operands[-1])
        if name not in FUNCTIONS:
            raise UnsupportedOperationError(f"TIR's function {name} has no counterpart in MLIR")
        if not is_float(dtype_of(operands[0])):
            return self._integer_function(name, operands)
        return FUNCTIONS[name](dtype_of(operands[0]), [self.value(operand) for operand in operands])

    def _if_then_else(self, node: Expr) -> ir.Value:
        condition, then, otherwise = node.args
        test = self.value(condition)
        outer, self._is_guarded = self._is_guarded, True
        values = self.value(then), self.value(otherwise)
        self._is_guarded = outer
        return arith.select(test, *values)

    def _counted_bits(self, name: str, node: Expr) -> ir.Value:
        source = dtype_of(node.args[0])
        counted = FUNCTIONS[name](source, [self.value(node.args[0])])
        return converted(counted, f"u{source}" if is_signed(source) else source, dtype_of(node))

    def _integer_function(self, name: str, operands: list[Expr]) -> ir.Value:
        dtype, [x] = dtype_of(operands[0]), [self.value(operands[0])]
        if name in ("fabs", "abs"):
            zero = constant(0, dtype)
            return arith.select(self._comparison("LT", dtype, x, zero), arith.subi(zero, x), x)
        if name in ("floor", "ceil", "trunc", "round", "nearbyint"):
            return x
        raise UnsupportedOperationError(f"TIR's function {name} of {dtype} has no counterpart in MLIR")


def _same_bits(value: ir.Value, target: str) -> ir.Value:
    kind = mlir_type(target)
    return value if value.type == kind else arith.bitcast(kind, value)


def _compared(predicates: type, build: Callable[..., ir.Value], name: str, x: ir.Value, y: ir.Value) -> ir.Value:
    return build(getattr(predicates, name), x, y)


def _right_shift(dtype: str) -> Callable[..., ir.Value]:
    return arith.shrsi if is_signed(dtype) else arith.shrui


_NONNEGATIVE = {"FloorDiv": arith.divsi, "FloorMod": arith.remsi}
"""Divisions without negative operands, for which both roundings agree."""
_INTEGER_EXTREMA = {
    ("Min", True): arith.minsi, ("Max", True): arith.maxsi, ("Min", False): arith.minui, ("Max", False): arith.maxui,
}  # fmt: skip
_NODES = {
    "Not": Scalars._not, "Let": Scalars._let, "Select": Scalars._select, "Cast": Scalars._cast,
    "BitwiseNot": lambda self, node: arith.xori(self.value(node.a), constant(-1, dtype_of(node))),
}  # fmt: skip


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


def _float_comparison(name: str, x: ir.Value, y: ir.Value) -> ir.Value:
    return arith.cmpf(getattr(arith.CmpFPredicate, name), x, y)


_COMPOSED = {
    "rsqrt": lambda x: arith.divf(_number(1.0, x), math.sqrt(x)),
    "sigmoid": _sigmoid,
    "exp10": lambda x: math.powf(_number(10.0, x), x),
    "hypot": _hypot,
    "isnan": lambda x: _float_comparison("UNO", x, x),
    "isinf": lambda x: _float_comparison("OEQ", math.absf(x), _number(float("inf"), x)),
    "isfinite": lambda x: _float_comparison("OLT", math.absf(x), _number(float("inf"), x)),
}
_BIT_COUNTS = {"popcount": math.ctpop, "clz": math.ctlz}


def _in_float32(compute: Callable[..., ir.Value]) -> Function:
    def call(dtype: str, operands: Sequence[ir.Value]) -> ir.Value:
        if dtype not in ("float16", "bfloat16"):
            return compute(*operands)
        kind = operands[0].type
        result = compute(*(arith.extf(ir.F32Type.get(), operand) for operand in operands))
        return result if isinstance(result.type, ir.IntegerType) else arith.truncf(kind, result)

    return call


FUNCTIONS: dict[str, Function] = {name: _in_float32(compute) for name, compute in (_MATH | _COMPOSED).items()}
FUNCTIONS |= {name: lambda _, operands, count=count: count(*operands) for name, count in _BIT_COUNTS.items()}
