"""Kernel arguments as the command line writes them: ``a=f32[2,3]``, ``n=i32:1..9``, ``n=3``, ``axis=(0,1)``.

A value is an abstract tensor (a run-time number is one of rank 0), a dtype or a Python literal.
"""

from __future__ import annotations

import ast
import re
import zlib
from dataclasses import replace
from typing import Any

import numpy as np

from mlirtri.dialect.base.dtypes import DTYPES, DType, find_dtype
from mlirtri.dialect.base.tensor_type import TensorType
from mlirtri.errors import KernelMemoryError, KernelTypeError, KernelValueError
from mlirtri.language.arguments import shown_type
from mlirtri.language.names import Tensor
from mlirtri.lowering.core.target import Target

_TYPED = re.compile(r"(?:(?:mlirtri|mt|torch|np|numpy)\.)?(\w+)\s*(?:\[([\d\s,]*)\])?\s*(?::(.*))?", re.DOTALL)
_NAME = re.compile(r"[\w./][\w.:/-]*")
"""Of a parameter, or of the input of a model."""
_AMBIGUOUS = {"float": "f32 or f64", "int": "i32 or i64", "complex": "complex64 or complex128"}
"""Names of dtypes that are of one width in NumPy and of another in torch or C."""
_DIGITS = 19
"""Of the largest size."""
_FIRST = 8
"""How many values of a result are shown."""
_ARGUMENT_FORMS = (
    "write NAME=f32[2,3] for a tensor, NAME=i32:5 or NAME=i32:1..9 for a run-time number, or a Python literal such as "
    "n=3, axis=(0,1), mode='\"mean\"'; KERNEL.NAME=… is for one kernel of several"
)
Bounds = tuple[Any, Any]
"""The least and the greatest value."""


def parse_argument(text: str) -> tuple[str, Any]:
    """Return name and value of one ``NAME=VALUE`` or ``KERNEL.NAME=VALUE``; raises `KernelValueError`.

    Inputs of models have names such as ``input.1`` and ``images:0``, which are no identifiers.
    """
    name, equals, value = text.partition("=")
    name = name.strip()
    if not equals or not _NAME.fullmatch(name):
        raise KernelValueError(f"{text!r} is not NAME=VALUE", help=_ARGUMENT_FORMS)
    return name, _value(name, value.strip())


def _value(name: str, text: str) -> Any:
    match = _TYPED.fullmatch(text)
    if match and match[1] in _AMBIGUOUS:
        raise KernelTypeError(f"{name}: {match[1]!r} has several widths", help=f"say which: {_AMBIGUOUS[match[1]]}")
    if match and (dtype := find_dtype(match[1])) is not None:
        return _typed(name, dtype, match[2], match[3])
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        pass
    if match and (match[2] is not None or match[3] is not None):
        raise KernelTypeError(f"{name}: {match[1]!r} is not a dtype of mlirtri", help=f"use one of {', '.join(DTYPES)}")
    raise KernelValueError(f"{name}: {text!r} is neither a tensor nor a Python literal", help=_ARGUMENT_FORMS)


def _typed(name: str, dtype: DType, sizes: str | None, values: str | None) -> Any:
    if sizes is None and values is None:
        return dtype
    digits = [size.strip() for size in (sizes or "").split(",") if size.strip()]
    if longest := next((size for size in digits if not size.isdecimal() or len(size) > _DIGITS), None):
        raise KernelValueError(f"{name}: {longest[:40]!r} is not a size", help="sizes are 64-bit integers")
    shape = tuple(map(int, digits))
    return replace(Tensor(shape, dtype), bounds=None if values is None else _bounds(name, dtype, values))


def _bounds(name: str, dtype: DType, text: str) -> Bounds:
    least, dots, greatest = text.partition("..")
    low = _number(name, dtype, least)
    high = _number(name, dtype, greatest) if dots else low
    if dots and (dtype.is_complex or not low <= high):
        raise KernelValueError(
            f"{name}: {text!r} is not a range of {dtype}", help=f"write {name}={dtype}:LEAST..GREATEST"
        )
    return low, high


def _number(name: str, dtype: DType, text: str) -> Any:
    try:
        number = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        number = None
    if not _holds(dtype, number):
        raise KernelValueError(f"{name}: expected {dtype}, got {text.strip()!r}", help=_ARGUMENT_FORMS)
    return dtype.python(number)


