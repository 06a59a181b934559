"""Structured operations of imported programs by maps, iterators and bodies, the common ones and the odd ones."""

from __future__ import annotations

import numpy as np
import pytest
from imported import PIPELINES, Case, check_cases, run

RNG = np.random.default_rng(5)
X = RNG.integers(-9, 9, (3, 4)).astype(np.float32)
V = RNG.integers(-9, 9, 6).astype(np.float32)


def generic(results: str, maps: list[str], iterators: str, ins: str, outs: str, body: str, kinds: str) -> str:
    """Text of a `linalg.generic`: `iterators` is a word of p and r."""
    of_letter = {"p": '"parallel"', "r": '"reduction"'}
    return (
        f"  {results} = linalg.generic {{indexing_maps = [{', '.join(f'affine_map<{each}>' for each in maps)}], "
        f"iterator_types = [{', '.join(of_letter[each] for each in iterators)}]}} "
        f"{f'ins({ins})' if ins else ''} outs({outs}) {{\n{body}\n  }} -> {kinds}"
    )


STRAIGHT = [
    # Reversed, shifted and strided reads.
    Case({"v": V, "s": np.zeros(3, np.float32)}, generic(
        "%r", ["(i) -> (5 - i)", "(i) -> (2 * i + 1)", "(i) -> (i)"], "p", "%v, %v : tensor<6xf32>, tensor<6xf32>",
        "%s : tensor<3xf32>",
        "^bb0(%a: f32, %b: f32, %o: f32):\n %t = arith.addf %a, %b : f32\n linalg.yield %t : f32", "tensor<3xf32>",
    ).replace("5 - i", "i * -1 + 5"), {"r": V[::-1][:3] + V[1::2]}),
    # A place that is computed with division and remainder.
    Case({"v": V, "s": np.zeros(12, np.float32)}, generic(
        "%r", ["(i) -> (i floordiv 2)", "(i) -> (i mod 6)", "(i) -> (i)"], "p",
        "%v, %v : tensor<6xf32>, tensor<6xf32>", "%s : tensor<12xf32>",
        "^bb0(%a: f32, %b: f32, %o: f32):\n %t = arith.subf %a, %b : f32\n linalg.yield %t : f32", "tensor<12xf32>",
    ), {"r": np.repeat(V, 2) - np.tile(V, 2)}),
    # Indices, an initial value that is read, and a scalar from outside.
    Case({"x": X, "k": np.float32(3)}, """
  %n = tensor.extract %k[] : tensor<f32>
""" + generic(
        "%r", ["(i, j) -> (i, j)"], "pp", "", "%x : tensor<3x4xf32>",
        """^bb0(%o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %p = arith.muli %i, %j : index
    %c = arith.index_cast %p : index to i32
    %f = arith.sitofp %c : i32 to f32
    %t = arith.mulf %f, %n : f32
    %u = arith.addf %o, %t : f32
    linalg.yield %u : f32""", "tensor<3x4xf32>",
    ), {"r": X + np.outer(np.arange(3), np.arange(4)).astype(np.float32) * 3}),
    # The place and the value of the largest element, together.
    Case({"x": X, "m": np.full(3, -np.inf, np.float32), "z": np.zeros(3, np.int64)}, generic(
        "%r:2", ["(i, j) -> (i, j)", "(i, j) -> (i)", "(i, j) -> (i)"], "pr", "%x : tensor<3x4xf32>",
        "%m, %z : tensor<3xf32>, tensor<3xi64>",
        """^bb0(%a: f32, %b: f32, %n: i64):
    %j = linalg.index 1 : index
    %c = arith.index_cast %j : index to i64
    %g = arith.cmpf ogt, %a, %b : f32
    %v = arith.select %g, %a, %b : f32
    %w = arith.select %g, %c, %n : i64
    linalg.yield %v, %w : f32, i64""", "(tensor<3xf32>, tensor<3xi64>)",
    ) + "\n  %big = tensor.cast %r#0 : tensor<3xf32> to tensor<3xf32>\n"
      "  %at = tensor.cast %r#1 : tensor<3xi64> to tensor<3xi64>", {"big": X.max(1), "at": X.argmax(1)}),
    # A gather: what lies outside is some element of the tensor.
    Case({"x": X, "at": np.array([2, -7, 1, 99], np.int64), "s": np.zeros(4, np.float32)}, generic(
        "%r", ["(i) -> (i)", "(i) -> (i)"], "p", "%at : tensor<4xi64>", "%s : tensor<4xf32>",
        """^bb0(%n: i64, %o: f32):
    %i = arith.index_cast %n : i64 to index
    %j = linalg.index 0 : index
    %t = tensor.extract %x[%i, %j] : tensor<3x4xf32>
    linalg.yield %t : f32""", "tensor<4xf32>",
    ), {"r": X[[2, 0, 1, 2], [0, 1, 2, 3]]}),
    # A branch, one arm of which would divide by zero and read outside.
    Case({"n": np.array([0, 2, 50, -3], np.int32), "x": X[0], "s": np.zeros(4, np.int32)}, """
  %seven = arith.constant 7 : i32
  %zero = arith.constant 0 : i32
""" + generic(
        "%r", ["(i) -> (i)", "(i) -> (i)"], "p", "%n : tensor<4xi32>", "%s : tensor<4xi32>",
        """^bb0(%a: i32, %o: i32):
    %is = arith.cmpi sgt, %a, %zero : i32
    %t = scf.if %is -> (i32) {
      %q = arith.divsi %seven, %a : i32
      %i = arith.index_cast %a : i32 to index
      %e = tensor.extract %x[%i] : tensor<4xf32>
      %f = arith.fptosi %e : f32 to i32
      %small = arith.cmpi slt, %a, %seven : i32
      %w = scf.if %small -> (i32) {
        %sum = arith.addi %q, %f : i32
        scf.yield %sum : i32
      } else {
        scf.yield %q : i32
      }
      scf.yield %w : i32
    } else {
      scf.yield %a : i32
    }
    linalg.yield %t : i32""", "tensor<4xi32>",
    ), {"r": np.array([0, 3 + X[0, 2], 0, -3], np.int32)}),
    # No axes at all, and axes without elements.
    Case({"a": np.float32(2), "b": np.float32(5)}, generic(
        "%r", ["() -> ()", "() -> ()"], "", "%a : tensor<f32>", "%b : tensor<f32>",
        "^bb0(%p: f32, %o: f32):\n %t = arith.divf %p, %o : f32\n linalg.yield %t : f32", "tensor<f32>",
    ), {"r": np.float32(0.4)}),
    Case({"x": np.zeros((3, 0), np.float32), "s": np.arange(3, dtype=np.float32)}, generic(
        "%r", ["(i, j) -> (i, j)", "(i, j) -> (i)"], "pr", "%x : tensor<3x0xf32>", "%s : tensor<3xf32>",
        "^bb0(%p: f32, %o: f32):\n %t = arith.addf %p, %o : f32\n linalg.yield %t : f32", "tensor<3xf32>",
    ), {"r": np.arange(3, dtype=np.float32)}),
    # One body value used many times stays small.
    Case({"v": V / 8, "s": np.zeros(6, np.float32)}, generic(
        "%r", ["(i) -> (i)", "(i) -> (i)"], "p", "%v : tensor<6xf32>", "%s : tensor<6xf32>",
        "^bb0(%t0: f32, %o: f32):\n"
        + "\n".join(f"    %t{n + 1} = arith.addf %t{n}, %t{n} : f32" for n in range(40))
        + "\n    linalg.yield %t40 : f32", "tensor<6xf32>",
    ), {"r": (V / 8 * 2.0**40).astype(np.float32)}),
    # The size of a tensor, and affine arithmetic, inside a body.
    Case({"x": X, "s": np.zeros(4, np.int64)}, """
  %one = arith.constant 1 : index
""" + generic(
        "%r", ["(i) -> (i)"], "p", "", "%s : tensor<4xi64>",
        """^bb0(%o: i64):
    %i = linalg.index 0 : index
    %d = tensor.dim %x, %one : tensor<3x4xf32>
    %a = affine.apply affine_map<(p)[q] -> (p * 3 + q floordiv 2)>(%i)[%d]
    %b = affine.min affine_map<(p) -> (p, 7)>(%a)
    %c = arith.index_cast %b : index to i64
    linalg.yield %c : i64""", "tensor<4xi64>",
    ), {"r": np.minimum(np.arange(4) * 3 + 2, 7)}),
]  # fmt: skip

