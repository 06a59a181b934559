"""`compare` kernel by kernel: costs, roofline, why a row is slower, and where numbers change."""

from __future__ import annotations

import re
from dataclasses import replace
from statistics import median
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import mlirtri as mt
from mlirtri.cli.main import run_command
from mlirtri.lowering.fusion import cost_guard
from mlirtri.measure import launch_costs, machine_limits, why
from mlirtri.measure.machine_code import LoopCode, hottest_loop, innermost_loops
from mlirtri.measure.machine_limits import Limits
from mlirtri.measure.rows import Comparison, LaunchCost, Row
from mlirtri.measure.tables import sentences
from mlirtri.measure.why import why_slower


@mt.jit
def softmax(a):
    e = np.exp(a - a.max(axis=1)[:, None])
    return e / e.sum(axis=1)[:, None]


@mt.jit
def row_sums(a, b):
    out = np.zeros_like(b)
    for i in range(a.shape[0]):
        s = 0.0
        for j in range(a.shape[1]):
            s += a[i, j] * b[j]
        out[i] = s
    return out


def test_kernels_bytes_and_flops_mean_the_same_in_all_pipelines():
    a, b = np.random.rand(64, 64), np.random.rand(64)
    found = mt.compare(row_sums, a, b, profile=True, why=True, repeat=2)
    for row in found.rows[:3]:
        assert row.bytes == sum(launch.bytes for launch in row.launches)
        assert sum(launch.flops for launch in row.launches) == 2 * 64 * 64
        assert row.bytes == 64 * 64 * 8 + 2 * 64 * 8
        for launch in row.launches:
            assert launch.seconds > 0
            assert launch.roofline > 0
            assert launch.threads >= 1
            assert launch.line.startswith("test_costs_and_reasons.py:")
    assert [row.kernels for row in found.rows[:3]] == [1, 1, 1]
    assert any(note.startswith("why ") for note in found.notes)
    assert "roofline" in str(found)
    assert "roofline" in found.to_markdown()


def test_the_nests_of_a_softmax_add_up_to_its_bytes_and_the_reasons_name_them():
    found = mt.compare(softmax, np.ones((64, 128), np.float32), pipelines=("linalg", "mlir"), why=True, repeat=2)
    nests = found["mlir"].launches
    assert len(nests) == found["mlir"].kernels == 4
    assert sum(launch.flops for launch in nests) == found["linalg"].launches[0].flops == 4 * 64 * 128
    if any(note.startswith("why mlir is") for note in found.notes):
        # Which of them it is depends on what else runs on the machine.
        reasons = ("it runs 4 kernels, not 1", "passes between its 4 kernels", "does not show where", "threads wait")
        assert any(reason in note for note in found.notes for reason in reasons)


def test_the_roofline_takes_the_tighter_of_two_limits():
    limits = Limits(100.0, {10: 40.0, 1000: 10.0})
    assert limits.least_seconds(200, 10) == 2.0
    assert limits.least_seconds(0, 10) == 0.25
    # Between a core's caches and memory lie others: halfway by the logarithm of the size.
    assert limits.bandwidth(100) == pytest.approx(25.0)
    assert [limits.bandwidth(size) for size in (1, 5000)] == [40.0, 10.0]


