"""Programs whose arguments' sizes are all open where torch.export leaves them so: name, function, arguments."""

from __future__ import annotations

import math

import torch.nn.functional as F

from torch_cases.makers import f


def _attended(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def _minima(x):
    return x * max(x.shape[0], 4) + min(x.shape[1], x.shape[2])


def _rounded(x):
    rows = [round(x.shape[1] / 2), math.ceil(x.shape[1] / 2), math.floor(x.shape[1] / 2)]
    return [x.new_full((count, 2), count / 2) for count in rows]


CASES = [
    ("blocks to space", lambda x: F.pixel_shuffle(x, 2), lambda: (f(2, 8, 3, 5),)),
    ("space to blocks", lambda x: F.pixel_unshuffle(x, 2), lambda: (f(2, 3, 4, 6),)),
    ("attention", _attended, lambda: (f(2, 5, 6), f(2, 5, 6), f(2, 5, 6))),
    ("minima of sizes", _minima, lambda: (f(2, 5, 6),)),
    ("a root of a size", lambda x: x / math.sqrt(x.shape[0] * x.shape[1]), lambda: (f(3, 4),)),
    ("a power of a size", lambda x: x * x.shape[0] ** 2 + x.shape[1] ** -0.5, lambda: (f(3, 4),)),
    ("a remainder of a size", lambda x: x + x.shape[0] % 4, lambda: (f(7, 2),)),
    ("rounded sizes", _rounded, lambda: (f(2, 5),)),
]
