"""Build one step of a recurrent layer: its gates, its activations, and the states after it.

The formulas are those of the ONNX operator specification (RNN-22, GRU-22, LSTM-22). A step reads the products of the
inputs and the weights, which are made for all steps at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from onnx import NodeProto

from mlirtri.errors import UnsupportedOperationError, did_you_mean
from mlirtri.lowering.importers.from_onnx.nodes import Nodes, attribute_of

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
"""By layer: the blocks of `hidden` rows that its weights have."""
STATES = {"RNN": 1, "GRU": 1, "LSTM": 2}
"""By layer: the states that it carries from step to step."""
_DEFAULTS = {"RNN": ("tanh",), "GRU": ("sigmoid", "tanh"), "LSTM": ("sigmoid", "tanh", "tanh")}
"""By layer: the activations of one direction, which the specification calls f, g and h."""


@dataclass(frozen=True)
class Parameters:
    """The operands of one direction of a layer, by name; the optional ones are empty where they are left out."""

    recurrent: str
    """Recurrent weights, (hidden, gates * hidden): transposed."""
    bias: str
    """The bias of the recurrent products, (gates * hidden); that of the inputs is in their products already."""
    peepholes: str
    """The weights of an LSTM's cell in its gates, (3 * hidden)."""
    hidden: int


Step: TypeAlias = Callable[[Nodes, str, list[str]], list[str]]
"""From a builder, the products of a step's inputs, (batch, gates * hidden), and the states to the states after it."""


def step_of(node: NodeProto, number: int, parameters: Parameters, dtype: np.dtype, add: Nodes) -> Step:
    """Return what builds a step of direction `number`; raises `UnsupportedOperationError` for unknown activations.

    `add` creates what all steps share.
    """
    activations = _activations(node, number, dtype)
    if node.op_type == "LSTM":
        is_coupled = bool(attribute_of(node, "input_forget", 0))
        one = add.constant(np.array(1, dtype)) if is_coupled else ""
        peepholes = _split(add, parameters.peepholes, 3, parameters.hidden) if parameters.peepholes else []
        return _LstmCell(parameters, activations, peepholes, one)
    if node.op_type == "RNN":
        return _RnnCell(parameters, activations)
    if attribute_of(node, "linear_before_reset", 0):
        return _GruCellOfResetProducts(parameters, activations)
    return _gru_cell_of_reset_states(add, parameters, activations)


@dataclass(frozen=True)
class _Activation:
    """A function of each element, which is clipped first where `clip` is not 0."""

    name: str
    scales: tuple[float, ...]
    clip: float
    dtype: np.dtype

    def __call__(self, add: Nodes, value: str) -> str:
        if self.clip:
            value = add(
                "Clip", value, *(add.constant(np.array(bound, self.dtype)) for bound in (-self.clip, self.clip))
            )
        numbers = (np.array(number, self.dtype) for number in (*self.scales, *_FUNCTIONS[self.name].constants))
        return _FUNCTIONS[self.name].build(add, value, *numbers)


def _activations(node: NodeProto, number: int, dtype: np.dtype) -> list[_Activation]:
    defaults, clip = _DEFAULTS[node.op_type], attribute_of(node, "clip", 0.0)
    chosen = [name.decode().lower() for name in attribute_of(node, "activations", None) or []]
    names = chosen or [*defaults] * (number + 1)
    for name in names:
        if name not in _FUNCTIONS:
            raise UnsupportedOperationError(
                f"node {node.name!r} is a {node.op_type} with the activation {name!r}, which ONNX does not define",
                help=f"{did_you_mean(name, _FUNCTIONS)}the activations are {', '.join(_FUNCTIONS)}",
            )
    # Scales are consumed in the order of the activations that have one.
    given = {scale: iter(attribute_of(node, f"activation_{scale}", None) or []) for scale in ("alpha", "beta")}
    every = []
    for name in names:
        scales = tuple(next(given[scale], default) for scale, default in _FUNCTIONS[name].scales)
        if None in scales:
            raise UnsupportedOperationError(
                f"node {node.name!r} is a {node.op_type} with the activation {name!r}, of which ONNX has no defaults",
                help="give it activation_alpha and activation_beta",
            )
        # As ONNX Runtime does it, the cell of an LSTM is not clipped before its last activation.
        is_of_cell = node.op_type == "LSTM" and len(every) % len(defaults) == 2
        every.append(_Activation(name, scales, 0.0 if is_of_cell else clip, dtype))  # type: ignore[arg-type]
    return every[number * len(defaults) : (number + 1) * len(defaults)]


@dataclass(frozen=True)
class _Function:
    build: Callable[..., str]
    """From a builder, a value, the scales and the constants, rank-0 arrays of the layer's dtype, to the result."""
    scales: tuple[tuple[str, float | None], ...] = ()
    """The attributes that give scales, ``alpha`` and ``beta``, with their defaults; None where ONNX has none."""
    constants: tuple[float, ...] = ()


def _operator(name: str, **scales: float) -> _Function:
    """Return the function that one ONNX operator computes, with its scales as attributes."""

    def build(add: Nodes, x: str, *values: np.ndarray) -> str:
        attributes: dict[str, Any] = {scale: float(value) for scale, value in zip(scales, values, strict=True)}
        return add(name, x, **attributes)

    return _Function(build, tuple(scales.items()))


def _affine(add: Nodes, x: str, alpha: np.ndarray, beta: np.ndarray) -> str:
    return add("Add", add("Mul", x, add.constant(alpha)), add.constant(beta))


def _softsign(add: Nodes, x: str, one: np.ndarray) -> str:
    return add("Div", x, add("Add", add("Abs", x), add.constant(one)))


