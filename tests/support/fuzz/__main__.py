"""The driver behind ``make fuzz``: runs programs until a count or a time is reached and says what came of them.

A worker process runs the programs, so that a crash of the process or an endless loop is one program's failure. Program
n of a seed is the same one in every run: ``--seed S --first N --count 1`` runs it again.
"""

from __future__ import annotations

import argparse
import json
import queue
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random, randrange
from typing import Any

KINDS = ("kernels", "linalg", "torch", "torch_kernels", "relax")
PROGRAMS_PER_WORKER = 200
"""Programs after which a fresh worker takes over: compilers keep memory."""


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    if options.worker:
        return work(options)
    seed = randrange(10**6) if options.seed is None else options.seed
    failed = False
    for kind in options.kind or KINDS:
        farm = Farm(kind, seed, options)
        farm.run(time.monotonic() + options.seconds / len(options.kind or KINDS))
        print(farm.summary(), flush=True)
        failed |= bool(farm.failures)
    return int(failed)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="fuzz", description="random programs in all pipelines against a bounded reference"
    )
    parser.add_argument("--kind", action="append", choices=KINDS, help="kind of programs; may be repeated; default all")
    parser.add_argument("--seconds", type=float, default=120.0, help="time for all kinds together")
    parser.add_argument("--count", type=int, default=10**9, help="programs of each kind at most")
    parser.add_argument("--seed", type=int, help="seed; a random one by default")
    parser.add_argument("--first", type=int, default=0, help="number of the first program")
    parser.add_argument("--pipeline", action="append", help="only these pipelines")
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds for one program")
    parser.add_argument("--reduce", type=float, default=60.0, help="seconds for reducing a failure")
    parser.add_argument("--tests", type=Path, default=Path("build/fuzz"), help="folder for tests of failures")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


@dataclass
class Farm:
    """The programs of one kind: starts workers, reads what they report, and counts."""

    kind: str
    seed: int
    options: argparse.Namespace
    programs: int = 0
    statements: int = 0
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    def run(self, end: float) -> None:
        """Run programs until the time has come or the count is reached."""
        started = time.monotonic()
        position, last = self.options.first, self.options.first + self.options.count
        while position < last and time.monotonic() < end:
            position = self.run_worker(position, min(last, position + PROGRAMS_PER_WORKER), end)
        self.seconds = time.monotonic() - started

    def run_worker(self, first: int, last: int, end: float) -> int:
        """Let one worker run programs and return the number of the next program to run."""
        command = [
            sys.executable, "-m", "fuzz", "--worker", "--kind", self.kind, "--seed", str(self.seed), "--first", str(first),
            "--count", str(last - first), "--reduce", str(self.options.reduce), "--tests", str(self.options.tests),
            *(part for each in self.options.pipeline or () for part in ("--pipeline", each)),
        ]  # fmt: skip
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        lines: queue.Queue[str | None] = queue.Queue()
        errors: list[str] = []
        threading.Thread(target=_read, args=(process.stdout, lines.put), daemon=True).start()
        threading.Thread(target=_read, args=(process.stderr, errors.append), daemon=True).start()
        done, pipeline = first, ""
        while True:
            try:
                line = lines.get(timeout=self.options.timeout + self.options.reduce)
            except queue.Empty:
                self.fail(done, pipeline, "crashed", "no end within the time limit", "time limit")
                process.kill()
                return done + 1
            if line is None:
                break
            report = json.loads(line) if line.startswith("{") else {}
            pipeline = report.get("running", pipeline)
            if "number" in report:
                self.enter(report)
                done = report["number"] + 1
                if self.programs % 50 == 0:
                    print(f"{self.kind}: {self.programs} programs, {sum(self.failures.values())} failures", flush=True)
            if time.monotonic() > end and "number" in report:
                process.kill()
                return done
        if process.wait() and done < last:
            tail = " ".join("".join(filter(None, errors)).split()[-40:])
            self.fail(
                done, pipeline, "crashed", f"the process ended with {process.returncode}: {tail}", "process ended"
            )
            return done + 1
        return done

    def enter(self, report: dict[str, Any]) -> None:
        self.programs += 1
        self.statements += report["statements"]
        for pipeline, what, detail, signature in report["outcomes"]:
            self.counts[pipeline, what] += 1
            if what == "refused":
                self.refusals[f"{pipeline}: {signature}"] += 1
            if what in ("wrong", "crashed"):
                self.fail(
                    report["number"], pipeline, what, detail, signature, report.get("reduced", {}).get(pipeline, "")
                )

    def fail(self, number: int, pipeline: str, what: str, detail: str, signature: str, reduced: str = "") -> None:
        self.failures[f"{pipeline} {what}: {signature}"] += 1
        print(f"{what}: {self.kind}, seed {self.seed}, program {number}, pipeline {pipeline}: {detail}", flush=True)
        if reduced:
            print(reduced, flush=True)

    def summary(self) -> str:
        """Return counts by pipeline, then refusals and failures by their causes."""
        lines = [
            f"{self.kind}: seed {self.seed}, {self.programs} programs of {self.statements} statements in {self.seconds:.0f} s"
        ]
        pipelines = dict.fromkeys(pipeline for pipeline, _ in self.counts)
        for pipeline in pipelines:
            counts = ", ".join(f"{count} {what}" for (name, what), count in self.counts.items() if name == pipeline)
            lines.append(f"  {pipeline}: {counts}")
        lines += [f"  {count} refused, {cause}" for cause, count in self.refusals.most_common(12)]
        lines += [f"  {count} failed, {cause}" for cause, count in self.failures.most_common()]
        return "\n".join(lines)


