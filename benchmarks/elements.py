"""Element kernels beside Numba: ``python benchmarks/elements.py [--threads 2] [--filter jacobi] [--pipeline mlir]
[--clock cpu]``.

Numba gets the source of the same kernels, with its own `prange`, with and without ``parallel=True``; the faster one
whose results are right counts, since a histogram in a parallel loop is a race there. All run in turn, round by round,
on fresh copies of the same arguments; times are the least of each. A ratio above 1 says that mlirtri is faster.
"""

from __future__ import annotations

import argparse
import inspect
import math
import os
import re
import sys
import time
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np

CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
ROUNDS = 7
SCALES = {
    "dot": 800, "histogram": 800, "positive": 800, "brighten": 1000, "blur": 200, "jacobi": 100, "inside": 400,
    "march": 30, "n_body": 25, "mandelbrot": 60, "julia": 60,
}  # fmt: skip
"""By example, how many times as long as in the tests its outermost axis is."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--pipeline", default="linalg")
    parser.add_argument("--filter", default="")
    parser.add_argument("--clock", choices=CLOCKS, default="wall", help="cpu: for one thread, on a machine with others")
    options = parser.parse_args()
    os.environ["MLIRTRI_NUM_THREADS"] = os.environ["NUMBA_NUM_THREADS"] = str(options.threads)
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))
    from elements import EXAMPLES

    print(f"{options.threads} thread(s), {options.pipeline}\n{'':14}{'numba':>12}{'mlirtri':>12}  ratio")
    ratios = []
    for name, example in EXAMPLES.items():
        if options.filter in name:
            numba, ours = seconds(example, options.pipeline, CLOCKS[options.clock])
            ratios.append(numba / ours)
            print(f"{name:14}{numba * 1e3:10.2f}ms{ours * 1e3:10.2f}ms  {numba / ours:.2f}", flush=True)
    if ratios:
        print(f"geometric mean {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}")


def seconds(example: Any, pipeline: str, clock: Callable[[], float] = time.perf_counter) -> tuple[float, float]:
    """Return the least time of Numba, infinite where it is wrong, and of the kernel."""
    import mlirtri as mt

    arguments = example.make(SCALES[example.name])
    ours = mt.jit(example.kernel, pipeline=pipeline).compile(*arguments)
    wanted = example.results(ours, arguments)
    others = [function for function in in_numba(example) if _agrees(example, function, arguments, wanted)]
    candidates = [ours, *others]
    least = [math.inf] * len(candidates)
    for _ in range(ROUNDS):
        for number, function in enumerate(candidates):
            copies = deepcopy(arguments)
            start = clock()
            function(*copies)
            least[number] = min(least[number], clock() - start)
    return min(least[1:], default=math.inf), least[0]


def in_numba(example: Any) -> list[Callable[..., Any]]:
    """Return the kernel compiled by Numba, with parallel loops and without."""
    import numba

    function = example.nested or example.kernel
    source = inspect.getsource(function)
    source = re.sub(r": mt\.\w+", "", source).replace("mt.prange", "prange").replace("mt.serial", "range")
    source = re.sub(r"mt\.static\((range\([^)]*\))\)", r"\1", source)
    names = {"np": np, "prange": numba.prange}
    exec(source, names)
    return [numba.njit(names[function.__name__], parallel=is_parallel) for is_parallel in (True, False)]


def _agrees(example: Any, function: Callable[..., Any], arguments: tuple[Any, ...], wanted: list[np.ndarray]) -> bool:
    got = example.results(function, arguments)
    # A sum in order loses digits that partial results keep; a byte may be rounded the other way.
    return all(np.allclose(here, there, rtol=1e-2, atol=1) for here, there in zip(got, wanted, strict=True))


if __name__ == "__main__":
    main()
