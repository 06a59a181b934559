"""Networks in plain NumPy: dense and convolutional layers as slices and sums."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from .case import Case, uniform


def relu(x):
    """What is below 0 becomes 0."""
    return np.maximum(x, 0)


def softmax(x):
    """Weights along the last axis that add up to 1."""
    top = np.max(x, axis=-1, keepdims=True)
    weights = np.exp(x - top)
    total = np.sum(weights, axis=-1, keepdims=True)
    return weights / total


def softmax_arguments(size, dtype, rng):
    return (uniform(rng, dtype, *size, low=-3, high=3),)


def mlp(x, w1, b1, w2, b2, w3, b3):
    """Three dense layers, the last one with softmax."""
    x = relu(x @ w1 + b1)
    x = relu(x @ w2 + b2)
    return softmax(x @ w3 + b3)


def layer(rng, dtype, *shape):
    """Weights that keep the size of what passes through."""
    fan_in = int(np.prod(shape[:-1]))
    return uniform(rng, dtype, *shape, low=-1, high=1) / dtype(np.sqrt(fan_in))


def mlp_arguments(size, dtype, rng):
    batch, *widths = size
    x = uniform(rng, dtype, batch, widths[0])
    layers = []
    for fan_in, fan_out in pairwise(widths):
        layers += [layer(rng, dtype, fan_in, fan_out), uniform(rng, dtype, fan_out)]
    return x, *layers


def conv2d(x, weights):
    """Where the kernel lies wholly within the image; N H W C images, K K Cin Cout weights."""
    K = weights.shape[0]
    N = x.shape[0]
    rows = x.shape[1] - K + 1
    columns = x.shape[2] - K + 1
    out = np.empty((N, rows, columns, weights.shape[3]), dtype=x.dtype)
    for i in range(rows):
        for j in range(columns):
            out[:, i, j, :] = np.sum(
                x[:, i : i + K, j : j + K, :, np.newaxis] * weights[np.newaxis, :, :, :],
                axis=(1, 2, 3),
            )
    return out


def conv2d_bias(x, weights, bias):
    """A convolution with a bias for each channel."""
    return conv2d(x, weights) + bias


def conv2d_bias_arguments(size, dtype, rng):
    batch, n, channels_in, channels_out, k = size
    return (
        uniform(rng, dtype, batch, n, n, channels_in), layer(rng, dtype, k, k, channels_in, channels_out),
        uniform(rng, dtype, channels_out),
    )  # fmt: skip


def maxpool2d(x):
    """The largest of each two by two places."""
    out = np.empty([x.shape[0], x.shape[1] // 2, x.shape[2] // 2, x.shape[3]], dtype=x.dtype)
    for i in range(x.shape[1] // 2):
        for j in range(x.shape[2] // 2):
            out[:, i, j, :] = np.max(x[:, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2, :], axis=(1, 2))
    return out


def lenet(x, c1, d1, c2, d2, w1, b1, w2, b2, w3, b3, N, flat):
    """Two convolutions with pooling, then three dense layers (LeCun et al., 1998, with relu)."""
    x = relu(conv2d(x, c1) + d1)
    x = maxpool2d(x)
    x = relu(conv2d(x, c2) + d2)
    x = maxpool2d(x)
    x = np.reshape(x, (N, flat))
    x = relu(x @ w1 + b1)
    x = relu(x @ w2 + b2)
    return x @ w3 + b3


def lenet_arguments(size, dtype, rng):
    batch, n = size
    side = ((n - 4) // 2 - 4) // 2
    flat = 16 * side * side
    return (
        uniform(rng, dtype, batch, n, n, 1), layer(rng, dtype, 5, 5, 1, 6), uniform(rng, dtype, 6),
        layer(rng, dtype, 5, 5, 6, 16), uniform(rng, dtype, 16), layer(rng, dtype, flat, 120), uniform(rng, dtype, 120),
        layer(rng, dtype, 120, 84), uniform(rng, dtype, 84), layer(rng, dtype, 84, 10), uniform(rng, dtype, 10),
        batch, flat,
    )  # fmt: skip


def batchnorm2d(x, eps=1e-5):
    """Each place of the image to mean 0 and deviation 1 over the batch."""
    mean = np.mean(x, axis=0, keepdims=True)
    std = np.std(x, axis=0, keepdims=True)
    return (x - mean) / np.sqrt(std + eps)


def residual_block(x, conv1, conv2, conv3):
    """Narrow, look around, widen, and add what came in."""
    padded = np.zeros((x.shape[0], x.shape[1] + 2, x.shape[2] + 2, conv1.shape[3]), dtype=x.dtype)
    padded[:, 1:-1, 1:-1, :] = conv2d(x, conv1)
    y = batchnorm2d(padded)
    y = relu(y)
    y = conv2d(y, conv2)
    y = relu(batchnorm2d(y))
    y = conv2d(y, conv3)
    y = batchnorm2d(y)
    return relu(y + x)


def residual_block_arguments(size, dtype, rng):
    batch, n, wide, narrow = size
    return (
        uniform(rng, dtype, batch, n, n, wide), layer(rng, dtype, 1, 1, wide, narrow),
        layer(rng, dtype, 3, 3, narrow, narrow), layer(rng, dtype, 1, 1, narrow, wide),
    )  # fmt: skip


def attention(q, k, v):
    """Scaled dot products of many heads, by einsum."""
    scores = np.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(q.shape[-1])
    return np.einsum("bhqk,bhkd->bhqd", softmax(scores), v)


def attention_arguments(size, dtype, rng):
    batch, heads, length, width = size
    return tuple(uniform(rng, dtype, batch, heads, length, width, low=-1) for _ in range(3))


def logistic_regression(x, y, w, rate, steps):
    """Gradient descent; the weights are updated in place, the loss of each step is returned."""
    losses = np.zeros(steps, dtype=x.dtype)
    for step in range(steps):
        p = 1 / (1 + np.exp(-(x @ w)))
        losses[step] = -np.mean(y * np.log(p) + (1 - y) * np.log(1 - p))
        w -= rate * (x.T @ (p - y)) / len(y)
    return losses


def logistic_regression_arguments(size, dtype, rng):
    n, m, steps = size
    x = uniform(rng, dtype, n, m, low=-1)
    return x, (x.sum(axis=1) > 0).astype(dtype), np.zeros(m, dtype), 0.5, steps


CASES = (
    Case(softmax, softmax_arguments, (2, 3, 5, 5), (16, 16, 128, 128)),
    Case(mlp, mlp_arguments, (4, 6, 8, 7, 5), (64, 300, 1000, 500, 100)),
    Case(conv2d_bias, conv2d_bias_arguments, (2, 8, 3, 4, 3), (4, 24, 3, 8, 5)),
    Case(lenet, lenet_arguments, (2, 28), (8, 28)),
    Case(residual_block, residual_block_arguments, (3, 6, 5, 3), (4, 14, 32, 8), terms=10000),
    Case(attention, attention_arguments, (2, 2, 6, 4), (4, 8, 64, 32)),
    Case(logistic_regression, logistic_regression_arguments, (20, 4, 6), (20000, 20, 40)),
)
