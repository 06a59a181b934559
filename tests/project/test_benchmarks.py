"""The benchmark of the suite: its table, its figures, and that a candidate that fails is a row and not an end."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest
from numpy_kernels import KERNELS
from warm_processes import run_warm

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "numpy_kernels.py"
LIBRARIES = ("mlirtri", "numba")


def run(folder: Path, *options: str) -> str:
    command = [str(BENCHMARK), "--threads", "1", "--size", "S", "--seconds", "0.05", *options]
    finished = run_warm(command, folder, {})
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


@pytest.mark.slow
def test_every_library_is_timed_and_checked(tmp_path):
    pytest.importorskip("numba")
    figures = tmp_path / "figures.json"
    printed = run(tmp_path, "--filter", "go_fast", "--filter", "trisolv", "--json", str(figures))
    for library in LIBRARIES:
        assert f"{library:8} runs 2, gives wrong results 0 times" in printed
    assert "numba/mlirtri:" in printed
    assert "over the 2 kernels that both compile" in printed
    [measured] = map(json.loads, figures.read_text().splitlines())
    assert set(measured["rows"]) == {"go_fast", "trisolv"}
    for row in measured["rows"].values():
        assert set(row["compile"]) == set(LIBRARIES)
        assert set(row["seconds"]) == {"numpy", *LIBRARIES}
        assert all(seconds > 0 for seconds in row["seconds"].values())


@pytest.fixture
def benchmark(monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    spec = importlib.util.spec_from_file_location("numpy_kernels_benchmark", BENCHMARK)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_crash_is_a_row(benchmark, monkeypatch):
    def crash(send, name, dtype, options) -> None:
        send({"busy": "mlirtri", "compile": {"numba": 0.5}, "why": {}})
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(benchmark, "measure", crash)
    row = benchmark.in_own_process("gemm", "float64", argparse.Namespace(timeout=30))
    assert row == {"compile": {"numba": 0.5}, "why": {"mlirtri": "died: SIGKILL"}}
    assert "mlirtri: died: SIGKILL" in benchmark.row_text("gemm", row, verbose=False)


def test_wrong_results_are_no_times(benchmark):
    given = KERNELS["gesummv"].arguments("S", "float64")
    right = benchmark.outcome(KERNELS["gesummv"].function, list(given))
    wrong = [right[0] * (1 + 1e-6), *right[1:]]
    assert benchmark.is_close(right, right, "float64")
    assert not benchmark.is_close(wrong, right, "float64")
    assert not benchmark.is_close(right[1:], right, "float64")


@pytest.mark.slow
def test_numba_gets_the_functions_that_a_kernel_calls(benchmark):
    pytest.importorskip("numba")
    case = KERNELS["integrate_adaptive"]
    given = case.arguments("S", "float64")
    assert benchmark.with_numba(case.function)(*given) == pytest.approx(case.function(*given))


def test_means_are_over_what_both_compile(benchmark, capsys):
    rows = {
        "a": {"seconds": {"numpy": 4.0, "numba": 2.0, "numba parallel": 1.0, "mlirtri": 0.5}},
        "b": {"seconds": {"numpy": 9.0, "mlirtri": 1.0}, "why": {"numba": "TypingError"}},
    }
    benchmark.print_summary(rows)
    printed = capsys.readouterr().out
    assert "numpy/numba: 4.00 (geometric mean over the 1 kernels that both compile)" in printed
    assert "numba/mlirtri: 2.00 (geometric mean over the 1 kernels that both compile)" in printed
    assert "numpy/mlirtri: 8.49 (geometric mean over the 2 kernels that it compiles)" in printed


def test_patterns_of_calls_are_measured_beside_numba(capsys, monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARK.parent.parent)
    from benchmarks import latency

    chosen = [pattern for pattern in latency.PATTERNS if pattern.title in ("two results", "update in place", "out=")]
    latency.print_calls(chosen, ["numba"] if latency.is_installed("numba") else [], 0.0, time.thread_time)
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split()[:5] == ["microseconds", "of", "a", "call", "arrays"]
    assert [row[:24].strip() for row in rows] == [pattern.title for pattern in chosen]
    assert all(0 < float(row[24:33]) for row in rows)


def test_new_processes_are_measured_beside_each_peer(capsys, monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARK.parent.parent)
    from benchmarks import latency

    programs = []
    monkeypatch.setattr(latency, "_process", lambda program, *_: programs.append(program) or 1.0)
    latency.print_processes(["numba", "torch", "compile"], "cpu")
    printed = capsys.readouterr().out
    for row in (
        "import torch",
        "mlirtri, first result, disk cache",
        "Numba, first result",
        "torch.compile, first result",
    ):
        assert row in printed
    assert "JAX" not in printed
    for program in programs:
        compile(program, "program.py", "exec")
