"""Keep bf16 in 16 bits where a kernel reinterprets its bits.

TVM's widening of bf16 to fp32 breaks two things: the bits of a bf16 expression, computed from its fp32 value here, and
bf16 variables and local buffers, which become uint16 here. A function that only computes in bf16 stays as it is.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from mlirtri.lowering.tir.arithmetic import rounded_to_bfloat16, widened_bfloat16
from mlirtri.lowering.tir.statements import operator_name, with_function_body
from mlirtri.lowering.toolchain.tvm_names import (
    Expr,
    Node,
    PrimFunc,
    SBlock,
    Stmt,
    TensorLoad,
    Var,
    ir,
    structural_map,
    structural_walk,
    tirx,
)

HALF, BITS = "bfloat16", "uint16"
USE = 0
"""The result of a structural map for a variable that is defined outside of the mapped node."""


def bits_dtype(dtype: str) -> str:
    """Return the dtype of local memory for the bits of elements of `dtype`: TVM's widening breaks bf16 buffers."""
    return BITS if dtype == HALF else dtype


def wide_dtype(dtype: str) -> str:
    """Return the dtype of local memory for values of `dtype`: TVM's widening breaks bf16 buffers."""
    return "float32" if dtype == HALF else dtype


def keep_bfloat16(function: PrimFunc) -> PrimFunc:
    """Return `function` with reinterpretations of bf16 as integer operations."""
    if not _has_bits(function):
        return function
    buffers = _buffers_read_as_bits(function)
    bits = set(buffers.values())

    def load(node):
        return _half(tirx.BufferLoad(node.source, node.indices)) if node.source in bits else node

    def store(node):
        return tirx.BufferStore(node.buffer, bits_of(node.value), node.indices) if node.buffer in bits else node

    def call(node):
        return bits_of(node.args[0]) if _is_reinterpret(node, HALF, BITS) else node

    def cast(node):
        if (bits_read := _bits_inside(node.value)) is None:
            return node
        wide = widened_bfloat16(bits_read)
        return wide if str(node.ty.dtype) == "float32" else tirx.Cast(node.ty.dtype, wide)

    rules = [
        (TensorLoad, load), (tirx.BufferStore, store), (ir.Call, call), (tirx.Cast, cast),
        ((tirx.Bind, tirx.Let), _bits_bound),
    ]  # fmt: skip
    variables = (tirx.Var, _Variables(buffers).replace)
    body = structural_map(function.body, rules, with_def_region_kind=variables, order="post")
    return with_function_body(function, body)


class _Variables:
    """Variables bound to bf16 values, which hold bits: TVM widens the value but not the variable."""

    def __init__(self, buffers: dict):
        self._fresh = dict(buffers)

    def replace(self, variable: Var, region: int) -> Any:
        if isinstance(variable.ty, ir.PrimType) and str(variable.ty.dtype) == HALF and variable not in self._fresh:
            self._fresh[variable] = tirx.Var(variable.name, BITS)
        fresh = self._fresh.get(variable, variable)
        is_value = isinstance(variable.ty, ir.PrimType) and not fresh.same_as(variable)
        return _half(fresh) if is_value and region == USE else fresh


def _bits_bound(node: Node) -> Any:
    if str(node.var.ty.dtype) != BITS or str(node.value.ty.dtype) != HALF:
        return node
    bits = bits_of(node.value)
    return tirx.Bind(node.var, bits) if isinstance(node, tirx.Bind) else tirx.Let(node.var, bits, node.body)


def _has_bits(function: PrimFunc) -> bool:
    """Return whether a function reinterprets or binds bf16 values: few do, and their rewriting visits each node."""
    found: list[Any] = []

    def call(node: Expr) -> None:
        if any(_is_reinterpret(node, *dtypes) for dtypes in ((HALF, BITS), (BITS, HALF), ("uint32", "float32"))):
            found.append(node)

    def bound(node: Node) -> None:
        if HALF in (str(node.var.ty.dtype), str(node.value.ty.dtype)):
            found.append(node)

    structural_walk(function.body, [(ir.Call, call), (tirx.Bind, bound), (tirx.Let, bound)], order="pre")
    return bool(found) or any(str(getattr(parameter.ty, "dtype", "")) == HALF for parameter in function.params)


