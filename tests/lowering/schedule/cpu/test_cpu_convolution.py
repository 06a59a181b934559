"""The CPU's rule for convolutions: strides, dilations, groups, odd sizes, and what follows them."""

from __future__ import annotations

import re

import pytest
import torch
from combinations import in_turn
from tolerances import within
from torch.nn.functional import conv1d, conv2d, conv_transpose1d, conv_transpose2d
from tvm_stage_helpers import context_for, module, op, random, rules_of, run, tir_of

import mlirtri
from mlirtri.lowering.core.target import Target
from mlirtri.lowering.schedule import tir_to_scheduled

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
    "in pieces": ((1, 4, 5, 1100), (6, 4, 3, 3), {}),
    "in pieces, strided": ((1, 4, 3, 1301), (6, 4, 3, 5), {"stride": 2, "padding": 1}),
    "many channels": ((1, 600, 9, 9), (24, 600, 3, 3), {}),
}


def _convolved(image, weights, options):
    wanted = {name: options[key] for name, key in _LAX_NAMES.items() if key in options}
    return lambda emit, x, w: emit(op.nn.conv2d(x, w, **wanted))


_LAX_NAMES = {"strides": "stride", "padding": "padding", "dilation": "dilation", "groups": "groups"}


@pytest.mark.parametrize(("case", "threads"), in_turn(CASES, [1, 3]))
def test_convolutions_are_torchs(case, threads):
    image, weights, options = CASES[case]
    x, w = random(*image), random(*weights)
    context = context_for(Target("cpu", "here", threads))
    made = run(module(_convolved(image, weights, options), image, weights), x, w, context=context)
    expected = torch.nn.functional.conv2d(x.double(), w.double(), **options).float()
    torch.testing.assert_close(made, expected, **within("float32", w[0].numel()))


@pytest.mark.parametrize("case", ["plain", "strided", "dilated", "many channels", "in pieces"])
def test_they_are_tiles(case):
    image, weights, options = CASES[case]
    mod = tir_of(module(_convolved(image, weights, options), image, weights))
    assert "Convolution" in rules_of(tir_to_scheduled.lower(mod, context_for()))


def test_chunks_of_rows_that_are_padded_in_place_are_left_to_other_rules():
    image, weights, options = CASES["in pieces, strided"]
    mod = tir_of(module(_convolved(image, weights, options), image, weights))
    assert "mlirtri.schedule_failures" not in tir_to_scheduled.lower(mod, context_for()).script()


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


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_halves_are_added_up_in_fp32(dtype):
    def halves(x, w, v):
        return conv2d(x, w, padding=1), conv2d(x, w, stride=2), conv2d(x, v)

    x, w, v = (random(*shape, dtype=dtype) for shape in ((1, 6, 12, 37), (9, 6, 3, 3), (9, 6, 1, 1)))
    x[0, 0, 0, 0] = float("inf")
    kernel = mlirtri.jit(halves).compile(x, w, v)
    scheduled = kernel.ir["scheduled"]
    assert scheduled.count('"mlirtri.schedule": "Convolution"') == 2  # of one by one place, it is a product
    assert "if_then_else" not in scheduled
    for made, wanted in zip(kernel(x, w, v), halves(*(each.double() for each in (x, w, v))), strict=True):
        torch.testing.assert_close(made, wanted.to(dtype), equal_nan=True, **within(str(dtype).partition(".")[2], 2))


def test_a_bias_is_added_on_the_tile():
    class Biased(torch.nn.Module):
        def forward(self, x, w, b):
            return torch.relu(torch.nn.functional.conv2d(x, w, b))

    x, w, b = random(1, 6, 12, 13), random(9, 6, 3, 3), random(9)
    kernel = mlirtri.from_torch(Biased(), (x, w, b)).compile()
    assert kernel.stats["kernels"] == 1
    assert "isnan" not in kernel.ir["scheduled"]  # TVM asks lane by lane
    expected = torch.nn.functional.conv2d(x.double(), w.double(), b.double()).relu().float()
    torch.testing.assert_close(kernel(x, w, b), expected, **within("float32", 54))


