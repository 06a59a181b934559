"""Assertions of imported programs: what holds costs a check, what fails raises its message, in every pipeline."""

from __future__ import annotations

import re

import numpy as np
import pytest

import mlirtri as mt
from mlirtri.errors import KernelAssertionError, ProgramAssertionError, UnsupportedOperationError

PIPELINES = ("linalg", "mlir")
RNG = np.random.default_rng(4)

LOOKUP = """
#in = affine_map<(d0, d1) -> (d0)>
#out = affine_map<(d0, d1) -> (d0, d1)>
func.func @main(%at: tensor<4xi64>, %table: tensor<10x3xf32>) -> tensor<4x3xf32> {
  %c10 = arith.constant 10 : i64
  %c0 = arith.constant 0 : i64
  %e = tensor.empty() : tensor<4x3xf32>
  %r = linalg.generic {indexing_maps = [#in, #out], iterator_types = ["parallel", "parallel"]}
      ins(%at : tensor<4xi64>) outs(%e : tensor<4x3xf32>) {
  ^bb0(%i: i64, %o: f32):
    %below = arith.cmpi slt, %i, %c10 : i64
    cf.assert %below, "too large"
    %above = arith.cmpi sge, %i, %c0 : i64
    cf.assert %above, "negative"
    %row = arith.index_cast %i : i64 to index
    %column = linalg.index 1 : index
    %x = tensor.extract %table[%row, %column] : tensor<10x3xf32>
    linalg.yield %x : f32
  } -> tensor<4x3xf32>
  return %r : tensor<4x3xf32>
}
"""


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_assertions_in_bodies_are_checked_once_per_element_that_they_depend_on(pipeline):
    kernel = mt.from_mlir(LOOKUP).compile(pipeline=pipeline)
    table = RNG.random((10, 3), np.float32)
    at = np.array([3, 9, 0, 3])
    np.testing.assert_array_equal(kernel(at, table), table[at])
    checks = [line for line in kernel.ir["linalg"].splitlines() if "iterator_types" in line and '["reduction"]' in line]
    assert len(checks) == 2
    for wrong, message in ((10, "too large"), (-1, "negative"), (10**15, "too large"), (-(2**63), "negative")):
        with pytest.raises(ProgramAssertionError, match=message) as caught:
            kernel(np.array([0, wrong, 1, 2]), table)
        assert f"cf.assert %{'below' if message == 'too large' else 'above'}" in str(caught.value)
    np.testing.assert_array_equal(kernel(at, table), table[at])


def scalar_program(before: str, body: str, arguments: str = "%n: tensor<i64>") -> str:
    return f"""
func.func @main({arguments}) -> tensor<i64> {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0 : i64
  %five = arith.constant 5 : i64
  %v = tensor.extract %n[] : tensor<i64>
  %i = arith.index_cast %v : i64 to index
  {before}
  {body}
  %r = tensor.from_elements %result : tensor<i64>
  return %r : tensor<i64>
}}"""


PLACES = {
    "at the top": scalar_program(
        "",
        """%result = arith.addi %v, %v : i64
  %ok = arith.cmpi slt, %v, %five : i64
  cf.assert %ok, "five or more" """,
    ),
    "in a counted loop": scalar_program(
        "",
        """%result = scf.for %k = %c0 to %i step %c1 iter_args(%s = %zero) -> i64 {
    %ok = arith.cmpi slt, %s, %five : i64
    cf.assert %ok, "five or more"
    %t = arith.addi %s, %five : i64
    %u = arith.subi %t, %five : i64
    %one = arith.constant 1 : i64
    %w = arith.addi %u, %one : i64
    scf.yield %w : i64
  }""",
    ),
    "in one arm": scalar_program(
        "%large = arith.cmpi sge, %v, %five : i64",
        """%result = scf.if %large -> i64 {
    %bad = arith.constant false
    cf.assert %bad, "five or more"
    scf.yield %zero : i64
  } else {
    scf.yield %v : i64
  }""",
    ),
    "in a while loop's condition": scalar_program(
        "",
        """%result = scf.while (%k = %zero) : (i64) -> i64 {
    %ok = arith.cmpi slt, %k, %five : i64
    cf.assert %ok, "five or more"
    %goes = arith.cmpi slt, %k, %v : i64
    scf.condition(%goes) %k : i64
  } do {
  ^bb0(%k: i64):
    %one = arith.constant 1 : i64
    %next = arith.addi %k, %one : i64
    scf.yield %next : i64
  }""",
    ),
    "in a switch in a loop": scalar_program(
        "",
        """%result = scf.for %k = %c0 to %i step %c1 iter_args(%s = %zero) -> i64 {
    scf.index_switch %k
    case 5 {
      %bad = arith.constant false
      cf.assert %bad, "five or more"
      scf.yield
    }
    default { scf.yield }
    scf.yield %s : i64
  }""",
    ),
}


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("place", PLACES)
def test_assertions_anywhere_in_control_flow(place, pipeline):
    kernel = mt.from_mlir(PLACES[place]).compile(pipeline=pipeline)
    kernel(np.array(4))
    with pytest.raises(ProgramAssertionError, match="five or more"):
        kernel(np.array(9))
    kernel(np.array(3))


