"""Send damaged inputs through every door, each in a worker process with limits of time and memory.

    python tests/fuzz/hostile.py --seconds 600 --doors mlir,onnx --seed 1 --out findings/

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
import sys
import time
import traceback
from pathlib import Path
from random import Random
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(Path(__file__).parent), str(ROOT / "tests" / "support")]

from hostile_mutations import mutated, with_other_fields  # noqa: E402 - beside this file
from hostile_seeds import SEEDS, TEXT, with_mutated_members  # noqa: E402

SECONDS, BYTES = 120.0, 12 << 30
"""Wall-clock time of one input, on a machine that others use too, and address space of the worker."""
SLOW = 20.0
"""Processor seconds of one input, with those of the processes that it starts, from which it is a finding."""
WORKER = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import hostile; hostile.serve()"
SMALL = 1 << 22
"""Bytes of arguments and results up to which a program is called."""


def _call(kernel: Any) -> None:
    from mlirtri.dialect.base.sizes import is_dynamic
    from mlirtri.kernels.arguments import random_array

    interface = kernel.interface
    types = [parameter.type for parameter in interface.parameters]
    if any(is_dynamic(size) for type_ in types for size in type_.shape):
        types = [type_.with_shape(tuple(3 if is_dynamic(size) else size for size in type_.shape)) for type_ in types]
    sizes = [type_.size for type_ in (*types, *interface.leaves) if type_.is_static]
    if sum(size or 0 for size in sizes) > SMALL:
        return
    kernel(*[random_array(p.name, type_, None) for p, type_ in zip(interface.parameters, types, strict=True)])


def _program(program: Any, report: Any) -> None:
    for pipeline in ("mlir", "linalg"):
        report(f"compiling by {pipeline}")
        kernel = program.compile(pipeline=pipeline)
        report(f"calling by {pipeline}")
        _call(kernel)


def _by(reader: str) -> Any:
    def run(data: bytes, report: Any) -> None:
        import mlirtri as mt

        _program(getattr(mt, reader)(data), report)

    return run


def _text_by(reader: str) -> Any:
    def run(data: bytes, report: Any) -> None:
        import mlirtri as mt

        _program(getattr(mt, reader)(data.decode("utf-8", "replace") + "\n"), report)

    return run


def _archive(data: bytes, report: Any) -> None:
    from mlirtri.cli.program_files import _READERS

    _program(_READERS["torch"](data), report)


def _stage(data: bytes, report: Any) -> None:
    import mlirtri as mt

    stage, _, text = data.partition(b"\n")
    mt.resume("<stage>", stage.decode(errors="replace"), text=text.decode("utf-8", "replace"), pipeline="mlir")


def _tvm_stage(data: bytes, report: Any) -> None:
    import mlirtri as mt

    stage, _, text = data.partition(b"\n")
    mt.resume("<stage>", stage.decode(errors="replace"), text=text.decode("utf-8", "replace"), pipeline="linalg")


def _manifest(data: bytes, report: Any) -> None:
    import tempfile

    import mlirtri as mt

    text = "func.func @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }"
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "manifest.json").write_bytes(data)
        file = Path(folder, "01_linalg.mlir")
        file.write_text(text)
        _call(mt.resume(file, "linalg"))


def _argument(data: bytes, report: Any) -> None:
    from mlirtri.kernels.arguments import parse_argument, random_array
    from mlirtri.language.names import Tensor

    name, value = parse_argument(data.decode("utf-8", "replace"))
    if isinstance(value, Tensor) and value.type is not None and (value.type.size or 0) < SMALL:
        random_array(name, value.type, value.bounds)


def _opt(data: bytes, report: Any) -> None:
    """A command of its own: `mlirtri-opt` is one process per file, as mlir-opt is."""
    import subprocess
    import tempfile

    options, _, text = data.partition(b"\n")
    with tempfile.NamedTemporaryFile(suffix=".mlir") as file:
        file.write(text)
        file.flush()
        words = [word for word in options.decode("utf-8", "replace").split() if "\0" not in word and ">" not in word]
        command = [sys.executable, "-m", "mlirtri.opt", *words, file.name]
        finished = subprocess.run(
            command, capture_output=True, timeout=SECONDS, check=False, text=True, errors="replace"
        )
    if finished.returncode not in (0, 1, 2) or "Traceback (most recent" in finished.stderr:
        raise RuntimeError(f"status {finished.returncode}: {finished.stderr[-300:]}")


DOORS = {
    "mlir": _by("from_mlir"), "bytecode": _by("from_mlir"), "stablehlo": _by("from_stablehlo"),
    "tosa": _by("from_tosa"), "onnx": _by("from_onnx"), "onnx-fields": _by("from_onnx"), "pt2": _archive,
    "pt2-members": _archive, "relax": _text_by("from_relax"), "stages": _stage, "tvm-stages": _tvm_stage,
    "manifest": _manifest, "arguments": _argument, "opt": _opt,
}  # fmt: skip


def outcome_of(door: str, data: bytes, report: Any) -> tuple[str, str]:
    """Return the kind of an input's end, and what identifies it."""
    from mlirtri.errors import CompilerBugError, KernelError

    try:
        DOORS[door](data, report)
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
    """The worker: for each (door, data) it sends phases, then the outcome with its processor seconds."""
    from mlirtri.lowering.toolchain.worker_process import message_pipes

    requests, answer = message_pipes()
    os.environ.setdefault("MLIRTRI_MAX_TENSOR_BYTES", str(1 << 28))
    os.environ.setdefault("MLIRTRI_NUM_THREADS", "2")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, resource.getrlimit(resource.RLIMIT_AS)[1]))
    import warnings

    warnings.simplefilter("ignore")
    for door, data in requests:
        start = time.process_time()
        answer(
            ("outcome", *outcome_of(door, data, lambda phase: answer(("phase", phase))), time.process_time() - start)
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

    def run(self, door: str, data: bytes) -> None:
        kind, what, seconds = self._outcome(door, data)
        self.slowest[door] = max(self.slowest[door], seconds)
        if seconds > SLOW and kind in ("refused", "right"):
            kind, what = "slow", f"{what} {seconds:.0f} s"
        self.counts[door][kind] += 1
        if kind in ("refused", "right"):
            return
        self.findings[door, kind, what] += 1
        if self.findings[door, kind, what] <= 2:
            name = f"{door}-{kind}-{hashlib.sha1(data).hexdigest()[:8]}"
            self.out.mkdir(parents=True, exist_ok=True)
            (self.out / name).write_bytes(data)
            print(f"{name}: {what}", flush=True)

    def _outcome(self, door: str, data: bytes) -> tuple[str, str, float]:
        if not self.worker.is_running:
            self.worker.start()
        phase, start = "reading", time.monotonic()
        try:
            self.worker.send((door, data))
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
        for door, counts in self.counts.items():
            print(f"{door:12} {sum(counts.values()):6} inputs, slowest {self.slowest[door]:.1f} s: {dict(counts)}")
        for (door, kind, what), count in self.findings.most_common():
            print(f"{count:4} {door} {kind}: {what}")


def _next_input(door: str, seeds: list[bytes], random: Random) -> bytes:
    data = random.choice(seeds)
    if door == "pt2-members":
        return with_mutated_members(data, lambda content, is_text: mutated(content, random, is_text), random.choice)
    if door == "onnx-fields":
        import onnx

        model = onnx.load_model_from_string(data)
        with_other_fields(model, random)
        return model.SerializeToString()
    return mutated(data, random, door in TEXT)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--doors", default=",".join(SEEDS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("hostile-findings"))
    parser.add_argument("--again", type=Path, help="run one finding in this process")
    options = parser.parse_args()
    if options.again:
        print(outcome_of(options.again.name.rsplit("-", 2)[0], options.again.read_bytes(), print))
        return
    random, doors, driver = Random(options.seed), options.doors.split(","), Driver(options.out)
    seeds = {door: SEEDS[door]() for door in doors}
    end = time.monotonic() + options.seconds
    while time.monotonic() < end:
        for door in doors:
            driver.run(door, _next_input(door, seeds[door], random))
    driver.worker.stop()
    driver.report()


if __name__ == "__main__":
    main()
