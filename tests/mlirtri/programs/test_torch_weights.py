"""Weights of a torch module are packed when they are bound, not in each call, and again when they change."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tolerances import within
from torch import nn

import mlirtri as mt

PIPELINES = ("linalg", "relax")


class Layers(nn.Module):
    """A layer whose columns end within a vector, one whose weight is used twice, and a buffer that calls write."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(48, 70)
        self.second = nn.Parameter(torch.randn(70, 70) / 8)
        self.register_buffer("scale", torch.ones(70, 70))

    def forward(self, x):
        x = torch.relu(self.first(x))
        self.scale.mul_(2)
        return (x @ self.second) @ self.second + x @ self.scale


def close(kernel, module, x):
    wanted = module(x).detach()
    found = kernel(x)
    torch.testing.assert_close(found / wanted.abs().max(), wanted / wanted.abs().max(), **within(wanted.dtype, 70))


def pairs(pipeline):
    """Return a module, a kernel of an equal one, and an input."""
    torch.manual_seed(0)
    module, other = Layers(), Layers()
    other.load_state_dict(module.state_dict())
    x = torch.randn(9, 48)
    program = mt.from_torch(other, (x,))
    return module, other, program, program.compile(pipeline=pipeline), x


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_weights_are_packed_once(pipeline):
    module, _, _, kernel, x = pairs(pipeline)
    text = kernel.ir["tir"]
    assert "cls.pack_weight, (v_first_weight,)" in text.replace("first_weight", "v_first_weight").replace("v_v_", "v_")
    assert text.count("R.call_tir(cls.pack_weight") == 2  # `second` is packed for both products, `scale` is written
    launches = text.count("R.call_tir") - 2
    assert kernel.stats["kernels"] <= launches
    close(kernel, module, x)
    close(kernel, module, x)  # both `scale` have doubled again
    made = [tuple(tensor.shape) for tensor in kernel.runner.prepared]
    assert (5, 48, 16) in made
    assert (70, 48) not in made


def test_another_state_dict_and_writes_into_a_weight_pack_again():
    module, other, program, kernel, x = pairs("linalg")
    close(kernel, module, x)
    with torch.no_grad():
        for each in (module, other):
            each.first.weight.mul_(3)
    close(kernel, module, x)
    third = Layers()
    program.load_state_dict(third.state_dict())
    third.scale = third.scale.clone()
    close(kernel, third, x)


WRITES = {
    "data": lambda weight: weight.data.mul_(3),
    "numpy": lambda weight: np.multiply(weight.detach().numpy(), 3, out=weight.detach().numpy()),
    "copy": lambda weight: weight.data.copy_(weight.data + 1),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_writes_that_torch_does_not_count_pack_again(write, dtype):
    """A whole weight, contiguous or transposed: some of its elements are compared."""
    layer, x = nn.Linear(48, 64, dtype=dtype).eval(), torch.randn(9, 48, dtype=dtype)
    layer.weight = nn.Parameter(layer.weight.detach().T.contiguous().T)
    kernel = mt.from_torch(layer, (x,)).compile()
    torch.testing.assert_close(kernel(x), layer(x).detach(), **within(dtype, 48))
    write(layer.weight)
    for _ in range(2):
        torch.testing.assert_close(kernel(x), layer(x).detach(), **within(dtype, 48))


def test_a_saved_kernel_packs_what_it_was_saved_with(tmp_path):
    layer, x = nn.Linear(40, 50).eval(), torch.randn(8, 40)
    mt.from_torch(layer, (x,)).save(tmp_path / "kernel", pipeline="linalg")
    wanted = layer(x).detach()
    kernel = mt.load(tmp_path / "kernel")
    torch.testing.assert_close(kernel(x), wanted, **within(wanted.dtype, 40))
    assert (4, 40, 16) in [tuple(tensor.shape) for tensor in kernel.runner.prepared]


def test_few_rows_read_the_weight_where_it_is():
    layer, x = nn.Linear(40, 50).eval(), torch.randn(2, 40)
    kernel = mt.from_torch(layer, (x,)).compile(pipeline="linalg")
    assert "pack_weight" not in kernel.ir["tir"]
    torch.testing.assert_close(kernel(x), layer(x).detach(), **within(x.dtype, 40))
