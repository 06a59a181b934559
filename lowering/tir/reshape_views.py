"""Mark the PrimFuncs that only reshape their input, before a schedule changes their loops (a pass of relax → tir).

Their output has the input's elements in the input's order: a launch plan makes a view instead of a launch.
"""

from __future__ import annotations

from math import prod

from mlirtri.lowering.toolchain.tvm_names import IRModule, PrimFunc, relax, tirx

VIEW = "mlirtri.view"


def mark_views(mod: IRModule) -> IRModule:
    """Return the module with ``mlirtri.view`` on pure reshapes."""
    views = {
        gv: function.with_attr(VIEW, True)
        for gv, function in mod.functions_items()
        if isinstance(function, PrimFunc) and _is_view(function)
    }
    return IRModule({**dict(mod.functions_items()), **views}, attrs=mod.attrs) if views else mod


def _is_view(function: PrimFunc) -> bool:
    if len(function.params) != 2:
        return False
    source, target = (parameter.ty for parameter in function.params)
    if not all(isinstance(kind, tirx.BufferType) for kind in (source, target)) or source.dtype != target.dtype:
        return False
    size = _size(source)
    return size is not None and size == _size(target) and relax.analysis.has_reshape_pattern(function)


def _size(kind) -> int | None:
    if not all(isinstance(extent, tirx.IntImm) for extent in kind.shape):
        return None
    return prod(int(extent) for extent in kind.shape)
