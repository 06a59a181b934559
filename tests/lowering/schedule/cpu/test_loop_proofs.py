"""Which loops of imperative functions are proven parallel, which are fused, which get threads."""

from __future__ import annotations

import re

import numpy as np
import pytest
from loop_functions import CUBE, MATRIX, VECTOR, arguments_of, body_of, function, on, parallel_loops, random, run

from mlirtri.lowering.schedule.cpu.loops.rule import loops, scheduled
from mlirtri.lowering.schedule.imperative.fusion import fused
from mlirtri.lowering.schedule.imperative.interchange import prepare
from mlirtri.lowering.toolchain.tvm_names import IMPERATIVE, structural_walk, tirx

PROOFS = {
    "rows and columns": ("for i in range(32):\n  for j in range(32):\n    A[i, j] = A[i, j] + x[j]", {"i", "j"}),
    "even and odd": ("for i in range(16):\n  x[2 * i] = x[2 * i + 1]", {"i"}),
    "halves": ("for i in range(16):\n  x[i] = x[31 - i]", {"i"}),
    "the whole turned around": ("for i in range(32):\n  x[i] = x[31 - i]", set()),
    "blocks of four": ("for i in range(8):\n  for u in range(4):\n    x[4 * i + u] = x[4 * i + u]", {"i", "u"}),
    "blocks that overlap": ("for i in range(8):\n  for u in range(5):\n    x[4 * i + u] = A[i, u]", {"u"}),
    "prefix sum": ("for i in range(31):\n  x[i + 1] = x[i] + x[i + 1]", set()),
    "shift": ("for i in range(31):\n  x[i] = x[i + 1]", set()),
    "Gauss-Seidel": (
        "for i in range(30):\n  for j in range(30):\n    A[i + 1, j + 1] = A[i, j + 1] + A[i + 1, j] + A[i + 2, j + 1]",
        set(),
    ),
    "sweep over rows": ("for i in range(31):\n  for j in range(32):\n    A[i + 1, j] = A[i, j]", {"j"}),
    "elimination": (
        "for k in range(31):\n  for i in range(k + 1, 32):\n    for j in range(k + 1, 32):\n"
        "      A[i, j] = A[i, j] - A[i, k] * A[k, j]",
        {"i", "j"},
    ),
    "elimination, one row too many": (
        "for k in range(31):\n  for i in range(k, 32):\n    for j in range(k + 1, 32):\n"
        "      A[i, j] = A[i, j] - A[i, k] * A[k, j]",
        {"j"},
    ),
    "product in the order k, i, j": (
        CUBE + "C[i, j] = C[i, j] + A[i, k] * B[k, j]",
        {"i", "j"},
    ),
    "product of a matrix with itself": (
        CUBE + "A[i, j] = A[i, j] + A[i, k] * B[k, j]",
        {"i"},
    ),
    "lower triangle of a product": (
        "for k in range(32):\n  for i in range(32):\n    for j in range(i + 1):\n"
        "      C[i, j] = C[i, j] + A[i, k] * A[j, k]",
        {"i", "j"},
    ),
    "row and column of a place": (
        "for i in range(64):\n  for j in range(16):\n    A[(i * 16 + j) // 32, (i * 16 + j) % 32] = x[j]", {"i", "j"},
    ),
    "a column that repeats": (
        "for i in range(64):\n  for j in range(16):\n    A[(i * 16 + j) // 32, (i * 16 + j) % 16] = x[j]", set(),
    ),
    "places that overlap": (
        "for i in range(32):\n  for j in range(17):\n    A[(i * 16 + j) // 32, (i * 16 + j) % 32] = x[j]", {"j"},
    ),
    "scatter": ("for i in range(32):\n  x[n[i]] = A[i, 0]", set()),
    "gather": ("for i in range(32):\n  x[i] = A[i, n[i]]", {"i"}),
    "scatter within a row": ("for i in range(32):\n  A[i, n[i]] = A[i, n[i]] + x[i]", {"i"}),
    "sum": ("for i in range(32):\n  x[0] = x[0] + A[i, i]", set()),
    "private element": (
        "for i in range(32):\n  t = T.alloc_buffer((1,), 'float64')\n  t[0] = A[i, 0]\n  x[i] = t[0] * t[0]", {"i"},
    ),
    "element from before": (
        "t = T.alloc_buffer((1,), 'float64')\nt[0] = x[0]\nfor i in range(32):\n  x[i] = t[0]\n  t[0] = A[i, 0]", set(),
    ),
    "assertion": ("for i in range(32):\n  assert n[i] < 5, ('ValueError', ['too large'])\n  x[i] = A[i, 0]", set()),
}  # fmt: skip


