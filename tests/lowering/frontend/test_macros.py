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


@mt.macro
def double(x: Ref):
    x = x * 2
    x += x


@mt.macro
def double_below(x: Ref, low, turns):
    for _ in range(turns):
        if x < low:
            double(x)
        else:
            x -= 1


@mt.macro
def double_and_swap(x: Ref, y: Ref):
    double(y)
    swap(x, y)


@mt.macro
def counted(x: Ref):
    x = sum([x for x in range(3)]) + x
    return x


@mt.macro
def forgets(x: Ref):
    del x


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


@pytest.mark.parametrize("pipeline", [*PIPELINES, "interpreter"])
def test_references_through_several_macros(pipeline):
    def nested(a, p):
        total = 1.0
        double(total)
        double_below(a[0], 3.0, 2)
        double_below(a[p[0]], 50.0, 9)
        double_below(total, 50.0, 9)
        double_and_swap(a[2], a[3])
        double_and_swap(a[4], total)
        double_below(a[5:7][1], 0.0, 1)
        double(a[5:7])
        double(a[p[1:]])
        return total

    a = np.arange(12.0)
    total = mt.jit(nested, pipeline=pipeline)(a, np.array([1, 9, 10]))
    wanted = np.array([0.0, 58.0, 12.0, 2.0, 228.0, 20.0, 20.0, 7.0, 8.0, 36.0, 40.0, 11.0])
    assert total == 4.0
    np.testing.assert_array_equal(a, wanted)


@pytest.mark.parametrize("pipeline", [*PIPELINES, "interpreter"])
def test_a_reference_reads_what_was_written_since(pipeline):
    @mt.macro
    def both(x: Ref, a):
        a[0] = 100.0
        x += 1
        a[0] = x + 1
        return x

    def reads(a):
        return both(a[0], a), a[0]

    assert mt.jit(reads, pipeline=pipeline)(np.zeros(2)) == (102.0, 102.0)


@pytest.mark.parametrize("pipeline", [*PIPELINES, "interpreter"])
def test_macros_in_conditions_and_comprehensions(pipeline):
    def conditions(a, x):
        total, n = 0.0, 1.0
        parts = [increase(total, i) for i in range(4)]
        while counted(a[0]) < 20 and counted(n) < 20:
            if a[0] > 10 and n > 12:
                break
        y = x if x > 3 else counted(a[1])
        return total, n, len(parts), y

    for x, y in ((4.0, 4.0), (2.0, 5.0)):
        a = np.arange(1.0, 4.0)
        assert mt.jit(conditions, pipeline=pipeline)(a, x) == (6.0, 13.0, 4, y)
        np.testing.assert_array_equal(a, [13.0, y if x < 3 else 2.0, 3.0])


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


def test_recursion_may_be_hundreds_of_calls_deep():
    def recursion(a, n):
        def added(m):
            return a if m == 0 else added(m - 1) + 1

        steps = 0
        collatz(27, steps)
        return added(n) * steps

    kernel = mt.jit(recursion, pipeline="interpreter")
    assert kernel(np.ones(1), 200)[0] == 201 * 111
    with pytest.raises(mt.KernelError, match="added is inlined more than 150 calls deep"):
        mt.jit(recursion, inline_depth=150)(np.ones(1), 200)


def descend(x, n):
    if n == 0:
        return x
    if x[0] > 0:
        return descend(x - 1, n - 1)
    return x


@pytest.mark.parametrize(("pipeline", "depth"), [("mlir", 30), ("interpreter", 80)])
def test_recursion_through_branches_of_run_time(pipeline, depth):
    kernel = mt.jit(lambda a: descend(a, depth), pipeline=pipeline)
    assert kernel(np.array([20.0]))[0] == 0.0
    assert kernel(np.array([200.0]))[0] == 200 - depth


def forks(n):
    first = forks(n + 1)
    second = forks(n + 2)
    for i in range(9):
        first = first + forks(n + i)
    return first + second


def calls_forever(a):
    return forever(0)


def calls_forks(a):
    return a + forks(0)


