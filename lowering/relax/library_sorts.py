"""A pass of relax → tir, for the CPU: sorts and scans of Relax's library, which LegalizeOps leaves alone.

Takes a Relax module. Gives the same module, where they are calls of PrimFuncs that call TVM's runtime. Only kernels
that name such a function have any: the language's own sorts are loops.
"""

from __future__ import annotations

from mlirtri.lowering.toolchain.tvm_names import IS_SCHEDULED, IRModule, PrimFunc, relax, tvm
from mlirtri.lowering.toolchain.tvm_passes import bindings_of, operator_of, relax_functions

SORTS = frozenset({"relax.sort", "relax.argsort", "relax.topk", "relax.cumsum", "relax.cumprod"})
OPAQUE = 8
"""TVM's `op_pattern` of an opaque function, which fuses with nothing."""


def has_sorts(mod: IRModule) -> bool:
    """Return whether the module calls such an operator."""
    return any(
        operator_of(binding) in SORTS for _, function in relax_functions(mod) for binding in bindings_of(function)
    )


def implement_sorts(mod: IRModule) -> IRModule:
    """Return the module with these operators as calls of opaque PrimFuncs, which are neither fused nor scheduled."""
    existing = {gv.name_hint for gv, _ in mod.functions_items()}
    with tvm.target.Target("llvm"):
        result = relax.backend.DispatchSortScan()(mod)
    for gv, function in result.functions_items():
        if isinstance(function, PrimFunc) and gv.name_hint not in existing:
            result.update_func(gv, function.with_attr({"op_pattern": OPAQUE, IS_SCHEDULED: True}))
    return result
