"""Inline a call of an unscheduled PrimFunc as linalg on tensors: blocks become generics, other statements loops.

Loops are `scf` on tensors and carry the buffers that they write; parallel ones become sequential.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

from mlirtri.dialect.base.sizes import DYNAMIC
from mlirtri.dialect.bindings.mlir import arith, ir, scf, tensor
from mlirtri.errors import UnsupportedOperationError
from mlirtri.lowering.importers.from_relax.primfunc_frame import Frame, Size, located
from mlirtri.lowering.importers.from_relax.primfunc_generics import emit_nest
from mlirtri.lowering.importers.from_relax.primfunc_nests import LOOPS, nest_of, statements_of
from mlirtri.lowering.mlir_common.index_values import index_constant
from mlirtri.lowering.toolchain.tvm_names import (
    Buffer,
    Expr,
    PrimFunc,
    Range,
    SBlock,
    SBlockRealize,
    Stmt,
    TensorLoad,
    Var,
    structural_walk,
    tirx,
)
from mlirtri.lowering.toolchain.tvm_names import ir as tvm_ir

HARMLESS = frozenset({"assume", "undef"})
"""Functions whose side effect means nothing here."""


def inline(
    function: PrimFunc, arguments: Sequence[ir.Value], results: Sequence[Sequence[Size]], updates: Sequence[int] = ()
) -> list[ir.Value]:
    """Return the tensors of the outputs of `function` after a call.

    `results` has the sizes of each output; `updates` the argument that an output shares its memory with, or -1.
    """
    frame = Frame()
    parameters = list(function.params)
    inputs, outputs = parameters[: len(arguments)], parameters[len(arguments) :]
    for parameter, argument in zip(inputs, arguments, strict=True):
        _bind_parameter(frame, parameter, argument)
    shared = list(updates) or [-1] * len(results)
    remaining_outputs = iter(outputs)
    targets = [inputs[position] if position >= 0 else next(remaining_outputs) for position in shared]
    for target, sizes in zip(targets, results, strict=True):
        if target not in frame.tensors:
            frame.bind_sizes(target, sizes)
            frame.allocate(target)
    _run_body(frame, function.body)
    return [frame.tensors[target] for target in targets]


def _bind_parameter(frame: Frame, parameter: Var, argument: ir.Value) -> None:
    if not isinstance(argument.type, ir.RankedTensorType):
        frame.scalars.variables[parameter] = argument
        return
    sizes = [
        tensor.dim(argument, index_constant(axis)) if size == DYNAMIC else size
        for axis, size in enumerate(argument.type.shape)
    ]
    frame.bind_sizes(parameter, sizes)
    frame.tensors[parameter] = argument


def _run_body(frame: Frame, statement: Stmt) -> None:
    for inner in statements_of(statement):
        if isinstance(inner, SBlockRealize) and not inner.block.iter_vars and inner.block.init is None:
            with located(inner.block):
                _run_plain_block(frame, inner.block)
        elif (nest := nest_of(inner, frame.analyzer)) is not None:
            with located(nest.block):
                emit_nest(frame, nest)
        else:
            _run_statement(frame, inner)


def _run_plain_block(frame: Frame, block: SBlock) -> None:
    if block.match_buffers:
        raise UnsupportedOperationError("a block with match_buffer has no counterpart in linalg")
    for buffer in block.alloc_buffers:
        frame.allocate(buffer)
    _run_body(frame, block.body)


def _run_statement(frame: Frame, statement: Stmt) -> None:
    rule = _STATEMENTS.get(type(statement).__name__)
    if rule is None:
        raise UnsupportedOperationError(f"TIR's {type(statement).__name__} has no counterpart in linalg")
    rule(frame, statement)


def _sequence(frame: Frame, statement: tirx.SeqStmt) -> None:
    for inner in statement.seq:
        _run_statement(frame, inner)


def _store(frame: Frame, store: tirx.BufferStore) -> None:
    if store.buffer not in frame.tensors:
        raise UnsupportedOperationError(f"the buffer {store.buffer.name} is memory that the function does not own")
    value = frame.scalars.evaluate(store.value)
    contents = frame.tensors[store.buffer]
    indices, is_inside = frame.inside(store.buffer, store.indices)
    if is_inside is not None:
        value = arith.select(is_inside, value, tensor.extract(contents, indices))
    frame.tensors[store.buffer] = tensor.insert(value, contents, indices)


def _bind(frame: Frame, statement: tirx.Bind) -> None:
    frame.scalars.variables[statement.var] = frame.scalars.evaluate(statement.value)


def _allocate(frame: Frame, statement: tirx.AllocBuffer) -> None:
    frame.allocate(statement.buffer)


def _attribute(frame: Frame, statement: tirx.AttrStmt) -> None:
    if str(statement.attr_key) in ("thread_extent", "virtual_thread"):
        raise UnsupportedOperationError("threads of a GPU have no counterpart in linalg", help="export it unscheduled")
    _run_statement(frame, statement.body)


def _evaluate(frame: Frame, statement: tirx.Evaluate) -> None:
    value = statement.value
    if isinstance(value, tvm_ir.Call):
        name = str(getattr(value.op, "name", value.op)).rpartition(".")[2]
        if name not in HARMLESS:
            raise UnsupportedOperationError(f"TIR calls {name} for its effect, which MLIR cannot")


def _assert(frame: Frame, statement: tirx.AssertStmt) -> None:
    message = "".join(str(part.value) for part in statement.message_parts)
    ir.Operation.create(
        "cf.assert",
        operands=[frame.scalars.evaluate(statement.condition)],
        attributes={"msg": ir.StringAttr.get(f"{statement.error_kind.value}: {message}")},
    )


def _for(frame: Frame, loop: tirx.For) -> None:
    if loop.kind not in LOOPS or loop.thread_binding is not None:
        raise UnsupportedOperationError("threads of a GPU have no counterpart in linalg", help="export it unscheduled")
    frame.analyzer.bind(loop.loop_var, Range(loop.min, loop.extent), True)
    low, step = frame.scalars.index(loop.min), index_constant(1)
    high = frame.scalars.index(loop.min + loop.extent)
    buffers = written_buffers(loop.body, frame)
    for_op = scf.ForOp(low, high, step, [frame.tensors[buffer] for buffer in buffers])
    outer_tensors = dict(frame.tensors)
    with ir.InsertionPoint(for_op.body):
        frame.tensors |= zip(buffers, for_op.inner_iter_args, strict=True)
        frame.scalars.indices[loop.loop_var] = for_op.induction_variable
        _run_statement(frame, loop.body)
        scf.YieldOp([frame.tensors[buffer] for buffer in buffers])
    frame.tensors = outer_tensors | dict(zip(buffers, for_op.results, strict=True))


def _if(frame: Frame, branch: tirx.IfThenElse) -> None:
    condition = frame.scalars.evaluate(branch.condition)
    buffers, outer_tensors = written_buffers(branch, frame), dict(frame.tensors)
    types = [frame.tensors[buffer].type for buffer in buffers]
    if_op = ir.Operation.create("scf.if", results=types, operands=[condition], regions=2)
    arms = (branch.then_case, branch.condition), (branch.else_case, tirx.Not(branch.condition))
    for region, (arm, assumption) in zip(if_op.regions, arms, strict=True):
        frame.tensors = dict(outer_tensors)
        with ir.InsertionPoint(region.blocks.append()), _assuming(frame, assumption):
            if arm is not None:
                _run_statement(frame, arm)
            scf.YieldOp([frame.tensors[buffer] for buffer in buffers])
    frame.tensors = outer_tensors | dict(zip(buffers, if_op.results, strict=True))


def _assuming(frame: Frame, condition: Expr) -> AbstractContextManager:
    """Assume a condition in the analyzer, unless it reads buffers, which may change."""
    loads: list[TensorLoad] = []
    structural_walk(condition, (TensorLoad, loads.append), order="pre")
    return nullcontext() if loads else frame.analyzer.constraint_scope(condition)


def _while(frame: Frame, loop: tirx.While) -> None:
    buffers, outer_tensors = written_buffers(loop.body, frame), dict(frame.tensors)
    types = [frame.tensors[buffer].type for buffer in buffers]
    while_op = scf.WhileOp(types, [frame.tensors[buffer] for buffer in buffers])
    locations = [ir.Location.current] * len(types)
    condition_block = while_op.regions[0].blocks.append(*types, arg_locs=locations)
    with ir.InsertionPoint(condition_block):
        frame.tensors = outer_tensors | dict(zip(buffers, condition_block.arguments, strict=True))
        scf.ConditionOp(frame.scalars.evaluate(loop.condition), list(condition_block.arguments))
    body_block = while_op.regions[1].blocks.append(*types, arg_locs=locations)
    with ir.InsertionPoint(body_block):
        frame.tensors = outer_tensors | dict(zip(buffers, body_block.arguments, strict=True))
        _run_statement(frame, loop.body)
        scf.YieldOp([frame.tensors[buffer] for buffer in buffers])
    frame.tensors = outer_tensors | dict(zip(buffers, while_op.results, strict=True))


def _block(frame: Frame, realize: SBlockRealize) -> None:
    block = realize.block
    if block.match_buffers:
        raise UnsupportedOperationError("a block with match_buffer has no counterpart in linalg")
    for axis, value in zip(block.iter_vars, realize.iter_values, strict=True):
        frame.scalars.indices[axis.var] = frame.scalars.index(value)
        frame.analyzer.bind(axis.var, Range(axis.dom.min, axis.dom.extent), True)
    with located(block):
        for buffer in block.alloc_buffers:
            frame.allocate(buffer)
        body = block.body if block.init is None else tirx.SeqStmt([_guarded_init(block), block.body])
        is_always = isinstance(realize.predicate, (bool, tirx.IntImm)) and bool(realize.predicate)
        _run_statement(frame, body if is_always else tirx.IfThenElse(realize.predicate, body, None))


def _guarded_init(block: SBlock) -> Stmt:
    condition = None
    for axis in block.iter_vars:
        if int(axis.iter_type) == tirx.IterVar.CommReduce:
            is_first = tirx.EQ(axis.var, axis.dom.min)
            condition = is_first if condition is None else tirx.And(condition, is_first)
    return block.init if condition is None else tirx.IfThenElse(condition, block.init, None)


def written_buffers(statement: Stmt, frame: Frame) -> list[Buffer]:
    """Return the buffers from outside that a statement writes, in order of their first store."""
    buffers: dict[Buffer, None] = {}
    structural_walk(statement, (tirx.BufferStore, lambda store: buffers.setdefault(store.buffer)), order="pre")
    return [buffer for buffer in buffers if buffer in frame.tensors]


_STATEMENTS: dict[str, Callable[[Frame, Stmt], None]] = {
    "SeqStmt": _sequence, "BufferStore": _store, "Bind": _bind, "AllocBuffer": _allocate, "AttrStmt": _attribute,
    "Evaluate": _evaluate, "AssertStmt": _assert, "For": _for, "IfThenElse": _if, "While": _while,
    "SBlockRealize": _block,
}  # fmt: skip
