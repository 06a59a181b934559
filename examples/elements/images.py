"""Images of bytes: computed in floats, stored back rounded to the nearest byte, half to even."""

from __future__ import annotations

import numpy as np

import mlirtri as mt

from .example import Example


def brighten(image, addend):
    for i in mt.prange(image.shape[0]):
        for channel in mt.static(range(4)):
            value = image[i, channel] / np.float32(255) + addend / np.float32(255)
            image[i, channel] = np.uint8(np.rint(min(max(value, np.float32(0)), np.float32(1)) * np.float32(255)))


def brighten_in_numpy(image, addend):
    value = image / np.float32(255) + np.float32(addend) / np.float32(255)
    image[...] = np.rint(np.clip(value, 0, 1) * np.float32(255)).astype(np.uint8)


def blur(image, out):
    for i, j in mt.ndrange((1, image.shape[0] - 1), (1, image.shape[1] - 1)):
        total = 0
        for di in mt.static(range(-1, 2)):
            for dj in mt.static(range(-1, 2)):
                total += np.int32(image[i + di, j + dj])
        out[i, j] = np.uint8((total + 4) // 9)


def blur_nested(image, out):
    for i in mt.prange(1, image.shape[0] - 1):
        for j in range(1, image.shape[1] - 1):
            total = 0
            for di in range(-1, 2):
                for dj in range(-1, 2):
                    total += np.int32(image[i + di, j + dj])
            out[i, j] = np.uint8((total + 4) // 9)


def blur_in_numpy(image, out):
    windows = np.lib.stride_tricks.sliding_window_view(image.astype(np.int64), (3, 3))
    out[1:-1, 1:-1] = (windows.sum((2, 3)) + 4) // 9


def pixels(scale):
    return np.random.default_rng(0).integers(0, 256, (900 * scale, 4), np.uint8), 40.5


def grey(scale):
    image = np.random.default_rng(1).integers(0, 256, (50 * scale, 70), np.uint8)
    return image, np.zeros_like(image)


EXAMPLES = (
    Example("brighten", brighten, pixels, brighten_in_numpy, 0),
    Example("blur", blur, grey, blur_in_numpy, 0, nested=blur_nested),
)
