"""Changes of a program that change no bit of its results.

Each row has a program and the same one written otherwise: a helper inlined, names changed, independent statements in
another order, a loop unrolled or split, an array transposed twice. `test_memory_changes_no_bit` and
`test_threads_change_no_bit` leave the program as it is and change how its arguments lie in memory, and how many threads
run it.

Sums are the one place where bits may change: schedules split them into parts, and which parts depends on what a sum is
fused with and on the number of threads. Rows whose sums may be added in another order are in `REORDERED` and are
compared within the bound of such sums.
"""

from __future__ import annotations

import numpy as np
import pytest
from tolerances import within

import mlirtri as mt

PIPELINES = ("linalg", "relax", "mlir")
LOOPS = ("linalg", "mlir")
"""Pipelines that run loops and updates in place."""

RANDOM = np.random.default_rng(16)
X, Y = (RANDOM.uniform(-2, 2, (13, 21)).astype(np.float32) for _ in range(2))
V = RANDOM.uniform(-2, 2, 21).astype(np.float32)


def scaled(a, b):
    return np.tanh(a) * 0.3 + b / 7


def with_helper(x, y, v):
    return scaled(x, y) - scaled(y, v)


def without_helper(x, y, v):
    return (np.tanh(x) * 0.3 + y / 7) - (np.tanh(y) * 0.3 + v / 7)


def short_names(x, y, v):
    a = np.exp(x * 0.1)
    b = a / (1 + np.abs(y))
    return b + v, a.max(axis=0)


def other_names(x, y, v):
    out0 = np.exp(x * 0.1)
    main = out0 / (1 + np.abs(y))
    result = main + v
    loops = out0.max(axis=0)
    return result, loops


def one_order(x, y, v):
    a = np.sin(x) + v
    b = np.sqrt(np.abs(y))
    c = np.cumsum(y, axis=1)
    return a * b, b - c, c.min(axis=0)


def other_order(x, y, v):
    c = np.cumsum(y, axis=1)
    b = np.sqrt(np.abs(y))
    least = c.min(axis=0)
    a = np.sin(x) + v
    second = b - c
    return a * b, second, least


def plain(x, y, v):
    return np.exp(-np.abs(x)) * y + v


def transposed_twice(x, y, v):
    return (np.exp(-np.abs(x.T)) * y.T).T + v


def flipped_twice(x, y, v):
    return (np.exp(-np.abs(x[::-1, ::-1])) * y[::-1, ::-1])[::-1, ::-1] + v


def cut_and_joined(x, y, v):
    left = np.exp(-np.abs(x[:, :8])) * y[:, :8] + v[:8]
    right = np.exp(-np.abs(x[:, 8:])) * y[:, 8:] + v[8:]
    return np.concatenate((left, right), axis=1)


def reshaped(x, y, v):
    return (np.exp(-np.abs(x.reshape(-1))) * y.reshape(-1)).reshape(13, 21) + v


def array_update(x, y, v):
    x[:] = x * 0.5 + y
    v[:] = np.maximum(v, 0)
    return x


def row_updates(x, y, v):
    for i in range(13):
        x[i] = x[i] * 0.5 + y[i]
    for j in range(21):
        v[j] = max(v[j], np.float32(0))
    return x


def rolled(x, y, v):
    for i in range(1, 13):
        x[i] = 0.5 * (x[i - 1] + x[i]) * np.cos(y[i])
    return x


def split_loop(x, y, v):
    for i in range(1, 6):
        x[i] = 0.5 * (x[i - 1] + x[i]) * np.cos(y[i])
    for i in range(6, 13):
        x[i] = 0.5 * (x[i - 1] + x[i]) * np.cos(y[i])
    return x


def unrolled_by_two(x, y, v):
    for i in range(1, 13, 2):
        x[i] = 0.5 * (x[i - 1] + x[i]) * np.cos(y[i])
        x[i + 1] = 0.5 * (x[i] + x[i + 1]) * np.cos(y[i + 1])
    return x


def with_while(x, y, v):
    i = 1
    while i < 13:
        x[i] = 0.5 * (x[i - 1] + x[i]) * np.cos(y[i])
        i += 1
    return x


def one_at_a_time(x, y, v):
    for i in range(1, 13):
        for j in range(21):
            x[i, j] = 0.5 * (x[i - 1, j] + x[i, j]) * np.cos(y[i, j])
    return x


def rows_summed(x, y, v):
    return (x * y).sum(axis=1), x @ y.T


