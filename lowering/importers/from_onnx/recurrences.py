"""Rewrite recurrent layers that run backward or have lengths of sequences, and scatters into caches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mlirtri.errors import UnsupportedOperationError
from mlirtri.lowering.importers.from_onnx.layers import static_shape
from mlirtri.lowering.importers.from_onnx.nodes import Nodes, Values, attribute_of, operand


def _of_full_length(node: Any, values: Values) -> list[Any]:
    """Drop `sequence_lens` that are all the length of the input; torch-mlir's lowerings do not read them."""
    if not operand(node, 4):
        return [node]
    lengths = values.constants.get(node.input[4])
    length = static_shape(node, node.input[0], values)[1 if attribute_of(node, "layout", 0) else 0]
    if lengths is None or (lengths != length).any():
        raise UnsupportedOperationError(
            f"node {node.name!r} is a {node.op_type} over sequences of several lengths",
            help="export it for sequences of one length, without sequence_lens",
        )
    whole = type(node)()
    whole.CopyFrom(node)
    whole.input[4] = ""
    return [whole]


_PARTS = {"RNN": (1, 1), "GRU": (2, 1), "LSTM": (3, 2)}
"""By layer: the activations of a direction, and the states."""
_SHARED = ("activation_alpha", "activation_beta", "clip", "hidden_size", "linear_before_reset", "input_forget")


def _recurrence(node: Any, values: Values) -> list[Any]:
    """Run each direction of a layer forward, over reversed inputs for the backward one."""
    if node.op_type == "LSTM" and operand(node, 7):
        raise UnsupportedOperationError(
            f"node {node.name!r} is an LSTM with peepholes, which torch-mlir leaves out",
            help="write its steps with other operators",
        )
    [node] = _of_full_length(node, values)
    direction = attribute_of(node, "direction", b"forward")
    if direction == b"forward" or (node.op_type == "LSTM" and direction == b"bidirectional"):
        return [node]
    if attribute_of(node, "layout", 0) or attribute_of(node, "activation_alpha", None):
        raise UnsupportedOperationError(
            f"node {node.name!r} is a backward {node.op_type} with batches first, or parameters of activations",
            help="export it time first, with the default activations",
        )
    add = Nodes(node)
    activations, states = _PARTS[node.op_type]
    length = static_shape(node, node.input[0], values)[0]
    count = 2 if direction == b"bidirectional" else 1
    attributes = {name: value for name in _SHARED if (value := attribute_of(node, name, None)) is not None}
    chosen = attribute_of(node, "activations", None)
    flipped = add.constant(np.arange(length)[::-1])
    directions = []
    for number in range(count):
        is_backward = number == count - 1
        index = add.constant(np.array([number]))
        parts = [operand(node, position) for position in range(1, 5 + states)]
        parts = [add("Gather", name, index, axis=0) if name else "" for name in parts]
        source = add("Gather", node.input[0], flipped, axis=0) if is_backward else node.input[0]
        if chosen is not None:
            attributes["activations"] = chosen[number * activations : (number + 1) * activations]
        label = f"direction{number}"
        output, *last = add.several(node.op_type, source, *parts, count=1 + states, part=label, **attributes)
        directions.append([add("Gather", output, flipped, axis=0) if is_backward else output, *last])
    for position, parts in enumerate(zip(*directions, strict=True)):
        if len(node.output) > position and node.output[position]:
            add("Concat", *parts, axis=0 if position else 1, result=position)
    return add.nodes


def _cached(node: Any, values: Values) -> list[Any]:
    """Replace a run of a cache, where each batch says, by a gather for every position and a choice."""
    cache, update = (static_shape(node, name, values) for name in node.input[:2])
    axis = attribute_of(node, "axis", -2) % len(cache)
    add, length, count = Nodes(node), cache[axis], update[axis]
    first = operand(node, 2) or add.constant(np.zeros(cache[0], np.int64))
    batches = [cache[0], *[1] * (len(cache) - 1)]
    line = [-1 if position == axis else 1 for position in range(len(cache))]
    positions = add.constant(np.arange(length).reshape(line))
    offset = add("Sub", positions, add("Reshape", first, add.constant(np.array(batches))))
    if attribute_of(node, "mode", b"linear") == b"circular":
        offset = add("Mod", offset, add.constant(np.array(length)))
    zero, last = add.constant(np.array(0)), add.constant(np.array(count - 1))
    inside = add("And", add("GreaterOrEqual", offset, zero), add("LessOrEqual", offset, last))
    every = add("Expand", add("Clip", offset, zero, last), add.constant(np.array(cache)))
    new = add("GatherElements", node.input[1], every, axis=axis)
    add("Where", inside, new, node.input[0], result=0)
    return add.nodes


RECURRENCES: dict[str, Callable[[Any, Values], list[Any]]] = {
    **dict.fromkeys(_PARTS, _recurrence),
    "TensorScatter": _cached,
}
