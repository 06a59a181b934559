"""Predicates that become numbers survive TVM's common subexpression elimination, in every dtype and pipeline."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import mlirtri as mt
from mlirtri.lowering.codegen.passes.arithmetic import select_predicates
from mlirtri.lowering.toolchain.tvm_names import SCRIPT_NAMES, IRModule, from_source


@mt.jit
def masked_differences(x):
    mask = (np.arange(16) // 4 * 2 >= 5).astype(np.float32)
    difference = mask - x
    return np.where(difference != 0, np.float32(-100), difference) + np.where(difference > 1, difference, mask)


@pytest.mark.parametrize("pipeline", ["linalg", "relax", "mlir"])
def test_a_predicate_that_several_vectors_read_as_a_number(pipeline):
    x = np.linspace(-2, 2, 256, dtype=np.float32).reshape(16, 16)
    x[0, 0] = np.nan
    result = masked_differences.compile(x, pipeline=pipeline)(x)
    np.testing.assert_array_equal(result, masked_differences.__wrapped__(x))


class WindowMask(torch.nn.Module):
    """The mask of shifted windows in Swin transformers."""

    def forward(self, x):
        mask = (torch.arange(16) >= 12).float()[:, None].expand(16, 16)
        mask = mask.reshape(4, 4, 4, 4).transpose(1, 2).reshape(16, 16)
        difference = mask.unsqueeze(1) - mask.unsqueeze(2)
        return difference.masked_fill(difference != 0, -100.0) + x


@pytest.mark.parametrize("pipeline", ["linalg", "relax"])
def test_the_mask_of_shifted_windows(pipeline):
    x = torch.linspace(-1, 1, 4096).reshape(16, 16, 16)
    result = mt.from_torch(WindowMask(), (x,)).compile(pipeline=pipeline)(x)
    torch.testing.assert_close(result, WindowMask()(x), rtol=0, atol=0)


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int64", "float16", "float64", "bfloat16"])
def test_predicates_as_numbers_of_each_dtype(dtype):
    to = getattr(torch, dtype)

    def count(x):
        above = (x > 0.5).to(to)
        return above + above * above

    x = torch.linspace(0, 1, 37)
    torch.testing.assert_close(mt.jit(count)(x), count(x), rtol=0, atol=0)


TESTED = """
@T.prim_func(s_tir=True)
def tested(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")):
    for i in range(4):
        b[i] = T.Select(T.int64(0) < T.Cast("int64", a[i] < T.float32(1)), a[i], T.float32(2))
"""


def test_a_predicate_that_is_only_tested_is_no_number():
    """Of nested selections in conditions TVM's simplifier made seconds, as of torch's ``x // y`` in fp16."""
    [function] = select_predicates(IRModule({"tested": from_source(TESTED, SCRIPT_NAMES)})).functions.values()
    assert function.script().count("T.Select") == 1
