"""Broken and hostile input ends in a `KernelError` with a place: no crash, no hang, no memory without end."""

from __future__ import annotations

import contextlib
import io
import time

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mlirtri as mt
from mlirtri.compiler import isolation
from mlirtri.compiler.isolation import DEEPEST
from mlirtri.errors import KernelMemoryError, KernelValueError, ParseError, PassFailedError, UnsupportedOperationError
from mlirtri.lowering.toolchain import isolated_passes
from mlirtri.lowering.toolchain.worker_process import WORKER

TEXT = """
#map = affine_map<(d0) -> (d0)>
func.func @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %w = arith.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %e = tensor.empty() : tensor<4xf32>
  %r = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel"]}
      ins(%a, %b : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %s = arith.addf %x, %y : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  %z = arith.mulf %r, %w : tensor<4xf32>
  return %z : tensor<4xf32>
}
"""
N = 100_000


def with_line(line: str) -> str:
    return TEXT.replace("  return", f"  {line}\n  return")


def aliases(count: int, first: str, other: str, end: str) -> str:
    return "".join(f"#t{at} = {other.format(at - 1) if at else first}\n" for at in range(count)) + end


DEEP = {
    "angle brackets": "func.func @main(%a: " + "tensor<" * N,
    "attributes": "module attributes {x.a = " + "[" * N + "]" * N + "} {}",
    "dictionaries": "module attributes {x.a = " + "{a=" * N,
    "regions": "module {" * N + "}" * N,
    "generic regions": '"x.y"() ({' * N,
    "locations": with_line("%0 = arith.addf %a, %a : tensor<4xf32> loc(" + '"a"(' * N),
    "function types": "func.func private @f(" + "(" * N + ") -> ()" * N,
    "affine maps": "#m = affine_map<(d0) -> (" + "(" * N + "d0" + ")" * N + ")>",
    "constants": with_line("%0 = arith.constant dense<" + "[" * N + "1" + "]" * N + "> : tensor<1xf32>"),
    "brackets behind brackets of strings": 'module attributes {x.a = [")", "]"' + ", [" * N,
    "brackets behind comparisons": "#s = affine_set<(d0) : (d0 >= 0, d0 >= 0, " + "(" * N,
}


@pytest.mark.parametrize("name", DEEP)
def test_deep_nesting_is_refused_at_its_location(name):
    with pytest.raises(ParseError, match=f"more than {DEEPEST} brackets deep") as caught:
        mt.from_mlir(DEEP[name])
    line = DEEP[name].count("\n", 0, DEEP[name].find("%0 =")) + 1 if "%0" in DEEP[name] else 1
    assert caught.value.span.line == line


def test_brackets_in_strings_and_comments_do_not_count():
    text = with_line("// " + "(" * N + '\n%0 = arith.constant {x = "' + "(" * N + '"} 1.0 : f32')
    assert mt.from_mlir(text).functions == ("main",)


