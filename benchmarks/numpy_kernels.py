"""Compile and run times of the suite of scientific kernels (examples/numpy_kernels): NumPy, Numba and mlirtri.

    python benchmarks/numpy_kernels.py --threads 1 --filter jacobi --filter gemm --size L

Numba gets the same unmodified functions, in nopython mode, with the functions that they call compiled as well; with
several threads it is tried with and without ``parallel=True``, and the faster one counts. Needs ``pip install
'mlirtri[bench]'``; without Numba its columns stay empty. A "-" is a refusal; --verbose says why.

Every kernel has a process of its own, forked from one that has imported everything: compile times are cold ones, and
a crash is a row of the table. All candidates run in turn, round by round, on fresh copies of the same arguments; times
are medians, and results are compared with NumPy's. NumPy/x above 1 means that x is faster than NumPy.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import json
import math
import multiprocessing
import os
import pkgutil
import signal
import statistics
import subprocess
import sys
import time
import warnings
from pathlib import Path
from types import FunctionType
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))

LIBRARIES = ("OPENBLAS", "OMP", "MKL", "NUMBA", "MLIRTRI")
COLUMNS = ("numpy", "numba", "mlirtri")


def main() -> None:
    options = read_options()
    if options.threads is None:
        # The libraries read their thread counts once: each count needs a process of its own.
        for threads in sorted({1, len(os.sched_getaffinity(0))}):
            subprocess.run([sys.executable, __file__, *sys.argv[1:], "--threads", str(threads)], check=True)
        return
    os.environ.pop("OPENBLAS_CORETYPE", None)
    for library in LIBRARIES:
        os.environ[f"{library}_NUM_THREADS"] = str(options.threads)
    import_everything()
    from numpy_kernels import KERNELS

    print(f"{options.threads} thread(s), {options.dtype or 'the first dtype of each'}, size {options.size}\n{HEADER}")
    rows = {}
    for name, case in KERNELS.items():
        dtype = options.dtype or case.dtypes[0]
        if dtype in case.dtypes and any(part in name for part in options.filter or [""]):
            rows[name] = in_own_process(name, dtype, options)
            print(row_text(name, rows[name], options.verbose), flush=True)
    print_summary(rows)
    if options.json:
        with open(options.json, "a") as file:
            file.write(json.dumps({"threads": options.threads, "size": options.size, "rows": rows}) + "\n")


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, help="by default one, then all")
    parser.add_argument("--filter", action="append", help="part of a kernel's name; may be given several times")
    parser.add_argument("--size", choices=("S", "L"), default="L")
    parser.add_argument("--dtype", help="by default the first that a kernel is written for")
    parser.add_argument("--pipeline", default="linalg", choices=("linalg", "relax", "mlir"))
    parser.add_argument("--seconds", type=float, default=1.0, help="for all runs of a kernel")
    parser.add_argument("--timeout", type=int, default=120, help="seconds for a kernel, compilation included")
    parser.add_argument("--fastmath", action="store_true", help="let Numba reorder sums")
    parser.add_argument("--only", action="append", choices=COLUMNS[1:], help="leave the others out")
    parser.add_argument("--json", help="append the figures to this file")
    parser.add_argument("--verbose", action="store_true", help="say why a candidate has no time")
    return parser.parse_args()


def import_everything() -> None:
    """What "cold" leaves out: the time to import the compilers."""
    import mlirtri
    from mlirtri.dialect.spellings import registry as spellings

    # Their files fill one table in an order of their own.
    spellings.lookup("numpy.sum")
    for folder in ("dialect", "lowering"):
        package = importlib.import_module(f"mlirtri.{folder}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    assert mlirtri.jit
    try:
        import numba
    except ImportError:
        print("Numba is not installed: its columns stay empty", file=sys.stderr)
    else:
        assert numba.njit


def in_own_process(name: str, dtype: str, options: argparse.Namespace) -> dict[str, Any]:
    """What `measure` gives, or a row that says that the process died."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_send_measured, args=(sender, name, dtype, options))
    process.start()
    sender.close()
    row: dict[str, Any] = {}
    # A process that dies keeps what it sent before.
    while True:
        try:
            row |= receiver.recv()
        except EOFError:
            break
    process.join()
    if process.exitcode:
        died = signal.Signals(-process.exitcode).name if process.exitcode < 0 else f"exit code {process.exitcode}"
        row.setdefault("why", {})[row.pop("busy", "process")] = f"died: {died}"
    return row


