"""Calls that go straight into the compiled function: what they take, and that all else gets what it got before."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from threads import run_in_threads
from tolerances import tolerance, within

import mlirtri as mt
from mlirtri.errors import ArgumentMismatchError, KernelTypeError

OFFSET = 1.0


@mt.jit
def add(a, b):
    return a + b


@mt.jit
def scaled(a, factor):
    return a * factor


@mt.jit
def total(a, axis):
    return a.sum(axis)


@mt.jit
def moved(a):
    return a + OFFSET


@mt.jit
def first(a, b):
    return a + 1


@mt.jit
def chained(a, b):
    return torch.relu(a @ b) @ b


@mt.jit
def largest(a):
    return torch.argmax(a, dim=1)


@mt.jit
def oddly_named(self, out):
    return self + out


@mt.jit
def named(a, *, b):
    return a - b


@pytest.fixture(scope="module")
def kernel():
    kernel = add.compile(torch.zeros(8), torch.zeros(8))
    kernel(torch.zeros(8), torch.zeros(8))
    return kernel


@pytest.fixture
def a():
    return torch.arange(8.0)


@pytest.fixture
def b():
    return torch.linspace(-1.0, 1.0, 8)


@pytest.fixture
def launches(kernel, monkeypatch):
    """How often the general way was taken."""
    count = [0]
    general = type(kernel.runner).__call__

    def counted(self, *arguments):
        count[0] += 1
        return general(self, *arguments)

    monkeypatch.setattr(type(kernel.runner), "__call__", counted)
    return count


def test_plain_tensors_take_the_short_call(kernel, launches, a, b):
    out = torch.empty(8)
    assert torch.equal(kernel(a, b), a + b)
    assert torch.equal(kernel(a, a), a + a)
    assert kernel(a, b, out=out) is out
    assert torch.equal(out, a + b)
    found = kernel(a.numpy(), b.numpy())
    assert type(found) is np.ndarray
    assert np.array_equal(found, (a + b).numpy())
    with torch.inference_mode():
        assert torch.equal(kernel(a, b), a + b)
    assert torch.equal(kernel(torch.ones(9)[1:], b), b + 1)
    assert launches == [0]


def test_a_parameter_named_out_takes_the_short_call(launches, a, b):
    odd = oddly_named.compile(a, b)
    assert torch.equal(odd(a, b), a + b)
    assert launches == [0]
    assert torch.equal(odd(a, out=b), a + b)
    assert launches == [1]
    with pytest.raises(ArgumentMismatchError, match="given twice: out"):
        odd(a, b, out=a)
    assert torch.equal(odd(a, b), a + b)
    assert launches == [1]


def test_several_launches_take_the_short_call(launches, a, b):
    a, b = torch.outer(a, b), torch.outer(b, a)
    kernel = chained.compile(a, b)
    kernel(a, b)
    launches[0] = 0
    expected = torch.relu(a @ b) @ b
    near = {"rtol": 0, "atol": tolerance("float32", 64) * float((a.abs() @ b.abs() @ b.abs()).max())}
    torch.testing.assert_close(kernel(a, b), expected, **near)
    torch.testing.assert_close(kernel(a, b, out=(out := torch.empty(8, 8))), expected, **near)
    np.testing.assert_allclose(kernel(a.numpy(), b.numpy()), expected.numpy(), **near)
    assert launches == [0]
    (memory := torch.zeros(12, 8))[:8] = b
    torch.testing.assert_close(kernel(a, memory[:8], out=memory[4:]), expected, **near)
    assert kernel(a, b, out=b) is b
    torch.testing.assert_close((out, b), (expected, expected), **near)


def test_results_that_nobody_reads_have_memory_of_their_own(launches, a):
    a = torch.outer(a, a.sin())
    kernel = largest.compile(a)
    kernel(a)
    launches[0] = 0
    assert torch.equal(kernel(a), a.argmax(1))
    assert launches == [0]


def test_unsigned_integers_take_the_short_call(launches):
    a, b = torch.arange(8, dtype=torch.uint8) * 30, torch.full((8,), 77, dtype=torch.uint8)
    kernel = add.compile(a, b)
    kernel(a, b)
    launches[0] = 0
    out = torch.empty_like(a)
    assert torch.equal(kernel(a, b), a + b)
    assert kernel(a, b, out=out) is out
    assert torch.equal(out, a + b)
    found = kernel(a.numpy(), b.numpy())
    assert found.dtype == np.uint8
    assert np.array_equal(found, (a + b).numpy())
    assert launches == [0]
    with pytest.raises(ArgumentMismatchError, match="'b' was compiled for"):
        kernel(a, b.view(torch.int8))
    with pytest.raises(ArgumentMismatchError, match="'a' was compiled for"):
        kernel(a.numpy().view(np.int8), b.numpy())
    with pytest.raises(ArgumentMismatchError, match="out"):
        kernel(a, b, out=out.view(torch.int8))


def test_a_number_takes_the_short_call(a):
    kernel = scaled.compile(a, 1.5)
    for factor in (2.0, -0.0, float("inf"), 3, True, np.float64(0.5), torch.tensor(4.0, dtype=torch.float64)):
        assert torch.equal(kernel(a, factor).nan_to_num(), (a * factor).nan_to_num())
    assert np.array_equal(kernel(a.numpy(), 2.5), a.numpy() * np.float32(2.5))
    with pytest.raises(ArgumentMismatchError, match="factor"):
        kernel(a, "2")


@pytest.mark.parametrize(
    "other",
    [torch.ones(9), torch.ones(8, dtype=torch.float64), torch.ones(8, 1), torch.ones(()), 1.0, None, np.ones(8)],
    ids=str,
)
def test_what_does_not_fit_is_refused(kernel, a, other):
    with pytest.raises(ArgumentMismatchError, match="'b' was compiled for"):
        kernel(a, other)
    with pytest.raises(ArgumentMismatchError, match="'a' was compiled for"):
        kernel(other, a)


def test_other_memory_gives_the_same_numbers(kernel, a, b):
    strided = torch.arange(16.0)[::2]
    negated = torch._neg_view(a)
    halves = torch.view_as_complex(torch.stack((a, b), -1)).conj()
    assert torch.equal(kernel(strided, b), strided + b)
    assert torch.equal(kernel(negated, b), b - a)
    assert torch.equal(kernel(halves.imag, a), a - b)
    assert torch.equal(kernel(torch.nn.Parameter(a, requires_grad=False), b), a + b)
    read_only = a.numpy().copy()
    read_only.flags.writeable = False
    assert np.array_equal(kernel(read_only, b.numpy()), (a + b).numpy())
    assert np.array_equal(kernel(a.numpy()[::-1].copy()[::-1], b.numpy()), (a + b).numpy())
    assert torch.equal(kernel(a, b.numpy()), a + b)


def test_gradients_and_other_layouts_are_refused(kernel, a, b):
    with pytest.raises(KernelTypeError, match="requires a gradient"):
        kernel(a.requires_grad_(), b)
    with torch.no_grad():
        assert torch.equal(kernel(a, b), a + b)
    with pytest.raises(KernelTypeError, match="layout"):
        kernel(b.to_sparse(), b)
    with pytest.raises(KernelTypeError, match="no memory"):
        torch.vmap(kernel)(torch.ones(2, 8), torch.ones(2, 8))


def test_large_arrays_begin_with_a_line_of_memory():
    doubled = mt.jit(lambda a: a + a).compile(np.ones((1 << 20, 1), np.float32))
    given = np.full((1 << 20, 1), 2.0, np.float32)
    for _ in range(4):
        found = doubled(given)
        assert found.ctypes.data % 64 == 0
        assert found.flags.writeable
        assert np.array_equal(found, given + given)


@pytest.mark.parametrize("kind", [np.ma.masked_array, np.matrix])
def test_arrays_with_rules_of_their_own_are_refused(a, kind):
    kernel = scaled.compile(torch.zeros(1, 8), 1.0)
    with pytest.raises(KernelTypeError, match=r"'a' is a (MaskedArray|matrix), which has rules of its own"):
        kernel(kind(a[None].numpy()), 1.0)


def test_out_may_share_memory_with_an_argument(kernel, a, b):
    memory = torch.zeros(12)
    for start in range(5):
        memory[:8] = a
        expected = memory[:8] + b
        assert torch.equal(kernel(memory[:8], b, out=memory[start : start + 8]), expected)
        memory[4:] = a
        assert torch.equal(kernel(memory[4:], b, out=memory[start : start + 8]), a + b)
    with pytest.raises(ValueError, match="memory is shared"):
        kernel.runner.executable.data.steps[0].function(memory[:8], b, memory[1:9])
    assert torch.equal(memory[4:], a + b)
    assert kernel(a, b, out=a) is a
    assert torch.equal(a, torch.arange(8.0) + b)
    with pytest.raises(ArgumentMismatchError, match="out"):
        kernel(a, b, out=torch.empty(9))
    with pytest.raises(ArgumentMismatchError, match="out"):
        kernel(a, b, out=torch.empty(8, dtype=torch.float64))
    with pytest.raises(ArgumentMismatchError, match="gradient"):
        kernel(a, b, out=torch.empty(8, requires_grad=True))
    spread = torch.zeros(16)
    kernel(a, b, out=spread[::2])
    assert torch.equal(spread[::2], a + b)


def test_an_argument_that_is_not_used_is_checked(a):
    kernel = first.compile(a, a)
    assert torch.equal(kernel(a, a), a + 1)
    for other in (torch.ones(9), torch.ones(8, dtype=torch.int32), np.ones(9, np.float32)):
        with pytest.raises(ArgumentMismatchError, match="'b' was compiled for"):
            kernel(a, other)


def test_the_number_of_arguments_is_checked(kernel, a):
    with pytest.raises(ArgumentMismatchError, match="missing b"):
        kernel(a)
    with pytest.raises(ArgumentMismatchError, match="3 positional"):
        kernel(a, a, a)


def test_a_called_kernel_has_a_way_in_of_its_own_and_keeps_its_class(a, b):
    kernel, out = add.compile(a, b), torch.empty(8)
    kernel(a, b)
    assert type(kernel) is mt.Kernel
    assert callable(kernel)
    assert kernel.__call__.__globals__["v0_launch0"] is kernel.runner.executable.data.steps[0].function
    assert torch.equal(kernel(b=b, a=a, out=out), a + b)
    assert torch.equal(kernel(a, b=b), a + b)
    for wrong in ({}, {"a": a, "b": b}, {"b": b, "c": a}):
        with pytest.raises(ArgumentMismatchError, match="takes a, b at run time"):
            kernel(a, **wrong)


def test_jit_finds_the_kernel_of_each_call(a, b):
    for _ in range(3):
        assert torch.equal(add(a, b), a + b)
        assert torch.equal(add(a[:4], b[:4]), a[:4] + b[:4])
        assert np.array_equal(add(a.numpy(), b.numpy()), (a + b).numpy())
        assert add(a.double(), b.double()).dtype == torch.float64
        assert add(a.int(), b).dtype == torch.float32
        assert torch.equal(scaled(a, 2.0), a * 2)
        assert torch.equal(scaled(a, 3.0), a * 3)
        assert torch.equal(scaled(a, 3), a * 3)
        matrix = torch.stack((a, b))
        torch.testing.assert_close(total(matrix, 0), matrix.sum(0), **within("float32", 2))
        torch.testing.assert_close(total(matrix, 1), matrix.sum(1), **within("float32", 8))
        with pytest.raises(KernelTypeError, match="got bool True"):
            total(matrix, True)
        assert torch.equal(named(a, b=b), a - b)
    with pytest.raises(ArgumentMismatchError, match="positional"):
        named(a, b)
    with pytest.raises(ArgumentMismatchError):
        add(a, b, b)


def test_parameters_may_have_names_that_python_uses(a, b):
    kernel = oddly_named.compile(a, b)
    for call in (oddly_named, kernel):
        assert torch.equal(call(self=a, out=b), a + b)


def test_jit_sees_a_global_that_changes(a, monkeypatch):
    assert torch.equal(moved(a), a + 1)
    assert torch.equal(moved(a), a + 1)
    monkeypatch.setitem(globals(), "OFFSET", 5.0)
    assert torch.equal(moved(a), a + 5)


def test_threads_share_a_kernel(kernel):
    wrong = []

    def work(seed):
        generator = torch.Generator().manual_seed(seed)
        for _ in range(300):
            x, y = torch.randn(2, 8, generator=generator)
            if not torch.equal(kernel(x, y), x + y) or not torch.equal(add(x[:5], y[:5]), x[:5] + y[:5]):
                wrong.append(seed)

    run_in_threads(work, range(4))
    assert wrong == []


@mt.jit
def times(a, n: mt.int32, factor: mt.float32):
    return a * n * factor


NUMPYS_NUMBERS = [(np.int64(3), 2.0), (np.uint8(3), np.float64(2)), (np.int16(3), np.float16(2)), (3, np.int64(2))]


@pytest.mark.parametrize(("n", "factor"), NUMPYS_NUMBERS)
@pytest.mark.parametrize("make", [np.ones, torch.ones])
def test_numbers_of_numpy_with_other_dtypes_count_as_pythons(n, factor, make):
    a = make(4, dtype=torch.float32 if make is torch.ones else np.float32)
    expected = times(a, 3, 2.0)
    for _ in range(3):  # the general call, then the one that is written for these classes
        result = times(a, n, factor)
        assert type(result) is type(expected)
        assert result.dtype == expected.dtype
        np.testing.assert_array_equal(result, np.full(4, 6, np.float32))
    assert times(a, np.int64(-4), factor)[0] == -8


def test_numbers_of_numpy_that_do_not_fit_are_refused():
    a = np.ones(4, np.float32)
    times(a, np.int64(3), np.float64(2))
    for n in (np.int64(1 << 40), np.uint32(1 << 31), np.float64(3)):
        with pytest.raises(ArgumentMismatchError, match="'n'"):
            times(a, n, 2.0)
    np.testing.assert_array_equal(times(a, np.int64(3), np.float64(np.inf)), np.full(4, np.inf, np.float32))
