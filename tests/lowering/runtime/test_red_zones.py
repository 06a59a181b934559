"""The test mode that finds writes outside of buffers: by compiled code that does so, and by code that does not."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
import torch

import mlirtri as mt
from mlirtri.calls.runtime import Runner
from mlirtri.errors import RedZoneError
from mlirtri.lowering.runtime.memory import empty


@mt.jit
def shifted(a, b):
    return a + b


class Faulty:
    """An executable that computes a sum, and writes one byte somewhere else."""

    updates_in_place = False

    def __init__(self, fault):
        self.fault = fault

    def launch(self, inputs, outputs):
        torch.add(*inputs, out=outputs[0])
        between = empty((3,), torch.float32)
        between.fill_(1)
        self.fault(inputs[1], outputs[0], between)


def set_byte(address: int) -> None:
    ctypes.memset(address, 0x55, 1)


FAULTS = {
    "behind": (lambda _, result, __: set_byte(result.data_ptr() + result.nbytes), "behind result 0, up to byte 1 past"),
    "before": (lambda _, result, __: set_byte(result.data_ptr() - 3), "before result 0, from byte 3 before its start"),
    "argument": (lambda b, _, __: set_byte(b.data_ptr() + 9), "into the argument 'b', which it only reads"),
    "behind the argument": (
        lambda b, _, __: set_byte(b.data_ptr() + b.nbytes + 7),
        "behind the argument 'b', up to byte 8 past",
    ),
    "intermediate": (lambda _, __, t: set_byte(t.data_ptr() + t.nbytes), "behind an intermediate, up to byte 1 past"),
}


def runner_of(fault, monkeypatch) -> Runner:
    monkeypatch.setenv("MLIRTRI_RED_ZONES", "1")
    a = torch.arange(5.0)
    interface = shifted.compile(a, a).interface
    return Runner("shifted", interface, Faulty(fault), "torch", signless=False, cuda=False)


@pytest.mark.parametrize("name", FAULTS)
def test_a_write_outside_of_a_buffer_is_found(name, monkeypatch):
    fault, message = FAULTS[name]
    a = torch.arange(5.0)
    with pytest.raises(RedZoneError, match=rf"shifted\(\): the compiled code wrote {message}"):
        runner_of(fault, monkeypatch)([a, a + 1])


def test_code_that_stays_in_its_buffers_is_right(monkeypatch):
    a = torch.arange(6.0)[1:]  # aligned to an element
    addresses = []
    result = runner_of(lambda _, result, __: addresses.append(result.data_ptr()), monkeypatch)([a, a + 1])
    assert torch.equal(result, a + a + 1)
    assert addresses != [result.data_ptr()]


def test_what_is_not_written_is_nan(monkeypatch):
    runner = runner_of(lambda _, result, __: None, monkeypatch)
    monkeypatch.setattr(runner.executable, "launch", lambda inputs, outputs: outputs[0][1:].fill_(2))
    np.testing.assert_array_equal(runner([torch.ones(5), torch.ones(5)]), [np.nan, 2, 2, 2, 2])


@pytest.mark.parametrize("pipeline", ["linalg", "relax", "mlir"])
def test_kernels_run_between_zones(pipeline, monkeypatch):
    monkeypatch.setenv("MLIRTRI_RED_ZONES", "1")

    def several(a, b):
        product = a @ b
        return product.sum(axis=0), product > 0, (a * 2j)

    def written(a, b):
        a[0] = b[0]
        return a.sum()

    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 7, 7))
    kernel = mt.jit(several, pipeline=pipeline).compile(a, b)
    for _ in range(2):
        for result, expected in zip(kernel(a, b), several(a, b), strict=True):
            np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-12)
    out = np.empty((7, 7))
    np.testing.assert_array_equal(mt.jit(shifted.__wrapped__, pipeline=pipeline)(a, b, out=out), a + b)
    own, expected = a.copy(), a.copy()
    np.testing.assert_allclose(mt.jit(written, pipeline=pipeline)(own, b), written(expected, b))
    np.testing.assert_array_equal(own, expected)
