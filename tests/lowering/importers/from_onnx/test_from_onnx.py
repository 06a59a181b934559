"""Programs from ONNX models: built here by `onnx.helper`, compared with ONNX's own reference evaluator."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx_models import PIPELINES, check, model_of, random, value

import mlirtri as mt
from mlirtri.errors import (
    ArgumentMismatchError,
    KernelTypeError,
    ParseError,
    UnsupportedOperationError,
)


def a_network():
    nodes = [
        helper.make_node("Conv", ["x", "conv.weight", "conv.bias"], ["c"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c", "scale", "shift", "mean", "var"], ["n"]),
        helper.make_node("Relu", ["n"], ["r"]),
        helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "fc.weight", "fc.bias"], ["g"], transB=1),
        helper.make_node("Softmax", ["g"], ["y"], axis=-1),
    ]
    weights = {
        "conv.weight": random(4, 3, 3, 3), "conv.bias": random(4), "scale": random(4), "shift": random(4),
        "mean": random(4), "var": random(4) ** 2 + 1, "fc.weight": random(5, 64), "fc.bias": random(5),
    }  # fmt: skip
    inputs = {"x": random(1, 3, 8, 8)}
    return model_of(nodes, inputs, weights), inputs, weights


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_a_network_gives_what_the_reference_gives(pipeline):
    model, inputs, _ = a_network()
    check(model, inputs, pipeline)


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("batch", [1, 3])
def test_projections_of_a_batch_into_heads_are_one_product(pipeline, batch):
    nodes, heads = [], np.int64([batch, 5, 4, 2])
    for name in "qk":
        nodes += [
            helper.make_node("MatMul", ["x", f"w{name}"], [f"p{name}"]),
            helper.make_node("Add", [f"p{name}", f"b{name}"], [f"s{name}"]),
            helper.make_node("Reshape", [f"s{name}", "heads"], [f"h{name}"]),
            helper.make_node("Transpose", [f"h{name}"], [name], perm=[0, 2, 1, 3]),
        ]
    weights = {"heads": heads} | {f"{kind}{name}": random(*shape) for name in "qk" for kind, shape in SHAPES.items()}
    model = model_of(nodes, {"x": random(batch, 5, 6)}, weights, outputs=("q", "k"))
    check(model, {"x": random(batch, 5, 6)}, pipeline)
    fused = mt.from_onnx(model).compile(pipeline=pipeline).ir["fused"]
    assert "tensor.expand_shape %w" not in fused, "weights are read as they are"
    assert fused.count("tensor.concat") == (2 if pipeline == "linalg" else 0), "weights and biases of one product"


SHAPES = {"w": (6, 8), "b": (8,)}


def test_weights_are_parameters_and_not_in_the_text():
    model, inputs, weights = a_network()
    program = mt.from_onnx(model)
    assert set(program.params) == set(weights)
    np.testing.assert_array_equal(program.params["fc.weight"], weights["fc.weight"])
    kernel = program.compile()
    assert [each.name for each in kernel.interface.parameters] == ["x"]
    assert all("dense_resource" not in kernel.ir[stage] for stage in ("torch", "linalg"))
    before = kernel(*inputs.values())
    program.params["fc.bias"] = weights["fc.bias"] + 100 * np.arange(5, dtype=np.float32)
    assert np.argmax(program.compile()(*inputs.values())) == 4
    np.testing.assert_array_equal(kernel(*inputs.values()), before)


def test_a_file_bytes_and_external_data_are_the_same_program(tmp_path):
    model, inputs, _ = a_network()
    wanted = mt.from_onnx(model)(*inputs.values())
    path = tmp_path / "net.onnx"
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    assert (tmp_path / "weights.bin").exists()
    np.testing.assert_array_equal(mt.from_onnx(str(path))(*inputs.values()), wanted)
    np.testing.assert_array_equal(mt.from_onnx(path)(*inputs.values()), wanted)
    reloaded = onnx.load(path).SerializeToString()
    np.testing.assert_array_equal(mt.from_onnx(reloaded)(*inputs.values()), wanted)


OPERATORS = {
    "uint8 division": ("Div", {"a": random(3, 4, dtype="uint8") + 200, "b": random(4, dtype="uint8") + 1}, {}),
    "uint8 comparison": ("Greater", {"a": np.uint8([250, 1]), "b": np.uint8([3, 200])}, {}),
    "int64 mod": ("Mod", {"a": np.int64([-7, 7, -7]), "b": np.int64([3, -3, -3])}, {}),
    "fp16 product": ("MatMul", {"a": random(4, 3, dtype="float16"), "b": random(3, 5, dtype="float16")}, {}),
    "gather": ("Gather", {"a": random(5, 3), "i": np.int64([[0, -1], [2, 1]])}, {"axis": 0}),
    "cumsum": ("CumSum", {"a": random(3, 4), "axis": np.int64(1)}, {}),
    "erf": ("Erf", {"a": random(7)}, {}),
    "transpose": ("Transpose", {"a": random(2, 3, 4)}, {"perm": [2, 0, 1]}),
    "argmax": ("ArgMax", {"a": random(3, 5)}, {"axis": 1, "keepdims": 0}),
    "layer norm": ("LayerNormalization", {"a": random(3, 5), "s": random(5), "b": random(5)}, {}),
    "cast": ("Cast", {"a": random(3, 4) * 9}, {"to": TensorProto.INT32}),
    "rank 0": ("Exp", {"a": np.array(0.5, np.float32)}, {}),
    "empty": ("Relu", {"a": random(0, 3)}, {}),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators(name):
    kind, inputs, attributes = OPERATORS[name]
    if name == "cumsum":
        model = model_of([helper.make_node(kind, ["a", "axis"], ["y"])], {"a": inputs["a"]}, {"axis": inputs["axis"]})
        return check(model, {"a": inputs["a"]})
    model = model_of([helper.make_node(kind, list(inputs), ["y"], **attributes)], inputs)
    return check(model, inputs, tolerance=2e-3 if "fp16" in name else 2e-5)


OLD = {
    "Softmax": (1, {"axis": 1}, lambda x: np.exp(x) / np.exp(x).sum((1, 2), keepdims=True)),
    "Slice": (9, {"starts": [1], "ends": [3], "axes": [1]}, lambda x: x[:, 1:3]),
    "Unsqueeze": (9, {"axes": [0]}, lambda x: x[None]),
}


@pytest.mark.parametrize("kind", OLD)
def test_operators_of_older_versions_keep_their_meaning(kind):
    opset, attributes, oracle = OLD[kind]
    x = random(2, 4, 3)
    model = model_of([helper.make_node(kind, ["x"], ["y"], **attributes)], {"x": x}, opset=opset)
    np.testing.assert_allclose(mt.from_onnx(model)(x), oracle(x), rtol=1e-5, atol=1e-6)


def test_4_bit_inputs_are_widened_to_8_bits():
    x = np.array([7, -8, 0, 3], ml_dtypes.int4)
    model = model_of([helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)], {"x": x})
    np.testing.assert_array_equal(mt.from_onnx(model)(x), [7, -8, 0, 3])


@pytest.mark.parametrize("dtype", ["uint16", "uint32", "uint64"])
@pytest.mark.parametrize("kind", ["Max", "Less", "Div", "Mod"])
def test_unsigned_integers_stay_unsigned(kind, dtype):
    largest = np.iinfo(dtype).max
    inputs = {"a": np.array([largest, 3, 200], dtype), "b": np.array([7, largest - 1, 3], dtype)}
    model = model_of([helper.make_node(kind, ["a", "b"], ["y"])], inputs)
    check(model, inputs)


def test_top_k_gives_both_results_and_a_clip_has_no_lower_bound():
    nodes = [
        helper.make_node("Clip", ["x", "", "high"], ["c"]),
        helper.make_node("TopK", ["c", "k"], ["y", "at"], axis=1),
    ]
    inputs = {"x": random(3, 6)}
    weights = {"k": np.int64([2]), "high": np.array(0.9, np.float32)}
    check(model_of(nodes, inputs, weights, ("y", "at")), inputs)


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_branches(pipeline):
    def branch(kind: str):
        outcome = helper.make_tensor_value_info("z", TensorProto.FLOAT, [3])
        return helper.make_graph([helper.make_node(kind, ["x"], ["z"])], kind, [], [outcome])

    node = helper.make_node("If", ["c"], ["y"], then_branch=branch("Neg"), else_branch=branch("Abs"))
    model = model_of([node], {"c": np.array(True), "x": random(3)})
    for choice in (True, False):
        check(model, {"c": np.array(choice), "x": random(3)}, pipeline)


def test_functions_of_the_model_are_inlined():
    model, inputs, _ = a_network()
    square = helper.make_function(
        "own", "Square", ["v"], ["w"], [helper.make_node("Mul", ["v", "v"], ["w"])], [helper.make_opsetid("", 20)]
    )
    model.graph.node[-1].CopyFrom(helper.make_node("Square", ["g"], ["y"], domain="own"))
    model.functions.append(square)
    model.opset_import.append(helper.make_opsetid("own", 1))
    check(model, inputs)


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_sizes_of_one_name_are_equal_at_run_time(pipeline):
    nodes = [helper.make_node("MatMul", ["a", "w"], ["m"]), helper.make_node("Transpose", ["b"], ["t"])]
    arrays = {"a": random(2, 3), "b": random(3, 2)}
    inputs = [value("a", arrays["a"], ["batch", 3]), value("b", arrays["b"], [3, "batch"])]
    outputs = [value("m", arrays["a"], ["batch", 4]), value("t", arrays["a"], ["batch", 3])]
    weights = [numpy_helper.from_array(random(3, 4), "w")]
    model = helper.make_model(
        helper.make_graph(nodes, "sized", inputs, outputs, weights), opset_imports=[helper.make_opsetid("", 20)]
    )
    kernel = mt.from_onnx(model).compile(pipeline=pipeline)
    for batch in (1, 2, 5):
        a, b = random(batch, 3), random(3, batch)
        wanted = ReferenceEvaluator(model).run(None, {"a": a, "b": b})
        for one, other in zip(kernel(a, b), wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
    with pytest.raises(ArgumentMismatchError, match="axis 1 of 'b' is 4"):
        kernel(random(2, 3), random(3, 4))


def test_values_are_named_after_nodes_without_the_slashes_of_exporters():
    nodes = [
        helper.make_node("Neg", ["x"], ["n"], name="/blocks.0/Neg"),
        helper.make_node("Relu", ["n"], ["y"], name="aten::relu"),
    ]
    kernel = mt.from_onnx(model_of(nodes, {"x": random(3)}, {})).compile(pipeline="mlir")
    text = kernel.ir["linalg"]
    assert "%blocks.0.Neg = " in text
    assert "%aten_relu = " in text


def test_errors_name_the_nodes_and_show_their_lines():
    graph = helper.make_graph(
        [helper.make_node("ImageDecoder", ["x"], ["y"], name="decoder")],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, [9])],
        [helper.make_tensor_value_info("y", TensorProto.UINT8, [3, 3, 3])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    with pytest.raises(UnsupportedOperationError, match=r"ImageDecoder") as caught:
        mt.from_onnx(model).compile()
    assert "[decoder] %y = ImageDecoder(%x)" in str(caught.value)


def test_operators_that_upstream_does_not_lower_are_named():
    images = [helper.make_tensor_value_info(name, TensorProto.UINT8, [3, 3, 3]) for name in ("y", "z")]
    nodes = [
        helper.make_node("ImageDecoder", ["x"], [image.name], pixel_format=order)
        for image, order in zip(images, ("RGB", "BGR"), strict=True)
    ]
    graph = helper.make_graph(nodes, "net", [helper.make_tensor_value_info("x", TensorProto.UINT8, [9])], images)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    with pytest.raises(UnsupportedOperationError, match=r"no lowering of onnx\.ImageDecoder on .*, 2 times"):
        mt.from_onnx(model).compile()


def test_inputs_and_outputs_that_are_no_tensors_are_refused():
    sequence = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, [2])
    graph = helper.make_graph(
        [helper.make_node("SequenceAt", ["s", "i"], ["y"])],
        "net",
        [sequence, helper.make_tensor_value_info("i", TensorProto.INT64, [])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    with pytest.raises(KernelTypeError, match="input 's' of the ONNX graph is a sequence"):
        mt.from_onnx(model)


def test_foreign_domains_are_refused_by_node():
    model, _, _ = a_network()
    model.graph.node[2].domain = "com.microsoft"
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    with pytest.raises(UnsupportedOperationError, match=r"'r' is a Relu of domain 'com.microsoft'"):
        mt.from_onnx(model)


def test_broken_models_are_parse_errors(tmp_path):
    with pytest.raises(ParseError, match="no ONNX model"):
        mt.from_onnx(b"no protobuf at all \xff\xff")
    with pytest.raises(ParseError, match="cannot be read"):
        mt.from_onnx(tmp_path / "missing.onnx")
    model, _, _ = a_network()
    del model.graph.output[:]
    model.graph.output.append(helper.make_tensor_value_info("nowhere", TensorProto.FLOAT, [1]))
    with pytest.raises(ParseError, match="ONNX refuses this model"):
        mt.from_onnx(model)
