"""Atomic updates of one element, `old = mt.atomic_add(h[i], x)`: iterations of a parallel loop may share the element.

The read and the write carry the attribute `ATOMIC`, which the dependence check accepts in any two iterations.
"""

from __future__ import annotations

import ast
from typing import Any

from mlirtri.dialect.bindings.mlir import ir
from mlirtri.dialect.builder import TriValue
from mlirtri.errors import KernelTypeError, UnsupportedSyntaxError
from mlirtri.lowering.dependence.index_forms import ATOMIC
from mlirtri.lowering.frontend.context import FunctionContext, visit
from mlirtri.lowering.frontend.indexing.reads import element
from mlirtri.lowering.frontend.indexing.writes import write
from mlirtri.lowering.frontend.semantics.builder import Language, describe
from mlirtri.lowering.frontend.semantics.storage import as_new_array, current, has_memory

PREFIX = "mlirtri.atomic_"
OPERATIONS = {"add": "add", "min": "minimum", "max": "maximum", "and": "and", "or": "or", "xor": "xor", "cas": ""}
"""By atomic function, the operation of the table; of bools and integers `logical_` and `bitwise_` precede it."""
_OF_BITS = ("and", "or", "xor")


def atomic_name(callee: object) -> str | None:
    """Return which atomic update a function is, such as ``"add"``; None for others."""
    name = getattr(callee, "__mlirtri_name__", None)
    return name.removeprefix(PREFIX) if isinstance(name, str) and name.startswith(PREFIX) else None


def atomic_call(context: FunctionContext, name: str, node: ast.Call) -> TriValue:
    """Emit the update of one element of an array; return what the element was before."""
    b, spelled = context.b, f"atomic_{name}"
    count = 3 if name == "cas" else 2
    target = node.args[0] if node.args else None
    if not isinstance(target, ast.Subscript) or len(node.args) != count or node.keywords:
        rest = "expected, desired" if name == "cas" else "x"
        raise UnsupportedSyntaxError(
            f"{spelled} takes an element of an array, and {'two values' if name == 'cas' else 'a value'}",
            context.span(node), help=f"write mt.{spelled}(h[i], {rest})",
        )  # fmt: skip
    owner, index = visit(context, target.value), visit(context, target.slice)
    values = [visit(context, argument) for argument in node.args[1:]]
    if not isinstance(owner, TriValue) or not has_memory(owner):
        raise KernelTypeError(f"{spelled} updates an array in memory, not {describe(owner)}", context.span(target))
    owner, parts = current(b.tri, owner), index if isinstance(index, tuple) else (index,)
    old = as_new_array(element(b, owner, parts))
    if old.type.rank:
        raise KernelTypeError(
            f"{spelled} updates one element, and `{ast.unparse(target)}` is {old.type}", context.span(target),
            help="index every axis",
        )  # fmt: skip
    new = _updated(b, name, old, [_fitting(b, spelled, old, value) for value in values])
    _mark(old, "tri.extract_slice")
    write(b, owner, parts, new)
    _mark(owner.origin.storage.value, "tri.insert_slice")
    return old


def _fitting(b: Language, spelled: str, old: TriValue, value: Any) -> TriValue:
    """Return a value as the element's dtype; refuses arrays and wider kinds of numbers."""
    new = b.tensor(value, None if isinstance(value, TriValue) else old.type.dtype)
    kinds = [
        dtype.is_complex * 3 or dtype.is_float * 2 or int(not dtype.is_bool)
        for dtype in (old.type.dtype, new.type.dtype)
    ]
    if new.type.rank or kinds[1] > kinds[0] or (isinstance(value, float) and kinds[0] < 2):
        raise KernelTypeError(
            f"{spelled} of {describe(value)} does not fit into an element of dtype {old.type.dtype}",
            help=f"write mt.{old.type.dtype}(…) around it",
        )
    return b.tri.cast(new, old.type.dtype)


def _updated(b: Language, name: str, old: TriValue, values: list[TriValue]) -> TriValue:
    dtype = old.type.dtype
    if name == "cas":
        expected, desired = values
        return b.tri.where(b.tri.equal(old, expected), desired, old)
    if name in _OF_BITS and not (dtype.is_bool or dtype.is_integer):
        raise KernelTypeError(f"atomic_{name} is for integers and bools, not for {dtype}")
    if name not in _OF_BITS and (dtype.is_bool or dtype.is_complex) and not (name == "add" and dtype.is_complex):
        raise KernelTypeError(f"atomic_{name} is for numbers that have an order, not for {dtype}")
    operation = OPERATIONS[name]
    if name in _OF_BITS:
        operation = f"{'logical' if dtype.is_bool else 'bitwise'}_{operation}"
    return b.tri.emit(operation, old, *values)


def _mark(value: TriValue, name: str) -> None:
    """Mark the operation that reads or writes the element; casts and reshapes may follow a read."""
    owner = value.value.owner
    while not isinstance(owner, ir.Block):
        operation = owner.operation
        if operation.name == name:
            operation.attributes[ATOMIC] = ir.UnitAttr.get()
        if operation.name == name or not len(operation.operands):
            return
        owner = operation.operands[0].owner
