"""The functions of `numpy.fft`, with NumPy 2's signatures and dtypes; computed in float64 and rounded once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from mlirtri.dialect.base.dtypes import DTYPES, DType
from mlirtri.dialect.spellings.base import fourier, helpers
from mlirtri.dialect.spellings.base.fourier import FORWARD, INVERSE, OPS
from mlirtri.dialect.spellings.base.spelling import Argument, Builder, Value, register, spelling, unsupported
from mlirtri.dialect.spellings.numpy_api.shapes import known_int, rolled
from mlirtri.dialect.spellings.numpy_api.ufuncs import FLOAT64, as_array, is_complex
from mlirtri.errors import KernelDivisionError

Transform = Callable[[Builder, str, Any, Any, Any, Any], Any]
"""Takes the builder, the function's name, an array, lengths, axes and the norm."""


@dataclass(frozen=True)
class Axes:
    """The axes of a transform, each with its length before it, and the length of the last one after an inverse."""

    positions: tuple[int, ...]
    lengths: tuple[int, ...]

    @property
    def points(self) -> int:
        return prod(self.lengths)


def axes_of(b: Builder, name: str, x: Value, sizes: Argument, axes: Argument, of_half: bool = False) -> Axes:
    """Return the axes `axes` of `x` with the lengths `sizes`, which default to those of `x`.

    With `of_half` the last axis holds half of a Hermitian one: n elements stand for ``2 (n - 1)``.
    """
    shape = helpers.shape_of(b, x)
    if axes is None:
        axes = tuple(range(-len(sizes), 0) if isinstance(sizes, (tuple, list)) else range(len(shape)))
    positions = tuple(helpers.one_axis(b, axis, len(shape)) for axis in helpers.as_tuple(axes))
    found = [shape[axis] for axis in positions]
    if any(not isinstance(length, int) for length in found):
        b.fail(f"{name} transforms axes whose lengths are known at compile time, not those of {b.type_of(x)}")
    if of_half and found:
        found[-1] = 2 * (found[-1] - 1)
    if sizes is not None:
        wanted = tuple(known_int(b, size, "the length of a transform") for size in helpers.as_tuple(sizes))
        if len(wanted) != len(found):
            b.fail(f"{name} takes a length for each axis, not {len(wanted)} for {len(found)}")
        found = [length if size == -1 else size for size, length in zip(wanted, found, strict=True)]
    if not found or min(found) < 1:
        b.fail(f"{name} takes at least one axis, and one element or more along each")
    return Axes(positions, tuple(found))


def scale_of(b: Builder, norm: Argument, points: int, sign: int) -> float:
    """Return the factor of a transform of so many points for `norm`: None, "backward", "ortho" or "forward"."""
    if norm not in (None, "backward", "ortho", "forward"):
        b.fail(f"norm is 'backward', 'ortho' or 'forward', not {norm!r}")
    if norm == "ortho":
        return points**-0.5
    scaled_sign = FORWARD if norm == "forward" else INVERSE
    return 1 / points if sign == scaled_sign else 1.0


def swapped_norm(norm: str | None) -> str | None:
    """Return the norm with which a Hermitian transform is computed by one in the other direction."""
    return {None: "forward", "backward": "forward", "forward": "backward"}.get(norm, norm)


def complex_transform(
    b: Builder, name: str, x: Value, sizes: Argument, axes: Argument, norm: Argument, sign: int
) -> Value:
    """Return `fftn` or `ifftn` over the axes, of which `fft` has one and `fft2` two."""
    axes = axes_of(b, name, x, sizes, axes)
    parts = _transformed(b, fourier.parts_of(b, x), axes.positions, axes.lengths, sign)
    return _joined(b, parts, scale_of(b, norm, axes.points, sign), _part_dtype(b, name, x))


def half_transform(b: Builder, name: str, x: Value, sizes: Argument, axes: Argument, norm: Argument) -> Value:
    """Return `rfftn`: of the last axis the half that determines the other one."""
    if is_complex(b, x):
        b.fail(f"{name} takes real elements, not {b.type_of(x)}", help="fft of complex ones")
    axes = axes_of(b, name, x, sizes, axes)
    *others, last = axes.positions
    parts = tuple(fourier.resized(b, part, last, axes.lengths[-1]) for part in fourier.parts_of(b, x))
    parts = fourier.half_transformed(b, parts, last)
    parts = _transformed(b, parts, others, axes.lengths[:-1], FORWARD)
    return _joined(b, parts, scale_of(b, norm, axes.points, FORWARD), _part_dtype(b, name, x))


def real_transform(b: Builder, name: str, x: Value, sizes: Argument, axes: Argument, norm: Argument) -> Value:
    """Return `irfftn`: the real inverse of half a Hermitian array."""
    axes = axes_of(b, name, x, sizes, axes, of_half=True)
    parts = fourier.parts_of(b, x)
    if len(parts) == 1:
        parts = parts[0], b.multiply(parts[0], 0.0)
    *others, last = axes.positions
    parts = _transformed(b, parts, others, axes.lengths[:-1], INVERSE)
    real = fourier.real_from_half(b, parts, last, axes.lengths[-1])
    return b.cast(_scaled(b, real, scale_of(b, norm, axes.points, INVERSE)), _part_dtype(b, name, x))


def _transformed(b: Builder, parts: Value, positions: Sequence[int], lengths: Sequence[int], sign: int) -> Value:
    for axis, length in zip(positions, lengths, strict=True):
        parts = fourier.transformed(b, tuple(fourier.resized(b, part, axis, length) for part in parts), axis, sign)
    return parts


