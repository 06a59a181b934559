"""The ufuncs of `numpy` and their methods, each with NumPy 2's signature, defaults and result.

Uniform ones (the ufuncs) are rows of name and op; the others are functions. `keepdims` defaults to False where NumPy
has "no value", which is the same for arrays. NumPy is not imported until a dtype is read.
"""

from __future__ import annotations

from mlirtri.dialect.base.dtypes import DTYPES, DType, as_dtype, find_dtype
from mlirtri.dialect.promotion.dtype_rules import Operand, default_dtype, result_dtypes
from mlirtri.dialect.spellings.base import helpers
from mlirtri.dialect.spellings.base.spelling import CONSTANTS, Argument, Builder, Value, register, spelling, unsupported

FLOAT64, INT64, COMPLEX128 = DTYPES["float64"], DTYPES["int64"], DTYPES["complex128"]

CONSTANTS |= {
    "numpy.pi": 3.141592653589793,
    "numpy.e": 2.718281828459045,
    "numpy.euler_gamma": 0.5772156649015329,
    "numpy.inf": float("inf"),
    "numpy.nan": float("nan"),
    "numpy.newaxis": None,
}

# op: names in NumPy
_UNARY = {
    "negative": "negative", "abs": "absolute abs", "sign": "sign", "square": "square",
    "floor": "floor", "ceil": "ceil", "trunc": "trunc", "exp": "exp", "exp2": "exp2", "log": "log", "log2": "log2",
    "log10": "log10", "log1p": "log1p", "expm1": "expm1", "sqrt": "sqrt", "sin": "sin", "cos": "cos", "tan": "tan",
    "asin": "arcsin asin", "acos": "arccos acos", "atan": "arctan atan", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh",
    "asinh": "arcsinh asinh", "acosh": "arccosh acosh", "atanh": "arctanh atanh", "cbrt": "cbrt",
    "bitwise_not": "invert bitwise_not bitwise_invert",
}  # fmt: skip
_TESTS = {
    "isnan": "isnan", "isinf": "isinf", "isfinite": "isfinite", "signbit": "signbit", "logical_not": "logical_not",
}  # fmt: skip
_BINARY = {
    "add": "add", "subtract": "subtract", "multiply": "multiply", "divide": "divide true_divide",
    "floor_divide": "floor_divide", "remainder": "remainder mod", "power": "power pow", "minimum": "minimum",
    "maximum": "maximum", "atan2": "arctan2 atan2", "bitwise_and": "bitwise_and", "bitwise_or": "bitwise_or",
    "bitwise_xor": "bitwise_xor", "left_shift": "left_shift bitwise_left_shift",
    "right_shift": "right_shift bitwise_right_shift", "fmod": "fmod", "hypot": "hypot", "copysign": "copysign",
    "logaddexp": "logaddexp", "logaddexp2": "logaddexp2", "fmin": "fmin", "fmax": "fmax",
}  # fmt: skip
_COMPARISONS = (
    "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "logical_and", "logical_or", "logical_xor",
)  # fmt: skip


def numpy_dtype(b: Builder, dtype: Argument) -> DType | None:
    """Return `dtype_of`; None for None."""
    return None if dtype is None else dtype_of(b, dtype)


def dtype_of(b: Builder, dtype: Argument) -> DType:
    """Return the dtype that NumPy reads; of a string another than mlirtri (``i8`` is int64 in NumPy)."""
    import numpy

    if isinstance(dtype, str):
        try:
            dtype = numpy.dtype(dtype)
        except TypeError:
            return as_dtype(dtype)
    if (result := find_dtype(dtype)) is not None:
        return result
    return as_dtype(str(dtype)) if "float8" in str(dtype) else b.fail(f"numpy's dtype {dtype!s} is not one of kernels")


def as_array(b: Builder, x: Value) -> Value:
    """Return a Python scalar as an array of rank 0, a list as an array, if the semantics are NumPy's; others as is."""
    if isinstance(x, (tuple, list)) and b.semantics == "numpy":
        # It imports this file.
        from mlirtri.dialect.spellings.numpy_api.creation import array_of

        return array_of(b, x, None)
    kind = b.weak_kind(x)
    if kind is None and b.type_of(x) is None:
        b.fail(f"expected an array or a number, got {x!r}")
    return x if kind is None or b.semantics != "numpy" else b.cast(x, default_dtype("numpy", kind))