def every(x, w, v, row, line):
    return (
        conv2d(x, w, padding=1), conv2d(x, w, stride=2, padding=(2, 3)), conv2d(x, w, padding=2, dilation=2),
        conv2d(x, v, padding="same", groups=2), conv2d(x[:, :, :2], w, padding=(4, 0)), conv1d(row, line, padding=3),
    )  # fmt: skip


@pytest.mark.parametrize("threads", ["1", "3"])
def test_an_image_is_padded_where_it_is_read(threads, monkeypatch):
    monkeypatch.setenv("MLIRTRI_NUM_THREADS", threads)
    x, w, v, row, line = random(2, 6, 13, 11), random(9, 6, 3, 3), random(8, 3, 3, 2), random(1, 5, 40), random(7, 5, 7)
    x[0, 0, 0, 0], row[0, 0, -1] = float("inf"), float("nan")
    arguments = (x, w, v, row, line)
    kernel = mlirtri.jit(every).compile(*arguments)
    scheduled = kernel.ir["scheduled"]
    assert scheduled.count('"mlirtri.schedule": "Convolution"') == 6
    assert "if_then_else" not in scheduled
    expected = every(*(each.double() for each in arguments))
    for made, wanted in zip(kernel(*arguments), expected, strict=True):
        torch.testing.assert_close(made, wanted.float(), equal_nan=True, **within("float32", 54))


def transposed(x, w, row, line):
    return (
        conv_transpose2d(x, w, stride=(1, 2), padding=(4, 0), dilation=2) + 1,
        conv_transpose1d(row, line, stride=3, padding=1, output_padding=2),
    )


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
def test_a_transposed_convolution_multiplies_no_zeros(pipeline):
    x, w, row, line = random(2, 5, 7, 6), random(5, 3, 4, 3), random(1, 4, 9), random(4, 6, 2)
    kernel = mlirtri.jit(transposed, pipeline=pipeline).compile(x, w, row, line)
    assert "insert_slice" in kernel.ir["linalg"]
    assert "insert_slice" not in kernel.ir["fused"]
    expected = transposed(*(each.double() for each in (x, w, row, line)))
    for made, wanted in zip(kernel(x, w, row, line), expected, strict=True):
        torch.testing.assert_close(made, wanted.float(), **within("float32", 60))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_transposed_convolution_keeps_its_bias(dtype):
    """torch-mlir's starts from the bias, and adds up halves in fp32."""
    kind = getattr(torch, dtype)
    x, layer = random(2, 4, 4, 6).to(kind), torch.nn.ConvTranspose2d(4, 8, 3, 2, 1).to(kind)
    with torch.no_grad():
        kernel = mlirtri.from_torch(layer, (x,)).compile()
        found = kernel(x).double()
        assert "mlirtri.schedule_failures" not in kernel.ir["scheduled"]
        torch.testing.assert_close(found, layer.double()(x.double()), **within(dtype, 36))


def test_padding_is_seen_through_views():
    """What normalises between two convolutions has no axis for a single image: the pad stands before a reshape."""

    class Two(torch.nn.Module):
        def forward(self, x, w, scale):
            return conv2d((conv2d(x, w, padding=1) * scale[:, None, None]).relu(), w, padding=1)

    x, w, scale = random(1, 6, 12, 13), random(6, 6, 3, 3), random(6)
    kernel = mlirtri.from_torch(Two(), (x, w, scale)).compile()
    assert kernel.ir["scheduled"].count('"mlirtri.schedule": "Convolution"') == 2
    assert "if_then_else" not in kernel.ir["scheduled"]
    torch.testing.assert_close(kernel(x, w, scale), Two()(x, w, scale), **within("float32", 54 * 54))


def cut(x, w, row, line):
    return conv2d(x, w, padding=1)[:, :7], conv1d(row, line, padding=3)[:, :, :-3]


def test_what_takes_a_part_of_the_results_is_not_done_on_tiles():
    """They are longer than what it writes."""
    arguments = random(2, 6, 13, 11), random(9, 6, 3, 3), random(2, 16, 100), random(16, 16, 4)
    kernel = mlirtri.jit(cut).compile(*arguments)
    expected = cut(*(each.double() for each in arguments))
    for made, wanted in zip(kernel(*arguments), expected, strict=True):
        torch.testing.assert_close(made, wanted.float(), **within("float32", 64))


def of_a_turned_image(x, w):
    return torch.nn.functional.conv2d(x, w, None, 2, (1, 2), 1, 4).transpose(1, -1).contiguous()


