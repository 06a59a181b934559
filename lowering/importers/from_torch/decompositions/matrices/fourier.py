"""Decompose discrete Fourier transforms of static lengths into products with matrices of roots of unity.

float32 is transformed in float64: a product with a matrix adds more terms, and so more roundings, than eager does.
Lengths are split by J. Cooley and J. Tukey, An algorithm for the machine calculation of complex Fourier series (1965).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from mlirtri.lowering.importers.from_torch.decomposition_rules import Operator, Results, decomposes

aten = torch.ops.aten
Tensor = torch.Tensor

LARGEST_PRIME = 2048
"""The largest prime length, which one matrix transforms."""
LARGEST_MATRIX = 64
"""The largest composite length that is not split."""
_BY_ROOT, _BY_LENGTH = 1, 2
"""torch's codes of the normalisation; 0 is none."""


@decomposes(aten._fft_c2c.default)
def fft_c2c(x: Tensor, dim: Sequence[int], normalization: int, forward: bool) -> Results:
    """Return the complex transform along the axes `dim`."""
    lengths = [x.shape[axis] for axis in dim]
    if not all(map(_is_supported, lengths)):
        return NotImplemented
    real, imaginary = x.real.double(), x.imag.double()
    for axis in dim:
        real, imaginary = _transform_axis(axis, real, imaginary, -1 if forward else 1)
    return _normalise(x.dtype, lengths, normalization, real, imaginary)


@decomposes(aten._fft_r2c.default)
def fft_r2c(x: Tensor, dim: Sequence[int], normalization: int, onesided: bool) -> Results:
    """Return the transform of real elements along the axes `dim`; of the last axis one half if `onesided`."""
    lengths = [x.shape[axis] for axis in dim]
    if not all(map(_is_supported, lengths)):
        return NotImplemented
    last, kind, x = dim[-1], x.dtype.to_complex(), x.double()
    count = lengths[-1] // 2 + 1 if onesided else lengths[-1]
    if _is_short(lengths[-1]):
        cosine, sine = _roots_of_unity(lengths[-1], lengths[-1], count, -1, x)
        rows = x.movedim(last, -1)
        real, imaginary = ((rows @ part).movedim(-1, last) for part in (cosine, sine))
    else:
        real, imaginary = (part.narrow(last, 0, count) for part in _transform_axis(last, x, torch.zeros_like(x), -1))
    for axis in dim[:-1]:
        real, imaginary = _transform_axis(axis, real, imaginary, -1)
    return _normalise(kind, lengths, normalization, real, imaginary)


