"""`mlirtri reduce` makes MLIR, Python and TVMScript smaller while a test holds."""

from __future__ import annotations

import ast
import sys

import pytest

from mlirtri.cli.main import run_command
from mlirtri.reduce import mlir_candidates, python_candidates
from mlirtri.reduce.files import reduce_file
from mlirtri.reduce.search import chunks, smallest, without

MLIR = """
func.func private @helper(%a: tensor<64x32xf32>) -> tensor<64x32xf32>
func.func @unused(%a: f32) -> f32 {
  return %a : f32
}
func.func @f(%a: tensor<64x32xf32>, %b: tensor<64x32xf32>, %n: index) -> (tensor<64x32xf32>, index) {
  %c = arith.constant 1 : index
  %0 = "tri.exp"(%a) : (tensor<64x32xf32>) -> tensor<64x32xf32>
  %1 = scf.for %i = %c to %n step %c iter_args(%x = %0) -> (tensor<64x32xf32>) {
    %2 = "tri.add"(%x, %b) : (tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
    scf.yield %2 : tensor<64x32xf32>
  }
  %3 = "tri.log"(%1) : (tensor<64x32xf32>) -> tensor<64x32xf32>
  %4 = "tri.sqrt"(%3) : (tensor<64x32xf32>) -> tensor<64x32xf32>
  return %4, %c : tensor<64x32xf32>, index
}
"""
PYTHON = """
import mlirtri as mt
import numpy as np


def helper(a):
    return a + 1


@mt.jit
def kernel(a: mt.Tensor[[64, 32], mt.float32], b):
    c = helper(a) * 2
    if b:
        for i in range(10):
            c = np.exp(c - b) + i
    return c, a
"""
TVMSCRIPT = """
@I.ir_module
class Module:
    @T.prim_func
    def first(a: T.Buffer((64,), "float32")):
        for i in T.serial(64):
            a[i] = T.exp(a[i])

    @T.prim_func
    def second(a: T.Buffer((64,), "float32")):
        for i in T.serial(64):
            a[i] = T.log(a[i])
"""


def test_mlir_is_reduced_to_the_operation_that_matters():
    found = smallest(MLIR, mlir_candidates.candidates, lambda text: "tri.log" in text, 60)
    lines = [line.strip() for line in found.strip().splitlines()]
    assert len(lines) == 6, found
    assert lines[1].startswith("func.func @f(")
    assert "tensor<1x1xf32>" in lines[1]
    assert "x32xf32" not in found
    assert "tri.log" in lines[2]


def test_every_mlir_candidate_parses():
    for text in mlir_candidates.candidates(MLIR):
        module = mlir_candidates._parsed(text)
        assert module is not None
        assert module.operation.verify()


@pytest.mark.parametrize(
    ("text", "needle", "most"),
    [(PYTHON, "np.exp", 6), (TVMSCRIPT, "T.log", 6), (PYTHON, "helper(", 5), ("x = 1\ny = [x, 2]\n", "2", 1)],
)
def test_python_is_reduced_to_the_statement_that_matters(text, needle, most):
    found = smallest(text, python_candidates.candidates, lambda text: needle in text, 30)
    ast.parse(found)
    assert needle in found
    assert len(found.splitlines()) <= most, found


def test_sizes_shrink_together():
    assert "a[1, 1]; b[1]" in {
        text.replace("\n", "; ")
        for first in python_candidates.candidates("a[64, 32]\nb[64]")
        for text in python_candidates.candidates(first)
    }


def test_texts_that_do_not_parse_have_no_candidates():
    assert list(python_candidates.candidates("def f(:")) == []
    assert list(mlir_candidates.candidates("func.func @f(")) == []


def test_chunks_are_all_halves_and_so_on():
    assert [*chunks(5)] == [range(5), range(4, 5), range(2, 4), range(2), *(range(n, n + 1) for n in (4, 3, 2, 1, 0))]
    assert [*chunks(0)] == []
    assert without("abcde", range(1, 3)) == ["a", "d", "e"]


def test_the_time_ends_the_search():
    ends = []
    assert smallest(5, lambda n: iter(range(n)), lambda n: True, -1.0, on_time_out=lambda: ends.append(5)) == 5
    assert ends == [5]
    assert smallest(5, lambda n: iter([n - 1] if n else []), lambda n: n >= 2, 10.0) == 2


def test_the_search_goes_on_where_it_was_and_finds_the_same_by_several_jobs():
    tried = []

    def smaller(numbers):
        for dropped in range(len(numbers)):
            yield (*numbers[:dropped], *numbers[dropped + 1 :])

    def fails(numbers):
        tried.append(numbers)
        return {0, 1, 2} <= {*numbers}

    assert smallest(tuple(range(12)), smaller, fails, 10.0) == (0, 1, 2)
    # The three that have to stay are tried once before the first that goes, and once at the end.
    assert len(tried) == 3 + 9 + 3
    assert smallest(tuple(range(12)), smaller, fails, 10.0, jobs=3) == (0, 1, 2)


def test_a_kernel_is_named_in_the_test(capsys):
    assert run_command(["reduce", "k.py::f", "--test", "true"]) == 1
    assert "reduce takes a whole file" in (text := capsys.readouterr().err)
    assert "%s::f" in text


def test_the_command(tmp_path, capsys):
    file = tmp_path / "kernel.py"
    file.write_text(PYTHON)
    condition = f"""{sys.executable} -c "import sys; sys.exit('np.exp' not in open(sys.argv[1]).read())" """
    assert run_command(["reduce", str(file), "--test", condition]) == 0
    out, err = capsys.readouterr()
    reduced = tmp_path / "kernel.reduced.py"
    assert out == f"{reduced}\n"
    assert "np.exp" in reduced.read_text()
    assert len(reduced.read_text().splitlines()) <= 6
    assert " lines after " in err
    assert run_command(["reduce", str(file), "--test", "grep -q absent %s"]) == 1
    assert "the test does not hold for" in capsys.readouterr().err
    # As in any shell, the last command of a pipe counts: what fails stands before it.
    assert "time ran out" not in err
    assert run_command(["reduce", str(file), "--test", "(cat %s; exit 1) | grep -q np.exp", "--seconds", "0"]) == 0
    lines = sum(bool(line.strip()) for line in PYTHON.splitlines())
    said = f"the time ran out after 0 s and 1 tests: {lines} of {lines} lines are left; --seconds gives more\n"
    assert capsys.readouterr().err.endswith(said)
    assert reduced.read_text() == PYTHON
    other = tmp_path / "a.txt"
    other.write_text("a")
    assert run_command(["reduce", str(other), "--test", "true"]) == 1
    assert "is neither MLIR nor Python" in capsys.readouterr().err


def test_candidates_that_lead_back_end_the_search(tmp_path):
    file, output = tmp_path / "f.mlir", tmp_path / "small.mlir"
    file.write_text(
        "func.func @f(%a: tensor<8xf32>) -> tensor<8xf32> {\n"
        "  %0 = linalg.exp ins(%a : tensor<8xf32>) outs(%a : tensor<8xf32>) -> tensor<8xf32>\n"
        "  return %0 : tensor<8xf32>\n}\n"
    )
    said = []
    reduce_file(file, "grep -q linalg.exp %s", output, 20, said.append, jobs=2)
    assert not any("time ran out" in line for line in said)
    assert len(said) < 20
