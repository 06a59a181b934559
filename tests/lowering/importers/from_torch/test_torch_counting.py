"""Histograms, any and all, sums in other dtypes, reductions of segments, CTC and chunked losses, against eager."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch.utils import _pytree as pytree

import mlirtri as mt


def check(function, *arguments, pipeline: str):
    results = mt.from_torch(function, arguments).compile(pipeline=pipeline)(*arguments)
    for result, eager in zip(pytree.tree_leaves(results), pytree.tree_leaves(function(*arguments)), strict=True):
        torch.testing.assert_close(result, eager, equal_nan=True)


def histograms(x, weight):
    found = [torch.histogram(x, 5), torch.histogram(x, 4, range=(-1.0, 1.0)), torch.histogram(x * 0 + 3, 3)]
    found += [torch.histogram(x, weight[0].sort()[0]), torch.histogram(x, 6, weight=weight, density=True)]
    return [tuple(each) for each in found]


def test_histograms():
    torch.manual_seed(0)
    check(histograms, torch.randn(4, 6), torch.rand(4, 6), pipeline="mlir")


def joint_histograms(x, weight, first, second):
    found = [torch.histogramdd(x, 4), torch.histogramdd(x, [2, 3], range=[-1.0, 1.0, -2.0, 1.0], weight=weight)]
    found += [torch.histogramdd(x, [first, second], density=True), torch.histogramdd(x * 0 + 2, 2, weight=weight)]
    return [tuple(each) for each in found]


@pytest.mark.slow
def test_joint_histograms():
    torch.manual_seed(0)
    edges = torch.tensor([-1.0, 0.0, 2.0]), torch.tensor([-2.0, -1.0, 0.5, 2.0])
    check(joint_histograms, torch.randn(9, 2), torch.rand(9), *edges, pipeline="linalg")


def joined_targets(x, targets, inputs, lengths, joined):
    return F.ctc_loss(x, joined, inputs, lengths, reduction="none", zero_infinity=True)


def lengths_of_the_program(x, targets, inputs, lengths, joined):
    return F.ctc_loss(x, targets, (7, 5, 7, 0), (3, 2, 0, 0), blank=2, reduction="sum")


def one_sequence(x, targets, inputs, lengths, joined):
    return F.ctc_loss(x[:, 0], targets[0], (7,), (3,), reduction="none")


def ctc_arguments():
    x = torch.randn(7, 4, 5, generator=torch.Generator().manual_seed(0)).log_softmax(-1)
    targets = torch.tensor([[1, 1, 2], [3, 3, 1], [4, 1, 2], [2, 3, 4]])
    joined = torch.tensor([1, 1, 2, 3, 3, 4])
    return x, targets, torch.tensor([7, 5, 2, 0]), torch.tensor([3, 2, 1, 0]), joined


SLOW = (pytest.param(each, marks=pytest.mark.slow) for each in (lengths_of_the_program, one_sequence))


@pytest.mark.parametrize("function", [joined_targets, *SLOW])
def test_ctc_losses(function):
    check(function, *ctc_arguments(), pipeline="mlir")


def test_ctc_losses_check_lengths():
    x, targets, inputs, lengths, _ = ctc_arguments()
    kernel = mt.from_torch(F.ctc_loss, (x, targets, inputs, lengths)).compile()
    torch.testing.assert_close(kernel(x, targets, inputs, lengths), F.ctc_loss(x, targets, inputs, lengths))
    with pytest.raises(mt.KernelError, match="target_lengths are from 0 to 3"):
        kernel(x, targets, inputs, lengths + 1)
    with pytest.raises(mt.KernelError, match="input_lengths are from 0 to 7"):
        kernel(x, targets, inputs + 1, lengths)


def any_and_all(x, number, z, empty):
    found = []
    for each in (x, z, x.float(), x.bool()):
        found += [each.all((0, 1)), each.any((0,)), each.all(()), each.any(dim=()), each.any(dim=(-1, 0), keepdim=True)]
    found += [number.any(dim=(0,)), number.all(dim=()), empty.all((0, 1)), empty.any((1,))]
    return found


def test_any_and_all_over_axes():
    x = torch.tensor([[0, 3], [2, 1]], dtype=torch.uint8)
    check(any_and_all, x, x[1, 1], torch.complex(x.float(), x.float()), torch.zeros(0, 3), pipeline="mlir")


SUMMED_IN = torch.bool, torch.uint8, torch.int8, torch.bfloat16, torch.complex64


def in_other_dtypes(x, truth, z):
    found = [torch.nansum(x, 1, dtype=torch.bool), z.sum(dtype=torch.bool), z.prod(0, dtype=torch.bool)]
    for each in (x, truth):
        found += [each.sum(0, keepdim=True, dtype=kind) for kind in SUMMED_IN]
        found += [each.prod(1, dtype=kind) for kind in SUMMED_IN]
    return found, x.sum(dtype=torch.int8), truth.prod(dtype=torch.uint8), truth.float().sum((), dtype=torch.bool)


def test_sums_and_products_in_other_dtypes():
    x = torch.tensor([[100, 3, 7], [200, 3, -5]], dtype=torch.int16)
    check(in_other_dtypes, x, x > 5, torch.complex(x * 0.0, x * 1.0), pipeline="linalg")


def segments(x, lengths, offsets, y, rows):
    reductions = "sum", "mean", "max", "min", "prod"
    found = [
        torch.segment_reduce(x, each, lengths=lengths, initial=first) for each in reductions for first in (None, 2)
    ]
    found += [torch.segment_reduce(y, each, lengths=rows, axis=1, unsafe=True) for each in ("sum", "max")]
    return found, torch.segment_reduce(x, "mean", offsets=offsets)


def test_segments():
    torch.manual_seed(0)
    lengths, offsets, rows = torch.tensor([2, 0, 4, 1]), torch.tensor([0, 2, 2, 7]), torch.tensor([[1, 4], [2, 3]])
    check(segments, torch.randn(7, 3), lengths, offsets, torch.randn(2, 5, 2), rows, pipeline="linalg")
    kernel = mt.from_torch(lambda x, n: torch.segment_reduce(x, "sum", lengths=n), (torch.randn(7), lengths)).compile()
    with pytest.raises(mt.KernelError, match="lengths that add up"):
        kernel(torch.randn(7), lengths + 1)


def losses_in_chunks(x, matrix, target, weight):
    options = torch.nn.LinearCrossEntropyOptions(batch_chunk_size=2, allow_retain_graph=True)
    loss = F.linear_cross_entropy
    chunked = loss(x, matrix, target, weight=weight, label_smoothing=0.1, options=options)
    options = torch.nn.LinearCrossEntropyOptions(batch_chunk_size=2)
    return chunked, loss(x, matrix, target, reduction="none", options=options)


def test_losses_of_linear_layers_in_chunks():
    x, matrix, weight = torch.randn(5, 4), torch.randn(3, 4), torch.rand(3)
    check(losses_in_chunks, x, matrix, torch.tensor([0, 2, 1, 1, 2]), weight, pipeline="linalg")