BROKEN = {
    "half": (TEXT[: len(TEXT) // 2], "expected"),
    "bad UTF-8": (TEXT.encode().replace(b"main", b"m\xffin"), "not UTF-8: byte 0xff"),
    "NUL": (TEXT.replace("%s =", "%s \0="), "NUL byte"),
    "signs": ("#m = affine_map<(d0) -> (" + "-" * N + "d0)>", "64 signs"),
    "digits": (with_line(f"%0 = arith.constant {'9' * N} : i64"), "more than 4096 digits"),
    "unknown dialect": (with_line("%0 = foo.bar %a : tensor<4xf32>"), "foo"),
    "same symbol": (TEXT + TEXT.replace("#map", "#again"), "redefinition of symbol"),
    "too few elements": (TEXT.replace("3.0, 4.0", "3.0"), r"inferred shape of elements literal \(\[3\]\)"),
    "hex too short": (TEXT.replace("[1.0, 2.0, 3.0, 4.0]", '"0x00"'), "hex data size is invalid"),
    "size past 64 bits": (TEXT.replace("tensor<4x", f"tensor<{'9' * 30}x", 1), "invalid dimension"),
    "garbage": (bytes(range(1, 128)) * 1000, "expected"),
    "endless string": (with_line('%0 = arith.constant "' + "a" * 10 * N), "in string literal"),
    "name that is no text": (TEXT.replace("@main", '@"\\FF"'), "not UTF-8"),
    "alias of itself": ("!t = tuple<!t>\nfunc.func private @f(!t)", "undefined symbol alias"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_text_is_refused_at_its_location(name):
    text, message = BROKEN[name]
    with pytest.raises(ParseError, match=message) as caught:
        mt.from_mlir(text)
    assert caught.value.span.line >= 1


BOMBS = {
    "aliases in aliases": aliases(60, "1", "[#t{0}, #t{0}]", "module attributes {x.a = #t59} {}"),
    "a chain of aliases": aliases(30_000, "1", "[#t{0}]", "module attributes {x.a = #t29999} {}"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_what_ends_the_parser_ends_another_process(name, monkeypatch):
    monkeypatch.setattr(isolation, "SECONDS", 1.0)
    with pytest.raises(ParseError, match=r"MLIR's parser (ended its process|ran for more)") as caught:
        mt.from_mlir(BOMBS[name])
    assert caught.value.help
    assert mt.from_mlir(TEXT).functions == ("main",), "the next text is parsed as ever"


def test_the_look_costs_little():
    mt.from_mlir(TEXT)
    text = TEXT * 1 + "".join(TEXT.replace("@main", f"@f{at}").replace("#map =", f"#map{at} =") for at in range(8))
    start = time.process_time()
    mt.from_mlir(text)
    assert time.process_time() - start < 0.2


def test_a_function_of_too_many_operations_is_refused_at_the_first_that_is_too_many():
    count = 40_000
    lines = [f"  %{at + 1} = arith.addf %{at}, %{at} : tensor<4xf32>" for at in range(count)]
    start = "func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n  %0 = math.exp %a : tensor<4xf32>\n"
    text = start + "\n".join(lines) + f"\n  return %{count} : tensor<4xf32>\n}}"
    with pytest.raises(UnsupportedOperationError, match=f"{count + 2} operations, and 32768 at most") as caught:
        mt.from_mlir(text).compile()
    assert caught.value.span.line == 2 + 32768


def test_an_onnx_model_with_a_wrong_byte_is_read_or_refused():
    onnx = pytest.importorskip("onnx")
    tensor = onnx.helper.make_tensor("w", onnx.TensorProto.FLOAT, [2], [1.0, 2.0])
    values = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2]) for name in ("x", "y")]
    node = onnx.helper.make_node("Softmax", ["s"], ["y"], axis=0)
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Add", ["x", "w"], ["s"]), node], "g", [values[0]], [values[1]], [tensor]
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)]).SerializeToString()
    accepted = 0
    for position in range(len(model)):
        damaged = bytearray(model)
        damaged[position] ^= 0x91
        with contextlib.suppress(ParseError, UnsupportedOperationError):
            mt.from_onnx(bytes(damaged))
            accepted += 1
    assert accepted < len(model) / 2


@pytest.mark.parametrize("text", ["Softmax<axis=1099511627776>(x)", "ReduceSum<axes=[-65]>(x)"])
def test_an_axis_past_all_ranks_is_refused(text):
    parser = pytest.importorskip("onnx.parser")
    branches = (
        f"then_branch = t () => (float[2,3] a) {{ a = {text} }}, else_branch = e () => (float[2,3] b) {{ b = Abs(x) }}"
    )
    for body, types in ((text, "float[2,3] x"), (f"If(c) <{branches}>", "float[2,3] x, bool c")):
        head = '<ir_version: 9, opset_import: ["" : 12]> '
        model = parser.parse_model(f"{head} g ({types}) => (float[2,3] y) {{ y = {body} }}")
        with pytest.raises(ParseError, match=r"has the ax\w+ -?\d+"):
            mt.from_onnx(model.SerializeToString())


