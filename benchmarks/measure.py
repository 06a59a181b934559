"""Measures one row: ours and its peers in turn, round by round, in one process, medians.

Takes a `Row`. Gives a dict of plain values: seconds by candidate, and why a candidate has none. Results are compared
with the first peer's before anything is timed; what is wrong has no time.
"""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import mlirtri
from benchmarks import compile_times, processes
from benchmarks.table import OURS, Row, as_module

SAMPLE = 2e-3
"""Seconds of one sample, at least: short calls are repeated."""
WARM = 5e-4
"""Seconds of calls before each sample: threads wake up one after the other."""
ALONE = 0.3
"""Seconds after which a kernel that ran alone, because others had the CPUs, has looked whether they are free again."""
TOLERANCE = {torch.float16: 1e-2, torch.bfloat16: 4e-2, torch.float32: 2e-4, torch.float64: 1e-9}
"""Of the largest number of the result: sums have other orders."""
Candidate = Callable[[], Callable[[], Any]]
"""Copies what its call writes, and gives the call."""


@dataclass(frozen=True)
class Conditions:
    """How to measure."""

    threads: int
    seconds: float = 1.0
    """For all samples of a row."""
    clock: str = "wall"
    peers: tuple[str, ...] | None = None
    """Those to run; by default those of the row."""

    @property
    def now(self) -> Callable[[], float]:
        return time.thread_time if self.clock == "cpu" else time.perf_counter


def measure(row: Row, conditions: Conditions) -> dict[str, Any]:
    """Seconds by candidate, `why` others have none, and `error` when ours has none."""
    if row.through in ("compile", "process"):
        return compile_times.measure(row, conditions.clock, row.peers if conditions.peers is None else conditions.peers)
    arguments = row.make()
    makers = _makers(row, arguments, conditions)
    running, why, expected = {}, {}, None
    for label in [*(peer for peer in makers if peer != OURS), OURS]:
        try:
            candidate = makers[label]()
            results = _flat(candidate()())
        except Exception as error:
            why[label] = f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}"
            continue
        expected = results if expected is None else expected
        if _agree(results, expected):
            running[label] = candidate
        else:
            why[label] = "wrong results"
    return {"seconds": timed(running, row, conditions), "why": why}


def _makers(row: Row, arguments: tuple[Any, ...], conditions: Conditions) -> dict[str, Callable[[], Candidate]]:
    """Label to what compiles a candidate."""
    makers: dict[str, Callable[[], Candidate]] = {OURS: lambda: _ours(row, arguments)}
    peers = {"torch": _eager, "compile": _compiled, "numpy": _with_numpy, "numba": _with_numba, "tvm": _unscheduled}
    # TVM alone is slow enough to be asked for.
    possible = (*row.peers, *(["tvm"] if row.through == "jit" else []))
    for label in row.peers if conditions.peers is None else conditions.peers:
        if label in possible and (label != "numpy" or row.numpy is not None):
            makers[label] = lambda make=peers[label]: make(row, arguments, conditions)
    return makers


def fixed(function: Callable[..., Any], *arguments: Any) -> Candidate:
    """The same call each time, with as little around it as Python allows."""
    call = functools.partial(function, *arguments) if arguments else function
    return lambda: call


def kernel_of(row: Row, arguments: tuple[Any, ...], schedule: str | None = None) -> Any:
    """The compiled kernel of a row that is not called in another way."""
    if row.through == "program":
        return mlirtri.from_torch(as_module(row.function), arguments).compile(schedule=schedule)
    return mlirtri.jit(row.function).compile(*arguments, schedule=schedule)


def _ours(row: Row, arguments: tuple[Any, ...]) -> Candidate:
    if row.through == "updates":
        kernel = mlirtri.jit(row.function)
        return _on_copies(kernel, arguments)
    kernel = mlirtri.jit(row.function) if row.through == "call" else kernel_of(row, arguments)
    if row.through == "out":
        (left, right), result = arguments, kernel(*arguments)
        # A `partial` with keywords would cost more than a call with them.
        return fixed(lambda: kernel(left, right, out=result))
    return fixed(kernel, *arguments)


def _eager(row: Row, arguments: tuple[Any, ...], _conditions: Conditions) -> Candidate:
    return fixed(row.also.get("torch", row.function), *arguments)


