"""`mt.torch_report`: graphs, breaks and refusals of torch.compile; a function that torch runs eagerly warns."""

from __future__ import annotations

import gc
import inspect
import warnings
from collections import deque

import pytest
import torch
from torch import nn

import mlirtri as mt
from mlirtri.errors import NotCompiledWarning
from mlirtri.programs.torch_programs.compile_report import RECORDER


@pytest.fixture(autouse=True)
def _fresh(monkeypatch):
    from torch._dynamo.utils import clear_compilation_metrics, counters

    torch._dynamo.reset()
    RECORDER.watch()
    counters.clear()
    clear_compilation_metrics()
    monkeypatch.setattr(RECORDER, "graphs", deque())


def line_of(function, text):
    lines, first = inspect.getsourcelines(function)
    return first + next(number for number, line in enumerate(lines) if text in line)


def doubled(x):
    y = torch.relu(x)
    print("half of it")
    return y * 2


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.LSTM(4, 5)

    def forward(self, x):
        return self.layer(x)[0].relu()


def test_graphs_forward_and_backward():
    compiled = torch.compile(nn.Linear(5, 2), backend="mlirtri")
    compiled(torch.randn(3, 5)).sum().backward()
    report = mt.torch_report()
    assert [graph.name for graph in report.graphs] == ["forward", "backward"]
    assert all(graph.operators and graph.refused is None and graph.kernels() == 1 for graph in report.graphs)
    assert report.is_total
    assert str(report).startswith("2 graphs reached mlirtri\n  forward")


def test_a_graph_break_is_reported_with_its_line():
    with warnings.catch_warnings():
        warnings.simplefilter("error", NotCompiledWarning)
        torch.compile(doubled, backend="mlirtri")(torch.ones(3))
    report = mt.torch_report()
    assert len(report.graphs) == 2
    assert not report.is_total
    [broken] = [frame for frame in report.frames if frame.breaks]
    assert (broken.name, broken.span.line) == ("doubled", line_of(doubled, "def doubled"))
    assert report.frames[-1].name.startswith(f"doubled, from line {line_of(doubled, 'print')}")
    assert "`print`" in str(report)


def test_a_function_without_a_graph_warns_at_the_call():
    model, x = Recurrent().eval(), torch.randn(3, 2, 4)
    compiled = torch.compile(model, backend="mlirtri")
    with torch.no_grad(), pytest.warns(NotCompiledWarning, match=r"LSTM.*allow_rnn") as caught:
        torch.testing.assert_close(compiled(x), model(x))
    assert caught[0].filename == __file__
    report = mt.torch_report()
    assert str(report).startswith("no graphs reached mlirtri")
    [frame] = [frame for frame in report.frames if frame.refused]
    assert frame.span.line == line_of(Recurrent.forward, "self.layer")
    assert not report.is_total


def test_a_refused_graph_is_in_the_report():
    compiled = torch.compile(lambda x: torch.poisson(x) + x, backend="mlirtri")
    with pytest.raises(Exception, match="random numbers"):
        compiled(torch.ones(3))
    [graph] = mt.torch_report().graphs
    assert "random numbers" in graph.refused
    assert "refused: the number of random numbers" in str(mt.torch_report())


class RandomGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return torch.poisson(gradient.abs())


def test_a_refused_graph_of_gradients_is_in_the_report_once():
    compiled = torch.compile(RandomGradient.apply, backend="mlirtri")
    with pytest.raises(Exception, match="random numbers"):
        compiled(torch.ones(3, requires_grad=True)).sum().backward()
    report = mt.torch_report()
    assert [(graph.name, graph.refused is None) for graph in report.graphs][-1] == ("backward", False)
    assert str(report).count("random numbers") == 1
    assert not report.is_total


def test_kernels_of_a_graph_that_is_gone_are_still_counted():
    compiled = torch.compile(lambda x: x + 1, backend="mlirtri")
    compiled(torch.ones(3))
    del compiled
    torch._dynamo.reset()
    gc.collect()
    assert [graph.kernels() for graph in mt.torch_report().graphs] == [1]


def test_compilations_of_a_dynamic_graph_take_time_and_are_counted_when_it_is_gone():
    compiled = torch.compile(lambda x: (x * 2).sum(), backend="mlirtri", dynamic=True)
    compiled(torch.ones(3))
    [graph] = mt.torch_report().graphs
    before = graph.seconds
    assert before > 0
    assert torch.equal(compiled(torch.arange(5.0)), torch.tensor(20.0))
    assert graph.kernels() == 1
    del compiled
    torch._dynamo.reset()
    gc.collect()
    assert (graph.kernels(), graph.seconds) == (1, before)


def test_a_dynamic_graph_that_is_compiled_for_each_size_says_why():
    compiled = torch.compile(lambda x: (x * 2, x.shape[0] * 3), backend="mlirtri", dynamic=True)
    for size in (3, 5):
        doubled, tripled = compiled(torch.ones(size))
        assert (doubled.sum().item(), tripled) == (2 * size, 3 * size)
    [graph] = mlirtri_graphs = mt.torch_report().graphs
    if graph.kernels() > 1:
        assert "one for each set of sizes: one of its results is no tensor" in str(mt.torch_report())
    assert mlirtri_graphs


def test_another_backend_in_the_process_silences_the_warning():
    torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", NotCompiledWarning)
        torch.compile(Recurrent().eval(), backend="mlirtri")(torch.randn(3, 2, 4))
