"""The page: its contents as JSON, texts in compressed chunks, the plots, and the scripts that show them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import repeat
from pathlib import Path
from typing import Any

from mlirtri.trace.chunks import LINES_PER_CHUNK, LineTable, OriginTable, packed_text
from mlirtri.trace.data import Trace, TracedKernel, TracedText
from mlirtri.trace.plots import edge_rows, fusion_graph, roofline, times
from mlirtri.trace.source_lines import Lines, main_file, source_lines

_FOLDER = Path(__file__).parent
_AROUND = 400
"""Lines of the user's file that are shown before the first and after the last that any text comes from."""


_SCRIPTS = ("lines.js", "difference.js", "pane.js", "search.js", "page.js")


@dataclass(frozen=True)
class Watched:
    """That a page is loaded again when a newer one is written."""

    file: str
    """The script beside the page, which has the newest page's stamp."""
    stamp: str
    """Which page this is."""


def trace_page(trace: Trace, watched: Watched | None = None) -> str:
    """Return the page of a trace: one file of HTML that needs nothing else."""
    found = [_OriginsOfTexts().of(kernel.texts) for kernel in trace.kernels]
    table, origins = LineTable(), OriginTable(main_file([lines for kernel in found for lines in kernel]))
    distinct = {origin for kernel in found for text in kernel for each in text for origin in each}
    source = _source_of(origins, distinct, table)
    bodies = _Bodies()
    kernels = []
    for kernel, lines in zip(trace.kernels, found, strict=True):
        pairs = zip(kernel.texts, lines, strict=True)
        kernels.append(_kernel_row(kernel, [_text_row(*pair, origins, table, bodies) for pair in pairs]))
    return _rendered(trace, _Contents(table, origins, bodies, kernels, source), watched)


class _Bodies:
    """The packed lines of texts; equal texts of the same lines of the user's have one."""

    def __init__(self) -> None:
        self.packed: list[str] = []
        self._last: dict[str, tuple[str, Lines | None, int]] = {}
        """By kind, the text that was packed last: passes that change nothing leave it as it is."""

    def number(self, text: TracedText, found: Lines, pack: Callable[[], str]) -> int:
        """Return the number of a text's lines, which are packed if the text before was another."""
        last, origins, number = self._last.get(text.kind, ("", None, -1))
        if last != text.text or origins != found:
            number = len(self.packed)
            self.packed.append(pack())
            self._last[text.kind] = text.text, found, number
        return number


@dataclass
class _Contents:
    """What the texts of a page are packed into, and the rows of its list."""

    table: LineTable
    origins: OriginTable
    bodies: _Bodies
    kernels: list[dict[str, Any]]
    source: dict[str, Any] | None


def _rendered(trace: Trace, contents: _Contents, watched: Watched | None = None) -> str:
    """Return the page of a trace whose texts are packed."""
    table = contents.table
    data = {
        "title": trace.title,
        "source": contents.source,
        "kernels": contents.kernels,
        "origins": contents.origins.sets,
        "lines": len(table.lines),
        "perChunk": LINES_PER_CHUNK,
    }
    scripts = _SCRIPTS
    if watched:
        data["watched"], scripts = asdict(watched), (*_SCRIPTS, "watch.js")
    return _template().render(
        title=trace.title,
        notes=trace.notes,
        data=_embedded(data),
        chunks=[
            ("colours", table.colours()),
            *_named("lines", table.chunks()),
            *_named("text", contents.bodies.packed),
        ],
        style=(_FOLDER / "page.css").read_text(),
        script="".join((_FOLDER / name).read_text() for name in scripts),
        kernels=[_plots(kernel) for kernel in trace.kernels],
        roofline=roofline(trace.kernels, trace.limits),
    )


def _named(name: str, chunks: Sequence[str]) -> list[tuple[str, str]]:
    return [(f"{name}-{number}", chunk) for number, chunk in enumerate(chunks)]


def write_page(trace: Trace, path: Path, stamp: str | None = None) -> None:
    """Write the page of a trace, so that a reader finds the one before or this one, and nothing in between.

    With a stamp, open pages of the same file with another stamp are loaded again.
    """
    if stamp is None:
        write_html(trace_page(trace), path)
        return
    file = stamp_file(path)
    write_html(trace_page(trace, Watched(file.name, stamp)), path)
    write_html(f"watched({json.dumps(stamp)});\n", file)


def stamp_file(path: Path) -> Path:
    """Return the script beside a page that is watched."""
    return path.with_name(f"{path.name}.stamp.js")


