"""`schedule="meta"`: budgets, the file of findings, the search in its process, and what becomes of its death."""

from __future__ import annotations

import json
import textwrap

import numpy as np
import pytest
import torch
from tvm_stage_helpers import add_chain, compiled, context_for, module, op, random, rules_of, run, tir_of

import mlirtri as mt
from mlirtri.cli.main import run_command
from mlirtri.errors import DeviceError, KernelTypeError, SkippedStepWarning, UnknownOptionError
from mlirtri.lowering.core.target import as_target
from mlirtri.lowering.core.tuning import Budget, budget_of, recall, remember, tuning_file
from mlirtri.lowering.schedule import tir_to_scheduled
from mlirtri.lowering.schedule.meta import process as meta_process
from mlirtri.lowering.schedule.meta import rule as meta_schedule
from mlirtri.lowering.schedule.meta.process import SearchResult, Task, Tuner
from mlirtri.lowering.schedule.meta.search import agree
from mlirtri.lowering.toolchain.tvm_passes import prim_funcs


@pytest.fixture(autouse=True)
def file(tmp_path, monkeypatch):
    monkeypatch.setenv("MLIRTRI_TUNING_FILE", str(tmp_path / "folder" / "tuning.jsonl"))
    return tmp_path / "folder" / "tuning.jsonl"


def products(dtype="float32", size=32):
    def make(emit, a, b):
        return emit(op.nn.relu(emit(op.matmul(a, b))))

    return module(make, ((size, size), dtype), ((size, size), dtype))


def one_function(mod):
    [(_, function)] = prim_funcs(tir_of(mod))
    return function


# --- budgets and the file ------------------------------------------------------------------------------------------


def test_budgets():
    assert budget_of("default") is None
    assert budget_of("none") is None
    assert budget_of("meta") == Budget()
    assert budget_of("meta:trials=7, seconds=0.5") == Budget(7, 0.5)
    for wrong in ("meta:", "meta:trials=-1", "meta:runs=3", "default:trials=3", "fast", 3):
        with pytest.raises(UnknownOptionError, match="schedule"):
            budget_of(wrong)


def test_the_file_keeps_the_last_finding_of_a_key_whatever_else_is_in_it(file):
    assert recall("a") is None
    remember("a", {"seconds": 1})
    with open(file, "a") as broken:
        broken.write('{"key": "a", "seco')
    remember("b", {"seconds": 2})
    remember("a", {"seconds": 3})
    assert recall("a") == {"key": "a", "seconds": 3}
    assert recall("b") == {"key": "b", "seconds": 2}
    assert tuning_file() == file


def test_a_file_that_cannot_be_written_costs_a_warning(tmp_path, monkeypatch):
    monkeypatch.setenv("MLIRTRI_TUNING_FILE", str(tmp_path))
    with pytest.warns(UserWarning, match="MLIRTRI_TUNING_FILE"):
        remember("a", {})
    assert recall("a") is None


def test_keys_do_not_depend_on_lines_but_on_all_else():
    target = as_target("cpu")
    keys = [
        meta_schedule.task_key(one_function(module(add_chain, shape, shape, locations=lines)), target)
        for shape, lines in (((4, 5), {"out": 3}), ((4, 5), {"out": 9}), ((4, 6), {"out": 3}))
    ]
    assert keys[0] == keys[1] != keys[2]
    function = one_function(module(add_chain, (4, 5), (4, 5)))
    assert len({meta_schedule.task_key(function, as_target(each)) for each in ("cpu", "cuda", "cuda:sm_90")}) == 3


def test_numbers_have_to_agree_up_to_the_order_of_sums():
    wanted = [torch.tensor([1.0, 2.0, torch.inf, torch.nan]), torch.tensor([1, 2])]
    assert agree([wanted[0] * (1 + 1e-6), wanted[1]], wanted)
    assert not agree([wanted[0] + torch.tensor([0.1, 0, 0, 0]), wanted[1]], wanted)
    assert not agree([wanted[0], wanted[1] + 1], wanted)


# --- the search ----------------------------------------------------------------------------------------------------


