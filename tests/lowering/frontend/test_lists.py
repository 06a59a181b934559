"""Lists in kernels: as arguments they stay lists; what would change one is refused, or writes its arrays."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import mlirtri as mt
from mlirtri.errors import KernelError, KernelTypeError

X = np.arange(9.0).reshape(3, 3)


@pytest.mark.parametrize("pipeline", ["linalg", "interpreter"])
def test_a_list_argument_is_no_tuple(pipeline):
    @mt.jit(pipeline=pipeline)
    def read(a, rows):
        return a[rows]

    np.testing.assert_array_equal(read(X, [0, 1]), X[[0, 1]])
    np.testing.assert_array_equal(read(X, (0, 1)), X[0, 1])
    np.testing.assert_array_equal(read(X, ([0, 1], 2)), X[[0, 1], 2])
    assert mt.jit(lambda a, rows: rows)(X, [1, (2,)]) == [1, (2,)]


def appends(a, items):
    items.append(3)
    return a


def extends(a, items):
    other = items
    items += [3]
    return a * len(other)


def assigns(a, items):
    items[0] = 3
    return a


def updates(a, items):
    items[0] += 1
    return a * items[0]


@pytest.mark.parametrize("function", [appends, extends, assigns, updates])
def test_a_list_does_not_change(function):
    items = [1, 2]
    with pytest.raises(KernelError, match="a list"):
        mt.jit(function)(X, items)
    assert items == [1, 2]


def writes_elements(a):
    pair = [a * 2, a]
    for _ in range(3):
        pair[0] += pair[1]
    pair[1] -= 1
    return pair, len(pair)


def test_arrays_in_a_list_are_written():
    a, b = X.copy(), X.copy()
    results, expected = mt.jit(writes_elements)(a), writes_elements(b)
    np.testing.assert_array_equal(results[0], expected[0])
    np.testing.assert_array_equal(a, b)
    assert results[1] == 2
    t, u = torch.ones(3), torch.ones(3)
    assert torch.equal(mt.jit(writes_elements)(t)[0][0], writes_elements(u)[0][0])
    assert torch.equal(t, u)


@pytest.mark.parametrize("convert", [float, int, complex, abs, round])
def test_numbers_of_lists_are_refused(convert):
    with pytest.raises(KernelError, match="list of a tensor") as error:
        mt.jit(lambda a: convert([a]))(X)
    assert "mistake in mlirtri" not in str(error.value)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "float16"])
@pytest.mark.parametrize("number", [40000, 2.5])
def test_the_smaller_of_two_types_is_refused(dtype, number):
    with pytest.raises(KernelError, match="depending on the values"):
        mt.jit(lambda a: min(a[0], number) * 100)(np.ones(2, dtype))


def test_the_smaller_of_one_type():
    a = np.array([5, 2])
    assert mt.jit(lambda a: min(a[0], 3, a[1]) * 100)(a) == 200
    assert mt.jit(lambda a: min(int(a[0]), 3) * 100)(a.astype(np.int8)) == 300
    assert mt.jit(lambda a: max(a[0], 0.0))(-a.astype(np.float32)) == 0
    # A small Python int beside 32-bit ones.
    assert mt.jit(lambda a: max(a[0], 7) * 100)(a.astype(np.int32)) == 700


def other_nesting_in_an_arm(a, c):
    if c > 0:
        p = ((a, a + 1), 3)
    else:
        p = (a, (a + 1, 4))
    return p


def other_nesting_after_an_iteration(a, n):
    p = ((a, a + 1), 3)
    for _ in range(n):
        p = (a, (a + 1, 4))
    return p


@pytest.mark.parametrize("function", [other_nesting_in_an_arm, other_nesting_after_an_iteration])
def test_tuples_of_as_many_values_in_another_nesting_are_no_one_value(function):
    with pytest.raises(KernelTypeError, match="tuple of a tuple of"):
        mt.jit(function)(np.float32(2), np.int32(1))


def test_a_right_operand_may_change_the_left_one():
    def grown(numbers):
        numbers.append(5)
        return [7]

    def kernel(x):
        first, second, table = [1, 2], [1], {"a": 1}

        def entered():
            table["b"] = 2
            return {"c": 3}

        joined, merged = first + grown(first), table | entered()
        return x + joined[2] + 10 * len(joined) + 100 * len(merged) + 1000 * (second == grown(second))

    np.testing.assert_array_equal(mt.jit(kernel, pipeline="mlir")(np.zeros(1)), kernel(np.zeros(1)))


STEPS = (1, 1, 0, -1, -1, -1, 0, 1)


def around(a, p):
    columns = [0, 1, 1, 1, 0, -1, -1, -1]
    rows = [a[0], a[1] * 2, a[2] + 1]
    total = 0.0
    for k in range(8):
        total += k * a[1 + STEPS[k], 1 + columns[k]]
    for x in p:
        total += columns[x] + ((1, 2.5), (3, 4.5))[x % 2][1]
    return total, STEPS[p[0]], [True, False][p[1]], rows[p[2]], (0.5, 1.0)[p[2] - 1]


@pytest.mark.parametrize("pipeline", ["linalg", "mlir", "interpreter"])
def test_positions_of_run_time(pipeline):
    kernel = mt.jit(around, pipeline=pipeline)
    p = np.array([3, 0, 1])
    for result, expected in zip(kernel(X, p), around(X, p), strict=True):
        np.testing.assert_array_equal(result, expected)
        assert np.asarray(result).dtype == np.asarray(expected).dtype
    for outside in (np.array([8, 0, 1]), np.array([-9, 0, 1])):
        with pytest.raises(IndexError, match="out of bounds"):
            kernel(X, outside)


def of_two_types(a, p):
    return a * (0.5, 1)[p[0]]


def written(a, p):
    rows = [a[0].copy(), a[1].copy()]
    rows[p[0]][1] = 3
    return rows[0]


@pytest.mark.parametrize(
    ("function", "message"),
    [(of_two_types, "they are not of one type and shape"), (written, "an element of a list may be")],
)
def test_elements_at_positions_of_run_time_are_refused(function, message):
    with pytest.raises(KernelError, match=message):
        mt.jit(function)(X, np.array([1]))