START = np.full((3, 3), 7, np.float32)
ODD = [
    # A diagonal: what is not on it keeps its initial value.
    Case({"v": V[:3], "s": START}, generic(
        "%r", ["(i) -> (i)", "(i) -> (i, i)"], "p", "%v : tensor<3xf32>", "%s : tensor<3x3xf32>",
        "^bb0(%a: f32, %o: f32):\n linalg.yield %a : f32", "tensor<3x3xf32>",
    ), {"r": np.where(np.eye(3, dtype=bool), np.diag(V[:3]), START)}),
    # One column.
    Case({"v": V[:3], "s": START}, generic(
        "%r", ["(i) -> (i)", "(i) -> (i, 1)"], "p", "%v : tensor<3xf32>", "%s : tensor<3x3xf32>",
        "^bb0(%a: f32, %o: f32):\n %t = arith.addf %a, %o : f32\n linalg.yield %t : f32", "tensor<3x3xf32>",
    ), {"r": START + np.stack([np.zeros(3), V[:3], np.zeros(3)], 1).astype(np.float32)}),
    # Outputs that are accumulated over different loops.
    Case({"x": X, "s": np.zeros(3, np.float32), "t": np.zeros(4, np.float32), "u": np.float32(1)}, generic(
        "%r:3", ["(i, j) -> (i, j)", "(i, j) -> (i)", "(i, j) -> (j)", "(i, j) -> ()"], "rr", "%x : tensor<3x4xf32>",
        "%s, %t, %u : tensor<3xf32>, tensor<4xf32>, tensor<f32>",
        """^bb0(%a: f32, %p: f32, %q: f32, %o: f32):
    %b = arith.addf %a, %p : f32
    %c = arith.addf %q, %a : f32
    %d = arith.addf %o, %a : f32
    linalg.yield %b, %c, %d : f32, f32, f32""", "(tensor<3xf32>, tensor<4xf32>, tensor<f32>)",
    ) + "\n  %rows = tensor.cast %r#0 : tensor<3xf32> to tensor<3xf32>"
      "\n  %columns = tensor.cast %r#1 : tensor<4xf32> to tensor<4xf32>"
      "\n  %all = tensor.cast %r#2 : tensor<f32> to tensor<f32>",
         {"rows": X.sum(1), "columns": X.sum(0), "all": X.sum() + 1}),
    # Neighbours go into one element, though the loop says that its turns are independent.
    Case({"v": V, "s": np.ones(3, np.float32)}, generic(
        "%r", ["(i) -> (i)", "(i) -> (i floordiv 2)"], "p", "%v : tensor<6xf32>", "%s : tensor<3xf32>",
        "^bb0(%a: f32, %o: f32):\n %t = arith.addf %a, %o : f32\n linalg.yield %t : f32", "tensor<3xf32>",
    ), {"r": V.reshape(3, 2).sum(1) + 1}),
    # A loop inside of a body.
    Case({"v": V, "s": np.zeros(6, np.float32)}, """
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
""" + generic(
        "%r", ["(i) -> (i)", "(i) -> (i)"], "p", "%v : tensor<6xf32>", "%s : tensor<6xf32>",
        """^bb0(%a: f32, %o: f32):
    %i = linalg.index 0 : index
    %t = scf.for %k = %c0 to %i step %c1 iter_args(%acc = %a) -> (f32) {
      %e = tensor.extract %v[%k] : tensor<6xf32>
      %n = arith.addf %acc, %e : f32
      scf.yield %n : f32
    }
    linalg.yield %t : f32""", "tensor<6xf32>",
    ), {"r": np.cumsum(V).astype(np.float32)}),
]  # fmt: skip


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_straight_operations(pipeline):
    check_cases(STRAIGHT, pipeline)


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_odd_operations(pipeline):
    check_cases(ODD, pipeline)


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_undefined_elements_are_nobody_elses(pipeline):
    """Fresh memory is what the tensor before it had, if nobody writes it."""
    text = """
func.func @k(%x: tensor<256xf32>) -> (tensor<256xf32>, tensor<256xf32>, tensor<300xf32>) {
  %e = tensor.empty() : tensor<256xf32>
  %f = tensor.empty() : tensor<256xf32>
  %g = tensor.empty() : tensor<300xf32>
  %d = math.exp %x : tensor<256xf32>
  %a = arith.addf %d, %e : tensor<256xf32>
  %i = tensor.insert_slice %a into %g[10] [256] [1] : tensor<256xf32> into tensor<300xf32>
  return %a, %f, %i : tensor<256xf32>, tensor<256xf32>, tensor<300xf32>
}"""
    x = np.ones(256, np.float32)
    run(text, x, pipeline=pipeline)
    added, empty, inserted = run(text, x, pipeline=pipeline)
    np.testing.assert_allclose(added, np.exp(x), rtol=1e-6)
    np.testing.assert_array_equal(empty, 0)
    np.testing.assert_array_equal(inserted, np.concatenate([np.zeros(10), added, np.zeros(34)]).astype(np.float32))


