"""No schedule of loops changes what imperative functions compute."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from loop_functions import VECTOR, arguments_of, compiled, function, of_source, on, random, run
from tolerances import tolerance

import mlirtri as mt
from mlirtri.lowering.codegen.targets import lanes_in_register
from mlirtri.lowering.schedule.cpu.loops import rule as loop_rule
from mlirtri.lowering.schedule.cpu.loops.rule import scheduled
from mlirtri.lowering.toolchain.tvm_names import IRModule
from mlirtri.lowering.toolchain.tvm_text import parse, print_complete

STENCIL = """
for i in range({rows} - 2):
    for j in range({columns} - 2):
        B[i + 1, j + 1] = T.{dtype}(0.25) * (A[i, j + 1] + A[i + 2, j + 1]) + A[i + 1, j] * A[i + 1, j + 2]
"""


@pytest.mark.parametrize(("dtype", "threads"), [("float64", 1), ("float32", 2)])
@pytest.mark.parametrize(("rows", "columns"), [(2, 9), (3, 3), (5, 10), (7, 19), (4, 37)])
def test_stencil_of_every_width(rows, columns, dtype, threads, monkeypatch):
    monkeypatch.setattr(loop_rule, "PARALLEL_STEPS", 1)
    a, b = random(rows, columns, dtype=dtype), random(rows, columns + 1, dtype=dtype)[:, :columns].copy()
    made = function(STENCIL.format(rows=rows, columns=columns, dtype=dtype), **arguments_of({"A": a, "B": b}))
    expected = b.copy()
    expected[1:-1, 1:-1] = np.float32(0.25) * (a[:-2, 1:-1] + a[2:, 1:-1]) + a[1:-1, :-2] * a[1:-1, 2:]
    found = run(scheduled(made, on(threads)), a, b)
    np.testing.assert_array_equal(found[0], a)
    np.testing.assert_array_equal(found[1], expected)


PRODUCTS = {
    "i k j": "for i in range({m}):\n  for k in range({k}):\n    for j in range({n}):\n      {sum}",
    "i j k": "for i in range({m}):\n  for j in range({n}):\n    for k in range({k}):\n      {sum}",
    "k i j": "for k in range({k}):\n  for i in range({m}):\n    for j in range({n}):\n      {sum}",
}


@pytest.mark.parametrize("order", PRODUCTS)
@pytest.mark.parametrize("sizes", [(1, 1, 1), (5, 3, 40), (4, 9, 7), (9, 17, 33), (3, 70, 2), (6, 5, 50)])
def test_products_in_every_order(order, sizes):
    m, k, n = sizes
    arrays = {"A": random(m, k), "B": random(k, n), "C": random(m, n)}
    body = PRODUCTS[order].format(m=m, k=k, n=n, sum="C[i, j] = C[i, j] + A[i, k] * B[k, j]")
    found = run(scheduled(function(body, **arguments_of(arrays)), on(1)), *arrays.values())
    np.testing.assert_allclose(
        found[2], arrays["C"] + arrays["A"] @ arrays["B"], rtol=0, atol=tolerance("float64", k) * 9
    )


def test_sums_at_constant_indices_are_no_product_of_matrices():
    a, b, c = random(9), random(2, 9), random(9, 9)
    body = """
for i in range(9):
    B[0, i] = A[i] * A[i]
for i in range(9):
    B[1, 3] = B[1, 3] + A[i] * A[8 - i]
for j in range(9):
    for k in range(9):
        B[1, j] = B[1, j] + A[k] * C[k, j]
"""
    expected = np.stack((a * a, b[1] + a @ c))
    expected[1, 3] += (a * a[::-1]).sum()
    found = run(scheduled(function(body, **arguments_of({"A": a, "B": b, "C": c})), on(1)), a, b, c)
    np.testing.assert_allclose(found[1], expected, rtol=0, atol=tolerance("float64", 9) * 9)


SQUARED = """
@T.prim_func(s_tir=True)
def f(a: T.handle, w: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (T.int64(200), n), "float32")
    W = T.match_buffer(w, (T.int64(200), T.int64(200)), "float32")
    turned = T.alloc_buffer((n, T.int64(200)), "float32")
    made = T.alloc_buffer((n, T.int64(200)), "float32")
    for i, j in T.grid(n, T.int64(200)):
        turned[i, j] = A[j, i]
    for i, j in T.grid(n, T.int64(200)):
        made[i, j] = T.float32(0)
    for i, k, j in T.grid(n, T.int64(200), T.int64(200)):
        made[i, j] = made[i, j] + turned[i, k] * W[k, j]
    for i, j in T.grid(n, T.int64(200)):
        A[j, i] = made[i, j] * T.float32(2)
