"""Names inside of the bf16 values that a statement stores become statements before it.

Takes a statement; copies of an expression in it may bind the same names. Gives it with `Bind` for `Let` around and
inside of what goes to bf16 buffers. TVM rounds such a value by a formula that repeats it, with its `Let`, and its
vectors refuse a name that is bound twice. Names of an arm of a condition, which may only be computed where the
condition holds, stay where they are.
"""

from __future__ import annotations

from typing import Any

from mlirtri.lowering.tir.statements import depends_on, sequence, substituted
from mlirtri.lowering.toolchain.tvm_names import ir, structural_equal, structural_map, structural_walk, tirx


def named_before(statement: Any) -> Any:
    """`statement` with the names of its bf16 values bound before they are stored."""
    changed = structural_map(statement, (tirx.BufferStore, _bound_before), order="post")
    return structural_map(changed, (tirx.SeqStmt, lambda node: sequence(*node.seq)), order="post")


def _bound_before(store: Any) -> Any:
    if str(store.buffer.dtype) != "bfloat16":
        return store
    names: list[Any] = []
    value = _without_names(store.value, names)
    if not names:
        return store
    return sequence(*_in_order(names), tirx.BufferStore(store.buffer, value, store.indices))


def _without_names(value: Any, names: list[Any]) -> Any:
    """`value` as it is once `names`, to which its own are added, are bound."""
    while isinstance(value, tirx.Let):
        value = _named(value, _without_names(value.value, names), names)
    if _has_arms(value):
        return value

    return structural_map(value, (tirx.Let, lambda node: _named(node, node.value, names)), order="post")


def _named(let: Any, value: Any, names: list[Any]) -> Any:
    """What is inside of `let`, once `names`, to which its own is added, are bound."""
    same = next((each for each in names if each.var.same_as(let.var)), None)
    if same is not None and structural_equal(same.value, value):
        return let.body
    variable = let.var if same is None else tirx.Var(let.var.name, let.var.ty)
    names.append(tirx.Bind(variable, value))
    return let.body if same is None else substituted(let.body, let.var, variable)


def _has_arms(value: Any) -> bool:
    found: list[Any] = []
    structural_walk(value, (ir.Call, lambda call: found.append(str(getattr(call.op, "name", "")))))
    return any(name.endswith(".if_then_else") for name in found)


def _in_order(names: list[Any]) -> list[Any]:
    """The same, each behind what it is made of."""
    ordered: list[Any] = []
    rest = list(names)
    while rest:
        variables = [each.var for each in rest]
        ready = [each for each in rest if not depends_on(each.value, variables)]
        ordered += ready
        rest = [each for each in rest if each not in ready]
    return ordered
