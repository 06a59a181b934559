"""Convolutions between transposes: they are of images with channels innermost, wherever nothing else is in between."""

from __future__ import annotations

import pytest
import torch
from tolerances import within
from torch.nn.functional import conv1d, conv2d, conv3d, gelu
from tvm_stage_helpers import random

import mlirtri


def plain(x, w, b):
    return conv2d(x.permute(0, 3, 1, 2), w, padding=(1, 2), stride=(1, 2)).permute(0, 2, 3, 1)


def biased(x, w, b):
    """With what is elementwise before the results are moved."""
    return gelu(conv2d(x.permute(0, 3, 1, 2), w, b, dilation=2)).permute(0, 2, 3, 1)


def shown(x, w, b):
    y = conv2d(x.permute(0, 3, 1, 2), w, b)
    return y.permute(0, 2, 3, 1), y


def sideways(x, w, b):
    return conv2d(x.permute(0, 3, 2, 1), w, padding=1).permute(0, 2, 3, 1)


ARGUMENTS = random(2, 12, 13, 6), random(16, 6, 3, 3), random(16)


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
@pytest.mark.parametrize(("function", "turned"), [(plain, True), (biased, True), (shown, False), (sideways, False)])
def test_what_is_between_two_transposes_is_turned_round(function, turned, pipeline):
    kernel = mlirtri.jit(function, pipeline=pipeline).compile(*ARGUMENTS)
    assert ("conv_2d_nhwc_hwcf" in kernel.ir["fused"]) == turned
    if turned and pipeline == "linalg":
        assert kernel.stats["kernels"] == 1
    expected = function(*(each.double() for each in ARGUMENTS))
    torch.testing.assert_close(kernel(*ARGUMENTS), _single(expected), **within("float32", 54))


def _single(results):
    return tuple(each.float() for each in results) if isinstance(results, tuple) else results.float()


def lines_and_volumes(x, w, y, v):
    along = conv1d(x.permute(0, 2, 1), w, padding=1).permute(0, 2, 1)
    return along, conv3d(y.permute(0, 4, 1, 2, 3), v, padding=1).relu().permute(0, 2, 3, 4, 1)


def test_lines_and_volumes():
    arguments = random(2, 40, 6), random(8, 6, 3), random(1, 6, 7, 9, 4), random(9, 4, 3, 2, 3)
    kernel = mlirtri.jit(lines_and_volumes).compile(*arguments)
    assert {"conv_1d_nwc_wcf", "conv_3d_ndhwc_dhwcf"} <= set(kernel.ir["fused"].replace(".", " ").split())
    assert kernel.ir["scheduled"].count('"mlirtri.schedule": "ChannelsLast"') == 2
    expected = lines_and_volumes(*(each.double() for each in arguments))
    for made, wanted in zip(kernel(*arguments), expected, strict=True):
        torch.testing.assert_close(made, wanted.float(), **within("float32", 72))


def test_a_large_filter_stays():
    x, w = random(1, 5, 5, 32), random(32, 32, 3, 3)
    kernel = mlirtri.jit(small).compile(x, w)
    assert "nhwc" not in kernel.ir["fused"]
    expected = small(x.double(), w.double()).float()
    torch.testing.assert_close(kernel(x, w), expected, **within("float32", 288))


def small(x, w):
    return conv2d(x.permute(0, 3, 1, 2), w, padding=1).permute(0, 2, 3, 1)
