"""Merge the zeros of a tile and the copy of what is in bounds into one guarded copy of the whole tile.

    for i < 64, j < 32: tile[i, j] = 0                                 for i < 64, j < 32:
    for i < min(64, m - x), j < 32: tile[i, j] = a[x + i, j]   ──►         tile[i, j] = a[x + i, j] if i < m - x else 0

Threads then divide a tile of constant size, without a barrier between, and a product knows its operand's elements.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from mlirtri.lowering.schedule.imperative.accesses import is_scalar
from mlirtri.lowering.schedule.imperative.interchange import with_parts
from mlirtri.lowering.schedule.imperative.perfect_nests import Nest, is_zero, nest_of
from mlirtri.lowering.tir.statements import depends_on, index, loads_in, nodes_in, sequence, with_body
from mlirtri.lowering.tir.tiles import replaced, zero_of
from mlirtri.lowering.toolchain.tvm_names import (
    Buffer,
    Expr,
    Node,
    Stmt,
    TensorLoad,
    Var,
    ir,
    structural_equal,
    structural_map,
    structural_walk,
    tirx,
)

IF_THEN_ELSE = "if_then_else"


def with_sizes_at_use(statement: Stmt) -> Stmt:
    """Return a block's statement with the sizes of clipped tiles where they are used, in place of numbers with names.

    A loop that only copies tiles and adds their product then has no other statements.
    """
    loads = Counter(load.source for load in loads_in(statement))
    stores = Counter(store.buffer for store in nodes_in(statement, tirx.BufferStore))
    sizes: dict[Any, Any] = {}
    names: dict[Any, Any] = {}

    def note(node: Node) -> None:
        allocated = {child.buffer for child in node.seq if isinstance(child, tirx.AllocBuffer)}
        for child in node.seq:
            if isinstance(child, tirx.BufferStore) and child.buffer in allocated and _is_size(child):
                if (loads[child.buffer], stores[child.buffer]) == (1, 1):
                    sizes[child.buffer] = child.value
            elif isinstance(child, tirx.Bind) and isinstance(child.value, TensorLoad) and child.value.source in sizes:
                names[child.var] = sizes[child.value.source]

    structural_walk(statement, (tirx.SeqStmt, note))
    gone = {buffer for buffer, value in sizes.items() if any(value is each for each in names.values())}
    return _without_names(statement, names, gone) if names else statement


def _is_size(store: Stmt) -> bool:
    return is_scalar(store.buffer) and str(store.value.ty.dtype) == "int64" and not loads_in(store.value)


def _without_names(statement: Stmt, names: dict[Any, Any], gone: set[Any]) -> Any:
    while any(depends_on(value, list(names)) for value in names.values()):
        names = {name: replaced(value, names) for name, value in names.items()}

    def is_kept(child: Any) -> bool:
        if isinstance(child, tirx.AllocBuffer | tirx.BufferStore):
            return child.buffer not in gone
        return not (isinstance(child, tirx.Bind) and child.var in names)

    def kept(node: Node) -> Any:
        return sequence(*(child for child in node.seq if is_kept(child)))

    return replaced(structural_map(statement, (tirx.SeqStmt, kept), order="post"), names)


def with_whole_copies(statement: Stmt) -> Stmt:
    """Return the statement with each zeroed and then partly copied tile as one copy."""
    if isinstance(statement, tirx.For):
        return with_body(statement, with_whole_copies(statement.body))
    if not isinstance(statement, tirx.SeqStmt):
        return with_parts(statement, with_whole_copies)
    statements = [with_whole_copies(child) for child in statement.seq]
    for first, start in enumerate(statements):
        second = _next(statements, first)
        whole = None if second is None else _whole(start, statements[second])
        if second is not None and whole is not None:
            statements[first], statements[second] = None, whole
    for position, child in enumerate(statements):
        whole = _over_another(statements[:position], child) if isinstance(child, tirx.For) else None
        statements[position] = child if whole is None else whole
    return sequence(*(child for child in statements if child is not None))


def _next(statements: Sequence[Any], position: int) -> int | None:
    """Return the position of the next statement that is no allocation."""
    later = range(position + 1, len(statements))
    return next((number for number in later if not isinstance(statements[number], tirx.AllocBuffer)), None)


def _whole(start: Any, copy: Any) -> Any:
    """Return a copy into a buffer that `start` zeroes, as a copy of the whole buffer; None for other statements."""
    if not isinstance(start, tirx.For) or not isinstance(copy, tirx.For):
        return None
    zeros, part = nest_of(start), nest_of(copy)
    if zeros is None or part is None or not is_zero(zeros.store.value) or not _is_part(zeros, part):
        return None
    return _guarded_copy(copy, part, zeros)


def _over_another(before: Sequence[Any], copy: Any) -> Any:
    """Return a copy over a guarded copy with the same bounds, beyond which zeros are, as one of the whole buffer.

    One of MLIR's tiles takes the place of another one, whose zeros it keeps.
    """
    part = nest_of(copy)
    if part is None or part.reaches_all():
        return None
    stores = [each for each in before if any(_writes(each, part.store.buffer))]
    whole = nest_of(stores[-1]) if stores and isinstance(stores[-1], tirx.For) else None
    if whole is None or not _is_part(whole, part):
        return None
    conditions, _ = unguarded(whole.store.value)
    values = dict(zip(whole.variables, part.variables, strict=True))
    conditions = [replaced(condition, values) for condition in conditions]
    guards = _guards(part, whole)
    is_same = len(conditions) == len(guards) and all(map(structural_equal, conditions, guards))
    return _guarded_copy(copy, part, whole) if guards and is_same else None


def _writes(statement: Any, buffer: Buffer) -> list[bool]:
    found = [] if statement is None else nodes_in(statement, tirx.BufferStore)
    return [store.buffer.same_as(buffer) for store in found]


def _guards(part: Nest, whole: Nest) -> list[Any]:
    """Return the conditions under which the elements of a whole buffer are in a part of it."""
    pairs = zip(part.axes, whole.axes, strict=True)
    guards = [_guard(axis.variable, axis.extent, int(all_of.extent)) for axis, all_of in pairs]
    return [guard for guard in guards if guard is not None]


def _guarded_copy(copy: Any, part: Nest, whole: Nest) -> Any:
    """Return a copy of a part of a buffer as one of the whole, with zeros where the part ends."""
    sizes, guards, store = [int(axis.extent) for axis in whole.axes], _guards(part, whole), part.store
    value = store.value
    if guards:
        value = tirx.if_then_else(tirx.all(*guards), value, zero_of(str(value.ty.dtype)))
    body: Any = tirx.BufferStore(store.buffer, value, store.indices)
    for loop, size in reversed(list(zip(_loops(copy, len(sizes)), sizes, strict=True))):
        body = tirx.For(loop.loop_var, index(0), index(size), loop.kind, body, None, loop.annotations)
    return body


def _is_part(zeros: Nest, part: Nest) -> bool:
    """Return whether a nest stores elements from the first on to a buffer of constant size that another one fills."""
    buffer, indices = part.store.buffer, list(part.store.indices)
    if not zeros.store.buffer.same_as(buffer) or not zeros.reaches_all() or zeros.names or part.names:
        return False
    variables = part.variables
    if len(indices) != len(variables) or len(zeros.axes) != len(variables):
        return False
    in_order = all(position.same_as(variable) for position, variable in zip(indices, variables, strict=True))
    if not in_order or not all(isinstance(axis.extent, int) for axis in zeros.axes):
        return False
    if any(depends_on(axis.extent, [buffer]) for axis in part.axes if not isinstance(axis.extent, int)):
        return False
    return not any(load.source.same_as(buffer) for load in loads_in(part.store.value))


def _loops(statement: Stmt, count: int) -> list[Any]:
    loops = []
    while len(loops) < count:
        if isinstance(statement, tirx.For):
            loops.append(statement)
        statement = statement.body
    return loops


def _guard(variable: Var, extent: Any, size: int) -> Any:
    """Return the condition that a variable below `size` is below an extent; None where it always is."""
    if isinstance(extent, int | tirx.IntImm):
        return None if int(extent) >= size else tirx.LT(variable, index(int(extent)))
    if isinstance(extent, tirx.Max) and _number(extent.b) is not None and int(extent.b) <= 0:
        return _guard(variable, extent.a, size)
    if isinstance(extent, tirx.Min):
        guards = [guard for side in (extent.a, extent.b) if (guard := _guard(variable, side, size)) is not None]
        return tirx.all(*guards) if guards else None
    if isinstance(extent, tirx.Sub) and isinstance(extent.b, tirx.Max):
        whole, least = _number(extent.a), _number(extent.b.b)
        if whole is not None and least is not None and whole - least >= size:
            return tirx.LT(variable + extent.b.a, extent.a)
    return tirx.LT(variable, extent)


def _number(expression: Expr) -> int | None:
    return int(expression) if isinstance(expression, tirx.IntImm) else None


def unguarded(element: Expr) -> tuple[list[Expr], Expr]:
    """Return the conditions under which an element is another than 0, and that other element."""
    conditions: list[Any] = []
    while isinstance(element, ir.Call) and str(getattr(element.op, "name", "")).endswith(IF_THEN_ELSE):
        condition, value, other = element.args
        if not is_zero(other):
            break
        conditions += conjuncts(condition)
        element = value
    return conditions, element


def conjuncts(condition: Expr) -> list[Expr]:
    """Return the conditions of which a condition is the conjunction."""
    if isinstance(condition, tirx.And):
        return [*conjuncts(condition.a), *conjuncts(condition.b)]
    return [condition]
