"""Branches and functions of kernels do what Python does with them: returned values and written arguments."""

from __future__ import annotations

import numpy as np
import pytest
from python_programs import SQUARE, VECTOR, check_program, every_program, on

import mlirtri as mt


@on(VECTOR)
@on(-VECTOR)
def branch_on_element(a):
    if a[0] > 0:
        x = a * 2
    else:
        x = a + 1
    return x


@on(VECTOR, 2.0)
@on(VECTOR, -2.0)
@on(VECTOR, 0.0)
def elif_chain(a, x):
    if x > 1:
        y = 1.0
    elif x < -1:
        y = -1.0
    else:
        y = 0.5
    return a * y


@on(VECTOR, 3)
def compile_time_branch_does_not_type_check_the_other(a, n):
    if n > 2:
        return a
    return a @ np.zeros((100, 3))


@on(VECTOR)
def if_without_else_writes(a):
    if a.sum() > 0:
        a[0] = 100.0
    return a[0]


@on(VECTOR, 1.5)
@on(VECTOR, -1.5)
def returns_in_branches(a, x):
    if x > 1:
        if a[1] > 0:
            return a[0]
        return a[1]
    a[2] = 8.0
    return a[2] + x


@on(VECTOR, 0.0)
@on(VECTOR, 5.0)
def conditional_expression(a, x):
    return (a[0] if x > 1 else a[1]) + (1 if x > 3 else 2.5)


@on(VECTOR, 0.0)
@on(VECTOR, 5.0)
def short_circuit(a, x):
    y = 0.0
    if (x > 1 and a[0] > 1) or (not a[1] > 0 and x < 4):
        y = 1.0
    return y + (x or 7.0) + (x and 3.0)


@on(VECTOR, 1.0)
@on(VECTOR, 9.0)
def chained_comparison(a, x):
    return 1 if 0 < x < a[0] <= 4 else 0


@on(SQUARE)
def names_of_views_after_a_branch(a):
    row = a[1]
    if a[0, 0] > 0:
        a[1, 2] = 50.0
    else:
        row[3] = 60.0
    return row * 1, a[1].sum()


@on(VECTOR, 2.0)
@on(VECTOR, -2.0)
def lengths_differ_by_branch(a, x):
    if x > 0:
        b = a[a > 0]
    else:
        b = a[a < 0]
    return b * 2, len(b)


# --- functions in functions ------------------------------------------------------------------------------------------


def scaled(x, factor=2.0, *, shift=0.0):
    return x * factor + shift


def fill_row(a, i, value):
    a[i, :] = value


@on(SQUARE)
def plain_helpers(a):
    for i in range(a.shape[0]):
        fill_row(a, i, scaled(a[i], shift=1.0))
    return scaled(a, 3.0)


@on(VECTOR, 0.25)
def closures(a, h):
    def f(x):
        return x * h + a[0]

    square = lambda x: x * x  # noqa: E731 - what is tested
    total = 0.0
    for i in range(len(a)):
        total += square(f(a[i]))
    return total


@on(VECTOR)
@on(-VECTOR)
def closures_read_what_is_assigned_after_them(a):
    x, y = 1.0, 0.0
    f = lambda: x + y  # noqa: E731 - what is tested
    if a[0] > 0:
        x = 2.0
    first = f()
    for i in range(a.shape[0]):
        y = f() + a[i]
    second = f()
    x = 5.0
    return first, second, f()


@on(VECTOR, 5)
@on(-VECTOR, 0)
def functions_assign_names_around_them(a, n):
    counts, total, last = np.zeros(3), 0.0, -1

    def visit(i, x):
        nonlocal total, last
        counts[i % 3] += x
        if x > 0:
            total, last = total + x, i
        else:
            total -= 1

    def walk(depth):
        nonlocal last
        last += 1
        if depth > 0:
            walk(depth - 1)
            walk(depth - 1)

    for i in range(n):
        visit(i, a[i])
    before = total, last
    walk(3)
    while total < 20:
        visit(n, 2.0)
    return counts, before, total, last


def test_names_of_another_function_are_refused():
    def kernel(a):
        def outer():
            n = 0

            def bump():
                nonlocal n
                n += 1

            return bump

        outer()()
        return a

    with pytest.raises(mt.KernelError, match="bump assigns to 'n' of another function than the one that calls it"):
        mt.jit(kernel)(VECTOR)


OFFSET = 2.0


@on(VECTOR)
def names_of_their_own(a):
    def inner(x):
        return [OFFSET * x for OFFSET in range(2)]

    b = inner(a)[1] + OFFSET
    a = b * 2
    return [i for i in range(3)][2] + a


@on(VECTOR, 50.0)
def conditions_that_assign_arrays(a, most):
    b, n = np.abs(a), 0
    while (c := b * 2)[0] < most:
        b, n = c + 1, n + 1
    while (b := b * 1.5)[1] < most and (c := c + b).sum() < 40 * most:
        b, c = c, b
    return b, c, n


@every_program(__name__)
def test_programs(function, arguments, pipeline):
    check_program(function, arguments, pipeline)
