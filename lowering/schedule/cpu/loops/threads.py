"""Parallel loops: an estimate of a statement's work, and the loop that runs on all threads where it is profitable.

Takes scheduled TIR loops. Gives them with one loop parallel, under a condition where the work is dynamic: a launch
takes about 3 µs, which is some thirty thousand plain steps.
"""

from __future__ import annotations

from typing import Any

from mlirtri.lowering.schedule.cpu.common.parallel import profitable
from mlirtri.lowering.tir.blocks import CHEAP_CALLS
from mlirtri.lowering.tir.statements import depends_on, fresh, index, sequence, substituted, with_body
from mlirtri.lowering.toolchain.tvm_names import ir, structural_walk, tirx

PARALLEL_POINTS = 65536
"""Plain steps below which a second thread costs more than it saves."""
CALL_POINTS = 16
"""The cost of a step with a function call such as `exp`, in plain steps."""
UNKNOWN_EXTENT = 16
"""The assumed extent of a loop whose bounds are not known outside of it."""


def work_of(statement: Any) -> Any:
    """Return an expression for the number of plain steps of a statement, in terms of variables from outside of it."""
    changing: list[Any] = []

    def bind(node: Any) -> None:
        changing.append(node.var)

    def store(node: Any) -> None:
        changing.append(node.buffer)

    structural_walk(statement, [(tirx.Bind, bind), (tirx.BufferStore, store)])
    return _work(statement, changing)


def _work(statement: Any, changing: list[Any]) -> Any:
    if isinstance(statement, tirx.For):
        body_work = _work(statement.body, changing)
        extent = statement.extent
        if depends_on(extent, changing):
            extent = index(UNKNOWN_EXTENT)
        middle = statement.min + tirx.floordiv(extent, index(2))
        return substituted(body_work, statement.loop_var, middle) * extent
    if isinstance(statement, tirx.SeqStmt):
        return sum((_work(child, changing) for child in statement.seq), index(0))
    if isinstance(statement, tirx.BufferStore | tirx.Bind):
        return index(CALL_POINTS if _calls(statement.value) else 1)
    if isinstance(statement, tirx.While):
        return _work(statement.body, changing) * index(UNKNOWN_EXTENT)
    if isinstance(statement, tirx.IfThenElse):
        return _work(statement.then_case, changing)
    return _work(statement.body, changing) if isinstance(statement, tirx.AttrStmt) else index(0)


def _calls(expression: Any) -> bool:
    operators: list[Any] = []
    structural_walk(expression, (ir.Call, lambda call: operators.append(str(getattr(call.op, "name", "")))))
    return any(name.rsplit(".", 1)[-1] not in CHEAP_CALLS for name in operators)


def on_threads(statement: Any, work: Any) -> Any:
    """Return the statements of a scheduled parallel loop with the first loop on all threads where `work` is enough."""
    if isinstance(work, tirx.IntImm):
        return _first_parallel(statement) if profitable(work.value >= PARALLEL_POINTS) else statement
    condition = tirx.GE(work, index(PARALLEL_POINTS))
    return tirx.IfThenElse(condition, _first_parallel(statement), fresh(statement))


def _first_parallel(statement: Any) -> Any:
    if isinstance(statement, tirx.IfThenElse):
        # The first arm is for long loops.
        return tirx.IfThenElse(statement.condition, _first_parallel(statement.then_case), statement.else_case)
    first, *others = statement.seq if isinstance(statement, tirx.SeqStmt) else [statement]
    return sequence(with_body(first, first.body, kind=tirx.ForKind.PARALLEL), *others)
