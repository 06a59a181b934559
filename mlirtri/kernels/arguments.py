"""Kernel arguments as the command line writes them: ``a=f32[2,3]``, ``n=3``, ``axis=(0,1)``, ``dtype=f16``.

Refuses anything else with the spellings that exist.
"""

from __future__ import annotations

import ast
import re
import zlib
from typing import Any

import numpy as np

from mlirtri.dialect.base.dtypes import DTYPES, find_dtype
from mlirtri.dialect.base.tensor_type import TensorType
from mlirtri.errors import KernelTypeError, KernelValueError
from mlirtri.language.names import Tensor
from mlirtri.language.signature import shown_type
from mlirtri.lowering.core.target import Target

_TENSOR = re.compile(r"(?:(?:mlirtri|mt|torch|np|numpy)\.)?(\w+)\s*(?:\[([\d\s,]*)\])?")
_FIRST = 8
"""How many values of a result are shown."""
_SPELLINGS = "write NAME=f32[2,3] for a tensor, or a Python literal such as n=3, axis=(0,1), mode='\"mean\"'"


def parse_argument(text: str) -> tuple[str, Any]:
    """Return name and value of one ``NAME=VALUE``; raises `KernelValueError`."""
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


def device_for(target: Target) -> str:
    """Return torch's device for a target; the CPU if it is missing, so that the kernel reports it."""
    import torch  # late: `mlirtri emit` needs none

    return "cuda" if target.is_cuda and torch.cuda.is_available() else "cpu"


def random_array(name: str, type_: TensorType) -> np.ndarray:
    """Return reproducible random data: normal floats and complex parts, integers 1 to 9, booleans.

    So division by integers is defined and products stay exact.
    """
    generator = np.random.default_rng(zlib.crc32(name.encode()))
    if type_.dtype.is_complex:
        real, imaginary = generator.standard_normal((2, *type_.shape))
        return np.asarray(real + 1j * imaginary).astype(type_.dtype.numpy)
    if type_.dtype.is_float:
        return np.asarray(generator.standard_normal(type_.shape)).astype(type_.dtype.numpy)
    if type_.dtype.is_bool:
        return np.asarray(generator.integers(0, 2, type_.shape)).astype(bool)
    return np.asarray(generator.integers(1, 10, type_.shape)).astype(type_.dtype.numpy)


def random_tensor(name: str, type_: TensorType, device: str = "cpu") -> Any:
    """Return `random_array` as a torch tensor."""
    from mlirtri.calls.arrays import as_torch  # loads torch

    return as_torch(random_array(name, type_)).to(device)


def summary(result: Any, name: str = "result") -> list[str]:
    """Return one or two lines per value of a kernel's result: dtype, shape, first values."""
    if result is None:
        return [f"{name}: None"]
    if isinstance(result, (tuple, list)):
        return [line for index, part in enumerate(result) for line in summary(part, f"{name}[{index}]")]
    # NumPy has no bfloat16.
    is_array = not hasattr(result, "detach")
    values = np.asarray(result) if is_array else _widened(result).numpy()
    shown = np.array2string(values.reshape(-1)[:_FIRST], precision=6, separator=", ", max_line_width=200)
    ellipsis = ", ..." if values.size > _FIRST else ""
    return [f"{name}: {shown_type(values if is_array else result)}", f"  {shown[1:-1].strip()}{ellipsis}"]


def _widened(tensor: Any) -> Any:
    """Return the tensor on the CPU, floats as float64, without lazy negation or conjugate."""
    tensor = tensor.detach().cpu().resolve_conj().resolve_neg()
    return tensor.double() if tensor.dtype.is_floating_point else tensor
