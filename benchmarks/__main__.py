"""The table of goals: ours beside the best of torch, ``torch.compile`` and NumPy, and beside what the machine can do.

    python -m benchmarks --rows matmul --rows softmax --threads 1 --clock cpu

Runs each count of threads in a process of its own and each row in a fork of that; a row that fails shows its error and
the others go on. Prints text as it goes; `--json` and `--plot` write files. `docs/performance.md` says how to read it.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks import processes, report

QUICK_PEERS = "torch,numpy,numba"
"""Not torch.compile, which takes some 8 s for each row and number of threads."""
ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    options = read_options()
    if options.one is not None:
        measure_all(options)
        return
    if options.list:
        print("\n".join(row.title for row in chosen_rows(options)))
        return
    conditions = []
    is_single = options.clock == "cpu"
    for threads in options.threads or ([1] if is_single else sorted({1, len(os.sched_getaffinity(0))})):
        with tempfile.TemporaryDirectory() as folder:
            result = Path(folder) / "result.json"
            command = [sys.executable, "-m", "benchmarks", *sys.argv[1:], "--one", str(threads), "--into", str(result)]
            subprocess.run(command, check=True, cwd=ROOT, env=processes.environment(threads))
            conditions.append(json.loads(result.read_text()))
    if options.json:
        options.json.write_text(json.dumps(conditions, indent=1) + "\n")
    if options.plot:
        report.plot(conditions, options.plot)


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--rows", action="append", help="part of a row's title; may be given several times")
    parser.add_argument("--threads", type=int, action="append", help="by default one, then all")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall",
                        help="cpu: time of the thread, for machines with other work; one thread only")  # fmt: skip
    parser.add_argument("--peers", help="with commas: torch, compile, numpy, numba, tvm; by default those of each row")
    parser.add_argument("--seconds", type=float, default=1.0, help="for all samples of a row")
    parser.add_argument("--quick", action="store_true",
                        help="a row or two of each class, without torch.compile unless --peers names it")  # fmt: skip
    parser.add_argument("--json", type=_file, help="write the figures to this file")
    parser.add_argument("--plot", type=_file, help="draw the ratios into this file (.svg, .png); needs matplotlib")
    parser.add_argument("--list", action="store_true", help="print the rows' titles and stop")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.clock == "cpu" and any(threads > 1 for threads in options.threads or []):
        parser.error("--clock cpu is the time of one thread: use it with --threads 1")
    if options.plot and importlib.util.find_spec("matplotlib") is None:
        parser.error("--plot needs matplotlib: pip install 'mlirtri[bench]'")
    return options


def _file(text: str) -> Path:
    """A path that stays right in the processes that this one starts."""
    return Path(text).absolute()


def measure_all(options: argparse.Namespace) -> None:
    """All chosen rows with one count of threads, in forks of this process."""
    processes.import_everything()
    from benchmarks.measure import Conditions

    rows = chosen_rows(options)
    named = QUICK_PEERS if options.quick and options.peers is None else options.peers
    peers = None if named is None else tuple(filter(None, named.split(",")))
    conditions = Conditions(options.one, options.seconds, options.clock, peers)
    limits = processes.in_own_process(lambda: limits_for(rows, conditions))
    figures: dict[str, Any] = {
        "threads": options.one, "clock": options.clock, "versions": versions(), "limits": limits, "rows": [],
    }  # fmt: skip
    print(
        f"{', '.join(f'{name} {version}' for name, version in figures['versions'].items())}\n{report.header(figures)}"
    )
    for row in rows:
        measured = processes.in_own_process(lambda row=row: measure_one(row, conditions))
        figures["rows"].append(report.judged(row, measured, limits))
        print(report.text(figures["rows"][-1]), flush=True)
    print(report.summary(figures["rows"]) + "\n", flush=True)
    options.into.write_text(json.dumps(figures))


def chosen_rows(options: argparse.Namespace) -> list[Any]:
    """Return the rows of the table that the options name."""
    from benchmarks.table import ROWS  # imports torch

    return [row for row in ROWS if is_chosen(row, options)]


def is_chosen(row: Any, options: argparse.Namespace) -> bool:
    if options.rows is None:
        return row.is_quick or not options.quick
    return any(part.lower() in row.title.lower() for part in options.rows) and (row.is_quick or not options.quick)


def measure_one(row: Any, conditions: Any) -> dict[str, Any]:
    from benchmarks.measure import measure

    return measure(row, conditions)


def limits_for(rows: Iterable[Any], conditions: Any) -> dict[str, float]:
    """The limits that the rows are held against, per second."""
    from benchmarks import limits

    by_name = {}
    for row in rows:
        if (name := report.limit_name(row)) in ("", *by_name):
            continue
        if row.limit == "multiply-add":
            by_name[name] = limits.multiply_adds(conditions.threads, conditions.now)
        else:
            by_name[name] = limits.bandwidth(row.limit, report.footprint(row), conditions.threads, conditions.now)
    return by_name


def versions() -> dict[str, str]:
    """Of all that takes part, the CPU among them."""
    by_package = {"Python": platform.python_version()}
    for package in ("mlirtri", "torch", "numpy", "numba", "apache-tvm", "torch-mlir"):
        try:
            by_package[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {**by_package, "on": cpu_name()}


def cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{len(os.sched_getaffinity(0))} CPUs {names[0] if names else platform.machine()}"


if __name__ == "__main__":
    main()
