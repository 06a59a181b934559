"""CPU threads: how many, several callers at once, torch's pool beside ours, and processes that are forked."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time

import pytest
import torch
from tolerances import within

import mlirtri as mt
from mlirtri.lowering.codegen.passes.host_functions import in_even_tasks
from mlirtri.lowering.core.target import host_threads
from mlirtri.lowering.runtime import torch_threads
from mlirtri.lowering.runtime.openmp import torch_runtime
from mlirtri.lowering.tir.statements import simplified
from mlirtri.lowering.tir.tiles import replaced
from mlirtri.lowering.toolchain.tvm_names import SCRIPT_NAMES, from_source, tirx, tvm

SIZE = 1 << 20


@mt.jit
def blend(a, b):
    return torch.exp(-a * a) * b + a


def eager(a, b):
    return torch.exp(-a * a) * b + a


def in_new_process(program: str, **environment: str) -> str:
    variables = {**os.environ, **environment}
    finished = subprocess.run(
        [sys.executable, "-c", program], env=variables, capture_output=True, text=True, check=False, timeout=120
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def test_all_that_the_process_may_use_or_as_many_as_asked_for(monkeypatch):
    monkeypatch.delenv("MLIRTRI_NUM_THREADS", raising=False)
    assert host_threads() == len(os.sched_getaffinity(0))
    monkeypatch.setenv("MLIRTRI_NUM_THREADS", "3")
    assert host_threads() == 3


def test_little_work_starts_no_threads(monkeypatch):
    monkeypatch.setenv("MLIRTRI_NUM_THREADS", "2")
    little, much = (blend.compile(torch.ones(size), torch.ones(size)).ir["scheduled"] for size in (256, SIZE))
    assert "T.parallel" not in little
    assert "T.parallel" in much


def test_several_callers_and_torch_use_the_threads_alternately():
    generator = torch.Generator().manual_seed(0)
    given = [torch.randn(2, SIZE, generator=generator) for _ in range(3)]
    expected = [eager(a, b) for a, b in given]
    blend(*given[0])
    wrong: list[int] = []

    def work(number: int) -> None:
        a, b = given[number]
        for _ in range(10):
            for found in (blend(a, b), eager(a, b)):
                try:
                    torch.testing.assert_close(found, expected[number], **within("float32"))
                except AssertionError:
                    wrong.append(number)

    callers = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(60)
    assert not any(caller.is_alive() for caller in callers)
    assert wrong == []


LAUNCH = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
TASK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
needs_torch_threads = pytest.mark.skipif(torch_runtime() is None, reason="torch has other threads here")


def two_threads():
    """Runs tasks in Python on two threads, with no memory of earlier launches."""
    starter = torch_threads._new_starter(2, 2)
    launch = LAUNCH(starter.address())

    def launched(function, wanted: int = 0) -> int:
        task = TASK(lambda number, _group, _data: function(number))
        return launch(ctypes.cast(task, ctypes.c_void_p), None, wanted)

    launched.starter = starter  # owns the code
    return launched


@needs_torch_threads
@pytest.mark.parametrize("wanted", [0, 1, 3, 64])
def test_each_task_is_done_once(wanted):
    done = []
    assert two_threads()(lambda number: done.append(number) or 0, wanted) == 0
    assert sorted(done) == list(range(wanted or 2 * torch_threads.TASKS))


PARALLEL = """
@I.ir_module
class Module:
    @T.prim_func
    def numbered(counts: T.handle):
        T.func_attr({"global_symbol": "numbered", "tirx.noalias": True})
        n = T.int64()
        out = T.match_buffer(counts, (n,), "int64")
        for i in T.parallel(n):
            out[i] = out[i] + i + T.int64(1)
"""


def test_tasks_have_even_shares_of_a_loop_and_each_thread_its_part():
    function = in_even_tasks(from_source(PARALLEL, SCRIPT_NAMES)["numbered"], 32)
    library = tvm.tirx.build(tvm.IRModule({"numbered": function.with_attr("global_symbol", "numbered")}), target="llvm")
    for extent in (0, 1, 10, 31, 33, 64, 1000):
        counts = torch.zeros(extent, dtype=torch.int64)
        library["numbered"](counts)
        assert counts.tolist() == list(range(1, extent + 1))
    extents = _extents_of_tasks(function, 10)
    assert (len(extents), sum(extents), sum(extents[:16]), max(extents), extents[0]) == (32, 10, 5, 1, 1)
    # Of as many tasks as large machines have, and iterations that only just fit the loop's type.
    tasks, most = 2048, 2**31 - 1
    function = in_even_tasks(from_source(PARALLEL.replace("int64", "int32"), SCRIPT_NAMES)["numbered"], tasks)
    extents = _extents_of_tasks(function, most)
    assert (sum(extents), min(extents), max(extents)) == (most, most // tasks, most // tasks + 1)


def _extents_of_tasks(function, iterations: int) -> list[int]:
    """How many iterations each task of a function's loop does."""
    (size,) = function.params[0].shape
    outer, kind = function.body, str(size.ty.dtype)

    def extent_of(task: int) -> int:
        given = {outer.loop_var: tirx.IntImm(kind, task), size: tirx.IntImm(kind, iterations)}
        return simplified(replaced(outer.body.extent, given)).value

    return [extent_of(task) for task in range(outer.extent.value)]


