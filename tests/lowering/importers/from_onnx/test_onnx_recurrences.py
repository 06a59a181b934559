"""Recurrent layers over sequences of several lengths, and LSTMs with peepholes, against loops of NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator
from onnx_models import check, check_rewritten, model_of, random, rewritten, value

import mlirtri as mt
from mlirtri.errors import UnsupportedOperationError

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
HIDDEN, WIDTH = 3, 2


def operands(layer: str, steps: int, batch: int, count: int, lengths=None, holes: bool = False) -> dict:
    gates = GATES[layer]
    inputs = {
        "x": random(steps, batch, WIDTH), "w": random(count, gates * HIDDEN, WIDTH),
        "r": random(count, gates * HIDDEN, HIDDEN), "b": random(count, 2 * gates * HIDDEN),
    }  # fmt: skip
    if lengths is not None:
        inputs["n"] = np.array(lengths, np.int32)
    inputs["h0"] = random(count, batch, HIDDEN)
    if layer == "LSTM":
        inputs["c0"] = random(count, batch, HIDDEN)
    return inputs | ({"p": random(count, 3 * HIDDEN)} if holes else {})


def node_of(layer: str, inputs: dict, outputs: list[str], direction: str = "forward", **attributes):
    order = ["x", "w", "r", "b", "n", "h0", "c0", "p"]
    names = [name if name in inputs else "" for name in order[: 6 if layer != "LSTM" else 8]]
    return helper.make_node(layer, names, outputs, direction=direction, hidden_size=HIDDEN, **attributes)


def sequence_by_sequence(layer: str, inputs: dict, direction: str) -> list[np.ndarray]:
    """Run each sequence alone, cut to its length, through ONNX's reference, which reads no lengths."""
    steps, batch, _ = inputs["x"].shape
    count = len(inputs["w"])
    states = 2 if layer == "LSTM" else 1
    result = [np.zeros((steps, count, batch, HIDDEN), np.float32)]
    result += [inputs[name].copy() for name in ("h0", "c0")[:states]]
    for row, length in enumerate(inputs["n"]):
        for number in range(count if length else 0):
            own = {name: array[number : number + 1] for name, array in inputs.items() if name not in "xn"}
            own |= {name: own[name][:, row : row + 1] for name in ("h0", "c0")[:states]}
            is_backward = direction != "forward" and number == count - 1
            own["x"] = inputs["x"][:length, row : row + 1][:: -1 if is_backward else 1].copy()
            outputs = ["y", "h", "c"][: 1 + states]
            model = model_of([node_of(layer, own, outputs)], own, None, tuple(outputs))
            y, *last = ReferenceEvaluator(model).run(None, own)
            result[0][:length, number, row] = y[:: -1 if is_backward else 1, 0, 0]
            for position, state in enumerate(last, 1):
                result[position][number, row] = state[0, 0]
    return result


CASES = [
    *((layer, direction, 1 + (layer == "LSTM") + 1) for layer in GATES for direction in ("forward", "bidirectional")),
    ("LSTM", "reverse", 3), ("GRU", "reverse", 2), ("LSTM", "bidirectional", 2),
]  # fmt: skip


@pytest.mark.parametrize(("layer", "direction", "results"), CASES)
def test_steps_past_a_sequence_are_zero_and_states_are_those_at_its_length(layer, direction, results):
    count, outputs = (2 if direction == "bidirectional" else 1), ["y", "h", "c"][:results]
    inputs = operands(layer, 3, 4, count, lengths=[2, 3, 0, 1])
    model = model_of([node_of(layer, inputs, outputs, direction)], inputs, None, tuple(outputs))
    expected = sequence_by_sequence(layer, inputs, direction)[:results]
    for one, other in zip(ReferenceEvaluator(rewritten(model)).run(None, inputs), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("layer", "attributes"), [("GRU", {}), ("GRU", {"linear_before_reset": 1}), ("LSTM", {})])
