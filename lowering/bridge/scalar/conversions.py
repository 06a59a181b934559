"""Scalar rules of conversions between integers, floats and bool, and of bits taken as another type."""

from __future__ import annotations

from mlirtri.dialect.base.dtypes import DTYPES
from mlirtri.lowering.bridge.scalar.rules import (
    cast,
    dtype_name,
    literal,
    result_dtype,
    same_bits,
    scalar_rule,
    signed,
    unsigned,
)  # fmt: skip
from mlirtri.lowering.toolchain.tvm_names import tirx


@scalar_rule("arith.extf", "arith.fptosi", "arith.index_cast")
def _convert(operation, operands):
    (x,) = operands
    dtype = result_dtype(operation)
    is_half = DTYPES[dtype_name(x)].is_half
    if dtype_name(x) == "bool":
        return tirx.Select(x, literal(-1, dtype), literal(0, dtype))
    return cast(cast(x, "float32"), dtype) if is_half else cast(x, dtype)


@scalar_rule("arith.truncf", "arith.extsi", "arith.sitofp")
def _convert_signed(operation, operands):
    (x,) = operands
    dtype = result_dtype(operation)
    if dtype_name(x) == "bool":
        return tirx.Select(x, literal(-1, dtype), literal(0, dtype))
    return cast(x, dtype)


@scalar_rule("arith.extui", "arith.uitofp", "arith.index_castui")
def _convert_unsigned(operation, operands):
    (x,) = operands
    return cast(unsigned(x), result_dtype(operation))


@scalar_rule("arith.fptoui")
def _float_to_unsigned(operation, operands):
    (x,) = operands
    dtype = result_dtype(operation)
    if dtype == "bool":
        return tirx.NE(cast(x, "float64"), literal(0, "float64"))
    wide = cast(x, "float32") if DTYPES[dtype_name(x)].is_half else x
    return signed(cast(wide, f"u{dtype}"))


@scalar_rule("arith.trunci")
def _narrow(operation, operands):
    (x,) = operands
    dtype = result_dtype(operation)
    if dtype != "bool":
        return cast(x, dtype)
    wide = dtype_name(x)
    return tirx.NE(tirx.bitwise_and(x, literal(1, wide)), literal(0, wide))


@scalar_rule("arith.bitcast")
def _reinterpret(operation, operands):
    (x,) = operands
    dtype = result_dtype(operation)
    if dtype_name(x) == "bfloat16":
        # Reinterpret as uint16 first, as `bfloat16_storage` expects; TVM crashes on other variables.
        return same_bits(tirx.reinterpret("uint16", x), dtype)
    if dtype == "bfloat16":
        x = tirx.reinterpret("uint16", x) if dtype_name(x) == "float16" else unsigned(x)
    return tirx.reinterpret(dtype, x)
