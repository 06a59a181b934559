"""Comparisons as tables of the terminal; the cells are those of Markdown and HTML, too."""

from __future__ import annotations

import io
from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.table import Table

from mlirtri.measure.rows import Comparison, LaunchCost, Row

HEADINGS = ("", "kernels", "bytes", "compile ms", "run", "min … max", "max error", "max rel", "max ulp")
LAUNCH_HEADINGS = ("", "kernel", "time", "share", "bytes", "flops", "roofline", "threads", "line")
MEANINGS = {
    "kernels": "what runs one after another in a call: launches, or loop nests with the fills of what they write",
    "bytes": "of every array that a kernel reads or writes, once per kernel",
    "compile ms": "one compile, cold, without imports of the compilers",
    "run": "median time of a call",
    "min … max": "the fastest and the slowest round",
    "max error": "largest absolute difference from the reference",
    "max rel": "the same, divided by the largest magnitude of the result",
    "max ulp": "the same in units in the last place, where values do not cancel; ~: they differ by more where they do",
    "flops": "additions, multiplications, divisions and comparisons of floating-point elements",
    "roofline": "the least time that this machine needs for such bytes and flops, as a share of the time taken",
}
"""What columns mean, for the reader of a page."""
BY_KERNEL, BY_ROW = "run", "run, by row"
"""The first heading of an overview: a line for each kernel, or for each row of the comparisons."""
_WIDEST = 120
"""Letters of the headings of an overview by kernel."""
_STEADY = 2.0
"""Median by fastest round above which times are no longer the kernel's alone."""
_WHOLE = 1.005
"""Above which a share of the roofline is shown as more than 100 %."""


def as_text(comparison: Comparison) -> str:
    """Return the tables as text."""
    return text_of(as_tables(comparison))


def text_of(tables: RenderableType) -> str:
    """Return tables as text; lines are as long as they have to be."""
    text = io.StringIO()
    Console(file=text, width=10_000, no_color=True, highlight=False).print(tables)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines())


def as_tables(comparison: Comparison) -> Group:
    """Return title, rows, compile times by stage, launched kernels where they were costed, and sentences."""
    parts = [escape(title(comparison)), table_of(HEADINGS, [cells(row) for row in comparison.rows]), ""]
    launches = launch_cells(comparison.rows)
    if launches:
        parts += [table_of(LAUNCH_HEADINGS, launches, left=(0, 1, 8)), ""]
    parts += [_compile_table(comparison.rows), ""]
    return Group(*parts, *map(escape, sentences(comparison)))


def overview(comparisons: Sequence[Comparison]) -> tuple[list[str], list[list[str]]]:
    """Return headings and lines of a table with the run time of each kernel by each row.

    `*` marks the shortest of those whose numbers are right. Names of rows that do not fit beside each other stand below
    each other.
    """
    names = list(dict.fromkeys(row.name for comparison in comparisons for row in comparison.rows))
    lines = []
    for comparison in comparisons:
        rows = {row.name: row for row in comparison.rows}
        right = [row for row in comparison.rows if row.run_seconds is not None and not row.difference]
        shortest = min((row.run_seconds for row in right if row.run_seconds is not None), default=None)
        lines.append([comparison.kernel, *(_time_of(rows.get(name), shortest) for name in names)])
    if sum(len(name) + 2 for name in names) <= _WIDEST:
        return [BY_KERNEL, *names], lines
    columns = [line[1:] for line in lines]
    return [BY_ROW, *(line[0] for line in lines)], [
        [name, *cells] for name, *cells in zip(names, *columns, strict=True)
    ]


def _time_of(row: Row | None, shortest: float | None) -> str:
    if row is None:
        return ""
    if row.run_seconds is None:
        return "refused" if row.refusal else row.untimed
    mark = " wrong" if row.difference else " *" if row.run_seconds == shortest else ""
    return f"{shown_seconds(row.run_seconds)}{mark}"


def overview_table(comparisons: Sequence[Comparison]) -> Table:
    """Return `overview` for the terminal."""
    return table_of(*overview(comparisons))


def title(comparison: Comparison) -> str:
    """Return the kernel with its arguments and target."""
    return f"{comparison.kernel}({', '.join(comparison.arguments)}) on {comparison.target}"


def sentences(comparison: Comparison) -> list[str]:
    """Return what stands below the table: the reference, refusals, wrong elements, reasons."""
    also = f", of results and of what is written to {', '.join(comparison.written)}" if comparison.written else ""
    lines = [f"errors against {comparison.reference}{also}"]
    if any(row.cancels for row in comparison.rows):
        lines.append("~ values that cancel to nearly zero, which are left out, differ by more ulp")
    # A column of sentences would squeeze the numbers.
    refusals: dict[str, list[str]] = {}
    for row in comparison.rows:
        if row.refusal:
            refusals.setdefault(row.refusal, []).append(row.name)
    lines += [f"{', '.join(names)}: {refusal}" for refusal, names in refusals.items()]
    lines += [f"{row.name}: {row.difference}" for row in comparison.rows if row.difference]
    launches = [launch for row in comparison.rows for launch in row.launches]
    return [*lines, *unsteady(comparison.rows), *above_roofline(launches), *comparison.notes]


