"""Networks of three kinds, small, with random weights: as eager computes them; and the demo that shows them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from models.gpt2 import GPT2
from models.mobilenet import MobileNet
from models.resnet import ResNet18
from models.weights import randomise

import mlirtri as mt

MODELS = Path(__file__).parents[2] / "examples" / "models"
NETWORKS = {
    "resnet": lambda: (ResNet18(8, 10), torch.randn(1, 3, 32, 32)),
    "mobilenet": lambda: (MobileNet(0.25, 10), torch.randn(1, 3, 32, 32)),
    "gpt2": lambda: (GPT2(100, 16, 32, 4, 1), torch.randint(0, 100, (2, 8))),
}


# The layers of the two others are tested by themselves.
SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("resnet", "mobilenet")]


@pytest.mark.parametrize("pipeline", ["mlir", pytest.param("linalg", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["gpt2", *SLOW])
def test_a_network(name: str, pipeline: str):
    torch.manual_seed(0)
    module, x = NETWORKS[name]()
    randomise(module)
    program = mt.from_torch(module, (x,))
    kernel = program.compile(pipeline=pipeline)
    with torch.no_grad():
        torch.testing.assert_close(kernel(x), module(x), rtol=1e-4, atol=1e-4)
        other = randomise(NETWORKS[name]()[0])
        program.load_state_dict(other.state_dict())
        torch.testing.assert_close(kernel(x), other(x), rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_the_demo():
    command = [sys.executable, str(MODELS / "demo.py"), "--small", "--pipeline", "mlir"]
    demo = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert demo.returncode == 0, demo.stderr
    assert "\x1b[" not in demo.stdout
    for name in ("ResNet-18", "MobileNet", "GPT-2"):
        [row] = [line for line in demo.stdout.splitlines() if name in line and "│" in line]
        differences = [float(cell) for cell in row.replace("│", " ").split()[-2:]]
        assert max(differences) < 1e-4
