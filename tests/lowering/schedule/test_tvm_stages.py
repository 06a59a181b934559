"""relax → tir → scheduled → llvm: right numbers for all sizes and dtypes, few kernels, errors on the users' lines."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from tvm_stage_helpers import (
    FILE,
    add_chain,
    compiled,
    context_for,
    cuda_code,
    module,
    op,
    rules_of,
    tir_of,
)

import mlirtri
import mlirtri as mt
from mlirtri.cli.main import commands
from mlirtri.errors import CodegenError, PassFailedError, SkippedStepWarning, UnsupportedOperationError
from mlirtri.lowering.codegen import lowered_functions
from mlirtri.lowering.codegen.targets import tvm_target
from mlirtri.lowering.core.target import Target, as_target
from mlirtri.lowering.schedule import tir_to_scheduled
from mlirtri.lowering.tir import blocks
from mlirtri.lowering.tir.blocks import NotApplicableError
from mlirtri.lowering.toolchain.tvm_names import SCHEDULE_FAILURES, Schedule, relax
from mlirtri.lowering.toolchain.tvm_passes import Pass, prim_funcs, run_passes


def test_a_chain_becomes_one_prim_func_of_call_tir():
    mod = tir_of(module(add_chain, (4, 5), (4, 5)))
    assert len(prim_funcs(mod)) == 1
    assert mod["kernel"].script().count("call_tir") == 1


def test_passes_are_recorded_and_those_that_change_nothing_say_so():
    context = context_for(keep_passes=True)
    context.stage = "tir"
    tir_of(module(add_chain, (4, 5), (4, 5)), context)
    changed = {record.name: record.changed for record in context.passes["tir"]}
    assert changed["LegalizeOps"]
    assert changed["FuseOps"]
    assert changed["FuseTIR"]
    assert not changed["MarkViews"]


def test_lines_of_bindings_reach_the_blocks_and_shared_functions_are_cloned_per_line():
    mod = tir_of(module(add_chain, (4, 5), (4, 5), locations={"out": 3, "out1": 4}))
    text = mod.script()
    assert f"{FILE}:3:5" in text
    assert f"{FILE}:4:5" in text


def test_a_failing_relax_pass_names_the_line_of_the_binding_on_which_it_fails():
    mod = module(add_chain, (4, 5), (4, 5), locations={"out": 3, "out1": 4})

    def refuse(given):
        if "R.subtract" in given.script():
            raise ValueError("no subtraction\nTraceback (most recent call last):\n  File x.cc, line 3")
        return given

    def make(emit, a, b):
        return emit(op.subtract(emit(op.add(a, b), "out"), a), "out1")

    mod = module(make, (4, 5), (4, 5), locations={"out": 3, "out1": 4})
    with pytest.raises(PassFailedError, match="pass Refuse failed: no subtraction") as caught:
        run_passes(mod, (Pass("Refuse", refuse),), context_for())
    assert (caught.value.span.file, caught.value.span.line) == (FILE, 4)
    assert "x.cc" not in str(caught.value)


def test_a_failing_tir_pass_names_the_line_of_the_function():
    mod = tir_of(module(add_chain, (4, 5), (4, 5), locations={"out": 3, "out1": 4}))

    def refuse(_given):
        raise RuntimeError("boom")

    with pytest.raises(PassFailedError) as caught:
        run_passes(mod, (Pass("Refuse", refuse),), context_for())
    assert caught.value.span.line == 4


def test_tiny_work_is_not_spread_over_threads_and_large_work_is(monkeypatch):
    monkeypatch.delenv("MLIRTRI_FORCE_SCHEDULES", raising=False)
    context = context_for(Target("cpu", "here", 4))
    tiny = tir_to_scheduled.lower(tir_of(module(add_chain, (8, 8), (8, 8))), context).script()
    large = tir_to_scheduled.lower(tir_of(module(add_chain, (512, 512), (512, 512))), context).script()
    assert "T.parallel" not in tiny
    assert "T.vectorized" in tiny
    assert "T.parallel" in large


@pytest.fixture
def broken_rule(monkeypatch):
    """A first rule for CPUs that fails on everything, under the name ``Broken``."""

    def broken(_function, _target):
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(tir_to_scheduled, "CPU_RULES", (("Broken", broken), *tir_to_scheduled.CPU_RULES))


def test_a_rule_that_fails_is_reported_and_the_next_one_taken(monkeypatch, broken_rule):
    tir = tir_of(module(add_chain, (8, 8), (8, 8), locations={"out": 3, "out1": 4}))
    with pytest.raises(CodegenError, match=r"Broken failed on .*: oops") as caught:
        tir_to_scheduled.lower(tir, context_for())
    assert (caught.value.span.file, caught.value.span.line) == (FILE, 4)
    monkeypatch.delenv("MLIRTRI_STRICT")
    context = context_for()
    with pytest.warns(SkippedStepWarning, match="Broken failed on .* and was skipped: oops") as warned:
        scheduled = tir_to_scheduled.lower(tir, context)
    assert rules_of(scheduled) == ["Elementwise"]
    assert "Broken: oops" in scheduled.script()
    [step] = context.warnings
    assert (step.step, step.reason, step.span.line) == ("Broken", "oops", 4)
    assert [(each.filename, each.lineno) for each in warned] == [(FILE, 4)]


def test_a_rule_that_does_not_apply_is_no_failure(monkeypatch):
    def strange(_function, _target):
        raise NotApplicableError("not this one")

    monkeypatch.setattr(tir_to_scheduled, "CPU_RULES", (("Strange", strange), *tir_to_scheduled.CPU_RULES))
    context = context_for()
    scheduled = tir_to_scheduled.lower(tir_of(module(add_chain, (8, 8), (8, 8))), context)
    assert rules_of(scheduled) == ["Elementwise"]
    assert context.warnings == []


def test_a_failed_rule_is_in_the_kernels_warnings_on_stderr_once_and_in_the_doctors_report(
    monkeypatch, tmp_path, broken_rule
):
    def double(x):
        return x * 2

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    runner = CliRunner()
    assert "has failed" in runner.invoke(commands, ["doctor", "--last"]).output
    with pytest.raises(CodegenError, match="Broken failed on mul: oops"):
        mt.jit(double).compile(np.ones(3))
    monkeypatch.delenv("MLIRTRI_STRICT")
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("default")
        kernels = [mt.jit(double).compile(np.ones(3)) for _ in range(2)]
    assert [each.category for each in shown] == [SkippedStepWarning]
    assert shown[0].filename == __file__
    for kernel in kernels:
        assert [(step.step, step.kernel, step.reason) for step in kernel.warnings] == [("Broken", "mul", "oops")]
    report = "".join(runner.invoke(commands, ["doctor", "--last"]).output.split())  # long paths are wrapped
    assert all(word in report for word in ("double", "Broken", "oops", f"{__file__}:"))


def test_the_cuda_rule_for_rows_takes_layer_norm_of_bfloat16():
    """The variables of its casts are bound in several copies of one expression."""

    def norm(x, weight, bias):
        shifted = x - x.mean(axis=-1, keepdims=True)
        return shifted / np.sqrt((shifted * shifted).mean(axis=-1, keepdims=True) + 1e-5) * weight + bias

    row = mt.Tensor((768,), mt.bfloat16)
    kernel = mt.jit(norm).compile(mt.Tensor((128, 768), mt.bfloat16), row, row, target="cuda:sm_90")
    assert '"mlirtri.schedule": "Rows"' in kernel.ir["scheduled"]


@pytest.mark.parametrize("make_code", [compiled, cuda_code])
def test_errors_in_code_generation_keep_their_type_and_the_users_line(monkeypatch, make_code):
    def refuse(_function):
        raise UnsupportedOperationError("no code for this")

    monkeypatch.delenv("MLIRTRI_STRICT", raising=False)
    monkeypatch.delenv("MLIRTRI_FORCE_SCHEDULES", raising=False)
    monkeypatch.setattr(lowered_functions, "keep_bfloat16", refuse)
    with pytest.raises(UnsupportedOperationError, match="no code for this") as caught:
        make_code(module(add_chain, (8, 8), (8, 8), locations={"out": 3, "out1": 4}))
    assert (caught.value.span.file, caught.value.span.line) == (FILE, 4)


def attention(emit, q, k, v):
    scores = emit(op.matmul(q, emit(op.permute_dims(k, [0, 2, 1]))))
    return emit(op.matmul(emit(op.nn.softmax(scores)), v))


def two_layers(emit, x, first, bias, second):
    hidden = emit(op.nn.gelu(emit(op.add(emit(op.matmul(x, first)), bias))))
    return emit(op.matmul(hidden, second))


@pytest.mark.parametrize(
    ("make", "shapes"),
    [
        (attention, [(4, 40, 32)] * 3),
        (two_layers, [(64, 96), (96, 128), (128,), (128, 50)]),
        (lambda emit, x, w, b: emit(op.nn.layer_norm(x, w, b, [-1])), [(30, 64), (64,), (64,)]),
        (lambda emit, x: emit(op.sum(x, [0])), [(96, 512)]),
        (lambda emit, x: emit(op.nn.softmax(x)), [(30, 100)]),
    ],
    ids=["attention", "two layers", "layer norm", "column sum", "softmax"],
)
def test_no_cpu_rule_fails_on_common_kernels(make, shapes):
    """A rule that raises costs speed only, so that nothing else would show it."""
    scheduled = tir_to_scheduled.lower(tir_of(module(make, *shapes)), context_for())
    failures = {
        name: list(map(str, function.attrs.get(SCHEDULE_FAILURES, ()))) for name, function in prim_funcs(scheduled)
    }
    assert {name: said for name, said in failures.items() if said} == {}
    assert "Fallback" not in rules_of(scheduled)


def test_values_of_one_iteration_stay_in_registers():
    """Integer arithmetic long enough that the bridge names its parts by elements of memory."""

    @mlirtri.jit
    def kernel(a):
        b = a * a + 1
        c = b * b * b - b
        d = c * c * c + c * b
        e = d * d * d * c
        return e * e * e + e * d * c

    compiled = kernel.compile(np.arange(8))
    assert "T.alloc_local(" in compiled.ir["scheduled"]
    assert "AllocWorkspace" not in compiled.ir["llvm"]


def test_only_functions_changed_since_a_rule_tried_them_are_lowered_again(monkeypatch):
    lowered: list[str] = []
    lower = lowered_functions._lower
    monkeypatch.setattr(lowered_functions, "_lower", lambda name, *rest: lowered.append(name) or lower(name, *rest))
    a = torch.arange(12.0)

    def moved(a):
        return a + 41.5

    def normalized(rows):
        return torch.softmax(rows, 1)

    assert torch.equal(mlirtri.jit(moved)(a), a + 41.5)
    assert len(lowered) == 1
    # Of this one the schedule repeats names, which the text tells apart by numbers.
    rows = torch.rand(40, 300)
    torch.testing.assert_close(mlirtri.jit(normalized)(rows), normalized(rows))
    assert len(lowered) == 2
    target = as_target("cpu")
    scheduled = [
        tir_to_scheduled.lower(tir_of(module(add_chain, (4, rows), (4, rows))), context_for()) for rows in (5, 6)
    ]
    [(name, first)], [(_, second)] = (prim_funcs(mod) for mod in scheduled)
    lowered.clear()
    lowered_functions.built([(name, second.with_attr("mlirtri.imperative", True))], tvm_target(target))
    lowered_functions.built([(name, first)], tvm_target(target))
    assert lowered == [name]


@pytest.mark.parametrize("shared", [False, True], ids=["chain", "two readers"])
def test_cheap_blocks_are_inlined_in_steps_linear_in_the_number_of_blocks(monkeypatch, shared):
    count = 40
    asked: list[str] = []
    facts = blocks.block_facts
    monkeypatch.setattr(blocks, "block_facts", lambda schedule, handle: asked.append(handle) or facts(schedule, handle))

    def make(emit, x):
        for _ in range(count):
            following = emit(op.add(x, relax.const(1.5)))
            x = emit(op.multiply(following, x)) if shared else following
        return x

    ((_, function),) = prim_funcs(tir_of(module(make, (4, 5))))
    schedule = Schedule(function)
    blocks.inline_cheap(schedule)
    assert len(blocks.leaf_blocks(schedule)) <= 1 + shared * count
    assert len(asked) <= 10 * count * (1 + shared)


def test_a_scalar_constant_is_in_the_loops_of_pipeline_relax():
    def kernel(a):
        return a * 1.5 + 0.5

    compiled = mlirtri.jit(kernel, pipeline="relax").compile(np.zeros(8, np.float32))
    assert 'R.multiply(a, R.const(1.5, "float32"))' in compiled.ir["relax"]
    assert "T.float32(1.5)" in compiled.ir["tir"]
    assert "constant" not in compiled.ir["tir"]
