"""Run parallel loops on torch's threads, where torch has an OpenMP runtime with GNU's interface, else on TVM's.

Modules are loaded in a context, and their loops are started by `torch_threads.mlir` then: threads of two libraries that
wait for work on the same CPUs hold each other up. They are as many as torch uses, or ``MLIRTRI_NUM_THREADS``; one in a
process that was forked, which has no others. While other programs have the CPUs, so that the caller would wait for its
threads for longer than it works, it goes on alone. A loop is cut into more tasks than there are threads. Each thread
begins with tasks of its own, the same at each launch, since their memory is in its cache, and goes on with others'.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from mlirtri import settings
from mlirtri.dialect.bindings.mlir import execution_engine, ir
from mlirtri.lowering.core.forks import is_forked, renewed
from mlirtri.lowering.runtime.openmp import torch_runtime
from mlirtri.lowering.toolchain.tvm_names import tvm_libraries

TASKS = 16
"""Tasks of a loop per thread: late or slower threads take fewer of them."""
_PROGRAM = Path(__file__).with_suffix(".mlir")
_POINTER = "__TVMBackendParallelLaunch"
"""The variable of compiled modules with the function that starts a loop; set when they are loaded."""
_BARRIER = "TVMBackendParallelBarrier"
_Packed = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_LOADING = renewed(threading.Lock())
_STARTERS: list[_Starter] = []


def use_threads(threads: int) -> None:
    """Let TVM's pools use `threads` CPU threads: its default is half of them.

    The pool of a Python thread is made at its first parallel launch and reads the variable then. A forked process
    has one thread: the others were not forked, and its pool would wait for them forever.
    """
    os.environ["TVM_NUM_THREADS"] = str(1 if is_forked() else max(1, threads))
    # Workers bound to a core would wait for it while another thread runs there, such as the caller.
    os.environ.setdefault("TVM_BIND_THREADS", "0")


@contextlib.contextmanager
def loading(code: str, threads: int) -> Iterator[None]:
    """Load the module whose LLVM IR is `code` inside: its loops run on torch's threads, those of others on TVM's."""
    # Tasks that wait for each other have to run at once, on as many threads.
    is_fit = threads > 1 and _POINTER in code and _BARRIER not in code
    launch = _launch(threads, settings.get("MLIRTRI_NUM_THREADS") or 0) if is_fit else None
    if launch is None:
        yield
        return
    core, runtime = tvm_libraries()
    original = ctypes.cast(runtime.TVMBackendParallelLaunch, ctypes.c_void_p)
    register = core.TVMFFIEnvModRegisterContextSymbol
    register.argtypes = [ctypes.c_char_p, ctypes.c_void_p]
    with _LOADING:
        register(_POINTER.encode(), launch)
        try:
            yield
        finally:
            register(_POINTER.encode(), original)


@cache
def _launch(threads: int, team: int) -> int | None:
    """Return the address of the function that starts loops on `team` threads; 0 means as many as torch uses."""
    if (runtime := torch_runtime()) is None:
        return None
    core, _ = tvm_libraries()
    with ir.Context():
        module = ir.Module.parse(_PROGRAM.read_text())
        engine = execution_engine.ExecutionEngine(module, opt_level=0, shared_libs=[runtime, core._name])
    starter = _Starter(engine, threads, team)
    starter.set(alone=is_forked())
    _STARTERS.append(starter)
    return starter.address()


class _Starter:
    """The code of `torch_threads.mlir` for a number of threads, kept for the life of the process."""

    def __init__(self, engine: Any, threads: int, team: int):
        self._engine, self._counts = engine, (threads, team, TASKS * threads)
        self._set = _Packed(engine.raw_lookup("set"))

    def set(self, alone: bool) -> None:
        _call(self._set, *(ctypes.c_int32(value) for value in (*self._counts, alone)))

    def address(self) -> int | None:
        """Return the address of the function that starts a loop."""
        result = ctypes.c_void_p()
        _call(_Packed(self._engine.raw_lookup("address")), result)
        return result.value


def _call(function: Any, *values: Any) -> None:
    """Call by the engine's convention: a table of addresses of the arguments and the result."""
    function((ctypes.c_void_p * len(values))(*map(ctypes.addressof, values)))


def _stay_alone() -> None:
    os.environ["TVM_NUM_THREADS"] = "1"
    for starter in _STARTERS:
        starter.set(alone=True)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_stay_alone)
