"""Loops and scans that are not unrolled, conditions that end loops early, and Scan with a batch."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_models import PIPELINES, check, random

import mlirtri as mt
from mlirtri.errors import UnsupportedOperationError

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
info, node = helper.make_tensor_value_info, helper.make_node


def model_of_loop(operands: str, collects: bool = True, count: int = 70, limit: float = 9):
    """Return a loop that sums rows of x until the sum is too large, and collects the sums with other signs."""
    nodes = [
        node("Gather", ["x", "i"], ["row"]), node("Add", ["v", "row"], ["w"]), node("Neg", ["w"], ["e"]),
        node("ReduceSum", ["w", "axis"], ["s"], keepdims=0), node("Less", ["s", "limit"], ["d"]),
    ]  # fmt: skip
    results = [info("d", BOOL, []), info("w", FLOAT, [2]), *([info("e", FLOAT, [2])] if collects else [])]
    body = helper.make_graph(nodes, "body", [info("i", INT64, []), info("c", BOOL, []), info("v", FLOAT, [2])], results)
    outputs = ["y", "z"] if collects else ["y"]
    loop = node("Loop", [*operands.split(","), "start"], outputs, body=body)
    # A user of the carried value, whose type ONNX does not infer.
    nodes = [loop, node("Mul", ["y", "y"], ["q"])]
    constants = {
        "n": np.array(count), "true": np.array(True), "axis": np.int64([0]), "limit": np.float32(limit),
        "start": np.zeros(2, np.float32),
    }  # fmt: skip
    types = [info("q", FLOAT, [2]), *([info("z", FLOAT, [None, 2])] if collects else [])]
    initializers = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "net", [info("x", FLOAT, [70, 2])], types, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


X = np.abs(random(70, 2))


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_a_condition_ends_a_loop_that_collects(pipeline):
    check(model_of_loop("n,true"), {"x": X}, pipeline)


@pytest.mark.parametrize("operands", ["n,true", ",true"])
def test_a_condition_ends_a_loop(operands):
    check(model_of_loop(operands, collects=False), {"x": X})


def test_a_loop_ends_by_its_trip_count_and_without_a_condition():
    check(model_of_loop("n,true", limit=1e9), {"x": X})
    # ONNX: without a condition the body's counts for nothing.
    program = mt.from_onnx(model_of_loop("n,", count=69))
    total, sums = program(X)
    np.testing.assert_allclose(total, X[:69].sum(0) ** 2, rtol=1e-5)
    np.testing.assert_allclose(sums, -X[:69].cumsum(0), rtol=1e-5)


def test_loops_that_never_end_or_collect_without_an_end_are_refused():
    with pytest.raises(UnsupportedOperationError, match="never ends"):
        mt.from_onnx(model_of_loop(",", collects=False))
    with pytest.raises(UnsupportedOperationError, match="an unknown number of them"):
        mt.from_onnx(model_of_loop(",true"))


def scan_of(version: int, inputs: dict, results: dict, operands: list[str], **attributes):
    nodes = [node("Add", ["v", "row"], ["w"]), node("Mul", ["w", "other"], ["e"])]
    vectors = [info(name, FLOAT, [2]) for name in ("v", "row", "other")]
    body = helper.make_graph(nodes, "body", vectors, [info(name, FLOAT, [2]) for name in ("w", "e")])
    scan = node("Scan", operands, ["y", "z"], body=body, num_scan_inputs=2, **attributes)
    graph = helper.make_graph(
        [scan], "net", [info(name, FLOAT, array.shape) for name, array in inputs.items()],
        [info(name, FLOAT, shape) for name, shape in results.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)])


def scanned(v, x, u):
    states = v + np.cumsum(x, 0)
    return states[-1], states * u


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_a_long_scan_is_a_loop(pipeline):
    inputs = {"v": random(2), "x": X, "u": random(2, 70)}
    directions = {"scan_input_axes": [0, 1], "scan_input_directions": [1, 0]}
    placed = {"scan_output_axes": [-1], "scan_output_directions": [1]}
    model = scan_of(20, inputs, {"y": [2], "z": [2, 70]}, list(inputs), **directions, **placed)
    last, every = mt.from_onnx(model).compile(pipeline=pipeline)(*inputs.values())
    expected = scanned(inputs["v"], X[::-1], inputs["u"].T)
    np.testing.assert_allclose(last, expected[0], rtol=1e-5)
    np.testing.assert_allclose(every, expected[1][::-1].T, rtol=1e-5, atol=1e-6)


def test_a_scan_of_version_8_has_a_batch():
    inputs = {"v": random(2, 2), "x": random(2, 3, 2), "u": random(2, 3, 2)}
    model = scan_of(8, inputs, {"y": [2, 2], "z": [2, 3, 2]}, ["", *inputs], directions=[1, 0])
    result = mt.from_onnx(model)(*inputs.values())
    expected = [scanned(v, x[::-1], u) for v, x, u in zip(*inputs.values(), strict=True)]
    for array, other in zip(result, map(np.stack, zip(*expected, strict=True)), strict=True):
        np.testing.assert_allclose(array, other, rtol=1e-5, atol=1e-6)
    lengths = info("n", INT64, [2])
    model.graph.node[0].input[0] = "n"
    model.graph.input.append(lengths)
    with pytest.raises(UnsupportedOperationError, match="of several lengths"):
        mt.from_onnx(onnx.ModelProto.FromString(model.SerializeToString()))
