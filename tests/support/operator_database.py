"""Runs samples of torch's operator database through `mt.from_torch` and compares them with eager.

``python -m operator_database --record FILE`` appends one JSON line per sample to FILE and runs none a second time. A
worker process compiles them, several samples of an operator as one program; a crash or an endless loop is the failure
of one sample. The database is ``torch.testing._internal.common_methods_invocations.op_db``, which needs the packages
``expecttest`` and ``hypothesis``.
"""

from __future__ import annotations

import argparse
import json
import queue
import subprocess
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import torch
from torch.utils import _pytree as pytree

DTYPES = (
    *("float32", "int64", "bool", "complex64", "bfloat16", "float16"),
    *("float64", "uint8", "int8", "int16", "int32", "complex128"),
    *("uint16", "uint32", "uint64", "complex32", "float8_e5m2", "float8_e4m3fn"),
)
BATCH = 12
"""Samples of one operator that are compiled as one program."""
SAMPLES_PER_WORKER = 240
"""Samples after which a fresh worker takes over: compilers keep memory."""
TIED = ("kthvalue", "mode", "topk", "median", "nanmedian", "sort", "argsort", "msort")
"""Operators of which eager does not specify the indices of equal elements: only their values are compared."""
UNDEFINED = ("empty", "new_empty", "resize")
"""Beginnings of the names of operators whose results hold what nothing defines."""
WIDER = {torch.float16: torch.float64, torch.bfloat16: torch.float64, torch.float32: torch.float64,
         torch.complex64: torch.complex128}  # fmt: skip


@dataclass(frozen=True)
class Sample:
    """One sample of the database: number `number` in an order that the names of operator and dtype shuffle."""

    operator: str
    dtype: str
    number: int


@dataclass(frozen=True)
class Outcome:
    """What came of a sample: right, wrong, nearer, refused, crashed, random, absent, timed_out or died; and a sentence.

    `nearer`: outside of the tolerance of `torch.testing`, and not farther than eager from a computation in a wider
    dtype. `absent`: eager fails, or its tensors are not dense. `timed_out`: the program took longer than `--timeout`.
    """

    operator: str
    dtype: str
    number: int
    pipeline: str
    outcome: str
    detail: str = ""


class Call(torch.nn.Module):
    """Several calls of one operator as one module of all their tensors."""

    def __init__(self, operator: Any, calls: list[Any]):
        super().__init__()
        self.operator = operator
        self.calls = calls

    def forward(self, *tensors: torch.Tensor) -> list[Any]:
        remaining = iter(tensors)
        return [self._call(call, remaining) for call in self.calls]

    def _call(self, call: Any, tensors: Iterator[torch.Tensor]) -> Any:
        first, args, kwargs = pytree.tree_map(lambda leaf: next(tensors) if _is_tensor(leaf) else leaf, call)
        return self.operator(first, *args, **kwargs)


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    if options.worker:
        return work(options.pipeline, options.batch)
    samples = list(selected(options))
    _record_again(samples, options)
    remaining, alone = _remaining(samples, options)
    while remaining:
        run_worker(alone or remaining[:SAMPLES_PER_WORKER], options, 1 if alone else BATCH)
        remaining, alone = _remaining(samples, options)
    print(summary(options.record, options.pipeline))
    return 0


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="operator_database", description=__doc__)
    parser.add_argument("--record", type=Path, help="the file of outcomes", required=True)
    parser.add_argument("--pipeline", default="linalg")
    parser.add_argument("--dtype", action="append", help="only these dtypes; may be repeated")
    parser.add_argument("--operator", action="append", help="only operators whose name begins so; may be repeated")
    parser.add_argument("--numbers", type=int, nargs=2, default=(0, 1), help="first sample, and one past the last")
    parser.add_argument("--share", type=float, default=1.0, help="the part of the samples that is drawn")
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds for one program")
    parser.add_argument("--again", action="append", default=[], help="outcomes to run again")
    parser.add_argument("--batch", type=int, default=BATCH, help=argparse.SUPPRESS)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def selected(options: argparse.Namespace) -> Iterator[Sample]:
    """Yield the samples that the options name, those of one operator next to each other."""
    for name, operator in database().items():
        if options.operator and not name.startswith(tuple(options.operator)):
            continue
        supported = {str(dtype).removeprefix("torch.") for dtype in operator.supported_dtypes("cpu")}
        for number in range(*options.numbers):
            for dtype in DTYPES:
                drawn = Random(f"{name} {dtype} {number} drawn").random() < options.share
                if drawn and dtype in supported and dtype in (options.dtype or DTYPES):
                    yield Sample(name, dtype, number)


