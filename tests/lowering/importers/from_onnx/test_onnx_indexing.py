"""Scatters, pads, pools, ranges and recurrent layers that are rewritten: ONNX's reference before and after."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator
from onnx_models import PIPELINES, check, check_rewritten, model_of, random, rewritten


@pytest.mark.parametrize("reduction", ["min", "max"])
@pytest.mark.parametrize("axis", [0, -1])
def test_scatters_by_extrema_become_choices(reduction, axis):
    node = helper.make_node("ScatterElements", ["x", "i", "u"], ["y"], reduction=reduction, axis=axis)
    index = np.array([[0, -1, 2], [2, 1, 2], [0, 0, 0]], np.int64)
    check_rewritten([node], {"x": random(3, 3), "i": index, "u": random(3, 3)}, gone=["ScatterElements"])


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_scatters_by_extrema_into_a_part_of_the_axes_are_a_loop(pipeline):
    node = helper.make_node("ScatterElements", ["x", "i", "u"], ["y"], reduction="min", axis=0)
    inputs = {"x": random(4, 3), "i": np.int64([[0, -1], [2, 2], [0, 1]]), "u": random(3, 2)}
    check(model_of([node], inputs), inputs, pipeline)


@pytest.mark.parametrize("pads", [[0, 1, 2, 0, 0, 3], [0, 5, 0, 0, 0, 9]])
def test_wrapped_pads_become_gathers(pads):
    node = helper.make_node("Pad", ["x", "p"], ["y"], mode="wrap")
    check_rewritten([node], {"x": random(2, 3, 4)}, {"p": np.int64(pads)}, gone=["Pad"])


def test_empty_reshapes_ranges_and_sums_of_nothing():
    node = helper.make_node("Reshape", ["x", "s"], ["y"], allowzero=1)
    check_rewritten([node], {"x": random(0, 3, 4)}, {"s": np.int64([3, 4, 0])}, gone=["Reshape"])
    node = helper.make_node("Einsum", ["x"], ["y"], equation="ij->ij")
    check_rewritten([node], {"x": random(2, 3)}, gone=["Einsum"])
    bounds = {name: np.array(number, np.float16) for name, number in (("a", 1), ("b", 3), ("c", 0.3))}
    check_rewritten([helper.make_node("Range", list(bounds), ["y"])], {"x": random(1)}, bounds, opset=27)


@pytest.mark.parametrize("order", [0, 1])
def test_the_indices_of_a_pool_are_those_of_the_tensor(order):
    node = helper.make_node("MaxPool", ["x"], ["y", "i"], kernel_shape=[2, 2], strides=[1, 2], storage_order=order)
    inputs = {"x": random(2, 3, 5, 6)}
    check(model_of([node], inputs, outputs=("y", "i")), inputs)


@pytest.mark.parametrize("padding", ["SAME_UPPER", "SAME_LOWER"])
def test_transposed_convolutions_of_the_same_size_are_sliced(padding):
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], auto_pad=padding, strides=[2, 1], dilations=[1, 2])
    inputs = {"x": random(1, 2, 4, 5), "w": random(2, 3, 3, 2)}
    attributes = {"strides": [2, 1], "dilations": [1, 2], "pads": [0, 1, 1, 1]}
    if padding == "SAME_LOWER":
        attributes["pads"] = [1, 1, 0, 1]
    explicit = model_of([helper.make_node("ConvTranspose", ["x", "w"], ["y"], **attributes)], inputs)
    [expected] = ReferenceEvaluator(explicit).run(None, inputs)
    [result] = ReferenceEvaluator(rewritten(model_of([node], inputs))).run(None, inputs)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("layer", "gates", "states"), [("GRU", 3, 1), ("LSTM", 4, 2), ("RNN", 1, 1)])
@pytest.mark.parametrize("direction", ["reverse", "bidirectional"])
def test_recurrent_layers_run_backward_on_reversed_inputs(layer, gates, states, direction):
    count, width, hidden = (2 if direction == "bidirectional" else 1), 2, 3
    # Few steps are written out, which the reference runs.
    x, outputs = random(3, 2, width), ["y", "h", "c"][: 1 + states]
    weights = {"w": random(count, gates * hidden, width), "r": random(count, gates * hidden, hidden)}
    weights |= {"b": random(count, 2 * gates * hidden), "h0": random(count, 2, hidden), "c0": random(count, 2, hidden)}
    names = ["w", "r", "b", "", "h0", "c0"][: 4 + states]
    node = helper.make_node(layer, ["x", *names], outputs, direction=direction, hidden_size=hidden)
    inputs = {"x": x} | weights
    result = ReferenceEvaluator(rewritten(model_of([node], inputs, None, tuple(outputs)))).run(None, inputs)
    parts = []
    for number in range(count):
        own = {name: array[number : number + 1] for name, array in weights.items()}
        forward = helper.make_node(layer, ["x", *names], outputs, hidden_size=hidden)
        own["x"] = x[::-1].copy() if number == count - 1 else x
        y, *last = ReferenceEvaluator(model_of([forward], own, None, tuple(outputs))).run(None, own)
        parts.append([y[::-1] if number == count - 1 else y, *last])
    for position, arrays in enumerate(zip(*parts, strict=True)):
        np.testing.assert_allclose(result[position], np.concatenate(arrays, int(not position)), rtol=1e-5, atol=1e-5)
