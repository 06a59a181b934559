"""What the language functions of complex numbers mean: their parts, conjugates and angles, and small constant powers.

Each is ``name(b, …)`` with the Python signature that the frontend and the spellings call; `b` is the `Language`.
"""

from __future__ import annotations

from math import pi
from typing import Any

from mlirtri.dialect.builder import Tensor
from mlirtri.dialect.promotion.rules import common_dtype
from mlirtri.errors import KernelTypeError
from mlirtri.lowering.frontend.language.builder import Language, language
from mlirtri.lowering.frontend.language.shapes import full

LARGEST_POWER = 100
"""NumPy multiplies for integer exponents below this one and takes logarithms from there on."""


@language
def real(b: Language, x: Any) -> Any:
    """The real part; of a real number, itself."""
    return _weak_as(x, b.tri.real(_own(b, x))) if _is_complex(b, x) else x


@language
def imag(b: Language, x: Any) -> Any:
    """The imaginary part; NumPy has zeros of a real array, torch refuses."""
    if _is_complex(b, x):
        return _weak_as(x, b.tri.imag(_own(b, x)))
    if b.semantics == "torch":
        b.fail(f"torch.imag takes complex tensors, not {b.operand(x)}", help="the imaginary part of real numbers is 0")
    of = _own(b, x).type
    return full(b, of.shape, 0, of.dtype)


@language
def conj(b: Language, x: Any) -> Any:
    """The conjugate; of a real number, itself."""
    return _weak_as(x, b.tri.conj(_own(b, x))) if _is_complex(b, x) else x


@language
def angle(b: Language, x: Any) -> Any:
    """The angle to the positive real axis in radians: of a real number 0 or pi."""
    if _is_complex(b, x):
        return b.atan2(b.imag(x), b.real(x))
    if b.semantics == "numpy":
        return b.atan2(0, x)
    x = b.multiply(b.tensor(x), 1.0)
    return b.where(b.isnan(x), x, b.where(b.less(x, 0), b.tensor(pi, x.type.dtype), b.tensor(0.0, x.type.dtype)))


@language
def complex(b: Language, real: Any, imaginary: Any) -> Tensor:
    """A complex number of two real ones, which are cast to one float dtype of 32 or 64 bits."""
    operands = [b.operand(part) for part in (real, imaginary)]
    if any(operand.own.is_complex for operand in operands):
        raise KernelTypeError("the parts of a complex number are real", help="write x + 1j * y")
    dtype = common_dtype(b.semantics, [*operands, b.operand(0j)]).part
    return b.tri.emit("complex", b.tensor(real, dtype), b.tensor(imaginary, dtype))


def integer_power(b: Language, base: Tensor, exponent: int) -> Tensor:
    """base to an integer exponent that is known, by repeated squaring, as `npy_cpow` does."""
    left, square, result = abs(exponent), base, None
    while left:
        if left & 1:
            result = square if result is None else b.tri.multiply(result, square)
        left >>= 1
        square = b.tri.square(square) if left else square
    if result is None:
        return b.tri.constant(1, base.type.dtype, base.type.shape)
    return b.tri.reciprocal(result) if exponent < 0 else result


def known_exponent(y: Any) -> int | None:
    """The small integer that a Python number is, when it is one."""
    if isinstance(y, Tensor) or y != y or getattr(y, "imag", 0) or abs(y) >= LARGEST_POWER:
        return None
    return int(y.real) if int(y.real) == y else None


def _own(b: Language, x: Any) -> Tensor:
    """x in the dtype that it has by itself: Python's for Python numbers."""
    return b.tensor(x, b.operand(x).own)


def _is_complex(b: Language, x: Any) -> bool:
    return b.operand(x).own.is_complex


def _weak_as(x: Any, result: Tensor) -> Tensor:
    """The result, weak when x is a Python number."""
    is_weak = not isinstance(x, Tensor) or x.weak
    return Tensor(result.value, result.type, weak=True) if is_weak else result
