"""The reductions of `numpy`: sums, products, extremes, means, variances, any and all, with NumPy 2's signatures.

`keepdims` defaults to False where NumPy has "no value", which is the same for arrays.
"""

from __future__ import annotations

from typing import Any

from mlirtri.dialect.spellings.base import helpers
from mlirtri.dialect.spellings.base.spelling import Argument, Builder, Value, register, spelling, unsupported
from mlirtri.dialect.spellings.numpy_api.ufuncs import FLOAT64, INT64, as_array, numpy_dtype


def _chosen(b: Builder, a: Value, where: Argument, neutral: Value) -> Value:
    """Return `a` with the neutral element where `where` is false."""
    if where is None or where is True:
        return a
    return b.where(as_array(b, where), a, b.cast(neutral, b.type_of(a).dtype))


def _accumulation(op: str, neutral: int, ufunc: str):
    def function(b, a, axis=None, dtype=None, out=unsupported(), keepdims=False, initial=None, where=None):
        a = _chosen(b, as_array(b, a), where, neutral)
        result = getattr(b, op)(a, axis=axis, keepdims=keepdims, dtype=numpy_dtype(b, dtype))
        return result if initial is None else getattr(b, ufunc)(result, b.cast(initial, b.type_of(result).dtype))

    return function


def _extremum(op: str):
    def function(b, a, axis=None, out=unsupported(), keepdims=False, initial=None, where=None):
        a = as_array(b, a)
        if initial is None:
            if where is not None and where is not True:
                b.fail(f"numpy.{op} with where= needs initial=, as in NumPy")
            return getattr(b, op)(a, axis=axis, keepdims=keepdims)
        initial = b.cast(initial, b.type_of(a).dtype)
        shape = helpers.shape_of(b, a)
        taken = range(len(shape)) if axis is None else helpers.many_axes(b, axis, len(shape))
        if any(shape[position] == 0 for position in taken):
            return b.broadcast_to(initial, helpers.shape_of(b, b.sum(a, axis=axis, keepdims=keepdims)))
        with b.muted():  # there may be no elements
            result = getattr(b, op)(_chosen(b, a, where, initial), axis=axis, keepdims=keepdims)
        return getattr(b, f"{op}imum")(result, initial)

    return function


def _spread(op: str):
    def function(
        b, a, axis=None, dtype=None, out=unsupported(), ddof=0, keepdims=False, *, where=None, mean=None,
        correction=None,
    ):  # fmt: skip
        if correction is not None and ddof != 0:
            b.fail("ddof and correction are the same thing: pass one of them")
        a = as_array(b, a) if dtype is None else b.cast(a, numpy_dtype(b, dtype))
        correction = ddof if correction is None else correction
        if mean is not None or where not in (None, True):
            variance = _variance(b, a, axis, keepdims, where, mean, correction)
            return variance if op == "var" else b.sqrt(variance)
        return getattr(b, op)(a, axis=axis, keepdims=keepdims, correction=correction)

    return function


def _variance(b: Builder, a: Value, axis: Argument, keepdims: bool, where: Argument, mean: Value, correction: Value):
    """Return the variance of the elements where `where` is true, about a mean that may be given."""
    mean = _mean(b, a, axis, keepdims=True, where=where) if mean is None else mean
    squares = b.square(b.abs(b.subtract(a, mean)))
    sum_ = b.sum(_chosen(b, squares, where, 0), axis=axis, keepdims=keepdims)
    chosen = b.broadcast_to(b.cast(True if where is None else as_array(b, where), INT64), helpers.shape_of(b, a))
    count = b.subtract(b.sum(chosen, axis=axis, keepdims=keepdims), correction)
    return b.divide(sum_, b.cast(b.maximum(count, 0), b.type_of(sum_).dtype))


def _reduce(function: Any, takes_dtype: bool):
    """Return the method `reduce` of a ufunc, along the first axis by default."""

    def reduce(b, array, /, axis=0, dtype=None, out=unsupported(), *, keepdims=False, initial=None, where=None):
        if takes_dtype:
            return function(b, array, axis, dtype, keepdims=keepdims, initial=initial, where=where)
        array = as_array(b, array) if dtype is None else b.cast(array, numpy_dtype(b, dtype))
        return function(b, array, axis, keepdims=keepdims, initial=initial, where=where)

    return reduce


def _truth(op: str, neutral: int):
    """Return the method `reduce` of a logical ufunc."""

    def reduce(
        b, array, /, axis=0, dtype=unsupported(), out=unsupported(), *, keepdims=False, initial=unsupported(),
        where=None,
    ):  # fmt: skip
        return getattr(b, op)(_chosen(b, as_array(b, array), where, neutral), axis=axis, keepdims=keepdims)

    return reduce


def _test(op: str, neutral: int):
    def function(b, a, axis=None, out=unsupported(), keepdims=False, *, where=None):
        return getattr(b, op)(_chosen(b, as_array(b, a), where, neutral), axis=axis, keepdims=keepdims)

    return function


def _position(op: str):
    def function(b, a, axis=None, out=unsupported(), *, keepdims=False):
        return getattr(b, op)(as_array(b, a), axis=axis, keepdims=keepdims)

    return function


for _ufunc, _op, _neutral in (("add", "sum", 0), ("multiply", "prod", 1)):
    _function, _ops = _accumulation(_op, _neutral, _ufunc), f"{_op} where cast {_ufunc}"
    register(f"numpy.{_op}", _function, _ops)
    register(f"numpy.{_ufunc}.reduce", _reduce(_function, takes_dtype=True), _ops)
for _op in ("max", "min"):
    register(f"numpy.{_op} numpy.a{_op}", _extremum(_op), f"{_op} where cast {_op}imum broadcast_to sum")
for _ufunc, _op in (("maximum", "max"), ("minimum", "min")):
    _ops = f"{_op} where cast {_ufunc} broadcast_to sum"
    register(f"numpy.{_ufunc}.reduce", _reduce(_extremum(_op), takes_dtype=False), _ops)
for _ufunc, _op, _neutral in (("logical_and", "all", 1), ("logical_or", "any", 0)):
    register(f"numpy.{_op}", _test(_op, _neutral), f"{_op} where cast")
    register(f"numpy.{_ufunc}.reduce", _truth(_op, _neutral), f"{_op} where cast")
for _op in ("argmax", "argmin"):
    register(f"numpy.{_op}", _position(_op), _op)
for _op in ("var", "std"):
    _ops = f"{_op} mean where cast sum divide broadcast_to subtract abs square sqrt maximum"
    register(f"numpy.{_op}", _spread(_op), _ops)


@spelling("numpy.mean", ops="mean where cast sum divide broadcast_to")
def _mean(b, a, axis=None, dtype=None, out=unsupported(), keepdims=False, *, where=None):
    a, dtype = as_array(b, a), numpy_dtype(b, dtype)
    if where is None or where is True:
        return b.mean(a, axis=axis, keepdims=keepdims, dtype=dtype)
    # In the dtype of the unmasked mean.
    dtype = dtype or (b.type_of(a).dtype if b.type_of(a).dtype.is_inexact else FLOAT64)
    sum_ = b.sum(_chosen(b, b.cast(a, dtype), where, 0), axis=axis, keepdims=keepdims)
    chosen = b.broadcast_to(b.cast(as_array(b, where), INT64), b.type_of(a).shape)
    return b.divide(sum_, b.cast(b.sum(chosen, axis=axis, keepdims=keepdims), dtype))
