"""Modules that write their arguments and buffers: what may be written, and from what."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import mlirtri as mt
from mlirtri.calls.argument_conversion import NonContiguousWarning
from mlirtri.errors import ArgumentMismatchError, UnsupportedOperationError


class Kept(nn.Module):
    def __init__(self, kept: torch.Tensor):
        super().__init__()
        self.register_buffer("kept", kept)

    def forward(self, x):
        x.add_(1)
        return x * self.kept


class Total(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x):
        self.total += x
        return self.total.sum().item()


class Product(nn.Module):
    def forward(self, a, b):
        a.add_(1)
        return a * b


MEMORY = torch.ones(8)


@pytest.mark.parametrize(
    ("module", "arguments", "message"),
    [
        (Product(), (MEMORY[:3], MEMORY[:3]), "'a' shares memory with 'b'"),
        (Product(), (MEMORY[:3], MEMORY[1:4]), "'a' shares memory with 'b'"),
        (Product(), (MEMORY[:1].expand(3), torch.ones(3)), "'a', which the module writes, has several elements"),
        (Product(), (np.broadcast_to(np.float32(1), 3), torch.ones(3)), "'a', which the module writes, has several"),
        (Product(), (np.frombuffer(bytes(12), "f4"), torch.ones(3)), "'a', which the module writes, is read-only"),
        (Kept(MEMORY[:3]), (MEMORY[2:5],), "'x' shares memory with 'kept'"),
        (Kept(MEMORY[:3]), (MEMORY.numpy()[:3],), "'x' shares memory with 'kept'"),
    ],
)
def test_written_memory_is_not_shared(module: nn.Module, arguments: tuple[Any, ...], message: str):
    kernel = mt.from_torch(module, tuple(torch.ones(3) for _ in arguments)).compile()
    with pytest.raises(ArgumentMismatchError, match=message):
        kernel(*arguments)
    assert torch.equal(MEMORY, torch.ones(8))


def test_written_arguments_may_be_neighbours():
    a, memory = torch.ones(3), torch.ones(6)
    kernel = mt.from_torch(Product(), (a, a.clone())).compile()
    torch.testing.assert_close(kernel(memory[:3], memory[3:]), torch.full((3,), 2.0))
    torch.testing.assert_close(memory, torch.tensor([2.0, 2, 2, 1, 1, 1]))


def test_arrays_are_written():
    a = np.ones(6, np.float32)[::-2]
    kernel = mt.from_torch(Product(), (torch.ones(3), torch.ones(3))).compile()
    with pytest.warns(NonContiguousWarning):
        np.testing.assert_array_equal(kernel(a, np.full(3, 3, np.float32)), [6, 6, 6])
    np.testing.assert_array_equal(a, [2, 2, 2])


def test_arrays_get_into_buffers():
    module, x = Total(), np.full(3, 2, np.float32)
    x.flags.writeable = False
    kernel = mt.from_torch(module, (torch.ones(3),)).compile()
    assert [kernel(x), kernel(x)] == [6, 12]
    assert torch.equal(module.total, torch.full((3,), 4.0))


def sets_data(x, y):
    x.data = y * 2
    return x + 1


@pytest.mark.parametrize(
    ("function", "second", "message"),
    [(sets_data, torch.ones(3), "lost in a trace"), (lambda x, y: torch.add(x, 1, out=y), torch.ones(0), r"\(0,\)")],
)
def test_memory_that_becomes_another_is_refused(function: Any, second: torch.Tensor, message: str):
    with pytest.raises(UnsupportedOperationError, match=message):
        mt.from_torch(function, (torch.ones(3), second))


def test_integers_are_limited_in_place():
    x = torch.arange(5)
    kernel = mt.from_torch(lambda x, limit: x.clamp_max_(limit), (x, torch.tensor(3))).compile()
    kernel(x, torch.tensor(2))
    assert x.tolist() == [0, 1, 2, 2, 2]
