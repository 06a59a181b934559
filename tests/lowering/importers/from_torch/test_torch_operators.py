"""Operators that torch-mlir lacks or gets wrong, many to a kernel, against eager."""

from __future__ import annotations

import copy
import re
import warnings

import pytest
import torch
from torch_case_checks import agrees

import mlirtri as mt

GENERATOR = torch.Generator().manual_seed(5)
BYTES = torch.tensor([0, 1, 2, 3, 127, 128, 200, 253, 255], dtype=torch.uint8)
FLOATS = torch.randn(3, 6, generator=GENERATOR)
WITH_NAN = torch.where(FLOATS > 0.6, torch.nan, FLOATS)


def check(function, *arguments, pipeline="linalg", **options) -> None:
    with warnings.catch_warnings():
        # torch's, of medians and modes that are not unique.
        warnings.simplefilter("ignore")
        kernel = mt.from_torch(function, arguments, **options).compile(pipeline=pipeline)
        problem = agrees(kernel(*arguments), function(*arguments))
    assert problem is None, problem


def beside_numbers(x, y):
    """A number takes the type of the tensor, and wraps there."""
    compared = x == 200, x != 253, x < -3, x >= 300, x < 3
    divided = x // 300, x % -3, torch.div(x, 300, rounding_mode="trunc")
    return compared, divided, x * 300, x - 200, 100 // (x | 1), torch.maximum(x, torch.tensor(-3)), x.clamp(-3, None)


@pytest.mark.parametrize("kind", [torch.uint8, pytest.param(torch.int8, marks=pytest.mark.slow)])
def test_narrow_integers_with_python_numbers(kind):
    check(beside_numbers, BYTES.view(kind), BYTES, pipeline="mlir")


def named(names):
    return lambda z: [getattr(torch, name)(z) for name in names.split()]


@pytest.mark.parametrize(
    "names",
    [
        "sqrt log1p sigmoid tanh asin acosh isnan",
        pytest.param("rsqrt reciprocal square log2 log10 expm1 sinh cosh sin", marks=pytest.mark.slow),
        pytest.param("log cos tan acos atan asinh atanh isinf", marks=pytest.mark.slow),
    ],
)
def test_functions_of_complex_numbers(names):
    z = torch.randn(12, generator=GENERATOR, dtype=torch.complex128)
    z[:3] = torch.tensor([complex(-2, 0.0), complex(-2, -0.0), complex(3, 0.0)])
    z[3:5] = torch.tensor([complex(-800, 0.0), complex(1e200, 2.0)]) if "log1p" in names else z[3:5]
    check(named(names), z, pipeline="mlir")


@pytest.mark.parametrize("kind", [torch.float32, torch.float16, torch.int32])
def test_special_exponents_are_multiplications(kind):
    """Their zeros and infinities, too, which are others than C's `pow` has."""
    x = torch.tensor([2.0, -3.0, 0.0, -0.0, torch.inf, -torch.inf, 7.0] if kind.is_floating_point else [1, 2, 9])
    check(lambda x: [x**exponent for exponent in (2.0, 3.0, -1.0, -2.0, 0.5, -0.5, 0.0, 1.0)], x.to(kind))


def reductions_of_complex(z, r):
    powers = z**2, z**-1, z**0.5, r ** (1 + 2j), 2**z, z**z, r**z
    sums = z.mean(), z.mean(1), z.sum(), z.prod(), z.prod(1, keepdim=True), z.cumsum(0), z.var(0), z.std()
    booleans = torch.logical_and(z, r), torch.logical_not(z * 0), torch.logical_xor(r > 1, z), torch.nonzero(z)
    return (
        powers,
        sums,
        booleans,
        torch.var_mean(z, 1),
        torch.linalg.norm(z),
        torch.linalg.norm(r, 1),
        torch.linalg.matrix_norm(r, float("inf")),
    )


@pytest.mark.slow
def test_powers_and_sums_of_complex_numbers():
    z = torch.randn(3, 5, generator=GENERATOR, dtype=torch.complex128)
    check(reductions_of_complex, z, z.real.abs(), pipeline="mlir")


