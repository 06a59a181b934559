"""The CPU's rule for convolutions whose filters are packed when they are bound: lanes are output channels."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from tolerances import within
from torch import nn

import mlirtri as mt
from mlirtri.lowering.schedule.cpu.convolution import channels_last, packed_filters

CASES = {
    "small image": (partial(nn.Conv2d, 40, 40, 3, padding=1), (3, 40, 7, 7)),
    "strided, odd, dilated": (partial(nn.Conv2d, 3, 17, (3, 5), stride=(2, 3), dilation=(2, 1)), (1, 3, 37, 41)),
    "more padding than image": (partial(nn.Conv2d, 8, 33, 5, padding=4, bias=False), (2, 8, 4, 3)),
    "one by one, every second": (partial(nn.Conv2d, 20, 64, 1, stride=2, bias=False), (2, 20, 14, 15)),
    "one by one": (partial(nn.Conv2d, 70, 100, 1), (2, 70, 7, 7)),
    "lines": (partial(nn.Conv1d, 12, 48, 3, padding=1), (2, 12, 50)),
    "volumes": (partial(nn.Conv3d, 4, 20, 3, padding=1), (2, 4, 5, 6, 7)),
}


def _checked(module, x):
    """Return the kernel of a convolution with what follows it, whose results are torch's."""
    model = nn.Sequential(module, nn.ReLU()).eval()
    kernel = mt.from_torch(model, (x,)).compile()
    expected = model.double()(x.double()).detach().float()
    torch.testing.assert_close(kernel(x), expected, **within("float32", module.weight[0].numel()))
    return kernel


@pytest.mark.parametrize("case", CASES)
def test_they_are_torchs(case):
    make, shape = CASES[case]
    torch.manual_seed(0)
    kernel = _checked(make(), torch.randn(shape))
    assert '"mlirtri.schedule": "PackedFilters"' in kernel.ir["scheduled"]
    assert kernel.ir["tir"].count("call_tir(cls.pack_weight") == 1


@pytest.mark.parametrize(("threads", "shape"), [(1, (2, 24, 15, 14)), (3, (3, 24, 6, 6))])
def test_chunks_that_fit_into_small_caches(monkeypatch, threads, shape):
    """Chunks of rows, or of images; blocks of input channels; parts of the output channels for threads."""
    for module in (channels_last, packed_filters):
        monkeypatch.setattr(module, "most_bytes", lambda: 4096)
    monkeypatch.setenv("MLIRTRI_NUM_THREADS", str(threads))
    monkeypatch.setenv("MLIRTRI_FORCE_SCHEDULES", "1")
    monkeypatch.setenv("MLIRTRI_CACHE", "0")
    kernel = _checked(nn.Conv2d(24, 70, 3, padding=1), torch.randn(shape))
    assert "sums = T.alloc_buffer" in kernel.ir["scheduled"]


def test_what_is_not_a_bound_weight_or_has_few_pixels_is_left_to_others():
    x, w = torch.randn(1, 8, 9, 9), torch.randn(32, 8, 3, 3)
    kernel = mt.from_torch(lambda x, w: torch.nn.functional.conv2d(x, w), (x, w)).compile()
    assert "PackedFilters" not in kernel.ir["scheduled"]
    grouped = nn.Conv2d(8, 32, 3, groups=2)
    for module, image in ((nn.Conv2d(8, 32, 3), x[:, :, :4, :4]), (grouped, x)):
        assert "PackedFilters" not in _checked(module, image).ir["scheduled"]


def test_what_follows_one_image_is_on_the_tiles():
    """A batch norm, whose factor is computed once, a skip connection and a relu, though the image has no unit axis."""

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = (
                nn.Sequential(nn.Conv2d(20, 20, 3, padding=1), nn.BatchNorm2d(20)) for _ in range(2)
            )
            self.shortcut = nn.Conv2d(20, 20, 1, bias=False)

        def forward(self, x):
            return (self.second(self.first(x).relu()) + self.shortcut(x)).relu()

    torch.manual_seed(0)
    block, x = Block(), torch.randn(1, 20, 9, 10)
    block(x)  # statistics
    kernel = mt.from_torch(block.eval(), (x,)).compile()
    assert kernel.stats["kernels"] == 3
    scheduled = kernel.ir["scheduled"]
    assert scheduled.count('"mlirtri.schedule": "PackedFilters"') == 3
    assert all('"Once"' in part for part in scheduled.split("@T.prim_func") if "T.sqrt(" in part)
    torch.testing.assert_close(kernel(x), block.double()(x.double()).detach().float(), **within("float32", 400))