def write_html(page: str, path: Path) -> None:
    """Write a page, or a script of one, in place of the one that is there, at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(page, encoding="utf-8")
    partial.replace(path)


@cache
def _template() -> Any:
    from jinja2 import Environment, FileSystemLoader  # loads markupsafe and more

    environment = Environment(loader=FileSystemLoader(_FOLDER), autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return environment.get_template("page.html")


def _embedded(data: Any) -> str:
    """Return JSON that may stand inside of a script element."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
    return text.replace("</", "<\\/").replace("<!--", "<\\!--").replace("\u2028", "\\u2028")


class _OriginsOfTexts:
    """The user's lines that texts come from; the text after a pass has those of equal lines of stages."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[str, int], ...]] = {}

    def of(self, texts: Sequence[TracedText]) -> list[Lines]:
        """Return the lines of each of these texts, which are of stages that come after those of earlier calls."""
        found: dict[int, Lines] = {}
        of_equal: dict[str, Lines] = {}
        for number, text in enumerate(texts):
            if text.complete is not None or text.kind != "mlir":
                found[number] = source_lines(text.kind, text.text, text.complete)
                pairs = zip(text.text.splitlines(), found[number], strict=True)
                self._known |= {line.strip(): each for line, each in pairs if each}
        for number, text in enumerate(texts):
            if number not in found:
                if text.text not in of_equal:
                    # Without a loop of Python: a page has millions of these lines.
                    lines = map(str.strip, text.text.splitlines())
                    of_equal[text.text] = list(map(self._known.get, lines, repeat(())))
                found[number] = of_equal[text.text]
        return [found[number] for number in range(len(texts))]


def _kernel_row(kernel: TracedKernel, texts: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what the page knows of a kernel, with the rows of its texts."""
    return {
        "name": kernel.name,
        "pipeline": kernel.pipeline,
        "signature": kernel.signature,
        "target": kernel.target,
        "failure": kernel.failure,
        "texts": texts,
    }


def _text_row(
    text: TracedText, found: Lines, origins: OriginTable, table: LineTable, bodies: _Bodies
) -> dict[str, Any]:  # fmt: skip
    """Return what the list shows of a text, whose lines are one of `bodies`."""
    lines = text.text.splitlines()
    number = bodies.number(text, found, lambda: packed_text(table.numbers(text.kind, lines), origins.numbers(found)))
    return {
        "stage": text.stage,
        "pass": text.pass_name,
        "kind": text.kind,
        "ms": None if text.seconds is None else round(text.seconds * 1e3, 3),
        "size": len(text.text),
        "changed": text.changed,
        "upstream": text.is_upstream,
        "rows": len(lines),
        "widest": max(map(len, lines), default=0),
        "body": number,
    }


def _source_of(origins: OriginTable, distinct: set[tuple[str, int]], table: LineTable) -> dict[str, Any] | None:
    """Return the user's file around the lines that texts come from; None where there is none that can be read."""
    if origins.file is None:
        return None
    numbers = [line for name, line in distinct if origins.is_main(name)]
    names = sorted({name for name, _ in distinct if origins.is_main(name)})
    full = next((name for name in names if Path(name).is_file()), origins.file)
    try:
        lines = Path(full).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    first, last = max(1, min(numbers) - _AROUND), min(len(lines), max(numbers) + _AROUND)
    shown = lines[first - 1 : last]
    kind = "python" if full.endswith(".py") else "mlir"
    return {
        "file": origins.file.rpartition("/")[2],
        "first": first,
        "lines": table.numbers(kind, shown),
        "widest": max(map(len, shown), default=0),
    }


def _plots(kernel: TracedKernel) -> dict[str, Any]:
    stages = list(dict.fromkeys(edge.stage for edge in kernel.edges))
    return {
        "pipeline": kernel.pipeline,
        "times": times(kernel),
        "graphs": [(stage, fusion_graph([each for each in kernel.edges if each.stage == stage])) for stage in stages],
        "edges": edge_rows(kernel.edges),
        "launches": kernel.launches,
        "failure": kernel.failure,
    }


class GrowingPage:
    """The page of one kernel while it is compiled: texts are added in the order of the stages.

    `write` may be called after each. It writes what was packed before, and the list: the texts themselves are not kept.
    """

    def __init__(self) -> None:
        self._contents = _Contents(LineTable(), OriginTable(None), _Bodies(), [], None)
        self._origins = _OriginsOfTexts()
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
            self._rows.append(_text_row(text, lines, contents.origins, contents.table, contents.bodies))
            self._texts.append(replace(text, text="", complete=None))

    def write(self, kernel: TracedKernel, path: Path) -> None:
        """Write the page of a kernel, which is given without texts."""
        contents = self._contents
        contents.kernels = [_kernel_row(kernel, self._rows)]
        contents.source = _source_of(contents.origins, self._distinct, contents.table)
        page = _rendered(Trace(kernel.signature, (replace(kernel, texts=tuple(self._texts)),)), contents)
        write_html(page, path)
