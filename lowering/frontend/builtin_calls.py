"""Python's builtins (`len`, `abs`, `max`…): folded on values known at compile time, else implemented here."""

from __future__ import annotations

import builtins
import inspect
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial, reduce
from types import ModuleType
from typing import Any

import numpy as np

from mlirtri.dialect.base.dtypes import DTYPES
from mlirtri.dialect.builder import KernelValue, TriValue
from mlirtri.dialect.spellings import registry as spellings
from mlirtri.errors import KernelTypeError, KernelValueError
from mlirtri.lowering.core.interface import bound_arguments
from mlirtri.lowering.frontend.containers import dict_of
from mlirtri.lowering.frontend.indexing.reads import rows
from mlirtri.lowering.frontend.library_calls import has_attribute
from mlirtri.lowering.frontend.operators import fold, is_integer, is_weak, predicate_of
from mlirtri.lowering.frontend.semantics.builder import Language, describe
from mlirtri.lowering.frontend.semantics.debugging import stop_in_debugger
from mlirtri.lowering.frontend.semantics.merging import flat
from mlirtri.lowering.frontend.semantics.storage import either, has_memory, is_array, with_rank_0_memory
from mlirtri.lowering.frontend.syntax.refused_syntax import INSTEAD_OF_BUILTINS


def call_builtin(
    b: Language, function: Callable[..., KernelValue], arguments: list[KernelValue], keywords: dict[str, KernelValue]
) -> KernelValue:
    """Return what a builtin gives; raises `KernelTypeError` for one that needs values known at compile time."""
    if function is breakpoint:
        return stop_in_debugger(b, arguments, keywords)
    if function is isinstance and len(arguments) == 2 and not keywords:
        return _isinstance(b, *arguments)
    if function is dict:
        return dict_of(arguments, keywords)
    if function is hasattr and len(arguments) == 2 and not isinstance(arguments[0], ModuleType):
        return has_attribute(b, *arguments)
    if function not in (isinstance, len):
        arguments = [tuple(value) if isinstance(value, dict) else value for value in arguments]
    tensors = [value for value in flat(arguments) if isinstance(value, TriValue)]
    if not tensors or function is slice:
        made = partial(function, *arguments, **keywords)
        return fold(lambda: tuple(made()) if function in (zip, enumerate, reversed) else made())
    if function in RUN_TIME_BUILTINS:
        implementation = RUN_TIME_BUILTINS[function]
        bound = bound_arguments(function.__name__, inspect.signature(partial(implementation, b)), arguments, keywords)
        return with_rank_0_memory(b.semantics, "", arguments, implementation(b, *bound.args, **bound.kwargs))
    raise KernelTypeError(
        f"{function.__name__}() of {describe(tensors[0])} is not known at compile time",
        help=INSTEAD_OF_BUILTINS.get(function.__name__),
    )


def _len(b: Language, x: Any) -> Any:
    if isinstance(x, (tuple, list, dict)):
        return len(x)
    if not x.type.rank:
        raise KernelTypeError(f"{describe(x)} has no len()")
    return b.number_of(x.type.shape[0])


def _float(b: Language, x: TriValue) -> Any:
    return replace(b.tri.cast(_real_scalar(b, x, "float"), DTYPES["float64"]), weak=True)


def _int(b: Language, x: TriValue) -> Any:
    return replace(b.tri.cast(_real_scalar(b, x, "int"), DTYPES["int64"]), weak=True, linear=x.linear)


def _real_scalar(b: Language, x: TriValue, name: str) -> TriValue:
    if not isinstance(x, TriValue):
        raise KernelTypeError(f"{name}() takes a number, got {describe(x)}")
    scalar = b.reshape(x, ()) if x.type.size == 1 else x
    if scalar.type.rank or scalar.type.dtype.is_complex:
        raise KernelTypeError(f"{name}() takes a number, got {describe(x)}", help="use astype or cast")
    return scalar


def _bool(b: Language, x: TriValue) -> Any:
    predicate = predicate_of(b, x)
    return replace(predicate, weak=True) if isinstance(predicate, TriValue) else predicate