def columns_summed(x, y, v):
    return (x.T * y.T).sum(axis=0), (y @ x.T).T


EQUAL = {
    "a helper inlined": (with_helper, without_helper, PIPELINES),
    "names": (short_names, other_names, PIPELINES),
    "independent statements reordered": (one_order, other_order, PIPELINES),
    "transposed twice": (plain, transposed_twice, PIPELINES),
    "flipped twice": (plain, flipped_twice, PIPELINES),
    "cut and joined": (plain, cut_and_joined, PIPELINES),
    "reshaped and back": (plain, reshaped, PIPELINES),
    "an array row by row": (array_update, row_updates, LOOPS),
    "a loop split": (rolled, split_loop, LOOPS),
    "a loop unrolled by two": (rolled, unrolled_by_two, LOOPS),
    "for as while": (rolled, with_while, LOOPS),
    "rows element by element": (rolled, one_at_a_time, LOOPS),
}
"""What is changed: the program, the same one otherwise, the pipelines that take both."""
REORDERED = {"sums of rows as sums of columns": (rows_summed, columns_summed, PIPELINES)}


def flat(value):
    return list(value) if isinstance(value, tuple) else [value]


def called(function, pipeline, arguments, **options):
    """Results, then the arguments afterwards."""
    copies = [argument.copy() for argument in arguments]
    return [*flat(mt.jit(function, pipeline=pipeline, **options)(*copies)), *copies]


def assert_same_bits(results, others, message=""):
    for result, other in zip(results, others, strict=True):
        assert result.dtype == other.dtype
        np.testing.assert_array_equal(result.view(np.uint32), other.view(np.uint32), message)


def rows(table):
    return [
        pytest.param(*row[:2], pipeline, id=f"{name}-{pipeline}") for name, row in table.items() for pipeline in row[2]
    ]


@pytest.mark.parametrize(("program", "other", "pipeline"), rows(EQUAL))
def test_another_text_changes_no_bit(program, other, pipeline):
    assert_same_bits(called(program, pipeline, (X, Y, V)), called(other, pipeline, (X, Y, V)))


@pytest.mark.parametrize(("program", "other", "pipeline"), rows(REORDERED))
def test_sums_in_another_order(program, other, pipeline):
    for result, second in zip(called(program, pipeline, (X, Y, V)), called(other, pipeline, (X, Y, V)), strict=True):
        np.testing.assert_allclose(result, second, **within(np.float32, 21))


@pytest.mark.parametrize("pipeline", LOOPS)
@pytest.mark.parametrize("program", [rolled, array_update])
def test_unrolling_changes_no_bit(program, pipeline):
    first = called(program, pipeline, (X, Y, V), unroll=0)
    assert_same_bits(first, called(program, pipeline, (X, Y, V), unroll=16))


def laid_out(array):
    """The same numbers in other memory: transposed, every second element, reversed, not aligned."""
    transposed = np.ascontiguousarray(array.T).T
    spread = np.empty([2 * size for size in array.shape], array.dtype)[tuple(slice(None, None, 2) for _ in array.shape)]
    reversed_rows = np.empty_like(array)[::-1]
    shifted = np.empty(array.size + 1, array.dtype)[1:].reshape(array.shape)
    for view in (spread, reversed_rows, shifted):
        view[...] = array
    return {"transposed": transposed, "spread": spread, "reversed": reversed_rows, "shifted": shifted}


@pytest.mark.filterwarnings("ignore::mlirtri.calls.argument_conversion.NonContiguousWarning")
@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("program", [one_order, rows_summed])
def test_memory_changes_no_bit(program, pipeline):
    kernel = mt.jit(program, pipeline=pipeline)
    expected = flat(kernel(X, Y, V))
    x, y, v = laid_out(X), laid_out(Y), laid_out(V)
    for layout in x:
        assert_same_bits(flat(kernel(x[layout], y[layout], v[layout])), expected, layout)


def large(x, y):
    return np.tanh(x) * y + 0.5, x.max(axis=1), (x * y).sum(axis=1)


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_threads_change_no_bit(pipeline, monkeypatch):
    """Rows go to threads whole: neither their elements nor their sums depend on how many threads there are."""
    x, y = (RANDOM.uniform(-2, 2, (512, 700)).astype(np.float32) for _ in range(2))
    results = []
    for threads in ("1", "2"):
        monkeypatch.setenv("MLIRTRI_NUM_THREADS", threads)
        results.append(mt.jit(large, pipeline=pipeline)(x, y))
    assert_same_bits(*results)
