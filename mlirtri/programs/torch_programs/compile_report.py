"""What ``torch.compile(…, backend="mlirtri")`` compiled in this process, and what torch runs eagerly instead.

Dynamo gives the backend the graphs that it could trace. It runs the rest of a function eagerly without a word: the rest
after a graph break, and all of a function with a layer that it does not trace (`torch.nn.LSTM`). `Recorder` notes the
graphs, and warns of functions of which none came; `mt.torch_report` adds what Dynamo's own metrics have.
"""

from __future__ import annotations

import contextlib
import re
import sys
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from mlirtri.errors import KernelError, NotCompiledWarning, Span
from mlirtri.lowering.importers.from_torch.graph_to_torch import span_of_node

MAX_GRAPHS = 1000
"""Graphs that are remembered."""
_TORCH = str(Path(torch.__file__).parent)
_RESUMED = re.compile(r"torch_dynamo_resume_in_(?P<name>.*)_at_(?P<line>\d+)$")


@dataclass(frozen=True)
class GraphRecord:
    """A graph that Dynamo gave to the backend."""

    name: str
    """``forward`` or ``backward``."""
    operators: int
    """Operators of ATen in it."""
    span: Span | None
    """The line of the first of them."""
    refused: str | None = None
    """Why it was not compiled; None where it was."""
    compilations: Sequence[Any] = field(default=(), repr=False)
    """The `Compilations` of its parts."""

    def kernels(self) -> int:
        """Return how many kernels were compiled from it until now, one for each set of sizes."""
        return sum(part.kernels for part in self.compilations)

    @property
    def why_each(self) -> tuple[str, ...]:
        """Return why parts with run-time sizes are compiled for each set of sizes, and not once for all."""
        return tuple(dict.fromkeys(part.why_each for part in self.compilations if part.why_each))

    @property
    def seconds(self) -> float:
        """Return what compiling them took; a graph of run-time sizes is compiled when it is called."""
        return sum(part.seconds for part in self.compilations)


@dataclass(frozen=True)
class Frame:
    """A Python function that Dynamo traced, or its rest after a graph break."""

    name: str
    span: Span
    operators: int
    """Operators in its graph; 0 where it has none."""
    breaks: tuple[str, ...]
    """Why the graph ends before the function does."""
    refused: str | None
    """Why there is no graph; the function runs eagerly."""


@dataclass(frozen=True)
class TorchReport:
    """Graphs and functions in the order in which they were compiled."""

    graphs: tuple[GraphRecord, ...]
    frames: tuple[Frame, ...]

    @property
    def is_total(self) -> bool:
        """Return whether all that torch.compile was given is compiled, with no graph break."""
        is_broken = any(frame.breaks or frame.refused for frame in self.frames)
        return bool(self.graphs) and not is_broken and not any(graph.refused for graph in self.graphs)

    def __str__(self) -> str:
        lines = [f"{_count(len(self.graphs), 'graph')} reached mlirtri"]
        for graph in self.graphs:
            location = f" at {graph.span}" if graph.span else ""
            compiled = f"{_count(graph.kernels(), 'kernel')}, {graph.seconds:.2f} s"
            compiled += "".join(f"; one for each set of sizes: {reason}" for reason in graph.why_each)
            end = f"refused: {graph.refused}" if graph.refused else compiled
            lines.append(f"  {graph.name}{location}: {_count(graph.operators, 'operator')}, {end}")
        for frame in self.frames:
            if frame.refused:
                lines.append(f"{frame.span}: {frame.name} runs eagerly: {frame.refused}")
            lines += [f"{frame.span}: {frame.name} has a graph break: {reason}" for reason in frame.breaks]
        return "\n".join(lines)


def _count(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'s' * (number != 1)}"


