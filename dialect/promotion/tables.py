"""Dtype promotion tables of NumPy and torch.

`tests/dialect/promotion/test_promotion.py` compares every cell with the libraries.

One letter per dtype, in the order of `dialect.base.dtypes.DTYPES`: NumPy's character code, ``?`` bool, ``bhiq`` int8 to
int64, ``BHIQ`` uint8 to uint64, ``e`` float16, ``f`` float32, ``d`` float64, ``F`` complex64, ``D`` complex128, and
``E`` for bfloat16, which NumPy lacks. Rows are ordered like columns; a row that ends before a column refuses it.
"""

from __future__ import annotations

from mlirtri.dialect.base.dtypes import DTYPES

LETTERS = dict(zip("?bhiqBHIQeEfdFD", DTYPES.values(), strict=True))
LETTER_OF = {dtype.name: letter for letter, dtype in LETTERS.items()}

NUMPY_SAFE_CASTS = {
    "?": "?bhiqBHIQeEfdFD",
    "b": "bhiqeEfdFD",
    "h": "hiqfdFD",
    "i": "iqdD",
    "q": "qdD",
    "B": "hiqBHIQeEfdFD",
    "H": "iqHIQfdFD",
    "I": "qIQdD",
    "Q": "QdD",
    "e": "efdFD",
    "E": "EfdFD",
    "f": "fdFD",
    "d": "dD",
    "F": "FD",
    "D": "D",
}
"""`numpy.can_cast(row, column)`; bfloat16 is that of ml_dtypes."""

NUMPY_LOOP_ORDER = "?bBhHiIqQeEfdFD"
"""A ufunc runs its first loop that all operands cast to safely, tried in this order."""

NUMPY_NO_COMMON = {"E": "hiqHIQe"}
"""bfloat16 has ufunc loops with these dtypes (in float32 or float64), but `numpy.result_type` refuses them."""

TORCH_PROMOTION = {
    "?": "?bhiqB---eEfdFD",
    "b": "bbhiqh---eEfdFD",
    "h": "hhhiqh---eEfdFD",
    "i": "iiiiqi---eEfdFD",
    "q": "qqqqqq---eEfdFD",
    "B": "BhhiqB---eEfdFD",
    "H": "------H--eEfd--",
    "I": "-------I-eEfd--",
    "Q": "--------QeEfd--",
    "e": "eeeeeeeeeeffdFD",
    "E": "EEEEEEEEEfEfdFD",
    "f": "ffffffffffffdFD",
    "d": "dddddddddddddDD",
    "F": "FFFFFF---FFFDFD",
    "D": "DDDDDD---DDDDDD",
}
"""`torch.promote_types(row, column)`; ``-`` is refused."""

# Rows for ops whose operands have one common dtype: the dtype of the computation, or ``-`` for refused.
SAME = "?bhiqBHIQeEfd"
NO_BOOL = "-bhiqBHIQeEfd"
BITS = "?bhiqBHIQ----"
INTEGERS = "-bhiqBHIQ----"
FLOATS = "---------eEfd"
COMPLEX = "FD"
"""The last letters of rows that take complex dtypes."""

FLOAT_FUNCTIONS = (
    "exp", "exp2", "log", "log2", "log10", "log1p", "expm1", "sqrt", "rsqrt", "sin", "cos", "tan", "asin", "acos",
    "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "cbrt", "erf", "sigmoid",
)  # fmt: skip
NETWORK_FUNCTIONS = ("gelu", "silu", "softplus", "softmax", "log_softmax", "layer_norm", "rms_norm")
COMPARISONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
LOGICAL = ("logical_and", "logical_or", "logical_xor", "logical_not")
PREDICATES = ("isnan", "isinf", "isfinite", "signbit")
ROUNDINGS = ("floor", "ceil", "round", "trunc")


def _spread(*groups: tuple[tuple[str, ...], str]) -> dict[str, str]:
    return {name: row for names, row in groups for name in names}


