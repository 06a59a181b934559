"""Processes that are forked while other threads compile, or before mlirtri is imported."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import os, signal, threading
import numpy as np
import torch

def doubled(a):
    return a + a

def halved(a):
    return a * 0.5

def in_child(what, function, value):
    if os.fork() == 0:
        signal.alarm(60)
        # Imported here only, for the first.
        import mlirtri as mt
        kernel = mt.jit(function).compile(a)
        assert "T.parallel" in kernel.ir["scheduled"]
        # By NumPy: torch's own threads do not survive a fork.
        print(what, (kernel(a).numpy() == value).all(), flush=True)
        os._exit(0)
    _, status = os.wait()
    assert status == 0, status

a = torch.from_numpy(np.ones(1 << 20, np.float32))
torch.exp(a)
in_child("early", halved, 0.5)

import mlirtri as mt
from mlirtri.calls import runtime
from mlirtri.compiler import records
from mlirtri.lowering.runtime import torch_threads
from mlirtri.lowering.toolchain import worker_process
from mlirtri.measure import autotuning
from mlirtri.programs.torch_programs import program

assert (mt.jit(doubled)(a) == 2).all()
locks = [autotuning.TUNING, records.COMPILING, runtime._STATES, program.EXPORTING, torch_threads._LOADING]
locks.append(worker_process.WORKER.lock)
held, done = threading.Event(), threading.Event()

def hold():
    for lock in locks:
        lock.acquire()
    held.set()
    done.wait(0.2)
    done.set()
    # Not the others: a fork waits for the end of a compilation only.
    records.COMPILING.release()
    threading.Event().wait()

threading.Thread(target=hold, daemon=True).start()
held.wait()
in_child("held", doubled, 2)
assert done.is_set()
with records.COMPILING:
    print("parent")
"""


@pytest.mark.skipif(not hasattr(os, "fork") or not os.path.exists("/proc/self/stat"), reason="Linux alone says it")
def test_a_forked_process_finds_locks_free_and_knows_that_it_has_no_threads(tmp_path):
    file = tmp_path / "forks.py"
    file.write_text(PROGRAM)
    environment = {**os.environ, "MLIRTRI_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"}
    finished = subprocess.run(
        [sys.executable, file], env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.split() == "early True held True parent".split()