def _send_measured(sender: Any, name: str, dtype: str, options: argparse.Namespace) -> None:
    warnings.simplefilter("ignore")
    signal.alarm(options.timeout)
    measure(sender.send, name, dtype, options)
    sender.close()


def measure(send: Any, name: str, dtype: str, options: argparse.Namespace) -> None:
    """Send compile seconds, then median seconds of each candidate that gives NumPy's results."""
    from numpy_kernels import KERNELS
    from numpy_kernels.case import copied

    case = KERNELS[name]
    arguments = case.arguments(options.size, dtype)
    expected = outcome(case.function, copied(arguments))
    running, compile_seconds, why = {"numpy": case.function}, {}, {}
    for label, make in candidates(case, options).items():
        send({"busy": label, "compile": compile_seconds, "why": why})
        start = time.perf_counter()
        try:
            compiled = make()
            results = outcome(compiled, copied(arguments))
        except Exception as error:
            why[label] = f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}"
            continue
        compile_seconds[label] = time.perf_counter() - start
        if is_close(results, expected, dtype):
            running[label] = compiled
        else:
            why[label] = "wrong results"
    seconds = timed(running, arguments, options.seconds)
    send({"busy": "", "seconds": seconds, "compile": compile_seconds, "why": why})


def candidates(case: Any, options: argparse.Namespace) -> dict[str, Any]:
    """Label to a function that makes the compiled kernel; nothing compiles before its first call."""
    import mlirtri

    by_label = {}
    if "mlirtri" in (options.only or COLUMNS):
        by_label["mlirtri"] = functools.partial(mlirtri.jit, case.function, pipeline=options.pipeline)
    if "numba" in (options.only or COLUMNS) and "numba" in sys.modules:
        by_label["numba"] = functools.partial(with_numba, case.function, parallel=False, fastmath=options.fastmath)
        if options.threads > 1:
            by_label["numba parallel"] = functools.partial(
                with_numba, case.function, parallel=True, fastmath=options.fastmath
            )
    return by_label


def with_numba(function: FunctionType, **flags: bool) -> Any:
    """A function compiled by Numba, and each function of its module that it calls."""
    import numba

    compiled: dict[str, Any] = {}

    def compile_one(called: FunctionType) -> Any:
        names = dict(called.__globals__)
        copy = FunctionType(called.__code__, names, called.__name__, called.__defaults__, called.__closure__)
        for name in called.__code__.co_names:
            helper = names.get(name)
            if isinstance(helper, FunctionType) and helper.__module__ == called.__module__:
                if name not in compiled:
                    compiled[name] = compile_one(helper)
                names[name] = compiled[name]
        return numba.njit(**flags)(copy)

    return compile_one(function)


def outcome(function: Any, arguments: list[Any]) -> list[Any]:
    """Returned values and arguments afterwards, as arrays."""
    import numpy as np

    returned = function(*arguments)
    results = list(returned) if isinstance(returned, tuple) else [returned]
    values = [
        value for value in (*results, *arguments) if isinstance(value, (int, float, complex, np.generic, np.ndarray))
    ]
    return [np.asarray(value) for value in values]


def is_close(results: list[Any], expected: list[Any], dtype: str) -> bool:
    """Up to half of the digits of the dtype, beside the largest number: sums have other orders, and steps repeat."""
    import numpy as np

    if len(results) != len(expected):
        return False
    near = float(np.finfo(dtype if dtype.startswith("float") else "float64").eps) ** 0.5
    for mine, other in zip(results, expected, strict=True):
        scale = float(np.max(np.abs(other.astype(complex)), initial=1.0))
        if mine.shape != other.shape or not np.allclose(mine, other, near, near * scale, equal_nan=True):
            return False
    return True


