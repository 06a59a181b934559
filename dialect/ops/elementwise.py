"""Rows of the op table that act on each element, with NumPy's broadcasting between operands.

Operands already have one dtype: the frontend casts as the library whose semantics is chosen would. fp16 and bf16
are computed in fp32 and rounded after every operation; `lowering/linalg/elementwise.py` does that for all rows.
"""

from __future__ import annotations

import math as python_math
from collections.abc import Iterator

import numpy as np

from mlirtri.dialect.base.dtypes import DTYPES, as_dtype
from mlirtri.dialect.base.tensor_type import broadcast_shapes
from mlirtri.dialect.ops.op import Op
from mlirtri.errors import KernelTypeError

BOOL = DTYPES["bool"]
FLOATS, NUMBERS, INTEGERS, BITS, ALL = "fv", "iufv", "iu", "iub", "iufvb"
COMPLEX, INEXACT = "c", "fvc"


def _same(kinds: str, result_is_bool: bool = False, result_is_part: bool = False):
    def infer(types, attributes):
        dtypes = {operand.dtype for operand in types}
        if len(dtypes) > 1:
            raise KernelTypeError(f"operands have different dtypes: {' and '.join(str(t) for t in types)}")
        dtype = types[0].dtype
        if dtype.kind not in kinds:
            raise KernelTypeError(f"{dtype} is not a dtype this operation takes: it takes {_names(kinds)}")
        shape = broadcast_shapes(*(operand.shape for operand in types))
        result = BOOL if result_is_bool else dtype.part if result_is_part else dtype
        return types[0].with_shape(shape).with_dtype(result)

    return infer


def _names(kinds: str) -> str:
    words = {"f": "floats", "i": "signed integers", "u": "unsigned integers", "b": "bool", "c": "complex"}
    return ", ".join(word for kind, word in words.items() if kind in kinds)


def _where(types, attributes):
    condition, x, y = types
    if not condition.dtype.is_bool:
        raise KernelTypeError(f"the condition of where is {condition}, not bool")
    shape = broadcast_shapes(condition.shape, x.shape, y.shape)
    return _same(ALL + COMPLEX)([x, y], attributes).with_shape(shape)


def _complex(types, attributes):
    result = _same("f")(types, attributes)
    if result.dtype.bits < 32:
        raise KernelTypeError("complex numbers have parts of float32 or float64, not float16")
    return result.with_dtype(DTYPES[f"complex{2 * result.dtype.bits}"])


def _cast(types, attributes):
    return types[0].with_dtype(as_dtype(attributes["dtype"]))


def _bitcast(types, attributes):
    [operand], dtype = types, as_dtype(attributes["dtype"])
    if operand.dtype.bits != dtype.bits or any(each.is_bool or each.is_complex for each in (operand.dtype, dtype)):
        raise KernelTypeError(f"the bits of {operand} are not those of a {dtype}")
    return operand.with_dtype(dtype)


def _vectorized(function):
    """Return a function of `math` as a NumPy function of floats; for references only."""
    return lambda x: np.vectorize(function, otypes=[np.float64])(x).astype(x.dtype)


def _reference_cast(x, dtype):
    target, x = as_dtype(dtype), np.asarray(x)
    # NumPy warns where an imaginary part is lost.
    drops = x.dtype.kind == "c" and not (target.is_complex or target.is_bool)
    with np.errstate(invalid="ignore", over="ignore"):
        return (x.real if drops else x).astype(target.numpy)


def _reference_bitcast(x, dtype):
    return np.asarray(x).view(as_dtype(dtype).numpy)


def _reference_complex(real, imaginary):
    result = np.empty(np.broadcast_shapes(real.shape, imaginary.shape), np.result_type(real, np.complex64))
    result.real, result.imag = real, imaginary
    return result


def _reference_softplus(x, beta, threshold):
    with np.errstate(over="ignore"):
        return np.where(x * beta > threshold, x, np.log1p(np.exp(x * beta)) / beta).astype(x.dtype)