def in_order(x, y, z):
    medians = torch.median(x), torch.median(y, 1), torch.median(y, 0, keepdim=True), torch.median(z)
    without = torch.nanmedian(y), torch.nanmedian(y, 0), torch.nanmedian(z, 1)
    ranks = torch.kthvalue(y, 2, 0)[0], torch.kthvalue(z, 3, 1, keepdim=True)[0], torch.kthvalue(x, 1)
    modes = torch.mode(z, 1), torch.mode(z, 0, keepdim=True)
    counts = torch.histc(x, 5, -1, 1), torch.histc(x, 5), torch.histc(x * 0, 4)
    extremes = torch.cummax(y, 1), torch.cummin(y, 0), torch.cummax(z, 1), torch.cummin(z, 0)
    return [*medians, *without, *ranks, *modes, *counts, *extremes]


def test_medians_modes_histograms_and_cumulative_extrema():
    check(in_order, FLOATS, WITH_NAN, (FLOATS * 2).long(), pipeline="mlir")


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
def test_elements_at_data_dependent_indices(pipeline):
    """Whether there is one is two conditions in one assertion."""
    kernel = mt.from_torch(lambda x: (x[x > 0][-1], torch.nonzero(x)[0]), (torch.tensor([1.0, -1, 2]),))
    kernel = kernel.compile(pipeline=pipeline)
    assert [each.tolist() for each in kernel(torch.tensor([0.0, 3, -1]))] == [3.0, [1]]
    with pytest.raises(mt.KernelError, match="u0 >= 1"):
        kernel(torch.tensor([-1.0, 0, 0]))


def without_repeats(x):
    places = torch.nonzero_static(x > 1, size=4), torch.nonzero_static(x > 1, size=6, fill_value=7), x[0, 0].argwhere()
    repeated = (
        x.repeat_interleave(x[0] - 1, 1),
        x.repeat_interleave(x[1] - 2, 1, output_size=1),
        x[0].int().repeat_interleave(x[1].int()),
    )
    without = torch.unique(x, return_inverse=True, return_counts=True), torch.unique_consecutive(x, return_counts=True)
    return repeated, without, places, x[:0].argwhere(), x[:0].repeat(2, 2)


def test_unique_and_repeat_interleave():
    check(without_repeats, torch.tensor([[3, 1, 1], [2, 2, 3]]), pipeline="mlir")


def unique_slices(x, empty):
    along = [torch.unique(x, dim=dim, return_inverse=True, return_counts=True) for dim in (0, 1)]
    along += [torch.unique_consecutive(x, dim=dim, return_inverse=True, return_counts=True) for dim in (0, -1)]
    none = torch.unique(empty, return_inverse=True, return_counts=True), torch.unique(empty, dim=0)
    return along, none, torch.unique_consecutive(empty)


def test_unique_slices():
    x = torch.tensor([[1, 0, 0, 2], [1, 0, 0, 2], [0, 3, 3, 1], [1, 0, 0, 2], [0, 2, 2, 9]])
    check(unique_slices, x.unsqueeze(2).expand(5, 4, 2), torch.zeros(0, 3), pipeline="mlir")


def bits_and_booleans(x, empty, u):
    booleans = u.any(0), u.all(0), u.any(), u.all(), empty.any(1), empty.all(1), (empty.float() > 0).all(1)
    return x << 2, x >> 1, torch.bitwise_left_shift(x, 3), booleans


def test_shifts_by_python_numbers_and_any_of_uint8():
    check(bits_and_booleans, torch.arange(5), torch.zeros(3, 0, dtype=torch.uint8), BYTES.view(3, 3), pipeline="mlir")


def writes_at_places(x, m, rows):
    last = torch.tensor([0, 2, 0])
    scattered = (
        x.scatter(0, torch.tensor([[0] * 6]), torch.ones(1, 6) * 3, reduce="multiply"),
        x.index_reduce(1, last, torch.ones(3, 3) * 2, "amax", include_self=False),
    )
    diagonals = m.diagonal_scatter(torch.ones(2), 1), m.diagonal_scatter(torch.ones(2), -1, 1, 0)
    sought = torch.where(rows > 0.6, torch.nan, rows)
    found = torch.searchsorted(x.sort(1)[0], sought), torch.searchsorted(x, rows, sorter=x.argsort(1), right=True)
    labels = torch.tensor([[0, 1, -1, 0, 0, 0], [3, -1, 0, 0, 0, 0], [5, 4, 3, 2, 1, 0]])
    losses = [torch.nn.functional.multilabel_margin_loss(x, labels, reduction=name) for name in ("none", "mean")]
    return scattered, diagonals, found, torch.dist(x, rows, 1), losses


