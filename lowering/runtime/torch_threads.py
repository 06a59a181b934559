"""Run parallel loops on torch's threads, where torch has an OpenMP runtime with GNU's interface, else on TVM's.

Modules are loaded in a context, and their loops are started by `torch_threads.mlir` then (compiled here, or a shared
library of an artifact, where MLIR is not loaded): threads of two libraries that
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
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mlirtri import settings
from mlirtri.errors import CodegenError
from mlirtri.lowering.core.forks import is_forked, renewed
from mlirtri.lowering.runtime.linking import SharedLibrary
from mlirtri.lowering.runtime.openmp import torch_runtime
from mlirtri.lowering.toolchain import tvm_runtime

TASKS = 16
"""Tasks of a loop per thread: late or slower threads take fewer of them."""
_PROGRAM = Path(__file__).with_suffix(".mlir")
_POINTER = "__TVMBackendParallelLaunch"
"""The variable of compiled modules with the function that starts a loop; set when they are loaded."""
_BARRIER = "TVMBackendParallelBarrier"
_OF_THREADS = ("GOMP_parallel", "omp_get_thread_num")
_OF_ERRORS = ("TVMFFIErrorMoveFromRaised", "TVMFFIErrorSetRaised", "TVMFFIObjectDecRef")
"""The functions that `torch_threads.mlir` calls, in its order: of torch's OpenMP runtime, and of `tvm_ffi`."""
_Packed = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_LOADING = renewed(threading.Lock())
_STARTING = renewed(threading.Lock())
_STARTERS: dict[tuple[int, int], _Starter] = {}
"""By the threads that code was compiled for, and those of a team."""
Lookup = Callable[[str], "int | None"]
"""Returns the address of a function of a symbol that takes a table of addresses, as MLIR's execution engine has it."""


def use_threads(threads: int) -> None:
    """Let TVM's pools use `threads` CPU threads: its default is half of them.

    The pool of a Python thread is made at its first parallel launch and reads the variable then. A forked process
    has one thread: the others were not forked, and its pool would wait for them forever.
    """
    os.environ["TVM_NUM_THREADS"] = str(1 if is_forked() else max(1, threads))
    # Workers bound to a core would wait for it while another thread runs there, such as the caller.
    os.environ.setdefault("TVM_BIND_THREADS", "0")


def is_for_torchs_threads(code: str) -> bool:
    """Return whether the module of this LLVM IR has parallel loops that may run on any threads."""
    # Tasks that wait for each other have to run at once, on as many threads.
    return _POINTER in code and _BARRIER not in code


@contextlib.contextmanager
def loading(has_loops: bool, threads: int, starter: Path | None = None) -> Iterator[None]:
    """Load a module inside: its loops run on torch's threads if it `has_loops` for them, those of others on TVM's.

    `starter` is a shared library of `torch_threads.mlir`; by default MLIR compiles it.
    """
    team = settings.get("MLIRTRI_NUM_THREADS") or 0
    launch = _launch(threads, team, starter) if has_loops and threads > 1 else None
    if launch is None:
        yield
        return
    original = ctypes.cast(tvm_runtime.runtime_library().TVMBackendParallelLaunch, ctypes.c_void_p)
    register = tvm_runtime.core_library().TVMFFIEnvModRegisterContextSymbol
    register.argtypes = [ctypes.c_char_p, ctypes.c_void_p]
    with _LOADING:
        register(_POINTER.encode(), launch)
        try:
            yield
        finally:
            register(_POINTER.encode(), original)


def _launch(threads: int, team: int, library: Path | None = None) -> int | None:
    """Return the address of the function that starts loops on `team` threads; 0 means as many as torch uses."""
    if torch_runtime() is None:
        return None
    with _STARTING:
        if (threads, team) not in _STARTERS:
            _STARTERS[threads, team] = _new_starter(threads, team, library)
        return _STARTERS[threads, team].address()


def _new_starter(threads: int, team: int, library: Path | None = None) -> _Starter:
    """Return new code with a state of its own, in a process where torch has threads."""
    lookup = starter_engine().raw_lookup if library is None else _lookup_in(library)
    return _Starter(lookup, threads, team, ctypes.CDLL(torch_runtime()))


def starter_engine() -> Any:
    """Return MLIR's execution engine with `torch_threads.mlir`; each has its own state."""
    from mlirtri.dialect.bindings.mlir import execution_engine, ir  # late: loaded kernels need no MLIR

    with ir.Context(load_on_create_dialects=["llvm"]):
        module = ir.Module.parse(_PROGRAM.read_text())
        return execution_engine.ExecutionEngine(module, opt_level=0, enable_pic=True)


def _lookup_in(path: Path) -> Lookup:
    # A copy, since a file that is loaded twice has its state once. The descriptor stays open: its number is the name.
    copy = os.memfd_create("torch_threads")
    with open(copy, "wb", closefd=False) as file:
        file.write(path.read_bytes())
    return SharedLibrary(f"/proc/self/fd/{copy}").raw_lookup


class _Starter:
    """The code of `torch_threads.mlir` for a number of threads, kept for the life of the process."""

    def __init__(self, lookup: Lookup, threads: int, team: int, runtime: ctypes.CDLL):
        self._lookup, self._counts = lookup, (threads, team, TASKS * threads)
        self._set, use = _function(lookup, "set"), _function(lookup, "use")
        core = tvm_runtime.core_library()
        functions = [*(runtime[name] for name in _OF_THREADS), *(core[name] for name in _OF_ERRORS)]
        for number, function in enumerate(functions):
            _call(use, ctypes.c_int32(number), ctypes.cast(function, ctypes.c_void_p))
        self.set(alone=is_forked())

    def set(self, alone: bool) -> None:
        _call(self._set, *(ctypes.c_int32(value) for value in (*self._counts, alone)))

    def address(self) -> int | None:
        """Return the address of the function that starts a loop."""
        result = ctypes.c_void_p()
        _call(_function(self._lookup, "address"), result)
        return result.value


def _function(lookup: Lookup, symbol: str) -> Any:
    if not (address := lookup(symbol)):
        raise CodegenError(f"the code that starts threads has no function {symbol!r}")
    return _Packed(address)


def _call(function: Any, *values: Any) -> None:
    """Call by the engine's convention: a table of addresses of the arguments and the result."""
    function((ctypes.c_void_p * len(values))(*map(ctypes.addressof, values)))


def _stay_alone() -> None:
    os.environ["TVM_NUM_THREADS"] = "1"
    for starter in _STARTERS.values():
        starter.set(alone=True)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_stay_alone)