"""


def test_tiles_write_nothing_that_others_read():
    made = scheduled(of_source(SQUARED), on(1))
    assert "for task" in made.script()
    a, w = random(200, 7, dtype="float32"), random(200, 200, dtype="float32")
    np.testing.assert_allclose(run(made, a, w)[0], (a.T @ w).T * 2, rtol=0, atol=tolerance("float32", 200) * 99)


ADDED = """
@T.prim_func(s_tir=True)
def f(a: T.handle, w: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, T.int64(200)), "float32")
    W = T.match_buffer(w, (T.int64(200), T.int64(200)), "float32")
    old = T.alloc_buffer((n, T.int64(200)), "float32")
    for i, j in T.grid(n, T.int64(200)):
        old[i, j] = A[i, j]
    for i, k, j in T.grid(n, T.int64(200), T.int64(200)):
        A[i, j] = A[i, j] + old[i, k] * W[k, j]
"""


def test_a_copy_of_the_result_stays_one():
    made = scheduled(of_source(ADDED), on(1))
    assert "for task" in made.script()
    a, w = random(7, 200, dtype="float32"), random(200, 200, dtype="float32")
    np.testing.assert_allclose(run(made, a, w)[0], a + a @ w, rtol=0, atol=tolerance("float32", 200) * 99)


def test_product_is_a_tile_of_vectors():
    arrays = {"A": random(64, 64), "B": random(64, 64), "C": random(64, 64)}
    body = PRODUCTS["i k j"].format(m=64, k=64, n=64, sum="C[i, j] = C[i, j] + A[i, k] * B[k, j]")
    text = scheduled(function(body, **arguments_of(arrays)), on(1)).script()
    assert "C_element = T.alloc_buffer" in text
    assert text.index("for k in") > text.index("for j in")
    assert re.search(r"for vector in T.unroll\(T.int64\(8\)\):\s+for vector_1 in T.unroll.*:\s+for lane in T.vec", text)


FACTORISATION = """
for i in range({n}):
    for j in range(i):
        for k in range(j):
            A[i, j] = A[i, j] - A[i, k] * A[k, j]
        A[i, j] = A[i, j] / A[j, j]
    for j in range(i, {n}):
        for k in range(i):
            A[i, j] = A[i, j] - A[i, k] * A[k, j]
"""


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("n", [1, 2, 7, 50])
def test_triangular_loops(n, threads, monkeypatch):
    monkeypatch.setattr(loop_rule, "PARALLEL_STEPS", 20)
    a = random(n, n) + n * np.eye(n)
    made = scheduled(function(FACTORISATION.format(n=n), A=((n, n), "float64")), on(threads))
    [found] = run(made, a)
    lower, upper = np.tril(found, -1) + np.eye(n), np.triu(found)
    np.testing.assert_allclose(lower @ upper, a, rtol=0, atol=tolerance("float64", n) * n)


SUMS = {
    "sum": ("s[0] = s[0] + x[i]", lambda s, x, y: s + x.sum()),
    "difference": ("s[0] = s[0] - x[i] * y[i]", lambda s, x, y: s - x @ y),
    "product": ("s[0] = s[0] * (x[i] * T.float64(0.1) + T.float64(1.0))", lambda s, x, y: s * np.prod(x * 0.1 + 1)),
    "maximum": (
        "s[0] = T.Select(s[0] > x[i] or T.isnan(s[0]), s[0], x[i])",
        lambda s, x, y: np.maximum(s, np.max(x, initial=-np.inf)),
    ),
    "minimum": (
        "s[0] = T.Select(x[i] < s[0] or T.isnan(x[i]), x[i], s[0])",
        lambda s, x, y: np.minimum(s, np.min(x, initial=np.inf)),
    ),
}


@pytest.mark.parametrize("kind", SUMS)
@pytest.mark.parametrize("known", [7, 16, 33, 100, None])
def test_sums_side_by_side(kind, known):
    statement, expected = SUMS[kind]
    x, y, s, n = random(101), random(101) * 2, random(1), np.array([0])
    arguments = arguments_of({"x": x, "y": y, "s": s, "n": n})
    made = scheduled(function(f"for i in range({known or 'n[0]'}):\n    {statement}", **arguments), on(1))
    call = compiled(made)
    for count in (known,) if known else (-3, 0, 1, 7, 8, 15, 16, 17, 31, 32, 33, 100):
        found = call(x, y, s, np.array([count]))[2]
        np.testing.assert_allclose(found, expected(s, x[: max(count, 0)], y[: max(count, 0)]), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("kind", ["maximum", "minimum"])
def test_extrema_keep_a_nan_anywhere(kind):
    x, y, s = random(67), random(67), np.array([0.5])
    made = function(f"for i in range(67):\n  {SUMS[kind][0]}", **arguments_of({"x": x, "y": y, "s": s}))
    call = compiled(scheduled(made, on(1)))
    for at in range(67):
        with_nan = np.where(np.arange(67) == at, np.nan, x)
        assert np.isnan(call(with_nan, y, s)[2])


def test_sum_of_negative_zeros_keeps_the_sign():
    x, s = np.full(40, -0.0), np.array([-0.0])
    made = function("for i in range(40):\n  s[0] = s[0] + x[i]", **arguments_of({"x": x, "s": s}))
    assert np.signbit(run(scheduled(made, on(1)), x, s)[1])


UNKNOWN = """
for i in range(n[0]):
    for j in range(n[1]):
        A[i, j] = A[i, j] + x[j] * x[i]
