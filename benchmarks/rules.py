"""Each schedule rule beside the loops as they are: no rule may make a kernel slower.

    python -m benchmarks.rules --rows softmax --seconds 0.2

The corpus is the kernels of the table's rows. Each is called with the schedules of the rules that took its PrimFuncs
and without any, in turn, with one thread, in the time of that thread on its CPU; the ratio is of medians.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks import processes

ROOT = Path(__file__).resolve().parent.parent
SLOWER = 0.95
"""The ratio below which a rule is said to lose: what is left is the measurement's own."""
CHILD = "BENCHMARK_OF_RULES"
"""Set in the process that measures: libraries read the other variables when they are loaded."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rules", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--rows", action="append", help="part of a row's title; may be given several times")
    parser.add_argument("--seconds", type=float, default=0.2, help="for all samples of a row")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds for a row")
    parser.add_argument("--json", type=lambda text: Path(text).absolute(), help="write the figures to this file")
    options = parser.parse_args()
    if CHILD not in os.environ:
        environment = {**processes.environment(1), CHILD: "1"}
        command = [sys.executable, "-m", "benchmarks.rules", *sys.argv[1:]]
        sys.exit(subprocess.run(command, check=False, cwd=ROOT, env=environment).returncode)
    measure_all(options)


def measure_all(options: argparse.Namespace) -> None:
    processes.import_everything()
    from benchmarks.measure import Conditions
    from benchmarks.report import duration
    from benchmarks.table import ROWS

    conditions = Conditions(1, options.seconds, "cpu", ())
    chosen = [row for row in ROWS if row.through in ("jit", "program")]
    if options.rows:
        chosen = [row for row in chosen if any(part.lower() in row.title.lower() for part in options.rows)]
    print(f"{'row':38} {'scheduled':>10} {'as it is':>10} {'ratio':>7}  rules")
    lines = []
    for row in chosen:
        outcome = processes.in_own_process(lambda row=row: compared(row, conditions), options.timeout)
        lines.append({"row": row.title, **outcome})
        if "error" in outcome:
            print(f"{row.title:38} {outcome['error'][:100]}", flush=True)
            continue
        times = f"{duration(outcome['scheduled']):>10} {duration(outcome['plain']):>10}"
        print(f"{row.title:38} {times} {outcome['ratio']:7.2f}  {', '.join(outcome['rules'])}", flush=True)
    slower = [line["row"] for line in lines if line.get("ratio", 1.0) < SLOWER]
    shown = [f"slower: {title}" for title in slower]
    print(f"{len(lines) - len(slower)} of {len(lines)} are not slower", *shown, sep="; ")
    if options.json:
        options.json.write_text(json.dumps(lines, indent=1) + "\n")


def compared(row: Any, conditions: Any) -> dict[str, Any]:
    """Seconds with and without a schedule, and which rules made it."""
    from benchmarks.measure import fixed, kernel_of, timed

    arguments = row.make()
    scheduled, plain = (kernel_of(row, arguments, schedule) for schedule in ("default", "none"))
    seconds = timed({"scheduled": fixed(scheduled, *arguments), "plain": fixed(plain, *arguments)}, row, conditions)
    rules = re.findall(r'"mlirtri.schedule": "([^"]+)"', scheduled.ir["scheduled"])
    return {**seconds, "ratio": seconds["plain"] / seconds["scheduled"], "rules": list(dict.fromkeys(rules))}


if __name__ == "__main__":
    main()
