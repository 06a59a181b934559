"""Attributes of ours in a text from elsewhere: those that we write are read, others are refused and never run."""

from __future__ import annotations

import json

import numpy as np
import pytest

import mlirtri as mt
from mlirtri.errors import KernelValueError, ParseError, error_class

TEXT = """func.func @f(%a: tensor<4xf32> {ARGUMENT}) -> (tensor<4xf32>, tensor<i1> {RESULT}) {
  %c = arith.constant dense<true> : tensor<i1>
  return %a, %c : tensor<4xf32>, tensor<i1>
}
"""


def text_with(argument: str = "", result: str = "") -> str:
    return TEXT.replace("ARGUMENT", argument).replace("RESULT", result)


def test_an_error_of_a_check_is_no_function(tmp_path):
    file = tmp_path / "attacked"
    for name in ("exec", "eval", "print", "linecache", "exit"):
        attack = f"{name}: __import__('pathlib').Path('{file}').touch()"
        with pytest.raises(ParseError, match="is not an error of a rank-0 result") as caught:
            mt.from_mlir(text_with(result=f'mlirtri.check = "{attack}"'))(np.ones(4, np.float32))
        assert caught.value.span.line == 1
    assert not file.exists()


def test_an_error_of_an_assertion_is_no_function():
    text = """func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {
  %false = arith.constant false
  cf.assert %false, "print('attacked')" {mlirtri.error = "exec"}
  return %a : tensor<4xf32>
}"""
    with pytest.raises(ParseError, match='= "exec" is not the name of an error class') as caught:
        mt.from_mlir(text)
    assert caught.value.span.line == 3


def test_a_check_of_ours_raises_its_error():
    program = mt.from_mlir(text_with(result='mlirtri.check = "KernelValueError: no good"'))
    with pytest.raises(KernelValueError, match="no good"):
        program(np.ones(4, np.float32))


@pytest.mark.parametrize(
    "name", ["exec", "SystemExit", "KeyboardInterrupt", "UnicodeDecodeError", "SeveralErrors", "x"]
)
def test_the_class_of_an_error_is_one_that_takes_a_message(name):
    with pytest.raises(AttributeError):
        error_class(name)
    assert error_class("IndexError") is IndexError


WRONG = {
    "bits": ('mlirtri.dtype = "int8"', "", "a dtype of the argument's bits"),
    "more bits": ('mlirtri.dtype = "complex64"', "", "a dtype of the argument's bits"),
    "no dtype": ("mlirtri.dtype = 5 : i64", "", "a dtype of the argument's bits"),
    "no name": ("mlirtri.bound = 5 : i64", "", "a name"),
    "names": ('mlirtri.sizes = ["n", "m"]', "", "a name per axis"),
    "update": ("mlirtri.updated_by = 9 : i64", "", "a result of the argument's type"),
    "other update": ("mlirtri.updated_by = 1 : i64", "", "a result of the argument's type"),
    "check": ("", "mlirtri.check = 5 : i64", "an error of a rank-0 result"),
    "position": ("", 'mlirtri.check_location = "here"', "a position"),
    "state": ("", 'mlirtri.state = "w"', "a bound argument of the result's type"),
    "lengths": ("", "mlirtri.lengths = array<i64: 0, 7>", "axes and their rank-0 results"),
    "result bits": ("", 'mlirtri.dtype = "float64"', "a dtype of the result's bits"),
}


@pytest.mark.parametrize("name", WRONG)
def test_an_attribute_with_another_value_is_refused(name):
    argument, result, form = WRONG[name]
    with pytest.raises(ParseError, match=f"is not {form}") as caught:
        mt.from_mlir(text_with(argument, result))
    assert caught.value.span.line == 1


def test_a_manifest_names_no_function_as_an_error(tmp_path, monkeypatch):
    monkeypatch.setenv("MLIRTRI_DUMP_DIR", str(tmp_path))
    mt.from_mlir(text_with(result='mlirtri.check = "KernelValueError: no good"')).compile(pipeline="mlir")
    monkeypatch.delenv("MLIRTRI_DUMP_DIR")
    [folder] = tmp_path.iterdir()
    manifest = json.loads((folder / "manifest.json").read_text())
    [check] = manifest["interface"]["checks"]
    check["error"] = "exec"
    (folder / "manifest.json").write_text(json.dumps(manifest))
    [file] = folder.glob("*_fused.mlir")
    with pytest.raises(ParseError):
        mt.resume(file, "fused")
