"""Loops of kernels do what Python does with them: returned values and written arguments."""

from __future__ import annotations

import numpy as np
import pytest
from python_programs import INTEGERS, SQUARE, VECTOR, check_program, every_program, on

import mlirtri as mt


@on(VECTOR)
def sum_of_elements(a):
    total = 0
    for i in range(a.shape[0]):
        total += a[i]
    return total


@on(np.arange(6).reshape(2, 3))
@on(np.arange(24.0).reshape(2, 3, 4))
@on(np.zeros((0, 3)))
@on(VECTOR)
def positions_of_all_axes(a):
    total = 0.0
    for p, v in np.ndenumerate(a):
        total += v * (p[0] + 1) - p[-1]
    for p in np.ndindex(a.shape):
        a[p] += total
    for p in np.ndindex(*a.shape):
        if p[0] == p[-1]:
            a[p] = 0
    corners = [p for p in np.ndindex(2, 2)]
    return total, corners, sum(v for p, v in np.ndenumerate(a) if p[0] == 1)


@on(VECTOR, 0)
@on(VECTOR, 3)
@on(VECTOR, 20)
def argument_bounds(a, n):
    b = a.copy()
    for i in range(n):
        b += i * a
    return b


@on(12)
def negative_steps(n):
    a = np.zeros(n)
    for i in range(n - 1, -1, -1):
        a[i] = 2 * i
    for i in range(n - 2, 0, -3):
        a[i] -= a[i + 1]
    for i in range(5, 10, 2):
        a[i] *= 3
    return a


@on(SQUARE)
def outer_index_bounds(a):
    for i in range(a.shape[0]):
        for j in range(i, a.shape[1]):
            a[i, j] += 10 * i + j
        for j in range(i - 1, -1, -1):
            a[i, j] -= a[j, i]


@on(SQUARE)
def over_rows(a):
    largest = -1.0
    for row in a:
        for x in row:
            if x > largest:
                largest = x
    return largest


@on(VECTOR)
def enumerate_zip_reversed(a):
    total = 0.0
    for i, x in enumerate(a):
        total += i * x
    for x, y in zip(a, a[::-1]):
        total += x * y * y
    for i in reversed(range(len(a))):
        total = total / 2 + a[i]
    return total


@on(VECTOR)
def unrolled_tuple(a):
    total = 0.0
    for i, name in enumerate(("a", "b", "c")):
        if name != "b":
            total += a[i]
    for k in (2, 3):
        total += (a**k).sum()
    return total


@on(VECTOR)
def static_range_gives_static_shapes(a):
    parts = 0.0
    for i in mt.static_range(1, 7):
        parts += a[:i].reshape(i, 1).sum()
    return parts


@on(INTEGERS)
def insertion_sort(a):
    for i in range(1, len(a)):
        x = a[i]
        j = i - 1
        while j >= 0 and a[j] > x:
            a[j + 1] = a[j]
            j -= 1
        a[j + 1] = x


@on(VECTOR, 5)
def last_value_of_a_loop(a, n):
    for i in range(n):
        y = a[i] * 2
    return y, i


@on(VECTOR, 4)
def arrays_swap_names(a, steps):
    old = a.copy()
    new = np.zeros_like(a)
    for _ in range(steps):
        new[1:-1] = old[:-2] + old[2:]
        old, new = new, old
    return old


@on(VECTOR, 9)
def rebinding_an_argument_does_not_write_it(a, steps):
    for _ in range(steps):
        a = a * 0.5 + 1
    return a


@on(SQUARE, 3)
def updates_of_the_whole_argument(a, steps):
    for _ in range(steps):
        a *= 2
        a[1:] += a[:-1]
    return a.sum()


@on(VECTOR, 6)
def arrays_that_shrink(a, steps):
    b = a.copy()
    for i in range(steps):
        b = b[b > i - 4]
    return b, len(b)


@on(6)
def types_grow_in_loops(n):
    s = 0
    flag = False
    for i in range(n):
        s = s + 0.5 * i
        flag = flag or s > 5
    return s, flag


@on(8)
def fibonacci(n):
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a


@on(SQUARE)
def tuples_go_around(a):
    pair = (0.0, a[0])
    for i in range(a.shape[0]):
        pair = (pair[0] + a[i, i], pair[1] + a[i])
    return pair


