"""Functions of NumPy on whole arrays in the kernel language: writes at positions, insertion, bits, histograms.

Python never runs them, but those of `COMPILE_TIME`. Each is the documented meaning of NumPy's function of that name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mlirtri.lowering.frontend.library_functions import torch_matrices
from mlirtri.lowering.frontend.library_functions.linear_algebra import axis_of, refuse
from mlirtri.lowering.frontend.library_functions.random_generator import require_value


def require_index(condition: Any, message: str) -> None:
    """Raise `IndexError` with the message after the call if the condition was false."""


require_index.__mlirtri_name__ = "mlirtri.require_index"  # type: ignore[attr-defined]


def is_function(value: Any) -> bool:
    return hasattr(value, "__name__")


COMPILE_TIME = (is_function,)
"""What Python runs while a kernel compiles."""


# --- writes at positions ---------------------------------------------------------------------------------------------


def put_along_axis(arr, indices, values, axis=-1):
    indices = np.asarray(indices)
    if axis is None:
        put(arr, indices, values)
    else:
        shape = arr.shape
        position = axis_of(axis, arr.ndim)
        parts = [
            indices if k == position else np.arange(shape[k]).reshape([-1 if m == k else 1 for m in range(arr.ndim)])
            for k in range(arr.ndim)
        ]
        arr[tuple(parts)] = values


def put(a, ind, v, mode="raise"):
    if mode != "raise":
        refuse("it takes positions that are inside: take them modulo the size, or clip them, before")
    positions, values = np.asarray(ind).reshape(-1), np.asarray(v).reshape(-1)
    flat = a.copy().reshape(-1)
    for i in range(positions.shape[0] if values.shape[0] else 0):
        flat[positions[i]] = values[i % values.shape[0]].astype(a.dtype)
    a[...] = flat.reshape(a.shape)


def place(arr, mask, vals):
    values = np.asarray(vals).reshape(-1)
    flat, chosen = arr.copy().reshape(-1), np.asarray(mask).reshape(-1) != 0
    if chosen.shape[0] != flat.shape[0]:
        refuse("the mask has as many elements as the array")
    taken = 0
    for i in range(flat.shape[0]):
        if chosen[i]:
            flat[i] = values[taken % values.shape[0]].astype(arr.dtype)
            taken += 1
    arr[...] = flat.reshape(arr.shape)


def tolist(self):
    kind = float if self.dtype.is_float else complex if self.dtype.is_complex else int
    return [tolist(row) for row in self] if self.ndim else (bool if self.dtype.name == "bool" else kind)(self)


# --- selection and insertion -----------------------------------------------------------------------------------------


def extract(condition, arr):
    return compress(np.asarray(condition).reshape(-1), np.asarray(arr).reshape(-1), 0)


def compress(condition, a, axis=None):
    a, chosen = np.asarray(a), np.asarray(condition) != 0
    if axis is None:
        return a.reshape(-1)[: chosen.shape[0]][chosen]
    rows = np.moveaxis(a, axis, 0)[: chosen.shape[0]]
    return np.moveaxis(rows[chosen], 0, axis)


def insert(arr, obj, values, axis=None):
    arr = np.asarray(arr)
    rows = arr.reshape(-1) if axis is None else np.moveaxis(arr, axis, 0)
    size = rows.shape[0]
    at = np.asarray(obj)
    new: Any = np.asarray(values)
    if at.ndim == 0:
        # Several values stand where one index is.
        if axis is None or new.ndim == 0:
            new = new.reshape(-1)
        elif new.ndim == arr.ndim:
            new = np.moveaxis(new, axis, 0)
        else:
            new = new.reshape((1, *new.shape))
        require_index(-size <= at and at <= size, "an index of insert is out of bounds")
        first = np.where(at < 0, at + size, at)
        count = new.shape[0]
        result = np.empty((size + count, *rows.shape[1:]), arr.dtype)
        result[:first] = rows[:first]
        result[first : first + count] = new
        result[first + count :] = rows[first:]
    else:
        count = at.shape[0]
        require_index(np.all((at >= -size) & (at <= size)), "an index of insert is out of bounds")
        at = np.where(at < 0, at + size, at)
        order = np.argsort(at, kind="stable")
        positions = np.zeros(count, np.int64)
        positions[order] = at[order] + np.arange(count)
        is_old = np.ones(size + count, np.bool_)
        is_old[positions] = False
        result = np.empty((size + count, *rows.shape[1:]), arr.dtype)
        result[positions] = new if axis is None or new.ndim < arr.ndim else np.moveaxis(new, axis, 0)
        taken = 0
        for i in range(size + count):
            if is_old[i]:
                result[i] = rows[taken]
                taken += 1
    return result if axis is None else np.moveaxis(result, 0, axis).copy()


def resize(a, new_shape):
    flat = np.asarray(a).reshape(-1)
    shape = new_shape if isinstance(new_shape, (tuple, list)) else (new_shape,)
    result = np.zeros(shape, flat.dtype)
    if flat.shape[0] == 0:
        return result
    return flat[np.arange(result.size) % flat.shape[0]].reshape(shape)


def lexsort(keys, axis=-1):
    keys = [np.asarray(key) for key in keys]
    order = np.argsort(keys[0], axis=axis, kind="stable")
    for key in keys[1:]:
        order = np.take_along_axis(
            order, np.argsort(np.take_along_axis(key, order, axis), axis=axis, kind="stable"), axis
        )
    return order


def piecewise(x, condlist, funclist):
    x = np.asarray(x)
    # The rows of an array of rank 2 or more are conditions, as the items of a list are.
    conditions = condlist if isinstance(condlist, (tuple, list)) or np.ndim(condlist) > 1 else [condlist]
    conditions = [np.asarray(condition) != 0 for condition in conditions]
    if len(funclist) == len(conditions) + 1:
        others = conditions[0]
        for condition in conditions[1:]:
            others = others | condition
        conditions = [*conditions, ~others]
    if len(funclist) != len(conditions):
        refuse("there is a function for each condition, and at most one more")
    result = np.zeros_like(x)
    for k in range(len(funclist)):
        function = funclist[k]
        values = function(x) if is_function(function) else function
        result = np.where(conditions[k], values, result).astype(x.dtype)
    return result


def block(arrays):
    depth = _depth(arrays)
    rank = max((depth, *_ranks(arrays)))
    return _block(arrays, depth, rank)


def _depth(arrays):
    return 1 + _depth(arrays[0]) if isinstance(arrays, list) else 0


def _ranks(arrays):
    if not isinstance(arrays, list):
        return [np.ndim(arrays)]
    ranks = []
    for part in arrays:
        ranks = [*ranks, *_ranks(part)]
    return ranks


def _block(arrays, depth, rank):
    if not isinstance(arrays, list):
        x = np.asarray(arrays)
        return x.reshape((*((1,) * (rank - x.ndim)), *x.shape))
    return np.concatenate([_block(part, depth - 1, rank) for part in arrays], axis=-depth)


# --- bits ------------------------------------------------------------------------------------------------------------


def bitwise_count(x, /):
    x = np.asarray(x)
    if x.dtype == np.bool_:
        return x.astype(np.uint8)
    if not x.dtype.is_integer:
        refuse("it counts the bits of integers")
    # The smallest integer has no absolute value; its bits are those of its unsigned one.
    count = np.abs(x).astype(np.uint64) & np.uint64((1 << x.dtype.bits) - 1)
    count = count - ((count >> 1) & 0x5555555555555555)
    count = (count & 0x3333333333333333) + ((count >> 2) & 0x3333333333333333)
    count = (count + (count >> 4)) & 0x0F0F0F0F0F0F0F0F
    return ((count * np.uint64(0x0101010101010101)) >> 56).astype(np.uint8)


def packbits(a, /, axis=None, bitorder="big"):
    a = np.asarray(a)
    if a.dtype.is_inexact:
        refuse("it packs booleans and integers")
    bits: Any = np.moveaxis(a.reshape(-1) if axis is None else a, 0 if axis is None else axis, -1) != 0
    padded = np.concatenate([bits, np.zeros((*bits.shape[:-1], -bits.shape[-1] % 8), np.bool_)], -1)
    parts = padded.reshape((*bits.shape[:-1], padded.shape[-1] // 8, 8))
    weights = np.array([128, 64, 32, 16, 8, 4, 2, 1] if bitorder == "big" else [1, 2, 4, 8, 16, 32, 64, 128])
    words = np.sum(np.where(parts, weights, 0), -1).astype(np.uint8)
    return words if axis is None else np.moveaxis(words, -1, axis).copy()


def unpackbits(a, /, axis=None, count=None, bitorder="big"):
    a = np.asarray(a)
    if a.dtype != np.uint8:
        refuse("it unpacks uint8")
    words = a.reshape(-1) if axis is None else np.moveaxis(a, axis, -1)
    bit_numbers = np.array([7, 6, 5, 4, 3, 2, 1, 0] if bitorder == "big" else [0, 1, 2, 3, 4, 5, 6, 7])
    bits: Any = ((words[..., None].astype(np.int64) >> bit_numbers) & 1).astype(np.uint8)
    bits = bits.reshape((*words.shape[:-1], words.shape[-1] * 8))
    if count is not None:
        total = count if count >= 0 else bits.shape[-1] + count
        extra = max(total - bits.shape[-1], 0)
        bits = np.concatenate([bits[..., :total], np.zeros((*bits.shape[:-1], extra), np.uint8)], -1)
    return bits if axis is None else np.moveaxis(bits, -1, axis).copy()


# --- statistics ------------------------------------------------------------------------------------------------------


def histogram2d(x, y, bins=10, range=None, density=None, weights=None):
    x, y = np.asarray(x), np.asarray(y)
    both = bins if isinstance(bins, (tuple, list)) else (bins, bins)
    limits = (None, None) if range is None else range
    x_edges = np.histogram_bin_edges(x, both[0], limits[0]).astype(np.float64)
    y_edges = np.histogram_bin_edges(y, both[1], limits[1]).astype(np.float64)
    columns, rows = x_edges.shape[0] - 1, y_edges.shape[0] - 1
    counts = np.zeros((columns, rows))
    i, j = np.searchsorted(x_edges, x, side="right") - 1, np.searchsorted(y_edges, y, side="right") - 1
    i, j = np.where(x == x_edges[-1], columns - 1, i), np.where(y == y_edges[-1], rows - 1, j)
    for k in np.arange(x.shape[0]):
        if i[k] >= 0 and i[k] < columns and j[k] >= 0 and j[k] < rows:
            counts[i[k], j[k]] += 1.0 if weights is None else weights[k]
    if density:
        counts = counts / counts.sum() / (np.diff(x_edges)[:, None] * np.diff(y_edges))
    return counts, x_edges, y_edges


def nanquantile(a, q, axis=None, out=None, overwrite_input=False, method="linear", keepdims=False):
    if method != "linear":
        refuse("its method is linear interpolation")
    a = np.asarray(a)
    x = a if a.dtype.is_inexact else a.astype(np.float64)
    axes = tuple(range(x.ndim)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    last = tuple(range(-len(axes), 0))
    moved = np.moveaxis(x, axes, last)
    kept = moved.shape[: x.ndim - len(axes)]
    ordered = np.sort(moved.reshape((*kept, -1)), axis=-1)
    valid = np.sum(~np.isnan(ordered), axis=-1)
    if isinstance(q, (tuple, list)):
        results = [_between(ordered, valid, fraction, np.float64) for fraction in q]
        return np.stack([np.expand_dims(result, axes) if keepdims else result for result in results])
    result = _between(ordered, valid, q, x.dtype)
    return np.expand_dims(result, axes) if keepdims else result


def _between(ordered, valid, fraction, dtype):
    """Interpolate between the valid elements, which stand first, from the nearer one, as NumPy."""
    require_value(0 <= fraction <= 1, "Quantiles must be in the range [0, 1]")
    virtual = fraction * (valid - 1)
    low = np.maximum(np.floor(virtual), 0).astype(np.int64)
    share = (virtual - low).astype(dtype)
    high = np.maximum(np.minimum(low + 1, valid - 1), 0)
    below = np.take_along_axis(ordered, low[..., None], -1)[..., 0].astype(dtype)
    above = np.take_along_axis(ordered, high[..., None], -1)[..., 0].astype(dtype)
    gap = above - below
    result = np.where(share < 0.5, below + gap * share, above - gap * (1 - share))
    return np.where((valid == 0) | (gap == 0), below, result).astype(dtype)


def nanpercentile(a, q, axis=None, out=None, overwrite_input=False, method="linear", keepdims=False):
    fractions = [part / 100 for part in q] if isinstance(q, (tuple, list)) else q / 100
    return nanquantile(a, fractions, axis, None, False, method, keepdims)


def nanmedian(a, axis=None, out=None, overwrite_input=False, keepdims=False):
    return nanquantile(a, 0.5, axis, None, False, "linear", keepdims)


# --- numbers ---------------------------------------------------------------------------------------------------------


def fmod(x, y, /):
    require_value(y != 0, "math domain error")
    return float(np.fmod(float(x), float(y)))


def is_close(a, b, *, rel_tol=1e-09, abs_tol=0.0):
    difference, largest = abs(float(a) - float(b)), np.maximum(abs(float(a)), abs(float(b)))
    is_near = difference <= np.maximum(rel_tol * largest, abs_tol) and largest < np.inf
    return bool(a == b or is_near)


def bit_length(self):
    if self.dtype.is_inexact:
        refuse("a float has no bit_length()")
    # The smallest integer has an absolute value among unsigned ones only.
    rest, count = np.uint64(np.abs(np.int64(self))), 0
    while rest > 0:
        rest, count = rest >> np.uint64(1), count + 1
    return count


def is_integer(self):
    return bool(self == np.floor(self))


def matrix_norm(x, /, *, keepdims=False, ord: Any = "fro"):
    return np.linalg.norm(x, ord, (-2, -1), keepdims)


_NAMED: tuple[Callable[..., Any], ...] = (
    put_along_axis, put, place, extract, compress, insert, resize, lexsort, piecewise, block, bitwise_count, packbits,
    unpackbits, histogram2d, nanquantile, nanpercentile, nanmedian,
)  # fmt: skip
FUNCTIONS: dict[str, Callable[..., Any]] = {f"numpy.{function.__name__}": function for function in _NAMED} | {
    "numpy.diag_indices_from": lambda arr: np.diag_indices(arr.shape[0], arr.ndim),
    "numpy.tril_indices_from": lambda arr, k=0: np.tril_indices(arr.shape[0], k, arr.shape[1]),
    "numpy.triu_indices_from": lambda arr, k=0: np.triu_indices(arr.shape[0], k, arr.shape[1]),
    "numpy.array_equiv": lambda a1, a2: np.all(np.equal(a1, a2)),
    "numpy.matvec": lambda x1, x2, /: np.matmul(x1, x2[..., None])[..., 0],
    "numpy.linalg.cross": lambda x1, x2, /, *, axis=-1: np.cross(x1, x2, axis=axis),
    "numpy.linalg.outer": lambda x1, x2, /: np.outer(x1, x2),
    "numpy.linalg.matmul": lambda x1, x2, /: np.matmul(x1, x2),
    "numpy.linalg.tensordot": lambda x1, x2, /, *, axes=2: np.tensordot(x1, x2, axes=axes),
    "numpy.linalg.vecdot": lambda x1, x2, /, *, axis=-1: np.sum(np.conj(x1) * x2, axis=axis),
    "numpy.linalg.vector_norm": lambda x, /, *, axis=None, keepdims=False, ord=2: np.linalg.norm(
        x.reshape(-1) if axis is None and not keepdims else x, ord, axis, keepdims
    ),
    "numpy.linalg.matrix_norm": matrix_norm,
    "numpy.linalg.trace": lambda x, /, *, offset=0, dtype=None: np.trace(x, offset, -2, -1, dtype),
    "numpy.linalg.diagonal": lambda x, /, *, offset=0: np.diagonal(x, offset, -2, -1),
    "numpy.linalg.matrix_transpose": lambda x, /: np.matrix_transpose(x),
    "math.copysign": lambda x, y, /: float(np.copysign(float(x), float(y))),
    "math.gcd": lambda x, y, /: int(np.gcd(x, y)),
    "math.ldexp": lambda x, i, /: float(np.ldexp(float(x), i)),
    "math.fmod": fmod,
    "math.isclose": is_close,
    "numpy.linalg.tensorinv": lambda a, ind=2: torch_matrices.tensorinv(a, ind),
    "numpy.linalg.tensorsolve": lambda a, b, axes=None: torch_matrices.tensorsolve(a, b, axes),
    "numpy.vecmat": lambda x1, x2, /: np.matmul(np.conj(x1)[..., None, :], x2)[..., 0, :],
}
"""Inlined functions of NumPy by qualified name."""
METHODS: dict[str, Callable[..., Any]] = {
    "tolist": tolist,
    "put": lambda self, indices, values, mode="raise": put(self, indices, values, mode),
    "compress": lambda self, condition, axis=None: np.compress(condition, self, axis),
}
"""Inlined methods of arrays by name; each takes the array first."""
METHODS_OF_NUMBERS: dict[str, Callable[..., Any]] = {
    "bit_length": bit_length,
    "bit_count": lambda self: int(np.bitwise_count(self)),
    "is_integer": is_integer,
}
"""Inlined methods of Python's numbers of run time by name."""
