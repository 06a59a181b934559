"""Run kernels for CUDA, whose library is built or loaded at the first launch: neither needs a GPU before."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from mlirtri.errors import DeviceError
from mlirtri.lowering.core.launch_figures import LaunchFigures
from mlirtri.lowering.core.stage import Tensors
from mlirtri.lowering.runtime.launch_plan import Plan
from mlirtri.lowering.runtime.launches import Launches, launches_of_tensors
from mlirtri.lowering.runtime.tvm_executable import KernelExecutable, Library, found_in, make_executable
from mlirtri.lowering.toolchain import tvm_runtime

ALIGNMENT = 16
"""Bytes of the widest load or store: tensors aligned to less, such as slices, are copied."""


def _aligned(tensor: Any) -> Any:
    """Return a tensor itself, or a copy with its strides; where elements share an address, it is row-major."""
    if _is_aligned(tensor):
        return tensor
    if 0 in tensor.stride():
        return tensor.clone()
    return tensor.new_empty_strided(tensor.shape, tensor.stride()).copy_(tensor)


def _is_aligned(tensor: Any) -> bool:
    return tensor.data_ptr() % ALIGNMENT == 0


class CudaExecutable:
    """Kernels for CUDA, and where there are regions on the CPU, its functions."""

    def __init__(
        self, plan: Plan | None, kernels: int, source: str, make_module: Callable[[str], Any], architecture: str,
        host: Library | None = None, make_figures: Callable[[], tuple[LaunchFigures, ...]] = tuple,
    ):  # fmt: skip
        self.kernels = plan.kernels if plan else kernels
        self.bytes = plan.bytes if plan else None
        self.plan, self.architecture = plan, architecture
        self.updates_in_place = bool(plan and plan.updates)
        """Whether results that update arguments are those arguments' tensors, written in place."""
        self.source = source
        """The CUDA source that runs."""
        self.make_module = make_module
        """Returns the runtime module of the CUDA functions, from their source."""
        self.host = host
        self.make_figures = make_figures
        """Returns what each launch takes."""
        self.flops: int | None = None
        """Of one call, for a kernel that was loaded from files."""
        self.file: Path | None = None
        """The shared library of an artifact that it was loaded from."""
        self._building = threading.Lock()
        self._built: KernelExecutable | None = None

    def with_source(self, source: str) -> CudaExecutable:
        """Return the executable of another CUDA source with the same kernels, such as an edited one."""
        return CudaExecutable(
            self.plan, self.kernels, source, self.make_module, self.architecture, self.host, self.make_figures
        )

    def launches(self, inputs: int, outputs: int) -> Launches:
        """Return what a call does, for calls that are written as Python."""
        return replace(launches_of_tensors(self.launch, inputs, outputs), prepared=lambda tensor: tensor)

    def launch(self, inputs: Tensors, outputs: Tensors) -> None:
        """Run on CUDA tensors, in the current stream; raises `DeviceError` if TVM has no CUDA runtime."""
        if self._built is None:
            with self._building:
                self._built = self._built or self._build()
        results = [tensor if _is_aligned(tensor) else tensor.new_empty(tensor.shape) for tensor in outputs]
        aligned = [_aligned(tensor) for tensor in inputs]
        self._built.launch(aligned, results)
        for number in sorted(set(self.plan.updates.values()) if self.plan else ()):
            if aligned[number] is not inputs[number]:
                inputs[number].copy_(aligned[number])
        for result, output in zip(results, outputs, strict=True):
            if result is not output:
                output.copy_(result)

    def _build(self) -> KernelExecutable:
        if self.plan is None:
            raise DeviceError(
                "a CUDA kernel whose launches depend on run-time values cannot be launched here",
                help='the CUDA source is kernel.ir["cuda"]',
            )
        if (problem := tvm_runtime.why_no_cuda()) is not None:
            help = 'compile with target="cpu" to run it' if self.host is None else 'let its regions name device("cpu")'
            raise DeviceError(
                f"this kernel was compiled for CUDA, and TVM finds no CUDA runtime to launch it: {problem}",
                help=f'{help}; the CUDA source is kernel.ir["cuda"]',
            )
        module = self.make_module(self.source)
        return make_executable(self.plan, found_in(self.host, module))
