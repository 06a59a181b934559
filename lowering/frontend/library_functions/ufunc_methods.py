"""The methods of NumPy's binary ufuncs in the kernel language: `reduce`, `accumulate`, `reduceat`, `outer`, `at`.

Python never runs them. They apply the ufunc to one element after the other, in NumPy's order. The methods that are
operations of the dialect, such as ``numpy.add.reduce``, are spellings instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mlirtri.lowering.frontend.library_functions.linear_algebra import refuse
from mlirtri.lowering.frontend.library_functions.random_generator import require_value

COMPARISONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
LOGICAL = ("logical_and", "logical_or", "logical_xor")
IDENTITIES: dict[str, Any] = {
    "logaddexp": -float("inf"), "logaddexp2": -float("inf"), "hypot": 0, "gcd": 0, "logical_xor": False,
}  # fmt: skip
"""The value that a reduction starts from; others start from the first element."""
REORDERABLE = ("fmax", "fmin", *IDENTITIES)
SEQUENTIAL = (
    "arctan2", "copysign", "divide", "float_power", "floor_divide", "fmod", "heaviside", "lcm", "left_shift", "power",
    "remainder", "right_shift", *COMPARISONS, *REORDERABLE,
)  # fmt: skip
"""The ufuncs whose reduction is no operation of the dialect."""


def operand_of(function, name, array, dtype):
    """Return an array in the dtype that the ufunc gives of two of its elements, in which NumPy reduces it."""
    x = np.asarray(array)
    if dtype is not None:
        return x.astype(dtype)
    if name in LOGICAL:
        return x != 0
    if name in COMPARISONS and x.dtype != np.bool_:
        refuse(f"{name} of these gives booleans: NumPy reduces arrays of booleans by it, no others")
    return x.astype(function(x[:1], x[:1]).dtype) if x.ndim else x.astype(function(x, x).dtype)


def _reduction(function: Callable[..., Any]) -> Callable[..., Any]:
    name = function.__name__
    identity, is_reorderable = IDENTITIES.get(name), name in REORDERABLE

    def reduce(array, /, axis: Any = 0, dtype=None, out=None, *, keepdims=False, initial=None, where: Any = True):
        x = operand_of(function, name, array, dtype)
        axes = tuple(range(x.ndim)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
        if len(axes) > 1 and not is_reorderable:
            refuse("the order of several axes would change the result: name one axis")
        first = tuple(range(len(axes)))
        moved = np.moveaxis(x, axes, first)
        kept = moved.shape[len(axes) :]
        rows: Any = moved.reshape((-1, *kept))
        chosen = None if where is True else np.moveaxis(np.broadcast_to(np.asarray(where), x.shape), axes, first)
        start = identity if initial is None else initial
        count = rows.shape[0]
        if start is None:
            require_value(count > 0, "zero-size array to reduction operation which has no identity")
            if chosen is not None:
                refuse("where= needs initial=, as in NumPy")
            result = rows[0]
            for i in range(1, count):
                result = function(result, rows[i])
        else:
            result = np.full(kept, start, x.dtype)[()]
            for i in range(count):
                if chosen is None:
                    result = function(result, rows[i])
                else:
                    result = np.where(chosen.reshape((-1, *kept))[i], function(result, rows[i]), result)
        result = np.expand_dims(result, axes) if keepdims else result
        if out is None:
            return result
        out[...] = result
        return out

    return reduce


def _accumulation(function: Callable[..., Any]) -> Callable[..., Any]:
    name = function.__name__

    def accumulate(array, /, axis=0, dtype=None, out=None):
        x = operand_of(function, name, array, dtype)
        result = x.copy() if out is None else out
        if out is not None:
            out[...] = x
        rows = np.moveaxis(result, axis, 0)
        for i in range(1, rows.shape[0]):
            rows[i] = function(rows[i - 1], rows[i])
        return result

    return accumulate


def _reduction_of_parts(function: Callable[..., Any]) -> Callable[..., Any]:
    name = function.__name__

    def reduceat(array, indices, /, axis=0, dtype=None, out=None):
        x = operand_of(function, name, array, dtype)
        if dtype is None and name in ("add", "multiply"):
            x = x.astype(function.reduce(x, axis=axis).dtype)
        rows, starts = np.moveaxis(x, axis, 0), np.asarray(indices)
        if starts.ndim != 1 or not starts.dtype.is_integer:
            refuse("the indices are an array of integers of rank 1")
        count, size = starts.shape[0], rows.shape[0]
        parts = np.empty((count, *rows.shape[1:]), x.dtype)
        for i in range(count):
            stop = size if i + 1 == count else starts[i + 1]
            # NumPy counts no index from the end.
            parts[i] = rows[size if starts[i] < 0 else starts[i]]
            for k in range(starts[i] + 1, stop):
                parts[i] = function(parts[i], rows[k])
        result = np.moveaxis(parts, 0, axis)
        if out is None:
            return result.copy()
        out[...] = result
        return out

    return reduceat


def _outer(function: Callable[..., Any]) -> Callable[..., Any]:
    def outer(A, B, /):
        A, B = np.asarray(A), np.asarray(B)
        return function(A.reshape((*A.shape, *((1,) * B.ndim))), B)

    return outer


def _applied_at(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``ufunc.at``: one index after the other, so that an index that repeats has all its values."""

    def at(a, indices, b, /):
        positions = _positions(indices)
        count = positions[0].shape[0]
        values = np.broadcast_to(b, (count, *a.shape[len(positions) :]))
        if function(a.reshape(-1)[:1], np.ravel(b)[:1] if np.ndim(b) else b).dtype != a.dtype:
            refuse("the values are of a wider dtype than the array: cast them first")
        for i in range(count):
            where = tuple([part[i] for part in positions])
            a[where] = function(a[where], values[i])

    return at


