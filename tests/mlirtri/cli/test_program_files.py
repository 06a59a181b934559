"""Commands take files of other compilers: `run` gives arguments to programs, `translate` writes other forms."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

PROGRAM = """
func.func @f(%a: tensor<3xi64>, %n: tensor<i64>) -> (tensor<3xi64>, tensor<i64>) {
  return %a, %n : tensor<3xi64>, tensor<i64>
}
"""


@pytest.mark.parametrize("name", ["p.mlir", "p.stablehlo", "p.py"])
def test_translate_knows_the_direction_from_the_file(run, tmp_path, name):
    file, output = tmp_path / name, tmp_path / "out"
    text = PROGRAM
    if name == "p.stablehlo":
        text = text.replace("return %a", "%b = stablehlo.add %a, %a : tensor<3xi64>\n  return %b")
    file.write_text(text)
    if name == "p.py":
        (tmp_path / "p.mlir").write_text(text)
        file.write_text(run("translate", str(tmp_path / "p.mlir"))[1])
    status, out, err = run("translate", str(file), "-o", str(output))
    assert (status, out, err) == (0, "", "")
    assert ("class Module" if name == "p.mlir" else "func.func @f(") in output.read_text()
    if name == "p.stablehlo":
        assert run("translate", str(file), "-o", f"{output}.py")[0] == 0
        assert "class Module" in Path(f"{output}.py").read_text()
    if name == "p.mlir":
        assert "p.mlir is MLIR already: Relax is written" in run("translate", str(file), "-o", f"{output}.mlir")[2]


def test_translate_leaves_no_file_where_it_fails(run, tmp_path):
    file, output = tmp_path / "p.mlir", tmp_path / "out"
    file.write_text(PROGRAM + PROGRAM.replace("@f", "@g"))
    status, _, err = run("translate", str(file), "-o", str(output))
    assert (status, output.exists()) == (1, False)
    assert "say entry=, one of f, g; on the command line FILE::f" in err


def test_numbers_of_programs(run, tmp_path):
    file = tmp_path / "f.mlir"
    file.write_text(PROGRAM)
    status, out, err = run("run", str(file), "--pipeline=mlir", "--arg", "a=i64[3]:7", "--arg", "n=i64:-3")
    assert status == 0, err
    assert [line.strip() for line in out.splitlines() if line.startswith(" ")] == ["7, 7, 7", "-3"]
    assert "n=3 is not a tensor" in run("run", str(file), "--arg", "n=3")[2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--onnx-to-mlir", "--mlir-to-relax"], "--onnx-to-mlir and --mlir-to-relax: one direction at a time"),
        (["--mlir-to-relax", "--tosa-to-mlir"], "--mlir-to-relax and --tosa-to-mlir: one direction at a time"),
        (["--bytecode", "--mlir-to-relax"], "--bytecode is for translations to MLIR"),
        (["--mlir-to-relax", "--complete"], "--complete is for translations to MLIR"),
        (["--json"], "--json is for --report"),
        (["--pipeline=mlir"], "--pipeline is for --report"),
    ],
)
def test_options_of_translate_that_do_not_go_together(run, options, message):
    status, out, err = run("translate", *options, "x.mlir")
    assert (status, out) == (2, "")
    assert message in err


@pytest.mark.parametrize("command", ["run", "compare", "profile"])
def test_an_argument_of_another_type_than_the_parameter_is_refused(run, tmp_path, command):
    file = tmp_path / "f.mlir"
    file.write_text("func.func @f(%x: tensor<2xf32>, %i: tensor<3xi8>) -> tensor<2xf32> { return %x : tensor<2xf32> }")
    ways = [] if command == "run" else ["--repeat", "1", "--pipeline", "mlir"]
    for wrong in ("x=f64[2]", "i=f32[3]", "i=i16[3]"):
        status, _, err = run(command, str(file), "--arg", wrong, *ways)
        assert status != 0
        assert "is a float32[2], not a" in err or "is a int8[3], not a" in err
    # MLIR's integers have no signs.
    assert run(command, str(file), "--arg", "x=f32[2]:0..1", "--arg", "i=uint8[3]", *ways)[0] == 0


@pytest.mark.parametrize("command", ["emit", "run", "compare", "profile"])
def test_an_unknown_function_of_a_program_is_refused_with_those_that_are_there(run, tmp_path, command):
    file = tmp_path / "f.mlir"
    file.write_text("func.func @first(%x: f32) -> f32 { return %x : f32 }")
    status, out, err = run(command, f"{file}::frist")
    assert (status, out) == (1, "")
    assert "the program has no function 'frist'" in err
    assert "did you mean 'first'?" in err


@pytest.mark.parametrize("name", ["input.1", "images:0", "/encoder/x", "0"])
def test_inputs_of_models_whose_names_are_no_identifiers_are_given_sizes(run, tmp_path, name):
    onnx = pytest.importorskip("onnx")
    value, node = onnx.helper.make_tensor_value_info, onnx.helper.make_node("Relu", [name], ["y"])
    [x, y] = (value(each, onnx.TensorProto.FLOAT, ["batch", 4]) for each in (name, "y"))
    graph = onnx.helper.make_graph([node], "net", [x], [y])
    file = tmp_path / "net.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9), file)
    _, _, err = run("run", str(file))
    assert f"say --arg {name}=float32[…]" in err
    status, out, err = run("run", str(file), "--arg", f"{name}=float32[2,4]")
    assert status == 0, err
    assert "result: float32[2, 4]" in out
    shown = {"input.1": "input.1", "images:0": "images_0", "/encoder/x": "encoder.x", "0": "_0"}[name]
    stage = tmp_path / "fused.mlir"
    stage.write_text(run("emit", str(file), "--stage=fused", "--arg", f"{name}=float32[2,4]")[1])
    assert f"@net(%{shown}: tensor<2x4xf32>" in stage.read_text()
    if shown == "images_0":
        assert "float32[2, 4]" in run("run", str(stage), "--from=fused")[1]
    for command in ("run", "emit"):
        _, out, err = run(command, str(file), "--arg", f"{name}=float64[2,4]")
        assert (out, err.splitlines()[0]) == ("", f"{name!r} is a float32[2, 4], not a float64[2, 4]")
    given = ["--arg", f"{name}=f32[3,4]", "--pipeline", "mlir", "--repeat", "1"]
    status, out, err = run("compare", str(file), *given)
    assert status == 0, err
    assert f"net({name}: float32[3, 4]) on cpu" in out


def test_weights_of_models_are_named_as_exporters_call_them(run, tmp_path):
    onnx = pytest.importorskip("onnx")
    value, weight = onnx.helper.make_tensor_value_info, onnx.numpy_helper.from_array
    [x, y] = (value(each, onnx.TensorProto.FLOAT, [2, 4]) for each in ("x", "y"))
    node = onnx.helper.make_node("MatMul", ["x", "onnx::MatMul_24"], ["y"], name="/fc/MatMul")
    weights = [weight(np.eye(4, dtype=np.float32), "onnx::MatMul_24")]
    graph = onnx.helper.make_graph([node], "net", [x], [y], weights)
    file = tmp_path / "net.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9), file)
    text = run("emit", str(file), "--stage=linalg")[1]
    assert '%onnx_MatMul_24: tensor<4x4xf32> {mlirtri.bound = "onnx::MatMul_24"}' in text
    assert run("translate", str(file), "-o", str(tmp_path / "relax.py"))[0] == 0
    assert "R.Tensor((2, 4)" in (tmp_path / "relax.py").read_text()
    _, out, err = run("emit", str(file), "--arg", "z=float32[2,4]")
    assert (out, err.splitlines()) == ("", ["'net' has no argument 'z'", "  help: its arguments are x"])