def arrays(b: Builder, *operands: Value) -> tuple[Value, ...]:
    """Return Python scalars as arrays, as functions other than ufuncs do, even beside arrays."""
    return tuple(as_array(b, x) for x in operands)


def strong(b: Builder, *operands: Value) -> tuple[Value, ...]:
    """Return the operands of a ufunc: Python scalars alone become arrays, beside an array they stay weak."""
    operands = tuple(as_array(b, x) if isinstance(x, (tuple, list)) else x for x in operands)
    has_tensor = any(b.weak_kind(x) is None for x in operands)
    return operands if has_tensor else arrays(b, *operands)


def computed_in(b: Builder, dtype: Argument, *operands: Value) -> tuple[Value, ...]:
    """Return the operands of a ufunc that is called with `dtype=`, cast to it."""
    if dtype is None:
        return strong(b, *operands)
    dtype = numpy_dtype(b, dtype)
    for x in operands:
        if (kind := b.type_of(x)) and _is_lossy(kind.dtype, dtype):
            b.fail(f"dtype={dtype} cannot hold {kind} (casting='same_kind')", help="cast the operand with astype")
    return tuple(b.cast(x, dtype) for x in operands)


def is_complex(b: Builder, x: Value) -> bool:
    """Return whether x is a complex tensor or a Python complex."""
    kind = b.type_of(x)
    return isinstance(x, complex) if kind is None else kind.dtype.is_complex


def _is_lossy(source: DType, target: DType) -> bool:
    """Return whether a cast drops fractions or imaginary parts, which `casting="same_kind"` refuses."""
    return (source.is_inexact and not target.is_inexact) or (source.is_complex and not target.is_complex)


def float_of(b: Builder, x: Value) -> Value:
    """Return `x` in the float dtype that NumPy's float functions compute in."""
    if (kind := b.type_of(x)) is None or b.weak_kind(x):
        return b.cast(x, FLOAT64)
    return b.cast(x, result_dtypes("numpy", "exp", [Operand(kind.dtype, rank=kind.rank)]).result)


# --- ufuncs --------------------------------------------------------------------------------------------------------


def _unary(op: str):
    def function(
        b, x, /, out=unsupported(), *, where=unsupported(True), casting=unsupported("same_kind"),
        order=unsupported("K"), dtype=None, subok=unsupported(True), signature=unsupported(),
    ):  # fmt: skip
        return getattr(b, op)(*computed_in(b, dtype, x))

    return function


def _unary_test(op: str):
    def function(
        b, x, /, out=unsupported(), *, where=unsupported(True), casting=unsupported("same_kind"),
        order=unsupported("K"), dtype=unsupported(), subok=unsupported(True), signature=unsupported(),
    ):  # fmt: skip
        return getattr(b, op)(as_array(b, x))

    return function


def _binary(op: str):
    def function(
        b, x1, x2, /, out=unsupported(), *, where=unsupported(True), casting=unsupported("same_kind"),
        order=unsupported("K"), dtype=None, subok=unsupported(True), signature=unsupported(),
    ):  # fmt: skip
        operands = computed_in(b, dtype, x1, x2)
        if op == "power" and type(x2) is float and x2 == 0.5:
            return _half_power(b, *operands)
        return getattr(b, op)(*operands)

    return function


def _half_power(b: Builder, base: Value, exponent: Value) -> Value:
    """Return the power 0.5: of floats but halves the root, which is NaN at -inf, as NumPy has it."""
    kind = b.type_of(base)
    has_root = kind is not None and kind.dtype.is_float and not kind.dtype.is_half
    return b.sqrt(base) if has_root else b.power(base, exponent)


def _comparison(op: str):
    def function(
        b, x1, x2, /, out=unsupported(), *, where=unsupported(True), casting=unsupported("same_kind"),
        order=unsupported("K"), dtype=unsupported(), subok=unsupported(True), signature=unsupported(),
    ):  # fmt: skip
        return getattr(b, op)(*strong(b, x1, x2))

    return function


def _names(words: str) -> str:
    return " ".join(f"numpy.{word}" for word in words.split())


