"""The methods of NumPy's ufuncs: `numpy.add.outer`, `numpy.add.reduce`, `numpy.add.accumulate` and others."""

from __future__ import annotations

from mlirtri.dialect.spellings.base import helpers
from mlirtri.dialect.spellings.base.spelling import register, unsupported
from mlirtri.dialect.spellings.numpy_api.ufuncs import arrays, computed_in, numpy_dtype


def _outer(op: str):
    def function(b, A, B, /, *, dtype=None):
        A, B = computed_in(b, dtype, *arrays(b, A, B))
        return getattr(b, op)(b.reshape(A, (*helpers.shape_of(b, A), *[1] * helpers.rank_of(b, B))), B)

    return function


_WITH_OUTER = (
    "add", "subtract", "multiply", "divide", "power", "maximum", "minimum", "equal", "not_equal", "less", "less_equal",
    "greater", "greater_equal", "floor_divide", "remainder", "hypot", "logical_and", "logical_or", "bitwise_and",
    "bitwise_or", "bitwise_xor",
)  # fmt: skip
for _op in _WITH_OUTER:
    register(f"numpy.{_op}.outer", _outer(_op), f"{_op} reshape")
register("numpy.arctan2.outer", _outer("atan2"), "atan2 reshape")


def _reduce(op: str):
    def function(
        b, array, /, axis=0, dtype=None, out=unsupported(), *, keepdims=False, initial=unsupported(),
        where=unsupported(True),
    ):  # fmt: skip
        (array,) = arrays(b, array)
        extra = {"dtype": numpy_dtype(b, dtype)} if op in ("sum", "prod") else {}
        return getattr(b, op)(array, axis=axis, keepdims=keepdims, **extra)

    return function


def _accumulate(op: str):
    def function(b, array, /, axis=0, dtype=None, out=unsupported()):
        (array,) = arrays(b, array)
        return b.scan(array, op, axis, numpy_dtype(b, dtype))

    return function


_REDUCTIONS = {
    "add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "logical_and": "all", "logical_or": "any",
}  # fmt: skip
for _op, _reduction in _REDUCTIONS.items():
    register(f"numpy.{_op}.reduce", _reduce(_reduction), _reduction)
for _op in ("add", "multiply", "maximum", "minimum"):
    register(f"numpy.{_op}.accumulate", _accumulate(_REDUCTIONS[_op]), "scan")
