"""Run a launch plan on torch's tensors.

The last launches write into the caller's outputs; other intermediates are allocated per call and freed after their last
use. Thread-safe: a call shares only read-only data with others. Raises `DeviceError` where the device is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
import torch

from mlirtri.dialect.base.dtypes import DTYPES
from mlirtri.lowering.runtime.launch_plan import Plan, Step, Store, Value, last_uses
from mlirtri.lowering.runtime.memory import empty
from mlirtri.lowering.runtime.stored_tensors import restored

Launch = Callable[[Sequence[Any], Sequence[Any]], None]


def launch_of_plan(plan: Plan, store: Store, kernel: Callable[[str], Callable]) -> Launch:
    """Return the call of a plan; `kernel` looks a compiled function up by its name."""
    is_single = _is_single(plan, store)
    launch = _single(plan, store, kernel(str(plan.steps[0].kernel))) if is_single else _several(plan, store, kernel)
    launch = launch if plan.is_static else _with_empty_tensors(launch, bool(plan.updates))
    return _on_parts(launch) if plan.has_parts else launch


def _on_parts(launch: Launch) -> Launch:
    """Return `launch` on complex tensors, which the kernels take as tensors of real and imaginary parts."""

    def parts(tensors):
        return [torch.view_as_real(tensor) if tensor.is_complex() else tensor for tensor in tensors]

    return lambda inputs, outputs: launch(parts(inputs), parts(outputs))


def _is_single(plan: Plan, store: Store) -> bool:
    return (
        len(plan.steps) == 1
        and plan.steps[0].kernel is not None
        and not store.copies
        and all(number < plan.arguments and plan.values[number].size for number in plan.steps[0].inputs)
        and all(number in store.home and plan.values[number].size for number in plan.steps[0].outputs)
    )


def _single(plan: Plan, store: Store, function: Callable) -> Launch:
    """Return the fastest call of one kernel; reorders arguments only if needed."""
    (step,) = plan.steps
    order = [store.home[number] for number in step.outputs]
    positions = step.inputs
    if not order and positions == tuple(range(plan.arguments)):
        return lambda inputs, outputs: function(*inputs)
    if positions == tuple(range(plan.arguments)) and order == list(range(len(plan.results))):
        return lambda inputs, outputs: function(*inputs, *outputs)

    def launch(inputs, outputs):
        function(*[inputs[position] for position in positions], *[outputs[position] for position in order])

    return launch


def _several(plan: Plan, store: Store, kernel: Callable[[str], Callable]) -> Launch:
    actions = [_action(plan, store, step, kernel) for step in plan.steps]
    constants = _Constants(plan)
    empties = [(number, _empty(value)) for number, value in enumerate(plan.values) if _is_empty(value)]
    last_use = last_uses([{*step.inputs, *step.outputs} for step in plan.steps], set(plan.results))
    count, arguments, copies = len(plan.values), plan.arguments, store.copies

    def launch(inputs, outputs):
        values: list[Any] = [None] * count
        values[:arguments] = inputs
        device = next((tensor.device for tensor in (*inputs, *outputs)), None)
        constants.fill(values, device)
        for number, tensor in empties:
            values[number] = tensor
        for action, dead in zip(actions, last_use, strict=True):
            action(values, outputs, device)
            for number in dead:
                values[number] = None
        for number, position in copies:
            outputs[position].copy_(values[number])

    return launch


def new_tensors(values: Sequence[Value]) -> list[torch.Tensor]:
    """Return uninitialised tensors on the CPU for values of static sizes."""
    return [empty(value.static_shape, DTYPES[value.dtype].torch, None) for value in values]


def _is_empty(value: Value) -> bool:
    """Return whether a value of static sizes has no elements; the caller allocates others."""
    return value.is_static and not value.size


def _empty(value: Value) -> torch.Tensor:
    return _restrided(torch.empty(value.static_shape, dtype=DTYPES[value.dtype].torch))


def _restrided(tensor: torch.Tensor) -> torch.Tensor:
    """Return an empty tensor with the strides that kernels check for; torch's own differ."""
    shape = tensor.shape
    return tensor.as_strided(shape, [prod(shape[axis + 1 :]) for axis in range(len(shape))])


def _with_empty_tensors(launch: Launch, updates: bool) -> Launch:
    def restride(tensors):
        return [tensor if tensor.numel() else _restrided(tensor) for tensor in tensors]

    def launch_any(inputs, outputs):
        if not updates and not any(tensor.numel() for tensor in outputs):
            return
        launch(restride(inputs), restride(outputs))

    return launch_any


def _action(plan: Plan, store: Store, step: Step, kernel: Callable[[str], Callable]) -> Callable:
    """Return one step as a function of a call's values, the caller's outputs and the device."""
    if step.is_copy:
        return _copy(plan, store, step)
    if step.kernel is None:
        source, target, shape = step.inputs[0], step.outputs[0], plan.values[step.outputs[0]].shape

        def view(values, _outputs, _device):
            values[target] = values[source].view(shape)

        return view
    function = kernel(step.kernel)
    makers = [(number, _maker(plan, store, number)) for number in step.outputs]
    operands = (*step.inputs, *step.outputs)

    def launch(values, outputs, device):
        for number, make in makers:
            values[number] = make(outputs, device)
        function(*[values[number] for number in operands])

    return launch


def _copy(plan: Plan, store: Store, step: Step) -> Callable:
    [source], [target] = step.inputs, step.outputs
    make = _maker(plan, store, target)

    def copy(values, outputs, device):
        values[target] = make(outputs, device)
        values[target].copy_(values[source])

    return copy


def torch_device(name: str | None) -> torch.device | None:
    """Return torch's name of a device; its CPU has no number."""
    return None if name is None else torch.device("cpu" if name.startswith("cpu") else name)


def _maker(plan: Plan, store: Store, number: int) -> Callable:
    shape, dtype = plan.values[number].shape, DTYPES[plan.values[number].dtype].torch
    if _is_empty(plan.values[number]):
        return lambda _outputs, _device: _empty(plan.values[number])
    if number not in store.home:
        pinned, static_shape = torch_device(plan.values[number].device), plan.values[number].static_shape
        return lambda outputs, device: empty(static_shape, dtype, pinned or device)
    position = store.home[number]
    if plan.values[plan.results[position]].shape == shape:
        return lambda outputs, device: outputs[position]
    return lambda outputs, device: outputs[position].view(shape)


def host_tensor(constant: object, dtype: str) -> torch.Tensor:
    """Return a constant of a plan as a tensor on the CPU, over the same memory."""
    return restored(constant, dtype) if isinstance(constant, np.ndarray) else torch.from_dlpack(constant)


class _Constants:
    """The plan's constants as torch tensors, copied once to each device."""

    def __init__(self, plan: Plan):
        self.numbers = tuple(plan.constants)
        self.host = [host_tensor(plan.constants[number], plan.values[number].dtype) for number in self.numbers]
        self.devices = [torch_device(plan.values[number].device) for number in self.numbers]
        self.tensors: dict[str, list[torch.Tensor]] = {} if any(self.devices) else {"cpu": self.host}

    def fill(self, values: list, device: torch.device | None) -> None:
        if not self.numbers:
            return
        key = str(device)
        if key not in self.tensors:
            self.tensors[key] = [
                constant.to(pinned or device) for constant, pinned in zip(self.host, self.devices, strict=True)
            ]
        for number, tensor in zip(self.numbers, self.tensors[key], strict=True):
            values[number] = tensor
