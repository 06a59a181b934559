"""Passes on one PrimFunc around TVM's lowering: memory before it; argument checks and parallel loops after it.

- Before: parameters need not be aligned, and small buffers are on the stack.
- Argument checks: one short message for all, because TVM's own take a tenth of a short kernel's compile time, and the
  caller finds the reason in the user's words. Checking addresses in Python would take a fifth of a call.
- Even tasks: TVM gives all but the last task ceil(iterations / tasks) iterations: of ten in 32 tasks, the first of two
  threads has all, and of 33 it has 32.
"""

from __future__ import annotations

from math import prod
from typing import Any

from mlirtri.errors import CodegenError
from mlirtri.lowering.tir.statements import with_function_body
from mlirtri.lowering.toolchain.tvm_names import PrimFunc, SBlock, ir, structural_map, structural_walk, tirx

_SCOPE = "compute_scope"
"""Attribute of the statement after the argument checks."""
_ELEMENT_OF_INT64 = 17
"""TVM's number of the struct field "int64 of an array": the first one of a DLTensor is the address of its elements."""


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
                strides=kind.strides,
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


def with_one_message(function: PrimFunc) -> PrimFunc:
    """Return `function` with the same message for all invalid arguments."""

    def short(statement: Any) -> Any:
        if isinstance(statement, tirx.SeqStmt):
            return tirx.SeqStmt([short(inner) for inner in statement.seq])
        if isinstance(statement, tirx.AssertStmt):
            return _fits(statement.condition, "an argument does not fit")
        if isinstance(statement, tirx.IfThenElse) and statement.else_case is None:
            return tirx.IfThenElse(statement.condition, short(statement.then_case), None, statement.span)
        if isinstance(statement, tirx.AttrStmt) and statement.attr_key != _SCOPE:
            return tirx.AttrStmt(statement.node, statement.attr_key, statement.value, short(statement.body))
        return statement

    return function.with_body(short(function.body))


def with_separate_result(function: PrimFunc, result: int, parameters: int) -> PrimFunc:
    """Return `function`, which raises if parameter number `result` overlaps another one."""
    if parameters == 1:
        return function
    buffers: list[Any] = []
    checks: list[Any] = []

    def checked(statement: Any) -> Any:
        if isinstance(statement, tirx.SeqStmt):
            return tirx.SeqStmt([checked(inner) for inner in statement.seq])
        if isinstance(statement, tirx.DeclBuffer) and _handle(statement) is not None:
            buffers.append(statement)
        if not isinstance(statement, tirx.AttrStmt):
            return statement
        if statement.attr_key == _SCOPE:
            checks.extend(_checks(buffers, result, parameters))
            return tirx.SeqStmt([*checks, statement])
        return tirx.AttrStmt(statement.node, statement.attr_key, statement.value, checked(statement.body))

    body = checked(function.body)
    if not checks:
        raise CodegenError("TVM made a function that does not look at its arguments")
    return function.with_body(body)


def _checks(buffers: list[Any], result: int, parameters: int) -> list[Any]:
    if len(buffers) != parameters:
        raise CodegenError(f"TVM made a function of {len(buffers)} tensors for {parameters}")
    addresses = _range(buffers[result])
    others = [_range(other) for number, other in enumerate(buffers) if number != result]
    return [_fits(tirx.Or(other[0] >= addresses[1], other[1] <= addresses[0]), "memory is shared") for other in others]


def _fits(condition: Any, message: str) -> Any:
    return tirx.AssertStmt(condition, ir.StringImm("ValueError"), [ir.StringImm(message)])


def _handle(declaration: Any) -> Any:
    data = declaration.data
    if not isinstance(data, ir.Call) or len(data.args) != 1:
        return None
    field = data.args[0]
    is_field = isinstance(field, ir.Call) and getattr(field.op, "name", "") == "tirx.tvm_struct_get"
    return field.args[0] if is_field else None


def _range(declaration: Any) -> tuple[Any, Any]:
    buffer = declaration.buffer
    size = prod(int(extent) for extent in buffer.shape) * max(1, int(buffer.dtype.bits) // 8)
    start = tirx.call_intrin("int64", "tirx.tvm_struct_get", _handle(declaration), 0, _ELEMENT_OF_INT64)
    return start, start + tirx.IntImm("int64", size)


def in_even_tasks(function: PrimFunc, tasks: int) -> PrimFunc:
    """Return `function` with its parallel loops over `tasks` tasks."""

    def loop(node: Any) -> Any:
        is_even = isinstance(node.extent, tirx.IntImm) and node.extent.value % tasks == 0
        return _over_tasks(node, tasks) if node.kind == tirx.ForKind.PARALLEL and tasks > 1 and not is_even else node

    return with_function_body(function, structural_map(function.body, (tirx.For, loop), order="post"))


def _over_tasks(loop: Any, tasks: int) -> Any:
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
