"""`par_compile`: many kernels at the same time, by workers of our own or an executor."""

from __future__ import annotations

import io
import os
import signal
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
import torch
from disk_caches import DiskCache
from odd_stages import crash, sleep, with_stage

import mlirtri as mt
from mlirtri.errors import (
    ArgumentMismatchError,
    CacheMissError,
    CompileStoppedError,
    CompileTimeoutError,
    KernelTypeError,
    KernelValueError,
)
from mlirtri.kernels import parallel
from mlirtri.lowering.toolchain.worker_pool import ExecutorPool, WorkerPool
from mlirtri.measure import autotuning

SQUARE = mt.Tensor((8, 8), mt.float32)


def new_kernel(**options):
    scale = 0.5  # a closure value: no worker can import it

    @mt.jit(pipeline="mlir", **options)
    def scaled(a, b, times: int):
        for _ in mt.static_range(times):
            a = a * scale
        return a + b, a @ b

    return scaled


@pytest.fixture(autouse=True)
def _no_kernels(monkeypatch):
    """What another test has compiled would not be compiled again."""
    monkeypatch.setattr("mlirtri.kernels.jit._kernels", {})


@pytest.fixture
def executor():
    """Threads: the same calls as in processes, without the time that these take to start."""
    with ThreadPoolExecutor(2) as executor:
        yield executor


def test_workers_give_kernels_and_errors_in_order(capfd):
    kernel = new_kernel()
    left, right = np.ones((8, 8), np.float32), np.full((8, 8), 2, np.float32)
    configs = [
        {"a": SQUARE, "b": SQUARE, "times": 2},
        {"a": SQUARE, "b": mt.Tensor((3, 4), mt.float32), "times": 1},
        (SQUARE, SQUARE, mt.Config({"times": 1}, unroll=2)),
        (SQUARE, SQUARE),
        (left, right, 2, {"pipeline": "mlir"}),
        (SQUARE, SQUARE, 1),
    ]
    first, refused, other, unbound, arrays, one = kernel.par_compile(configs, workers=2)
    assert isinstance(refused, KernelTypeError)
    assert refused.span.file == __file__
    assert refused.__traceback__ is None
    assert isinstance(unbound, ArgumentMismatchError)
    assert [each.semantics for each in (first, other, arrays, one)] == ["torch", "torch", "numpy", "torch"]
    assert kernel.compiles == 3  # `other` has the text of `one`
    total, product = arrays(left, right)
    np.testing.assert_array_equal(total, left * 0.25 + right)
    np.testing.assert_array_equal(product, (left * 0.25) @ right)
    compiled = kernel.compile(SQUARE, SQUARE, 2)
    assert compiled is first
    assert list(first.ir) == list(first.pipeline.names)
    assert "linalg.generic" in first.ir["fused"]
    assert first.stats["kernels"] > 0
    assert all(first.stats["compile_seconds"].values())
    assert "decompose" in first.passes["linalg"]
    np.testing.assert_array_equal(kernel(left, right, 2)[0], total)
    assert kernel.compiles == 3
    assert capfd.readouterr().err == ""


def test_a_following_call_runs_no_front_end(executor, monkeypatch):
    kernel = new_kernel()
    kernel.par_compile([(SQUARE, SQUARE, 3)], executor=executor)
    monkeypatch.setattr("mlirtri.kernels.jit.compile_cached", None)
    a = torch.ones(8, 8)
    torch.testing.assert_close(kernel(a, a, 3)[0], a * 0.125 + a)
    numpy = new_kernel(semantics="numpy")
    monkeypatch.undo()
    numpy.par_compile([(SQUARE, SQUARE, 3)], executor=executor)
    monkeypatch.setattr("mlirtri.kernels.jit.compile_cached", None)
    np.testing.assert_array_equal(numpy(a.numpy(), a.numpy(), 3)[0], 1.125)


def test_abstract_arguments_allocate_nothing(executor):
    huge = mt.Tensor((1 << 20, 1 << 20), mt.float32)

    @mt.jit(pipeline="mlir")
    def doubled(a):
        return a[:4] * 2

    (kernel,) = doubled.par_compile([{"a": huge}], executor=executor)
    assert kernel.signature == "doubled(a: float32[1048576, 1048576])"


