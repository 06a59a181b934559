"""Where eager rounds Python numbers and intermediate results: the same bits, of programs and of kernels."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import mlirtri as mt


def comparisons(x):
    return x > 0.3, x <= 0.3, x == 0.1, x != 0.3, torch.where(x >= 0.1, x, 0.3)


def divisions(x):
    return x // 0.7, 0.7 / x, torch.div(x, 0.7, rounding_mode="floor"), torch.div(x, 0.7, rounding_mode="trunc")


def sums(x):
    return torch.add(x, x * 0.01, alpha=3), torch.sub(x, 0.5, alpha=0.3), torch.add(x, 0.25, alpha=0.7)


def shrunk(x):
    return F.threshold(x, 0.3, 0.7), F.hardshrink(x, 0.3), torch.xlogy(x.abs(), 0.3), torch.xlogy(0.3, x.abs())


def activations(x):
    return F.leaky_relu(x, 0.3), F.elu(x, 0.3)


def moved(x):
    return 0.7 // x, torch.hypot(x, x + 1), torch.arange(0.1, 5, 0.3, dtype=x.dtype), x.sub(x, alpha=0.3)


def steps(x):
    return torch.linspace(-2, 4.3, 50, dtype=x.dtype), torch.linspace(x[3], 4.3, 1000, dtype=x.dtype)


class Program(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def numbers(dtype):
    x = torch.randn(500, generator=torch.Generator().manual_seed(3)) * 2
    x[:60] = torch.tensor([0.1, 0.3, -0.3, 0.7, 1.3984375, -2.80078125]).repeat(10)
    return x.to(dtype)


def check(results, expected, units):
    for result, right in zip(results, expected, strict=True):
        assert result.dtype == right.dtype
        if not right.is_floating_point():
            assert torch.equal(result, right)
            continue
        if not units:
            assert torch.equal(result.nan_to_num(), right.nan_to_num())
        else:
            unit = torch.finfo(right.dtype).eps * units
            torch.testing.assert_close(result, right, rtol=unit, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_programs_round_as_eager(dtype):
    x = numbers(dtype)
    # Sums are fused multiply-adds in eager fp32; logarithms are of two libraries.
    for functions, units in (((comparisons, divisions, activations, steps), 0), ((sums, shrunk, moved), 2)):
        if dtype == torch.float32:
            functions = tuple(function for function in functions if function not in (activations, moved, steps))
        whole = lambda x, functions=functions: sum((function(x) for function in functions), ())  # noqa: E731
        results = mt.from_torch(Program(whole), (x,)).compile(pipeline="mlir")(x)
        check(results, whole(x), units)


def test_kernels_round_as_eager():
    x = numbers(torch.bfloat16)
    check(mt.jit(lambda x: divisions(x) + comparisons(x) + steps(x))(x), divisions(x) + comparisons(x) + steps(x), 0)
    check(mt.jit(lambda x: activations(x) + sums(x))(x), activations(x) + sums(x), 1)
    assert torch.equal(mt.jit(lambda x: 0.7 / x)(x.float()), 0.7 / x.float())


def test_scans_of_exponentials_do_not_overflow():
    inf, nan = float("inf"), float("nan")
    x = torch.tensor([[3.0, 500.0, -inf, -1e4, 499.0], [-inf, -inf, -1e4, 2.0, 3.0], [1.0, inf, 2.0, nan, -inf]])

    def whole(x):
        narrow = torch.arange(2, 9, 3, dtype=torch.int8)
        return torch.logcumsumexp(x, 1), torch.logcumsumexp(x[:2], 0), torch.logcumsumexp(x.half(), -1), narrow

    check(mt.from_torch(Program(whole), (x,)).compile(pipeline="mlir")(x), whole(x), 2)


@pytest.mark.parametrize("kind", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_products_of_8_bit_floats_that_are_too_large(kind):
    def product(x, y, scale):
        return torch._scaled_mm(x, y, scale, scale, out_dtype=kind).float()

    x = torch.full((16, 16), 200.0).to(torch.float8_e4m3fn)
    y = (torch.eye(16) * 300 - 20).to(torch.float8_e4m3fn).t()
    arguments = x, y, torch.tensor(1.0)
    # Eager gives the largest number on some CPUs, and NaN on others.
    limits = torch.finfo(kind)
    expected = (x.float() @ y.float()).clamp(limits.min, limits.max).to(kind).float()
    torch.testing.assert_close(mt.from_torch(product, arguments).compile()(*arguments), expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_quotients_of_halves_are_rounded_before_they_are_made_whole(dtype):
    generator = torch.Generator().manual_seed(1)
    x, y = (torch.randn(4001, generator=generator) * 30).to(dtype), torch.randn(4001, generator=generator).to(dtype)

    def quotients(x, y):
        modes = (torch.div(x, y, rounding_mode="trunc"), torch.div(x, y, rounding_mode="floor"), x // y, 17.3 // y)
        return (*modes, torch.div(x, y[:1], rounding_mode="trunc"))

    def by_element(x, y):
        return (*quotients(x, y), torch.floor_divide(x, torch.tensor(1.7)))

    check(mt.from_torch(by_element, (x, y)).compile()(x, y), by_element(x, y), 0)
    check(mt.jit(pipeline="mlir")(quotients)(x, y), quotients(x, y), 0)


def test_halves_beside_tensors_of_rank_0_are_rounded_once():
    def products(x, number):
        return x * number, x / number, number * x, x * 1.7, x[0] * 1.7

    x, number = numbers(torch.bfloat16), torch.tensor(1.7)
    check(mt.from_torch(products, (x, number)).compile()(x, number), products(x, number), 0)
