"""Fractals: a `while` of as many rounds as each pixel needs, and a condition that is known when the kernel compiles."""

from __future__ import annotations

import numpy as np

import mlirtri as mt

from .example import Example

LIMIT = 50


def mandelbrot(out):
    for i in mt.prange(out.shape[0]):
        for j in range(out.shape[1]):
            real, imaginary = j * 3.0 / out.shape[1] - 2, i * 2.0 / out.shape[0] - 1
            x, y, rounds = 0.0, 0.0, 0
            while rounds < 50 and x * x + y * y < 4:
                x, y = x * x - y * y + real, 2 * x * y + imaginary
                rounds += 1
            out[i, j] = rounds


def escaped(x, y, real, imaginary):
    rounds = np.zeros(x.shape, np.int64)
    for _ in range(LIMIT):
        going = x * x + y * y < 4
        rounds += going
        x, y = np.where(going, x * x - y * y + real, x), np.where(going, 2 * x * y + imaginary, y)
    return rounds, x, y


def mandelbrot_in_numpy(out):
    rows, columns = np.indices(out.shape)
    real, imaginary = columns * 3.0 / out.shape[1] - 2, rows * 2.0 / out.shape[0] - 1
    out[...] = escaped(np.zeros(out.shape), np.zeros(out.shape), real, imaginary)[0]


def julia(out, is_smooth=True):
    for i, j in mt.ndrange(out.shape[0], out.shape[1]):
        x, y, rounds = j * 3.0 / out.shape[1] - 1.5, i * 2.0 / out.shape[0] - 1, 0
        while rounds < 50 and x * x + y * y < 4:
            x, y = x * x - y * y - 0.8, 2 * x * y + 0.156
            rounds += 1
        if mt.static(is_smooth):
            out[i, j] = rounds - np.log2(np.log2(x * x + y * y + 2))
        else:
            out[i, j] = rounds


def julia_nested(out):
    for i in mt.prange(out.shape[0]):
        for j in range(out.shape[1]):
            x, y, rounds = j * 3.0 / out.shape[1] - 1.5, i * 2.0 / out.shape[0] - 1, 0
            while rounds < 50 and x * x + y * y < 4:
                x, y = x * x - y * y - 0.8, 2 * x * y + 0.156
                rounds += 1
            out[i, j] = rounds - np.log2(np.log2(x * x + y * y + 2))


def julia_in_numpy(out):
    rows, columns = np.indices(out.shape)
    start = columns * 3.0 / out.shape[1] - 1.5, rows * 2.0 / out.shape[0] - 1
    rounds, x, y = escaped(*start, -0.8, 0.156)
    out[...] = rounds - np.log2(np.log2(x * x + y * y + 2))


def counts(scale):
    return (np.zeros((30 * scale, 45), np.int64),)


def smooth(scale):
    return (np.zeros((30 * scale, 45)),)


EXAMPLES = (
    Example("mandelbrot", mandelbrot, counts, mandelbrot_in_numpy, 0),
    Example("julia", julia, smooth, julia_in_numpy, 1e-9, nested=julia_nested),
)
