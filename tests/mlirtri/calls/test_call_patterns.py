"""Every pattern of a call is written as Python, in all pipelines: results, updates, numbers, checks, `out`."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from threads import run_in_threads

import mlirtri as mt
from mlirtri.calls.callee import Callee
from mlirtri.calls.short_calls import short_call
from mlirtri.errors import ArgumentMismatchError, KernelTypeError
from mlirtri.lowering.runtime.launches import launches_of_tensors

PIPELINES = ["linalg", "relax", "mlir"]


def two(a, b):
    return a + b, a * b


def nested(a, b):
    return [a + b, (a - b, None)], a


def update(a, b):
    a += b


def update_and_return(a, b):
    a[1:] *= 2
    return a * b, a.sum()


def loop(a, b):
    total = 0.0
    for i in range(a.shape[0]):
        total += a[i] * b[i]
    return total


def scaled(a, factor):
    return a * factor


def counted(a, n: mt.int32):
    return a * n


def element(a, n: mt.int64):
    assert n < 5, "too far"
    return a[:4] * n


def written(a, b, n: mt.int64):
    a[n] = b[n + 1]
    a[n + 3] = 1


def chained(a, b):
    for _ in range(3):
        a = (a[:, None] * b).sum(1) / 8
    return a, b + 1


def spectrum(a, b):
    return a + 1j * b


PATTERNS = {
    "two": (two, 2), "nested": (nested, 2), "update": (update, 2),
    "update_and_return": (update_and_return, 2), "loop": (loop, 2), "scaled": (scaled, 2.5), "counted": (counted, 3),
    "chained": (chained, 2), "spectrum": (spectrum, 2),
}  # fmt: skip


def arguments(second, seed, kind):
    generator = np.random.default_rng(seed)
    first = generator.random(8, np.float32)
    given = [first, generator.random(8, np.float32) if type(second) is int and second == 2 else second]
    return [torch.from_numpy(value) if kind is torch and isinstance(value, np.ndarray) else value for value in given]


def flat(value):
    if isinstance(value, (tuple, list)):
        return [leaf for part in value for leaf in flat(part)]
    return [] if value is None else [np.asarray(value)]


@pytest.mark.parametrize("kind", [np, torch], ids=["numpy", "torch"])
@pytest.mark.parametrize("pipeline", PIPELINES)
def test_every_pattern_has_a_short_call(pipeline, kind, general):
    for name, (function, second) in PATTERNS.items():
        kernel = mt.jit(function, pipeline=pipeline, semantics="numpy").compile(*arguments(second, 0, kind))
        for seed in range(4):
            given, expected = arguments(second, seed, kind), arguments(second, seed, np)
            if seed == 2:
                general.clear()
            result, wanted = kernel(*given), function(*expected)
            assert type(result) is type(wanted) or kind is torch or name in ("loop", "scaled", "counted"), name
            for found, right in zip(flat((result, *given)), flat((wanted, *expected)), strict=True):
                np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-6, err_msg=name)
        assert general == [], name
    assert kernel.__call__.__name__ == "call"


@pytest.mark.parametrize("kind", [np, torch], ids=["numpy", "torch"])
@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
def test_written_arguments_share_no_memory_and_can_be_written(pipeline, kind, general):
    kernel = mt.jit(update, pipeline=pipeline).compile(*arguments(2, 0, kind))
    memory = np.arange(24, dtype=np.float32) if kind is np else torch.arange(24.0)
    for _ in range(3):
        kernel(memory[:8], memory[8:16])
    assert general == []
    before = np.asarray(memory).copy()
    for first, second in [(0, 0), (0, 4), (4, 0), (7, 0)]:
        with pytest.raises(ArgumentMismatchError, match="shares memory"):
            kernel(memory[first : first + 8], memory[second : second + 8])
    assert np.array_equal(before, memory)
    wide = memory[:8]
    with pytest.raises(ArgumentMismatchError, match="shares memory"):
        kernel(wide, wide)
    kernel(memory[::3], memory[:8] if kind is np else memory[:8].clone()) if kind is torch else None
    if kind is np:
        wide.flags.writeable = False
        with pytest.raises(ArgumentMismatchError, match="read-only"):
            kernel(wide, memory[8:16])
        with pytest.raises(KernelTypeError, match="dtype '>f4'"):
            kernel(memory[8:16].astype(">f4"), memory[:8])
        kernel(memory[8:16], wide)
    else:
        with pytest.raises(KernelTypeError, match="gradient"):
            kernel(torch.ones(8, requires_grad=True), wide)
        twice = torch._neg_view(torch.ones(8))
        kernel(twice, torch.ones(8))
        assert twice.tolist() == [0.0] * 8
    for wrong in (memory[:7], memory[:8].reshape(2, 4), np.zeros(8), 1.0, None):
        with pytest.raises(ArgumentMismatchError):
            kernel(memory[8:16], wrong)


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
def test_checks_fail_in_short_calls(pipeline, general):
    kernel = mt.jit(element, pipeline=pipeline, debug=True).compile(np.ones(8), 3)
    a = np.arange(8.0)
    for n in (3, 4, 2):
        assert np.array_equal(kernel(a, n), a[:4] * n)
    general.clear()
    assert np.array_equal(kernel(a, 1), a[:4])
    assert general == []
    for _ in range(2):
        with pytest.raises(AssertionError, match="too far"):
            kernel(a, 7)
    with pytest.raises(ArgumentMismatchError):
        kernel(a, 1 << 63)
    assert np.array_equal(kernel(a, 1), a[:4])


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
def test_an_update_that_fails_names_the_index_that_was_outside(pipeline, general):
    kernel = mt.jit(written, pipeline=pipeline).compile(np.ones(8), np.ones(8), 3)
    a, b = np.arange(8.0), np.arange(8.0)
    kernel(a, b, 2)
    assert a.tolist() == [0, 1, 3, 3, 4, 1, 6, 7]
    for n in (7, 5, -9):
        with pytest.raises(IndexError) as caught:
            kernel(a, b, n)
        with pytest.raises(IndexError) as expected:
            kernel.runner((a, b, n))
        assert (str(caught.value), caught.value.span) == (str(expected.value), expected.value.span)
    assert len(general) == 3


def test_several_results_go_into_out(general):
    a, b = np.arange(8.0), np.array([3.0, 9, 0, 9, 0, 9, 0, 9])
    for pipeline in PIPELINES:
        kernel = mt.jit(two, pipeline=pipeline).compile(a, b)
        first, second = np.empty(8), np.empty(8)
        for _ in range(2):
            assert kernel(a, b, out=(first, second))[1] is second
            kernel(a, b)
        general.clear()
        kernel(b, a, out=(first, second))
        assert general == []
        assert np.array_equal(first, a + b)
        assert np.array_equal(second, a * b)
        kernel(b, a, out=(a, second))
        assert np.array_equal(a, first)
        with pytest.raises(ArgumentMismatchError, match="share memory"):
            kernel(a, b, out=(first, first))
        a = np.arange(8.0)


def test_threads_have_numbers_and_results_of_their_own():
    kernels = [mt.jit(loop, pipeline=pipeline).compile(np.ones(8), np.ones(8)) for pipeline in ("linalg", "mlir")]
    wrong = []

    def work(seed):
        generator = np.random.default_rng(seed)
        for _ in range(300):
            a, b = generator.random((2, 8))
            wrong.extend(seed for kernel in kernels if abs(kernel(a, b) - a @ b) > 1e-9)

    run_in_threads(work, range(4))
    assert wrong == []


class OfAnotherDevice:
    """An executable for tensors of torch's device "meta", which have no memory: it notes its launches."""

    def __init__(self):
        self.launched = []

    def launches(self, inputs, outputs):
        return dataclasses.replace(launches_of_tensors(self.note, inputs, outputs), prepared=lambda tensor: tensor)

    def note(self, inputs, outputs):
        self.launched.append((inputs, outputs))


def scaled_sum(a, b):
    return a * 2, (a + b).sum()


def test_tensors_of_another_device_take_the_short_call():
    a, b = torch.ones(3, 4), torch.ones(3, 4)
    compiled = mt.jit(scaled_sum).compile(a, b)
    executable, refused = OfAnotherDevice(), []

    def general(*arguments, out=None, **keywords):
        refused.append(arguments)

    callee = Callee("scaled_sum", compiled.interface, executable, "torch", False, list, "meta")
    call = short_call(callee, general, lambda call: None)
    x, y = torch.empty(a.shape, device="meta"), torch.empty(b.shape, device="meta")
    twice, total = call(x, y)
    assert not refused
    assert (twice.shape, total.shape, twice.device.type, total.device.type) == (x.shape, (), "meta", "meta")
    [(inputs, outputs)] = executable.launched
    assert [tensor is x or tensor is y for tensor in inputs] == [True, True]
    assert (outputs[0] is twice, outputs[1] is total) == (True, True)
    # What the general call copies, refuses or checks.
    others = [(x, b), (x, b.numpy()), (x.t(), y.t()), (x.double(), y), (x, y, 1)]
    for given in others:
        call(*given)
    assert len(refused) == len(others)
    assert len(executable.launched) == 1
