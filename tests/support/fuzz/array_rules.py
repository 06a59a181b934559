"""Error bounds of NumPy's functions that are no elementwise ones: reductions, scans, products, choices.

`Spelled` is what a program means by ``np`` while its reference runs: the functions that make arrays, bounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fuzz import bounds
from fuzz.bounded_array import Bounded, bounded, convert, inexact, join, low, low_named, move
from fuzz.bounds import LONG, NoRule, Undecided

RULES: dict[str, Callable[..., Any]] = {}
"""Rules by the name of NumPy's function."""


def rule(function: Callable[..., Any]) -> Callable[..., Any]:
    RULES[function.__name__.rstrip("_")] = function
    return function


def _length(array: Any, axis: Any) -> int:
    """Return the number of elements that a reduction combines."""
    if axis is None:
        return int(np.size(array))
    axes = axis if isinstance(axis, tuple) else (axis,)
    return math.prod(np.shape(array)[each] for each in axes)


def _reduction(name: str, combine: Callable[..., Any]) -> Callable[..., Any]:
    function = getattr(np, name)

    def reduce(a: Any, axis: Any = None, dtype: Any = None, **named: Any) -> Any:
        a = bounded(a)
        plain = function(a.low, axis=axis, **({"dtype": dtype} if dtype else {}), **named)
        if not inexact(plain):
            if a.error is not None:
                raise NoRule(f"{name} of floats as integers")
            return bounded(plain)
        source = convert(a, plain.dtype)
        value, error = combine(
            lambda part: function(part, axis=axis, **named),
            source.high,
            source.error,
            _length(a.low, axis),
            plain.dtype,
        )
        return Bounded(plain, value, _scalar(error))

    return reduce


def _scalar(error: Any) -> Any:
    return error if np.shape(error) else np.asarray(error)[()]


for _name in ("sum", "cumsum"):
    RULES[_name] = _reduction(_name, bounds.summed)
for _name in ("prod", "cumprod"):
    RULES[_name] = _reduction(_name, bounds.multiplied)


def _extremum(name: str) -> Callable[..., Any]:
    function = getattr(np, name)

    def reduce(a: Any, axis: Any = None, **named: Any) -> Any:
        plain = function(a.low, axis=axis, **named)
        if a.error is None:
            return bounded(plain)
        _refuse_complex(a, name)
        # The maximum moves by no more than its operands do.
        return Bounded(plain, function(a.high, axis=axis, **named), np.max(a.error, axis=axis, **named))

    return reduce


for _name in ("max", "min", "amax", "amin"):
    RULES[_name] = _extremum(_name)


def _refuse_complex(a: Bounded, name: str) -> None:
    if a.dtype.kind == "c":
        raise NoRule(f"{name} of complex numbers")


@rule
def mean(a: Any, axis: Any = None, **named: Any) -> Any:
    if a.error is None:
        a = convert(a, np.dtype(np.float64))
    total, plain = RULES["sum"](a, axis=axis, **named), np.mean(a.low, axis=axis, **named)
    count = LONG(_length(a.low, axis))
    value = total.high / count
    return Bounded(plain, value, _scalar(bounds.rounded(value, total.error / count, plain.dtype, 1)))


@rule
def var(a: Any, axis: Any = None, ddof: int = 0, keepdims: bool = False) -> Any:
    if a.error is None:
        a = convert(a, np.dtype(np.float64))
    _refuse_complex(a, "var")
    count = _length(a.low, axis) - ddof
    if count <= 0:
        raise Undecided
    centred = a - mean(a, axis=axis, keepdims=True)
    total = RULES["sum"](centred * centred, axis=axis, keepdims=keepdims)
    plain = np.var(a.low, axis=axis, ddof=ddof, keepdims=keepdims)
    value = total.high / count
    return Bounded(plain, value, _scalar(bounds.rounded(value, total.error / count, plain.dtype, 2)))


@rule
def std(a: Any, axis: Any = None, ddof: int = 0, keepdims: bool = False) -> Any:
    root = np.sqrt(var(a, axis, ddof, keepdims))
    plain = np.std(low(a), axis=axis, ddof=ddof, keepdims=keepdims)
    return Bounded(plain, root.high, root.error)


def _predicate(name: str) -> Callable[..., Any]:
    def reduce(a: Any, axis: Any = None, **named: Any) -> Any:
        truth = a if a.error is None else a != 0
        return bounded(getattr(np, name)(truth.low, axis=axis, **named))

    return reduce


for _name in ("any", "all"):
    RULES[_name] = _predicate(_name)


def _position(name: str, sign: int) -> Callable[..., Any]:
    def reduce(a: Any, axis: Any = None, **named: Any) -> Any:
        plain = getattr(np, name)(a.low, axis=axis, **named)
        if a.error is not None and np.any(a.error):
            _refuse_complex(a, name)
            ordered = np.sort(sign * a.high, axis=axis)
            gap = np.diff(np.take(ordered, (-2, -1), axis=axis if axis is not None else 0), axis=axis or 0)
            if np.shape(ordered)[axis or 0] < 2 or np.min(gap, initial=np.inf) <= 2 * np.max(a.error):
                raise Undecided
        return bounded(plain)

    return reduce


RULES["argmax"], RULES["argmin"] = _position("argmax", 1), _position("argmin", -1)


@rule
def sort(a: Any, axis: int = -1, **_: Any) -> Any:
    if a.error is None:
        return bounded(np.sort(a.low, axis=axis))
    _refuse_complex(a, "sort")
    # Sorting moves no element by more than the largest error.
    error = np.broadcast_to(np.max(a.error, axis=axis, keepdims=True), a.error.shape).copy()
    return Bounded(np.sort(a.low, axis=axis), np.sort(a.high, axis=axis), error)


