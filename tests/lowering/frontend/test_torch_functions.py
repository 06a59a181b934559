"""Functions of torch that the frontend inlines: losses, distances, activations, scatters, windows, against eager."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import mlirtri as mt
from mlirtri.errors import KernelError


def leaves(result):
    if isinstance(result, (tuple, list)):
        return [leaf for part in result for leaf in leaves(part)]
    return [result]


def check(function, *arguments, pipeline="mlir"):
    results = leaves(mt.jit(function, pipeline=pipeline)(*arguments))
    expected = leaves(function(*arguments))
    for number, (result, eager) in enumerate(zip(results, expected, strict=True)):
        assert type(result) is type(eager), number
        if isinstance(eager, (bool, float)):
            assert result == eager, number
            continue
        assert result.dtype == eager.dtype, number
        torch.testing.assert_close(result, eager, equal_nan=True, msg=lambda text, number=number: f"{number}: {text}")


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


X, Y, Z = drawn(4, 6), drawn(4, 6, seed=1), drawn(4, 6, seed=2)
CLASSES = torch.tensor([0, 5, 2, -100])
SIGNS = torch.tensor([1.0, -1.0, 1.0, -1.0])


def losses(x, y, z):
    chance = torch.sigmoid(y)
    return (
        F.mse_loss(x, y),
        F.l1_loss(x, y, reduction="sum"),
        F.smooth_l1_loss(x, y, beta=0.5),
        F.huber_loss(x, y, delta=0.7),
        F.binary_cross_entropy(torch.sigmoid(x), chance),
        F.binary_cross_entropy_with_logits(x, chance, pos_weight=z[0] ** 2),
        F.kl_div(x, chance, reduction="batchmean"),
        F.kl_div(x, y, log_target=True),
        F.poisson_nll_loss(x, chance * 5, full=True),
        F.gaussian_nll_loss(x, y, z * z, full=True),
        F.soft_margin_loss(x, torch.sign(y)),
        F.hinge_embedding_loss(x, torch.sign(y)),
        F.margin_ranking_loss(x, y, torch.sign(z), margin=0.1),
        F.triplet_margin_loss(x, y, z, swap=True, reduction="none"),
    )


def test_losses():
    check(losses, X, Y, Z)


def classes(x, target, weight, signs):
    return (
        F.cross_entropy(x, target),
        F.cross_entropy(x, target, weight, label_smoothing=0.1),
        F.cross_entropy(x, target, reduction="none"),
        F.cross_entropy(x, torch.softmax(x * 2, 1), weight, label_smoothing=0.2),
        F.cross_entropy(x[:2].reshape(1, 6, 2), target[None, 1:3]),
        F.nll_loss(torch.log_softmax(x, 1), target, weight),
        F.cosine_embedding_loss(x, x.flip(0), signs, margin=0.1),
        F.one_hot(target[:3], 7),
        F.embedding(target[:3], x.T),
        F.dropout(x, 0.5, training=False),
    )


@pytest.mark.parametrize("pipeline", ["mlir", pytest.param("linalg", marks=pytest.mark.slow)])
def test_losses_of_classes(pipeline):
    check(classes, X, CLASSES, Y[0] ** 2, SIGNS, pipeline=pipeline)


def test_a_class_that_is_none():
    with pytest.raises(IndexError, match="out of bounds"):
        mt.jit(lambda x, target: F.cross_entropy(x, target), pipeline="mlir")(X, CLASSES + 1)


def activations(x, slope):
    return (
        F.hardshrink(x),
        F.softshrink(x, 0.3),
        F.threshold(x, 0.1, 20.0),
        F.celu(x, 0.7),
        F.selu(x),
        F.prelu(x, slope),
        F.hardtanh(x, -0.5, 0.4),
        F.hardsigmoid(x),
        F.hardswish(x * 3),
        F.mish(x * 9),
        F.softsign(x),
        F.tanhshrink(x),
        F.glu(x, 1),
        torch.logit(torch.sigmoid(x)),
        torch.xlogy(x, x * x),
        torch.addcmul(x, x, x, value=0.5),
        torch.addcdiv(x, x, x * x + 1),
        torch.lerp(x, x * 2, 0.7),
        x.lerp(x * x, torch.sigmoid(x)),
        torch.rsub(x, 1, alpha=2),
    )


def test_activations_and_arithmetic():
    check(activations, torch.cat([X, torch.tensor([[0.0, -0.0, 0.5, -0.5, 3.0, -3.0]])]), Y[0])


def arrays_and_factors(x, y):
    counts, square = (x * 2).to(torch.int64), x[:, :4] + 3 * torch.eye(4)
    holes = torch.where(x > 1, torch.nan, x)
    return (
        torch.block_diag(x, y[0], counts), torch.tril_indices(3, 3), torch.unravel_index(counts.abs(), (2, 3)),
        counts.mode(1), counts[0, 0].mode(), holes.nanmedian(), holes.nanmedian(0, keepdim=True),
        torch.where(x > 0), torch.gradient(x, dim=1), torch.put(x, counts[0].abs(), y[0], accumulate=True),
        torch.diagonal_scatter(x, y[:, 0]), x.sum_to_size(4, 1), torch.vander(y[0], 3), torch.hann_window(5),
        torch.linalg.lu(square), torch.matrix_exp(square), square.inverse(), square.det(), torch.svd(x)[1],
        torch.erfc(x.double() * 5), torch.special.log_ndtr(x.double() * 9), torch.special.erfcx(x), x.erfc(),
        torch.mvlgamma(x.abs() + 2, 2), torch.finfo(x.dtype).eps, torch.as_tensor(x, dtype=torch.float64),
        torch.allclose(x, x), torch.histogram(x[0], 4, range=(-1.0, 1.0)), torch.special.i1e(x), torch.ger(x[0], y[0]),
    )  # fmt: skip


def test_arrays_and_factors():
    check(arrays_and_factors, X, Y)


def distances(x, y):
    return (
        torch.cdist(x, y),
        torch.cdist(x, y[:3], p=1.0),
        torch.cdist(x[None], y[None], p=float("inf")),
        torch.dist(x, y, 3.0),
        torch.pdist(x),
        F.pairwise_distance(x, y, keepdim=True),
        F.cosine_similarity(x, y),
        F.normalize(x, dim=0),
        torch.addmv(x[:, 0], x, y[0], beta=2.0),
        torch.addr(x[:, :4], x[:, 0], y[:, 0], alpha=0.5),
        torch.addbmm(x[:, :4], x[None], y.T[None]),
        torch.trapz(x),
        torch.trapezoid(x, y),
    )


def test_distances_and_products():
    check(distances, X, Y)


def selections(x, index):
    return (
        torch.cummax(x, 1),
        x.cummin(0).indices,
        x.masked_select(x > 0),
        torch.take_along_dim(x, index, 1),
        x.index_fill(1, index[0], 7.0),
        torch.select_scatter(x, x[0], 0, 2),
        torch.slice_scatter(x, x[:2] * 2, 0, 1, 3),
        x.nonzero(),
        torch.argwhere(x > 1),
        torch.unique_consecutive(torch.sign(x)),
    )


def test_selections():
    index = torch.tensor([[0, 2, 1], [5, 3, 1], [0, 0, 2], [4, 4, 4]])
    nan = X.clone()
    nan[0, 2] = nan[3, 0] = float("nan")
    check(selections, torch.round(X * 2), index)
    check(lambda x: (torch.cummax(x, 1), torch.cummin(x, 0), torch.median(x, 1)), nan)
    check(lambda x: (torch.kthvalue(x, 2, dim=1), x.median(1), torch.median(x, 0, keepdim=True), x.median()), X)


def scatters(x, index, source):
    ways = [torch.scatter_reduce(x, 1, index, source, reduce, include_self=own)
            for reduce in ("sum", "mean", "prod", "amax", "amin") for own in (True, False)]  # fmt: skip
    return *ways, x[:, 0].scatter_reduce(0, index[0], source[0], "sum")


def test_scatters():
    index = torch.tensor([[0, 2, 0], [5, 3, 3], [1, 1, 1]])
    check(scatters, X, index, Y[:3, :3])
    with pytest.raises(IndexError, match="out of bounds"):
        mt.jit(scatters, pipeline="mlir")(X, index + 2, Y[:3, :3])


def images(x):
    return (
        F.interpolate(x, scale_factor=2),
        F.interpolate(x, size=(3, 7), mode="nearest-exact"),
        F.interpolate(x, size=(7, 5), mode="bilinear"),
        F.interpolate(x, scale_factor=1.7, mode="bilinear", align_corners=True),
        F.interpolate(x, scale_factor=(0.6, 2.0), mode="bicubic"),
        F.interpolate(x[0], size=9, mode="linear"),
        F.pixel_shuffle(x, 2),
        F.pixel_unshuffle(x, 2),
        F.channel_shuffle(x, 2),
        F.unfold(x, (2, 3), 1, 1, 2),
        F.fold(F.unfold(x, (2, 3), (2, 1), 1, 2), (4, 6), (2, 3), (2, 1), 1, 2),
        x.unfold(3, 4, 2),
        x.unfold(-2, 2, 1),
    )


def test_images():
    check(images, drawn(2, 4, 4, 6))


def normalisations(x, mean, variance):
    return (
        F.batch_norm(x, mean, variance, mean, variance),
        F.batch_norm(x, None, None, training=True),
        F.group_norm(x, 2, mean, variance),
        F.instance_norm(x),
        F.local_response_norm(x, 3),
    )


def test_normalisations():
    check(normalisations, drawn(2, 4, 3, 5), drawn(4, seed=3), drawn(4, seed=4) ** 2 + 0.1)


def test_unlike_numbers_of_integers():
    """Eager averages integers in integers, and does not negate unsigned ones."""

    def functions(x, unsigned):
        return F.local_response_norm(x, 3, k=0.5), torch.special.entr(unsigned)

    x = torch.arange(-7, 23).reshape(1, 5, 6)
    check(functions, x, torch.tensor([0, 1, 7, 4000000000], dtype=torch.uint32))


@pytest.mark.parametrize(("function", "message"), [
    (lambda x: F.dropout(x), "draws random numbers"),
    (lambda x: F.mse_loss(x, x, reduction="avg"), "reduction= is 'none', 'mean' or 'sum'"),
    (lambda x: F.interpolate(x[None], scale_factor=2, mode="lanczos"), "in the modes"),
    (lambda x: F.one_hot(x.long()), "num_classes="),
    (lambda x: x.stride(), "pass them as arguments"),
    (lambda x: x.sum().backward(), "a kernel computes no gradients"),
    (lambda x: F.instance_norm(x, x[0], None), "both tensors, or both None"),
    (lambda x: F.mse_loss(x, x, True), "are deprecated"),
])  # fmt: skip
def test_what_is_refused(function, message):
    with pytest.raises(KernelError, match=message):
        mt.jit(function)(X)


def test_slices_are_values():
    def cut(x, n: mt.int64):
        rows = slice(1, None, 2)
        return x[rows], x[(slice(0, 2), slice(None, None, 3))], x[slice(n, n + 2)].sum()

    check(lambda x: cut(x, 1), X)


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_halves_beside_a_tensor_of_rank_0_are_rounded_once(half):
    factor = torch.tensor(1.2345678)
    check(lambda x, t: (x * t, x / t, t * x, t / x, x // t, x + t, x - t), drawn(2000).to(half), factor)


def statistics(x, y, i):
    with_nan = torch.where(x > 1, float("nan"), x)
    return (
        torch.histc(x, 7, -1, 2), torch.histc(x), torch.quantile(x, torch.tensor([0.1, 0.5])), x.quantile(0.3, dim=1),
        torch.quantile(x, 0.25, dim=0, keepdim=True, interpolation="nearest"), torch.nanquantile(with_nan, 0.6, dim=1),
        torch.cov(x), torch.cov(x, correction=0, fweights=i[:6]), torch.corrcoef(x), torch.cumulative_trapezoid(x),
        torch.logcumsumexp(x, 1), torch.renorm(x, 2, 0, 1.5), torch.renorm(x, float("inf"), 1, 0.5),
        torch.special.xlog1py(x, y * y), torch.special.entr(y), torch.heaviside(x, y), torch.sinc(x),
        torch.equal(x, x.clone()), torch.equal(x, y), torch.equal(x, y[:2]), x.is_floating_point(),
    )  # fmt: skip


def arrangements(x, i):
    return (
        torch.gcd(i * 6, i + 14), torch.lcm(i, i + 3), torch.isin(i, torch.tensor([2, 3])), torch.ldexp(x[0], i[:6]),
        torch.cartesian_prod(i[:2], i[:3]), torch.combinations(x[0], 3),
        torch.combinations(x[0], with_replacement=True),
        *torch.hsplit(x, 3), *torch.split_with_sizes(x, (1, 5), 1), torch.diagflat(x[0], -1), torch.diag_embed(x, 1),
        torch.index_copy(x, 0, i[1:3] - 1, x[:2] * 2), torch.index_put(x, (i[:2] - 1, i[:2]), x[0, :2], True),
        x.index_reduce(0, i[:2] - 1, x[:2] + 2, "prod"), torch.unique(i.reshape(-1, 1) % 2, dim=0),
        torch.index_reduce(x, 1, torch.tensor([1, 1, 0]), x[:, :3], "mean", include_self=False),
        torch.msort(x), torch.row_stack((x, x)), torch.isposinf(x / 0), torch.isreal(i), torch.positive(x),
        torch.sinc(i), F.hardtanh(i, 1.5, 4.5),
    )  # fmt: skip


def matrices(a, b):
    # Rows are exchanged: the first pivots are small.
    a = a * torch.tensor([1e-3, 1.0, 1.0, 1.0])[:, None]
    positive = a @ a.T + torch.eye(4)
    lower = torch.linalg.cholesky(positive)
    return (
        torch.linalg.solve(a, b), torch.linalg.inv(a), torch.det(a), torch.linalg.cholesky(positive, upper=True),
        torch.cholesky_solve(b, lower), torch.cholesky_inverse(lower), torch.linalg.matrix_power(a, 5),
        torch.matrix_power(a, -2), torch.linalg.solve_triangular(lower, b, upper=False),
        torch.linalg.solve_triangular(lower.T, b.T, upper=True, left=False, unitriangular=True),
        torch.linalg.multi_dot((a, a, b)), torch.linalg.vecdot(b, b, dim=0), torch.linalg.vander(b[0], N=4),
        torch.linalg.diagonal(a, offset=1), torch.triangular_solve(b, lower, upper=False).solution,
        *torch.linalg.lu_factor(a), torch.linalg.lu_solve(*torch.linalg.lu_factor(a), b),
        torch.einsum(a, [0, 1], b, [1, 2], [2, 0]), torch.linalg.tensorinv(a.reshape(2, 2, 4), ind=2),
        torch.linalg.tensorsolve(a.reshape(2, 2, 4), b[0, :2] * a[:2, :2]),
    )  # fmt: skip


def cells(x, h, w, v, b):
    return (
        *torch.lstm_cell(x, (h, h * 2), w, v, b, b), torch.gru_cell(x, h, w[:9], v[:9], b[:9], b[:9]),
        torch.rnn_tanh_cell(x, h, w[:3], v[:3], b[:3], b[:3]), torch.rnn_relu_cell(x, h, w[:3], v[:3]),
        F.bilinear(x, h, w[:, :, None] * v[:, None], b),
        F.multi_margin_loss(x, torch.tensor([1, 0, 2, 3]), weight=b[:6]),
        F.multilabel_soft_margin_loss(x, torch.sigmoid(x)), F.lp_pool1d(x * x, 3.0, 2),
        F.embedding_bag(torch.tensor([[0, 2], [1, 1]]), w, mode="sum"),
    )  # fmt: skip


NUMBERS = torch.tensor([1, 2, 3, 4, 5, 6, 7])


@pytest.mark.parametrize(("function", "arguments"), [
    (statistics, (X, Y, NUMBERS)), (arrangements, (X, NUMBERS)), (matrices, (drawn(4, 4), drawn(4, 3, seed=4))),
    (cells, (X, drawn(4, 3), drawn(12, 6, seed=2), drawn(12, 3, seed=3), drawn(12, seed=5))),
], ids=lambda value: getattr(value, "__name__", ""))  # fmt: skip
def test_less_common_functions(function, arguments):
    check(function, *arguments)


def test_repeats_are_one_operation():
    x = torch.rand(2, 300)
    kernel = mt.jit(lambda x: x.repeat_interleave(2, dim=1)).compile(x)
    torch.testing.assert_close(kernel(x), x.repeat_interleave(2, dim=1))
    assert len(kernel.ir["tri"].splitlines()) < 10


DEVICE = torch.device("cpu")


def on_the_device(x, device):
    y = torch.zeros(3, device=x.device) + torch.arange(3, dtype=x.dtype, device="cpu").to(x.device)
    z = x.new_full((2,), 7, device=DEVICE).cpu() if x.device.type == "cpu" and not x.is_cuda else x
    x.data.mul_(2)
    return y, z.to(DEVICE, torch.float64), torch.eye(2, device=torch.device("cpu", 0)), torch.ones(1, device=device), x


def test_tensors_are_made_on_the_kernels_device():
    for device in ("cpu", DEVICE):
        x = torch.ones(3)
        expected = on_the_device(x.clone(), device)
        for result, eager in zip(mt.jit(on_the_device)(x, device), expected, strict=True):
            torch.testing.assert_close(result, eager)


@pytest.mark.parametrize(("function", "message"), [
    (lambda x: torch.zeros(2, device="cuda"), "makes a tensor on the device that the kernel runs on, not on cuda"),
    (lambda x: x.cuda(), "x.cuda() moves a tensor to another device"),
    (lambda x: x.to("cuda:0"), "tensors do not move between devices in a kernel"),
    (lambda x: x.device.name, "a device has no attribute 'name' in a kernel"),
])  # fmt: skip
def test_other_devices_are_refused(function, message):
    with pytest.raises(KernelError) as caught:
        mt.jit(function)(torch.ones(2))
    assert message in str(caught.value)


def test_the_device_of_a_cuda_kernel():
    def fives(x):
        return torch.full((3,), 5.0, device=x.device) + x if x.is_cuda else x

    kernel = mt.jit(fives).compile(mt.Tensor((3,), mt.float32), target="cuda")
    assert "5.0" in kernel.ir["cuda"]


def test_a_diagonal_is_filled():
    def filled(x):
        y = x.clone()
        y.fill_diagonal_(7)
        x.fill_diagonal_(2).mul_(3)
        return y

    mine = torch.rand(3, 5)
    right = mine.clone()
    torch.testing.assert_close(mt.jit(filled)(mine), filled(right))
    torch.testing.assert_close(mine, right)
