"""The functions of `math`, which take Python scalars and rank-0 tensors and return Python scalars.

Compile-time arguments are folded by any function of `math` itself. Run-time scalars (floats, and rank-0 tensors, which
Python would convert to floats) are for the functions that the op table has; where `math` raises, their result is NaN or
infinity.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

from mlirtri.dialect.base.dtypes import DTYPES
from mlirtri.dialect.spellings.base import helpers
from mlirtri.dialect.spellings.base.spelling import CONSTANTS, Builder, Value, register

FLOAT64, INT64 = DTYPES["float64"], DTYPES["int64"]

CONSTANTS |= {f"math.{name}": getattr(math, name) for name in ("pi", "e", "tau", "inf", "nan")}

_UNARY = (
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "cos", "cosh", "erf", "exp", "exp2", "expm1", "log10",
    "log1p", "log2", "sin", "sinh", "sqrt", "tan", "tanh",
)  # fmt: skip


def _float(b: Builder, x: Value) -> Value:
    return b.cast(x, FLOAT64) if b.weak_kind(x) != "float" else x


def _log(b: Builder, x: Value, base: Value = None) -> Value:
    return b.log(_float(b, x)) if base is None else b.divide(b.log(_float(b, x)), b.log(_float(b, base)))


def _degrees(b: Builder, x: Value) -> Value:
    return b.multiply(_float(b, x), 180.0 / math.pi)


def _radians(b: Builder, x: Value) -> Value:
    return b.multiply(_float(b, x), math.pi / 180.0)


def _integer_of(op: str) -> Callable[..., Any]:
    """Return the spelling of a function that returns a Python int: `math.floor`, `ceil`, `trunc`."""
    return lambda b, x: b.cast(getattr(b, op)(_float(b, x)), INT64)


def _of_float(op: str) -> Callable[..., Any]:
    return lambda b, x: getattr(b, op)(_float(b, x))


def _of_floats(op: str) -> Callable[..., Any]:
    return lambda b, x, y: getattr(b, op)(_float(b, x), _float(b, y))


# function: its lowering for run-time scalars, and the ops used
_RUN_TIME: dict[str, tuple[Callable[..., Any], str]] = {
    **{name: (_of_float(name), name) for name in (*_UNARY, "isnan", "isinf", "isfinite")},
    **{name: (_integer_of(name), f"{name} cast") for name in ("floor", "ceil", "trunc")},
    "fabs": (_of_float("abs"), "abs"),
    "pow": (_of_floats("power"), "power"),
    "atan2": (_of_floats("atan2"), "atan2"),
    "hypot": (_of_floats("hypot"), "hypot"),
    "log": (_log, "log divide"),
    "degrees": (_degrees, "multiply"),
    "radians": (_radians, "multiply"),
}


def _fold(b: Builder, name: str, arguments: tuple[Value, ...], keywords: dict[str, Value]) -> Value:
    try:
        return getattr(math, name)(*arguments, **keywords)
    except (ValueError, OverflowError, TypeError) as error:
        b.fail(f"math.{name}: {error}")


def _run(b: Builder, name: str, arguments: tuple[Value, ...], keywords: dict[str, Value]) -> Value:
    if name not in _RUN_TIME:
        b.fail(f"math.{name} takes numbers that are known at compile time only", help="use tensor operations")
    for x in arguments:
        if helpers.rank_of(b, x):
            b.fail(f"math.{name} takes a scalar, not {b.type_of(x)}", help=f"use numpy.{name} or mlirtri.{name}")
    result = _RUN_TIME[name][0](b, *arguments, **keywords)
    # Python's floats are weak; a run-time int or bool stays a tensor of rank 0.
    return b.python_scalar(result) if b.type_of(result).dtype.is_float else result


def _signature(name: str) -> inspect.Signature:
    """Return `math`'s signature after the builder; `log` and `hypot` have none that Python can inspect."""
    builder = inspect.Parameter("b", inspect.Parameter.POSITIONAL_ONLY)
    if name == "log":
        return inspect.Signature([builder, *inspect.signature(lambda x, base=None, /: None).parameters.values()])
    try:
        return inspect.Signature([builder, *inspect.signature(getattr(math, name)).parameters.values()])
    except ValueError:
        return inspect.Signature([builder, inspect.Parameter("arguments", inspect.Parameter.VAR_POSITIONAL)])


def _function(name: str) -> Callable[..., Any]:
    def function(b, *arguments, **keywords):
        is_constant = all(b.type_of(x) is None for x in (*arguments, *keywords.values()))
        return (_fold if is_constant else _run)(b, name, arguments, keywords)

    function.__signature__ = _signature(name)
    return function


for _name in sorted(vars(math)):
    if not _name.startswith("_") and inspect.isbuiltin(getattr(math, _name)):
        register(f"math.{_name}", _function(_name), _RUN_TIME[_name][1] if _name in _RUN_TIME else "")
