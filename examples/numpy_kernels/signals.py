"""Signals and bytes: recursive filters, Fourier transforms, convolution, checksums, histograms."""

from __future__ import annotations

import numpy as np

from .case import Case, complex_of, uniform


def recursive_smoothing(image, alpha):
    """Deriche's recursive approximation of a Gaussian: a pass each way along both axes, and their sums.

    Deriche, "Recursively implementing the Gaussian and its derivatives", INRIA 1893 (1993), the smoothing filter.
    """
    k = (1 - np.exp(-alpha)) ** 2 / (1 + 2 * alpha * np.exp(-alpha) - np.exp(-2 * alpha))
    a0 = k
    a1 = k * np.exp(-alpha) * (alpha - 1)
    a2 = k * np.exp(-alpha) * (alpha + 1)
    a3 = -k * np.exp(-2 * alpha)
    b1 = 2 * np.exp(-alpha)
    b2 = -np.exp(-2 * alpha)
    rows, columns = image.shape
    forth = np.empty_like(image)
    back = np.empty_like(image)
    forth[:, 0] = a0 * image[:, 0]
    forth[:, 1] = a0 * image[:, 1] + a1 * image[:, 0] + b1 * forth[:, 0]
    for j in range(2, columns):
        forth[:, j] = a0 * image[:, j] + a1 * image[:, j - 1] + b1 * forth[:, j - 1] + b2 * forth[:, j - 2]
    back[:, -1] = 0.0
    back[:, -2] = a2 * image[:, -1]
    for j in range(columns - 3, -1, -1):
        back[:, j] = a2 * image[:, j + 1] + a3 * image[:, j + 2] + b1 * back[:, j + 1] + b2 * back[:, j + 2]
    across = forth + back
    forth[0, :] = a0 * across[0, :]
    forth[1, :] = a0 * across[1, :] + a1 * across[0, :] + b1 * forth[0, :]
    for i in range(2, rows):
        forth[i, :] = a0 * across[i, :] + a1 * across[i - 1, :] + b1 * forth[i - 1, :] + b2 * forth[i - 2, :]
    back[-1, :] = 0.0
    back[-2, :] = a2 * across[-1, :]
    for i in range(rows - 3, -1, -1):
        back[i, :] = a2 * across[i + 1, :] + a3 * across[i + 2, :] + b1 * back[i + 1, :] + b2 * back[i + 2, :]
    return forth + back


def recursive_smoothing_arguments(size, dtype, rng):
    rows, columns = size
    return uniform(rng, dtype, rows, columns), 0.25


def fft_iterative(x):
    """Cooley and Tukey's transform of a power of two, in place: bits reversed, then one butterfly at a time."""
    n = x.shape[0]
    j = 0
    for i in range(1, n):
        bit = n >> 1
        while j & bit:
            j ^= bit
            bit >>= 1
        j |= bit
        if i < j:
            kept = x[i]
            x[i] = x[j]
            x[j] = kept
    length = 2
    while length <= n:
        half = length // 2
        root = np.exp(-2j * np.pi * np.arange(half) / length).astype(x.dtype)
        for start in range(0, n, length):
            for k in range(half):
                even = x[start + k]
                odd = x[start + half + k] * root[k]
                x[start + k] = even + odd
                x[start + half + k] = even - odd
        length *= 2


def fft_autosort(levels, x):
    """Stockham's transform of a power of two: no bits to reverse, each level is whole-array arithmetic on views."""
    n = 2**levels
    y = x.copy()
    for level in range(levels):
        groups = 2**level
        width = n // (2 * groups)
        pairs = y.reshape(2, width, groups)
        angle = -1j * np.pi * np.arange(groups) / groups
        turned = pairs[1] * np.exp(angle).astype(x.dtype)
        merged = np.empty((width, 2, groups), dtype=x.dtype)
        merged[:, 0, :] = pairs[0] + turned
        merged[:, 1, :] = pairs[0] - turned
        y = merged.reshape(n)
    return y


def signal(rng, dtype, n):
    return (rng.uniform(-1, 1, n) + 1j * rng.uniform(-1, 1, n)).astype(complex_of(dtype))


def fft_iterative_arguments(size, dtype, rng):
    (levels,) = size
    return (signal(rng, dtype, 2**levels),)


