"""A `Comparison` as tables for the terminal: one of the contenders, one of compile times by stage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from mlirtri.measure.comparison import Comparison, Row

_HEADINGS = ("", "kernels", "bytes", "compile ms", "run", "min … max", "max error", "max ulp")


def as_tables(comparison: Comparison) -> Group:
    """Everything that the comparison knows."""
    title = f"{comparison.kernel}({', '.join(comparison.arguments)}) on {comparison.target}"
    table = Table(box=None, pad_edge=False)
    lines = [_cells(row) for row in comparison.rows]
    shown = [position for position in range(len(_HEADINGS)) if position == 0 or any(line[position] for line in lines)]
    for position in shown:
        table.add_column(_HEADINGS[position], justify="right" if position else "left", no_wrap=True)
    for line in lines:
        table.add_row(*(line[position] for position in shown))
    # A sentence in a column of its own would squeeze the numbers.
    refusals = [f"{row.name}: {escape(row.refusal)}" for row in comparison.rows if row.refusal]
    notes = [f"errors against {escape(comparison.reference)}", *refusals]
    return Group(escape(title), table, "", _compile_table(comparison.rows), "", *notes)


def _cells(row: Row) -> list[str]:
    total = row.compile_total
    spread = "" if row.run_min is None else f"{_time(row.run_min)} … {_time(row.run_max)}"
    return [
        row.name,
        _number(row.kernels),
        _number(row.bytes),
        "" if total is None else f"{total * 1e3:.1f}",
        _time(row.run_seconds),
        spread,
        "" if row.max_error is None else f"{row.max_error:.2g}",
        "" if row.max_ulp is None else f"{row.max_ulp:.1f}",
    ]


def _number(value: int | None) -> str:
    return "" if value is None else str(value)


def _time(seconds: float | None) -> str:
    """Three digits with a unit that fits."""
    if seconds is None:
        return ""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def _compile_table(rows: tuple[Row, ...]) -> Table:
    """Milliseconds by stage, one line per pipeline; stages that a pipeline lacks stay empty."""
    compiled = [row for row in rows if row.compile_seconds]
    stages = list(dict.fromkeys(stage for row in compiled for stage in row.compile_seconds or ()))
    table = Table(box=None, pad_edge=False)
    table.add_column("compile ms", no_wrap=True)
    for stage in stages:
        table.add_column(stage, justify="right", no_wrap=True)
    for row in compiled:
        seconds = row.compile_seconds or {}
        table.add_row(row.name, *(f"{seconds[stage] * 1e3:.1f}" if stage in seconds else "" for stage in stages))
    return table
