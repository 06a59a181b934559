"""The table of speeds: its form, its figures, and that what fails is a row. No time is compared with another."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def benchmarks(monkeypatch):
    # At the end, so that `dialect` and `lowering` are not found there a second time by anybody.
    monkeypatch.setattr(sys, "path", [*sys.path, str(ROOT)])


def run(*options: str) -> str:
    command = [sys.executable, "-m", "benchmarks", *options]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=280)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def test_rows_are_listed_once(monkeypatch, capsys):
    from benchmarks.__main__ import main

    monkeypatch.setattr(sys, "argv", ["benchmarks", "--list", "--rows", "8 floats, out="])
    main()
    assert capsys.readouterr().out.splitlines() == ["call: 8 floats, out="]


def test_limits_that_no_row_needs_are_not_printed():
    from benchmarks.report import header

    condition = {"threads": 1, "clock": "wall", "limits": {f"copy {1 << 28}": 2e9}}
    assert header(condition).startswith("1 thread(s), wall clock; copy 268435456 2 GB/s\n")
    assert header({**condition, "limits": {}}).startswith("1 thread(s), wall clock\n")


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are not files here")
def test_samples_wait_for_the_threads_that_are_still_busy():
    from benchmarks import processes

    start = time.perf_counter()
    # Without the interpreter's lock, for some tenths of a second.
    thread = threading.Thread(target=hashlib.pbkdf2_hmac, args=("sha256", b"", b"", 1_000_000))
    thread.start()
    while thread.is_alive() and not processes._others_run():
        time.sleep(1e-3)
    processes.settle(60)
    waited = time.perf_counter() - start
    thread.join()
    assert waited > 0.9 * (time.perf_counter() - start)


@pytest.mark.slow
def test_two_rows_are_measured_and_reported(tmp_path):
    file = tmp_path / "figures.json"
    rows = ("--rows", "8 floats, out=", "--rows", "gemv: 32 of")
    printed = run(*rows, "--threads", "1", "--clock", "cpu", "--seconds", "0.05", "--json", str(file))
    [condition] = json.loads(file.read_text())
    assert condition["threads"] == 1
    assert {"Python", "mlirtri", "torch", "numpy", "apache-tvm", "on"} <= set(condition["versions"])
    assert [line["row"] for line in condition["rows"]] == ["gemv: 32 of 128 @ 128x1024", "call: 8 floats, out="]
    product, call = condition["rows"]
    assert set(product["seconds"]) == {"mlirtri", "torch", "numpy"}
    assert all(seconds > 0 for line in condition["rows"] for seconds in line["seconds"].values())
    assert product["of_limit"] > 0
    assert len(condition["limits"]) == 1
    assert call["goal_seconds"] == 1e-6
    for line in condition["rows"]:
        assert line["row"] in printed
        assert line["why"] == {}
        assert line["met"] in (True, False)
    assert "of 2 rows meet their goals" in printed


def test_rows_have_names_of_their_own_and_goals():
    from benchmarks.table import PEERS, ROWS

    titles = [row.title for row in ROWS]
    assert len(set(titles)) == len(titles) > 60
    assert {row.group for row in ROWS if row.is_quick} == {row.group for row in ROWS}
    for row in ROWS:
        assert row.goal is not None or row.goal_seconds is not None or row.through == "process"
        assert set(row.peers) <= {*PEERS, "numba"}


def test_what_fails_is_a_row_and_what_is_wrong_has_no_time():
    import torch

    from benchmarks.measure import Conditions, measure
    from benchmarks.processes import in_own_process
    from benchmarks.report import judged, text
    from benchmarks.table import Row

    def unknown(a):
        return torch.linalg.eigvals(a.reshape(2, 4)[:, :2])

    arguments = (torch.ones(8),)
    conditions = Conditions(1, 0.01)
    row = Row("test", "refused", unknown, lambda: arguments, also={"torch": torch.sin}, numpy=lambda a: a)
    found = measure(row, conditions)
    assert set(found["seconds"]) == {"torch"}
    assert found["why"]["numpy"] == "wrong results"
    assert "Error" in found["why"]["mlirtri"]
    line = judged(row, found, {})
    assert line["met"] is False
    assert "numpy: wrong results" in text(line)
    assert in_own_process(lambda: {"answer": 1}) == {"answer": 1}
    assert "ZeroDivisionError" in in_own_process(lambda: {"answer": 1 // 0})["error"]


def test_a_ratio_is_to_the_best_peer():
    from benchmarks.report import duration, judged
    from benchmarks.table import Row

    row = Row("test", "ratio", abs, tuple, work=1e9, goal=1.5, goal_of_limit=0.5)
    seconds = {"mlirtri": 1.0, "torch": 2.0, "numpy": 3.0, "tvm": 0.5}
    line = judged(row, {"seconds": seconds}, {"multiply-add": 1.6e9})
    assert (line["best"], line["ratio"], line["of_limit"], line["met"]) == ("torch", 2.0, 0.625, True)
    assert judged(row, {"seconds": seconds}, {"multiply-add": 4e9})["met"] is False
    assert judged(row, {"seconds": {**seconds, "torch": 1.2}}, {})["met"] is False
    assert judged(row, {"error": "died: SIGSEGV"}, {})["met"] is False
    assert [duration(each) for each in (1.5e-7, 1.234e-5, 0.5, 12.0)] == ["150 ns", "12.3 µs", "500 ms", "12.0 s"]
