"""Lets kernels take unaligned tensors: `x[1:]` of a float tensor is contiguous, but not aligned to 64 bytes.

Takes a PrimFunc. Gives it with parameters aligned to their elements only; TVM promises LLVM 64 bytes otherwise, and
the aligned vector loads crash.
"""

from __future__ import annotations

from mlirtri.lowering.toolchain.tvm_names import PrimFunc, structural_map, tirx


def without_alignment(function: PrimFunc) -> PrimFunc:
    """Return `function` with parameters aligned to their elements."""
    fresh = {}
    for parameter in function.params:
        kind = parameter.ty
        if isinstance(kind, tirx.BufferType):
            fresh[parameter] = tirx.decl_buffer(
                kind.shape,
                parameter.dtype,
                parameter.name,
                scope=kind.storage_scope,
                data_alignment=max(1, int(parameter.dtype.bits) // 8),
                layout=kind.layout,
            )
    body = structural_map(function.body, (tirx.Var, lambda variable: fresh.get(variable, variable)))
    parameters = [fresh.get(parameter, parameter) for parameter in function.params]
    return PrimFunc(parameters, body, function.ret_type, function.attrs, function.span)
