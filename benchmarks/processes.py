"""Rows in processes of their own, forked from one that has imported everything: a crash is a row, and so is a hang."""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import pkgutil
import signal
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

TIMEOUT = 300
"""Seconds for a row, with compilation."""
LIBRARIES = ("OPENBLAS", "OMP", "MKL", "NUMBA", "MLIRTRI")


def environment(threads: int) -> dict[str, str]:
    """The variables of a process that measures with so many threads; libraries read them once."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("OPENBLAS_")}
    counts = {f"{library}_NUM_THREADS": str(threads) for library in LIBRARIES}
    # A new result of 64 MiB costs more page faults than most rows cost time: let all candidates keep their memory.
    memory = dict.fromkeys(("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"), str(1 << 32))
    return {**variables, **counts, **memory, "TORCHINDUCTOR_COMPILE_THREADS": "1", "MLIRTRI_CACHE": "0"}


def import_everything() -> None:
    """What a cold compile leaves out: the time to import the compilers."""
    import mlirtri  # noqa: F401
    from mlirtri.dialect.spellings import registry as spellings

    # Their files fill one table in an order of their own.
    spellings.lookup("numpy.sum")
    for folder in ("dialect", "lowering"):
        package = importlib.import_module(f"mlirtri.{folder}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            # What cannot be imported fails again in the rows that need it, which say so.
            with contextlib.suppress(ImportError):
                importlib.import_module(module.name)
    for name in (
        "mlirtri.calls.runtime",
        "mlirtri.programs.torch_programs.program",
        "torch._dynamo",
        "torch._inductor.compile_fx",
    ):
        importlib.import_module(name)


def settle(longest: float = 0.5) -> None:
    """Wait until the threads that the last candidate left looking for work have gone to sleep."""
    end = time.perf_counter() + longest
    while _others_run() and time.perf_counter() < end:
        time.sleep(1e-3)


def _others_run() -> bool:
    """Whether another thread of this process has work, or looks for some; False where threads are not files."""
    this_thread = threading.get_native_id()
    for task in Path("/proc/self/task").glob("*/stat"):
        # A thread may end meanwhile. A name in parentheses, which may hold anything, comes before the state.
        with contextlib.suppress(OSError):
            if int(task.parent.name) != this_thread and task.read_text().rpartition(") ")[2][:1] == "R":
                return True
    return False


def in_own_process(work: Callable[[], dict[str, Any]], timeout: float = TIMEOUT) -> dict[str, Any]:
    """What `work` gives, or a dict whose `error` says how the process ended."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(sender, work))
    process.start()
    sender.close()
    end, outcome = time.monotonic() + timeout, None
    try:
        if receiver.poll(max(0.0, end - time.monotonic())):
            outcome = receiver.recv()
    except EOFError:
        pass
    else:
        if outcome is None:
            process.kill()
            outcome = {"error": f"no result after {timeout:.0f} s"}
    process.join()
    if outcome is not None:
        return outcome
    code = process.exitcode or 0
    return {"error": f"died: {signal.Signals(-code).name if code < 0 else f'exit code {code}'}"}


def _send(sender: Any, work: Callable[[], dict[str, Any]]) -> None:
    try:
        result = work()
    except Exception as error:
        result = {"error": "".join(traceback.format_exception_only(error)).strip().splitlines()[0]}
    sender.send(result)
    sender.close()
    # Threads of the libraries, and what they register for the end, are of no interest any more.
    os._exit(0)
