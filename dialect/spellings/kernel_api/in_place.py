"""Functions and methods of NumPy and torch that write into their first argument; here they return its new content.

The frontend writes it, so that views and aliases see it. NumPy's return None, torch's the tensor.
"""

from __future__ import annotations

from math import prod
from typing import Any

from mlirtri.dialect.base.dtypes import DTYPES, is_same_kind
from mlirtri.dialect.spellings.base import helpers
from mlirtri.dialect.spellings.base.spelling import (
    Argument,
    Builder,
    Value,
    register,
    share_writing,
    spelling,
    unsupported,
)
from mlirtri.dialect.spellings.kernel_api import methods  # noqa: F401 # registers the methods that write here
from mlirtri.dialect.spellings.numpy_api.positions import positions_of
from mlirtri.dialect.spellings.numpy_api.sequences import partitioning, sorting
from mlirtri.dialect.spellings.numpy_api.ufuncs import INT64, as_array

BOOL = DTYPES["bool"]

register("ndarray.sort", sorting("sort"), "sort reshape", writes=True)
register("ndarray.partition", partitioning("sort"), "sort reshape", writes=True)


def _everywhere(b: Builder, x: Value, value: Value) -> Value:
    if helpers.rank_of(b, value):
        b.fail(f"fill takes one number, not {b.type_of(value)}", help="x[...] = values")
    return b.broadcast_to(b.cast(value, b.type_of(x).dtype), helpers.shape_of(b, x))


register("ndarray.fill", lambda b, a, value: _everywhere(b, a, value), "broadcast_to cast", writes=True)


@spelling("numpy.copyto", ops="broadcast_to cast where", writes=True)
def _(b, dst, src, casting="same_kind", where=True):
    src = as_array(b, src)
    if casting != "unsafe" and not is_same_kind("numpy", b.type_of(src).dtype, b.type_of(dst).dtype):
        b.fail(f"{b.type_of(src)} does not fit into {b.type_of(dst)}", help="say casting='unsafe', or y[...] = x")
    new = b.broadcast_to(b.cast(src, b.type_of(dst).dtype), helpers.shape_of(b, dst))
    return new if where is True else b.where(where, new, dst)


@spelling("numpy.putmask", ops="where cast", writes=True)
def _(b, a, /, mask, values):
    if helpers.rank_of(b, values) and helpers.shape_of(b, values) != helpers.shape_of(b, a):
        b.fail("the values of numpy.putmask are one number or as many as the array has", help="a[mask] = values")
    return b.where(mask, b.cast(values, b.type_of(a).dtype), a)


@spelling("numpy.fill_diagonal", ops="eye where cast reshape", writes=True)
def fill_diagonal(b, a, val, wrap=unsupported(False)):
    helpers.require_rank(b, "the array of numpy.fill_diagonal", a, (2,))
    rows, columns = helpers.shape_of(b, a)
    val = as_array(b, val)
    value = b.cast(val, b.type_of(a).dtype)
    if helpers.rank_of(b, value):
        count = helpers.shape_of(b, value)[0]
        if count < min(rows, columns):
            b.fail(f"{count} values do not fill a diagonal of {min(rows, columns)}")
        value = b.cut(value, 0, slice(0, rows)) if count > rows else value
        value = b.reshape(value, (-1, 1))
        if helpers.shape_of(b, value)[0] != rows:
            b.fail(f"{count} values do not go with {rows} rows")
    return b.where(b.eye(rows, columns, 0, BOOL), value, a)


@spelling("Tensor.fill_diagonal_", ops="eye where cast reshape", writes=True)
def _(b, input, fill_value, wrap=unsupported(False)):
    return fill_diagonal(b, input, fill_value)


# --- ufuncs at indices ---------------------------------------------------------------------------------------------


def _flat_positions(b: Builder, a: Value, indices: Value) -> Value:
    """Return the row-major indices of elements, from one tensor of indices for rank 1 or one per axis."""
    shape = helpers.shape_of(b, a)
    parts = indices if isinstance(indices, tuple) else (indices,)
    if len(parts) != len(shape):
        b.fail(f"{len(parts)} arrays of positions do not go with the {len(shape)} axes of {b.type_of(a)}")
    flat: Any = 0
    for axis, part in enumerate(parts):
        index = b.cast(positions_of(b, part), INT64)
        b.require_inside(index, shape[axis])
        index = b.where(b.less(index, 0), b.add(index, b.number_of(shape[axis])), index)
        index = b.multiply(index, prod(shape[axis + 1 :]))
        flat = index if axis == 0 else b.add(flat, index)
    return flat


def _adding_at(sign: int):
    def function(builder, a, indices, b=None, /):
        positions = _flat_positions(builder, a, indices)
        values = builder.cast(as_array(builder, b), builder.type_of(a).dtype)
        values = builder.reshape(builder.broadcast_to(values, helpers.shape_of(builder, positions)), (-1,))
        values = values if sign > 0 else builder.negative(values)
        added = builder.add_at(builder.reshape(a, (-1,)), builder.reshape(positions, (-1,)), values)
        return builder.reshape(added, helpers.shape_of(builder, a))

    return function


ADDING = "add_at reshape broadcast_to cast where less add multiply literal"
register("numpy.add.at", _adding_at(1), ADDING, writes=True)
register("numpy.subtract.at", _adding_at(-1), f"{ADDING} negative", writes=True)

# --- sums at indices of torch --------------------------------------------------------------------------------------


