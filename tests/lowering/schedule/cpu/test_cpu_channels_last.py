"""The CPU's rule for convolutions with channels innermost: layouts, strides, dilations, padding, odd sizes."""

from __future__ import annotations

import pytest
import torch
from tolerances import within
from tvm_stage_helpers import context_for, module, op, random, rules_of, run, tir_of

from mlirtri.lowering.core.target import Target
from mlirtri.lowering.schedule import tir_to_scheduled

ORDERS = {"HWIO": (2, 3, 1, 0), "OHWI": (0, 2, 3, 1), "OIHW": (0, 1, 2, 3)}
CASES = {
    "padded": ((2, 13, 11, 5), (17, 5, 3, 3), "HWIO", {"padding": 1}),
    "in place": ((1, 14, 14, 8), (32, 8, 3, 3), "OHWI", {}),
    "every second": ((1, 33, 35, 8), (16, 8, 3, 3), "OIHW", {"stride": 2, "padding": (2, 3)}),
    "one by one, every second": ((1, 20, 21, 6), (16, 6, 1, 1), "HWIO", {"stride": 2}),
    "dilated": ((1, 18, 18, 8), (16, 8, 3, 3), "HWIO", {"dilation": 2, "padding": 2}),
    "more padding than image": ((1, 3, 3, 4), (16, 4, 5, 5), "OHWI", {"padding": 4}),
    "many channels": ((1, 5, 5, 700), (100, 700, 3, 3), "HWIO", {"padding": 1}),
}


def _convolved(case):
    image, weights, order, options = CASES[case]
    x, w = random(*image), random(*weights)
    names = {"stride": "strides", "padding": "padding", "dilation": "dilation"}
    wanted = {names[key]: value for key, value in options.items()}

    def make(emit, a, b):
        y = emit(op.nn.conv2d(a, b, data_layout="NHWC", kernel_layout=order, **wanted))
        return emit(op.nn.relu(y)) if case == "padded" else y

    laid = w.permute(ORDERS[order]).contiguous()
    expected = torch.nn.functional.conv2d(x.permute(0, 3, 1, 2).double(), w.double(), **options).permute(0, 2, 3, 1)
    return module(make, image, laid.shape), x, laid, (expected.relu() if case == "padded" else expected).float()


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("case", CASES)
def test_they_are_torchs_in_tiles(case, threads):
    mod, x, w, expected = _convolved(case)
    context = context_for(Target("cpu", "here", threads))
    scheduled = tir_to_scheduled.lower(tir_of(mod, context), context)
    assert rules_of(scheduled) == ["ChannelsLast"]
    assert "if_then_else" not in scheduled.script()
    torch.testing.assert_close(run(mod, x, w, context=context), expected, **within("float32", w.numel() // w.shape[-1]))


def test_nothing_is_multiplied_with_what_is_around():
    """Padding is zeros beside what is not finite, and rows of the image stay where they are."""
    mod, x, w, _ = _convolved("more padding than image")
    x[0, 0, 0, 0], x[0, 2, 1, 3] = float("inf"), float("nan")
    expected = torch.nn.functional.conv2d(x.permute(0, 3, 1, 2), w.permute(0, 3, 1, 2), padding=4)
    found = run(mod, x, w)
    torch.testing.assert_close(found, expected.permute(0, 2, 3, 1), equal_nan=True, **within("float32", 100))
