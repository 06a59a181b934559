"""Puts small buffers of one iteration on a CPU's stack, where LLVM promotes them to registers.

Takes a PrimFunc. Gives it with buffers of scope ``local`` in the scope ``global``: TVM allocates the former by a
runtime call each time, and puts the latter on the stack if they are below 1024 bytes.
"""

from __future__ import annotations

from typing import Any

from mlirtri.lowering.toolchain.tvm_names import PrimFunc, SBlock, structural_map, structural_walk, tirx


def on_stack(function: PrimFunc) -> PrimFunc:
    """Return `function` without buffers of scope ``local``."""
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
