"""`mt.from_mlir`: what a module may come as, which of its functions is meant, and what a program keeps."""

from __future__ import annotations

import io
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

import mlirtri as mt
from mlirtri.errors import ParseError, UnknownOptionError, UnsupportedOperationError

TEXT = """
func.func private @scaled(%x: tensor<4xf32>) -> tensor<4xf32> {
  %w = arith.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %y = arith.mulf %x, %w : tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = call @scaled(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %z = call @scaled(%y) : (tensor<4xf32>) -> tensor<4xf32>
  return %z : tensor<4xf32>
}
func.func @"twice.it"(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = arith.addf %x, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func @unusable(%x: memref<4xf32>) {
  return
}
"""
X = np.arange(4, dtype=np.float32)
MAIN = X * np.array([1, 4, 9, 16], np.float32)


def module_of(text: str):
    from mlirtri.dialect.bindings.mlir import ir

    return ir.Module.parse(text, ir.Context())


def bytecode_of(text: str) -> bytes:
    file = io.BytesIO()
    module_of(text).operation.write_bytecode(file)
    return file.getvalue()


# --- where it comes from -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["text", "module", "bytecode", "path", "Path", "bytecode path", "bytes of text"])
def test_a_module_comes_in_any_form(form, tmp_path):
    file = tmp_path / ("program.mlirbc" if "bytecode" in form else "program.mlir")
    file.write_bytes(bytecode_of(TEXT) if "bytecode" in form else TEXT.encode())
    source = {
        "text": TEXT, "module": module_of(TEXT), "bytecode": bytecode_of(TEXT), "path": str(file), "Path": file,
        "bytecode path": file, "bytes of text": TEXT.encode(),
    }[form]  # fmt: skip
    program = mt.from_mlir(source)
    assert program.functions == ("main", "twice.it", "unusable")
    np.testing.assert_array_equal(program.compile("main", pipeline="mlir")(X), MAIN)


def test_text_shows_its_own_line_in_errors():
    with pytest.raises(ParseError) as caught:
        mt.from_mlir("func.func @f() {\n  return %nothing : f32\n}")
    assert str(caught.value.span) == "<text>:2:10"
    assert "    return %nothing : f32\n" in str(caught.value)


def test_bytes_do_not_show_an_earlier_text():
    with pytest.raises(ParseError):
        mt.from_mlir("an earlier text")
    with pytest.raises(ParseError) as caught:
        mt.from_mlir(b"").compile()
    assert "an earlier text" not in str(caught.value)


def test_a_file_is_named_in_errors_of_reading_and_of_compiling(tmp_path):
    file = tmp_path / "broken.mlir"
    file.write_text("func.func @f() {\n  return %nothing : f32\n}")
    with pytest.raises(ParseError) as caught:
        mt.from_mlir(file)
    assert str(caught.value.span) == f"{file}:2:10"
    assert "return %nothing" in str(caught.value)
    file.write_text(
        "func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {\n  return %x : tensor<4xf32>\n}\n"
        "func.func @g(%x: tensor<4xi4>) {\n  return\n}\n"
    )
    with pytest.raises(UnsupportedOperationError, match="tensor<4xi4>") as caught:
        mt.from_mlir(file).compile("g")
    assert f"{file}:4:14: error: argument 'x'" in str(caught.value)
    assert "func.func @g(%x: tensor<4xi4>)" in str(caught.value)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("/nowhere/there.mlir", "cannot be read"),
        (Path("/nowhere"), "cannot be read"),
        (b"ML\xefR\x01broken", "this bytecode cannot be read"),
        (b"func.func @f() {\n \xff", "this is not UTF-8: byte 0xff"),
        (3, "a int is no MLIR"),
        ("module {}", "no public functions"),
        ("func.func private @f() { return }", "no public functions"),
        ("func.func private @f(tensor<2xf32>)", "no public functions"),
    ],
)
def test_what_is_no_program_is_refused(source, message):
    with pytest.raises(ParseError, match=message):
        mt.from_mlir(source).compile()


# --- functions -----------------------------------------------------------------------------------------------------