def _compiled(row: Row, arguments: tuple[Any, ...], _conditions: Conditions) -> Candidate:
    return fixed(torch.compile(row.also.get("compile", row.function), dynamic=False), *arguments)


def _with_numpy(row: Row, arguments: tuple[Any, ...], _conditions: Conditions) -> Candidate:
    if row.through == "updates":
        return _on_copies(row.numpy, arguments)
    return fixed(row.numpy, *(tensor.numpy() for tensor in arguments))


def _with_numba(row: Row, arguments: tuple[Any, ...], conditions: Conditions) -> Candidate:
    from benchmarks.numpy_kernels import with_numba

    return _on_copies(with_numba(row.function, parallel=conditions.threads > 1), arguments)


def _unscheduled(row: Row, arguments: tuple[Any, ...], _conditions: Conditions) -> Candidate:
    """What TVM makes of Relax's operators by itself, with no schedule of anybody's."""
    return fixed(mlirtri.jit(row.function, pipeline="relax", schedule="none").compile(*arguments), *arguments)


def _on_copies(function: Any, arguments: tuple[Any, ...]) -> Candidate:
    """A call on fresh arguments, which gives what it returns and what it wrote."""

    def candidate() -> Callable[[], Any]:
        copies = [argument.copy() if isinstance(argument, np.ndarray) else argument for argument in arguments]
        return lambda: (function(*copies), *copies)

    return candidate


def _flat(result: Any) -> list[torch.Tensor]:
    """Copies of all numbers of a result."""
    parts = result if isinstance(result, (tuple, list)) else [result]
    nested = [leaf for part in parts for leaf in (_flat(part) if isinstance(part, (tuple, list)) else [part])]
    return [
        torch.from_numpy(np.array(leaf)) if not isinstance(leaf, torch.Tensor) else leaf.clone()
        for leaf in nested
        if isinstance(leaf, (torch.Tensor, np.ndarray, np.generic, int, float))
    ]


def _agree(results: list[torch.Tensor], expected: list[torch.Tensor]) -> bool:
    if len(results) != len(expected):
        return False
    for mine, other in zip(results, expected, strict=True):
        if mine.shape != other.shape:
            return False
        near = max(TOLERANCE.get(tensor.dtype, 0.0) for tensor in (mine, other))
        scale = float(other.abs().double().max()) if other.numel() else 1.0
        if not torch.allclose(mine.double(), other.double(), near, near * max(scale, 1e-30), equal_nan=True):
            return False
    return True


def timed(running: dict[str, Candidate], row: Row, conditions: Conditions) -> dict[str, float]:
    """Median seconds of a call."""
    fresh = row.through == "updates"
    repeats = {}
    for label, candidate in running.items():
        processes.settle()
        repeats[label] = 1 if fresh else _repeats(candidate())
    samples: dict[str, list[float]] = {label: [] for label in running}
    labels, start, rounds = list(running), time.perf_counter(), 0
    while labels and (rounds < 3 or (time.perf_counter() - start < conditions.seconds and rounds < 201)):
        for label in labels[rounds % len(labels) :] + labels[: rounds % len(labels)]:
            samples[label].append(_sample(running[label], repeats[label], fresh, conditions))
        rounds += 1
    return {label: statistics.median(times) for label, times in samples.items()}


def _sample(candidate: Candidate, repeats: int, fresh: bool, conditions: Conditions) -> float:
    """Seconds per call; the calls before it have brought memory and threads into place."""
    if conditions.threads > 1:
        processes.settle()
    if not fresh:
        _warm(candidate(), ALONE if conditions.threads > 1 else WARM)
    call, clock = candidate(), conditions.now
    start = clock()
    for _ in range(repeats):
        call()
    return (clock() - start) / repeats


def _warm(call: Callable[[], Any], seconds: float = WARM) -> None:
    """Call until threads that slept are awake."""
    end = time.perf_counter() + seconds
    call()
    while time.perf_counter() < end:
        call()


def _repeats(call: Callable[[], Any]) -> int:
    _warm(call)
    start = time.perf_counter()
    call()
    once = time.perf_counter() - start
    count = 1
    while once < SAMPLE and count < 1 << 16:
        count *= 4
        start = time.perf_counter()
        for _ in range(count):
            call()
        once = time.perf_counter() - start
    return max(1, round(count * min(1.0, SAMPLE / once)))
