"""Passes on one PrimFunc around TVM's lowering: memory before it, parallel loops and what LLVM compiles after it.

- Before: parameters need not be aligned, and small buffers are on the stack.
- Even tasks: TVM gives all but the last task ceil(iterations / tasks) iterations: of ten in 32 tasks, the first of two
  threads has all, and of 33 it has 32.
- Halves: TVM writes the functions that convert them on CPUs without such an instruction into each module, which takes
  LLVM 6 of the 22 ms that it takes for a small kernel.
"""

from __future__ import annotations

from typing import Any

from mlirtri.lowering.tir.statements import aligned_to_elements, with_function_body
from mlirtri.lowering.toolchain.tvm_names import (
    Buffer,
    Expr,
    Node,
    PrimFunc,
    SBlock,
    Stmt,
    TensorLoad,
    ir,
    structural_map,
    structural_walk,
    tirx,
    with_values,
)


def without_alignment(function: PrimFunc) -> PrimFunc:
    """Return `function` with parameters aligned to their elements only.

    `x[1:]` of a float tensor is contiguous, but not aligned to 64 bytes, which TVM promises LLVM otherwise: the aligned
    vector loads would crash.
    """
    buffers = [parameter for parameter in function.params if isinstance(parameter.ty, tirx.BufferType)]
    fresh = {buffer: aligned_to_elements(buffer, {}) for buffer in buffers}
    body = with_values(function.body, fresh)
    parameters = [fresh.get(parameter, parameter) for parameter in function.params]
    return PrimFunc(parameters, body, function.ret_type, function.attrs, function.span)


def on_stack(function: PrimFunc) -> PrimFunc:
    """Return `function` with buffers of scope ``local`` in the scope ``global``.

    TVM allocates the former by a runtime call each time, and puts the latter on the stack, where LLVM promotes them to
    registers, if they are below 1024 bytes.
    """
    fresh: dict[Any, Any] = {}

    def note(buffer: Buffer) -> None:
        if buffer.scope() == "local":
            fresh[buffer] = tirx.decl_buffer(buffer.shape, str(buffer.dtype), buffer.name, layout=buffer.layout)

    def note_block(block: Any) -> None:
        for buffer in block.alloc_buffers:
            note(buffer)

    visits = [(SBlock, note_block), (tirx.AllocBuffer, lambda statement: note(statement.buffer))]
    structural_walk(function.body, visits, order="pre")
    return function.with_body(with_values(function.body, fresh)) if fresh else function


def in_even_tasks(function: PrimFunc, tasks: int) -> PrimFunc:
    """Return `function` with its parallel loops over `tasks` tasks."""

    def loop(node: Node) -> Any:
        is_even = isinstance(node.extent, tirx.IntImm) and node.extent.value % tasks == 0
        return _over_tasks(node, tasks) if node.kind == tirx.ForKind.PARALLEL and tasks > 1 and not is_even else node

    return with_function_body(function, structural_map(function.body, (tirx.For, loop), order="post"))


def _over_tasks(loop: Stmt, tasks: int) -> Any:
    """Return the loop over tasks. Task t begins with iteration ceil(t · extent / tasks)."""
    variable, kind = loop.loop_var, str(loop.loop_var.ty.dtype)
    task, of_all = tirx.Var("task", loop.loop_var.ty), tirx.IntImm(kind, tasks)
    share, remainder = tirx.Div(loop.extent, of_all), tirx.Mod(loop.extent, of_all)

    def first(number: Any) -> Any:
        # Not of the whole extent: its product with the number of tasks may overflow the loop's type.
        return number * share + tirx.Div(number * remainder + tirx.IntImm(kind, tasks - 1), of_all)

    start = first(task)
    inner = tirx.For(
        variable, loop.min + start, first(task + tirx.IntImm(kind, 1)) - start, tirx.ForKind.SERIAL, loop.body
    )
    outer = tirx.IntImm(kind, 0), tirx.IntImm(kind, tasks)
    return tirx.For(task, *outer, tirx.ForKind.PARALLEL, inner)


_NO_CONVERSIONS = "".join(f"@{name} = common hidden global i8 0\n" for name in ("__truncsfhf2", "__extendhfsf2"))
"""LLVM IR whose names are those of TVM's conversions of halves: its linker takes these in place of weak functions."""


def has_halves(function: PrimFunc) -> bool:
    """Return whether a value of a function before TVM's lowering is fp16: of a load, a constant, a call or a cast."""
    found: list[Any] = []

    def note(value: Expr) -> None:
        if str(getattr(value.ty, "dtype", "")).startswith("float16"):
            found.append(value)

    structural_walk(function.body, ((TensorLoad, tirx.Cast, tirx.FloatImm, ir.Call), note))
    return bool(found)


def without_conversions_of_halves(function: PrimFunc) -> PrimFunc:
    """Return a lowered function in whose LLVM module nothing converts halves: the conversions are not compiled."""
    text = ir.StringImm(_NO_CONVERSIONS)
    return function.with_body(tirx.AttrStmt(tirx.IntImm("int32", 0), "pragma_import_llvm", text, function.body))
