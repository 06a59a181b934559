"""Build what recurrent layers over sequences of several lengths, and LSTMs with peepholes, are rewritten to.

A layer runs over the whole input. Steps past a sequence's length come after its own and do not change those, so that
they need only be replaced by zeros, and the final state be read at the length. A backward layer reads each sequence
reversed within its length.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from onnx import NodeProto, helper

from mlirtri.errors import UnsupportedOperationError
from mlirtri.lowering.importers.from_onnx.loops import for_loop
from mlirtri.lowering.importers.from_onnx.nodes import Nodes, attribute_of
from mlirtri.lowering.importers.from_onnx.unroll import LARGEST

_DEFAULT = [b"Sigmoid", b"Tanh", b"Tanh"]


class Lengths:
    """The steps of an input of shape (length, batch, …) that belong to each sequence."""

    def __init__(self, add: Nodes, lengths: str, length: int):
        self.add = add
        self.zero, one, last = (add.constant(np.array(number)) for number in (0, 1, length - 1))
        positions = add.constant(np.arange(length).reshape(-1, 1))
        self.counts = add("Cast", lengths, to=7)
        self.inside = add("Less", positions, self.counts)
        self._final = add("Clip", add("Sub", self.counts, one), self.zero, last)
        back = add("Sub", add("Sub", self.counts, one), positions)
        # A length beyond the input is an error of the caller; it must not read outside of the tensor.
        self._reversed = add("Clip", add("Where", self.inside, back, positions), self.zero, last)

    def reversed(self, source: str, shape: list[int]) -> str:
        """Reverse the steps of each sequence, and leave those past its length in place."""
        index = self._reshaped(self._reversed, [shape[0], *[1] * (len(shape) - 3), shape[-2], 1])
        every = self.add("Expand", index, self.add.constant(np.array(shape)))
        return self.add("GatherElements", source, every, axis=0)

    def masked(self, output: str, zero: str) -> str:
        """Replace the steps past each sequence's length, of an output (length, 1, batch, hidden), by zeros."""
        inside = self.add("Unsqueeze", self.inside, self.add.constant(np.array([1, 3])))
        return self.add("Where", inside, output, zero)

    def final(self, output: str, initial: str, shape: list[int]) -> str:
        """Return the last step of each sequence, (1, batch, hidden), or `initial` for one of no steps."""
        add = self.add
        index = self._reshaped(self._final, [1, 1, shape[-2], 1])
        every = add("Expand", index, add.constant(np.array([1, *shape[1:]])))
        last = add("Squeeze", add("GatherElements", output, every, axis=0), add.constant(np.array([0])))
        has_steps = self._reshaped(add("Greater", self.counts, self.zero), [1, shape[-2], 1])
        return add("Where", has_steps, last, initial)

    def _reshaped(self, value: str, shape: list[int]) -> str:
        return self.add("Reshape", value, self.add.constant(np.array(shape)))


def check_steps(node: NodeProto) -> None:
    """Raise `UnsupportedOperationError` for an LSTM that `lstm_steps` does not compute."""
    chosen = attribute_of(node, "activations", None) or _DEFAULT
    is_plain = all(name == _DEFAULT[number % 3] for number, name in enumerate(chosen))
    if not is_plain or attribute_of(node, "clip", 0.0) or attribute_of(node, "input_forget", 0):
        raise UnsupportedOperationError(
            f"node {node.name!r} is an LSTM with peepholes or lengths and with other activations, clipped, or with "
            "coupled gates",
            help="export it with the default activations, or write its steps with other operators",
        )


def lstm_steps(
    add: Nodes, source: str, parts: list[str], initial: list[str], shape: list[int], kind: int
) -> tuple[str, str]:
    """Return the hidden and cell states of every step, (length, 1, batch, hidden), of one direction.

    `parts` are the weights, recurrent weights, bias and peepholes of the direction, the last two maybe empty; `shape`
    is (length, batch, hidden) of elements of type `kind`. More than `LARGEST` steps are a loop.
    """
    weights, recurrent, bias, peepholes = parts
    length, batch, hidden = shape
    zero = add.constant(np.array([0]))
    columns = [add("Transpose", add("Squeeze", name, zero), perm=[1, 0]) for name in (weights, recurrent)]
    products = add("MatMul", source, columns[0])
    if bias:
        halves = add.several("Split", bias, add.constant(np.full(2, 4 * hidden)), count=2, part="bias", axis=-1)
        products = add("Add", products, add("Add", *halves))
    holes = []
    if peepholes:
        holes = add.several("Split", peepholes, add.constant(np.full(3, hidden)), count=3, part="holes", axis=-1)
    cell = _Cell(products, columns[1], holes, hidden)
    begin = [add("Squeeze", name, zero) for name in initial]
    if length <= LARGEST:
        return _unrolled(add, cell, begin, length)
    empty = add.constant(np.zeros(shape, helper.tensor_dtype_to_np_dtype(kind)))

    def step(inner: Nodes, index: str, state: str, cells: str, *buffers: str) -> list[str]:
        values = cell.step(inner, index, state, cells)
        row, first = inner("Reshape", index, inner.constant(np.array([1, 1]))), inner.constant(np.array([0]))
        rows = [
            inner("ScatterND", buffer, row, inner("Unsqueeze", value, first))
            for buffer, value in zip(buffers, values, strict=True)
        ]
        return [*values, *rows]

    kinds = [(kind, [batch, hidden])] * 2 + [(kind, shape)] * 2
    *_, states, cells = for_loop(add, length, [*begin, empty, empty], kinds, step)
    axis = add.constant(np.array([1]))
    return add("Unsqueeze", states, axis), add("Unsqueeze", cells, axis)


def _unrolled(add: Nodes, cell: _Cell, begin: list[str], length: int) -> tuple[str, str]:
    steps = [begin]
    for number in range(length):
        steps.append(cell.step(add, add.constant(np.array(number)), *steps[-1]))
    axes = add.constant(np.array([0, 1]))
    states, cells = (
        add("Concat", *[add("Unsqueeze", name, axes) for name in names], axis=0)
        for names in zip(*steps[1:], strict=True)
    )
    return states, cells


@dataclass(frozen=True)
class _Cell:
    """One direction of an LSTM."""

    products: str
    """Of the inputs of all steps and the weights, with the bias."""
    recurrent: str
    holes: list[str]
    hidden: int

    def step(self, add: Nodes, index: str, state: str, cell: str) -> list[str]:
        """Return the hidden and the cell state behind a step.

        Source: the ONNX operator specification, LSTM-22.
        """
        product = add("Gather", self.products, index, axis=0)
        gates = add("Add", product, add("MatMul", state, self.recurrent))
        sizes = add.constant(np.full(4, self.hidden))
        taken, shown, kept, new = add.several("Split", gates, sizes, count=4, part="gates", axis=-1)
        if self.holes:
            taken, kept = (_with_hole(add, *pair, cell) for pair in ((taken, self.holes[0]), (kept, self.holes[2])))
        new = add("Mul", add("Sigmoid", taken), add("Tanh", new))
        cell = add("Add", add("Mul", add("Sigmoid", kept), cell), new)
        if self.holes:
            shown = _with_hole(add, shown, self.holes[1], cell)
        return [add("Mul", add("Sigmoid", shown), add("Tanh", cell)), cell]


def _with_hole(add: Nodes, gate: str, hole: str, cell: str) -> str:
    return add("Add", gate, add("Mul", hole, cell))
