"""Histograms and reductions of segments, against eager."""

from __future__ import annotations

import pytest
import torch
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
