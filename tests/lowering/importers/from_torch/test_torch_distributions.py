"""Special functions of probability distributions in torch programs, far out and where they end, against eager ones."""

from __future__ import annotations

import math

import pytest
import torch

import mlirtri as mt

special = torch.special


def of_all(x, p):
    """Of any number, and of what is from 0 to 1."""
    bessel = special.i0e(x), special.i1(x), special.i1e(x)
    normal = special.erfcx(x), special.log_ndtr(x), special.ndtri(p), torch.erfinv(p)
    return *bessel, *normal, special.entr(x), special.xlog1py(p, 2.0), special.xlog1py(x, p)


def of_zeta(x, p):
    """Also left of 0, where the sum has more terms; large orders."""
    return (
        special.zeta(p + 1.5, p),
        special.zeta(30, p + 9),
        torch.polygamma(2, p + 0.125),
        torch.polygamma(2, p - 8.53125),
    )


def check(function, pipeline, dtype):
    x = torch.tensor([-40.0, -5.3, -0.7, 0, 0.2, 3, 35, math.inf, -math.inf, math.nan], dtype=dtype)
    p = torch.arange(1, 11, dtype=dtype) / 16
    kernel = mt.from_torch(function, (x, p)).compile(pipeline=pipeline)
    for found, wanted in zip(kernel(x, p), function(x.double(), p.double()), strict=True):
        torch.testing.assert_close(found, wanted.to(dtype), equal_nan=True, rtol=1000 * torch.finfo(dtype).eps, atol=0)


def test_polygamma():
    check(lambda x, p: (torch.polygamma(2, p - 8.53125), x.sinh()), "linalg", torch.float32)


@pytest.mark.slow
@pytest.mark.parametrize("function", [of_all, of_zeta])
@pytest.mark.parametrize(("pipeline", "dtype"), [("linalg", torch.float64), ("mlir", torch.float32)])
def test_functions(function, pipeline, dtype):
    check(function, pipeline, dtype)
