"""Nodes of ONNX that torch-mlir lowers incorrectly: right after repairs, or refused."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_models import PIPELINES, RNG, check, model_of, random, value

import mlirtri as mt
from mlirtri.errors import (
    UnsupportedOperationError,
)


def gelu():
    return [helper.make_node("Gelu", ["x"], ["y"], approximate="tanh")], {"x": random(4, 5)}


def normalised():
    return [helper.make_node("LpNormalization", ["x"], ["y"], axis=1)], {"x": np.float32([[0, 0], [3, 4]])}


def space_to_depth():
    return [helper.make_node("SpaceToDepth", ["x"], ["y"], blocksize=2)], {"x": random(1, 2, 4, 4)}


def sampled():
    inputs = {"x": random(1, 2, 3, 4), "grid": np.float32(RNG.integers(-6, 7, (1, 2, 5, 2)) / 4)}
    return [helper.make_node("GridSample", ["x", "grid"], ["y"], mode="nearest")], inputs


def saturated():
    nodes = [
        helper.make_node("CastLike", ["x", "like"], ["narrow"]),
        helper.make_node("Cast", ["narrow"], ["y"], to=TensorProto.FLOAT),
    ]
    like = np.array([1], ml_dtypes.float8_e4m3fn)
    return nodes, {"x": np.float32([0.4, 1000, -np.inf, np.nan, 448, 3.3]), "like": like}


def weighted_loss():
    node = helper.make_node("SoftmaxCrossEntropyLoss", ["x", "t", "w"], ["y"])
    return [node], {"x": random(3, 5), "t": np.int64([0, 4, 2]), "w": np.float32([0.1, 0.2, 0.3, 0.4, 0.5])}


def signs():
    return [helper.make_node("Sign", ["x"], ["y"])], {"x": np.float32([np.nan, -2, -0.0, np.inf])}


WINDOWS = {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}


def counted_padding():
    nodes = [
        helper.make_node("AveragePool", ["x"], ["p"], pads=[1, 1, 1, 1], count_include_pad=1, **WINDOWS),
        helper.make_node("AveragePool", ["p"], ["y"], count_include_pad=1, **WINDOWS),
    ]
    return nodes, {"x": random(1, 2, 6, 6)}


def quantised_product():
    inputs = {
        "a": random(2, 2, 4, dtype="uint8") + 120, "as": np.float32([0.01]), "az": np.uint8([113]),
        "b": random(2, 4, 3, dtype="uint8") + 130, "bs": np.float32([0.02]), "bz": np.uint8([114]),
        "ys": np.float32([0.01]), "yz": np.uint8([118]),
    }  # fmt: skip
    return [helper.make_node("QLinearMatMul", list(inputs), ["y"])], inputs


def quantised_pixels():
    """A convolution that sums one number: its reduction axes are all of one, and its result is rounded at once."""
    inputs = {
        "x": np.arange(49, dtype=np.uint8).reshape(1, 1, 7, 7) * 5, "xs": np.float32(0.00369), "xz": np.uint8(132),
        "w": np.zeros((1, 1, 1, 1), np.uint8), "ws": np.float32([0.00172]), "wz": np.uint8([255]),
        "ys": np.float32(0.00162), "yz": np.uint8(123),
    }  # fmt: skip
    return [helper.make_node("QLinearConv", list(inputs), ["y"])], inputs


REPAIRED = (gelu, normalised, space_to_depth, sampled, saturated, weighted_loss, quantised_product, quantised_pixels)


REPAIRED += (signs, counted_padding)


@pytest.mark.parametrize("make", REPAIRED)
def test_repaired_operators_match_the_reference(make):
    nodes, inputs = make()
    check(model_of(nodes, inputs), inputs, tolerance=1e-6)


@pytest.mark.parametrize(("sizes", "match"), [([1, 1, 6, 6], "past the tensor"), ([1, 1, "h", 6], "run time")])
def test_average_pools_that_upstream_gets_wrong_are_refused(sizes, match):
    node = helper.make_node(
        "AveragePool", ["x"], ["y"], kernel_shape=[2, 2], strides=[3, 3], pads=[0, 0, 1, 1], ceil_mode=1,
        count_include_pad=1,
    )  # fmt: skip
    graph = helper.make_graph([node], "net", [value("x", random(1), sizes)], [value("y", random(1), [1, 1, "p", "q"])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)])
    with pytest.raises(UnsupportedOperationError, match=match):
        mt.from_onnx(model)


def test_a_resize_of_run_time_sizes_that_upstream_gets_wrong_is_refused():
    node = helper.make_node(
        "Resize", ["x", "", "s"], ["y"], mode="linear", coordinate_transformation_mode="align_corners"
    )
    weights = [numpy_helper.from_array(np.float32([1, 1, 0.6, 0.6]), "s")]
    image = value("x", random(1), [1, 1, "h", 4])
    graph = helper.make_graph([node], "net", [image], [value("y", random(1), [1, 1, "p", 2])], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    with pytest.raises(UnsupportedOperationError, match="aligned corners"):
        mt.from_onnx(model)


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_powers_of_integers_are_exact_and_wrap(pipeline):
    x, y = np.array([3, 7, -3, 0, 1, -1]), np.array([38, 20, 35, 0, 2**40, 2**40 + 1])
    check(model_of([helper.make_node("Pow", ["x", "e"], ["y"])], {"x": x, "e": y}), {"x": x, "e": y}, pipeline)


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("operator", ["ArgMax", "ArgMin"])
def test_argmax_and_argmin_return_the_index_of_a_nan(operator, last):
    x = np.array([[1, np.nan, 3], [np.nan, 2, np.nan], [1, 2, 0]], np.float32)
    node = helper.make_node(operator, ["x"], ["y"], axis=1, select_last_index=last, keepdims=0)
    check(model_of([node], {"x": x}), {"x": x})


def test_a_product_of_quantised_tensors_rounds_ties_to_even():
    a, b = RNG.integers(0, 255, (8, 16)).astype(np.uint8), RNG.integers(0, 255, (16, 8)).astype(np.uint8)
    weights = {
        "as": np.array(0.5, np.float32), "az": np.array(3, np.uint8), "bs": np.array(0.25, np.float32),
        "bz": np.array(100, np.uint8), "ys": np.array(16, np.float32), "yz": np.array(128, np.uint8),
    }  # fmt: skip
    node = helper.make_node("QLinearMatMul", ["a", "as", "az", "b", "bs", "bz", "ys", "yz"], ["y"])
    check(model_of([node], {"a": a, "b": b}, weights), {"a": a, "b": b}, tolerance=0)


def test_repairs_reach_into_branches():
    x, condition = np.array([-2, np.nan, 0, 3], np.float32), np.array(True)
    arms = [
        helper.make_graph([helper.make_node(operator, ["x"], [name])], name, [], [value(name, x)])
        for operator, name in (("Sign", "then"), ("Neg", "otherwise"))
    ]
    node = helper.make_node("If", ["c"], ["y"], then_branch=arms[0], else_branch=arms[1])
    check(model_of([node], {"c": condition, "x": x}), {"c": condition, "x": x})


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_numbers_are_quantised_to_16_bits(pipeline):
    scale, zeros = {"s": np.float32(0.5)}, {"a": np.uint16(40000), "b": np.int16(-9)}
    nodes = [helper.make_node("QuantizeLinear", ["x", "s", zero], [f"y{zero}"]) for zero in zeros]
    x = np.float32([-3e4, -7.3, 0, 1.25, 12345, 3e4])
    check(model_of(nodes, {"x": x}, scale | zeros, ("ya", "yb"), opset=21), {"x": x}, pipeline)


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("operator", ["ReduceSum", "ReduceMean"])
def test_long_sums_of_fp16_are_added_in_fp32(operator, pipeline):
    x, axis = np.full((2, 100000), 0.3, np.float16), {"axis": np.array([1])}
    program = mt.from_onnx(model_of([helper.make_node(operator, ["x", "axis"], ["y"], keepdims=0)], {"x": x}, axis))
    wanted = getattr(x.astype(np.float64), {"ReduceSum": "sum", "ReduceMean": "mean"}[operator])(1).astype(np.float16)
    np.testing.assert_array_equal(program.compile(pipeline=pipeline)(x), wanted)


def test_a_softmax_of_fp16_rounds_as_the_definition():
    x = RNG.random((24, 6)).astype(np.float16)
    check(model_of([helper.make_node("Softmax", ["x"], ["y"])], {"x": x}, opset=21), {"x": x}, tolerance=0)
