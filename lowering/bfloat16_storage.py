"""Keeps bf16 in 16 bits where a kernel looks at its bits.

Takes a PrimFunc. Gives it without the two things that TVM's widening of bf16 to fp32 breaks: bits taken from a bf16
expression, which are made from its fp32 value here, and names and inner buffers of bf16, which hold uint16 here.
A function that only computes in bf16 stays as it is: TVM widens it all.
"""

from __future__ import annotations

import struct
from typing import Any

from mlirtri.lowering.tvm_names import PrimFunc, SBlock, TensorLoad, ir, structural_map, structural_walk, tirx

HALF, BITS = "bfloat16", "uint16"
USE = 0
"""What a structural map says of a variable that is not defined where it meets it."""


def keep_bfloat16(function: PrimFunc) -> PrimFunc:
    """`function` with bits of bf16 made by integer operations."""
    buffers = _buffers_read_as_bits(function)
    bits = set(buffers.values())

    def load(node):
        return tirx.reinterpret(HALF, tirx.BufferLoad(node.source, node.indices)) if node.source in bits else node

    def store(node):
        return tirx.BufferStore(node.buffer, bits_of(node.value), node.indices) if node.buffer in bits else node

    def call(node):
        return bits_of(node.args[0]) if _is_reinterpret(node, HALF, BITS) else node

    def cast(node):
        if not _is_reinterpret(node.value, BITS, HALF):
            return node
        wide = _widened(node.value.args[0])
        return wide if str(node.ty.dtype) == "float32" else tirx.Cast(node.ty.dtype, wide)

    rules = [
        (TensorLoad, load), (tirx.BufferStore, store), (ir.Call, call), (tirx.Cast, cast),
        (tirx.Bind, _bind_bits), (tirx.Let, _let_bits),
    ]  # fmt: skip
    variables = (tirx.Var, _Variables(buffers).replace)
    return function.with_body(structural_map(function.body, rules, with_def_region_kind=variables, order="post"))


class _Variables:
    """Names of bf16 values hold bits; TVM widens a value but not the name that it is bound to."""

    def __init__(self, buffers: dict):
        self._fresh = dict(buffers)

    def replace(self, variable: Any, region: int) -> Any:
        if isinstance(variable.ty, ir.PrimType) and str(variable.ty.dtype) == HALF and variable not in self._fresh:
            self._fresh[variable] = tirx.Var(variable.name, BITS)
        fresh = self._fresh.get(variable, variable)
        is_value = isinstance(variable.ty, ir.PrimType) and not fresh.same_as(variable)
        return tirx.reinterpret(HALF, fresh) if is_value and region == USE else fresh


def _bind_bits(node: Any) -> Any:
    return tirx.Bind(node.var, bits_of(node.value)) if _binds_half(node) else node


def _let_bits(node: Any) -> Any:
    return tirx.Let(node.var, bits_of(node.value), node.body) if _binds_half(node) else node


def _binds_half(node: Any) -> bool:
    return str(node.var.ty.dtype) == BITS and str(node.value.ty.dtype) == HALF


def _buffers_read_as_bits(function: PrimFunc) -> dict:
    """The function's own bf16 buffers from which bits are taken, each with a uint16 buffer to stand for it."""
    inner, taken = {}, []

    def note(block):
        for buffer in block.alloc_buffers:
            if str(buffer.dtype) == HALF:
                inner[buffer] = tirx.decl_buffer(buffer.shape, BITS, buffer.name, scope=buffer.scope(), layout=None)

    def call(node):
        if _is_reinterpret(node, HALF, BITS) and isinstance(node.args[0], TensorLoad):
            taken.append(node.args[0].source)

    structural_walk(function.body, [(SBlock, note), (ir.Call, call)], order="pre")
    return {buffer: inner[buffer] for buffer in taken if buffer in inner}


def bits_of(value: Any) -> Any:
    """The bits of a bf16 expression as uint16."""
    if isinstance(value, tirx.FloatImm):
        return tirx.IntImm(BITS, struct.unpack("<I", struct.pack("<f", float(value.value)))[0] >> 16)
    if isinstance(value, TensorLoad):
        return tirx.reinterpret(BITS, value)
    if isinstance(value, tirx.Let):
        return tirx.Let(value.var, value.value, bits_of(value.body))
    if isinstance(value, tirx.Select):
        return tirx.Select(value.condition, bits_of(value.true_value), bits_of(value.false_value))
    if isinstance(value, tirx.Cast):
        return _rounded(tirx.Cast("float32", value.value))
    if _is_reinterpret(value, BITS, HALF):
        return value.args[0]
    if _name(value) == "if_then_else":
        return tirx.if_then_else(value.args[0], bits_of(value.args[1]), bits_of(value.args[2]))
    # Arithmetic: TVM computes it in fp32, unrounded, when its result is asked for in fp32.
    return _rounded(tirx.Cast("float32", value))


def _rounded(wide: Any) -> Any:
    """The bf16 nearest to an fp32 value, ties to even, as bits; NaN stays NaN."""
    bits = tirx.Var("wide", "uint32")
    odd = tirx.bitwise_and(tirx.shift_right(bits, _literal(16)), _literal(1))
    nearest = tirx.shift_right(bits + odd + _literal(0x7FFF), _literal(16))
    is_nan = tirx.bitwise_and(bits, _literal(0x7FFFFFFF)) > _literal(0x7F800000)
    kept = tirx.Select(is_nan, _literal(0x7FC0), nearest)
    return tirx.Let(bits, tirx.reinterpret("uint32", wide), tirx.Cast(BITS, kept))


def _widened(bits: Any) -> Any:
    """The fp32 value of a bf16's bits: its upper half."""
    return tirx.reinterpret("float32", tirx.shift_left(tirx.Cast("uint32", bits), _literal(16)))


def _literal(value: int) -> Any:
    return tirx.IntImm("uint32", value)


def _name(node: Any) -> str:
    return str(getattr(node.op, "name", "")).rsplit(".", 1)[-1] if isinstance(node, ir.Call) else ""


def _is_reinterpret(node: Any, source: str, result: str) -> bool:
    return _name(node) == "reinterpret" and str(node.ty.dtype) == result and str(node.args[0].ty.dtype) == source
