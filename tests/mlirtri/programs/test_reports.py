"""`Program.report`: every operation, every reason, of each pipeline, found in one go."""

from __future__ import annotations

import json

import pytest

import mlirtri as mt
from mlirtri.errors import UnknownOptionError, UnsupportedOperationError

GOOD = """
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = math.exp %a : tensor<4xf32>
  %1 = math.exp %0 : tensor<4xf32>
  %2 = arith.addf %1, %a : tensor<4xf32>
  return %2 : tensor<4xf32>
}
"""
BAD = """
#map = affine_map<(d0) -> (d0)>
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4xf32>
  %0 = "other.thing"(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %r = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]}
      ins(%0 : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%x: f32, %o: f32):
    %s = "other.scalar"(%x) : (f32) -> f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  %q = "other.thing"(%r) : (tensor<4xf32>) -> tensor<4xf32>
  return %q : tensor<4xf32>
}
"""


def test_a_program_that_all_pipelines_take():
    report = mt.from_mlir(GOOD).report()
    assert report.is_total
    assert {row.name: row.count for row in report.rows} == {"arith.addf": 1, "math.exp": 2}
    lines = [line.split() for line in str(report).splitlines()]
    assert lines == [
        ["operation", "count", "first", "at", "linalg", "relax", "mlir"],
        ["arith.addf", "1", "5:8", "yes", "yes", "yes"],
        ["math.exp", "2", "3:8", "yes", "yes", "yes"],
    ]


def test_all_problems_are_in_one_report():
    report = mt.from_mlir(BAD).report(pipeline="mlir")
    assert not report.is_total
    rows = {row.name: row for row in report.rows}
    assert rows["other.thing"].count == 2
    assert (rows["other.thing"].span.line, rows["other.scalar"].span.line) == (5, 9)
    marks = {name: row.mark("mlir") for name, row in rows.items()}
    assert marks.pop("other.thing") == marks.pop("other.scalar") == "no"
    assert set(marks.values()) == {"yes"}, "what is refused does not hide the rest"
    assert "mlir: 9:10: no translation of 'other.scalar'" in str(report)
    found = json.loads(report.to_json())
    assert found["is_total"] is False
    assert [each["name"] for each in found["rows"]] == sorted(rows)


def test_a_refusal_has_all_places_of_each_reason():
    with pytest.raises(UnsupportedOperationError) as caught:
        mt.from_mlir(BAD).compile()
    assert {span.line for span in (caught.value.span, *(note.span for note in caught.value.notes))} >= {5, 12}


def test_pipelines_that_do_not_make_code_for_the_target_have_no_column():
    assert mt.from_mlir(GOOD).report(target="cuda:sm_80").pipelines == ("linalg", "relax")
    with pytest.raises(UnknownOptionError, match="makes CPU code only"):
        mt.from_mlir(GOOD).report(pipeline="mlir", target="cuda:sm_80")
    with pytest.raises(UnknownOptionError, match="no report on pipeline 'interpreter'"):
        mt.from_mlir(GOOD).report(pipeline="interpreter")


def test_loops_are_translated_for_both_targets():
    loop = """
func.func @main(%a: tensor<4xf32>, %n: tensor<index>) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %u = tensor.extract %n[] : tensor<index>
  %r = scf.for %i = %c0 to %u step %c1 iter_args(%x = %a) -> (tensor<4xf32>) {
    %y = math.exp %x : tensor<4xf32>
    scf.yield %y : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}
"""
    report = mt.from_mlir(loop).report(pipeline="linalg", target="cuda:sm_80")
    assert {row.name: row.mark("linalg") for row in report.rows}["scf.for"] == "yes"
    assert report.is_total
    assert mt.from_mlir(loop).report(pipeline="linalg").is_total


def test_operations_are_those_of_the_language_that_the_program_came_in():
    text = GOOD.replace("arith.addf %1, %a", "stablehlo.add %1, %a").replace("math.exp", "stablehlo.tanh")
    report = mt.from_stablehlo(text).report(pipeline="mlir")
    assert [row.name for row in report.rows] == ["stablehlo.add", "stablehlo.tanh"]
