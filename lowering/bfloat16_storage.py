"""Keeps bf16 between the loops of one kernel in 16 bits.

Takes a PrimFunc. Gives it with its own bf16 buffers as uint16 ones that hold the same bits, where all that it stores
there are bits, copies and choices between them. TVM would widen those buffers to fp32 and then fail on code that
reads their bits. A function that computes in bf16 stays as it is: TVM widens it all.
"""

from __future__ import annotations

import struct
from typing import Any

from mlirtri.lowering.tvm_names import PrimFunc, SBlock, TensorLoad, ir, structural_map, structural_walk, tirx

HALF, BITS = "bfloat16", "uint16"


def keep_bfloat16(function: PrimFunc) -> PrimFunc:
    """`function` with its inner bf16 buffers as bits."""
    fresh = {}

    def note(block):
        for buffer in block.alloc_buffers:
            if str(buffer.dtype) == HALF:
                fresh[buffer] = tirx.decl_buffer(buffer.shape, BITS, buffer.name, scope=buffer.scope(), layout=None)

    structural_walk(function.body, (SBlock, note))
    if not fresh or not _is_about_bits(function, set(fresh)):
        return function
    bits = set(fresh.values())

    def load(node):
        return tirx.reinterpret(HALF, tirx.BufferLoad(node.source, node.indices)) if node.source in bits else node

    def store(node):
        return tirx.BufferStore(node.buffer, bits_of(node.value), node.indices) if node.buffer in bits else node

    def simplify(call):
        """Bits of a half made from bits; vectors of the half in between are more than TVM can lower."""
        if (
            _name(call) != "reinterpret"
            or not isinstance(call.args[0], ir.Call)
            or _name(call.args[0]) != "reinterpret"
        ):
            return call
        inner = call.args[0].args[0]
        return inner if inner.ty == call.ty else call

    rules = [(TensorLoad, load), (tirx.BufferStore, store), (tirx.Var, lambda variable: fresh.get(variable, variable))]
    rules.append((ir.Call, simplify))
    return function.with_body(structural_map(function.body, rules, order="post"))


def _is_about_bits(function: PrimFunc, buffers: set) -> bool:
    """Whether the function takes values from these buffers as bits, and stores nothing else there."""
    values, taken = [], []

    def store(node):
        if node.buffer in buffers:
            values.append(node.value)

    def call(node):
        if _name(node) == "reinterpret" and isinstance(node.args[0], TensorLoad) and node.args[0].source in buffers:
            taken.append(node)

    structural_walk(function.body, [(tirx.BufferStore, store), (ir.Call, call)], order="pre")
    return bool(taken) and all(bits_of(value) is not None for value in values)


def _name(call: ir.Call) -> str:
    return str(getattr(call.op, "name", "")).rsplit(".", 1)[-1]


def bits_of(value: Any) -> Any:
    """The bits of a bf16 expression as uint16; None when it is arithmetic."""
    if isinstance(value, tirx.FloatImm):
        return tirx.IntImm(BITS, struct.unpack("<I", struct.pack("<f", float(value.value)))[0] >> 16)
    if isinstance(value, TensorLoad):
        return tirx.reinterpret(BITS, value)
    if isinstance(value, tirx.Let):
        body = bits_of(value.body)
        return None if body is None else tirx.Let(value.var, value.value, body)
    if isinstance(value, tirx.Select):
        return _chosen(tirx.Select, value.condition, value.true_value, value.false_value)
    if not isinstance(value, ir.Call):
        return None
    if _name(value) == "reinterpret":
        return value.args[0]
    return _chosen(tirx.if_then_else, *value.args) if _name(value) == "if_then_else" else None


def _chosen(choice: Any, condition: Any, first: Any, second: Any) -> Any:
    both = bits_of(first), bits_of(second)
    return None if any(each is None for each in both) else choice(condition, *both)
