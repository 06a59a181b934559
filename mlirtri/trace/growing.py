"""The page of one kernel while it is compiled: each text is read, coloured and packed once, when it is added."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mlirtri.trace.chunks import LineTable, OriginTable
from mlirtri.trace.data import Trace, TracedKernel, TracedText
from mlirtri.trace.page import Contents, OriginsOfTexts, kernel_row, rendered, source_of, text_row, write_html
from mlirtri.trace.source_lines import main_file


class GrowingPage:
    """A page to which texts are added in the order of the stages; `write` may be called after each.

    What it writes anew each time is what was packed before, and the list: the texts themselves are not kept.
    """

    def __init__(self) -> None:
        self._contents = Contents(LineTable(), OriginTable(None), [], [], None)
        self._origins = OriginsOfTexts()
        self._distinct: set[tuple[str, int]] = set()
        self._rows: list[dict[str, Any]] = []
        self._texts: list[TracedText] = []

    def add(self, texts: Sequence[TracedText]) -> None:
        """Add the texts of a stage's passes and of the stage."""
        contents, found = self._contents, self._origins.of(texts)
        if contents.origins.file is None:
            # No line of an earlier text comes from a file.
            contents.origins = OriginTable(main_file(found))
        self._distinct |= {origin for lines in found for each in lines for origin in each}
        for text, lines in zip(texts, found, strict=True):
            self._rows.append(text_row(text, lines, contents.origins, contents.table, contents.bodies))
            self._texts.append(replace(text, text="", complete=None))

    def write(self, kernel: TracedKernel, path: Path) -> None:
        """Write the page of a kernel, which is given without texts."""
        contents = self._contents
        contents.kernels = [kernel_row(kernel, self._rows)]
        contents.source = source_of(contents.origins, self._distinct, contents.table)
        page = rendered(Trace(kernel.signature, (replace(kernel, texts=tuple(self._texts)),)), contents)
        write_html(page, path)