def test_what_has_no_code_for_a_worker_is_compiled_here(executor, monkeypatch):
    monkeypatch.setattr("mlirtri.kernels.parallel.compile_task", None)
    kernel = new_kernel()
    until = mt.Pipeline.named("mlir").until("tri")
    interpreted, short = kernel.par_compile(
        [(SQUARE, SQUARE, 1, {"pipeline": each}) for each in ("interpreter", until)], executor=executor
    )
    a = np.ones((8, 8), np.float32)
    np.testing.assert_array_equal(interpreted(a, a)[0], 1.5)
    assert list(short.ir) == ["ast", "tri"]


@pytest.mark.slow
def test_stages_of_cuda_are_made_here(executor):
    (kernel,) = new_kernel().par_compile(
        [(SQUARE, SQUARE, 1, {"pipeline": "linalg", "target": "cuda"})], executor=executor
    )
    assert "__global__" in kernel.ir["cuda"]
    assert kernel.get_tir() == new_kernel().compile(SQUARE, SQUARE, 1, pipeline="linalg", target="cuda").get_tir()


def test_stages_are_printed_and_dumped(executor, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("MLIRTRI_DUMP_DIR", str(tmp_path))
    kernel = new_kernel(print_ir=("tri", "bufferized"))
    kernel.par_compile([(SQUARE, SQUARE, 1)], executor=executor)
    printed = capsys.readouterr().err
    assert printed.count("(scaled: tri)") == 1
    assert printed.index("(scaled: tri)") < printed.index("(scaled: bufferized)")
    assert list(tmp_path.rglob("*llvmdialect*"))


def test_the_disk_cache_is_asked_first_and_has_them_afterwards(executor, monkeypatch, tmp_path):
    cache = DiskCache(tmp_path, monkeypatch)
    configs = [(SQUARE, SQUARE, times) for times in (1, 2)]
    first = new_kernel()
    first.par_compile(configs, executor=executor)
    assert first.compiles == 2
    assert len(cache.entries()) == 2
    cache.renew()
    second = new_kernel()
    kernels = second.par_compile(configs, executor=executor)
    assert second.compiles == 0
    assert all(isinstance(kernel, mt.Kernel) for kernel in kernels)
    monkeypatch.setenv("MLIRTRI_ASSERT_CACHE_HIT", "1")
    (missing,) = new_kernel().par_compile([(SQUARE, SQUARE, 3)], executor=executor)
    assert isinstance(missing, CacheMissError)


def test_bars_on_a_terminal(executor, monkeypatch):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr("sys.stderr", terminal)
    new_kernel().par_compile([(SQUARE, SQUARE, 1), (SQUARE,)], executor=executor)
    shown = terminal.getvalue()
    assert "elaborate" in shown
    assert "compile" in shown
    assert shown.count("2/2") >= 2


def test_a_worker_that_differs_is_refused(executor, monkeypatch):
    facts = parallel.task_of.__globals__["facts_of"]
    monkeypatch.setitem(
        parallel.task_of.__globals__, "facts_of",
        lambda target: {**facts(target), "CPU": threading.current_thread().name},
    )  # fmt: skip
    (problem,) = new_kernel().par_compile([(SQUARE, SQUARE, 1)], executor=executor)
    assert isinstance(problem, CompileStoppedError)
    assert "a worker has another CPU" in str(problem)


def test_what_is_refused(executor):
    kernel = new_kernel()

    def local(ir, context):
        return ir

    (problem,) = kernel.par_compile([(SQUARE, SQUARE, 1, {"pipeline": with_stage(local)})], executor=executor)
    assert isinstance(problem, KernelTypeError)
    assert "stage 'local'" in str(problem)
    with pytest.raises(KernelTypeError, match="a configuration is a dictionary"):
        kernel.par_compile([5])
    with pytest.raises(KernelTypeError, match="is no executor"):
        kernel.par_compile([], executor=5)
    for options, message in (
        ({"workers": 0}, "workers is a number"), ({"timeout": -1}, "timeout is a number"),
        ({"workers": 1, "executor": executor}, "has its own workers"),
    ):  # fmt: skip
        with pytest.raises(KernelValueError, match=message):
            kernel.par_compile([], **options)
    assert kernel.par_compile([]) == []


def test_an_executor_that_fails_and_one_that_hangs():
    kernel = new_kernel()
    with ThreadPoolExecutor(1) as executor:
        release = threading.Event()
        executor.submit(release.wait)
        (late,) = kernel.par_compile([(SQUARE, SQUARE, 1)], executor=executor, timeout=0.2)
        release.set()
    assert isinstance(late, CompileTimeoutError)
    assert isinstance(late, TimeoutError)
    assert late.span.file == __file__

    class Failing(ThreadPoolExecutor):
        def submit(self, function, *arguments):
            return super().submit(lambda: 1 / 0)

    with Failing(1) as executor:
        (failed,) = kernel.par_compile([(SQUARE, SQUARE, 1)], executor=executor)
    assert "failed in the executor: ZeroDivisionError" in str(failed)


def test_autotune_compiles_side_by_side_where_that_saves_time(executor, monkeypatch):
    pools = []

    def pool(*_):
        pools.append(ExecutorPool(executor, None))
        return pools[-1]

    monkeypatch.setattr(parallel, "WorkerPool", pool)
    monkeypatch.setattr(autotuning, "usable_cpus", lambda: 2)
    monkeypatch.setattr(autotuning, "WORKERS_START", 0.0)
    configs = [mt.Config({"times": times}) for times in (1, 2, 3, 4)]
    tuned = mt.autotune(configs, do_bench=lambda call: float(call()[0].sum()))(new_kernel())
    tuned(torch.ones(8, 8), torch.zeros(8, 8))
    assert tuned.best_config is configs[3]
    assert len(pools) == 1


def test_a_pool_replaces_workers_that_hang_or_die():
    pool = WorkerPool(2, 1.0, time.sleep, 0.0)
    try:
        pool.submit("hangs", time.sleep, 600)
        pool.submit("dies", os._exit, 3)
        for number in range(4):
            pool.submit(number, divmod, 7, number)
        ended = {}
        while len(ended) < 6:
            ended |= dict(pool.finished())
        processes = [process.process.pid for process in pool._free]
    finally:
        pool.stop()
    assert str(ended["hangs"]) == "ran for more than 1 seconds"
    assert str(ended["dies"]) == "ended its process with status 3"
    assert [ended[number] for number in (1, 2, 3)] == [(7, 0), (3, 1), (2, 1)]
    assert "ZeroDivisionError" in str(ended[0])
    assert not any(Path(f"/proc/{pid}").exists() for pid in processes)


@pytest.mark.slow
def test_a_timeout_a_crash_and_control_c():
    kernel = new_kernel()
    stages = [with_stage(sleep), with_stage(crash), "mlir", "linalg", "relax"]
    configs = [(SQUARE, SQUARE, 1, {"pipeline": pipeline}) for pipeline in stages]
    late, dead, *others = kernel.par_compile(configs, workers=2, timeout=20)
    assert isinstance(late, CompileTimeoutError)
    assert "ran for more than 20 seconds" in str(late)
    assert isinstance(dead, CompileStoppedError)
    assert "SIGSEGV" in str(dead)
    a = torch.rand(8, 8)
    for each in others:
        torch.testing.assert_close(each(a, a)[1], (a * 0.5) @ a)
    threading.Timer(8, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        new_kernel().par_compile(configs[:1], workers=2)
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    commands = [Path(f"/proc/{child}/cmdline").read_bytes() for child in children]
    assert not [command for command in commands if b"import serve" in command]


@pytest.mark.slow
def test_executors_of_processes():
    with ProcessPoolExecutor(2, get_context("spawn")) as executor:
        _check(new_kernel().par_compile([(SQUARE, SQUARE, 1), (SQUARE, SQUARE, 2)], executor=executor))


@pytest.mark.slow
def test_a_cluster_of_dask():
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        _check(new_kernel().par_compile([(SQUARE, SQUARE, 1), (SQUARE, SQUARE, 2)], executor=client.get_executor()))


def _check(kernels):
    a = torch.rand(8, 8)
    for times, kernel in enumerate(kernels, 1):
        torch.testing.assert_close(kernel(a, a)[0], a * 0.5**times + a)
