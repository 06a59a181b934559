"""Layers of torch in kernels: pools that say where their values were, running statistics, halves rounded once."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from combinations import in_turn

import mlirtri as mt
from mlirtri.errors import KernelError, KernelTypeError, KernelValueError

PIPELINES = ["linalg", "relax", "mlir"]


def drawn(*shape, seed=0, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def pools(x):
    values, places = F.max_pool2d(x, 2, return_indices=True)
    padded = F.max_pool2d(x, (3, 2), stride=2, padding=1, ceil_mode=True, return_indices=True)
    dilated = F.max_pool2d(x, 2, 1, 0, 2, False, True)
    return values, places, padded, dilated, F.max_pool2d(x, 2), F.max_pool1d(x[0], 3, 2, 1, return_indices=True)


@pytest.mark.parametrize(
    "pipeline", ["mlir", *(pytest.param(name, marks=pytest.mark.slow) for name in ("linalg", "relax"))]
)
def test_pools_with_indices(pipeline):
    x = drawn(2, 3, 7, 8)
    x[0, 0, 0] = 1.5
    x[0, 1, 2:4, 3] = float("nan")
    x[1] = float("-inf")
    torch.testing.assert_close(mt.jit(pools, pipeline=pipeline)(x), pools(x), equal_nan=True)


def covering(x, line):
    values, places = F.adaptive_max_pool2d(x, (4, None), return_indices=True)
    volume = F.adaptive_max_pool3d(x[0][None], (3, 1, 8), return_indices=True)
    return values, places, volume, F.adaptive_max_pool1d(line, 2, True), F.adaptive_max_pool1d(line, 2)


def unpooled(x, line):
    values, places = F.max_pool2d(x, 2, return_indices=True)
    overlapping = F.max_pool2d(x, 3, 2, 1, return_indices=True)
    lines = F.max_pool1d(line, 2, return_indices=True)
    return (
        F.max_unpool2d(values, places, 2),
        F.max_unpool2d(values, places, 2, output_size=x.size()),
        F.max_unpool2d(*overlapping, 3, 2, 1, output_size=(7, 8)),
        F.max_unpool1d(*lines, 2),
    )


@pytest.mark.parametrize(("function", "pipeline"), in_turn([covering, unpooled], PIPELINES))
def test_adaptive_pools_with_indices_and_inverses_of_pools(function, pipeline):
    # Values of windows that overlap differ, so that the order of the inverse's writes has no effect.
    x, line = drawn(2, 3, 7, 8), drawn(2, 3, 8, seed=1)
    x[0, 0, 0] = x[0, 1, 2:4, 3] = float("nan") if function is covering else 9.0
    torch.testing.assert_close(mt.jit(function, pipeline=pipeline)(x, line), function(x, line), equal_nan=True)


def test_inverses_of_pools_check_positions_and_sizes():
    values, places = torch.ones(1, 1, 2, 2), torch.tensor([[[[0, 3], [8, 16]]]])
    with pytest.raises(KernelValueError, match="an index of max_unpool is outside of its output"):
        mt.jit(lambda x, i: F.max_unpool2d(x, i, 2))(values, places)
    with pytest.raises(KernelTypeError, match="an axis of 6, which is no more than a step of 2 from 4"):
        mt.jit(lambda x, i: F.max_unpool2d(x, i, 2, output_size=(4, 6)))(values, places)


def bicubic(image, grid):
    ways = ("zeros", True), ("border", False), ("reflection", False)
    return [F.grid_sample(image, grid, "bicubic", padding, aligned) for padding, aligned in ways]


@pytest.mark.parametrize(
    "pipeline", ["mlir", *(pytest.param(name, marks=pytest.mark.slow) for name in ("linalg", "relax"))]
)
def test_bicubic_samples(pipeline):
    # Some places are far outside of the image.
    image, grid = drawn(2, 2, 5, 6), drawn(2, 3, 4, 2, seed=1) * 1.5
    ours = mt.jit(bicubic, pipeline=pipeline)(image, grid)
    torch.testing.assert_close(ours, bicubic(image, grid), rtol=1e-5, atol=1e-5)


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


def of_instances(x, mean, variance):
    y = F.instance_norm(x, mean, variance, momentum=0.2)
    return y, F.instance_norm(x, mean, variance, use_input_stats=False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_instance_norm_updates_its_statistics(dtype):
    def arguments():
        return drawn(4, 3, 5, dtype=dtype), drawn(3, dtype=dtype), drawn(3, seed=1, dtype=dtype).abs()

    ours, torchs = arguments(), arguments()
    result = mt.jit(of_instances)(*ours)
    torch.testing.assert_close((result, ours), (of_instances(*torchs), torchs))
    with pytest.raises(KernelTypeError, match="more than one value in each channel of an instance"):
        mt.jit(of_instances)(drawn(4, 3, 1), drawn(3), drawn(3))


def test_heaviside_of_nan_and_infinity():
    x = torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0, 0.0, -2.5])
    torch.testing.assert_close(mt.jit(lambda x: torch.heaviside(x, x + 3))(x), torch.heaviside(x, x + 3))


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


def normed(x, y):
    orders = [torch.linalg.vector_norm(x, p, 1) for p in (0, 0.5, 1, 2, 6, float("inf"), -1)]
    rows = F.normalize(x), F.cosine_similarity(x, y), torch.renorm(x, 2, 0, 3.0), F.pairwise_distance(x, y, 3.0)
    rows = *rows, F.cosine_similarity(x[:1, None], y[:, None], dim=0)
    return torch.stack(orders), rows, torch.dist(x, y, 6.0), torch.norm(x, 6), F.huber_loss(x, y, reduction="none")


def normalized(x, mean, variance, weight):
    kept = F.batch_norm(x, mean, variance, weight, weight)
    return kept, F.batch_norm(x, mean, variance, training=True, momentum=0.3), mean, variance


def sampled(image, grid, volume, places):
    # Other paddings compute the same sums of other elements.
    reflected = F.grid_sample(image, grid, padding_mode="reflection", align_corners=False)
    nearest = F.grid_sample(image, grid, "nearest", align_corners=True)
    return reflected, nearest, F.grid_sample(volume, places, align_corners=True)


@pytest.mark.parametrize(
    ("dtype", "pipeline"),
    [(torch.bfloat16, "mlir"), pytest.param(torch.float16, "linalg", marks=pytest.mark.slow)],
    ids=str,
)
def test_norms_samples_and_statistics_of_halves(dtype, pipeline):
    def checked(kernel, *arguments):
        expected = kernel(*(argument.clone() for argument in arguments))
        torch.testing.assert_close(mt.jit(kernel, pipeline=pipeline)(*arguments), expected)

    def half(*shape, seed=0):
        return drawn(*shape, seed=seed, dtype=dtype)

    # Sixth powers of these are beyond the largest float16.
    checked(normed, half(9, 40) * 8, half(9, 40, seed=1))
    checked(normalized, half(9, 6, 5), half(6), half(6, seed=1).abs(), half(6, seed=2))
    wide = [drawn(6), drawn(6, seed=1).abs(), drawn(6, seed=2)]
    checked(normalized, half(9, 6, 5), *wide)
    checked(sampled, half(2, 3, 7, 8), half(2, 5, 6, 2, seed=1), half(1, 2, 4, 5, 6), half(1, 2, 3, 4, 3, seed=1))
    volume = half(2, 8, 8, 8)
    pool = mt.jit(lambda x: F.adaptive_avg_pool3d(x, (5, 7, 4)), pipeline=pipeline)
    torch.testing.assert_close(pool(volume), F.adaptive_avg_pool3d(volume.float(), (5, 7, 4)).to(dtype))


def outer_sums(x, a, b):
    return torch.addr(x, a, b), torch.addr(x, a, b, beta=False), torch.addr(x, a, b, alpha=False), x.addr(a, b)


def test_addr_of_bools_is_bool_and_beta_zero_reads_nothing():
    arguments = [drawn(*shape) > 0 for shape in ((3, 4), (3,), (4,))]
    torch.testing.assert_close(mt.jit(outer_sums)(*arguments), outer_sums(*arguments))
    with pytest.raises(KernelTypeError, match="of bools are 0 or 1"):
        mt.jit(lambda x, a, b: torch.addr(x, a, b, beta=2))(*arguments)
    numbers = drawn(3, 4) * float("nan"), drawn(3), drawn(4)
    result = mt.jit(lambda x, a, b: torch.addr(x, a, b, beta=0))(*numbers)
    torch.testing.assert_close(result, torch.outer(*numbers[1:]))


def of_one_number(x, place, places):
    running = torch.cummax(x, 0), torch.cummin(x, -1), torch.cumsum(x, 0), torch.logcumsumexp(x, -1)
    ordered = torch.sort(x, -1), torch.argsort(x, 0), torch.topk(x, 1, 0), torch.quantile(x, 0.5, 0)
    picked = [torch.index_select(x, 0, places), torch.gather(x, -1, place), torch.gather(x, 0, places)]
    reduced = torch.logsumexp(x, 0), torch.logsumexp(x, -1, True), torch.norm(x, 3, 0), torch.softmax(x, -1)
    written = [torch.index_copy(x, 0, places, x.reshape(1) * 2), torch.index_fill(x, 0, places, 5.0)]
    scattered = torch.scatter(x, 0, place, x * 3), torch.scatter(x, 0, places, 7.0), torch.kthvalue(x, 1)
    return running, ordered, picked, reduced, written, scattered


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_a_rank_0_tensor_has_one_dimension(pipeline):
    arguments = torch.tensor(-3.0), torch.tensor(0), torch.tensor([0])
    torch.testing.assert_close(mt.jit(of_one_number, pipeline=pipeline)(*arguments), of_one_number(*arguments))


@pytest.mark.parametrize("name", ["cumsum", "cummax", "sort", "argsort", "logsumexp", "softmax"])
def test_a_rank_0_tensor_has_no_second_dimension(name):
    function = getattr(torch, name)
    with pytest.raises(KernelError, match="axis 1 is out of range"):
        mt.jit(lambda x: function(x, 1))(torch.tensor(-3.0))