def test_writes_at_indices():
    check(writes_at_places, FLOATS, FLOATS[:, :3].clone(), FLOATS.flip(1), pipeline="mlir")


def writes_where_nothing_is(x, mask, row):
    """torch-mlir wrote one of several equal values where a mask is true nowhere."""
    none = torch.zeros(0, dtype=torch.int64)
    at_mask, at_places = x.index_put((mask,), row, accumulate=True), x[:, 0].index_put((mask.nonzero()[:, 0],), row[:1])
    return at_mask, at_places, x.index_put((none, none), row[:0]), torch.masked_select(x[:2].unsqueeze(1), x > 0)


def test_writes_at_no_indices_and_through_broadcast_masks():
    check(writes_where_nothing_is, FLOATS, torch.zeros(3, dtype=torch.bool), FLOATS[0], pipeline="mlir")


def spelled(x, start):
    weights = torch.tensor([1, 2, 0, 1, 3, 1]), torch.tensor([0.5, 0.1, 2.0, 1.5, 0.3, 1.0])
    named = torch.narrow(input=x, dim=0, start=1, length=2), torch.masked_select(input=x, mask=x > 0)
    moments = named, x.cov(correction=2, fweights=weights[0], aweights=weights[1]), torch.cov(x[0]), x.corrcoef()
    asked = torch.allclose(x, x + 1e-9), torch.equal(x, x.nan_to_num()), x.equal(x[0])
    return moments, asked, torch.narrow(x, 1, start - 4, 2), torch.combinations(x[0], 3)


def of_floats(x, start):
    tiny = torch.cat([x[0] * 1e-41, torch.tensor([0.0, float("inf")])])
    extremes = torch.fmax(x, x.flip(0)), torch.fmin(x, x.flip(0)), torch.fmax(start, start - 1)
    angles = torch.polar(x, x + 1), x.angle(), (-x).bfloat16().angle()
    return torch.frexp(x)[0], torch.frexp(tiny), extremes, x.cumprod(1, dtype=torch.float64), angles


def of_integers(x, start):
    n = torch.nan_to_num(x * 4).long()
    at = torch.tensor([[0, 1, 0], [2, 2, 1]])
    means = [n.scatter_reduce(1, at, n[:2, 3:] - 3, "mean", include_self=each) for each in (True, False)]
    means += [n.cumprod(1, dtype=torch.int8), x.nan_to_num().cumsum(0, dtype=torch.int32)]
    return means, n.clamp_max(n[0] - start), n.clamp(n[0], n[1] + 5), n.angle(), torch.addmv(n[0], n.T, n[:, 0], beta=2)


@pytest.mark.parametrize("function", [pytest.param(spelled, marks=pytest.mark.slow), of_floats, of_integers])
def test_operators_that_torch_mlir_lacks(function):
    check(function, WITH_NAN, torch.tensor(1), pipeline="mlir")


def divisors(x, y):
    far = torch.lcm(x.to(torch.int8) * 4, torch.tensor([127, 1, 1, 1, 1], dtype=torch.int8))
    return torch.gcd(x, y), torch.lcm(x, y), torch.gcd(x.int(), y[:1].int()), far


def test_common_divisors():
    check(divisors, torch.tensor([12, 18, -7, 0, 0]), torch.tensor([8, 27, 21, 5, 0]), pipeline="mlir")


def shares(x):
    gradient = torch.arange(16.0).view(1, 1, 4, 4)
    window = [3, 3], [2, 2], [1, 1], True
    return [torch.ops.aten.avg_pool2d_backward(gradient, x, *window, padded, None) for padded in (False, True)]


def test_gradients_of_mean_pools():
    check(shares, torch.randn(1, 1, 7, 7, generator=GENERATOR), pipeline="mlir")


