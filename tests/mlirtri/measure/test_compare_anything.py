"""`compare` of files, programs and graphs; columns; libraries beside them; reports; changes since a baseline."""

from __future__ import annotations

import csv
import json
import os
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import mannwhitneyu

import mlirtri as mt
from mlirtri.cli.main import run_command
from mlirtri.measure import comparison as comparison_of_rows
from mlirtri.measure.accuracy import accuracy
from mlirtri.measure.changes import changes_since, probability, read_baseline
from mlirtri.measure.columns import columns_of, parse_variant
from mlirtri.measure.rows import Comparison, Comparisons, Row
from mlirtri.measure.tables import compile_cells, overview

KERNELS = """
import numpy as np
import mlirtri as mt

@mt.jit
def double(a: mt.Tensor[[3, 4], mt.float32]):
    return np.add(a, a)

@mt.jit
def scale(a: mt.Tensor[[3, 4], mt.float32], n: mt.float32):
    return a * n
"""
ADD = """
func.func @first(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func @second(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4xf32>
  %0 = linalg.add ins(%a, %b : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""


@mt.jit
def total(a, n):
    s = 0.0
    for i in range(n):
        s += a[i]
    return s


def test_the_shortest_of_several_kernels_is_one_with_right_numbers():
    rows = (Row("linalg", run_seconds=2e-6), Row("mlir", run_seconds=1e-6, difference="result[0] is 1, not 2"))
    assert overview([Comparison("f", "cpu", (), "numpy", rows)])[1] == [["f", "2 µs *", "1 µs wrong"]]


def test_an_overview_of_many_rows_has_a_line_for_each():
    rows = tuple(Row(f"linalg {'none' * 6} {number}", run_seconds=number * 1e-6) for number in range(1, 6))
    headings, lines = overview([Comparison(name, "cpu", (), "numpy", rows) for name in ("f", "g")])
    assert headings[1:] == ["f", "g"]
    assert lines[0] == [rows[0].name, "1 µs *", "1 µs *"]
    assert len(lines) == 5


def test_stages_stand_in_the_order_of_every_row():
    tvm, mlir = ({name: 0.1 for name in names.split()} for names in ("tri fused tir asm", "tri fused bufferized asm"))
    headings, _ = compile_cells([Row("linalg", compile_seconds=tvm), Row("mlir", compile_seconds=mlir)])
    assert headings == ["compile ms", "tri", "fused", "tir", "bufferized", "asm"]


def test_rows_without_an_openmp_runtime_say_that_they_have_one_thread(monkeypatch):
    monkeypatch.setattr(comparison_of_rows, "runtime_library", lambda: None)
    monkeypatch.setattr(comparison_of_rows, "host_threads", lambda: 2)
    found = mt.compare(mt.jit(plus), np.ones(4), repeat=1)
    assert "mlir: one thread, since there is no OpenMP runtime: pip install 'mlirtri[openmp]'" in found.notes
    assert "one thread" not in str(mt.compare(mt.jit(plus), np.ones(4), repeat=1, pipelines=("relax",)))


@pytest.mark.skipif(find_spec("numba") is None, reason="Numba is not installed")
def test_a_library_that_computes_in_float64_is_judged_as_the_kernels():
    a = np.linspace(-3, 2, 10_000, dtype=np.float32)
    found = mt.compare(mt.jit(shifted), a, a[::-1].copy(), beside=["numpy", "numba"], repeat=1, pipelines=("linalg",))
    assert found["numba"].difference is None
    assert found["numba"].max_ulp < 1e4


def shifted(a, b):
    z = np.tanh(a * b + 1.5)
    return np.where(z > 0, np.sqrt(z), -np.exp(z)) * a


def plus(a):
    return np.add(a, a)


def test_files_of_kernels_and_of_programs_in_one_comparison(tmp_path):
    (tmp_path / "kernels.py").write_text(KERNELS)
    (tmp_path / "add.mlir").write_text(ADD)
    files = [f"{tmp_path}/kernels.py::*", f"{tmp_path}/add.mlir::second"]
    found = mt.compare(files, pipelines=("mlir",), repeat=1)
    assert [(each.kernel, [row.name for row in each.rows]) for each in found] == [
        ("double", ["mlir", "numpy"]), ("scale", ["mlir", "torch"]), ("second", ["mlir"]),
    ]  # fmt: skip
    assert all(row.refusal is None and row.max_ulp < 1 for each in found for row in each.rows)
    assert found["second"].arguments == ("a: float32[4]", "b: float32[4]")


def test_a_relax_module_goes_through_linalg_in_that_pipeline_only():
    kernel = total.compile(torch.ones(4), 2, pipeline="relax")
    module = kernel.compilation.records["relax"].ir
    found = mt.compare(module, torch.ones(4), pipelines=("linalg", "relax"), repeat=1)
    assert "fused" in found["linalg"].compile_seconds
    assert "fused" not in found["relax"].compile_seconds


def test_a_method_of_arrays_alone_says_what_a_kernel_is_written_in(tmp_path):
    method = "@mt.jit\ndef kept(a: mt.Tensor[[3], mt.float32]):\n    b = a.copy()\n    b[0] = 1\n    return b\n"
    (tmp_path / "k.py").write_text(f"import mlirtri as mt\n\n\n{method}")
    found = mt.compare(f"{tmp_path}/k.py", pipelines=("mlir",), repeat=1)
    assert [(row.name, row.refusal) for row in found.rows] == [("mlir", None), ("numpy", None)]


class Counting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.calls += 1
        return x * self.calls


def test_a_module_that_writes_a_buffer_has_it_as_before_in_each_call():
    module, x = Counting(), torch.ones(3)
    found = mt.compare(mt.from_torch(module, (x,)), x, pipelines=("linalg", "mlir"), repeat=1, profile=True)
    assert [(row.max_error, len(row.launches) > 0) for row in found.rows] == [(0, True), (0, True), (0, False)]
    assert module.calls.item() == 0


class Scaled(torch.nn.Module):
    def forward(self, pair, factor):
        return (pair[0] + pair[1]) * factor


def test_a_module_that_was_exported_by_names_takes_its_arguments_by_names():
    arguments = {"pair": (torch.ones(3), torch.ones(3)), "factor": 2}
    found = mt.compare(mt.from_torch(Scaled(), (), arguments), pipelines=("mlir",), repeat=1)
    assert [(row.refusal, row.max_error) for row in found.rows] == [(None, 0), (None, 0)]


def test_a_graph_of_kernels():
    with mt.graph("twice") as graph:
        graph.returns(total(graph.argument("a", mt.Tensor((4,), mt.float32)), 3))
    found = mt.compare(graph, repeat=1, pipelines=("relax", "mlir"))
    assert found.kernel == "twice"
    assert found["mlir"].max_error == 0


def test_torch_and_onnxruntime_are_the_reference_of_programs():
    layer = torch.nn.Linear(3, 2)
    program = mt.from_torch(layer, (torch.ones(4, 3),))
    found = mt.compare(program, torch.ones(4, 3), pipelines=("mlir",), repeat=1)
    assert [row.name for row in found.rows] == ["mlir", "torch"]
    assert found.reference == "torch"
    assert found["mlir"].max_ulp < 16
    program.params.update({"weight": torch.zeros(2, 3)})
    assert "were replaced" in mt.compare(program, torch.ones(4, 3), pipelines=("mlir",), repeat=1)["torch"].refusal


@pytest.mark.skipif(find_spec("onnxruntime") is None, reason="needs onnxruntime")
def test_onnxruntime_runs_beside_models():
    helper = pytest.importorskip("onnx").helper
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Exp", ["x"], ["y"])], "exp", [value("x", 1, [3])], [value("y", 1, [3])]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    found = mt.compare(mt.from_onnx(model), pipelines=("mlir",), repeat=1)
    assert found.reference == "onnxruntime"
    assert found["mlir"].max_ulp < 4


def test_libraries_by_name():
    found = mt.compare(total, np.ones(9), 7, pipelines=("mlir",), beside=("numba", "onnxruntime"), repeat=1)
    assert [row.name for row in found.rows] == ["mlir", "numpy", "numba", "onnxruntime"]
    assert found["numba"].refusal is None
    assert found["numba"].max_error == 0
    assert "onnxruntime" in found["onnxruntime"].refusal
    with pytest.raises(mt.KernelError, match="no library 'numbo'"):
        mt.compare(total, np.ones(9), 7, beside=("numbo",))


# --- columns ---------------------------------------------------------------------------------------------------------


def names(*arguments) -> list[str]:
    return [column.name for column in columns_of(*arguments)]


def test_columns_are_named_by_what_varies():
    assert names(("linalg", "mlir"), None, None, None) == ["linalg", "mlir"]
    assert names(("linalg", "mlir"), None, ("default", "none"), None) == ["linalg default", "linalg none", "mlir"]
    assert names(("relax",), ("cpu", "cuda:sm_90"), None, None) == ["relax cpu", "relax cuda:sm_90"]
    assert names("mlir", None, None, {"a": {"unroll": 1}, "b": {}}) == ["mlir a", "mlir b"]
    with pytest.raises(mt.KernelError, match="cannot set 'unrol'"):
        names("mlir", None, None, {"a": {"unrol": 1}})


def test_a_variant_sets_options_and_variables_while_it_compiles():
    name, values = parse_variant("unroll=9,MLIRTRI_NUM_THREADS=1")
    [column] = columns_of(("linalg",), None, None, {name: values})
    assert column.options.unroll == 9
    before = os.environ.get("MLIRTRI_NUM_THREADS")
    with column.environment():
        assert os.environ["MLIRTRI_NUM_THREADS"] == "1"
        assert column.target.threads == 1
    assert os.environ.get("MLIRTRI_NUM_THREADS") == before


def test_a_target_that_is_not_there_is_a_row_with_its_costs():
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    found = mt.compare(total, torch.ones(4), 2, pipelines=("linalg",), target=("cpu", "cuda"), repeat=1)
    assert found["linalg cpu"].refusal is None
    assert found["linalg cuda"].refusal


# --- errors ----------------------------------------------------------------------------------------------------------


def test_values_that_cancel_are_marked_and_left_out():
    expected = np.array([1.0, 1e-9])
    found = accuracy([np.float32([1.0, 2e-9])], [expected])
    assert (found.max_ulp, found.cancels, found.difference) == (0.0, True, None)
    assert found.max_relative == pytest.approx(1e-9)


def test_the_first_wrong_element_is_named():
    expected = np.arange(6.0).reshape(2, 3)
    wrong = expected.astype(np.float32)
    wrong[1] += 1
    assert accuracy([wrong], [expected]).difference == "result[1, 0] is 4.0, not 3.0 (3 of 6 elements differ)"
    assert accuracy([np.int32([1, 2])], [np.int32([1, 3])]).difference.startswith("result[1] is 2, not 3")


# --- reports ---------------------------------------------------------------------------------------------------------

ROWS = (
    Row("linalg", 1, 96, {"ast": 0.001}, 2e-6, 1e-6, 3e-3, 0.25, 2.0, rounds=(2e-6, 2.1e-6, 2.2e-6, 2.3e-6, 2.4e-6)),
    Row("mlir", refusal="k.py:1:2: error: <no> | way"),
)
FOUND = Comparison("f", "cpu", ("a: float32[2]",), "torch", ROWS, machine="one")


def test_csv_markdown_and_html_have_the_rows():
    lines = list(csv.DictReader(FOUND.to_csv().splitlines()))
    assert [(line["kernel"], line["name"], line["kernels"]) for line in lines] == [
        ("f", "linalg", "1"),
        ("f", "mlir", ""),
    ]
    assert lines[0]["run_seconds"] == "2e-06"
    markdown = FOUND.to_markdown()
    assert "| linalg | 1 | 96 |" in markdown
    assert "- mlir: k.py:1:2: error: <no> | way" in markdown
    page = FOUND.to_html()
    assert page.startswith("<!doctype html>")
    assert "&lt;no&gt;" in page
    assert page.count("<rect") == 1
    assert "by several compilers" in page
    assert Comparisons((FOUND, FOUND)).to_html().count('href="#kernel-') == 2
    assert "<!doctype" not in FOUND._repr_html_()
    assert "<table" in Comparisons((FOUND,))._repr_html_()


def slower(comparison: Comparison, factor: float) -> Comparison:
    row = comparison.rows[0]
    rounds = tuple(seconds * factor for seconds in row.rounds)
    return replace(comparison, rows=(replace(row, rounds=rounds, run_seconds=rounds[2]), *comparison.rows[1:]))


def test_changes_beyond_noise(tmp_path):
    file = tmp_path / "old.json"
    file.write_text(FOUND.to_json())
    baseline = read_baseline(file)
    assert str(changes_since(baseline, slower(FOUND, 1.01))) == "nothing changed beyond noise"
    found = changes_since(baseline, slower(FOUND, 2.0))
    assert found.is_worse
    assert str(found).startswith("worse: f, linalg: 2.2 µs → 4.4 µs (2.00×")
    assert not changes_since(baseline, slower(FOUND, 0.5)).is_worse
    assert "another machine" in str(changes_since(baseline, replace(slower(FOUND, 2.0), machine="two")))
    refused = replace(FOUND, rows=(replace(FOUND.rows[0], refusal="no"), replace(FOUND.rows[1], refusal=None)))
    assert [change.is_worse for change in changes_since(baseline, refused).changes] == [True, False]
    gone = replace(FOUND, rows=FOUND.rows[:1])
    assert changes_since(baseline, gone).not_compared == ("f: mlir is not in this comparison",)
    file.write_text("[1]")
    with pytest.raises(mt.KernelError, match="is no comparison"):
        read_baseline(file)


def test_one_run_gives_several_reports(tmp_path, capsys):
    (tmp_path / "k.py").write_text(
        "import mlirtri as mt\n\n@mt.jit\ndef scaled(a: mt.Tensor[[4], mt.float32]):\n    return a * 3.0\n"
    )
    files = [tmp_path / "reports" / name for name in ("r.json", "r.md", "r.html", "r.txt")]
    options = [option for file in files for option in ("-o", str(file))]
    run = ["compare", f"{tmp_path}/k.py", "--pipeline", "linalg", "--repeat", "1"]
    assert run_command([*run, *options]) == 0
    assert capsys.readouterr().out.split() == [str(file) for file in files]
    table, markdown, html, text = (file.read_text() for file in files)
    assert json.loads(table)["kernel"] == "scaled"
    assert (markdown.splitlines()[0], html[:15]) == ("### `scaled(a: float32[4]) on cpu`", "<!doctype html>")
    assert text.startswith("scaled(a: float32[4]) on cpu\n")
    # A guard that compares nothing does not pass.
    (tmp_path / "other.py").write_text((tmp_path / "k.py").read_text().replace("scaled", "renamed"))
    assert run_command(["compare", f"{tmp_path}/other.py", *run[2:], "--baseline", str(files[0])]) == 1
    assert "renamed: linalg, torch are not in the baseline" in capsys.readouterr().out


def test_a_baseline_of_something_else_is_said():
    baseline = json.loads(Comparisons((FOUND,)).to_json())
    other = replace(FOUND, kernel="g")
    both = changes_since(baseline, Comparisons((FOUND, other)))
    assert both.count == 2
    assert both.not_compared == ("g: linalg, mlir are not in the baseline",)
    resized = changes_since(baseline, replace(FOUND, arguments=("a: float32[9]",)))
    assert resized.count == 0
    assert str(resized).splitlines() == [
        f"not compared: f({', '.join(FOUND.arguments)}) on cpu: linalg, mlir are not in this comparison",
        "not compared: f(a: float32[9]) on cpu: linalg, mlir are not in the baseline",
        "nothing was compared: the baseline has none of these rows",
    ]


def test_the_rank_test_is_scipys():
    random = np.random.default_rng(0)
    for count, other in ((5, 7), (4, 12), (20, 30)):
        before, after = random.random(count), random.random(other) + 0.3
        wanted = mannwhitneyu(before, after, method="exact" if count < 12 else "asymptotic").pvalue
        assert probability(tuple(before), tuple(after)) == pytest.approx(wanted, rel=1e-6)


def test_the_command_writes_a_baseline_and_compares_with_it(tmp_path, capsys):
    (tmp_path / "kernels.py").write_text(KERNELS)
    command = ["compare", f"{tmp_path}/kernels.py::double", "--pipeline=mlir", "--repeat=5"]
    old = tmp_path / "old.json"
    assert run_command([*command, "--json", "-o", str(old)]) == 0
    assert capsys.readouterr().out == f"{old}\n"
    data = json.loads(old.read_text())
    data["rows"][0]["kernels"] = 0
    data["rows"][1]["kernels"] = None
    old.write_text(json.dumps(data))
    assert run_command([*command, "--baseline", str(old)]) == 1
    assert "worse: double, mlir: kernels 0 → 1" in capsys.readouterr().out
    assert run_command([*command, "--markdown"]) == 0
    assert Path(old).exists()
    assert "| mlir | 1 | 96 |" in capsys.readouterr().out
