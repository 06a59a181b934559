"""The tile kernels of examples/tiles in two pipelines in turn, against torch."""

from __future__ import annotations

import pytest
import torch
from combinations import in_turn
from tiles import EXAMPLES


@pytest.mark.parametrize(("name", "pipeline"), in_turn(EXAMPLES, ["linalg", "mlir"]))
def test_an_example_computes_what_torch_does(name, pipeline):
    example = EXAMPLES[name]
    torch.manual_seed(0)
    inputs = example.make(1)
    expected = example.reference(*inputs)
    result = example.call(pipeline, inputs)
    torch.testing.assert_close(result.double(), expected.double(), rtol=example.tolerance, atol=example.tolerance)
