"""float64 constants in CUDA source: to the last bit, as readable as they can be."""

from __future__ import annotations

import numpy as np
import pytest

import mlirtri as mt


def factors(x):
    return (x * 0.1, x * 3.141592653589793, x * 1e-10, x * 1e300, x * -1e-07, x * (1 / 3), x * 1e-20, x * 2.0**-53,
            x * -5e-324, x * (1e-15 / 3), x * 1.0000000000000002, x + np.inf)  # fmt: skip


@pytest.mark.filterwarnings("ignore:overflow")
def test_constants_are_not_rounded():
    x = np.array([1.0, 3.0, -7.0])
    kernel = mt.jit(factors, target="cuda:emulated")
    for mine, other in zip(kernel(x), factors(x), strict=True):
        np.testing.assert_array_equal(mine, other)
    source = kernel.compile(x).ir["cuda"]
    assert "0x1.5555555555555p-2/*3.333333e-01*/" in source
    assert "* 0.100000000000000)" in source
    assert "mlirtri_double" not in source
