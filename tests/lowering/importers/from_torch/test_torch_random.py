"""Random numbers of torch programs: of the right kind, new in each call, never what has no weight."""

from __future__ import annotations

import pytest
import torch

import mlirtri as mt


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
def test_multinomial_over_a_dynamic_number_of_rows(pipeline: str):
    weights = torch.tensor([[1.0, 0, 3, 0], [0, 1, 1, 0], [0, 0, 0, 5]], dtype=torch.float64)

    def choose(x):
        return torch.multinomial(x, 2000, replacement=True)

    program = mt.from_torch(choose, (weights,), dynamic_shapes=({0: torch.export.Dim.AUTO},))
    kernel = program.compile(pipeline=pipeline)
    first, second = kernel(weights), kernel(weights[1:])
    assert first.dtype == torch.int64
    assert (tuple(first.shape), tuple(second.shape)) == ((3, 2000), (2, 2000))
    assert not torch.equal(first[1], second[0])
    for drawn, row in zip([*first, *second], [*weights, *weights[1:]], strict=True):
        shares = torch.bincount(drawn, minlength=4) / 2000
        torch.testing.assert_close(shares.double(), row / row.sum(), rtol=0, atol=0.05)
        assert shares[row == 0].sum() == 0
