"""The functions of `numpy` that sum products: einsum, tensordot, inner, kron, cross, convolve, correlate."""

from __future__ import annotations

from mlirtri.dialect.base.sizes import Size
from mlirtri.dialect.spellings.base import contraction, helpers
from mlirtri.dialect.spellings.base.contraction import Term, contracted
from mlirtri.dialect.spellings.base.spelling import Argument, Builder, Value, register, spelling, unsupported
from mlirtri.dialect.spellings.base.tensor_products import (
    cross,
    einsum,
    in_common_dtype,
    kron,
    subscripts_of,
    tensordot,
)
from mlirtri.dialect.spellings.numpy_api.ufuncs import arrays, computed_in, numpy_dtype


@spelling("numpy.einsum", ops=contraction.OPS)
def _(b, *operands, out=unsupported(), optimize=False, dtype=None, order="K", casting="safe"):
    if not operands:
        b.fail("einsum takes subscripts and operands")
    subscripts, values = subscripts_of(b, operands)
    return einsum(b, subscripts, list(arrays(b, *values)), numpy_dtype(b, dtype))


@spelling("numpy.tensordot", ops=contraction.OPS)
def _(builder, a, b, axes=2):
    a, b = arrays(builder, a, b)
    return tensordot(builder, a, b, axes)


def inner(b: Builder, x: Value, y: Value) -> Value:
    """Return the sums of products over both last axes."""
    return tensordot(b, x, y, (-1, -1))


@spelling("numpy.inner", ops=contraction.OPS)
def _(builder, a, b, /):
    a, b = arrays(builder, a, b)
    if not helpers.rank_of(builder, a) or not helpers.rank_of(builder, b):
        return builder.multiply(a, b)
    return inner(builder, a, b)


register("numpy.kron", lambda builder, a, b: kron(builder, *arrays(builder, a, b)), "multiply reshape")


@spelling("numpy.cross", ops="cut squeeze multiply subtract stack transpose negative")
def _(builder, a, b, axisa=-1, axisb=-1, axisc=-1, axis=None):
    axisa, axisb, axisc = (axis,) * 3 if axis is not None else (axisa, axisb, axisc)
    a, b = arrays(builder, a, b)
    return cross(builder, _components(builder, a, axisa), _components(builder, b, axisb), axisc)


def _components(b: Builder, x: Value, axis: Argument) -> list[Value]:
    axis = helpers.one_axis(b, axis, helpers.rank_of(b, x))
    size = helpers.shape_of(b, x)[axis]
    if size not in (2, 3):
        b.fail(f"a cross product is of vectors of 2 or 3 numbers, not {size}")
    return [b.squeeze(b.cut(x, axis, slice(index, index + 1)), axis) for index in range(size)]


@spelling("numpy.vecdot", ops=f"conj broadcast_to {contraction.OPS}")
def _(b, x1, x2, /, out=unsupported(), *, axis=-1, dtype=None):
    x1, x2 = computed_in(b, dtype, x1, x2)
    x1, x2 = (helpers.moved(b, x, axis, -1) for x in (b.conj(x1), x2))
    labels = [tuple(range(-helpers.rank_of(b, x), 0)) for x in (x1, x2)]
    terms = [Term(x, term_labels) for x, term_labels in zip(in_common_dtype(b, x1, x2), labels, strict=True)]
    return contracted(b, terms, max(labels, key=len)[:-1])


# --- sliding products ----------------------------------------------------------------------------------------------

SLIDING = "correlate pad flip conj reshape"


def slid(b: Builder, long: Value, short: Value, mode: str) -> Value:
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


def _lines(b: Builder, name: str, *xs: Value) -> tuple[Value, ...]:
    vectors = tuple(b.reshape(x, (-1,)) if not helpers.rank_of(b, x) else x for x in arrays(b, *xs))
    for x in vectors:
        helpers.require_rank(b, f"an operand of {name}", x, (1,))
        if helpers.shape_of(b, x)[0] == 0:
            b.fail(f"{name} takes no empty arrays")
    return vectors


def _swap_is_needed(b: Builder, x: Value, y: Value, mode: str) -> bool:
    """Return whether `x` is the longer one, so that `y` has to slide over it.

    Fails if only the run shows which is longer, unless the mode is ``full``: then either may slide, and the one whose
    length is known at compile time does.
    """
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
    if _swap_is_needed(b, v, a, mode):
        a, v = v, a
    return slid(b, a, b.flip(v), mode)


@spelling("numpy.correlate", ops=SLIDING)
def _(b, a, v, mode="valid"):
    a, v = _lines(b, "numpy.correlate", a, v)
    v = b.conj(v) if b.type_of(v).dtype.kind == "c" else v
    if _swap_is_needed(b, v, a, mode):
        return b.flip(slid(b, v, a, mode))
    return slid(b, a, v, mode)
