"""Discrete Fourier transforms along one axis, as products with matrices of roots of unity, on parts in float64.

A length is split into factors of up to `LARGEST_MATRIX` (J. W. Cooley and J. W. Tukey, An algorithm for the machine
calculation of complex Fourier series, 1965). A prime beyond it is a convolution of a length that splits (L. I.
Bluestein, A linear filtering approach to the computation of discrete Fourier transform, 1970).

Parts are a pair ``(real, imaginary)``, or ``(real,)`` for real elements. Lengths are known at compile time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import cos, isqrt, pi, sin
from typing import Any

from mlirtri.dialect.base.dtypes import DTYPES
from mlirtri.dialect.spellings.base import helpers
from mlirtri.dialect.spellings.base.spelling import Builder, Value

FLOAT64, INT64 = DTYPES["float64"], DTYPES["int64"]
LARGEST_MATRIX = 64
"""The longest transform by one matrix."""
LARGEST_LITERAL = 1 << 14
"""The number of elements up to which factors are literals; beyond, the kernel computes them."""
OPS = (
    "cast real imag complex concatenate literal matmul split reshape transpose multiply subtract add pad cut full flip "
    "negative arange remainder cos sin"
)

FORWARD, INVERSE = -1, 1
Parts = tuple[Any, ...]


def parts_of(b: Builder, x: Value) -> Parts:
    """Return the real part, and for complex `x` the imaginary part, in float64."""
    if b.type_of(x).dtype.is_complex:
        return b.cast(b.real(x), FLOAT64), b.cast(b.imag(x), FLOAT64)
    return (b.cast(x, FLOAT64),)


def transformed(b: Builder, parts: Parts, axis: int, sign: int) -> Parts:
    """Return the complex transform along `axis`; `sign` is that of the exponent."""
    return _along(b, parts, axis, lambda rows: _transformed(b, rows, sign))


def half_transformed(b: Builder, parts: Parts, axis: int) -> Parts:
    """Return the first ``n // 2 + 1`` elements of the forward transform of real elements along `axis`."""
    count = helpers.shape_of(b, parts[0])[axis] // 2 + 1

    def half(rows: Parts) -> Parts:
        length = helpers.shape_of(b, rows[0])[-1]
        if length <= LARGEST_MATRIX:
            return _product(b, rows, _matrix(length, range(length), range(count), FORWARD, 1), 2)
        return tuple(_first(b, part, count) for part in _transformed(b, rows, FORWARD))

    return _along(b, parts, axis, half)


