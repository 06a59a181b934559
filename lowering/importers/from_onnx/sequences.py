"""Build what recurrent layers over sequences of several lengths, and LSTMs with peepholes, are rewritten to.

A layer runs over the whole input. Steps past a sequence's length come after its own and do not change those, so that
they need only be replaced by zeros, and the final state be read at the length. A backward layer reads each sequence
reversed within its length.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mlirtri.errors import UnsupportedOperationError
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


def check_steps(node: Any, length: int) -> None:
    """Raise `UnsupportedOperationError` for an LSTM that `lstm_steps` does not compute."""
    chosen = attribute_of(node, "activations", None) or _DEFAULT
    is_plain = all(name == _DEFAULT[number % 3] for number, name in enumerate(chosen))
    if not is_plain or attribute_of(node, "clip", 0.0) or attribute_of(node, "input_forget", 0) or length > LARGEST:
        raise UnsupportedOperationError(
            f"node {node.name!r} is an LSTM with peepholes or lengths and with other activations, clipped, with "
            f"coupled gates, or of more than {LARGEST} steps",
            help="export it with the default activations, or write its steps with other operators",
        )


def lstm_steps(
    add: Nodes, source: str, parts: list[str], initial: list[str], length: int, hidden: int
) -> tuple[str, str]:
    """Return the hidden and cell states of every step, (length, 1, batch, hidden), of one direction.

    `parts` are the weights, recurrent weights, bias and peepholes of the direction, the last two maybe empty.
    """
    weights, recurrent, bias, peepholes = parts
    zero, sizes = add.constant(np.array([0])), add.constant(np.full(4, hidden))
    columns = [add("Transpose", add("Squeeze", name, zero), perm=[1, 0]) for name in (weights, recurrent)]
    products = add("MatMul", source, columns[0])
    if bias:
        halves = add.several("Split", bias, add.constant(np.full(2, 4 * hidden)), count=2, part="bias", axis=-1)
        products = add("Add", products, add("Add", *halves))
    holes = []
    if peepholes:
        holes = add.several("Split", peepholes, add.constant(np.full(3, hidden)), count=3, part="holes", axis=-1)
    state, cell = (add("Squeeze", name, zero) for name in initial)
    states, cells = [], []
    for step in range(length):
        product = add("Gather", products, add.constant(np.array(step)), axis=0)
        gates = add("Add", product, add("MatMul", state, columns[1]))
        taken, shown, kept, new = add.several("Split", gates, sizes, count=4, part=f"gates{step}", axis=-1)
        if holes:
            taken, kept = (_with_hole(add, *pair, cell) for pair in ((taken, holes[0]), (kept, holes[2])))
        new = add("Mul", add("Sigmoid", taken), add("Tanh", new))
        cell = add("Add", add("Mul", add("Sigmoid", kept), cell), new)
        if holes:
            shown = _with_hole(add, shown, holes[1], cell)
        state = add("Mul", add("Sigmoid", shown), add("Tanh", cell))
        states.append(state)
        cells.append(cell)
    axes = add.constant(np.array([0, 1]))
    stacked = [add("Concat", *[add("Unsqueeze", name, axes) for name in names], axis=0) for names in (states, cells)]
    return stacked[0], stacked[1]


def _with_hole(add: Nodes, gate: str, hole: str, cell: str) -> str:
    return add("Add", gate, add("Mul", hole, cell))
