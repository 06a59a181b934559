"""How long a compilation takes: each in a fork of a process that has imported everything and compiled nothing.

``torch.compile`` compiles at its first call, which is counted with it, with its caches on disk switched off.
"""

from __future__ import annotations

import inspect
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

import mlirtri
from benchmarks.processes import in_own_process
from benchmarks.table import OURS, Row

ENOUGH = 2.0
"""Seconds of one compilation after which it is not repeated."""
SAMPLES = 3


def measure(row: Row, clock: str, peers: Sequence[str]) -> dict[str, Any]:
    """Median seconds by candidate, and why others have none."""
    makers = {OURS: _ours, "compile": _by_torch} if row.through == "compile" else {OURS: _process}
    seconds, why = {}, {}
    for label, make in makers.items():
        if label != OURS and label not in peers:
            continue
        samples = []
        while len(samples) < SAMPLES and sum(samples) < ENOUGH:
            outcome = in_own_process(lambda make=make: {"seconds": make(row, _now(clock))})
            if "error" in outcome:
                why[label] = outcome["error"]
                break
            samples.append(outcome["seconds"])
        else:
            seconds[label] = statistics.median(samples)
    return {"seconds": seconds, "why": why}


def _now(clock: str) -> Callable[[], float]:
    """Compilers may use threads: their time counts, too."""
    return time.process_time if clock == "cpu" else time.perf_counter


def _ours(row: Row, clock: Callable[[], float]) -> float:
    arguments, module = row.make(), _module_of(row)
    os.environ["MLIRTRI_CACHE"] = "0"
    start = clock()
    if module is None:
        mlirtri.jit(row.function).compile(*arguments)
    else:
        mlirtri.from_torch(module, arguments).compile()
    return clock() - start


def _by_torch(row: Row, clock: Callable[[], float]) -> float:
    os.environ["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"
    arguments, module = row.make(), _module_of(row)
    start = clock()
    with torch.no_grad():
        torch.compile(row.function if module is None else module, dynamic=False)(*arguments)
    return clock() - start


def _module_of(row: Row) -> torch.nn.Module | None:
    """The module, where the row's function makes one."""
    return None if inspect.signature(row.function).parameters else row.function()


def _process(row: Row, _now: Callable[[], float]) -> float:
    """A new interpreter, its imports, the compilation and the first call."""
    program = (
        f"import mlirtri; from benchmarks.table import ROWS; row = next(r for r in ROWS if r.title == {row.title!r});"
        "mlirtri.jit(row.function)(*row.make())"
    )
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).resolve().parent.parent)
    return time.perf_counter() - start
