"""The compile loop: IR walks through the stages of a pipeline, and one hook sees it between any two.

Takes the IR of the first stage's input, a pipeline and a context. Gives a `Walk`: the text and time of every stage and
what runs at the end. The hook verifies, prints, dumps and replaces: every stage gets the same.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from mlirtri.compiler.printing import complete, readable, settle
from mlirtri.compiler.tuning_bar import TuningBar
from mlirtri.errors import CompilerBugError, KernelError, KernelValueError, UnknownOptionError
from mlirtri.lowering.core.forks import awaited
from mlirtri.lowering.core.stage import Code, CompileContext, Executable, PassRecord, Stage
from mlirtri.lowering.pipelines import LazyLowering, Pipeline

Hook = Callable[[Stage, Any, CompileContext], Any]
"""Called after each stage with its IR; gives the IR to go on with (the same, or another that was read from a file)."""


COMPILING = awaited(threading.RLock())
"""One walk at a time: MLIR's bindings and TVM's compiler share state between threads. Running kernels do not wait."""


@dataclass
class StageRecord:
    """What one stage made. TVM's modules never change, so their text is made when somebody asks; MLIR's do."""

    stage: Stage
    seconds: float
    ir: Any
    """None for MLIR, whose module the next room changes."""
    text: str | None = None
    complete_text: str | None = None

    def readable(self) -> str:
        """What `kernel.ir` shows."""
        if self.text is None:
            self.text = readable(self.stage.kind, self.ir)
        return self.text

    def complete(self) -> str:
        """What a dump holds."""
        if self.complete_text is None:
            self.complete_text = complete(self.stage.kind, self.ir)
        return self.complete_text


@dataclass
class Walk:
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
    """Stage name to text, in the order of the walk; AKG's names find their counterparts."""

    def __init__(self, walk: Walk, pipeline: Pipeline):
        self._walk = walk
        self._pipeline = pipeline

    def __getitem__(self, name: str) -> str:
        """Raises `UnknownOptionError` for a stage that the pipeline lacks, or that a resumed kernel did not run."""
        stage = name if name in self._walk.records else self._pipeline.find(name).name
        if stage not in self._walk.records:
            raise UnknownOptionError(
                f"stage {stage!r} did not run for this kernel", help=f"it was resumed; its stages are {', '.join(self)}"
            )
        return self._walk.records[stage].readable()

    def __contains__(self, name: object) -> bool:
        try:
            return name in self._walk.records or self._pipeline.find(str(name)).name in self._walk.records
        except UnknownOptionError:
            return False

    def get(self, name: str, default: Any = None) -> Any:
        """The text of a stage, or `default` where there is none."""
        return self[name] if name in self else default

    def __iter__(self) -> Iterator[str]:
        return iter(self._walk.records)

    def __len__(self) -> int:
        return len(self._walk.records)


class Passes(dict[str, str]):
    """Pass name to text after it, in order; `changed` has the names of those that changed something."""

    def __init__(self, records: list[PassRecord]):
        super().__init__((record.name, record.text) for record in records)
        self.changed = tuple(record.name for record in records if record.changed)


def walk(ir: Any, pipeline: Pipeline, context: CompileContext, hook: Hook | None = None) -> Walk:
    """Run every stage of the pipeline on `ir`; raises the `KernelError` of the first that refuses."""
    bar = TuningBar()
    context.on_trial = context.on_trial or bar
    try:
        with COMPILING:
            return _walk(ir, pipeline, context, hook)
    finally:
        bar.close()


def _walk(ir: Any, pipeline: Pipeline, context: CompileContext, hook: Hook | None) -> Walk:
    result = Walk(context)
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
    try:
        return stage.run(ir, context)
    except KernelError:
        raise
    except RecursionError:
        raise KernelValueError(
            "an expression of the kernel is nested too deeply", help="give parts of it names, in other statements"
        ) from None
    except Exception as error:
        # A stage of the user's own fails as their code does.
        if not isinstance(stage.run, LazyLowering):
            raise
        raise CompilerBugError(error, f"stage {stage.name!r}") from error


def record_of(stage: Stage, ir: Any, seconds: float) -> StageRecord:
    """The record of a stage; the text of MLIR is made now, before the next room changes it."""
    record = StageRecord(stage, seconds, ir)
    if stage.kind == "mlir":
        record.readable()
        record.complete()
        record.ir = None
    return record
