"""The CPU's rule for convolutions of each channel by itself: padding, strides, dilations, chunks, what follows them."""

from __future__ import annotations

import ctypes
import mmap
import sys
from math import prod

import pytest
import torch
from combinations import in_turn
from tolerances import within
from torch.nn.functional import conv1d, conv2d, conv3d
from tvm_stage_helpers import random

import mlirtri


def planes(x, w, v, b):
    return (
        conv2d(x, w, padding=1, groups=6), conv2d(x, w, padding=(0, 1), stride=2, groups=6),
        conv2d(x, w, padding=2, dilation=2, groups=6), conv2d(x, v, b, padding=(4, 1), groups=6).sigmoid() + 1,
    )  # fmt: skip


def lines(x, w):
    """The second one is only in part of what is convolved."""
    return conv1d(x, w, padding=2, stride=2, groups=5), conv1d(x, w, padding=3, groups=5)[:, :, :-3]


def volumes(x, w):
    return conv3d(x, w, padding=1, groups=3)


def short(x, w):
    return conv2d(x, w, padding=1, groups=2)


def large(x, w, v):
    """Windows that are not written out whole, in images that may have no padding."""
    return conv2d(x, w, padding=3, groups=4), conv2d(x, w, stride=2, groups=4).relu(), conv2d(x, v, groups=4)


def two_filters(x, w, b):
    return conv2d(x, w, b, padding=1, groups=3)


CASES = {
    "large windows": (large, ((1, 4, 15, 23), (4, 1, 7, 6), (4, 1, 3, 3)), 3),
    "two filters a channel": (two_filters, ((2, 3, 9, 14), (6, 1, 3, 3), (6,)), 1),
    "planes": (planes, ((2, 6, 13, 21), (6, 1, 3, 3), (6, 1, 5, 4), (6,)), 4),
    "lines": (lines, ((2, 5, 100), (5, 1, 4)), 2),
    "volumes": (volumes, ((1, 3, 5, 7, 18), (3, 1, 3, 3, 3)), 1),
    "many chunks": (short, ((1, 2, 21, 1100), (2, 1, 3, 3)), 1),
    "fewer rows than a tile": (short, ((1, 2, 2, 5), (2, 1, 3, 3)), 1),
}


@pytest.mark.parametrize(("case", "threads"), in_turn(CASES, ["1", "3"]))
def test_they_are_torchs_in_tiles(case, threads, monkeypatch):
    monkeypatch.setenv("MLIRTRI_NUM_THREADS", threads)
    function, shapes, count = CASES[case]
    arguments = [random(*shape) for shape in shapes]
    arguments[0].view(-1)[-1], arguments[0].view(-1)[0] = float("inf"), float("nan")
    kernel = mlirtri.jit(function).compile(*arguments)
    scheduled = kernel.ir["scheduled"]
    assert scheduled.count('"mlirtri.schedule": "Depthwise"') == count
    assert "if_then_else" not in scheduled
    found, expected = kernel(*arguments), function(*(each.double() for each in arguments))
    pairs = zip(found, expected, strict=True) if isinstance(expected, tuple) else [(found, expected)]
    for made, wanted in pairs:
        torch.testing.assert_close(made, wanted.float(), equal_nan=True, **within("float32", 27))


def test_double_precision():
    x, w = random(1, 2, 9, 11, dtype=torch.float64), random(2, 1, 3, 3, dtype=torch.float64)
    kernel = mlirtri.jit(short).compile(x, w)
    assert '"Depthwise"' in kernel.ir["scheduled"]
    torch.testing.assert_close(kernel(x, w), short(x, w), **within("float64", 9))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_halves_are_added_up_in_fp32(dtype):
    x, w = random(1, 2, 9, 21, dtype=dtype), random(2, 1, 3, 3, dtype=dtype)
    x[0, 0, 0, 0] = float("nan")
    kernel = mlirtri.jit(short).compile(x, w)
    assert '"Depthwise"' in kernel.ir["scheduled"]
    expected = short(x.double(), w.double()).to(dtype)
    torch.testing.assert_close(kernel(x, w), expected, equal_nan=True, **within(str(dtype).partition(".")[2], 2))


def test_lines_of_torch_programs_that_are_planes_of_one_column():
    class Causal(torch.nn.Module):
        def forward(self, x, w):
            return conv1d(x, w, padding=3, groups=5)

    x, w = random(1, 5, 40), random(5, 1, 4)
    kernel = mlirtri.from_torch(Causal(), (x, w)).compile()
    assert '"Depthwise"' in kernel.ir["scheduled"]
    torch.testing.assert_close(kernel(x, w), Causal()(x, w), **within("float32", 4))


def before_forbidden_memory(*shape: int) -> torch.Tensor:
    """Random numbers after which lies a page that nobody may read."""
    size = 4 * prod(shape)
    pages = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = mmap.mmap(-1, pages + mmap.PAGESIZE)
    behind = ctypes.addressof(ctypes.c_char.from_buffer(memory)) + pages
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(behind), mmap.PAGESIZE, 0) == 0
    return torch.frombuffer(memory, dtype=torch.float32, count=prod(shape), offset=pages - size).view(shape).normal_()


@pytest.mark.skipif(sys.platform != "linux", reason="needs mprotect")
@pytest.mark.parametrize("stride", [1, 2])
def test_rows_without_padding_are_not_read_past_their_end(stride):
    def tall(x, w):
        return conv2d(x, w, padding=(1, 0), stride=stride, groups=4)

    x, w = before_forbidden_memory(1, 4, 20, 31), random(4, 1, 3, 3)
    kernel = mlirtri.jit(tall).compile(x, w)
    assert '"Depthwise"' in kernel.ir["scheduled"]
    torch.testing.assert_close(kernel(x, w), tall(x, w), **within("float32", 9))
