"""Loops of a kernel: `for` over ranges, arrays and things known now, and `while`.

Few known turns are unrolled, so that the index is known in each; all other loops become `scf.for`, or `scf.while` where
the number of turns is not known. What goes around them is `loop_carried`'s to find.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from mlirtri.dialect.base.dtypes import DTYPES
from mlirtri.dialect.base.sizes import Size
from mlirtri.dialect.builder import Tensor
from mlirtri.errors import KernelError, KernelValueError, UnsupportedSyntaxError
from mlirtri.lowering.frontend.iterables import Iterable, iterable_of
from mlirtri.lowering.frontend.language.scf import for_loop, index_of, tensor_of_index, while_loop
from mlirtri.lowering.frontend.loop_state import Again, Carried, LoopPlan
from mlirtri.lowering.frontend.python_to_ast import span_of_node
from mlirtri.lowering.frontend.scope import Poisoned
from mlirtri.lowering.mlir.index_values import index_constant

INT64, BOOL = DTYPES["int64"], DTYPES["bool"]
ATTEMPTS = 12
UNROLLED_IF_NEEDED = 32
MOST_TURNS = 256
"""Turns that a kernel makes of loops whose bodies need their index at compile time, and of one such loop."""


class Loops:
    """The methods of loops."""

    def visit_For(self, node: ast.For) -> None:
        _refuse_else(node)
        over = iterable_of(self, node.iter)
        if over.known is not None and (over.unroll or (over.known <= self.b.unroll and _is_innermost(node))):
            return self._unrolled(node, over, 0)
        self._as_loop_or_unrolled(node, over)
        return None

    def _as_loop_or_unrolled(self, node: Any, over: Iterable) -> None:
        """A loop of known turns whose body needs its index at compile time (a size, say) is unrolled after all."""
        errors = len(self.errors)
        try:
            return self._settle(node, lambda plan: self._run_time_for(node, over, plan))
        except (KernelError, Poisoned) as reason:
            if over.known is None or over.known > UNROLLED_IF_NEEDED or self.b.forced_turns > MOST_TURNS:
                raise
            self.b.forced_turns += over.known
            refused = self.errors[errors:]
            del self.errors[errors:]
            try:
                self._unrolled(node, over, 0)
            except (KernelError, Poisoned):
                self.errors[errors:] = refused
                raise reason from None

    def visit_While(self, node: ast.While) -> None:
        _refuse_else(node)
        self._settle(node, lambda plan: self._run_time_while(node, plan))

    # --- unrolled ----------------------------------------------------------------------------------------------------

    def _unrolled(self, node: Any, over: Iterable, turn: int) -> None:
        """Turns one after the other, until the flag says stop: now, or at run time for all that follow."""
        if node.flag and turn == 0:
            self.scope.locals[node.flag] = True
        while turn < (over.known or 0):
            for each in ast.walk(node):
                self.plans.pop(each, None)
            self._turn(node, over.item(turn))
            turn += 1
            running = self.scope.locals[node.flag] if node.flag else True
            if isinstance(running, Tensor):
                span = span_of_node(self.file, node)
                rest = [lambda at=turn: self._unrolled(node, over, at), lambda: None]
                self.choose(running, rest, node.live_body | {node.flag}, (span, span))
                return
            if not running:
                return

    def _turn(self, node: Any, item: Any) -> None:
        errors = len(self.errors)
        if isinstance(node, ast.For):
            self.assign(node.target, item)
        self.block(node.body)
        if len(self.errors) > errors:
            raise Poisoned

    # --- run time ----------------------------------------------------------------------------------------------------

    def _settle(self, node: ast.For | ast.While, attempt: Callable[[LoopPlan], None]) -> None:
        """Make the loop until what it carries is known."""
        plan = self.plans.setdefault(node, LoopPlan())
        before, errors, serial = dict(self.scope.locals), len(self.errors), self.b.memory.serial
        for _ in range(ATTEMPTS):
            memory = self.b.memory
            with memory.watched() as journal:
                try:
                    return attempt(plan)
                except BaseException as reason:
                    memory.rewind(journal)
                    self.scope.locals = dict(before)
                    self.b.indices.forget()
                    for each in self.plans.values():
                        # Memory made in the abandoned body is gone.
                        each.storages = [storage for storage in each.storages if storage.serial < serial]
                    if not isinstance(reason, Again):
                        raise
                    del self.errors[errors:]
        raise KernelValueError("the types of what this loop changes do not settle", span_of_node(self.file, node))

    def _run_time_for(self, node: Any, over: Iterable, plan: LoopPlan) -> None:
        least = over.count.least()
        carried = Carried(self, node, plan, runs=least is not None and least > 0)
        if node.flag is None:
            self._counted_for(node, over, carried)
        else:
            self._breaking_for(node, over, carried)

    def _counted_for(self, node: Any, over: Iterable, carried: Carried) -> None:
        location = self.b.tri.location
        lower, upper, step = Size.of(0), over.count, 1
        if over.start is not None:
            lower, step = over.start, over.step
            upper = lower + over.count * step
        bounds = (self._index(lower), self._index(upper), index_constant(step, location))

        def body(index: Any, values: list[Tensor]) -> list[Tensor]:
            carried.enter(values)
            position = self._number(tensor_of_index(index, location), node, lower, upper)
            self._turn(node, position if over.start is not None else over.item(position))
            return carried.leave()

        carried.exit(for_loop(bounds, carried.initial, body, location))

    def _index(self, size: Size) -> Any:
        location = self.b.tri.location
        if size.is_constant:
            return index_constant(size.constant, location)
        return index_of(self.b.tri.index(size), location)

    def _number(self, position: Tensor, node: Any, lower: Size, upper: Size) -> Tensor:
        """A loop's index as a Python int of run time, between its bounds."""
        name = node.target.id if isinstance(node.target, ast.Name) else "i"
        symbol = self.b.indices.symbol(position, name, lower, upper - 1)
        return Tensor(position.value, position.type, weak=True, linear=Size.of(symbol))

    def _breaking_for(self, node: Any, over: Iterable, carried: Carried) -> None:
        """A turn's number goes around beside the names; the flag is one of these."""
        tri = self.b.tri
        count = tri.index(over.count)

        def test(values: list[Tensor]) -> Tensor:
            names, _ = carried.split(values[1:])
            return tri.logical_and(names[node.flag], tri.less(values[0], count))

        def body(values: list[Tensor]) -> list[Tensor]:
            carried.enter(values[1:])
            turn = self._number(values[0], node, Size.of(0), over.count)
            self._turn(node, over.item(turn))
            rest = carried.leave()
            return [tri.add(values[0], tri.constant(1, INT64)), *rest]

        carried.exit(while_loop([tri.constant(0, INT64), *carried.initial], test, body, tri.location)[1:])

    def _run_time_while(self, node: Any, plan: LoopPlan) -> None:
        carried, endless = Carried(self, node, plan, runs=False), []

        def test(values: list[Tensor]) -> Tensor:
            carried.enter(values)
            truth = self.truth(node.test)
            if not isinstance(truth, Tensor):
                endless.append(bool(truth) and node.flag is None)
                truth = self.b.tri.constant(truth, BOOL)
            return self.b.tri.logical_and(self.scope.locals[node.flag], truth) if node.flag else truth

        def body(values: list[Tensor]) -> list[Tensor]:
            carried.enter(values)
            self._turn(node, None)
            return carried.leave()

        results = while_loop(carried.initial, test, body, self.b.tri.location)
        # Only now: what is known of the condition may have been so for the first turn alone.
        if any(endless):
            raise KernelValueError("this loop never ends", span_of_node(self.file, node.test))
        carried.exit(results)


def _is_innermost(node: ast.For) -> bool:
    """Unrolling nests of loops multiplies: only those without loops in them are worth it."""
    return not any(isinstance(each, (ast.For, ast.While)) for statement in node.body for each in ast.walk(statement))


def _refuse_else(node: ast.For | ast.While) -> None:
    if node.orelse:
        raise UnsupportedSyntaxError("`else` on a loop is not supported", help="set a flag where the loop breaks")
