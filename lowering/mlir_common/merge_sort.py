"""Stable merge sort of rows of fields along an axis of tensors, in loops of `scf`, without branches.

Blocks of eight are sorted by counting, for each element, how many go before it. Then runs are merged from one buffer
into another and back, two runs of one length from both ends at once: the two ends do not wait for each other, and
neither can leave its run (Orson Peters, "Glidesort", FOSDEM 2023). With an inconsistent comparison, runs of one are
merged from the front instead, so that the result is a permutation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlirtri.dialect.bindings.mlir import arith, ir, scf, tensor
from mlirtri.lowering.mlir_common.index_values import Sizes, index_constant, index_value, loop_nest

BLOCK = 8
Values = list[ir.Value]
Overtakes = Callable[[Values, Values], ir.Value]
"""``overtakes(later, earlier)``: an i1, whether the row that comes later goes before the earlier one."""


@dataclass(frozen=True)
class Rows:
    """The rows to sort: `element(indices)` returns the fields of one row."""

    sizes: Sizes
    axis: int
    fields: Sequence[ir.Type]
    element: Callable[[Values], Values]


def rows_of(tensors: Sequence[ir.Value], sizes: Sizes, axis: int) -> Rows:
    """Return the rows whose fields are the elements of `tensors`."""
    kinds = [field.type.element_type for field in tensors]
    return Rows(sizes, axis, kinds, lambda indices: [tensor.extract(field, indices) for field in tensors])


def sort(rows: Rows, overtakes: Overtakes, is_order: bool = True) -> Values:
    """Return the fields as tensors, sorted along the axis.

    `is_order` promises that `overtakes` never says that x goes before y, y before z, and z before x.
    """
    block = BLOCK if is_order else 1
    lines = [1 if loop == rows.axis else size for loop, size in enumerate(rows.sizes)]
    count = len(rows.fields)
    source, target = ([tensor.empty(rows.sizes, kind) for kind in rows.fields] for _ in range(2))

    def line(indices: Values) -> _Line:
        return _Line(rows, overtakes, indices, is_order)

    source = loop_nest(lines, source, lambda indices, carried: line(indices).blocks(carried))

    def passes(width: ir.Value, carried: Values) -> Values:
        double = arith.addi(width, width)
        first, second = carried[:count], carried[count:]
        second = loop_nest(lines, second, lambda indices, to: line(indices).merged(first, to, width))
        first = loop_nest(lines, first, lambda indices, to: line(indices).merged(second, to, double))
        return [arith.addi(double, double), *first, *second]

    size = index_value(rows.sizes[rows.axis])
    return _while_narrow(size, [index_constant(block), *source, *target], passes)[1 : count + 1]


class _Line:
    def __init__(self, rows: Rows, overtakes: Overtakes, indices: Sequence[ir.Value], is_order: bool):
        self.rows, self.overtakes, self.indices, self.is_order = rows, overtakes, list(indices), is_order
        self.size = index_value(rows.sizes[rows.axis])

    def indices_of(self, position: ir.Value) -> Values:
        return [*self.indices[: self.rows.axis], position, *self.indices[self.rows.axis + 1 :]]

    def read(self, fields: Values, position: ir.Value) -> Values:
        return [tensor.extract(field, self.indices_of(position)) for field in fields]

    def write(self, row: Values, fields: Values, position: ir.Value) -> Values:
        return [
            tensor.insert(value, field, self.indices_of(position)) for value, field in zip(row, fields, strict=True)
        ]

    def original(self, position: ir.Value) -> Values:
        """Return the fields of an element of the input."""
        return self.rows.element(self.indices_of(position))

    def blocks(self, fields: Values) -> Values:
        """Sort runs of `BLOCK` elements and a shorter last one; runs of one if `overtakes` is no order."""
        if not self.is_order:
            return loop_nest([self.size], fields, lambda index, to: self.write(self.original(index[0]), to, index[0]))
        full = arith.divui(self.size, index_constant(BLOCK))

        def block(number: Values, carried: Values) -> Values:
            start = arith.muli(number[0], index_constant(BLOCK))
            return self.counted(start, carried)

        fields = loop_nest([full], fields, block)
        start = arith.muli(full, index_constant(BLOCK))
        return self.counted_one_by_one(start, arith.subi(self.size, start), fields)

    def counted(self, start: ir.Value, fields: Values) -> Values:
        """Sort a block: each element's position is the number of those that go before it."""
        rows = [self.original(arith.addi(start, index_constant(offset))) for offset in range(BLOCK)]
        ranks = [index_constant(0)] * BLOCK
        for first in range(BLOCK):
            for second in range(first + 1, BLOCK):
                step = arith.index_castui(ir.IndexType.get(), self.overtakes(rows[second], rows[first]))
                ranks[first] = arith.addi(ranks[first], step)
                ranks[second] = arith.addi(ranks[second], arith.subi(index_constant(1), step))
        for row, rank in zip(rows, ranks, strict=True):
            fields = self.write(row, fields, arith.addi(start, rank))
        return fields

    def counted_one_by_one(self, start: ir.Value, count: ir.Value, fields: Values) -> Values:
        def insert(index: Values, carried: Values) -> Values:
            row = self.original(arith.addi(start, index[0]))

            def against(other: Values, ranks: Values) -> Values:
                other_row = self.original(arith.addi(start, other[0]))
                is_earlier = arith.cmpi(arith.CmpIPredicate.slt, other[0], index[0])
                is_itself = arith.cmpi(arith.CmpIPredicate.eq, other[0], index[0])
                # Each pair is compared once: the reverse comparison may contradict it.
                stays = _not(self.overtakes(row, other_row))
                passed = arith.andi(self.overtakes(other_row, row), _not(is_itself))
                is_before = arith.select(is_earlier, stays, passed)
                return [arith.addi(ranks[0], arith.index_castui(ir.IndexType.get(), is_before))]

            [rank] = loop_nest([count], [index_constant(0)], against)
            return self.write(row, carried, arith.addi(start, rank))

        return loop_nest([count], fields, insert)

    def merged(self, source: Values, target: Values, width: ir.Value) -> Values:
        """Merge pairs of runs of `width`, then the rest: a shorter pair, a single run or nothing."""
        double = arith.addi(width, width)
        pairs = arith.divui(self.size, double)

        def pair(index: Values, to: Values) -> Values:
            low = arith.muli(index[0], double)
            if self.is_order:
                return self.merged_pair(source, to, low, width)
            return self.merged_from_front(source, to, low, width, arith.addi(low, double))

        target = loop_nest([pairs], target, pair)
        return self.merged_from_front(source, target, arith.muli(pairs, double), width, self.size)

    def merged_pair(self, source: Values, target: Values, low: ir.Value, width: ir.Value) -> Values:
        """Merge two runs of one length from both ends, which takes `width` steps."""
        one = index_constant(1)
        middle = arith.addi(low, width)
        last_left, last_right = arith.subi(middle, one), arith.subi(arith.addi(middle, width), one)

        def step(index: Values, carried: Values) -> Values:
            *to, left, right, left_end, right_end = carried
            front = self.chosen(source, left, right, takes_left=lambda a, b: _not(self.overtakes(b, a)))
            back = self.chosen(source, left_end, right_end, takes_left=lambda a, b: self.overtakes(b, a))
            to = self.write(front[0], to, arith.addi(low, index[0]))
            to = self.write(back[0], to, arith.subi(last_right, index[0]))
            return [
                *to, arith.addi(left, front[1]), arith.addi(right, arith.subi(one, front[1])),
                arith.subi(left_end, back[1]), arith.subi(right_end, arith.subi(one, back[1])),
            ]  # fmt: skip

        return loop_nest([width], [*target, low, middle, last_left, last_right], step)[: len(target)]

    def chosen(
        self, source: Values, left: ir.Value, right: ir.Value, takes_left: Callable[[Values, Values], ir.Value]
    ) -> tuple[Values, ir.Value]:
        """Return one of two rows, and 1 if it is the left one."""
        left_row, right_row = self.read(source, left), self.read(source, right)
        is_left = takes_left(left_row, right_row)
        row = [arith.select(is_left, *pair) for pair in zip(left_row, right_row, strict=True)]
        return row, arith.index_castui(ir.IndexType.get(), is_left)

    def merged_from_front(
        self, source: Values, target: Values, low: ir.Value, width: ir.Value, end: ir.Value
    ) -> Values:
        """Merge a run of at most `width` with the run of at most `width` after it, up to `end`."""
        one = index_constant(1)
        middle, last = arith.minsi(arith.addi(low, width), end), arith.subi(end, one)

        def step(index: Values, carried: Values) -> Values:
            *to, left, right = carried
            has_left = arith.cmpi(arith.CmpIPredicate.slt, left, middle)
            has_right = arith.cmpi(arith.CmpIPredicate.slt, right, end)

            def takes_left(a: Values, b: Values) -> ir.Value:
                return arith.andi(has_left, arith.ori(_not(has_right), _not(self.overtakes(b, a))))

            row, moves = self.chosen(source, arith.minsi(left, last), arith.minsi(right, last), takes_left)
            to = self.write(row, to, arith.addi(low, index[0]))
            return [*to, arith.addi(left, moves), arith.addi(right, arith.subi(one, moves))]

        return loop_nest([arith.subi(end, low)], [*target, low, middle], step)[: len(target)]


def _not(bit: ir.Value) -> ir.Value:
    return arith.xori(bit, arith.constant(ir.IntegerType.get_signless(1), 1))


def _while_narrow(size: ir.Value, initial: Values, body: Callable[[ir.Value, Values], Values]) -> Values:
    types = [value.type for value in initial]
    loop = scf.WhileOp(types, list(initial))
    locations = [ir.Location.current] * len(types)
    before = loop.regions[0].blocks.append(*types, arg_locs=locations)
    after = loop.regions[1].blocks.append(*types, arg_locs=locations)
    with ir.InsertionPoint(before):
        narrow = arith.cmpi(arith.CmpIPredicate.slt, before.arguments[0], size)
        scf.ConditionOp(narrow, list(before.arguments))
    with ir.InsertionPoint(after):
        width, *carried = after.arguments
        scf.YieldOp(body(width, carried))
    return list(loop.results)
