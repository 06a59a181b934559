"""The loops of `tm_tensor`: running totals, scattered updates, the best of each line.

Takes tensors and functions that combine or compare their elements. Gives tensors, made by loops of `scf` that carry
them. An update outside of the tensor fails an assertion and changes nothing. Refuses nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlirtri.dialect.bindings.mlir import arith, ir, linalg, tensor
from mlirtri.lowering.mlir.linalg_builder import generic, index_constant, index_value, size_of, sizes_of
from mlirtri.lowering.mlir.loop_nests import loop_nest

Values = list[ir.Value]
Combine = Callable[[ir.Value, ir.Value], ir.Value]


# --- running totals ------------------------------------------------------------------------------------------------


def scan(
    source: ir.Value, out: ir.Value, start: ir.Value, axis: int, inclusive: bool, combine: Combine, needs_last: bool
) -> Values:
    """The totals along an axis, and the last of each line; where there is none, what `start` has.

    Inclusive ones begin with the first element, exclusive ones with `start`.
    """
    sizes = sizes_of(source)
    nest = _scan_line if axis == len(sizes) - 1 else _scan_planes
    totals = nest(source, out, start, axis, inclusive, combine)
    return [totals, _last(totals, start, axis) if needs_last else start]


def _scan_line(source, out, start, axis: int, inclusive: bool, combine: Combine) -> ir.Value:
    """Along the last axis: the total so far stays a scalar."""
    *batch, size = sizes_of(source)

    def line(at: Values, carried: Values) -> Values:
        def begin(zero: Values, inner: Values) -> Values:
            first = tensor.extract(source, [*at, *zero]) if inclusive else tensor.extract(start, at)
            return loop_nest([_less_one(size)], [tensor.insert(first, inner[0], [*at, *zero]), first], step)[:1]

        def step(position: Values, inner: Values) -> Values:
            here = [*at, arith.addi(position[0], index_constant(1))]
            total = combine(inner[1], tensor.extract(source, here if inclusive else [*at, *position]))
            return [tensor.insert(total, inner[0], here), total]

        return loop_nest([_one_at_most(size)], carried, begin)

    return loop_nest(batch, [out], line)[0]


def _scan_planes(source, out, start, axis: int, inclusive: bool, combine: Combine) -> ir.Value:
    """Along another axis: the innermost loop walks through memory."""
    sizes = sizes_of(source)

    def begin(at: Values, carried: Values) -> Values:
        outside = [each for loop, each in enumerate(at) if loop != axis]
        first = tensor.extract(source, at) if inclusive else tensor.extract(start, outside)
        return [tensor.insert(first, carried[0], at)]

    def step(at: Values, carried: Values) -> Values:
        here = [arith.addi(each, index_constant(1)) if loop == axis else each for loop, each in enumerate(at)]
        total = combine(tensor.extract(carried[0], at), tensor.extract(source, here if inclusive else at))
        return [tensor.insert(total, carried[0], here)]

    begun = loop_nest([_one_at_most(size) if loop == axis else size for loop, size in enumerate(sizes)], [out], begin)
    return loop_nest([_less_one(size) if loop == axis else size for loop, size in enumerate(sizes)], begun, step)[0]


def _last(totals: ir.Value, start: ir.Value, axis: int) -> ir.Value:
    """The last total of each line of two or more elements."""
    size = size_of(totals, axis)
    if isinstance(size, int) and size < 2:
        return start
    rank = start.type.rank
    identity = ir.AffineMap.get_identity(rank)
    last = arith.subi(index_value(size), index_constant(1))

    def body(before: ir.Value, *_: ir.Value) -> Values:
        at = [linalg.IndexOp(loop).result for loop in range(rank)]
        inside = arith.maxsi(last, index_constant(0))
        total = tensor.extract(totals, [*at[:axis], inside, *at[axis:]])
        if isinstance(size, int):
            return [total]
        return [arith.select(arith.cmpi(arith.CmpIPredicate.sgt, last, index_constant(0)), total, before)]

    out = tensor.empty(sizes_of(start), start.type.element_type)
    [result] = generic([start], [out], [identity, identity], ["parallel"] * rank, body)
    return result


def _one_at_most(size: int | ir.Value) -> int | ir.Value:
    return min(size, 1) if isinstance(size, int) else arith.minsi(size, index_constant(1))


def _less_one(size: int | ir.Value) -> int | ir.Value:
    if isinstance(size, int):
        return max(size - 1, 0)
    return arith.maxsi(arith.subi(size, index_constant(1)), index_constant(0))


# --- scattered updates ---------------------------------------------------------------------------------------------


def scatter(updates: ir.Value, places: ir.Value, original: ir.Value, axes: Sequence[int], combine: Combine) -> ir.Value:
    """`original` with ``combine(update, what is there)`` at each place, one update after the other.

    Row n of `places` says where update n starts, along `axes`; the axes of an update are the last ones of `original`.
    """
    count, *inner = sizes_of(updates)
    rank = original.type.rank
    behind = rank - len(inner)

    def update(number: Values, carried: Values) -> Values:
        starts, is_inside = _starts(places, number, original, axes, inner, behind)
        message = "a place to scatter to is out of bounds"
        ir.Operation.create("cf.assert", operands=[is_inside], attributes={"msg": ir.StringAttr.get(message)})

        def element(at: Values, target: Values) -> Values:
            walked: Values = [index_constant(0)] * behind + at
            where = [arith.addi(starts[axis], step) if axis in starts else step for axis, step in enumerate(walked)]
            there = tensor.extract(target[0], where)
            new = combine(tensor.extract(updates, [*number, *at]), there)
            return [tensor.insert(arith.select(is_inside, new, there), target[0], where)]

        return loop_nest(inner, carried, element)

    # Of a tensor of no elements there is nothing to update.
    if 0 in original.type.shape:
        return original
    return loop_nest([count], [original], update)[0]


def _starts(
    places: ir.Value, number: Values, original: ir.Value, axes: Sequence[int], inner: Sequence, behind: int
) -> tuple[dict[int, ir.Value], ir.Value]:
    """Where an update starts along each of `axes`, inside of the tensor, and whether it was to start there."""
    starts, is_inside = {}, arith.constant(ir.IntegerType.get_signless(1), 1)
    for column, axis in enumerate(axes):
        start = arith.index_cast(ir.IndexType.get(), tensor.extract(places, [*number, index_constant(column)]))
        length = inner[axis - behind] if axis >= behind else 1
        room = arith.subi(index_value(size_of(original, axis)), index_value(length))
        inside = arith.cmpi(arith.CmpIPredicate.sge, start, index_constant(0))
        inside = arith.andi(inside, arith.cmpi(arith.CmpIPredicate.sle, start, room))
        is_inside = arith.andi(is_inside, inside)
        starts[axis] = arith.maxsi(arith.minsi(start, room), index_constant(0))
    return starts, is_inside


# --- the best ------------------------------------------------------------------------------------------------------


def best(
    values: ir.Value, positions: ir.Value | None, outputs: Sequence[ir.Value], axis: int, is_better: Combine
) -> Values:
    """The best of each line and of what `outputs` have, in order, with their positions; the first of equal ones."""
    sizes, count = sizes_of(values), size_of(outputs[0], axis)
    kind = outputs[1].type.element_type

    def element(at: Values, carried: Values) -> Values:
        position = arith.index_cast(kind, at[axis]) if positions is None else tensor.extract(positions, at)

        def against(place: Values, inner: Values) -> Values:
            *kept, value, number = inner
            where = [*at[:axis], *place, *at[axis + 1 :]]
            there, its_number = (tensor.extract(each, where) for each in kept)
            wins, loses = is_better(value, there), is_better(there, value)
            is_equal = arith.cmpi(arith.CmpIPredicate.eq, wins, loses)
            is_first = arith.cmpi(arith.CmpIPredicate.slt, number, its_number)
            goes_before = arith.ori(wins, arith.andi(is_equal, is_first))
            kept = [
                tensor.insert(arith.select(goes_before, *pair), each, where)
                for each, pair in zip(kept, ((value, there), (number, its_number)), strict=True)
            ]
            rest = [arith.select(goes_before, *pair) for pair in ((there, value), (its_number, number))]
            return [*kept, *rest]

        return loop_nest([count], [*carried, tensor.extract(values, at), position], against)[:2]

    return loop_nest(sizes, list(outputs), element)
