"""Rows of the op table that act on each element, with NumPy's broadcasting between operands.

Operands already have one dtype: the frontend casts as the library whose semantics is chosen would. fp16 and bf16
are computed in fp32 and rounded after every operation; `lowering.tri_to_linalg_rules` does that for all rows alike.
"""

from __future__ import annotations

import math as python_math

import numpy as np

from mlirtri.dialect.dtypes import DTYPES, as_dtype
from mlirtri.dialect.ops import Op, add
from mlirtri.dialect.types import broadcast_shapes
from mlirtri.errors import KernelTypeError

BOOL = DTYPES["bool"]
FLOATS, NUMBERS, INTEGERS, BITS, ALL = "fv", "iufv", "iu", "iub", "iufvb"


def _same(kinds: str, result_is_bool: bool = False):
    def infer(types, attributes):
        dtypes = {operand.dtype for operand in types}
        if len(dtypes) > 1:
            raise KernelTypeError(f"operands have different dtypes: {' and '.join(str(t) for t in types)}")
        dtype = types[0].dtype
        if dtype.kind not in kinds:
            raise KernelTypeError(f"{dtype} is not a dtype this operation takes: it takes {_names(kinds)}")
        shape = broadcast_shapes(*(operand.shape for operand in types))
        return types[0].with_shape(shape).with_dtype(BOOL if result_is_bool else dtype)

    return infer


def _names(kinds: str) -> str:
    words = {"f": "floats", "i": "signed integers", "u": "unsigned integers", "b": "bool"}
    return ", ".join(word for kind, word in words.items() if kind in kinds)


def _where(types, attributes):
    condition, x, y = types
    if not condition.dtype.is_bool:
        raise KernelTypeError(f"the condition of where is {condition}, not bool")
    shape = broadcast_shapes(condition.shape, x.shape, y.shape)
    return _same(ALL)([x, y], attributes).with_shape(shape)


def _cast(types, attributes):
    return types[0].with_dtype(as_dtype(attributes["dtype"]))


def _each(function):
    """A NumPy function of floats made of one of `math`; for references only."""
    return lambda x: np.vectorize(function, otypes=[np.float64])(x).astype(x.dtype)


def _reference_cast(x, dtype):
    with np.errstate(invalid="ignore", over="ignore"):
        return np.asarray(x).astype(as_dtype(dtype).numpy)


def _reference_softplus(x, beta, threshold):
    with np.errstate(over="ignore"):
        return np.where(x * beta > threshold, x, np.log1p(np.exp(x * beta)) / beta).astype(x.dtype)


def _scalar(name):
    """The scalar rule of that name; MLIR loads with it, when the first kernel compiles."""

    def apply(*arguments, **attributes):
        from mlirtri.dialect.scalar_functions import RULES

        return RULES[name](*arguments, **attributes)

    return apply


def _row(name, operands, infer, reference, relax=None, relax_dtypes="bifuv", attributes=None, summary=""):
    add(
        Op(
            name, "elementwise", tuple(operands), attributes or {}, infer, reference, _scalar(name),
            relax=relax, relax_dtypes=relax_dtypes, summary=summary,
        )
    )  # fmt: skip


# name, kinds it takes, NumPy reference, Relax operator, kinds for which the Relax operator is exact
_UNARY = (
    ("negative", NUMBERS, np.negative, "negative", "ifh"),
    ("abs", ALL, np.abs, "abs", "fh"),
    ("sign", NUMBERS, np.sign, None, ""),
    ("floor", FLOATS, np.floor, "floor", "fh"),
    ("ceil", FLOATS, np.ceil, "ceil", "fh"),
    ("round", FLOATS, np.round, None, ""),
    ("trunc", FLOATS, np.trunc, "trunc", "fh"),
    ("exp", FLOATS, np.exp, "exp", "f"),
    ("exp2", FLOATS, np.exp2, None, ""),
    ("log", FLOATS, np.log, "log", "f"),
    ("log2", FLOATS, np.log2, None, ""),
    ("log10", FLOATS, np.log10, None, ""),
    ("log1p", FLOATS, np.log1p, None, ""),
    ("expm1", FLOATS, np.expm1, None, ""),
    ("sqrt", FLOATS, np.sqrt, "sqrt", "f"),
    ("rsqrt", FLOATS, lambda x: 1 / np.sqrt(x), "rsqrt", "f"),
    ("square", NUMBERS, np.square, "square", "iufh"),
    ("reciprocal", FLOATS, np.reciprocal, None, ""),
    ("sin", FLOATS, np.sin, "sin", "f"),
    ("cos", FLOATS, np.cos, "cos", "f"),
    ("tan", FLOATS, np.tan, "tan", "f"),
    ("asin", FLOATS, np.arcsin, "asin", "f"),
    ("acos", FLOATS, np.arccos, "acos", "f"),
    ("atan", FLOATS, np.arctan, "atan", "f"),
    ("sinh", FLOATS, np.sinh, None, ""),
    ("cosh", FLOATS, np.cosh, None, ""),
    ("tanh", FLOATS, np.tanh, None, ""),
    ("asinh", FLOATS, np.arcsinh, None, ""),
    ("acosh", FLOATS, np.arccosh, None, ""),
    ("atanh", FLOATS, np.arctanh, None, ""),
    ("cbrt", FLOATS, np.cbrt, None, ""),
    ("erf", FLOATS, _each(python_math.erf), "erf", "f"),
    ("sigmoid", FLOATS, lambda x: 1 / (1 + np.exp(-x)), "sigmoid", "f"),
    ("relu", NUMBERS, lambda x: np.maximum(x, 0), None, ""),
    ("gelu", FLOATS, lambda x: 0.5 * x * (1 + _each(python_math.erf)(x * 0.7071067811865476)), "nn.gelu", "f"),
    ("gelu_tanh", FLOATS, lambda x: 0.5 * x * (1 + np.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))), None, ""),
    ("silu", FLOATS, lambda x: x / (1 + np.exp(-x)), "nn.silu", "f"),
    ("bitwise_not", BITS, np.invert, "bitwise_not", "iu"),
    ("logical_not", "b", np.logical_not, "logical_not", "b"),
)  # fmt: skip

