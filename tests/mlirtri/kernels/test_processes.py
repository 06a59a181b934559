"""Threads, interrupts, limits of memory and of files, and missing folders: right, or a `KernelError` and then right."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import mlirtri as mt
from mlirtri.cli.main import run_command
from mlirtri.compiler.records import COMPILING, keep_failures, last_failures
from mlirtri.errors import KernelMemoryError, UnknownOptionError
from mlirtri.lowering.core import tuning

SIGNLESS = "func.func @f(%a: tensor<4xi8>) -> tensor<4xi8> { return %a : tensor<4xi8> }"


def kernels_of(count: int, pipeline: str) -> list:
    """Kernels of different text, each with its right results."""

    def kernel_of(number: int):
        def scaled(a, b):
            return (a * number + b).sum(axis=0)

        return mt.jit(scaled, pipeline=pipeline)

    return [kernel_of(number) for number in range(count)]


def run_on_threads(threads: int, kernels: list) -> None:
    a, b = np.random.default_rng(0).normal(size=(2, 5, 7))
    start = threading.Barrier(threads)

    def call_all(thread: int) -> None:
        start.wait()
        for step in range(len(kernels)):
            number = (step * (thread + 1) + thread) % len(kernels)
            for _ in range(3):
                np.testing.assert_allclose(kernels[number](a, b), (a * number + b).sum(axis=0), rtol=1e-12)

    with ThreadPoolExecutor(threads) as pool:
        for finished in [pool.submit(call_all, thread) for thread in range(threads)]:
            finished.result()
    assert [kernel.compiles for kernel in kernels] == [1] * len(kernels)


def test_threads_compile_and_call_the_same_kernels():
    run_on_threads(16, kernels_of(3, "mlir"))


@pytest.mark.slow
@pytest.mark.parametrize("pipeline", ["linalg", "relax", "mlir"])
def test_sixteen_threads_call_fifty_kernels(pipeline):
    run_on_threads(16, kernels_of(50, pipeline))


def test_threads_share_a_kernel_of_each_sign_and_one_runner():
    kernel = mt.from_mlir(SIGNLESS).compile(pipeline="mlir")
    start, runners = threading.Barrier(16), []

    def call(thread: int) -> None:
        array = np.arange(4, dtype=np.uint8 if thread % 2 else np.int8)
        start.wait()
        assert kernel(array).dtype == array.dtype
        runners.append(kernel.runner)

    with ThreadPoolExecutor(16) as pool:
        for finished in [pool.submit(call, thread) for thread in range(16)]:
            finished.result()
    assert len(set(map(id, runners))) == 1
    assert len(kernel.__dict__["_siblings"]) == 1


# --- interrupts ----------------------------------------------------------------------------------------------------


def interrupted_after(seconds: float, function) -> bool:
    """Return whether Control-C, that many seconds after the call, ended `function`."""
    previous = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        function()
        return False
    except KeyboardInterrupt:
        return True
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
def test_an_interrupted_compilation_leaves_nothing_behind(pipeline):
    a, b = np.random.default_rng(0).normal(size=(2, 5, 7))

    def mixed(a, b):
        return np.exp(a @ b.T).sum(axis=1) / 3

    whole = mt.jit(mixed, pipeline=pipeline).compile(a, b)
    text = dict(whole.ir)
    limit = sys.getrecursionlimit()
    interrupts = 0
    for seconds in (0.005, 0.03, 0.1, 0.2):
        kernel = mt.jit(mixed, pipeline=f"{pipeline}", unroll=4)
        # A shape of its own, since equal kernels come from the cache.
        other = np.ones((5, 7 + round(seconds * 1000)))
        interrupts += interrupted_after(seconds, lambda k=kernel, o=other: k.compile(o, o))
        assert free_in_another_thread(COMPILING)
        np.testing.assert_allclose(kernel(other, other), mixed(other, other), rtol=1e-12)
    assert interrupts
    assert sys.getrecursionlimit() == limit
    again = mt.jit(mixed, pipeline=pipeline, semantics="numpy").compile(a, b)
    assert dict(again.ir) == text


def free_in_another_thread(lock) -> bool:
    taken = []

    def take() -> None:
        taken.append(lock.acquire(timeout=5))
        lock.release()

    thread = threading.Thread(target=take)
    thread.start()
    thread.join()
    return taken == [True]


# --- limits --------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def limited(kind: int, value: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (value, hard))
    try:
        yield
    finally:
        resource.setrlimit(kind, (soft, hard))


def address_space() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="Linux alone says how much a process has")
@pytest.mark.parametrize("pipeline", ["linalg", "relax", "mlir"])
def test_a_result_without_memory_is_an_error_and_the_next_call_is_right(pipeline):
    def outer(a, b):
        return np.outer(a, b), a.sum()

    text = """