@decomposes(aten._fft_c2r.default)
def fft_c2r(x: Tensor, dim: Sequence[int], normalization: int, last_dim_size: int) -> Results:
    """Return the real inverse along the axes `dim` of half a Hermitian tensor, to `last_dim_size`."""
    lengths = [*[x.shape[axis] for axis in dim[:-1]], last_dim_size]
    if not all(map(_is_supported, lengths)):
        return NotImplemented
    real, imaginary = x.real.double(), x.imag.double()
    for axis in dim[:-1]:
        real, imaginary = _transform_axis(axis, real, imaginary, 1)
    last = dim[-1]
    real, imaginary = (part.movedim(last, -1)[..., : last_dim_size // 2 + 1] for part in (real, imaginary))
    result = _real_from_half(real, imaginary, last_dim_size).movedim(-1, last)
    return _normalise(x.dtype.to_real(), lengths, normalization, result)


def _real_from_half(real: Tensor, imaginary: Tensor, length: int) -> Tensor:
    """Return the real inverse transform of the first half; imaginary parts of self-conjugate elements are ignored."""
    mirrored = (length + 1) // 2
    if _is_short(length):
        cosine, sine = _roots_of_unity(length, length // 2 + 1, length, 1, real)
        position = torch.arange(length // 2 + 1, device=real.device).unsqueeze(1)
        twice = torch.where((position > 0) & (position < mirrored), 2.0, 1.0).to(real.dtype)
        inner = imaginary[..., 1:mirrored]
        return real @ (cosine * twice) - inner @ (sine[1:mirrored] * 2)
    ends = torch.zeros_like(imaginary[..., :1])
    inner = imaginary[..., 1:mirrored]
    middle = ends if length % 2 == 0 else ends[..., :0]
    imaginary = torch.cat([ends, inner, middle, -inner.flip(-1)], -1)
    real = torch.cat([real, real[..., 1:mirrored].flip(-1)], -1)
    return _transform(real, imaginary, 1)[0]


def _transform_axis(axis: int, real: Tensor, imaginary: Tensor, sign: int) -> tuple[Tensor, Tensor]:
    result = _transform(real.movedim(axis, -1), imaginary.movedim(axis, -1), sign)
    return result[0].movedim(-1, axis), result[1].movedim(-1, axis)


def _transform(real: Tensor, imaginary: Tensor, sign: int) -> tuple[Tensor, Tensor]:
    length = real.shape[-1]
    if _is_short(length):
        cosine, sine = _roots_of_unity(length, length, length, sign, real)
        return real @ cosine - imaginary @ sine, real @ sine + imaginary @ cosine
    inner = _factor(length)
    outer = length // inner
    # Input element j1 * inner + j2 and result element k1 + outer * k2.
    real, imaginary = (part.unflatten(-1, (outer, inner)).mT for part in (real, imaginary))
    real, imaginary = (part.mT for part in _transform(real, imaginary, sign))
    cosine, sine = _roots_of_unity(length, outer, inner, sign, real)
    real, imaginary = real * cosine - imaginary * sine, real * sine + imaginary * cosine
    real, imaginary = _transform(real, imaginary, sign)
    return real.mT.flatten(-2), imaginary.mT.flatten(-2)


def _roots_of_unity(length: Any, rows: Any, columns: Any, sign: int, like: Tensor) -> tuple[Tensor, Tensor]:
    row, column = (torch.arange(count, device=like.device) for count in (rows, columns))
    # Reduce the angle modulo 2 pi in integers, which is exact.
    angles = (row.unsqueeze(1) * column % length).to(torch.float64) * (sign * 2 * math.pi / length)
    return torch.cos(angles).to(like.dtype), torch.sin(angles).to(like.dtype)


def _normalise(kind: torch.dtype, lengths: Sequence[Any], normalization: int, *parts: Tensor) -> Tensor:
    """Return the tensor of dtype `kind` with these parts, scaled as `normalization` says."""
    size = math.prod(lengths)
    factor = {_BY_ROOT: size**-0.5, _BY_LENGTH: 1 / size}.get(normalization)
    scaled = [(part if factor is None else part * factor).to(kind.to_real()) for part in parts]
    return torch.complex(*scaled) if kind.is_complex else scaled[0]


@decomposes(aten.istft.default)
def istft(
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
) -> Results:
    """Return `torch.istft`: overlapping frames are added and divided by the sum of their squared windows."""
    hop, size = hop_length or n_fft // 4, win_length or n_fft
    window = torch.ones(size, dtype=z.dtype.to_real(), device=z.device) if window is None else window
    before = (n_fft - size) // 2
    window = _padded(window, before, n_fft - size - before)
    norm, half, frames = "ortho" if normalized else None, n_fft // 2 + 1, z.mT
    frames = (
        torch.fft.ifft(frames, norm=norm) if return_complex else torch.fft.irfft(frames[..., :half], n_fft, norm=norm)
    )
    padded_length = n_fft + hop * (frames.shape[-2] - 1)
    start = n_fft // 2 if center else 0
    end = padded_length - start if length is None else start + length
    squares = (window * window).expand(frames.shape[-2:])
    signal, envelope = (
        _overlap_add(operand, hop, padded_length)[..., start:end] for operand in (frames * window, squares)
    )
    aten._assert_scalar((envelope.abs() > 1e-11).all().item(), "torch.istft: the windows leave a gap")
    return _padded(signal / envelope, 0, max(end - padded_length, 0))


def _overlap_add(frames: Tensor, hop: int, length: int) -> Tensor:
    size = frames.shape[-1]
    chunks = (size + hop - 1) // hop
    parts = _padded(frames, 0, chunks * hop - size).unflatten(-1, (chunks, hop))
    result = _padded(parts[..., 0, :].flatten(-2), 0, (chunks - 1) * hop)
    for i in range(1, chunks):
        result = result + _padded(parts[..., i, :].flatten(-2), i * hop, (chunks - 1 - i) * hop)
    return result[..., :length]


def _padded(x: Tensor, before: int, after: int) -> Tensor:
    return torch.nn.functional.pad(x, (before, after))


def _is_supported(length: Any) -> bool:
    if type(length) is not int:
        return True
    factor = _factor(length)
    return 0 < length <= LARGEST_PRIME or (factor > 1 and _is_supported(factor) and _is_supported(length // factor))


def _is_short(length: Any) -> bool:
    return type(length) is not int or length <= LARGEST_MATRIX or _factor(length) == 1


def _factor(length: int) -> int:
    """Return the largest factor of `length` up to its square root: 1 for a prime."""
    return next((factor for factor in range(math.isqrt(length), 1, -1) if length % factor == 0), 1)


def _composite(operator: Operator) -> Callable[..., Results]:
    """Return torch's composite implementation, which reduces an operator to the three transforms."""
    # `operator.decompose` would call the rule of this table again.
    composite = torch._C.DispatchKey.CompositeImplicitAutograd
    return lambda *arguments, **options: operator._op_dk(composite, *arguments, **options)


_NAMES = (
    *("fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fft2", "ifft2", "rfft2", "irfft2", "hfft2", "ihfft2"),
    *("fftn", "ifftn", "rfftn", "irfftn", "hfftn", "ihfftn", "fftshift", "ifftshift"),
)
decomposes(aten.stft.default)(_composite(aten.stft.default))
decomposes(aten.stft.center)(_composite(aten.stft.center))
for _operator in (getattr(aten, f"fft_{name}").default for name in _NAMES):
    decomposes(_operator)(_composite(_operator))
