"""Simplify the argument checks of compiled functions, and check that a result shares no memory.

The caller finds the reason in the user's words: TVM's own messages take a tenth of a short kernel's compile time, and
checking addresses in Python takes a fifth of its call. Refuses functions that differ from TVM's lowering of static
shapes (`CodegenError`).
"""

from __future__ import annotations

from math import prod
from typing import Any

from mlirtri.errors import CodegenError
from mlirtri.lowering.toolchain.tvm_names import PrimFunc, ir, tirx

_SCOPE = "compute_scope"
"""Attribute of the statement after the argument checks."""
_ELEMENT_OF_INT64 = 17
"""TVM's number of the struct field "int64 of an array": the first one of a DLTensor is the address of its elements."""


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
