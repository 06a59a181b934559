"""What one small call costs, by pattern: mlirtri beside Numba's dispatch, eager torch, `torch.compile` and JAX.

    python -m benchmarks.latency --seconds 0.2 --clock cpu --peers numba,torch

Every pattern is called with 8 floats, so that what is left is the way in and out. All candidates run in turn, round by
round, in one process on one thread; times are medians. Before that come new processes: imports, and from the start of
the interpreter to the first result, compiled and from the disk cache. What is not installed has no column.
"""

from __future__ import annotations

import argparse
import compileall
import importlib.util
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import processes

ROOT = Path(__file__).resolve().parent.parent
CHILD = "BENCHMARK_OF_LATENCY"
"""Set in the process that measures: libraries read the other variables when they are loaded."""
PEERS = ("numba", "torch", "compile", "jax")
SAMPLE = 1e-3
"""Seconds of one sample, at least."""
STARTS = 3
"""New processes per figure."""
FIRST = """
import numpy as np
{imports}
def work(a, b):
    return a + b, a * b
a = np.ones(8, np.float32)
{call}(work)(a, a)
"""


FIRST_RESULTS = {
    "numba": ("Numba", "import numba", "numba.njit"),
    "compile": ("torch.compile", "import torch", "torch.compile"),
    "jax": ("JAX", "import jax", "jax.jit"),
}
"""By peer: its name, what a new process imports, and what compiles a function of NumPy's arrays."""
NO_CACHES = {"TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}


def several(a, b):
    return a + b, a * b


def nested(a, b):
    return a + b, (a - b, a * b)


def single(a, b):
    return a + b


def update(a, b):
    a += b


def update_and_return(a, b):
    a += b
    return a * b


def loop(a, b):
    for i in range(a.shape[0]):
        b[i] = a[i] * 2


def loop_to_number(a):
    total = 0.0
    for i in range(a.shape[0]):
        total += a[i]
    return total


def scaled(a, factor):
    return a * factor


def total(a):
    return a.sum()


def doubled(a):
    return a * 2


def products(a, b):
    return ((a @ b) @ b) @ b


def asserted(a, b):
    assert b.sum() > 0, "no weight"
    return a / b


SCALE = 2.0


def with_global(a):
    return a * SCALE


@dataclass(frozen=True)
class Pattern:
    """One way to call a kernel."""

    title: str
    function: Callable[..., Any]
    make: Callable[[], tuple[Any, ...]]
    peers: tuple[str, ...] = PEERS
    is_out: bool = False
    """Whether a result is written into `out=`."""
    is_debug: bool = False
    is_program: bool = False


def _two() -> tuple[Any, ...]:
    return np.zeros(8, np.float32), np.full(8, 1e-3, np.float32)


def _one() -> tuple[Any, ...]:
    return _two()[:1]


def _matrices() -> tuple[Any, ...]:
    return np.eye(8, dtype=np.float32), np.eye(8, dtype=np.float32)


WITHOUT_JAX = PEERS[:3]
PATTERNS = (
    Pattern("one result", single, _two),
    Pattern("out=", single, _two, peers=("torch",), is_out=True),
    Pattern("two results", several, _two),
    Pattern("nested results", nested, _two),
    Pattern("update in place", update, _two, WITHOUT_JAX),
    Pattern("update and result", update_and_return, _two, WITHOUT_JAX),
    Pattern("loop that writes", loop, _two, ("numba",)),
    Pattern("loop to a number", loop_to_number, _one, ("numba",)),
    Pattern("run-time number", scaled, lambda: (*_one(), 1.5)),
    Pattern("a number returned", total, _one),
    Pattern("strided view", doubled, lambda: (np.zeros(16, np.float32)[::2],), WITHOUT_JAX),
    Pattern("several launches", products, _matrices, ("torch", "compile", "jax")),
    Pattern("run-time check", asserted, lambda: (_two()[0], np.ones(8, np.float32)), ("numba",), is_debug=True),
    Pattern("a global read", with_global, _one),
    Pattern("torch program", several, _two, ("torch", "compile"), is_program=True),
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.latency", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--seconds", type=float, default=0.2, help="for all samples of a pattern")
    parser.add_argument(
        "--clock", choices=("wall", "cpu"), default="wall", help="cpu: of the thread or the process, on a busy machine"
    )
    parser.add_argument("--peers", default=",".join(PEERS), help=f"of {','.join(PEERS)}; compile takes seconds each")
    parser.add_argument("--patterns", action="append", help="part of a pattern's title; may be given several times")
    parser.add_argument("--no-processes", action="store_true", help="leave out imports and first calls")
    options = parser.parse_args()
    if CHILD not in os.environ:
        environment = {**processes.environment(1), CHILD: "1"}
        command = [sys.executable, "-m", "benchmarks.latency", *sys.argv[1:]]
        sys.exit(subprocess.run(command, check=False, cwd=ROOT, env=environment).returncode)
    peers = [peer for peer in options.peers.split(",") if peer and is_installed(peer)]
    if not options.no_processes:
        print_processes(peers, options.clock)
    chosen = [p for p in PATTERNS if any(part in p.title for part in options.patterns or [""])]
    print_calls(chosen, peers, options.seconds, time.thread_time if options.clock == "cpu" else time.perf_counter)


def is_installed(peer: str) -> bool:
    return importlib.util.find_spec({"compile": "torch"}.get(peer, peer)) is not None


def print_processes(peers: list[str], clock: str) -> None:
    """Print seconds of new processes, of a CPU with `cpu`: imports with Python's start, and to the first result."""
    with tempfile.TemporaryDirectory() as folder:
        cold, warm = (
            {"MLIRTRI_CACHE_DIR": folder, "MLIRTRI_CACHE": "0"},
            {"MLIRTRI_CACHE_DIR": folder, "MLIRTRI_CACHE": "1"},
        )
        # Libraries are installed with their bytecode, which this process may have been told not to write.
        for name in ("mlirtri", "dialect", "lowering"):
            compileall.compile_dir(ROOT / name, quiet=2)
        ours = FIRST.format(imports="import mlirtri", call="mlirtri.jit")
        rows = [("import numpy", "import numpy", {}), ("import mlirtri", "import mlirtri", {})]
        rows += [(f"import {name}", f"import {name}", {}) for name in ("torch", "numba", "jax") if name in peers]
        rows += [("mlirtri, first result, compiled", ours, cold), ("mlirtri, first result, disk cache", ours, warm)]
        for peer, (title, imports, call) in FIRST_RESULTS.items():
            if peer in peers:
                rows.append((f"{title}, first result, compiled", FIRST.format(imports=imports, call=call), NO_CACHES))
        print(f"{'new process':36} {'seconds':>8}")
        for title, program, variables in rows:
            seconds = [_process(program, variables, folder, clock) for _ in range(STARTS + 1)][1:]
            print(f"{title:36} {statistics.median(seconds):8.2f}", flush=True)
    print()


def _process(program: str, variables: dict[str, str], folder: str, clock: str) -> float:
    # Numba and `inspect` read the source.
    file = Path(folder, "program.py")
    file.write_text(program)
    environment = {**os.environ, **variables, "PYTHONPATH": str(ROOT)}
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, str(file)], check=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if clock == "cpu":
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - start


