"""Statements that a function repeats become functions that it calls, so that TVM and LLVM compile them once.

Two layers of a model with dynamic sizes are such statements, and the bodies of a loop that runs on all threads or on
one, by how large its sizes are. Repeated means equal but for the names of variables::

    if n > 65536: parallel i: A[i] = f(B[i])          if n > 65536: parallel i: part(A, B, i)
    else:         for i:      A[i] = f(B[i])   ──►    else:         for i:      part(A, B, i)

Only in imperative functions: those of tensor programs are compiled once as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from mlirtri.lowering.tir.statements import aligned_to_elements, nodes_in, rewritten, sequence
from mlirtri.lowering.toolchain.tvm_names import (
    IMPERATIVE,
    GlobalVar,
    IRModule,
    PrimFunc,
    SBlockRealize,
    Stmt,
    Var,
    buffer_data,
    buffer_data_pointer_type,
    ir,
    structural_equal,
    structural_hash,
    structural_map,
    structural_walk,
    tirx,
    with_values,
)

LEAST_STORES = 12
"""Stores of a statement in a loop from which on a call costs less than another copy; one outside of loops runs once."""
LOOPS = 4
"""Loops and branches around the statements that are compared. Further in they run too often for calls."""
_CPU = {"device_type": 1, "device_id": 0}
"""TVM's numbers of the device on which a function allocates, which it asks of the function's arguments else."""
_NOT_INLINED = "llvm.localescape"
"""An intrinsic that does nothing without arguments; LLVM inlines no function that calls it.

Inlined, a function's accesses would keep the alias sets (TBAA) that TVM gives the parameters, which LLVM takes for
other memory than that of the caller's buffers.
"""
_NOT_MOVED = (tirx.DeclBuffer, tirx.AssertStmt, tirx.Return, tirx.Break, tirx.Continue, SBlockRealize)
"""Statements that mean something else in another function, or whose buffers share memory with others."""


def with_calls_of_repeated(module: IRModule) -> IRModule:
    """Return the module with the statements that an imperative function repeats as functions, which it calls."""
    functions: dict[Any, PrimFunc] = {}
    for variable, function in module.functions_items():
        if IMPERATIVE not in (function.attrs or {}) or nodes_in(function.body, tirx.DeclBuffer):
            functions[variable] = function
            continue
        parts = _Parts(variable.name_hint, dict(function.attrs))
        functions[variable] = parts.without_repeated(_with_plain_alignment(function))
        functions.update(parts.functions)
    return IRModule(functions, attrs=module.attrs)


def with_arguments_as_declared(module: IRModule) -> IRModule:
    """Return a lowered module whose calls pass integers of the callees' types: TVM narrows those of the callers."""
    callees = {variable.name_hint: function for variable, function in module.functions_items()}

    def converted(call: Any) -> Any:
        if not isinstance(call.op, GlobalVar):
            return call
        kinds = [parameter.ty for parameter in callees[call.op.name_hint].params]
        arguments = [
            tirx.Cast(str(kind.dtype), argument) if isinstance(kind, ir.PrimType) and argument.ty != kind else argument
            for argument, kind in zip(call.args, kinds, strict=True)
        ]
        return ir.Call(call.op, arguments, ret_ty=call.ty)

    return rewritten(module, (ir.Call, converted))


def _with_plain_alignment(function: PrimFunc) -> PrimFunc:
    """Return the function with allocations of dynamic size aligned like parameters: to their elements."""
    fresh: dict[Any, Any] = {}

    def note(statement: Stmt) -> None:
        buffer = statement.buffer
        if not all(isinstance(size, tirx.IntImm) for size in buffer.shape):
            fresh[buffer] = aligned_to_elements(buffer, {})

    structural_walk(function.body, (tirx.AllocBuffer, note), order="pre")
    return function.with_body(with_values(function.body, fresh)) if fresh else function


@dataclass
class _Parts:
    """The functions that statements of one function have become."""

    prefix: str
    attributes: dict[str, Any]
    functions: dict[Any, PrimFunc] = field(default_factory=dict)

    def without_repeated(self, function: PrimFunc) -> PrimFunc:
        """Return the function with calls in place of statements that it repeats."""
        candidates = _Candidates()
        by_stores: dict[int, list[Any]] = {}
        for stores, statement in candidates.within(function.body, LOOPS, least=1):
            by_stores.setdefault(stores, []).append(statement)
        calls: dict[int, Any] = {}
        # Longer statements first: those inside of one that is called need none of their own.
        for _, statements in sorted(by_stores.items(), reverse=True):
            for group in _alike(statement for statement in statements if statement.__chandle__() not in calls):
                self._call(group, calls, candidates)
        return function.with_body(_with(function.body, calls))

    def _call(self, group: list[Any], calls: dict[int, Any], candidates: _Candidates) -> None:
        first, *others = group
        same = [other for other in others if structural_equal(first, other, map_free_vars=True)]
        if not same:
            return
        name = GlobalVar(f"{self.prefix}_part{len(self.functions)}")
        self.functions[name] = function = self._function(first)
        for statement in (first, *same):
            calls[statement.__chandle__()] = _call_of(name, _free(statement))
            for _, inner in candidates.within(statement, LOOPS, least=1):
                calls.setdefault(inner.__chandle__(), None)
        self.functions[name] = self.without_repeated(function)

    def _function(self, statement: Stmt) -> PrimFunc:
        """Return a statement as a function of its free variables; 0 is returned where nothing has failed."""
        parameters, declarations, fresh = _declared(_free(statement))
        barrier = tirx.Evaluate(tirx.call_llvm_intrin("void", _NOT_INLINED))
        body = sequence(barrier, *declarations, with_values(statement, fresh), tirx.Return(tirx.IntImm("int32", 0)))
        for name, value in _CPU.items():
            body = tirx.AttrStmt(ir.StringImm("default"), name, tirx.IntImm("int32", value), body)
        attributes = {key: value for key, value in self.attributes.items() if key != "global_symbol"}
        return PrimFunc(parameters, body, ir.PrimType("int32"), None).with_attrs(attributes)