for i in range(n[0]):
    for j in range(n[1]):
        for k in range(n[2]):
            B[i, j] = B[i, j] + A[i, k] * A[k, j]
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_sizes_of_run_time(threads, monkeypatch):
    monkeypatch.setattr(loop_rule, "PARALLEL_STEPS", 64)
    arrays = {"A": random(40, 40), "B": random(41, 40)[:40].copy(), "x": random(40), "n": np.zeros(3, dtype=int)}
    call = compiled(scheduled(function(UNKNOWN, **arguments_of(arrays)), on(threads)))
    for sizes in [(0, 0, 0), (3, 0, 5), (5, -2, 3), (1, 1, 0), (9, 40, 40), (40, 33, 7), (40, 7, 9), (8, 8, 8)]:
        check_sizes(call, sizes, arrays["A"], arrays["B"], arrays["x"])


def test_rows_that_are_summed_are_read_along_memory(monkeypatch):
    """What a row keeps in a register says nothing about which loop goes along memory."""
    monkeypatch.delenv("MLIRTRI_FORCE_SCHEDULES", raising=False)  # forced, what reads across rows is taken, too

    class LogSums(torch.nn.Module):
        def forward(self, x):
            return torch.logsumexp(x, -1)

    open_rows = ({0: torch.export.Dim.DYNAMIC},)
    kernel = mt.from_torch(LogSums(), (torch.randn(40, 100),), dynamic_shapes=open_rows).compile()
    assert re.search(r"exp\(x\[[^,\]]*, [^,\]]*lane", kernel.ir["scheduled"])
    assert not re.search(r"exp\(x\[[^,\]]*lane", kernel.ir["scheduled"])
    x = torch.randn(70, 100)
    torch.testing.assert_close(kernel(x), torch.logsumexp(x, -1))


def check_sizes(call, sizes, a, b, x):
    rows, columns, steps = (max(0, size) for size in sizes)
    first, second = a.copy(), b.copy()
    first[:rows, :columns] += np.outer(x[:rows], x[:columns])
    second[:rows, :columns] += first[:rows, :steps] @ first[:steps, :columns]
    found = call(a, b, x, np.array(sizes))
    np.testing.assert_allclose(found[0], first, rtol=0, atol=1e-14)
    np.testing.assert_allclose(found[1], second, rtol=0, atol=tolerance("float64", 40) * 40)


MIXED = """
for i in range(37):
    t = T.alloc_buffer((1,), "float64")
    t[0] = T.exp(x[i])
    if x[i] > T.float64(0):
        y[i] = t[0]
    else:
        y[i] = T.float64(0)
for i in range(37):
    u = T.alloc_buffer((1,), "float64")
    u[0] = x[i] * x[i]
    if n[0] > 3:
        z[i] = u[0] + T.float64(1)
    else:
        z[i] = u[0]
"""


def test_branches_and_private_values():
    arrays = {"x": random(37), "y": random(37), "z": random(37), "n": np.array([4])}
    made = scheduled(function(MIXED, **arguments_of(arrays)), on(1))
    x = arrays["x"]
    _, y, z, _ = run(made, *arrays.values())
    np.testing.assert_allclose(y, np.where(x > 0, np.exp(x), 0), rtol=1e-14)
    np.testing.assert_allclose(z, x * x + 1, rtol=1e-14)
    assert "T.vectorized" in made.script()


def test_integers_and_bools():
    arrays = {"a": random(43, dtype="int64"), "b": random(43, dtype="int32"), "c": random(43) > 0}
    body = "for i in range(43):\n  a[i] = T.Select(c[i], a[i] + T.Cast('int64', b[i]), a[i])"
    found = run(scheduled(function(body, **arguments_of(arrays)), on(1)), *arrays.values())
    np.testing.assert_array_equal(found[0], np.where(arrays["c"], arrays["a"] + arrays["b"], arrays["a"]))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("n", [3, 13, 40])
