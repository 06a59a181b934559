"""Element kernels beside Numba: ``python benchmarks/elements.py [--threads 2] [--filter jacobi] [--pipeline mlir]
[--clock cpu]``.

Numba gets the source of the same kernels, with its own `prange`, with and without ``parallel=True``; the faster one
whose results are right counts, since a histogram in a parallel loop is a race there. All run in turn, round by round,
four calls on fresh copies of the same arguments; times are the least of each. A ratio above 1 says that mlirtri is
faster. Where Taichi is installed (`pip install taichi`; tried on Python 3.11) it gets the same source, in a column of
its own.
"""

from __future__ import annotations

import argparse
import inspect
import math
import os
import re
import runpy
import sys
import tempfile
import time
from collections.abc import Callable
from copy import deepcopy
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
ROUNDS = 15
CALLS = 4
"""Calls that are timed together: after a copy of megabytes the code of one call is in no cache."""
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

    with_taichi = find_spec("taichi") is not None
    if with_taichi:
        import taichi

        taichi.init(
            arch=taichi.cpu, cpu_max_num_threads=options.threads, default_fp=taichi.f64, default_ip=taichi.i64,
            fast_math=False, log_level=taichi.ERROR,
        )  # fmt: skip
    print(f"{options.threads} thread(s), {options.pipeline}")
    print(f"{'':14}{'taichi':>12}{'numba':>12}{'mlirtri':>12}  ratio")
    ratios = []
    for name, example in EXAMPLES.items():
        if options.filter in name:
            taichi_s, numba, ours = seconds(example, options.pipeline, CLOCKS[options.clock], with_taichi)
            ratios.append(numba / ours)
            columns = "".join(map(_shown, (taichi_s, numba, ours)))
            print(f"{name:14}{columns}  {numba / ours:.2f}", flush=True)
    if ratios:
        print(f"geometric mean {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}")


def _shown(least: float) -> str:
    return f"{least * 1e3:10.2f}ms" if math.isfinite(least) else f"{'-':>12}"


def seconds(
    example: Any, pipeline: str, clock: Callable[[], float] = time.perf_counter, with_taichi: bool = False
) -> tuple[float, float, float]:
    """Return the least times of Taichi and Numba, infinite where they are wrong or absent, and of the kernel."""
    import mlirtri as mt

    arguments = example.make(SCALES[example.name])
    ours = mt.jit(example.kernel, pipeline=pipeline).compile(*arguments)
    wanted = example.results(ours, arguments)
    others = in_numba(example)
    taichi_kernel = in_taichi(example, arguments, wanted) if with_taichi else None
    if taichi_kernel is not None:
        others.append(taichi_kernel)
    candidates = [ours, *(function for function in others if _agrees(example, function, arguments, wanted))]
    least = [math.inf] * len(candidates)
    for _ in range(ROUNDS):
        for number, function in enumerate(candidates):
            copies = [deepcopy(arguments) for _ in range(CALLS)]
            start = clock()
            for each in copies:
                function(*each)
            least[number] = min(least[number], (clock() - start) / CALLS)
    times = list(zip(candidates, least, strict=True))
    taichis = [time for function, time in times if function is taichi_kernel]
    numbas = [time for function, time in times[1:] if function is not taichi_kernel]
    return min(taichis, default=math.inf), min(numbas, default=math.inf), least[0]


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


TAICHI = (
    (r": mt\.int64", ": ti.i64"), (r"mt\.prange\(", "range("), (r"mt\.(static|ndrange|atomic_add)", r"ti.\1"),
    (r"( *)for (\w+) in mt\.serial\(", r"\1ti.loop_config(serialize=True)\n\1for \2 in range("),
    (r"np\.zeros\((\d), np\.float32\)", r"ti.Vector.zero(ti.f32, \1)"), (r"np\.rint", "ti.round"),
    (r"np\.float32\(", "f32("), (r"np\.int32\(", "i32("), (r"np\.uint8\(", "u8("), (r"np\.sqrt", "ti.sqrt"),
    (r"np\.log2\(", "1.4426950408889634 * ti.log("),
)  # fmt: skip
"""What is spelled otherwise in Taichi."""
TAICHI_HEAD = "import taichi as ti\n" + "".join(
    f"\n\n@ti.func\ndef {kind}(value):\n    return ti.cast(value, ti.{kind})\n" for kind in ("f32", "i32", "u8")
)


def in_taichi(example: Any, arguments: tuple[Any, ...], wanted: list[np.ndarray]) -> Callable[..., Any]:
    """Return the kernel of Taichi, which reads its source from a file and wants all types written."""
    function = example.nested or example.kernel
    source = inspect.getsource(function)
    for pattern, spelling in TAICHI:
        source = re.sub(pattern, spelling, source)
    scalars = {"i": "ti.i64", "b": "ti.i32", "f": "ti.f64"}
    types = [
        "ti.types.ndarray()" if isinstance(each, np.ndarray)
        else "ti.f32" if isinstance(each, np.float32) else scalars[np.asarray(each).dtype.kind]
        for each in arguments
    ]  # fmt: skip
    names = list(inspect.signature(function).parameters)
    parameters = ", ".join(f"{name}: {kind}" for name, kind in zip(names, types, strict=False))
    result = f" -> ti.{wanted[-1].dtype.kind}{wanted[-1].itemsize * 8}" if len(wanted) > len(arguments) else ""
    body = source[source.index("):\n") + 3 :]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, f"taichi_{example.name}.py")
        file.write_text(f"{TAICHI_HEAD}\n\n@ti.kernel\ndef {function.__name__}({parameters}){result}:\n{body}")
        names_in_file = runpy.run_path(str(file))
        kernel = names_in_file[function.__name__]
        kernel(*deepcopy(arguments))  # compiles, while the file is there
    return kernel


def _agrees(example: Any, function: Callable[..., Any], arguments: tuple[Any, ...], wanted: list[np.ndarray]) -> bool:
    got = example.results(function, arguments)
    # A sum in order loses digits that partial results keep; a byte may be rounded the other way.
    return all(np.allclose(here, there, rtol=1e-2, atol=1) for here, there in zip(got, wanted, strict=True))


if __name__ == "__main__":
    main()
