"""Device placement of the values of a kernel with device regions, while its `tri` operations are emitted.

An operand on another device is copied once, by a call of ``@device.…`` that every later stage shows. Refuses run-time
loops and branches in kernels that have regions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace

from mlirtri.dialect.base.dtypes import is_torch_device
from mlirtri.dialect.bindings.mlir import ir
from mlirtri.dialect.builder import TriBuilder, TriValue
from mlirtri.errors import UnsupportedSyntaxError
from mlirtri.lowering.core.target import DEFAULT_CUDA_ARCHITECTURE, Target
from mlirtri.lowering.external import calls as external_calls
from mlirtri.lowering.external.objects import KINDS, Device


class Placement:
    """The devices of a kernel's values: where each is, and its copies on others."""

    def __init__(self, target: Target):
        self.home = self.current = Device.of(target)
        self.architecture = target.architecture if target.is_cuda else DEFAULT_CUDA_ARCHITECTURE
        self.is_used = False
        self._where: dict[ir.Value, Device] = {}
        self._copies: dict[tuple[ir.Value, Device], TriValue] = {}

    @contextmanager
    def on(self, device: Device) -> Iterator[None]:
        """Let the operations emitted inside run on `device`."""
        outer, self.current, self.is_used = self.current, device, True
        try:
            yield
        finally:
            self.current = outer

    def is_current(self, value: object) -> bool:
        """Return whether a value names the current device: a `Device`, a name such as ``cuda:0``, a `torch.device`."""
        if not isinstance(value, (str, Device)) and not is_torch_device(value):
            return False
        kind, _, index = str(value).partition(":")
        return KINDS.get(kind) == self.current.kind and index in ("", str(self.current.index))

    def device_of(self, tensor: TriValue) -> Device:
        """Return the device that holds a tensor."""
        return self._where.get(tensor.value, self.home)

    def bring(self, builder: TriBuilder, tensors: Sequence[TriValue]) -> list[TriValue]:
        """Return the tensors on the current device, copied where they are on another."""
        if not self.is_used:
            return list(tensors)
        if ir.InsertionPoint.current.block.owner.operation.name != "func.func":
            raise UnsupportedSyntaxError(
                "a kernel with device regions cannot have loops, or branches on values of run time",
                help="put the loops into a kernel of their own",
            )
        return [self._brought(builder, tensor) for tensor in tensors]

    def note(self, tensor: TriValue) -> None:
        if self.is_used:
            self._where[tensor.value] = self.current

    def at_home(self, builder: TriBuilder, tensors: Sequence[TriValue]) -> list[TriValue]:
        """Return results on the device of the caller."""
        with self.on(self.home) if self.is_used else nullcontext():
            return self.bring(builder, tensors)

    def _brought(self, builder: TriBuilder, tensor: TriValue) -> TriValue:
        device = self.current
        if self.device_of(tensor) == device:
            return tensor
        key = (tensor.value, device)
        if key not in self._copies:
            values = {
                "function": "to_device", "device": str(device), "home": str(self.home),
                "architecture": self.architecture,
            }  # fmt: skip
            name = str(device).replace(":", ".")
            [self._copies[key]] = external_calls.call(builder, "device", name, values, [tensor], [tensor.type])
            self._where[self._copies[key].value] = device
        return replace(tensor, value=self._copies[key].value)
