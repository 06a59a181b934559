"""`match`, ``numpy.errstate``, named tuples and `isinstance` in kernels, against Python."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

import mlirtri as mt


class State(NamedTuple):
    """Position and velocity."""

    position: np.ndarray
    velocity: np.ndarray
    steps: int = 0


def by_mode(x, mode):
    match mode:
        case 0:
            return x + 1
        case 1 | 2:
            y = x * 2
        case int(n) if n > 10:
            y = x - n
        case "half" | None:
            y = x / 2
        case (a, b) if a == b:
            y = x * a
        case [first, *others]:
            y = x + sum(others) - first
        case _:
            y = -x
    return y


@pytest.mark.parametrize("mode", [0, 2, 12, 7, "half", None, (3, 3), (1, 2), (1, 2, 3), "other"])
def test_match_of_what_is_known(mode):
    x = np.arange(3.0)
    np.testing.assert_array_equal(mt.jit(by_mode, pipeline="mlir")(x, mode), by_mode(x, mode))


def interpreted(codes, x):
    total = 0
    for code in codes:
        match code:
            case 0:
                continue
            case 1:
                total += x
            case large if large > 5:
                if large == 9:
                    break
                total -= large
            case 2 | 3:
                total *= 2
    return total


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
def test_match_of_elements(pipeline):
    codes = np.array([0, 1, 2, 7, 3, 4, 1, 9, 1])
    assert mt.jit(interpreted, pipeline=pipeline)(codes, 4) == interpreted(codes, 4)


def of_keys(x, options):
    match options:
        case {"scale": 2}:
            return x * 2
    return x


def test_patterns_of_mappings_are_refused():
    with pytest.raises(mt.KernelError, match="cannot contain `match`") as error:
        mt.jit(of_keys)(np.ones(2), 1)
    assert "patterns are values, sequences and names" in str(error.value)


def quotients(x, y):
    with np.errstate(divide="ignore", invalid="ignore"):
        if x[0] > 5:
            return y
        result = x / y
    result[np.isnan(result)] = 0
    return result


def test_errors_of_numpy_are_ignored():
    x, y = np.arange(3.0), np.array([0.0, 0, 2])
    np.testing.assert_array_equal(mt.jit(quotients, pipeline="mlir")(x, y), quotients(x, y))
    np.testing.assert_array_equal(mt.jit(quotients, pipeline="mlir")(x + 6, y), y)


def raising(x):
    with np.errstate(divide="raise"):
        return 1 / x


def test_errors_that_numpy_would_raise_are_refused():
    with pytest.raises(mt.KernelError, match="do not report floating-point errors"):
        mt.jit(raising)(np.ones(2))


def leapfrog(position, velocity, step):
    state = State(position, velocity)
    for _ in range(5):
        middle = state.velocity - step / 2 * state.position
        state = State(position=state.position + step * middle, velocity=middle, steps=state.steps + 1)
        state = state._replace(velocity=state.velocity - step / 2 * state.position)
    return state


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
def test_named_tuples_are_made(pipeline):
    arguments = np.arange(3.0), np.ones(3), 0.1
    mine, other = mt.jit(leapfrog, pipeline=pipeline)(*arguments), leapfrog(*arguments)
    assert type(mine) is State
    assert mine.steps == 5
    np.testing.assert_allclose(mine.position, other.position, rtol=1e-15)
    np.testing.assert_allclose(mine.velocity, other.velocity, rtol=1e-15)


def kinds(x, n, text):
    found = (
        isinstance(x, np.ndarray),
        isinstance(n, (int, float)),
        isinstance(x[0], np.floating),
        isinstance(x[0], float),
    )
    booleans = any(x > 1), all(x > -1), any([x[0] > 0, n > 3]), all(v < 9 for v in x), any(()), all((1, n))
    dtype = x.dtype.type(3) * x[0], x.dtype.itemsize, x.dtype.kind == "f", np.zeros(2, x.dtype.type)
    return *found, isinstance(text, str), isinstance(x, tuple), *booleans, *dtype


@pytest.mark.parametrize("x", [np.arange(3.0), np.arange(3, dtype=np.float32), np.arange(3)])
@pytest.mark.parametrize("n", [2, 2.5, True])
def test_what_values_are(x, n):
    for mine, other in zip(mt.jit(kinds, pipeline="mlir")(x, n, "a"), kinds(x, n, "a"), strict=True):
        assert np.asarray(mine).dtype == np.asarray(other).dtype
        np.testing.assert_array_equal(mine, other)


def found(x, i):
    same = x
    x[0] = 1.0
    inside = x[1] in (2.0, 1.5), 3 in i, i[0] not in i[1:], i[1] in [0, x[0]], x[0] in (7,)
    return (
        inside,
        same is x,
        x[1:] is x,
        x is not i,
        x + [1, 2, 3],
        x > (0, 1, 2),
        np.max([x[1], 0.5]),
        np.hypot([3, 4], 4),
    )


def test_membership_identity_and_lists_as_arrays():
    for pipeline in ("linalg", "mlir"):
        arguments = np.array([0.0, 1.5, 2.0]), np.array([3, 0, 3])
        mine, other = mt.jit(found, pipeline=pipeline)(*arguments), found(np.array([0.0, 1.5, 2.0]), arguments[1])
        assert mine[0] == other[0]
        assert mine[1:4] == other[1:4]
        for ours, numpys in zip(mine[4:], other[4:], strict=True):
            np.testing.assert_array_equal(ours, numpys)


def test_identity_of_numbers_is_refused():
    with pytest.raises(mt.KernelError, match="one object is not known"):
        mt.jit(lambda x: x[0] is x[1])(np.ones(2))


def largest(first, *others):
    for other in others:
        first = np.maximum(first, other)
    return first


def of_several(x):
    def total(*parts, scale=1):
        return sum(parts) * scale

    return largest(x, x[::-1], x + 1), largest(x), total(x[0], x[1], scale=2), total()


def test_parameters_that_take_the_rest():
    x = np.arange(3.0)
    for mine, other in zip(mt.jit(of_several, pipeline="mlir")(x), of_several(x), strict=True):
        np.testing.assert_array_equal(mine, other)


def texts(x):
    reversed_bits = np.array([int(format(i, "03b")[::-1], 2) for i in range(8)])
    return x[reversed_bits], ord("a"), hasattr(np, "no_such_function"), chr(98) == "b", bin(5) == "0b101"


def test_texts_are_pythons():
    x = np.arange(8.0)
    for mine, right in zip(mt.jit(texts)(x), texts(x), strict=True):
        np.testing.assert_array_equal(mine, right)
    with pytest.raises(mt.KernelError, match=r"format\(\) of a tensor(.|\n)*f-string"):
        mt.jit(lambda x: x if format(x[0]) == "0" else x + 1)(x)
    np.testing.assert_array_equal(mt.jit(lambda x: x if hasattr(x, "shape") else x + 1)(x), x)
