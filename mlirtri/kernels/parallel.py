"""Many kernels at the same time: this process runs their front ends, other processes the stages after them.

A front end reads the user's function and takes a tenth of the time or less. It runs here, one after the other, and each
kernel goes on in a worker while the next one is read. Kernels that are known, or on disk, are not compiled; those of
the same text are compiled once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from mlirtri import settings
from mlirtri.compiler.printing import parse
from mlirtri.compiler.records import COMPILING, Compilation, keep_failures
from mlirtri.compiler.stage_loop import run_stages
from mlirtri.errors import (
    CompileStoppedError,
    CompileTimeoutError,
    KernelError,
    KernelTypeError,
    KernelValueError,
    span_of_definition,
)
from mlirtri.kernels.cached import Kernels, Request, compile_cached, find_on_disk, keep_on_disk
from mlirtri.kernels.kernel import Compiled, Kernel
from mlirtri.kernels.options import resolved
from mlirtri.kernels.remote import (
    Answer,
    code_of,
    compile_task,
    finish_context,
    prepare,
    records_of,
    remote_stages,
    task_of,
)
from mlirtri.kernels.session import Elaborated, elaborate, run_later_stages
from mlirtri.lowering.pipelines import INTERPRETER, LazyLowering, Pipeline
from mlirtri.lowering.toolchain.worker_pool import ExecutorPool, WorkerPool
from mlirtri.lowering.toolchain.worker_process import ProcessDied, ProcessTimedOut

Result = Kernel | KernelError


@dataclass(frozen=True)
class Job:
    """A kernel that is asked for."""

    request: Request
    kernels: Kernels
    """The cache that is to have it."""
    enter: Callable[[Compiled], None]
    """Takes it."""

    @property
    def measures(self) -> bool:
        """Whether compiling it measures schedules, which nothing may run beside."""
        return resolved(self.request.options)[1].startswith("meta")


@dataclass(frozen=True)
class Means:
    """By what kernels are compiled, and how long one may take."""

    executor: Executor | None = None
    workers: int | None = None
    timeout: float | None = None
    progress: bool | None = None

    def __post_init__(self) -> None:
        if self.executor is not None and not callable(getattr(self.executor, "submit", None)):
            raise KernelTypeError(
                f"{self.executor!r} is no executor", help="give one of concurrent.futures, or a cluster's"
            )
        if self.executor is not None and self.workers is not None:
            raise KernelValueError("an executor has its own workers", help="leave out one of `executor` and `workers`")
        if self.workers is not None and not (type(self.workers) is int and self.workers > 0):
            raise KernelValueError(f"workers is a number of processes from 1, not {self.workers!r}")
        is_time = isinstance(self.timeout, (int, float)) and not isinstance(self.timeout, bool)
        if self.timeout is not None and not (is_time and self.timeout > 0):
            raise KernelValueError(f"timeout is a number of seconds above 0, not {self.timeout!r}")

    def pool(self, jobs: Sequence[Job]) -> WorkerPool | ExecutorPool:
        """Return what compiles these, and perhaps less."""
        if self.executor is not None:
            return ExecutorPool(self.executor, self.timeout)
        count = min(self.workers or usable_cpus(), len(jobs))
        return WorkerPool(count, self.timeout, prepare, _modules(jobs))

    @property
    def has_bars(self) -> bool:
        return sys.stderr.isatty() if self.progress is None else self.progress


def usable_cpus() -> int:
    """Return the number of CPUs that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _modules(jobs: Sequence[Job]) -> tuple[str, ...]:
    """Return the modules of the lowerings that the workers will run, in order."""
    stages = [stage for job in jobs for stage in resolved(job.request.options)[2].stages]
    return tuple(dict.fromkeys(stage.run.module for stage in stages if isinstance(stage.run, LazyLowering)))


def compile_all(jobs: Sequence[Job | KernelError], means: Means) -> list[Result]:
    """Return the kernel of each job, or the error that it is or has led to, in order."""
    run = _Run(jobs, means)
    try:
        run.elaborate()
        run.wait()
        run.measure()
    finally:
        run.stop()
    return [run.results[index] for index in range(len(jobs))]


@dataclass
class _Waiting:
    """Kernels of one text: the first one is compiled."""

    indices: list[int]
    elaborated: list[Elaborated]


