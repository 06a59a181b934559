"""Rewrite recurrent layers: one product of all inputs, and a loop over the steps of each direction.

torch-mlir's lowerings read no lengths and few attributes, multiply each input by itself, and transpose the weights at
each step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from onnx import NodeProto, TensorProto

from mlirtri.errors import UnsupportedOperationError
from mlirtri.lowering.importers.from_onnx.layers import static_shape
from mlirtri.lowering.importers.from_onnx.loops import for_loop, stored
from mlirtri.lowering.importers.from_onnx.nodes import Nodes, Rewrite, Values, attribute_of, operand
from mlirtri.lowering.importers.from_onnx.recurrent_cells import GATES, STATES, Parameters, Step, step_of

MIN_STEPS = 4
"""With fewer steps they are written out, so that they fuse with what is around them."""
_TIME_FIRST = {"states": [1, 0, 2], "outputs": [2, 0, 1, 3]}
"""The permutations between ``layout=0`` and ``layout=1``, which has batches first."""


def _recurrence(node: NodeProto, values: Values) -> list[NodeProto]:
    """Run each direction of a layer, and join their outputs and their final states."""
    layer = _Layer(node, values)
    direction = attribute_of(node, "direction", b"forward")
    count = 2 if direction == b"bidirectional" else 1
    parts = [layer.run(number, direction != b"forward" and number == count - 1) for number in range(count)]
    for position, joined in enumerate(zip(*parts, strict=True)):
        if len(node.output) > position and node.output[position]:
            layer.give(position, list(joined))
    return layer.add.nodes


class _Layer:
    """Builds the directions of a layer, whose sizes may be known at run time only."""

    def __init__(self, node: NodeProto, values: Values):
        self.add, self.node = Nodes(node), node
        self.is_batch_first = bool(attribute_of(node, "layout", 0))
        self.hidden = static_shape(node, node.input[2], values)[-1]
        self.dtype, self.kind = values.dtype(node.input[0]), values.element_type(node.input[0])
        shape = values.shape(node.input[0]) or [None] * 3
        self.length, self.batch = (shape[1], shape[0]) if self.is_batch_first else (shape[0], shape[1])
        self.source = self._time_first(node.input[0])
        self.lengths = self._lengths(values)
        self.zero_rows = self._zero_rows() if self.lengths else ""

    def _time_first(self, value: str) -> str:
        return self.add("Transpose", value, perm=_TIME_FIRST["states"]) if self.is_batch_first else value

    def _lengths(self, values: Values) -> str:
        """Return the lengths of the sequences as (batch, 1) integers; empty if all are that of the input."""
        name = operand(self.node, 4)
        if not name:
            return ""
        known = values.constants.get(name)
        if known is not None and self.length is not None:
            if (known < 0).any() or (known > self.length).any():
                raise UnsupportedOperationError(
                    f"node {self.node.name!r} is a {self.node.op_type} over sequences of {known.tolist()} steps in an "
                    f"input of {self.length}",
                    help="give lengths from 0 to that of the input",
                )
            if (known == self.length).all():
                return ""
        lengths = self.add("Cast", name, to=TensorProto.INT64)
        if known is None:
            lengths = self._checked(lengths)
        return self.add("Unsqueeze", lengths, self.add.constant(np.array([1])))

    def _checked(self, lengths: str) -> str:
        """Read lengths of run time from a table, which raises after the call for those outside of the input."""
        zero, one = (self.add.constant(np.array(number)) for number in (0, 1))
        if self.length is None:
            count = self.add("Add", self.add("Squeeze", self.size("length")), one)
            table = self.add("Range", zero, count, one)
        else:
            count, table = (self.add.constant(each) for each in (np.array(self.length + 1), np.arange(self.length + 1)))
        position = self.add("Where", self.add("Less", lengths, zero), count, lengths)
        return self.add("Gather", table, position, axis=0)

    def run(self, number: int, is_backward: bool) -> list[str]:
        """Return the outputs of all steps, (length, batch, hidden), and the final states of one direction."""
        add, gates = self.add, GATES[self.node.op_type] * self.hidden
        weights, recurrent, bias = (self._part(position, number) for position in (1, 2, 3))
        products = add("MatMul", self.source, add("Transpose", weights, perm=[1, 0]))
        recurrent_bias = ""
        if bias:
            sizes = add.constant(np.full(2, gates))
            input_bias, recurrent_bias = add.several("Split", bias, sizes, count=2, part="biases", axis=0)
            products = add("Add", products, input_bias)
        peepholes = self._part(7, number) if self.node.op_type == "LSTM" else ""
        columns = add("Transpose", recurrent, perm=[1, 0])
        parameters = Parameters(columns, recurrent_bias, peepholes, self.hidden)
        step = step_of(self.node, number, parameters, self.dtype, add)
        loop = _Direction(self, products, step, number, is_backward)
        return loop.unrolled() if self.length is not None and self.length < MIN_STEPS else loop.looped()

    def initial(self, number: int) -> list[str]:
        """Return the states before the first step, (batch, hidden), as given or zeros."""
        states = [self._part(5 + position, number) for position in range(STATES[self.node.op_type])]
        return [self._of_input_sizes(state) if state else self.zeros("batch") for state in states]

    def _of_input_sizes(self, state: str) -> str:
        """Return a state as a sum with -0.0, which changes no number, of the input's sizes: a loop then keeps those."""
        return state if self.batch is not None else self.add("Add", self.zeros("batch", zero=-0.0), state)

    def _part(self, position: int, number: int) -> str:
        """Return what an operand has for direction `number`; empty if the operand is left out."""
        is_state = position in (5, 6)
        name, axis = operand(self.node, position), 1 if is_state and self.is_batch_first else 0
        return name and self.add("Gather", name, self.add.constant(np.array(number)), axis=axis)

    def _zero_rows(self) -> str:
        """Return (batch, 1) integers, 0, so that a sum with them has the sizes of the input."""
        zero = np.array([[0]])
        if self.batch is not None:
            return self.add.constant(zero)
        sizes = self.add("Concat", self.size("batch"), self.add.constant([1]), axis=0)
        return self.add("Expand", self.add.constant(zero), sizes)

    def zeros(self, *axes: str, zero: float = 0.0) -> str:
        """Return zeros of the sizes of these axes, ``length`` and ``batch``, and `hidden` elements along the last."""
        sizes = [self.length if axis == "length" else self.batch for axis in axes]
        if None not in sizes:
            return self.add.constant(np.full([*sizes, self.hidden], zero, self.dtype))  # type: ignore[list-item]
        zeros = self.add.constant(np.full([1] * (len(axes) + 1), zero, self.dtype))
        parts = [self.size(axis) for axis in axes]
        return self.add("Expand", zeros, self.add("Concat", *parts, self.add.constant([self.hidden]), axis=0))

    def size(self, axis: str) -> str:
        """Return the size of ``length`` or ``batch`` as one integer, of shape (1,)."""
        position = ("length", "batch").index(axis)
        return self.add("Gather", self.add("Shape", self.source), self.add.constant(np.array([position])), axis=0)

    def give(self, position: int, parts: list[str]) -> None:
        """Join what the directions have for one result, and name it as the node does."""
        add, is_output = self.add, position == 0
        axis = add.constant(np.array([1 if is_output else 0]))
        joined = add("Concat", *[add("Unsqueeze", part, axis) for part in parts], axis=1 if is_output else 0)
        if self.is_batch_first:
            add("Transpose", joined, perm=_TIME_FIRST["outputs" if is_output else "states"], result=position)
        else:
            add("Identity", joined, result=position)


