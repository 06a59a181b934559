"""Special functions, bits of floats, samples of images and the CTC loss against NumPy and torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import mlirtri as mt

ODD = np.array(
    [0.0, -0.0, 1.5, -2.25, -1.0, 1e-310, 5e-324, -3e-320, 2.3e-308, np.inf, -np.inf, np.nan, 300.7, 1.8e308]
)
HALVES = np.arange(65536, dtype=np.uint16).view(np.float16)


def bits(a, b):
    return *np.frexp(a), np.nextafter(a, b), np.spacing(a)


@pytest.mark.parametrize("values", [ODD, ODD.astype(np.float32), HALVES], ids=["float64", "float32", "float16"])
@pytest.mark.filterwarnings("ignore")
def test_bits_of_floats(values):
    with np.errstate(all="ignore"):
        other = np.roll(values, 777)
        for mine, right in zip(mt.jit(bits)(values, other), bits(values, other), strict=True):
            assert mine.dtype == right.dtype
            np.testing.assert_array_equal(mine, right)


def elements_in_order(a):
    a.flat[1] = 3.0
    order = a.flat
    order[2:4] *= 2
    total = 0.0
    for v in a.flat:
        total += v
    return total, a.tolist()[1][2], np.i0(a)


def test_flat_and_tolist():
    x, y = np.arange(12.0).reshape(3, 4), np.arange(12.0).reshape(3, 4)
    for mine, right in zip(mt.jit(elements_in_order)(x), elements_in_order(y), strict=True):
        np.testing.assert_allclose(mine, right, rtol=1e-14)
    np.testing.assert_array_equal(x, y)
    found = mt.jit(lambda x, m: (x.tolist(), m.tolist()))(torch.tensor([[1, 2]]), torch.tensor([True]))
    assert found == ([[1, 2]], [True])
    assert type(found[0][0][0]) is int
    with pytest.raises(mt.KernelError, match=r"writes through .flat are lost(.|\n)*x.ravel"):
        mt.jit(lambda a: a.T.flat[1])(x)
    with pytest.raises(mt.KernelError, match="minlength=n"):
        mt.jit(lambda a: np.bincount(a))(np.array([1, 2]))


def gammas(x):
    return torch.digamma(x), torch.lgamma(x), torch.special.erfinv(x / 8), torch.i0(x), torch.erfinv(1 - torch.exp(-x))


def test_gammas_and_inverse_errors():
    x = torch.cat([torch.linspace(-7.3, 30, 57, dtype=torch.float64), torch.tensor([0.0, -0.0, -1.0, 1.0, torch.nan])])
    for mine, right in zip(mt.jit(gammas)(x), gammas(x), strict=True):
        torch.testing.assert_close(mine, right, rtol=1e-11, atol=1e-12, equal_nan=True)


def polygammas(x):
    return torch.polygamma(0, x), torch.polygamma(1, x), torch.special.polygamma(2, x), x.polygamma(7)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.int32])
def test_polygamma(dtype):
    x = torch.tensor([0.5, 1.0, 2.5, 30.0, -0.5, -2.0, -30.3, 1e3])
    x = torch.cat([x, torch.tensor([0.0, torch.inf, torch.nan])]) if dtype.is_floating_point else x
    for mine, right in zip(mt.jit(polygammas)(x.to(dtype)), polygammas(x.to(dtype)), strict=True):
        # eager's series of order 1 is off by 5e-10: at 1 it should be pi ** 2 / 6.
        rtol = 1e-9 if dtype == torch.float64 else 2e-5
        torch.testing.assert_close(mine, right, rtol=rtol, atol=0, equal_nan=True)


def samples(image, grid, theta):
    return (
        F.grid_sample(image, grid, "bilinear", "zeros", False), F.grid_sample(image, grid, "nearest", "border", True),
        F.grid_sample(image, grid, "bilinear", "reflection", True), F.affine_grid(theta, [2, 1, 3, 4], False),
        F.grid_sample(image, grid, "nearest", "reflection", False), F.affine_grid(theta, [2, 1, 3, 4], True),
        F.interpolate(image, size=(4, 3), mode="area"), F.interpolate(image, scale_factor=0.5, mode="area"),
    )  # fmt: skip


def test_samples_of_images():
    image, theta = torch.rand(2, 3, 6, 8, dtype=torch.float64), torch.rand(2, 2, 3, dtype=torch.float64)
    grid = torch.rand(2, 5, 4, 2, dtype=torch.float64) * 3 - 1.5
    for mine, right in zip(mt.jit(samples)(image, grid, theta), samples(image, grid, theta), strict=True):
        torch.testing.assert_close(mine, right, rtol=1e-9, atol=1e-12)


def ctc_losses(logits, targets, ends, lengths):
    steps = torch.log_softmax(logits, 2)
    return (
        F.ctc_loss(steps, targets, ends, lengths), F.ctc_loss(steps, targets, ends, lengths, reduction="none"),
        F.ctc_loss(steps, targets, ends - ends // 7 * 5, lengths, reduction="sum", zero_infinity=True),
    )  # fmt: skip


def test_ctc_loss():
    logits = torch.randn(7, 3, 5, dtype=torch.float64)
    arguments = (
        logits, torch.tensor([[1, 2, 2], [1, 3, 0], [4, 0, 0]]), torch.tensor([7, 6, 5]), torch.tensor([3, 2, 0]),
    )  # fmt: skip
    for mine, right in zip(mt.jit(ctc_losses)(*arguments), ctc_losses(*arguments), strict=True):
        torch.testing.assert_close(mine, right)


def bessel_functions(x):
    s = torch.special
    first = s.bessel_j0(x), s.bessel_j1(x), s.bessel_y0(x), s.bessel_y1(x), s.modified_bessel_i0(x / 3)
    second = s.modified_bessel_k0(x), s.modified_bessel_k1(x), s.scaled_modified_bessel_k0(x), s.airy_ai(x)
    return *first, *second, s.spherical_bessel_j0(x)


def zeta_and_gammas(x, y):
    s = torch.special
    return s.zeta(x, y), s.zeta(y, 0.5), s.gammainc(x, y), s.gammaincc(x, y), torch.igamma(x, x), y.igammac(x)


@pytest.mark.filterwarnings("ignore")
def test_bessel_zeta_and_incomplete_gamma_functions():
    x = torch.tensor([-3.5, 0.0, 0.3, 1.5, 2.0, 7.75, 26.0, 60.0, torch.inf, torch.nan], dtype=torch.float64)
    for mine, right in zip(mt.jit(bessel_functions, pipeline="interpreter")(x), bessel_functions(x), strict=True):
        # torch's own are good to eight digits.
        torch.testing.assert_close(mine, right, rtol=3e-8, atol=3e-9, equal_nan=True)
    a, b = x.repeat(10), x.repeat_interleave(10)
    results = mt.jit(zeta_and_gammas, pipeline="mlir")(a, b)
    for mine, right in zip(results, zeta_and_gammas(a, b), strict=True):
        torch.testing.assert_close(mine, right, rtol=1e-9, atol=1e-12, equal_nan=True)
