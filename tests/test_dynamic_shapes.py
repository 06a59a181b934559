"""Imported functions with sizes known at run time only: one compile runs for all sizes that fit."""

from __future__ import annotations

import functools
import json

import numpy as np
import pytest

import mlirtri as mt
from mlirtri.dynamic_shapes import size_program_json, size_program_of_json
from mlirtri.errors import ArgumentMismatchError, KernelAssertionError, UnsupportedOperationError

PIPELINES = ("linalg", "mlir")
RNG = np.random.default_rng(7)

MATMUL = """
func.func @product(%x: tensor<?x?xf32>, %y: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %rows = tensor.dim %x, %c0 : tensor<?x?xf32>
  %columns = tensor.dim %y, %c1 : tensor<?x?xf32>
  %empty = tensor.empty(%rows, %columns) : tensor<?x?xf32>
  %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<?x?xf32>) -> tensor<?x?xf32>
  %r = linalg.matmul ins(%x, %y : tensor<?x?xf32>, tensor<?x?xf32>) outs(%start : tensor<?x?xf32>) -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}
"""

SOFTMAX = """
#all = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
func.func @softmax(%x: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %least = arith.constant 0xFF800000 : f32
  %n = tensor.dim %x, %c0 : tensor<?x?xf32>
  %m = tensor.dim %x, %c1 : tensor<?x?xf32>
  %rows = tensor.empty(%n) : tensor<?xf32>
  %whole = tensor.empty(%n, %m) : tensor<?x?xf32>
  %lows = linalg.fill ins(%least : f32) outs(%rows : tensor<?xf32>) -> tensor<?xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%rows : tensor<?xf32>) -> tensor<?xf32>
  %high = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<?x?xf32>) outs(%lows : tensor<?xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.maximumf %o, %a : f32
    linalg.yield %s : f32
  } -> tensor<?xf32>
  %powers = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x, %high : tensor<?x?xf32>, tensor<?xf32>) outs(%whole : tensor<?x?xf32>) {
  ^bb0(%a: f32, %h: f32, %o: f32):
    %d = arith.subf %a, %h : f32
    %e = math.exp %d : f32
    linalg.yield %e : f32
  } -> tensor<?x?xf32>
  %sums = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]}
      ins(%powers : tensor<?x?xf32>) outs(%zeros : tensor<?xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %o, %a : f32
    linalg.yield %s : f32
  } -> tensor<?xf32>
  %r = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel"]}
      ins(%powers, %sums : tensor<?x?xf32>, tensor<?xf32>) outs(%whole : tensor<?x?xf32>) {
  ^bb0(%a: f32, %s: f32, %o: f32):
    %q = arith.divf %a, %s : f32
    linalg.yield %q : f32
  } -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}
"""

ADD = """
#all = affine_map<(i, j) -> (i, j)>
func.func @add(%x: tensor<?x4xf32>, %y: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x4xf32>
  %empty = tensor.empty(%n) : tensor<?x4xf32>
  %r = linalg.generic {indexing_maps = [#all, #all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x, %y : tensor<?x4xf32>, tensor<?x4xf32>) outs(%empty : tensor<?x4xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<?x4xf32>
  return %r : tensor<?x4xf32>
}
"""

CONCAT = """
func.func @join(%x: tensor<?x?xf32>, %y: tensor<?x?xf32>) -> (tensor<?x?xf32>, tensor<?xf32>) {
  %r = tensor.concat dim(0) %x, %y : (tensor<?x?xf32>, tensor<?x?xf32>) -> tensor<?x?xf32>
  %flat = tensor.collapse_shape %r [[0, 1]] : tensor<?x?xf32> into tensor<?xf32>
  return %r, %flat : tensor<?x?xf32>, tensor<?xf32>
}
"""

PAD_AND_SLICE = """
func.func @cut(%x: tensor<?x6xf32>) -> (tensor<?x9xf32>, tensor<?x6xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %zero = arith.constant 0.0 : f32
  %n = tensor.dim %x, %c0 : tensor<?x6xf32>
  %wide = tensor.pad %x low[%n, 1] high[1, 2] {
  ^bb0(%i: index, %j: index):
    tensor.yield %zero : f32
  } : tensor<?x6xf32> to tensor<?x9xf32>
  %more = arith.addi %n, %c1 : index
  %half = arith.floordivsi %more, %c2 : index
  %even = tensor.extract_slice %x[0, 0] [%half, 6] [2, 1] : tensor<?x6xf32> to tensor<?x6xf32>
  return %wide, %even : tensor<?x9xf32>, tensor<?x6xf32>
}
"""

