"""The compile loop: run the stages of a pipeline on IR, with one hook between any two."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from mlirtri.compiler.last_failures import keep_failures
from mlirtri.compiler.printing import complete, readable, settle
from mlirtri.compiler.tuning_bar import TuningBar
from mlirtri.compiler.user_stages import check_result
from mlirtri.errors import CompilerBugError, KernelError, KernelValueError, UnknownOptionError
from mlirtri.lowering.core.forks import awaited
from mlirtri.lowering.core.stage import Code, CompileContext, Executable, PassRecord, Stage
from mlirtri.lowering.pipelines import LazyLowering, Pipeline

Hook = Callable[[Stage, Any, CompileContext], Any]
"""Called after each stage with its IR; gives the IR to go on with (the same, or another that was read from a file)."""


COMPILING = awaited(threading.RLock())
"""Held by a compilation: the bindings of MLIR and TVM share state between threads. Running kernels do not wait."""


@dataclass
class StageRecord:
    """The output of one stage. TVM's modules are immutable and printed on demand; MLIR's are not."""

    stage: Stage
    seconds: float
    ir: Any
    """None for MLIR, whose module the next lowering changes."""
    text: str | None = None
    complete_text: str | None = None

    def readable(self) -> str:
        """Return the text that `kernel.ir` shows."""
        if self.text is None:
            self.text = readable(self.stage.kind, self.ir)
        return self.text

    def complete(self) -> str:
        """Return the text of a dump."""
        if self.complete_text is None:
            self.complete_text = complete(self.stage.kind, self.ir)
        return self.complete_text


@dataclass
class Compilation:
    """One compilation from its first stage to its last."""

    context: CompileContext
    records: dict[str, StageRecord] = field(default_factory=dict)
    ir: Any = None
    """What the last stage gave."""

    @property
    def executable(self) -> Executable | None:
        return self.ir.executable if isinstance(self.ir, Code) else None

    @property
    def seconds(self) -> dict[str, float]:
        return {name: record.seconds for name, record in self.records.items()}


class Texts(Mapping[str, str]):
    """Stage name to text, in the order of the pipeline; AKG's stage names are aliases."""

    def __init__(self, compilation: Compilation, pipeline: Pipeline):
        self._compilation = compilation
        self._pipeline = pipeline

    def __getitem__(self, name: str) -> str:
        """Return a stage's text; raises `UnknownOptionError` for one that the pipeline lacks or did not run."""
        stage = name if name in self._compilation.records else self._pipeline.find(name).name
        if stage not in self._compilation.records:
            raise UnknownOptionError(
                f"stage {stage!r} did not run for this kernel", help=f"it was resumed; its stages are {', '.join(self)}"
            )
        return self._compilation.records[stage].readable()

    def __contains__(self, name: object) -> bool:
        try:
            return name in self._compilation.records or self._pipeline.find(str(name)).name in self._compilation.records
        except UnknownOptionError:
            return False

    def get(self, name: str, default: Any = None) -> Any:
        """Return the text of a stage, or `default` if there is none."""
        return self[name] if name in self else default

    def __iter__(self) -> Iterator[str]:
        return iter(self._compilation.records)

    def __len__(self) -> int:
        return len(self._compilation.records)


class Passes(dict[str, str]):
    """Pass name to the text after it, in order; `changed` has the names of those that changed something."""

    def __init__(self, records: list[PassRecord]):
        super().__init__((record.name, record.text) for record in records)
        self.changed = tuple(record.name for record in records if record.changed)


def run_stages(ir: Any, pipeline: Pipeline, context: CompileContext, hook: Hook | None = None) -> Compilation:
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
        start = time.perf_counter()
        ir = settle(stage.kind, _run(stage, ir, context))
        seconds = time.perf_counter() - start
        if hook is not None:
            ir = hook(stage, ir, context)
        result.records[stage.name] = record_of(stage, ir, seconds)
    result.ir = ir
    return result


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


def record_of(stage: Stage, ir: Any, seconds: float) -> StageRecord:
    """Return the record of a stage; MLIR is printed now, before the next lowering changes it."""
    record = StageRecord(stage, seconds, ir)
    if stage.kind == "mlir":
        record.readable()
        record.complete()
        record.ir = None
    return record
