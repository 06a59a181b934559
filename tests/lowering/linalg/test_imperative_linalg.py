"""`tri` to linalg with loops and branches: numbers through a whole pipeline, and the text."""

from __future__ import annotations

import re

import numpy as np
import pytest
from imperative_tri import FLOAT64, INT64, PIPELINES, RANDOM, THREE, TWO, A, V, linalg_and_fused, part, run, tri_text
from tolerances import within

import mlirtri as mt
from mlirtri.dialect.base.sizes import DYNAMIC
from mlirtri.dialect.bindings.mlir import ir, print_complete, print_module, scf
from mlirtri.dialect.builder import TriValue
from mlirtri.dialect.definition import new_context
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.core.target import as_target
from mlirtri.lowering.frontend.semantics import scf as scf_builder
from mlirtri.lowering.linalg import tri_to_linalg
from mlirtri.lowering.mlir_backend.bufferize import fused_to_bufferized
from mlirtri.lowering.mlir_common.index_values import index_constant


def _range(stop: TriValue):
    return (
        index_constant(0),
        scf_builder.index_of(stop, None),
        index_constant(1),
    )


def _element(t, x, *at):
    rank = len(at)
    return t.extract_slice(x, *at, offsets=(DYNAMIC,) * rank, sizes=(1,) * rank, strides=(1,) * rank, drop=range(rank))


def _dot(t, x, y, n):
    def step(i, carried):
        at = scf_builder.tensor_of_index(i, None)
        return [t.add(carried[0], t.multiply(_element(t, x, at), _element(t, y, at)))]

    return scf_builder.for_loop(_range(n), [t.constant(0, FLOAT64)], step, None)[0]


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("count", [0, 4])
def test_a_loop_carries_a_scalar(tmp_path, pipeline, count):
    found = run(tmp_path, pipeline, [V, V * 2, np.int64(count)], _dot)
    np.testing.assert_allclose(found, (V * V * 2)[:count].sum(), **within("float64", 8))


def test_what_has_rank_0_is_a_scalar_in_loops():
    for text in linalg_and_fused([V, V, THREE], _dot):
        inside = text[text.index("scf.for") : text.index("scf.yield")]
        assert "-> (f64)" in inside
        assert "tensor<f64>" not in inside
        assert "tensor.from_elements" not in inside
        assert "linalg.generic" not in inside


def test_operations_fuse_in_loop_bodies():
    def body(t, x, y, n):
        def step(i, carried):
            [x] = carried
            cut = part(t, x, n)
            made = t.add(t.exp(t.multiply(cut, part(t, y, n))), cut)
            return [t.insert_slice(x, made, n, offsets=(0,), sizes=(DYNAMIC,), strides=(1,), drop=())]

        return scf_builder.for_loop(_range(n), [x], step, None)[0]

    linalg, fused = linalg_and_fused([V, V, THREE], body)
    assert linalg.count("linalg.generic") == 3
    assert fused.count("linalg.generic") == 1
    assert "tensor.dim" not in fused


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_while_with_a_run_time_test(tmp_path, pipeline):
    """How often 3 is divided by 2 before it is below 0.1, and what is left."""

    def body(t, x, limit):
        def test(carried):
            return t.greater(carried[0], limit), carried

        def step(carried):
            return [t.multiply(carried[0], t.constant(0.5, FLOAT64)), t.add(carried[1], t.constant(1, INT64))]

        return scf_builder.while_loop([x, t.constant(0, INT64)], test, step, None)

    left, count = run(tmp_path, pipeline, [np.float64(3), np.float64(0.1)], body)
    assert (left, count) == (3 / 2**5, 5)


