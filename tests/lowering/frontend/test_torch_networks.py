"""Layers of torch in kernels: pools that say where their values were, running statistics, halves rounded once."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import mlirtri as mt
from mlirtri.errors import KernelTypeError

PIPELINES = ["linalg", "relax", "mlir"]


def drawn(*shape, seed=0, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def pools(x):
    values, places = F.max_pool2d(x, 2, return_indices=True)
    padded = F.max_pool2d(x, (3, 2), stride=2, padding=1, ceil_mode=True, return_indices=True)
    dilated = F.max_pool2d(x, 2, 1, 0, 2, False, True)
    return values, places, padded, dilated, F.max_pool2d(x, 2), F.max_pool1d(x[0], 3, 2, 1, return_indices=True)


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_pools_with_indices(pipeline):
    x = drawn(2, 3, 7, 8)
    x[0, 0, 0] = 1.5
    x[0, 1, 2:4, 3] = float("nan")
    x[1] = float("-inf")
    torch.testing.assert_close(mt.jit(pools, pipeline=pipeline)(x), pools(x), equal_nan=True)


def trained(x, mean, variance, weight):
    y = F.batch_norm(x, mean, variance, weight, training=True, momentum=0.2)
    return y, F.batch_norm(x, mean, variance)


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_batch_norm_updates_its_statistics(pipeline):
    def arguments():
        return drawn(4, 3, 5), drawn(3), drawn(3, seed=1).abs(), drawn(3, seed=2)

    ours, torchs = arguments(), arguments()
    result = mt.jit(trained, pipeline=pipeline)(*ours)
    torch.testing.assert_close((result, ours), (trained(*torchs), torchs))
    assert not torch.equal(ours[1], arguments()[1])


def test_batch_norm_refuses_one_value_and_half_of_the_statistics():
    with pytest.raises(KernelTypeError, match="more than one value for each channel"):
        mt.jit(lambda x, m, v: F.batch_norm(x, m, v, training=True))(drawn(1, 3), drawn(3), drawn(3))
    with pytest.raises(KernelTypeError, match="both tensors, or both None"):
        mt.jit(lambda x, v: F.batch_norm(x, None, v, training=True))(drawn(4, 3), drawn(3))


def composed(x, y, z):
    arithmetic = torch.addcmul(x, y, z, value=0.3), torch.addcdiv(x, y, z.abs() + 1), torch.lerp(x, y, 0.4)
    curves = torch.sinc(x), F.mish(x), F.celu(x), F.selu(x), F.hardswish(x), F.glu(x), F.group_norm(x, 3)
    return arithmetic, curves, x.addcmul_(y, z)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
def test_halves_are_rounded_once(pipeline, dtype):
    def arguments():
        return [drawn(9, 12, seed=seed, dtype=dtype) for seed in range(3)]

    torch.testing.assert_close(mt.jit(composed, pipeline=pipeline)(*arguments()), composed(*arguments()))


def of_integers(x, y):
    vector, batch = x[0], x.reshape(1, 3, 4)
    sums = torch.addmv(y[0, :3], x, vector, beta=2.5, alpha=1.5), torch.addbmm(y[:3, :3], batch, batch.mT)
    areas = torch.trapezoid(x, y[:3]), torch.trapezoid(x), torch.cumulative_trapezoid(x, y[:3], dim=0)
    return sums, areas, torch.cumulative_trapezoid(x), torch.special.entr(x)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.float32])
def test_composed_functions_of_integers_wrap_where_torchs_do(dtype):
    x = (torch.arange(12) * 37 % 101).reshape(3, 4).to(dtype)
    y = (torch.arange(16) * 53 % 91).reshape(4, 4).to(dtype)
    torch.testing.assert_close(mt.jit(of_integers)(x, y), of_integers(x, y))


def of_bools(x, y):
    return torch.heaviside(x, y), torch.diag_embed(x), torch.diag_embed(x, offset=2)


@pytest.mark.parametrize("dtype", [torch.bool, torch.int32])
def test_steps_and_diagonals_keep_the_dtype(dtype):
    x, y = torch.tensor([0, 1, 1]).to(dtype), torch.tensor([1, 1, 0]).to(dtype)
    torch.testing.assert_close(mt.jit(of_bools)(x, y), of_bools(x, y))
