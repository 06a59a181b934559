"""Orthogonal polynomials, Bessel and Airy functions, sums of complex exponentials, against eager and SciPy."""

from __future__ import annotations

import pytest
import scipy.special
import torch
from torch_case_checks import agrees

import mlirtri as mt

POLYNOMIALS = ("chebyshev_polynomial_u", "shifted_chebyshev_polynomial_w", "hermite_polynomial_h",
               "laguerre_polynomial_l", "legendre_polynomial_p")  # fmt: skip


def polynomials(x, n):
    return [getattr(torch.special, name)(x, n) for name in POLYNOMIALS] + [
        torch.special.chebyshev_polynomial_t(x, 5),
        torch.special.hermite_polynomial_he(2.5, n),
    ]


def test_polynomials_of_degrees_by_element():
    x = torch.tensor([-1.0, 1.0, 0.0, 0.3, -0.7, 2.5, -9.0])
    n = torch.tensor([3.0, 4.0, 7.0, -1.0, 9.0, 2.9, 0.0]).unsqueeze(1)
    kernel = mt.from_torch(polynomials, (x, n)).compile(pipeline="mlir")
    assert agrees(kernel(x, n), polynomials(x, n)) is None


EXPECTED = {
    "bessel_j0": scipy.special.j0, "bessel_j1": scipy.special.j1, "bessel_y1": scipy.special.y1,
    "modified_bessel_k0": scipy.special.k0, "scaled_modified_bessel_k1": scipy.special.k1e,
    "airy_ai": lambda x: scipy.special.airy(x)[0],
}  # fmt: skip


def bessel_functions(x):
    return [getattr(torch.special, name)(x) for name in EXPECTED]


@pytest.mark.slow
def test_bessel_and_airy_functions():
    x = torch.tensor([0.0, 1e-6, 0.1, 0.9, 1.9, 2.1, 7.9, 8.1, 24.9, 25.1, 90.0], dtype=torch.float64)
    kernel = mt.from_torch(bessel_functions, (x,)).compile(pipeline="mlir")
    for result, function in zip(kernel(x), EXPECTED.values(), strict=True):
        torch.testing.assert_close(result, torch.from_numpy(function(x.numpy())), rtol=1e-11, atol=1e-13)


@pytest.mark.slow
def test_second_kinds_left_of_their_pole():
    x = torch.tensor([-1.0, -30.0, torch.inf, torch.nan])
    kernel = mt.from_torch(bessel_functions, (x,)).compile(pipeline="mlir")
    assert agrees(kernel(x)[2:5], bessel_functions(x)[2:5]) is None


@pytest.mark.slow
def test_incomplete_gamma_functions():
    end, none = torch.inf, torch.nan
    a = torch.tensor([0.0, 0, 0.5, 1, 2, 10, 100, end, 3, end, -1, 5, none, 1e-3, 50, 200, 1000, 0.1])
    x = torch.tensor([0.0, 1, 0, 2, 0.1, 12, 99, 1, end, end, 1, -1, 1, 1e-4, 20, 260, 1030, 5])

    def gammas(a, x):
        return [each(a.to(kind), x.to(kind)) for each in (torch.igamma, torch.igammac) for kind in kinds]

    kinds = torch.float32, torch.float64, torch.bfloat16
    results = mt.from_torch(gammas, (a, x)).compile(pipeline="mlir")(a, x)
    for result, expected in zip(results, gammas(a, x), strict=True):
        torch.testing.assert_close(result, expected, equal_nan=True)


def test_numbers_beside_a_tensor_keep_their_digits():
    x = torch.tensor([1.5, 3.2, 7.0], dtype=torch.float64)
    function = lambda x: torch.special.zeta(x, 2.1)  # noqa: E731
    torch.testing.assert_close(mt.from_torch(function, (x,))(x), function(x), rtol=1e-14, atol=0)


@pytest.mark.slow
def test_logcumsumexp_of_complex_numbers():
    z = torch.complex(torch.linspace(-4, 9, 18).view(3, 6) ** 2 / 9, torch.linspace(-7, 7, 18).view(3, 6))
    z[0, 0] = z[2, 0] = z[2, 1] = complex(-torch.inf, 1.0)
    z[1, 2] = complex(torch.inf, 0.5)
    kernel = mt.from_torch(lambda z: (torch.logcumsumexp(z, 1), torch.logcumsumexp(z[1:, 3], -1)), (z,)).compile()
    torch.testing.assert_close(kernel(z), (torch.logcumsumexp(z, 1), torch.logcumsumexp(z[1:, 3], -1)))


def test_clamp_keeps_the_sign_of_zero():
    def clamped(x):
        return x.clamp(min=0.0), x.clamp(min=-0.0), x.clamp(max=0.0), x.clamp(0.0, 1.0), torch.nn.functional.relu6(x)

    class Clamped(torch.nn.Module):
        def forward(self, x):
            return clamped(x)

    x = torch.tensor([-0.0, 0.0, -2.0, 2.0, float("inf"), float("nan")])
    for ours, eager in zip(mt.from_torch(Clamped(), (x,))(x), clamped(x), strict=True):
        torch.testing.assert_close(ours, eager, rtol=0, atol=0, equal_nan=True)
        assert torch.equal(ours.signbit()[:5], eager.signbit()[:5])