def test_layers_are_loops_over_products_made_before(layer, attributes):
    inputs, outputs = operands(layer, 5, 2, 1), ("y", "h", "c")[: 2 + (layer == "LSTM")]
    model = model_of([node_of(layer, inputs, list(outputs), **attributes)], inputs, None, outputs)
    check(model, inputs, "mlir")
    [loop] = [node for node in rewritten(model).graph.node if node.op_type == "Loop"]
    [body] = [attribute.g for attribute in loop.attribute if attribute.name == "body"]
    products = sum(node.op_type == "MatMul" for node in body.node)
    assert products == (2 if layer == "GRU" and not attributes else 1)
    assert not any(node.op_type == "Transpose" for node in body.node)


def test_lengths_of_a_loop():
    inputs = operands("GRU", 5, 4, 1, lengths=[2, 5, 0, 1])
    model = model_of([node_of("GRU", inputs, ["y", "h"], "reverse")], inputs, None, ("y", "h"))
    found = mt.from_onnx(model).compile(pipeline="mlir")(*inputs.values())
    for one, other in zip(found, sequence_by_sequence("GRU", inputs, "reverse"), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("layer", ["LSTM", pytest.param("GRU", marks=pytest.mark.slow)])
def test_lengths_given_at_run_time_compile(layer):
    inputs = operands(layer, 2, 2, 1, lengths=[2, 1], holes=layer == "LSTM")
    outputs = ["y", "h", "c"][: 3 if layer == "LSTM" else 2]
    kernel = mt.from_onnx(model_of([node_of(layer, inputs, outputs, "reverse")], inputs, None, tuple(outputs)))
    for lengths in ([2, 1], [1, 2]):
        inputs["n"] = np.array(lengths, np.int32)
        expected = sequence_by_sequence(layer, inputs, "reverse")
        for one, other in zip(kernel(*inputs.values()), expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
    for lengths in ([3, 1], [1, -1]):
        inputs["n"] = np.array(lengths, np.int32)
        with pytest.raises(IndexError, match="out of bounds"):
            kernel(*inputs.values())


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_an_lstm_with_peepholes_matches_the_reference(direction):
    count = 2 if direction == "bidirectional" else 1
    inputs, outputs = operands("LSTM", 3, 2, count, holes=True), ["y", "h", "c"]
    check_rewritten([node_of("LSTM", inputs, outputs, direction)], inputs, gone=("LSTM",), outputs=tuple(outputs))


@pytest.mark.parametrize(("pipeline", "direction"), [("linalg", "forward"), ("mlir", "bidirectional")])
def test_a_long_lstm_with_peepholes_is_a_loop(pipeline, direction):
    count = 2 if direction == "bidirectional" else 1
    inputs, outputs = operands("LSTM", 65, 2, count, holes=True), ("y", "h", "c")
    check(model_of([node_of("LSTM", inputs, list(outputs), direction)], inputs, None, outputs), inputs, pipeline)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


FUNCTIONS = {
    "Relu": lambda x: np.maximum(x, 0), "Tanh": np.tanh, "Sigmoid": sigmoid, "Affine": lambda x: 0.5 * x + 0.25,
    "LeakyRelu": lambda x: np.where(x < 0, 0.01 * x, x), "ThresholdedRelu": lambda x: np.where(x > 1, x, 0),
    "ScaledTanh": lambda x: 0.5 * np.tanh(0.25 * x), "HardSigmoid": lambda x: np.clip(0.2 * x + 0.5, 0, 1),
    "Elu": lambda x: np.where(x < 0, np.exp(x) - 1, x), "Softsign": lambda x: x / (1 + np.abs(x)),
    "Softplus": lambda x: np.log1p(np.exp(x)),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_activations_are_those_of_onnx(name):
    inputs = {"x": 3 * random(2, 3, WIDTH), "w": random(1, HIDDEN, WIDTH), "r": random(1, HIDDEN, HIDDEN)}
    scales = {"activation_alpha": [0.5], "activation_beta": [0.25]} if name in ("Affine", "ScaledTanh") else {}
    node = helper.make_node("RNN", list(inputs), ["y"], hidden_size=HIDDEN, activations=[name.upper()], **scales)
    state, expected = np.zeros((3, HIDDEN), np.float32), []
    for row in inputs["x"]:
        state = FUNCTIONS[name](row @ inputs["w"][0].T + state @ inputs["r"][0].T)
        expected.append(state)
    [found] = ReferenceEvaluator(rewritten(model_of([node], inputs))).run(None, inputs)
    np.testing.assert_allclose(found[:, 0], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("activation", "message"), [("Affine", "has no defaults"), ("Swish", "does not define")])
def test_activations_that_onnx_does_not_define_are_refused(activation, message):
    inputs = {"x": random(2, 1, WIDTH), "w": random(1, HIDDEN, WIDTH), "r": random(1, HIDDEN, HIDDEN)}
    node = helper.make_node("RNN", list(inputs), ["y"], hidden_size=HIDDEN, activations=[activation])
    with pytest.raises(UnsupportedOperationError, match=message):
        rewritten(model_of([node], inputs))


def clipped_lstm(inputs: dict, clip: float) -> list[np.ndarray]:
    """Run an LSTM with peepholes, a clip, and 1 minus the input gate as forget gate."""

    def clipped(x):
        return np.clip(x, -clip, clip)

    biases, (of_input, of_output, _) = inputs["b"][0].reshape(2, -1).sum(0), np.split(inputs["p"][0], 3)
    state, cell, outputs = inputs["h0"][0], inputs["c0"][0], []
    for row in inputs["x"]:
        sums = np.split(row @ inputs["w"][0].T + state @ inputs["r"][0].T + biases, 4, axis=-1)
        taken = sigmoid(clipped(sums[0] + of_input * cell))
        cell = (1 - taken) * cell + taken * np.tanh(clipped(sums[3]))
        state = sigmoid(clipped(sums[1] + of_output * cell)) * np.tanh(cell)
        outputs.append(state[None])
    return [np.stack(outputs), state[None], cell[None]]


def test_a_clipped_lstm_with_one_gate_for_input_and_forget():
    inputs, attributes = operands("LSTM", 6, 2, 1, holes=True), {"clip": 0.3, "input_forget": 1}
    outputs = ["y", "h", "c"]
    model = model_of([node_of("LSTM", inputs, outputs, **attributes)], inputs, None, tuple(outputs))
    found = mt.from_onnx(model).compile(pipeline="mlir")(*inputs.values())
    for one, other in zip(found, clipped_lstm(inputs, 0.3), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("layer", [pytest.param("RNN", marks=pytest.mark.slow), "LSTM"])
def test_batches_and_steps_of_run_time_sizes(layer):
    """One compilation serves all, with lengths and initial states, in both directions."""
    outputs = ["y", "h", "c"][: 2 + (layer == "LSTM")]
    inputs = operands(layer, 5, 2, 2, lengths=[5, 3])
    node = node_of(layer, inputs, outputs, "bidirectional")
    sizes = {"x": ["steps", "batch", WIDTH], "n": ["batch"], "h0": [2, "batch", HIDDEN], "c0": [2, "batch", HIDDEN]}
    types = [value(name, array, sizes.get(name)) for name, array in inputs.items()]
    results = [helper.make_tensor_value_info(name, 1, [None] * (4 if name == "y" else 3)) for name in outputs]
    graph = helper.make_graph([node], "net", types, results)
    kernel = mt.from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]))
    for steps, lengths in ((5, [5, 3]), (1, [1, 0, 1]), (7, [4])):
        inputs |= operands(layer, steps, len(lengths), 2, lengths)
        expected = sequence_by_sequence(layer, inputs, "bidirectional")
        for one, other in zip(kernel(*inputs.values()), expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
    inputs |= operands(layer, 2, 1, 2, [3])
    with pytest.raises(IndexError, match="out of bounds"):
        kernel(*inputs.values())


def test_batches_first():
    inputs = operands("GRU", 3, 2, 1)
    expected = ReferenceEvaluator(model_of([node_of("GRU", inputs, ["y", "h"])], inputs, None, ("y", "h")))
    y, h = expected.run(None, inputs)
    swapped = inputs | {name: np.ascontiguousarray(inputs[name].swapaxes(0, 1)) for name in ("x", "h0")}
    model = model_of([node_of("GRU", swapped, ["y", "h"], layout=1)], swapped, None, ("y", "h"))
    found = ReferenceEvaluator(rewritten(model)).run(None, swapped)
    np.testing.assert_allclose(found[0], y.transpose(2, 0, 1, 3), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found[1], h.swapaxes(0, 1), rtol=1e-5, atol=1e-6)