RESHAPE = """
func.func @reshape(%x: tensor<2x?x?xf32>, %shape: tensor<2xi64>) -> (tensor<1x2x?x?xf32>, tensor<?x?xf32>) {
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %one = arith.constant 1 : index
  %two = arith.constant 2 : index
  %n = tensor.dim %x, %c1 : tensor<2x?x?xf32>
  %m = tensor.dim %x, %c2 : tensor<2x?x?xf32>
  %sizes = tensor.from_elements %one, %two, %n, %m : tensor<4xindex>
  %r = tensor.reshape %x(%sizes) : (tensor<2x?x?xf32>, tensor<4xindex>) -> tensor<1x2x?x?xf32>
  %s = tensor.reshape %x(%shape) : (tensor<2x?x?xf32>, tensor<2xi64>) -> tensor<?x?xf32>
  return %r, %s : tensor<1x2x?x?xf32>, tensor<?x?xf32>
}
"""

COUNT = """
#all = affine_map<(i) -> (i)>
#none = affine_map<(i) -> ()>
func.func @first(%x: tensor<?xf32>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %none = arith.constant dense<0> : tensor<i64>
  %count = linalg.generic {indexing_maps = [#all, #none], iterator_types = ["reduction"]}
      ins(%x : tensor<?xf32>) outs(%none : tensor<i64>) {
  ^bb0(%a: f32, %o: i64):
    %p = arith.cmpf ogt, %a, %zero : f32
    %q = arith.extui %p : i1 to i64
    %s = arith.addi %o, %q : i64
    linalg.yield %s : i64
  } -> tensor<i64>
  %e = tensor.extract %count[] : tensor<i64>
  %k = arith.index_cast %e : i64 to index
  %r = tensor.extract_slice %x[0] [%k] [1] : tensor<?xf32> to tensor<?xf32>
  return %r : tensor<?xf32>
}
"""

ARANGE = """
#all = affine_map<(i) -> (i)>
func.func @count_up(%n: tensor<i64>) -> tensor<?xi64> {
  %e = tensor.extract %n[] : tensor<i64>
  %k = arith.index_cast %e : i64 to index
  %empty = tensor.empty(%k) : tensor<?xi64>
  %r = linalg.generic {indexing_maps = [#all], iterator_types = ["parallel"]} outs(%empty : tensor<?xi64>) {
  ^bb0(%o: i64):
    %i = linalg.index 0 : index
    %s = arith.index_cast %i : index to i64
    linalg.yield %s : i64
  } -> tensor<?xi64>
  return %r : tensor<?xi64>
}
"""

PART = """
func.func @part(%x: tensor<?xf32>, %at: tensor<i64>) -> tensor<3xf32> {
  %e = tensor.extract %at[] : tensor<i64>
  %i = arith.index_cast %e : i64 to index
  %r = tensor.extract_slice %x[%i] [3] [1] : tensor<?xf32> to tensor<3xf32>
  return %r : tensor<3xf32>
}
"""

CUMULATE = """
func.func @sums(%x: tensor<?xf32>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %empty = tensor.empty(%n) : tensor<?xf32>
  %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%a = %empty, %s = %zero) -> (tensor<?xf32>, f32) {
    %e = tensor.extract %x[%i] : tensor<?xf32>
    %t = arith.addf %s, %e : f32
    %b = tensor.insert %t into %a[%i] : tensor<?xf32>
    scf.yield %b, %t : tensor<?xf32>, f32
  }
  return %r#0 : tensor<?xf32>
}
"""