def test_the_entry_is_main_or_said():
    program = mt.from_mlir(TEXT)
    np.testing.assert_array_equal(program(X), MAIN)
    kernel = program.compile("twice.it")
    assert kernel.name == "twice_it"
    np.testing.assert_array_equal(kernel(X), 2 * X)
    assert "func.func @twice_it" in kernel.ir["linalg"]
    assert "func.func @main" not in kernel.ir["linalg"]
    with pytest.raises(ParseError, match="no function 'mian'") as caught:
        program.compile("mian")
    assert "did you mean 'main'? its functions are main, twice.it, unusable" in str(caught.value)
    with pytest.raises(ParseError, match="2 public functions"):
        mt.from_mlir("func.func @f() { return }\nfunc.func @g() { return }").compile()


def test_names_of_kernels_are_unique_identifiers():
    from mlirtri.lowering.core.interface import kernel_names

    assert kernel_names(["a.b", "a_b", "a-b", "1", "for", "ü"]) == {
        "a.b": "a_b_0", "a_b": "a_b", "a-b": "a_b_1", "1": "_1", "for": "for_", "ü": "u00fc",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["malloc", "free", "exp", "printf", "main"])
def test_a_function_may_have_a_name_that_c_has_too(name):
    body = "%y = math.exp %x : tensor<4xf32>\n  return %y : tensor<4xf32>"
    text = f"func.func @{name}(%x: tensor<4xf32>) -> tensor<4xf32> {{\n  {body}\n}}"
    for pipeline in ("linalg", "mlir"):
        np.testing.assert_allclose(mt.from_mlir(text).compile(pipeline=pipeline)(X), np.exp(X), rtol=1e-6)


def test_functions_that_call_themselves_are_refused_with_the_whole_way():
    text = """func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = call @g(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func @g(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = call @f(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}"""
    with pytest.raises(UnsupportedOperationError, match="calls itself through") as caught:
        mt.from_mlir(text).compile("f")
    assert "<text>:2:8" in str(caught.value)
    assert "<text>:6:8" in str(caught.value)


def test_a_call_of_a_function_without_a_body_is_refused_at_its_location():
    text = """func.func private @g(f32) -> f32
func.func @f(%x: f32) -> f32 {
  %y = call @g(%x) : (f32) -> f32
  return %y : f32
}"""
    with pytest.raises(UnsupportedOperationError, match="'g' is called, and has no body") as caught:
        mt.from_mlir(text).compile()
    assert str(caught.value.span) == "<text>:3:8"


def test_calls_that_would_be_without_end_are_refused():
    levels = [
        f"func.func private @f{n}(%x: f32) -> f32 {{\n"
        + "".join(f"  %{k} = call @f{n + 1}(%x) : (f32) -> f32\n" for k in range(10))
        + "  return %0 : f32\n}"
        for n in range(12)
    ]
    text = "\n".join([*levels, "func.func private @f12(%x: f32) -> f32 { return %x : f32 }"])
    with pytest.raises(UnsupportedOperationError, match="operations once all calls are inlined"):
        mt.from_mlir(text.replace("private @f0", "@f0")).compile()


def test_operations_that_nobody_knows_are_refused_where_they_are_meant():
    text = """func.func @f(%x: f32) -> f32 {
  %y = "else.where"(%x) : (f32) -> f32
  %z = "else.where"(%y) : (f32) -> f32
  return %z : f32
}
func.func @main(%x: f32) -> f32 {
  return %x : f32
}"""
    program = mt.from_mlir(text)
    assert program(2.0) == 2.0
    with pytest.raises(UnsupportedOperationError, match=r"no translation to linalg for 'else.where' \(2×\)") as caught:
        program.compile("f")
    assert str(caught.value.span) == "<text>:2:8"


@pytest.mark.parametrize("size", [10**12, 2**62, 2**63 - 1])
@pytest.mark.parametrize("operation", ["tensor.empty()", "arith.constant dense<1.0>"])
def test_tensors_that_no_machine_holds_are_refused(size, operation):
    kind = f"tensor<{size}xf32>"
    text = f"func.func @f() -> {kind} {{\n  %x = {operation} : {kind}\n  return %x : {kind}\n}}"
    with pytest.raises(UnsupportedOperationError, match=f"{size} elements: {4 * size} bytes") as caught:
        mt.from_mlir(text).compile(pipeline="mlir")
    assert str(caught.value.span) == "<text>:2:8"