def _read(stream: Any, put: Any) -> None:
    for line in stream:
        put(line)
    put(None)


def work(options: argparse.Namespace) -> int:
    """Run programs in this process; report each as a line of JSON."""
    from fuzz.runner import KINDS as RUNNERS
    from fuzz.runner import outcome, references

    kind = options.kind[0]
    reduced: set[tuple[str, str]] = set()
    for number in range(options.first, options.first + options.count):
        program = RUNNERS[kind].generate(Random(f"{kind} {options.seed} {number}"))
        report: dict[str, Any] = {
            "number": number,
            "statements": len(program.statements),
            "outcomes": [],
            "reduced": {},
        }
        reference = references(program)
        for pipeline in options.pipeline or RUNNERS[kind].pipelines:
            print(json.dumps({"running": pipeline}), flush=True)
            result = outcome(program, pipeline, reference)
            report["outcomes"].append((pipeline, result.what, result.detail, result.signature))
            cause = (pipeline, result.signature)
            # One failure of each cause: a bug that many programs meet would take all of the time.
            if result.what in ("wrong", "crashed") and options.reduce and cause not in reduced:
                reduced.add(cause)
                report["reduced"][pipeline] = _reduced(program, pipeline, result, number, options)
        print(json.dumps(report), flush=True)
    return 0


def _reduced(program: Any, pipeline: str, result: Any, number: int, options: argparse.Namespace) -> str:
    """Reduce a failing program, write a test of it, and return its text."""
    from fuzz.reducer import reduce
    from fuzz.runner import KINDS as RUNNERS

    kind = RUNNERS[program.kind]
    small = reduce(program, pipeline, result, options.reduce)
    options.tests.mkdir(parents=True, exist_ok=True)
    title = f"Program {number} of seed {options.seed} is {result.what} in pipeline {pipeline}."
    file = options.tests / f"test_{program.kind}_{options.seed}_{number}_{pipeline}.py"
    file.write_text(kind.as_test(small, pipeline, title))
    shapes = ", ".join(
        f"{name}: {getattr(value, 'dtype', 'float')}{list(getattr(value, 'shape', ()))}"
        for name, value in small.arguments.items()
    )
    return f"{kind.text(small)}# {shapes}\n# test: {file}"


if __name__ == "__main__":
    sys.exit(main())