def _added_along(b: Builder, name: str, input: Value, dim: Argument, index: Value, source: Argument) -> Value:
    """Return `input` with `source` added where its elements lie, but along `dim` where `index`, of its rank, says."""
    shape, sizes = helpers.shape_of(b, input), helpers.shape_of(b, index)
    dim = helpers.one_axis(b, dim, len(shape))
    if b.type_of(source).dtype != b.type_of(input).dtype:
        b.fail(f"{name} takes a source of {b.type_of(input).dtype}, not {b.type_of(source)}")
    b.require_inside(index, shape[dim], wraps=False)
    flat = b.multiply(b.cast(index, INT64), prod(shape[dim + 1 :]))
    for axis, size in enumerate(sizes):
        if axis != dim:
            line = [-1 if position == axis else 1 for position in range(len(sizes))]
            positions = b.reshape(b.arange(0, size, 1, INT64), line)
            flat = b.add(flat, b.multiply(positions, prod(shape[axis + 1 :])))
    added = b.add_at(b.reshape(input, (-1,)), b.reshape(flat, (-1,)), b.reshape(source, (-1,)))
    return b.reshape(added, shape)


@spelling("torch.index_add Tensor.index_add", ops=ADDING)
def index_add(b, input, dim, index, source, *, alpha=1, out=unsupported()):
    shape = helpers.shape_of(b, input)
    if not shape and prod(helpers.shape_of(b, index)) == 1 and not helpers.shape_of(b, source):
        # torch takes a tensor of rank 0 for one of one element.
        lines = b.reshape(input, (1,)), dim, b.reshape(index, (1,)), b.reshape(source, (1,))
        return b.reshape(index_add(b, *lines, alpha=alpha), ())
    helpers.require_rank(b, "the index of index_add", index, (1,))
    axis = helpers.one_axis(b, dim, len(shape))
    expected = (*shape[:axis], helpers.shape_of(b, index)[0], *shape[axis + 1 :])
    if helpers.shape_of(b, source) != expected:
        b.fail(f"index_add takes a source of shape {expected}, not {b.type_of(source)}")
    line = [-1 if position == axis else 1 for position in range(len(shape))]
    every = b.broadcast_to(b.reshape(index, line), expected)
    source = source if alpha == 1 else b.cast(b.multiply(source, alpha), b.type_of(input).dtype)
    return _added_along(b, "index_add", input, dim, every, source)


@spelling("torch.scatter_add Tensor.scatter_add", ops=f"{ADDING} cut")
def scatter_add(b, input, dim, index, src, *, out=unsupported()):
    sizes, shape = helpers.shape_of(b, index), helpers.shape_of(b, input)
    if not shape and len(sizes) <= 1 and helpers.rank_of(b, src) <= 1:
        lines = b.reshape(input, (1,)), dim, b.reshape(index, (-1,)), b.reshape(src, (-1,))
        return b.reshape(scatter_add(b, *lines), ())
    axis = helpers.one_axis(b, dim, len(shape))
    pairs = enumerate(zip(sizes, shape, strict=False))
    is_inside = all(size <= full for position, (size, full) in pairs if position != axis)
    if len(sizes) != len(shape) or helpers.rank_of(b, src) != len(shape) or not is_inside:
        b.fail("scatter_add takes an index and a source of the tensor's rank, no longer along the other dimensions")
    for position, size in enumerate(sizes):
        if helpers.shape_of(b, src)[position] < size:
            b.fail(f"the source {b.type_of(src)} of scatter_add is smaller than its index {b.type_of(index)}")
        if helpers.shape_of(b, src)[position] > size:
            src = b.cut(src, position, slice(0, size))
    return _added_along(b, "scatter_add", input, dim, index, src)


# --- torch.Tensor --------------------------------------------------------------------------------------------------


register("Tensor.fill_", lambda b, input, value: _everywhere(b, input, value), "broadcast_to cast", writes=True)


@spelling("Tensor.zero_", ops="full", writes=True)
def _(b, input):
    return b.full(helpers.shape_of(b, input), 0, b.type_of(input).dtype)


@spelling("Tensor.copy_", ops="broadcast_to cast", writes=True)
def _(b, input, src, non_blocking=False):
    return b.broadcast_to(b.cast(src, b.type_of(input).dtype), helpers.shape_of(b, input))


share_writing(
    """
    abs absolute acos acosh add addmm arccos arccosh arcsin arcsinh arctan arctan2 arctanh asin asinh atan atan2 atanh
    baddbmm bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor ceil clamp clamp_max
    clamp_min clip copysign cos cosh cumprod cumsum deg2rad div divide eq erf exp exp2 expm1 fix floor
    floor_divide fmod frac ge greater greater_equal gt hypot index_add le less less_equal log log10 log1p log2
    logical_and logical_not logical_or logical_xor lt masked_fill mul multiply nan_to_num ne neg negative not_equal pow
    rad2deg reciprocal relu remainder round rsqrt scatter_add sigmoid sign sin sinh sqrt square sub subtract tan tanh
    tril triu true_divide trunc
    """
)
share_writing(
    """
    abs acos acosh arccos arccosh arcsin arcsinh arctan arctanh asin asinh atan atanh ceil clamp clamp_max clamp_min
    clip cos cosh deg2rad erf exp exp2 expm1 fix floor frac log log10 log1p log2 nan_to_num neg negative rad2deg
    reciprocal relu round rsqrt sigmoid sin sinh sqrt square tan tanh trunc
    """,
    owner="torch",
)
