"""The pass runner: what it records, refuses and says when a pass fails."""

from __future__ import annotations

import shlex

import pytest

from mlirtri.dialect.bindings.mlir import ir, print_complete, print_module
from mlirtri.errors import PassFailedError, UnknownOptionError
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.core.target import as_target
from mlirtri.lowering.toolchain.mlir_passes import Pass, run_passes
from mlirtri.opt import main as opt

TWO_EQUAL = """
func.func @f(%a: f32) -> f32 {
  %0 = arith.addf %a, %a : f32
  %1 = arith.addf %a, %a : f32
  %2 = arith.mulf %0, %1 : f32
  return %2 : f32
}"""

MISMATCH = """
func.func @f(%a: tensor<4xf32>) -> memref<4xf32> {
  %b = bufferization.to_buffer %a : tensor<4xf32> to memref<4xf32>
  return %b : memref<4xf32> loc("/home/me/k.py":7:5)
}"""

FAILING = """
func.func @f(%a: tensor<4xf32>) {
  %b = bufferization.to_buffer %a : tensor<4xf32> to memref<4xf32>
  %c = memref.cast %b : memref<4xf32> to memref<?xf32>
  %d = "some.op"(%c) : (memref<?xf32>) -> tensor<4xf32> loc("total"("/home/me/k.py":12:9))
  return
}"""


def test_failing_pass_is_reported_on_the_users_line_with_a_command_that_repeats_it(tmp_path, monkeypatch):
    monkeypatch.setenv("MLIRTRI_REPRODUCER_DIR", str(tmp_path))
    context = CompileContext("f", as_target("cpu"), stage="bufferized")
    with ir.Context() as mlir_context:
        mlir_context.allow_unregistered_dialects = True
        module = ir.Module.parse(FAILING)
        before = print_complete(module)
        with pytest.raises(PassFailedError) as caught:
            run_passes(module, [Pass("cse", "runs"), Pass("one-shot-bufferize", "fails")], context)
    assert str(caught.value).startswith("/home/me/k.py:12:9: error: pass one-shot-bufferize failed: ")
    (saved,) = tmp_path.iterdir()
    command = "mlirtri-opt --pass-pipeline='builtin.module(one-shot-bufferize)'"
    # No path of this machine is in the file.
    assert saved.read_text() == f"// {command} {saved.name}\n{before.replace('/home/me/', '')}"
    assert f"reproduce with: {command} {saved}" in caught.value.help


def test_the_command_of_a_reproducer_repeats_the_failure(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("MLIRTRI_REPRODUCER_DIR", str(tmp_path))
    with ir.Context():
        module = ir.Module.parse(MISMATCH)
        with pytest.raises(PassFailedError) as caught:
            run_passes(module, [Pass("convert-func-to-llvm", "fails")], CompileContext("f", as_target("cpu")))
    command = shlex.split(caught.value.help.partition("reproduce with: ")[2])
    assert opt.main(command[1:]) == 1
    assert capfd.readouterr().err.startswith(f"k.py:7:5: error: {caught.value.message.partition(': ')[2]}")


@pytest.mark.parametrize(
    ("pipeline", "reason"),
    [
        ("no-such-pass", "no-such-pass"),
        ("canonicalize{no-such-option=1}", "no such option no-such-option"),
        ("func.func(one-shot-bufferize)", "restricted to 'builtin.module'"),
        ("func.func(sparsifier)", "'sparsifier' runs on modules only"),
        ("cse)", "builtin.module"),
    ],
)
def test_impossible_pipelines_are_refused_before_anything_runs(pipeline, reason):
    context = CompileContext("f", as_target("cpu"))
    with ir.Context():
        module = ir.Module.parse(TWO_EQUAL)
        before = print_module(module)
        with pytest.raises(UnknownOptionError) as caught:
            run_passes(
                module, [Pass("func.func(linalg-fuse-elementwise-ops)", "would change it"), Pass(pipeline, "")], context
            )
        assert reason in str(caught.value)
        assert print_module(module) == before


def test_records_say_what_changed_under_names_of_their_own():
    context = CompileContext("f", as_target("cpu"), stage="fused")
    with ir.Context():
        module = ir.Module.parse(TWO_EQUAL)
        run_passes(
            module, [Pass("cse", ""), Pass("func.func(canonicalize{max-iterations=3})", ""), Pass("cse", "")], context
        )
        names = [(record.name, record.changed) for record in context.passes["fused"]]
        assert names == [("cse", True), ("canonicalize", False), ("cse#2", False)]
        assert context.passes["fused"][-1].text == print_module(module)


def test_unwritable_reproducer_folder_still_leaves_the_error(monkeypatch):
    monkeypatch.setenv("MLIRTRI_REPRODUCER_DIR", "/dev/null/nowhere")
    with ir.Context():
        with pytest.raises(PassFailedError, match="could not be saved") as caught:
            run_passes(
                ir.Module.parse(MISMATCH), [Pass("convert-func-to-llvm", "")], CompileContext("f", as_target("cpu"))
            )
    assert "type of return operand 0" in str(caught.value)