def test_complex_numbers_are_shuffled_in_vectors(n, dtype):
    arrays = {"A": random(5, n, 2, dtype=dtype), "B": random(n, 2, dtype=dtype)}
    body = f"""
    for i in range(5):
        for j in range({n}):
            re: T.{dtype} = A[i, j, 0] * B[j, 0] - A[i, j, 1] * B[j, 1]
            im: T.{dtype} = A[i, j, 0] * B[j, 1] + A[i, j, 1] * B[j, 0]
            A[i, j, 0] = re
            A[i, j, 1] = im
    """
    made = scheduled(function(body, **arguments_of(arrays)), on(1))
    a, b = (each[..., 0] + 1j * each[..., 1] for each in arrays.values())
    found = run(made, *arrays.values())
    np.testing.assert_allclose(found[0][..., 0] + 1j * found[0][..., 1], a * b, rtol=tolerance(dtype, 4))
    assert "A_parts" in made.script()


def test_sum_of_complex_products():
    arrays = {"A": random(45, 2), "B": random(45, 2), "re": random(1), "im": random(1)}
    body = """
    for j in range(45):
        re[0] = re[0] + (A[j, 0] * B[j, 0] - A[j, 1] * B[j, 1])
        im[0] = im[0] + (A[j, 0] * B[j, 1] + A[j, 1] * B[j, 0])
    """
    made = scheduled(function(body, **arguments_of(arrays)), on(1))
    a, b = (each[..., 0] + 1j * each[..., 1] for each in (arrays["A"], arrays["B"]))
    _, _, re, im = run(made, *arrays.values())
    np.testing.assert_allclose(re + 1j * im, arrays["re"] + 1j * arrays["im"] + a @ b, rtol=tolerance("float64", 45))
    assert "A_parts" in made.script()


@pytest.mark.parametrize("body", [FACTORISATION.format(n=50), UNKNOWN])
def test_text_reads_back_as_it_was_printed(body):
    arguments = {"A": ((50, 50), "float64"), "B": ((50, 50), "float64"), "x": VECTOR, "n": ((3,), "int64")}
    text = print_complete(IRModule({"f": scheduled(function(body, **arguments), on(2))}))
    assert print_complete(parse(text, "f.py")) == text


@pytest.mark.parametrize("dtype", [torch.float32, torch.int16])
def test_transposes_of_run_time_sizes_use_square_tiles(dtype):
    """Those that no square fits into do not; the last squares reach back into those before."""

    class Turned(torch.nn.Module):
        def forward(self, x):
            return x.reshape(x.shape[0], x.shape[1], 2, 20).permute(0, 2, 3, 1).contiguous()

    dimension = torch.export.Dim.DYNAMIC
    example = torch.ones(2, 20, 40, dtype=dtype)
    kernel = mt.from_torch(Turned(), (example,), dynamic_shapes=({0: dimension, 1: dimension},)).compile()
    assert "T.Shuffle" in kernel.ir["scheduled"]
    for batch, length in [(2, 2), (2, 15), (3, 16), (2, 33), (5, 64)]:
        x = torch.from_numpy(random(batch, length, 40) * 100).to(dtype)
        assert torch.equal(kernel(x), Turned()(x))


def scaled_plus_transposed(a):
    out = np.zeros((60, 50), np.float32)
    for i in range(50):
        for j in range(60):
            out[j, i] = a[i, j] * 2
    return out + a.T


def test_transposes_of_known_sizes_have_no_other_branch():
    a = random(50, 60, dtype="float32")
    kernel = mt.jit(scaled_plus_transposed).compile(a)
    np.testing.assert_array_equal(kernel(a), scaled_plus_transposed(a))
    assert "T.Shuffle" in kernel.ir["scheduled"]
    assert not re.search(r"\bif T\.|\belse:", kernel.ir["scheduled"])


def of_bytes(image, out):
    for i in mt.prange(1, image.shape[0] - 1):
        for j in range(1, image.shape[1] - 1):
            out[i, j] = np.uint8((np.int32(image[i, j - 1]) + np.int32(image[i, j + 1]) + 1) // 2)


def test_integers_of_bytes_are_vectors_of_16_bits():
    image = np.random.default_rng(0).integers(0, 256, (20, 150), np.uint8)
    out, expected = np.zeros_like(image), np.zeros_like(image)
    kernel = mt.jit(of_bytes).compile(image, out)
    kernel(image, out)
    of_bytes(image, expected)
    np.testing.assert_array_equal(out, expected)
    assert f"vectorized(T.int64({lanes_in_register(16)}))" in kernel.ir["scheduled"]
