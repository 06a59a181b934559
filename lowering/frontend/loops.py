"""Loops of a kernel: `for` over ranges, arrays and sequences, and `while`.

Loops with few compile-time iterations are unrolled, so that the index is a constant; all others become `scf.for`, or
`scf.while` where the number of iterations is not known. `loop_state.py` finds their iter_args.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from mlirtri.dialect.base.dtypes import DTYPES
from mlirtri.dialect.base.sizes import Size
from mlirtri.dialect.bindings.mlir import ir
from mlirtri.dialect.builder import TriValue
from mlirtri.errors import (
    KernelError,
    KernelTypeError,
    KernelValueError,
    NestedTooDeeplyError,
    Span,
    UnsupportedSyntaxError,
)
from mlirtri.lowering.core.stage import BLOCKS, STAGES
from mlirtri.lowering.frontend.branches import emit_if, select
from mlirtri.lowering.frontend.context import FunctionContext, IterArgsChanged, LoopPlan, handles, visit_block
from mlirtri.lowering.frontend.iterables import Iterable, forget_iterated, iterable_of
from mlirtri.lowering.frontend.loop_state import LoopState
from mlirtri.lowering.frontend.ndrange import nested
from mlirtri.lowering.frontend.operators import condition
from mlirtri.lowering.frontend.scope import FailedAssignment
from mlirtri.lowering.frontend.semantics.builder import Language
from mlirtri.lowering.frontend.semantics.index_checks import counted, finish
from mlirtri.lowering.frontend.semantics.merging import Kind, Known, described, same
from mlirtri.lowering.frontend.semantics.scf import for_loop, index_of, tensor_of_index, while_loop
from mlirtri.lowering.frontend.statements import assign
from mlirtri.lowering.mlir_common.attributes import DECLARED_PARALLEL
from mlirtri.lowering.mlir_common.index_values import index_constant

INT64, BOOL = DTYPES["int64"], DTYPES["bool"]
ATTEMPTS = 12
UNROLLED_IF_NEEDED = 32
"""The largest trip count at which a loop is unrolled because its body needs a constant index."""
MAX_FORCED_ITERATIONS = 256
"""The largest number of such unrolled iterations in one kernel."""


@handles(ast.For)
def visit_for(context: FunctionContext, node: ast.For) -> None:
    outer_names = set(context.scope.locals)
    if (nest := nested(context, node)) is not node:
        visit_for(context, nest)
        return forget_iterated(context, outer_names)
    iterable = iterable_of(context, node.iter)
    count = iterable.static_count
    if iterable.order != "python":
        _emit_in_order(context, node, iterable)
    elif count is not None and (iterable.unroll or (count <= context.b.unroll and _is_innermost(node))):
        _unroll(context, node, iterable, 0)
    else:
        _emit_or_unroll(context, node, iterable)
    forget_iterated(context, outer_names)


_NO_EXIT = {
    "parallel": (
        "a parallel loop cannot end early: its iterations have no order",
        "run it in order with mt.serial, or skip work with `continue`",
    ),
    "blocks": ("a block cannot end a tile kernel: the others run", "put what follows into an `if`"),
    "pipelined": (
        "a pipelined loop cannot end early: copies of later iterations are under way",
        "write `for k in T.serial(n):`, or give it the number of iterations",
    ),
}
"""Orders of loops that cannot end early: why, and what to write instead."""


def _emit_in_order(context: FunctionContext, node: Any, iterable: Iterable) -> None:
    """Emit a loop whose order is declared; it is never unrolled."""
    if iterable.order in _NO_EXIT and node.flag:
        message, instead = _NO_EXIT[iterable.order]
        raise UnsupportedSyntaxError(message, context.span(node), help=instead)
    _emit(context, node, lambda plan: _emit_for(context, node, iterable, plan))


def _is_innermost(node: ast.For) -> bool:
    """Return whether a loop contains no other loop: unrolling a nest multiplies its iterations."""
    return not any(isinstance(part, (ast.For, ast.While)) for statement in node.body for part in ast.walk(statement))


def _emit_or_unroll(context: FunctionContext, node: ast.For, iterable: Iterable) -> None:
    b, errors, count = context.b, len(context.errors), iterable.static_count
    try:
        return _emit(context, node, lambda plan: _emit_for(context, node, iterable, plan))
    except NestedTooDeeplyError:
        raise
    except (KernelError, FailedAssignment) as reason:
        if count is None or count > UNROLLED_IF_NEEDED or b.forced_iterations > MAX_FORCED_ITERATIONS:
            raise
        b.forced_iterations += count
        refused = context.errors[errors:]
        del context.errors[errors:]
        try:
            _unroll(context, node, iterable, 0)
        except (KernelError, FailedAssignment):
            context.errors[errors:] = refused
            raise reason from None


@handles(ast.While)
def visit_while(context: FunctionContext, node: ast.While) -> None:
    _emit(context, node, lambda plan: _emit_while(context, node, plan))


def _visit_iteration(context: FunctionContext, node: ast.For | ast.While, item: Any = None) -> None:
    errors = len(context.errors)
    if isinstance(node, ast.For):
        assign(context, node.target, item)
    visit_block(context, node.body)
    if len(context.errors) > errors:
        raise FailedAssignment


def _unroll(context: FunctionContext, node: Any, iterable: Iterable, iteration: int) -> None:
    """Visit the iterations from `iteration` on; the loop's exit flag stops them at compile time or at run time."""
    if node.flag and iteration == 0:
        context.scope.locals[node.flag] = True
    while iteration < (iterable.static_count or 0):
        for part in ast.walk(node):
            context.plans.pop(part, None)
        _visit_iteration(context, node, iterable.item(iteration))
        iteration += 1
        running = context.scope.locals[node.flag] if node.flag else True
        if isinstance(running, TriValue):
            span = context.span(node)
            arms = [lambda first=iteration: _unroll(context, node, iterable, first), lambda: None]
            emit_if(context, running, arms, node.live_body | {node.flag}, (span, span))
            return
        if not running:
            return