def _complex(b: Language, real: Any, imag: Any = None) -> Any:
    if any(isinstance(part, TriValue) and part.type.rank for part in (real, imag)):
        raise KernelTypeError(f"complex() takes numbers, got {describe(real)}", help="use astype or cast")
    if imag is None:
        return replace(b.tri.cast(b.tensor(real), DTYPES["complex128"]), weak=True)
    parts = [b.tri.cast(b.tensor(part), DTYPES["float64"]) for part in (real, imag)]
    return replace(b.tri.emit("complex", *parts), weak=True)


def _round(b: Language, x: TriValue, digits: Any = None) -> Any:
    if digits not in (None, 0):
        return _rounded_to_digits(b, x, digits)
    rounded = b.round(x)
    is_number = x.weak or (b.semantics == "numpy" and not x.type.rank)
    return _int(b, rounded) if digits is None and is_number else rounded


def _rounded_to_digits(b: Language, x: TriValue, digits: Any) -> Any:
    """Return NumPy's rounding of a scalar; Python's own goes by the decimal digits of a number."""
    if b.semantics == "numpy" and not x.weak:
        return spellings.SPELLINGS["numpy.round"].call(b, x, digits)
    if x.weak and x.type.dtype.is_integer and isinstance(digits, int) and digits > 0:
        return x
    raise KernelTypeError(
        f"round() of {describe(x)} to digits is not supported",
        help="write numpy.round(x, digits), which scales, rounds and scales back",
    )


def _extremum(name: str, comparison: str) -> Callable[..., Any]:
    def extremum(b: Language, *arguments: Any) -> Any:
        is_array = len(arguments) == 1 and isinstance(arguments[0], TriValue)
        values = rows(b, arguments[0]) if is_array else list(arguments)
        if len(values) == 1 and isinstance(values[0], (tuple, list)):
            values = list(values[0])
        if not values:
            raise KernelValueError(f"{name}() of {describe(arguments[0])}, which has no elements")
        if any(isinstance(value, TriValue) and value.type.rank for value in values):
            raise KernelTypeError(f"{name}() of arrays", help=f"use {name}imum(x, y) or x.{name}()")
        if all(map(is_integer, values)):
            # Bounds of sizes may decide at compile time which is larger.
            sizes = [b.indices.size_of(value) for value in values]
            size = reduce(b.indices.maximum if name == "max" else b.indices.minimum, sizes)
            return b.number_of(size.simplified())
        for value in values[1:]:
            _check_dtype_known(name, values[0], value)
        return reduce(lambda x, y: _first_unless_beyond(b, comparison, x, y), values)

    return extremum


def is_number(value: KernelValue) -> bool:
    """Return whether a value is a real number, of run time or known."""
    if isinstance(value, TriValue):
        return not value.type.rank and not value.type.dtype.is_complex
    return isinstance(value, (int, float))


def kinds_in_doubt(x: KernelValue, y: KernelValue) -> list[object]:
    """Return the types of two numbers where their extremum has one or the other, and it may matter; else nothing."""
    strong = [value.type.dtype for value in (x, y) if isinstance(value, TriValue) and not value.weak]
    if len(strong) == 2:
        is_known, kinds = strong[0] == strong[1], list[object](strong)
    elif strong and isinstance(number := x if is_weak(x) else y, (int, float, TriValue)):
        [dtype] = strong
        is_whole = number.type.dtype.is_integer if isinstance(number, TriValue) else isinstance(number, int)
        # Of a float32 or wider and a Python number both hold the same value. So do 32-bit integers and a small one.
        is_small = isinstance(number, int) and abs(number) < 1 << 15 and dtype.is_integer and dtype.bits == 32
        is_known = dtype.name in ("float32", "float64") or (dtype.name == "int64" and is_whole) or is_small
        kinds = [dtype, f"a Python {'int' if is_whole else 'float'}"]
    else:
        return []
    return [] if is_known else kinds


def _check_dtype_known(name: str, x: Any, y: Any) -> None:
    """Refuse `max` and `min` of numbers of different types: Python returns one of the two, which the values decide."""
    if kinds := kinds_in_doubt(x, y):
        raise KernelTypeError(
            f"{name}() returns {kinds[0]} or {kinds[1]}, depending on the values",
            help=f"write numpy.{name}imum(x, y), or int(x) or float(x) of the elements",
        )


