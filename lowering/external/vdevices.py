"""Devices as Relax has them: a `VDevice` for each that a module names, which types and copies refer to.

Takes a module of MLIR with device regions. Gives the `VDevice`s, in the order of their names. Their targets say what
kind of device it is; what code is made for is the compilation's `Target`.
"""

from __future__ import annotations

from typing import Any

from mlirtri.dialect.bindings.mlir import ir
from mlirtri.lowering.core.target import Target, as_target
from mlirtri.lowering.external.calls import KIND, calls_in, values_of
from mlirtri.lowering.external.devices import Device
from mlirtri.lowering.toolchain.tvm_names import IRModule, relax

GLOBAL_INFO = "vdevice"
"""Where an IRModule has its devices."""


class VDevices:
    """The devices of one module."""

    def __init__(self, home: str | None = None, architecture: str = "", names: tuple[str, ...] = ()):
        self._made = {name: _vdevice(Device.named(name), architecture) for name in names}
        self.home = self._made[home] if home else None
        """Where arguments and results are; None in a module without devices."""

    def __getitem__(self, name: str) -> Any:
        return self._made[name]

    def put_into(self, mod: IRModule) -> None:
        """Let the module know its devices."""
        if self._made:
            mod.update_global_info(GLOBAL_INFO, list(self._made.values()))


def devices_of(module: ir.Module) -> VDevices:
    """The devices that the copies of a module name."""
    copies = [values_of(declaration) for _, declaration in calls_in(module) if _is_copy(declaration)]
    if not copies:
        return VDevices()
    names = {copies[0]["home"], *(each["device"] for each in copies)}
    return VDevices(copies[0]["home"], copies[0]["architecture"], tuple(sorted(names)))


def vdevices_in(mod: IRModule) -> list[Any]:
    """The devices that a Relax module names."""
    return list(mod.global_infos.get(GLOBAL_INFO, ()))


def _is_copy(declaration: ir.OpView) -> bool:
    return declaration.attributes[KIND].value == "device"


def _vdevice(device: Device, architecture: str) -> Any:
    target = {"kind": "cuda", "arch": architecture} if device.kind == "cuda" else {"kind": "llvm"}
    return relax.VDevice(target, device.index)


def kind_of(vdevice: Any) -> str:
    """``"cpu"`` or ``"cuda"``."""
    return "cuda" if str(vdevice.target.kind.name) == "cuda" else "cpu"


def device_of(vdevice: Any) -> str:
    """The name of a device."""
    return f"{kind_of(vdevice)}:{int(vdevice.vdevice_id)}"


def vdevice_of(kind: Any) -> Any:
    """The device of a Relax type, or of the first part of one that has any; None where none is said."""
    if isinstance(kind, relax.TupleType):
        return next((found for each in kind.fields if (found := vdevice_of(each)) is not None), None)
    return kind.vdevice if isinstance(kind, relax.TensorType) else None


def targets_in(mod: IRModule, home: Target) -> list[Target]:
    """What code is made for: the target of the compilation, and of the other kind of device that the module names."""
    vdevices = vdevices_in(mod)
    others = {kind_of(each) for each in vdevices} - {home.kind}
    if not others:
        return [home]
    if others == {"cpu"}:
        return [as_target("cpu"), home]
    [architecture, *_] = [str(each.target.attrs["arch"]) for each in vdevices if kind_of(each) == "cuda"]
    return [home, as_target(f"cuda:{architecture}")]
