"""In-register transposes: loops whose loads and stores are contiguous along different axes, in square tiles.

    parallel chunks of the operand's axis:  for squares down the results' axis:  for squares of the chunk:
        n vectors along the operand's axis;  log n rounds of shuffles;  n vectors along the results'

`Square` is one such tile, of loops with static sizes and of those with dynamic ones (`loops.transposes`). Cache lines
are read and written as a whole, so that the number of sets of a cache does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlirtri.lowering.core.target import Target
from mlirtri.lowering.schedule.cpu.common.nest import FlatAccess, FlatNest, NestAxis
from mlirtri.lowering.schedule.cpu.common.profitability import Outer, outer_loops
from mlirtri.lowering.schedule.cpu.common.strips import Shape, strip
from mlirtri.lowering.tir.blocks import DivergentLanesError
from mlirtri.lowering.tir.statements import fresh, index, new_buffer, plus, sequence, substituted
from mlirtri.lowering.tir.tiles import in_lanes, ramp
from mlirtri.lowering.toolchain.tvm_names import (
    Expr,
    Stmt,
    TensorLoad,
    Var,
    ir,
    structural_equal,
    structural_map,
    structural_walk,
    tirx,
)

SQUARES_ABREAST = 2
"""Neighbouring squares of a chunk, so that each cache line of the operand is used soon after it is loaded."""
SHORTEST = 4
"""Elements on a side of the smallest square."""
MAX_OPERANDS = 2
"""Operands that are transposed: each takes a square of registers."""
DTYPES = ("float16", "float32", "float64", "int16", "int32", "int64", "uint16", "uint32", "uint64")
"""Dtypes whose vectors TVM can shuffle."""


@dataclass(frozen=True)
class Square:
    """A tile of iterations of two loops: stores are contiguous along `axis`, `loads` along `across`."""

    body: Stmt
    axis: Var
    across: Var
    loads: Sequence[TensorLoad]
    """The different loads to transpose."""
    side: int

    def statements(self, start: Expr, across: Expr) -> Stmt | None:
        """Return the tile from iterations `start` and `across` on; None where lanes of a vector branch differently."""
        statements: list[Stmt] = []
        columns = [self._columns(load, start, across, statements) for load in self.loads]
        elements = [new_buffer("transposed", str(load.source.dtype), 1) for load in self.loads]

        def replaced(node: TensorLoad) -> Expr:
            for load, element in zip(self.loads, elements, strict=True):
                if structural_equal(node, load):
                    return tirx.BufferLoad(element, [index(0)])
            return node

        body = structural_map(self.body, (TensorLoad, replaced), order="post")
        for position in range(self.side):
            widened = {element: new_buffer(element.name, str(element.dtype), 1, self.side) for element in elements}
            for buffer, vectors in zip(widened.values(), columns, strict=True):
                store = tirx.BufferStore(buffer, vectors[position], [index(0), ramp(index(0), self.side)])
                statements += [tirx.AllocBuffer(buffer), store]
            column = substituted(body, self.across, plus(across, index(position)))
            vector = strip(column, self.axis, start, Shape(1, self.side), widened)
            if vector is None:
                return None
            statements.append(vector)
        return sequence(*statements)

    def _columns(self, load: TensorLoad, start: Expr, across: Expr, statements: list[Stmt]) -> list[Expr]:
        def element(row: int, lane: Expr) -> Expr:
            along = substituted(load, self.axis, plus(start, index(row)))
            return substituted(along, self.across, across + lane)

        return load_transposed(element, str(load.source.dtype), self.side, statements)


def load_transposed(element: Callable[[int, Expr], Expr], dtype: str, side: int, statements: list[Stmt]) -> list[Expr]:
    """Return the columns of a square as vectors; loads and transposes of its rows are appended to `statements`.

    ``element(row, lane)`` is the element of the operand in a row and lane of the square; lanes are contiguous.
    """
    rows = []
    for row in range(side):
        vector = new_buffer("row", dtype, side)

        def stored(lane: Expr, row: int = row, vector: Var = vector) -> Stmt:
            return tirx.BufferStore(vector, element(row, lane), [lane])

        statements += [tirx.AllocBuffer(vector), in_lanes(side, stored)]
        rows.append(tirx.BufferLoad(vector, [ramp(index(0), side)]))
    return _transposed(rows, statements)


def _transposed(vectors: Sequence[Expr], statements: list[Stmt]) -> list[Expr]:
    """Return the transpose of a square of rows, by swapping off-diagonal blocks of 1 element, of 2, of 4…"""
    side = len(vectors)
    dtype, lanes = str(vectors[0].ty.dtype).partition("x")[0], [ramp(index(0), side)]

    def shuffled(pair: list[Expr], order: list[int]) -> Expr:
        # In memory, which becomes a register: TVM's analyzers substitute the values of `Bind` into one another.
        line = new_buffer("line", dtype, side)
        value = tirx.Shuffle(pair, [index(lane) for lane in order])
        statements.extend([tirx.AllocBuffer(line), tirx.BufferStore(line, value, lanes)])
        return tirx.BufferLoad(line, lanes)

    rows, size = list(vectors), 1
    while size < side:
        for row in range(side):
            if row & size:
                continue
            pair = [rows[row], rows[row + size]]
            low = [lane if not lane & size else side + lane - size for lane in range(side)]
            rows[row] = shuffled(pair, low)
            rows[row + size] = shuffled(pair, [lane + size for lane in low])
        size *= 2
    return rows


def transposed_loops(
    nest: FlatNest, axis: NestAxis, across: NestAxis, lanes: int, target: Target, *, may_repeat: bool
) -> Stmt | None:
    """Return the statements of the nest in squares of `axis`, along the results, and `across`, along the operands.

    `may_repeat` says that an iteration may run twice, so that the last square may overlap the one before it. None where
    the nest does not fit.
    """
    side = min(lanes, _power_below(axis.extent), _power_below(across.extent))
    loads = _crossing_loads(nest, axis, across)
    if side < SHORTEST or not loads or len(loads) > MAX_OPERANDS or has_conditions(nest.body):
        return None
    if not may_repeat and (axis.extent % side or across.extent % side):
        return None
    square = Square(nest.body, axis.variable, across.variable, loads, side)
    outer = [other for other in nest.axes if other is not axis and other is not across]
    squares = -(-across.extent // side)
    full_chunks, remaining = divmod(squares, SQUARES_ABREAST)
    statements = []
    for first, count, abreast in ((0, full_chunks, SQUARES_ABREAST), (full_chunks * SQUARES_ABREAST, 1, remaining)):
        if count and abreast:
            number = tirx.Var("chunk", "int64")
            body = _chunk(square, axis, across, plus(number * index(abreast), index(first)), abreast)
            iterations = nest.iterations // squares * count * abreast
            loops = Outer([*outer, NestAxis(number, count, False)], iterations)
            statements.append(outer_loops(loops, fresh(body), target))
    return sequence(*statements)


def _power_below(extent: int) -> int:
    return 1 << (extent.bit_length() - 1)


def has_conditions(body: Stmt) -> bool:
    """Return whether a statement contains a branch, as a statement or as an expression."""
    branches: list[object] = []

    def call(node: Expr) -> None:
        if str(getattr(node.op, "name", "")).endswith("if_then_else"):
            branches.append(node)

    structural_walk(body, [(ir.Call, call), (tirx.IfThenElse, branches.append)], order="pre")
    return bool(branches)


def _crossing_loads(nest: FlatNest, axis: NestAxis, across: NestAxis) -> list[TensorLoad]:
    """Return the different loads to transpose; none where one is contiguous along neither axis."""
    crossing: list[FlatAccess] = []
    for access in nest.operands:
        step = access.step(axis.variable)
        if step in (0, 1):
            continue
        if step is None or access.step(across.variable) != 1 or str(access.buffer.dtype) not in DTYPES:
            return []
        if not any(
            access.buffer.same_as(other.buffer) and structural_equal(access.offset, other.offset) for other in crossing
        ):
            crossing.append(access)
    return [tirx.BufferLoad(access.buffer, [access.offset]) for access in crossing]


def _chunk(square: Square, axis: NestAxis, across: NestAxis, first: Expr, count: int) -> Stmt:
    """Return `count` neighbouring squares, from number `first` on across, all the way along the results."""
    down, right = tirx.Var(axis.variable.name, "int64"), tirx.Var(across.variable.name, "int64")
    names: list[Stmt] = []
    starts = _start(axis, down, square.side, names), _start(across, first + right, square.side, names)
    tile = square.statements(*starts)
    if tile is None:
        raise DivergentLanesError("the elements of a vector part")
    body = sequence(*names, tile)
    if count > 1:
        body = tirx.For(right, index(0), index(count), tirx.ForKind.SERIAL, body)
    else:
        body = substituted(body, right, index(0))
    return tirx.For(down, index(0), index(-(-axis.extent // square.side)), tirx.ForKind.SERIAL, body)


def _start(axis: NestAxis, number: Expr, side: int, names: list[Stmt]) -> Expr:
    start = number * index(side)
    if not axis.extent % side:
        return start
    # TVM knows the bound of a minimum only by the variable it is bound to, and simplifies indices by it.
    variable = tirx.Var("start", "int64")
    names.append(tirx.Bind(variable, tirx.min(start, index(axis.extent - side))))
    return variable