@dataclass(frozen=True)
class _Direction:
    """One direction of a layer: its steps in order, the last row of the input first where it is backward."""

    layer: _Layer
    products: str
    """Of the inputs of all steps and the weights, with the bias: (length, batch, gates * hidden)."""
    step: Step
    number: int
    is_backward: bool

    def unrolled(self) -> list[str]:
        """Return the outputs and the final states, by steps that are written out."""
        add, count = self.layer.add, self.layer.length or 0
        states, outputs = self.layer.initial(self.number), {}
        for row in range(count)[:: -1 if self.is_backward else 1]:
            states, outputs[row] = self._after(add, add.constant(np.array(row)), states)
        axis = add.constant(np.array([0]))
        rows = [add("Unsqueeze", outputs[row], axis) for row in range(count)]
        return [add("Concat", *rows, axis=0) if rows else self.layer.zeros("length", "batch"), *states]

    def looped(self) -> list[str]:
        """Return the outputs and the final states, by a loop that carries both."""
        layer, add = self.layer, self.layer.add
        count: int | str = layer.length or add("Squeeze", layer.size("length"))
        last = add("Sub", count, add.constant(np.array(1))) if isinstance(count, str) else add.constant(count - 1)
        states, has_outputs = layer.initial(self.number), bool(layer.node.output[0])
        outputs = [layer.zeros("length", "batch")] if has_outputs else []

        def body(inner: Nodes, index: str, *carried: str) -> list[str]:
            row = inner("Sub", last, index) if self.is_backward else index
            new, output = self._after(inner, row, list(carried[: len(states)]))
            return [*new, *(stored(inner, buffer, row, output) for buffer in carried[len(states) :])]

        # A size of run time needs a name, of this layer's own: sizes of one name are equal.
        length = f"{layer.node.name}.length" if layer.length is None else layer.length
        batch = f"{layer.node.name}.batch" if layer.batch is None else layer.batch
        shapes = [*[[batch, layer.hidden]] * len(states), *[[length, batch, layer.hidden]] * len(outputs)]
        results = for_loop(add, count, [*states, *outputs], [(layer.kind, shape) for shape in shapes], body)
        return [results[-1] if has_outputs else "", *results[: len(states)]]

    def _after(self, add: Nodes, row: str, states: list[str]) -> tuple[list[str], str]:
        """Return the states after the step of a row, and its output; those of a sequence that has ended stay."""
        new = self.step(add, add("Gather", self.products, row, axis=0), states)
        if not self.layer.lengths:
            return new, new[0]
        is_inside = add("Less", add("Add", self.layer.zero_rows, row), self.layer.lengths)
        zero = add.constant(np.array(0, self.layer.dtype))
        kept = [add("Where", is_inside, *pair) for pair in zip(new, states, strict=True)]
        return kept, add("Where", is_inside, new[0], zero)


RECURRENCES: dict[str, Rewrite] = dict.fromkeys(GATES, _recurrence)