BRANCH = """
func.func @kernel(%x: tensor<4xui8>, %flag: tensor<i1>) -> (tensor<4xui8>, tensor<f64>) {
  %is = tensor.extract %flag[] : tensor<i1>
  %two = "tri.constant"() {value = 2 : i64, shape = array<i64>, dtype = "uint8"} : () -> tensor<ui8>
  %zero = "tri.constant"() {value = 0.5, shape = array<i64>, dtype = "float64"} : () -> tensor<f64>
  %0:2 = scf.if %is -> (tensor<4xui8>, tensor<f64>) {
    %y = "tri.multiply"(%x, %two) : (tensor<4xui8>, tensor<ui8>) -> tensor<4xui8>
    %s = "tri.sum"(%y) {axes = array<i64: 0>, keepdims = false} : (tensor<4xui8>) -> tensor<ui8>
    %f = "tri.cast"(%s) {dtype = "float64"} : (tensor<ui8>) -> tensor<f64>
    scf.yield %y, %f : tensor<4xui8>, tensor<f64>
  } else {
    scf.yield %x, %zero : tensor<4xui8>, tensor<f64>
  }
  return %0#0, %0#1 : tensor<4xui8>, tensor<f64>
}
"""


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("flag", [True, False])
def test_branches_give_tensors_and_scalars(tmp_path, pipeline, flag):
    file = tmp_path / "kernel.mlir"
    file.write_text(BRANCH)
    x = np.array([1, 2, 100, 30], np.uint8)
    y, total = mt.resume(file, "tri", pipeline=pipeline)(x, np.array(flag))
    assert np.array_equal(y, x * np.uint8(2) if flag else x)
    assert total == ((x * np.uint8(2)).sum(dtype=np.uint8) if flag else 0.5)


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize(("left", "right"), [((1, 5), (5, 1)), ((4, 5), (5, 1)), ((1, 5), (5, 4)), ((4, 1), (1, 3))])
def test_products_in_loops_have_no_axis_of_size_1(tmp_path, pipeline, left, right):
    def body(t, x, y, n):
        start = t.constant(0, FLOAT64, (left[0], right[1]))
        return scf_builder.for_loop(_range(n), [start], lambda i, carried: [t.add(carried[0], t.matmul(x, y))], None)[0]

    x, y = RANDOM.random(left), RANDOM.random(right)
    found = run(tmp_path, pipeline, [x, y, TWO], body)
    np.testing.assert_allclose(found, x @ y * 2, **within("float64", 16))
    if 1 in (left[0], right[1]):
        assert "linalg.matmul" not in linalg_and_fused([x, y, TWO], body)[0]


def test_locations_survive_loops():
    file = 'loc("s"("/home/me/k.py":3:4))'
    text = tri_text([V, V, THREE], _dot).replace("loc(unknown)", file)
    with new_context():
        module = tri_to_linalg.lower(ir.Module.parse(text), CompileContext("kernel", as_target("cpu")))
        shown = print_complete(module)
    for line in shown.splitlines():
        assert "arith.mulf" not in line or "loc(" in line
    assert "/home/me/k.py" in shown


# --- what fusion leaves alone --------------------------------------------------------------------------------------


def test_what_a_loop_does_not_change_is_computed_before_it():
    def body(t, x, y, n):
        once = t.exp(y)
        return scf_builder.for_loop(_range(n), [x], lambda i, carried: [t.multiply(carried[0], once)], None)[0]

    _, fused = linalg_and_fused([V, V, THREE], body)
    assert "math.exp" in fused[: fused.index("scf.for")]
    assert "math.exp" not in fused[fused.index("scf.for") :]


def test_a_contraction_in_a_loop_reads_what_was_computed_before_it():
    def body(t, x, y, n):
        return scf_builder.for_loop(_range(n), [x], lambda i, carried: [t.matmul(carried[0], t.exp(y))], None)[0]

    _, fused = linalg_and_fused([A[:4, :4], A[:4, :4], THREE], body)
    assert "linalg.matmul" in fused
    assert "dealloc_tensor" not in fused


