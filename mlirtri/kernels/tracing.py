"""Kernels as traces: the texts of their stages and passes, what fusion decided, and how long all took."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mlirtri.compiler.records import Compilation
from mlirtri.errors import KernelError
from mlirtri.kernels.kernel import Kernel
from mlirtri.lowering.core.stage import Edge
from mlirtri.trace.data import Trace, TracedKernel, TracedText
from mlirtri.trace.page import write_page

LONGEST = 20_000_000
"""Characters of a text beyond which a page leaves it out: a browser would not show it."""


def traced(kernel: Kernel, launches: Sequence[Any] = ()) -> TracedKernel:
    """Return what a page shows of a kernel; compiles once more where the texts after passes were not kept."""
    texts = texts_of(kernel.observed)
    return TracedKernel(
        kernel.name, kernel.pipeline.name, kernel.signature, str(kernel.target), texts, _edges(kernel), tuple(launches)
    )


def texts_of(compilation: Compilation) -> tuple[TracedText, ...]:
    """Return the texts of a compilation, the passes of a stage before the stage."""
    texts: list[TracedText] = []
    for name, record in compilation.records.items():
        kind = record.stage.kind
        texts += [
            TracedText(
                name, step.name, kind, _short(step.text), step.seconds, step.changed, is_upstream=not step.is_ours
            )
            for step in compilation.context.passes.get(name, ())
        ]
        complete = record.complete() if kind == "mlir" else None
        texts.append(TracedText(name, None, kind, _short(record.readable()), record.seconds, complete=complete))
    return tuple(texts)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{len(text)} characters are left out: see MLIRTRI_DUMP_DIR"


def _edges(kernel: Kernel) -> tuple[Edge, ...]:
    try:
        return kernel.fusion.edges
    except KernelError:
        # A kernel that was resumed behind these stages has none.
        return ()


def write_trace(kernels: Sequence[Kernel], path: Path) -> None:
    """Write a page of these kernels, side by side."""
    title = ", ".join(dict.fromkeys(kernel.signature for kernel in kernels))
    write_page(Trace(title, tuple(map(traced, kernels))), path)