def unsteady(rows: Sequence[Row]) -> list[str]:
    """Return a sentence on the rows whose median is many times their fastest round; none where times are steady."""
    shares = {row.name: row.spread for row in rows if row.spread is not None and row.spread >= _STEADY}
    if not shares:
        return []
    times = ", ".join(f"{share:.3g}" for share in shares.values())
    return [
        f"{', '.join(shares)}: the median is {times} times the fastest round, since other programs run, or threads "
        "wait for each other: measure again on a quiet machine, or with MLIRTRI_NUM_THREADS=1 OMP_NUM_THREADS=1"
    ]


def above_roofline(launches: Sequence[LaunchCost]) -> list[str]:
    """Return a sentence if a kernel is faster than the limits of the machine allow; none where all are slower."""
    if all(launch.roofline is None or launch.roofline < _WHOLE for launch in launches):
        return []
    return [
        "roofline above 100%: the kernel is faster than the products and copies by which this machine's limits were "
        "measured. Other programs ran then, or the kernel's data lie in a cache nearer than the copies'"
    ]


def cells(row: Row) -> list[str]:
    """Return the texts of a row, one per heading."""
    seconds = row.compile_total
    spread = "" if row.run_min is None else f"{shown_seconds(row.run_min)} … {shown_seconds(row.run_max)}"
    return [
        row.name,
        shown_number(row.kernels),
        shown_number(row.bytes),
        "" if seconds is None else f"{seconds * 1e3:.1f}",
        shown_seconds(row.run_seconds) or row.untimed,
        spread,
        "" if row.max_error is None else f"{row.max_error:.2g}",
        "" if row.max_relative is None else f"{row.max_relative:.2g}",
        "" if row.max_ulp is None else f"{row.max_ulp:.1f}{'~' * row.cancels}",
    ]


def launch_cells(rows: Sequence[Row]) -> list[list[str]]:
    """Return the texts of every launched kernel of every row, one per heading of `LAUNCH_HEADINGS`."""
    lines = []
    for row in rows:
        total = sum(launch.seconds or 0.0 for launch in row.launches)
        for number, launch in enumerate(row.launches):
            lines.append([row.name if number == 0 else "", *cost_cells(launch, total)])
    return lines


def cost_cells(launch: LaunchCost, total: float) -> list[str]:
    """Return the texts of a launch, one per heading of `LAUNCH_HEADINGS` after the row's; `total` is in seconds."""
    return [
        launch.name,
        shown_seconds(launch.seconds) or launch.untimed,
        "" if launch.seconds is None or not total else f"{100 * launch.seconds / total:.1f}%",
        shown_number(launch.bytes),
        shown_number(launch.flops),
        "" if launch.roofline is None else f"{100 * launch.roofline:.0f}%",
        shown_number(launch.threads),
        launch.line,
    ]


def shown_number(value: int | None) -> str:
    """Return a number as text; nothing for none."""
    return "" if value is None else str(value)


def shown_seconds(seconds: float | None) -> str:
    """Return a time with three digits and its unit; nothing for none."""
    if seconds is None:
        return ""
    rounded = float(f"{seconds:.3g}")
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if rounded >= size:
            return f"{rounded / size:.3g} {unit}"
    return f"{rounded * 1e9:.0f} ns"


def shown_columns(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> list[int]:
    """Return the columns in which something stands; always the first."""
    return [position for position in range(len(headings)) if position == 0 or any(line[position] for line in lines)]


def table_of(headings: Sequence[str], lines: Sequence[Sequence[str]], left: Sequence[int] = (0,)) -> Table:
    """Return a table for the terminal, without the columns in which nothing stands; numbers stand at the right."""
    table = Table(box=None, pad_edge=False)
    shown = shown_columns(headings, lines)
    for position in shown:
        is_left = position in left
        # Where the terminal is narrow, names and lines of source are cut, and numbers are not.
        width = None if is_left and position else max(len(line[position]) for line in [headings, *lines])
        table.add_column(headings[position], justify="left" if is_left else "right", no_wrap=True, min_width=width)
    for line in lines:
        table.add_row(*(escape(line[position]) for position in shown))
    return table


def compile_cells(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Return headings and lines of the compile times: a column per stage."""
    compiled = [row for row in rows if row.compile_seconds]
    stages = _in_order([list(row.compile_seconds or ()) for row in compiled])
    lines = []
    for row in compiled:
        seconds = row.compile_seconds or {}
        lines.append([row.name, *(f"{seconds[stage] * 1e3:.1f}" if stage in seconds else "" for stage in stages)])
    return ["compile ms", *stages], lines


def _in_order(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the stages of all rows once, each before those that follow it in its row."""
    stages: list[str] = []
    for row in rows:
        place = len(stages)
        for stage in reversed(row):
            if stage in stages:
                place = stages.index(stage)
            else:
                stages.insert(place, stage)
    return stages


def _compile_table(rows: Sequence[Row]) -> Table:
    headings, lines = compile_cells(rows)
    return table_of(headings, lines)
