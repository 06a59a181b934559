"""Loops, updates and run-time sizes in the `mlir` pipeline: the numbers against NumPy."""

from __future__ import annotations

import imperative_programs as programs
import loop_carried_programs as carried
import numpy as np
import pytest
from imperative_stages import run, scalar, square, vector
from tolerances import tolerance

from mlirtri.dialect.bindings.mlir import ir, operations_named
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.core.target import as_target
from mlirtri.lowering.mlir_backend.bufferize import fused_to_bufferized


def test_lu():
    rtol = tolerance("float64", 8)
    a = square() + 8 * np.eye(8)
    result = a.copy()
    run(programs.LU, [result], updated=[(0, 0)])
    lower, upper = np.tril(result, -1) + np.eye(8), np.triu(result)
    np.testing.assert_allclose(lower @ upper, a, rtol=rtol, atol=rtol)


def test_seidel():
    a = square()
    expected = a.copy()
    for _ in range(3):
        for i in range(1, 7):
            for j in range(1, 7):
                expected[i, j] = (expected[i - 1, j] + expected[i, j - 1]) * 0.5
    run(programs.SEIDEL, [a], updated=[(0, 0)])
    np.testing.assert_array_equal(a, expected)


def test_jacobi():
    a, b = vector(), vector() * 2
    first, second = a.copy(), b.copy()
    for _ in range(3):
        second[1:-1] = (first[:-2] + first[1:-1] + first[2:]) * 0.25
        first[1:-1] = (second[:-2] + second[1:-1] + second[2:]) * 0.25
    run(programs.JACOBI, [a, b], updated=[(0, 0), (1, 1)])
    np.testing.assert_array_equal(a, first)
    np.testing.assert_array_equal(b, second)


def test_floyd_warshall():
    path = np.abs(square())
    expected = path.copy()
    for k in range(8):
        expected = np.minimum(expected, expected[:, k, None] + expected[k])
    run(programs.FLOYD_WARSHALL, [path], updated=[(0, 0)])
    np.testing.assert_array_equal(path, expected)


@pytest.mark.parametrize("first", [0, 1])
def test_rows(first):
    a = square() / 3
    expected = a.copy()
    for k in range(7):
        expected[k + 1, 1:] -= expected[k, first : first + 7] * expected[k, k]
    text = programs.ROWS.replace("%a[%k, 1] [1, 7]", f"%a[%k, {first}] [1, 7]")
    run(text, [a], updated=[(0, 0)])
    np.testing.assert_allclose(a, expected, rtol=tolerance("float64", 7))


@pytest.mark.parametrize("shift", [0, 1])
def test_rows_from_their_neighbours(shift):
    a = square() / 3
    expected = a.copy()
    for k in range(1, 7):
        above, below = expected[k - 1, 1 + shift : 7 + shift], expected[k + 1, 1 - shift : 7 - shift]
        expected[k, 1:7] = above + expected[k, 1:7] + below
    text = programs.COLUMNS.replace("%a[%h, 1] [1, 6]", f"%a[%h, {1 + shift}] [1, 6]")
    run(text.replace("%a[%l, 1] [1, 6]", f"%a[%l, {1 - shift}] [1, 6]"), [a], updated=[(0, 0)])
    np.testing.assert_array_equal(a, expected)


def test_overlap():
    a = vector()
    expected = a.copy()
    expected[1:] = expected[:-1].copy()
    run(programs.OVERLAP, [a], updated=[(0, 0)])
    np.testing.assert_array_equal(a, expected)
    expected[3:], expected[:3] = expected[:-3].copy(), expected[0]
    run(programs.THRICE, [a], updated=[(0, 0)])
    np.testing.assert_array_equal(a, expected)


@pytest.mark.parametrize("least", [-1, 20, 100])
def test_while_with_early_stop(least):
    a = np.random.default_rng(0).integers(0, 50, (4, 9))
    expected = [next((v for v in row if v % 7 == 0 and v > least), row[-1]) for row in a]
    result = np.full(4, 7)
    run(carried.WHILE, [a, scalar(least)], [result])
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("s", [1.5, -1.5])
def test_branches(s):
    a, results = vector(), [np.zeros(8) for _ in range(3)]
    run(programs.BRANCHES, [a, scalar(s)], results)
    inserted = a.copy()
    inserted[1] = s
    expected = [a, a * 2, inserted] if s > 0 else [a, a, a]
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result, wanted)
    run(carried.COPY_IN_BRANCH, [a, scalar(s)], results[:2])
    inserted = a * 2
    inserted[1] = s if s > 0 else inserted[1]
    np.testing.assert_array_equal(results[0], a * 2)
    np.testing.assert_array_equal(results[1], inserted)


