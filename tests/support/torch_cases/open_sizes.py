"""Programs whose arguments' sizes are all open where torch.export leaves them so: name, function, arguments."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from torch_cases.makers import f, i


def _attended(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def _minima(x):
    return x * max(x.shape[0], 4) + min(x.shape[1], x.shape[2])


def _rounded(x):
    rows = [round(x.shape[1] / 2), math.ceil(x.shape[1] / 2), math.floor(x.shape[1] / 2)]
    return [x.new_full((count, 2), count / 2) for count in rows]


def _heads(x):
    """Axes that join and split in one view, as attention of several heads has them."""
    batch, time, _ = x.shape
    head = x.transpose(0, 1).reshape(time, batch * 2, 4).transpose(0, 1)
    return (head @ head.mT).view(batch, 2, time, time), head.reshape(batch, 2 * time, 4)


def _nearest(x, grid):
    return F.grid_sample(x, grid, mode="nearest", align_corners=False)


def _nothing_of(x):
    return x[:-8], x[:, 9:].sum(1), torch.cat([x[:, 5:5], x], 1)


CASES = [
    ("blocks to space", lambda x: F.pixel_shuffle(x, 2), lambda: (f(2, 8, 3, 5),)),
    ("space to blocks", lambda x: F.pixel_unshuffle(x, 2), lambda: (f(2, 3, 4, 6),)),
    ("attention", _attended, lambda: (f(2, 5, 6), f(2, 5, 6), f(2, 5, 6))),
    ("minima of sizes", _minima, lambda: (f(2, 5, 6),)),
    ("a root of a size", lambda x: x / math.sqrt(x.shape[0] * x.shape[1]), lambda: (f(3, 4),)),
    ("a power of a size", lambda x: x * x.shape[0] ** 2 + x.shape[1] ** -0.5, lambda: (f(3, 4),)),
    ("a remainder of a size", lambda x: x + x.shape[0] % 4, lambda: (f(7, 2),)),
    ("rounded sizes", _rounded, lambda: (f(2, 5),)),
    ("distances of pairs", lambda x: F.pdist(x), lambda: (f(5, 3),)),
    ("strided", lambda x: x.as_strided((3, 4), (2, 1), 1), lambda: (f(6, 5),)),
    ("grouped convolution", lambda x, w: F.conv2d(x, w, padding=1, groups=2), lambda: (f(2, 4, 5, 6), f(6, 2, 3, 3))),
    ("heads", _heads, lambda: (f(3, 5, 8),)),
    ("layers over time", lambda x, w, v: F.linear(F.linear(x, w).tanh(), v), lambda: (f(7, 5, 3), f(4, 3), f(2, 4))),
    (
        "indices side by side",
        lambda x, a, b: x[a, b],
        lambda: (f(4, 5, 3), i(6, 1, low=-4, high=4), i(2, low=0, high=5)),
    ),
    ("indices apart", lambda x, a, b: x[a, :, b], lambda: (f(4, 5, 3), i(6, low=-4, high=4), i(6, low=0, high=3))),
    ("chunks", lambda x: torch.chunk(x, 3, 1), lambda: (f(2, 8, 3),)),
    ("nearest pixels", _nearest, lambda: (f(2, 3, 4, 5), f(2, 6, 7, 2) / 2)),
    ("pixels made twice", lambda x: F.interpolate(x, scale_factor=2.0), lambda: (f(2, 3, 5),)),
    ("pools to a size", lambda x: F.adaptive_max_pool2d(x, (2, 3), return_indices=True), lambda: (f(3, 5, 7),)),
    ("pools without a batch", lambda x: F.avg_pool2d(x, (2, 3)), lambda: (f(3, 5, 7),)),
    ("nothing", _nothing_of, lambda: (f(2, 6),)),
]