def database() -> dict[str, Any]:
    """Return the database by name, with variants as in ``linalg.norm:subgradients_at_zero``."""
    from torch.testing._internal.common_methods_invocations import op_db

    return {f"{entry.name}:{entry.variant_test_name}".removesuffix(":"): entry for entry in op_db}


def outcomes(record: Path, pipeline: str) -> dict[Sample, Outcome]:
    """Return the last outcome of each recorded sample."""
    lines = record.read_text().splitlines() if record.exists() else []
    found = [Outcome(**json.loads(line)) for line in lines]
    return {Sample(each.operator, each.dtype, each.number): each for each in found if each.pipeline == pipeline}


def _record_again(samples: list[Sample], options: argparse.Namespace) -> None:
    """Mark the samples whose recorded outcome is one of `--again`, so that they run once more."""
    known = outcomes(options.record, options.pipeline)
    for sample in samples:
        if sample in known and known[sample].outcome in options.again:
            _append(options.record, Outcome(**asdict(sample), pipeline=options.pipeline, outcome="again"))


def _remaining(samples: list[Sample], options: argparse.Namespace) -> tuple[list[Sample], list[Sample]]:
    """Return the samples without an outcome, and those of them that have to run alone, since their group failed."""
    known = {sample: outcome.outcome for sample, outcome in outcomes(options.record, options.pipeline).items()}
    remaining = [sample for sample in samples if known.get(sample, "again") in ("again", "pending")]
    return remaining, [sample for sample in remaining if known.get(sample) == "pending"]


def _append(record: Path, outcome: Outcome) -> None:
    with record.open("a") as file:
        file.write(json.dumps(asdict(outcome)) + "\n")


def run_worker(samples: list[Sample], options: argparse.Namespace, batch: int) -> None:
    """Let one worker run the samples, or those until it dies or takes too long; record what comes of them."""
    command = [sys.executable, "-m", "operator_database", "--worker", "--pipeline", options.pipeline, "--record", "-",
               "--batch", str(batch)]  # fmt: skip
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, errors="replace")
    assert process.stdin is not None
    process.stdin.write("".join(json.dumps(asdict(sample)) + "\n" for sample in samples))
    process.stdin.close()
    lines: queue.Queue[str | None] = queue.Queue()
    threading.Thread(target=_read, args=(process.stdout, lines), daemon=True).start()
    running: list[Sample] = []
    while True:
        try:
            line = lines.get(timeout=options.timeout)
        except queue.Empty:
            process.kill()
            _blame(running, "timed_out", f"more than {options.timeout:.0f} s", options)
            break
        if line is None:
            if process.wait():
                _blame(running, "died", f"the process ended with {process.returncode}", options)
            break
        report = json.loads(line) if line.startswith("{") else {}
        if "running" in report:
            running = [Sample(**each) for each in report["running"]]
        elif "outcome" in report:
            _append(options.record, Outcome(**report))
    process.wait()


def _blame(running: list[Sample], outcome: str, detail: str, options: argparse.Namespace) -> None:
    """Record the outcome of one sample; mark several as such that run alone."""
    alone = len(running) == 1
    for sample in running:
        found = (outcome, detail) if alone else ("pending", "to be run alone")
        _append(options.record, Outcome(**asdict(sample), pipeline=options.pipeline, outcome=found[0], detail=found[1]))


