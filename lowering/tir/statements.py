"""Small TIR statements and expressions that all lowerings build: indices, copies, sequences, small buffers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from math import prod
from typing import Any

from mlirtri.lowering.core.stage import BLOCKS
from mlirtri.lowering.toolchain.tvm_names import (
    LOCATION,
    Buffer,
    Callbacks,
    Expr,
    IRModule,
    Node,
    PrimFunc,
    Stmt,
    TensorLoad,
    Var,
    structural_map,
    structural_walk,
    tirx,
    tvm,
    with_values,
)


@lru_cache(maxsize=4096)
def index(value: int) -> Expr:
    """Return a constant index of int64; the same node for the same number, since nodes are immutable."""
    return tirx.IntImm("int64", value)


def plus(x: Expr, y: Expr) -> Expr:
    """Return x + y, as a constant where both are, and as one of them where the other is 0."""
    if isinstance(x, tirx.IntImm) and isinstance(y, tirx.IntImm):
        return index(x.value + y.value)
    zeros = [isinstance(operand, tirx.IntImm) and operand.value == 0 for operand in (x, y)]
    return y if zeros[0] else x if zeros[1] else x + y


def minus(x: Expr, y: Expr) -> Expr:
    """Return x - y, as a constant where both are."""
    if isinstance(y, tirx.IntImm):
        return plus(x, index(-y.value))
    return x - y


def chunks_in(x: Expr, width: int) -> Expr:
    """Return the number of whole vectors, or chunks, of this width in x iterations."""
    return index(x.value // width) if isinstance(x, tirx.IntImm) else tirx.floordiv(x, index(width))


def delinearized(position: Expr, extents: Sequence[int]) -> list[Expr]:
    """Return the index along each axis of a row-major linear position."""
    indices: list[Any] = []
    for axis, extent in enumerate(extents):
        stride = prod(extents[axis + 1 :])
        value = position if stride == 1 else tirx.floordiv(position, index(stride))
        indices.append(value if axis == 0 else tirx.floormod(value, index(extent)))
    return indices


def simplified(extent: Expr) -> Expr:
    """Return a loop extent as TVM's parser would build it, so that printing and parsing a module round-trips."""
    return tvm.sym.Analyzer().simplify(extent)


def whole_chunks(count: Expr, width: int) -> Expr:
    """Return how many of `count` iterations are in whole chunks of this width."""
    chunks = chunks_in(count, width)
    return index(chunks.value * width) if isinstance(chunks, tirx.IntImm) else chunks * index(width)


def substituted(statement: Stmt, variable: Var, value: Expr) -> Stmt:
    """Return `statement` with an expression in place of a variable."""
    return with_values(statement, {variable: value})


def fresh(statement: Stmt) -> Stmt:
    """Return a copy in which every variable and buffer that the statement defines is a new one."""
    names: dict[Any, Any] = {}

    def loop(node):
        names[node.loop_var] = tirx.Var(node.loop_var.name, node.loop_var.ty)

    def bound(node):
        names[node.var] = tirx.Var(node.var.name, node.var.ty)

    def allocated(node):
        names[node.buffer] = buffer_like(node.buffer, node.buffer.ty.shape)

    rules = [(tirx.For, loop), (tirx.Bind, bound), (tirx.Let, bound), (tirx.AllocBuffer, allocated)]
    structural_walk(statement, rules)
    return with_values(statement, names) if names else statement


def with_function_body(function: PrimFunc, body: Stmt) -> PrimFunc:
    """Return the PrimFunc with this body; the same PrimFunc where it has it: TVM walks through a new one's body."""
    return function if body.same_as(function.body) else function.with_body(body)


def rewritten(mod: IRModule, rules: Callbacks, chosen: Callable[[PrimFunc], bool] = lambda function: True) -> IRModule:
    """Return the module with the bodies of its chosen PrimFuncs rewritten by class of node, operands first."""
    functions = {}
    for name, function in mod.functions_items():
        if isinstance(function, PrimFunc) and chosen(function):
            function = with_function_body(function, structural_map(function.body, rules, order="post"))
        functions[name] = function
    return IRModule(functions, attrs=mod.attrs)


def sequence(*statements: Stmt) -> Stmt:
    """Return the statements as one flat `SeqStmt`, so that an allocation is visible to all statements after it.

    One statement is returned as it is; without any, a statement that does nothing.
    """
    flat: list[Any] = []
    for statement in statements:
        flat.extend(statement.seq if isinstance(statement, tirx.SeqStmt) else [statement])
    if not flat:
        return tirx.Evaluate(tirx.IntImm("int32", 0))
    return flat[0] if len(flat) == 1 else tirx.SeqStmt(flat)