for _op, _words in _UNARY.items():
    register(_names(_words), _unary(_op), _op)
for _op, _words in _TESTS.items():
    register(_names(_words), _unary_test(_op), _op)
for _op, _words in _BINARY.items():
    register(_names(_words), _binary(_op), "power sqrt" if _op == "power" else _op)
for _op in _COMPARISONS:
    register(_names(_op), _comparison(_op), _op)


@spelling("numpy.rint", ops="round")
def _(b, x, /, out=unsupported(), *, where=unsupported(True), dtype=None):
    return b.round(float_of(b, x) if dtype is None else b.cast(x, numpy_dtype(b, dtype)))


@spelling("numpy.fabs", ops="abs")
def _(b, x, /, out=unsupported(), *, where=unsupported(True), dtype=None):
    return b.abs(float_of(b, x) if dtype is None else b.cast(x, numpy_dtype(b, dtype)))


register("numpy.fix", lambda b, x, out=unsupported(): b.trunc(as_array(b, x)), "trunc")


@spelling("numpy.float_power", ops="power")
def _(b, x1, x2, /, out=unsupported(), *, where=unsupported(True)):
    dtype = COMPLEX128 if is_complex(b, x1) or is_complex(b, x2) else FLOAT64
    return b.power(b.cast(x1, dtype), b.cast(x2, dtype))


@spelling("numpy.divmod", ops="floor_divide remainder")
def _(b, x1, x2, /, out=unsupported(), *, where=unsupported(True)):
    x1, x2 = strong(b, x1, x2)
    return b.floor_divide(x1, x2), b.remainder(x1, x2)


@spelling("numpy.round numpy.around", ops="round multiply divide cast power where")
def _round(b, a, decimals=0, out=unsupported()):
    a = as_array(b, a)
    kind = b.type_of(a)
    if b.type_of(decimals) is not None:
        return _round_to(b, a, decimals)
    if not helpers.is_integer(decimals):
        b.fail(f"a number of decimals is an integer, not {decimals!r}")
    if decimals == 0 or (kind.dtype.is_integer and decimals > 0):
        return b.round(a)
    # As NumPy: scaled by a power of ten, in float64 for integers, and back.
    first, last = (b.multiply, b.divide) if decimals > 0 else (b.divide, b.multiply)
    scale = 10 ** abs(decimals)
    return b.cast(last(b.round(first(a, scale)), scale), kind.dtype)


def _round_to(b, a, decimals):
    """Round to a number of decimals that is known at run time."""
    kind = b.type_of(a).dtype
    # Powers of ten are exact in float64.
    scale = b.cast(b.power(10.0, b.cast(b.abs(decimals), "float64")), kind if kind.is_inexact else "float64")
    places = b.divide(b.round(b.multiply(a, scale)), scale)
    tens = b.multiply(b.round(b.divide(a, scale)), scale)
    if not kind.is_integer:
        a = b.where(b.equal(decimals, 0), b.round(a), places)
    return b.cast(b.where(b.less(decimals, 0), tens, a), kind)


@spelling("numpy.where", ops="where")
def _(b, condition, x=None, y=None, /):
    if x is None and y is None:
        # It imports this file.
        from mlirtri.dialect.spellings.numpy_api.selection import indices_of

        return indices_of(b, condition, "numpy.where")
    if x is None or y is None:
        b.fail("numpy.where takes a condition alone, or two choices", help="numpy.where(condition, x, y)")
    return b.where(condition, x, y)


