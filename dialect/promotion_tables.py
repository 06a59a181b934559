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
    "?": "?bhiqBHIQeEfd",
    "b": "bbhiqh---eEfd",
    "h": "hhhiqh---eEfd",
    "i": "iiiiqi---eEfd",
    "q": "qqqqqq---eEfd",
    "B": "BhhiqB---eEfd",
    "H": "H-----H--eEfd",
    "I": "I------I-eEfd",
    "Q": "Q-------QeEfd",
    "e": "eeeeeeeeeeffd",
    "E": "EEEEEEEEEfEfd",
    "f": "ffffffffffffd",
    "d": "ddddddddddddd",
}
"""`torch.promote_types(row, column)`; ``-`` is refused."""