def test_limits_that_a_kernel_exceeds_are_measured_again_once_and_kept(tmp_path, monkeypatch):
    measured = iter([Limits(1e9, {10: 4e9, 1000: 2e9}), Limits(4e9, {10: 3e9, 1000: 5e9})])
    monkeypatch.setattr(machine_limits, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(machine_limits, "_measured", lambda: next(measured))
    for function in (machine_limits.limits, machine_limits.raised_limits):
        function.cache_clear()
    try:
        slow, fast = (LaunchCost("k", seconds, 10, 100_000, 1, None) for seconds in (2e-4, 5e-5))
        known = launch_costs._limits_for([slow])
        assert launch_costs._with_roofline(slow, known).roofline == 0.5
        # By the first limits it would be 2 for the fast one; the slow one has its share by the same limits.
        known = launch_costs._limits_for([slow, fast])
        assert [launch_costs._with_roofline(each, known).roofline for each in (slow, fast)] == [0.125, 0.5]
        assert machine_limits.limits() == Limits(4e9, {10: 4e9, 1000: 5e9})
    finally:
        for function in (machine_limits.limits, machine_limits.raised_limits):
            function.cache_clear()


def _timed_row(name: str, *seconds: float, roofline: float = 0.5) -> Row:
    launch = LaunchCost("k", seconds[0], 10, 10, 1, roofline)
    return Row(name, run_seconds=median(seconds), run_min=min(seconds), run_max=max(seconds), launches=(launch,))


def test_times_of_a_busy_machine_and_shares_above_the_whole_are_said_below_the_table():
    rows = (_timed_row("quiet", 1e-6, 1.1e-6, 9e-6), _timed_row("busy", 1e-6, 4e-6, 8e-6, roofline=1.01))
    lines = sentences(Comparison("f", "cpu", (), "numpy", rows))
    assert [line.split(",")[0] for line in lines[1:]] == [
        "busy: the median is 4 times the fastest round",
        "roofline above 100%: the kernel is faster than the products and copies by which this machine's limits were "
        "measured. Other programs ran then",
    ]
    assert len(sentences(Comparison("f", "cpu", (), "numpy", rows[:1]))) == 1


@mt.jit
def stencil(u):
    v = u.copy()
    v[1:-1] = u[1:-1] + u[:-2] + u[2:]
    return v


def test_reasons_are_said_once_and_a_plain_copy_is_no_layout():
    found = mt.compare(stencil, np.ones(20000, np.float32), pipelines=("linalg", "mlir"), why=True, repeat=2)
    reasons = [note for note in found.notes if note.startswith("- ")]
    assert len(reasons) == len(set(reasons))
    if any(note.startswith("why mlir is") for note in found.notes):
        assert any("copies an array as it is" in reason or "does not show where" in reason for reason in reasons)
        assert not any("another layout" in reason for reason in reasons)


LISTING = """
f:
\tmovl %eax, %ebx
.LBB0_1:
\tvmovups (%rax), %ymm0
.LBB0_2:
\tvfmadd231ps (%rbx), %ymm0, %ymm1
\tvaddps %ymm1, %ymm2, %ymm2
\tjne .LBB0_2
\tjne .LBB0_1
\tret
g:
\tmulss %xmm0, %xmm1
"""
DISASSEMBLED = """
0000000000000000 <f>:
; k.py:3
  10:\tvmulss xmm0,xmm0,DWORD PTR [rdi]
  14:\tvaddss xmm1,xmm1,xmm0
  18:\tcall   30 <exp>
  1c:\tjne    10 <f+0x10>
"""


def test_hot_loops_of_listings():
    [loop] = innermost_loops(LISTING)
    assert (loop.scalar, loop.packed, loop.fused, loop.width) == (0, 2, 1, 256)
    assert str(loop) == "vectors of 256 bits, with fused multiply-adds"
    loop = hottest_loop(DISASSEMBLED)
    assert loop.is_scalar
    assert (loop.scalar, loop.fused, loop.calls) == (2, 0, 1)
    assert hottest_loop("ret") is None


def test_real_code_of_both_compilers_has_hot_loops():
    x = torch.ones(4096)
    for pipeline in ("linalg", "mlir"):
        kernel = mt.jit(pipeline=pipeline)(row_sums.__mlirtri_function__).compile(torch.ones(64, 64), x[:64])
        assert hottest_loop(kernel.ir["asm"]) is not None, pipeline


def contender(name, rounds, launches, asm="", **row):
    kernel = SimpleNamespace(
        pipeline=SimpleNamespace(name=name), ir={"asm": asm}, warnings=(), fusion=SimpleNamespace(edges=())
    )
    moved = sum(launch.bytes for launch in launches)
    figures = Row(
        name, len(launches), moved, run_seconds=median(rounds), rounds=rounds, launches=tuple(launches), **row
    )
    return SimpleNamespace(row=figures, kernel=kernel, runs=True)


def reasons_of(launches, asm=LISTING, between=0.0, run_min=None):
    """Return the reasons of a row with these launches against one launch of 10 µs, 1000 bytes and vectors."""
    seconds = sum(launch.seconds for launch in launches) + between
    fast = contender("upstream", (1e-5, 1.2e-5, 1e-5), [LaunchCost("f", 1e-5, 10**6, 0, 1, 0.5, "k.py:1")], LISTING)
    least = seconds if run_min is None else run_min
    slow = contender("mlir", (seconds, 9 * seconds, seconds), launches, asm, between_seconds=between, run_min=least)
    title, *lines = why_slower([fast, contender("interpreter", (1.0, 1.0, 1.0), []), slow])
    assert title == f"why mlir is {seconds / 1e-5:.1f}× slower than upstream (median of 3 paired rounds):"
    return [line for line in lines if line.startswith("- ")]


def test_the_first_reason_explains_most_of_the_time():
    launch = LaunchCost("f", 1e-5, 10**6, 0, 1, 0.5, "k.py:1")
    [first] = reasons_of([launch, launch, launch])
    assert first.startswith("- 20 µs of 20 µs: it runs 3 kernels, not 1 and moves 3,000,000 bytes, not 1,000,000")
    assert first.endswith('To change it: pipeline="upstream"')
    copy = replace(launch, name="transpose", seconds=6e-5, line="k.py:2")
    assert "- 60 µs of 70 µs: transpose (k.py:2) copies into another layout" in reasons_of([launch, launch, copy])[0]
    assert "passes in the call itself" in reasons_of([launch], between=5e-5)[0]
    assert "its threads wait for each other" in reasons_of([replace(launch, threads=2)], between=5e-5, run_min=2e-5)[0]
    scalar = reasons_of([replace(launch, seconds=5e-5)], LISTING.replace("ps", "ss").replace("ymm", "xmm"))
    assert len(scalar) == 1
    assert scalar[0].startswith("- 40 µs of 40 µs: f (k.py:1) has scalar instructions")
    doubled = reasons_of([replace(launch, seconds=5e-5)], LISTING.replace("ps", "pd"))
    assert "computes in 64 bits where upstream computes in 32" in doubled[0]
    gathered = LISTING.replace("\tvaddps", "\tvgatherdps (%rax,%zmm0), %zmm1\n\tvaddps")
    assert "gathers elements that lie apart (1 such loads" in reasons_of([replace(launch, seconds=5e-5)], gathered)[0]
    called = LISTING.replace("\tvaddps", "\tcall expf\n\tvaddps")
    assert "calls functions for each element" in reasons_of([replace(launch, seconds=5e-5)], called)[0]


def test_the_fact_that_may_cost_most_stands_first(monkeypatch):
    @mt.jit
    def product(a, b):
        return a @ b

    a = np.ones((128, 128), np.float32)
    monkeypatch.setattr(why, "host_threads", lambda: 2)
    loops = {"slow": LoopCode(scalar=2, packed=0, fused=0, width=0, calls=0), "fast": LoopCode(0, 4, 2, 512, 0)}
    monkeypatch.setattr(why, "_loop", lambda contender, launch: loops[contender.row.name])
    contenders = []
    for name, pipeline, seconds, threads in (("slow", "mlir", 1.0, 1), ("fast", "linalg", 0.1, 2)):
        launch = LaunchCost("product", seconds, 1000, 1000, threads, line="k.py:3")
        row = Row(name, kernels=1, bytes=1000, run_seconds=seconds, launches=(launch,))
        contenders.append(SimpleNamespace(row=row, kernel=product.compile(a, a, pipeline=pipeline)))
    [text] = why._code(*contenders, contenders[0].row.launches[0])
    assert text.startswith("product (k.py:3) has scalar instructions, without fused multiply-adds in its hot loop")
    assert '; runs in one thread, not in 2. To change it: pipeline="linalg"' in text
    # Rows of one pipeline and schedule differ in a setting.
    loops["slow"] = loops["fast"]
    slow = SimpleNamespace(row=contenders[0].row, kernel=contenders[1].kernel)
    [text] = why._code(slow, contenders[1], slow.row.launches[0])
    assert "runs in one thread, not in 2. To change it: MLIRTRI_NUM_THREADS is what the rows differ in" in text


def test_reasons_stand_below_what_they_explain_in_reports():
    rows = (Row("linalg", run_seconds=999.6e-9),)
    found = Comparison(
        "f", "cpu", (), "numpy", rows, notes=("why a is slower:", "- 2 µs of 3 µs: copies", "  - a and b")
    )
    assert "- why a is slower:\n  - 2 µs of 3 µs: copies\n    - a and b\n" in f"{found.to_markdown()}\n"
    assert '<li style="margin-left: 1.2rem">2 µs of 3 µs: copies</li>' in found.to_html()
    assert "1 µs" in str(found)


def test_what_kernels_one_by_one_do_not_show_is_said():
    fast = contender("upstream", (1e-5,), [LaunchCost("f", 1e-5, 1000, 0, 1, 0.5, "k.py:1")])
    slow = contender("mlir", (9e-5,), [LaunchCost("f", 1e-5, 1000, 0, 1, 0.5, "k.py:1")])
    assert "80 µs of 80 µs: does not show where kernels are timed one by one" in why_slower([fast, slow])[1]


# --- where numbers change ---------------------------------------------------------------------------------------------


def double_constants(module, _context=None):
    from mlirtri.dialect.bindings.mlir import ir, operations_named

    with module.context, ir.Location.unknown():
        for constant in operations_named(module, "arith.constant"):
            if isinstance(constant.results[0].type, ir.FloatType):
                value = ir.FloatAttr(constant.attributes["value"]).value
                constant.attributes["value"] = ir.FloatAttr.get(constant.results[0].type, 2 * value)
    return module


@mt.jit
def scaled(a):
    return a * 3.0 + 1.0


def test_the_stage_that_changes_numbers_is_found():
    wrong = mt.Pipeline.named("linalg").insert_after("fused", mt.Stage("broken", "mlir", double_constants))
    found = mt.compare(scaled, torch.ones(4), pipelines=("linalg", wrong, "mlir"), bisect=True, repeat=1)
    assert found.rows[1].difference == "result[0] is 8.0, not 4.0 (4 of 4 elements differ)"
    assert found.notes == ("linalg: the numbers change in stage 'broken', where stage 'fused' is right",)


@pytest.mark.parametrize(
    ("pipeline", "stage", "before"),
    [
        ("linalg", "fused", "linalg"),
        ("linalg", "tir", "relax"),
        ("linalg", "scheduled", "tir"),
        ("mlir", "llvmdialect", "bufferized"),
    ],
)
def test_an_edited_stage_that_changes_numbers_is_found(tmp_path, monkeypatch, pipeline, stage, before):
    dump, edited = tmp_path / "dump", tmp_path / "edited"
    edited.mkdir()
    monkeypatch.setenv("MLIRTRI_DUMP_DIR", str(dump))
    scaled.compile(torch.ones(4), pipeline=pipeline)
    monkeypatch.delenv("MLIRTRI_DUMP_DIR")
    (file,) = dump.glob(f"*/*_{stage}.*")
    text = re.sub(r"(?<![\d.])3\.0(?!\d*[1-9])", "5.0", file.read_text())
    (edited / f"{stage}{file.suffix}").write_text(text)
    monkeypatch.setenv("MLIRTRI_OVERRIDE_DIR", str(edited))
    found = mt.compare(scaled, torch.ones(4), pipelines=(pipeline,), bisect=True, repeat=1)
    assert found.rows[0].difference == "result[0] is 6.0, not 4.0 (4 of 4 elements differ)"
    assert found.notes == (f"{pipeline}: the numbers change in stage {stage!r}, where stage {before!r} is right",)


def test_the_pass_that_changes_numbers_is_found(monkeypatch):
    monkeypatch.setattr(cost_guard, "release", double_constants)
    found = mt.compare(scaled, torch.ones(4), pipelines=("linalg",), bisect=True, repeat=1)
    wanted = "linalg: the numbers change in stage 'fused', in pass 'release-producers', where stage 'linalg' is right"
    assert found.notes == (wanted,)


def test_wrong_numbers_are_an_exit_status(monkeypatch, tmp_path, capsys):
    (tmp_path / "k.py").write_text(
        "import mlirtri as mt\n\n@mt.jit\ndef scaled(a: mt.Tensor[[4], mt.float32]):\n    return a * 3.0 + 1.0\n"
    )
    file = f"{tmp_path}/k.py"
    assert run_command(["compare", file, "--pipeline", "linalg", "--repeat", "1"]) == 0
    assert run_command(["profile", file, "--check", "--repeat", "1"]) == 0
    assert "right, against torch in float64" in capsys.readouterr().out
    monkeypatch.setattr(cost_guard, "release", double_constants)
    assert run_command(["compare", file, "--pipeline", "linalg", "--repeat", "1"]) == 1
    assert run_command(["profile", file, "--check", "--repeat", "1"]) == 1
    assert "wrong, against torch in float64: result[0] is " in capsys.readouterr().out
