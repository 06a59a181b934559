"""Recurrent layers as loops over one step: LSTM, GRU and plain ones, of several layers and directions.

The products of all inputs with the layer's weights are one product in front of the loop. torch's own decomposition
writes each step out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch._decomp import decompositions as torch_rules

from mlirtri.lowering.importers.from_torch.decomposition_rules import Results, counted_loop, decomposes

aten = torch.ops.aten
Tensor = torch.Tensor
States = tuple[Tensor, ...]
Step = Callable[[Tensor, Tensor, States], States]
"""From the products with the input, those with the last output, and the last states: the new states, output first."""

MIN_STEPS = 4
"""With fewer steps they are written out, so that they fuse with what is around them."""


def _lstm_step(from_input: Tensor, from_output: Tensor, states: States) -> States:
    entry, forget, value, exit_ = (from_input + from_output).chunk(4, -1)
    cell = torch.sigmoid(forget) * states[1] + torch.sigmoid(entry) * torch.tanh(value)
    return torch.sigmoid(exit_) * torch.tanh(cell), cell


def _gru_step(from_input: Tensor, from_output: Tensor, states: States) -> States:
    (reset_input, update_input, new_input), (reset, update, new) = from_input.chunk(3, -1), from_output.chunk(3, -1)
    value = torch.tanh(new_input + new * torch.sigmoid(reset + reset_input))
    return ((states[0] - value) * torch.sigmoid(update + update_input) + value,)


def _tanh_step(from_input: Tensor, from_output: Tensor, _states: States) -> States:
    return (torch.tanh(from_input + from_output),)


def _relu_step(from_input: Tensor, from_output: Tensor, _states: States) -> States:
    return (torch.relu(from_input + from_output),)


def _is_taken(x: Tensor, batch_first: bool, dropout: float, train: bool) -> bool:
    steps = x.shape[1 if batch_first else 0]
    is_long = not isinstance(steps, int) or steps >= MIN_STEPS
    return is_long and x.dtype in (torch.float32, torch.float64) and not (train and dropout)


def _layers(
    step: Step, x: Tensor, initial: States, params: Sequence[Tensor], has_biases: bool, bidirectional: bool
) -> tuple[Tensor, list[Tensor]]:
    """Return the outputs of the last layer, and of each kind of state the last ones of all layers and directions."""
    count, directions = (4 if has_biases else 2), (2 if bidirectional else 1)
    last: list[States] = []
    for layer in range(len(params) // count // directions):
        outputs = []
        for direction in range(directions):
            number = layer * directions + direction
            weights = list(params[number * count : (number + 1) * count])
            states = tuple(state[number] for state in initial)
            output, states = _direction(step, x, states, weights, is_reversed=direction == 1)
            outputs.append(output)
            last.append(states)
        x = torch.cat(outputs, -1) if bidirectional else outputs[0]
    return x, [torch.stack(states) for states in zip(*last, strict=True)]


def _direction(
    step: Step, x: Tensor, initial: States, weights: list[Tensor], is_reversed: bool
) -> tuple[Tensor, States]:
    bias, own_bias = weights[2:] or (None, None)
    products = F.linear(x, weights[0], bias)
    # Transposed once, and not at each step.
    fixed = (products, weights[1].mT.contiguous(), *(() if own_bias is None else (own_bias,)))
    count = len(initial)

    def condition(number: Tensor, *rest: Tensor) -> Tensor:
        return number < rest[count + 1].shape[0]  # after the outputs and the states

    def advance(number: Tensor, outputs: Tensor, *rest: Tensor) -> Sequence[Tensor]:
        states, (products, weight, *biases) = rest[:count], rest[count:]
        length = products.shape[0]
        position: Any = (length - 1 - number if is_reversed else number).item()
        torch._check(position >= 0)
        torch._check(position < length)
        of_output = sum(biases, states[0] @ weight)
        states = step(torch.select(products, 0, position), of_output, states)
        written = torch.slice_scatter(outputs, states[0].unsqueeze(0), 0, position, position + 1)
        return written, *states

    outputs = x.new_zeros((x.shape[0], *initial[0].shape))
    outputs, *states = counted_loop(condition, advance, (outputs, *initial), fixed)
    return outputs, tuple(states)


@decomposes(aten.lstm.input)
def lstm(
    x: Tensor,
    initial: Sequence[Tensor],
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> Results:
    """Return outputs, last outputs and last cells; outputs that are projected are left to torch's decomposition."""
    options = (params, has_biases, num_layers, dropout, train, bidirectional, batch_first)
    if not _is_taken(x, batch_first, dropout, train) or initial[0].shape[-1] != initial[1].shape[-1]:
        return torch_rules.lstm_impl(x, initial, *options)
    x = x.transpose(0, 1) if batch_first else x
    output, (outputs, cells) = _layers(_lstm_step, x, tuple(initial), params, has_biases, bidirectional)
    return (output.transpose(0, 1) if batch_first else output), outputs, cells


def _of_one_state(step: Step, written_out: Callable[..., Any]) -> Callable[..., Results]:
    def layers(
        x: Tensor,
        initial: Tensor,
        params: Sequence[Tensor],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> Results:
        if not _is_taken(x, batch_first, dropout, train):
            options = (params, has_biases, num_layers, dropout, train, bidirectional, batch_first)
            return written_out(x, initial, *options)
        x = x.transpose(0, 1) if batch_first else x
        output, (last,) = _layers(step, x, (initial,), params, has_biases, bidirectional)
        return (output.transpose(0, 1) if batch_first else output), last

    return layers


for _operator, _step, _written_out in (
    (aten.gru.input, _gru_step, torch_rules.gru_impl),
    (aten.rnn_tanh.input, _tanh_step, torch_rules.rnn_tanh_input),
    (aten.rnn_relu.input, _relu_step, torch_rules.rnn_relu_input),
):
    decomposes(_operator)(_of_one_state(_step, _written_out))