def _part_dtype(b: Builder, name: str, x: Value) -> DType:
    """Return the dtype of the parts of a result: NumPy's, or torch's for a torch kernel."""
    kind = b.type_of(x).dtype
    if kind.is_inexact and not kind.is_half:
        return kind.part if kind.is_complex else kind
    if b.semantics == "torch" and kind.is_half:
        b.fail(f"{name} takes no {kind} on CPUs, as in torch", help="cast to torch.float32 first")
    return DTYPES["float32"] if kind.is_half or b.semantics == "torch" else FLOAT64


def _scaled(b: Builder, x: Value, factor: float) -> Value:
    return x if factor == 1.0 else b.multiply(x, factor)


def _joined(b: Builder, parts: Value, factor: float, dtype: DType) -> Value:
    return b.complex(*(b.cast(_scaled(b, part, factor), dtype) for part in parts))


# --- numpy.fft -----------------------------------------------------------------------------------------------------


def forward(b: Builder, name: str, x: Value, sizes: Argument, axes: Argument, norm: Argument) -> Value:
    """Return `fftn`."""
    return complex_transform(b, name, x, sizes, axes, norm, FORWARD)


def inverse(b: Builder, name: str, x: Value, sizes: Argument, axes: Argument, norm: Argument) -> Value:
    """Return `ifftn`."""
    return complex_transform(b, name, x, sizes, axes, norm, INVERSE)


def lengths(n: Argument) -> tuple[Argument] | None:
    """Return the lengths of the one axis of `fft(x, n)`."""
    return None if n is None else (n,)


def _enter(word: str, transform: Transform) -> None:
    """Register a transform of one axis, of two, and of many."""
    one, two, many = f"numpy.fft.{word}", f"numpy.fft.{word}2", f"numpy.fft.{word}n"

    def of_one(b, a, n=None, axis=-1, norm=None, out=unsupported()):
        return transform(b, one, as_array(b, a), lengths(n), (axis,), norm)

    def of_two(b, a, s=None, axes=(-2, -1), norm=None, out=unsupported()):
        return transform(b, two, as_array(b, a), s, axes, norm)

    def of_many(b, a, s=None, axes=None, norm=None, out=unsupported()):
        return transform(b, many, as_array(b, a), s, axes, norm)

    for name, function in ((one, of_one), (two, of_two), (many, of_many)):
        register(name, function, OPS)


for _word, _transform in {"fft": forward, "ifft": inverse, "rfft": half_transform, "irfft": real_transform}.items():
    _enter(_word, _transform)


@spelling("numpy.fft.hfft", ops=f"conj {OPS}")
def _(b, a, n=None, axis=-1, norm=None, out=unsupported()):
    return real_transform(b, "numpy.fft.hfft", b.conj(as_array(b, a)), lengths(n), (axis,), swapped_norm(norm))


@spelling("numpy.fft.ihfft", ops=f"conj {OPS}")
def _(b, a, n=None, axis=-1, norm=None, out=unsupported()):
    return b.conj(half_transform(b, "numpy.fft.ihfft", as_array(b, a), lengths(n), (axis,), swapped_norm(norm)))


# --- frequencies ---------------------------------------------------------------------------------------------------


def frequencies(b: Builder, name: str, n: Argument, spacing: Value, dtype: DType, half: bool) -> Value:
    """Return the frequencies of the elements of a transform of `n` samples that are `spacing` apart."""
    n = known_int(b, n, f"the length of {name}")
    if n < 1:
        b.fail(f"{name} takes a length of 1 or more, not {n}")
    count = [*range(n // 2 + 1)] if half else [*range((n + 1) // 2), *range(-(n // 2), 0)]
    steps = b.literal([float(step) for step in count], (len(count),), dtype)
    known = b.type_of(spacing) is None
    if known and spacing == 0:
        raise KernelDivisionError(f"{name} divides by a spacing of 0")
    return b.multiply(steps, 1.0 / (n * spacing) if known else b.divide(1.0, b.multiply(spacing, n)))


@spelling("numpy.fft.fftfreq", ops="literal multiply divide")
def _(b, n, d=1.0, device=unsupported()):
    return frequencies(b, "numpy.fft.fftfreq", n, d, FLOAT64, False)


@spelling("numpy.fft.rfftfreq", ops="literal multiply divide")
def _(b, n, d=1.0, device=unsupported()):
    return frequencies(b, "numpy.fft.rfftfreq", n, d, FLOAT64, True)


def shifted(b: Builder, x: Value, axes: Argument, back: bool) -> Value:
    """Return `x` with the zero frequency in the middle of each axis, or `back` at its start."""
    rank = helpers.rank_of(b, x)
    positions = tuple(range(rank)) if axes is None else helpers.as_tuple(axes)
    sizes = [b.number_of(helpers.shape_of(b, x)[helpers.one_axis(b, axis, rank)]) for axis in positions]
    middles = [size // 2 if isinstance(size, int) else b.floor_divide(size, 2) for size in sizes]
    amounts = tuple(-m if isinstance(m, int) else b.negative(m) for m in middles) if back else tuple(middles)
    return rolled(b, x, amounts, positions)


register("numpy.fft.fftshift", lambda b, x, axes=None: shifted(b, as_array(b, x), axes, False), "roll floor_divide")
register(
    "numpy.fft.ifftshift", lambda b, x, axes=None: shifted(b, as_array(b, x), axes, True), "roll floor_divide negative"
)
