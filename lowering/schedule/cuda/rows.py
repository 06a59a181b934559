"""The CUDA rule for row kernels: reductions, alone or with what reads them (softmax, layer norm).

A block has one row or a few, whose threads go along the row together; values that are kept between passes are in shared
memory. Where rows are few and long, several blocks share one, and a second kernel combines their partial results.
Refuses functions that reduce nothing, and rows that do not fit shared memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from mlirtri.lowering.codegen.targets import MAX_THREADS
from mlirtri.lowering.core.target import Target
from mlirtri.lowering.schedule.cuda.common.phases import (
    ELEMENTS,
    Phases,
    Shape,
    Thread,
    power_above,
    register,
    shape_for,
)
from mlirtri.lowering.schedule.cuda.scans import scan_of
from mlirtri.lowering.schedule.rows.nests import BlockNest, NotRows, Obstacle, nests_of, refuse_better_rules
from mlirtri.lowering.schedule.rows.plan import RowPlan, Step, make_plan, runs_along_memory
from mlirtri.lowering.schedule.rows.shared_axes import find_rows
from mlirtri.lowering.schedule.rows.writer import Element, NestWriter, Point, axis_values
from mlirtri.lowering.tir.bfloat16_storage import wide_dtype
from mlirtri.lowering.tir.primfunc import with_statements
from mlirtri.lowering.tir.statements import index, new_buffer, sequence
from mlirtri.lowering.tir.vectors import loaded, stored
from mlirtri.lowering.toolchain.tvm_names import Buffer, Expr, IRModule, PrimFunc, Schedule, Stmt, tirx

MAX_ROW_BYTES = 88 * 1024
"""Shared memory for rows with a given number of rows per block: devices since sm_80 allow as much on request."""
MAX_BLOCKS_PER_ROW = 8
"""Maximal blocks that share a row; above, each pass is a kernel of its own."""
BLOCKS = 256
"""Number of blocks that keep every device busy."""
ROW_BYTES = 40 * 1024
"""Shared memory that rows may take; what is left of the smallest device's is for partial results."""
LANES = 256
"""Threads that bring together what several blocks have of a row."""


def rows(function: PrimFunc, target: Target) -> Schedule | None:
    """Return a schedule with rows in blocks of threads; None where the function is no row kernel."""
    try:
        plan = plan_of(function, target)
    except NotRows:
        return None
    return Schedule(_written(function, plan, target))


def plan_of(function: PrimFunc, target: Target) -> RowPlan:
    """Return the plan of a row kernel for CUDA; raises `NotRows` with the reason where the function is none."""
    nests = nests_of(function)
    if any(scan_of(nest) is not None for nest in nests):
        raise NotRows("scans have a rule of their own")
    plan = make_plan(nests, find_rows(nests), function.params)
    if not plan.reducers:
        raise NotRows("nothing is reduced", Obstacle.USES)
    for nest in nests:
        refuse_better_rules(nest)
    shape = shape_of(plan, target)
    blocks = _blocks_per_row(shape, prod(plan.rows.extents), _length(plan))
    if len(nests) > 1 and not _can_share(plan) and blocks > MAX_BLOCKS_PER_ROW and target.row_tile is None:
        raise NotRows("rows are few and long, so that several blocks have to share each")
    writer = CudaRowWriter(plan, shape, function.params)
    most = ROW_BYTES if target.row_tile is None or len(writer.kept_rows) > 1 else MAX_ROW_BYTES
    if (size := writer.row_bytes()) > most:
        hint = "; MLIRTRI_ROW_TILE=1 overrides it" if size <= MAX_ROW_BYTES and target.row_tile is None else ""
        reason = f"a block's rows take {size} bytes of shared memory, and it has {most} for them{hint}"
        raise NotRows(reason, Obstacle.MEMORY)
    return plan