@pytest.mark.parametrize(("body", "expected"), PROOFS.values(), ids=PROOFS)
def test_parallel_is_what_is_proven(body, expected):
    found = parallel_loops(body, A=MATRIX, B=MATRIX, C=MATRIX, x=VECTOR, n=((32,), "int64"))
    assert found == expected


def test_sums_move_inside_triangles():
    body = body_of(function(PROOFS["lower triangle of a product"][0], A=MATRIX, C=MATRIX))
    order = []
    structural_walk(prepare(body), (tirx.For, lambda loop: order.append(loop.loop_var.name)), order="pre")
    assert order == ["i", "j", "k"]


def test_sums_use_partial_results_and_other_loops_do_not():
    arguments = {"x": ((100,), "float64"), "s": ((1,), "float64"), "n": ((100,), "int64")}
    added = scheduled(function("for i in range(100):\n  s[0] = s[0] + x[i]", **arguments), on(1)).script()
    chained = scheduled(function("for i in range(100):\n  s[0] = s[0] * T.float64(0.5) + x[i]", **arguments), on(1))
    assert "partial" in added
    assert "partial" not in chained.script()


def test_threads_only_where_there_is_enough_work(monkeypatch):
    monkeypatch.delenv("MLIRTRI_FORCE_SCHEDULES", raising=False)
    body = "for i in range({n}):\n  for j in range(100):\n    A[i, j] = x[j]"
    made = {n: function(body.format(n=n), A=((n, 100), "float64"), x=((100,), "float64")) for n in (10, 1000)}
    assert "T.parallel" not in scheduled(made[10], on(2)).script()
    assert "T.parallel" in scheduled(made[1000], on(2)).script()
    assert "T.parallel" not in scheduled(made[1000], on(1)).script()
    unknown = function(body.format(n="n[0]"), A=((1000, 100), "float64"), x=((100,), "float64"), n=((1,), "int64"))
    text = scheduled(unknown, on(2)).script()
    assert re.search(r"if .*T.int64\(65536\).*:\s+for i in T.parallel", text)


def test_serial_loops_stay_as_they_are():
    body = PROOFS["Gauss-Seidel"][0]
    text = scheduled(function(body, A=MATRIX), on(2)).script()
    assert "T.vectorized" not in text
    assert "T.parallel" not in text


def test_rule_is_for_imperative_functions_only():
    made = function("for i in range(32):\n  x[i] = x[i]", x=VECTOR)
    assert loops(made, on(1)) is not None
    assert loops(made.without_attr(IMPERATIVE), on(1)) is None


FUSIONS = {
    "one after the other": ("t[i] = x[i] * x[i]", "y[i] = t[i] + x[i]", 1),
    "three elements further": ("t[i] = x[i] * x[i]", "y[i] = t[i + 3] + x[i]", 2),
    "the element before": ("t[i + 3] = x[i] * x[i]", "y[i] = t[i] + x[i]", 2),
    "what was read is written": ("y[i] = x[i] * x[i]", "x[i] = y[i] + t[i]", 1),
    "what was read elsewhere is written": ("y[i] = x[i + 3] * x[i]", "x[i] = y[i] + t[i]", 2),
    "nothing in common": ("t[i] = x[i] * x[i]", "y[i] = y[i] + x[i]", 2),
}


@pytest.mark.parametrize(("first", "second", "count"), FUSIONS.values(), ids=FUSIONS)
def test_loops_are_fused_where_elements_meet_in_one_iteration(first, second, count):
    arrays = {"x": random(40), "y": random(41), "t": random(42)}
    body = f"for i in range(37):\n  {first}\nfor i in range(37):\n  {second}"
    made = function(body, **arguments_of(arrays))
    loops_left = []
    structural_walk(fused(prepare(body_of(made))), (tirx.For, loops_left.append))
    assert len(loops_left) == count
    for found, expected in zip(run(scheduled(made, on(1)), *arrays.values()), run(made, *arrays.values()), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("last", "is_kept"), [("z[i] = x[i]", False), ("z[i] = t[0, i]", True)])
def test_arrays_inside_of_iterations_become_scalars(last, is_kept):
    arrays = {"x": random(40), "y": random(8, 40), "z": random(40)}
    body = f"""
    t = T.alloc_buffer((8, 40), "float64")
    for i in range(8):
        for j in range(40):
            t[i, j] = x[j] * x[j]
    for i in range(8):
        for j in range(40):
            y[i, j] = y[i, j] + t[i, j]
    for i in range(40):
        {last}
    """
    made = function(body, **arguments_of(arrays))
    after = scheduled(made, on(1))
    assert ("T.alloc_buffer((T.int64(8), T.int64(40))" in after.script()) == is_kept
    for found, expected in zip(run(after, *arrays.values()), run(made, *arrays.values()), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-14)