def fft_autosort_arguments(size, dtype, rng):
    (levels,) = size
    return levels, signal(rng, dtype, 2**levels)


def dft(x):
    """The discrete Fourier transform by its definition: a product with a matrix of roots of unity."""
    n = x.shape[0]
    i, k = np.mgrid[0:n, 0:n]
    roots = np.exp(-2j * np.pi * i * k / n)
    return roots @ x


def dft_arguments(size, dtype, rng):
    (n,) = size
    return (signal(rng, dtype, n),)


def convolve(signal, kernel):
    """Where a kernel lies wholly within a signal; true convolution, so the kernel is flipped."""
    n = signal.shape[0] - kernel.shape[0] + 1
    out = np.zeros(n, dtype=signal.dtype)
    for k in range(kernel.shape[0]):
        out += signal[k : k + n] * kernel[-1 - k]
    return out


def convolve_arguments(size, dtype, rng):
    n, m = size
    return uniform(rng, dtype, n), uniform(rng, dtype, m, low=-1)


def convolve_2d(image, kernel):
    """A two-dimensional correlation by one sum of products for each place."""
    m, n = kernel.shape
    rows = image.shape[0] - m + 1
    columns = image.shape[1] - n + 1
    out = np.empty((rows, columns), dtype=image.dtype)
    for i in range(rows):
        for j in range(columns):
            out[i, j] = np.sum(image[i : i + m, j : j + n] * kernel)
    return out


def convolve_2d_arguments(size, dtype, rng):
    n, m = size
    return uniform(rng, dtype, n, n), uniform(rng, dtype, m, m)


def crc16(data, polynomial=0x8408):
    """The CRC-16 of X.25 over bytes, bit by bit from the lowest, with the result's two bytes swapped."""
    crc = 0xFFFF
    for byte in data:
        current = 0xFF & byte
        for _ in range(8):
            if (crc & 0x0001) ^ (current & 0x0001):
                crc = (crc >> 1) ^ polynomial
            else:
                crc >>= 1
            current >>= 1
    crc = ~crc & 0xFFFF
    return ((crc << 8) | ((crc >> 8) & 0xFF)) & 0xFFFF


def crc16_arguments(size, dtype, rng):
    (n,) = size
    return (rng.integers(0, 256, n).astype(dtype),)


def adler32(data):
    """Adler's checksum of bytes: two sums modulo a prime."""
    low = 1
    high = 0
    for i in range(len(data)):
        low = (low + data[i]) % 65521
        high = (high + low) % 65521
    return high * 65536 + low


def histogram_loop(values, bins, low, high):
    """How many values fall into each of equal bins; those outside count in none."""
    counts = np.zeros(bins, dtype=np.int64)
    width = (high - low) / bins
    for i in range(values.shape[0]):
        if values[i] < low or values[i] > high:
            continue
        place = int((values[i] - low) / width)
        if place == bins:
            place -= 1
        counts[place] += 1
    return counts


def histogram_loop_arguments(size, dtype, rng):
    n, bins = size
    # Multiples of 1/64, and bins 1/16 wide: no rounding decides where a value falls.
    return (rng.integers(-16, 80, n) / 64).astype(dtype), bins, 0.0, 1.0


def running_mean(x, width):
    """A moving average through a cumulative sum."""
    total = np.cumsum(x)
    total[width:] = total[width:] - total[:-width]
    return total[width - 1 :] / width


def running_mean_arguments(size, dtype, rng):
    n, width = size
    return uniform(rng, dtype, n), width


CASES = (
    Case(recursive_smoothing, recursive_smoothing_arguments, (9, 12), (400, 360), terms=10000),
    Case(fft_iterative, fft_iterative_arguments, (5,), (14,)),
    Case(fft_autosort, fft_autosort_arguments, (5,), (18,)),
    Case(dft, dft_arguments, (24,), (600,)),
    Case(convolve, convolve_arguments, (40, 7), (400000, 32)),
    Case(convolve_2d, convolve_2d_arguments, (12, 3), (150, 7)),
    Case(crc16, crc16_arguments, (25,), (40000,), ("uint8",)),
    Case(adler32, crc16_arguments, (25,), (200000,), ("int64",)),
    Case(histogram_loop, histogram_loop_arguments, (60, 16), (300000, 16)),
    Case(running_mean, running_mean_arguments, (30, 5), (2000000, 50)),
)
