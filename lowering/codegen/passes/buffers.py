"""Passes on the buffers of a PrimFunc before TVM's lowering: tensors of any alignment, small buffers on the stack."""

from __future__ import annotations

from typing import Any

from mlirtri.lowering.toolchain.tvm_names import PrimFunc, SBlock, structural_map, structural_walk, tirx


def without_alignment(function: PrimFunc) -> PrimFunc:
    """Return `function` with parameters aligned to their elements only.

    `x[1:]` of a float tensor is contiguous, but not aligned to 64 bytes, which TVM promises LLVM otherwise: the aligned
    vector loads would crash.
    """
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


def on_stack(function: PrimFunc) -> PrimFunc:
    """Return `function` with buffers of scope ``local`` in the scope ``global``.

    TVM allocates the former by a runtime call each time, and puts the latter on the stack, where LLVM promotes them to
    registers, if they are below 1024 bytes.
    """
    fresh: dict[Any, Any] = {}

    def note(buffer: Any) -> None:
        if buffer.scope() == "local":
            fresh[buffer] = tirx.decl_buffer(buffer.shape, str(buffer.dtype), buffer.name, layout=buffer.layout)

    def note_block(block: Any) -> None:
        for buffer in block.alloc_buffers:
            note(buffer)

    visits = [(SBlock, note_block), (tirx.AllocBuffer, lambda statement: note(statement.buffer))]
    structural_walk(function.body, visits, order="pre")
    if not fresh:
        return function

    def replaced(variable: Any, _region: int) -> Any:
        return fresh.get(variable, variable)

    variables = (tirx.Var, replaced)
    return function.with_body(structural_map(function.body, [], with_def_region_kind=variables, order="post"))
