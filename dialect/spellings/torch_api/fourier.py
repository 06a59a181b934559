"""The functions of `torch.fft`, with torch's signatures and dtypes; computed in float64 and rounded once."""

from __future__ import annotations

from mlirtri.dialect.base.dtypes import DTYPES, as_dtype
from mlirtri.dialect.spellings.base import helpers
from mlirtri.dialect.spellings.base.fourier import OPS
from mlirtri.dialect.spellings.base.spelling import Argument, Builder, Value, register, unsupported
from mlirtri.dialect.spellings.numpy_api.fourier import (
    Transform,
    forward,
    frequencies,
    half_transform,
    inverse,
    lengths,
    real_transform,
    shifted,
    swapped_norm,
)

_WITH_CONJUGATES = f"conj {OPS}"


def _hermitian(b: Builder, name: str, x: Value, sizes: Argument, axes: Argument, norm: Argument) -> Value:
    return real_transform(b, name, b.conj(x), sizes, axes, swapped_norm(norm))


def _half_hermitian(b: Builder, name: str, x: Value, sizes: Argument, axes: Argument, norm: Argument) -> Value:
    return b.conj(half_transform(b, name, x, sizes, axes, swapped_norm(norm)))


_TRANSFORMS = {
    "fft": forward, "ifft": inverse, "rfft": half_transform, "irfft": real_transform,
    "hfft": _hermitian, "ihfft": _half_hermitian,
}  # fmt: skip


def _enter(word: str, transform: Transform) -> None:
    one, two, many = f"torch.fft.{word}", f"torch.fft.{word}2", f"torch.fft.{word}n"

    def of_one(b, input, n=None, dim=-1, norm=None, *, out=unsupported()):
        return transform(b, one, input, lengths(n), (dim,), norm)

    def of_two(b, input, s=None, dim=(-2, -1), norm=None, *, out=unsupported()):
        return transform(b, two, input, s, helpers.as_tuple(dim), norm)

    def of_many(b, input, s=None, dim=None, norm=None, *, out=unsupported()):
        return transform(b, many, input, s, None if dim is None else helpers.as_tuple(dim), norm)

    for name, function in ((one, of_one), (two, of_two), (many, of_many)):
        register(name, function, _WITH_CONJUGATES)


for _word, _transform in _TRANSFORMS.items():
    _enter(_word, _transform)


def _enter_frequencies(name: str, half: bool) -> None:
    def function(b, n, d=1.0, *, out=unsupported(), dtype=None, layout=unsupported(), device=None, requires_grad=False):
        return frequencies(b, name, n, d, DTYPES["float32"] if dtype is None else as_dtype(dtype), half)

    register(name, function, "literal multiply divide")


_enter_frequencies("torch.fft.fftfreq", False)
_enter_frequencies("torch.fft.rfftfreq", True)
register("torch.fft.fftshift", lambda b, input, dim=None: shifted(b, input, dim, False), "roll floor_divide")
register("torch.fft.ifftshift", lambda b, input, dim=None: shifted(b, input, dim, True), "roll floor_divide negative")
