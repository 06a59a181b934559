"""Arithmetic on TIR expressions in forms that TVM's simplifier keeps exact, and predicates for where it is needed.

TVM's simplifier treats floats as reals and int32 and int64 as unbounded; its own conversion to bf16 turns some NaNs
into numbers and duplicates its operand.
"""

from __future__ import annotations

from collections.abc import Callable

from mlirtri.lowering.tir.statements import loads_in
from mlirtri.lowering.toolchain.tvm_names import Expr, Stmt, TensorLoad, structural_equal, tirx

TWICE_AS_WIDE = {"int32": "int64", "int64": "int128"}
"""Integer dtypes that TVM assumes never overflow, and the dtype that holds every sum and product of two such values."""


def difference(x: Expr, y: Expr) -> Expr:
    """Return x + y * -1 for x - y: TVM cancels floats, ``x - x`` to 0 (wrong for NaN), ``(x + y) - x`` to y."""
    dtype = str(y.ty.dtype)
    if isinstance(y, tirx.FloatImm):
        return tirx.Add(x, tirx.FloatImm(dtype, -y.value))
    return tirx.Add(x, tirx.Mul(y, tirx.FloatImm(dtype, -1.0)))


def wrapped(node: Callable[[Expr, Expr], Expr], x: Expr, y: Expr) -> Expr:
    """Return a wrapping sum, difference or product of integers: computed in twice the width, then truncated.

    TVM's LLVM code marks overflow of 32 and 64 bits as undefined, signed and unsigned alike, and its simplifier relies
    on that. LLVM narrows the code again.
    """
    dtype = str(x.ty.dtype)
    if dtype not in TWICE_AS_WIDE:
        return node(x, y)
    wide = TWICE_AS_WIDE[dtype]
    return tirx.Cast(dtype, node(tirx.Cast(wide, x), tirx.Cast(wide, y)))


def is_exact(x: Expr, y: Expr) -> bool:
    """Return whether a sum, difference or product of integers cannot overflow: both were widened from half.

    The result of `wrapped` is such. If each sum were widened once more, a chain of sums would take TVM minutes.
    """
    return all(_is_from_half(operand) for operand in (x, y))


def _is_from_half(x: Expr) -> bool:
    half = {wide: narrow for narrow, wide in TWICE_AS_WIDE.items()}.get(str(x.ty.dtype))
    if half is None:
        return False
    if isinstance(x, tirx.IntImm):
        return -(1 << 31) <= x.value < 1 << 31
    return isinstance(x, tirx.Cast) and str(x.value.ty.dtype) == half


def widened_bfloat16(bits: Expr) -> Expr:
    """Return the fp32 value of a bf16's bits (uint16), which are its upper half."""
    return tirx.reinterpret("float32", tirx.shift_left(tirx.Cast("uint32", bits), _word(16)))


def rounded_to_bfloat16(bits: Expr) -> Expr:
    """Return the bits (uint16) of the bf16 nearest to an fp32 value, ties to even; NaN stays NaN.

    `bits` are the fp32 value's as uint32, preferably a variable, because they are used twice.
    """
    odd = tirx.bitwise_and(tirx.shift_right(bits, _word(16)), _word(1))
    nearest = tirx.shift_right(bits + odd + _word(0x7FFF), _word(16))
    magnitude = tirx.reinterpret("int32", tirx.bitwise_and(bits, _word(0x7FFFFFFF)))
    is_nan = magnitude > tirx.IntImm("int32", 0x7F800000)
    return tirx.Cast("uint16", tirx.Select(is_nan, _word(0x7FC0), nearest))


def _word(number: int) -> Expr:
    return tirx.IntImm("uint32", number)


def is_update(store: Stmt) -> bool:
    """Return whether a store of a sum or product accumulates into the element that it stores."""
    return any(
        isinstance(operand, TensorLoad)
        and operand.source.same_as(store.buffer)
        and all(structural_equal(i, j) for i, j in zip(operand.indices, store.indices, strict=True))
        for operand in (store.value.a, store.value.b)
    )


def reads_memory(expression: Expr) -> bool:
    """Return whether the expression has a load; without one it consists of loop indices and constants."""
    return bool(loads_in(expression))
