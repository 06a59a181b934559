"""Expand a module's elementary functions into scalar `arith` and `llvm` operations.

Takes a module of scalar code. Gives, in place, arithmetic without branches for exp, log, tanh, erf and so on in fp32
and fp64, for sine, cosine, tangent and powers in fp32 (`scalar_circles.py`), and instructions for floor and ceil. LLVM
vectorises these in loops; the C library's functions would be called per element. Other functions stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mlirtri.dialect.bindings.mlir import arith, ir, memref, operations_named
from mlirtri.lowering.elementary.circular import SCALAR_FUNCTIONS, quarters
from mlirtri.lowering.elementary.double import FUNCTIONS
from mlirtri.lowering.mlir.cloning import replace

_WIDTHS = {"float32": 32, "float64": 64}
_MANTISSA = {"float32": 23, "float64": 52}
_BIAS = {"float32": 127, "float64": 1023}
_INFINITY_BITS = {"float32": 0x7F800000, "float64": 0x7FF0000000000000}
INTRINSICS = {
    "math.absf": "fabs", "math.floor": "floor", "math.ceil": "ceil", "math.trunc": "trunc", "math.sqrt": "sqrt",
    "math.roundeven": "roundeven", "math.copysign": "copysign", "math.fma": "fma",
}  # fmt: skip
"""Functions that are one or two instructions."""
TABLES = ("mlirtri_quarters_high", "mlirtri_quarters_low")
"""Symbols of the tables of `scalar_circles.quarters`."""


def rewrite(module: ir.Module) -> None:
    """Replace every scalar function that is branch-free arithmetic or an instruction."""
    dtypes = {ir.F32Type.get(): "float32", ir.F64Type.get(): "float64"}
    for name, intrinsic in INTRINSICS.items():
        for operation in operations_named(module, name):
            if operation.results[0].type in dtypes:
                with ir.InsertionPoint(operation), operation.location:
                    value = _intrinsic(intrinsic, *operation.operands)
                replace(operation, [value])
    for name, function in FUNCTIONS.items():
        for operation in operations_named(module, f"math.{name}") if not function.asks_library else ():
            dtype = dtypes.get(operation.results[0].type)
            if dtype not in function.dtypes:
                continue
            with ir.InsertionPoint(operation), operation.location:
                value = function.make(Scalars(dtype), *operation.operands)
            replace(operation, [value])
    for name, make in SCALAR_FUNCTIONS.items():
        for operation in operations_named(module, f"math.{name}"):
            if dtypes.get(operation.results[0].type) == "float32":
                with ir.InsertionPoint(operation), operation.location:
                    value = make(Scalars("float32"), *operation.operands)
                replace(operation, [value])
    _add_tables(module)


def _add_tables(module: ir.Module) -> None:
    """Add the tables that `Scalars.table` reads, if it is used."""
    used = {operation.attributes["name"].value for operation in operations_named(module, "memref.get_global")}
    for name, values in zip(TABLES, quarters(), strict=True):
        if name in used:
            with ir.InsertionPoint.at_block_begin(module.body), ir.Location.unknown():
                kind = ir.MemRefType.get([len(values)], ir.F64Type.get())
                content = ir.DenseElementsAttr.get(np.array(values))
                private = ir.StringAttr.get("private")
                memref.GlobalOp(name, kind, sym_visibility=private, initial_value=content, constant=True)


def _intrinsic(name: str, *operands: ir.Value) -> ir.Value:
    return ir.Operation.create(f"llvm.intr.{name}", [operands[0].type], list(operands)).result


class Scalars:
    """Operations on one number, with the interface of `vector_lanes.Lanes`."""

    scales = False

    def __init__(self, dtype: str):
        self.dtype = dtype
        self.integer = ir.IntegerType.get_signless(_WIDTHS[dtype])
        self.float = ir.F32Type.get() if dtype == "float32" else ir.F64Type.get()

    def of_width(self, dtype: str) -> Scalars:
        return Scalars(dtype)

    def named(self, value: ir.Value) -> ir.Value:
        return value

    buffered = named

    def number(self, value: float) -> ir.Value:
        return arith.constant(self.float, float(value))

    def integral(self, value: int) -> ir.Value:
        return arith.constant(self.integer, value)

    def fma(self, x: ir.Value, y: ir.Value, z: ir.Value) -> ir.Value:
        return _intrinsic("fma", x, y, z)

    def product(self, x: ir.Value, y: ir.Value) -> ir.Value:
        return arith.mulf(x, y)

    def quotient(self, x: ir.Value, y: ir.Value) -> ir.Value:
        return arith.divf(x, y)

    def sum(self, x: ir.Value, y: ir.Value) -> ir.Value:
        return arith.addf(x, y)

    def difference(self, x: ir.Value, y: ir.Value) -> ir.Value:
        return arith.subf(x, y)

    def polynomial(self, x: ir.Value, coefficients: Sequence[float]) -> ir.Value:
        result = self.number(coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            result = self.fma(result, x, self.number(coefficient))
        return result

    def polynomial_by_pairs(self, x: ir.Value, coefficients: Sequence[float]) -> ir.Value:
        return self.polynomial(x, coefficients)

    def floor(self, x: ir.Value) -> ir.Value:
        return _intrinsic("floor", x)

    def nearest(self, x: ir.Value) -> ir.Value:
        return _intrinsic("roundeven", x)

    def root(self, x: ir.Value) -> ir.Value:
        return _intrinsic("sqrt", x)

    def between(self, x: ir.Value, low: float, high: float) -> ir.Value:
        lower, upper = self.number(low), self.number(high)
        return self.select(self.greater(x, lower), self.select(self.less(x, upper), x, upper), lower)

    def plus(self, x: ir.Value, y: ir.Value) -> ir.Value:
        return arith.addi(x, y)

    def minus(self, x: ir.Value, y: ir.Value) -> ir.Value:
        return arith.subi(x, y)

    def shifted_right(self, x: ir.Value, count: int) -> ir.Value:
        return arith.shrsi(x, self.integral(count))

    def has_bit(self, x: ir.Value, position: int) -> ir.Value:
        mask = self.integral(1 << position)
        return arith.cmpi(arith.CmpIPredicate.eq, arith.andi(x, mask), mask)

    def bits(self, x: ir.Value) -> ir.Value:
        return arith.bitcast(self.integer, x)

    def from_bits(self, bits: ir.Value) -> ir.Value:
        return arith.bitcast(self.float, bits)

    def magnitude(self, x: ir.Value) -> ir.Value:
        return _intrinsic("fabs", x)

    def with_sign(self, magnitude: ir.Value, sign: ir.Value) -> ir.Value:
        return _intrinsic("copysign", magnitude, sign)

    def is_nan(self, x: ir.Value) -> ir.Value:
        infinity = self.integral(_INFINITY_BITS[self.dtype])
        return arith.cmpi(arith.CmpIPredicate.sgt, self.bits(self.magnitude(x)), infinity)

    def integer_of(self, x: ir.Value) -> ir.Value:
        narrow = arith.fptosi(ir.IntegerType.get_signless(32), x)
        return narrow if narrow.type == self.integer else arith.extsi(self.integer, narrow)

    def float_of(self, k: ir.Value) -> ir.Value:
        short = ir.IntegerType.get_signless(32)
        return arith.sitofp(self.float, k if self.integer == short else arith.trunci(short, k))

    def power_of_two(self, k: ir.Value) -> ir.Value:
        biased = self.plus(k, self.integral(_BIAS[self.dtype]))
        return self.from_bits(self.to_exponent(biased))

    def exponent_of(self, bits: ir.Value) -> ir.Value:
        return self.shifted_right(bits, _MANTISSA[self.dtype])

    def to_exponent(self, k: ir.Value) -> ir.Value:
        return arith.shli(k, self.integral(_MANTISSA[self.dtype]))

    def converted(self, x: ir.Value) -> ir.Value:
        return arith.extf(self.float, x) if self.dtype == "float64" else arith.truncf(self.float, x)

    def less(self, x: ir.Value, y: ir.Value) -> ir.Value:
        return arith.cmpf(arith.CmpFPredicate.OLT, x, y)

    def greater(self, x: ir.Value, y: ir.Value) -> ir.Value:
        return arith.cmpf(arith.CmpFPredicate.OGT, x, y)

    def equal(self, x: ir.Value, y: ir.Value) -> ir.Value:
        return arith.cmpf(arith.CmpFPredicate.OEQ, x, y)

    def equal_booleans(self, first: ir.Value, second: ir.Value) -> ir.Value:
        return arith.cmpi(arith.CmpIPredicate.eq, first, second)

    def differ(self, x: ir.Value, y: ir.Value) -> ir.Value:
        return arith.cmpf(arith.CmpFPredicate.UNE, x, y)

    def negated(self, condition: ir.Value) -> ir.Value:
        return arith.xori(condition, arith.constant(ir.IntegerType.get_signless(1), 1))

    def both(self, first: ir.Value, second: ir.Value) -> ir.Value:
        return arith.andi(first, second)

    def either(self, first: ir.Value, second: ir.Value) -> ir.Value:
        return arith.ori(first, second)

    def select(self, condition: ir.Value, yes: ir.Value, no: ir.Value) -> ir.Value:
        return arith.select(condition, yes, no)

    def where_all(self, _condition: ir.Value, near: ir.Value, _name: str, *_operands: ir.Value) -> ir.Value:
        """Return what holds for most operands; the caller handles the others."""
        return near

    def clamped(self, x: ir.Value, low: int, high: int) -> ir.Value:
        return arith.minsi(arith.maxsi(x, self.integral(low)), self.integral(high))

    def with_exponent(self, x: ir.Value, exponent: int) -> ir.Value:
        """Return the number with another exponent."""
        shift = _MANTISSA[self.dtype]
        mantissa = arith.andi(self.bits(x), self.integral(~((2 * _BIAS[self.dtype] + 1) << shift)))
        return self.from_bits(arith.ori(mantissa, self.integral((exponent + _BIAS[self.dtype]) << shift)))

    def table(self, part: str, index: ir.Value) -> ir.Value:
        """Return an element of `quarters`: of its ``high`` or of its ``low`` part."""
        name = next(symbol for symbol in TABLES if symbol.endswith(part))
        kind = ir.MemRefType.get([len(quarters()[0])], ir.F64Type.get())
        return memref.load(memref.get_global(kind, name), [arith.index_cast(ir.IndexType.get(), index)])