NUMPY_LOOPS = _spread(
    (("add", "multiply", "minimum", "maximum", "fmin", "fmax", *COMPARISONS), "?bBhHiIqQeEfdFD"),
    (("floor_divide", "remainder", "fmod"), "bBhHiIqQeEfd"),
    (("subtract", "power"), "bBhHiIqQeEfdFD"),
    (("bitwise_and", "bitwise_or", "bitwise_xor"), "?bBhHiIqQ"),
    (("left_shift", "right_shift"), "bBhHiIqQ"),
    (("atan2", "hypot", "copysign", "logaddexp", "logaddexp2"), "eEfd"),
    (("matmul", "clip"), "?bBhHiIqQefdFD"),
)
"""The loops of n-ary ufuncs, a subset of `NUMPY_LOOP_ORDER`; `clip` is the one with both bounds."""

NUMPY_UNARY = _spread(
    (("floor", "ceil", "trunc"), SAME),
    (("abs", "max", "min", "argmax", "argmin"), SAME + COMPLEX),
    (("negative", "sign"), NO_BOOL + COMPLEX),
    (("round",), "ebhiqBHIQeEfdFD"),
    (("bitwise_not",), BITS),
    (("square",), "bbhiqBHIQeEfdFD"),
    (("reciprocal",), FLOATS + COMPLEX),
    (("relu",), "qbhiqBHIQeEfd"),
    ((*FLOAT_FUNCTIONS, *NETWORK_FUNCTIONS), "eefddefddeEfdFD"),
    (("cbrt",), "eefddefddeEfd"),
    (("sum", "prod"), "qqqqqQQQQeEfdFD"),
    (("mean", "var", "std"), "dddddddddeEfdFD"),
)
"""Compute dtypes of unary ufuncs and reductions; what NumPy lacks follows `exp`, `relu` follows `maximum`.
Integer `reciprocal`, 0 nearly everywhere and undefined at 0, is refused."""

TORCH_ROWS = _spread(
    (("minimum", "maximum", "fmin", "fmax", *COMPARISONS), SAME),
    (("add", "multiply", "where", "concatenate", "stack", "equal", "not_equal"), SAME + COMPLEX),
    (("max", "min", "sign"), SAME),
    (("floor_divide", "remainder", "fmod", "clip", "relu", "argmax", "argmin", *ROUNDINGS), NO_BOOL),
    (("subtract", "power", "matmul", "dot", "negative", "abs"), NO_BOOL + COMPLEX),
    (("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not"), BITS),
    (("left_shift", "right_shift"), INTEGERS),
    (("divide", "reciprocal", *FLOAT_FUNCTIONS), "fffffffffeEfdFD"),
    (("atan2", "copysign", "erf"), "fffffffffeEfd"),
    (("square",), "qbhiqBHIQeEfdFD"),
    (("sum", "prod"), "qqqqqqqqqeEfdFD"),
    (("mean", "var", "std", "logaddexp", "silu", "rms_norm"), FLOATS + COMPLEX),
    (("hypot", "logaddexp2", "gelu", "softplus", "softmax", "log_softmax", "layer_norm"), FLOATS),
)
"""torch's compute dtype per common dtype. Where torch only lacks a CPU kernel for uint16 to uint64, uint8's rule."""

SCALAR_OPS = (
    "add", "subtract", "multiply", "divide", "floor_divide", "remainder", "power", "minimum", "maximum", "atan2",
    "fmod", "hypot", "copysign", "logaddexp", "logaddexp2", "fmin", "fmax", "where", "clip", "negative", "abs", "sign",
    "square", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "left_shift", "right_shift", *COMPARISONS,
    *LOGICAL, *PREDICATES, *ROUNDINGS, *FLOAT_FUNCTIONS,
)  # fmt: skip
"""Ops that follow Python's rules when all operands are Python scalars."""
