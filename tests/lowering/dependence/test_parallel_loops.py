"""Parallel loops compute what the same loops in order do; what is no parallel loop is refused with both accesses."""

from __future__ import annotations

import random

import numpy as np
import pytest

import mlirtri as mt
from mlirtri.errors import LoopDependenceError

PIPELINES = ("linalg", "mlir", "relax", "interpreter")
SIZE = 24


def blurred(a, o):
    for i, j in mt.ndrange((1, a.shape[0] - 1), (1, a.shape[1] - 1)):
        o[i, j] = (a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1]) / 4
        if a[i, j] > 0.5:
            continue
        o[i, j] += 1


def diagonals(a, o):
    for index in mt.ndrange(a.shape[0], 3):
        o[index] = a[index[0], index[1]] * index[1]


def unpacked_bounds(a, o):
    for i, j in mt.ndrange(*a.shape[:1], (0, 3)):
        o[i, j] = a[i, j] * 2
    for index in mt.ndrange(*a.shape):
        o[index] += 1


def in_blocks(a, o):
    for i in mt.prange(a.shape[0] // 4):
        for j in range(4):
            o[i * 4 + j, 0] = a[i * 4 + j, 1]


def every_second(a, o):
    for i in mt.prange(1, a.shape[0], 2):
        o[i] = o[i - 1] + a[i]


def private_values(a, o):
    for i in mt.prange(a.shape[0]):
        best = 0.0
        row = np.zeros(3)
        for j in range(a.shape[1]):
            row[j % 3] += a[i, j]
            if a[i, j] > best:
                best = a[i, j]
        o[i, 0], o[i, 1] = best, row[1]


def running(n, steps):
    x = np.zeros(n)
    for step in mt.serial(steps):
        for i in mt.prange(n):
            x[i] += step * i
    return x


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("function", [blurred, diagonals, unpacked_bounds, in_blocks, every_second, private_values])
def test_results_are_those_of_the_loops_in_order(function, pipeline):
    a = np.random.default_rng(0).random((8, 6))
    want, got = np.zeros((8, 6)), np.zeros((8, 6))
    function(a, want)
    mt.jit(function, pipeline=pipeline)(a, got)
    np.testing.assert_allclose(got, want, rtol=1e-14)


@pytest.mark.parametrize("n", [0, 1, 7])
def test_bounds_of_run_time(n):
    @mt.jit
    def doubled(a, o, n: mt.int32):
        for i in mt.prange(n):
            o[i] = a[i] * 2

    a, o = np.arange(9.0), np.zeros(9)
    doubled(a, o, n)
    assert np.array_equal(o, np.where(np.arange(9) < n, a * 2, 0))


def test_serial_loops_and_one_bound():
    assert np.array_equal(mt.jit(running)(5, 4), running(5, 4))


REDUCTIONS = {
    "sum": (lambda a: a.sum(), 0.0),
    "max": (lambda a: a.max(), -1.0),
    "count": (lambda a: (a > 0.5).sum(), 0.0),
}


@mt.jit
def reductions(a):
    total, largest, count = 0.0, -1.0, 0
    for i in mt.prange(a.shape[0]):
        total += a[i]
        largest = max(largest, a[i])
        if a[i] > 0.5:
            count += 1
    return total, largest, count


@mt.jit
def histogram(positions, h):
    for i in mt.prange(positions.shape[0]):
        h[positions[i]] += 1


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_reductions_are_no_dependence(pipeline):
    a = np.random.default_rng(1).random(100)
    total, largest, count = reductions.compile(a, pipeline=pipeline)(a)
    assert total == pytest.approx(a.sum(), rel=1e-13)
    assert (largest, count) == (a.max(), (a > 0.5).sum())
    positions, h = (a * 10).astype(np.int64), np.zeros(10, np.int64)
    histogram.compile(positions, h, pipeline=pipeline)(positions, h)
    assert np.array_equal(h, np.bincount(positions, minlength=10))


def line_of(function, text: str) -> int:
    lines = open(__file__).read().splitlines()
    start = function.__code__.co_firstlineno
    return next(number for number in range(start, len(lines)) if text in lines[number - 1])


def recurrence(a):
    for i in mt.prange(1, a.shape[0]):
        a[i] = a[i - 1] * 2


def further_apart(a):
    for i in mt.prange(a.shape[0] - 3):
        a[i] = a[i + 3] * 2


def same_element(a):
    for i in mt.prange(a.shape[0]):
        a[0] = i


def scattered(a, positions):
    for i in mt.prange(positions.shape[0]):
        a[positions[i]] = i


def inner_axis(a):
    for i, j in mt.ndrange(a.shape[0], (1, a.shape[0])):
        a[(i + j) // 2] = 1.0


def mixed_updates(a, positions):
    for i in mt.prange(positions.shape[0]):
        a[positions[i]] += 1
        a[positions[i]] *= 2


REFUSED = [
    (recurrence, "a[i] = a", "'a' is written here, and the next iteration reads it", ["reads it here"]),
    (further_apart, "a[i] = a", "'a' is written here, and the iteration 3 steps before reads it", ["reads it here"]),
    (same_element, "a[0] = i", "'a' is written here, and the next iteration writes it", []),
    (scattered, "a[positions[i]] = i", "'a' is written here, and another iteration may write it", []),
    (inner_axis, "a[(i + j) // 2] =", "'a' is written here, and another iteration may write it", []),
    (mixed_updates, "*= 2", "'a' is written here, and another iteration may", []),
]


@pytest.mark.parametrize(("function", "code", "message", "notes"), REFUSED)
def test_dependences_show_both_accesses(function, code, message, notes):
    arguments = [np.zeros(9), np.arange(4)][: function.__code__.co_argcount]
    with pytest.raises(mt.KernelError, match="depend on each other") as caught:
        mt.jit(function)(*arguments)
    error = getattr(caught.value, "errors", [caught.value])[0]
    assert (error.span.file, error.span.line) == (__file__, line_of(function, code))
    assert message in error.message
    assert "mt.serial" in error.help
    shown = [note.message for note in error.notes]
    assert shown[-1] == "the parallel loop"
    assert shown[:-1] == notes or not notes
    assert error.notes[-1].span.line == line_of(function, "mt.")


def test_a_recurrence_of_a_scalar_is_refused():
    @mt.jit
    def decayed(a):
        s = 0.0
        for i in mt.prange(a.shape[0]):
            s = s * 0.5 + a[i]
        return s

    with pytest.raises(mt.KernelError, match="'s' needs its value of the iteration before") as caught:
        decayed(np.ones(4))
    assert "max or min" in caught.value.help


def test_a_last_value_is_refused():
    @mt.jit
    def last(a):
        s = 0.0
        for i in mt.prange(a.shape[0]):
            s = a[i]
        return s

    with pytest.raises(mt.KernelError, match="'s' has its value of the last iteration afterwards"):
        last(np.ones(4))


def test_a_parallel_loop_has_no_end_before_its_last_iteration():
    @mt.jit
    def first_large(a, o):
        for i in mt.prange(a.shape[0]):
            if a[i] > 1:
                break
            o[i] = a[i]

    with pytest.raises(mt.KernelError, match="a parallel loop cannot end early") as caught:
        first_large(np.ones(4), np.zeros(4))
    assert "mt.serial" in caught.value.help


def test_steps_count_upwards():
    @mt.jit
    def backwards(o):
        for i in mt.prange(3, -1, -1):
            o[i] = i

    with pytest.raises(mt.KernelError, match="a parallel loop has a positive step"):
        backwards(np.zeros(4))


def test_names_and_indices_are_as_many():
    @mt.jit
    def three(o):
        for i, j, k in mt.ndrange(2, 2):
            o[i, j] = k

    with pytest.raises(mt.KernelError, match="this ndrange has 2 indices, and 3 names"):
        three(np.zeros((2, 2)))


# --- generated loops --------------------------------------------------------------------------------------------------


@mt.jit(pipeline="interpreter")
def generated(o, n: int, step: int, write: int, at: int, read: int, beside: int):
    for i in mt.prange(0, n, step):
        o[write * i + at] = o[read * i + beside] * 2 + 1


def depends(n: int, step: int, write: int, at: int, read: int, beside: int) -> bool:
    """Whether an iteration touches what another one writes, tried for all pairs."""
    iterations = range(0, n, step)
    return any(
        first != second and write * first + at in (write * second + at, read * second + beside)
        for first in iterations
        for second in iterations
    )


def loops() -> list[tuple[int, ...]]:
    generator, found = random.Random(7), {True: set(), False: set()}
    while min(map(len, found.values())) < 110:
        factor = generator.choice([0, 1, 1, 2, 3])
        read = generator.choice([factor, factor, factor, 0, 1, 2])
        loop = (generator.choice([0, 1, 4, 7]), generator.choice([1, 1, 2, 3]), factor, generator.randrange(4),
                read, generator.randrange(4))  # fmt: skip
        kind = found[depends(*loop)]
        if len(kind) < 110:
            kind.add(loop)
    return sorted(found[True] | found[False])


def test_generated_loops_are_refused_if_and_only_if_they_depend():
    """None races. Refused without need are loops whose accesses advance by different amounts, and nothing else."""
    needless = []
    for loop in loops():
        try:
            generated.compile(np.zeros(40), *loop)
        except LoopDependenceError:
            needless += [loop] * (not depends(*loop))
        else:
            assert not depends(*loop), loop
    assert all(write != read for _, _, write, _, read, _ in needless)
    assert len(needless) < 40


N = mt.dyn["N"]


def _pages(o):
    """Write one page and read another; a page below the first counts from the end."""
    page = 0
    for _ in range(3):
        for i in mt.prange(o.shape[1]):
            o[1 - page, i] = o[page, (i + 1) % o.shape[1]] * 2
        page = 1 - page


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
def test_pages_that_alternate(pipeline):
    got = np.random.default_rng(0).random((2, 40))
    want = got.copy()
    _pages(want)
    mt.jit(_pages, pipeline=pipeline)(got)
    np.testing.assert_array_equal(got, want)
    with pytest.raises(LoopDependenceError, match="'o' is written here"):
        mt.jit(_pages)(np.zeros((3, 40)))


def reversed_in_place(o: mt.Tensor[[N], mt.float64]):
    n = o.shape[0]
    for i in mt.prange(n // 2):
        first = o[i]
        o[i] = o[n - 1 - i]
        o[n - 1 - i] = first


def upper_half_into_lower(o: mt.Tensor[[N], mt.float64]):
    half = o.shape[0] // 2
    for i in mt.prange(half):
        for j in range(i):
            o[i] += o[half + j]


def odd_into_even(o):
    for i in mt.prange(10):
        o[2 * i] = o[4 * i + 1]


def past_the_middle(o: mt.Tensor[[N], mt.float64]):
    n = o.shape[0]
    for i in mt.prange((n + 1) // 2 + 1):
        o[i] = o[n - 1 - i]


def below_the_middle(o: mt.Tensor[[N], mt.float64]):
    half = o.shape[0] // 2
    for i in mt.prange(half):
        for j in range(i):
            o[i] += o[half - j]


def even_into_even(o):
    for i in mt.prange(10):
        o[2 * i] = o[4 * i + 2]


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
@pytest.mark.parametrize("function", [reversed_in_place, upper_half_into_lower, odd_into_even])
def test_intervals_that_never_overlap(function, pipeline):
    kernel = mt.jit(function, pipeline=pipeline)
    for n in (40, 41):
        got = np.random.default_rng(0).random(n)
        want = got.copy()
        function(want)
        kernel(got)
        np.testing.assert_allclose(got, want, rtol=1e-14)


@pytest.mark.parametrize("function", [past_the_middle, below_the_middle, even_into_even])
def test_intervals_that_overlap_somewhere(function):
    with pytest.raises(LoopDependenceError, match="'o' is written here"):
        mt.jit(function).compile(np.zeros(41))


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
def test_starts_of_run_time_are_checked(pipeline):
    @mt.jit(pipeline=pipeline)
    def ones(o, first: mt.int64, last: mt.int64):
        for i, j in mt.ndrange((first, last), o.shape[1]):
            o[i, j] = 1

    o = np.zeros((6, 3))
    ones(o, 2, 4)
    assert o.sum(1).tolist() == [0, 0, 3, 3, 0, 0]
    with pytest.raises(ValueError, match="a parallel loop starts below 0"):
        ones(o, -2, 4)