def _read(stream: Any, lines: queue.Queue[str | None]) -> None:
    for line in stream:
        lines.put(line)
    lines.put(None)


def work(pipeline: str, batch: int) -> int:
    """Run the samples of standard input; print what runs, and what came of it."""
    from torch.testing._internal import common_utils

    # The database seeds four generators anew for each of thousands of samples.
    common_utils.set_rng_seed = torch.default_generator.manual_seed
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    samples = [Sample(**json.loads(line)) for line in sys.stdin]
    groups: dict[tuple[str, int], list[Sample]] = {}
    for position, sample in enumerate(samples):
        groups.setdefault((sample.operator, position // batch), []).append(sample)
    for group in groups.values():
        for outcome in Group(group[0].operator, pipeline).run(group):
            print(json.dumps(asdict(outcome)), flush=True)
    return 0


class Group:
    """Samples of one operator, compiled together, or alone where that fails."""

    def __init__(self, name: str, pipeline: str):
        self.name = name
        self.entry = database()[name]
        self.pipeline = pipeline

    def run(self, samples: list[Sample]) -> Iterable[Outcome]:
        """Yield an outcome of each sample."""
        ready: list[tuple[Sample, Any, Any]] = []
        for sample in samples:
            call, expected, absence = self._prepared(sample)
            if absence:
                yield self._outcome(sample, "absent", absence)
            else:
                ready.append((sample, call, expected))
        yield from self._compiled(ready)

    def _outcome(self, sample: Sample, outcome: str, detail: str = "") -> Outcome:
        return Outcome(**asdict(sample), pipeline=self.pipeline, outcome=outcome, detail=" ".join(detail.split())[:400])

    def _prepared(self, sample: Sample) -> tuple[Any, Any, str]:
        dtype = getattr(torch, sample.dtype)
        random = Random(f"{sample.operator} {sample.dtype}")
        torch.manual_seed(random.randrange(2**31))
        try:
            inputs = list(self.entry.sample_inputs("cpu", dtype))
            random.shuffle(inputs)
            if sample.number >= len(inputs):
                return None, None, f"{len(inputs)} samples"
            chosen = inputs[sample.number]
            call = (chosen.input, chosen.args, chosen.kwargs)
            expected = self._eager(call)
            # Entries of random operators seed them with one number, which is another one in the second call.
            with mock.patch("torch.manual_seed", lambda seed: torch.default_generator.manual_seed(seed + 1)):
                again = self._eager(call)
        except Exception as error:
            return None, None, f"eager: {type(error).__name__}: {error}"
        leaves = pytree.tree_leaves((call, expected))
        if any(_is_tensor(leaf) and leaf.layout != torch.strided for leaf in leaves):
            return None, None, "not dense"
        is_random = _difference(again, expected) is not None or self.name.startswith(UNDEFINED)
        return call, (chosen, expected, is_random), ""

    def _eager(self, call: Any) -> Any:
        first, args, kwargs = pytree.tree_map(lambda leaf: leaf.clone() if _is_tensor(leaf) else leaf, call)
        with torch.no_grad():
            return self.entry.op(first, *args, **kwargs)

    def _compiled(self, ready: list[tuple[Sample, Any, Any]]) -> Iterable[Outcome]:
        import mlirtri as mt

        if not ready:
            return
        print(json.dumps({"running": [asdict(sample) for sample, _, _ in ready]}), flush=True)
        calls = [call for _, call, _ in ready]
        tensors = tuple(leaf.detach() for leaf in pytree.tree_leaves(calls) if _is_tensor(leaf))
        try:
            results = mt.from_torch(Call(self.entry.op, calls).eval(), tensors).compile(pipeline=self.pipeline)(
                *tensors
            )
        except Exception as error:
            if len(ready) > 1:
                middle = len(ready) // 2
                yield from self._compiled(ready[:middle])
                yield from self._compiled(ready[middle:])
            else:
                outcome = "refused" if isinstance(error, mt.KernelError) else "crashed"
                yield self._outcome(ready[0][0], outcome, f"{type(error).__name__}: {error}")
            return
        for (sample, call, (chosen, expected, is_random)), result in zip(ready, results, strict=True):
            yield self._judged(sample, call, chosen, result, expected, is_random)

    def _judged(self, sample: Sample, call: Any, chosen: Any, result: Any, expected: Any, is_random: bool) -> Outcome:
        if is_random:
            problem = _difference(result, expected, contents=False)
            return self._outcome(sample, "wrong" if problem else "random", problem or "")
        problem = _difference(result, expected)
        if problem and (process := chosen.output_process_fn_grad) is not None:
            problem = _difference(process(result), process(expected)) and problem
        if problem and self.name in TIED and isinstance(expected, tuple):
            problem = _difference(result[0], expected[0])
        if not problem:
            return self._outcome(sample, "right")
        return self._outcome(sample, "nearer" if self._is_nearer(call, result, expected) else "wrong", problem)

    def _is_nearer(self, call: Any, result: Any, expected: Any) -> bool:
        try:
            wide = self._eager(pytree.tree_map(_widened, call))
        except Exception:
            return False
        triples = zip(*map(pytree.tree_leaves, (result, expected, wide)), strict=True)
        return _difference(result, expected, contents=False) is None and all(
            _distance(mine, best) <= _distance(eager, best) for mine, eager, best in triples if _is_tensor(best)
        )


def _is_tensor(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor)


def _widened(leaf: Any) -> Any:
    return leaf.to(WIDER.get(leaf.dtype, leaf.dtype)) if _is_tensor(leaf) else leaf


def _distance(x: torch.Tensor, best: torch.Tensor) -> float:
    if not x.numel():
        return 0.0
    if best.dtype == torch.bool:
        return float((x != best).sum())
    distance = (x.to(best.dtype) - best).abs()
    # A NaN that the computation in a wider dtype does not have is as far as can be.
    distance = torch.where(torch.isnan(x) & ~torch.isnan(best), torch.inf, distance)
    return float(distance.nan_to_num(0.0, posinf=torch.inf).max())


def _difference(result: Any, expected: Any, contents: bool = True) -> str | None:
    """Return what is different in structure, dtypes, shapes or numbers, or None."""
    mine, others = pytree.tree_leaves(result), pytree.tree_leaves(expected)
    if len(mine) != len(others):
        return f"{len(mine)} results, wanted {len(others)}"
    for position, (a, b) in enumerate(zip(mine, others, strict=True)):
        if problem := _difference_of_leaves(a, b, contents):
            return f"result {position}: {problem}"
    return None


def _difference_of_leaves(a: Any, b: Any, contents: bool) -> str | None:
    if not _is_tensor(b):
        equal = type(a) is type(b) and (a == b or a != a)
        return None if equal else f"{a!r}, wanted {b!r}"
    if not _is_tensor(a) or a.dtype != b.dtype or a.shape != b.shape:
        shown = f"{a.dtype}{list(a.shape)}" if _is_tensor(a) else repr(a)
        return f"{shown}, wanted {b.dtype}{list(b.shape)}"
    if not contents:
        return None
    try:
        torch.testing.assert_close(a, b.resolve_conj().resolve_neg().contiguous(), equal_nan=True)
    except AssertionError as error:
        return f"{b.dtype}{list(b.shape)} {error}"
    return None


def summary(record: Path, pipeline: str) -> str:
    """Return the numbers of outcomes."""
    found = outcomes(record, pipeline)
    counts = Counter(each.outcome for each in found.values())
    return f"{pipeline}: {len(found)} samples, " + ", ".join(
        f"{number} {name}" for name, number in counts.most_common()
    )


if __name__ == "__main__":
    sys.exit(main())
