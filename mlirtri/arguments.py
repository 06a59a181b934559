"""Kernel arguments as the command line writes them: ``a=f32[2,3]``, ``n=3``, ``axis=(0,1)``, ``dtype=f16``.

Takes the text after ``--arg``. Gives a name and a value: an abstract tensor, a dtype or a Python literal; and, for runs,
seeded random data in a tensor's place. Refuses anything else with the spellings that exist.
"""

from __future__ import annotations

import ast
import re
import zlib
from typing import Any

import numpy as np

from mlirtri.dialect.dtypes import DTYPES, DType, find_dtype
from mlirtri.errors import KernelTypeError, KernelValueError
from mlirtri.language import Tensor

_TENSOR = re.compile(r"(?:(?:mlirtri|mt|torch|np|numpy)\.)?(\w+)\s*(?:\[([\d\s,]*)\])?")
_SPELLINGS = "write NAME=f32[2,3] for a tensor, or a Python literal such as n=3, axis=(0,1), mode='\"mean\"'"


def parse_argument(text: str) -> tuple[str, Any]:
    """Name and value of one ``NAME=VALUE``; raises `KernelValueError` when it is not one."""
    name, equals, value = text.partition("=")
    name = name.strip()
    if not equals or not name.isidentifier():
        raise KernelValueError(f"{text!r} is not NAME=VALUE", help=_SPELLINGS)
    return name, _value(name, value.strip())


def _value(name: str, text: str) -> Any:
    if (match := _TENSOR.fullmatch(text)) and (dtype := find_dtype(match[1])) is not None:
        if match[2] is None:
            return dtype
        return Tensor(tuple(int(size) for size in match[2].split(",") if size.strip()), dtype)
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        pass
    if match and match[2] is not None:
        raise KernelTypeError(f"{name}: {match[1]!r} is no dtype of mlirtri", help=f"use one of {', '.join(DTYPES)}")
    raise KernelValueError(f"{name}: {text!r} is neither a tensor nor a Python literal", help=_SPELLINGS)


def random_array(name: str, shape: tuple[int, ...], dtype: DType) -> np.ndarray:
    """Data for a parameter, the same in every process: normal floats, small integers, coin flips.

    Integers are 1 to 9, so that division by them is defined and products stay exact.
    """
    generator = np.random.default_rng(zlib.crc32(name.encode()))
    if dtype.is_float:
        return generator.standard_normal(shape).astype(dtype.numpy)
    if dtype.is_bool:
        return generator.integers(0, 2, shape).astype(bool)
    return generator.integers(1, 10, shape).astype(dtype.numpy)


def random_tensor(name: str, shape: tuple[int, ...], dtype: DType, device: str = "cpu") -> Any:
    """`random_array` as a torch tensor."""
    import torch

    array = random_array(name, shape, dtype if dtype.name != "bfloat16" else DTYPES["float32"])
    return torch.from_numpy(np.asarray(array)).to(dtype.torch).to(device)
