"""The page: data of all texts as JSON, the plots, and the script that shows them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from mlirtri.trace.colours import LineTable
from mlirtri.trace.data import Trace, TracedKernel, TracedText
from mlirtri.trace.plots import edge_rows, fusion_graph, roofline, times
from mlirtri.trace.source_lines import Lines, main_file, source_lines
from mlirtri.trace.unified import with_normal_names

_FOLDER = Path(__file__).parent
_AROUND = 400
"""Lines of the user's file that are shown before the first and after the last that any text comes from."""


def trace_page(trace: Trace) -> str:
    """Return the page of a trace: one file of HTML that needs nothing else."""
    table = LineTable()
    places = [_places(kernel) for kernel in trace.kernels]
    file = main_file([lines for kernel in places for lines in kernel])
    kernels = [_kernel(kernel, lines, file, table) for kernel, lines in zip(trace.kernels, places, strict=True)]
    data = {
        "title": trace.title,
        "source": _source(file, places, table),
        "kernels": kernels,
        "lines": table.html,
    }
    return _template().render(
        title=trace.title,
        notes=trace.notes,
        data=_embedded(data),
        style=(_FOLDER / "page.css").read_text(),
        script=(_FOLDER / "page.js").read_text(),
        kernels=[_plots(kernel) for kernel in trace.kernels],
        roofline=roofline(trace.kernels, trace.limits),
    )


def write_page(trace: Trace, path: Path) -> None:
    """Write the page of a trace, so that a reader finds the one before or this one, and nothing in between."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(trace_page(trace), encoding="utf-8")
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


def _places(kernel: TracedKernel) -> list[Lines]:
    """Return the user's lines of each text; the text after a pass takes those of equal lines of its stage."""
    found: dict[int, Lines] = {}
    known: dict[str, tuple[tuple[str, int], ...]] = {}
    for number, text in enumerate(kernel.texts):
        if text.complete is not None or text.kind != "mlir":
            found[number] = source_lines(text.kind, text.text, text.complete)
            pairs = zip(text.text.splitlines(), found[number], strict=True)
            known |= {line.strip(): each for line, each in pairs if each}
    for number, text in enumerate(kernel.texts):
        if number not in found:
            found[number] = [known.get(line.strip(), ()) for line in text.text.splitlines()]
    return [found[number] for number in range(len(kernel.texts))]


def _kernel(kernel: TracedKernel, places: Sequence[Lines], file: str | None, table: LineTable) -> dict[str, Any]:
    return {
        "name": kernel.name,
        "pipeline": kernel.pipeline,
        "signature": kernel.signature,
        "target": kernel.target,
        "failure": kernel.failure,
        "texts": [_text(text, lines, file, table) for text, lines in zip(kernel.texts, places, strict=True)],
    }


def _text(text: TracedText, places: Lines, file: str | None, table: LineTable) -> dict[str, Any]:
    lines = text.text.splitlines()
    return {
        "stage": text.stage,
        "pass": text.pass_name,
        "kind": text.kind,
        "ms": None if text.seconds is None else round(text.seconds * 1e3, 3),
        "size": len(text.text),
        "changed": text.changed,
        "upstream": text.is_upstream,
        "lines": table.numbers(text.kind, lines),
        "normal": table.normal(with_normal_names(text.kind, text.text)),
        "from": [_numbers(each, file) for each in places],
    }


def _numbers(places: tuple[tuple[str, int], ...], file: str | None) -> Any:
    """Return the lines of the main file: 0 for none, a number for one, else a list."""
    numbers = sorted({line for name, line in places if _is_same(name, file)})
    return 0 if not numbers else numbers[0] if len(numbers) == 1 else numbers


def _is_same(name: str, file: str | None) -> bool:
    return file is not None and (name == file or name.rpartition("/")[2] == file.rpartition("/")[2])


def _source(file: str | None, places: Sequence[Sequence[Lines]], table: LineTable) -> dict[str, Any] | None:
    if file is None:
        return None
    numbers = [
        line for kernel in places for text in kernel for each in text for name, line in each if _is_same(name, file)
    ]
    full = next((name for name in _names(places) if _is_same(name, file) and Path(name).is_file()), file)
    try:
        lines = Path(full).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    first, last = max(1, min(numbers) - _AROUND), min(len(lines), max(numbers) + _AROUND)
    kind = "python" if full.endswith(".py") else "mlir"
    return {"file": file.rpartition("/")[2], "first": first, "lines": table.numbers(kind, lines[first - 1 : last])}


def _names(places: Sequence[Sequence[Lines]]) -> list[str]:
    return list(dict.fromkeys(name for kernel in places for text in kernel for each in text for name, _ in each))


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