@spelling("numpy.clip", ops="clip minimum maximum")
def clip(b, a, a_min=None, a_max=None, out=unsupported(), *, min=None, max=None):
    """Return `numpy.clip`; the method passes its bounds as `a_min` and `a_max`."""
    low, high = (a_min if min is None else min), (a_max if max is None else max)
    a = as_array(b, a)
    dtype = b.type_of(a).dtype
    if dtype.is_integer:
        # NumPy drops bounds beyond the dtype's range, which therefore need not fit it.
        limits = (0, 2**dtype.bits - 1) if dtype.is_unsigned else (-(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1)
        low = None if type(low) is int and low <= limits[0] else low
        high = None if type(high) is int and high >= limits[1] else high
    return a if low is None and high is None else b.clip(a, low, high)


@spelling("numpy.errstate", ops="")
def _(b, *, all=None, divide=None, over=None, under=None, invalid=None):
    """Set nothing: kernels report no floating-point errors."""
    if any(setting in ("raise", "call", "log") for setting in (all, divide, over, under, invalid)):
        b.fail("kernels do not report floating-point errors", help="test the result with numpy.isfinite")


# --- products ------------------------------------------------------------------------------------------------------


@spelling("numpy.matmul", ops="matmul")
def _(b, x1, x2, /, out=unsupported(), *, dtype=None):
    return b.matmul(*computed_in(b, dtype, x1, x2))


@spelling("numpy.dot", ops="dot multiply")
def _dot(builder, a, b, out=unsupported()):
    if not helpers.shape_of(builder, a) or not helpers.shape_of(builder, b):
        return builder.multiply(*arrays(builder, a, b))
    return builder.dot(a, b)


@spelling("numpy.vdot", ops="dot reshape conj")
def _(builder, a, b, /):
    a, b = (builder.reshape(x, (-1,)) for x in arrays(builder, a, b))
    # The conjugate of a bool is an integer.
    return builder.dot(builder.conj(a) if builder.type_of(a).dtype.is_complex else a, b)


@spelling("numpy.outer", ops="multiply reshape")
def _(builder, a, b, out=unsupported()):
    return builder.multiply(builder.reshape(a, (-1, 1)), builder.reshape(b, (1, -1)))


# --- methods of ufuncs ----------------------------------------------------------------------------------------------


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


def _accumulate(op: str):
    def function(b, array, /, axis=0, dtype=None, out=unsupported()):
        array = as_array(b, array)
        return b.scan(array, op, axis, numpy_dtype(b, dtype))

    return function


_REDUCTIONS = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min"}


@spelling("numpy.subtract.reduce", ops="cut subtract sum reshape cast")
def _(
    b, array, /, axis=0, dtype=None, out=unsupported(), *, keepdims=False, initial=unsupported(),
    where=unsupported(True),
):  # fmt: skip
    array = as_array(b, array)
    axis = helpers.one_axis(b, axis, helpers.rank_of(b, array))
    kind = b.type_of(array).dtype if dtype is None else numpy_dtype(b, dtype)
    if kind.is_bool or helpers.shape_of(b, array)[axis] == 0:
        b.fail("numpy.subtract.reduce takes numbers, at least one along the axis, as in NumPy")
    array = b.cast(array, kind)
    first, rest = b.cut(array, axis, slice(0, 1)), b.cut(array, axis, slice(1, None))
    result = b.subtract(first, b.sum(rest, axis=axis, keepdims=True, dtype=kind))
    return result if keepdims else b.squeeze(result, axis)


for _op in ("add", "multiply", "maximum", "minimum"):
    register(f"numpy.{_op}.accumulate", _accumulate(_REDUCTIONS[_op]), "scan")


def _reduce_bits(op: str):
    def function(
        b, array, /, axis=0, dtype=None, out=unsupported(), *, keepdims=False, initial=unsupported(),
        where=unsupported(True),
    ):  # fmt: skip
        array = as_array(b, array)
        array = array if dtype is None else b.cast(array, numpy_dtype(b, dtype))
        if axis is None and not keepdims:
            array, axis = b.reshape(array, (-1,)), 0
        axis = helpers.one_axis(b, axis, helpers.rank_of(b, array))
        size = helpers.shape_of(b, array)[axis]
        if not isinstance(size, int) or not size:
            b.fail(f"numpy.{op}.reduce takes an axis of a known size, at least one", help="write a loop")
        while size > 1:
            # The first half with the last: of an odd size the element between them is left for the next step.
            half = size // 2
            first, last = b.cut(array, axis, slice(0, half)), b.cut(array, axis, slice(size - half, size))
            parts = getattr(b, op)(first, last), b.cut(array, axis, slice(half, size - half))
            array, size = b.concatenate(parts, axis) if size % 2 else parts[0], size - half
        return array if keepdims else b.squeeze(array, axis)

    return function


for _op in ("bitwise_and", "bitwise_or", "bitwise_xor"):
    register(f"numpy.{_op}.reduce", _reduce_bits(_op), f"{_op} cut concatenate squeeze cast")
