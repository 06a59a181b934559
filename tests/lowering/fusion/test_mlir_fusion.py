"""What the stage `fused` makes one loop nest, and what it leaves apart."""

from __future__ import annotations

import numpy as np
from mlir_stage_helpers import ADD_TWICE, SOFTMAX, chain, lower_to, matmul, run, text_after
from tolerances import tolerance

import mlirtri as mt
from mlirtri.dialect.bindings.mlir import print_complete
from mlirtri.lowering.fusion import cost_guard


def test_two_adds_become_one_generic():
    fused = text_after(ADD_TWICE, "fused")
    assert fused.count("linalg.generic") == 1
    assert fused.count("arith.addf") == 2


def test_locations_survive_fusion():
    module, _ = lower_to(ADD_TWICE, "fused")
    assert '"/src/k.py":4:11' in print_complete(module)


def test_diamond_fuses_through_both_arms():
    fused = text_after(chain("%1 = f(%a) exp", "%2 = f(%1) sin", "%3 = f(%1) cos", "%4 = f(%2, %3) addf"), "fused")
    assert fused.count("linalg.generic") == 1
    assert fused.count("math.exp") == 1


def test_splat_constants_enter_the_body():
    text = chain("%c = arith.constant dense<3.0> : tensor<4xf32>", "%1 = f(%a) exp", "%2 = f(%1, %c) mulf")
    fused = text_after(text, "fused")
    assert "dense<" not in fused
    assert fused.count("linalg.generic") == 1


def test_elementwise_producer_enters_the_reduction_and_the_accumulator_stays_first():
    text = chain("%1 = f(%a) exp", "%2 = sum(%1)", shape="3x4", result="3")
    fused = text_after(text, "fused")
    assert fused.count("linalg.generic") == 1
    assert "arith.addf %out, %" in fused


def test_elementwise_on_both_sides_of_a_reshape_is_one_kernel():
    reshape = "%2 = tensor.collapse_shape %1 [[0, 1]] : tensor<3x4xf32> into tensor<12xf32>"
    text = chain("%1 = f(%a) exp", reshape, "%3 = f[12](%2) sin", shape="3x4", result="12")
    assert text_after(text, "fused").count("linalg.generic") == 1


def test_fused_module_holds_only_what_the_bridge_reads():
    for text in (ADD_TWICE, SOFTMAX, matmul(4, 5, 6), matmul(4, 5, 6, "f16")):
        names = {line.split("= ")[-1].split(".")[0].strip(' "') for line in text_after(text, "fused").splitlines()}
        assert not names & {"bufferization", "memref", "scf", "affine", "vector", "ub"}


def test_matmul_keeps_its_name():
    assert "linalg.matmul" in text_after(matmul(4, 5, 6), "fused")


# a softmax whose weights a matmul reads: rows(p) @ v
WEIGHTED = """
#id = affine_map<(i, j) -> (i, j)>
func.func @f(%a: tensor<4x8xf32>, %v: tensor<8x6xf32>) -> tensor<2x2x6xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %p = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%a : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%x: f32, %o: f32):
    %r = math.exp %x : f32
    linalg.yield %r : f32
  } -> tensor<4x8xf32>
  %e1 = tensor.empty() : tensor<4x6xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e1 : tensor<4x6xf32>) -> tensor<4x6xf32>
  %m = linalg.matmul ins(%p, %v : tensor<4x8xf32>, tensor<8x6xf32>) outs(%f : tensor<4x6xf32>) -> tensor<4x6xf32>
  %s = tensor.expand_shape %m [[0, 1], [2]] output_shape [2, 2, 6] : tensor<4x6xf32> into tensor<2x2x6xf32>
  return %s : tensor<2x2x6xf32>
}"""


