"""Names inside of the bf16 values that a statement stores become statements before it.

Takes a statement in which no name is bound twice. Gives it with `Bind` for `Let` around and inside of what goes to bf16
buffers. TVM rounds such a value by a formula that repeats it, with its `Let`, and its vectors refuse a name that is
bound twice. Names of an arm of a condition, which may only be computed where the condition holds, stay where they are.
"""

from __future__ import annotations

from typing import Any

from mlirtri.lowering.tir_statements import depends_on, sequence
from mlirtri.lowering.tvm_names import ir, structural_map, structural_walk, tirx


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
        names.append(tirx.Bind(value.var, _without_names(value.value, names)))
        value = value.body
    if _has_arms(value):
        return value

    def lifted(node):
        names.append(tirx.Bind(node.var, node.value))
        return node.body

    return structural_map(value, (tirx.Let, lifted), order="post")


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
