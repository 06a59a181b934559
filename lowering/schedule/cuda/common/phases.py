"""CUDA kernels written as phases: all threads of a block run one, meet at a barrier, and run the next.

Each phase is its own loop over all threads; TVM puts barriers between phases where shared memory needs them. Without
threads the same loops compute the same, one thread after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from mlirtri.lowering.schedule.rows.writer import Element
from mlirtri.lowering.tir.bfloat16_storage import wide_dtype
from mlirtri.lowering.tir.primfunc import buffer as declare
from mlirtri.lowering.tir.statements import index, sequence
from mlirtri.lowering.tir.vectors import stored
from mlirtri.lowering.toolchain.tvm_names import Buffer, Expr, Range, Stmt, Var, tirx

WARP = 32
ELEMENTS = 4
"""Minimal elements of a row per thread, before a row gets more threads."""
MAX_LANES = 512
COLUMN_LANES = 16
"""Threads along one column, where neighbours in memory are different rows."""


@dataclass(frozen=True)
class Shape:
    """`lanes` threads are along a row, `together` rows in a block, and `parts` blocks share each row."""

    lanes: int
    together: int
    along: bool
    """Whether rows are contiguous in memory; else columns are."""
    parts: int = 1


def shape_for(along: bool, count: int, length: int) -> Shape:
    """Return the threads for `count` rows of `length` elements: at least a warp per row if rows are contiguous."""
    enough = power_above(-(-length // ELEMENTS))
    if not along:
        return Shape(min(COLUMN_LANES, enough), WARP, along=False)
    lanes = min(MAX_LANES, max(min(WARP, power_above(length)), enough))
    return Shape(lanes, min(max(1, 4 * WARP // lanes), power_above(count)), along=True)


def power_above(number: int) -> int:
    """Return the smallest power of two that is at least `number`."""
    return 1 << max(0, number - 1).bit_length()


@dataclass(frozen=True)
class Thread:
    """The indices of a thread; `row` counts over all blocks."""

    lane: Any
    within: Any
    """Index of the row in the block."""
    row: Any
    part: Any


Body = Callable[[Thread], Sequence[Any]]
"""The statements of one thread."""
Combined = Callable[[list[Element], list[Element]], tuple[list[Any], list[Any]]]
"""From the elements of two threads to statements and the combined values."""


class Phases:
    """One kernel over `count` rows."""

    def __init__(self, shape: Shape, count: int):
        self.shape, self.count = shape, count
        self.block = tirx.Var("block", "int64")
        self.part = tirx.Var("part", "int64") if shape.parts > 1 else index(0)
        self._memory: list[Any] = []
        self._phases: list[Any] = []

    def shared(self, name: str, dtype: str, *sizes: int, scope: str = "shared") -> Buffer:
        """Return shared memory of the block, for each of its rows.

        One may be ``"shared.dyn"``, to exceed the static limit; TVM aliases several and then sees false writes.
        """
        return self.allocated(name, dtype, [self.shape.together, *sizes], scope)

    def allocated(self, name: str, dtype: str, sizes: Sequence[int], scope: str) -> Buffer:
        """Return shared memory of the block, of these sizes."""
        buffer = declare(name, sizes, wide_dtype(dtype), scope)
        self._memory.append(buffer)
        return buffer

    def phase(self, body: Body, first: int | None = None) -> None:
        """Let every thread, or the `first` ones along each row, run `body`."""
        shape = self.shape
        lane = tirx.Var("lane", "int64") if shape.lanes > 1 else index(0)
        within = tirx.Var("within", "int64") if shape.together > 1 else index(0)
        row = self.block * index(shape.together) + within if shape.together > 1 else self.block
        statement = sequence(*body(Thread(lane, within, row, self.part)))
        conditions = [] if first in (None, shape.lanes) else [self._is_among(lane, first)]
        conditions += [tirx.LT(row, index(self.count))] if self.count % shape.together else []
        for condition in conditions:
            statement = tirx.IfThenElse(condition, statement, None)
        threads = [(lane, shape.lanes), (within, shape.together)]
        for (variable, extent), name in zip(threads, "xy" if shape.along else "yx", strict=True):
            statement = bound(variable, extent, f"threadIdx.{name}", statement)
        self._phases.append(statement)

    @contextmanager
    def repeated(self, variable: Var, count: int) -> Iterator[None]:
        """Repeat the phases added inside the `with` block `count` times."""
        around, self._phases = self._phases, []
        yield
        # The last phase of an iteration and the first of the next are adjacent, too: TVM puts a barrier between.
        body = sequence(*self._phases)
        self._phases = [*around, tirx.For(variable, index(0), index(count), tirx.ForKind.SERIAL, body)]

    def _is_among(self, lane: Any, first: int) -> Any:
        """Return whether a lane is one of the first; lane 0 is tested in a form that TVM does not simplify."""
        if first > 1:
            return tirx.LT(lane, index(first))
        return tirx.EQ(tirx.bitwise_and(lane, index(self.shape.lanes - 1)), index(0))

    def combine(self, partial: Sequence[Expr], combined: Combined) -> list[Buffer]:
        """Reduce each thread's values in `partial`, one per lane, to lane 0; return the buffers that hold the results.

        Several values go through memory: TVM sees that a thread reads what another stores, but not that the other
        thread is idle then.
        """
        source = list(partial)
        target = source
        if len(source) > 1 and self.shape.lanes > 1:
            target = [self.shared(buffer.name, str(buffer.dtype), self.shape.lanes) for buffer in source]
        half = self.shape.lanes // 2
        while half:

            def body(thread: Thread, source=source, target=target, half=half) -> list[Any]:
                mine, other = ([thread.within, lane] for lane in (thread.lane, thread.lane + index(half)))
                pairs = ([(buffer, element) for buffer in source] for element in (mine, other))
                statements, values = combined(*pairs)
                return [*statements, *stored_together([(buffer, mine) for buffer in target], values)]

            self.phase(body, half)
            source, target = target, source
            half //= 2
        return source

    def side_by_side(self, thread: Thread, length: int, body: Callable[[Expr], Sequence[Stmt]]) -> Stmt:
        """Return a loop in which the threads of a row take neighbouring elements of 0 … length."""
        step = self.shape.lanes * self.shape.parts
        iteration = tirx.Var("iteration", "int64")
        first = thread.lane if self.shape.parts == 1 else thread.part * index(self.shape.lanes) + thread.lane
        position = iteration * index(step) + first
        statement = sequence(*body(position))
        if length % step:
            statement = tirx.IfThenElse(tirx.LT(position, index(length)), statement, None)
        return tirx.For(iteration, index(0), index(-(-length // step)), tirx.ForKind.SERIAL, statement)

    def kernel(self) -> Stmt:
        """Return the loops over blocks with all phases inside."""
        body = sequence(*(tirx.AllocBuffer(buffer) for buffer in self._memory), *self._phases)
        if self.shape.parts > 1:
            body = bound(self.part, self.shape.parts, "blockIdx.y", body)
        return bound(self.block, -(-self.count // self.shape.together), "blockIdx.x", body)


def bound(variable: Var, extent: int, tag: str, body: Stmt) -> Stmt:
    """Return `body` in a loop bound to a thread axis; without a loop where there is one thread, whose index is 0."""
    if isinstance(variable, tirx.IntImm):
        return body
    limits = Range(index(0), index(extent))
    thread = tirx.IterVar(limits, tirx.Var(tag, "int64"), tirx.IterVar.ThreadIndex, tag)
    return tirx.For(variable, index(0), index(extent), tirx.ForKind.THREAD_BINDING, body, thread)


def register(name: str, dtype: str) -> Buffer:
    """Return a buffer of one element per thread: a register."""
    return declare(name, (1,), wide_dtype(dtype), "local")


def stored_together(elements: Sequence[Element], values: Sequence[Expr]) -> list[Stmt]:
    """Return stores of several values computed from the overwritten ones: all are computed first."""
    if len(elements) == 1:
        return [stored(*elements[0], values[0])]
    # In registers, because TVM may compute a variable at its use, after the first store.
    registers = [(register("value", str(value.ty.dtype)), [index(0)]) for value in values]
    return [
        *(tirx.AllocBuffer(buffer) for buffer, _ in registers),
        *(stored(*element, value) for element, value in zip(registers, values, strict=True)),
        *(stored(*element, tirx.BufferLoad(*source)) for element, source in zip(elements, registers, strict=True)),
    ]
