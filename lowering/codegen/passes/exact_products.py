"""Keeps LLVM from contracting products and sums of the user's code to fused multiply-adds on the CPU.

TVM lets LLVM contract ``a * b + c`` into one instruction with one rounding, everywhere. That is right for the sums of
a matmul, which are never bit-equal to a library's, and wrong for `a * b + c` of a user, whose library rounds twice.
Takes and gives a lowered module of PrimFuncs. A product that is added to the very element that is stored is a
reduction's and stays free.
"""

from __future__ import annotations

from typing import Any

from mlirtri.lowering.tir.arithmetic import is_update
from mlirtri.lowering.toolchain.tvm_names import IRModule, PrimFunc, structural_map, tirx

_FENCE = "llvm.arithmetic.fence"
_SUMS = (tirx.Add, tirx.Sub)


def fence_products(mod: IRModule) -> IRModule:
    """Fence every float product that is an operand of a sum, except in reductions' updates."""
    rules = [
        (tirx.BufferStore, _fenced),
        (tirx.Bind, lambda bind: tirx.Bind(bind.var, _fenced_sums(bind.value))),
        (tirx.While, lambda loop: tirx.While(_fenced_sums(loop.condition), loop.body)),
        (
            tirx.IfThenElse,
            lambda branch: tirx.IfThenElse(_fenced_sums(branch.condition), branch.then_case, branch.else_case),
        ),
    ]
    functions = {}
    for name, function in mod.functions_items():
        if isinstance(function, PrimFunc) and function.attrs["target"].kind.name == "llvm":
            function = function.with_body(structural_map(function.body, rules, order="post"))
        functions[name] = function
    return IRModule(functions, attrs=mod.attrs)


def _fenced(store: Any) -> Any:
    if isinstance(store.value, _SUMS) and is_update(store):
        return store
    value = _fenced_sums(store.value)
    if isinstance(value, tirx.Mul) and _is_float(value):
        # A stored product may be forwarded to a load and added there.
        value = _fence(value)
    return tirx.BufferStore(store.buffer, value, store.indices)


def _fenced_sums(value: Any) -> Any:
    return structural_map(value, [(kind, _with_fences) for kind in _SUMS], order="post")


def _with_fences(sum_: Any) -> Any:
    if not _is_float(sum_):
        return sum_
    return type(sum_)(*(_fence(operand) for operand in (sum_.a, sum_.b)))


def _fence(operand: Any) -> Any:
    if not isinstance(operand, tirx.Mul):
        return operand
    if any(_is_unit(factor) for factor in (operand.a, operand.b)):
        # A negation: LLVM looks through it at the product.
        return tirx.Mul(_fence(operand.a), _fence(operand.b))
    return tirx.call_llvm_pure_intrin(operand.ty.dtype, _FENCE, operand)


def _is_unit(factor: Any) -> bool:
    """Return whether a factor is 1 or -1, also as a vector: the product needs no rounding."""
    number = factor.value if isinstance(factor, tirx.Broadcast) else factor
    return isinstance(number, tirx.FloatImm) and abs(number.value) == 1


def _is_float(expression: Any) -> bool:
    return str(expression.ty.dtype).startswith(("float32", "float64"))