def _emit(context: FunctionContext, node: ast.For | ast.While, attempt: Callable[[LoopPlan], None]) -> None:
    """Emit the loop repeatedly until its iter_args are known."""
    plan = context.plans.setdefault(node, LoopPlan())
    memory = context.b.memory
    outer_names, errors, serial = dict(context.scope.locals), len(context.errors), memory.serial
    kinds: dict[str, list[Kind | Known]] = {}
    for _ in range(ATTEMPTS):
        kinds = dict(plan.kinds)
        with memory.watched() as journal:
            try:
                return attempt(plan)
            except BaseException as reason:
                memory.rewind(journal)
                context.scope.locals = dict(outer_names)
                context.b.indices.forget()
                for inner in context.plans.values():
                    # Memory that was created in the abandoned body is gone.
                    inner.forget(serial)
                if not isinstance(reason, IterArgsChanged):
                    raise
                del context.errors[errors:]
    raise _still_changing(kinds, plan.kinds, context.span(node))


def _still_changing(
    before: dict[str, list[Kind | Known]], after: dict[str, list[Kind | Known]], span: Span
) -> KernelTypeError:
    """Return the error of a loop whose iterations give other types each time."""
    changes = [
        f"the loop-carried value {name!r} is {described(old)} before an iteration and {described(new)} after it"
        for name in sorted(after)
        for old, new in zip(before.get(name, after[name]), after[name], strict=False)
        if old != new
    ]
    message = ", and ".join(changes) or "each iteration of this loop needs other loop-carried values"
    return KernelTypeError(message, span, help="give it its final shape and dtype before the loop, and write into that")


def _emit_for(context: FunctionContext, node: Any, iterable: Iterable, plan: LoopPlan) -> None:
    least = iterable.count.least()
    state = LoopState(context, node, plan, runs=least is not None and least > 0)
    if node.flag is None:
        _emit_counted(context, node, iterable, state)
    else:
        _emit_breaking(context, node, iterable, state)


def _emit_counted(context: FunctionContext, node: Any, iterable: Iterable, state: LoopState) -> None:
    b, location = context.b, context.b.tri.location
    lower, upper, step = Size.of(0), iterable.count, 1
    if iterable.start is not None:
        lower, step = iterable.start, iterable.step
        upper = lower + iterable.count * step
    bounds = (_index(b, lower), _index(b, upper), index_constant(step, location))

    def body(index: ir.Value, values: list[TriValue]) -> list[TriValue]:
        loop = index.owner.owner.operation
        state.enter(values)
        if iterable.order == "parallel":
            state.separate_checks()
        number = _loop_index(b, tensor_of_index(index, location), node, lower, upper, takes_all=step == 1)
        shared = state.storages if iterable.order in ("parallel", "blocks") else ()
        with counted(b, number, loop, lower, step, iterable.count, shared):
            _visit_iteration(context, node, number if iterable.start is not None else iterable.item(number))
            if iterable.order == "parallel":
                state.join_checks(index.owner)
            yielded = state.leave()
        if iterable.order == "blocks":
            loop.attributes[BLOCKS] = ir.UnitAttr.get()
        if iterable.stages:
            loop.attributes[STAGES] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), iterable.stages)
        if iterable.order == "parallel":
            loop.attributes[DECLARED_PARALLEL] = ir.ArrayAttr.get(list(map(ir.StringAttr.get, state.labels())))
        return yielded

    results = for_loop(bounds, state.initial, body, location)
    checks = finish(b)
    state.exit(results)
    for wrong, violation in checks:
        b.tri.location = violation.location
        b.check(wrong, violation.error, violation.message)
    b.tri.location = location


def _index(b: Language, size: Size) -> ir.Value:
    location = b.tri.location
    if size.is_constant:
        if not -(1 << 63) <= size.constant < 1 << 63:
            raise KernelValueError("the bounds of this loop are past 64 bits", help="write smaller ones")
        return index_constant(size.constant, location)
    return index_of(b.tri.index(size), location)


