"""Rewrite recurrent layers that run backward or have lengths of sequences, and scatters into caches."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import NodeProto

from mlirtri.errors import UnsupportedOperationError
from mlirtri.lowering.importers.from_onnx.layers import static_shape
from mlirtri.lowering.importers.from_onnx.nodes import Nodes, Rewrite, Values, attribute_of, operand
from mlirtri.lowering.importers.from_onnx.sequences import (
    Lengths,
    check_steps,
    gru_steps,
    has_default_cells,
    lstm_steps,
)


def _lengths(node: NodeProto, values: Values) -> str:
    """Return `sequence_lens`, empty if all are the length of the input; torch-mlir's lowerings do not read them."""
    name = operand(node, 4)
    if not name:
        return ""
    shape = static_shape(node, node.input[0], values)
    length = shape[1 if attribute_of(node, "layout", 0) else 0]
    lengths = values.constants.get(name)
    if lengths is None:
        return name
    if (lengths < 0).any() or (lengths > length).any():
        raise UnsupportedOperationError(
            f"node {node.name!r} is a {node.op_type} over sequences of {lengths.tolist()} steps in an input of "
            f"{length}",
            help="give lengths from 0 to that of the input",
        )
    return name if (lengths != length).any() else ""


def _without_lengths(node: NodeProto) -> Any:
    if not operand(node, 4):
        return node
    whole = type(node)()
    whole.CopyFrom(node)
    whole.input[4] = ""
    return whole


_PARTS = {"RNN": (1, 1), "GRU": (2, 1), "LSTM": (3, 2)}
"""By layer: the activations of a direction, and the states."""
_SHARED = ("activation_alpha", "activation_beta", "clip", "hidden_size", "linear_before_reset", "input_forget")


def _recurrence(node: NodeProto, values: Values) -> list[NodeProto]:
    """Run each direction of a layer forward, over reversed inputs for the backward one."""
    lengths = _lengths(node, values)
    has_holes = node.op_type == "LSTM" and bool(operand(node, 7))
    direction = attribute_of(node, "direction", b"forward")
    is_lowered = direction == b"forward" or (node.op_type == "LSTM" and direction == b"bidirectional")
    # torch-mlir multiplies each input by itself, and transposes the weights at each step.
    if is_lowered and not lengths and not has_holes and not _has_plain_steps(node, values):
        return [_without_lengths(node)]
    if attribute_of(node, "layout", 0) or attribute_of(node, "activation_alpha", None):
        kind = "a backward" if not is_lowered else "with peepholes a" if has_holes else "over several lengths a"
        raise UnsupportedOperationError(
            f"node {node.name!r} is {kind} {node.op_type} with batches first, or parameters of activations",
            help="export it time first, with the default activations",
        )
    layer = _Layer(node, values, lengths)
    count = 2 if direction == b"bidirectional" else 1
    directions = [layer.direction(number, direction != b"forward" and number == count - 1) for number in range(count)]
    for position, parts in enumerate(zip(*directions, strict=True)):
        if len(node.output) > position and node.output[position]:
            layer.add("Concat", *parts, axis=0 if position else 1, result=position)
    return layer.add.nodes


def _has_plain_steps(node: NodeProto, values: Values) -> bool:
    """Return whether a layer is written as one product of all inputs and a loop over steps."""
    is_odd = attribute_of(node, "layout", 0) or attribute_of(node, "activation_alpha", None)
    is_static = values.static_shape(node.input[0]) is not None and values.static_shape(node.input[2]) is not None
    return node.op_type in ("LSTM", "GRU") and is_static and not is_odd and has_default_cells(node)


class _Layer:
    """Builds the directions of a layer, each run forward."""

    def __init__(self, node: NodeProto, values: Values, lengths: str):
        self.add, self.node, self.values = Nodes(node), node, values
        self.shape = static_shape(node, node.input[0], values)
        self.hidden = static_shape(node, node.input[2], values)[-1]
        self.lengths = Lengths(self.add, lengths, self.shape[0]) if lengths else None
        self.attributes = {name: value for name in _SHARED if (value := attribute_of(node, name, None)) is not None}
        reads_cells = bool(lengths) and len(node.output) > 2 and bool(node.output[2])
        self.has_steps = _has_plain_steps(node, values) or (
            node.op_type == "LSTM" and (bool(operand(node, 7)) or reads_cells)
        )
        if self.has_steps:
            check_steps(node)

    def direction(self, number: int, is_backward: bool) -> list[str]:
        """Return the output and the final states of one direction."""
        add, source = self.add, self.node.input[0]
        index = add.constant(np.array([number]))
        operands = [operand(self.node, position) for position in range(1, 8)]
        operands[3] = ""
        parts = [add("Gather", name, index, axis=0) if name else "" for name in operands]
        if is_backward:
            source = self._reversed(source, self.shape)
        output, *last = self._run(number, source, parts)
        if self.lengths:
            output = self.lengths.masked(output, self._zeros(()))
        if is_backward:
            output = self._reversed(output, self._output_shape())
        return [output, *last]

    def _run(self, number: int, source: str, parts: list[str]) -> list[str]:
        activations, states = _PARTS[self.node.op_type]
        initial = [name or self._zeros((1, self.shape[1], self.hidden)) for name in parts[4 : 4 + states]]
        if self.has_steps:
            shape, kind = [*self.shape[:2], self.hidden], self.values.element_type(self.node.input[0])
            if self.node.op_type == "LSTM":
                every = lstm_steps(self.add, source, [*parts[:3], parts[6]], initial, shape, kind)
            else:
                is_linear = bool(attribute_of(self.node, "linear_before_reset", 0))
                every = gru_steps(self.add, source, parts[:3], initial, shape, kind, is_linear)
            return [every[0], *(self._final(*pair) for pair in zip(every, initial, strict=True))]
        attributes, chosen = dict(self.attributes), attribute_of(self.node, "activations", None)
        if chosen is not None:
            attributes["activations"] = chosen[number * activations : (number + 1) * activations]
        output, *last = self.add.several(
            self.node.op_type, source, *parts[: 4 + states], count=1 + states, part=f"direction{number}", **attributes
        )
        if self.lengths:
            last[0] = self._final(output, initial[0])
        return [output, *last]

    def _final(self, every: str, initial: str) -> str:
        if self.lengths:
            return self.lengths.final(every, initial, self._output_shape())
        return self.add("Gather", self.add("Squeeze", every, self.add.constant(np.array([1]))), self.add.constant(
            np.array([self.shape[0] - 1])), axis=0)  # fmt: skip

    def _reversed(self, source: str, shape: list[int]) -> str:
        if self.lengths:
            return self.lengths.reversed(source, shape)
        return self.add("Gather", source, self.add.constant(np.arange(self.shape[0])[::-1]), axis=0)

    def _output_shape(self) -> list[int]:
        return [self.shape[0], 1, self.shape[1], self.hidden]

    def _zeros(self, shape: tuple[int, ...]) -> str:
        return self.add.constant(np.zeros(shape, self.values.dtype(self.node.input[0])))


def _cached(node: NodeProto, values: Values) -> list[NodeProto]:
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


RECURRENCES: dict[str, Rewrite] = {
    **dict.fromkeys(_PARTS, _recurrence),
    "TensorScatter": _cached,
}
