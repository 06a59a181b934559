"""The compile loop: run the stages of a pipeline on IR, with one hook between any two."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from mlirtri.compiler.printing import settle
from mlirtri.compiler.records import COMPILING, Compilation, StageRecord, keep_failures
from mlirtri.compiler.user_stages import check_result
from mlirtri.errors import CompilerBugError, KernelError, KernelValueError
from mlirtri.lowering.core.stage import CompileContext, Stage, StageIR
from mlirtri.lowering.pipelines import LazyLowering, Pipeline

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from mlirtri.lowering.schedule.meta.process import Trial

Hook = Callable[[Stage, StageIR, CompileContext], StageIR]
"""Called after each stage with its IR; gives the IR to go on with (the same, or another that was read from a file)."""


def run_stages(ir: StageIR, pipeline: Pipeline, context: CompileContext, hook: Hook | None = None) -> Compilation:
    """Run every stage of the pipeline on `ir`; raises the `KernelError` of the first that refuses."""
    bar = TuningBar()
    context.on_trial = context.on_trial or bar
    try:
        with COMPILING:
            return _run_all(ir, pipeline, context, hook)
    finally:
        bar.close()
        if context.warnings:
            keep_failures(context.kernel, context.warnings)


def _run_all(ir: Any, pipeline: Pipeline, context: CompileContext, hook: Hook | None) -> Compilation:
    result = Compilation(context)
    for stage in pipeline.stages:
        context.stage = stage.name
        result.loading += _load(stage)
        start = context.since = time.perf_counter()
        try:
            ir = settle(stage.kind, _run(stage, ir, context))
        except KernelError as error:
            if context.on_failure is not None:
                context.on_failure(stage, error, context)
            raise
        seconds = time.perf_counter() - start
        if hook is not None:
            ir = hook(stage, ir, context)
        result.records[stage.name] = record_of(stage, ir, seconds)
    result.ir = ir
    return result


def _load(stage: Stage) -> float:
    """Import what a stage needs, MLIR and TVM too, and return the seconds; a failure is for the stage to raise."""
    start = time.perf_counter()
    if isinstance(stage.run, LazyLowering):
        with suppress(Exception):
            stage.run.load()
    return time.perf_counter() - start


def _run(stage: Stage, ir: Any, context: CompileContext) -> Any:
    if not isinstance(stage.run, LazyLowering):
        # Errors of a user's stage are raised as they are.
        result = stage.run(ir, context)
        check_result(stage, result, context)
        return result
    try:
        return stage.run(ir, context)
    except KernelError:
        raise
    except RecursionError:
        raise KernelValueError(
            "an expression of the kernel is nested too deeply", help="give parts of it names, in other statements"
        ) from None
    except Exception as error:
        raise CompilerBugError(error, f"stage {stage.name!r}") from error


def record_of(stage: Stage, ir: StageIR, seconds: float) -> StageRecord:
    """Return the record of a stage; MLIR is printed now, before the next lowering changes it."""
    record = StageRecord(stage, seconds, ir)
    if stage.kind == "mlir":
        from mlirtri.dialect.working_context import note_letters  # loads MLIR

        record.readable()
        note_letters(len(record.complete()))
        record.ir = None
    return record


class TuningBar:
    """The progress of a search for schedules (`schedule="meta"`), on a terminal: a bar per function.

    It is called with each `Trial`, until the compile loop closes it.
    """

    def __init__(self) -> None:
        self._progress: Progress | None = None
        self._bars: dict[str, TaskID] = {}

    def __call__(self, trial: Trial) -> None:
        if not sys.stderr.isatty():
            return
        progress = self._progress or self._start()
        if trial.name not in self._bars:
            self._bars[trial.name] = progress.add_task(trial.name, total=trial.wanted, times="")
        progress.update(self._bars[trial.name], completed=trial.done, times=_times_of(trial))

    def _start(self) -> Progress:
        from rich.console import Console  # late, as below: only a search for schedules has a bar
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
            TextColumn("{task.fields[times]}"),
        )  # fmt: skip
        self._progress = Progress(*columns, console=Console(stderr=True))
        self._progress.start()
        return self._progress

    def close(self) -> None:
        """Leave the last state of the bars on the screen."""
        if self._progress is not None:
            self._progress.stop()
        self._progress, self._bars = None, {}


def _times_of(trial: Trial) -> str:
    shown = [(trial.best, ""), (trial.default, "default ")]
    return ", ".join(f"{name}{seconds * 1e6:.1f} µs" for seconds, name in shown if seconds is not None)
