"""The functions of `numpy` that sum products: einsum, tensordot, inner, kron, cross, convolve, correlate."""

from __future__ import annotations

from typing import Any

from mlirtri.dialect.base.sizes import Size
from mlirtri.dialect.promotion.dtype_rules import Operand, common_dtype
from mlirtri.dialect.spellings.base import einsum as labelled
from mlirtri.dialect.spellings.base import helpers
from mlirtri.dialect.spellings.base.einsum import Term, contracted
from mlirtri.dialect.spellings.base.spelling import Builder, register, spelling, unsupported
from mlirtri.dialect.spellings.numpy_api.ufuncs import arrays, computed_in, numpy_dtype

# --- einsum --------------------------------------------------------------------------------------------------------


def _parsed(b: Builder, subscripts: Any, ranks: list[int]) -> tuple[list[tuple[Any, ...]], tuple[Any, ...]]:
    """Return the labels of each operand and of the result; ``...`` becomes ints, counted from the last axis."""
    if not isinstance(subscripts, str):
        b.fail("einsum takes its subscripts as a string", help="numpy.einsum('ij,jk->ik', a, b)")
    text = subscripts.replace(" ", "")
    inputs, arrow, result = text.partition("->")
    parts = inputs.split(",")
    if len(parts) != len(ranks):
        b.fail(f"einsum({subscripts!r}) takes {len(parts)} operands, not {len(ranks)}")
    terms = [_labels(b, part, rank) for part, rank in zip(parts, ranks, strict=True)]
    spread = sorted({label for term in terms for label in term if isinstance(label, int)})
    if arrow:
        before, dots, after = result.partition("...")
        output = (*before, *(spread if dots else ()), *after)
    else:
        letters = [label for term in terms for label in term if isinstance(label, str)]
        output = (*spread, *sorted(label for label in set(letters) if letters.count(label) == 1))
    input_labels = {label for term in terms for label in term}
    if len(set(output)) < len(output) or not set(output) <= input_labels:
        b.fail(f"the result of einsum({subscripts!r}) names each of its axes once, and none that no operand has")
    return terms, output


def _labels(b: Builder, part: str, rank: int) -> tuple[Any, ...]:
    before, dots, after = part.partition("...")
    count = rank - len(before) - len(after)
    if count < 0 or (count and not dots) or (before + after and not (before + after).isalpha()):
        b.fail(f"the subscripts {part!r} do not fit an operand of rank {rank}")
    return (*before, *range(-count, 0), *after)


@spelling("numpy.einsum", ops=labelled.OPS)
def _(b, *operands, out=unsupported(), optimize=False, dtype=None, order="K", casting="safe"):
    if not operands:
        b.fail("einsum takes subscripts and operands")
    subscripts, *values = operands
    return einsum(b, subscripts, list(arrays(b, *values)), numpy_dtype(b, dtype))


def einsum(b: Builder, subscripts: Any, values: list[Any], dtype: Any = None) -> Any:
    """Return `numpy.einsum` or `torch.einsum`."""
    labels, output = _parsed(b, subscripts, [helpers.rank_of(b, x) for x in values])
    dtype = dtype or common_dtype(b.semantics, [Operand(b.type_of(x).dtype, rank=1) for x in values])
    terms = [Term(b.cast(x, dtype), term_labels) for x, term_labels in zip(values, labels, strict=True)]
    return contracted(b, terms, output)


# --- products of two -----------------------------------------------------------------------------------------------


def _together(b: Builder, x: Any, y: Any) -> tuple[Any, Any]:
    dtype = common_dtype(b.semantics, [Operand(b.type_of(operand).dtype, rank=1) for operand in (x, y)])
    return b.cast(x, dtype), b.cast(y, dtype)


def tensordot(b: Builder, x: Any, y: Any, axes: Any) -> Any:
    """Return `numpy.tensordot` or `torch.tensordot`."""
    ranks = helpers.rank_of(b, x), helpers.rank_of(b, y)
    if helpers.is_integer(axes):
        if not 0 <= axes <= min(ranks):
            b.fail(f"tensordot over {axes} axes of {b.type_of(x)} and {b.type_of(y)} is not possible")
        axes = (range(ranks[0] - axes, ranks[0]), range(axes))
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
    x, y = _together(b, x, y)
    return contracted(b, [Term(x, tuple(x_labels)), Term(y, tuple(y_labels))], tuple(output))


@spelling("numpy.tensordot", ops=labelled.OPS)
def _(builder, a, b, axes=2):
    a, b = arrays(builder, a, b)
    return tensordot(builder, a, b, axes)


def inner(b: Builder, x: Any, y: Any) -> Any:
    """Return the sums of products over both last axes."""
    return tensordot(b, x, y, (-1, -1))


@spelling("numpy.inner", ops=labelled.OPS)
def _(builder, a, b, /):
    a, b = arrays(builder, a, b)
    if not helpers.rank_of(builder, a) or not helpers.rank_of(builder, b):
        return builder.multiply(a, b)
    return inner(builder, a, b)