def print_calls(patterns: list[Pattern], peers: list[str], seconds: float, clock: Callable[[], float]) -> None:
    """Print microseconds of a call by pattern and candidate."""
    columns = ["arrays", "tensors", *peers]
    print(f"{'microseconds of a call':24}" + "".join(f"{column:>9}" for column in columns), flush=True)
    for pattern in patterns:
        times = measured(pattern, peers, seconds, clock)
        cells = "".join(f"{times[column] * 1e6:9.2f}" if column in times else f"{'-':>9}" for column in columns)
        print(f"{pattern.title:24}{cells}", flush=True)


def measured(pattern: Pattern, peers: list[str], seconds: float, clock: Callable[[], float]) -> dict[str, float]:
    """Return median seconds of a call by candidate; those that refuse the pattern are missing."""
    candidates = {}
    for label, make in makers(pattern).items():
        if label in ("arrays", "tensors") or (label in peers and label in pattern.peers):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                candidates[label] = call = make()
                for _ in range(10):
                    call()
    repeats = {label: _repeats(call, clock) for label, call in candidates.items()}
    samples: dict[str, list[float]] = {label: [] for label in candidates}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(next(iter(samples.values()))) < 5:
        for label, call in candidates.items():
            samples[label].append(_sample(call, repeats[label], clock))
    return {label: statistics.median(times) for label, times in samples.items()}


def _repeats(call: Callable[[], Any], clock: Callable[[], float]) -> int:
    return max(10, int(SAMPLE / max(_sample(call, 20, clock), 1e-9)))


def _sample(call: Callable[[], Any], repeats: int, clock: Callable[[], float]) -> float:
    start = clock()
    for _ in range(repeats):
        call()
    return (clock() - start) / repeats


def makers(pattern: Pattern) -> dict[str, Callable[[], Callable[[], Any]]]:
    """Return what makes each candidate's call, by label."""
    import torch

    import mlirtri

    torch.set_num_threads(1)
    arrays = pattern.make()
    tensors = [torch.from_numpy(value) if isinstance(value, np.ndarray) else value for value in pattern.make()]

    def ours(arguments: Any) -> Callable[[], Any]:
        if pattern.is_program:
            module = as_module(pattern.function)
            return bound(mlirtri.from_torch(module, tuple(tensors)).compile(), arguments, pattern)
        return bound(mlirtri.jit(pattern.function, debug=pattern.is_debug), arguments, pattern)

    def numba_call() -> Callable[[], Any]:
        import numba

        return bound(numba.njit(pattern.function), arrays, pattern)

    def jax_call() -> Callable[[], Any]:
        import jax

        return bound(jax.jit(pattern.function), [jax.numpy.asarray(value) for value in arrays], pattern)

    eager = torch.add if pattern.is_out else pattern.function
    return {
        "arrays": lambda: ours(arrays),
        "tensors": lambda: ours(tensors),
        "numba": numba_call,
        "torch": lambda: bound(eager, tensors, pattern),
        "compile": lambda: bound(torch.compile(pattern.function, dynamic=False), tensors, pattern),
        "jax": jax_call,
    }


def bound(function: Callable[..., Any], arguments: Any, pattern: Pattern) -> Callable[[], Any]:
    """Return the same call each time, with as little around it as Python allows."""
    if pattern.is_out:
        first, second = arguments
        out = first + second
        return lambda: function(first, second, out=out)
    if len(arguments) == 1:
        [only] = arguments
        return lambda: function(only)
    first, second = arguments
    return lambda: function(first, second)


def as_module(function: Callable[..., Any]) -> Any:
    """Return a module of torch that calls a function."""
    import torch

    class Module(torch.nn.Module):
        def forward(self, a, b):
            return function(a, b)

    return Module()


if __name__ == "__main__":
    main()
