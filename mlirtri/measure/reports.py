"""Comparisons as CSV, as GitHub's Markdown, and as a page of HTML with a bar for each row's time."""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Sequence
from datetime import datetime
from functools import cache
from typing import Any

from mlirtri.compiler.versions import versions
from mlirtri.measure.rows import Comparison, Row
from mlirtri.measure.tables import (
    BY_KERNEL,
    HEADINGS,
    LAUNCH_HEADINGS,
    MEANINGS,
    cells,
    compile_cells,
    launch_cells,
    overview,
    sentences,
    shown_columns,
    title,
)

_FIELDS = (
    "name", "kernels", "bytes", "compile_total", "run_seconds", "run_min", "run_max", "max_error", "max_relative",
    "max_ulp", "cancels", "refusal",
)  # fmt: skip


def as_csv(comparisons: Sequence[Comparison]) -> str:
    """Return one line per row: the kernel, its target, and the row's numbers in full."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("kernel", "target", *_FIELDS))
    for comparison in comparisons:
        for row in comparison.rows:
            values = (getattr(row, field) for field in _FIELDS)
            shown = ("" if value is None else value for value in values)
            writer.writerow((comparison.kernel, comparison.target, *shown))
    return text.getvalue()


def _item(sentence: str) -> str:
    """Return a sentence as an item of a list; reasons begin with a dash already, and stand below what they explain."""
    return f"  {sentence}" if sentence.lstrip().startswith("- ") else f"- {sentence}"


def as_markdown(comparisons: Sequence[Comparison]) -> str:
    """Return the tables and sentences of the terminal as GitHub's Markdown."""
    parts = [_markdown(*overview(comparisons))] if len(comparisons) > 1 else []
    for comparison in comparisons:
        parts += [f"### `{title(comparison)}`", _markdown(HEADINGS, [cells(row) for row in comparison.rows])]
        if launches := launch_cells(comparison.rows):
            parts.append(_markdown(LAUNCH_HEADINGS, launches))
        parts += [_markdown(*compile_cells(comparison.rows)), "\n".join(map(_item, sentences(comparison)))]
    return "\n\n".join(parts) + "\n"


def _markdown(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    shown = shown_columns(headings, lines)
    rule = ["---" if position == 0 else "---:" for position in shown]
    rows = [[headings[position] for position in shown], rule]
    rows += [[line[position].replace("|", "\\|") for position in shown] for line in lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def page(comparisons: Sequence[Comparison]) -> str:
    """Return a page of HTML that needs no other file."""
    return _rendered(comparisons, is_page=True)


def fragment(comparisons: Sequence[Comparison]) -> str:
    """Return the same for a cell of a notebook."""
    return _rendered(comparisons, is_page=False)


def _rendered(comparisons: Sequence[Comparison], is_page: bool) -> str:
    facts = [_facts(number, comparison) for number, comparison in enumerate(comparisons)]
    table = _overview(comparisons, facts) if len(comparisons) > 1 else None
    return _template().render(
        is_page=is_page, about=_about(comparisons), overview=table, comparisons=facts, meanings=MEANINGS
    )


@cache
def _template() -> Any:
    from jinja2 import Environment, PackageLoader  # loads markupsafe and more

    loader = PackageLoader("mlirtri.measure", ".")
    return Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True).get_template("report.html")


def _about(comparisons: Sequence[Comparison]) -> str:
    """Return what measured, and when."""
    machines = dict.fromkeys(comparison.machine for comparison in comparisons if comparison.machine)
    return " · ".join((f"mlirtri {versions()['mlirtri']}", *machines, f"{datetime.now():%Y-%m-%d}"))


def _overview(comparisons: Sequence[Comparison], facts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    headings, lines = overview(comparisons)
    is_by_kernel = headings[0] == BY_KERNEL
    return {**_html_table(headings, lines), "links": [each["id"] for each in facts] if is_by_kernel else []}


def _facts(number: int, comparison: Comparison) -> dict[str, Any]:
    rows, margin = comparison.rows, _margin(comparison.rows)
    launches, compiled = launch_cells(rows), compile_cells(rows)
    return {
        "id": f"kernel-{number}",
        "name": comparison.kernel,
        "title": title(comparison),
        "rows": _html_table(HEADINGS, [cells(row) for row in rows]),
        "launches": _html_table(LAUNCH_HEADINGS, launches) if launches else None,
        "compile": _html_table(*compiled) if compiled[1] else None,
        "bars": _bars(rows),
        "margin": margin,
        "scale": (_BARS_END - margin) / 100,
        "sentences": sentences(comparison),
    }


_BARS_END = 640
"""Where the longest bar ends, of 800: its time stands after it."""
_LETTER = 6.6
"""Width of a letter of the names before the bars."""


def _margin(rows: Sequence[Row]) -> int:
    return 20 + round(min(300.0, _LETTER * max((len(row.name) for row in rows), default=0)))


def _html_table(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> dict[str, Any]:
    shown = shown_columns(headings, lines)
    return {
        "headings": [headings[position] for position in shown],
        "lines": [[_grouped(line[position]) for position in shown] for line in lines],
    }


def _grouped(cell: str) -> str:
    return f"{int(cell):,}" if cell.isdecimal() else cell


def _bars(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the position and the width, in percent of the slowest row, of each bar and of its spread."""
    timed = [(row, row.run_seconds) for row in rows if row.run_seconds]
    longest = max((seconds for _, seconds in timed), default=0.0)
    shortest = min((seconds for row, seconds in timed if not row.difference), default=longest)
    return [
        {
            "name": row.name,
            "kind": "wrong" if row.difference else "fast" if seconds == shortest else "other",
            "width": 100 * seconds / longest,
            "least": 100 * _quartile(row, 0) / longest,
            "most": min(100.0, 100 * _quartile(row, 2) / longest),
            "text": cells(row)[4] if seconds == shortest else f"{cells(row)[4]}  ({_ratio(seconds / shortest)}×)",
        }
        for row, seconds in timed
    ]


def _ratio(value: float) -> str:
    return f"{value:.1f}" if value < 10 else f"{value:.0f}"


def _quartile(row: Row, number: int) -> float:
    """Return the first or the third quartile of the rounds: a single slow one says nothing."""
    return statistics.quantiles(row.rounds, n=4)[number] if len(row.rounds) > 1 else row.run_seconds or 0.0
