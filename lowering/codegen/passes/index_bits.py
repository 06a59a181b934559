"""Casts in place of reinterpretations of loop indices, before TVM narrows them to 32 bits.

The bridge writes wrapping integer arithmetic as reinterpretations of the operands' bits. TVM's narrowing shrinks a loop
variable below a reinterpretation to 32 bits and keeps the 64-bit result: wrong bits. A cast follows the narrowing, and
is the same for an index. Takes and gives a module of PrimFuncs.
"""

from __future__ import annotations

from typing import Any

from mlirtri.lowering.tir.arithmetic import reads_memory
from mlirtri.lowering.toolchain.tvm_names import IRModule, PrimFunc, ir, structural_map, tirx


def cast_index_bits(mod: IRModule) -> IRModule:
    """Replace unsigned reinterpretations of expressions without loads by casts."""
    reinterpret = ir.Op.get("tirx.reinterpret")

    def visit(call: Any) -> Any:
        if not call.op.same_as(reinterpret):
            return call
        [bits] = call.args
        to, source = str(call.ty.dtype), str(bits.ty.dtype)
        if to != f"u{source}" or reads_memory(bits):
            return call
        return tirx.Cast(to, bits)

    functions = {}
    for name, function in mod.functions_items():
        if isinstance(function, PrimFunc):
            function = function.with_body(structural_map(function.body, (ir.Call, visit), order="post"))
        functions[name] = function
    return IRModule(functions, attrs=mod.attrs)
