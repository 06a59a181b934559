"""Trace pages that are written while a kernel is compiled, so that a crash leaves what there was: ``MLIRTRI_TRACE``."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

from mlirtri.compiler.printing import complete, readable
from mlirtri.errors import KernelError
from mlirtri.lowering.core.stage import CompileContext, Stage
from mlirtri.trace.data import Trace, TracedKernel, TracedText

_WRITTEN: set[Path] = set()
"""Pages of this process: a second specialization of a kernel has one of its own."""


class LiveTrace:
    """The page of one compilation, written anew after each stage."""

    def __init__(self, folder: Path, kernel: str, pipeline: str) -> None:
        self.kernel, self.pipeline = kernel, pipeline
        names = (f"{kernel}-{pipeline}{f'-{number}' if number > 1 else ''}.html" for number in count(1))
        self.path = next(path for name in names if (path := folder / name) not in _WRITTEN)
        _WRITTEN.add(self.path)
        self._texts: list[TracedText] = []

    def stage(self, stage: Stage, ir: Any, context: CompileContext) -> None:
        """Add a stage that is done, with its passes, and write the page."""
        self._add_passes(stage.name, stage.kind, context)
        located = complete(stage.kind, ir) if stage.kind == "mlir" else None
        self._texts.append(TracedText(stage.name, None, stage.kind, readable(stage.kind, ir), complete=located))
        self._write(context, None)

    def failed(self, stage: Stage, error: KernelError, context: CompileContext) -> None:
        """Add the passes of the stage that failed, and what the error says: it has the reproducer's command."""
        self._add_passes(stage.name, stage.kind, context)
        self._write(context, f"stage {stage.name!r} failed: {error}")

    def _add_passes(self, stage: str, kind: str, context: CompileContext) -> None:
        for step in context.passes.get(stage, ()):
            self._texts.append(
                TracedText(stage, step.name, kind, step.text, step.seconds, step.changed, is_upstream=not step.is_ours)
            )

    def _write(self, context: CompileContext, failure: str | None) -> None:
        from mlirtri.trace.page import write_page  # loads Pygments

        signature = self.kernel
        if context.interface is not None:
            types = ", ".join(f"{parameter.name}: {parameter.type}" for parameter in context.interface.parameters)
            signature = f"{self.kernel}({types})"
        kernel = TracedKernel(
            self.kernel, self.pipeline, signature, str(context.target), tuple(self._texts), failure=failure
        )
        write_page(Trace(signature, (kernel,)), self.path)
