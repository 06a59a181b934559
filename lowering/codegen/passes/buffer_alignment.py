"""Lets kernels take tensors that start anywhere: `x[1:]` of a float tensor is contiguous, but no multiple of 64 bytes.

Takes a PrimFunc. Gives it with parameters of which only their elements' alignment is promised; TVM promises LLVM 64
bytes otherwise, and the vector loads made from that end the process.
"""

from __future__ import annotations

from mlirtri.lowering.toolchain.tvm_names import PrimFunc, structural_map, tirx


def without_alignment(function: PrimFunc) -> PrimFunc:
    """`function` with parameters aligned to their elements."""
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