def test_a_type_that_onnx_cannot_infer_from_is_refused():
    onnx = pytest.importorskip("onnx.parser")
    branches = "then_branch = t () => (float[4] a) { a = Neg(x) }, else_branch = e () => (float[4] b) { b = Abs(x) }"
    head = '<ir_version: 9, opset_import: ["" : 18]> g (float[4] x, bool c) => (float[4] y)'
    model = onnx.parse_model(f"{head} {{ y = If(c) <{branches}> }}")
    model.graph.node[0].attribute[0].g.output[0].type.tensor_type.elem_type = 2**31 - 1
    with pytest.raises(
        ParseError, match="ONNX cannot infer the types of this model: Invalid tensor data type 2147483647"
    ):
        mt.from_onnx(model)


# --- bytecode ------------------------------------------------------------------------------------------------------


def bytecode() -> bytes:
    from mlirtri.dialect.bindings.mlir import ir

    file = io.BytesIO()
    ir.Module.parse(TEXT, ir.Context()).operation.write_bytecode(file)
    return file.getvalue()


CODE = bytecode()


@given(st.integers(4, len(CODE) - 1), st.integers(1, 255))
@settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_bytecode_with_a_wrong_byte_is_read_or_refused(position, change):
    damaged = bytearray(CODE)
    damaged[position] ^= change
    read_or_refused(bytes(damaged))


@given(st.integers(4, len(CODE) - 1))
@settings(max_examples=20, deadline=None, derandomize=True)
def test_bytecode_that_ends_early_is_refused(length):
    with pytest.raises(ParseError, match="bytecode"):
        mt.from_mlir(CODE[:length])


@given(st.integers(0, len(TEXT) - 1), st.sampled_from('(){}[]<>"%@#!^:,=-x0 9\n\\'), st.booleans())
@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_text_with_a_wrong_character_is_read_or_refused(position, character, is_insertion):
    rest = TEXT[position:] if is_insertion else TEXT[position + 1 :]
    read_or_refused((TEXT[:position] + character + rest).encode())


def read_or_refused(data: bytes) -> None:
    """Any error but a refusal, and a refusal by accident, are for pytest."""
    with contextlib.suppress(ParseError):
        program = mt.from_mlir(data)
        with contextlib.suppress(UnsupportedOperationError, KernelValueError, PassFailedError):
            program.to_mlir("linalg")


# --- memory --------------------------------------------------------------------------------------------------------


def of_size(count: int) -> str:
    """A program of a small argument and result, with a temporary of `count` rows between them."""
    return f"""
#rows = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d1)>
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {{
  %e = tensor.empty() : tensor<{count}x4xf32>
  %f = linalg.generic {{indexing_maps = [#row, #rows], iterator_types = ["parallel", "parallel"]}}
      ins(%a : tensor<4xf32>) outs(%e : tensor<{count}x4xf32>) {{
  ^bb0(%x: f32, %y: f32):
    linalg.yield %x : f32
  }} -> tensor<{count}x4xf32>
  %g = linalg.generic {{indexing_maps = [#rows, #row], iterator_types = ["reduction", "parallel"]}}
      ins(%f : tensor<{count}x4xf32>) outs(%a : tensor<4xf32>) {{
  ^bb0(%x: f32, %y: f32):
    %s = arith.maximumf %y, %x : f32
    linalg.yield %s : f32
  }} -> tensor<4xf32>
  return %g : tensor<4xf32>
}}
"""


@pytest.mark.parametrize("count", [2**33, 2**40, 2**62, 2**63 - 1])
@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
def test_a_tensor_larger_than_memory_is_refused_with_its_size(count, pipeline, monkeypatch):
    monkeypatch.setenv("MLIRTRI_MAX_TENSOR_BYTES", str(2**36))
    with pytest.raises(KernelMemoryError, match=f"{count * 16} bytes, where a tensor may have {2**36}") as caught:
        mt.from_mlir(of_size(count)).compile(pipeline=pipeline)
    assert caught.value.span.line == 5


def test_a_temporary_of_a_kernel_is_refused_too(monkeypatch):
    monkeypatch.setenv("MLIRTRI_MAX_TENSOR_BYTES", str(2**16))

    @mt.jit(pipeline="mlir")
    def sums(a):
        return ((a @ a.T) @ a).sum(axis=0)

    with pytest.raises(KernelMemoryError, match="a temporary memref<256x256xf32"):
        sums.compile(mt.Tensor((256, 4), mt.float32))
    monkeypatch.delenv("MLIRTRI_MAX_TENSOR_BYTES")
    assert "asm" in sums.compile(mt.Tensor((256, 4), mt.float32)).ir


