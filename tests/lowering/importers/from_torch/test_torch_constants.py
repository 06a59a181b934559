"""Operators on tensors of one number, which torch-mlir folds, and on numbers, which it rounds to the tensor's dtype."""

from __future__ import annotations

import torch
from torch_case_checks import agrees

import mlirtri as mt


def of_constants(x):
    quotients = [
        torch.div(torch.full((2,), a, dtype=kind), torch.full_like(x, b, dtype=kind), rounding_mode=mode)
        for kind, a, b in ((torch.int64, 7, -2), (torch.int32, -7, 2), (torch.int16, -8, -3))
        for mode in ("floor", "trunc")
    ]
    numbers = [torch.full((2,), number) for number in (2.5, -2.5, 0.0, torch.nan)]
    return quotients, [(number.sign(), number.trunc(), number.frac(), number.sgn()) for number in numbers]


def test_quotients_and_signs_of_constants():
    x = torch.ones(2)
    kernel = mt.from_torch(of_constants, (x,)).compile(pipeline="mlir")
    assert agrees(kernel(x), of_constants(x)) is None


def with_numbers(x, index, flags):
    """Numbers that float16 does not have, and booleans that are added."""
    rounded = x * 6.283185307179586, x / 0.3, x - 0.1, torch.logit(x / 8)
    added = flags.scatter_add(0, index, flags[:3]), flags.scatter_reduce(0, index, flags[:3], "amin")
    return rounded, added, torch.polygamma(1, torch.tensor([-3, 0, 4], dtype=torch.int8) + index)


def test_numbers_beside_fp16_and_sums_of_booleans():
    x = torch.linspace(0.03, 7.9, 64, dtype=torch.float16)
    arguments = x, torch.tensor([1, 1, 3]), torch.tensor([True, True, True, False])
    results = mt.from_torch(with_numbers, arguments).compile(pipeline="mlir")(*arguments)
    expected = with_numbers(*arguments)
    assert all(torch.equal(a, b) for a, b in zip(results[0][:3], expected[0], strict=False))
    assert agrees(results, expected) is None


def of_narrow_integers(x):
    pooled = torch.nn.functional.max_pool2d(x.view(1, 4, 4), 2, return_indices=True)
    indices = torch.tril_indices(3, 4, 1), torch.triu_indices(3, 4, 1, dtype=torch.int32)
    counts = torch.nonzero_static(x[:0], size=2)
    distances = torch.cdist(torch.zeros(2, 0), torch.zeros(3, 0), torch.inf)
    return pooled, x.max(), x.min(), indices, counts, torch.lcm(x[:1], x[:1]), distances


def test_narrow_integers_and_results_without_elements():
    x = torch.arange(-7, 9, dtype=torch.int8)
    results = mt.from_torch(of_narrow_integers, (x,)).compile(pipeline="mlir")(x)
    assert agrees(results, of_narrow_integers(x)) is None