def test_a_search_ends_in_a_right_kernel_and_is_made_once(file, monkeypatch):
    trials = []
    context = context_for(schedule="meta:trials=4,seconds=30", on_trial=trials.append)
    a, b = random(32, 32), random(32, 32)
    expected = torch.relu(a @ b)
    torch.testing.assert_close(run(products(), a, b, context=context), expected, rtol=1e-4, atol=1e-4)
    finding = json.loads(file.read_text())
    assert finding["default_seconds"] > 0
    assert finding["trials"] == 4
    assert [trial.done for trial in trials][-1] == 4
    monkeypatch.setattr(Tuner, "search", lambda *_: pytest.fail("it was searched already"))
    torch.testing.assert_close(run(products(), a, b, context=context), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int32"])
def test_searches_of_other_dtypes(dtype):
    context = context_for(schedule="meta:trials=8,seconds=60")
    a, b = (random(48, 48, dtype=getattr(torch, dtype)) for _ in range(2))
    expected = torch.relu(a.double() @ b.double()).to(a.dtype)
    tolerance = {"float16": 1e-2, "bfloat16": 5e-2}.get(dtype, 1e-6)
    found = run(products(dtype, 48), a, b, context=context)
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=10 * tolerance)


@pytest.mark.slow
def test_every_function_of_a_kernel_is_searched_and_replayed(file):
    context = context_for(schedule="meta:trials=6,seconds=60")
    mod = module(lambda emit, a: [emit(op.sum(a, 1)), emit(op.tanh(a)), emit(op.permute_dims(a))], (40, 30))
    a = random(40, 30)
    for _ in range(2):
        for found, expected in zip(run(mod, a, context=context), (a.sum(1), a.tanh(), a.T), strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    assert len([line for line in file.read_text().splitlines() if line]) == 3


def test_functions_of_loops_keep_their_default():
    @mt.jit(schedule="meta:trials=4,seconds=10")
    def halves(a):
        n = 0
        while a[0] > 1.0:
            a[0] = a[0] / 2.0
            n += 1
        return n

    assert halves(np.array([9.0])) == 4


# --- the process ---------------------------------------------------------------------------------------------------


def served_by(monkeypatch, script):
    """Let a script of plain Python answer in the searching process's place; `say` sends a message."""
    head = """
import os, time
from mlirtri.lowering.toolchain.worker_process import message_pipes
requests, write = message_pipes()
def say(**message): write(message)
say(ready=True)
"""
    monkeypatch.setattr(meta_process, "SERVE", head + textwrap.dedent(script))


def searched(budget=Budget(8, 20.0)):
    with Tuner() as tuner:
        task = Task("kernel", one_function(module(add_chain, (4, 5), (4, 5))), as_target("cpu"), None)
        return tuner.search(task, budget, None)


def test_a_process_that_dies_is_started_again_and_what_it_found_is_kept(monkeypatch):
    served_by(
        monkeypatch,
        """
        request = next(requests)
        say(default=4.0)
        say(found=f"trace {request['seed']}", seconds=2.0 / request["seed"])
        say(trial=1, seconds=1.0)
        if request["seed"] < 3:
            os.abort()
        say(done=1, default=4.0, best=0.5)
        """,
    )
    assert searched() == SearchResult("trace 3", 0.5, 4.0, 3)


def test_a_process_that_always_dies_is_a_failure_that_the_kernel_survives(monkeypatch, file):
    monkeypatch.delenv("MLIRTRI_STRICT")
    served_by(monkeypatch, "os.abort()")
    found = searched()
    assert "ended its process" in found.failure
    context = context_for(schedule="meta")
    with pytest.warns(SkippedStepWarning, match="MetaSchedule failed on"):
        scheduled = tir_to_scheduled.lower(tir_of(module(add_chain, (4, 5), (4, 5)), context), context)
    assert [step.step for step in context.warnings] == ["MetaSchedule"]
    assert rules_of(scheduled) == ["Elementwise"]
    assert "MetaSchedule: the search ended its process" in scheduled.script()
    assert not file.exists()


def test_a_process_that_hangs_is_ended(monkeypatch):
    monkeypatch.setattr(meta_process, "SILENCE", 0.5)
    served_by(monkeypatch, "say(default=1.0); say(found='t', seconds=0.5); time.sleep(1000)")
    assert searched().trace == "t"


def test_the_default_stays_where_it_is_the_fastest(monkeypatch, file):
    served_by(
        monkeypatch,
        "say(default=1.0); say(found='t', seconds=0.9); say(trial=1, seconds=0.9); say(done=1, default=0.8, best=0.9)",
    )
    assert searched().trace is None
    compiled(module(add_chain, (4, 5), (4, 5)), context_for(schedule="meta"))
    assert json.loads(file.read_text())["trace"] is None


def test_a_finding_of_a_smaller_budget_is_searched_again(monkeypatch):
    served_by(monkeypatch, "say(default=1.0); say(trial=1, seconds=2.0); say(done=1)")
    searches = []
    search = Tuner.search
    monkeypatch.setattr(Tuner, "search", lambda *given: searches.append(given[2]) or search(*given))
    for schedule in ("meta:trials=2", "meta:trials=2", "meta:trials=1", "meta:trials=3", "meta:trials=0"):
        compiled(module(add_chain, (4, 5), (4, 5)), context_for(schedule=schedule))
    assert [budget.trials for budget in searches] == [2, 3]


# --- default and tuned, side by side -------------------------------------------------------------------------------


@mt.jit
def chain(a, b):
    return torch.relu(a @ b) + 1.0


@pytest.mark.slow
def test_unmeasured_schedules_of_cuda_need_no_device_and_are_beside_the_default(file):
    tensors = [mt.Tensor((64, 64), mt.float32)] * 2
    with pytest.raises(DeviceError, match="CUDA device") as caught:
        chain.compile(*tensors, target="cuda", schedule="meta")
    assert "trials=0" in str(caught.value)
    found = mt.tune(chain, *tensors, target="cuda", trials=0)
    assert [rule for _, *rule in found.rules] == [["RegisterTiles", "MetaSchedule"]]
    assert found.speedup is None
    assert json.loads(file.read_text())["seconds"] is None
    assert "not measured" in str(found)
    assert json.loads(found.to_json())["functions"][0]["tuned"] == "MetaSchedule"
    for stage in ("scheduled", "cuda"):
        lines = found.side_by_side(stage, 60).splitlines()
        assert lines[0].split() == ["default", "tuned"]
        assert any(line[61:62] == "|" for line in lines)
    assert found.side_by_side("linalg", 200).count(" | ") == 0


def test_tuning_measures_both_sides(monkeypatch):
    served_by(monkeypatch, "say(default=1.0); say(trial=1, seconds=2.0); say(done=1)")
    found = mt.tune(chain, mt.Tensor((8, 8), mt.float32), mt.Tensor((8, 8), mt.float32), trials=1)
    assert found.default_seconds > 0
    assembly = found.side_by_side("asm", 40)
    assert "ret" in assembly
    assert ".section" not in assembly
    assert found.tuned_seconds > 0
    assert found.speedup == found.default_seconds / found.tuned_seconds


def test_what_tune_refuses():
    with pytest.raises(KernelTypeError, match="jit function"):
        mt.tune(len)
    with pytest.raises(UnknownOptionError, match="takes no schedule"):
        mt.tune(chain, mt.Tensor((8, 8), mt.float32), mt.Tensor((8, 8), mt.float32), pipeline="mlir", trials=0)


def test_the_command_line(monkeypatch, capsys):
    served_by(monkeypatch, "say(default=1.0); say(trial=1, seconds=2.0); say(done=1)")
    here = f"{__file__}::chain"
    arguments = ["--arg", "a=f32[8,8]", "--arg", "b=f32[8,8]"]
    assert run_command(["tune", here, *arguments, "--trials", "1", "--compare", "scheduled"]) == 0
    shown = capsys.readouterr().out
    assert "time of a call" in shown
    assert "T.prim_func" in shown
    assert run_command(["tune", here, *arguments, "--trials", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kernel"] == "chain"
    assert run_command(["emit", here, *arguments, "--schedule", "meta:trial=1"]) == 2
    assert "meta:trials=200,seconds=30" in capsys.readouterr().err


def test_programs_from_elsewhere_are_searched_too(monkeypatch, file):
    served_by(monkeypatch, "say(default=1.0); say(trial=1, seconds=2.0); say(done=1)")
    program = mt.from_torch(torch.nn.Linear(4, 3), (torch.zeros(2, 4),))
    program.compile(schedule="meta:trials=1,seconds=5")
    assert file.exists()
