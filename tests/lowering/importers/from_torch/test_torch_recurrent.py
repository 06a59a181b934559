"""Recurrent layers stay loops around one step."""

from __future__ import annotations

import pytest
import torch
from tolerances import within
from torch import nn

import mlirtri as mt

STEPS = 7


class TwoWays(nn.Module):
    """An LSTM of two layers and directions."""

    def __init__(self):
        super().__init__()
        self.layers = nn.LSTM(6, 5, 2, bidirectional=True, batch_first=True)

    def forward(self, x):
        outputs, (last, cells) = self.layers(x.transpose(0, 1))
        return outputs, last, cells


class Others(nn.Module):
    """A GRU without biases, and plain layers with states of their own."""

    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(6, 4, bias=False, bidirectional=True)
        self.tanh, self.relu = nn.RNN(8, 3), nn.RNN(3, 3, nonlinearity="relu")

    def forward(self, x):
        y, last = self.gru(x)
        z, other = self.tanh(y)
        return y, last, z, *self.relu(z, other)


CASES = [
    pytest.param(TwoWays, "linalg", 4),
    pytest.param(Others, "mlir", 4),
    *(
        pytest.param(module, pipeline, 4, marks=pytest.mark.slow)
        for module, pipeline in ((Others, "linalg"), (Others, "relax"), (TwoWays, "mlir"))
    ),
]


@pytest.mark.parametrize(("module", "pipeline", "loops"), CASES)
def test_recurrent_layers_are_loops(module, pipeline, loops):
    torch.manual_seed(0)
    layers, x = module().eval(), torch.randn(STEPS, 3, 6)
    kernel = mt.from_torch(layers, (x,)).compile(pipeline=pipeline)
    if pipeline != "relax":
        text = kernel.ir["linalg"]
        assert text.count("scf.while") + text.count("scf.for") == loops
    with torch.no_grad():
        for found, wanted in zip(kernel(x), layers(x), strict=True):
            torch.testing.assert_close(found, wanted, **within(wanted.dtype, 6 * STEPS))


def test_a_few_steps_are_written_out():
    layers, x = nn.GRU(3, 2).eval(), torch.randn(2, 1, 3)
    kernel = mt.from_torch(layers, (x,)).compile(pipeline="linalg")
    assert "scf." not in kernel.ir["linalg"]
    with torch.no_grad():
        torch.testing.assert_close(kernel(x), layers(x))