class _Run:
    def __init__(self, jobs: Sequence[Job | KernelError], means: Means):
        self.jobs = {index: job for index, job in enumerate(jobs) if isinstance(job, Job)}
        self.results: dict[int, Result] = {
            index: _plain(job) for index, job in enumerate(jobs) if isinstance(job, KernelError)
        }
        self.means = means
        self.waiting: dict[Any, _Waiting] = {}
        self.later: list[int] = []
        """Those that measure."""
        self.bars = _Bars(len(jobs), means.has_bars)
        self.bars.elaborated(len(self.results))
        self.bars.compiled(len(self.results))

    @cached_property
    def pool(self) -> WorkerPool | ExecutorPool:
        """Return the workers: they start for the first kernel that has to be compiled."""
        return self.means.pool([job for index, job in self.jobs.items() if index not in self.results])

    def elaborate(self) -> None:
        """Run the front end of each job, and let workers begin with what is there."""
        for index, job in self.jobs.items():
            try:
                self._begin(index, job)
            except KernelError as error:
                self._end(index, error)
            self._take(0.0)
            self.bars.elaborated()

    def _begin(self, index: int, job: Job) -> None:
        if job.measures:
            self.later.append(index)
            return
        with COMPILING:
            begun = _begun(job)
        if isinstance(begun, Compiled):
            self._end(index, begun)
            return
        key = begun.key if begun.is_shared else (begun.key, index)
        if key in self.waiting:
            self.waiting[key].indices.append(index)
            self.waiting[key].elaborated.append(begun)
            return
        with COMPILING:
            task = task_of(begun)
        # The text says all of it.
        begun.front.ir = None
        self.pool.submit(key, compile_task, task)
        self.waiting[key] = _Waiting([index], [begun])

    def wait(self) -> None:
        """Take what the workers give until nothing is left."""
        while self.waiting:
            self._take()

    def _take(self, *patience: float) -> None:
        if not self.waiting:
            return
        try:
            for key, outcome in self.pool.finished(*patience):
                self._finish(self.waiting.pop(key), outcome)
        except (ProcessDied, KernelError) as problem:
            reason = problem.message if isinstance(problem, KernelError) else f"it {problem}"
            while self.waiting:
                _, waiting = self.waiting.popitem()
                self._finish(waiting, CompileStoppedError(f"a worker could not start: {reason}"))

    def _finish(self, waiting: _Waiting, outcome: Any) -> None:
        first, *others = waiting.indices
        job = self.jobs[first]
        try:
            compiled = _compiled(waiting.elaborated[0], outcome, job)
        except KernelError as error:
            for index in waiting.indices:
                self._end(index, error)
            return
        self._end(first, compiled)
        with COMPILING:
            keep_on_disk(job.request, compiled)
        for index, elaborated in zip(others, waiting.elaborated[1:], strict=True):
            self._end(index, elaborated.known(self.jobs[index].kernels) or replace(compiled, is_new=False))

    def measure(self) -> None:
        """Compile what measures, with no worker beside it."""
        if self.later:
            self.stop_workers()
        for index in self.later:
            self.results[index] = compile_here(self.jobs[index])
            self.bars.compiled()

    def _end(self, index: int, outcome: Compiled | KernelError) -> None:
        self.results[index] = _entered(self.jobs[index], outcome)
        self.bars.compiled()

    def stop_workers(self) -> None:
        if "pool" in self.__dict__:
            self.pool.stop()

    def stop(self) -> None:
        """End the workers, also those at work, and leave the bars as they are."""
        self.stop_workers()
        self.bars.close()


def compile_here(job: Job) -> Result:
    """Return the kernel of a job, compiled by this process, or the error that it leads to."""
    try:
        with COMPILING:
            return _entered(job, compile_cached(job.request, job.kernels))
    except KernelError as error:
        return _plain(error)


def _entered(job: Job, outcome: Compiled | KernelError) -> Result:
    if isinstance(outcome, KernelError):
        return _plain(outcome)
    job.enter(outcome)
    return outcome.kernel


def _plain(error: KernelError) -> KernelError:
    """Return an error without frames, as one that is raised has none of ours."""
    if not settings.get("MLIRTRI_DEBUG"):
        error.__cause__ = error.__context__ = None
        error.__traceback__ = None
    return error


def _begun(job: Job) -> Compiled | Elaborated:
    """Return the kernel if nothing has to be sent for it, else the compilation after its front end."""
    request = job.request
    if (stored := find_on_disk(request, job.kernels)) is not None:
        return stored
    elaborated = elaborate(request.function, request.specialization, request.options)
    if (known := elaborated.known(job.kernels)) is not None:
        return known
    # The front end was all, or the kernel is interpreted.
    if elaborated.pipeline.name == INTERPRETER or not remote_stages(elaborated).stages:
        return run_later_stages(elaborated, job.kernels)
    return elaborated


def _compiled(elaborated: Elaborated, outcome: Any, job: Job) -> Compiled:
    """Return the kernel of a worker's answer; raises the error that is the outcome instead."""
    function = job.request.function
    if isinstance(outcome, ProcessTimedOut):
        raise CompileTimeoutError(f"compiling {function.__qualname__} {outcome}", span_of_definition(function))
    if isinstance(outcome, ProcessDied):
        raise CompileStoppedError(
            f"the worker that compiled {function.__qualname__} {outcome}", span_of_definition(function)
        )
    if isinstance(outcome, KernelError):
        raise outcome
    answer: Answer = outcome
    context, stages = elaborated.front.context, remote_stages(elaborated)
    finish_context(context, answer)
    records = records_of(answer, stages)
    elaborated.observer.replay(Compilation(context, records))
    with COMPILING:
        ir, folder = code_of(answer)
        rest = Pipeline(elaborated.back.name, elaborated.back.stages[len(stages.stages) :])
        if rest.stages:
            last = list(records.values())[-1]
            later = run_stages(parse(last.stage.kind, last.complete()), rest, context, elaborated.observer)
            records, ir = {**records, **later.records}, later.ir
        compiled = elaborated.finished(records, ir, job.kernels)
    # The kernel's code lies in these files.
    compiled.kernel.files = folder
    if context.warnings:
        keep_failures(context.kernel, context.warnings)
    return compiled


class _Bars:
    """Two bars on a terminal: how many kernels the front end has read, and how many are compiled."""

    def __init__(self, total: int, is_shown: bool):
        self._progress: Any = None
        if not is_shown or not total:
            return
        from rich.console import Console  # late: only a terminal has bars
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._progress = Progress(*columns, console=Console(stderr=True))
        self._elaborated = self._progress.add_task("elaborate", total=total)
        self._compiled = self._progress.add_task("compile", total=total)
        self._progress.start()

    def elaborated(self, count: int = 1) -> None:
        """Note kernels that the front end has read, or refused."""
        if self._progress is not None:
            self._progress.advance(self._elaborated, count)

    def compiled(self, count: int = 1) -> None:
        """Note kernels that are there, or cannot be compiled."""
        if self._progress is not None:
            self._progress.advance(self._compiled, count)

    def close(self) -> None:
        """Leave the last state of the bars on the screen."""
        if self._progress is not None:
            self._progress.stop()
