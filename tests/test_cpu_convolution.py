"""The CPU's rule for convolutions: strides, dilations, groups, odd sizes, and what follows them."""

from __future__ import annotations

import pytest
import torch
from tolerances import within
from tvm_room_helpers import context_for, module, op, random, rules_of, run, tir_of

import mlirtri
from mlirtri.lowering import tir_to_scheduled
from mlirtri.lowering.target import Target

CASES = {
    "plain": ((1, 8, 14, 14), (16, 8, 3, 3), {}),
    "odd": ((2, 5, 13, 11), (7, 5, 3, 3), {}),
    "small image": ((1, 70, 7, 7), (40, 70, 3, 3), {"padding": 1}),
    "strided": ((1, 8, 33, 35), (16, 8, 3, 3), {"stride": 2}),
    "one by one, strided": ((1, 4, 63, 64), (12, 4, 1, 1), {"stride": 2}),
    "every third": ((1, 4, 63, 63), (12, 4, 3, 2), {"stride": 3}),
    "dilated": ((1, 8, 18, 18), (16, 8, 3, 3), {"dilation": 2}),
    "grouped": ((2, 8, 14, 15), (16, 4, 3, 3), {"groups": 2, "padding": 1}),
    "wide": ((1, 3, 6, 130), (8, 3, 3, 3), {"padding": 1}),
    "many channels": ((1, 600, 9, 9), (24, 600, 3, 3), {}),
}


def _convolved(image, weights, options):
    wanted = {name: options[key] for name, key in _SPELLINGS.items() if key in options}
    return lambda emit, x, w: emit(op.nn.conv2d(x, w, **wanted))


_SPELLINGS = {"strides": "stride", "padding": "padding", "dilation": "dilation", "groups": "groups"}


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("case", CASES)
def test_convolutions_are_torchs(case, threads):
    image, weights, options = CASES[case]
    x, w = random(*image), random(*weights)
    context = context_for(Target("cpu", "here", threads))
    made = run(module(_convolved(image, weights, options), image, weights), x, w, context=context)
    expected = torch.nn.functional.conv2d(x.double(), w.double(), **options).float()
    torch.testing.assert_close(made, expected, **within("float32", w[0].numel()))


@pytest.mark.parametrize("case", ["plain", "strided", "dilated", "many channels"])
def test_they_are_tiles(case):
    image, weights, options = CASES[case]
    mod = tir_of(module(_convolved(image, weights, options), image, weights))
    assert "Convolution" in rules_of(tir_to_scheduled.lower(mod, context_for()))


def test_what_follows_is_done_on_the_tile():
    x, w, b, r = random(1, 6, 12, 13), random(9, 6, 3, 3), random(1, 9, 1, 1), random(1, 9, 10, 11)

    def make(emit, x, w, b, r):
        return emit(op.nn.relu(emit(op.add(emit(op.add(emit(op.nn.conv2d(x, w)), b)), r))))

    mod = module(make, x.shape, w.shape, b.shape, r.shape)
    expected = (torch.nn.functional.conv2d(x.double(), w.double()) + b + r).relu().float()
    torch.testing.assert_close(run(mod, x, w, b, r), expected, **within("float32", 54))
    assert rules_of(tir_to_scheduled.lower(tir_of(mod), context_for())) == ["Convolution"]


def test_double_precision():
    x, w = random(1, 6, 12, 13, dtype=torch.float64), random(9, 6, 3, 3, dtype=torch.float64)
    mod = module(lambda emit, x, w: emit(op.nn.conv2d(x, w)), (x.shape, "float64"), (w.shape, "float64"))
    torch.testing.assert_close(run(mod, x, w), torch.nn.functional.conv2d(x, w), **within("float64", 54))


def test_a_bias_is_added_on_the_tile():
    class Biased(torch.nn.Module):
        def forward(self, x, w, b):
            return torch.relu(torch.nn.functional.conv2d(x, w, b))

    x, w, b = random(1, 6, 12, 13), random(9, 6, 3, 3), random(9)
    kernel = mlirtri.from_torch(Biased(), (x, w, b)).compile()
    assert kernel.stats["kernels"] == 1
    expected = torch.nn.functional.conv2d(x.double(), w.double(), b.double()).relu().float()
    torch.testing.assert_close(kernel(x, w, b), expected, **within("float32", 54))