@rule
def argsort(a: Any, axis: int = -1, **named: Any) -> Any:
    if a.error is not None:
        _refuse_complex(a, "argsort")
        gaps = np.diff(np.sort(a.high, axis=axis), axis=axis)
        if np.min(gaps, initial=np.inf) <= 2 * np.max(a.error):
            raise Undecided
    elif "kind" not in named and np.min(np.diff(np.sort(a.low.astype(float), axis=axis), axis=axis), initial=1) == 0:
        raise Undecided
    return bounded(np.argsort(a.low, axis=axis, **named))


@rule
def where(condition: Any, a: Any, b: Any) -> Any:
    condition, a, b = bounded(condition), bounded(a), bounded(b)
    if isinstance(condition, Bounded) and condition.error is not None:
        condition = condition != 0
    plain = np.where(low(condition), low(a), low(b))
    if not inexact(plain):
        return bounded(plain)
    a, b = convert(a, plain.dtype), convert(b, plain.dtype)
    return Bounded(plain, np.where(low(condition), a.high, b.high), np.where(low(condition), a.error, b.error))


@rule
def clip(a: Any, minimum: Any = None, maximum: Any = None) -> Any:
    plain = np.clip(low(a), low(minimum), low(maximum))
    if not inexact(plain):
        return bounded(plain)
    parts = [convert(each, plain.dtype) for each in (a, minimum, maximum)]
    value = np.clip(*(each.high for each in parts))
    error = np.broadcast_to(np.maximum(parts[0].error, np.maximum(parts[1].error, parts[2].error)), value.shape).copy()
    return Bounded(plain, value, _scalar(error))


@rule
def matmul(a: Any, b: Any) -> Any:
    return _product(np.matmul, a, b, np.shape(low(a))[-1])


@rule
def dot(a: Any, b: Any) -> Any:
    if not np.ndim(low(a)) or not np.ndim(low(b)):
        return np.multiply(a, b)
    return _product(np.dot, a, b, np.shape(low(a))[-1])


@rule
def outer(a: Any, b: Any) -> Any:
    return _product(np.outer, a, b, 1)


def _product(function: Any, a: Any, b: Any, length: int) -> Any:
    plain = function(low(a), low(b))
    if not inexact(plain):
        return bounded(plain)
    a, b = convert(a, plain.dtype), convert(b, plain.dtype)
    value, error = bounds.bilinear(function, (a.high, b.high), (a.error, b.error), length, plain.dtype)
    return Bounded(plain, value, _scalar(error))


@rule
def einsum(pattern: str, a: Any, b: Any) -> Any:
    sizes = dict(zip("".join(pattern.split("->")[0].split(",")), (*np.shape(low(a)), *np.shape(low(b))), strict=True))
    length = math.prod(size for letter, size in sizes.items() if letter not in pattern.split("->")[1])
    return _product(lambda x, y: np.einsum(pattern, x, y), a, b, length)


@rule
def trace(a: Any) -> Any:
    return RULES["sum"](np.diagonal(a), axis=-1)


@rule
def diff(a: Any, axis: int = -1) -> Any:
    index: list[Any] = [slice(None)] * a.ndim
    index[axis] = slice(1, None)
    before: list[Any] = [slice(None)] * a.ndim
    before[axis] = slice(None, -1)
    return a[tuple(index)] - a[tuple(before)]


@rule
def pad(a: Any, width: Any, mode: str = "constant", constant_values: Any = 0) -> Any:
    named = {"constant_values": constant_values} if mode == "constant" else {}
    if a.error is None:
        return bounded(np.pad(a.low, width, mode, **named))
    return Bounded(
        np.pad(a.low, width, mode, **named), np.pad(a.high, width, mode, **named),
        np.pad(a.error, width, mode, **({"constant_values": 0} if named else {})),
    )  # fmt: skip


def _like(name: str) -> Callable[..., Any]:
    return lambda a, *arguments, **named: bounded(getattr(np, name)(low(a), *arguments, **named))


for _name in ("zeros_like", "ones_like", "full_like"):
    RULES[_name] = _like(_name)


@rule
def copyto(target: Any, value: Any) -> None:
    target[...] = value


@rule
def real(a: Any) -> Any:
    return a.real


@rule
def imag(a: Any) -> Any:
    return a.imag


@rule
def round_(a: Any, decimals: int = 0) -> Any:
    if decimals or a.error is None:
        raise NoRule("round to decimals")
    return np.rint(a)


@rule
def array_equal(a: Any, b: Any) -> Any:
    return np.all(a == b)


class Spelled:
    """The name ``np`` of a program whose reference runs: what makes arrays makes bounded ones."""

    makers = frozenset({"zeros", "ones", "full", "arange", "linspace", "eye", "identity", "array", "tri"})
    dtypes = frozenset(
        {"float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "complex64", "complex128"}
    )

    def __getattr__(self, name: str) -> Any:
        function = getattr(np, name)
        if name in self.makers:
            return lambda *arguments, **named: bounded(function(*low(arguments), **low_named(named)))
        if name in self.dtypes:
            return _Cast(function)
        return function


class _Cast:
    """A dtype that casts when it is called."""

    def __init__(self, dtype: Any):
        self.dtype = np.dtype(dtype)

    def __call__(self, value: Any) -> Any:
        return convert(value, self.dtype)


__all__ = ["RULES", "Spelled", "join", "move"]
