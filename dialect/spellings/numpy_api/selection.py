"""The functions of NumPy whose results are as long as the elements say: indices of true elements, distinct elements.

Such a length is a number beside a buffer for the longest result, as that of ``x[mask]``.
"""

from __future__ import annotations

from math import prod

from mlirtri.dialect.base.dtypes import DTYPES
from mlirtri.dialect.spellings.base import helpers
from mlirtri.dialect.spellings.base.spelling import Builder, Value, spelling, unsupported
from mlirtri.dialect.spellings.numpy_api.ufuncs import INT64, as_array

BOOL = DTYPES["bool"]
INDICES = "not_equal reshape arange compress"


def _flat_indices(b: Builder, a: Value, name: str) -> tuple[Value, tuple[int, ...]]:
    """Return the row-major indices of the elements that are true, and the shape."""
    a = as_array(b, a)
    shape = helpers.shape_of(b, a)
    if not all(isinstance(size, int) for size in shape):
        b.fail(f"{name} takes an array whose shape is known at compile time, not {b.type_of(a)}", help="use x[mask]")
    if not shape:
        b.fail(f"{name} takes no array of rank 0, as in NumPy", help="use numpy.atleast_1d(x)")
    mask = a if b.type_of(a).dtype.is_bool else b.not_equal(a, 0)
    return b.masked(b.arange(0, prod(shape), 1, INT64), b.reshape(mask, (-1,))), shape


def indices_of(b: Builder, a: Value, name: str) -> tuple[Value, ...]:
    """Return the indices of the elements that are true, one array per axis."""
    flat, shape = _flat_indices(b, a, name)
    parts = []
    for axis, size in enumerate(shape):
        index = b.floor_divide(flat, max(prod(shape[axis + 1 :]), 1))
        parts.append(b.remainder(index, max(size, 1)) if axis else index)
    return tuple(parts)


@spelling("numpy.nonzero ndarray.nonzero", ops=f"{INDICES} floor_divide remainder")
def _(b, a):
    return indices_of(b, a, "numpy.nonzero")


@spelling("numpy.argwhere", ops=f"{INDICES} floor_divide remainder concatenate")
def _(b, a):
    return b.stack(indices_of(b, a, "numpy.argwhere"), axis=1)


@spelling("numpy.flatnonzero", ops=INDICES)
def _(b, a):
    return _flat_indices(b, b.reshape(as_array(b, a), (-1,)), "numpy.flatnonzero")[0]


UNIQUE = "reshape sort cut not_equal isnan logical_not logical_and concatenate compress"


@spelling("numpy.unique", ops=UNIQUE)
def _(
    b, ar, return_index=unsupported(False), return_inverse=unsupported(False), return_counts=unsupported(False),
    axis=unsupported(), *, equal_nan=unsupported(True), sorted=unsupported(True),
):  # fmt: skip
    flat = b.reshape(as_array(b, ar), (-1,))
    dtype, (count,) = b.type_of(flat).dtype, helpers.shape_of(b, flat)
    if dtype.is_complex or not isinstance(count, int):
        b.fail(f"numpy.unique takes real numbers of a shape known at compile time, not {b.type_of(flat)}")
    if not count:
        return flat
    ordered = b.sort(flat, 0)
    here, before = b.cut(ordered, 0, slice(1, None)), b.cut(ordered, 0, slice(None, -1))
    is_new = b.not_equal(here, before)
    if dtype.is_float:
        # NaNs are sorted to the end, and count as one.
        is_new = b.logical_and(is_new, b.logical_not(b.isnan(before)))
    return b.masked(ordered, b.concatenate((b.full((1,), True, BOOL), is_new)))


@spelling("numpy.choose ndarray.choose", ops="where equal")
def _(b, a, choices, out=unsupported(), mode=unsupported("raise")):
    index = as_array(b, a)
    if helpers.is_tensor(b, choices):
        choices = helpers.unstacked(b, choices, 0)
    if b.type_of(index).dtype.is_bool:
        index = b.cast(index, INT64)
    if not isinstance(choices, (tuple, list)) or not choices or not b.type_of(index).dtype.is_integer:
        b.fail("numpy.choose takes integers, and a list of arrays to choose from")
    b.require_inside(index, len(choices), wraps=False)
    *others, result = (as_array(b, choice) for choice in choices)
    for number, choice in reversed(list(enumerate(others))):
        result = b.where(b.equal(index, number), choice, result)
    return result