STEPS = """
#all = affine_map<(i, j) -> (i, j)>
func.func @steps(%x: tensor<5x?x4xf32>, %h: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c5 = arith.constant 5 : index
  %n = tensor.dim %x, %c1 : tensor<5x?x4xf32>
  %r = scf.for %i = %c0 to %c5 step %c1 iter_args(%s = %h) -> (tensor<?x4xf32>) {
    %t = tensor.extract_slice %x[%i, 0, 0] [1, %n, 4] [1, 1, 1] : tensor<5x?x4xf32> to tensor<?x4xf32>
    %u = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
        ins(%t : tensor<?x4xf32>) outs(%s : tensor<?x4xf32>) {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      linalg.yield %c : f32
    } -> tensor<?x4xf32>
    scf.yield %u : tensor<?x4xf32>
  }
  return %r : tensor<?x4xf32>
}
"""


@functools.cache
def kernel(text: str, pipeline: str):
    return mt.from_mlir(text).compile(pipeline=pipeline)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype("float32")


def check(found, wanted):
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    assert found.shape == wanted.shape


@pytest.mark.parametrize("pipeline", PIPELINES)
class TestOneCompile:
    @pytest.mark.parametrize(("n", "m", "k"), [(3, 5, 4), (17, 70, 33), (1, 1, 1), (0, 3, 2), (3, 0, 2), (2, 3, 0)])
    def test_product(self, pipeline, n, m, k):
        x, y = normal(n, m), normal(m, k)
        check(kernel(MATMUL, pipeline)(x, y), x @ y)

    @pytest.mark.parametrize(("n", "m"), [(4, 6), (1, 1), (65, 130), (0, 4)])
    def test_softmax(self, pipeline, n, m):
        x = normal(n, m)
        powers = np.exp(x - x.max(1, keepdims=True, initial=-np.inf))
        check(kernel(SOFTMAX, pipeline)(x), powers / powers.sum(1, keepdims=True))

    @pytest.mark.parametrize("n", [0, 1, 9, 40])
    def test_elementwise(self, pipeline, n):
        x, y = normal(n, 4), normal(n, 4)
        check(kernel(ADD, pipeline)(x, y), x + y)

    @pytest.mark.parametrize(("n", "k", "m"), [(2, 3, 4), (0, 2, 3), (0, 0, 3), (5, 1, 0)])
    def test_sizes_of_results_are_arithmetic_on_those_of_arguments(self, pipeline, n, k, m):
        x, y = normal(n, m), normal(k, m)
        joined, flat = kernel(CONCAT, pipeline)(x, y)
        check(joined, np.concatenate([x, y]))
        check(flat, np.concatenate([x, y]).reshape(-1))

    @pytest.mark.parametrize("n", [1, 2, 7, 0])
    def test_padding_and_slices(self, pipeline, n):
        x = normal(n, 6)
        wide, even = kernel(PAD_AND_SLICE, pipeline)(x)
        check(wide, np.pad(x, ((n, 1), (1, 2))))
        check(even, x[::2])

    @pytest.mark.parametrize(("n", "m"), [(3, 4), (1, 6), (5, 2)])
    def test_reshapes(self, pipeline, n, m):
        x = normal(2, n, m)
        first, second = kernel(RESHAPE, pipeline)(x, np.array([m, 2 * n]))
        check(first, x.reshape(1, 2, n, m))
        check(second, x.reshape(m, 2 * n))

    @pytest.mark.parametrize("n", [0, 1, 8])
    def test_loops(self, pipeline, n):
        x = normal(n)
        check(kernel(CUMULATE, pipeline)(x), np.cumsum(x))

    def test_operations_in_loops(self, pipeline):
        for n in (3, 0):
            x, h = normal(5, n, 4), normal(n, 4)
            check(kernel(STEPS, pipeline)(x, h), x.sum(0) + h)
        with pytest.raises(ArgumentMismatchError, match=r"axis 0 of 'arg1' is 2 and axis 1 of 'arg0' is 3"):
            kernel(STEPS, pipeline)(normal(5, 3, 4), normal(2, 4))

    def test_a_size_that_a_number_says(self, pipeline):
        for n in (5, 0, 12):
            np.testing.assert_array_equal(kernel(ARANGE, pipeline)(np.array(n)), np.arange(n))

    def test_a_size_that_elements_say(self, pipeline):
        for x in (normal(9), np.ones(4, "float32"), -np.ones(4, "float32"), normal(0)):
            check(kernel(COUNT, pipeline)(x), x[: (x > 0).sum()])

    def test_into_given_memory(self, pipeline):
        x, y, out = normal(3, 4), normal(3, 4), np.empty((3, 4), "float32")
        assert kernel(ADD, pipeline)(x, y, out=out) is out
        check(out, x + y)
        with pytest.raises(ArgumentMismatchError, match=r"out has to be"):
            kernel(ADD, pipeline)(x, y, out=np.empty((2, 4), "float32"))


