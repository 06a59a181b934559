"""Imported functions with sizes known at run time only: one compile runs for all sizes that fit."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from dynamic_programs import (
    ADD,
    ARANGE,
    BRANCHES,
    CONCAT,
    COUNT,
    CUMULATE,
    MATMUL,
    PAD_AND_SLICE,
    PART,
    RESHAPE,
    SOFTMAX,
    STEPS,
    WHILE,
    check,
    kernel,
    normal,
)

import mlirtri as mt
from mlirtri.compiler.interface_json import size_program_json, size_program_of_json
from mlirtri.errors import (
    ArgumentMismatchError,
    KernelAssertionError,
    ProgramAssertionError,
    UnsupportedOperationError,
)

PIPELINES = ("linalg", "mlir")


@pytest.mark.parametrize("pipeline", PIPELINES)
class TestOneCompile:
    @pytest.mark.parametrize(("n", "m", "k"), [(3, 5, 4), (17, 70, 33), (1, 1, 1), (0, 3, 2), (3, 0, 2), (2, 3, 0)])
    def test_product(self, pipeline, n, m, k):
        x, y = normal(n, m), normal(m, k)
        check(kernel(MATMUL, pipeline)(x, y), x @ y)

    def test_product_of_fp16(self, pipeline):
        """Its sums are cells of bf16, as the text says."""
        x, y = (torch.from_numpy(normal(*each)).bfloat16() for each in ((3, 5), (5, 4)))
        product = kernel(MATMUL.replace("f32", "bf16"), pipeline)(x, y)
        torch.testing.assert_close(product, (x.double() @ y.double()).bfloat16(), rtol=0.02, atol=0.05)

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
        with pytest.raises(ArgumentMismatchError, match=r"axis 0 of 'h' is 2 and axis 1 of 'x' is 3"):
            kernel(STEPS, pipeline)(normal(5, 3, 4), normal(2, 4))

    def test_operations_in_loops_with_a_condition(self, pipeline):
        x, repeated = normal(5), kernel(WHILE, pipeline)
        check(repeated(x, x, 3), 4 * x)
        with pytest.raises(ArgumentMismatchError, match=r"axis 0 of 'y' is 3 and axis 0 of 'x' is 5"):
            repeated(x, normal(3), 3)

    def test_operations_in_branches(self, pipeline):
        """Sizes have to fit where a branch runs, and where only elements know whether it does."""
        x, y = np.ones(5, "float32"), normal(3)
        branches = kernel(BRANCHES, pipeline)
        check(branches(x, x, x, np.array(True)), x + x)
        check(branches(x, y, x, np.array(False)), x)
        with pytest.raises(ArgumentMismatchError, match=r"axis 0 of 'y' is 3 and axis 0 of 'x' is 5"):
            branches(x, y, x, np.array(True))
        with pytest.raises(ArgumentMismatchError, match=r"axis 0 of 'z' is 3 and axis 0 of 'x' is 5"):
            branches(x, x, y, np.array(True))

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
        with pytest.raises(ArgumentMismatchError, match=r"axis 0 of 'y' is 5 and axis 1 of 'x' is 4"):
            kernel(MATMUL, pipeline)(normal(3, 4), normal(5, 2))
        with pytest.raises(ArgumentMismatchError, match=r"axis 0 of 'y' is 2 and axis 0 of 'x' is 3.*generic"):
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
        with pytest.raises(ArgumentMismatchError, match=r"'n' is -1"):
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
    with pytest.raises(UnsupportedOperationError, match="are not known to match"):
        mt.from_mlir(LENGTHS_OF_ELEMENTS).compile(pipeline="mlir")


def test_sizes_of_one_name_are_equal():
    text = ADD.replace("%x: tensor<?x4xf32>,", '%x: tensor<?x4xf32> {mlirtri.sizes = ["n", ""]},')
    text = text.replace("%y: tensor<?x4xf32>)", '%y: tensor<?x4xf32>, %z: tensor<?xf32> {mlirtri.sizes = ["n"]})')
    add = mt.from_mlir(text).compile(pipeline="mlir")
    x, y = normal(3, 4), normal(3, 4)
    check(add(x, y, normal(3)), x + y)
    with pytest.raises(ArgumentMismatchError, match=r"axis 0 of 'z' is 2 and axis 0 of 'x' is 3.*size 'n'"):
        add(x, y, normal(2))


class TestRelax:
    def test_equal_sizes_are_one_symbol(self):
        text = kernel(MATMUL, "linalg").ir["relax"]
        assert 'x: R.Tensor((n, m), dtype="float32"), y: R.Tensor((m, k), dtype="float32")' in text
        assert "R.Tensor((n, 4)" in kernel(ADD, "linalg").ir["relax"]
        assert "R.Tensor((n + k, m)" in kernel(CONCAT, "linalg").ir["relax"]

    def test_products_are_in_vectors(self):
        assert "T.vectorized(" in kernel(MATMUL, "linalg").ir["scheduled"]


class TestKnownShapes:
    @pytest.mark.parametrize("pipeline", PIPELINES)
    def test_compiled_for_shapes(self, pipeline):
        known = mt.from_mlir(CONCAT).compile(pipeline=pipeline, shapes={"x": (2, 3), "y": (4, 3)})
        x, y = normal(2, 3), normal(4, 3)
        check(known(x, y)[0], np.concatenate([x, y]))
        assert "?" not in known.ir["linalg"]
        with pytest.raises(ArgumentMismatchError):
            known(normal(3, 3), y)

    def test_straight_line_schedules_are_used(self):
        known = mt.from_mlir(MATMUL).compile(shapes={"x": (8, 16), "y": (16, 8)})
        assert "mlirtri.imperative" not in known.ir["relax"]
        x, y = normal(8, 16), normal(16, 8)
        check(known(x, y), x @ y)

    def test_only_some_arguments(self):
        known = mt.from_mlir(MATMUL).compile(shapes={"x": (3, 4)})
        x, y = normal(3, 4), normal(4, 6)
        check(known(x, y), x @ y)
        with pytest.raises(ArgumentMismatchError):
            known(x, normal(5, 6))

    def test_cuda_code_is_for_known_and_unknown_shapes(self):
        program = mt.from_mlir(ADD)
        known = program.compile(target="cuda:sm_80", pipeline="linalg", shapes={"x": (64, 4), "y": (64, 4)})
        assert known.stats["launches"][0].grid == (1, 1, 1)
        unknown = program.compile(target="cuda:emulated", pipeline="linalg")
        assert unknown.stats["launches"][-1].grid[0] is None
        for rows in (2, 9):
            x, y = normal(rows, 4), normal(rows, 4)
            check(unknown(x, y), x + y)

    def test_shapes_that_do_not_fit(self):
        program = mt.from_mlir(ADD)
        with pytest.raises(ArgumentMismatchError, match="no shape"):
            program.compile(shapes={"x": (3, 5)})
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


SIZE_OF_ELEMENTS = """#id = affine_map<(d0) -> (d0)>
func.func @f(%x: tensor<3xf32>) -> tensor<6xf32> {
  %true = arith.constant dense<true> : tensor<1xi1>
  %two = arith.constant dense<2> : tensor<1xi64>
  %one = arith.constant dense<1> : tensor<1xi64>
  %c0 = arith.constant 0 : index
  %empty = tensor.empty() : tensor<1xi64>
  %chosen = linalg.generic {indexing_maps = [#id, #id, #id, #id], iterator_types = ["parallel"]}
    ins(%true, %two, %one : tensor<1xi1>, tensor<1xi64>, tensor<1xi64>) outs(%empty : tensor<1xi64>) {
    ^bb0(%p: i1, %a: i64, %b: i64, %o: i64):
      %s = arith.select %p, %a, %b : i64
      linalg.yield %s : i64
  } -> tensor<1xi64>
  %shape = tensor.concat dim(0) %one, %chosen : (tensor<1xi64>, tensor<1xi64>) -> tensor<2xi64>
  %gathered = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
    ins(%one : tensor<1xi64>) outs(%empty : tensor<1xi64>) {
    ^bb0(%at: i64, %o: i64):
      %place = arith.index_cast %at : i64 to index
      %e = tensor.extract %shape[%place] : tensor<2xi64>
      linalg.yield %e : i64
  } -> tensor<1xi64>
  %number = tensor.extract %gathered[%c0] : tensor<1xi64>
  %size = arith.index_cast %number : i64 to index
  %space = tensor.empty(%size) : tensor<?x3xf32>
  %rows = linalg.broadcast ins(%x : tensor<3xf32>) outs(%space : tensor<?x3xf32>) dimensions = [0]
  %flat = tensor.collapse_shape %rows [[0, 1]] : tensor<?x3xf32> into tensor<?xf32>
  %known = tensor.cast %flat : tensor<?xf32> to tensor<6xf32>
  return %known : tensor<6xf32>
}"""


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
def test_a_size_that_is_computed_of_constants_is_known(pipeline):
    x = np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(mt.from_mlir(SIZE_OF_ELEMENTS).compile(pipeline=pipeline)(x), np.tile(x, 2))


SLICES_OF_A_LOOP = """
func.func @main(%x: tensor<?xf32>, %y: tensor<?xf32>, %t: tensor<?xf32>) -> (tensor<f32>, tensor<?xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %z = arith.constant dense<0.0> : tensor<f32>
  %n = tensor.dim %t, %c0 : tensor<?xf32>
  %r, %s = scf.for %i = %c0 to %n step %c1 iter_args(%a = %z, %b = %x) -> (tensor<f32>, tensor<?xf32>) {
    %part = tensor.extract_slice %x[0] [%i] [1] : tensor<?xf32> to tensor<?xf32>
    %q = linalg.dot ins(%part, %y : tensor<?xf32>, tensor<?xf32>) outs(%a : tensor<f32>) -> tensor<f32>
    %o = linalg.add ins(%b, %x : tensor<?xf32>, tensor<?xf32>) outs(%b : tensor<?xf32>) -> tensor<?xf32>
    scf.yield %q, %o : tensor<f32>, tensor<?xf32>
  }
  return %r, %s : tensor<f32>, tensor<?xf32>
}
"""


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
def test_slices_of_lengths_that_a_loop_makes_are_checked(pipeline):
    kernel = mt.from_mlir(SLICES_OF_A_LOOP).compile(pipeline=pipeline)
    x, none, one = (np.ones(size, np.float32) for size in (6, 0, 1))
    found, doubled = kernel(x, none, one)
    assert found == 0
    assert doubled.tolist() == [2] * 6
    with pytest.raises(ProgramAssertionError, match="sizes of the operands do not match"):
        kernel(x, np.ones(4000, np.float32), np.ones(2, np.float32))


def test_a_loop_without_iterations_asks_for_no_sizes():
    text = SLICES_OF_A_LOOP.replace("linalg.add ins(%b, %x", "linalg.add ins(%b, %y")
    kernel = mt.from_mlir(text).compile(pipeline="mlir")
    x, y = np.ones(6, np.float32), np.ones(5, np.float32)
    assert kernel(x, y, np.ones(0, np.float32))[1].tolist() == [1] * 6
    with pytest.raises(ArgumentMismatchError, match="do not fit together in an operation in a loop"):
        kernel(x, y, np.ones(1, np.float32))


CAPTURED = """
#all = {
  indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]
}
func.func @mirrored(%a: tensor<?xf32>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %r = scf.for %k = %c0 to %c3 step %c1 iter_args(%s = %a) -> (tensor<?xf32>) {
    %d = tensor.dim %s, %c0 : tensor<?xf32>
    %e = tensor.empty(%d) : tensor<?xf32>
    %g = linalg.generic #all outs(%e : tensor<?xf32>) {
    ^bb0(%o: f32):
      %i = linalg.index 0 : index
      %last = arith.subi %d, %c1 : index
      %j = arith.subi %last, %i : index
      %v = tensor.extract %s[%i] : tensor<?xf32>
      %w = tensor.extract %s[%j] : tensor<?xf32>
      %x = arith.addf %v, %w : f32
      linalg.yield %x : f32
    } -> tensor<?xf32>
    scf.yield %g : tensor<?xf32>
  }
  return %r : tensor<?xf32>
}
"""


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
def test_a_body_reads_elements_of_a_carried_tensor_of_run_time_size(pipeline):
    kernel = mt.from_mlir(CAPTURED).compile(pipeline=pipeline)
    for size in (5, 1, 0):
        x = np.arange(size, dtype=np.float32)
        np.testing.assert_array_equal(kernel(x), np.full(size, 4 * (size - 1), np.float32))