@pytest.mark.parametrize("written", [True, False])
def test_an_array_is_read_before_it_is_written(written):
    """``t = x + 1; x[0] = 5; return t * x``: with both in one loop nest, the old x had to be kept aside."""

    def body(t, x, y):
        made = t.add(x, t.constant(1, FLOAT64))
        target = x if written else y
        five = t.constant(5, FLOAT64)
        new = t.insert_slice(target, five, offsets=(0,), sizes=(1,), strides=(1,), drop=(0,))
        return t.multiply(made, new)

    _, fused = linalg_and_fused([V, V], body)
    assert fused.count("linalg.generic") == (2 if written else 1)
    adding = fused.index("arith.addf")
    assert (adding < fused.index("tensor.insert")) == written


def test_branches_in_branches_update_an_array_in_place():
    def body(t, x, n, limit):
        def step(i, carried):
            at = scf_builder.tensor_of_index(i, None)
            [x] = carried
            inner = [t.less(at, limit), t.greater(_element(t, x, at), t.constant(0.5, FLOAT64))]
            return [_branch(t, inner, x, at)]

        return scf_builder.for_loop(_range(n), [x], step, None)[0]

    with new_context():
        context = CompileContext("kernel", as_target("cpu"))
        module = tri_to_linalg.lower(ir.Module.parse(tri_text([V, THREE, TWO], body)), context)
        text = print_module(fused_to_bufferized.lower(module, context))
    inside = text[text.index("scf.for") :]
    assert inside.count("scf.if") == 2
    assert not re.search(r"memref.(alloc|copy)|linalg.copy", inside[: inside.index("\n    }")])


def _branch(t, conditions, x, at):
    """Adds 1 to ``x[at]`` for each condition that holds before the first that does not."""
    if not conditions:
        return x
    branch = scf.IfOp(scf_builder.condition_of(conditions[0], None), [x.value.type], has_else=True)
    with ir.InsertionPoint(branch.then_block):
        raised = t.add(_element(t, x, at), t.constant(1, FLOAT64))
        written = t.insert_slice(x, raised, at, offsets=(DYNAMIC,), sizes=(1,), strides=(1,), drop=(0,))
        scf.YieldOp([_branch(t, conditions[1:], written, at).value])
    with ir.InsertionPoint(branch.else_block):
        scf.YieldOp([x.value])
    return TriValue(branch.results[0], x.type)


def test_an_array_that_a_loop_makes_anew_is_read_before_that():
    """``r = x[:3] > x[2:]; x[:] = 0; x[1:4][r] = 1``: the old x is read where the new one is not yet written."""
    middle = {"offsets": (1,), "sizes": (3,), "strides": (1,), "drop": ()}

    def body(t, x, n):
        def step(i, carried):
            left, right = (
                t.extract_slice(carried[0], offsets=(at,), sizes=(3,), strides=(1,), drop=()) for at in (0, 2)
            )
            falls = t.greater(left, right)
            new = t.fill(t.constant(0, FLOAT64), shape=(5,))
            return [
                t.insert_slice(new, t.where(falls, t.constant(1, FLOAT64), t.extract_slice(new, **middle)), **middle)
            ]

        return scf_builder.for_loop(_range(n), [x], step, None)[0]

    _, fused = linalg_and_fused([V, THREE], body)
    assert fused.index("arith.cmpf") < fused.index("linalg.fill") < fused.index("arith.select")


def test_what_is_broadcast_is_computed_once():
    """``x / sqrt(row)`` in a loop: one root per column, not one per element; filling a row costs nothing."""

    def body(t, x, row, n):
        def step(i, carried):
            five = t.fill(t.constant(5, FLOAT64), shape=(5,))
            return [t.multiply(t.divide(carried[0], t.sqrt(row)), five)]

        return scf_builder.for_loop(_range(n), [x], step, None)[0]

    _, fused = linalg_and_fused([A, V, THREE], body)
    assert fused.count("linalg.generic") == 2
    rooted, divided = fused.index("math.sqrt"), fused.index("arith.divf")
    assert rooted < fused.index("linalg.yield") < divided
