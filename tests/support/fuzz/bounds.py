"""Bounds on the error of elementwise functions, sums and products, computed beside a reference of higher precision.

A value is a pair: `high`, computed in long double, and `error`, which bounds how far a right result of the program's
own dtype may lie from it. Three formulas, with u the unit roundoff of the dtype:

* A function f of operands x with errors e gives ``max |f(x ± e) - f(x)| + k u |f(x)|``. The maximum is taken over the
  corners of the box, where functions that are monotone or convex in each operand take it; k is the number of roundings
  that f may have (interval arithmetic: Higham, Accuracy and Stability of Numerical Algorithms, section 2.8).
* A sum of n terms, in whatever order, gives ``Σ e + γ Σ (|x| + e)`` with ``γ = n u / (1 - n u)`` (Higham, section 4.2,
  equation 4.4). A product of n factors: ``Π (|x| + e) - Π |x| + γ Π (|x| + e)`` (Higham, lemma 3.1).
* A product of matrices gives ``|A| E(B) + E(A) |B| + E(A) E(B) + γ (|A| + E(A)) (|B| + E(B))`` (Higham, equation 3.13).

A function that jumps (floor, a comparison, a cast to integers) has to give the same at all corners; otherwise no result
of the program is right or wrong, and `Undecided` is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np

LONG = np.longdouble
EXACT, ROUNDED, ELEMENTARY = 0, 1, 8
"""Roundings: none, one, and the 4 units in the last place that vector code of elementary functions may be off."""

ROUNDINGS: dict[str, int] = {
    **dict.fromkeys(
        ("negative", "positive", "absolute", "fabs", "maximum", "minimum", "fmax", "fmin", "copysign", "fmod", "floor",
         "ceil", "trunc", "rint", "sign", "conjugate"),
        EXACT,
    ),
    **dict.fromkeys(
        ("add", "subtract", "multiply", "divide", "sqrt", "square", "reciprocal", "remainder", "floor_divide", "deg2rad",
         "rad2deg", "radians", "degrees"),
        2 * ROUNDED,
    ),
    **dict.fromkeys(
        ("sin", "cos", "tan", "tanh", "exp", "log", "exp2", "expm1", "log1p", "log2", "log10", "arctan", "arcsin", "arccos",
         "sinh", "cosh", "arcsinh", "arccosh", "arctanh", "cbrt", "power", "float_power", "hypot", "arctan2", "logaddexp",
         "logaddexp2", "heaviside"),
        ELEMENTARY,
    ),
}  # fmt: skip
"""Functions of floats by their names in NumPy. One rounding more than IEEE asks for lets a compiler divide by constants
as products; what has to be exact stays exact."""

JUMPING = {"floor", "ceil", "trunc", "rint", "sign", "heaviside", "floor_divide"}
INNER_OF_HALVES = ContextVar("INNER_OF_HALVES", default=2.0**-24)
"""The unit roundoff that sums and functions of halves are computed with: float32's."""
QUOTIENTS = {"fmod": np.trunc, "remainder": np.floor}
"""Functions that jump where this rounding of the quotient does."""


class Undecided(Exception):
    """The result hangs on a rounding error, so that several results are right."""


class NoRule(Exception):
    """There is no error bound for this function."""


def unit_roundoff(dtype: Any) -> tuple[float, float]:
    """Return u of the dtype, and u of what its sums and functions are computed in."""
    part = np.dtype(dtype)
    if part.kind == "c":
        part = np.dtype(f"float{part.itemsize * 4}")
    u = float(ml_dtypes.finfo(part).eps) / 2
    return u, min(u, INNER_OF_HALVES.get())


@contextmanager
def halves_in_halves() -> Iterator[None]:
    """Bound sums and functions of halves as computed in halves, each addition rounded: TVM lowers Relax's so."""
    token = INNER_OF_HALVES.set(1.0)
    try:
        yield
    finally:
        INNER_OF_HALVES.reset(token)


def largest(dtype: Any) -> float:
    return float(ml_dtypes.finfo(dtype).max)


def rounded(value: Any, error: Any, dtype: Any, roundings: float) -> Any:
    """Return the error with that of `roundings` roundings to the dtype; infinite where the dtype may overflow."""
    last, inner = unit_roundoff(dtype)
    size = np.abs(value) + error
    relative = roundings * inner + (last if roundings and last > inner else 0.0)
    tiny = float(ml_dtypes.finfo(dtype).smallest_subnormal) if roundings else 0.0
    bound = error + size * LONG(relative) + roundings * LONG(tiny) + 8 * np.finfo(LONG).eps * size * (error > 0)
    return np.where(np.isfinite(value) & (size > largest(dtype)), np.inf, bound)


def corners(values: Sequence[Any], errors: Sequence[Any]) -> list[list[Any]]:
    """Return the corners of the box of operands; operands without an error have one."""
    sides = [
        (value,) if not np.any(error) else (value - error, value + error)
        for value, error in zip(values, errors, strict=True)
    ]
    return [list(corner) for corner in product(*sides)]


def propagated(function: Callable[..., Any], values: Sequence[Any], errors: Sequence[Any]) -> Any:
    """Return the largest difference of the function over the corners; infinite where it has no value there.

    `Undecided` is raised where finite operands give no finite value (0 / 0), but others within their errors do.
    """
    centre = function(*values)
    spread = np.zeros(np.shape(centre), LONG)
    finite_operands = np.logical_and.reduce(np.broadcast_arrays(*map(np.isfinite, values)))
    for corner in corners(values, errors):
        result = function(*corner)
        if np.any(
            finite_operands & ~np.isfinite(centre) & ~((result == centre) | (np.isnan(result) & np.isnan(centre)))
        ):
            raise Undecided
        difference = np.abs(result - centre)
        spread = np.maximum(spread, np.where(np.isfinite(centre), difference, 0))
    return np.where(np.isnan(spread), np.inf, spread)


