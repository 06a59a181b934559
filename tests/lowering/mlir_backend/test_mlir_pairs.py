"""Products of narrow integers in pipeline `mlir` are made of pairs, of any sizes and layouts, and right."""

from __future__ import annotations

import numpy as np
import pytest

import mlirtri as mt
from mlirtri.lowering.core.cpu import cpu_flags

IN_PAIRS = "llvm.call_intrinsic"


@mt.jit(pipeline="mlir")
def product(a, b):
    return a.astype(np.int32) @ b.astype(np.int32)


@mt.jit(pipeline="mlir")
def product_of_transposed(a, b):
    return a.T.astype(np.int32) @ b.astype(np.int32).T


@mt.jit(pipeline="mlir")
def square_and_wide(a):
    wide = a.astype(np.int32)
    return wide @ wide, wide + 1


def numbers(kind: str, *shape: int) -> np.ndarray:
    limits = np.iinfo(kind)
    return np.random.default_rng(0).integers(limits.min, limits.max, shape, kind, endpoint=True)


def check(function, a, b, wanted, in_pairs=True) -> None:
    np.testing.assert_array_equal(function(a, b), wanted)
    if "avx2" in cpu_flags():
        assert (IN_PAIRS in function.compile(a, b).ir["llvmdialect"]) is in_pairs


@pytest.mark.parametrize("left", ["int8", "uint8", "int16", "uint16"])
@pytest.mark.parametrize("right", ["int8", "uint8"])
def test_kinds(left, right):
    a, b = numbers(left, 13, 9), numbers(right, 9, 70)
    check(product, a, b, a.astype(np.int32) @ b.astype(np.int32), in_pairs=left != "uint16")


@pytest.mark.parametrize("shape", [(4, 16, 4), (6, 64, 8), (37, 111, 29), (100, 31, 5), (5, 0, 7)], ids=str)
def test_any_size(shape):
    rows, columns, depth = shape
    a, b = numbers("int8", rows, depth), numbers("int8", depth, columns)
    check(product, a, b, a.astype(np.int32) @ b.astype(np.int32), in_pairs=columns > 0)


def test_transposed_operands_and_batches():
    a, b = numbers("int8", 37, 20), numbers("uint8", 50, 37)
    check(product_of_transposed, a, b, a.T.astype(np.int32) @ b.T.astype(np.int32))
    a, b = numbers("int8", 3, 13, 6), numbers("int8", 3, 6, 33)
    check(product, a, b, a.astype(np.int32) @ b.astype(np.int32))


def test_an_operand_that_others_read():
    value = numbers("int8", 19, 19)
    wide = value.astype(np.int32)
    squared, more = square_and_wide(value)
    np.testing.assert_array_equal(squared, wide @ wide)
    np.testing.assert_array_equal(more, wide + 1)