def nodes_in(node: Node, *kinds: type) -> list[Node]:
    """Return the nodes of these classes in a statement or expression, operands before what uses them."""
    nodes: list[Any] = []
    structural_walk(node, (kinds, nodes.append))
    return nodes


def is_load(expression: Expr, buffer: Buffer) -> bool:
    """Return whether an expression is a load from a buffer."""
    return isinstance(expression, TensorLoad) and expression.source.same_as(buffer)


def operator_name(expression: Expr) -> str:
    """Return the name of the operator that a call calls, ``tirx.isnan``; empty for what is no such call."""
    return str(getattr(getattr(expression, "op", None), "name", ""))


def location_of(*statements: Stmt) -> str:
    """Return the source location of the first loop in the statements that has one, or an empty string."""
    loops = (loop for statement in statements for loop in nodes_in(statement, tirx.For))
    return next((str(loop.annotations[LOCATION]) for loop in loops if LOCATION in loop.annotations), "")


def loads_in(node: Node) -> list[TensorLoad]:
    """Return the loads in a statement or expression, in program order."""
    return nodes_in(node, TensorLoad)


def depends_on(expression: Expr, variables: Collection[Var]) -> bool:
    """Return whether a statement or expression uses one of these variables or buffers."""
    return bool(variables) and not uses_in(expression).isdisjoint(variable.__chandle__() for variable in variables)


def uses_in(node: Node) -> set[int]:
    """Return the addresses of the variables and buffers in a statement or expression."""
    uses: set[int] = set()
    structural_walk(node, (tirx.Var, lambda variable: uses.add(variable.__chandle__())))
    return uses


def new_buffer(name: str, dtype: str, *sizes: int) -> Buffer:
    """Return a small buffer, which LLVM keeps in registers; TVM would allocate one of scope `local` on the heap."""
    return tirx.decl_buffer([index(size) for size in sizes], dtype, name, layout=None)


def buffer_like(buffer: Buffer, shape: Sequence[Expr]) -> Buffer:
    """Return a new buffer of the same name, dtype, scope and layout, with another shape."""
    return tirx.decl_buffer(shape, buffer.dtype, buffer.name, scope=buffer.ty.storage_scope, layout=buffer.ty.layout)


def aligned_to_elements(buffer: Buffer, values: Mapping[Var, Expr]) -> Buffer:
    """Return a new buffer of the same type that is aligned to its elements only, with values in place of variables."""
    kind = buffer.ty
    shape, strides = ([with_values(size, values) for size in sizes] for sizes in (kind.shape, kind.strides))
    return tirx.decl_buffer(
        shape, buffer.dtype, buffer.name, strides=strides, scope=kind.storage_scope,
        data_alignment=max(1, int(buffer.dtype.bits) // 8), layout=kind.layout,
    )  # fmt: skip


def with_body(loop: Stmt, body: Stmt, *, kind: tirx.ForKind | None = None) -> Stmt:
    """Return the loop with another body."""
    kind = loop.kind if kind is None else kind
    return tirx.For(loop.loop_var, loop.min, loop.extent, kind, body, None, loop.annotations, loop.step)


def split_grid(statement: Stmt) -> tuple[list[Stmt], Stmt]:
    """Return the loops over blocks around a tile kernel's statement, outermost first, and the body of a block."""
    loops: list[Stmt] = []
    while isinstance(statement, tirx.For) and BLOCKS in statement.annotations:
        loops.append(statement)
        statement = statement.body
    return loops, statement


Access = tuple[Buffer, Sequence[Expr]] | None
"""A buffer and the indices of one of its elements; None to keep an access as it is."""


def with_accesses(statement: Stmt, change: Callable[[Buffer, Sequence[Expr]], Access], *others: Any) -> Stmt:
    """Return the statement with ``change(buffer, indices)`` in place of each access; `others` are further rules."""

    def load(node: Node) -> Any:
        access = change(node.source, node.indices)
        return node if access is None else tirx.BufferLoad(*access)

    def store(node: Node) -> Any:
        access = change(node.buffer, node.indices)
        return node if access is None else tirx.BufferStore(access[0], node.value, access[1])

    return structural_map(statement, [(TensorLoad, load), (tirx.BufferStore, store), *others], order="post")


def flat(statements: Sequence[Stmt]) -> list[Stmt]:
    """Return statements with those of sequences among them in their places."""
    parts = [statement.seq if isinstance(statement, tirx.SeqStmt) else [statement] for statement in statements]
    return [part for group in parts for part in group]
