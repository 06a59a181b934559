"""Products of matrices in pipeline `mlir` are tiles of vectors, of any sizes and layouts, and right."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

import mlirtri as mt
from mlirtri.lowering.core.cpu import simd_registers


@mt.jit(pipeline="mlir")
def product(a, b):
    return a @ b


@mt.jit(pipeline="mlir")
def product_of_transposed(a, b):
    return a.T @ b.T


@mt.jit(pipeline="mlir")
def contraction_of_three_axes(a, b):
    return np.einsum("iakb,kjba->bij", a, b)


def arrays(dtype, *shapes):
    generator = np.random.default_rng(0)
    if np.dtype(dtype).kind == "f":
        return [generator.standard_normal(shape).astype(dtype) for shape in shapes]
    return [generator.integers(-9, 9, shape).astype(dtype) for shape in shapes]


def check(found, wanted, depth: int) -> None:
    if found.dtype.kind != "f":
        return np.testing.assert_array_equal(found, wanted)
    # Each of `depth` sums rounds once, and a random walk of that many roundings goes the root of it far.
    unit = np.finfo(found.dtype).eps * np.abs(wanted).max(initial=1)
    return np.testing.assert_allclose(found, wanted, rtol=0, atol=4 * unit * max(1, depth) ** 0.5)


SHAPES = [
    (4, 16, 4), (6, 64, 8), (37, 511, 129), (7, 65, 5), (13, 31, 1), (64, 64, 64), (3, 100, 9), (100, 3, 9), (5, 0, 7),
]  # fmt: skip
"""Rows, columns, terms of a sum."""


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_any_size(shape, dtype):
    rows, columns, depth = shape
    a, b = arrays(dtype, (rows, depth), (depth, columns))
    wanted = a.astype(np.longdouble if a.dtype.kind == "f" else dtype) @ b
    check(product(a, b), wanted, depth)


@pytest.mark.parametrize("shape", [(37, 70, 33), (16, 64, 16)], ids=str)
def test_transposed_operands(shape):
    rows, columns, depth = shape
    a, b = arrays(np.float32, (depth, rows), (columns, depth))
    check(product_of_transposed(a, b), a.T.astype(np.float64) @ b.T, depth)


def test_batches_and_several_reduction_axes():
    a, b = arrays(np.float32, (9, 3, 5, 4), (5, 50, 4, 3))
    wanted = np.einsum("iakb,kjba->bij", a.astype(np.float64), b.astype(np.float64))
    check(contraction_of_three_axes(a, b), wanted, 15)


def test_not_a_number_stays_in_its_row():
    a, b = arrays(np.float32, (12, 40), (40, 80))
    a[5, 7], b[3, 79] = np.nan, np.inf
    np.testing.assert_array_equal(np.isfinite(product(a, b)), np.isfinite(a @ b))


def test_the_sums_are_vectors():
    kernel = product.compile(mt.Tensor((60, 128), mt.float32), mt.Tensor((128, 256), mt.float32))
    assert "llvm.intr.fmuladd" in kernel.ir["llvmdialect"]
    lanes = simd_registers().bits // 32
    assert f"vector<{(4 if simd_registers().count >= 32 else 2) * lanes}xf32>" in kernel.ir["llvmdialect"]


@pytest.mark.parametrize(
    ("module", "shape"),
    [
        (torch.nn.Conv2d(5, 7, 3), (2, 5, 9, 37)),
        (torch.nn.Conv2d(8, 8, (3, 1), groups=2, dilation=2), (1, 8, 9, 21)),
        (torch.nn.Conv2d(4, 6, 3, stride=2, padding=1), (2, 4, 9, 67)),
        (torch.nn.Conv2d(4, 8, (1, 2), stride=(1, 3), dilation=(1, 2), groups=2), (1, 4, 5, 71)),
        (torch.nn.Conv2d(4, 6, 3, padding=1), (2, 4, 3, 3)),
        (torch.nn.Conv2d(16, 8, 3, padding=1), (2, 16, 50, 50)),
        (torch.nn.Conv3d(3, 4, 2, stride=(1, 2, 3), padding=(0, 1, 0)), (2, 3, 5, 9, 8)),
    ],
    ids=["dense", "grouped", "strided", "strided in groups", "small", "parts of an image", "volumes"],
)
def test_convolutions_are_products(module, shape):
    value = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    kernel = mt.from_torch(module.eval(), (value,)).compile(pipeline="mlir")
    assert "vector.fma" in kernel.passes["llvmdialect"]["tile-contractions"]
    torch.testing.assert_close(kernel(value), module(value).detach(), rtol=1e-5, atol=1e-5)


def powers(a, steps: mt.int64):
    x = a * 1.0
    for _ in range(steps):
        x = x @ a
    return x


def added_in_place(a, b, c):
    for k in mt.serial(3):
        c += a[k : k + 21] @ b[2:]
        c += c @ b[k, :].reshape(-1, 1)
    return c


def of_transposed(a, b, c):
    for k in mt.serial(2):
        c[1:38] += a[k : k + 37] @ b.T
    return c


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
@pytest.mark.parametrize(
    ("kernel", "shapes"),
    [
        (powers, [(40, 40)]),
        (added_in_place, [(24, 31), (33, 35), (21, 35)]),
        (of_transposed, [(40, 19), (48, 19), (40, 48)]),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_products_in_loops(kernel, shapes, dtype):
    arguments = arrays(dtype, *shapes)
    plain = [each.astype(np.float64 if dtype == np.float32 else dtype) for each in arguments]
    steps = [3] if kernel is powers else []
    compiled = mt.jit(kernel, pipeline="mlir").compile(*arguments, *steps)
    check(compiled(*arguments, *steps), kernel(*plain, *steps), 200)
    product = "fmuladd" if dtype == np.float32 else "mul"
    product += r".*vector<\d+x"
    assert re.search(product, compiled.ir["llvmdialect"])