def elementwise(
    name: str, function: Callable[..., Any], values: Sequence[Any], errors: Sequence[Any], dtype: Any
) -> Any:
    """Return value and error of a function of real operands."""
    if name not in ROUNDINGS:
        raise NoRule(name)
    high = function(*values)
    if name in ("sin", "cos"):
        spread = np.minimum(errors[0], 2)
    else:
        refuse_jumps(name, function, values, errors)
        spread = propagated(function, values, errors)
    if name in ("divide", "reciprocal", "remainder", "fmod"):
        spread = np.where((np.abs(values[-1]) <= errors[-1]) & (errors[-1] > 0), np.inf, spread)
    if name in ("logaddexp", "logaddexp2"):
        # The larger operand and a logarithm of at most 1 are added, and may cancel.
        size = np.maximum(*np.abs(np.broadcast_arrays(*values))) + 1
        spread = spread + np.where(np.isfinite(size), ELEMENTARY * LONG(unit_roundoff(dtype)[1]) * size, 0)
    return high, rounded(high, spread, dtype, ROUNDINGS[name])


def refuse_jumps(name: str, function: Callable[..., Any], values: Sequence[Any], errors: Sequence[Any]) -> None:
    """Raise where the result, or the quotient inside of it, is not the same at all corners; NaN has no certain sign."""
    if name in ("signbit", "copysign") and np.isnan(values[-1]).any():
        raise Undecided
    if name in JUMPING:
        same_at_corners(function, values, errors)
    elif name in QUOTIENTS:
        same_at_corners(lambda a, b: QUOTIENTS[name](a / b), values, errors)
    elif name == "copysign":
        same_at_corners(np.signbit, values[1:], errors[1:])


def same_at_corners(function: Callable[..., Any], values: Sequence[Any], errors: Sequence[Any]) -> Any:
    """Return the function's value, which has to be the same at all corners of the box."""
    centre = function(*values)
    for corner in corners(values, errors):
        if not np.array_equal(function(*corner), centre, equal_nan=np.asarray(centre).dtype.kind == "f"):
            raise Undecided
    return centre


def complex_elementwise(name: str, values: Sequence[Any], errors: Sequence[Any], dtype: Any) -> Any:
    """Return value and error, in modulus, of a function of complex operands; first order but for products."""
    sizes = [np.abs(value) for value in values]
    high = getattr(np, name)(*values)
    if name in ("add", "subtract"):
        spread, roundings = errors[0] + errors[1], 2
    elif name == "multiply":
        spread, roundings = sizes[0] * errors[1] + errors[0] * sizes[1] + errors[0] * errors[1], 6
    elif name == "divide":
        divisor = np.maximum(sizes[1] - errors[1], 0)
        spread, roundings = (errors[0] + np.abs(high) * errors[1]) / divisor, 16
    elif name in ("negative", "positive", "conjugate"):
        spread, roundings = errors[0], 0
    elif name == "square":
        spread, roundings = 2 * sizes[0] * errors[0] + errors[0] ** 2, 6
    elif name == "absolute":
        spread, roundings = errors[0], 6
    elif name == "exp":
        spread, roundings = np.abs(high) * np.expm1(errors[0]), 24
    else:
        raise NoRule(f"{name} of complex numbers")
    return high, rounded(high, np.where(np.isnan(spread) & np.isfinite(high), np.inf, spread), dtype, roundings)


def gamma(length: int, dtype: Any) -> Any:
    """Return the relative error of `length` roundings in a row; two more for means and complex numbers."""
    n = LONG((length + 2) * (4 if np.dtype(dtype).kind == "c" else 1))
    u = LONG(unit_roundoff(dtype)[1])
    return n * u / (1 - n * u)


def summed(reduce: Callable[[Any], Any], value: Any, error: Any, length: int, dtype: Any) -> Any:
    """Return value and error of sums of `length` terms; `reduce` sums an array along the axes."""
    high, spread = reduce(value), reduce(error)
    bound = spread + gamma(length, dtype) * reduce(np.abs(value) + error)
    last, inner = unit_roundoff(dtype)
    return high, rounded(high, bound, dtype, 1 if last > inner else 0)


def multiplied(reduce: Callable[[Any], Any], value: Any, error: Any, length: int, dtype: Any) -> Any:
    """Return value and error of products of `length` factors."""
    high, size = reduce(value), reduce(np.abs(value) + error)
    bound = size - reduce(np.abs(value)) + gamma(length, dtype) * size
    return high, rounded(high, bound, dtype, 1)


def bilinear(
    function: Callable[[Any, Any], Any], values: Sequence[Any], errors: Sequence[Any], length: int, dtype: Any
) -> Any:
    """Return value and error of sums of `length` products: matrix products, convolutions."""
    a, b = (np.abs(value) for value in values)
    high = function(*values)
    spread = function(a, errors[1]) + function(errors[0], b) + function(*errors)
    bound = spread + gamma(length + 1, dtype) * function(a + errors[0], b + errors[1])
    last, inner = unit_roundoff(dtype)
    return high, rounded(high, bound, dtype, 1 if last > inner else 0)