_BINARY = (
    ("add", ALL, np.add, "add", "iufh"),
    ("subtract", NUMBERS, np.subtract, "subtract", "iufh"),
    ("multiply", ALL, np.multiply, "multiply", "iufh"),
    ("divide", FLOATS, np.true_divide, "divide", "fh"),
    ("floor_divide", NUMBERS, np.floor_divide, None, ""),
    ("remainder", NUMBERS, np.remainder, None, ""),
    ("power", NUMBERS, np.power, "power", "f"),
    ("atan2", FLOATS, np.arctan2, None, ""),
    ("fmod", NUMBERS, np.fmod, None, ""),
    ("hypot", FLOATS, np.hypot, None, ""),
    ("copysign", FLOATS, np.copysign, None, ""),
    ("logaddexp", FLOATS, np.logaddexp, None, ""),
    ("logaddexp2", FLOATS, np.logaddexp2, None, ""),
    ("minimum", ALL, np.minimum, "minimum", "iu"),
    ("maximum", ALL, np.maximum, "maximum", "iu"),
    ("fmin", ALL, np.fmin, None, ""),
    ("fmax", ALL, np.fmax, None, ""),
    ("bitwise_and", BITS, np.bitwise_and, "bitwise_and", "iu"),
    ("bitwise_or", BITS, np.bitwise_or, "bitwise_or", "iu"),
    ("bitwise_xor", BITS, np.bitwise_xor, "bitwise_xor", "iu"),
    ("left_shift", INTEGERS, np.left_shift, None, ""),
    ("right_shift", INTEGERS, np.right_shift, None, ""),
    ("logical_and", "b", np.logical_and, "logical_and", "b"),
    ("logical_or", "b", np.logical_or, "logical_or", "b"),
    ("logical_xor", "b", np.logical_xor, "logical_xor", "b"),
)  # fmt: skip

_PREDICATE = (
    ("isnan", ("x",), FLOATS, np.isnan, "isnan", "fh"),
    ("isinf", ("x",), FLOATS, np.isinf, None, ""),
    ("isfinite", ("x",), FLOATS, np.isfinite, None, ""),
    ("signbit", ("x",), FLOATS, np.signbit, None, ""),
    ("equal", ("x", "y"), ALL, np.equal, "equal", "iufh"),
    ("not_equal", ("x", "y"), ALL, np.not_equal, "not_equal", "iu"),
    ("less", ("x", "y"), ALL, np.less, "less", "iufh"),
    ("less_equal", ("x", "y"), ALL, np.less_equal, "less_equal", "iufh"),
    ("greater", ("x", "y"), ALL, np.greater, "greater", "iufh"),
    ("greater_equal", ("x", "y"), ALL, np.greater_equal, "greater_equal", "iufh"),
)


def fill() -> None:
    for name, kinds, reference, relax, exact in _UNARY:
        _row(name, ("x",), _same(kinds), reference, relax, exact)
    for name, kinds, reference, relax, exact in _BINARY:
        _row(name, ("x", "y"), _same(kinds), reference, relax, exact)
    for name, operands, kinds, reference, relax, exact in _PREDICATE:
        _row(name, operands, _same(kinds, result_is_bool=True), reference, relax, exact)
    _row("where", ("condition", "x", "y"), _where, np.where, "where", "iufh")
    _row("softplus", ("x",), _same(FLOATS), _reference_softplus, attributes={"beta": "float", "threshold": "float"})
    _row("cast", ("x",), _cast, _reference_cast, attributes={"dtype": "string"}, relax=_relax_cast, relax_dtypes="iub")
    add(Op("clip", "elementwise", ("x",), derived=True, numpy=np.clip, summary="minimum(maximum(x, low), high)"))


def _relax_cast(relax_ops, arguments, attributes, result):
    return relax_ops.astype(arguments[0], result.dtype.name)
