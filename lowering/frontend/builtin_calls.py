"""Python's own functions on numbers and arrays of run time: `len`, `abs`, `int`, `max`, `sum`…

Each takes the visitor and the call's arguments, at least one of which is known at run time only.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from typing import Any

from mlirtri.dialect.base.dtypes import DTYPES
from mlirtri.dialect.builder import Tensor
from mlirtri.errors import KernelTypeError
from mlirtri.lowering.frontend.language.builder import describe


def _len(visitor: Any, x: Tensor) -> Any:
    if not x.type.rank:
        raise KernelTypeError(f"{describe(x)} has no len()")
    return visitor.number_of(x.type.shape[0])


def _abs(visitor: Any, x: Tensor) -> Any:
    return visitor.b.abs(x)


def _float(visitor: Any, x: Tensor) -> Any:
    b = visitor.b
    scalar = b.reshape(x, ()) if x.type.size == 1 else x
    if scalar.type.rank or scalar.type.dtype.is_complex:
        raise KernelTypeError(f"float() takes a number, got {describe(x)}", help="use astype or cast")
    return replace(b.tri.cast(scalar, DTYPES["float64"]), weak=True)


def _int(visitor: Any, x: Tensor) -> Any:
    b = visitor.b
    scalar = b.reshape(x, ()) if x.type.size == 1 else x
    if scalar.type.rank or scalar.type.dtype.is_complex:
        raise KernelTypeError(f"int() takes a number, got {describe(x)}", help="use astype or cast")
    return replace(b.tri.cast(scalar, DTYPES["int64"]), weak=True, linear=x.linear)


def _bool(visitor: Any, x: Tensor) -> Any:
    truth = visitor.truth_of(x, visitor.node)
    return replace(truth, weak=True) if isinstance(truth, Tensor) else truth


def _complex(visitor: Any, real: Any, imag: Any = None) -> Any:
    b = visitor.b
    if imag is None:
        return replace(b.tri.cast(b.tensor(real), DTYPES["complex128"]), weak=True)
    parts = [b.tri.cast(b.tensor(each), DTYPES["float64"]) for each in (real, imag)]
    return replace(b.tri.emit("complex", *parts), weak=True)


def _round(visitor: Any, x: Tensor, digits: Any = None) -> Any:
    rounded = visitor.b.round(x)
    if digits not in (None, 0):
        raise KernelTypeError("round() to digits is not supported on numbers of run time", help="use np.round")
    is_number = x.weak or (visitor.b.semantics == "numpy" and not x.type.rank)
    return _int(visitor, rounded) if digits is None and is_number else rounded


def _pow(visitor: Any, x: Any, y: Any) -> Any:
    return visitor.b.power(x, y)


def _divmod(visitor: Any, x: Any, y: Any) -> Any:
    return visitor.b.floor_divide(x, y), visitor.b.remainder(x, y)


def _extreme(name: str, comparison: str) -> Callable[..., Any]:
    def extreme(visitor: Any, *arguments: Any) -> Any:
        values = visitor.rows(arguments[0]) if _is_array(arguments) else list(arguments)
        if len(values) == 1 and isinstance(values[0], (tuple, list)):
            values = list(values[0])
        if any(isinstance(each, Tensor) and each.type.rank for each in values):
            raise KernelTypeError(f"{name}() of arrays", help=f"use {name}imum(x, y) or x.{name}()")
        if _are_integers(values):
            # Of linear sizes it may be known which is larger.
            sizes = [visitor.b.indices.size_of(each) for each in values]
            found = reduce(getattr(visitor.b.indices, "maximum" if name == "max" else "minimum"), sizes)
            return visitor.number_of(found.simplified())
        return reduce(lambda x, y: _chosen(visitor, comparison, x, y), values)

    return extreme


def _chosen(visitor: Any, comparison: str, x: Any, y: Any) -> Any:
    """Python's rule: the first stays unless the next is beyond it, so a NaN that comes first stays."""
    b = visitor.b
    if not isinstance(x, Tensor) and not isinstance(y, Tensor):
        return (max if comparison == "greater" else min)(x, y)
    return b.where(getattr(b, comparison)(y, x), y, x)


def _is_array(arguments: tuple[Any, ...]) -> bool:
    return len(arguments) == 1 and isinstance(arguments[0], Tensor)


def _are_integers(values: list[Any]) -> bool:
    return all(
        (each.weak and each.type.dtype.is_integer) if isinstance(each, Tensor) else type(each) is int for each in values
    )


def _sum(visitor: Any, values: Any, start: Any = 0) -> Any:
    if isinstance(values, Tensor):
        total = visitor.b.sum(values, 0)
        return total if start == 0 else visitor.b.add(total, start)
    return reduce(visitor.b.add, values, start)


def _isinstance(visitor: Any, value: Any, kinds: Any) -> Any:
    raise KernelTypeError(f"isinstance() of {describe(value)} is not supported in a kernel")


RUN_TIME_BUILTINS: dict[Any, Callable[..., Any]] = {
    builtins.len: _len, builtins.abs: _abs, builtins.float: _float, builtins.int: _int, builtins.bool: _bool,
    builtins.complex: _complex, builtins.round: _round, builtins.pow: _pow, builtins.divmod: _divmod,
    builtins.max: _extreme("max", "greater"), builtins.min: _extreme("min", "less"), builtins.sum: _sum,
    builtins.isinstance: _isinstance, builtins.tuple: lambda visitor, x: tuple(_parts(visitor, x)),
    builtins.list: lambda visitor, x: list(_parts(visitor, x)),
}  # fmt: skip


def _parts(visitor: Any, x: Any) -> Any:
    return visitor.rows(x) if isinstance(x, Tensor) else x