def test_an_assertion_that_is_certain_to_fail_is_an_error_of_compilation_at_its_line():
    body = '%result = arith.addi %v, %v : i64\n  %no = arith.constant false\n  cf.assert %no, "never"'
    with pytest.raises(ProgramAssertionError, match="never") as caught:
        mt.from_mlir(scalar_program("", body)).compile()
    assert "cf.assert" in str(caught.value)
    assert isinstance(caught.value, RuntimeError)
    assert isinstance(caught.value, KernelAssertionError)


def test_an_assertion_that_holds_costs_nothing():
    body = '%result = arith.addi %v, %v : i64\n  %yes = arith.constant true\n  cf.assert %yes, "never"'
    kernel = mt.from_mlir(scalar_program("", body)).compile(pipeline="mlir")
    assert kernel(np.array(4)) == 8
    assert "mlirtri.check" not in kernel.ir["linalg"]


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_few_results_for_many_messages(pipeline):
    """Equal messages share a result, and beyond a number of them all others do."""
    body = "%result = arith.addi %v, %v : i64\n"
    for at in (*range(12), 3):
        body += f"  %k{at}{len(body)} = arith.constant {at} : i64\n"
        name = re.findall(r"%k\w+", body)[-1]
        body += f'  %ok{name[1:]} = arith.cmpi ne, %v, {name} : i64\n  cf.assert %ok{name[1:]}, "is {at}"\n'
    kernel = mt.from_mlir(scalar_program("", body)).compile(pipeline=pipeline)
    assert kernel.ir["linalg"].count("mlirtri.check =") == 8
    assert kernel(np.array(12)) == 24
    for at in range(12):
        with pytest.raises(ProgramAssertionError, match=rf"is {at}\b"):
            kernel(np.array(at))


def body_program(maps: str, kinds: str, shapes: tuple[str, str], body: str) -> str:
    source, result = shapes
    return f"""
func.func @main(%x: tensor<{source}xi64>) -> tensor<{result}xi64> {{
  %seven = arith.constant 7 : index
  %e = arith.constant dense<0> : tensor<{result}xi64>
  %r = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}}
      ins(%x : tensor<{source}xi64>) outs(%e : tensor<{result}xi64>) {{
  ^bb0(%a: i64, %o: i64):
    {body}
  }} -> tensor<{result}xi64>
  return %r : tensor<{result}xi64>
}}"""


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_assertions_in_named_operations(pipeline):
    text = """
func.func @main(%x: tensor<4xi64>) -> tensor<4xi64> {
  %five = arith.constant 5 : i64
  %e = tensor.empty() : tensor<4xi64>
  %r = linalg.map ins(%x : tensor<4xi64>) outs(%e : tensor<4xi64>) (%a : i64, %o : i64) {
    %ok = arith.cmpi slt, %a, %five : i64
    cf.assert %ok, "five or more"
    linalg.yield %a : i64
  }
  %s = tensor.generate {
  ^bb0(%i: index):
    %a = tensor.extract %r[%i] : tensor<4xi64>
    %ok = arith.cmpi ne, %a, %five : i64
    cf.assert %ok, "five"
    tensor.yield %a : i64
  } : tensor<4xi64>
  return %s : tensor<4xi64>
}"""
    kernel = mt.from_mlir(text).compile(pipeline=pipeline)
    np.testing.assert_array_equal(kernel(np.arange(4)), np.arange(4))
    with pytest.raises(ProgramAssertionError, match="five or more"):
        kernel(np.array([0, 5, 1, 2]))


INDEX_ALONE = body_program(
    "affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>", '"parallel", "parallel"', ("3", "{rows}x3"),
    """%i = linalg.index 0 : index
    %ok = arith.cmpi slt, %i, %seven : index
    cf.assert %ok, "too many rows"
    linalg.yield %a : i64""",
)  # fmt: skip


@pytest.mark.parametrize(("rows", "holds"), [(7, True), (8, False)])
def test_a_condition_on_a_loop_index_that_no_input_is_indexed_by(rows, holds):
    kernel = mt.from_mlir(INDEX_ALONE.replace("{rows}", str(rows))).compile(pipeline="mlir")
    x = np.arange(3)
    if holds:
        np.testing.assert_array_equal(kernel(x), np.tile(x, (rows, 1)))
        return
    with pytest.raises(ProgramAssertionError, match="too many rows"):
        kernel(x)


def test_a_body_that_never_runs_asserts_nothing():
    """The condition depends on the first loop alone, and the second has no iteration."""
    text = body_program(
        "affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>", '"parallel", "parallel"', ("3", "3x0"),
        """%ok = arith.cmpi slt, %a, %o : i64
    %zero = arith.constant 0 : i64
    %fine = arith.cmpi sgt, %a, %zero : i64
    cf.assert %fine, "not positive"
    linalg.yield %a : i64""",
    )  # fmt: skip
    assert mt.from_mlir(text).compile(pipeline="mlir")(np.zeros(3, np.int64)).shape == (3, 0)


def test_conditions_on_accumulators_are_refused():
    text = body_program(
        "affine_map<(d0) -> (d0)>, affine_map<(d0) -> (0)>", '"reduction"', ("3", "1"),
        """%s = arith.addi %o, %a : i64
    %ok = arith.cmpi slt, %s, %a : i64
    cf.assert %ok, "no"
    linalg.yield %s : i64""",
    )  # fmt: skip
    with pytest.raises(UnsupportedOperationError, match="accumulated"):
        mt.from_mlir(text).compile()