def _buffers_read_as_bits(function: PrimFunc) -> dict:
    """Return the function's own bf16 buffers whose bits are read, each with the uint16 buffer that replaces it."""
    inner, sources = {}, []

    def note(where):
        for buffer in where.alloc_buffers if isinstance(where, SBlock) else [where.buffer]:
            if str(buffer.dtype) == HALF:
                inner[buffer] = tirx.decl_buffer(buffer.shape, BITS, buffer.name, scope=buffer.scope(), layout=None)

    def call(node):
        if _is_reinterpret(node, HALF, BITS) and isinstance(node.args[0], TensorLoad):
            sources.append(node.args[0].source)

    def named(node):
        if isinstance(node.value, TensorLoad):
            sources.append(node.value.source)

    rules = [(SBlock, note), (tirx.AllocBuffer, note), (ir.Call, call), (tirx.Bind, named), (tirx.Let, named)]
    structural_walk(function.body, rules, order="pre")
    return {buffer: inner[buffer] for buffer in sources if buffer in inner}


def bits_of(value: Expr) -> Expr:
    """Return the bits of a bf16 expression as uint16."""
    if isinstance(value, TensorLoad):
        return tirx.reinterpret(BITS, value)
    if isinstance(value, tirx.FloatImm):
        return tirx.IntImm(BITS, struct.unpack("<I", struct.pack("<f", float(value.value)))[0] >> 16)
    if (bits_read := _bits_inside(value)) is not None:
        return bits_read
    chosen = _map_values(value, bits_of)
    if chosen is not None:
        return chosen
    bits = tirx.Var("wide", "uint32")
    return tirx.Let(bits, tirx.reinterpret("uint32", _wide(value)), rounded_to_bfloat16(bits))


def _wide(value: Expr) -> Any:
    """Return a bf16 expression computed in fp32 without intermediate rounding, as TVM's own widening computes it."""
    if isinstance(value, tirx.FloatImm):
        return tirx.FloatImm("float32", float(value.value))
    if isinstance(value, TensorLoad) or _bits_inside(value) is not None:
        return widened_bfloat16(bits_of(value))
    if isinstance(value, tirx.Cast):
        return tirx.Cast("float32", value.value)
    if hasattr(value, "a") and hasattr(value, "b"):
        return type(value)(_wide(value.a), _wide(value.b))
    if (chosen := _map_values(value, _wide)) is not None:
        return chosen
    return tirx.call_intrin("float32", value.op.name, *(_wide(argument) for argument in value.args))


def _map_values(value: Expr, change: Callable[[Any], Any]) -> Any:
    """Return a `let` or a select with `change` applied to its values; None for anything else."""
    if isinstance(value, tirx.Let):
        return tirx.Let(value.var, value.value, change(value.body))
    if isinstance(value, tirx.Select):
        return tirx.Select(value.condition, change(value.true_value), change(value.false_value))
    if _name(value) == "if_then_else":
        return tirx.if_then_else(value.args[0], change(value.args[1]), change(value.args[2]))
    return None


def with_plain_bits(statement: Stmt) -> Stmt:
    """Return a statement without reinterpretations of a bf16's bits that were reinterpreted, or of a bf16 constant."""

    def call(node: Any) -> Any:
        if not _is_reinterpret(node, HALF, BITS):
            return node
        inner = node.args[0]
        if _is_reinterpret(inner, BITS, HALF):
            return inner.args[0]
        return bits_of(inner) if isinstance(inner, tirx.FloatImm) else node

    return structural_map(statement, (ir.Call, call), order="post")


def _half(bits: Any) -> Any:
    """Return a bf16 expression with these bits, in the form that TVM's widening accepts."""
    return tirx.Cast(HALF, widened_bfloat16(bits))


def _bits_inside(value: Expr) -> Any:
    """Return the bits that a bf16 expression reinterprets, or None."""
    if _is_reinterpret(value, BITS, HALF):
        return value.args[0]
    if not isinstance(value, tirx.Cast) or not _is_reinterpret(value.value, "uint32", "float32"):
        return None
    shifted = value.value.args[0]
    if not isinstance(shifted, tirx.LShift) or not isinstance(shifted.a, tirx.Cast):
        return None
    bits = shifted.a.value
    return bits if str(bits.ty.dtype) == BITS and str(value.ty.dtype) == HALF else None


def _name(node: Node) -> str:
    return operator_name(node).rsplit(".", 1)[-1] if isinstance(node, ir.Call) else ""


def _is_reinterpret(node: Node, source: str, result: str) -> bool:
    return _name(node) == "reinterpret" and str(node.ty.dtype) == result and str(node.args[0].ty.dtype) == source
