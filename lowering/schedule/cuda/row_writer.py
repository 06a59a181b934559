"""Row kernels for CUDA as TIR: what `row_plan.py` has planned, by the threads of a block.

Takes a `RowPlan`, a `Shape` and the function's parameters. Gives its kernel, or two where several blocks share a row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from mlirtri.lowering.schedule.cuda.phases import Phases, Place, Shape, Thread, load, own, power_above, store
from mlirtri.lowering.schedule.rows.nests import Nest
from mlirtri.lowering.schedule.rows.plan import RowPlan, Step
from mlirtri.lowering.tir.statements import index, sequence
from mlirtri.lowering.toolchain.tvm_names import TensorLoad, structural_map, tirx

Point = dict[Any, Any]
"""What each axis of a nest is, and what variables of its statements are."""
ROW_BYTES = 40 * 1024
"""Shared memory that rows may take; what is left of the smallest device's is for partial results."""
LANES = 256
"""Threads that bring together what several blocks have of a row."""


class CudaRowWriter:
    """Writes the phases of one row kernel."""

    def __init__(self, plan: RowPlan, shape: Shape, parameters: Sequence[Any]):
        self.plan, self.shape = plan, shape
        self.phases = Phases(shape, prod(plan.rows.extents))
        self.writers = {nest.target: at for at, nest in enumerate(plan.nests)}
        self.results = {at for at, nest in enumerate(plan.nests) if any(nest.target.same_as(one) for one in parameters)}
        self.rows: dict[int, Any] = {}
        """Shared memory with the elements of a row that later passes read."""
        self.values: dict[int, Any] = {}
        """Shared memory with one value per row."""
        self.elements: dict[int, Any] = {}
        """Registers with what the nests of a pass hand each other."""
        self.scratch: dict[Any, Any] = {}
        """Registers in place of scratch elements."""

    @property
    def kept_rows(self) -> list[int]:
        """The nests whose elements are kept for later passes."""
        return [at for at in self.plan.kept if self._is_row(at)]

    def row_bytes(self) -> int:
        """Shared memory that the elements of rows take."""
        nests, kept = self.plan.nests, self.kept_rows
        sizes = [prod(self._row_shape(at)) * max(1, int(nests[at].target.dtype.bits) // 8) for at in kept]
        return sum(sizes) * self.shape.together

    def _is_row(self, at: int) -> bool:
        return not self.plan.nests[at].is_reduction and bool(self.plan.inside[at].groups)

    def written(self) -> Any:
        """The kernel, or both."""
        if self.shape.parts > 1:
            return self._in_parts()
        for step in self.plan.steps:
            if step.extents:
                self._pass(step)
            else:
                self._value_step(step)
        return self.phases.kernel()

    def _row_shape(self, at: int) -> list[int]:
        nest = self.plan.nests[at]
        pairs = zip(nest.target.shape, nest.places, strict=True)
        return [int(size) for size, axis in pairs if axis not in self.plan.rows.axes[at]]

    # --- one value per row -------------------------------------------------------------------------------------------

    def _value_step(self, step: Step) -> None:
        for at in step.nests:
            nest = self.plan.nests[at]
            value = nest.store.value
            if nest.is_reduction:
                value = self.plan.reducers[at].combine(nest.init, self.plan.reducers[at].term)
            self._set_value(at, lambda thread, point, value=value: self._expression(value, thread, point))

    def _set_value(self, at: int, value_of: Any) -> None:
        """A phase in which the first thread of a row stores its value, also as a result where it is one."""
        nest = self.plan.nests[at]
        sizes = [2, self.shape.together]
        memory = self.phases.allocated(f"{nest.target.name}_of_row", str(nest.target.dtype), sizes, "shared")

        def body(thread: Thread) -> list[Any]:
            point = self._point(at, thread, index(0))
            made = self._prepared(nest, thread, point)
            # In a variable: what is stored and then read again would need a barrier.
            value = value_of(thread, point)
            name = tirx.Var("value", value.ty)
            # The lane is 0, which TVM does not see: it puts a barrier before all lanes read the place that they name.
            lane = tirx.bitwise_and(thread.lane, index(1))
            made += [tirx.Bind(name, value), store(memory, [lane, thread.within], name)]
            if at in self.results:
                places = [self._expression(each, thread, point) for each in nest.store.indices]
                made.append(store(nest.target, places, name))
            return made

        self.phases.phase(body, 1)
        self.values[at] = memory

    # --- passes ------------------------------------------------------------------------------------------------------

    def _pass(self, step: Step) -> None:
        """All threads go along the row; what each has of a reduction is combined behind."""
        reductions = [at for at in step.nests if self.plan.nests[at].is_reduction]
        partial = {at: self._partial(at) for at in reductions}
        for at in step.nests:
            if at in self.plan.kept and self._is_row(at):
                target = self.plan.nests[at].target
                scope = "shared.dyn" if self.row_bytes() > ROW_BYTES else "shared"
                name, sizes = f"{target.name}_row", self._row_shape(at)
                self.rows[at] = self.phases.shared(name, str(target.dtype), *sizes, scope=scope)

        def body(thread: Thread) -> list[Any]:
            registers = {at: self._register(at) for at in step.nests}
            self.elements = {at: registers[at] for at in step.nests if at not in reductions}
            starts = [store(registers[at], [index(0)], self._start(at)) for at in reductions]
            loop = self.phases.turns(
                thread, prod(step.extents),
                lambda element: [one for at in step.nests for one in self._element(at, thread, element, registers[at])],
            )  # fmt: skip
            ends = [
                store(partial[at], [thread.within, thread.lane], tirx.BufferLoad(registers[at], [index(0)]))
                for at in reductions
            ]
            self.elements = {}
            return [*(tirx.AllocBuffer(each) for each in registers.values()), *starts, loop, *ends]

        self.phases.phase(body)
        for at in reductions:
            self._combine(at, partial[at])

    def _partial(self, at: int) -> Any:
        target = self.plan.nests[at].target
        return self.phases.shared(f"{target.name}_partial", str(target.dtype), self.phases.shape.lanes)

    def _register(self, at: int) -> Any:
        target = self.plan.nests[at].target
        return own(f"{target.name}_own", str(target.dtype))

    def _start(self, at: int) -> Any:
        reducer = self.plan.reducers[at]
        return self.plan.nests[at].init if reducer.neutral is None else reducer.neutral

    def _combine(self, at: int, partial: Any) -> None:
        self._bring_down(at, partial)

        def total(thread: Thread, _point: Point) -> Any:
            nest, reducer = self.plan.nests[at], self.plan.reducers[at]
            found = load(partial, [thread.within, index(0)], nest.target.dtype)
            return found if reducer.neutral is None else reducer.combine(nest.init, found)

        self._set_value(at, total)

    def _bring_down(self, at: int, partial: Any) -> None:
        """What the threads of a row have, to the first of them."""
        dtype = self.plan.nests[at].target.dtype

        def combined(mine: list[Place], other: list[Place]) -> tuple[list[Any], list[Any]]:
            return [], [self.plan.reducers[at].combine(load(*mine[0], dtype), load(*other[0], dtype))]

        self.phases.combine([partial], combined)

    # --- rows that several blocks share ------------------------------------------------------------------------------

    def _in_parts(self) -> Any:
        """One kernel in which each block leaves what it has of its row, and one that brings it together."""
        [first, *others], count = self.plan.steps, prod(self.plan.rows.extents)
        left = {at: self._left(at, count) for at in first.nests}
        partial = self._reduced(first.nests, prod(first.extents), self._term)
        for at, memory in partial.items():
            self._bring_down(at, memory)

        def leave(thread: Thread) -> list[Any]:
            places = [thread.row, thread.part]
            return [
                store(left[at], places, tirx.BufferLoad(memory, [thread.within, index(0)]))
                for at, memory in partial.items()
            ]

        self.phases.phase(leave, 1)
        kernel = self.phases.kernel()
        self.phases = Phases(Shape(min(LANES, power_above(self.shape.parts)), 1, along=True), count)

        def part(at: int, thread: Thread, element: Any) -> Any:
            return load(left[at], [thread.row, element], self.plan.nests[at].target.dtype)

        for at, memory in self._reduced(first.nests, self.shape.parts, part).items():
            self._combine(at, memory)
        for step in others:
            self._value_step(step)
        return sequence(*(tirx.AllocBuffer(each) for each in left.values()), kernel, self.phases.kernel())

    def _left(self, at: int, count: int) -> Any:
        """Memory for what each block has of each row."""
        target = self.plan.nests[at].target
        dtype = "float32" if str(target.dtype) == "bfloat16" else str(target.dtype)
        return tirx.decl_buffer([index(count), index(self.shape.parts)], dtype, f"{target.name}_parts", layout=None)

    def _reduced(self, nests: Sequence[int], length: int, term_of: Callable[[int, Thread, Any], Any]) -> dict[int, Any]:
        """Shared memory with what each thread has of reductions of 0 … length."""
        partial = {at: self._partial(at) for at in nests}

        def body(thread: Thread) -> list[Any]:
            registers = {at: self._register(at) for at in nests}

            def element(position: Any) -> list[Any]:
                terms = [(at, term_of(at, thread, position)) for at in nests]
                return [each for at, term in terms for each in self._accumulated(at, registers[at], term)]

            starts = [store(registers[at], [index(0)], self._start(at)) for at in nests]
            ends = [
                store(partial[at], [thread.within, thread.lane], tirx.BufferLoad(registers[at], [index(0)]))
                for at in nests
            ]
            memory = [tirx.AllocBuffer(each) for each in registers.values()]
            return [*memory, *starts, self.phases.turns(thread, length, element), *ends]

        self.phases.phase(body)
        return partial

    def _accumulated(self, at: int, register: Any, term: Any) -> list[Any]:
        """A thread's own result with one term more, which is computed once however often it is looked at."""
        name = tirx.Var("term", term.ty)
        mine = load(register, [index(0)], self.plan.nests[at].target.dtype)
        return [tirx.Bind(name, term), store(register, [index(0)], self.plan.reducers[at].combine(mine, name))]

    def _term(self, at: int, thread: Thread, element: Any) -> Any:
        return self._expression(self.plan.reducers[at].term, thread, self._point(at, thread, element))

    def _element(self, at: int, thread: Thread, element: Any, register: Any) -> list[Any]:
        """What one nest does for one element of the row."""
        nest = self.plan.nests[at]
        point = self._point(at, thread, element)
        dtype = nest.target.dtype
        if nest.is_reduction:
            return self._accumulated(at, register, self._term(at, thread, element))
        made = self._prepared(nest, thread, point)
        made.append(store(register, [index(0)], self._expression(nest.store.value, thread, point)))
        indices = [self._expression(each, thread, point) for each in nest.store.indices]
        if at in self.results:
            made.append(store(nest.target, indices, load(register, [index(0)], dtype)))
        if at in self.rows:
            made.append(store(self.rows[at], self._in_row(at, thread, indices), load(register, [index(0)], dtype)))
        return made

    def _prepared(self, nest: Nest, thread: Thread, point: Point) -> list[Any]:
        """The statements before a nest's store, with registers for its scratch elements."""
        made: list[Any] = []
        for buffer in nest.scratch:
            self.scratch[buffer] = own(buffer.name, str(buffer.dtype))
            made.append(tirx.AllocBuffer(self.scratch[buffer]))
        for each in nest.before:
            value = self._expression(each.value, thread, point)
            if isinstance(each, tirx.Bind):
                point[each.var] = tirx.Var(each.var.name, each.var.ty)
                made.append(tirx.Bind(point[each.var], value))
            else:
                made.append(store(self.scratch[each.buffer], [index(0)], value))
        return made

    # --- expressions -------------------------------------------------------------------------------------------------

    def _point(self, at: int, thread: Thread, element: Any) -> Point:
        """What each axis of a nest is, in a row and at an element of it."""
        nest, inside = self.plan.nests[at], self.plan.inside[at]
        point: Point = {axis.variable: index(0) for axis in nest.axes}
        point.update(_spread(nest, self.plan.rows.axes[at], thread.row))
        point.update(_spread(nest, [axis for group in inside.groups for axis in group], element))
        return point

    def _expression(self, value: Any, thread: Thread, point: Point) -> Any:
        """An expression of a nest at a point: with this kernel's memory in place of what other nests write."""

        def read(node: Any) -> Any:
            if node.source in self.scratch:
                return load(self.scratch[node.source], [index(0)], node.source.dtype)
            at = self.writers.get(node.source)
            return node if at is None else self._read(at, thread, list(node.indices))

        rules = [(tirx.Var, lambda node: point.get(node, node)), (TensorLoad, read)]
        return structural_map(value, rules, order="post")

    def _read(self, at: int, thread: Thread, indices: list[Any]) -> Any:
        """An element of what another nest computes."""
        nest = self.plan.nests[at]
        if at in self.plan.folded:
            point: Point = {axis.variable: index(0) for axis in nest.axes}
            for axis, one in zip(nest.places, indices, strict=True):
                if axis is not None:
                    point[nest.axes[axis].variable] = one
            return self._expression(nest.store.value, thread, point)
        if at in self.elements:
            return load(self.elements[at], [index(0)], nest.target.dtype)
        if at in self.values:
            return load(self.values[at], [index(0), thread.within], nest.target.dtype)
        return load(self.rows[at], self._in_row(at, thread, indices), nest.target.dtype)

    def _in_row(self, at: int, thread: Thread, indices: Sequence[Any]) -> list[Any]:
        rows = self.plan.rows.axes[at]
        pairs = zip(self.plan.nests[at].places, indices, strict=True)
        return [thread.within, *(one for axis, one in pairs if axis not in rows)]


def _spread(nest: Nest, axes: Sequence[int], position: Any) -> Point:
    """The axes' values at a position among all of them, the last one fastest."""
    point: Point = {}
    for number, axis in enumerate(axes):
        below = prod(nest.axes[each].extent for each in axes[number + 1 :])
        value = position if below == 1 else tirx.floordiv(position, index(below))
        value = value if number == 0 else tirx.floormod(value, index(nest.axes[axis].extent))
        point[nest.axes[axis].variable] = value
    return point