def kron(b: Builder, x: Any, y: Any) -> Any:
    """Return `numpy.kron` or `torch.kron`."""
    rank = max(helpers.rank_of(b, x), helpers.rank_of(b, y))
    shapes = [(*[1] * (rank - helpers.rank_of(b, operand)), *helpers.shape_of(b, operand)) for operand in (x, y)]
    outer = b.reshape(x, tuple(part for size in shapes[0] for part in (size, 1)))
    within = b.reshape(y, tuple(part for size in shapes[1] for part in (1, size)))
    return b.reshape(b.multiply(outer, within), tuple(m * n for m, n in zip(*shapes, strict=True)))


register("numpy.kron", lambda builder, a, b: kron(builder, *arrays(builder, a, b)), "multiply reshape")


@spelling("numpy.cross", ops="cut squeeze multiply subtract stack transpose negative")
def _(builder, a, b, axisa=-1, axisb=-1, axisc=-1, axis=None):
    axisa, axisb, axisc = (axis,) * 3 if axis is not None else (axisa, axisb, axisc)
    a, b = arrays(builder, a, b)
    return cross(builder, _components(builder, a, axisa), _components(builder, b, axisb), axisc)


def _components(b: Builder, x: Any, axis: Any) -> list[Any]:
    axis = helpers.one_axis(b, axis, helpers.rank_of(b, x))
    size = helpers.shape_of(b, x)[axis]
    if size not in (2, 3):
        b.fail(f"a cross product is of vectors of 2 or 3 numbers, not {size}")
    return [b.squeeze(b.cut(x, axis, slice(index, index + 1)), axis) for index in range(size)]


def cross(b: Builder, x: list[Any], y: list[Any], axis: Any) -> Any:
    """Return the cross product of components; of two vectors of length 2 its third component."""

    def part(first: int, second: int) -> Any:
        return b.subtract(b.multiply(x[first], y[second]), b.multiply(x[second], y[first]))

    if len(x) == len(y) == 2:
        return part(0, 1)
    if len(x) != len(y):
        b.fail("a cross product of a plane and a space vector is not supported", help="append a 0 to the plane one")
    return b.stack((part(1, 2), part(2, 0), part(0, 1)), axis)


@spelling("numpy.vecdot", ops=f"conj broadcast_to {labelled.OPS}")
def _(b, x1, x2, /, out=unsupported(), *, axis=-1, dtype=None):
    x1, x2 = computed_in(b, dtype, x1, x2)
    x1, x2 = (helpers.moved(b, x, axis, -1) for x in (b.conj(x1), x2))
    labels = [tuple(range(-helpers.rank_of(b, x), 0)) for x in (x1, x2)]
    terms = [Term(x, term_labels) for x, term_labels in zip(_together(b, x1, x2), labels, strict=True)]
    return contracted(b, terms, max(labels, key=len)[:-1])


# --- sliding products ----------------------------------------------------------------------------------------------

SLIDING = "correlate pad flip conj reshape"


def slid(b: Builder, long: Any, short: Any, mode: str) -> Any:
    """Return the sliding dot products of `short` with `long`, with the overlap that `mode` says."""
    size = helpers.shape_of(b, short)[0]
    if not isinstance(size, int) and mode == "valid":
        return b.correlate(long, short)
    if not isinstance(size, int):
        b.fail("the shorter operand of a full or central overlap has a length that is known at compile time")
    widths = {"valid": (0, 0), "same": (size // 2, size - size // 2 - 1), "full": (size - 1, size - 1)}
    if mode not in widths:
        b.fail(f"mode is 'valid', 'same' or 'full', not {mode!r}")
    return b.correlate(b.pad(long, (widths[mode],), 0), short)


def _lines(b: Builder, name: str, *xs: Any) -> tuple[Any, ...]:
    vectors = tuple(b.reshape(x, (-1,)) if not helpers.rank_of(b, x) else x for x in arrays(b, *xs))
    for x in vectors:
        helpers.require_rank(b, f"an operand of {name}", x, (1,))
        if helpers.shape_of(b, x)[0] == 0:
            b.fail(f"{name} takes no empty arrays")
    return vectors


def _is_longer(b: Builder, x: Any, y: Any, mode: str) -> bool:
    """Return whether `x` is the longer one; fail for run-time sizes unless the mode is ``full``."""
    excess = Size.of(helpers.shape_of(b, x)[0]) - helpers.shape_of(b, y)[0]
    least, most = excess.least(), excess.most()
    if most is not None and most <= 0:
        return False
    if least is not None and least > 0:
        return True
    if mode != "full":
        b.fail(f"which operand is longer decides about mode={mode!r}, and only the run shows it")
    return not isinstance(helpers.shape_of(b, x)[0], int)


@spelling("numpy.convolve", ops=SLIDING)
def _(b, a, v, mode="full"):
    a, v = _lines(b, "numpy.convolve", a, v)
    if _is_longer(b, v, a, mode):
        a, v = v, a
    return slid(b, a, b.flip(v), mode)


@spelling("numpy.correlate", ops=SLIDING)
def _(b, a, v, mode="valid"):
    a, v = _lines(b, "numpy.correlate", a, v)
    v = b.conj(v) if b.type_of(v).dtype.kind == "c" else v
    if _is_longer(b, v, a, mode):
        return b.flip(slid(b, v, a, mode))
    return slid(b, a, v, mode)