@needs_torch_threads
def test_a_caller_whose_threads_never_come_runs_the_loop_alone():
    caller, others = threading.get_ident(), threading.Event()
    launched = two_threads()

    def late(_number: int) -> int:
        if threading.get_ident() == caller:
            return 0 if others.wait(10) else -1
        others.set()
        time.sleep(0.2)
        return 0

    # Two tasks: one for each thread.
    assert launched(late, 2) == 0
    seen = []
    assert launched(lambda _number: seen.append(threading.get_ident()) or 0) == 0
    assert set(seen) == {caller}


CHECKED = """
@I.ir_module
class Module:
    @T.prim_func
    def checked(a: T.Buffer((4096,), "float32")):
        T.func_attr({"global_symbol": "checked", "tirx.noalias": True})
        for i in T.parallel(4096):
            assert a[i] >= T.float32(0), ("ValueError", ["negative"])
            a[i] = a[i] + T.float32(1)
"""


def threads_here() -> int:
    return len(os.listdir("/proc/self/task"))


@needs_torch_threads
@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="threads are not files here")
@pytest.mark.skipif(torch.get_num_threads() < 2, reason="torch has one thread")
def test_loops_run_on_torchs_threads_and_those_of_other_modules_on_tvms(monkeypatch):
    monkeypatch.setenv("TVM_NUM_THREADS", "2")
    monkeypatch.setenv("MLIRTRI_NUM_THREADS", str(torch.get_num_threads()))
    library, other = (tvm.tirx.build(from_source(CHECKED, SCRIPT_NAMES), target="llvm") for _ in range(2))
    with torch_threads.loading(True, torch.get_num_threads()):
        ours = library["checked"]
    counts, messages = [], []

    def run() -> None:
        # A thread that is new has none of its own yet.
        given = torch.zeros(SIZE) + 1
        for function in (ours, other["checked"]):
            counts.append(threads_here())
            function(given[:4096])
            given[1000] = -1
            with pytest.raises((ValueError, RuntimeError)) as raised:
                function(given[:4096])
            messages.append(f"{raised.type.__name__}: {raised.value}")
            given[:] = 1
        counts.append(threads_here())

    caller = threading.Thread(target=run)
    caller.start()
    caller.join(60)
    assert counts[0] == counts[1] < counts[2]
    assert messages[0] == "ValueError: negative"
    assert "negative" in messages[1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_runs_kernels(tmp_path):
    file = tmp_path / "forks.py"
    file.write_text(FORKS)
    printed = in_new_process(
        f"exec(compile(open({str(file)!r}).read(), {str(file)!r}, 'exec'))", MLIRTRI_NUM_THREADS="2"
    )
    expected = "fresh right True first right child right new right parent right"
    assert printed.split() == expected.split()


FORKS = f"""
import os, signal, sys
import numpy as np
import torch
import mlirtri as mt

def doubled(a):
    return a + a

def halved(a):
    return a * 0.5

def right(found, value):
    # By NumPy: torch's own threads do not survive a fork.
    return "right" if (found.numpy() == value).all() else "wrong"

a = torch.from_numpy(np.ones({SIZE}, np.float32))
# Nobody has threads yet, so a forked process starts its own.
if os.fork() == 0:
    signal.alarm(60)
    found = right(mt.jit(halved)(a), 0.5)
    print("fresh", found, len(os.listdir("/proc/self/task")) > 1, flush=True)
    os._exit(0)
_, status = os.wait()
assert status == 0, status
# Torch has threads before any kernel has.
torch.exp(a)
if os.fork() == 0:
    signal.alarm(60)
    print("first", right(mt.jit(halved)(a), 0.5), flush=True)
    os._exit(0)
_, status = os.wait()
assert status == 0, status
kernel = mt.jit(doubled).compile(a)
assert "T.parallel" in kernel.ir["scheduled"]
assert right(kernel(a), 2) == "right"
if os.fork() == 0:
    signal.alarm(60)
    print("child", right(kernel(a), 2))
    print("new", right(mt.jit(halved)(a), 0.5), flush=True)
    os._exit(0)
_, status = os.wait()
assert status == 0, status
print("parent", right(kernel(a), 2))
"""
