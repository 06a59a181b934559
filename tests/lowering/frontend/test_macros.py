"""Macros: inlined functions that may change what their caller sees."""

from __future__ import annotations

import numpy as np
import pytest

import mlirtri as mt
from mlirtri import Ref

PIPELINES = ("linalg", "mlir")


@mt.macro
def increase(x: Ref, by):
    x += by


@mt.macro
def swap(x: Ref, y: Ref):
    x, y = y, x


@mt.macro
def sine_and_cosine(x):
    return np.sin(x), np.cos(x)


@mt.macro
def collatz(n, steps: mt.Ref):
    if n > 1:
        steps += 1
        if n % 2 == 0:
            collatz(n // 2, steps)
        else:
            collatz(3 * n + 1, steps)


@mt.macro
def forever(n):
    return forever(n + 1)


@mt.macro
def clamp(x: Ref, low):
    if x < low:
        x = low


def add_one(x):
    return x + 1


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_references(pipeline):
    def references(a, p):
        total = 0.0
        other = 5.0
        for i in range(a.shape[0]):
            increase(total, a[i])
            increase(a[p[i]], 10.0)
            clamp(total, 3.0)
        swap(total, other)
        swap(a[0], a[1])
        increase(a[2:], 0.5)
        return total, other

    a = np.array([1.0, 2.0, 3.0])
    total, other = mt.jit(references, pipeline=pipeline)(a, np.array([0, 2, 0]))
    wanted, running = np.array([1.0, 2.0, 3.0]), 0.0
    for i, place in enumerate((0, 2, 0)):
        running = max(running + wanted[i], 3.0)
        wanted[place] += 10
    wanted[:2] = wanted[1::-1].copy()
    wanted[2:] += 0.5
    np.testing.assert_array_equal(a, wanted)
    assert (total, other) == (5.0, running)


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_several_results_and_functions_as_arguments(pipeline):
    def functions_as_arguments(a, f, g):
        s, c = g(a)
        return f(s) + f(c)

    a = np.linspace(0, 1, 5)
    kernel = mt.jit(functions_as_arguments, pipeline=pipeline)
    np.testing.assert_allclose(kernel(a, add_one, sine_and_cosine), np.sin(a) + np.cos(a) + 2, rtol=1e-12)
    np.testing.assert_allclose(kernel(a, np.sqrt, sine_and_cosine), np.sqrt(np.sin(a)) + np.sqrt(np.cos(a)), rtol=1e-12)
    assert kernel.compiles == 2


def test_recursion_on_what_is_known():
    def recursion(a, n):
        steps = 0
        collatz(n, steps)
        return a * steps

    assert mt.jit(recursion)(np.ones(1), 6)[0] == 8


def test_recursion_without_an_end_says_so():
    with pytest.raises(mt.KernelError, match="forever is inlined more than 64 calls deep") as caught:
        mt.jit(lambda a: forever(0))(np.ones(1))
    assert len(caught.value.notes) == 64
    assert "in forever, called from here" in str(caught.value)


def test_a_value_is_no_reference():
    with pytest.raises(mt.KernelError, match="the macro writes this argument, and 'a \\+ 1' is no variable"):
        mt.jit(lambda a: increase(a + 1, 2))(np.ones(1))


def test_macros_outside_of_kernels():
    assert sine_and_cosine(0.0) == (0.0, 1.0)
    with pytest.raises(mt.KernelError, match="increase writes its caller's 'x'"):
        increase(1, 2)
