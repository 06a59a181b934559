"""Strip-mining: the body of a loop for several independent iterations at once, as vectors or unrolled.

Every store is done for all of them, down through the loops inside::

    acc = 0                                 acc[0:8] = 0
    for k: acc += A[i, k] * B[k, j]   ──►   for k: acc[0:8] += A[i, k] * B[k, j:j+8]
    C[i, j] = acc                           C[i, j:j+8] = acc[0:8]

Buffers that are private to an iteration get one more dimension. The result is None where the iterations diverge: at a
branch or a loop whose bounds differ between them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import Any

from mlirtri.lowering.schedule.cpu.common.vector_stores import vector_store
from mlirtri.lowering.tir.blocks import DivergentLanesError
from mlirtri.lowering.tir.statements import (
    buffer_like,
    chunks_in,
    depends_on,
    fresh,
    index,
    minus,
    new_buffer,
    plus,
    sequence,
    simplified,
    substituted,
    with_accesses,
    with_body,
)
from mlirtri.lowering.tir.vectors import is_fetch
from mlirtri.lowering.toolchain.tvm_names import (
    Buffer,
    Expr,
    Stmt,
    Var,
    ir,
    structural_equal,
    structural_map,
    structural_walk,
    tirx,
)

Widened = dict[Buffer, Buffer]
"""By private buffer, the buffer with one more dimension for the iterations of a strip."""
MAX_ELEMENTS = 64
"""Elements of the largest private buffer that is widened."""


@dataclass(frozen=True)
class Shape:
    """The iterations of a strip: a number of vectors, and of lanes in each. Vectors of one lane are unrolled."""

    vectors: int
    lanes: int

    @property
    def width(self) -> int:
        """The number of iterations of a strip."""
        return self.vectors * self.lanes


def strip_loop(loop: Stmt, start: Expr, count: Expr, shape: Shape, widened: Widened | None = None) -> Stmt | None:
    """Return the loop over whole strips of a `For`, iterations `start` to `count`; None where they diverge."""
    number = tirx.Var(loop.loop_var.name, loop.loop_var.ty)
    body = strip(loop.body, loop.loop_var, plus(loop.min, start) + number * index(shape.width), shape, widened)
    if body is None:
        return None
    strips = simplified(chunks_in(minus(count, start), shape.width))
    return tirx.For(number, index(0), strips, tirx.ForKind.SERIAL, body, None, loop.annotations)


def last_strip(loop: Stmt, start: Expr, count: Expr, shape: Shape) -> Stmt | None:
    """Return one strip that ends where the loop does and leaves the iterations before `start` as they are; or None.

    The loop has at least as many iterations as the strip.
    """
    first = minus(count, index(shape.width))
    return strip(loop.body, loop.loop_var, plus(loop.min, first), shape, skipped=minus(start, first))


def rest_loop(loop: Stmt, start: Expr, count: Expr) -> list[Stmt]:
    """Return the scalar loop over the iterations from `start` on; an empty list where there are none."""
    remaining = simplified(minus(count, start))
    if isinstance(remaining, tirx.IntImm) and remaining.value <= 0:
        return []
    variable = tirx.Var(loop.loop_var.name, loop.loop_var.ty)
    body = fresh(substituted(loop.body, loop.loop_var, plus(loop.min, start) + variable))
    return [tirx.For(variable, index(0), remaining, tirx.ForKind.SERIAL, body, None, loop.annotations)]


def strip(
    body: Stmt, variable: Var, start: Expr, shape: Shape, widened: Widened | None = None, skipped: Expr | None = None
) -> Stmt | None:
    """Return `body` for all iterations ``variable = start + …`` of one strip; None where they diverge.

    `widened` has the private buffers that are allocated outside of the body. The first `skipped` iterations store
    nothing.
    """
    offset = tirx.Var("lane", "int64")
    body = _without_binds(named_before(fresh(substituted(body, variable, start + offset))), offset)
    buffers = allocated_in(body)
    if any(_elements(buffer) is None for buffer in buffers):
        return None
    width = index(shape.width)
    widened = {**(widened or {}), **{buffer: buffer_like(buffer, [*buffer.ty.shape, width]) for buffer in buffers}}
    return _Strip(offset, shape, widened.values(), skipped).push(_with_dimension(body, widened, offset))


def vector_of(statement: Stmt, variable: Var, start: Expr, lanes: int, widened: Widened | None = None) -> Stmt:
    """Return a statement for `lanes` neighbouring iterations; raise `DivergentLanesError` where they diverge."""
    vector = strip(statement, variable, start, Shape(1, lanes), widened)
    if vector is None:
        raise DivergentLanesError("the lanes of a vector diverge")
    return vector


def allocated_in(statement: Stmt) -> list[Buffer]:
    """Return the buffers that are allocated inside a statement, in program order."""
    buffers: list[Any] = []
    structural_walk(statement, (tirx.AllocBuffer, lambda node: buffers.append(node.buffer)), order="pre")
    return buffers


def _elements(buffer: Buffer) -> int | None:
    """Return the number of elements of a small buffer; None for a large or dynamic one."""
    sizes = [size.value if isinstance(size, tirx.IntImm) else MAX_ELEMENTS + 1 for size in buffer.ty.shape]
    return prod(sizes) if prod(sizes) <= MAX_ELEMENTS else None


def _without_binds(body: Stmt, offset: Expr) -> Any:
    """Return the body with buffers of one element for `Bind` of values that differ between iterations."""
    varying, elements = [offset], {}

    def bind(node):
        if depends_on(node.value, varying):
            varying.append(node.var)
            elements[node.var] = new_buffer(node.var.name, str(node.var.ty), 1)

    def allocated(node):
        varying.append(node.buffer)

    structural_walk(body, [(tirx.Bind, bind), (tirx.AllocBuffer, allocated)], order="pre")
    if not elements:
        return body

    def store(node):
        if node.var not in elements:
            return node
        buffer = elements[node.var]
        return tirx.SeqStmt([tirx.AllocBuffer(buffer), tirx.BufferStore(buffer, node.value, [index(0)])])

    def load(variable):
        return tirx.BufferLoad(elements[variable], [index(0)]) if variable in elements else variable

    # Definitions before uses: a variable that is defined cannot become a load.
    body = structural_map(body, [(tirx.Bind, store), (tirx.SeqStmt, lambda node: sequence(*node.seq))], order="post")
    return structural_map(body, (tirx.Var, load), order="post")


def _with_dimension(body: Stmt, widened: dict[Any, Any], offset: Expr) -> Any:
    """Return the body with one more dimension of its private buffers, indexed by `offset`."""
    if not widened:
        return body

    def access(buffer, indices):
        return (widened[buffer], [*indices, offset]) if buffer in widened else None

    def allocated(node):
        return tirx.AllocBuffer(widened[node.buffer], node.annotations)

    return with_accesses(body, access, (tirx.AllocBuffer, allocated))


class _Strip:
    def __init__(self, offset: Expr, shape: Shape, private: Iterable[Any], skipped: Any):
        self.offset, self.shape, self.skipped = offset, shape, skipped
        self.private = list(private)
        self.varying = [offset, *self.private]

    def push(self, statement: Stmt) -> Any:
        rule = _RULES.get(type(statement))
        return rule(self, statement) if rule else None

    def _sequence(self, statement):
        pushed = [self.push(child) for child in statement.seq]
        return None if any(child is None for child in pushed) else sequence(*pushed)

    def _keep(self, statement):
        return statement

    def _bind(self, statement):
        return None if depends_on(statement.value, self.varying) else statement

    def _for(self, loop):
        if depends_on(loop.min, self.varying) or depends_on(loop.extent, self.varying):
            return None
        body = self.push(loop.body)
        return None if body is None else with_body(loop, body)

    def _if(self, statement):
        if depends_on(statement.condition, self.varying):
            return None
        then, other = self.push(statement.then_case), statement.else_case
        other = self.push(other) if other is not None else None
        if then is None or (other is None) != (statement.else_case is None):
            return None
        return tirx.IfThenElse(statement.condition, then, other)

    def _attribute(self, statement):
        body = self.push(statement.body)
        if body is None:
            return None
        return tirx.AttrStmt(statement.node, statement.attr_key, statement.value, body)

    def _evaluate(self, statement):
        """Return one prefetch per vector; None for anything else that is evaluated."""
        if not is_fetch(statement.value):
            return None
        lanes = self.shape.lanes
        fetches = [substituted(statement, self.offset, index(vector * lanes)) for vector in range(self.shape.vectors)]
        return sequence(*fetches)

    def _store(self, store):
        if self.skipped is not None and not any(store.buffer.same_as(buffer) for buffer in self.private):
            old = tirx.BufferLoad(store.buffer, store.indices)
            value = tirx.Select(tirx.GE(self.offset, self.skipped), store.value, old)
            store = tirx.BufferStore(store.buffer, value, store.indices)
        vectors, lanes = self.shape.vectors, self.shape.lanes
        vector = tirx.Var("vector", "int64")
        first = vector * index(lanes) if vectors > 1 else index(0)
        if lanes > 1:
            statement = vector_store(store, self.offset, first, lanes)
        else:
            statement = substituted(store, self.offset, first)
        return (
            statement if vectors == 1 else tirx.For(vector, index(0), index(vectors), tirx.ForKind.UNROLLED, statement)
        )


_RULES = {
    tirx.SeqStmt: _Strip._sequence,
    tirx.For: _Strip._for,
    tirx.IfThenElse: _Strip._if,
    tirx.Bind: _Strip._bind,
    tirx.AllocBuffer: _Strip._keep,
    tirx.AttrStmt: _Strip._attribute,
    tirx.BufferStore: _Strip._store,
    tirx.Evaluate: _Strip._evaluate,
}


# TVM rounds a value to bf16 by a formula that repeats it, with its `Let`, and rejects vectors with a variable bound
# twice. So `Let` in such a value becomes `Bind` before the store, except in the arms of an `if_then_else`, which may
# only be computed where the condition holds.


def named_before(statement: Stmt) -> Stmt:
    """Return the statement with a `Bind` before each store of a bf16 value, for each `Let` around or inside of it."""
    changed = structural_map(statement, (tirx.BufferStore, _bound_before), order="post")
    return structural_map(changed, (tirx.SeqStmt, lambda node: sequence(*node.seq)), order="post")


def _bound_before(store: Stmt) -> Any:
    if str(store.buffer.dtype) != "bfloat16":
        return store
    names: list[Any] = []
    value = _without_names(store.value, names)
    if not names:
        return store
    return sequence(*_in_order(names), tirx.BufferStore(store.buffer, value, store.indices))


def _without_names(value: Expr, names: list[Any]) -> Any:
    """Return the value without its `Let`, whose `Bind` are appended to `names`."""
    while isinstance(value, tirx.Let):
        value = _named(value, _without_names(value.value, names), names)
    if _has_arms(value):
        return value
    return structural_map(value, (tirx.Let, lambda node: _named(node, node.value, names)), order="post")


def _named(let: Any, value: Expr, names: list[Any]) -> Any:
    """Return the body of a `Let`, whose `Bind` is appended to `names` unless it is there."""
    same = next((bind for bind in names if bind.var.same_as(let.var)), None)
    if same is not None and structural_equal(same.value, value):
        return let.body
    variable = let.var if same is None else tirx.Var(let.var.name, let.var.ty)
    names.append(tirx.Bind(variable, value))
    return let.body if same is None else substituted(let.body, let.var, variable)


def _has_arms(value: Expr) -> bool:
    operators: list[Any] = []
    structural_walk(value, (ir.Call, lambda call: operators.append(str(getattr(call.op, "name", "")))))
    return any(name.endswith(".if_then_else") for name in operators)


def _in_order(names: list[Any]) -> list[Any]:
    ordered: list[Any] = []
    remaining = list(names)
    while remaining:
        variables = [bind.var for bind in remaining]
        ready = [bind for bind in remaining if not depends_on(bind.value, variables)]
        ordered += ready
        remaining = [bind for bind in remaining if bind not in ready]
    return ordered
