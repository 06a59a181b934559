"""Kernel by kernel: what each launch of a call costs, in every pipeline by the same definitions.

A launch of TVM's code is timed from outside, a loop nest of MLIR's by clocks that a second compilation has inside.
"""

from __future__ import annotations

import linecache
import re
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from typing import Any

import numpy as np
import torch

from mlirtri.compiler.records import Compilation
from mlirtri.errors import KernelError
from mlirtri.kernels.kernel import Kernel
from mlirtri.lowering.core.stage import Code, Stage
from mlirtri.lowering.core.target import Target
from mlirtri.lowering.pipelines import WITHOUT_TVM, Pipeline, pipeline_for
from mlirtri.measure.columns import Column
from mlirtri.measure.comparison import UNTIMED, Contender, preparation, run_each
from mlirtri.measure.machine_limits import Limits, limits, raised_limits
from mlirtri.measure.rows import LaunchCost
from mlirtri.measure.subjects import Subject

CALLS = 20
"""Calls in which launches are timed; the median counts."""
_SURE_SECONDS = 2e-6
"""Above which a kernel's time says that limits are too low: clocks are no finer."""
_LEAST_SECONDS = 1e-7
"""Below which a time is the clock's own, and no share of the roofline can be told."""
_LONGEST = 1_000_000
"""Characters of stage `llvmdialect` beyond which a trace compiles no second time."""
_LOCATION = re.compile(r'"mlirtri\.loc": "([^"]+):(\d+):\d+"')


def add_costs(contenders: Sequence[Contender], subject: Subject, names: Sequence[str]) -> list[str]:
    """Give the row of each contender that ran its launches; return sentences on those that could not be timed."""
    notes = []
    for contender in contenders:
        if not contender.runs or contender.kernel is None:
            continue
        if contender.kernel.target.is_cuda:
            contender.row = replace(contender.row, launches=_on_cuda(contender.kernel))
            continue
        if subject.is_observed and _is_long(contender.kernel):
            contender.row = replace(contender.row, launches=tuple(_untimed_nests(contender.kernel)))
            notes.append(f"{contender.row.name}: kernels of a large program are timed by `mlirtri profile` alone")
            continue
        try:
            with torch.no_grad(), np.errstate(all="ignore"):
                prepare = preparation(contender, subject, names) or partial(run_each, ())
                launches, between = _launches(contender, subject, prepare)
            contender.row = replace(contender.row, launches=tuple(launches), between_seconds=between)
        except KernelError as error:
            notes.append(f"{contender.row.name}: its kernels could not be timed one by one: {error.message}")
    timed = [contender for contender in contenders if contender.row.launches]
    known = _limits_for([launch for contender in timed for launch in contender.row.launches])
    for contender in timed:
        launches = tuple(_with_roofline(launch, known) for launch in contender.row.launches)
        contender.row = replace(contender.row, launches=launches)
    return notes


def _limits_for(launches: Sequence[LaunchCost]) -> Limits | None:
    """Return the limits of this machine, measured again where a launch is faster; None if none was timed."""
    sure = [launch for launch in launches if launch.seconds is not None and launch.seconds > _SURE_SECONDS]
    if not any(launch.seconds for launch in launches):
        return None
    known = limits()
    if any(known.least_seconds(launch.flops, launch.bytes) > (launch.seconds or 0.0) for launch in sure):
        return raised_limits()
    return known


def _with_roofline(launch: LaunchCost, known: Limits | None) -> LaunchCost:
    if known is None or launch.seconds is None or launch.seconds < _LEAST_SECONDS:
        return launch
    return replace(launch, roofline=known.least_seconds(launch.flops, launch.bytes) / launch.seconds)


def _on_cuda(kernel: Kernel) -> tuple[LaunchCost, ...]:
    """Return the launches of a CUDA kernel with the threads of all blocks; they have no times."""
    untimed = UNTIMED if kernel.target.is_emulated else "not timed"
    return tuple(
        LaunchCost(
            each.kernel,
            None,
            each.bytes,
            None,
            None if None in each.grid else prod(each.grid) * each.threads,
            untimed=untimed,
        )
        for each in kernel.stats.get("launches", ())
    )


def _launches(
    contender: Contender, subject: Subject, prepare: Callable[[], None]
) -> tuple[list[LaunchCost], float | None]:
    """Return each launch, and the seconds of a call between them."""
    kernel = contender.kernel
    assert kernel is not None
    if kernel.pipeline.name in WITHOUT_TVM:
        return _of_nests(contender, subject, prepare)
    if getattr(kernel.compilation.executable, "plan", None) is None:
        return [], None
    clocks = _Clocks()
    timed = _with_clocks(kernel, clocks)
    call = subject.call_of(timed, contender.values)
    times, between = _timed(call, prepare, clocks.taken)
    costs = _costs_by_function(kernel)
    names = clocks.names[-len(times) :]
    return [replace(costs[name], seconds=seconds) for name, seconds in zip(names, times, strict=True)], between


def _timed(
    call: Callable[[], Any], prepare: Callable[[], None], taken: Callable[[], list[float]]
) -> tuple[list[float], float]:
    """Return the median seconds of each launch, which `taken` gives after a call, and those outside of all."""
    rounds, outside = [], []
    for _ in range(CALLS):
        prepare()
        start = time.perf_counter()
        call()
        whole = time.perf_counter() - start
        rounds.append(taken())
        outside.append(whole - sum(rounds[-1]))
    # The first calls also run what runs once.
    kept = [number for number, launches in enumerate(rounds) if len(launches) == len(rounds[-1])]
    times = [statistics.median(seconds) for seconds in zip(*(rounds[number] for number in kept), strict=True)]
    return times, max(0.0, statistics.median(outside[number] for number in kept))


