"""What was measured, as text, and as a plot of each row's ratio.

Takes the dicts that `benchmarks/__main__.py` collects, which are also its JSON. A ratio is the best peer's time divided
by ours: above 1 ours is faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.table import OURS, Row

UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
HEADER = ("row", OURS, "torch", "compile", "numpy", "numba", "tvm", "ratio", "goal", "of limit", "goal", "met")
WIDTHS = (38, 9, 9, 9, 9, 9, 9, 6, 7, 16, 5, 4)


def judged(row: Row, measured: dict[str, Any], limits: dict[str, float]) -> dict[str, Any]:
    """The line of a row: what was measured, the ratio to the best peer, the part of the limit; is it enough."""
    seconds = measured.get("seconds", {})
    peers = {label: value for label, value in seconds.items() if label not in (OURS, "tvm")}
    ours, best = seconds.get(OURS), min(peers, key=peers.__getitem__, default=None)
    line = {"row": row.title, **measured, "best": best, "ratio": None, "of_limit": None, "limit": row.limit}
    if ours is not None and best is not None:
        line["ratio"] = peers[best] / ours
    bound = limits.get(limit_name(row))
    if ours is not None and row.work and bound:
        line["of_limit"] = row.work / ours / bound
    line |= {"goal": row.goal, "goal_seconds": row.goal_seconds, "goal_of_limit": row.goal_of_limit}
    return {**line, "met": _is_met(line, ours)}


def _is_met(line: dict[str, Any], ours: float | None) -> bool | None:
    """None where there is nothing to compare with; what was not made is not met."""
    if ours is None:
        return False
    pairs = [(line["ratio"], line["goal"]), (line["of_limit"], line["goal_of_limit"])]
    compared = [value >= goal for value, goal in pairs if goal is not None and value is not None]
    if line["goal_seconds"] is not None:
        compared.append(ours <= line["goal_seconds"])
    return all(compared) if compared else None


def limit_name(row: Row) -> str:
    """Which limit a row is held against: of bandwidth, the one for as many bytes as the row moves."""
    if not row.work or not row.limit:
        return ""
    return row.limit if row.limit == "multiply-add" else f"{row.limit} {footprint(row)}"


def footprint(row: Row) -> int:
    """The bytes that a row moves, rounded up to a power of two."""
    return 1 << max(14, int(row.work - 1).bit_length())


def header(condition: dict[str, Any]) -> str:
    clock = {"wall": "wall clock", "cpu": "time of the thread on its CPU"}[condition["clock"]]
    limits = condition["limits"]
    shown = [f"fp32 multiply-adds {limits['multiply-add'] / 1e9:.0f} GFLOP/s"] if "multiply-add" in limits else []
    shown += [f"{name} {value / 1e9:.0f} GB/s" for name, value in limits.items() if name.endswith(f" {1 << 28}")]
    measured = f"; {', '.join(shown)}" if shown else ""
    return f"{condition['threads']} thread(s), {clock}{measured}\n{_aligned(HEADER)}"


def text(line: dict[str, Any]) -> str:
    """One line of the table, and below it why candidates have no time."""
    seconds = line.get("seconds", {})
    columns = [line["row"], *(duration(seconds.get(label)) for label in HEADER[1:7]), _ratio(line["ratio"])]
    columns.append(duration(line["goal_seconds"]) if line["goal_seconds"] else _ratio(line["goal"]))
    of_limit = "-" if line["of_limit"] is None else f"{line['of_limit']:.0%} {line['limit']}"
    columns += [of_limit, "-" if line["goal_of_limit"] is None else f"{line['goal_of_limit']:.0%}"]
    columns.append({True: "yes", False: "no", None: "-"}[line["met"]])
    problems = {**line.get("why", {}), **({"row": line["error"]} if "error" in line else {})}
    return _aligned(columns) + "".join(f"\n    {label}: {reason[:160]}" for label, reason in problems.items())


def _aligned(columns: Sequence[str]) -> str:
    """Cells in columns: the first to the left, the others to the right."""
    (first, width), *others = zip(columns, WIDTHS, strict=True)
    return " ".join([f"{first:<{width}}", *(f"{column:>{width}}" for column, width in others)])


def summary(lines: list[dict[str, Any]]) -> str:
    judged_lines = [line for line in lines if line["met"] is not None]
    missed = [line["row"] for line in judged_lines if not line["met"]]
    return f"{len(judged_lines) - len(missed)} of {len(judged_lines)} rows meet their goals" + (
        f"; missed: {'; '.join(missed)}" if missed else ""
    )


def duration(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    unit, name = next(((unit, name) for unit, name in UNITS if seconds >= unit), UNITS[-1])
    value = seconds / unit
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f} {name}"


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def plot(conditions: list[dict[str, Any]], path: Path) -> None:
    """A bar per row: how many times as fast as the best peer, with the goal as a mark."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    most = max(len(condition["rows"]) for condition in conditions)
    figure, panes = pyplot.subplots(1, len(conditions), figsize=(8 * len(conditions), 1 + 0.22 * most), squeeze=False)
    for pane, condition in zip(panes[0], conditions, strict=True):
        lines = [line for line in condition["rows"] if line["ratio"]][::-1]
        colours = {True: "#2a7f62", False: "#b5472f", None: "#888888"}
        pane.barh([line["row"] for line in lines], [line["ratio"] for line in lines],
                  color=[colours[line["met"]] for line in lines])  # fmt: skip
        goals = [(line["goal"], position) for position, line in enumerate(lines) if line["goal"]]
        pane.plot([goal for goal, _ in goals], [position for _, position in goals], "|", color="black", markersize=8)
        pane.axvline(1.0, color="black", linewidth=0.6)
        pane.set_xscale("log", base=2)
        pane.set_ylim(-0.6, len(lines) - 0.4)
        pane.set_title(f"best peer's time / mlirtri's, {condition['threads']} thread(s)")
        pane.tick_params(axis="y", labelsize=7)
    figure.tight_layout()
    figure.savefig(path)