def shape_of(plan: RowPlan, target: Target) -> Shape:
    """Return how many threads go along a row, how many rows a block has, and how many blocks share a row."""
    count, length = prod(plan.rows.extents), _length(plan)
    along = all(runs_along_memory(plan, number) for number in plan.reducers)
    shape = shape_for(along, count, length)
    if target.row_tile is not None:
        lanes = min(shape.lanes, power_above(MAX_THREADS // target.row_tile + 1) // 2)
        shape = replace(shape, lanes=max(1, lanes), together=target.row_tile)
    return replace(shape, parts=_blocks_per_row(shape, count, length)) if _can_share(plan) else shape


def _length(plan: RowPlan) -> int:
    return max([1, *(prod(step.extents) for step in plan.steps)])


def _can_share(plan: RowPlan) -> bool:
    """Return whether a row needs only reductions in one pass."""
    first, *others = plan.steps
    is_reduced = all(plan.nests[number].is_reduction for number in first.nests)
    return bool(first.extents) and is_reduced and not any(step.extents for step in others)


def _blocks_per_row(shape: Shape, count: int, length: int) -> int:
    """Return how many blocks share a row: several where rows are too few to keep the device busy."""
    blocks = -(-count // shape.together)
    return max(1, min(BLOCKS // blocks, length // (shape.lanes * 4 * ELEMENTS)))


def _written(function: PrimFunc, plan: RowPlan, target: Target) -> PrimFunc:
    body = CudaRowWriter(plan, shape_of(plan, target), function.params).written()
    # A variable that an expression binds is bound once in each copy of the expression.
    return tirx.transform.ConvertSSA()(IRModule({"main": with_statements(function, body)}))["main"]


class CudaRowWriter(NestWriter):
    """Writes the phases of one row kernel."""

    thread: Thread
    """The thread whose statements are being written."""

    def __init__(self, plan: RowPlan, shape: Shape, parameters: Sequence[Buffer]):
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
        """Return the numbers of the nests whose elements are kept for later passes."""
        return [n for n in self.plan.kept if self._is_row(n)]

    def row_bytes(self) -> int:
        """Return the bytes of shared memory that the elements of rows take."""
        nests, kept = self.plan.nests, self.kept_rows
        sizes = [prod(self.row_shape(n)) * max(1, int(nests[n].target.dtype.bits) // 8) for n in kept]
        return sum(sizes) * self.shape.together

    def _is_row(self, n: int) -> bool:
        return not self.plan.nests[n].is_reduction and bool(self.plan.inside[n].groups)

    def written(self) -> Stmt:
        """Return the kernel, or two kernels where several blocks share a row."""
        if self.shape.parts > 1:
            return self._in_shared_rows()
        for step in self.plan.steps:
            if step.extents:
                self._pass(step)
            else:
                self._value_step(step)
        return self.phases.kernel()

    def _value_step(self, step: Step) -> None:
        for n in step.nests:
            self._set_value(n, lambda point, value=self.row_value(n): self.expression(value, point))

    def _set_value(self, n: int, value_of: Callable[[Point], Any]) -> None:
        """Add a phase in which the first thread of a row stores its value, also as a result where it is one."""
        nest = self.plan.nests[n]
        sizes = [2, self.shape.together]
        memory = self.phases.allocated(f"{nest.target.name}_of_row", str(nest.target.dtype), sizes, "shared")

        def body(thread: Thread) -> list[Any]:
            self.thread = thread
            point = self._point(n, index(0))
            statements = self._prepared(nest, point)
            # In a variable: what is stored and then read again would need a barrier.
            value = value_of(point)
            name = tirx.Var("value", value.ty)
            # The lane is 0, which TVM does not see: it puts a barrier before all lanes read that element.
            lane = tirx.bitwise_and(thread.lane, index(1))
            statements += [tirx.Bind(name, value), stored(memory, [lane, thread.within], name)]
            if self.is_result(n):
                indices = [self.expression(position, point) for position in nest.store.indices]
                statements.append(stored(nest.target, indices, name))
            return statements

        self.phases.phase(body, 1)
        self.values[n] = memory

    def _pass(self, step: Step) -> None:
        """Add the phases of one pass: all threads go along the row, then their partial results are combined."""
        reductions = [n for n in step.nests if self.plan.nests[n].is_reduction]
        partial = {n: self._partial(n) for n in reductions}
        for n in step.nests:
            if n in self.plan.kept and self._is_row(n):
                target = self.plan.nests[n].target
                scope = "shared.dyn" if self.row_bytes() > ROW_BYTES else "shared"
                name, sizes = f"{target.name}_row", self.row_shape(n)
                self.rows[n] = self.phases.shared(name, str(target.dtype), *sizes, scope=scope)

        def body(thread: Thread) -> list[Any]:
            self.thread = thread
            registers = {n: self._register(n) for n in step.nests}
            self.elements = {n: registers[n] for n in step.nests if n not in reductions}
            starts = [stored(registers[n], [index(0)], self.start_of(n)) for n in reductions]
            loop = self.phases.side_by_side(
                thread, prod(step.extents),
                lambda element: [update for n in step.nests for update in self._element(n, element, registers[n])],
            )  # fmt: skip
            ends = [
                stored(partial[n], [thread.within, thread.lane], tirx.BufferLoad(registers[n], [index(0)]))
                for n in reductions
            ]
            self.elements = {}
            return [*(tirx.AllocBuffer(buffer) for buffer in registers.values()), *starts, loop, *ends]

        self.phases.phase(body)
        for n in reductions:
            self._combine(n, partial[n])

    def _partial(self, n: int) -> Any:
        target = self.plan.nests[n].target
        return self.phases.shared(f"{target.name}_partial", str(target.dtype), self.phases.shape.lanes)

    def _register(self, n: int) -> Any:
        target = self.plan.nests[n].target
        return register(f"{target.name}_own", str(target.dtype))

    def _combine(self, n: int, partial: Any) -> None:
        self._reduce_lanes(n, partial)

        def total(_point: Point) -> Any:
            nest, reducer = self.plan.nests[n], self.plan.reducers[n]
            value = loaded(partial, [self.thread.within, index(0)], nest.target.dtype)
            return value if reducer.neutral is None else reducer.combine(nest.init, value)

        self._set_value(n, total)

    def _reduce_lanes(self, n: int, partial: Any) -> None:
        dtype = self.plan.nests[n].target.dtype

        def combined(mine: list[Element], other: list[Element]) -> tuple[list[Any], list[Any]]:
            return [], [self.plan.reducers[n].combine(loaded(*mine[0], dtype), loaded(*other[0], dtype))]

        self.phases.combine([partial], combined)

    def _in_shared_rows(self) -> Any:
        """Return a kernel in which each block stores its partial results, and one that combines them."""
        [first, *others], count = self.plan.steps, prod(self.plan.rows.extents)
        parts = {n: self._parts_memory(n, count) for n in first.nests}
        partial = self._reduced(first.nests, prod(first.extents), self._term)
        for n, memory in partial.items():
            self._reduce_lanes(n, memory)

        def leave(thread: Thread) -> list[Any]:
            indices = [thread.row, thread.part]
            return [
                stored(parts[n], indices, tirx.BufferLoad(memory, [thread.within, index(0)]))
                for n, memory in partial.items()
            ]

        self.phases.phase(leave, 1)
        kernel = self.phases.kernel()
        self.phases = Phases(Shape(min(LANES, power_above(self.shape.parts)), 1, along=True), count)

        def part(n: int, element: Any) -> Any:
            return loaded(parts[n], [self.thread.row, element], self.plan.nests[n].target.dtype)

        for n, memory in self._reduced(first.nests, self.shape.parts, part).items():
            self._combine(n, memory)
        for step in others:
            self._value_step(step)
        return sequence(*(tirx.AllocBuffer(buffer) for buffer in parts.values()), kernel, self.phases.kernel())

    def _parts_memory(self, n: int, count: int) -> Any:
        target = self.plan.nests[n].target
        return new_buffer(f"{target.name}_parts", wide_dtype(str(target.dtype)), count, self.shape.parts)

    def _reduced(self, nests: Sequence[int], length: int, term_of: Callable[[int, Any], Any]) -> dict[int, Any]:
        """Return shared memory with each thread's partial results of reductions of 0 … length."""
        partial = {n: self._partial(n) for n in nests}

        def body(thread: Thread) -> list[Any]:
            self.thread = thread
            registers = {n: self._register(n) for n in nests}

            def element(position: Expr) -> list[Any]:
                terms = [(n, term_of(n, position)) for n in nests]
                return [update for n, term in terms for update in self._accumulated(n, registers[n], term)]

            starts = [stored(registers[n], [index(0)], self.start_of(n)) for n in nests]
            ends = [
                stored(partial[n], [thread.within, thread.lane], tirx.BufferLoad(registers[n], [index(0)]))
                for n in nests
            ]
            memory = [tirx.AllocBuffer(buffer) for buffer in registers.values()]
            return [*memory, *starts, self.phases.side_by_side(thread, length, element), *ends]

        self.phases.phase(body)
        return partial

    def _accumulated(self, n: int, memory: Any, term: Expr) -> list[Any]:
        """Return the statements that add a term, computed once, to a thread's own result."""
        name = tirx.Var("term", term.ty)
        mine = loaded(memory, [index(0)], self.plan.nests[n].target.dtype)
        return [tirx.Bind(name, term), stored(memory, [index(0)], self.plan.reducers[n].combine(mine, name))]

    def _term(self, n: int, element: Any) -> Any:
        return self.expression(self.plan.reducers[n].term, self._point(n, element))

    def _element(self, n: int, element: Any, memory: Any) -> list[Any]:
        nest, mine = self.plan.nests[n], [index(0)]
        if nest.is_reduction:
            return self._accumulated(n, memory, self._term(n, element))
        point = self._point(n, element)
        statements = self._prepared(nest, point)
        statements.append(stored(memory, mine, self.expression(nest.store.value, point)))
        indices = [self.expression(position, point) for position in nest.store.indices]
        value = loaded(memory, mine, nest.target.dtype)
        if self.is_result(n):
            statements.append(stored(nest.target, indices, value))
        if n in self.rows:
            statements.append(stored(self.rows[n], [self.thread.within, *self.in_row(n, indices)], value))
        return statements

    def _prepared(self, nest: BlockNest, point: Point) -> list[Any]:
        """Return the statements before a nest's store, with a register for each of its scratch elements."""
        registers = {buffer: register(buffer.name, str(buffer.dtype)) for buffer in nest.scratch}
        point.update((buffer, (register, [index(0)])) for buffer, register in registers.items())
        return [*(tirx.AllocBuffer(buffer) for buffer in registers.values()), *self.before(nest, point)]

    def _point(self, n: int, element: Any) -> Point:
        """Return the point of a nest in the thread's row, at an element of it."""
        nest, inside = self.plan.nests[n], self.plan.inside[n]
        point = self.origin(n)
        for axes, position in (
            (self.plan.rows.axes[n], self.thread.row),
            ([axis for group in inside.groups for axis in group], element),
        ):
            point.update(axis_values([nest.axes[axis] for axis in axes], position))
        return point

    def element_of(self, n: int, indices: list[Expr]) -> Element:
        if n in self.elements:
            return self.elements[n], [index(0)]
        if n in self.values:
            return self.values[n], [index(0), self.thread.within]
        return self.rows[n], [self.thread.within, *self.in_row(n, indices)]
