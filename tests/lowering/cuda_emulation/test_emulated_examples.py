"""The element and tile kernels of `examples/`, as CUDA on the emulated device: right numbers, and nothing forbidden."""

from __future__ import annotations

import shutil

import elements
import numpy as np
import pytest
import tiles
import torch

import mlirtri as mt

TARGET = "cuda:emulated"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("c++") is None, reason="there is no C++ compiler"),
]


@pytest.mark.parametrize("name", elements.EXAMPLES)
def test_element_kernels(name):
    example = elements.EXAMPLES[name]
    arguments = example.make(1)
    found = example.results(mt.jit(example.kernel, target=TARGET), arguments)
    for here, there in zip(found, example.results(example.reference, arguments), strict=True):
        np.testing.assert_allclose(here, there, rtol=example.tolerance, atol=example.tolerance)


@pytest.mark.parametrize("name", tiles.EXAMPLES)
def test_tile_kernels(name):
    example = tiles.EXAMPLES[name]
    torch.manual_seed(0)
    inputs = example.make(1)
    expected = example.reference(*inputs)
    out = torch.zeros(expected.shape, dtype=example.dtype)
    mt.jit(example.kernel, target=TARGET)(*inputs, out, **example.constants)
    error = (out.double() - expected.double()).abs().max() / expected.double().abs().max()
    assert float(error) <= example.tolerance