def _scalar(name):
    """Return the scalar rule of that name, which imports MLIR when first called."""

    def apply(*arguments, **attributes):
        from mlirtri.dialect.scalar import complex_functions as scalar_complex
        from mlirtri.dialect.scalar import functions as scalar_functions

        # The first operand of `where` is its condition, which is bool.
        rules = (scalar_complex if arguments[-1].dtype.is_complex else scalar_functions).RULES
        return rules[name](*arguments, **attributes)

    return apply


def _row(name, operands, infer, reference, relax=None, relax_dtypes="bifuv", attributes=None) -> Op:
    return Op(
        name, "elementwise", tuple(operands), attributes or {}, infer, reference, _scalar(name),
        relax=relax, relax_dtypes=relax_dtypes,
    )  # fmt: skip


# Name, letters of the dtypes that it takes (`DType.letter`), NumPy reference, Relax operator, letters for which that
# gives the reference's result; for others pipeline `relax` has the lowering to linalg.
_UNARY = (
    ("negative", NUMBERS + COMPLEX, np.negative, "negative", "ifh"),
    ("sign", NUMBERS + COMPLEX, np.sign, None, ""),
    ("floor", FLOATS, np.floor, "floor", "fh"),
    ("ceil", FLOATS, np.ceil, "ceil", "fh"),
    ("round", INEXACT, np.round, None, ""),
    ("trunc", FLOATS, np.trunc, "trunc", "fh"),
    ("exp", INEXACT, np.exp, "exp", "f"),
    ("exp2", INEXACT, np.exp2, None, ""),
    ("log", INEXACT, np.log, "log", "f"),
    ("log2", INEXACT, np.log2, None, ""),
    ("log10", INEXACT, np.log10, None, ""),
    ("log1p", INEXACT, np.log1p, None, ""),
    ("expm1", INEXACT, np.expm1, None, ""),
    ("sqrt", INEXACT, np.sqrt, "sqrt", "f"),
    ("rsqrt", INEXACT, lambda x: 1 / np.sqrt(x), "rsqrt", "f"),
    ("square", NUMBERS + COMPLEX, np.square, "square", "iufh"),
    ("reciprocal", INEXACT, np.reciprocal, None, ""),
    ("sin", INEXACT, np.sin, "sin", "f"),
    ("cos", INEXACT, np.cos, "cos", "f"),
    ("tan", INEXACT, np.tan, "tan", "f"),
    ("asin", INEXACT, np.arcsin, "asin", "f"),
    ("acos", INEXACT, np.arccos, "acos", "f"),
    ("atan", INEXACT, np.arctan, "atan", "f"),
    ("sinh", INEXACT, np.sinh, None, ""),
    ("cosh", INEXACT, np.cosh, None, ""),
    ("tanh", INEXACT, np.tanh, None, ""),
    ("asinh", INEXACT, np.arcsinh, None, ""),
    ("acosh", INEXACT, np.arccosh, None, ""),
    ("atanh", INEXACT, np.arctanh, None, ""),
    ("cbrt", FLOATS, np.cbrt, None, ""),
    ("erf", FLOATS, _vectorized(python_math.erf), "erf", "f"),
    ("sigmoid", INEXACT, lambda x: 1 / (1 + np.exp(-x)), "sigmoid", "f"),
    ("relu", NUMBERS, lambda x: np.where(x < 0, np.zeros_like(x), x), None, ""),
    ("gelu", FLOATS, lambda x: 0.5 * x * (1 + _vectorized(python_math.erf)(x * 0.7071067811865476)), "nn.gelu", "f"),
    ("gelu_tanh", FLOATS, lambda x: 0.5 * x * (1 + np.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))), None, ""),
    ("silu", INEXACT, lambda x: x / (1 + np.exp(-x)), "nn.silu", "f"),
    ("bitwise_not", BITS, np.invert, "bitwise_not", "iu"),
    ("logical_not", "b", np.logical_not, "logical_not", "b"),
)  # fmt: skip

