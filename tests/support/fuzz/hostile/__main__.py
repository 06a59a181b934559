"""Send damaged inputs through every entry point, each in a worker process with limits of time and memory.

    PYTHONPATH=tests/support python -m fuzz.hostile --seconds 600 --entries mlir,onnx --seed 1 --out findings/

An input is read, compiled and called. It has to be right or to end in a `KernelError`. Anything else is a finding:
another exception, the end of the process, more than the limits. Findings are written to ``--out``, and
``--again FILE`` runs one of them in this process.
"""

from __future__ import annotations

import argparse
import collections
import hashlib
import os
import resource
import time
import traceback
from pathlib import Path
from random import Random
from typing import Any

from fuzz.hostile.entries import ENTRIES, SECONDS
from fuzz.hostile.mutations import mutated, with_other_fields
from fuzz.hostile.seeds import ROOT, SEEDS, TEXT, with_mutated_members

BYTES = 12 << 30
"""Address space of the worker."""
SLOW = 20.0
"""Processor seconds of one input, with those of the processes that it starts, from which it is a finding."""
WORKER = "from fuzz.hostile.__main__ import serve; serve()"


def outcome_of(entry: str, data: bytes, report: Any) -> tuple[str, str]:
    """Return the kind of an input's end, and what identifies it."""
    from mlirtri.errors import CompilerBugError, KernelError

    try:
        ENTRIES[entry](data, report)
    except CompilerBugError as error:
        return "bug", f"{error.message[:300]}"
    except KernelError as error:
        return "refused", type(error).__name__
    except Exception as error:  # a finding
        frames = traceback.extract_tb(error.__traceback__)
        ours = [frame for frame in frames if str(ROOT) in frame.filename and "fuzz" not in frame.filename]
        last = ours[-1] if ours else frames[-1]
        return "exception", f"{type(error).__name__}: {str(error)[:200]} at {Path(last.filename).name}:{last.lineno}"
    return "right", ""


def serve() -> None:
    """The worker: for each (entry, data) it sends phases, then the outcome with its processor seconds."""
    from mlirtri.lowering.toolchain.worker_process import message_pipes

    requests, answer = message_pipes()
    os.environ.setdefault("MLIRTRI_MAX_TENSOR_BYTES", str(1 << 28))
    os.environ.setdefault("MLIRTRI_NUM_THREADS", "2")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, resource.getrlimit(resource.RLIMIT_AS)[1]))
    import warnings

    warnings.simplefilter("ignore")
    for entry, data in requests:
        start = time.process_time()
        answer(
            ("outcome", *outcome_of(entry, data, lambda phase: answer(("phase", phase))), time.process_time() - start)
        )


class Driver:
    """Sends inputs to a worker that it starts again when it dies."""

    def __init__(self, out: Path) -> None:
        from mlirtri.lowering.toolchain.worker_process import WorkerProcess

        self.worker = WorkerProcess(WORKER)
        self.out = out
        self.counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
        self.findings: collections.Counter[tuple[str, str, str]] = collections.Counter()
        self.slowest: dict[str, float] = collections.defaultdict(float)

    def run(self, entry: str, data: bytes) -> None:
        kind, what, seconds = self._outcome(entry, data)
        self.slowest[entry] = max(self.slowest[entry], seconds)
        if seconds > SLOW and kind in ("refused", "right"):
            kind, what = "slow", f"{what} {seconds:.0f} s"
        self.counts[entry][kind] += 1
        if kind in ("refused", "right"):
            return
        self.findings[entry, kind, what] += 1
        if self.findings[entry, kind, what] <= 2:
            name = f"{entry}-{kind}-{hashlib.sha1(data).hexdigest()[:8]}"
            self.out.mkdir(parents=True, exist_ok=True)
            (self.out / name).write_bytes(data)
            print(f"{name}: {what}", flush=True)

    def _outcome(self, entry: str, data: bytes) -> tuple[str, str, float]:
        if not self.worker.is_running:
            self.worker.start()
        phase, start = "reading", time.monotonic()
        try:
            self.worker.send((entry, data))
            while True:
                message = self.worker.receive(max(start + SECONDS - time.monotonic(), 0.1))
                if message[0] == "outcome":
                    return message[1], message[2], message[3]
                phase = message[1]
        except TimeoutError:
            self.worker.stop()
            return "timeout", phase, time.monotonic() - start
        except (EOFError, BrokenPipeError):
            process = self.worker.process
            status = process.wait() if process is not None else 0
            return "death", f"status {status} {phase}", time.monotonic() - start

    def report(self) -> None:
        for entry, counts in self.counts.items():
            print(f"{entry:12} {sum(counts.values()):6} inputs, slowest {self.slowest[entry]:.1f} s: {dict(counts)}")
        for (entry, kind, what), count in self.findings.most_common():
            print(f"{count:4} {entry} {kind}: {what}")


def _next_input(entry: str, seeds: list[bytes], random: Random) -> bytes:
    data = random.choice(seeds)
    if entry.endswith("-members"):
        return with_mutated_members(data, lambda content, is_text: mutated(content, random, is_text), random.choice)
    if entry == "onnx-fields":
        import onnx

        model = onnx.load_model_from_string(data)
        with_other_fields(model, random)
        return model.SerializeToString()
    return mutated(data, random, entry in TEXT)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--entries", default=",".join(SEEDS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("build/hostile"))
    parser.add_argument("--again", type=Path, help="run one finding in this process")
    options = parser.parse_args()
    if options.again:
        print(outcome_of(options.again.name.rsplit("-", 2)[0], options.again.read_bytes(), print))
        return
    random, entries, driver = Random(options.seed), options.entries.split(","), Driver(options.out)
    seeds = {entry: SEEDS[entry]() for entry in entries}
    end = time.monotonic() + options.seconds
    while time.monotonic() < end:
        for entry in entries:
            driver.run(entry, _next_input(entry, seeds[entry], random))
    driver.worker.stop()
    driver.report()


if __name__ == "__main__":
    main()
