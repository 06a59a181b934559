"""Functions of elements and of sizes in tile kernels: choices, casts, extrema, quotients that round up."""

from __future__ import annotations

from functools import reduce
from math import inf
from typing import Any

from ml_dtypes import finfo, iinfo

from mlirtri.dialect.base.dtypes import DType
from mlirtri.dialect.builder import KernelValue, TriValue
from mlirtri.errors import KernelTypeError
from mlirtri.lowering.frontend.semantics.axes import is_index
from mlirtri.lowering.frontend.semantics.builder import Language, describe
from mlirtri.lowering.frontend.tile_language.allocation import dtype_of_tile


def ceildiv(b: Language, x: KernelValue, y: KernelValue) -> KernelValue:
    """Return the quotient of two integers, rounded up; the divisor is known at compile time."""
    if not isinstance(x, TriValue) and not isinstance(y, TriValue):
        return -(-x // y)
    size = b.indices.size_of(y)
    if not size.is_constant or size.constant < 1:
        raise KernelTypeError("T.ceildiv divides by a positive number known at compile time")
    return b.number_of(b.indices.floor_divide(b.indices.size_of(x) + (size.constant - 1), size.constant).simplified())


def choose(b: Language, condition: KernelValue, x: KernelValue, y: KernelValue) -> KernelValue:
    """Return one of two values, both of which are computed: `T.if_then_else`."""
    if not isinstance(condition, TriValue):
        return x if condition else y
    return b.where(condition, x, y)


def cast(b: Language, value: KernelValue, dtype: object) -> TriValue:
    """Return a value in another dtype: `T.cast(x, "float16")`, and `T.Cast("float16", x)` of TVM."""
    if isinstance(value, str) or (not isinstance(value, TriValue) and isinstance(dtype, TriValue)):
        value, dtype = dtype, value
    return b.tensor(value, dtype_of_tile(dtype))


def infinity(b: Language, dtype: object = "float32") -> float:
    """Return infinity; raises `KernelTypeError` for a dtype that has none."""
    if not dtype_of_tile(dtype).is_float:
        raise KernelTypeError(f"{dtype_of_tile(dtype)} has no infinity", help="write a number")
    return inf


def max_value(b: Language, dtype: object) -> float | int:
    """Return the largest finite number of a dtype."""
    return _limit(dtype_of_tile(dtype), "max")


def min_value(b: Language, dtype: object) -> float | int:
    """Return the smallest finite number of a dtype."""
    return _limit(dtype_of_tile(dtype), "min")


def _limit(dtype: DType, which: str) -> float | int:
    if dtype.is_float:
        return float(getattr(finfo(dtype.numpy), which))
    return int(getattr(iinfo(dtype.numpy), which)) if dtype.name != "bool" else int(which == "max")


def greatest(b: Language, *values: KernelValue) -> KernelValue:
    """Return the largest of several numbers: `T.max`."""
    return _extremum(b, "maximum", values)


def least(b: Language, *values: KernelValue) -> KernelValue:
    """Return the smallest of several numbers: `T.min`."""
    return _extremum(b, "minimum", values)


def _extremum(b: Language, name: str, values: tuple[Any, ...]) -> Any:
    if len(values) < 2:
        raise KernelTypeError(f"T.{name[:3]} takes two numbers or more, got {', '.join(map(describe, values))}")
    if all(map(is_index, values)) and all(not isinstance(value, TriValue) or value.weak for value in values):
        # Bounds of sizes may decide at compile time which is larger.
        size = reduce(getattr(b.indices, name), [b.indices.size_of(value) for value in values])
        return b.number_of(size.simplified())
    return reduce(getattr(b, name), values)


def clamp(b: Language, value: KernelValue, lowest: KernelValue, highest: KernelValue) -> KernelValue:
    """Return a number, or the bound that it is beyond."""
    return least(b, greatest(b, value, lowest), highest)
