"""Discrete Fourier transforms of known lengths, as products with matrices of roots of unity.

A long length is parted into two factors again and again (J. Cooley and J. Tukey, An algorithm for the machine
calculation of complex Fourier series, 1965). Prime factors beyond `LONGEST` are left to be refused;
lengths that are known at run time only are not parted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from mlirtri.lowering.importers.from_torch.decompositions.rules import decomposes

aten = torch.ops.aten
Tensor = torch.Tensor

LONGEST = 2048
"""Of the transforms by one matrix."""
SHORT = 64
"""Up to here one matrix is not parted."""
_BY_ROOT, _BY_LENGTH = 1, 2
"""torch's numbers of how results are scaled; 0 is not at all."""


@decomposes(aten._fft_c2c.default)
def complex_to_complex(x: Tensor, dim: Sequence[int], normalization: int, forward: bool) -> Any:
    """Along the axes `dim`."""
    lengths = [x.shape[axis] for axis in dim]
    if not all(map(_is_taken, lengths)):
        return NotImplemented
    real, imaginary = x.real, x.imag
    for axis in dim:
        real, imaginary = _along(axis, real, imaginary, -1 if forward else 1)
    return _scaled(torch.complex, lengths, normalization, real, imaginary)


@decomposes(aten._fft_r2c.default)
def real_to_complex(x: Tensor, dim: Sequence[int], normalization: int, onesided: bool) -> Any:
    """Along the axes `dim`; of the last the first half alone if `onesided`, for the other is its mirror image."""
    lengths = [x.shape[axis] for axis in dim]
    if not all(map(_is_taken, lengths)):
        return NotImplemented
    last = dim[-1]
    count = lengths[-1] // 2 + 1 if onesided else lengths[-1]
    if _is_short(lengths[-1]):
        cosine, sine = _roots(lengths[-1], lengths[-1], count, -1, x)
        rows = x.movedim(last, -1)
        real, imaginary = ((rows @ part).movedim(-1, last) for part in (cosine, sine))
    else:
        real, imaginary = (part.narrow(last, 0, count) for part in _along(last, x, torch.zeros_like(x), -1))
    for axis in dim[:-1]:
        real, imaginary = _along(axis, real, imaginary, -1)
    return _scaled(torch.complex, lengths, normalization, real, imaginary)