@on(VECTOR)
def each_turn_reads_what_the_array_holds_then(a):
    for x in a:
        a += x
    for i, x in enumerate(a):
        a[i + 1 :] += x


@on(VECTOR)
def lengths_in_conditions(a):
    b = a
    while len(b) > 1:
        half = len(b) // 2
        b = b[:half] + b[half : 2 * half]
    return b


@on(np.arange(8.0))
def updates_of_halves(a):
    n = len(a)
    while n > 1:
        n = n // 2
        a[:n] += a[n : 2 * n]


@on(VECTOR)
@on(-VECTOR)
def new_arrays_written_in_a_branch(a):
    out = np.zeros((4, 7))
    if a[0] > 0:
        out[1] = a
    total = 0.0
    for i in range(4):
        total += out[i].sum() + out[i, 0]
    out[0] += 1
    return out, total


@on(np.array([5.0, 1.0, 4.5, 3.0, 6.0]), np.arange(5))
def pairs_that_shrink(z, x):
    out = x * 0.0
    for _ in range(6):
        if len(z) > 2:
            m = z > 4
            out[x[m]] = z[m]
            z, x = z[~m], x[~m]
    return out


@on(VECTOR)
def comprehensions(a):
    parts = [a[i] * i for i in range(6) if i % 2]
    return np.array([x + 1 for x in parts]), sum(x * x for x in a)


@on(VECTOR)
@on(-VECTOR)
def comprehensions_have_names_of_their_own(a):
    x, y = 1.0, 0.0
    if a[0] > 0:
        x = 2.0
    parts = [y := y + x for x in range(3)]
    return x, y, np.array(parts)


@on(np.array([0, 2, 2, 5, 5, 9]), np.arange(9.0))
def bounds_from_data(starts, x):
    y = np.zeros(starts.size - 1)
    for i in range(starts.size - 1):
        y[i] = x[starts[i] : starts[i + 1]].sum()
    return y


@on(np.array([1, 1, 2, 3, 3, 3]))
def a_loop_that_starts_where_another_ended(a):
    runs, count, i = np.zeros((len(a), 2), np.int64), 0, 0
    while i < len(a):
        j = i
        while j < len(a) and a[j] == a[i]:
            j += 1
        runs[count] = a[i], j - i
        count, i = count + 1, j
    return runs[:count]


@on(SQUARE)
def star_expressions(a):
    def total(x, y, *, z):
        return x + y * 2 + z

    first, *rows, last = a
    pair = (*rows, last)
    (*both,) = pair
    return [*both, first], total(*pair[:2], z=1), np.zeros((*a.shape, 2)), max(*a.shape, 2)


@every_program(__name__)
def test_programs(function, arguments, pipeline):
    check_program(function, arguments, pipeline)


def test_a_loop_is_one_function_whose_time_grows_with_its_iterations_only():
    def scan(a, n):
        for i in range(1, n):
            a[i] += a[i - 1]

    kernel = mt.jit(scan).compile(np.zeros(64), n=64)
    assert kernel.stats["kernels"] == 1
    text = kernel.passes["relax"]
    buffers = next(reversed(text.values()))
    assert "memref.copy" not in buffers
    assert "memref.alloc" not in buffers


@pytest.mark.parametrize("unroll", [0, 3, 8])
def test_unrolling_is_an_option(unroll):
    def power(a, n):
        x = a
        for _ in range(n):
            x = x * a
        return x

    text = mt.jit(power, unroll=unroll).compile(np.ones(3), n=5).ir["tri"]
    assert ("scf.for" in text) == (unroll < 5)
    assert text.count("tri.multiply") == (5 if unroll >= 5 else 1)


def test_a_name_that_an_outer_loop_resets_and_inner_loops_change():
    @mt.jit
    def last_of(a, steps: mt.int64):
        largest = 0.0
        for step in mt.serial(steps):
            largest = 0.0
            for i in range(a.shape[0]):
                for j in range(a.shape[1]):
                    largest = max(largest, a[i, j] + step)
        return largest

    a = np.random.default_rng(0).random((40, 50))
    assert last_of(a, 3) == a.max() + 2
