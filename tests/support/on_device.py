"""A plugin of pytest: kernels for the emulated CUDA device run on the machine's GPU, in the tests that emulate them.

``PYTHONPATH=tests/support python -m pytest -p on_device tests/lowering/schedule/cuda``. Arguments stay on the CPU, as
the emulated device has them: a launch copies them to the GPU and back. What only the emulation does (checks of races
and bounds, texts for another architecture) fails with it.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from mlirtri.lowering.codegen import cuda_to_llvm, scheduled_to_cuda
from mlirtri.lowering.core import target as targets

_EXECUTABLE_OF = scheduled_to_cuda.executable_of


class OnDevice:
    """An executable of CPU tensors that runs another's kernels on the GPU."""

    def __init__(self, emulated, make):
        self.emulated, self.make, self.real = emulated, make, None

    def __getattr__(self, name):
        return getattr(self.emulated, name)

    def with_source(self, source):
        return OnDevice(self.emulated.with_source(source), lambda: self.make().with_source(source))

    def launch(self, inputs, outputs):
        """Run on copies of the tensors' memory, which share what the tensors share."""
        self.real = self.real or self.make()
        there = Copies()
        values = self.emulated.plan.values if self.emulated.plan else []
        on_host = [bool(value.device) and value.device.startswith("cpu") for value in values]
        given = [
            tensor if number < len(on_host) and on_host[number] else there.of(tensor)
            for number, tensor in enumerate(inputs)
        ]
        self.real.launch(given, [there.of(tensor) for tensor in outputs])
        there.copy_back()


class Copies:
    """Tensors on the GPU over copies of storages of the CPU."""

    def __init__(self):
        self.storages = {}

    def of(self, tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in self.storages:
            self.storages[storage.data_ptr()] = storage, storage.cuda()
        _, there = self.storages[storage.data_ptr()]
        empty = torch.empty(0, dtype=tensor.dtype, device="cuda")
        return empty.set_(there, tensor.storage_offset(), tensor.shape, tensor.stride())

    def copy_back(self):
        torch.cuda.synchronize()
        for here, there in self.storages.values():
            here.copy_(there)


def executable_of(functions, source, plan, target, host=None):
    """Return the executable of CUDA functions; that of an emulated target runs on the GPU."""
    made = _EXECUTABLE_OF(functions, source, plan, target, host)
    if not target.is_emulated:
        return made
    real = replace(target, is_emulated=False)
    return OnDevice(made, lambda: _EXECUTABLE_OF(functions, source, plan, real, host))


def architecture() -> str:
    """Return that of the machine's first GPU."""
    major, minor = torch.cuda.get_device_capability()
    return f"sm_{major}{minor}"


def pytest_configure(config: object) -> None:
    """Put the GPU in the place of the emulated device."""
    targets.DEFAULT_CUDA_ARCHITECTURE = architecture()
    for module in (scheduled_to_cuda, cuda_to_llvm):
        if hasattr(module, "executable_of"):
            module.executable_of = executable_of