def timed(running: dict[str, Any], given: tuple[Any, ...], seconds: float) -> dict[str, float]:
    """Medians over rounds in which all candidates run in turn, on fresh copies."""
    from numpy_kernels.case import copied

    times: dict[str, list[float]] = {label: [] for label in running}
    end = time.perf_counter() + seconds
    while len(times["numpy"]) < 3 or (time.perf_counter() < end and len(times["numpy"]) < 101):
        for label, function in running.items():
            arguments = copied(given)
            start = time.perf_counter()
            function(*arguments)
            times[label].append(time.perf_counter() - start)
    return {label: statistics.median(samples) for label, samples in times.items()}


HEADER = (
    f"{'kernel':27} {'NumPy':>9} {'Numba':>9} {'mlirtri':>9} ms  {'NumPy/':>8} {'NumPy/':>8} {'Numba/':>8}"
    f"   {'compile s':>13}\n{'':27} {'':>9} {'':>9} {'':>9}     {'Numba':>8} {'mlirtri':>8} {'mlirtri':>8}"
    f"   {'Numba':>6} {'mlirtri':>6}"
)


def best(row: dict[str, Any], column: str) -> float | None:
    """Seconds of a column: the faster one of Numba's modes."""
    times = [value for label, value in row.get("seconds", {}).items() if label.split()[0] == column]
    return min(times, default=None)


def row_text(name: str, row: dict[str, Any], verbose: bool) -> str:
    numpy, numba, ours = (best(row, column) for column in COLUMNS)
    columns = [f"{name:27}", *(number(seconds, 1e3, 9) for seconds in (numpy, numba, ours)), "   "]
    columns += [number(ratio(*pair), 1, 8) for pair in ((numpy, numba), (numpy, ours), (numba, ours))]
    columns += ["  ", *(number(row.get("compile", {}).get(label), 1, 6) for label in ("numba", "mlirtri"))]
    why = row.get("why", {})
    short = [f"  {label}: {text}" for label, text in why.items() if verbose or "wrong" in text or "died" in text]
    return " ".join(columns) + "".join(f"\n{line}" for line in short)


def number(value: float | None, unit: float, width: int) -> str:
    if value is None:
        return f"{'-':>{width}}"
    scaled = value * unit
    return f"{scaled:{width}.{3 if scaled < 10 else 1}f}"


def ratio(above: float | None, below: float | None) -> float | None:
    return above / below if above is not None and below is not None else None


def print_summary(rows: dict[str, dict[str, Any]]) -> None:
    """How many compile and are right, and geometric means of the ratios over the kernels that both have."""
    print(f"\n{len(rows)} kernels")
    for column in COLUMNS[1:]:
        print_column(column, list(rows.values()))
    both = [row for row in rows.values() if best(row, "numba") is not None and best(row, "mlirtri") is not None]
    for above, below, chosen in (
        ("numpy", "numba", rows.values()), ("numpy", "mlirtri", rows.values()),
        ("numpy", "numba", both), ("numpy", "mlirtri", both), ("numba", "mlirtri", both),
    ):  # fmt: skip
        ratios = [value for row in chosen if (value := ratio(best(row, above), best(row, below))) is not None]
        if ratios:
            mean = math.exp(statistics.fmean(map(math.log, ratios)))
            where = "that both compile" if chosen is both else "that it compiles"
            print(f"  {above}/{below}: {mean:.2f} (geometric mean over the {len(ratios)} kernels {where})")


def print_column(column: str, rows: list[dict[str, Any]]) -> None:
    right = sum(best(row, column) is not None for row in rows)
    wrong = sum("wrong" in text for row in rows for label, text in row.get("why", {}).items() if column in label)
    compiles = [row["compile"][column] for row in rows if column in row.get("compile", {})]
    print(f"  {column:8} runs {right}, gives wrong results {wrong} times", end="")
    if compiles:
        print(f"; cold compile {statistics.median(compiles):.2f} s (median), {max(compiles):.2f} s (slowest)", end="")
    print()


if __name__ == "__main__":
    main()
