"""Pipelines of a user: stages inserted, replaced and cut off, and what a user's stage may give."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import mlirtri as mt
from mlirtri.dialect.bindings.mlir import ir, operations_named
from mlirtri.errors import KernelError, KernelTypeError, PassFailedError, Span, UnknownOptionError
from mlirtri.lowering.core.stage import Stage
from mlirtri.lowering.core.target import as_target
from mlirtri.lowering.pipelines import FUSED, LINALG, Pipeline, pipeline_for


@mt.jit
def add_chain(a: mt.Tensor[[2, 3], mt.float32], b: mt.Tensor[[2, 3], mt.float32]):
    out = a + b
    out = out + a
    return out


def cpu(pipeline="linalg"):
    return pipeline_for(pipeline, as_target("cpu"))


def test_stopping_before_code_gives_a_kernel_to_read():
    kernel = add_chain.compile(pipeline=cpu().until("Poly"))
    assert list(kernel.ir) == ["ast", "tri", "linalg", "fused"]
    with pytest.raises(KernelError, match="cannot be called"):
        kernel(torch.ones(2, 3), torch.ones(2, 3))


def test_a_stage_can_be_inserted_and_replaced():
    seen = []

    def look(module, context):
        seen.append(context.stage)
        return module

    def unfused(module, context):
        return module

    x = torch.ones(2, 3)
    inserted = add_chain.compile(pipeline=cpu().insert_after("fused", Stage("look", "mlir", look)))
    assert seen == ["look"]
    assert inserted.ir["look"] == inserted.ir["fused"]
    replaced = add_chain.compile(pipeline=cpu("mlir").replace("fused", replace(FUSED, run=unfused)))
    assert replaced.ir["fused"].count("linalg.generic") == 2
    for kernel in (inserted, replaced):
        torch.testing.assert_close(kernel(x, x), 3 * x)
    with pytest.raises(UnknownOptionError, match="already"):
        cpu().insert_before("tir", LINALG)


def test_a_users_stage_fails_as_their_own_code():
    def broken(module, context):
        raise ZeroDivisionError("theirs")

    with pytest.raises(ZeroDivisionError, match="theirs"):
        add_chain.compile(pipeline=cpu().insert_after("fused", Stage("broken", "mlir", broken)))


def nothing(module, context):
    assert module is not None


def text(module, context):
    return str(module)


def untouched(module, context):
    return module


def renamed(module, context):
    module.body.operations[0].attributes["sym_name"] = ir.StringAttr.get("other", module.context)
    return module


def emptied(module, context):
    module.body.operations[0].erase()
    return module


def no_yields(module, context):
    for generic in operations_named(module, "linalg.generic"):
        del generic.attributes["iterator_types"]
    return module


REFUSED_RESULTS = [
    ("fused", "mlir", nothing, "stage 'mine' gave None, not an MLIR module"),
    ("fused", "mlir", text, "stage 'mine' gave a builtins.str, not an MLIR module"),
    ("tir", "tvmscript", nothing, "stage 'mine' gave None, not a tvm.IRModule"),
    ("fused", "tvmscript", untouched, "gave a torch_mlir._mlir_libs._mlir.ir.Module, not a tvm.IRModule"),
    ("ast", "python", nothing, "stage 'mine' gave None, not the tree of stage 'ast'"),
    ("llvm", "llvm", nothing, "stage 'mine' gave None, not a Code with its text"),
    ("fused", "mlir", renamed, "gave the function other(float32[2, 3], float32[2, 3]) -> (float32[2, 3]) instead of"),
    ("fused", "mlir", emptied, "stage 'mine': expected a module of one function, found 0"),
]


@pytest.mark.parametrize(("after", "kind", "function", "message"), REFUSED_RESULTS)
def test_what_is_no_ir_of_a_users_stage_is_refused_at_its_function(after, kind, function, message):
    with pytest.raises(KernelTypeError) as caught:
        add_chain.compile(pipeline=cpu().insert_after(after, mt.Stage("mine", kind, function)))
    assert message in caught.value.message
    assert caught.value.span == Span(__file__, function.__code__.co_firstlineno, 1)
    assert f"def {function.__name__}" in str(caught.value)


def test_ir_of_a_users_stage_is_always_verified():
    with pytest.raises(PassFailedError, match="MLIR refuses the IR of stage 'mine'"):
        add_chain.compile(pipeline=cpu().insert_after("fused", mt.Stage("mine", "mlir", no_yields)))


def test_stages_and_pipelines_are_checked_where_they_are_made():
    with pytest.raises(UnknownOptionError, match="no kind 'mlri'") as caught:
        mt.Stage("mine", "mlri", nothing)
    assert caught.value.help.startswith("did you mean 'mlir'?")
    with pytest.raises(KernelTypeError, match="has None for a lowering"):
        mt.Stage("mine", "mlir", None)
    with pytest.raises(UnknownOptionError, match="a stage's name is a word, not 'a/b'"):
        mt.Stage("a/b", "mlir", nothing)
    with pytest.raises(KernelTypeError, match="among its stages"):
        mt.Pipeline.named("mlir").insert_after("fused", nothing)
    with pytest.raises(UnknownOptionError, match="unknown pipeline 'mlri'"):
        mt.Pipeline.named("mlri")
    assert mt.Pipeline.named("linalg", "cuda").names[-1] in ("cuda", "ptx")
    usual = mt.Pipeline.named("mlir")
    assert mt.Pipeline("mlir", list(usual.stages)) == usual


def test_a_jit_function_can_have_a_pipeline_of_its_own():
    x = torch.ones(2, 3)
    short = Pipeline("short", tuple(stage for stage in cpu("mlir").stages if stage.name != "fused"))
    function = mt.jit(add_chain.__mlirtri_function__, pipeline=short)
    torch.testing.assert_close(function(x, x), 3 * x)
    assert "fused" not in function.compile().ir
