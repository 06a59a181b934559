"""Functions, methods and attributes of complex values: parts, conjugates, angles; `cmath` on Python scalars.

On real values they do what the library does: return the value itself, 0 or pi, or refuse.
"""

from __future__ import annotations

import cmath
from collections.abc import Callable
from typing import Any

from mlirtri.dialect.base.dtypes import DTYPES
from mlirtri.dialect.spellings.base import helpers
from mlirtri.dialect.spellings.base.spelling import CONSTANTS, Builder, Value, register, share, spelling, unsupported
from mlirtri.dialect.spellings.numpy_api.ufuncs import as_array, is_complex

COMPLEX128 = DTYPES["complex128"]

CONSTANTS |= {f"cmath.{name}": getattr(cmath, name) for name in ("pi", "e", "tau", "inf", "nan", "infj", "nanj")}


# --- numpy ---------------------------------------------------------------------------------------------------------


register("numpy.real", lambda b, val: b.real(val), "real")
register("numpy.imag", lambda b, val: b.imag(val), "imag")


@spelling("numpy.conjugate numpy.conj", ops="conj")
def _(
    b, x, /, out=unsupported(), *, where=unsupported(True), casting=unsupported("same_kind"), order=unsupported("K"),
    dtype=unsupported(), subok=unsupported(True), signature=unsupported(),
):  # fmt: skip
    return b.conj(as_array(b, x))


@spelling("numpy.angle", ops="angle atan2 imag real multiply")
def _(b, z, deg=False):
    radians = b.angle(as_array(b, z))
    return b.multiply(radians, 180 / cmath.pi) if deg else radians


register("numpy.iscomplexobj", lambda b, x: is_complex(b, x), "")
register("numpy.isrealobj", lambda b, x: not is_complex(b, x), "")
register("numpy.iscomplex", lambda b, x: b.not_equal(b.imag(as_array(b, x)), 0), "imag not_equal")
register("numpy.isreal", lambda b, x: b.equal(b.imag(as_array(b, x)), 0), "imag equal")
register("ndarray.conj ndarray.conjugate", lambda b, a: b.conj(a), "conj")
register("ndarray.real", lambda b, a: b.real(a), "real", attribute=True)
register("ndarray.imag", lambda b, a: b.imag(a), "imag", attribute=True)


# --- torch ---------------------------------------------------------------------------------------------------------


def _part(op: str):
    def function(b, input):
        helpers.require_tensor(b, f"torch.{op}", input)
        return getattr(b, op)(input)

    return function


for _op in ("real", "imag", "conj"):
    register(f"torch.{_op}", _part(_op), _op)
register("torch.conj_physical", _part("conj"), "conj")
register("torch.resolve_conj torch.resolve_neg", lambda b, input: input, "")


@spelling("torch.angle", ops="angle atan2 imag real multiply isnan where less")
def _(b, input, *, out=unsupported()):
    helpers.require_tensor(b, "torch.angle", input)
    return b.angle(input)


@spelling("torch.sgn", ops="sign abs divide equal where full")
def _(b, input, *, out=unsupported()):
    helpers.require_tensor(b, "torch.sgn", input)
    if not is_complex(b, input):
        return b.sign(input)
    size = b.abs(input)
    return b.where(b.equal(size, 0), b.full((), 0, b.type_of(input).dtype), b.divide(input, size))


@spelling("torch.vdot", ops="dot conj")
def _(b, input, other, *, out=unsupported()):
    for x in (input, other):
        helpers.require_rank(b, "each tensor of torch.vdot", x, (1,))
    return b.dot(b.conj(input), other)


register("torch.is_complex", lambda b, input: is_complex(b, input), "")


def _require_floats(b: Builder, name: str, *parts: Value) -> None:
    kinds = [helpers.is_tensor(b, part) and b.type_of(part).dtype for part in parts]
    if kinds[0] != kinds[1] or not kinds[0] or not kinds[0].is_float or kinds[0].bits < 32:
        b.fail(f"{name} takes two tensors, both of float32 or both of float64")


@spelling("torch.complex", ops="complex")
def _(b, real, imag, *, out=unsupported()):
    _require_floats(b, "torch.complex", real, imag)
    return b.complex(real, imag)


@spelling("torch.polar", ops="complex multiply cos sin")
def _(b, abs, angle, *, out=unsupported()):
    _require_floats(b, "torch.polar", abs, angle)
    return b.complex(b.multiply(abs, b.cos(angle)), b.multiply(abs, b.sin(angle)))


@spelling("torch.view_as_real", ops="stack real imag")
def _(b, input):
    if not is_complex(b, input):
        b.fail("torch.view_as_real takes a complex tensor")
    return b.stack((b.real(input), b.imag(input)), -1)


@spelling("torch.view_as_complex", ops="complex split squeeze")
def _(b, input):
    if helpers.shape_of(b, input)[-1:] != (2,):
        b.fail("torch.view_as_complex takes a tensor whose last axis has size 2", help=f"it is {b.type_of(input)}")
    real, imag = (b.squeeze(part, -1) for part in b.split(input, 2, -1))
    return b.complex(real, imag)


share("Tensor", "torch", "conj conj_physical resolve_conj resolve_neg angle is_complex sgn vdot")


register("Tensor.real", lambda b, input: b.real(input), "real", attribute=True)
register("Tensor.imag", lambda b, input: b.imag(input), "imag", attribute=True)
register("Tensor.cfloat", lambda b, input, memory_format=None: b.cast(input, DTYPES["complex64"]), "cast")
register("Tensor.cdouble", lambda b, input, memory_format=None: b.cast(input, COMPLEX128), "cast")


# --- mlirtri -------------------------------------------------------------------------------------------------------

register("mlirtri.complex", lambda b, real, imag: b.complex(real, imag), "complex")

# --- cmath ---------------------------------------------------------------------------------------------------------

# function: its table op for run-time complex scalars
_CMATH = {
    name: name
    for name in ("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp", "log10", "sin", "sinh",
                 "sqrt", "tan", "tanh", "isfinite", "isinf", "isnan")
} | {"log": "log", "phase": "angle"}  # fmt: skip


def _cmath(name: str, op: str) -> Callable[..., Any]:
    def function(b, z, /):
        if b.type_of(z) is None:
            try:
                return getattr(cmath, name)(z)
            except (ValueError, OverflowError, TypeError) as error:
                b.fail(f"cmath.{name}: {error}")
        if helpers.rank_of(b, z):
            b.fail(f"cmath.{name} takes a scalar, not {b.type_of(z)}", help=f"use numpy.{name}")
        result = getattr(b, op)(b.cast(z, COMPLEX128))
        return b.python_scalar(result) if b.type_of(result).dtype.is_inexact else result

    return function


for _name, _op in _CMATH.items():
    register(f"cmath.{_name}", _cmath(_name, _op), f"{_op} cast" + (" atan2 imag real" if _op == "angle" else ""))