def _scaled_tanh(add: Nodes, x: str, alpha: np.ndarray, beta: np.ndarray) -> str:
    return add("Mul", add.constant(alpha), add("Tanh", add("Mul", x, add.constant(beta))))


def _thresholded_relu(add: Nodes, x: str, alpha: np.ndarray) -> str:
    return add("Where", add("Greater", x, add.constant(alpha)), x, add.constant(np.zeros_like(alpha)))


_FUNCTIONS = {
    "relu": _operator("Relu"),
    "tanh": _operator("Tanh"),
    "sigmoid": _operator("Sigmoid"),
    "affine": _Function(_affine, (("alpha", None), ("beta", None))),
    "leakyrelu": _operator("LeakyRelu", alpha=0.01),
    "thresholdedrelu": _Function(_thresholded_relu, (("alpha", 1.0),)),
    "scaledtanh": _Function(_scaled_tanh, (("alpha", None), ("beta", None))),
    "hardsigmoid": _operator("HardSigmoid", alpha=0.2, beta=0.5),
    "elu": _operator("Elu", alpha=1.0),
    "softsign": _Function(_softsign, constants=(1.0,)),
    "softplus": _operator("Softplus"),
}
"""The activations of recurrent layers, by their names in lower case: ONNX ignores case."""


@dataclass(frozen=True)
class _Cell:
    parameters: Parameters
    activations: list[_Activation]

    def split(self, add: Nodes, value: str, count: int) -> list[str]:
        return _split(add, value, count, self.parameters.hidden)

    def recurrent_product(self, add: Nodes, state: str) -> str:
        return _plus(add, add("MatMul", state, self.parameters.recurrent), self.parameters.bias)


class _RnnCell(_Cell):
    def __call__(self, add: Nodes, products: str, states: list[str]) -> list[str]:
        [activation] = self.activations
        return [activation(add, add("Add", products, self.recurrent_product(add, states[0])))]


class _GruCellOfResetProducts(_Cell):
    """A GRU with ``linear_before_reset``: the reset gate multiplies the product of the state."""

    def __call__(self, add: Nodes, products: str, states: list[str]) -> list[str]:
        gate, activation = self.activations
        given, own = self.split(add, products, 3), self.split(add, self.recurrent_product(add, states[0]), 3)
        update, reset = (gate(add, add("Add", *pair)) for pair in zip(given[:2], own[:2], strict=True))
        value = activation(add, add("Add", given[2], add("Mul", reset, own[2])))
        return [_blend(add, update, states[0], value)]


@dataclass(frozen=True)
class _GruCellOfResetStates(_Cell):
    """A GRU whose reset gate multiplies the state before the product; `parameters` are those of the two gates."""

    value_weights: str
    value_bias: str

    def __call__(self, add: Nodes, products: str, states: list[str]) -> list[str]:
        gate, activation = self.activations
        given, own = self.split(add, products, 3), self.split(add, self.recurrent_product(add, states[0]), 2)
        update, reset = (gate(add, add("Add", *pair)) for pair in zip(given[:2], own, strict=True))
        product = _plus(add, add("MatMul", add("Mul", reset, states[0]), self.value_weights), self.value_bias)
        return [_blend(add, update, states[0], activation(add, add("Add", given[2], product)))]


def _gru_cell_of_reset_states(add: Nodes, parameters: Parameters, activations: list[_Activation]) -> Step:
    hidden = parameters.hidden
    sizes = add.constant(np.array([2 * hidden, hidden]))
    gates, value = add.several("Split", parameters.recurrent, sizes, count=2, part="columns", axis=1)
    biases = ["", ""]
    if parameters.bias:
        biases = add.several("Split", parameters.bias, sizes, count=2, part="biases", axis=0)
    return _GruCellOfResetStates(Parameters(gates, biases[0], "", hidden), activations, value, biases[1])


def _blend(add: Nodes, update: str, state: str, value: str) -> str:
    """Return ``(1 - update) * value + update * state``."""
    return add("Add", value, add("Mul", update, add("Sub", state, value)))


@dataclass(frozen=True)
class _LstmCell(_Cell):
    peepholes: list[str]
    """The weights of the cell in the input, output and forget gate; none for a plain LSTM."""
    one: str
    """The constant 1 where the forget gate is 1 minus the input gate (``input_forget``); else empty."""

    def __call__(self, add: Nodes, products: str, states: list[str]) -> list[str]:
        gate, activation, of_cell = self.activations
        state, cell = states
        sums = self.split(add, add("Add", products, self.recurrent_product(add, state)), 4)
        taken = gate(add, self._peeped(add, sums[0], 0, cell))
        if self.one:
            kept = add("Sub", self.one, taken)
        else:
            kept = gate(add, self._peeped(add, sums[2], 2, cell))
        cell = add("Add", add("Mul", kept, cell), add("Mul", taken, activation(add, sums[3])))
        shown = gate(add, self._peeped(add, sums[1], 1, cell))
        return [add("Mul", shown, of_cell(add, cell)), cell]

    def _peeped(self, add: Nodes, gate: str, number: int, cell: str) -> str:
        return add("Add", gate, add("Mul", self.peepholes[number], cell)) if self.peepholes else gate


def _split(add: Nodes, value: str, count: int, size: int) -> list[str]:
    """Return `count` slices of `size` elements along the last axis."""
    return add.several("Split", value, add.constant(np.full(count, size)), count=count, part="gates", axis=-1)


def _plus(add: Nodes, value: str, bias: str) -> str:
    return add("Add", value, bias) if bias else value