def _with(body: Stmt, calls: dict[int, Any]) -> Any:
    """Return a body with calls in place of statements, which are given by their addresses."""
    if not calls:
        return body

    def called(statement: Stmt) -> Any:
        return calls.get(statement.__chandle__()) or statement

    return structural_map(body, (_KINDS, called), order="post")


def _alike(statements: Iterable[Any]) -> list[list[Any]]:
    """Return groups of statements of one hash, which does not depend on the names of variables."""
    several = list(statements)
    if len(several) < 2:
        return []
    groups: dict[int, list[Any]] = {}
    for statement in several:
        groups.setdefault(structural_hash(statement, map_free_vars=True), []).append(statement)
    return [group for group in groups.values() if len(group) > 1]


_KINDS = (tirx.For, tirx.IfThenElse, tirx.SeqStmt)


class _Candidates:
    """The statements that are long enough to be functions."""

    def __init__(self) -> None:
        self._counts: dict[int, tuple[int, bool]] = {}

    def within(self, statement: Stmt, loops: int, least: int = LEAST_STORES) -> Iterator[tuple[int, Any]]:
        """Give the number of stores and the statement of each one inside of `statement`, before those inside of it.

        `least` is the number of stores until the first loop.
        """
        for inner in _inside(statement):
            is_deeper = isinstance(inner, tirx.For | tirx.IfThenElse)
            stores, can_move = self._counted(inner) if loops >= is_deeper else (0, False)
            if stores < max(least, 1):
                continue
            if can_move and isinstance(inner, _KINDS):
                yield stores, inner
            yield from self.within(inner, loops - is_deeper, LEAST_STORES if isinstance(inner, tirx.For) else least)

    def _counted(self, statement: Stmt) -> tuple[int, bool]:
        """Return the number of stores in a statement, and whether it may stand in another function."""
        known = self._counts.get(statement.__chandle__())
        if known is not None:
            return known
        inside = [self._counted(inner) for inner in _inside(statement)]
        stores = sum(stores for stores, _ in inside) + isinstance(statement, tirx.BufferStore)
        can_move = not isinstance(statement, _NOT_MOVED) and all(can_move for _, can_move in inside)
        self._counts[statement.__chandle__()] = stores, can_move
        return stores, can_move


def _inside(statement: Stmt) -> list[Any]:
    if isinstance(statement, tirx.SeqStmt):
        return list(statement.seq)
    if isinstance(statement, tirx.IfThenElse):
        return [branch for branch in (statement.then_case, statement.else_case) if branch is not None]
    if isinstance(statement, SBlockRealize):
        return [statement.block.body]
    return [statement.body] if isinstance(statement, tirx.For | tirx.While | tirx.AttrStmt) else []


def _free(statement: Stmt) -> list[Any]:
    """Return the variables and buffers that a statement takes from outside, and the variables in buffers' shapes."""
    defined: set[int] = set()
    structural_walk(statement, [
        (tirx.For, lambda node: defined.add(node.loop_var.__chandle__())),
        ((tirx.Bind, tirx.Let), lambda node: defined.add(node.var.__chandle__())),
        (tirx.AllocBuffer, lambda node: defined.add(node.buffer.__chandle__())),
    ])  # fmt: skip
    free: dict[int, Any] = {}

    def note(variable: Var) -> None:
        if variable.__chandle__() in defined or variable.__chandle__() in free:
            return
        free[variable.__chandle__()] = variable
        if _is_buffer(variable):
            for size in (*variable.ty.shape, *variable.ty.strides):
                structural_walk(size, (tirx.Var, note))

    structural_walk(statement, (tirx.Var, note), order="pre")
    return list(free.values())


def _is_buffer(variable: Var) -> bool:
    return isinstance(variable.ty, tirx.BufferType)


def _declared(free: list[Any]) -> tuple[list[Any], list[Any], dict[Any, Any]]:
    """Return the parameters for free variables, declarations of buffers at addresses, and what stands for each."""
    scalars = {variable: tirx.Var(variable.name, variable.ty) for variable in free if not _is_buffer(variable)}
    parameters, declarations, fresh = [], [], dict(scalars)
    for variable in free:
        if not _is_buffer(variable):
            parameters.append(scalars[variable])
            continue
        address = tirx.Var(variable.name, buffer_data_pointer_type(variable))
        buffer = aligned_to_elements(variable, scalars)
        parameters.append(address)
        declarations.append(tirx.DeclBuffer(buffer, data=address))
        fresh[variable] = buffer
    return parameters, declarations, fresh


def _call_of(name: GlobalVar, free: list[Any]) -> Any:
    arguments = [buffer_data(variable) if _is_buffer(variable) else variable for variable in free]
    failed = tirx.Var("failed", "int32")
    is_done = tirx.EQ(failed, tirx.IntImm("int32", 0))
    return sequence(
        tirx.Bind(failed, ir.Call(name, arguments, ret_ty="int32")),
        tirx.AssertStmt(is_done, ir.StringImm("MemoryError"), [ir.StringImm("no memory is left")]),
    )
