"""What pipeline `mlir` reads across the way it writes goes by squares of vectors, of any sizes, and is right."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import mlirtri as mt


@mt.jit(pipeline="mlir")
def turned(a):
    return a.T.copy()


@mt.jit(pipeline="mlir")
def among_others(a, b, row, column):
    return np.where(a.T > b, a.T * row - b, column)


@mt.jit(pipeline="mlir")
def with_places(a, b):
    return torch.exp(a.T) + b * torch.arange(b.shape[0])[:, None]


@mt.jit(pipeline="mlir")
def permuted(a):
    return a.permute(2, 3, 0, 1) + a.permute(2, 3, 0, 1).to(torch.int32)


def squares(kernel) -> int:
    return kernel.ir["llvmdialect"].count("llvm.shufflevector")


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "float16", "float32", "float64", "int64"])
def test_copies_of_every_width(dtype):
    value = np.random.default_rng(0).integers(0, 100, (37, 50)).astype(dtype)
    np.testing.assert_array_equal(turned(value), value.T)
    assert (squares(turned.compile(value)) > 0) is (dtype != "bool")


@pytest.mark.parametrize("shape", [(4, 4), (3, 40), (16, 5), (33, 17), (1, 64), (0, 8)], ids=str)
def test_any_size(shape):
    value = torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(torch.bfloat16)
    assert torch.equal(turned(value), value.T)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.float16])
def test_arithmetic_on_squares(dtype):
    generator = np.random.default_rng(0)
    a, b, row, column = (generator.integers(-9, 9, shape).astype(dtype) for shape in [(21, 35), (35, 21), 21, (35, 1)])
    np.testing.assert_array_equal(among_others(a, b, row, column), np.where(a.T > b, a.T * row - b, column))


def test_more_than_arithmetic_reads_a_copy():
    a, b = torch.randn(21, 35, generator=torch.Generator().manual_seed(0)), torch.ones(35, 21)
    torch.testing.assert_close(with_places(a, b), torch.exp(a.T) + b * torch.arange(35)[:, None])
    assert squares(with_places.compile(a, b)) > 0


def test_axes_between():
    value = torch.arange(2 * 6 * 3 * 17, dtype=torch.int16).reshape(2, 6, 3, 17)
    turned_round = value.permute(2, 3, 0, 1)
    assert torch.equal(permuted(value), turned_round + turned_round.to(torch.int32))


def test_argmax_is_searched_for_in_vectors():
    largest = mt.jit(lambda a: torch.argmax(a, 1), pipeline="mlir")
    value = torch.randn(5, 33, generator=torch.Generator().manual_seed(0))
    value[1, 7], value[2] = torch.nan, -torch.inf
    assert torch.equal(largest(value), value.argmax(1))
    # What loses is not the largest number: LLVM would make a choice of a comparison with it, and no vectors of that.
    assert str(2**63 - 2) in largest.compile(value).ir["llvmdialect"]