class Branching(torch.nn.Module):
    """Branches with weights of their own, one of them with a branch in it."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(6, 4)

    def forward(self, x):
        def inner(x):
            return torch.cond(x.sum() > 10, lambda x: self.linear(x), lambda x: x[:, :4] * 2, (x,))

        return torch.cond(x.sum() > 0, inner, lambda x: torch.relu(x[:, 2:] + 1), (x,))


@pytest.mark.parametrize("pipeline", ["linalg", pytest.param("mlir", marks=pytest.mark.slow)])
def test_branches_on_an_element(pipeline):
    module = Branching().requires_grad_(False)
    kernel = mt.from_torch(module, (FLOATS,)).compile(pipeline=pipeline)
    for x in (FLOATS.abs() * 9, FLOATS.abs() / 9, -FLOATS.abs()):
        torch.testing.assert_close(kernel(x), module(x))


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (torch.nn.LayerNorm((5, 7)), (3, 5, 7)),
        (torch.nn.LayerNorm(300, elementwise_affine=False), (4, 300)),
        (torch.nn.GroupNorm(3, 12), (2, 12, 5, 7)),
        (torch.nn.GroupNorm(4, 8, affine=False), (3, 8)),
    ],
)
def test_norms_are_computed_in_float32_with_float64_sums(layer, shape):
    """As close to the exact result as eager's, also far from zero; torch-mlir's are of terms in float64."""
    x = torch.randn(shape, generator=GENERATOR) + 30
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, generator=GENERATOR)
    with torch.no_grad():
        kernel = mt.from_torch(layer, (x,)).compile()
        found, eager = kernel(x), layer(x)
        exact = copy.deepcopy(layer).double()(x.double())
    assert not re.search(r"(?:mulf|subf) .* : f64", kernel.ir["linalg"])
    assert (found - exact).abs().max() <= 2 * (eager - exact).abs().max() + 2**-20


def activations_and_roundings(x):
    elu, selu = torch.nn.functional.elu(x), torch.nn.functional.selu(x)
    return torch.sigmoid(x), elu, selu, torch.round(x, decimals=2), torch.round(x, decimals=-1)


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float32])
def test_activations_and_roundings_of_halves_neither_overflow_nor_cancel(kind, pipeline):
    x = torch.tensor([-8856.0, -11.5, -0.01, -2e-4, -0.0, 1e-3, 1.25, 6e4, torch.inf, -torch.inf, torch.nan]).to(kind)
    found = mt.from_torch(activations_and_roundings, (x,)).compile(pipeline=pipeline)(x)
    bound = 2 * torch.finfo(kind).eps
    for one, wanted in zip(found, activations_and_roundings(x), strict=True):
        torch.testing.assert_close(one, wanted, rtol=bound, atol=0, equal_nan=True)


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    ("layer", "shape"), [(torch.nn.LayerNorm(300), (4, 300)), (torch.nn.GroupNorm(3, 12), (2, 12, 35))]
)
def test_norms_of_fp16_are_rounded_once(layer, shape, kind):
    x = (torch.randn(shape, generator=GENERATOR) + 3).to(kind)
    layer = copy.deepcopy(layer).to(kind)
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, generator=GENERATOR)
    with torch.no_grad():
        kernel = mt.from_torch(layer, (x,)).compile()
        exact = copy.deepcopy(layer).double()(x.double())
    assert kernel.stats["kernels"] <= 2
    torch.testing.assert_close(kernel(x).double(), exact, rtol=torch.finfo(kind).eps, atol=1e-5)


def test_norms_of_a_dynamic_batch():
    layer, x = torch.nn.GroupNorm(2, 4), torch.randn(3, 4, 6, generator=GENERATOR)
    check(layer, x, dynamic_shapes={"input": {0: torch.export.Dim("batch")}})


def written_along_the_last_axis(x, index, source, number):
    names = ("sum", "mean", "amax")
    reduced = [x.scatter_reduce(-1, index, source, name, include_self=False) for name in names]
    written = x.scatter_add(-1, index, source), x.scatter(-2, index, 2.5), x.index_reduce(-1, index[0], source, "prod")
    of_one = torch.median(number, 0), torch.mode(number, 0), torch.kthvalue(number, 1, 0), number.cumsum(0)
    return (
        reduced,
        written,
        of_one,
        number.softmax(0),
        number.gather(0, index[0, :1]),
        torch.topk(number, 1, 0),
        number.max(0),
    )


def test_negative_axes_of_scatters_and_axes_of_rank_0_tensors():
    index = torch.tensor([[0, 1, 0], [2, 1, 2], [0, 0, 1]])
    check(written_along_the_last_axis, FLOATS, index, FLOATS[:, :3].clone(), torch.tensor(3.5))


def largest_in_any_order(x):
    return [torch.topk(x, count, dim, sorted=False)[0].sum(dim) for count, dim in ((2, 1), (1, 1), (2, 0))]


def test_largest_elements_without_an_order():
    check(largest_in_any_order, FLOATS)
    check(lambda x: torch.topk(x, 1, -1, sorted=False), FLOATS[:, :1])


def narrow(u, i, steps):
    full = torch.full_like(u, 250), u**0, i.bool() ** 0, i**0.5, u**0.5
    shifts = u << steps, i >> steps, u.to(torch.int16) << steps, u.clone().__ilshift__(1), i >> 2
    alphas = torch.sub(u, steps, alpha=3), torch.sub(i, 2, alpha=2), torch.rsub(u, steps, alpha=2)
    bounds = torch.arange(5.0)
    return full, shifts, alphas, torch.searchsorted(bounds, 3.3), torch.bucketize(2.0, bounds, right=True)


def test_narrow_integers_filled_shifted_and_scaled():
    check(narrow, BYTES, BYTES.view(torch.int8), torch.arange(9, dtype=torch.uint8))


def moved(z, mask, index):
    chosen = torch.where(mask, z, 0), torch.where(mask, 1.5, z), torch.where(mask, z, 2j), z.masked_fill(mask, 1 + 2j)
    filled = torch.zeros_like(z), torch.full_like(z, 1j), torch.full((2,), 1 + 2j), z.clone().fill_(1j)
    written = z.scatter(1, index, z), z.scatter(0, index, 1j), z.index_put((index[0],), z), z.tril()
    tested = z.any(), (z * 0).any(1), z.all(0), z.cumprod(1), z.mean((0, 1))
    near = torch.isclose(z, z + 1e-9), torch.isclose(z, z + 1e-9j), torch.isclose(z, z + 1)
    return chosen, filled, written, tested, near


@pytest.mark.slow
def test_complex_tensors_created_reshaped_and_selected():
    z = torch.randn(3, 3, generator=GENERATOR, dtype=torch.complex128)
    check(moved, z, z.real > 0, torch.tensor([[0, 2, 1], [1, 1, 0], [2, 0, 1]]))


def written_where_a_mask_says(x, mask, y, gates, experts):
    first, second = x.clone(), x.clone()
    first[mask.nonzero(as_tuple=True)] = 7.0
    rows, columns = torch.where(mask)
    second[rows, columns] += y[rows, columns] * 2
    shares, top = torch.topk(gates.softmax(-1), 2)
    mixed = torch.zeros_like(x)
    for number in range(len(experts)):
        at, rank = torch.where(top == number)
        mixed = mixed.index_add(0, at, (x[at] @ experts[number]) * shares[at, rank, None])
    strided = x.clone()
    strided.as_strided((2, 2), (6, 1), 1).fill_(3.0)
    return first, second, mixed, strided, x.put(torch.tensor([1, 7]), torch.tensor([5.0, 6.0]))


@pytest.mark.parametrize("pipeline", [pytest.param("linalg", marks=pytest.mark.slow), "mlir"])
def test_writes_through_masks(pipeline):
    gates = torch.randn(3, 3, generator=GENERATOR)
    experts = torch.randn(3, 6, 6, generator=GENERATOR)
    check(written_where_a_mask_says, FLOATS, FLOATS > 0, FLOATS.flip(0), gates, experts, pipeline=pipeline)


def test_inverses_of_empty_batches():
    check(torch.linalg.inv, torch.zeros(0, 3, 3))


def sums_of_exponentials(z, w, b, c, one):
    complex_ones = torch.logaddexp(z, w), torch.ldexp(z, w)
    halves = torch.logaddexp2(b, c), torch.logaddexp(b, c), torch.linalg.matrix_exp(b.float()).bfloat16()
    ranges = torch.arange(0.0, -8.0, -4.0, dtype=torch.uint8), torch.arange(1.5, 9.2, 2.7, dtype=torch.int32)
    return complex_ones, halves, ranges, one.masked_select(one > 0), one.masked_select(one > 9)


def test_sums_of_exponentials_ranges_and_single_elements():
    torch.manual_seed(0)
    z, w = torch.randn(2, 5, dtype=torch.complex64)
    check(sums_of_exponentials, z, w, *torch.randn(2, 4, 4).bfloat16(), torch.tensor(1.0), pipeline="mlir")