def test_large_bodies_are_cut():
    """TVM follows an expression by recursion: as one, this body ends the process."""
    count = 2000
    steps = "\n".join(f"  %t{n + 1} = math.{('ceil', 'floor')[n % 2]} %t{n} : tensor<4xf32>" for n in range(count))
    text = f"func.func @k(%t0: tensor<4xf32>) -> tensor<4xf32> {{\n{steps}\n  return %t{count} : tensor<4xf32>\n}}"
    x = np.arange(4, dtype=np.float32)
    (found,) = run(text, x + 0.5, pipeline="linalg")
    np.testing.assert_array_equal(found, x + 1)


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_functions_of_functions_compile_in_time(pipeline):
    """TVM takes time exponential in the depth of what each of them becomes."""
    steps = "\n".join(f"  %t{n + 1} = math.sin %t{n} : tensor<4xf32>" for n in range(6))
    text = f"func.func @k(%t0: tensor<4xf32>) -> tensor<4xf32> {{\n{steps}\n  return %t6 : tensor<4xf32>\n}}"
    x = np.arange(4, dtype=np.float32)
    (found,) = run(text, x, pipeline=pipeline)
    right = x
    for _ in range(6):
        right = np.sin(right)
    np.testing.assert_allclose(found, right, rtol=1e-5)