@dataclass
class _Clocks:
    """Wraps compiled functions so that each call of one is timed."""

    seconds: list[float] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    def taken(self) -> list[float]:
        """Return the seconds of each launch since the last time that this was asked."""
        seconds, self.seconds = self.seconds, []
        return seconds

    def of(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any) -> None:
            start = time.perf_counter()
            function(*arguments)
            self.seconds.append(time.perf_counter() - start)
            self.names.append(name)

        return timed


def _with_clocks(kernel: Kernel, clocks: _Clocks) -> Kernel:
    from mlirtri.lowering.runtime.tvm_executable import make_executable  # loads TVM's runtime

    executable = kernel.compilation.executable
    library = executable.library  # type: ignore[union-attr]
    module = library.module if library is not None else {}
    timed = make_executable(executable.plan, lambda name: clocks.of(name, module[name]), library)  # type: ignore[union-attr]
    # The calls that are written as Python would take the functions' own handles.
    return _with_executable(kernel, replace(timed, data=None))


def _with_executable(kernel: Kernel, executable: Any) -> Kernel:
    """Return a kernel that differs in its executable only."""
    compilation = kernel.compilation
    changed = object.__new__(type(kernel))
    changed.__dict__.update(kernel.__dict__)
    changed.compilation = Compilation(compilation.context, compilation.records, Code("", executable))
    changed._runner = None
    changed.__call__ = changed._first_call
    return changed


def _costs_by_function(kernel: Kernel) -> dict[str, LaunchCost]:
    from mlirtri.lowering.toolchain.tvm_passes import estimated_flops, prim_funcs

    plan = kernel.compilation.executable.plan  # type: ignore[union-attr]
    before = dict(prim_funcs(kernel.compilation.records["tir"].ir))
    after = dict(prim_funcs(kernel.compilation.records["scheduled"].ir))
    costs = {}
    for step in plan.steps:
        if step.kernel is None:
            continue
        name, moved = str(step.kernel), sum(plan.values[value].bytes for value in {*step.inputs, *step.outputs})
        text = str(before.get(name, ""))
        place = (location[1], int(location[2])) if (location := _LOCATION.search(text)) else None
        threads = kernel.target.threads if "T.parallel(" in str(after.get(name, "")) else 1
        flops = estimated_flops(before[name]) if name in before else None
        moved = moved if plan.is_static else None
        costs[name] = LaunchCost(name, None, moved, flops, threads, None, *_where(place))
    return costs


def _where(place: tuple[str, int] | None) -> tuple[str, str]:
    """Return ``file:line`` without the folder, and what stands there; linecache has the nodes of a model, too."""
    if place is None:
        return "", ""
    file, line = place
    shown = file.rpartition("/")[2]
    # The nodes of a model are lines of a file of this name.
    shown = f"<nodes of {shown}" if file.startswith("<nodes of ") and not shown.startswith("<") else shown
    return f"{shown}:{line}", linecache.getline(file, line).strip()


def _of_nests(contender: Contender, subject: Subject, prepare: Callable[[], None]) -> tuple[list[LaunchCost], float]:
    from mlirtri.lowering.mlir_backend.bufferize.timed_nests import TimedNests  # loads MLIR

    nests = TimedNests()
    assert contender.column is not None
    column, options = contender.column, contender.column.options
    assert options.pipeline is not None, "a column has a pipeline"
    edited = _timed_pipeline(options.pipeline, column.target, nests)
    timed = Column(f"{column.name} timed", replace(options, pipeline=edited), column.variables)
    with timed.environment():
        kernel = subject.compile_once(timed)
    call = subject.call_of(kernel, contender.values)
    times, between = _timed(call, prepare, nests.seconds)
    threads = None if "omp.parallel" in kernel.ir["llvmdialect"] else 1
    costs = [
        LaunchCost(nest.name, seconds, nest.bytes, nest.flops, threads, None, *_where(nest.line))
        for nest, seconds in zip(nests.nests, times, strict=True)
    ]
    return costs, between


def _is_long(kernel: Kernel) -> bool:
    """Return whether a second compilation, with clocks, would take as long as a trace's pages of all pipelines."""
    return kernel.pipeline.name in WITHOUT_TVM and len(kernel.ir["llvmdialect"]) > _LONGEST


def _untimed_nests(kernel: Kernel) -> list[LaunchCost]:
    from mlirtri.compiler.printing import parse  # loads MLIR
    from mlirtri.lowering.mlir_backend.bufferize.timed_nests import nests_of

    module = parse("mlir", kernel.compilation.records[_last_of_nests(kernel.pipeline)].complete())
    return [
        LaunchCost(nest.name, None, nest.bytes, nest.flops, None, None, *_where(nest.line), untimed="not timed")
        for nest in nests_of(module)
    ]


def _last_of_nests(pipeline: Pipeline) -> str:
    # Polyhedral passes move loops across clocks: those stand around what they made.
    return "poly" if "poly" in pipeline.names else "bufferized"


def _timed_pipeline(pipeline: str | Pipeline, target: Target, nests: Any) -> Pipeline:
    chosen = pipeline_for(pipeline, target)
    return chosen.insert_after(_last_of_nests(chosen), Stage("timed", "mlir", nests.insert))
