"""Hides sums, differences and products of wrapping integers from TVM's simplifier.

`tir_arithmetic.wrapped` writes them in twice the width. TVM's simplifier goes through such an expression twice per
level, in time exponential in the length of a chain. Takes the CPU's PrimFuncs of a build before TVM's lowering (`mark`)
and after it (`expand`); in between each is one operator of ours, which may be vectorised and is simplified by nobody.
Refuses nothing.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from mlirtri.lowering.elementary.tir_pass import is_for_cpu
from mlirtri.lowering.tir.arithmetic import TWICE_AS_WIDE
from mlirtri.lowering.toolchain.tvm_names import IRModule, PrimFunc, ir, register_pure_operator, structural_map, tirx

_NODES = {"add": tirx.Add, "sub": tirx.Sub, "mul": tirx.Mul}
_PREFIX = "tirx.mlirtri_wrapping_"
_HALF = {wide: narrow for narrow, wide in TWICE_AS_WIDE.items()}


def mark(mod: IRModule) -> IRModule:
    """Replace wide arithmetic on widened operands by our operators."""
    return _rewritten(mod, (tirx.Cast, _marked))


def expand(mod: IRModule) -> IRModule:
    """Replace our operators by wide arithmetic again, vectorised where TVM has vectorised them."""
    return _rewritten(mod, (ir.Call, _expanded))


def _rewritten(mod: IRModule, rewrite: Any) -> IRModule:
    functions = {}
    for name, function in mod.functions_items():
        if isinstance(function, PrimFunc) and is_for_cpu(function):
            function = function.with_body(structural_map(function.body, rewrite, order="post"))
        functions[name] = function
    return IRModule(functions, attrs=mod.attrs)


def _marked(cast: Any) -> Any:
    narrow, wide = str(cast.ty.dtype), str(cast.value.ty.dtype)
    name = next((name for name, node in _NODES.items() if isinstance(cast.value, node)), None)
    if name is None or TWICE_AS_WIDE.get(narrow) != wide:
        return cast
    operands = [_narrow(operand) for operand in (cast.value.a, cast.value.b)]
    if any(operand is None for operand in operands):
        return cast
    return ir.Call(_operators()[name], operands, ret_ty=narrow)


def _narrow(operand: Any) -> Any:
    """Return the operand before widening, or None."""
    half = _HALF[str(operand.ty.dtype)]
    if isinstance(operand, tirx.IntImm):
        bits = int(half.removeprefix("int"))
        return tirx.IntImm(half, operand.value) if -(1 << (bits - 1)) <= operand.value < 1 << (bits - 1) else None
    if isinstance(operand, tirx.Cast) and str(operand.value.ty.dtype) == half:
        return operand.value
    return None


def _expanded(call: Any) -> Any:
    name = str(getattr(call.op, "name", ""))
    if not name.startswith(_PREFIX):
        return call
    narrow, times, lanes = str(call.ty.dtype).partition("x")
    wide = TWICE_AS_WIDE[narrow] + times + lanes
    node = _NODES[name.removeprefix(_PREFIX)]
    return tirx.Cast(str(call.ty.dtype), node(*(tirx.Cast(wide, operand) for operand in call.args)))


@lru_cache(maxsize=1)
def _operators() -> dict[str, Any]:
    return {name: register_pure_operator(_PREFIX + name, f"{name}, wrapping, by mlirtri") for name in _NODES}