@pytest.mark.parametrize("busy", [False, True])
def test_results_inserted_later(busy):
    a, b = vector(16), vector()
    x, y = a.copy(), b.copy()
    for _ in range(3):
        t = y * 2
        y[0] = x[2] if busy else y[0]
        (y if busy else x)[1] = x[2]
        x[:8] = t
    run(carried.late_insertion(busy), [a, b], updated=[(0, 0), (1, 1)])
    np.testing.assert_array_equal(a, x)
    np.testing.assert_array_equal(b, y)


def test_arrays_that_are_swapped_in_each_iteration():
    x, old = vector(), vector() + 1
    results = [np.zeros(8), np.zeros(8)]
    run(carried.PING_PONG, [x, old], results)
    for _ in range(3):
        new = np.zeros(8)
        new[1:-1] = x[:-2] + x[1:-1] + x[2:]
        old, x = x, new
    np.testing.assert_array_equal(results[0], old)
    np.testing.assert_array_equal(results[1], x)


def test_old_content_of_a_carried_array():
    x, total = vector(), np.zeros(())
    expected, wanted = x.copy(), 0.0
    expected[0] = x[0] = -1.5
    while expected[0] < 1:
        old = expected.copy()
        expected += 1
        expected[1] += old[1]
        wanted = expected[1] - old[2]
        before = expected.copy()
        for i in range(3):
            expected[i] = before[i] + expected[3]
    run(carried.LATE, [x], [total], updated=[(0, 0)])
    np.testing.assert_array_equal(x, expected)
    assert total == wanted


@pytest.mark.parametrize("s", [1.5, -1.5])
def test_choice_between_arrays(s):
    a, b, result = vector(), vector() + 1, np.zeros(8)
    expected = np.where(s > 0, a, b)
    expected[1] = s
    run(carried.CHOICE, [a, b, scalar(s)], [result])
    np.testing.assert_array_equal(result, expected)
    context = CompileContext("f", as_target("cpu"), stage="bufferized")
    with ir.Context():
        module = fused_to_bufferized.lower(ir.Module.parse(carried.CHOICE), context)
        assert not operations_named(module, "arith.select")


@pytest.mark.parametrize("n", [0, 1, 8])
def test_slices_of_run_time_size(n):
    a, b = square(), vector()
    expected = a.copy()
    for i in range(n):
        expected[i, i:] = expected[i, i:] * 2 + b[i:]
    run(programs.TRIANGLE, [a, b, scalar(n)], updated=[(0, 0)])
    np.testing.assert_array_equal(a, expected)


def test_gather():
    table, x = np.array([3, 1, 4, 7, 5, 2, 6, 0]), np.array([0, 2, 2, 7, 5])
    result = np.zeros_like(x)
    run(carried.GATHER, [table, x], [result])
    np.testing.assert_array_equal(result, table[table[table[x]]])


def test_carried_products():
    a, b, c = square(), vector(), vector() + 1
    rtol = tolerance("float64", 8) * 100
    result = np.zeros(8)
    run(carried.POWER, [a, b], [result])
    np.testing.assert_allclose(result, a @ (a @ (a @ b)), rtol=rtol)
    first, second = np.zeros(8), np.zeros(8)
    run(carried.SWAP, [a, b, c], [first, second])
    for _ in range(3):
        b, c = c, a @ b
    np.testing.assert_allclose(first, b, rtol=rtol)
    np.testing.assert_allclose(second, c, rtol=rtol)


def test_exchanged_arguments():
    a, b = vector(), vector() * 2
    old_a, old_b = a.copy(), b.copy()
    run(programs.EXCHANGE, [a, b], updated=[(0, 0), (1, 1)])
    np.testing.assert_array_equal(a, old_b)
    np.testing.assert_array_equal(b, old_a)
    run(carried.ROTATE, [a, b, scalar(3)], updated=[(0, 0), (1, 1)])
    np.testing.assert_array_equal(a, old_a)
    np.testing.assert_array_equal(b, old_b)


def test_old_and_new_content_of_an_argument():
    a = vector()
    before, old, part = a.copy(), np.zeros(8), np.zeros(3)
    run(programs.OLD, [a], [old, part], updated=[(0, 1)])
    np.testing.assert_array_equal(old, before)
    before[2] = before[3]
    np.testing.assert_array_equal(a, before)
    np.testing.assert_array_equal(part, before[2:5])


@pytest.mark.parametrize("n", [0, 3])
def test_concatenation_of_run_time_size(n):
    a, x, v = vector(), np.zeros(8), np.zeros(())
    run(programs.PARTS, [a, scalar(n)], [x, v])
    expected = np.zeros(8)
    expected[1 : 1 + n] = 1
    np.testing.assert_array_equal(x, expected)
    assert v == np.concatenate((a, a[:n], expected))[10 + n]


def test_complex():
    c = vector(4) / 3 + 1j * vector(4) / 3
    z, result = c.copy(), np.zeros_like(c)
    for _ in range(4):
        z = z * z + c
    run(carried.MANDELBROT, [c, scalar(4)], [result])
    np.testing.assert_allclose(result, z, rtol=tolerance("float64", 8))
