"""Products of arrays that `numpy` and `torch` have in common: einsum, tensordot, kron, cross."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlirtri.dialect.promotion.dtype_rules import Operand, common_dtype
from mlirtri.dialect.spellings.base import helpers
from mlirtri.dialect.spellings.base.contraction import Term, contracted
from mlirtri.dialect.spellings.base.spelling import Argument, Builder, Value


def einsum(b: Builder, subscripts: Argument, values: list[Value], dtype: Argument = None) -> Value:
    """Return `numpy.einsum` or `torch.einsum`."""
    labels, output = _parsed(b, subscripts, [helpers.rank_of(b, x) for x in values])
    dtype = dtype or common_dtype(b.semantics, [Operand(b.type_of(x).dtype, rank=1) for x in values])
    terms = [Term(b.cast(x, dtype), term_labels) for x, term_labels in zip(values, labels, strict=True)]
    return contracted(b, terms, output)


def subscripts_of(b: Builder, operands: Sequence[Argument]) -> tuple[Argument, list[Value]]:
    """Return subscripts as text and the operands: lists of numbers, ``einsum(a, [0, 1], b, [1])``, become letters."""
    if not operands or b.type_of(operands[0]) is None:
        return operands[0] if operands else "", list(operands[1:])
    lists = [*operands[1::2], *(operands[-1:] if len(operands) % 2 else ())]
    if any(not isinstance(labels, (list, tuple)) for labels in lists):
        b.fail("einsum takes a list of numbers after each operand, or its subscripts as a string first")
    texts = ["".join("..." if label is ... else _letter(b, label) for label in labels) for labels in lists]
    count = len(operands) // 2
    result = "->" + texts[count] if len(operands) % 2 else ""
    return ",".join(texts[:count]) + result, [operands[2 * position] for position in range(count)]


def _letter(b: Builder, label: Argument) -> str:
    if not isinstance(label, int) or not 0 <= label < 52:
        b.fail("einsum's lists have numbers from 0 to 51")
    return chr(label + (ord("A") if label < 26 else ord("a") - 26))


def _parsed(b: Builder, subscripts: Argument, ranks: list[int]) -> tuple[list[tuple[Value, ...]], tuple[Value, ...]]:
    """Return the labels of each operand and of the result; ``...`` becomes ints, counted from the last axis."""
    if not isinstance(subscripts, str):
        b.fail("einsum takes its subscripts as a string", help="numpy.einsum('ij,jk->ik', a, b)")
    text = subscripts.replace(" ", "")
    inputs, arrow, result = text.partition("->")
    parts = inputs.split(",")
    if len(parts) != len(ranks):
        b.fail(f"einsum({subscripts!r}) takes {len(parts)} operands, not {len(ranks)}")
    terms = [_labels(b, part, rank) for part, rank in zip(parts, ranks, strict=True)]
    ellipsis_axes = sorted({label for term in terms for label in term if isinstance(label, int)})
    if arrow:
        before, dots, after = result.partition("...")
        output = (*before, *(ellipsis_axes if dots else ()), *after)
    else:
        letters = [label for term in terms for label in term if isinstance(label, str)]
        output = (*ellipsis_axes, *sorted(label for label in set(letters) if letters.count(label) == 1))
    input_labels = {label for term in terms for label in term}
    if len(set(output)) < len(output) or not set(output) <= input_labels:
        b.fail(f"the result of einsum({subscripts!r}) names each of its axes once, and none that no operand has")
    return terms, output


def _labels(b: Builder, part: str, rank: int) -> tuple[Value, ...]:
    before, dots, after = part.partition("...")
    count = rank - len(before) - len(after)
    if count < 0 or (count and not dots) or (before + after and not (before + after).isalpha()):
        b.fail(f"the subscripts {part!r} do not fit an operand of rank {rank}")
    return (*before, *range(-count, 0), *after)


def in_common_dtype(b: Builder, x: Value, y: Value) -> tuple[Value, Value]:
    """Return both operands in the dtype that the library promotes them to."""
    dtype = common_dtype(b.semantics, [Operand(b.type_of(operand).dtype, rank=1) for operand in (x, y)])
    return b.cast(x, dtype), b.cast(y, dtype)


def tensordot(b: Builder, x: Value, y: Value, axes: Argument) -> Value:
    """Return `numpy.tensordot` or `torch.tensordot`."""
    ranks = helpers.rank_of(b, x), helpers.rank_of(b, y)
    if helpers.is_integer(axes):
        if not 0 <= axes <= min(ranks):
            b.fail(f"tensordot over {axes} axes of {b.type_of(x)} and {b.type_of(y)} is not possible")
        axes = (range(ranks[0] - axes, ranks[0]), range(axes))
    if len(helpers.as_tuple(axes)) != 2:
        b.fail(f"the axes of tensordot are a number, or a pair of the axes of both operands, not {axes!r}")
    first, second = (
        helpers.many_axes(b, tuple(summed) if isinstance(summed, range) else summed, rank)
        for summed, rank in zip(axes, ranks, strict=True)
    )
    if len(first) != len(second):
        b.fail(f"tensordot sums {len(first)} axes of one operand and {len(second)} of the other")
    x_labels = [("x", axis) for axis in range(ranks[0])]
    y_labels = [("y", axis) for axis in range(ranks[1])]
    for axis, other in zip(first, second, strict=True):
        y_labels[other] = x_labels[axis]
    output = [label for axis, label in enumerate(x_labels) if axis not in first]
    output += [label for axis, label in enumerate(y_labels) if axis not in second]
    x, y = in_common_dtype(b, x, y)
    return contracted(b, [Term(x, tuple(x_labels)), Term(y, tuple(y_labels))], tuple(output))


def kron(b: Builder, x: Value, y: Value) -> Value:
    """Return `numpy.kron` or `torch.kron`."""
    rank = max(helpers.rank_of(b, x), helpers.rank_of(b, y))
    shapes = [(*[1] * (rank - helpers.rank_of(b, operand)), *helpers.shape_of(b, operand)) for operand in (x, y)]
    outer = b.reshape(x, tuple(part for size in shapes[0] for part in (size, 1)))
    within = b.reshape(y, tuple(part for size in shapes[1] for part in (1, size)))
    return b.reshape(b.multiply(outer, within), tuple(m * n for m, n in zip(*shapes, strict=True)))


def cross(b: Builder, x: list[Value], y: list[Value], axis: Argument) -> Value:
    """Return the cross product of components; of two vectors of length 2 its third component."""

    def part(first: int, second: int) -> Any:
        return b.subtract(b.multiply(x[first], y[second]), b.multiply(x[second], y[first]))

    if len(x) == len(y) == 2:
        return part(0, 1)
    if len(x) != len(y):
        b.fail("a cross product of a plane and a space vector is not supported", help="append a 0 to the plane one")
    return b.stack((part(1, 2), part(2, 0), part(0, 1)), axis)
