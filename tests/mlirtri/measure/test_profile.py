"""`mlirtri profile` and `mt.profile`: the kernels that a call launches, and what each costs."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
import torch

import mlirtri as mt
from mlirtri.cli.main import run_command
from mlirtri.errors import UnknownOptionError
from mlirtri.lowering.toolchain.tvm_passes import estimated_flops, prim_funcs
from mlirtri.measure.profile import HEADINGS, Profile
from mlirtri.measure.rows import LaunchCost

ROWS = """
import numpy as np

import mlirtri as mt


@mt.jit
def softmax(a: mt.Tensor[[16, 32], mt.float32]):
    e = np.exp(a - np.max(a, axis=1)[:, None])
    return e / np.sum(e, axis=1)[:, None]


@mt.jit
def scaled(x: mt.Tensor[[40], mt.float32], out: mt.Tensor[[40], mt.float32]):
    out[:] = x * np.float32(3)
"""


class Counting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 4)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.calls += 1
        return self.layer(x) * self.calls


@pytest.fixture
def rows(tmp_path, monkeypatch):
    (tmp_path / "rows.py").write_text(ROWS)
    monkeypatch.chdir(tmp_path)


def test_each_launch_has_its_costs_and_its_line(rows, capsys):
    assert run_command(["profile", "rows.py::softmax", "--pipeline", "mlir", "--json", "--repeat", "1"]) == 0
    found = json.loads(capsys.readouterr().out)
    launches = {launch["name"]: launch for launch in found["launches"]}
    assert list(launches) == ["max", "sub_exp e", "sum", "div"]
    assert all(launch["flops"] == 16 * 32 and launch["seconds"] > 0 for launch in launches.values())
    assert launches["max"]["bytes"] == 4 * (16 * 32 + 16)
    assert [launch["line"] for launch in launches.values()] == ["rows.py:9", "rows.py:9", "rows.py:10", "rows.py:10"]
    assert launches["div"]["source"] == "return e / np.sum(e, axis=1)[:, None]"
    seconds = [kernel["seconds"] for kernel in found["kernels"]]
    assert seconds == sorted(seconds, reverse=True)
    assert found["call_seconds"] > 0
    assert (found["pipeline"], found["arguments"]) == ("mlir", ["a: float32[16, 32]"])


def test_the_table_has_the_first_kernels_of_an_order(rows, capsys, monkeypatch):
    # Workers of pytest-xdist are told the width of a terminal, which is too narrow for all headings.
    monkeypatch.delenv("COLUMNS", raising=False)
    command = ["profile", "rows.py::softmax", "--pipeline", "mlir", "--repeat", "1", "--sort", "launch", "--top", "2"]
    assert run_command(command) == 0
    text = capsys.readouterr().out
    # A kernel that takes no longer than a look at the clock has no share, and no part of the roofline.
    missing = [heading for heading in HEADINGS if heading not in text]
    assert set(missing) <= {"threads", "roofline", "share"}
    assert "4 launches of 4 kernels, of which 2 are shown" in text
    assert "\nmax " in text
    assert "\ndiv " not in text


def test_several_kernels_and_what_a_call_writes(rows, capsys):
    assert run_command(["profile", "rows.py::softmax,scaled", "--json", "--repeat", "1"]) == 0
    assert [each["kernel"] for each in json.loads(capsys.readouterr().out)] == ["softmax", "scaled"]
    out = np.zeros(40, np.float32)
    assert len(mt.profile("rows.py::scaled", np.ones(40, np.float32), out, repeat=1).launches) == 1
    assert not out.any()


def test_a_program_that_keeps_values_between_calls():
    module = Counting()
    program = mt.from_torch(module, (torch.ones(2, 8),))
    found = mt.profile(program, repeat=1, sort="launch")
    assert sum(launch.flops for launch in found.launches) >= 2 * 2 * 8 * 4
    assert module.calls.item() == 0


def test_launches_of_one_kernel_are_one_line_that_adds_up():
    launch = LaunchCost("k", 2e-6, 100, 10, 1, 0.5, "k.py:1")
    other = LaunchCost("longer", 5e-6, 1, 0, 1, 0.1, "k.py:2")
    profile = Profile("f", "linalg", "cpu", (), (launch, other, launch, launch), 1e-5, 1e-5, 1e-5)
    first, second = profile.kernels
    assert (first.name, first.launches, first.bytes, first.flops) == ("k", 3, 300, 30)
    assert first.seconds == pytest.approx(6e-6)
    assert (second.name, second.launches) == ("longer", 1)
    assert "54.5%" in str(profile)
    assert "4 launches of 2 kernels" in str(profile)


def test_an_unknown_order_and_a_kernel_that_is_refused(rows, capsys):
    with pytest.raises(UnknownOptionError, match="unknown order 'tim'"):
        mt.profile("rows.py::softmax", sort="tim")
    assert run_command(["profile", "rows.py::softmax", "--arg", "a=f32[2]"]) == 1
    assert "rows.py" in capsys.readouterr().err


def test_launches_of_emulated_cuda_have_bytes_and_no_times(rows):
    found = mt.profile("rows.py::scaled", target="cuda:emulated", repeat=1)
    assert [(launch.bytes, launch.seconds) for launch in found.launches] == [(320, None)]
    assert "emulated: no times" in str(found)
    assert re.search(r"^kernel .* time .*\n\w+ +1 +emulated +320", str(found), re.MULTILINE)
    assert found.call_seconds is None
    assert "a call takes" not in str(found)
    compared = mt.compare("rows.py::scaled", target="cuda:emulated", pipelines=("linalg",), repeat=1, profile=True)
    row = compared["linalg"]
    assert (row.run_seconds, row.untimed) == (None, "emulated")
    assert [(launch.bytes, launch.untimed) for launch in row.launches] == [(320, "emulated")]
    assert re.search(r"^linalg .* emulated", str(compared), re.MULTILINE)


def test_flops_count_comparisons_and_what_a_let_holds():
    a = np.ones((4, 8), np.float32)
    kernel = mt.jit(lambda a: np.sqrt(a.max(axis=1) - 1) / 3, pipeline="linalg").compile(a)
    counts = [estimated_flops(function) for _, function in prim_funcs(kernel.compilation.records["tir"].ir)]
    assert sum(counts) == 4 * 8 + 4 + 4
