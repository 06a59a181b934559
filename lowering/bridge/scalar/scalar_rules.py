"""The table of scalar rules, and what they share: operations of arith and math on single elements to TIR expressions.

Exact where TVM is not: its simplifier treats floats as reals and int32/int64 as unbounded, so expressions are built
such that it does not change their value. `integers` and `floats` fill the table; selects,
constants and conversions stand here.

    arith.maximumf %a, %b   ──►   T.Select(a > b or T.isnan(a), a, b)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlirtri.dialect.base.dtypes import DTYPES
from mlirtri.dialect.base.registry import Registry
from mlirtri.dialect.bindings.mlir import ir
from mlirtri.errors import UnsupportedOperationError
from mlirtri.lowering.mlir_common.reading import dtype_of, scalar_constant
from mlirtri.lowering.tir.arithmetic import rounded_to_bfloat16, widened_bfloat16
from mlirtri.lowering.toolchain.tvm_names import ir as tvm_ir
from mlirtri.lowering.toolchain.tvm_names import tirx

Expr = Any
Build = Callable[[ir.Operation, Sequence[Expr]], Expr]


@dataclass(frozen=True)
class ScalarRule:
    """A rule that makes one operation an expression."""

    build: Build
    repeats: bool = False
    """The expression repeats an operand, which should then be a variable."""
    is_expensive: bool = False
    """The result becomes a variable when it is used twice."""


SCALAR_RULES: Registry[str, ScalarRule] = Registry("scalar TIR rule")


def scalar_rule(*names: str, repeats: bool = False, is_expensive: bool = False) -> Callable[[Build], Build]:
    """Register a function ``(operation, operands) -> expression`` for these operations."""

    def register(build: Build) -> Build:
        for name in names:
            SCALAR_RULES.add(name, ScalarRule(build, repeats, is_expensive))
        return build

    return register


def literal(number: float | int | bool, dtype: str) -> Expr:
    """Return a TIR constant; integers wrap to the width of the dtype, and floats beyond it are infinite."""
    if dtype.startswith(("float", "bfloat")):
        with np.errstate(over="ignore"):
            number = float(np.float64(number).astype(DTYPES[dtype].numpy)) if dtype in DTYPES else float(number)
        return tirx.FloatImm(dtype, number)
    if dtype == "bool":
        return tirx.IntImm("bool", int(bool(number)))
    bits = DTYPES[dtype].bits
    number = int(number) & ((1 << bits) - 1)
    is_negative = not dtype.startswith("u") and number >> (bits - 1)
    return tirx.const(number - (1 << bits) if is_negative else number, dtype)


def dtype_name(expression: Expr) -> str:
    return str(expression.ty)


def cast(expression: Expr, dtype: str) -> Expr:
    """Return an expression in another dtype; constants stay constants."""
    if dtype_name(expression) == dtype:
        return expression
    if isinstance(expression, tirx.FloatImm) and dtype.startswith(("float", "bfloat")):
        # A literal, not a cast of one: rules look for constants.
        with np.errstate(over="ignore"):
            return tirx.FloatImm(dtype, float(np.float64(expression.value).astype(DTYPES[dtype].numpy)))
    if dtype == "bfloat16" and not isinstance(expression, tirx.FloatImm):
        bits = tirx.Var("bits", "uint32")
        half = tirx.reinterpret("bfloat16", rounded_to_bfloat16(bits))
        return tirx.Let(bits, tirx.reinterpret("uint32", cast(expression, "float32")), half)
    if dtype_name(expression) == "bfloat16" and not isinstance(expression, tirx.FloatImm):
        # TVM does not widen the arguments of external calls.
        return cast(widened_bfloat16(tirx.reinterpret("uint16", expression)), dtype)
    return tirx.Cast(dtype, expression)


def result_dtype(operation: ir.Operation) -> str:
    return dtype_of(operation.results[0].type)


def unsigned(expression: Expr) -> Expr:
    """Return the same bits as an unsigned integer; undoes `signed`."""
    dtype = dtype_name(expression)
    return expression if dtype == "bool" or dtype.startswith("u") else same_bits(expression, f"u{dtype}")


def signed(expression: Expr) -> Expr:
    return same_bits(expression, dtype_name(expression).removeprefix("u"))


def is_reinterpretation(expression: Expr) -> bool:
    return isinstance(expression, tvm_ir.Call) and expression.op.same_as(tvm_ir.Op.get("tirx.reinterpret"))


def same_bits(expression: Expr, dtype: str) -> Expr:
    """Reinterpret the bits, opaquely to TVM's analyzer, for which a cast of an unsigned sum is positive."""
    if dtype_name(expression) == dtype:
        return expression
    if isinstance(expression, tirx.IntImm):
        return literal(expression.value, dtype)
    if is_reinterpretation(expression) and dtype_name(expression.args[0]) == dtype:
        return expression.args[0]
    return tirx.reinterpret(dtype, expression)


def in_float32(compute: Callable[..., Expr]) -> Callable[..., Expr]:
    """Apply `compute` to operands widened from a half type, and round its result back."""

    def build(*operands: Expr) -> Expr:
        dtype = dtype_name(operands[0])
        if not DTYPES[dtype].is_half:
            return compute(*operands)
        return cast(compute(*(cast(operand, "float32") for operand in operands)), dtype)

    return build


def hide_zero(expression: Expr) -> Expr:
    """Hide a float zero from TVM, which folds ``x * 0`` and ``0 / x`` to 0, NaN or not, and fails on ``x / 0``."""
    dtype = dtype_name(expression)
    if not isinstance(expression, tirx.FloatImm) or expression.value != 0:
        return expression
    bits = DTYPES[dtype].bits
    # TVM has no code for a reinterpretation of integer 0, so that +0.0 is the magnitude of -0.0.
    # And TVMScript cannot read 2**63 as an unsigned number.
    negative_zero = tirx.reinterpret(dtype, literal(1 << (bits - 1), "int64" if bits == 64 else f"uint{bits}"))
    # str(-0.0) keeps the sign that `== 0` does not see.
    return negative_zero if str(expression.value).startswith("-") else tirx.abs(negative_zero)


def is_nan(x: Expr) -> Expr:
    return tirx.isnan(cast(x, "float32") if DTYPES[dtype_name(x)].is_half else x)


@scalar_rule("arith.select")
def _select(operation, operands):
    condition, x, y = operands
    if isinstance(condition, tirx.IntImm):
        return x if condition.value else y
    if all(isinstance(arm, tirx.FloatImm) and arm.value == 0 for arm in (x, y)):
        x, y = hide_zero(x), hide_zero(y)  # TVM takes 0.0 and -0.0 for one constant
    return tirx.Select(condition, x, y)


@scalar_rule("arith.constant")
def _constant(operation, operands):
    number = scalar_constant(operation.attributes["value"])
    if number is None:
        raise UnsupportedOperationError("a tensor constant inside the body of an operation")
    return literal(number, result_dtype(operation))


@scalar_rule("arith.extf", "arith.extsi", "arith.fptosi", "arith.sitofp", "arith.truncf", "arith.index_cast")
def _convert(operation, operands):
    (x,) = operands
    dtype = result_dtype(operation)
    is_half = DTYPES[dtype_name(x)].is_half
    if dtype_name(x) == "bool":
        return tirx.Select(x, literal(-1, dtype), literal(0, dtype))
    return cast(cast(x, "float32"), dtype) if is_half else cast(x, dtype)


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
