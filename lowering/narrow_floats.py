"""Conversions from fp64 to fp16 and bf16 as arithmetic, since LLVM calls a function that C runtimes before 2022 lack.

Takes a module with scalar `arith.truncf`. Gives, in place, a conversion by way of fp32 that still rounds only once:
the step to fp32 rounds to odd (an inexact result gets an odd last bit), which keeps what the second step must know.
Refuses nothing; other conversions stay as they are.

Source of the method: S. Boldo, G. Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using
rounding to odd", IEEE Transactions on Computers 57(4), 2008.
"""

from __future__ import annotations

from mlirtri.dialect.mlir import arith, ir, operations_named


def rewrite(module: ir.Module) -> None:
    """Replace every scalar conversion of fp64 to a 16-bit float."""
    for operation in operations_named(module, "arith.truncf"):
        source, result = operation.operands[0], operation.results[0]
        if not (isinstance(source.type, ir.F64Type) and isinstance(result.type, (ir.F16Type, ir.BF16Type))):
            continue
        with ir.InsertionPoint(operation), operation.location:
            result.replace_all_uses_with(arith.truncf(result.type, _to_odd_float32(source)))
        operation.erase()


def _to_odd_float32(wide: ir.Value) -> ir.Value:
    """`wide` in fp32, rounded to odd: of the two neighbours of an inexact value, the one with an odd last bit."""
    float32, integer = ir.F32Type.get(), ir.IntegerType.get_signless(32)
    one = arith.constant(integer, 1)
    nearest = arith.truncf(float32, wide)
    bits, back = arith.bitcast(integer, nearest), arith.extf(wide.type, nearest)
    inexact = arith.cmpf(arith.CmpFPredicate.ONE, back, wide)  # false for NaN, which stays as it is
    even = arith.cmpi(arith.CmpIPredicate.eq, arith.andi(bits, one), arith.constant(integer, 0))
    too_small = arith.cmpf(arith.CmpFPredicate.OLT, _magnitude(back), _magnitude(wide))
    # Sign and magnitude: one more in the bits is the next number away from zero, infinity included.
    neighbour = arith.select(too_small, arith.addi(bits, one), arith.subi(bits, one))
    return arith.bitcast(float32, arith.select(arith.andi(inexact, even), neighbour, bits))


def _magnitude(value: ir.Value) -> ir.Value:
    zero = arith.constant(value.type, 0.0)
    return arith.select(arith.cmpf(arith.CmpFPredicate.OLT, value, zero), arith.negf(value), value)