func.func @f(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %a, %c0 : tensor<?xf32>
  %m = tensor.dim %b, %c0 : tensor<?xf32>
  %e = tensor.empty(%n, %m) : tensor<?x?xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (j)>,
      affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%a, %b : tensor<?xf32>, tensor<?xf32>) outs(%e : tensor<?x?xf32>) {
  ^bb0(%x: f32, %y: f32, %z: f32):
    %s = arith.mulf %x, %y : f32
    linalg.yield %s : f32
  } -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}"""
    open_sizes = mt.from_mlir(text).compile(pipeline=pipeline if pipeline != "relax" else "linalg")
    small, large = np.ones(8, np.float32), np.ones(1 << 15, np.float32)
    kernel = mt.jit(outer, pipeline=pipeline)
    for call in (kernel, open_sizes):
        call(small, small)
    compiled = kernel.compile(large, large)
    with limited(resource.RLIMIT_AS, address_space() + (1 << 30)):  # the result takes 4 GiB
        for call in (compiled, open_sizes):
            with pytest.raises(KernelMemoryError, match="no memory for a result"):
                call(large, large)
    np.testing.assert_array_equal(open_sizes(small, small), np.ones((8, 8)))
    np.testing.assert_array_equal(kernel(small, small)[0], np.ones((8, 8)))


FULL_DISK = """
import os, resource
from pathlib import Path

import numpy as np

import mlirtri as mt
from mlirtri.errors import DumpError

def added(a):
    return a + 1

dumps = Path(os.environ["MLIRTRI_DUMP_DIR"])
kernel, a = mt.jit(added, pipeline="relax"), np.ones(3, np.float32)
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (300, hard))
try:
    kernel.compile(a)
except DumpError as error:
    print(error.message)
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
print(len(list(dumps.iterdir())))
kernel.compile(a)
print(len(list(dumps.glob("*/manifest.json"))))
"""


def test_a_dump_to_a_full_disk_is_an_error_and_leaves_no_part(tmp_path):
    file, dumps = tmp_path / "full_disk.py", tmp_path / "dumps"
    file.write_text(FULL_DISK)
    dumps.mkdir()
    environment = {**os.environ, "MLIRTRI_DUMP_DIR": str(dumps)}
    finished = subprocess.run(
        [sys.executable, file], env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert finished.returncode == 0, finished.stderr
    message, before, after = finished.stdout.splitlines()
    assert message.startswith(f"the IR could not be written to {dumps}: ")
    assert (before, after) == ("0", "1")


def test_no_stage_needs_a_folder_for_temporary_files(monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", "/dev/null")
    a = np.ones(9, np.float32)
    for pipeline in ("linalg", "mlir"):
        kernel = mt.jit(lambda a: a * 17, pipeline=pipeline).compile(a)
        assert "ret" in kernel.ir["asm"]
        np.testing.assert_array_equal(kernel(a), a * 17)


def test_a_command_that_writes_to_a_full_disk_says_so(tmp_path):
    file = tmp_path / "add.py"
    file.write_text("import mlirtri as mt\n@mt.jit\ndef add(a):\n    return a + a\n")
    command = "import sys; from mlirtri.cli.entry import main; main()"
    with open("/dev/full", "w") as full:
        finished = subprocess.run(
            [sys.executable, "-c", command, "emit", str(file), "--stage=tri", "--arg", "a=f32[3]"],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=120,
        )  # fmt: skip
    assert finished.returncode == 1
    assert finished.stderr == "the output could not be written: No space left on device\n"


# --- folders -------------------------------------------------------------------------------------------------------


def test_a_home_that_cannot_be_written_costs_only_what_would_be_kept(monkeypatch, tmp_path):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", "/dev/null")
    keep_failures("kernel", [])
    assert last_failures() is None
    assert tuning.recall("key") is None
    with pytest.warns(UserWarning, match="what was measured is not kept"):
        tuning.remember("key", {})


def test_a_user_without_a_home(monkeypatch):
    def no_home(_):
        raise KeyError

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", no_home)
    keep_failures("kernel", [])
    assert last_failures() is None
    assert tuning.recall("key") is None
    with pytest.warns(UserWarning, match="XDG_CACHE_HOME names another folder"):
        tuning.remember("key", {})
    monkeypatch.setenv("MLIRTRI_DUMP_DIR", "~/dumps")
    with pytest.raises(UnknownOptionError, match="MLIRTRI_DUMP_DIR=~/dumps is not a folder"):
        mt.jit(lambda a: a).compile(np.ones(3, np.float32))


def test_the_folder_of_another_user_that_does_not_exist(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("MLIRTRI_TUNING_FILE", "~no-such-user/tuning")
    assert run_command(["env"]) == 0
    assert "~no-such-user/tuning (not a file)" in capsys.readouterr().out
    with pytest.raises(UnknownOptionError, match="MLIRTRI_TUNING_FILE=~no-such-user/tuning is not a file"):
        tuning.recall("key")


def test_a_worker_ends_with_its_parent_while_it_computes():
    program = """from mlirtri.lowering.toolchain.worker_process import end_with_parent
end_with_parent({})
print(1, flush=True)
while True:
    pass"""
    lifeline, end = os.pipe()
    code = [sys.executable, "-c", program.format(lifeline)]
    with subprocess.Popen(code, stdout=subprocess.PIPE, pass_fds=[lifeline]) as worker:
        os.close(lifeline)
        assert worker.stdout.readline() == b"1\n"
        os.close(end)
        assert worker.wait(60) == -signal.SIGIO