def _applied_once_at(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``at`` of a unary ufunc, which is applied as often as an index is named."""

    def at(a, indices, /):
        positions = _positions(indices)
        if function(a.reshape(-1)[:1]).dtype != a.dtype:
            refuse("the results are of a wider dtype than the array: cast it first")
        for i in range(positions[0].shape[0]):
            where = tuple([part[i] for part in positions])
            a[where] = function(a[where])

    return at


def _positions(indices):
    parts = np.broadcast_arrays(*[np.asarray(part) for part in (indices if isinstance(indices, tuple) else (indices,))])
    if parts[0].ndim != 1:
        refuse("the indices are one array of rank 1, or a tuple of arrays of rank 1")
    return parts


_OF_DIALECT = ("add", "subtract", "multiply", "maximum", "minimum", "bitwise_and", "bitwise_or", "bitwise_xor")
_ACCUMULATED = ("subtract", "bitwise_and", "bitwise_or", "bitwise_xor", "logical_and", "logical_or", *SEQUENTIAL)
_OUTER = (
    "copysign", "float_power", "fmax", "fmin", "fmod", "gcd", "heaviside", "lcm", "ldexp", "left_shift", "logaddexp",
    "logaddexp2", "logical_xor", "right_shift",
)  # fmt: skip
_AT = (
    *_OF_DIALECT, "fmax", "fmin", "divide", "floor_divide", "remainder", "fmod", "power", "hypot", "arctan2",
    "copysign", "logaddexp", "logaddexp2", "left_shift", "right_shift", "gcd", "lcm", *LOGICAL,
)  # fmt: skip
_UNARY_AT = ("negative", "absolute", "square", "sqrt", "exp", "log", "invert", "logical_not", "sign", "floor", "ceil")
_METHODS = (
    ("reduce", _reduction, SEQUENTIAL),
    ("accumulate", _accumulation, _ACCUMULATED),
    ("reduceat", _reduction_of_parts, (*_OF_DIALECT, *LOGICAL[:2], *SEQUENTIAL)),
    ("outer", _outer, _OUTER),
    ("at", _applied_at, _AT),
    ("at", _applied_once_at, _UNARY_AT),
)
FUNCTIONS: dict[str, Callable[..., Any]] = {
    f"numpy.{name}.{method}": make(getattr(np, name)) for method, make, names in _METHODS for name in names
}
"""Inlined methods of ufuncs by qualified name."""
