"""Integer casts in the form that TVM's own passes handle: passes before TVM's lowering of TIR.

The bridge writes wrapping integer arithmetic as reinterpretations of the operands' bits. TVM's narrowing shrinks a loop
variable below a reinterpretation to 32 bits and keeps the 64-bit result: wrong bits. A cast follows the narrowing, and
is the same for an index. A predicate that is cast to a number fails once it is vectorised and bound by TVM's common
subexpression elimination: the analyzer's integer sets make scalar constants of its vector type. A select does not.
Each takes and gives a module of PrimFuncs.
"""

from __future__ import annotations

from collections.abc import Callable
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

    return _rewritten(mod, (ir.Call, visit))


def select_predicates(mod: IRModule) -> IRModule:
    """Replace casts of predicates to numbers by selections of 1 or 0."""

    def visit(cast: Any) -> Any:
        dtype = str(cast.ty.dtype)
        if str(cast.value.ty.dtype) != "bool" or dtype == "bool":
            return cast
        return tirx.Select(cast.value, tirx.const(1, dtype), tirx.const(0, dtype))

    return _rewritten(mod, (tirx.Cast, visit))


def _rewritten(mod: IRModule, rule: tuple[type, Callable[[Any], Any]]) -> IRModule:
    functions = {}
    for name, function in mod.functions_items():
        if isinstance(function, PrimFunc):
            function = function.with_body(structural_map(function.body, rule, order="post"))
        functions[name] = function
    return IRModule(functions, attrs=mod.attrs)
