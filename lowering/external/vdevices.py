"""Relax's `VDevice` of each device that a module names, which types and copies refer to.

Takes an MLIR module with device regions. Gives the `VDevice`s, in the order of their names. Their targets name the kind
of device only; code is generated for the compilation's `Target`. Refuses nothing.
"""

from __future__ import annotations

from typing import Any

from mlirtri.dialect.bindings.mlir import ir
from mlirtri.lowering.core.target import Target, as_target
from mlirtri.lowering.external.calls import KIND, calls_in, values_of
from mlirtri.lowering.external.devices import Device
from mlirtri.lowering.toolchain.tvm_names import IRModule, relax

GLOBAL_INFO = "vdevice"
"""The global info of an IRModule that lists its devices."""


class VDevices:
    """The devices of one module."""

    def __init__(self, home: str | None = None, architecture: str = "", names: tuple[str, ...] = ()):
        self._by_name = {name: _vdevice(Device.named(name), architecture) for name in names}
        self.home = self._by_name[home] if home else None
        """The device of arguments and results; None in a module without devices."""

    def __getitem__(self, name: str) -> Any:
        return self._by_name[name]

    def put_into(self, mod: IRModule) -> None:
        """Enter the devices into the module's global infos."""
        if self._by_name:
            mod.update_global_info(GLOBAL_INFO, list(self._by_name.values()))


def devices_of(module: ir.Module) -> VDevices:
    """Return the devices that the copies of an MLIR module name."""
    copies = [values_of(declaration) for _, declaration in calls_in(module) if _is_copy(declaration)]
    if not copies:
        return VDevices()
    names = {copies[0]["home"], *(copy["device"] for copy in copies)}
    return VDevices(copies[0]["home"], copies[0]["architecture"], tuple(sorted(names)))


def vdevices_in(mod: IRModule) -> list[Any]:
    """Return the devices that a Relax module names."""
    return list(mod.global_infos.get(GLOBAL_INFO, ()))


def _is_copy(declaration: ir.OpView) -> bool:
    return declaration.attributes[KIND].value == "device"


def _vdevice(device: Device, architecture: str) -> Any:
    target = {"kind": "cuda", "arch": architecture} if device.kind == "cuda" else {"kind": "llvm"}
    return relax.VDevice(target, device.index)


def kind_of(vdevice: Any) -> str:
    """Return the kind of a device, ``"cpu"`` or ``"cuda"``."""
    return "cuda" if str(vdevice.target.kind.name) == "cuda" else "cpu"


def device_of(vdevice: Any) -> str:
    """Return the name of a device, as ``cuda:0``."""
    return f"{kind_of(vdevice)}:{int(vdevice.vdevice_id)}"


def vdevice_of(kind: Any) -> Any:
    """Return the device of a Relax type, of a tuple the first one in it; None where it names none."""
    if isinstance(kind, relax.TupleType):
        return next((vdevice for field in kind.fields if (vdevice := vdevice_of(field)) is not None), None)
    return kind.vdevice if isinstance(kind, relax.TensorType) else None


def targets_in(mod: IRModule, home: Target) -> list[Target]:
    """Return the targets of code generation: the compilation's, and one for the other kind of device in the module."""
    vdevices = vdevices_in(mod)
    others = {kind_of(vdevice) for vdevice in vdevices} - {home.kind}
    if not others:
        return [home]
    if others == {"cpu"}:
        return [as_target("cpu"), home]
    [architecture, *_] = [str(vdevice.target.attrs["arch"]) for vdevice in vdevices if kind_of(vdevice) == "cuda"]
    return [home, as_target(f"cuda:{architecture}")]