def _first_unless_beyond(b: Language, comparison: str, x: Any, y: Any) -> Any:
    """Return Python's `max` or `min` of two: the first unless the second compares beyond it, so a leading NaN stays."""
    if not isinstance(x, TriValue) and not isinstance(y, TriValue):
        return (max if comparison == "greater" else min)(x, y)
    return either(b.where(getattr(b, comparison)(y, x), y, x), (x, y), "the result of max() or min()")


def _sum(b: Language, values: Any, start: Any = 0) -> Any:
    if isinstance(values, TriValue):
        dtype, is_inexact = values.type.dtype, isinstance(start, (float, complex, TriValue))
        if values.type.shape[:1] == (0,):
            return start
        result = b.sum(values, 0)
        if dtype.is_integer and not dtype.is_bool and not is_inexact:
            # Python adds one element after the other, which wrap around in their own dtype.
            result = b.cast(result, dtype)
        return result if type(start) is int and start == 0 else b.add(result, start)
    return reduce(b.add, values, start)


def _truth(name: str) -> Callable[..., Any]:
    """Return `any` or `all` of the elements of an array of rank 1, or of values, each of which is evaluated."""

    def truth(b: Language, values: Any) -> Any:
        if isinstance(values, TriValue):
            if values.type.rank != 1:
                raise KernelTypeError(f"{name}() of {describe(values)}", help=f"write x.{name}()")
            return replace(getattr(b, name)(values), weak=True)
        predicates = [predicate_of(b, value) for value in values]
        combine = b.logical_or if name == "any" else b.logical_and
        return replace(b.tensor(reduce(combine, predicates)), weak=True)

    return truth


def _isinstance(b: Language, value: Any, kinds: Any) -> bool:
    """Return whether the value that Python would have is of a class, or of one of several."""
    classes = flat(kinds)
    if not all(isinstance(kind, type) for kind in classes):
        raise KernelTypeError(f"isinstance() takes classes, got {describe(kinds)}", help="compare x.dtype or x.ndim")
    if not isinstance(value, TriValue):
        return isinstance(value, tuple(classes))
    if has_memory(value) and value.origin.storage.may_be_number:
        raise KernelTypeError(
            f"whether {describe(value)} is an array or a number depends on what ran before", help="compare x.dtype"
        )
    if value.weak:
        return issubclass(value.type.dtype.python, tuple(classes))
    if b.semantics == "torch":
        return issubclass(sys.modules["torch"].Tensor, tuple(classes)) if "torch" in sys.modules else False
    return issubclass(np.ndarray if is_array(value) else value.type.dtype.numpy.type, tuple(classes))


def _parts(b: Language, x: Any) -> Any:
    return rows(b, x) if isinstance(x, TriValue) else x


RUN_TIME_BUILTINS: dict[Any, Callable[..., Any]] = {
    builtins.len: _len, builtins.abs: lambda b, x: b.abs(x), builtins.float: _float, builtins.int: _int,
    builtins.bool: _bool, builtins.complex: _complex, builtins.round: _round,
    builtins.pow: lambda b, x, y: b.power(x, y),
    builtins.divmod: lambda b, x, y: (b.floor_divide(x, y), b.remainder(x, y)),
    builtins.max: _extremum("max", "greater"), builtins.min: _extremum("min", "less"), builtins.sum: _sum,
    builtins.any: _truth("any"), builtins.all: _truth("all"), builtins.tuple: lambda b, x: tuple(_parts(b, x)),
    builtins.list: lambda b, x: list(_parts(b, x)),
    builtins.zip: lambda b, *xs, strict=False: fold(lambda: list(zip(*(_parts(b, x) for x in xs), strict=strict))),
    builtins.enumerate: lambda b, x, start=0: list(enumerate(_parts(b, x), start)),
    builtins.reversed: lambda b, x: list(_parts(b, x))[::-1],
}  # fmt: skip
"""Implementations by Python builtin."""
