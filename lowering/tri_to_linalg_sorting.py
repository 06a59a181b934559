"""The rules of `tri_to_linalg` that sort: stable merge sort of every line along an axis, without branches.

Blocks of eight are sorted by counting, for each element, how many go before it. Then runs are merged from one buffer
into another and back, two runs of one length from both ends at once: the two ends do not wait for each other, and
neither can leave its run (Orson Peters, "Glidesort", FOSDEM 2023).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlirtri.dialect import attributes, scalar
from mlirtri.dialect.definition import type_of
from mlirtri.dialect.dtypes import DTYPES, DType
from mlirtri.dialect.mlir import arith, ir, scf, tensor
from mlirtri.dialect.scalar import Scalar
from mlirtri.lowering.linalg_builder import element_type, index_constant, index_value, sizes_of
from mlirtri.lowering.loop_nests import loop_nest
from mlirtri.lowering.tri_to_linalg_rules import rule

INT64 = DTYPES["int64"]
BLOCK = 8
Values = list[ir.Value]


def less(x: Scalar, y: Scalar) -> Scalar:
    """Whether x is sorted before y: NaN comes last, as in NumPy."""
    if x.dtype.is_complex:
        return _less_complex(x, y)
    if not x.dtype.is_float:
        return scalar.compare("lt", x, y)
    above_or_nan = Scalar(arith.cmpf(arith.CmpFPredicate.UGT, y.value, x.value), DTYPES["bool"])
    return scalar.bit_and(above_or_nan, scalar.logical_not(scalar.is_nan(x)))


def _less_complex(x: Scalar, y: Scalar) -> Scalar:
    """By real and then by imaginary part; where real parts are numbers, those without a NaN beside them come first."""
    (x_re, x_im), (y_re, y_im) = scalar.parts(x), scalar.parts(y)
    same = scalar.logical_not(scalar.bit_or(less(x_re, y_re), less(y_re, x_re)))
    in_order = scalar.bit_or(less(x_re, y_re), scalar.bit_and(same, less(x_im, y_im)))
    are_numbers = scalar.logical_not(scalar.bit_or(scalar.is_nan(x_re), scalar.is_nan(y_re)))
    differ = scalar.bit_and(are_numbers, scalar.bit_xor(scalar.is_nan(x_im), scalar.is_nan(y_im)))
    return scalar.select(differ, scalar.is_nan(y_im), in_order)


@rule("sort")
def _sort(op, operation, operands):
    result, parameters = type_of(operation.results[0].type), attributes.from_mlir(op, operation)
    [x] = operands
    return _Lines(x, parameters["axis"], result.dtype, with_positions=False).sorted()


@rule("argsort")
def _argsort(op, operation, operands):
    """The positions move along with the elements."""
    parameters, of = attributes.from_mlir(op, operation), type_of(operation.operands[0].type)
    [x] = operands
    return _Lines(x, parameters["axis"], of.dtype, with_positions=True).sorted()


class _Lines:
    """All lines of a tensor along an axis, and how they are read and written while they are sorted.

    What is sorted are rows of fields: the element, and its position if that is wanted. Each field has two buffers.
    """

    def __init__(self, x: ir.Value, axis: int, dtype: DType, with_positions: bool):
        self.x, self.axis, self.dtype = x, axis, dtype
        self.sizes = sizes_of(x)
        self.size = index_value(self.sizes[axis])
        self.lines = [1 if loop == axis else size for loop, size in enumerate(self.sizes)]
        self.fields = [x.type.element_type, *([element_type(INT64)] if with_positions else [])]

    def sorted(self) -> ir.Value:
        """The last field, sorted by the first one."""
        here, there = ([tensor.empty(self.sizes, kind) for kind in self.fields] for _ in range(2))
        here = loop_nest(self.lines, here, lambda at, carried: _Line(self, at).blocks(carried))
        count = len(self.fields)

        def passes(width: ir.Value, carried: Values) -> Values:
            double = arith.addi(width, width)
            first, second = carried[:count], carried[count:]
            second = loop_nest(self.lines, second, lambda at, to: _Line(self, at).merged(first, to, width))
            first = loop_nest(self.lines, first, lambda at, to: _Line(self, at).merged(second, to, double))
            return [arith.addi(double, double), *first, *second]

        return _while_narrow(self.size, [index_constant(BLOCK), *here, *there], passes)[count]


class _Line:
    """One line: the axis at any place, the other axes where `at` says."""

    def __init__(self, lines: _Lines, at: Sequence[ir.Value]):
        self.of, self.at = lines, list(at)

    def place(self, position: ir.Value) -> Values:
        return [*self.at[: self.of.axis], position, *self.at[self.of.axis + 1 :]]

    def read(self, fields: Values, position: ir.Value) -> Values:
        return [tensor.extract(field, self.place(position)) for field in fields]

    def write(self, row: Values, fields: Values, position: ir.Value) -> Values:
        return [tensor.insert(value, field, self.place(position)) for value, field in zip(row, fields, strict=True)]

    def key(self, row: Values) -> Scalar:
        return Scalar(row[0], self.of.dtype)

    # --- blocks ----------------------------------------------------------------------------------------------------

    def original(self, position: ir.Value) -> Values:
        """The fields of an element of the tensor that is sorted."""
        element = tensor.extract(self.of.x, self.place(position))
        return [element, *([arith.index_cast(element_type(INT64), position)] if len(self.of.fields) > 1 else [])]

    def blocks(self, fields: Values) -> Values:
        """Runs of `BLOCK` elements, and a shorter one at the end."""
        whole = arith.divui(self.of.size, index_constant(BLOCK))

        def block(number: Values, carried: Values) -> Values:
            start = arith.muli(number[0], index_constant(BLOCK))
            return self.counted(start, carried)

        fields = loop_nest([whole], fields, block)
        start = arith.muli(whole, index_constant(BLOCK))
        return self.counted_one_by_one(start, arith.subi(self.of.size, start), fields)

    def counted(self, start: ir.Value, fields: Values) -> Values:
        """A block whose elements are written behind as many as are less, or equal and earlier."""
        rows = [self.original(arith.addi(start, index_constant(at))) for at in range(BLOCK)]
        ranks = [index_constant(0)] * BLOCK
        for first in range(BLOCK):
            for second in range(first + 1, BLOCK):
                later_is_less = less(self.key(rows[second]), self.key(rows[first])).value
                step = arith.index_castui(ir.IndexType.get(), later_is_less)
                ranks[first] = arith.addi(ranks[first], step)
                ranks[second] = arith.addi(ranks[second], arith.subi(index_constant(1), step))
        for row, rank in zip(rows, ranks, strict=True):
            fields = self.write(row, fields, arith.addi(start, rank))
        return fields

    def counted_one_by_one(self, start: ir.Value, count: ir.Value, fields: Values) -> Values:
        """The same for a block of any length."""

        def one(at: Values, carried: Values) -> Values:
            row = self.original(arith.addi(start, at[0]))

            def against(other: Values, ranks: Values) -> Values:
                key, other_key = self.key(row), self.key(self.original(arith.addi(start, other[0])))
                is_earlier = arith.cmpi(arith.CmpIPredicate.slt, other[0], at[0])
                before = arith.select(is_earlier, scalar.logical_not(less(key, other_key)).value,
                                      less(other_key, key).value)  # fmt: skip
                return [arith.addi(ranks[0], arith.index_castui(ir.IndexType.get(), before))]

            [rank] = loop_nest([count], [index_constant(0)], against)
            return self.write(row, carried, arith.addi(start, rank))

        return loop_nest([count], fields, one)

    # --- merging ---------------------------------------------------------------------------------------------------

    def merged(self, source: Values, target: Values, width: ir.Value) -> Values:
        """Pairs of runs of `width`, then what is left: a shorter pair, a single run or nothing."""
        double = arith.addi(width, width)
        pairs = arith.divui(self.of.size, double)
        target = loop_nest(
            [pairs], target, lambda at, to: self.merged_pair(source, to, arith.muli(at[0], double), width)
        )
        return self.merged_rest(source, target, arith.muli(pairs, double), width)

    def merged_pair(self, source: Values, target: Values, low: ir.Value, width: ir.Value) -> Values:
        """Two runs of one length, from both ends: after `width` steps all places are written."""
        one = index_constant(1)
        middle = arith.addi(low, width)
        last_left, last_right = arith.subi(middle, one), arith.subi(arith.addi(middle, width), one)

        def step(at: Values, carried: Values) -> Values:
            *to, left, right, left_end, right_end = carried
            front = self.chosen(source, left, right, takes_left=lambda a, b: scalar.logical_not(less(b, a)))
            back = self.chosen(source, left_end, right_end, takes_left=lambda a, b: less(b, a))
            to = self.write(front[0], to, arith.addi(low, at[0]))
            to = self.write(back[0], to, arith.subi(last_right, at[0]))
            return [
                *to, arith.addi(left, front[1]), arith.addi(right, arith.subi(one, front[1])),
                arith.subi(left_end, back[1]), arith.subi(right_end, arith.subi(one, back[1])),
            ]  # fmt: skip

        return loop_nest([width], [*target, low, middle, last_left, last_right], step)[: len(target)]

    def chosen(
        self, source: Values, left: ir.Value, right: ir.Value, takes_left: Callable[[Scalar, Scalar], Scalar]
    ) -> tuple[Values, ir.Value]:
        """One of two rows, and 1 if it is the left one."""
        left_row, right_row = self.read(source, left), self.read(source, right)
        is_left = takes_left(self.key(left_row), self.key(right_row)).value
        row = [arith.select(is_left, *pair) for pair in zip(left_row, right_row, strict=True)]
        return row, arith.index_castui(ir.IndexType.get(), is_left)

    def merged_rest(self, source: Values, target: Values, low: ir.Value, width: ir.Value) -> Values:
        """A run of `width` at most, and a shorter one at most, up to the end of the line."""
        one, size = index_constant(1), self.of.size
        middle, last = arith.minsi(arith.addi(low, width), size), arith.subi(size, one)

        def step(at: Values, carried: Values) -> Values:
            *to, left, right = carried
            has_left = arith.cmpi(arith.CmpIPredicate.slt, left, middle)
            has_right = arith.cmpi(arith.CmpIPredicate.slt, right, size)

            def takes_left(a: Scalar, b: Scalar) -> Scalar:
                in_order = arith.ori(arith.xori(has_right, scalar.constant(1, DTYPES["bool"]).value),
                                     scalar.logical_not(less(b, a)).value)  # fmt: skip
                return Scalar(arith.andi(has_left, in_order), DTYPES["bool"])

            row, moves = self.chosen(source, arith.minsi(left, last), arith.minsi(right, last), takes_left)
            to = self.write(row, to, arith.addi(low, at[0]))
            return [*to, arith.addi(left, moves), arith.addi(right, arith.subi(one, moves))]

        return loop_nest([arith.subi(size, low)], [*target, low, middle], step)[: len(target)]


def _while_narrow(size: ir.Value, initial: Values, body: Callable[[ir.Value, Values], Values]) -> Values:
    """Run the body as long as the width, which is carried first, is below the size."""
    types = [value.type for value in initial]
    loop = scf.WhileOp(types, list(initial))
    places = [ir.Location.current] * len(types)
    before = loop.regions[0].blocks.append(*types, arg_locs=places)
    after = loop.regions[1].blocks.append(*types, arg_locs=places)
    with ir.InsertionPoint(before):
        narrow = arith.cmpi(arith.CmpIPredicate.slt, before.arguments[0], size)
        scf.ConditionOp(narrow, list(before.arguments))
    with ir.InsertionPoint(after):
        width, *carried = after.arguments
        scf.YieldOp(body(width, carried))
    return list(loop.results)
