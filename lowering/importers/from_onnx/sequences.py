"""Build what recurrent layers over sequences of several lengths, and LSTMs with peepholes, are rewritten to.

A layer runs over the whole input. Steps past a sequence's length come after its own and do not change those, so that
they need only be replaced by zeros, and the final state be read at the length. A backward layer reads each sequence
reversed within its length.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from onnx import NodeProto, helper

from mlirtri.errors import UnsupportedOperationError
from mlirtri.lowering.importers.from_onnx.loops import for_loop
from mlirtri.lowering.importers.from_onnx.nodes import Nodes, attribute_of

MIN_STEPS = 4
"""With fewer steps they are written out, so that they fuse with what is around them."""
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


def has_default_cells(node: NodeProto) -> bool:
    """Return whether `lstm_steps` computes the cells of an LSTM, and `gru_steps` those of a GRU."""
    default = _DEFAULT if node.op_type == "LSTM" else _DEFAULT[:2]
    chosen = attribute_of(node, "activations", None) or default
    is_default = all(name == default[number % len(default)] for number, name in enumerate(chosen))
    return is_default and not attribute_of(node, "clip", 0.0) and not attribute_of(node, "input_forget", 0)


def check_steps(node: NodeProto) -> None:
    """Raise `UnsupportedOperationError` for an LSTM that `lstm_steps` does not compute."""
    if not has_default_cells(node):
        raise UnsupportedOperationError(
            f"node {node.name!r} is an LSTM with peepholes or lengths and with other activations, clipped, or with "
            "coupled gates",
            help="export it with the default activations, or write its steps with other operators",
        )


def lstm_steps(add: Nodes, source: str, parts: list[str], initial: list[str], shape: list[int], kind: int) -> list[str]:
    """Return the hidden and cell states of every step, (length, 1, batch, hidden), of one direction.

    `parts` are the weights, recurrent weights, bias and peepholes of the direction, the last two maybe empty; `shape`
    is (length, batch, hidden) of elements of type `kind`. `MIN_STEPS` and more steps are a loop.
    """
    weights, recurrent, bias, peepholes = parts
    hidden = shape[-1]
    products = add("MatMul", source, _columns(add, weights))
    if bias:
        products = add("Add", products, add("Add", *_parted(add, bias, 2, 4 * hidden, "bias")))
    holes = _parted(add, peepholes, 3, hidden, "holes") if peepholes else []
    cell = _Cell(products, _columns(add, recurrent), holes, hidden)
    return _every_state(add, cell.step, initial, shape, kind)


def gru_steps(
    add: Nodes, source: str, parts: list[str], initial: list[str], shape: list[int], kind: int, is_linear: bool
) -> list[str]:
    """Return the states of every step of one direction of a GRU, as `lstm_steps`.

    `is_linear` says that the product of a state is reset, and not the state (ONNX's `linear_before_reset`).
    """
    weights, recurrent, bias = parts
    hidden = shape[-1]
    products, columns = add("MatMul", source, _columns(add, weights)), _columns(add, recurrent)
    input_bias, own_bias = _parted(add, bias, 2, 3 * hidden, "bias") if bias else ("", "")
    products = _plus(add, products, input_bias)
    if is_linear:
        return _every_state(add, _LinearGruCell(products, columns, own_bias, hidden).step, initial, shape, kind)
    sizes = add.constant(np.array([2 * hidden, hidden]))
    gates, new = add.several("Split", columns, sizes, count=2, part="columns", axis=1)
    biases = add.several("Split", own_bias, sizes, count=2, part="own_bias", axis=-1) if own_bias else ("", "")
    cell = _GruCell(products, gates, new, biases[0], biases[1], hidden)
    return _every_state(add, cell.step, initial, shape, kind)


def _plus(add: Nodes, value: str, bias: str) -> str:
    return add("Add", value, bias) if bias else value


def _columns(add: Nodes, weights: str) -> str:
    """Return the weights of one direction, transposed."""
    return add("Transpose", add("Squeeze", weights, add.constant(np.array([0]))), perm=[1, 0])


def _parted(add: Nodes, value: str, count: int, size: int, part: str) -> list[str]:
    """Return parts of `size` elements of the last axis."""
    return list(add.several("Split", value, add.constant(np.full(count, size)), count=count, part=part, axis=-1))


def _every_state(
    add: Nodes, step: Callable[..., list[str]], initial: list[str], shape: list[int], kind: int
) -> list[str]:
    """Return each kind of state after every step; `step` takes a builder, an index, and the states before."""
    length = shape[0]
    begin = [add("Squeeze", name, add.constant(np.array([0]))) for name in initial]
    if length < MIN_STEPS:
        return _unrolled(add, step, begin, length)
    empty = add.constant(np.zeros(shape, helper.tensor_dtype_to_np_dtype(kind)))
    count = len(begin)

    def body(inner: Nodes, index: str, *carried: str) -> list[str]:
        values = step(inner, index, *carried[:count])
        row, first = inner("Reshape", index, inner.constant(np.array([1, 1]))), inner.constant(np.array([0]))
        rows = [
            inner("ScatterND", buffer, row, inner("Unsqueeze", value, first))
            for buffer, value in zip(carried[count:], values, strict=True)
        ]
        return [*values, *rows]

    kinds = [(kind, shape[1:])] * count + [(kind, shape)] * count
    every = for_loop(add, length, [*begin, *[empty] * count], kinds, body)[-count:]
    return [add("Unsqueeze", states, add.constant(np.array([1]))) for states in every]


def _unrolled(add: Nodes, step: Callable[..., list[str]], begin: list[str], length: int) -> list[str]:
    steps = [begin]
    for number in range(length):
        steps.append(step(add, add.constant(np.array(number)), *steps[-1]))
    axes = add.constant(np.array([0, 1]))
    return [
        add("Concat", *[add("Unsqueeze", name, axes) for name in names], axis=0)
        for names in zip(*steps[1:], strict=True)
    ]


@dataclass(frozen=True)
class _Cell:
    """One direction of an LSTM."""

    products: str
    """Of the inputs of all steps and the weights, with the bias."""
    recurrent: str
    holes: list[str]
    hidden: int

    def step(self, add: Nodes, index: str, state: str, cell: str) -> list[str]:
        """Return the hidden and the cell state after a step.

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


@dataclass(frozen=True)
class _LinearGruCell:
    """One direction of a GRU that resets the product of the state. Source: the ONNX operator specification, GRU-22."""

    products: str
    """Of the inputs of all steps and the weights, with the bias."""
    recurrent: str
    bias: str
    hidden: int

    def step(self, add: Nodes, index: str, state: str) -> list[str]:
        """Return the state after a step."""
        given = _parted(add, add("Gather", self.products, index, axis=0), 3, self.hidden, "given")
        own = _parted(add, _plus(add, add("MatMul", state, self.recurrent), self.bias), 3, self.hidden, "own")
        update, reset = (add("Sigmoid", add("Add", x, y)) for x, y in zip(given[:2], own[:2], strict=True))
        return _gru_state(add, state, update, add("Add", given[2], add("Mul", reset, own[2])))


@dataclass(frozen=True)
class _GruCell:
    """One direction of a GRU that multiplies the reset state. Source: the ONNX operator specification, GRU-22."""

    products: str
    """Of the inputs of all steps and the weights, with the bias."""
    gates: str
    """Recurrent weights of both gates, and `new` those of the value."""
    new: str
    gate_bias: str
    new_bias: str
    hidden: int

    def step(self, add: Nodes, index: str, state: str) -> list[str]:
        """Return the state after a step."""
        given = _parted(add, add("Gather", self.products, index, axis=0), 3, self.hidden, "given")
        own = _parted(add, _plus(add, add("MatMul", state, self.gates), self.gate_bias), 2, self.hidden, "own")
        update, reset = (add("Sigmoid", add("Add", x, y)) for x, y in zip(given[:2], own, strict=True))
        product = _plus(add, add("MatMul", add("Mul", reset, state), self.new), self.new_bias)
        return _gru_state(add, state, update, add("Add", given[2], product))


def _gru_state(add: Nodes, state: str, update: str, argument: str) -> list[str]:
    value = add("Tanh", argument)
    return [add("Add", value, add("Mul", update, add("Sub", state, value)))]


def _with_hole(add: Nodes, gate: str, hole: str, cell: str) -> str:
    return add("Add", gate, add("Mul", hole, cell))
