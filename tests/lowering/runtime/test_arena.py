"""Intermediates of a call share one block of memory, by their lifetimes."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from tolerances import within

import mlirtri as mt
from mlirtri.lowering.runtime.memory import LINE, Lifetime, lifetimes, offsets


def test_values_that_are_needed_at_the_same_launch_share_no_bytes():
    chosen = random.Random(0)
    for _ in range(50):
        values = {}
        for number in range(chosen.randrange(1, 20)):
            first = chosen.randrange(30)
            values[number] = Lifetime(first, first + chosen.randrange(6), chosen.randrange(1, 500))
        placed = offsets(values)
        assert all(offset % LINE == 0 for offset in placed.values())
        for one, own in values.items():
            for other, its in values.items():
                if one < other and own.first <= its.last and its.first <= own.last:
                    before = placed[one] + own.bytes <= placed[other]
                    assert before or placed[other] + its.bytes <= placed[one]


def test_a_chain_of_values_needs_two_of_them():
    chain = lifetimes([(0,), (0, 1), (1, 2), (2, 3), (3,)], dict.fromkeys(range(4), 128))
    placed = offsets(chain)
    assert sorted(set(placed.values())) == [0, 128]


@pytest.mark.parametrize("kind", ["arrays", "tensors", "halves"])
def test_a_chain_of_products_computes_in_one_block(kind):
    @mt.jit
    def chain(a):
        b = a @ a
        c = b @ a
        d = c @ b
        return d @ c

    generator = np.random.default_rng(0)
    a = generator.standard_normal((24, 24)).astype(np.float32) / 5
    values = a if kind == "arrays" else torch.from_numpy(a)
    values = values.bfloat16() if kind == "halves" else values
    kernel = chain.compile(values)
    size = 24 * 24 * (2 if kind == "halves" else 4)
    assert kernel.stats["kernels"] == 4
    assert kernel.stats["peak_bytes"] == 3 * size
    exact = torch.from_numpy(a) if kind == "arrays" else values
    wanted = ((exact @ exact @ exact) @ (exact @ exact)) @ (exact @ exact @ exact)
    for _ in range(3):
        found = torch.as_tensor(chain(values))
        torch.testing.assert_close(found, wanted, **within(wanted.dtype, 24 * 8))
