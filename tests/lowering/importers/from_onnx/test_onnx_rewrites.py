"""Models rewritten before torch-mlir sees them: evaluated by ONNX's reference before and after, without compiling."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_models import check, check_rewritten, model_of, random, rewritten, value

import mlirtri as mt
from mlirtri.errors import ArgumentMismatchError, KernelTypeError, UnsupportedOperationError
from mlirtri.lowering.importers.from_onnx.graph import split_model
from mlirtri.lowering.importers.from_onnx.nodes import constant

COORDINATES = ["half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"]


@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("scales", [[1, 1, 0.6, 1.7], [1, 1, 2, 1], [1, 1, 0.3, 0.3]])
def test_a_resize_becomes_gathers(mode, coordinates, scales):
    attributes = {"mode": mode, "coordinate_transformation_mode": coordinates}
    node = helper.make_node("Resize", ["x", "", "s"], ["y"], **attributes)
    check_rewritten([node], {"x": random(1, 2, 5, 6)}, {"s": np.float32(scales)}, gone=["Resize"])


VARIANTS = [
    {"mode": "linear", "antialias": 1}, {"mode": "cubic", "antialias": 1, "cubic_coeff_a": -0.5},
    {"mode": "cubic", "exclude_outside": 1}, {"nearest_mode": "ceil"}, {"nearest_mode": "round_prefer_ceil"},
]  # fmt: skip


@pytest.mark.parametrize("attributes", VARIANTS)
def test_a_resize_to_sizes_becomes_gathers(attributes):
    node = helper.make_node("Resize", ["x", "", "", "s"], ["y"], axes=[2, 3], **attributes)
    check_rewritten([node], {"x": random(1, 2, 9, 6)}, {"s": np.int64([4, 8])}, gone=["Resize"])


def test_a_cropped_resize_extrapolates():
    attributes = {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 7.0}
    node = helper.make_node("Resize", ["x", "roi", "", "s"], ["y"], **attributes)
    weights = {"roi": np.float32([0, 0, 0.4, 0.6, 1, 1, 1.2, 1.7]), "s": np.int64([1, 1, 3, 3])}
    check_rewritten([node], {"x": random(1, 1, 4, 4)}, weights, gone=["Resize"])


def test_integers_are_not_interpolated():
    node = helper.make_node("Resize", ["x", "", "s"], ["y"], mode="linear")
    model = model_of([node], {"x": random(1, 1, 4, 4, dtype="uint8")}, {"s": np.float32([1, 1, 2, 2])})
    with pytest.raises(UnsupportedOperationError, match="Resize of integers"):
        mt.from_onnx(model)


QUANTIZED = {
    "axis": (random(2, 3, 4) * 40, np.float32([0.3, 0.2, 0.1]), np.uint8([3, 100, 7]), {"axis": 1}),
    "blocks": (random(3, 5) * 40, np.abs(random(3, 3)) + 0.1, random(3, 3, dtype="int8"), {"axis": 1, "block_size": 2}),
    "uint16": (random(6) * 9e4, np.float32(2), np.uint16(32767), {}),
}


@pytest.mark.parametrize("name", QUANTIZED)
def test_quantisation_broadcasts_its_scales(name):
    x, scale, zero, attributes = QUANTIZED[name]
    inputs = {"x": x, "s": scale, "z": zero}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], **attributes),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], **attributes),
    ]
    check_rewritten(nodes, inputs, outputs=("q", "y"), gone=["QuantizeLinear", "DequantizeLinear"])


def test_shapes_and_branches_are_folded():
    def branch(operator):
        outcome = helper.make_tensor_value_info("z", TensorProto.FLOAT, None)
        return helper.make_graph([helper.make_node(operator, ["x"], ["z"])], operator, [], [outcome])

    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "one"], ["width"]),
        helper.make_node("Greater", ["width", "two"], ["c"]),
        helper.make_node("If", ["c"], ["b"], then_branch=branch("Neg"), else_branch=branch("Abs")),
        helper.make_node("If", ["c"], ["d"], then_branch=branch("Exp"), else_branch=branch("Abs")),
        helper.make_node("Add", ["b", "d"], ["y"]),
    ]
    constants = {"one": np.array(1), "two": np.array(2)}
    check_rewritten(nodes, {"x": random(2, 3)}, constants, gone=["If", "Shape", "Gather", "Greater", "Abs"])


def attention():
    inputs = {"q": random(2, 4, 3, 8), "k": random(2, 2, 6, 8), "v": random(2, 2, 6, 8), "m": random(3, 6)}
    return [helper.make_node("Attention", ["q", "k", "v", "m"], ["y"], is_causal=1, softcap=2.0)], inputs


def normalised():
    inputs = {"x": random(2, 3, 5), "s": random(3, 5)}
    return [helper.make_node("RMSNormalization", ["x", "s"], ["y"], axis=1)], inputs


def loss():
    inputs = {"x": random(3, 5, 2), "t": np.int64([[0, 4], [2, -1], [1, 1]]), "w": np.abs(random(5))}
    return [helper.make_node("NegativeLogLikelihoodLoss", ["x", "t", "w"], ["y"], ignore_index=-1)], inputs


@pytest.mark.parametrize("make", [attention, normalised, loss])
def test_functions_of_onnx_are_expanded(make):
    nodes, inputs = make()
    check_rewritten(nodes, inputs, gone=[nodes[0].op_type, "If", "Shape"])


def sampled(mode, padding, aligned, volume):
    grid = np.linspace(-1.6, 1.6, 24, dtype=np.float32)
    sizes = (2, 3, 4) if volume else (3, 4)
    inputs = {"x": random(1, 2, *sizes), "g": grid.reshape(1, *([1] * (len(sizes) - 1)), -1, len(sizes))}
    attributes = {"mode": mode, "padding_mode": padding, "align_corners": aligned}
    return helper.make_node("GridSample", ["x", "g"], ["y"], **attributes), inputs


@pytest.mark.parametrize("aligned", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize(
    ("mode", "volume"), [("linear", True), ("nearest", False), ("cubic", False), ("linear", False)]
)
def test_samples_of_a_grid_become_gathers(mode, padding, aligned, volume):
    node, inputs = sampled(mode, padding, aligned, volume)
    check_rewritten([node], inputs, gone=["GridSample"], tolerance=1e-4)


OTHERS = {
    "norm pool": ("LpPool", [random(1, 2, 7, 6)], {"kernel_shape": [3, 2], "p": 3, "pads": [1, 0, 1, 1]}, None),
    "columns": ("Col2Im", [random(1, 8, 9)], {"strides": [2, 1]}, [np.int64([6, 4]), np.int64([2, 2])]),
    "transposed": ("ConvTranspose", [random(1, 2, 3, 3), random(2, 1, 3, 3)], {"group": 2}, None),
    "deformed": ("DeformConv", [random(1, 2, 4, 4), random(2, 2, 2, 2), random(1, 8, 3, 3)], {}, None),
    "spectrum": ("DFT", [random(2, 6, 1)], {"onesided": 1}, []),
    "inverse": ("DFT", [random(2, 5, 2)], {"inverse": 1}, []),
    "product": ("CumProd", [random(3, 5)], {"exclusive": 1, "reverse": 1}, [np.int64(1)]),
    "determinant": ("Det", [random(2, 4, 4)], {}, None),
    "singular": ("Det", [np.float32([[0, 1], [0, 2]])], {}, None),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_operators_become_others(name):
    kind, arrays, attributes, constants = OTHERS[name]
    inputs = {f"x{position}": array for position, array in enumerate(arrays)}
    weights = {f"w{position}": array for position, array in enumerate(constants or [])}
    node = helper.make_node(kind, [*inputs, *weights], ["y"], **attributes)
    gone = [kind] if kind != "ConvTranspose" else ["Group"]
    check_rewritten([node], inputs, weights, gone=gone, opset=26, tolerance=1e-4)


def looped(operator):
    """Return a loop or a scan that sums up rows, and collects the sums."""
    sums = [
        helper.make_node("Add", ["carried", "row"], ["total"]),
        helper.make_node("Identity", ["total"], ["collected"]),
    ]
    vectors = {
        name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in ("carried", "total", "row")
    }
    results = [vectors["total"], helper.make_tensor_value_info("collected", TensorProto.FLOAT, [3])]
    if operator == "Scan":
        body = helper.make_graph(sums, "body", [vectors["carried"], vectors["row"]], results)
        return helper.make_node("Scan", ["v", "x"], ["y", "z"], body=body, num_scan_inputs=1)
    numbers = [helper.make_tensor_value_info("i", TensorProto.INT64, []), helper.make_tensor_value_info("c", 9, [])]
    going = [helper.make_tensor_value_info("d", TensorProto.BOOL, []), *results]
    nodes = [helper.make_node("Gather", ["x", "i"], ["row"]), helper.make_node("Identity", ["c"], ["d"]), *sums]
    body = helper.make_graph(nodes, "body", [*numbers, vectors["carried"]], going)
    return helper.make_node("Loop", ["count", "go", "v"], ["y", "z"], body=body)


@pytest.mark.parametrize("operator", ["Loop", "Scan"])
def test_loops_of_a_constant_trip_count_are_unrolled(operator):
    inputs, weights = {"v": np.ones(3, np.float32), "x": random(4, 3)}, {"count": np.array(4), "go": np.array(True)}
    weights = weights if operator == "Loop" else {}
    check_rewritten([looped(operator)], inputs, weights, outputs=("y", "z"), gone=[operator])


def test_branches_of_constants_become_a_choice():
    arrays = {"then": random(3), "otherwise": random(3)}
    arms = [
        helper.make_graph([constant(name, array)], name, [], [value(name, array)]) for name, array in arrays.items()
    ]
    node = helper.make_node("If", ["c"], ["y"], then_branch=arms[0], else_branch=arms[1])
    check_rewritten([node], {"c": np.array(False)}, gone=["If"])


@pytest.mark.parametrize("direction", ["reverse", "bidirectional"])
def test_backward_recurrences_become_steps_in_reverse(direction):
    count = 2 if direction == "bidirectional" else 1
    inputs = {"x": random(3, 1, 2), "w": random(count, 4, 2), "r": random(count, 4, 4)}
    node = helper.make_node("RNN", list(inputs), ["y", "last"], hidden_size=4, direction=direction)
    check_rewritten([node], inputs, outputs=("y", "last"), gone=["RNN"])


@pytest.mark.parametrize("mode", ["linear", "circular"])
def test_scatters_into_a_cache_become_a_choice(mode):
    inputs = {"cache": random(2, 4, 3), "x": random(2, 2, 3), "i": np.int64([1, 2])}
    inputs["i"][1] = 3 if mode == "circular" else 2
    node = helper.make_node("TensorScatter", list(inputs), ["y"], mode=mode)
    check_rewritten([node], inputs, opset=24, gone=["TensorScatter"])


def test_slices_of_negative_steps_become_gathers():
    numbers = {"s": [20, -1, 1], "e": [0, -100, 3], "a": [0, 2, 1], "t": [-2, -1, 1]}
    weights = {name: np.int64(elements) for name, elements in numbers.items()}
    node = helper.make_node("Slice", ["x", *weights], ["y"])
    check_rewritten([node], {"x": random(5, 4, 3)}, weights, gone=["Slice"])


@pytest.mark.parametrize("shapes", [((2, 3, 4), (4,)), ((3,), (2, 3, 4)), ((4,), (4,)), ((3, 4), (4,))])
def test_products_with_vectors_keep_their_shapes(shapes):
    inputs = {"a": random(*shapes[0]), "b": random(*shapes[1])}
    check_rewritten([helper.make_node("MatMul", ["a", "b"], ["y"])], inputs)


def test_bits_are_reinterpreted():
    node = helper.make_node("BitCast", ["x"], ["y"], to=TensorProto.INT32)
    check(model_of([node], {"x": random(2, 3)}, opset=26), {"x": random(2, 3)})


def test_an_error_in_a_definition_shows_the_line_of_its_node():
    nodes, inputs = normalised()
    nodes[0].name = "norm"
    graph, _ = split_model(model_of(nodes, inputs, opset=23), "net", "<nodes>")
    assert all(node.name.startswith("norm.") for node in graph.model.graph.node if node.op_type != "Constant")


def test_an_expanded_function_is_compiled():
    nodes, inputs = attention()
    check(model_of(nodes, inputs, opset=23), inputs)


NARROW = [ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.int2, ml_dtypes.uint2, ml_dtypes.float4_e2m1fn]


def test_narrow_results_have_the_dtypes_of_onnx():
    x = np.float32([0.25, -0.75, 1.25, 2.5, 5, -9, 0, 3, -3.6])
    kinds = [helper.np_dtype_to_tensor_dtype(np.dtype(dtype)) for dtype in NARROW]
    names = tuple(f"y{kind}" for kind in kinds)
    nodes = [helper.make_node("Cast", ["x"], [name], to=kind) for name, kind in zip(names, kinds, strict=True)]
    model = model_of(nodes, {"x": x}, outputs=names, opset=25)
    for result, dtype in zip(mt.from_onnx(model)(x), NARROW, strict=True):
        assert result.dtype == dtype
        np.testing.assert_array_equal(result.astype(np.float32), x.astype(dtype).astype(np.float32))


def test_narrow_arguments_and_weights_are_their_numbers():
    weights = {"w": np.arange(-8, 8).astype(ml_dtypes.int4)}
    codes = np.arange(16, dtype=np.uint8).view(ml_dtypes.float4_e2m1fn)
    nodes = [
        helper.make_node("Cast", ["w"], ["a"], to=TensorProto.FLOAT),
        helper.make_node("Cast", ["x"], ["b"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["a", "b"], ["y"]),
    ]
    model = model_of(nodes, {"x": codes}, weights, opset=25)
    np.testing.assert_array_equal(mt.from_onnx(model)(codes), np.arange(-8, 8) + codes.astype(np.float32))


A = np.int64([1])


def summed():
    node = helper.make_node("ReduceSum", ["x", "axes"], ["y"], keepdims=0)
    graph = helper.make_graph(
        [node], "net", [value("x", random(1), [2, 3]), value("axes", A)], [value("y", random(1), ["n"])]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


def test_inputs_that_decide_shapes_are_specialized_on():
    program = mt.from_onnx(summed())
    x = random(2, 3)
    for axis in (0, -1):
        np.testing.assert_allclose(program(x, np.int64([axis])), x.sum(axis), rtol=1e-6)
    np.testing.assert_allclose(program(axes=np.int64([-1]), x=x), x.sum(1), rtol=1e-6)
    with pytest.raises(ArgumentMismatchError, match="'axes' was compiled for int64, got float32"):
        program(x, np.float32([1]))
    with pytest.raises(ArgumentMismatchError, match="misses the argument 'axes'"):
        program(x)


def test_values_make_inputs_constants():
    x = random(2, 3)
    with pytest.raises(KernelTypeError, match=r"elements of input 'axes' of this model decide shapes"):
        mt.from_onnx(summed()).compile()
    with pytest.raises(KernelTypeError, match="no input 'axis'"):
        mt.from_onnx(summed(), values={"axis": A})
    np.testing.assert_allclose(mt.from_onnx(summed(), values={"axes": A}).compile()(x), x.sum(1), rtol=1e-6)


def test_run_time_sizes_are_folded_where_they_are_known():
    shape = helper.make_node("Shape", ["x"], ["y"], start=1)
    graph = helper.make_graph([shape], "net", [value("x", random(1), ["n", 3])], [value("y", A, [1])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    assert [node.op_type for node in rewritten(model).graph.node] == ["Constant"]


@pytest.mark.parametrize(("operator", "gates"), [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
def test_sequences_of_one_length_compile_and_lengths_outside_of_the_input_are_refused(operator, gates):
    random = np.random.default_rng(0)
    weights = {
        "w": random.standard_normal((1, 3 * gates, 2)), "r": random.standard_normal((1, 3 * gates, 3)),
        "b": np.zeros((1, 6 * gates)),
    }  # fmt: skip

    def program(lengths):
        inputs = ["x", "w", "r", *(["b", "lengths"] if lengths else [])]
        constants = {name: array.astype(np.float32) for name, array in weights.items()}
        constants |= {"lengths": np.array(lengths, np.int32)} if lengths else {}
        initializers = [numpy_helper.from_array(array, name) for name, array in constants.items()]
        node = helper.make_node(operator, inputs, ["y"], hidden_size=3)
        x, y = (helper.make_tensor_value_info(*parts) for parts in (("x", 1, (4, 2, 2)), ("y", 1, (4, 1, 2, 3))))
        graph = helper.make_graph([node], "recurrence", [x], [y], initializers)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        return mt.from_onnx(model)

    x = random.standard_normal((4, 2, 2)).astype(np.float32)
    np.testing.assert_array_equal(program([4, 4])(x), program([])(x))
    with pytest.raises(UnsupportedOperationError, match=r"sequences of \[1, 5\] steps in an input of 4"):
        program([1, 5])(x)
