"""Arithmetic of Relax's own operators, out of reach of TVM's simplifier.

TVM simplifies floats as if they were numbers of mathematics, ``(x + y) - x`` to ``y``, and takes int32 and int64 never
to overflow, ``x + 1 > x`` to true. The bridge's PrimFuncs are written around that; those that LegalizeOps makes get
the same here. Takes and gives a Relax module, right after LegalizeOps. Index arithmetic stays as it is, and so does the
update of a reduction, which schedules recognise by its form.
"""

from __future__ import annotations

from typing import Any

from mlirtri.lowering.tir.arithmetic import TWICE_AS_WIDE, difference, is_exact, is_update, reads_memory, wrapped
from mlirtri.lowering.toolchain.tvm_names import IRModule, PrimFunc, structural_map, tirx

_OPERATORS = (tirx.Add, tirx.Sub, tirx.Mul)


def protect_arithmetic(mod: IRModule) -> IRModule:
    """Differences of floats become sums, and integers are computed in twice their width, in every PrimFunc."""
    result = IRModule(dict(mod.functions_items()), attrs=mod.attrs)
    for name, function in mod.functions_items():
        if isinstance(function, PrimFunc):
            body = structural_map(function.body, (tirx.BufferStore, _protected), order="post")
            result.update_func(name, function.with_body(body))
    return result


def _protected(store: Any) -> Any:
    if isinstance(store.value, _OPERATORS) and is_update(store):
        return store
    value = structural_map(store.value, [(kind, _rewritten) for kind in _OPERATORS], order="post")
    return tirx.BufferStore(store.buffer, value, store.indices)


def _rewritten(node: Any) -> Any:
    dtype = str(node.ty.dtype)
    if not reads_memory(node):
        return node
    if dtype.startswith("float") and isinstance(node, tirx.Sub):
        return difference(node.a, node.b)
    can_overflow = dtype in TWICE_AS_WIDE and not is_exact(node.a, node.b)
    return wrapped(type(node), node.a, node.b) if can_overflow else node
