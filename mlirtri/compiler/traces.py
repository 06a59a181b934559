"""What trace pages show of a compilation, and the pages of ``MLIRTRI_TRACE``.

The latter are written after each stage while a kernel is compiled, so that a crash leaves the stages before it.
"""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

from mlirtri.compiler.records import Compilation, StageRecord
from mlirtri.errors import KernelError
from mlirtri.lowering.core.stage import CompileContext, Stage, StageIR
from mlirtri.trace.data import TracedKernel, TracedText

LONGEST = 20_000_000
"""Characters of a text beyond which a page leaves it out: a browser would not show it."""
_WRITTEN: set[Path] = set()
"""Pages of this process: a second specialization of a kernel has one of its own."""


def texts_of(compilation: Compilation) -> tuple[TracedText, ...]:
    """Return the texts of a compilation, the passes of a stage before the stage."""
    context = compilation.context
    return tuple(text for record in compilation.records.values() for text in _texts_of_stage(record, context))


def _texts_of_stage(record: StageRecord, context: CompileContext) -> list[TracedText]:
    stage = record.stage
    located = record.complete() if stage.kind == "mlir" else None
    text = TracedText(stage.name, None, stage.kind, _short(record.readable()), record.seconds or None, complete=located)
    return [*_texts_of_passes(stage, context), text]


def _texts_of_passes(stage: Stage, context: CompileContext) -> list[TracedText]:
    name, kind = stage.name, stage.kind
    return [
        TracedText(name, step.name, kind, _short(step.text), step.seconds, step.changed, is_upstream=not step.is_ours)
        for step in context.passes.get(name, ())
    ]


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{len(text)} characters are left out: see MLIRTRI_DUMP_DIR"


class LiveTrace:
    """The page of one compilation, which is there after each stage with all stages before."""

    def __init__(self, folder: Path, kernel: str, pipeline: str) -> None:
        self.kernel, self.pipeline = kernel, pipeline
        names = (f"{kernel}-{pipeline}{f'-{number}' if number > 1 else ''}.html" for number in count(1))
        self.path = next(path for name in names if (path := folder / name) not in _WRITTEN)
        _WRITTEN.add(self.path)
        self._page: Any = None

    def stage(self, stage: Stage, ir: StageIR, context: CompileContext) -> None:
        """Add a stage that is done, with its passes, and write the page."""
        self._write(_texts_of_stage(StageRecord(stage, 0.0, ir), context), context, None)

    def failed(self, stage: Stage, error: KernelError, context: CompileContext) -> None:
        """Add the passes of the stage that failed, and what the error says: it has the reproducer's command."""
        self._write(_texts_of_passes(stage, context), context, f"stage {stage.name!r} failed: {error}")

    def _write(self, texts: list[TracedText], context: CompileContext, failure: str | None) -> None:
        from mlirtri.trace.page import GrowingPage  # loads Pygments

        signature = self.kernel
        if context.interface is not None:
            types = ", ".join(f"{parameter.name}: {parameter.type}" for parameter in context.interface.parameters)
            signature = f"{self.kernel}({types})"
        self._page = self._page or GrowingPage()
        self._page.add(texts)
        kernel = TracedKernel(self.kernel, self.pipeline, signature, str(context.target), (), failure=failure)
        self._page.write(kernel, self.path)