@pytest.mark.parametrize("function", [calls_forever, calls_forks])
def test_recursion_without_an_end_says_so(function):
    with pytest.raises(mt.KernelError, match="is inlined more than 64 calls deep") as caught:
        mt.jit(function, inline_depth=64)(np.ones(1))
    error = caught.value
    line = forever.__code__.co_firstlineno + 2 if "forever" in error.message else forks.__code__.co_firstlineno + 1
    assert isinstance(error, RecursionError)
    assert (error.span.file, error.span.line) == (__file__, line)
    assert "inline_depth" in error.help
    assert len(error.notes) == 64
    assert str(error).count("called from here") == 4
    assert "  note: … 60 more\n" in str(error)
    with pytest.raises(mt.KernelError, match="is inlined more than 500 calls deep"):
        mt.jit(function)(np.ones(1))
    with pytest.raises(mt.KernelError, match="inline_depth is a number of calls, not -1"):
        mt.jit(function, inline_depth=-1)


def test_a_value_is_no_reference():
    with pytest.raises(mt.KernelError, match="the macro writes this argument, and 'a \\+ 1' is neither a variable"):
        mt.jit(lambda a: increase(a + 1, 2))(np.ones(1))


LIMIT = 3.0


@pytest.mark.parametrize(("function", "message"), [
    (lambda a: increase(LIMIT, 1), "assigns to 'LIMIT', which is not a variable of the calling function"),
    (lambda a: (lambda: increase(a, np.ones((2, 1))))(), "does not fit into 'x'"),
    (lambda a: (lambda: swap(a, a[0]))(), "assigns to 'a', which is not a variable"),
    (lambda a: swap(a, a), "'a' is given for two references"),
    (lambda a: forgets(a[0]), "'x' is the caller's, and cannot be deleted"),
    (lambda a: forgets(a), "'x' is the caller's, and cannot be deleted"),
    (lambda a: increase(a[:], 1j), "does not fit into 'x'"),
])  # fmt: skip
def test_writes_that_would_be_lost_are_refused(function, message):
    with pytest.raises(mt.KernelError, match=message) as caught:
        mt.jit(function)(np.ones(2))
    assert caught.value.span.file == __file__


def test_a_function_in_a_kernel_writes_arrays_around_it():
    def kernel(a):
        def step():
            increase(a, 1)

        step()
        step()

    a = np.zeros(2)
    mt.jit(kernel)(a)
    np.testing.assert_array_equal(a, [2.0, 2.0])


@mt.macro
def put(o: Ref, i, value):
    o[i] = value


@mt.macro
def put_both(o: Ref, i, value):
    put(o, i, value)
    o[0] += value


@pytest.mark.parametrize("pipeline", [*PIPELINES, "relax", "interpreter"])
def test_a_reference_to_an_array_is_written_in_loops(pipeline):
    def kernel(a, b, n: mt.int32):
        c = np.zeros(5)
        for i in range(n):
            put(a, i, i * 2.0)
            if i > 1:
                put_both(c, i, i + 1.0)
        for i in mt.prange(n):
            put(b, i, a[i])
        i = 0
        while i < n:
            put(a, i, a[i] + 1)
            i += 1
        return c

    def by_hand(a, b):
        a[:], b[:] = 2.0 * np.arange(5) + 1, 2.0 * np.arange(5)
        return np.array([12.0, 0, 3, 4, 5])

    ours, right = (np.ones(5), np.ones(5)), (np.ones(5), np.ones(5))
    np.testing.assert_array_equal(mt.jit(kernel, pipeline=pipeline)(*ours, 5), by_hand(*right))
    np.testing.assert_array_equal(ours, right)


def test_macros_outside_of_kernels():
    assert sine_and_cosine(0.0) == (0.0, 1.0)
    with pytest.raises(mt.KernelError, match="increase writes its caller's 'x'"):
        increase(1, 2)


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_what_a_macro_has_assigned_before_a_parallel_loop_is_only_read_there(pipeline):
    @mt.jit(pipeline=pipeline)
    def kernel(x, n: mt.int64):
        factor = 1.0
        increase(factor, 2.0)
        for i in mt.prange(x.shape[0]):
            x[i] *= factor
        for _ in range(n):
            increase(factor, 1.0)
        for i in mt.prange(x.shape[0]):
            x[i] += factor
        return factor

    x = np.arange(5.0)
    assert kernel(x, 4) == 7
    np.testing.assert_array_equal(x, np.arange(5.0) * 3 + 7)