def _holds(dtype: DType, number: Any) -> bool:
    if dtype.is_bool:
        return isinstance(number, int) and number in (0, 1)
    if dtype.is_integer:
        return isinstance(number, int) and dtype.holds(number)
    return isinstance(number, (int, float) if dtype.is_float else (int, float, complex))


def device_for(target: Target) -> str:
    """Return torch's device for a target; the CPU if it is missing, so that the kernel reports it."""
    import torch  # late: `mlirtri emit` needs none

    return target.device if torch.cuda.is_available() else "cpu"


def random_array(name: str, type_: TensorType, bounds: Bounds | None = None) -> np.ndarray:
    """Return reproducible random data: normal floats and complex parts, integers 1 to 9, booleans.

    So division by integers is defined and products stay exact. With `bounds`, uniform data between the two, inclusive.
    Raises `KernelMemoryError`.
    """
    try:
        return _random_array(name, type_, bounds)
    except (MemoryError, ValueError, OverflowError):  # NumPy's errors for arrays past the memory, and past 64 bits
        raise KernelMemoryError(f"no memory for random data of {name!r}, a {type_}", help="give it smaller") from None


def _random_array(name: str, type_: TensorType, bounds: Bounds | None) -> np.ndarray:
    generator = np.random.default_rng(zlib.crc32(name.encode()))
    dtype, shape = type_.dtype, type_.shape
    if dtype.is_inexact and bounds is not None:
        low, high = bounds
        values = np.full(shape, low) if low == high else generator.uniform(low, high, shape)
        return np.asarray(values).astype(dtype.numpy)
    if dtype.is_complex:
        real, imaginary = generator.standard_normal((2, *shape))
        return np.asarray(real + 1j * imaginary).astype(dtype.numpy)
    if dtype.is_float:
        return np.asarray(generator.standard_normal(shape)).astype(dtype.numpy)
    low, high = bounds or ((0, 1) if dtype.is_bool else (1, 9))
    wide = np.uint64 if dtype.is_unsigned else np.int64
    return np.asarray(generator.integers(low, high, shape, wide, endpoint=True)).astype(dtype.numpy)


def random_tensor(name: str, type_: TensorType, device: str = "cpu", bounds: Bounds | None = None) -> Any:
    """Return `random_array` as a torch tensor."""
    from mlirtri.calls.arrays import as_torch  # loads torch

    return as_torch(random_array(name, type_, bounds)).to(device)


def data_for(name: str, type_: TensorType, given: object, device: str) -> Any:
    """Return the data of a run-time parameter: what is given, or random data for a `Tensor`, a dtype or None.

    Raises `KernelValueError` for a `Tensor` of another type than the parameter's, and where sizes are not known.
    """
    if given is not None and not isinstance(given, (Tensor, DType)):
        return given
    check_said(name, type_, given)
    said = given.type if isinstance(given, Tensor) else None
    if said is not None and not type_.is_static:
        type_ = said
    if not type_.is_static:
        raise KernelValueError(
            f"the sizes of {name!r}, a {type_}, are known at run time only",
            help=f"say them: {name}={type_.dtype}[{','.join('4' * type_.rank)}]",
        )
    return random_tensor(name, type_, device, given.bounds if isinstance(given, Tensor) else None)


def check_said(name: str, type_: TensorType, given: object) -> None:
    """Raise `KernelValueError` for a `Tensor` that is given of another type than the parameter's."""
    if isinstance(given, Tensor) and not _fits(given.type, type_):
        message = f"{name!r} is a {type_}, not a {given.type}"
        raise KernelValueError(message, help=f"leave out --arg {name}, or say its type")


def _fits(said: TensorType, type_: TensorType) -> bool:
    """Return whether data of one type are taken by a parameter of the other; MLIR's integers have no signs."""
    same_bits = said.dtype.is_integer and type_.dtype.is_integer and said.dtype.bits == type_.dtype.bits
    sizes = zip(said.shape, type_.shape, strict=False)
    return (
        (said.dtype == type_.dtype or same_bits)
        and said.rank == type_.rank
        and all(one == size or not isinstance(size, int) for one, size in sizes)
    )


def summary(result: object, name: str = "result") -> list[str]:
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
    tensor = tensor.detach().cpu().resolve_conj().resolve_neg()
    return tensor.double() if tensor.dtype.is_floating_point else tensor