def test_programs_are_not_interpreted(monkeypatch):
    monkeypatch.setenv("MLIRTRI_INTERPRET", "1")
    with pytest.raises(UnknownOptionError, match="only Python functions are interpreted"):
        mt.from_mlir(TEXT).compile("main")


def test_blocks_with_branches_become_structured():
    text = """func.func @f(%p: i1, %x: tensor<4xf32>) -> tensor<4xf32> {
  cf.cond_br %p, ^twice, ^end(%x : tensor<4xf32>)
^twice:
  %y = arith.addf %x, %x : tensor<4xf32>
  cf.br ^end(%y : tensor<4xf32>)
^end(%z: tensor<4xf32>):
  return %z : tensor<4xf32>
}"""
    kernel = mt.from_mlir(text).compile()
    np.testing.assert_array_equal(kernel(True, X), 2 * X)
    np.testing.assert_array_equal(kernel(False, X), X)


# --- what it keeps -------------------------------------------------------------------------------------------------


def test_the_signature_is_known_before_compiling():
    program = mt.from_mlir(TEXT)
    assert str(program.signature("twice.it")) == "(x: float32[4]) -> (float32[4])"
    named = 'func.func @f(%x: tensor<2xi8> loc("x"), %y: tensor<2xi8> loc("x"), %n: index loc("n")) -> (i1, bf16) {\n'
    named += "  %p = arith.constant true\n  %q = arith.constant 1.5 : bf16\n  return %p, %q : i1, bf16\n}"
    assert str(mt.from_mlir(named).signature()) == "(x: int8[2], x_0: int8[2], n: int64[]) -> (bool[], bfloat16[])"
    assert repr(program) == "<mlirtri program of main, twice.it, unusable from <text>>"


def test_arguments_have_the_names_of_the_text():
    """But for those that a call cannot say, or says for other things; explicit locations go first."""
    text = 'func.func @f(%a.b: f32, %out: f32, // %no\n  %0: f32, %for: f32, %e: f32 loc("d"),%_c:f32) { return }'
    names = [each.split(":")[0] for each in str(mt.from_mlir(text).signature()).strip("()").split(", ")]
    assert names == ["arg0", "arg1", "arg2", "arg3", "d", "_c"]


def test_kernels_are_compiled_once_for_the_same_options():
    program = mt.from_mlir(TEXT)
    kernel = program.compile("main")
    assert program.compile("main", target="cpu") is kernel
    assert program.compile("main", pipeline="mlir") is not kernel


def test_threads_that_call_a_program_compile_it_once(monkeypatch):
    from mlirtri.programs import program as programs

    runs = []
    original = programs._Run.rest
    monkeypatch.setattr(programs._Run, "rest", lambda *each: runs.append(each) or original(*each))
    program = mt.from_mlir(TEXT)
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: program(X), range(16)))
    assert len(runs) == 1
    for result in results:
        np.testing.assert_array_equal(result, MAIN)


def test_threads_read_and_compile_programs_of_their_own():
    def work(number: int) -> None:
        program = mt.from_mlir(TEXT.replace("@main", f"@main{number}"))
        np.testing.assert_array_equal(program.compile(f"main{number}", pipeline="mlir")(X), MAIN)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(16)))


def test_the_passes_of_a_program_can_be_read():
    kernel = mt.from_mlir(TEXT).compile("main")
    assert "inline" in kernel.passes["linalg"].changed
    assert list(kernel.ir)[:2] == ["linalg", "fused"]


def test_torch_in_torch_out_and_numpy_in_numpy_out():
    kernel = mt.from_mlir(TEXT).compile("twice.it")
    assert isinstance(kernel(torch.from_numpy(X)), torch.Tensor)
    assert isinstance(kernel(X), np.ndarray)
    out = np.empty(4, np.float32)
    assert kernel(X, out=out) is out
    np.testing.assert_array_equal(out, 2 * X)
    np.testing.assert_array_equal(kernel(x=X), 2 * X)


def test_relative_paths_are_those_of_the_time_of_reading(tmp_path, monkeypatch):
    (tmp_path / "a.mlir").write_text(TEXT)
    monkeypatch.chdir(tmp_path)
    program = mt.from_mlir("a.mlir")
    monkeypatch.chdir(os.sep)
    assert program.file == str(tmp_path / "a.mlir")
    np.testing.assert_array_equal(program(X), MAIN)