class Recorder:
    """The graphs of this process; watches Dynamo for functions of which no graph comes."""

    def __init__(self) -> None:
        self.graphs: deque[GraphRecord] = deque(maxlen=MAX_GRAPHS)
        self._graphs_in_frame = 0
        self._refusals_before = 0

    def watch(self) -> None:
        """Have Dynamo tell when it begins and ends with a function; `torch._dynamo.reset` forgets that."""
        from torch._dynamo.callback import callback_handler

        if self._begin not in callback_handler.start_callbacks:
            callback_handler.register_start_callback(self._begin)
            callback_handler.register_end_callback(self._end)

    def compiled(self, name: str, graph: torch.fx.GraphModule, compile_graph: Callable[[], object]) -> Any:
        """Return what `compile_graph` gives of a graph, and note the graph; a `KernelError` is noted, too."""
        self._graphs_in_frame += 1
        operators = [node for node in graph.graph.nodes if node.op == "call_function"]
        span = next((span for node in operators if (span := span_of_node(node)) is not None), None)
        try:
            result = compile_graph()
        except KernelError as error:
            self.graphs.append(GraphRecord(name, len(operators), span, error.message))
            raise
        self.graphs.append(GraphRecord(name, len(operators), span, None, _compilations(result)))
        return result

    def _begin(self, _: Any) -> None:
        self._graphs_in_frame, self._refusals_before = 0, len(_refusals())

    def _end(self, _: Any) -> None:
        reasons = _refusals()[self._refusals_before :]
        if reasons and not self._graphs_in_frame and _is_only_backend():
            text = f"torch runs a function eagerly, and mlirtri compiles nothing of it: {_first_lines(reasons[-1])}"
            file, line = _calling_line()
            warnings.warn_explicit(f"{text} (mt.torch_report() has all)", NotCompiledWarning, file, line)


RECORDER = Recorder()


def torch_report() -> TorchReport:
    """Return what ``torch.compile(…, backend="mlirtri")`` compiled in this process, and what torch runs eagerly.

    Functions that another backend compiled are among the frames: Dynamo's metrics, of the latest 64, do not say whose.
    """
    from torch._dynamo.utils import get_compilation_metrics

    # Metrics of graphs of gradients name no function; the recorder has those.
    frames = [_frame(metrics) for metrics in get_compilation_metrics() if metrics.co_name]
    return TorchReport(tuple(RECORDER.graphs), tuple(frames))


def _frame(metrics: Any) -> Frame:
    name, line = metrics.co_name or "", metrics.co_firstlineno or 1
    if resumed := _RESUMED.match(name):
        name, line = f"{resumed['name']}, from line {resumed['line']} on,", int(resumed["line"])
    file = metrics.co_filename or ""
    if metrics.fail_reason and metrics.fail_user_frame_lineno:
        file, line = metrics.fail_user_frame_filename or file, metrics.fail_user_frame_lineno
    refused = _first_lines(metrics.fail_reason) if metrics.fail_reason else None
    breaks = tuple(sorted(map(_first_lines, metrics.restart_reasons or ())))
    return Frame(name, Span(file, line, 1), metrics.graph_op_count or 0, breaks, refused)


def _first_lines(reason: str) -> str:
    """Return the reason of Dynamo's text and its first hint, on one line."""
    lines = [line.strip() for line in reason.splitlines()]
    hints = [line for line in lines[1:] if line.startswith("Hint:")]
    return " ".join([lines[0] + ".", *hints[:1]]) if lines else reason


def _calling_line() -> tuple[str, int]:
    """Return the file and line of the call into torch, outside of its own files and of this one."""
    frame = sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith((_TORCH, contextlib.__file__, __file__)):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


def _refusals() -> list[str]:
    """Return Dynamo's reasons for which it gave up tracing a function, once for each time."""
    from torch._dynamo.utils import counters

    return [reason for reason, count in counters["unimplemented"].items() for _ in range(count)]


def _is_only_backend() -> bool:
    """Return whether torch.compile has no other backend in this process: each function is meant for this one."""
    from torch._dynamo import eval_frame

    backends = [backend for backend in eval_frame.cached_backends.values() if backend is not None]
    return bool(backends) and all(getattr(backend, "compiler_name", "") == "mlirtri" for backend in backends)


def _compilations(result: Any) -> list[Any]:
    """Return what counts the compilations of each compiled function of a graph, without keeping the graph alive."""
    parts: list[Any] = list(result.modules()) if isinstance(result, torch.nn.Module) else [result]
    functions = [getattr(part, "function", part) for part in parts]
    return [function.compilations for function in functions if hasattr(function, "compilations")]
