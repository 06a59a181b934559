"""Python's builtins on run-time values (`len`, `abs`, `int`, `max`, `sum`…), and functions that only kernels have.

A builtin is ``function(b, *arguments, **keywords)``; at least one argument is known at run time only. Functions that
only kernels have (`static_print`, `device_print`…) are ``function(b, arguments, keywords)``.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from typing import Any

from mlirtri.dialect.base.dtypes import DTYPES
from mlirtri.dialect.bindings.locations import span_of
from mlirtri.dialect.bindings.mlir import ir
from mlirtri.dialect.builder import Tensor
from mlirtri.errors import KernelLinearAlgebraError, KernelTypeError, StaticAssertionError, UnsupportedSyntaxError
from mlirtri.lowering.frontend import breakpoints
from mlirtri.lowering.frontend.indexing import rows
from mlirtri.lowering.frontend.language import linear_algebra
from mlirtri.lowering.frontend.language.builder import Language, describe
from mlirtri.lowering.frontend.operators import predicate_of

# --- Python's builtins -----------------------------------------------------------------------------------------------


def _len(b: Language, x: Tensor) -> Any:
    if not x.type.rank:
        raise KernelTypeError(f"{describe(x)} has no len()")
    return b.number_of(x.type.shape[0])


def _abs(b: Language, x: Tensor) -> Any:
    return b.abs(x)


def _float(b: Language, x: Tensor) -> Any:
    return replace(b.tri.cast(_real_scalar(b, x, "float"), DTYPES["float64"]), weak=True)


def _int(b: Language, x: Tensor) -> Any:
    return replace(b.tri.cast(_real_scalar(b, x, "int"), DTYPES["int64"]), weak=True, linear=x.linear)


def _real_scalar(b: Language, x: Tensor, name: str) -> Tensor:
    scalar = b.reshape(x, ()) if x.type.size == 1 else x
    if scalar.type.rank or scalar.type.dtype.is_complex:
        raise KernelTypeError(f"{name}() takes a number, got {describe(x)}", help="use astype or cast")
    return scalar


def _bool(b: Language, x: Tensor) -> Any:
    predicate = predicate_of(b, x)
    return replace(predicate, weak=True) if isinstance(predicate, Tensor) else predicate


def _complex(b: Language, real: Any, imag: Any = None) -> Any:
    if imag is None:
        return replace(b.tri.cast(b.tensor(real), DTYPES["complex128"]), weak=True)
    parts = [b.tri.cast(b.tensor(part), DTYPES["float64"]) for part in (real, imag)]
    return replace(b.tri.emit("complex", *parts), weak=True)


def _round(b: Language, x: Tensor, digits: Any = None) -> Any:
    rounded = b.round(x)
    if digits not in (None, 0):
        raise KernelTypeError("round() to digits is not supported on numbers of run time", help="use np.round")
    is_number = x.weak or (b.semantics == "numpy" and not x.type.rank)
    return _int(b, rounded) if digits is None and is_number else rounded


def _pow(b: Language, x: Any, y: Any) -> Any:
    return b.power(x, y)


def _divmod(b: Language, x: Any, y: Any) -> Any:
    return b.floor_divide(x, y), b.remainder(x, y)


def _extremum(name: str, comparison: str) -> Callable[..., Any]:
    def extremum(b: Language, *arguments: Any) -> Any:
        is_array = len(arguments) == 1 and isinstance(arguments[0], Tensor)
        values = rows(b, arguments[0]) if is_array else list(arguments)
        if len(values) == 1 and isinstance(values[0], (tuple, list)):
            values = list(values[0])
        if any(isinstance(value, Tensor) and value.type.rank for value in values):
            raise KernelTypeError(f"{name}() of arrays", help=f"use {name}imum(x, y) or x.{name}()")
        if _are_integers(values):
            # Bounds of sizes may decide at compile time which is larger.
            sizes = [b.indices.size_of(value) for value in values]
            size = reduce(b.indices.maximum if name == "max" else b.indices.minimum, sizes)
            return b.number_of(size.simplified())
        return reduce(lambda x, y: _first_unless_beyond(b, comparison, x, y), values)

    return extremum


def _first_unless_beyond(b: Language, comparison: str, x: Any, y: Any) -> Any:
    """Return Python's `max` or `min` of two: the first unless the second compares beyond it, so a leading NaN stays."""
    if not isinstance(x, Tensor) and not isinstance(y, Tensor):
        return (max if comparison == "greater" else min)(x, y)
    return b.where(getattr(b, comparison)(y, x), y, x)


