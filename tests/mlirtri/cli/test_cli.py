"""The command line in this process: what goes to stdout, what to stderr, and the exit status."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from tolerances import tolerance

import mlirtri as mt
from mlirtri.kernels.argument_text import summary
from mlirtri.sources.python_files import load_kernel


def test_ir_goes_to_stdout_and_everything_else_to_stderr(run, kernels):
    status, out, err = run("emit", f"{kernels}::chain", "--stage=tri", "--arg", "b=f32[4,8]")
    assert status == 0
    assert out.startswith("module {")
    assert "imported" not in out
    assert "imported" in err


def test_several_stages_have_banners_in_the_comment_of_their_language(run, kernels):
    _, out, _ = run("emit", f"{kernels}::chain", "--stage=ast,tri", "--stage=fused", "--arg", "b=f32[8]")
    banners = [line for line in out.splitlines() if "=====" in line]
    assert banners == ["# ===== chain: ast =====", "// ===== chain: tri =====", "// ===== chain: fused ====="]


def test_all_stages_up_to_the_machine(run, kernels):
    status, out, _ = run("emit", f"{kernels}::chain", "--arg", "b=f32[8]", "--pipeline=mlir")
    assert status == 0
    names = [line.split()[-2] for line in out.splitlines() if "===== chain:" in line]
    assert names == ["ast", "tri", "linalg", "fused", "bufferized", "llvmdialect", "asm"]


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        (["--stage=cuda"], "help: 'cuda' is a stage of target cuda: say --target=cuda\n"),
        (["--stage=tir,ptx", "--pipeline=relax"], "help: 'ptx' is a stage of target cuda: say --target=cuda\n"),
        (
            ["--stage=cuda", "--pipeline=mlir"],
            "help: 'cuda' is a stage of target cuda: say --pipeline=linalg --target=cuda\n",
        ),
        (["--stage=llvm", "--target=cuda"], "help: 'llvm' is a stage of target cpu: say --target=cpu\n"),
        (["--stage=bufferized"], "help: its stages are ast, tri, linalg, fused, relax, tir, scheduled, llvm, asm\n"),
        (
            ["--stage=llvm", "--pipeline=mlir"],
            "help: its stages are ast, tri, linalg, fused, bufferized, llvmdialect, asm\n",
        ),
    ],
)
def test_a_stage_of_the_other_target_says_how_to_ask_for_it(run, kernels, line, hint):
    status, _, err = run("emit", f"{kernels}::chain", "--arg", "b=f32[8]", *line)
    assert status == 1
    assert hint in err


def test_build_writes_a_kernel_that_is_loaded_without_the_compiler(run, kernels, tmp_path):
    folder = tmp_path / "chain"
    line = ("build", f"{kernels}::chain", "--arg", "b=f32[8]", "-o", str(folder))
    status, out, err = run(*line, "--ir", "--pipeline=mlir")
    assert status == 0, err
    assert out.splitlines()[0].endswith("chain: chain(a: float32[4, 8], b: float32[8]) for cpu, pipeline mlir")
    assert {file.name for file in folder.iterdir()} >= {"manifest.json", "kernel.o", "kernel.h", "ir.json"}
    a, b = np.ones((4, 8), np.float32), np.arange(8, dtype=np.float32)
    assert np.array_equal(mt.load(folder)(a, b), a + b + a)
    (folder / "kernel.h").unlink()
    with pytest.raises(mt.KernelError, match=r"kernel\.h cannot be read"):
        mt.load(folder)
    status, _, err = run("build", *line[1:-1], kernels)
    assert status == 1
    assert "is a file, which a saved kernel would replace" in err


@pytest.mark.parametrize("command", ["emit", "run", "compare", "tune"])
def test_arguments_that_have_to_be_said(run, kernels, command):
    status, _, err = run(command, f"{kernels}::chain")
    assert status == 1
    assert "chain() misses --arg for b" in err
    assert "--arg b=f32[2,3]" in err
    assert "no parameter 'c'" in run(command, f"{kernels}::chain", "--arg", "c=f32[8]")[2]


def test_a_pass_is_found_in_whatever_stage_it_runs(run, kernels):
    _, out, _ = run(
        "emit", f"{kernels}::chain", "--arg", "b=f32[8]", "--pass=linalg-fuse-elementwise-ops", "--stage=fused"
    )
    assert out.count("linalg.generic") == 1


def test_constants_and_run_time_scalars_are_arguments(run, kernels):
    status, out, _ = run("emit", f"{kernels}::scaled", "--stage=tri", "--arg", "n=7", "--arg", "alpha=0.5")
    assert status == 0
    assert "%alpha: tensor<f64>" in out
    assert "value = 7" in out


def values_of(text):
    """The printed values, as lists of numbers."""
    lines = [line for line in text.splitlines() if not line.startswith("result")]
    return [[float(part) for part in line.split(",")] for line in lines]


@pytest.mark.parametrize(("argument", "least"), [("n=i32:9", 9), ("n=i32:7..9", 7), ("n=i32", 1), ("", 1)])
def test_run_time_numbers(run, kernels, argument, least):
    arguments = ["--arg", argument] if argument else []
    status, out, err = run("run", f"{kernels}::first", "--pipeline=mlir", *arguments)
    assert status == 0, err
    assert least <= values_of(out)[1][0] <= 9
    status, out, err = run("emit", f"{kernels}::first", "--stage=tri", *arguments)
    assert "%n: tensor<i32>" in out
    pipelines = ("--pipeline=mlir", "--pipeline=interpreter")
    status, out, err = run("compare", f"{kernels}::first", *pipelines, "--repeat=1", "--json", *arguments)
    assert status == 0, err
    rows = json.loads(out)["rows"]
    assert [(row["name"], row["refusal"]) for row in rows[:2]] == [("mlir", None), ("interpreter", None)]
    assert [row["refusal"] for row in rows] == [None, None, None]


def test_bounds_of_random_tensors_and_numbers_without_annotation(run, kernels):
    arguments = ["--arg", "places=i64[20]:90..99", "--arg", "n=f32:0.5..0.75"]
    status, out, err = run("run", f"{kernels}::picked", "--pipeline=mlir", *arguments)
    assert status == 0, err
    status, out, err = run("compare", f"{kernels}::picked", "--pipeline=mlir", "--repeat=1", "--json", *arguments)
    assert status == 0, err
    assert json.loads(out)["arguments"] == ["a: float32[100]", "places: int64[20]", "n: float32[]"]
    assert json.loads(out)["rows"][0]["max_ulp"] <= 1


def test_a_number_of_another_dtype_is_refused(run, kernels):
    status, _, err = run("run", f"{kernels}::first", "--arg", "n=i64:5")
    assert status == 1
    assert "'n': expected int32[], got int64[]" in err


def test_a_plain_function_counts_as_a_kernel(run, kernels):
    assert "tri.negative" in run("emit", f"{kernels}::undecorated", "--stage=tri", "--arg", "a=f32[2]")[1]


def test_run_is_the_same_each_time(run, kernels):
    first, second = (run("run", f"{kernels}::scaled", "--pipeline=mlir")[1] for _ in range(2))
    assert first == second
    lines = first.splitlines()
    assert lines[0] == "result[0]: float32[3]"
    assert len(lines[1].split(",")) == 3
    assert lines[2] == "result[1]: float32[]"


def test_run_uses_the_given_float(run, kernels):
    values = [
        run("run", f"{kernels}::scaled", "--pipeline=mlir", "--arg", f"alpha={alpha}", "--arg", "n=0")[1]
        for alpha in (1.0, 2.0)
    ]
    one, two = ([float(part) for part in text.splitlines()[1].split(",")] for text in values)
    assert two == pytest.approx([2 * each for each in one], rel=tolerance("float32"))


def test_a_dump_of_a_kernel_that_was_called_with_arrays_runs(run, kernels, tmp_path, monkeypatch):
    monkeypatch.setenv("MLIRTRI_DUMP_DIR", str(tmp_path / "dumps"))
    scaled = load_kernel(f"{kernels}::scaled")
    scaled.compile(np.ones(3, np.float32), 2.0, pipeline="mlir")
    monkeypatch.delenv("MLIRTRI_DUMP_DIR")
    [dumped] = tmp_path.glob("dumps/*/03_fused.mlir")
    status, out, _ = run("run", str(dumped), "--from=fused")
    assert status == 0
    lines = out.splitlines()
    assert lines[0] == "result[0]: float32[3]"
    assert len(lines[1].split(",")) == 3
    assert lines[2] == "result[1]: float32[]"


@pytest.mark.parametrize(
    ("value", "lines"),
    [
        (np.arange(10), ["result: int64[10]", "  0, 1, 2, 3, 4, 5, 6, 7, ..."]),
        (np.float32(1.5), ["result: float32[]", "  1.5"]),
        (2.5, ["result: float64[]", "  2.5"]),
        (True, ["result: bool[]", "  True"]),
        (torch.tensor([[1.5, 2.0]], dtype=torch.bfloat16), ["result: bfloat16[1, 2]", "  1.5, 2."]),
        ((np.zeros(0), None), ["result[0]: float64[0]", "  ", "result[1]: None"]),
    ],
)
def test_summary(value, lines):
    assert summary(value) == lines


def test_compare_as_json(run, kernels):
    line = ("compare", f"{kernels}::chain", "--arg", "b=f32[8]", "--pipeline=mlir", "--repeat=1", "--json")
    status, out, _ = run(*line)
    found = json.loads(out)
    assert status == 0
    assert [row["name"] for row in found["rows"]] == ["mlir", "torch"]
    assert found["rows"][0]["kernels"] == 1


def test_a_kernel_error_is_its_text_and_status_1(run, kernels):
    status, out, err = run("emit", f"{kernels}::chain", "--stage=tri", "--arg", "b=f32[5]")
    assert status == 1
    assert out == ""
    assert "some_kernels.py:8:11: error:" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("line", "status"),
    [
        (["nonsense"], 2),
        (["emit"], 2),
        (["emit", "x.py", "--pipeline=nonsense"], 2),
        (["emit", "x.py", "--arg", "a"], 2),
        (["emit", "absent.py"], 1),
        (["emit", "absent.mlir"], 1),
        (["translate", "--mlir-to-relax", "absent.mlir"], 1),
        (["stages", "--target=tpu"], 1),
        (["stages", "--pipeline=mlir", "--target=cuda"], 1),
        (["--help"], 0),
        (["--version"], 0),
        (["stages"], 0),
        (["env"], 0),
    ],
)
def test_exit_status(run, line, status):
    assert run(*line)[0] == status


@pytest.mark.parametrize("command", ["emit", "compare", "trace", "profile"])
def test_an_unknown_pipeline_is_refused_with_the_nearest_one(run, kernels, command):
    status, out, err = run(command, kernels, "--pipeline", "rlax")
    assert (status, out) == (2, "")
    assert "'upstream', 'interpreter'. Did you mean 'relax'?" in err


@pytest.mark.parametrize("line", ["--json", "--explain-fusion --stage=tir", "--explain-fusion --complete"])
def test_the_explanation_of_fusion_is_no_stage(run, kernels, line):
    status, out, err = run("emit", f"{kernels}::scaled", *line.split())
    assert (status, out) == (2, "")
    assert "--explain-fusion" in err


def test_relax_with_constants_is_read_back(run, tmp_path):
    constant = "arith.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>"
    body = f"%c = {constant}\n %r = arith.addf %x, %c : tensor<3xf32>\n return %r : tensor<3xf32>"
    mlir, relax = tmp_path / "f.mlir", tmp_path / "f.py"
    mlir.write_text(f"func.func @f(%x: tensor<3xf32>) -> tensor<3xf32> {{\n {body}\n}}")
    relax.write_text(run("translate", "--mlir-to-relax", str(mlir))[1])
    status, out, _ = run("translate", "--relax-to-mlir", str(relax))
    assert status == 0
    assert "dense<[1.000000e+00, 2.000000e+00, 3.000000e+00]>" in out


def _start(*arguments: str, **options) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-m", "mlirtri.cli", *arguments], stderr=subprocess.PIPE, **options)


def test_a_reader_that_leaves_early_sees_no_traceback():
    reading, writing = os.pipe()
    os.close(reading)
    with _start("stages", stdout=writing) as process:
        os.close(writing)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (1, b"")


def test_interrupt_is_status_130(tmp_path):
    file = tmp_path / "sleeper.py"
    file.write_text("import sys, time\nprint('ready', file=sys.stderr, flush=True)\ntime.sleep(60)\n")
    with _start("emit", str(file)) as process:
        assert process.stderr.readline() == b"ready\n"
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err.strip()) == (130, b"interrupted")


def test_timing_lists_stages_and_passes_by_cost_on_stderr(tmp_path, capsys):
    file = tmp_path / "timed.py"
    file.write_text("import mlirtri as mt\n@mt.jit\ndef k(a: mt.Tensor[[4], mt.float32]):\n    return a + 1\n")
    from mlirtri.cli.main import run_command

    assert run_command(["emit", str(file), "--stage=fused", "--timing"]) == 0
    out, err = capsys.readouterr()
    assert "linalg.generic" in out
    heading, *rows = (line.split() for line in err.splitlines())
    assert heading == ["ms", "%", "stage", "pass"]
    times = [float(row[0]) for row in rows]
    assert times == sorted(times, reverse=True)
    assert {"ast", "tri", "linalg", "fused"} <= {row[2] for row in rows if len(row) == 3}
    assert {"canonicalize"} <= {row[3] for row in rows if len(row) == 4}


def test_imports_of_the_compilers_are_no_time_of_a_stage(tmp_path):
    from mlirtri.cli.reports import timing_table
    from mlirtri.compiler.stage_loop import run_stages
    from mlirtri.lowering.core.stage import CompileContext, Stage
    from mlirtri.lowering.core.target import as_target
    from mlirtri.lowering.pipelines import LazyLowering, Pipeline

    (tmp_path / "slow_lowering.py").write_text("import time\ntime.sleep(0.2)\ndef lower(ir, context):\n    return ir\n")
    sys.path.insert(0, str(tmp_path))
    try:
        stage = Stage("slow", "python", LazyLowering("slow_lowering"))
        compilation = run_stages("", Pipeline("one", (stage,)), CompileContext("k", as_target("cpu")))
    finally:
        sys.path.remove(str(tmp_path))
    assert compilation.seconds["slow"] < 0.2 <= compilation.loading
    assert next(iter(timing_table(compilation).columns[2].cells)) == "(imports)"


def test_ptx_without_nvcc_says_so(run, kernels, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    status, _, err = run("emit", f"{kernels}::scaled", "--target=cuda", "--stage=ptx")
    assert status == 1
    assert "NVIDIA's compiler nvcc makes it, and is not on PATH" in err