@pytest.mark.parametrize("pipeline", PIPELINES)
class TestRefusals:
    def test_sizes_that_have_to_be_equal(self, pipeline):
        with pytest.raises(ArgumentMismatchError, match=r"axis 0 of 'arg1' is 5 and axis 1 of 'arg0' is 4"):
            kernel(MATMUL, pipeline)(normal(3, 4), normal(5, 2))
        with pytest.raises(ArgumentMismatchError, match=r"axis 0 of 'arg1' is 2 and axis 0 of 'arg0' is 3.*generic"):
            kernel(ADD, pipeline)(normal(3, 4), normal(2, 4))
        with pytest.raises(ArgumentMismatchError, match=r"tensor\.concat"):
            kernel(CONCAT, pipeline)(normal(3, 4), normal(3, 5))

    def test_sizes_that_are_known(self, pipeline):
        with pytest.raises(ArgumentMismatchError, match=r"float32\[\?, 4\], got float32\[3, 5\]"):
            kernel(ADD, pipeline)(normal(3, 5), normal(3, 5))

    @pytest.mark.parametrize("shape", [[3, 5], [-3, -4], [0, 0]])
    def test_reshapes_to_another_number_of_elements(self, pipeline, shape):
        with pytest.raises(ArgumentMismatchError, match=r"expand_shape"):
            kernel(RESHAPE, pipeline)(normal(2, 2, 3), np.array(shape))

    def test_negative_lengths(self, pipeline):
        with pytest.raises(ArgumentMismatchError, match=r"'arg0' is -1"):
            kernel(ARANGE, pipeline)(np.array(-1))

    def test_slices_out_of_bounds(self, pipeline):
        x = normal(5)
        check(kernel(PART, pipeline)(x, np.array(2)), x[2:])
        for at in (3, -1, 1 << 40):
            with pytest.raises(KernelAssertionError, match="out of bounds"):
                kernel(PART, pipeline)(x, np.array(at))
        with pytest.raises(ArgumentMismatchError, match="extract_slice"):
            kernel(PART, pipeline)(normal(2), np.array(0))


LENGTHS_OF_ELEMENTS = """
#all = affine_map<(i) -> (i)>
func.func @add(%x: tensor<?xf32>, %m: tensor<i64>, %n: tensor<i64>) -> tensor<?xf32> {
  %a = tensor.extract %m[] : tensor<i64>
  %b = tensor.extract %n[] : tensor<i64>
  %c = math.ctpop %a : i64
  %d = math.ctpop %b : i64
  %i = arith.index_cast %c : i64 to index
  %j = arith.index_cast %d : i64 to index
  %s = tensor.extract_slice %x[0] [%i] [1] : tensor<?xf32> to tensor<?xf32>
  %t = tensor.extract_slice %x[0] [%j] [1] : tensor<?xf32> to tensor<?xf32>
  %r = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel"]}
      ins(%s : tensor<?xf32>) outs(%t : tensor<?xf32>) {
  ^bb0(%p: f32, %q: f32):
    %u = arith.addf %p, %q : f32
    linalg.yield %u : f32
  } -> tensor<?xf32>
  return %r : tensor<?xf32>
}
"""


def test_lengths_of_elements_that_nothing_shows_to_fit_are_refused():
    with pytest.raises(UnsupportedOperationError, match="nothing says that they fit"):
        mt.from_mlir(LENGTHS_OF_ELEMENTS).compile(pipeline="mlir")


