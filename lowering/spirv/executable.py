"""Run kernels for Vulkan: copies arguments to the device's memory, interprets the host's program, copies results back.

Needs libvulkan and a driver at the first call only; raises `DeviceError` where there is none, or where the device
lacks what a kernel uses.
"""

from __future__ import annotations

import ctypes
import struct
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from mlirtri.errors import DeviceError, KernelMemoryError
from mlirtri.lowering.core.size_program import computed
from mlirtri.lowering.core.stage import Tensors
from mlirtri.lowering.spirv.host_program import (
    Allocate,
    Block,
    Compute,
    Dispatch,
    For,
    If,
    Load,
    Number,
    Program,
    While,
)
from mlirtri.lowering.spirv.vulkan import Buffer, Commands, Pipeline, Vulkan, VulkanError, device

_FORMATS = {"index": "i", "i1": "b", "i8": "b", "i16": "h", "i32": "i", "i64": "q", "f16": "e", "f32": "f", "f64": "d"}
"""Of numbers in memory; SPIR-V's index has 32 bits."""
_INSTALL = 'its binaries are kernel.binaries; use target="cpu" to run it, or install a driver (lavapipe is a CPU)'


@dataclass(frozen=True, eq=False)
class SpirvExecutable:
    """Kernels for Vulkan, and the program of the host that launches them."""

    program: Program
    bytes: int | None
    binaries: dict[str, bytes]
    """SPIR-V modules by the name of their kernel, in the order of the launches."""
    updates: tuple[tuple[int, int], ...] = ()
    """Each an input and the result that is its new content."""
    updates_in_place = True
    _pipelines: dict[tuple[Vulkan, str], Pipeline] = field(default_factory=dict, repr=False)

    @property
    def kernels(self) -> int:
        return len(self.program.dispatches)

    def make_figures(self) -> tuple[Dispatch, ...]:
        """Return the launches, as they stand in the program."""
        return self.program.dispatches

    def launch(self, inputs: Tensors, outputs: Tensors) -> None:
        """Run on torch tensors in the host's memory; writes every output in full."""
        try:
            vulkan = device()
        except VulkanError as problem:
            raise DeviceError(f"a kernel for SPIR-V runs where a Vulkan driver is: {problem}", help=_INSTALL) from None
        in_place = {result for _, result in self.updates}
        tensors = [*inputs, *(tensor for number, tensor in enumerate(outputs) if number not in in_place)]
        written = [*(number for number, _ in self.updates), *range(len(inputs), len(tensors))]
        with vulkan.lock:
            call = _Call(self, vulkan, tensors)
            try:
                call.run(written)
            except VulkanError as problem:
                raise KernelMemoryError(f"{vulkan.name} did not run the kernel: {problem}") from None
            finally:
                vulkan.free(call.memory)

    def pipeline(self, vulkan: Vulkan, launch: Dispatch) -> Pipeline:
        """Return the kernel of a launch, ready; raises `DeviceError` where the device lacks what it uses."""
        key = (vulkan, launch.kernel)
        if key not in self._pipelines:
            words = self.binaries[launch.kernel]
            if missing := vulkan.missing(words):
                what = " and ".join(missing)
                raise DeviceError(f"{vulkan.name} has no {what}, which the kernel {launch.kernel} uses", help=_INSTALL)
            self._pipelines[key] = vulkan.pipeline(words, launch.entry_point, len(launch.buffers))
            weakref.finalize(self, vulkan.release, self._pipelines[key])
        return self._pipelines[key]


