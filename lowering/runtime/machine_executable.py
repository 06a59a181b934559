"""Run functions with branches on Relax's virtual machine; one per thread, since a machine is not thread-safe."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from mlirtri.lowering.runtime.launches import Launches, launches_of_tensors
from mlirtri.lowering.runtime.tvm_executable import Library
from mlirtri.lowering.toolchain.tvm_runtime import start_machine


class MachineExecutable:
    """A Relax function that branches, or allocates what run-time sizes need."""

    bytes = None

    def __init__(self, library: Library, function: str, kernels: int):
        self.kernels = kernels
        self.library, self.function = library, function
        self._local = threading.local()

    def launches(self, inputs: int, outputs: int) -> Launches:
        """Return what a call does, for calls that are written as Python."""
        return launches_of_tensors(self.launch, inputs, outputs)

    def launch(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        machine = getattr(self._local, "machine", None)
        if machine is None:
            machine = self._local.machine = start_machine(self.library.module)
        import torch  # reading it from a file needs none

        produced = machine[self.function](*inputs)
        for output, value in zip(outputs, _tensors(produced), strict=True):
            output.copy_(torch.from_dlpack(value))


def _tensors(produced: Any) -> list[Any]:
    if hasattr(produced, "__dlpack__"):
        return [produced]
    return [tensor for item in produced for tensor in _tensors(item)]