def beside_a_test_of_it(x, w):
    made = torch.nn.functional.conv1d(x, w, None, 2)
    return made.isnan(), made


@pytest.mark.parametrize(
    ("function", "x", "w"),
    [
        (of_a_turned_image, random(1, 32, 33, 8).bfloat16(), random(8, 8, 7, 3).bfloat16()),
        (beside_a_test_of_it, random(1, 17, 3), random(16, 17, 2)),
    ],
)
def test_what_a_rule_has_no_vectors_or_no_row_for_is_left_to_others(monkeypatch, function, x, w):
    """Not an error of the rule, which it would be where all rules are forced."""
    monkeypatch.setenv("MLIRTRI_FORCE_SCHEDULES", "1")
    made, wanted = mlirtri.from_torch(function, (x, w)).compile()(x, w), function(x, w)
    torch.testing.assert_close(made, wanted, **within(str(x.dtype).removeprefix("torch."), 64))


class Biased(torch.nn.Module):
    """A bias and a `relu` round twice, and a third result reads every second element."""

    def forward(self, x, w, matrix, bias):
        product = torch.relu(matrix @ matrix + bias[0])
        return product, torch.relu(conv2d(x, w, bias[:6, 0], padding=1)), conv2d(x[:, :1], w[:1, :1], stride=(1, 2))


def test_what_follows_sums_of_bfloat16_is_done_on_tiles(monkeypatch):
    monkeypatch.setenv("MLIRTRI_FORCE_SCHEDULES", "1")
    arguments = [random(*shape, dtype=torch.bfloat16) for shape in ((1, 4, 12, 17), (6, 4, 3, 3), (32, 32), (32, 32))]
    kernel = mlirtri.from_torch(Biased(), tuple(arguments)).compile()
    assert {"Matmul", "Convolution"} <= {*re.findall(r'mlirtri.schedule": "(\w+)"', kernel.ir["scheduled"])}
    for made, wanted in zip(kernel(*arguments), Biased()(*arguments), strict=True):
        torch.testing.assert_close(made, wanted, **within("bfloat16", 2))


class Residual(torch.nn.Module):
    """What follows is on the tiles, and what that needs stands between both; the second image is in groups."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Conv2d(5, 12, 3, padding=(1, 2), bias=False)
        self.norm = torch.nn.BatchNorm2d(12)
        self.second = torch.nn.Conv2d(12, 12, 3, stride=2, groups=3)
        self.third = torch.nn.Conv2d(12, 6, 3, padding=1, dilation=2)

    def forward(self, x):
        y = self.second(torch.relu(self.norm(self.first(x))))
        return y, self.third(y.transpose(2, 3)) + self.third(torch.relu(y).transpose(2, 3))


def test_only_the_run_counts_the_images(monkeypatch):
    monkeypatch.setenv("MLIRTRI_FORCE_SCHEDULES", "1")
    monkeypatch.setenv("MLIRTRI_NUM_THREADS", "2")
    module = Residual().eval()
    module.norm.running_mean += torch.arange(12)
    count = torch.export.Dim("count", min=0, max=64)
    kernel = mlirtri.from_torch(module, (random(4, 5, 13, 11),), dynamic_shapes={"x": {0: count}}).compile()
    assert len(re.findall(r"\bpixels\w* = T.alloc_buffer", str(kernel.ir["scheduled"]))) >= 3
    for images in (0, 1, 3):
        x = random(images, 5, 13, 11)
        if images:
            x[0, 0, 5, 5] = torch.nan
        for made, wanted in zip(kernel(x), module(x), strict=True):
            torch.testing.assert_close(made, wanted, **within("float32", 108), equal_nan=True)


def test_the_tiles_of_long_rows_are_loops():
    layer, x = torch.nn.Conv1d(24, 20, 5, padding=2).eval(), random(1, 24, 1100)
    kernel = mlirtri.from_torch(layer, (x,)).compile()
    # Tiles of two widths for rows of 512 and for the remainder, and a last one with fewer pixels; 12 without loops.
    assert len(re.findall(r"sums0\w* = T.alloc_buffer", str(kernel.ir["scheduled"]))) <= 6
    torch.testing.assert_close(kernel(x), layer(x), **within("float32", 120))