class _Call:
    """One call: the buffers and numbers that it has so far."""

    def __init__(self, executable: SpirvExecutable, vulkan: Vulkan, tensors: Sequence[Any]):
        self.executable, self.vulkan, self.tensors = executable, vulkan, tensors
        self.commands = Commands(vulkan)
        self.memory: list[Buffer] = []
        self.buffers: dict[int, Buffer] = {}
        self.allocated: dict[tuple[int, int], Buffer] = {}
        self.numbers: dict[str, Any] = {}

    def run(self, written: Sequence[int]) -> None:
        """Run the program, and copy these buffers back."""
        program = self.executable.program
        for number, tensor in enumerate(self.tensors):
            self.buffers[number] = self._new(_bytes(tensor))
            ctypes.memmove(self.buffers[number].address, tensor.data_ptr(), _bytes(tensor))
        for name, buffer, axis in program.sizes:
            self.numbers[name] = self.tensors[buffer].shape[axis]
        self.block(program.body)
        self.commands.submit()
        for number in written:
            tensor = self.tensors[number]
            ctypes.memmove(tensor.data_ptr(), self.buffers[number].address, _bytes(tensor))

    def block(self, block: Block) -> list[Any]:
        """Run the steps of a block; return what it yields."""
        for step in block.steps:
            _STEPS[type(step)](self, step)
        return self.values(block.yields)

    def value(self, number: Number) -> Any:
        return self.numbers[number] if isinstance(number, str) else number

    def values(self, numbers: Sequence[Number]) -> list[Any]:
        return [self.value(number) for number in numbers]

    def compute(self, step: Compute) -> None:
        self.numbers[step.result] = computed(step.step, step.widths, self.values(step.operands))

    def load(self, step: Load) -> None:
        self.commands.submit()
        offset = 0
        for size, index in zip(step.shape, self.values(step.indices), strict=True):
            offset = offset * size + index
        form = _FORMATS[step.kind]
        data = ctypes.string_at(
            self.buffers[step.buffer].address + offset * struct.calcsize(form), struct.calcsize(form)
        )
        [value] = struct.unpack(form, data)
        self.numbers[step.result] = value & 1 if step.kind == "i1" else value

    def allocate(self, step: Allocate) -> None:
        size = step.element * prod(self.values(step.shape))
        key = (step.buffer, size)
        if key not in self.allocated:
            self.allocated[key] = self._new(size)
            if step.content is not None:
                ctypes.memmove(self.allocated[key].address, step.content, len(step.content))
        self.buffers[step.buffer] = self.allocated[key]

    def dispatch(self, step: Dispatch) -> None:
        blocks = self.values(step.blocks)
        if min(blocks) <= 0:
            return
        buffers = [
            self._number(self.value(each), kind) if kind else self.buffers[int(each)]
            for each, kind in zip(step.buffers, step.kinds, strict=True)
        ]
        self.commands.dispatch(self.executable.pipeline(self.vulkan, step), buffers, blocks)

    def loop(self, step: For) -> None:
        lower, upper, stride = self.values(step.bounds)
        carried = self.values(step.initial)
        for counter in range(lower, upper, stride):
            self.numbers[step.counter] = counter
            self.numbers.update(zip(step.carried, carried, strict=True))
            carried = self.block(step.body)
        self.numbers.update(zip(step.results, carried, strict=True))

    def while_loop(self, step: While) -> None:
        carried = self.values(step.initial)
        while True:
            self.numbers.update(zip(step.carried, carried, strict=True))
            goes_on, *passed = self.block(step.before)
            if not goes_on:
                break
            self.numbers.update(zip(step.passed, passed, strict=True))
            carried = self.block(step.after)
        self.numbers.update(zip(step.results, passed, strict=True))

    def branch(self, step: If) -> None:
        chosen = 0 if self.value(step.condition) else 1
        if chosen < len(step.blocks):
            self.numbers.update(zip(step.results, self.block(step.blocks[chosen]), strict=True))

    def _new(self, size: int) -> Buffer:
        buffer = self.vulkan.buffer(size)
        self.memory.append(buffer)
        return buffer

    def _number(self, value: Any, kind: str) -> Buffer:
        """Return a buffer of one element."""
        data = struct.pack(_FORMATS[kind], value)
        buffer = self._new(len(data))
        ctypes.memmove(buffer.address, data, len(data))
        return buffer


_STEPS: dict[type, Any] = {
    Compute: _Call.compute, Load: _Call.load, Allocate: _Call.allocate, Dispatch: _Call.dispatch,
    For: _Call.loop, While: _Call.while_loop, If: _Call.branch,
}  # fmt: skip


def _bytes(tensor: Any) -> int:
    return tensor.numel() * tensor.element_size()
