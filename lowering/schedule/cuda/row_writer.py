"""Row kernels for CUDA as TIR: the steps of a `RowPlan`, by the threads of a block.

Takes a `RowPlan`, a `Shape` and the function's parameters. Gives its kernel, or two where several blocks share a row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from mlirtri.lowering.schedule.cuda.phases import Phases, Place, Shape, Thread, own, power_above
from mlirtri.lowering.schedule.rows.nests import Nest
from mlirtri.lowering.schedule.rows.plan import RowPlan, Step
from mlirtri.lowering.schedule.rows.writer import Element, NestWriter, Point, axis_values
from mlirtri.lowering.tir.statements import index, sequence
from mlirtri.lowering.tir.vectors import loaded, stored
from mlirtri.lowering.toolchain.tvm_names import tirx

ROW_BYTES = 40 * 1024
"""Shared memory that rows may take; what is left of the smallest device's is for partial results."""
LANES = 256
"""Threads that bring together what several blocks have of a row."""


class CudaRowWriter(NestWriter):
    """Writes the phases of one row kernel."""

    thread: Thread
    """The thread whose statements are being written."""

    def __init__(self, plan: RowPlan, shape: Shape, parameters: Sequence[Any]):
        super().__init__(plan, parameters)
        self.shape = shape
        self.phases = Phases(shape, prod(plan.rows.extents))
        self.rows: dict[int, Any] = {}
        """Shared memory with the elements of a row that later passes read."""
        self.values: dict[int, Any] = {}
        """Shared memory with one value per row."""
        self.elements: dict[int, Any] = {}
        """Registers with the elements that nests of the pass compute for each other."""

    @property
    def kept_rows(self) -> list[int]:
        """The indices of nests whose elements are kept for later passes."""
        return [at for at in self.plan.kept if self._is_row(at)]

    def row_bytes(self) -> int:
        """Return the bytes of shared memory that the elements of rows take."""
        nests, kept = self.plan.nests, self.kept_rows
        sizes = [prod(self.row_shape(at)) * max(1, int(nests[at].target.dtype.bits) // 8) for at in kept]
        return sum(sizes) * self.shape.together

    def _is_row(self, at: int) -> bool:
        return not self.plan.nests[at].is_reduction and bool(self.plan.inside[at].groups)

    def written(self) -> Any:
        """Return the kernel, or two kernels where several blocks share a row."""
        if self.shape.parts > 1:
            return self._in_parts()
        for step in self.plan.steps:
            if step.extents:
                self._pass(step)
            else:
                self._value_step(step)
        return self.phases.kernel()

    # --- one value per row -------------------------------------------------------------------------------------------

    def _value_step(self, step: Step) -> None:
        for at in step.nests:
            self._set_value(at, lambda point, value=self.row_value(at): self.expression(value, point))

    def _set_value(self, at: int, value_of: Callable[[Point], Any]) -> None:
        """A phase in which the first thread of a row stores its value, also as a result where it is one."""
        nest = self.plan.nests[at]
        sizes = [2, self.shape.together]
        memory = self.phases.allocated(f"{nest.target.name}_of_row", str(nest.target.dtype), sizes, "shared")

        def body(thread: Thread) -> list[Any]:
            self.thread = thread
            point = self._point(at, index(0))
            statements = self._prepared(nest, point)
            # In a variable: what is stored and then read again would need a barrier.
            value = value_of(point)
            name = tirx.Var("value", value.ty)
            # The lane is 0, which TVM does not see: it puts a barrier before all lanes read that element.
            lane = tirx.bitwise_and(thread.lane, index(1))
            statements += [tirx.Bind(name, value), stored(memory, [lane, thread.within], name)]
            if self.is_result(at):
                indices = [self.expression(each, point) for each in nest.store.indices]
                statements.append(stored(nest.target, indices, name))
            return statements

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
                name, sizes = f"{target.name}_row", self.row_shape(at)
                self.rows[at] = self.phases.shared(name, str(target.dtype), *sizes, scope=scope)

        def body(thread: Thread) -> list[Any]:
            self.thread = thread
            registers = {at: self._register(at) for at in step.nests}
            self.elements = {at: registers[at] for at in step.nests if at not in reductions}
            starts = [stored(registers[at], [index(0)], self.start_of(at)) for at in reductions]
            loop = self.phases.side_by_side(
                thread, prod(step.extents),
                lambda element: [one for at in step.nests for one in self._element(at, element, registers[at])],
            )  # fmt: skip
            ends = [
                stored(partial[at], [thread.within, thread.lane], tirx.BufferLoad(registers[at], [index(0)]))
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

    def _combine(self, at: int, partial: Any) -> None:
        self._bring_down(at, partial)

        def total(_point: Point) -> Any:
            nest, reducer = self.plan.nests[at], self.plan.reducers[at]
            found = loaded(partial, [self.thread.within, index(0)], nest.target.dtype)
            return found if reducer.neutral is None else reducer.combine(nest.init, found)

        self._set_value(at, total)

    def _bring_down(self, at: int, partial: Any) -> None:
        """Combine the partial results of a row's threads in the first of them."""
        dtype = self.plan.nests[at].target.dtype

        def combined(mine: list[Place], other: list[Place]) -> tuple[list[Any], list[Any]]:
            return [], [self.plan.reducers[at].combine(loaded(*mine[0], dtype), loaded(*other[0], dtype))]

        self.phases.combine([partial], combined)

    # --- rows that several blocks share ------------------------------------------------------------------------------

    def _in_parts(self) -> Any:
        """Return a kernel in which each block stores its partial results, and one that combines them."""
        [first, *others], count = self.plan.steps, prod(self.plan.rows.extents)
        left = {at: self._left(at, count) for at in first.nests}
        partial = self._reduced(first.nests, prod(first.extents), self._term)
        for at, memory in partial.items():
            self._bring_down(at, memory)

        def leave(thread: Thread) -> list[Any]:
            places = [thread.row, thread.part]
            return [
                stored(left[at], places, tirx.BufferLoad(memory, [thread.within, index(0)]))
                for at, memory in partial.items()
            ]

        self.phases.phase(leave, 1)
        kernel = self.phases.kernel()
        self.phases = Phases(Shape(min(LANES, power_above(self.shape.parts)), 1, along=True), count)

        def part(at: int, element: Any) -> Any:
            return loaded(left[at], [self.thread.row, element], self.plan.nests[at].target.dtype)

        for at, memory in self._reduced(first.nests, self.shape.parts, part).items():
            self._combine(at, memory)
        for step in others:
            self._value_step(step)
        return sequence(*(tirx.AllocBuffer(each) for each in left.values()), kernel, self.phases.kernel())

    def _left(self, at: int, count: int) -> Any:
        """Return memory for the partial result of each block for each row."""
        target = self.plan.nests[at].target
        dtype = "float32" if str(target.dtype) == "bfloat16" else str(target.dtype)
        return tirx.decl_buffer([index(count), index(self.shape.parts)], dtype, f"{target.name}_parts", layout=None)

    def _reduced(self, nests: Sequence[int], length: int, term_of: Callable[[int, Any], Any]) -> dict[int, Any]:
        """Return shared memory with each thread's partial results of reductions of 0 … length."""
        partial = {at: self._partial(at) for at in nests}

        def body(thread: Thread) -> list[Any]:
            self.thread = thread
            registers = {at: self._register(at) for at in nests}

            def element(position: Any) -> list[Any]:
                terms = [(at, term_of(at, position)) for at in nests]
                return [each for at, term in terms for each in self._accumulated(at, registers[at], term)]

            starts = [stored(registers[at], [index(0)], self.start_of(at)) for at in nests]
            ends = [
                stored(partial[at], [thread.within, thread.lane], tirx.BufferLoad(registers[at], [index(0)]))
                for at in nests
            ]
            memory = [tirx.AllocBuffer(each) for each in registers.values()]
            return [*memory, *starts, self.phases.side_by_side(thread, length, element), *ends]

        self.phases.phase(body)
        return partial

    def _accumulated(self, at: int, register: Any, term: Any) -> list[Any]:
        """A thread's own result with one term more, which is computed once however often it is looked at."""
        name = tirx.Var("term", term.ty)
        mine = loaded(register, [index(0)], self.plan.nests[at].target.dtype)
        return [tirx.Bind(name, term), stored(register, [index(0)], self.plan.reducers[at].combine(mine, name))]

    def _term(self, at: int, element: Any) -> Any:
        return self.expression(self.plan.reducers[at].term, self._point(at, element))

    def _element(self, at: int, element: Any, register: Any) -> list[Any]:
        """Return the statements of one nest for one element of the row."""
        nest, mine = self.plan.nests[at], [index(0)]
        if nest.is_reduction:
            return self._accumulated(at, register, self._term(at, element))
        point = self._point(at, element)
        statements = self._prepared(nest, point)
        statements.append(stored(register, mine, self.expression(nest.store.value, point)))
        indices = [self.expression(each, point) for each in nest.store.indices]
        value = loaded(register, mine, nest.target.dtype)
        if self.is_result(at):
            statements.append(stored(nest.target, indices, value))
        if at in self.rows:
            statements.append(stored(self.rows[at], [self.thread.within, *self.in_row(at, indices)], value))
        return statements

    def _prepared(self, nest: Nest, point: Point) -> list[Any]:
        """Return the statements before a nest's store, with a register for each of its scratch elements."""
        registers = {buffer: own(buffer.name, str(buffer.dtype)) for buffer in nest.scratch}
        point.update((buffer, (register, [index(0)])) for buffer, register in registers.items())
        return [*(tirx.AllocBuffer(each) for each in registers.values()), *self.before(nest, point)]

    # --- expressions -------------------------------------------------------------------------------------------------

    def _point(self, at: int, element: Any) -> Point:
        """Return the point of a nest in the thread's row, at an element of it."""
        nest, inside = self.plan.nests[at], self.plan.inside[at]
        point = self.origin(at)
        for axes, position in (
            (self.plan.rows.axes[at], self.thread.row),
            ([axis for group in inside.groups for axis in group], element),
        ):
            point.update(axis_values([nest.axes[axis] for axis in axes], position))
        return point

    def element_of(self, at: int, indices: list[Any]) -> Element:
        if at in self.elements:
            return self.elements[at], [index(0)]
        if at in self.values:
            return self.values[at], [index(0), self.thread.within]
        return self.rows[at], [self.thread.within, *self.in_row(at, indices)]
