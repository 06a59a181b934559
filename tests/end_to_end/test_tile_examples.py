"""The tile kernels of examples/tiles in two pipelines, against torch."""

from __future__ import annotations

import pytest
import torch
from tiles import EXAMPLES


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_computes_what_torch_does(name, pipeline):
    example = EXAMPLES[name]
    torch.manual_seed(0)
    inputs = example.make(1)
    expected = example.reference(*inputs)
    result = example.call(pipeline, inputs)
    torch.testing.assert_close(result.double(), expected.double(), rtol=example.tolerance, atol=example.tolerance)
