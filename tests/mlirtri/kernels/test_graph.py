"""Graphs of kernels: recorded, compiled as one program, called, saved; mistakes at the line of the call."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

import mlirtri as mt
from mlirtri.errors import ArgumentMismatchError, DeviceError, KernelTypeError

FLOATS = mt.Tensor((16, 64), mt.float32)
OFFSET = 1


@mt.jit
def normalize(x, eps=1e-5):
    centred = x - x.mean(1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(1, keepdims=True) + eps)


@mt.jit
def scale(x, w, factor: mt.float32 = 2.0):
    return x * w * factor


@mt.jit
def extremes(x):
    return np.max(x, axis=0), np.min(x, axis=0)


@mt.jit
def accumulate(state, x):
    for i in range(state.shape[0]):
        state[i] += x[i].sum()


@mt.jit
def power(x, n):
    y = x
    for _ in range(n):
        y = y * x
    return y


@mt.jit
def same(x):
    return x


@mt.jit
def add_to(a, b):
    a += b


@mt.jit
def matmul(a, b):
    return a @ b


@mt.jit
def mean(x):
    return np.mean(x)


@mt.jit(semantics="numpy")
def numpy_mean(x):
    return np.mean(x)


@mt.jit
def shifted(x):
    return x + OFFSET


@mt.jit
def positive(x):
    return x[x > 0]


@mt.jit(target="cuda")
def on_cuda(x):
    return x + 1


def step_graph():
    with mt.graph("step") as graph:
        x = graph.argument("x", FLOATS)
        w = graph.argument("w", np.zeros(64, np.float32))
        state = graph.argument("state", mt.Tensor((16,), mt.float32))
        h = normalize(x)
        y = scale(h, w)
        # An argument may come after calls, and a value may be used by several.
        factor = graph.argument("factor", float)
        z = scale(y, w, factor=factor)
        top, bottom = extremes(z)
        accumulate(state, z)
        accumulate(state, z)
        # Nobody reads what this one returns.
        extremes(y)
        graph.returns(top=top, rest=(bottom, [h]))
    return graph


@pytest.mark.parametrize("pipeline", ["linalg", "relax", "mlir", "interpreter"])
def test_a_graph_is_one_kernel(pipeline):
    kernel = step_graph().compile(pipeline=pipeline)
    generator = np.random.default_rng(0)
    x, w = generator.standard_normal((16, 64), np.float32), generator.standard_normal(64, np.float32)
    h = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    for factor in (3.0, -1.0):
        z, state = h * w * 2 * w * np.float32(factor), np.ones(16, np.float32)
        results = kernel(x, w, state, factor=factor)
        assert list(results) == ["top", "rest"]
        assert isinstance(results["top"], np.ndarray)
        np.testing.assert_allclose(results["top"], z.max(0), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(results["rest"][0], z.min(0), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(results["rest"][1][0], h, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(state, 1 + 2 * z.sum(1), rtol=1e-3, atol=1e-3)
    tensors = kernel(torch.tensor(x), torch.tensor(w), torch.zeros(16), 1.0)
    assert isinstance(tensors["rest"][1][0], torch.Tensor)
    assert kernel.ir["graph"] == str(step_graph())
    assert kernel.writes == ("state",)


def test_kernels_are_fused_across_calls():
    with mt.graph() as graph:
        x = graph.argument("x", FLOATS)
        graph.returns(shifted(shifted(scale(x, x))))
    kernel = graph.compile()
    assert kernel.stats["kernels"] == 1
    assert kernel.fusion.edges
    assert all(edge.is_fused for edge in kernel.fusion.edges)
    assert kernel.stats["bytes"] == 2 * 16 * 64 * 4


def test_the_listing_has_a_line_per_call():
    assert str(step_graph()).splitlines() == [
        "graph step(%0 x: float32[16, 64], %1 w: float32[64], %2 state: float32[16], %5 factor: float64[])",
        "  %3 = normalize(%0, 1e-05) : float32[16, 64]",
        "  %4 = scale(%3, %1, 2.0) : float32[16, 64]",
        "  %6 = scale(%4, %1, %5) : float32[16, 64]",
        "  (%7, %8) = extremes(%6) : float32[64], float32[64]",
        "  accumulate(%2, %6)",
        "  accumulate(%2, %6)",
        "  (%9, %10) = extremes(%4) : float32[64], float32[64]",
        "  return {top: %7, rest: (%8, [%3])}",
    ]


@pytest.mark.parametrize("pipeline", ["linalg", "relax", "mlir"])
def test_calls_mean_what_they_mean_outside(pipeline):
    """Results are new arrays; writes show in arguments and in what is read after them; constants differ by call."""
    with mt.graph() as graph:
        x = graph.argument("x", mt.Tensor((3, 4), mt.float32))
        n = graph.argument("n", mt.int32)
        copy = same(x)
        add_to(copy, x)
        squares = power(x, 1)
        add_to(x, squares)
        cubes = power(x, n=2)
        add_to(cubes, cubes)
        graph.returns(copy, squares, cubes, scale(x, n), x)
    x0 = np.arange(12, dtype=np.float32).reshape(3, 4)
    x = x0.copy()
    results = graph.compile(pipeline=pipeline)(x, 7)
    written = x0 + x0**2
    for result, expected in zip(results, (2 * x0, x0**2, 2 * written**3, written * 14, written), strict=True):
        np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(x, written)


@pytest.mark.parametrize("pipeline", ["linalg", pytest.param("relax", marks=pytest.mark.slow), "mlir"])
def test_sizes_of_run_time(pipeline):
    with mt.graph() as graph:
        x = graph.argument("x", mt.Tensor((mt.dyn["N"], 4), mt.float32))
        y = shifted(x)
        w = graph.argument("w", mt.Tensor((4, mt.dyn["M"]), mt.float32))
        z = matmul(y, w)
        assert str(z.type) == "float32[N, M]"
        graph.returns(z, positive(z))
    kernel = graph.compile(pipeline=pipeline)
    for n, m in ((3, 5), (1, 1), (0, 3)):
        x, w = np.arange(4.0 * n, dtype=np.float32).reshape(n, 4) - 3, np.ones((4, m), np.float32)
        z, above = kernel(x, w)
        np.testing.assert_array_equal(z, (x + 1) @ w)
        np.testing.assert_array_equal(above, z[z > 0])


def test_dtypes_follow_the_semantics_of_each_kernel():
    def means(**options):
        with mt.graph(**options) as graph:
            x = graph.argument("x", mt.Tensor((4,), mt.float16))
            n = graph.argument("n", mt.Tensor((4,), mt.int64))
            results = mean(x), numpy_mean(n)
            graph.returns(results, scale(x, np.float64(2)))
        return [value.dtype for value in results], graph(np.ones(4, np.float16), np.arange(4))

    dtypes, (values, scaled) = means(semantics="numpy")
    assert dtypes == [mt.float16, mt.float64]
    assert values == (1, 1.5)
    assert scaled.dtype == np.float64
    with pytest.raises(KernelTypeError, match="int64"):
        with mt.graph() as graph:
            mean(graph.argument("n", mt.Tensor((4,), mt.int64)))


def test_a_saved_graph_loads(tmp_path):
    kernel = step_graph().compile(pipeline="mlir")
    kernel.save(tmp_path / "step")
    arguments = [np.random.default_rng(1).standard_normal(s, np.float32) for s in ((16, 64), 64, 16)]
    ours, loaded = (k(*arguments[:2], arguments[2].copy(), 2.0) for k in (kernel, mt.load(tmp_path / "step")))
    assert list(ours) == list(loaded)
    np.testing.assert_array_equal(ours["rest"][1][0], loaded["rest"][1][0])


def test_calling_a_graph_follows_what_its_kernels_captured(monkeypatch):
    with mt.graph() as graph:
        graph.returns(shifted(graph.argument("x", mt.Tensor((2,), mt.float32))))
    x = np.zeros(2, np.float32)
    np.testing.assert_array_equal(graph(x), [1, 1])
    monkeypatch.setitem(globals(), "OFFSET", 5)
    np.testing.assert_array_equal(graph(x), [5, 5])
    np.testing.assert_array_equal(shifted(x), [5, 5])


def test_a_call_outside_is_not_recorded():
    with mt.graph() as graph:
        x = graph.argument("x", mt.Tensor((2,), mt.float32))
        np.testing.assert_array_equal(same(np.ones(2, np.float32)), [1, 1])
        graph.returns(same(x))
    assert str(graph).count("same") == 1


def refused(record, error=KernelTypeError):
    """Return the error of recording, and the line of this file that it shows."""
    with pytest.raises(error) as raised, mt.graph() as graph:
        record(graph, graph.argument("x", mt.Tensor((4, 5), mt.float32)))
    return raised.value


def line_of(function) -> int:
    return function.__code__.co_firstlineno


def test_mistakes_are_at_the_line_of_the_call():
    error = refused(record := lambda graph, x: matmul(x, x))
    assert "inner sizes 5 and 4 differ" in error.message
    assert error.span.line == line_of(matmul.__mlirtri_function__) + 2
    [note] = error.notes
    assert (note.span.file, note.span.line) == (__file__, line_of(record))
    with mt.graph() as other:
        y = other.argument("y", mt.Tensor((4, 5), mt.float32))
    cases = {
        "'b' is a ndarray": lambda graph, x: matmul(x, np.zeros((5, 3), np.float32)),
        "value of another graph": lambda graph, x: add_to(x, y),
        "is an argument already": lambda graph, x: graph.argument("x", mt.float32),
        "does not say what 'z' is": lambda graph, x: graph.argument("z", 3),
        "3 is not a value of graph 'graph'": lambda graph, x: graph.returns(3),
        "says twice what it returns": lambda graph, x: (graph.returns(x), graph.returns(x)),
        "has no truth": lambda graph, x: not x,
        "has no elements": lambda graph, x: np.sin(x),
        "has no arithmetic": lambda graph, x: 2 * x,
        "out= is not recorded": lambda graph, x: same(x, out=x),
        "is still recorded": lambda graph, x: (same(x), graph.compile()),
    }
    for message, record in cases.items():
        error = refused(record)
        assert re.search(re.escape(message), error.message), error.message
        assert error.span is None or error.span.file == __file__
    assert "expected float32" in refused(lambda graph, x: scale(x, x, factor=x), ArgumentMismatchError).message
    assert "is a kernel for cuda" in refused(lambda graph, x: on_cuda(x), DeviceError).message
    measured = mt.autotune(configs=[mt.Config({"factor": 1}), mt.Config({"factor": 2})])(scale)
    assert "scale.fn(…)" in refused(lambda graph, x: measured(x, x)).help
    with pytest.raises(KernelTypeError, match="is not being recorded"):
        same(y)
    with pytest.raises(KernelTypeError, match="has no kernels"):
        other.compile()


def test_a_graph_whose_recording_failed_is_not_compiled():
    graph = mt.graph()
    with pytest.raises(KeyError), graph:
        {"y": same(graph.argument("x", FLOATS))}["z"]
    with pytest.raises(KernelTypeError, match="was not recorded to its end: KeyError"):
        graph.compile()


def test_arguments_of_a_call_are_checked():
    kernel = step_graph().compile()
    x, w, state = np.ones((16, 64), np.float32), np.ones(64, np.float32), np.ones(16, np.float32)
    with pytest.raises(ArgumentMismatchError, match="'x' was compiled for float32"):
        kernel(x[1:], w, state, 1.0)
    with pytest.raises(ArgumentMismatchError, match="'state', which the kernel writes, shares memory with 'w'"):
        kernel(x, w, w[:16], 1.0)
    with mt.graph(target="cuda") as graph:
        graph.returns(on_cuda(graph.argument("x", mt.Tensor((2,), mt.float32))))
    assert "__global__" in graph.compile().ir["cuda"]
    with pytest.raises(DeviceError):
        graph(torch.ones(2))


def test_sizes_of_run_time_on_cuda_and_saved(tmp_path):
    rows, columns = mt.dyn["M"], mt.dyn["N"]
    with mt.graph("layer", semantics="numpy") as graph:
        x = graph.argument("x", mt.Tensor((rows, 64), mt.float32))
        w = graph.argument("w", mt.Tensor((64, columns), mt.float32))
        total = graph.argument("total", mt.Tensor((rows,), mt.float32))
        h = matmul(normalize(x), w)
        accumulate(total, h)
        graph.returns(h=h, scaled=scale(h, 2.0))
    random = np.random.default_rng(0)
    emulated, saved = graph.compile(target="cuda:emulated"), graph.compile()
    saved.save(tmp_path / "layer")
    graph.compile(target="cuda:sm_90").save(tmp_path / "layer_on_cuda")
    assert mt.load(tmp_path / "layer_on_cuda").interface.parameters[0].name == "x"
    for kernel in (emulated, mt.load(tmp_path / "layer")):
        for m, n in ((3, 5), (1, 1), (0, 2), (70, 33)):
            x, w = random.random((m, 64), np.float32), random.random((64, n), np.float32)
            total = np.ones(m, np.float32)
            results = kernel(x, w, total)
            centred = x - x.mean(1, keepdims=True)
            expected = centred / np.sqrt((centred * centred).mean(1, keepdims=True) + 1e-5) @ w
            np.testing.assert_allclose(results["h"], expected, rtol=1e-4, atol=1e-4)
            np.testing.assert_allclose(results["scaled"], expected * 4, rtol=1e-4, atol=1e-3)
            np.testing.assert_allclose(total, 1 + expected.sum(1), rtol=1e-4, atol=1e-3)
