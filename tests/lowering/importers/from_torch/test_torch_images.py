"""Changes of size and pools of images, against eager: bytes to the bit."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch.utils import _pytree as pytree

import mlirtri as mt


def check(function, *arguments, pipeline: str = "mlir"):
    torch.manual_seed(0)
    expected = pytree.tree_leaves(function(*arguments))
    torch.manual_seed(0)
    results = mt.from_torch(function, arguments).compile(pipeline=pipeline)(*arguments)
    for result, eager in zip(pytree.tree_leaves(results), expected, strict=True):
        torch.testing.assert_close(result, eager)


def smooth(x, image):
    sizes = [F.interpolate(each, size=(3, 12), mode=mode, antialias=True)
             for each in (x, image) for mode in ("bilinear", "bicubic")]  # fmt: skip
    return *sizes, F.interpolate(x, scale_factor=1.7, mode="bicubic", antialias=True, align_corners=True)


@pytest.mark.slow
def test_antialiased_sizes():
    torch.manual_seed(0)
    check(smooth, torch.randn(1, 2, 7, 9), torch.randint(0, 256, (1, 3, 7, 9), dtype=torch.uint8))


def resize(image):
    sizes = [F.interpolate(image, size=(3, 20), mode=mode, align_corners=aligned)
             for mode, aligned in (("bilinear", False), ("bicubic", True))]  # fmt: skip
    return *sizes, F.interpolate(image, scale_factor=(0.6, 2.0), mode="bilinear")


@pytest.mark.slow
def test_bytes_are_interpolated_in_whole_numbers():
    torch.manual_seed(0)
    check(resize, torch.randint(0, 256, (1, 3, 7, 9), dtype=torch.uint8), pipeline="linalg")


def pool(x, volume, whole):
    planes = F.fractional_max_pool2d(x, (2, 3), output_size=(3, 4), return_indices=True)
    volumes = F.fractional_max_pool3d(volume, 2, output_size=(2, 3, 1), return_indices=True)
    windows = F.max_pool2d(whole, 3, 2, 1, return_indices=True), F.max_pool2d(whole, (2, 3), ceil_mode=True)
    return planes, volumes, windows, F.max_pool2d(whole, 2, dilation=2)


@pytest.mark.slow
def test_fractional_pools_and_pools_of_large_integers():
    torch.manual_seed(0)
    whole = torch.randint(-(2**62), 2**62, (2, 3, 7, 9))
    check(pool, torch.randn(1, 2, 7, 9), torch.randn(1, 2, 5, 6, 4), whole)
