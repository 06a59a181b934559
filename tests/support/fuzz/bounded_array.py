"""NumPy arrays that carry a reference of higher precision and an error bound through a program.

`Bounded` runs every function three times: as NumPy does (`low`, the peer, which decides dtypes, shapes and integers),
in long double (`high`), and on the error bounds. Views are views in all three, so that plain Python runs loops,
branches and updates in place.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from fuzz import bounds
from fuzz.bounds import LONG, NoRule, Undecided

MOVING = {
    "reshape", "transpose", "swapaxes", "moveaxis", "expand_dims", "squeeze", "flip", "fliplr", "flipud", "roll", "ravel",
    "broadcast_to", "tile", "repeat", "tril", "triu", "diag", "diagonal", "take", "take_along_axis", "copy", "rot90",
    "atleast_1d", "atleast_2d", "delete",
}  # fmt: skip
"""Functions that only move elements: what they do to the value, they do to its error."""
JOINING = {"concatenate", "stack", "hstack", "vstack", "append", "column_stack"}
METHODS = {
    "reshape", "transpose", "swapaxes", "squeeze", "ravel", "repeat", "diagonal", "take", "copy", "sum", "prod", "mean", "var",
    "std", "max", "min", "any", "all", "argmax", "argmin", "cumsum", "cumprod", "sort", "argsort", "clip", "dot", "trace",
    "conj", "round",
}  # fmt: skip


def inexact(array: Any) -> bool:
    return np.asarray(array).dtype.kind in "fc"


def long_of(array: Any) -> Any:
    """Return the array in long double, or complex long double."""
    return np.asarray(array).astype(np.clongdouble if np.asarray(array).dtype.kind == "c" else LONG)[()]


def bounded(value: Any, error: Any = None) -> Any:
    """Return an array or a NumPy scalar as one that has an error, which is 0 where none is named."""
    if isinstance(value, Bounded) or not isinstance(value, (np.ndarray, np.generic)):
        return value
    if not inexact(value):
        return Bounded(value, value, None)
    high = long_of(value)
    return Bounded(value, high, np.zeros(np.shape(value), LONG) if error is None else error)


def low(value: Any) -> Any:
    return _over(value, lambda each: each.low)


def high(value: Any) -> Any:
    return _over(value, lambda each: each.high)


def _over(value: Any, function: Callable[[Any], Any]) -> Any:
    """Apply the function to the bounded arrays inside of nested arguments."""
    if isinstance(value, Bounded):
        return function(value)
    if isinstance(value, (tuple, list)):
        return type(value)(_over(each, function) for each in value)
    if isinstance(value, slice):
        return slice(*(_over(each, function) for each in (value.start, value.stop, value.step)))
    return value


class Bounded(np.lib.mixins.NDArrayOperatorsMixin):
    """An array or NumPy scalar `low`, its reference `high` in long double, and what right results may differ by."""

    __slots__ = ("error", "high", "low")

    def __init__(self, low: Any, high: Any, error: Any):
        self.low, self.high, self.error = low, high, error

    # --- what an array can say about itself --------------------------------------------------------------------------

    dtype = property(lambda self: self.low.dtype)
    shape = property(lambda self: self.low.shape)
    ndim = property(lambda self: self.low.ndim)
    size = property(lambda self: self.low.size)
    T = property(lambda self: np.transpose(self))

    def __len__(self) -> int:
        return len(self.low)

    def __bool__(self) -> bool:
        if self.error is not None:
            return bool(self != 0)
        return bool(self.low)

    def __index__(self) -> int:
        return operator.index(self.low)

    def __int__(self) -> int:
        return int(self.astype(np.int64).low)

    def __float__(self) -> float:
        raise NoRule("float()")

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise NoRule("conversion to an array without a bound")

    def __iter__(self) -> Any:
        return (self[position] for position in range(len(self)))

    def __round__(self) -> Any:
        raise NoRule("round()")

    def __getattr__(self, name: str) -> Any:
        if name in METHODS:
            return lambda *arguments, **named: getattr(np, name)(self, *arguments, **named)
        raise AttributeError(name)

    # --- parts -------------------------------------------------------------------------------------------------------

    def __getitem__(self, index: Any) -> Bounded:
        index = low(index)
        if self.error is None:
            return bounded(self.low[index])
        return Bounded(self.low[index], self.high[index], self.error[index])

    def __setitem__(self, index: Any, value: Any) -> None:
        index, value = low(index), bounded(value)
        if self.error is None and isinstance(value, Bounded) and value.error is not None:
            value = value.astype(self.dtype)
        self.low[index] = low(value)
        if self.error is None:
            return
        source = convert(value, self.dtype)
        self.high[index], self.error[index] = source.high, source.error

    @property
    def real(self) -> Any:
        return self if self.dtype.kind != "c" else Bounded(self.low.real, self.high.real, self.error)

    @property
    def imag(self) -> Any:
        if self.dtype.kind != "c":
            raise NoRule("imag of real numbers")
        return Bounded(self.low.imag, self.high.imag, self.error)

    def astype(self, dtype: Any) -> Any:
        return convert(self, np.dtype(dtype))

    def fill(self, value: Any) -> None:
        self[...] = value

    # --- functions ---------------------------------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **named: Any) -> Any:
        if method != "__call__" or named.keys() - {"dtype"} or ufunc.nout > 1:
            raise NoRule(f"{ufunc.__name__}.{method}")
        result = _ufunc(ufunc, inputs, named)
        if out is None:
            return result
        target = out[0]
        if not isinstance(target.low, np.ndarray):
            return result
        # NumPy itself says whether this dtype may be written there.
        np.copyto(np.empty_like(target.low), result.low, casting="same_kind")
        target[...] = result
        return target

    def __array_function__(self, function: Any, _types: Any, arguments: Any, named: Any) -> Any:
        from fuzz.array_rules import RULES

        name = function.__name__
        if name in MOVING:
            return move(function, arguments, named)
        if name in JOINING:
            return join(function, arguments, named)
        if name not in RULES:
            raise NoRule(name)
        return RULES[name](*arguments, **named)


def convert(value: Any, dtype: np.dtype) -> Bounded:
    """Return a value cast to the dtype, with the error of the rounding; casts to integers have to be certain."""
    value = bounded(value)
    if not isinstance(value, Bounded):
        return bounded(np.asarray(value).astype(dtype)[()])
    cast = np.asarray(value.low).astype(dtype)
    cast = cast if isinstance(value.low, np.ndarray) else cast[()]
    if value.error is None:
        return bounded(cast)
    if dtype.kind not in "fc":
        _certain_cast(value, dtype)
        return bounded(cast)
    if dtype.kind == "f" and value.dtype.kind == "c":
        raise NoRule("complex numbers cast to real ones")
    high = value.high.astype(np.clongdouble if dtype.kind == "c" else LONG)
    # A value without an error is known, and so is what it is rounded to.
    certain = np.where(
        np.asarray(value.error) == 0, np.abs(long_of(cast) - high), bounds.rounded(high, value.error, dtype, 1)
    )
    error = np.where(np.isfinite(high), certain, 0)
    return Bounded(cast, high, error if error.shape else error[()])


def _certain_cast(value: Bounded, dtype: np.dtype) -> None:
    if dtype.kind == "b":
        bounds.same_at_corners(lambda x: x != 0, [value.high], [value.error])
        return
    whole = bounds.same_at_corners(np.trunc, [np.real(value.high)], [value.error])
    limits = np.iinfo(dtype)
    if not np.all((whole >= limits.min) & (whole <= limits.max)):
        raise Undecided


def _ufunc(ufunc: Any, inputs: tuple[Any, ...], named: dict[str, Any]) -> Any:
    inputs = tuple(bounded(each) for each in inputs)
    plain = [low(each) for each in inputs]
    result = ufunc(*plain, **named)
    if not any(inexact(each) for each in (*plain, result)):
        return bounded(result)
    operand = np.result_type(*plain, *([result.dtype] if inexact(result) else []))
    operands = [convert(each, operand) for each in inputs]
    values, errors = [each.high for each in operands], [each.error for each in operands]
    if ufunc.__name__ == "matmul":
        from fuzz.array_rules import matmul

        return matmul(*operands)
    if not inexact(result):
        if np.dtype(operand).kind == "c" and ufunc.__name__ not in ("equal", "not_equal"):
            raise NoRule(f"{ufunc.__name__} of complex numbers")
        bounds.refuse_jumps(ufunc.__name__, ufunc, values, errors)
        bounds.same_at_corners(ufunc, values, errors)
        return bounded(result)
    if np.dtype(operand).kind == "c":
        reference, error = bounds.complex_elementwise(ufunc.__name__, values, errors, result.dtype)
    else:
        reference, error = bounds.elementwise(ufunc.__name__, ufunc, values, errors, result.dtype)
    return Bounded(result, reference, error if np.shape(error) else np.asarray(error)[()])


def move(function: Any, arguments: Any, named: Any) -> Any:
    result = function(*low(arguments), **low_named(named))
    if not inexact(result):
        return bounded(result)
    return Bounded(
        result,
        function(*high(arguments), **low_named(named)),
        function(*_over(arguments, lambda each: each.low if each.error is None else each.error), **low_named(named)),
    )


def low_named(named: dict[str, Any]) -> dict[str, Any]:
    return {name: low(value) for name, value in named.items()}


def join(function: Any, arguments: Any, named: Any) -> Any:
    """Join arrays, which are cast to a common dtype first."""
    parts = [bounded(each) for each in arguments[0]] if isinstance(arguments[0], (tuple, list)) else None
    if parts is None:
        raise NoRule(function.__name__)
    result = function(low(parts), *arguments[1:], **named)
    if not inexact(result):
        return bounded(result)
    cast = [convert(each, result.dtype) for each in parts]
    return Bounded(
        result,
        function([each.high for each in cast], *arguments[1:], **named),
        function([each.error for each in cast], *arguments[1:], **named),
    )
