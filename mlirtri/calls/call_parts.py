"""Two parts of a written call: the guard that tensors share no memory, and a launch by pointers."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from mlirtri.calls.callee import Impossible
from mlirtri.dialect.base.tensor_type import TensorType
from mlirtri.lowering.runtime.launches import Launch

if TYPE_CHECKING:
    from mlirtri.calls.call_source import Variant  # imports this file

_ADDRESS = object.__basicsize__
"""Bytes from the start of an array object to the address of its elements: the first field of NumPy's C struct."""
_SAMPLE = np.zeros(1)
_HAS_ADDRESS = ctypes.c_void_p.from_address(id(_SAMPLE) + _ADDRESS).value == _SAMPLE.ctypes.data


def guard_apart(
    variant: Variant, pairs: Sequence[tuple[str, str]], types: dict[str, TensorType], kinds: set[type]
) -> None:
    """Add the guard that contiguous tensors share no memory."""
    if not pairs:
        return
    if len(kinds) > 1:
        raise Impossible
    if np.ndarray in kinds:
        may_share = variant.name("may_share_memory", np.may_share_memory)
        owned = " and ".join(f"{name}.flags.owndata" for name in types)
        others = " and ".join(f"{first} is not {second}" for first, second in pairs)
        shared = " or ".join(f"{may_share}({first}, {second})" for first, second in pairs)
        variant.guards.append(f"(({owned} and {others}) or not ({shared}))")
        return
    variant.guards += [f"(p_{name} := {name}.data_ptr())" for name in types]
    sizes = {
        name: str((type_.size or 0) * type_.dtype.bytes) if type_.is_static else f"{name}.nbytes"
        for name, type_ in types.items()
    }
    variant.guards += [
        f"(p_{first} + {sizes[first]} <= p_{second} or p_{second} + {sizes[second]} <= p_{first})"
        for first, second in pairs
    ]


def launch_pointers(variant: Variant, step: Launch) -> None:
    """Add the lines of a launch that takes a table of pointers."""
    fixed: dict[int, Callable[[dict[str, Any]], int]] = {}
    located = [variant.located(operand) for operand in step.operands]
    for slot, (name, _, is_array, tensor) in enumerate(located):
        if tensor is not None:
            fixed[slot] = lambda _made, tensor=tensor: tensor.data_ptr()
        elif name in variant.memory.kept:
            fixed[slot] = lambda made, name=name: made[name].ctypes.data
        elif is_array and not _HAS_ADDRESS:
            raise Impossible
        else:
            variant.launching.append(
                f"t[{slot}] = id({name}) + {_ADDRESS}" if is_array else f"q[{slot}] = {name}.data_ptr()"
            )
    for slot, (buffer, axis) in enumerate(step.sizes, len(located)):
        name, _, _, tensor = located[buffer]
        if tensor is None:
            variant.launching.append(f"q[{slot}] = {name}.shape[{axis}]")
        else:
            fixed[slot] = lambda _made, size=tensor.shape[axis]: size
    for slot, (buffer, axis) in enumerate(step.strides, len(located) + len(step.sizes)):
        name, _, is_array, _ = located[buffer]
        stride = f"{name}.strides[{axis}] // {name}.itemsize" if is_array else f"{name}.stride({axis})"
        variant.launching.append(f"q[{slot}] = {stride}")
    slots = len(located) + len(step.sizes) + len(step.strides) + variant.launches.gives_status
    variant.memory.items |= {"q": lambda _made: (ctypes.c_void_p * slots)(), "t": partial(_table, slots, fixed)}
    variant.launching.append(f"{variant.name('launch0', step.function)}(t)")
    if variant.launches.gives_status:
        variant.launching.append(f"if q[{slots - 1}]: raise MemoryError('bad_alloc')")


def _table(slots: int, fixed: dict[int, Callable[[dict[str, Any]], int]], made: dict[str, Any]) -> Any:
    """Return the table of addresses for `made`'s pointers, after storing those that never change."""
    pointers = made["q"]
    for slot, address in fixed.items():
        pointers[slot] = address(made)
    start, step = ctypes.addressof(pointers), ctypes.sizeof(ctypes.c_void_p)
    return (ctypes.c_void_p * slots)(*(start + step * slot for slot in range(slots)))
