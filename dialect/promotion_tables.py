"""What NumPy and torch do with dtypes, as data. `tests/test_promotion.py` compares every cell with the libraries.

One character per dtype, in the order of `dialect.dtypes.DTYPES`: ``?`` bool, ``bhiq`` int8 to int64, ``BHIQ`` uint8 to
uint64, ``e`` float16, ``E`` bfloat16, ``f`` float32, ``d`` float64. Rows are ordered like columns.
"""

from __future__ import annotations

from mlirtri.dialect.dtypes import DTYPES

LETTERS = dict(zip("?bhiqBHIQeEfd", DTYPES.values(), strict=True))
LETTER_OF = {dtype.name: letter for letter, dtype in LETTERS.items()}

NUMPY_SAFE_CASTS = {
    "?": "?bhiqBHIQeEfd",
    "b": "bhiqeEfd",
    "h": "hiqfd",
    "i": "iqd",
    "q": "qd",
    "B": "hiqBHIQeEfd",
    "H": "iqHIQfd",
    "I": "qIQd",
    "Q": "Qd",
    "e": "efd",
    "E": "Efd",
    "f": "fd",
    "d": "d",
}
"""`numpy.can_cast(row, column)`; bfloat16 is that of ml_dtypes."""

NUMPY_LOOP_ORDER = "?bBhHiIqQeEfd"
"""A ufunc runs its first loop that all operands cast to safely, tried in this order."""

NUMPY_NO_COMMON = {"E": "hiqHIQe"}
"""bfloat16 has ufunc loops with these dtypes (in float32 or float64), but `numpy.result_type` gives them no dtype."""

TORCH_PROMOTION = {
    "?": "?bhiqB---eEfd",
    "b": "bbhiqh---eEfd",
    "h": "hhhiqh---eEfd",
    "i": "iiiiqi---eEfd",
    "q": "qqqqqq---eEfd",
    "B": "BhhiqB---eEfd",
    "H": "------H--eEfd",
    "I": "-------I-eEfd",
    "Q": "--------QeEfd",
    "e": "eeeeeeeeeeffd",
    "E": "EEEEEEEEEfEfd",
    "f": "ffffffffffffd",
    "d": "ddddddddddddd",
}
"""`torch.promote_types(row, column)`; ``-`` is refused."""

# Rows for ops whose operands have one common dtype: the dtype of the computation, or ``-`` for refused.
SAME = "?bhiqBHIQeEfd"
NO_BOOL = "-bhiqBHIQeEfd"
BITS = "?bhiqBHIQ----"
INTEGERS = "-bhiqBHIQ----"
FLOATS = "---------eEfd"

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
    (("add", "multiply", "minimum", "maximum", "fmin", "fmax", *COMPARISONS), "?bBhHiIqQeEfd"),
    (("subtract", "floor_divide", "remainder", "fmod", "power"), "bBhHiIqQeEfd"),
    (("bitwise_and", "bitwise_or", "bitwise_xor"), "?bBhHiIqQ"),
    (("left_shift", "right_shift"), "bBhHiIqQ"),
    (("atan2", "hypot", "copysign", "logaddexp", "logaddexp2"), "eEfd"),
    (("matmul", "clip"), "?bBhHiIqQefd"),
)
"""The loops of the ufuncs with several operands, a part of `NUMPY_LOOP_ORDER`; `clip` is the one with both bounds."""

NUMPY_UNARY = _spread(
    (("abs", "floor", "ceil", "trunc", "max", "min", "argmax", "argmin"), SAME),
    (("negative", "sign"), NO_BOOL),
    (("round",), "ebhiqBHIQeEfd"),
    (("bitwise_not",), BITS),
    (("square",), "bbhiqBHIQeEfd"),
    (("reciprocal",), FLOATS),
    (("relu",), "qbhiqBHIQeEfd"),
    ((*FLOAT_FUNCTIONS, *NETWORK_FUNCTIONS), "eefddefddeEfd"),
    (("sum", "prod"), "qqqqqQQQQeEfd"),
    (("mean", "var", "std"), "dddddddddeEfd"),
)
"""As the ufuncs and reductions do; what NumPy lacks follows `exp`, and `relu` is `maximum(x, 0)`.
NumPy's integer `reciprocal` is 0 nearly everywhere and undefined at 0: refused."""

TORCH_ROWS = _spread(
    (("add", "multiply", "minimum", "maximum", "fmin", "fmax", "where", "concatenate", "stack", *COMPARISONS), SAME),
    (("max", "min", "sign"), SAME),
    (("subtract", "floor_divide", "remainder", "fmod", "power", "clip", "matmul", "dot"), NO_BOOL),
    (("negative", "abs", "relu", "argmax", "argmin", *ROUNDINGS), NO_BOOL),
    (("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not"), BITS),
    (("left_shift", "right_shift"), INTEGERS),
    (("divide", "atan2", "copysign", "reciprocal", *FLOAT_FUNCTIONS), "fffffffffeEfd"),
    (("square",), "qbhiqBHIQeEfd"),
    (("sum", "prod"), "qqqqqqqqqeEfd"),
    (("mean", "var", "std", "hypot", "logaddexp", "logaddexp2", *NETWORK_FUNCTIONS), FLOATS),
)
"""What torch does with the common dtype. Where torch lacks no more than a CPU kernel for
uint16 to uint64, the rule is uint8's."""

SCALAR_OPS = (
    "add", "subtract", "multiply", "divide", "floor_divide", "remainder", "power", "minimum", "maximum", "atan2",
    "fmod", "hypot", "copysign", "logaddexp", "logaddexp2", "fmin", "fmax", "where", "clip", "negative", "abs", "sign",
    "square", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "left_shift", "right_shift", *COMPARISONS,
    *LOGICAL, *PREDICATES, *ROUNDINGS, *FLOAT_FUNCTIONS,
)  # fmt: skip
"""What Python and `math` do with numbers."""