def _are_integers(values: list[Any]) -> bool:
    return all(
        (x.weak and x.type.dtype.is_integer) if isinstance(x, Tensor) else type(x) is int for x in values
    )  # fmt: skip


def _sum(b: Language, values: Any, start: Any = 0) -> Any:
    if isinstance(values, Tensor):
        result = b.sum(values, 0)
        return result if start == 0 else b.add(result, start)
    return reduce(b.add, values, start)


def _isinstance(b: Language, value: Any, kinds: Any) -> Any:
    raise KernelTypeError(f"isinstance() of {describe(value)} is not supported in a kernel")


def _parts(b: Language, x: Any) -> Any:
    return rows(b, x) if isinstance(x, Tensor) else x


RUN_TIME_BUILTINS: dict[Any, Callable[..., Any]] = {
    builtins.len: _len, builtins.abs: _abs, builtins.float: _float, builtins.int: _int, builtins.bool: _bool,
    builtins.complex: _complex, builtins.round: _round, builtins.pow: _pow, builtins.divmod: _divmod,
    builtins.max: _extremum("max", "greater"), builtins.min: _extremum("min", "less"), builtins.sum: _sum,
    builtins.isinstance: _isinstance, builtins.tuple: lambda b, x: tuple(_parts(b, x)),
    builtins.list: lambda b, x: list(_parts(b, x)),
}  # fmt: skip
"""Implementations by Python builtin."""


def emit_breakpoint(b: Language, arguments: list[Any], keywords: dict[str, Any]) -> None:
    """Emit a call that starts the debugger; raises `UnsupportedSyntaxError` in kernels that are not interpreted."""
    if arguments or keywords:
        raise KernelTypeError("breakpoint() takes no arguments in a kernel")
    if not b.stops:
        raise UnsupportedSyntaxError(
            "breakpoint() stops kernels that are interpreted, and this one is compiled",
            help="set MLIRTRI_INTERPRET=1 while debugging",
        )
    breakpoints.emit(b.tri.location)


# --- functions that only kernels have --------------------------------------------------------------------------------


def _static_print(b: Language, arguments: list[Any], keywords: dict[str, Any]) -> None:
    """Print while compiling, to stderr: values known at compile time, and the types of tensors."""
    if keywords:
        raise KernelTypeError("static_print takes no keyword arguments")
    print(*(str(value.type) if isinstance(value, Tensor) else value for value in arguments), file=sys.stderr)


def _static_assert(b: Language, arguments: list[Any], keywords: dict[str, Any]) -> None:
    """Refuse to compile when a condition known at compile time is false."""
    if keywords or len(arguments) not in (1, 2):
        raise KernelTypeError("static_assert takes a condition and, if you like, a message")
    condition, *message = arguments
    if isinstance(condition, Tensor):
        raise KernelTypeError(f"static_assert needs a condition known at compile time, got {describe(condition)}")
    if not condition:
        raise StaticAssertionError(f"static assertion failed{f': {message[0]}' if message else ''}")


def _device_print(b: Language, arguments: list[Any], keywords: dict[str, Any]) -> None:
    """Print at run time, after the call, in a kernel compiled with ``debug``."""
    if keywords:
        raise KernelTypeError("device_print takes no keyword arguments")
    if b.debug:
        b.prints.add(b, arguments)


def _require_of_matrix(b: Language, arguments: list[Any], keywords: dict[str, Any]) -> None:
    """Check the operands of a linear algebra function, at run time where the condition is not known before."""
    condition, message = arguments
    if isinstance(condition, Tensor):
        tri = b.tri
        wrong = tri.logical_not(condition)
        # Report the user's line, not a line of the inlined library function.
        while isinstance(tri.location, ir.CallSiteLoc) and span_of(tri.location).file == linear_algebra.__file__:
            tri.location = tri.location.caller
        b.check(wrong, KernelLinearAlgebraError, message)
    elif not condition:
        raise KernelLinearAlgebraError(message)


def _refuse(b: Language, arguments: list[Any], keywords: dict[str, Any]) -> None:
    """Let a library function that is written in the kernel language refuse its operands."""
    raise KernelTypeError(arguments[0])


KERNEL_FUNCTIONS: dict[str | None, Callable[[Language, list[Any], dict[str, Any]], Any]] = {
    "mlirtri.require_of_matrix": _require_of_matrix,
    "mlirtri.refuse": _refuse,
    "mlirtri.device_print": _device_print, "mlirtri.static_print": _static_print,
    "mlirtri.static_assert": _static_assert,
}  # fmt: skip
"""Implementations by qualified name."""