@decomposes(aten._fft_c2r.default)
def complex_to_real(x: Tensor, dim: Sequence[int], normalization: int, last_dim_size: int) -> Any:
    """The inverse along the axes `dim` of what has a mirror image along the last, which is `last_dim_size` long."""
    lengths = [*[x.shape[axis] for axis in dim[:-1]], last_dim_size]
    if not all(map(_is_taken, lengths)):
        return NotImplemented
    real, imaginary = x.real, x.imag
    for axis in dim[:-1]:
        real, imaginary = _along(axis, real, imaginary, 1)
    last = dim[-1]
    real, imaginary = (part.movedim(last, -1)[..., : last_dim_size // 2 + 1] for part in (real, imaginary))
    found = _from_half(real, imaginary, last_dim_size).movedim(-1, last)
    return _scaled(lambda part: part, lengths, normalization, found)


def _from_half(real: Tensor, imaginary: Tensor, length: int) -> Tensor:
    """Real elements; the imaginary parts of those that are their own mirror image do not count."""
    mirrored = (length + 1) // 2
    if _is_short(length):
        cosine, sine = _roots(length, length // 2 + 1, length, 1, real)
        at = torch.arange(length // 2 + 1, device=real.device).unsqueeze(1)
        twice = torch.where((at > 0) & (at < mirrored), 2.0, 1.0).to(real.dtype)
        inner = imaginary[..., 1:mirrored]
        return real @ (cosine * twice) - inner @ (sine[1:mirrored] * 2)
    ends = torch.zeros_like(imaginary[..., :1])
    inner = imaginary[..., 1:mirrored]
    own = ends if length % 2 == 0 else ends[..., :0]
    imaginary = torch.cat([ends, inner, own, -inner.flip(-1)], -1)
    real = torch.cat([real, real[..., 1:mirrored].flip(-1)], -1)
    return _transformed(real, imaginary, 1)[0]


def _along(axis: int, real: Tensor, imaginary: Tensor, sign: int) -> tuple[Tensor, Tensor]:
    found = _transformed(real.movedim(axis, -1), imaginary.movedim(axis, -1), sign)
    return found[0].movedim(-1, axis), found[1].movedim(-1, axis)


def _transformed(real: Tensor, imaginary: Tensor, sign: int) -> tuple[Tensor, Tensor]:
    """Along the last axis."""
    length = real.shape[-1]
    if _is_short(length):
        cosine, sine = _roots(length, length, length, sign, real)
        return real @ cosine - imaginary @ sine, real @ sine + imaginary @ cosine
    inner = _factor(length)
    outer = length // inner
    # Element j1 * inner + j2 of what goes in; k1 + outer * k2 of what comes out.
    parts = (part.unflatten(-1, (outer, inner)).mT for part in (real, imaginary))
    real, imaginary = (part.mT for part in _transformed(*parts, sign))
    cosine, sine = _roots(length, outer, inner, sign, real)
    real, imaginary = real * cosine - imaginary * sine, real * sine + imaginary * cosine
    real, imaginary = _transformed(real, imaginary, sign)
    return real.mT.flatten(-2), imaginary.mT.flatten(-2)


def _roots(length: Any, rows: Any, columns: Any, sign: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Cosines and sines of row * column * 2 pi / length."""
    row, column = (torch.arange(count, device=like.device) for count in (rows, columns))
    # Whole turns are left out before anything is rounded.
    angles = (row.unsqueeze(1) * column % length).to(torch.float64) * (sign * 2 * math.pi / length)
    return torch.cos(angles).to(like.dtype), torch.sin(angles).to(like.dtype)


def _scaled(of_parts: Callable[..., Tensor], lengths: Sequence[Any], normalization: int, *parts: Tensor) -> Tensor:
    size = math.prod(lengths)
    factor = {_BY_ROOT: size**-0.5, _BY_LENGTH: 1 / size}.get(normalization)
    return of_parts(*(part if factor is None else part * factor for part in parts))


@decomposes(aten.istft.default)
def inverse_short_time(
    z: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Any:
    """`torch.istft`: frames are added where they overlap, over the sum of the squares of their windows."""
    hop, size = hop_length or n_fft // 4, win_length or n_fft
    window = torch.ones(size, dtype=z.dtype.to_real(), device=z.device) if window is None else window
    before = (n_fft - size) // 2
    window = _padded(window, before, n_fft - size - before)
    norm, half, frames = "ortho" if normalized else None, n_fft // 2 + 1, z.mT
    frames = (
        torch.fft.ifft(frames, norm=norm) if return_complex else torch.fft.irfft(frames[..., :half], n_fft, norm=norm)
    )
    total = n_fft + hop * (frames.shape[-2] - 1)
    start = n_fft // 2 if center else 0
    end = total - start if length is None else start + length
    squares = (window * window).expand(frames.shape[-2:])
    signal, envelope = (_overlapped(each, hop, total)[..., start:end] for each in (frames * window, squares))
    aten._assert_scalar((envelope.abs() > 1e-11).all().item(), "torch.istft: the windows leave a gap")
    return _padded(signal / envelope, 0, max(end - total, 0))


def _overlapped(frames: Tensor, hop: int, total: int) -> Tensor:
    """The sum of frames, each of which begins `hop` behind the one before."""
    size = frames.shape[-1]
    pieces = (size + hop - 1) // hop
    parts = _padded(frames, 0, pieces * hop - size).unflatten(-1, (pieces, hop))
    found = _padded(parts[..., 0, :].flatten(-2), 0, (pieces - 1) * hop)
    for at in range(1, pieces):
        found = found + _padded(parts[..., at, :].flatten(-2), at * hop, (pieces - 1 - at) * hop)
    return found[..., :total]


def _padded(x: Tensor, before: int, after: int) -> Tensor:
    return torch.nn.functional.pad(x, (before, after))


def _is_taken(length: Any) -> bool:
    if type(length) is not int:
        return True
    factor = _factor(length)
    return 0 < length <= LONGEST or (factor > 1 and _is_taken(factor) and _is_taken(length // factor))


def _is_short(length: Any) -> bool:
    return type(length) is not int or length <= SHORT or _factor(length) == 1


def _factor(length: int) -> int:
    """The factor of `length` that is nearest to its root, and not beyond; 1 of a prime."""
    return next((factor for factor in range(math.isqrt(length), 1, -1) if length % factor == 0), 1)


def _in_parts(operator: Any) -> Callable[..., Any]:
    """torch's own way to the three transforms, with padding, default axes and scales."""
    # `operator.decompose` would come back to this table.
    composite = torch._C.DispatchKey.CompositeImplicitAutograd
    return lambda *arguments, **options: operator._op_dk(composite, *arguments, **options)


_NAMES = (
    *("fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fft2", "ifft2", "rfft2", "irfft2", "hfft2", "ihfft2"),
    *("fftn", "ifftn", "rfftn", "irfftn", "hfftn", "ihfftn", "fftshift", "ifftshift"),
)
decomposes(aten.stft.default)(_in_parts(aten.stft.default))
decomposes(aten.stft.center)(_in_parts(aten.stft.center))
for _operator in (getattr(aten, f"fft_{name}").default for name in _NAMES):
    decomposes(_operator)(_in_parts(_operator))
