"""Print float64 constants of CUDA source exactly: TVM prints fifteen decimals, of which 1e-16 has none.

A constant that would be rounded becomes a call that holds its bits, and after printing a hexadecimal literal, with its
value as a comment, as TVM prints float32 constants: ``0x1.5555555555555p-2/*3.333333e-01*/``.
"""

from __future__ import annotations

import re
import struct
from math import isfinite
from typing import Any

from mlirtri.lowering.toolchain.tvm_names import PrimFunc, structural_map, tirx

_NAME = "mlirtri_double"
_CALL = re.compile(rf"{_NAME}\(\(int64_t\)(-?\d+)(?:LL)?\)")


def with_marked_doubles(function: PrimFunc) -> PrimFunc:
    """Return the function with a call in place of each float64 constant that fifteen decimals do not give."""
    return function.with_body(structural_map(function.body, (tirx.FloatImm, _marked), order="post"))


def _marked(number: Any) -> Any:
    value = float(number.value)
    if str(number.ty.dtype) != "float64" or not isfinite(value) or float(f"{value:.15f}") == value:
        return number
    [bits] = struct.unpack("<q", struct.pack("<d", value))
    return tirx.call_pure_extern("float64", _NAME, tirx.IntImm("int64", bits))


def with_literals(source: str) -> str:
    """Return CUDA source with the literal that each such call stands for."""
    return _CALL.sub(lambda match: _literal(int(match[1])), source)


def _literal(bits: int) -> str:
    [value] = struct.unpack("<d", struct.pack("<q", bits))
    return f"{value.hex()}/*{value:.6e}*/"
