"""Loops that end early do what Python does with them: `while`, `break`, `continue`, `return` and `else`."""

from __future__ import annotations

import numpy as np
from python_programs import INTEGERS, SQUARE, VECTOR, check_program, every_program, on


@on(27)
@on(1)
def while_on_integers(n):
    steps = 0
    x = n + 0 * steps
    while x != 1:
        if x % 2 == 0:
            x = x // 2
        else:
            x = 3 * x + 1
        steps += 1
    return steps


@on(27)
def assigned_in_an_endless_loop(n):
    while True:
        half = n // 2
        if half < 4:
            break
        n = half
    return half


@on(2.0)
def newton(x):
    guess = x
    while abs(guess * guess - x) > 1e-12:
        guess = 0.5 * (guess + x / guess)
    return guess


@on(VECTOR, 4.0)
@on(VECTOR, 77.0)
def break_and_continue(a, stop):
    total = 0.0
    seen = 0
    for i in range(len(a)):
        if a[i] == stop:
            break
        if a[i] < 0:
            continue
        total += a[i]
        seen += 1
    return total, seen


@on(VECTOR)
def return_without_a_value(a):
    def clear_until(limit):
        if limit == 0:
            return
        i = 0
        while i < len(a):
            if a[i] > limit:
                return None
            a[i], i = 0, i + 1

    clear_until(0)
    clear_until(4)
    for x in a:
        for y in a:
            if x + y > 10:
                return
            a[0] += 1
    a[1] = 7


@on(VECTOR, 4.0)
@on(VECTOR, 77.0)
def return_in_loop(a, wanted):
    for i in range(len(a)):
        if a[i] == wanted:
            return i
    return -1


@on(SQUARE, 10.0)
@on(SQUARE, 100.0)
def return_in_nested_loops(a, limit):
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            if a[i, j] > limit:
                return i * 10 + j
        a[i, 0] = -1
    return -5


@on(VECTOR)
def while_true(a):
    i = 0
    while True:
        i += 1
        if i >= len(a) or a[i] > 3:
            break
    return i


@on(VECTOR)
def while_true_returns(a):
    i = 0
    while True:
        a[i] += 1
        for x in (3.0, 5.0):
            if a[i] == x:
                return i
        i += 1


@on(VECTOR)
def break_out_of_the_inner_loop(a):
    found = 0
    for i in range(len(a)):
        for j in range(i + 1, len(a)):
            if a[j] > a[i]:
                found += j
                break
    return found


@on(INTEGERS, 4)
@on(INTEGERS, 90)
def conditional_expressions_beside_exits(a, wanted):
    for k in range(5, 0, -1):
        if a[k] == wanted:
            return a[k] * 2
        a[0] += (k if a[k] != 0 else np.int64(k)) * a[1]
    return (1 if a[0] > 2 else 3) + wanted


def next_of(a, i):
    a[i] += 1
    return a[i]


@on(VECTOR)
def a_condition_that_writes(a):
    n = 0
    while next_of(a, 0) < 8 or next_of(a, 1) < 5:
        n += 1
    return n


@on(VECTOR)
def a_condition_that_assigns(a):
    n, m = 0, 0.0
    while (n := n + 1) < 50 and (m := a[0] * n) < 1000:
        a[0] *= 2
        if a[0] > 30:
            break
        if a[0] > 7:
            continue
        a[1] += m
    for i in range(9):
        while (n := n + 1) < 5 * i:
            if n > 23:
                return n
            a[2] += 1
    return -n


@on(VECTOR, 1.0)
@on(VECTOR, 1e9)
def else_of_loops(a, limit):
    found, steps = -1, 0
    for i in range(a.shape[0]):
        if a[i] > limit:
            found = i
            break
        for j in range(3):
            if a[i] + j > limit + 2:
                break
        else:
            steps += 10
            continue
        steps += 1
    else:
        steps += 1000
    return found, steps


@on(VECTOR, 1.0)
@on(VECTOR, 1e9)
def else_of_loops_that_return(a, limit):
    found, steps = -1, 1
    while steps % 7:
        steps += 1
        if steps > limit:
            break
    else:
        found += 100
    for i in range(3):
        if a[0] > limit:
            return i, steps, found
    else:
        steps += 5
    for i in range(2):
        for j in range(2):
            steps += j
        else:
            break
    else:
        steps = 0
    return found, steps, i


@on(np.array([1, 2, 3]))
@on(np.array([1, 4, 3]))
@on(np.array([5, 7, 9]))
def return_of_arrays_from_unrolled_loops(a):
    for x in a:
        if x == 2:
            return a + x, x * 5
    for k in (4, 6):
        for i in range(2):
            if a[i] * 2 == k * 2:
                return a * k, a[i]
            if a[i] == 9:
                break
    return a - 1, a[0]


@every_program(__name__)
def test_programs(function, arguments, pipeline):
    check_program(function, arguments, pipeline)
