"""Expand elementary functions into scalar operations without branches, which LLVM vectorises in loops.

These are exp, log, tanh, erf and so on in fp32 and fp64, sine, cosine, tangent and powers in fp32, and instructions
for floor and ceil. The C library's functions would be called per element; all other functions stay.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from mlirtri.dialect.bindings.mlir import arith, ir, memref, operations_named
from mlirtri.lowering.elementary.circular import SCALAR_FUNCTIONS, quarters
from mlirtri.lowering.elementary.double import FUNCTIONS
from mlirtri.lowering.elementary.functions import BIAS, INFINITY_BITS, MANTISSA, horner
from mlirtri.lowering.mlir_common.cloning import replace

_WIDTHS = {"float32": 32, "float64": 64}
INTRINSICS = {
    "math.absf": "fabs", "math.floor": "floor", "math.ceil": "ceil", "math.trunc": "trunc", "math.sqrt": "sqrt",
    "math.roundeven": "roundeven", "math.copysign": "copysign", "math.fma": "fma",
}  # fmt: skip
"""Functions that are one or two instructions."""
TABLES = ("mlirtri_quarters_high", "mlirtri_quarters_low")
"""Symbols of the tables of `elementary.circular.quarters`."""


def rewrite(module: ir.Module) -> None:
    """Replace every scalar function that is branch-free arithmetic or an instruction."""
    dtypes = {ir.F32Type.get(): "float32", ir.F64Type.get(): "float64"}
    for operation in operations_named(module, "math.*"):
        name, dtype = operation.name, dtypes.get(operation.results[0].type)
        function, make = FUNCTIONS.get(name.removeprefix("math.")), None
        if name in INTRINSICS:
            make = partial(_intrinsic, INTRINSICS[name])
        elif function is not None and dtype in function.dtypes and not function.asks_library:
            make = partial(function.make, Scalars(dtype))
        elif dtype == "float32" and name.removeprefix("math.") in SCALAR_FUNCTIONS:
            make = partial(SCALAR_FUNCTIONS[name.removeprefix("math.")], Scalars(dtype))
        if make is not None and dtype is not None:
            with ir.InsertionPoint(operation), operation.location:
                value = make(*operation.operands)
            replace(operation, [value])
    _add_tables(module)


def _add_tables(module: ir.Module) -> None:
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
    """Operations on one number, with the interface of `elementary.tir_lanes.Lanes`."""

    scales = False
    product, quotient, sum, difference = map(staticmethod, (arith.mulf, arith.divf, arith.addf, arith.subf))
    plus, minus, both, either = map(staticmethod, (arith.addi, arith.subi, arith.andi, arith.ori))
    select = staticmethod(arith.select)
    floor, nearest, root, magnitude, with_sign, fma = (
        staticmethod(partial(_intrinsic, name)) for name in ("floor", "roundeven", "sqrt", "fabs", "copysign", "fma")
    )
    less, greater, equal, differ = (
        staticmethod(partial(arith.cmpf, arith.CmpFPredicate[name])) for name in ("OLT", "OGT", "OEQ", "UNE")
    )
    equal_booleans = staticmethod(partial(arith.cmpi, arith.CmpIPredicate.eq))

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

    polynomial = polynomial_by_pairs = horner

    def between(self, x: ir.Value, low: float, high: float) -> ir.Value:
        lower, upper = self.number(low), self.number(high)
        return self.select(self.greater(x, lower), self.select(self.less(x, upper), x, upper), lower)

    def shifted_right(self, x: ir.Value, count: int) -> ir.Value:
        return arith.shrsi(x, self.integral(count))

    def has_bit(self, x: ir.Value, position: int) -> ir.Value:
        mask = self.integral(1 << position)
        return arith.cmpi(arith.CmpIPredicate.eq, arith.andi(x, mask), mask)

    def bits(self, x: ir.Value) -> ir.Value:
        return arith.bitcast(self.integer, x)

    def from_bits(self, bits: ir.Value) -> ir.Value:
        return arith.bitcast(self.float, bits)

    def is_nan(self, x: ir.Value) -> ir.Value:
        infinity = self.integral(INFINITY_BITS[self.dtype])
        return arith.cmpi(arith.CmpIPredicate.sgt, self.bits(self.magnitude(x)), infinity)

    def integer_of(self, x: ir.Value) -> ir.Value:
        narrow = arith.fptosi(ir.IntegerType.get_signless(32), x)
        return narrow if narrow.type == self.integer else arith.extsi(self.integer, narrow)

    def float_of(self, k: ir.Value) -> ir.Value:
        short = ir.IntegerType.get_signless(32)
        return arith.sitofp(self.float, k if self.integer == short else arith.trunci(short, k))

    def power_of_two(self, k: ir.Value) -> ir.Value:
        biased = self.plus(k, self.integral(BIAS[self.dtype]))
        return self.from_bits(self.to_exponent(biased))

    def exponent_of(self, bits: ir.Value) -> ir.Value:
        return self.shifted_right(bits, MANTISSA[self.dtype])

    def to_exponent(self, k: ir.Value) -> ir.Value:
        return arith.shli(k, self.integral(MANTISSA[self.dtype]))

    def converted(self, x: ir.Value) -> ir.Value:
        return arith.extf(self.float, x) if self.dtype == "float64" else arith.truncf(self.float, x)

    def negated(self, condition: ir.Value) -> ir.Value:
        return arith.xori(condition, arith.constant(ir.IntegerType.get_signless(1), 1))

    def where_all(self, _condition: ir.Value, near: ir.Value, _name: str, *_operands: ir.Value) -> ir.Value:
        """Return what holds for most operands; the caller handles the others."""
        return near

    def clamped(self, x: ir.Value, low: int, high: int) -> ir.Value:
        return arith.minsi(arith.maxsi(x, self.integral(low)), self.integral(high))

    def with_exponent(self, x: ir.Value, exponent: int) -> ir.Value:
        """Return the number with another exponent."""
        shift = MANTISSA[self.dtype]
        mantissa = arith.andi(self.bits(x), self.integral(~((2 * BIAS[self.dtype] + 1) << shift)))
        return self.from_bits(arith.ori(mantissa, self.integral((exponent + BIAS[self.dtype]) << shift)))

    def table(self, part: str, index: ir.Value) -> ir.Value:
        """Return an element of `quarters`: of its ``high`` or of its ``low`` part."""
        name = next(symbol for symbol in TABLES if symbol.endswith(part))
        kind = ir.MemRefType.get([len(quarters()[0])], ir.F64Type.get())
        return memref.load(memref.get_global(kind, name), [arith.index_cast(ir.IndexType.get(), index)])
