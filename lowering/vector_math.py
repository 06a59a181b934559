"""Elementary functions on the CPU: vectors of them are arithmetic, where LLVM would call the C library per element.

Takes the PrimFuncs of a build before TVM's lowering (`mark`) and after it (`expand`). In between the functions are
operators of ours that TVM may vectorise; then each is the expression that `vector_functions` makes of it.
Refuses nothing: other functions and dtypes are left to LLVM and to the C library.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from mlirtri.lowering.tvm_names import IRModule, PrimFunc, ir, register_pure_operator, structural_map
from mlirtri.lowering.vector_functions import FUNCTIONS
from mlirtri.lowering.vector_lanes import Lanes

PREFIX = "tirx.mlirtri."
_EXTERNAL = "tirx.call_pure_extern"


def mark(mod: IRModule) -> IRModule:
    """Calls of the functions become operators of ours, on the CPU."""
    return _rewritten(mod, _marked)


def expand(mod: IRModule) -> IRModule:
    """Those operators become arithmetic."""
    return _rewritten(mod, _expanded)


def _rewritten(mod: IRModule, rewrite: Any) -> IRModule:
    functions = {}
    for name, function in mod.functions_items():
        if isinstance(function, PrimFunc) and _is_for_cpu(function):
            function = function.with_body(structural_map(function.body, (ir.Call, rewrite), order="post"))
        functions[name] = function
    return IRModule(functions, attrs=mod.attrs)


def _is_for_cpu(function: PrimFunc) -> bool:
    target = (function.attrs or {}).get("target")
    return target is None or target.kind.name == "llvm"


def _marked(call: Any) -> Any:
    # A call may give a pointer, which has no dtype.
    dtype, name = str(getattr(call.ty, "dtype", "")), str(getattr(call.op, "name", ""))
    operands = list(call.args)
    if name == _EXTERNAL:
        name, operands = str(operands[0].value), operands[1:]
        name = name.removesuffix("f") if dtype == "float32" else name
    else:
        name = name.removeprefix("tirx.")
    if name not in FUNCTIONS or dtype not in FUNCTIONS[name][1]:
        return call
    return ir.Call(_operators()[name], operands, ret_ty=dtype)


def _expanded(call: Any) -> Any:
    name = str(getattr(call.op, "name", ""))
    if not name.startswith(PREFIX):
        return call
    lanes = Lanes(str(call.ty.dtype))
    make, _ = FUNCTIONS[name.removeprefix(PREFIX)]
    given = Lanes(str(call.ty.dtype))
    # A name for each operand: it may be a load, or long.
    operands = [given.named(operand) for operand in call.args]
    return given.closed(lanes.closed(make(lanes, *operands)))


@lru_cache(maxsize=1)
def _operators() -> dict[str, Any]:
    return {name: register_pure_operator(PREFIX + name, f"{name}, by mlirtri") for name in FUNCTIONS}
