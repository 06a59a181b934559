"""The kernel whose passes `mlirtri stages --passes` lists: a product, what follows it elementwise, and rows."""

from __future__ import annotations

import numpy as np


def sample(a, b, bias):
    """Return a softmax of the rows of a product with a bias."""
    scores = np.maximum(a @ b + bias, 0)
    powers = np.exp(scores - np.max(scores, axis=1)[:, None])
    return powers / np.sum(powers, axis=1)[:, None]