def real_from_half(b: Builder, parts: Parts, axis: int, length: int) -> Value:
    """Return the real inverse transform of `length` elements from the first half of a Hermitian axis, unscaled.

    Imaginary parts of elements that are their own conjugates are ignored, as by the libraries.
    """
    mirrored = (length + 1) // 2

    def inverse(rows: Parts) -> Parts:
        real, imaginary = rows
        inside = b.cut(imaginary, helpers.rank_of(b, imaginary) - 1, slice(1, mirrored))
        zeros = b.full((*helpers.shape_of(b, real)[:-1], 1), 0.0, FLOAT64)
        middle = [zeros] if length % 2 == 0 else []
        last = helpers.rank_of(b, real) - 1
        behind = b.flip(b.cut(real, last, slice(1, mirrored)), last)
        whole = b.concatenate((real, behind), -1)
        odd = b.concatenate((zeros, inside, *middle, b.negative(b.flip(inside, last))), -1)
        return _transformed(b, (whole, odd), INVERSE)[:1]

    resized_parts = tuple(resized(b, part, axis, length // 2 + 1) for part in parts)
    return _along(b, resized_parts, axis, inverse)[0]


def resized(b: Builder, x: Value, axis: int, length: int) -> Value:
    """Return `x` cut, or filled with zeros at its end, to `length` elements along `axis`."""
    shape = helpers.shape_of(b, x)
    if length <= shape[axis]:
        return x if length == shape[axis] else b.cut(x, axis, slice(0, length))
    return b.pad(x, [(0, length - size if position == axis else 0) for position, size in enumerate(shape)], 0)


def _along(b: Builder, parts: Parts, axis: int, function: Callable[[Parts], Parts]) -> Parts:
    """Return the parts of `function` applied with `axis` as the last one."""
    moved = tuple(helpers.moved(b, part, axis, -1) for part in parts)
    return tuple(helpers.moved(b, part, -1, axis) for part in function(moved))


def _first(b: Builder, x: Value, count: int) -> Value:
    return b.cut(x, helpers.rank_of(b, x) - 1, slice(0, count))


# --- the transform of the last axis --------------------------------------------------------------------------------


def _transformed(b: Builder, parts: Parts, sign: int) -> Parts:
    length = helpers.shape_of(b, parts[0])[-1]
    if length <= LARGEST_MATRIX:
        return _product(b, parts, _matrix(length, range(length), range(length), sign, len(parts)), 2)
    inner = next((factor for factor in range(isqrt(length), 1, -1) if length % factor == 0), 1)
    return _by_chirp(b, parts, sign) if inner == 1 else _split(b, parts, length // inner, inner, sign)


def _split(b: Builder, parts: Parts, outer: int, inner: int, sign: int) -> Parts:
    """Transform columns, then rows: input element ``j * inner + i`` and result element ``k + outer * l``."""
    *batch, length = helpers.shape_of(b, parts[0])
    columns = tuple(helpers.swapped(b, b.reshape(part, (*batch, outer, inner)), -1, -2) for part in parts)
    real, imaginary = (helpers.swapped(b, part, -1, -2) for part in _transformed(b, columns, sign))
    cosine, sine = _roots(b, length, outer, inner, sign)
    rows = _complex_product(b, (real, imaginary), (cosine, sine))
    return tuple(b.reshape(helpers.swapped(b, part, -1, -2), (*batch, length)) for part in _transformed(b, rows, sign))


def _by_chirp(b: Builder, parts: Parts, sign: int) -> Parts:
    """Transform a prime length p: j k = (j² + k² - (k - j)²) / 2 makes it a convolution with a chirp."""
    length = helpers.shape_of(b, parts[0])[-1]
    padded = 1 << (2 * length - 2).bit_length()
    position = b.arange(0, length, 1, INT64)
    # The squares modulo 2 p keep angles small: the reduction is exact in integers.
    angle = b.multiply(b.cast(b.remainder(b.multiply(position, position), 2 * length), FLOAT64), pi / length)
    chirp = b.cos(angle), b.multiply(b.sin(angle), float(sign))
    conjugate = chirp[0], b.negative(chirp[1])
    scaled = _complex_product(b, parts, chirp)
    signal = tuple(resized(b, part, helpers.rank_of(b, part) - 1, padded) for part in scaled)
    gap = b.full((padded - 2 * length + 1,), 0.0, FLOAT64)
    filter_parts = tuple(b.concatenate((part, gap, b.flip(b.cut(part, 0, slice(1, None)), 0)), 0) for part in conjugate)
    spectra = (_transformed(b, operand, FORWARD) for operand in (signal, filter_parts))
    convolved = _transformed(b, _complex_product(b, *spectra), INVERSE)
    return _complex_product(b, tuple(b.multiply(_first(b, part, length), 1 / padded) for part in convolved), chirp)


def _complex_product(b: Builder, x: Parts, y: Parts) -> Parts:
    real = b.multiply(x[0], y[0])
    if len(x) == 1:
        return real, b.multiply(x[0], y[1])
    imaginary = b.add(b.multiply(x[0], y[1]), b.multiply(x[1], y[0]))
    return b.subtract(real, b.multiply(x[1], y[1])), imaginary


def _product(b: Builder, parts: Parts, matrix: list[list[float]], results: int) -> Parts:
    """Return rows times a matrix whose rows are those of each part, and whose columns of each result, side by side."""
    shape = (len(matrix), len(matrix[0]))
    operand = parts[0] if len(parts) == 1 else b.concatenate(parts, -1)
    product = b.matmul(operand, b.literal([value for row in matrix for value in row], shape, FLOAT64))
    return b.split(product, results, helpers.rank_of(b, product) - 1)


def _matrix(length: int, rows: Sequence[int], columns: Sequence[int], sign: int, parts: int) -> list[list[float]]:
    """Return the real form of a matrix of roots of unity: ``[C S]`` of real rows, and ``[-S C]`` below of complex."""
    roots = [_root(length, power, sign) for power in range(length)]
    of_real = [
        [roots[row * column % length][part] for part in (0, 1) for column in columns] for row in rows
    ]  # fmt: skip
    if parts == 1:
        return of_real
    count = len(columns)
    return of_real + [[-value for value in row[count:]] + row[:count] for row in of_real]


def _root(length: int, power: int, sign: int) -> tuple[float, float]:
    """Return the cosine and sine of ``sign 2 pi power / length``, exact at multiples of a quarter."""
    quarter, rest = divmod(4 * power, length)
    if rest == 0:
        return ((1.0, 0.0), (0.0, 1.0 * sign), (-1.0, 0.0), (0.0, -1.0 * sign))[quarter]
    angle = 2 * pi * power / length
    return cos(angle), sign * sin(angle)


def _roots(b: Builder, length: int, rows: int, columns: int, sign: int) -> tuple[Value, Value]:
    """Return cosines and sines of the products of row and column, of shape ``(rows, columns)``."""
    if length <= LARGEST_LITERAL:
        roots = [_root(length, row * column, sign) for row in range(rows) for column in range(columns)]
        cosine, sine = (b.literal([root[part] for root in roots], (rows, columns), FLOAT64) for part in (0, 1))
        return cosine, sine
    row = b.reshape(b.arange(0, rows, 1, INT64), (rows, 1))
    powers = b.cast(b.multiply(row, b.arange(0, columns, 1, INT64)), FLOAT64)
    angle = b.multiply(powers, sign * 2 * pi / length)
    return b.cos(angle), b.sin(angle)