def test_sizes_of_one_name_are_equal():
    text = ADD.replace("%x: tensor<?x4xf32>,", '%x: tensor<?x4xf32> {mlirtri.sizes = ["n", ""]},')
    text = text.replace("%y: tensor<?x4xf32>)", '%y: tensor<?x4xf32>, %z: tensor<?xf32> {mlirtri.sizes = ["n"]})')
    add = mt.from_mlir(text).compile(pipeline="mlir")
    x, y = normal(3, 4), normal(3, 4)
    check(add(x, y, normal(3)), x + y)
    with pytest.raises(ArgumentMismatchError, match=r"axis 0 of 'arg2' is 2 and axis 0 of 'arg0' is 3.*size 'n'"):
        add(x, y, normal(2))


class TestRelax:
    def test_equal_sizes_are_one_symbol(self):
        text = kernel(MATMUL, "linalg").ir["relax"]
        assert 'arg0: R.Tensor((n, m), dtype="float32"), arg1: R.Tensor((m, k), dtype="float32")' in text
        assert "R.Tensor((n, 4)" in kernel(ADD, "linalg").ir["relax"]
        assert "R.Tensor((n + k, m)" in kernel(CONCAT, "linalg").ir["relax"]

    def test_products_are_in_vectors(self):
        assert "T.vectorized(" in kernel(MATMUL, "linalg").ir["scheduled"]


class TestKnownShapes:
    @pytest.mark.parametrize("pipeline", PIPELINES)
    def test_compiled_for_shapes(self, pipeline):
        known = mt.from_mlir(CONCAT).compile(pipeline=pipeline, shapes={"arg0": (2, 3), "arg1": (4, 3)})
        x, y = normal(2, 3), normal(4, 3)
        check(known(x, y)[0], np.concatenate([x, y]))
        assert "?" not in known.ir["linalg"]
        with pytest.raises(ArgumentMismatchError):
            known(normal(3, 3), y)

    def test_straight_line_schedules_are_used(self):
        known = mt.from_mlir(MATMUL).compile(shapes={"arg0": (8, 16), "arg1": (16, 8)})
        assert "mlirtri.imperative" not in known.ir["relax"]
        x, y = normal(8, 16), normal(16, 8)
        check(known(x, y), x @ y)

    def test_only_some_arguments(self):
        known = mt.from_mlir(MATMUL).compile(shapes={"arg0": (3, 4)})
        x, y = normal(3, 4), normal(4, 6)
        check(known(x, y), x @ y)
        with pytest.raises(ArgumentMismatchError):
            known(x, normal(5, 6))

    def test_cuda_code_is_for_known_shapes(self):
        program = mt.from_mlir(ADD)
        with pytest.raises(UnsupportedOperationError, match="known sizes only"):
            program.compile(target="cuda:sm_80", pipeline="linalg")
        shapes = {"arg0": (64, 4), "arg1": (64, 4)}
        assert "__global__" in program.compile(target="cuda:sm_80", pipeline="linalg", shapes=shapes).ir["cuda"]

    def test_shapes_that_do_not_fit(self):
        program = mt.from_mlir(ADD)
        with pytest.raises(ArgumentMismatchError, match="no shape"):
            program.compile(shapes={"arg0": (3, 5)})
        with pytest.raises(ArgumentMismatchError, match="has no argument 'z'"):
            program.compile(shapes={"z": (3, 4)})


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("text", [CONCAT, COUNT])
def test_dumps_of_every_stage_run_again_for_all_sizes(text, pipeline, tmp_path, monkeypatch):
    monkeypatch.setenv("MLIRTRI_DUMP_DIR", str(tmp_path))
    mt.from_mlir(text).compile(pipeline=pipeline)
    monkeypatch.delenv("MLIRTRI_DUMP_DIR")
    arguments = (normal(2, 3), normal(4, 3)) if text == CONCAT else (normal(7),)
    wanted = kernel(text, pipeline)(*arguments)
    stages = [file for file in sorted(tmp_path.glob("*/*.*")) if file.suffix in (".mlir", ".py")]
    assert len(stages) >= 4
    for file in stages:
        again = mt.resume(file, file.stem[3:], pipeline=pipeline)
        for found, each in zip(again(*arguments), wanted, strict=True):
            check(found, each)


def test_a_size_program_survives_a_manifest():
    program = kernel(PAD_AND_SLICE, "linalg").interface.sizes
    assert size_program_of_json(json.loads(json.dumps(size_program_json(program)))) == program