_BINARY = (
    ("add", ALL + COMPLEX, np.add, "add", "iufh"),
    ("subtract", NUMBERS + COMPLEX, np.subtract, "subtract", "iufh"),
    ("multiply", ALL + COMPLEX, np.multiply, "multiply", "iufh"),
    ("divide", INEXACT, np.true_divide, "divide", "fh"),
    ("floor_divide", NUMBERS, np.floor_divide, None, ""),
    ("remainder", NUMBERS, np.remainder, None, ""),
    ("power", NUMBERS + COMPLEX, np.power, "power", "f"),
    ("atan2", FLOATS, np.arctan2, None, ""),
    ("fmod", NUMBERS, np.fmod, None, ""),
    ("hypot", FLOATS, np.hypot, None, ""),
    ("copysign", FLOATS, np.copysign, None, ""),
    ("logaddexp", FLOATS, np.logaddexp, None, ""),
    ("logaddexp2", FLOATS, np.logaddexp2, None, ""),
    ("minimum", ALL + COMPLEX, np.minimum, "minimum", "iu"),
    ("maximum", ALL + COMPLEX, np.maximum, "maximum", "iu"),
    ("fmin", ALL + COMPLEX, np.fmin, None, ""),
    ("fmax", ALL + COMPLEX, np.fmax, None, ""),
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
    ("isnan", ("x",), INEXACT, np.isnan, "isnan", "fh"),
    ("isinf", ("x",), INEXACT, np.isinf, None, ""),
    ("isfinite", ("x",), INEXACT, np.isfinite, None, ""),
    ("signbit", ("x",), FLOATS, np.signbit, None, ""),
    ("equal", ("x", "y"), ALL + COMPLEX, np.equal, "equal", "iufh"),
    ("not_equal", ("x", "y"), ALL + COMPLEX, np.not_equal, "not_equal", "iu"),
    ("less", ("x", "y"), ALL + COMPLEX, np.less, "less", "iufh"),
    ("less_equal", ("x", "y"), ALL + COMPLEX, np.less_equal, "less_equal", "iufh"),
    ("greater", ("x", "y"), ALL + COMPLEX, np.greater, "greater", "iufh"),
    ("greater_equal", ("x", "y"), ALL + COMPLEX, np.greater_equal, "greater_equal", "iufh"),
)


# The same columns, for operations that map complex to real.
_PART = (
    ("abs", ALL + COMPLEX, np.abs, "abs", "fh"),
    ("real", COMPLEX, np.real, None, ""),
    ("imag", COMPLEX, np.imag, None, ""),
)


def rows() -> Iterator[Op]:
    for name, kinds, reference, relax, exact in _UNARY:
        yield _row(name, ("x",), _same(kinds), reference, relax, exact)
    for name, kinds, reference, relax, exact in _BINARY:
        yield _row(name, ("x", "y"), _same(kinds), reference, relax, exact)
    for name, operands, kinds, reference, relax, exact in _PREDICATE:
        yield _row(name, operands, _same(kinds, result_is_bool=True), reference, relax, exact)
    for name, kinds, reference, relax, exact in _PART:
        yield _row(name, ("x",), _same(kinds, result_is_part=True), reference, relax, exact)
    yield _row("conj", ("x",), _same(COMPLEX), np.conj)
    yield _row("complex", ("real", "imaginary"), _complex, _reference_complex)
    yield _row("where", ("condition", "x", "y"), _where, np.where, "where", "iufh")
    yield _row(
        "softplus", ("x",), _same(FLOATS), _reference_softplus, attributes={"beta": "float", "threshold": "float"}
    )
    yield _row(
        "cast", ("x",), _cast, _reference_cast, attributes={"dtype": "string"}, relax=_relax_cast, relax_dtypes="iub"
    )
    yield _row("bitcast", ("x",), _bitcast, _reference_bitcast, attributes={"dtype": "string"})
    yield Op("clip", "elementwise", ("x",), derived=True, numpy=np.clip, summary="minimum(maximum(x, low), high)")


def _relax_cast(relax_ops, arguments, attributes, result):
    return relax_ops.astype(arguments[0], result.dtype.name)
