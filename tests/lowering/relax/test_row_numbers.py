"""Row kernels are as exact as torch, also in halves, over long rows, and for infinities and NaN."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from row_kernels import KERNELS, arguments, layernorm, log_softmax, rules, softmax, unit_rows
from tolerances import tolerance

import mlirtri as mt


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", KERNELS)
def test_other_dtypes(name, dtype):
    function, reference, _ = KERNELS[name]
    given = arguments(name, (9, 203), dtype)
    kernel = function.compile(*given)
    assert "mlirtri.schedule_failures" not in kernel.ir["scheduled"]
    close = {torch.float64: 1e-12, torch.float16: 4e-3, torch.bfloat16: 3e-2}[dtype]
    expected = reference(*(each.double() for each in given)).to(dtype)
    torch.testing.assert_close(kernel(*given), expected, rtol=close, atol=close)


def test_rows_with_infinities_and_nan():
    x = torch.randn(8, 37)
    x[0, 3], x[1, 36], x[2, :], x[3, 5], x[4, 0] = torch.nan, torch.nan, -torch.inf, torch.inf, -torch.inf
    torch.testing.assert_close(softmax(x), torch.softmax(x, -1), equal_nan=True)
    torch.testing.assert_close(log_softmax(x), torch.log_softmax(x, -1), equal_nan=True, rtol=1e-5, atol=1e-6)


@mt.jit
def centred(x, w):
    return x - torch.mean(x * w, dim=(-2, -1), keepdim=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape", [(5, 1, 2053), (5, 3, 700)], ids=str)
def test_sums_whose_blocks_overflow_are_recomputed(shape, dtype):
    """Sums go in blocks of fp32, of which some overflow where the sum, carried in fp64, does not."""
    x, w = torch.randn(shape), torch.ones(shape[-1])
    flat = x.view(5, -1)
    flat[0], flat[0, :1001], flat[0, 1001:2002] = 0, 3e38, -3e38
    flat[1, 600], flat[2, -1], flat[3, 1000] = torch.nan, torch.inf, -torch.inf
    x, w = x.to(dtype), w.to(dtype)
    kernel = centred.compile(x, w)
    assert "_terms" in kernel.ir["scheduled"]
    expected = (x.double() - x.double().mean((-2, -1), keepdim=True)).to(dtype)
    close = {torch.float32: 1e-6, torch.bfloat16: 3e-2}[dtype]
    torch.testing.assert_close(kernel(x, w), expected, rtol=close, atol=close, equal_nan=True)


def test_rows_of_special_numbers_in_every_pass():
    x, w, b = arguments("layernorm", (6, 1003))
    x[1, 1002], x[2, 0], x[3, 64], x[4] = torch.nan, torch.inf, -torch.inf, 1e30
    kernel = layernorm.compile(x, w, b)
    assert kernel.ir["scheduled"].count("if ") == 2
    torch.testing.assert_close(kernel(x, w, b), layernorm.__wrapped__(x, w, b), rtol=2e-5, atol=2e-5, equal_nan=True)


def test_sums_in_blocks_are_exact_for_long_rows(monkeypatch):
    """No sum is off by more than the 17 roundings of one block, where a sum in fp32 is off by the row's length."""
    monkeypatch.setenv("MLIRTRI_ROW_TILE", "1")
    # Equal terms, whose roundings do not even out.
    x = torch.tensor([[1.1], [1.3]]).expand(2, 100_003).contiguous()
    kernel = unit_rows.compile(x)
    assert "_terms" in kernel.ir["scheduled"]
    expected = KERNELS["unit_rows"][1](x.double())
    errors = (kernel(x).double() - expected).abs() / expected
    # The root halves what its argument is off by; the term, the root and the quotient are rounded.
    assert errors.max() <= (17 / 2 + 3) * 2.0**-24


@pytest.mark.parametrize("shape", [(0, 5), (3, 0)], ids=str)
def test_no_elements(shape):
    x = torch.ones(shape)
    assert unit_rows(x).shape == shape


def test_two_sums_share_a_pass(random):
    @mt.jit
    def moments(x):
        return torch.sum(x, dim=-1), torch.sum(x * x, dim=-1), torch.sum(x, dim=-1) * torch.sum(x * x, dim=-1)

    x = torch.tensor(random.standard_normal((12, 133), dtype=np.float32))
    sums, squares, sizes = x.sum(-1), (x * x).sum(-1), x.abs().sum(-1)
    found = moments.compile(x)(x)
    # Terms cancel: what a sum may be off by goes with their magnitudes.
    for each, expected, size in zip(
        found, (sums, squares, sums * squares), (sizes, squares, sizes * squares), strict=True
    ):
        assert torch.all((each - expected).abs() <= tolerance("float32", 133) * size)


def test_a_product_that_another_pass_adds_to_is_rounded_first():
    @mt.jit
    def weighted(x, w, c):
        p = torch.exp(x) * w
        return p, p + c, torch.sum(p, dim=-1)

    x, w, c = torch.randn(16, 80), torch.randn(80), torch.randn(16, 80)
    kernel = weighted.compile(x, w, c)
    p, q, s = kernel(x, w, c)
    assert torch.equal(q, p + c)
    torch.testing.assert_close(s, p.sum(-1), rtol=1e-5, atol=1e-5)


def test_numpy_semantics():
    @mt.jit
    def standardised(x):
        return (x - np.mean(x, axis=-1, keepdims=True)) / np.std(x, axis=-1, keepdims=True)

    x = np.random.default_rng(0).normal(size=(6, 45))
    np.testing.assert_allclose(standardised(x), (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True), rtol=1e-12)


def test_extrema_propagate_infinities_and_nan():
    @mt.jit
    def kernel(x):
        return torch.exp(x - torch.amax(x, dim=-1, keepdim=True)) + torch.amin(x, dim=-1, keepdim=True)

    x = torch.randn(6, 100, generator=torch.Generator().manual_seed(0))
    x[1, 50], x[2, 0], x[3], x[4, -1], x[5, 99] = torch.nan, torch.inf, -torch.inf, -torch.inf, -torch.nan
    compiled = kernel.compile(x)
    assert rules(compiled) == ["Rows"]
    assert "_magnitudes" in compiled.ir["scheduled"]
    torch.testing.assert_close(compiled(x), kernel.__wrapped__(x), equal_nan=True)


def test_rows_of_bools():
    @mt.jit
    def kernel(x):
        return torch.where(torch.any(x > 1.5, dim=-1, keepdim=True), x, -x), x > torch.mean(x, dim=-1, keepdim=True)

    x = torch.randn(6, 100, generator=torch.Generator().manual_seed(0))
    compiled = kernel.compile(x)
    assert set(rules(compiled)) == {"Rows"}
    for found, expected in zip(compiled(x), kernel.__wrapped__(x), strict=True):
        torch.testing.assert_close(found, expected)