def test_a_result_without_memory_is_an_error(monkeypatch):
    monkeypatch.setenv("MLIRTRI_MAX_TENSOR_BYTES", str(2**50))
    text = """
func.func @main(%a: tensor<f32>) -> tensor<1125899906842xf32> {
  %e = tensor.empty() : tensor<1125899906842xf32>
  %n = tensor.extract %a[] : tensor<f32>
  %f = linalg.fill ins(%n : f32) outs(%e : tensor<1125899906842xf32>) -> tensor<1125899906842xf32>
  return %f : tensor<1125899906842xf32>
}
"""
    with pytest.raises(KernelMemoryError, match="no memory for a result"):
        mt.from_mlir(text).compile(pipeline="mlir")(1.0)


def test_memory_of_passes_is_bounded(monkeypatch):
    class Growing:
        def ask(self, limits, *_):
            monkeypatch.undo()
            return WORKER.ask(limits, list, map(abs, range(1 << 40)))

    program = mt.from_torch(lambda a: a.sin(), (torch.randn(3),))
    monkeypatch.setattr(isolated_passes, "WORKER", Growing())
    monkeypatch.setenv("MLIRTRI_MAX_PASS_BYTES", str(1 << 29))
    with pytest.raises(
        UnsupportedOperationError, match=r"had \d+ MiB of memory and may have 512; MLIRTRI_MAX_PASS_BYTES sets"
    ):
        program.to_mlir("linalg")
    assert "math.sin" in program.to_mlir("linalg")


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
def test_a_temporary_of_run_time_sizes_without_memory_is_an_error(pipeline):
    text = """
#all = affine_map<(d0, d1) -> (d0, d1)>
#left = affine_map<(d0, d1) -> (d0)>
#right = affine_map<(d0, d1) -> (d1)>
func.func @main(%a: tensor<?xf64>, %b: tensor<?xf64>) -> tensor<?xf64> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %a, %c0 : tensor<?xf64>
  %m = tensor.dim %b, %c0 : tensor<?xf64>
  %e = tensor.empty(%n, %m) : tensor<?x?xf64>
  %f = linalg.generic {indexing_maps = [#left, #right, #all], iterator_types = ["parallel", "parallel"]}
      ins(%a, %b : tensor<?xf64>, tensor<?xf64>) outs(%e : tensor<?x?xf64>) {
  ^bb0(%x: f64, %y: f64, %z: f64):
    %s = arith.mulf %x, %y : f64
    linalg.yield %s : f64
  } -> tensor<?x?xf64>
  %g = linalg.generic {indexing_maps = [#all, #left], iterator_types = ["parallel", "reduction"]}
      ins(%f : tensor<?x?xf64>) outs(%a : tensor<?xf64>) {
  ^bb0(%x: f64, %y: f64):
    %s = arith.maximumf %y, %x : f64
    linalg.yield %s : f64
  } -> tensor<?xf64>
  %h = linalg.generic {indexing_maps = [#all, #right, #left], iterator_types = ["parallel", "reduction"]}
      ins(%f, %b : tensor<?x?xf64>, tensor<?xf64>) outs(%g : tensor<?xf64>) {
  ^bb0(%x: f64, %w: f64, %y: f64):
    %t = arith.subf %x, %w : f64
    %s = arith.minimumf %y, %t : f64
    linalg.yield %s : f64
  } -> tensor<?xf64>
  return %h : tensor<?xf64>
}
"""
    kernel = mt.from_mlir(text).compile(pipeline=pipeline)
    a, b = np.random.default_rng(0).normal(size=(2, 5))
    outer = np.outer(a, b)
    wanted = np.minimum(np.maximum(a, outer.max(1)), (outer - b).min(1))
    np.testing.assert_allclose(kernel(a, b), wanted)
    many = np.zeros(1 << 23)  # 2 ** 46 products are more than a process can have addresses for
    with pytest.raises(KernelMemoryError, match="no memory for a temporary"):
        kernel(many, many)
    np.testing.assert_allclose(kernel(a, b), wanted)