def test_arithmetic_stays_out_of_a_matmul_that_a_reshape_made_generic(random):
    fused = text_after(WEIGHTED, "fused")
    (contraction,) = [one for one in fused.split("linalg.generic") if "reduction" in one]
    assert "math.exp" not in contraction
    assert fused.count("linalg.generic") == 2
    assert "mlirtri.kept" not in fused
    assert "return %" in fused
    a, v = random.standard_normal((4, 8), dtype=np.float32), random.standard_normal((8, 6), dtype=np.float32)
    (result,) = run(WEIGHTED, [a, v], [((2, 2, 6), "float32")])
    np.testing.assert_allclose(result, (np.exp(a) @ v).reshape(2, 2, 6), rtol=tolerance("float32", 8))


def test_transposes_and_widening_casts_do_enter_a_contraction():
    text = WEIGHTED.replace("math.exp %x : f32", "arith.extf %x : f16 to f32").replace("%x: f32", "%x: f16")
    text = text.replace("%a: tensor<4x8xf32>", "%a: tensor<4x8xf16>").replace(
        "%a : tensor<4x8xf32>", "%a : tensor<4x8xf16>"
    )
    assert text_after(text, "fused").count("linalg.generic") == 1


KEEPDIMS = """
#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
#kept = affine_map<(i, j) -> (i, 0)>
func.func @f(%a: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %zero = arith.constant 0.0 : f32
  %e1 = tensor.empty() : tensor<3xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e1 : tensor<3xf32>) -> tensor<3xf32>
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%a : tensor<3x4xf32>) outs(%f : tensor<3xf32>) {
  ^bb0(%x: f32, %o: f32):
    %r = arith.addf %o, %x : f32
    linalg.yield %r : f32
  } -> tensor<3xf32>
  %k = tensor.expand_shape %s [[0, 1]] output_shape [3, 1] : tensor<3xf32> into tensor<3x1xf32>
  %e = tensor.empty() : tensor<3x4xf32>
  %q = linalg.generic {indexing_maps = [#id, #kept, #id], iterator_types = ["parallel", "parallel"]}
      ins(%a, %k : tensor<3x4xf32>, tensor<3x1xf32>) outs(%e : tensor<3x4xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %r = arith.divf %x, %y : f32
    linalg.yield %r : f32
  } -> tensor<3x4xf32>
  return %q : tensor<3x4xf32>
}"""


def test_kept_axes_of_size_one_leave_no_reshape():
    assert "shape" not in text_after(KEEPDIMS, "fused")


def test_axes_of_size_one_in_the_signature_stay():
    text = matmul(1, 5, 6).replace("return %0", "%r = linalg.exp ins(%0 : T) outs(%e : T) -> T\n return %r")
    fused = text_after(text.replace(": T", ": tensor<1x5xf32>").replace("-> T", "-> tensor<1x5xf32>"), "fused")
    assert "shape" not in fused
    assert "linalg.matmul" in fused


def test_producers_of_a_long_chain_are_looked_through_once(monkeypatch):
    count = 40
    asked: list[object] = []
    read = cost_guard.Overwrites._read_by
    monkeypatch.setattr(
        cost_guard.Overwrites, "_read_by", lambda self, producer: asked.append(producer) or read(self, producer)
    )
    steps = [f"%{step} = f(%{step - 1 or 'a'}) exp" for step in range(1, count + 1)]
    assert text_after(chain(*steps), "fused").count("linalg.generic") == 1
    assert len(asked) <= count


def test_a_long_module_is_fused_group_by_group_into_one_operation():
    lines = [f"%v{n} = arith.addf %{f'v{n - 1}' if n else 'a'}, %b : tensor<4xf32>" for n in range(cost_guard.LONG + 5)]
    text = "\n".join(["func.func @f(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {", *lines,
                      f"return %v{cost_guard.LONG + 4} : tensor<4xf32>", "}"])  # fmt: skip
    program = mt.from_mlir(text)
    kernel = program.compile()
    assert kernel.ir["fused"].count("linalg.generic") == 1
    assert "dealloc" not in kernel.ir["fused"]
    a, b = np.ones(4, np.float32), np.full(4, 0.5, np.float32)
    np.testing.assert_allclose(program(a, b), a + b * (cost_guard.LONG + 5))
