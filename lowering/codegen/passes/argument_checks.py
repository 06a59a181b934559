"""The checks of its arguments that a lowered PrimFunc makes before it computes, after TVM's lowering.

TVM writes one assertion per property of each tensor: 30 for an addition, most of its LLVM IR. Here those that may be
evaluated together are one, and `field_words` compares fields that lie together at once: LLVM takes half of an
addition's time over TVM's. The message is the same for all, because the caller finds the reason in the user's words.
Checking addresses in Python would take a fifth of a call.
"""

from __future__ import annotations

from math import prod
from typing import Any

from mlirtri.errors import CodegenError
from mlirtri.lowering.codegen.passes.field_words import field_of, joined, tree_of, word
from mlirtri.lowering.tir.statements import nodes_in, sequence
from mlirtri.lowering.toolchain.tvm_names import Expr, PrimFunc, Stmt, TensorLoad, address_of, ir, structural_walk, tirx

_SCOPE = "compute_scope"
"""Attribute of the statement after the argument checks."""
_ADDRESS = 0
"""The word of a DLTensor that is the address of its elements."""
_MESSAGE = "an argument does not fit"


def with_few_checks(function: PrimFunc) -> PrimFunc:
    """Return `function` with the assertions on its arguments joined, in front of everything else.

    They are in levels: the table of arguments is checked before a tensor's address is read from it, the address before
    the tensor's rank, the rank before its sizes. A failed level returns before the next one reads anything.
    """
    checks = _Checks(function.params)
    rest = checks.without_checks(function.body)
    return function.with_body(sequence(*checks.statements(), rest))


class _Checks:
    """The assertions and bindings in front of a function's body, by the level of memory that they read."""

    def __init__(self, parameters: Any):
        self._level: dict[int, int] = {address_of(parameter): 0 for parameter in parameters}
        """By the address of a variable: how many pointers lead to its value."""
        self._bindings: dict[int, list[Any]] = {}
        self._conditions: dict[int, list[Any]] = {}

    def without_checks(self, statement: Stmt) -> Any:
        """Return the statement without its checks, which are noted."""
        if isinstance(statement, tirx.SeqStmt):
            kept = [left for inner in statement.seq if (left := self.without_checks(inner)) is not None]
            return sequence(*kept) if kept else None
        if isinstance(statement, tirx.AttrStmt) and statement.attr_key != _SCOPE:
            body = self.without_checks(statement.body)
            return tirx.AttrStmt(statement.node, statement.attr_key, statement.value, body)
        return None if self._is_noted(statement) else statement

    def _is_noted(self, statement: Stmt) -> bool:
        if isinstance(statement, tirx.Bind):
            return self._is_at_a_level(statement.value, self._bindings, statement)
        if isinstance(statement, tirx.AssertStmt):
            return self._is_at_a_level(statement.condition, self._conditions, statement.condition)
        is_optional = isinstance(statement, tirx.IfThenElse) and statement.else_case is None
        if is_optional and isinstance(statement.then_case, tirx.AssertStmt):
            return self._is_joined_if(statement.condition, statement.then_case.condition)
        return False

    def _is_at_a_level(self, expression: Expr, notes: dict[int, list[Any]], note: Any) -> bool:
        """Note what an expression, which is read in front of the body, belongs to; False where it has no level."""
        level = self._level_of(expression)
        if level is None:
            return False
        if isinstance(note, tirx.Bind):
            self._level[address_of(note.var)] = level
        notes.setdefault(level, []).append(note)
        return True

    def _is_joined_if(self, guard: Any, condition: Expr) -> bool:
        """Join a check of strides, which TVM makes only where a tensor has any: those that reach a function do."""
        level, level_of_guard = self._level_of(condition), self._level_of(guard)
        if level is None or level_of_guard is None or not isinstance(guard, tirx.Not):
            return False
        self._conditions.setdefault(level_of_guard, []).append(guard)
        self._conditions.setdefault(level, []).append(condition)
        return True

    def _level_of(self, expression: Expr) -> int | None:
        """Return how many pointers lead to what an expression reads; None if it reads a tensor or unknown variables."""
        levels: list[int | None] = [0]

        def field(call: Expr) -> None:
            if field_of(call) is not None:
                known = [self._level.get(address_of(variable)) for variable in nodes_in(call, tirx.Var)]
                levels.extend(None if level is None else level + 1 for level in known)

        structural_walk(expression, [
            (TensorLoad, lambda _: levels.append(None)),
            (tirx.Var, lambda variable: levels.append(self._level.get(address_of(variable)))),
            (ir.Call, field),
        ])  # fmt: skip
        known = [level for level in levels if level is not None]
        return max(known) if len(known) == len(levels) else None

    def statements(self) -> list[Any]:
        """Return bindings and one assertion for each level."""
        statements = []
        for level in sorted({*self._bindings, *self._conditions}):
            statements += self._bindings.get(level, [])
            if level in self._conditions:
                statements.append(_fits(joined(self._conditions[level]), _MESSAGE))
        return statements


def with_separate_result(function: PrimFunc, result: int, parameters: int) -> PrimFunc:
    """Return `function`, which raises if parameter number `result` overlaps another one."""
    if parameters == 1:
        return function
    buffers: list[Any] = []
    checks: list[Any] = []

    def checked(statement: Stmt) -> Any:
        if isinstance(statement, tirx.SeqStmt):
            return tirx.SeqStmt([checked(inner) for inner in statement.seq])
        if isinstance(statement, tirx.DeclBuffer) and _handle(statement) is not None:
            buffers.append(statement)
        if not isinstance(statement, tirx.AttrStmt):
            return statement
        if statement.attr_key == _SCOPE:
            checks.append(_separates(buffers, result, parameters))
            return tirx.SeqStmt([*checks, statement])
        return tirx.AttrStmt(statement.node, statement.attr_key, statement.value, checked(statement.body))

    body = checked(function.body)
    if not checks:
        raise CodegenError("TVM made a function that does not look at its arguments")
    return function.with_body(body)


def _separates(buffers: list[Any], result: int, parameters: int) -> Any:
    if len(buffers) != parameters:
        raise CodegenError(f"TVM made a function of {len(buffers)} tensors for {parameters}")
    addresses = _range(buffers[result])
    others = [_range(other) for number, other in enumerate(buffers) if number != result]
    return _fits([tirx.Or(other[0] >= addresses[1], other[1] <= addresses[0]) for other in others], "memory is shared")


def _fits(conditions: list[Any], message: str) -> Any:
    return tirx.AssertStmt(tree_of(tirx.And, conditions), ir.StringImm("ValueError"), [ir.StringImm(message)])


def _handle(declaration: Any) -> Any:
    data = declaration.data
    if not isinstance(data, ir.Call) or len(data.args) != 1:
        return None
    field = field_of(data.args[0])
    return None if field is None else field.args[0]


def _range(declaration: Any) -> tuple[Any, Any]:
    buffer = declaration.buffer
    size = prod(int(extent) for extent in buffer.shape) * max(1, int(buffer.dtype.bits) // 8)
    start = word(_handle(declaration), _ADDRESS)
    return start, start + tirx.IntImm("int64", size)
