"""CPU threads: how many, several callers at once, torch's pool beside ours, and processes that are forked."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest
import torch
from tolerances import within

import mlirtri as mt
from mlirtri.lowering.target import host_threads

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


def test_several_callers_and_torch_take_turns():
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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_runs_kernels(tmp_path):
    file = tmp_path / "forks.py"
    file.write_text(FORKS)
    printed = in_new_process(
        f"exec(compile(open({str(file)!r}).read(), {str(file)!r}, 'exec'))", MLIRTRI_NUM_THREADS="2"
    )
    assert printed.split() == ["child", "right", "new", "right", "parent", "right"]


FORKS = f"""
import os, signal, sys
import torch
import mlirtri as mt

def doubled(a):
    return a + a

def halved(a):
    return a * 0.5

def right(found, value):
    # By NumPy: torch's own threads do not survive a fork.
    return "right" if (found.numpy() == value).all() else "wrong"

a = torch.ones({SIZE})
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
