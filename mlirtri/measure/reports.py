"""Comparisons as CSV, as GitHub's Markdown, and as a page of HTML with a bar for each row's time."""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Sequence
from functools import cache
from typing import Any

from mlirtri.measure.rows import Comparison, Row
from mlirtri.measure.tables import (
    HEADINGS,
    LAUNCH_HEADINGS,
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
    return _template().render(is_page=True, overview=_overview(comparisons), comparisons=_facts(comparisons))


def fragment(comparisons: Sequence[Comparison]) -> str:
    """Return the same for a cell of a notebook."""
    return _template().render(is_page=False, overview=_overview(comparisons), comparisons=_facts(comparisons))


@cache
def _template() -> Any:
    from jinja2 import Environment, PackageLoader  # loads markupsafe and more

    loader = PackageLoader("mlirtri.measure", ".")
    return Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True).get_template("report.html")


def _overview(comparisons: Sequence[Comparison]) -> dict[str, Any] | None:
    return _html_table(*overview(comparisons)) if len(comparisons) > 1 else None


def _facts(comparisons: Sequence[Comparison]) -> list[dict[str, Any]]:
    return [
        {
            "title": title(comparison),
            "tables": [_html_table(*table) for table in _tables(comparison) if table[1]],
            "bars": _bars(comparison.rows),
            "sentences": sentences(comparison),
            "machine": comparison.machine,
        }
        for comparison in comparisons
    ]


def _tables(comparison: Comparison) -> list[tuple[Sequence[str], list[list[str]]]]:
    rows = comparison.rows
    return [(HEADINGS, [cells(row) for row in rows]), (LAUNCH_HEADINGS, launch_cells(rows)), compile_cells(rows)]


def _html_table(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> dict[str, Any]:
    shown = shown_columns(headings, lines)
    return {
        "headings": [headings[position] for position in shown],
        "lines": [[line[position] for position in shown] for line in lines],
    }


def _bars(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the position and the width, in percent of the slowest row, of each bar and of its spread."""
    timed = [row for row in rows if row.run_seconds is not None]
    longest = max((row.run_seconds or 0.0 for row in timed), default=0.0)
    return [
        {
            "name": row.name,
            "width": 100 * (row.run_seconds or 0.0) / longest,
            "least": 100 * _quartile(row, 0) / longest,
            "most": min(100.0, 100 * _quartile(row, 2) / longest),
            "text": cells(row)[4],
        }
        for row in timed
    ]


def _quartile(row: Row, number: int) -> float:
    """Return the first or the third quartile of the rounds: a single slow one says nothing."""
    return statistics.quantiles(row.rounds, n=4)[number] if len(row.rounds) > 1 else row.run_seconds or 0.0
