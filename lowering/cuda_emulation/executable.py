"""Run CUDA kernels on CPU tensors: the emitted source on the emulated device, launched by TVM's host code.

The library is compiled at the first launch. One launch runs at a time: the device is one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mlirtri.errors import DeviceError, Span
from mlirtri.lowering.core.launch_figures import LaunchFigures
from mlirtri.lowering.core.stage import Tensors
from mlirtri.lowering.cuda_emulation.library import EmulatedLibrary
from mlirtri.lowering.cuda_emulation.reports import error_of
from mlirtri.lowering.cuda_emulation.translation import translated
from mlirtri.lowering.runtime.launch_plan import Plan
from mlirtri.lowering.runtime.tvm_executable import KernelExecutable, Library, found_in, make_executable


class EmulatedExecutable:
    """The kernels of one CUDA source, and where there are regions on the CPU, its functions."""

    why_no_files = "an emulated device's kernel has no files: a C++ compiler makes its code at the first call"

    def __init__(
        self, plan: Plan | None, kernels: int, source: str, spans: Mapping[str, Sequence[Span]],
        make_host: Callable[[], Any], cpu: Library | None = None,
        make_figures: Callable[[], tuple[LaunchFigures, ...]] = tuple,
    ):  # fmt: skip
        self.kernels = plan.kernels if plan else kernels
        self.bytes = plan.bytes if plan else None
        self.plan = plan
        self.updates_in_place = bool(plan and plan.updates)
        """Whether results that update arguments are those arguments' tensors, written in place."""
        self.source, self.spans = source, spans
        self.make_host = make_host
        """Returns the runtime module of the functions that launch the kernels."""
        self.cpu = cpu
        self.make_figures = make_figures
        """Returns what each launch takes on a device."""
        self._running = threading.Lock()
        self._built: KernelExecutable | None = None
        self._library: EmulatedLibrary | None = None

    def with_source(self, source: str) -> EmulatedExecutable:
        """Return the executable of another CUDA source with the same kernels, such as one with a mistake planted."""
        return EmulatedExecutable(
            self.plan, self.kernels, source, self.spans, self.make_host, self.cpu, self.make_figures
        )

    def launch(self, inputs: Tensors, outputs: Tensors) -> None:
        """Run on CPU tensors; raises `DeviceCheckError` for the first thing that a device forbids."""
        with self._running:
            if self._built is None:
                self._built = self._build()
            assert self._library is not None
            library = self._library
            poisoned = _poison(inputs, outputs)
            # What the CPU or a copy writes is not seen.
            copies = self.plan is None or any(step.kernel is None and not step.is_view for step in self.plan.steps)
            library.begin_call([] if self.cpu is not None or copies else poisoned)
            self._built.launch(inputs, outputs)
            report = library.taken_report()
        if report is not None:
            raise error_of(report, self.source, self.spans, library.line_of)

    def _build(self) -> KernelExecutable:
        if self.plan is None:
            raise DeviceError(
                "a CUDA kernel whose launches depend on run-time values cannot be emulated",
                help='the CUDA source is kernel.ir["cuda"]',
            )
        self._library = EmulatedLibrary(translated(self.source))
        host = self.make_host()
        host.import_module(self._library.module)
        return make_executable(_on_cpu(self.plan), found_in(self.cpu, host))


def _on_cpu(plan: Plan) -> Plan:
    """Return the plan with all its values on the CPU; what it copies between devices stays a copy."""
    values = [value if value.device is None else replace(value, device="cpu:0") for value in plan.values]
    return replace(plan, values=values)


def _poison(inputs: Sequence[Any], outputs: Sequence[Any]) -> list[tuple[int, int]]:
    """Fill results with bytes that show where nothing is written: NaN in floats, -1 in integers; return where."""
    import torch  # the tensors are its own

    held, poisoned = {tensor.data_ptr() for tensor in inputs}, []
    for tensor in outputs:
        if tensor.numel() and tensor.is_contiguous() and tensor.data_ptr() not in held and tensor.dtype != torch.bool:
            tensor.view(-1).view(torch.uint8).fill_(0xFF)
            poisoned.append((tensor.data_ptr(), tensor.numel() * tensor.element_size()))
    return poisoned
