"""Devices that a kernel names: ``with mt.device("gpu"):``. Imports neither MLIR nor TVM.

Takes ``"cpu"``, ``"gpu"`` or ``"cuda"``, and an index. Gives a `Device`, in kernels and outside. Refuses other kinds,
and lists the known ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlirtri.errors import KernelError, KernelValueError, did_you_mean
from mlirtri.lowering.core.target import Target
from mlirtri.lowering.external.base import External

KINDS = {"cpu": "cpu", "gpu": "cuda", "cuda": "cuda"}


@dataclass(frozen=True)
class Device(External):
    """One device of one kind, ``"cpu"`` or ``"cuda"``."""

    kind: str
    index: int = 0

    @classmethod
    def of(cls, target: Target) -> Device:
        """Return the first device of a target, which holds a kernel's arguments and results."""
        return cls(target.kind)

    @classmethod
    def named(cls, name: str) -> Device:
        """Return the device of a name such as ``cuda:0``."""
        kind, _, index = name.partition(":")
        return cls(kind, int(index))

    def __str__(self) -> str:
        return f"{self.kind}:{self.index}"

    def __enter__(self) -> None:
        raise KernelError(f"`with {self}:` stands in kernels only", help="write it in a function with @mlirtri.jit")

    def __exit__(self, *error: Any) -> None:
        """Never called: entering raises."""


class DeviceFunction(External):
    """`mlirtri.device`."""

    __name__ = "mlirtri.device"

    def emit(self, language: Any, arguments: list[Any], keywords: dict[str, Any]) -> Device:
        """Return the device that a kernel names; emits nothing."""
        return self(*arguments, **keywords)

    def __call__(self, kind: Any = None, index: Any = 0, *others: Any, **keywords: Any) -> Device:  # type: ignore[override]
        """Return a device of a kind by its index: ``device("cpu")``, ``device("gpu", 1)``."""
        if others or keywords:
            raise KernelValueError("mlirtri.device takes a kind and a number", help='for example device("cpu", 1)')
        if not isinstance(kind, str) or kind not in KINDS:
            near = did_you_mean(kind, KINDS)
            raise KernelValueError(f"{kind!r} is no kind of device", help=f"{near}the kinds are {', '.join(KINDS)}")
        if isinstance(index, bool) or not isinstance(index, int) or index < 0:
            raise KernelValueError(f"{index!r} is no number of a device", help="devices are numbered from 0")
        return Device(KINDS[kind], index)


device = DeviceFunction()
