"""What the `mlir` pipeline's stages promise beside numbers: copies, loops, locations, texts."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from mlir_stage_helpers import (
    ADD_TWICE,
    LOWERINGS,
    SHAPES,
    SOFTMAX,
    chain,
    compiled,
    elementwise,
    lower_to,
    matmul,
    run,
    text_after,
)
from tolerances import tolerance, within

import mlirtri as mt
from mlirtri.dialect.bindings.mlir import ir, print_complete
from mlirtri.errors import CodegenError, UnsupportedOperationError
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.core.target import as_target
from mlirtri.lowering.mlir_backend.llvm import llvmdialect_to_asm


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_argmax_is_searched_for_once_the_maximum_is_known(dtype):
    def places(a):
        return torch.argmax(a, 1), torch.argmin(a, 0)

    a = torch.tensor([[3, 1, 3, 0], [2, 2, 2, 2], [-5, 7, 7, 9]], dtype=getattr(torch, dtype))
    if dtype == "float32":
        a[0, 1:3], a[1] = float("nan"), -float("inf")
    kernel = mt.jit(places).compile(a, pipeline="mlir")
    assert kernel.passes["llvmdialect"]["argmax-in-two-passes"].count("linalg.generic") == 4
    rows = mt.Tensor[[mt.dyn, mt.dyn], mt.float32]
    of_any_size = mt.jit(lambda a: torch.argmax(a, 1), pipeline="mlir").compile(rows)
    assert of_any_size.passes["llvmdialect"]["argmax-in-two-passes"].count("linalg.generic") == 2
    for found, expected in zip(kernel(a), places(a), strict=True):
        torch.testing.assert_close(found, expected)


def test_no_copy_and_no_buffer_that_could_be_the_output():
    bufferized = text_after(SOFTMAX, "bufferized")
    assert "memref.copy" not in bufferized
    assert bufferized.count("memref.alloca()") == 1  # for the maximum, then for the sum; exponentials go to the output
    assert not re.search(r"memref\.(copy|alloc)", text_after(matmul(64, 64, 64), "bufferized"))
    large = text_after(SOFTMAX.replace("5x", "5000x"), "bufferized")
    assert large.count("memref.alloc()") == large.count("memref.dealloc") == 1


def test_elementwise_works_in_place_only_on_what_nobody_needs(random):
    first = chain("%1 = f(%a) exp", "%2 = f(%1) sin", shape="3x3").replace("return %2", "return %1, %2")
    first = first.replace("-> tensor<3x3xf32> {", "-> (tensor<3x3xf32>, tensor<3x3xf32>) {", 1)
    first = first.replace("return %1, %2 : ", "return %1, %2 : tensor<3x3xf32>, ")
    a = random.standard_normal((3, 3), dtype=np.float32)
    square = ((3, 3), "float32")
    exponential, sine = run(first, [a], [square, square])
    np.testing.assert_allclose(exponential, np.exp(a), rtol=tolerance("float32"))
    np.testing.assert_allclose(sine, np.sin(np.exp(a)), **within("float32"))
    (result,) = run(TRANSPOSED_SUM, [a, a], [square])
    np.testing.assert_allclose(result, a @ a + (a @ a).T, **within("float32", 3))


TRANSPOSED_SUM = """
#id = affine_map<(i, j) -> (i, j)>
#swap = affine_map<(i, j) -> (j, i)>
func.func @f(%a: tensor<3x3xf32>, %b: tensor<3x3xf32>) -> tensor<3x3xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<3x3xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<3x3xf32>) -> tensor<3x3xf32>
  %m = linalg.matmul ins(%a, %b : tensor<3x3xf32>, tensor<3x3xf32>) outs(%f : tensor<3x3xf32>) -> tensor<3x3xf32>
  %0 = linalg.generic {indexing_maps = [#id, #swap, #id], iterator_types = ["parallel", "parallel"]}
      ins(%m, %m : tensor<3x3xf32>, tensor<3x3xf32>) outs(%e : tensor<3x3xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %r = arith.addf %x, %y : f32
    linalg.yield %r : f32
  } -> tensor<3x3xf32>
  return %0 : tensor<3x3xf32>
}"""


def test_shared_fills_and_reshaped_results_cost_no_copy():
    second = """
      %1 = linalg.matmul ins(%b, %a : tensor<4x4xf32>, tensor<4x4xf32>) outs(%f : tensor<4x4xf32>) -> tensor<4x4xf32>
      %r = tensor.expand_shape %0 [[0, 1], [2]] output_shape [2, 2, 4] : tensor<4x4xf32> into tensor<2x2x4xf32>
      %s = tensor.collapse_shape %1 [[0, 1]] : tensor<4x4xf32> into tensor<16xf32>
      return %r, %s : tensor<2x2x4xf32>, tensor<16xf32>"""
    text = matmul(4, 4, 4).replace("return %0 : tensor<4x4xf32>", second)
    text = text.replace("-> tensor<4x4xf32> {", "-> (tensor<2x2x4xf32>, tensor<16xf32>) {", 1)
    assert not re.search(r"copy|alloc", text_after(text, "bufferized"))
    a, b = np.arange(16, dtype=np.float32).reshape(4, 4), np.eye(4, dtype=np.float32) * 2
    first, second = run(text, [a, b], [((2, 2, 4), "float32"), ((16,), "float32")])
    np.testing.assert_array_equal(first, (a @ b).reshape(2, 2, 4))
    np.testing.assert_array_equal(second, (b @ a).reshape(16))


def test_bufferized_function_takes_inputs_then_outputs():
    signature = "func.func @f(%arg0: memref<2x3xf32>, %arg1: memref<2x3xf32>, %out: memref<2x3xf32>) {"
    assert signature in text_after(ADD_TWICE, "bufferized")


def test_kernels_are_the_loop_nests():
    assert compiled(ADD_TWICE).kernels == 1
    assert compiled(SOFTMAX).kernels == 4
    assert compiled(SHAPES).kernels == 11  # copies of parts into results, too


def test_every_pass_is_recorded_with_a_name_of_its_own():
    _, context = lower_to(ADD_TWICE, "llvmdialect", keep_passes=True)
    fused = {record.name: record for record in context.passes["fused"]}
    assert fused["linalg-fuse-elementwise-ops"].changed
    assert not fused["canonicalize#3"].changed
    assert "one-shot-bufferize" in {record.name for record in context.passes["bufferized"]}
    assert "narrow-floats" in {record.name for record in context.passes["llvmdialect"]}


def test_keeping_no_passes_gives_the_same_ir():
    for stage in ("fused", "bufferized", "llvmdialect"):
        quick, context = lower_to(SOFTMAX, stage)
        assert print_complete(quick) == print_complete(lower_to(SOFTMAX, stage, keep_passes=True)[0])
        assert context.passes == {}


def loops_of(text):
    _, context = lower_to(text, "llvmdialect", keep_passes=True)
    (ordered,) = [record.text for record in context.passes["llvmdialect"] if record.name == "order-loops"]
    return ordered


def test_loops_of_a_matmul_run_along_memory():
    ordered = loops_of(matmul(4, 5, 6))
    assert 'iterator_types = ["parallel", "reduction", "parallel"]' in ordered
    assert "arith.mulf %in, %in_0 fastmath<contract>" in ordered
    assert re.search(r"arith.addf %out, %\d+ fastmath<reassoc,contract>", ordered)


def test_only_the_accumulation_is_reassociated():
    ordered = loops_of(chain("%1 = f(%a, %a) addf", "%2 = f(%1, %a) mulf", "%3 = sum(%2)", shape="3x4", result="3"))
    assert 'iterator_types = ["parallel", "reduction"]' in ordered
    (first, _, last) = re.findall(r"arith\.(?:addf|mulf) .*", ordered)
    assert "fastmath" not in first
    assert "reassoc" in last


def test_column_sums_run_row_by_row(random):
    text = chain("%1 = sum(%a)", shape="3x4", result="3").replace("(d0, d1) -> (d0)", "(d0, d1) -> (d1)")
    text = text.replace("tensor<3xf32>", "tensor<4xf32>").replace(
        '["parallel", "reduction"]', '["reduction", "parallel"]'
    )
    assert 'iterator_types = ["reduction", "parallel"]' in loops_of(text)
    a = random.standard_normal((3, 4), dtype=np.float32)
    np.testing.assert_allclose(run(text, [a], [((4,), "float32")])[0], a.sum(0), rtol=tolerance("float32", 3))


def test_convolution_with_compound_indices(random):
    text = """
    func.func @f(%a: tensor<1x7x3xf32>, %k: tensor<3x3x2xf32>) -> tensor<1x5x2xf32> {
      %zero = arith.constant 0.0 : f32
      %e = tensor.empty() : tensor<1x5x2xf32>
      %i = linalg.fill ins(%zero : f32) outs(%e : tensor<1x5x2xf32>) -> tensor<1x5x2xf32>
      %0 = linalg.conv_1d_nwc_wcf {dilations = dense<1> : tensor<1xi64>, strides = dense<1> : tensor<1xi64>}
          ins(%a, %k : tensor<1x7x3xf32>, tensor<3x3x2xf32>) outs(%i : tensor<1x5x2xf32>) -> tensor<1x5x2xf32>
      return %0 : tensor<1x5x2xf32>
    }"""
    a, k = random.standard_normal((1, 7, 3), dtype=np.float32), random.standard_normal((3, 3, 2), dtype=np.float32)
    expected = sum(a[:, w : w + 5] @ k[w] for w in range(3))
    np.testing.assert_allclose(run(text, [a, k], [((1, 5, 2), "float32")])[0], expected, **within("float32", 9))


@pytest.mark.parametrize("stage", ["bufferized", "llvmdialect"])
def test_locations_survive_every_stage(stage):
    assert '"/src/k.py":4:11' in print_complete(lower_to(ADD_TWICE, stage)[0])


def test_assembly_is_for_the_host():
    text = lower_to(elementwise(["f32"], "f32", "%r = arith.addf %x0, %x0 : f32", shape="1024"))[0].text
    assert "mlirtri_f" in text
    if platform.machine() == "x86_64" and shutil.which("objdump"):
        assert re.search(r"\b[yz]mm\d", text)


def test_assembly_names_the_users_lines():
    if shutil.which("objdump"):
        assert re.search(r"^; /src/k.py:4$", lower_to(ADD_TWICE)[0].text, flags=re.MULTILINE)


def test_locations_of_inlined_helpers_compile():
    called = 'callsite("helper"("/h.py":1:2) at callsite("/g.py":3:4 at fused["/src/k.py":4:11, unknown]))'
    text = ADD_TWICE.replace('"out"("/src/k.py":4:11)', called).replace('"out"("/src/k.py":3:11)', "unknown")
    a = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(run(text, [a, a], [((2, 3), "float32")])[0], a * 3)


def test_without_objdump_the_text_is_llvm_ir(monkeypatch):
    monkeypatch.setenv("PATH", "")
    text = lower_to(ADD_TWICE)[0].text
    assert text.startswith("; objdump is not on PATH")
    assert "define void @mlirtri_f(" in text


def test_scalar_arguments_are_refused_with_the_way_out():
    with pytest.raises(UnsupportedOperationError, match=r"'f' takes or returns a f32; .*ranked tensors only"):
        lower_to("func.func @f(%a: f32) { return }", "bufferized")


def test_resuming_from_the_complete_text_gives_the_same_stages():
    def resumed(stage, later):
        context = CompileContext("f", as_target("cpu"), stage=later)
        with ir.Context():
            module = ir.Module.parse(print_complete(lower_to(SOFTMAX, stage)[0]))
            return print_complete(LOWERINGS[later].lower(module, context))

    for stage, later in (("fused", "bufferized"), ("bufferized", "llvmdialect")):
        assert resumed(stage, later) == print_complete(lower_to(SOFTMAX, later)[0])


def test_llvm_dialect_from_elsewhere_runs():
    text = """
    llvm.func @store(%p: !llvm.ptr) {
      %c = llvm.mlir.constant(5.0 : f32) : f32
      llvm.store %c, %p : f32, !llvm.ptr
      llvm.return
    }"""
    context = CompileContext("store", as_target("cpu"), stage="asm")
    result = torch.zeros(1)
    with ir.Context():
        llvmdialect_to_asm.lower(ir.Module.parse(text), context).executable.launch([], [result])
        assert result.item() == 5
        two = text + text.replace("@store", "@other")
        with pytest.raises(CodegenError, match="public functions: store, other"):
            llvmdialect_to_asm.lower(ir.Module.parse(two), replace(context, kernel="third"))


def test_this_pipeline_needs_no_tvm():
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); import mlir_stage_helpers as stages; "
        "stages.compiled(stages.SOFTMAX); print('tvm' in sys.modules)"
    )
    command = [sys.executable, "-c", program, str(Path(__file__).parents[2] / "support")]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == "False"
