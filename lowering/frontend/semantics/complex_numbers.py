"""Language functions of complex numbers: parts, conjugates, angles, small constant powers; each is ``name(b, …)``."""

from __future__ import annotations

from math import pi
from typing import Any

from mlirtri.dialect.builder import KernelValue, TensorLike, TriValue
from mlirtri.dialect.promotion.dtype_rules import common_dtype
from mlirtri.errors import KernelTypeError
from mlirtri.lowering.frontend.semantics.builder import Language, language
from mlirtri.lowering.frontend.semantics.shapes import full

LARGEST_POWER = 100
"""NumPy multiplies repeatedly for integer exponents below this one and uses logarithms above."""


@language
def real(b: Language, x: TensorLike) -> KernelValue:
    """Return the real part; a real number itself."""
    return _weak_as(x, b.tri.real(_own(b, x))) if _is_complex(b, x) else x


@language
def imag(b: Language, x: TensorLike) -> KernelValue:
    """Return the imaginary part; of a real array NumPy returns zeros, torch refuses."""
    if _is_complex(b, x):
        return _weak_as(x, b.tri.imag(_own(b, x)))
    if b.semantics == "torch":
        b.fail(f"torch.imag takes complex tensors, not {b.operand(x)}", help="the imaginary part of real numbers is 0")
    real_type = _own(b, x).type
    return full(b, real_type.shape, 0, real_type.dtype)


@language
def conj(b: Language, x: TensorLike) -> KernelValue:
    """Return the conjugate; a real number itself."""
    return _weak_as(x, b.tri.conj(_own(b, x))) if _is_complex(b, x) else x


@language
def angle(b: Language, x: TensorLike) -> KernelValue:
    """Return the argument (phase) in radians; 0 or pi for a real number."""
    if _is_complex(b, x):
        return b.atan2(b.imag(x), b.real(x))
    if b.semantics == "numpy":
        return b.atan2(0, x)
    x = b.multiply(b.tensor(x), 1.0)
    return b.where(b.isnan(x), x, b.where(b.less(x, 0), b.tensor(pi, x.type.dtype), b.tensor(0.0, x.type.dtype)))


@language
def complex(b: Language, real: TensorLike, imaginary: TensorLike) -> TriValue:
    """Return a complex number of two real ones, cast to a common dtype, fp32 or fp64."""
    operands = [b.operand(part) for part in (real, imaginary)]
    if any(operand.own.is_complex for operand in operands):
        raise KernelTypeError("the parts of a complex number are real", help="write x + 1j * y")
    dtype = common_dtype(b.semantics, [*operands, b.operand(0j)]).part
    return b.tri.emit("complex", b.tensor(real, dtype), b.tensor(imaginary, dtype))


def integer_power(b: Language, base: TriValue, exponent: int) -> TriValue:
    """Return base to a constant integer exponent, by repeated squaring, as `npy_cpow` does."""
    remaining, square, result = abs(exponent), base, None
    while remaining:
        if remaining & 1:
            result = square if result is None else b.tri.multiply(result, square)
        remaining >>= 1
        square = b.tri.square(square) if remaining else square
    if result is None:
        return b.tri.constant(1, base.type.dtype, base.type.shape)
    return b.tri.reciprocal(result) if exponent < 0 else result


def known_exponent(y: TensorLike) -> int | None:
    """Return a Python number as a small integer exponent, or None where it is not one."""
    if isinstance(y, TriValue) or y != y or getattr(y, "imag", 0) or abs(y) >= LARGEST_POWER:
        return None
    return int(y.real) if int(y.real) == y else None


def _own(b: Language, x: Any) -> TriValue:
    return b.tensor(x, b.operand(x).own)


def _is_complex(b: Language, x: Any) -> bool:
    return b.operand(x).own.is_complex


def _weak_as(x: Any, result: TriValue) -> TriValue:
    is_weak = not isinstance(x, TriValue) or x.weak
    return TriValue(result.value, result.type, weak=True) if is_weak else result