def _loop_index(
    b: Language, value: TriValue, node: ast.For, lower: Size, upper: Size, takes_all: bool = False
) -> TriValue:
    name = node.target.id if isinstance(node.target, ast.Name) else "i"
    takes_all = takes_all and lower.is_constant and upper.is_constant
    symbol = b.indices.symbol(value, name, lower, upper - 1, takes_all)
    return TriValue(value.value, value.type, weak=True, linear=Size.of(symbol))


def _emit_breaking(context: FunctionContext, node: Any, iterable: Iterable, state: LoopState) -> None:
    """Emit an `scf.while` that carries the iteration number and the names; the exit flag is one of them."""
    b, tri = context.b, context.b.tri
    count = tri.index(iterable.count)

    def test(values: list[TriValue]) -> tuple[TriValue, list[TriValue]]:
        names, memories = state.split(values[1:])
        goes_on = tri.logical_and(names[node.flag], tri.less(values[0], count))
        return _unless_failed(b, state, memories, goes_on), values

    def body(values: list[TriValue]) -> list[TriValue]:
        state.enter(values[1:])
        _visit_iteration(context, node, iterable.item(_loop_index(b, values[0], node, Size.of(0), iterable.count)))
        yielded = state.leave()
        return [tri.add(values[0], tri.constant(1, INT64)), *yielded]

    state.exit(while_loop([tri.constant(0, INT64), *state.initial], test, body, tri.location)[1:])


def _emit_while(context: FunctionContext, node: Any, plan: LoopPlan) -> None:
    loop = _WhileLoop(context, node, plan)
    results = while_loop(loop.state.initial, loop.test, loop.body, context.b.tri.location)
    # Only now: an earlier attempt may have known the condition of the first iteration only.
    if loop.is_endless:
        raise KernelValueError("this loop never ends", context.span(node.test))
    loop.state.exit(results)
    if loop.mutes_checks:
        # The condition that ended the loop; after a `break` there was none.
        with context.b.guarded(context.scope.locals[node.flag]) if node.flag else nullcontext():
            loop.truth()


class _WhileLoop:
    """The condition and the body of a `while` statement, as functions of the loop-carried values."""

    def __init__(self, context: FunctionContext, node: Any, plan: LoopPlan):
        is_entered = isinstance(node.test, ast.Constant) and bool(node.test.value)
        self.context, self.node, self.plan = context, node, plan
        self.state = LoopState(context, node, plan, runs=is_entered)
        self.is_endless = False
        """Whether the condition is known to hold, and no `break` ends the loop."""
        self.mutes_checks = False
        """Whether the condition has checks, which the body and what follows the loop make."""

    def truth(self) -> TriValue:
        """Emit the condition of the source."""
        value = condition(self.context, self.node.test)
        if isinstance(value, TriValue):
            return value
        self.is_endless = self.is_endless or (bool(value) and self.node.flag is None)
        return self.context.b.tri.constant(value, BOOL)

    def test(self, values: list[TriValue]) -> tuple[TriValue, list[TriValue]]:
        """Emit the condition, with the carried values after it."""
        context, state, b = self.context, self.state, self.context.b
        state.enter(values)
        if self.plan.test_has_effects:
            goes_on = _still(context, self.node, self.truth)
            return _unless_failed(b, state, [storage.value for storage in state.storages], goes_on), state.leave()
        names, before = dict(context.scope.locals), b.muted_checks
        # Without checks the condition remains one expression: the body and what follows the loop make them.
        with b.muted(), b.memory.watched() as journal:
            predicate = self.truth()
        self.mutes_checks = self.mutes_checks or b.muted_checks > before
        if journal or not all(same(now, names.get(name)) for name, now in context.scope.locals.items()):
            self.plan.test_has_effects = True
            raise IterArgsChanged
        flag = self.node.flag
        goes_on = b.tri.logical_and(context.scope.locals[flag], predicate) if flag else predicate
        return _unless_failed(b, state, [storage.value for storage in state.storages], goes_on), values

    def body(self, values: list[TriValue]) -> list[TriValue]:
        """Emit an iteration."""
        self.state.enter(values)
        if self.mutes_checks:
            self.truth()
        _visit_iteration(self.context, self.node)
        return self.state.leave()


def _unless_failed(b: Language, state: LoopState, memories: list[TriValue], goes_on: TriValue) -> TriValue:
    """Return the condition of a `while`, which ends when a check in it has failed: wrong values may never end it.

    Nor does it begin after a `raise`.
    """
    statuses = [status for status, *_ in b.pending_checks]
    carried = [value for storage, value in zip(state.storages, memories, strict=True) if storage in statuses]
    before = [raised for raised in b.raises if isinstance(raised, TriValue) or raised not in state.storages]
    failed = b.failure([*carried, *before])
    return goes_on if failed is None else b.tri.logical_and(goes_on, b.tri.logical_not(failed))


def _still(context: FunctionContext, node: Any, predicate: Callable[[], TriValue]) -> TriValue:
    """Return the condition of a `while` that assigns names or writes memory; after a `break` it is not evaluated."""
    if not node.flag:
        return predicate()
    left = lambda: context.b.tri.constant(False, BOOL)  # noqa: E731 - emitted in its arm
    return select(context, context.scope.locals[node.flag], predicate, left, node.test)
