"""Function names that are valid in MLIR, LLVM, C and TVMScript.

Takes any names. Gives unique identifiers. Refuses nothing.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Sequence


def identifier_of(name: str) -> str:
    """Return a valid symbol: dots, brackets, non-ASCII letters and keywords are replaced."""
    ascii_only = "".join(c if c.isascii() else f"u{ord(c):04x}" for c in name)
    symbol = re.sub(r"\W", "_", ascii_only) or "_"
    if keyword.iskeyword(symbol):
        return f"{symbol}_"
    return f"_{symbol}" if symbol[0].isdigit() else symbol


def kernel_names(functions: Sequence[str]) -> dict[str, str]:
    """Return the kernel names of these functions; valid names stay as they are."""
    names = {function: function for function in functions if identifier_of(function) == function}
    for function in functions:
        wish, count = identifier_of(function), 0
        symbol = wish
        while function not in names and symbol in names.values():
            symbol, count = f"{wish}_{count}", count + 1
        names.setdefault(function, symbol)
    return {function: names[function] for function in functions}
