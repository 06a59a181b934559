"""Devices in Relax modules: the `VDevice` of each device that a module names, and PrimFuncs by kind of device.

Takes an MLIR module with device regions. Gives its `VDevice`s, in the order of their names, which types and copies
refer to; their targets name the kind of device only, code is generated for the compilation's `Target`. `mark_devices`
is a pass of relax → tir: it puts the attribute ``mlirtri.device`` on each PrimFunc and a device into the type of each
call, and duplicates a PrimFunc that runs on two kinds, since each copy gets its own schedule. Refuses nothing.
"""

from __future__ import annotations

from typing import Any

from mlirtri.dialect.bindings.mlir import ir
from mlirtri.lowering.core.target import Target, as_target
from mlirtri.lowering.external.calls import KIND, calls_in, values_of
from mlirtri.lowering.external.objects import Device
from mlirtri.lowering.toolchain.tvm_names import BlockBuilder, IRModule, Node, PrimFunc, relax, structural_map
from mlirtri.lowering.toolchain.tvm_passes import operator_of, relax_functions

GLOBAL_INFO = "vdevice"
"""The global info of an IRModule that lists its devices."""

VDevice = relax.VDevice


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
    calls = calls_in(module)
    copies = [values_of(declared) for _, declared in calls if declared.attributes[KIND].value == "device"]
    if not copies:
        return VDevices()
    names = {copies[0]["home"], *(copy["device"] for copy in copies)}
    return VDevices(copies[0]["home"], copies[0]["architecture"], tuple(sorted(names)))


def vdevices_in(mod: IRModule) -> list[VDevice]:
    """Return the devices that a Relax module names."""
    return list(mod.global_infos.get(GLOBAL_INFO, ()))


def _vdevice(device: Device, architecture: str) -> VDevice:
    target = {"kind": "cuda", "arch": architecture} if device.kind == "cuda" else {"kind": "llvm"}
    return relax.VDevice(target, device.index)


def kind_of(vdevice: VDevice) -> str:
    """Return the kind of a device, ``"cpu"`` or ``"cuda"``."""
    return "cuda" if str(vdevice.target.kind.name) == "cuda" else "cpu"


def device_of(vdevice: VDevice) -> str:
    """Return the name of a device, as ``cuda:0``."""
    return f"{kind_of(vdevice)}:{int(vdevice.vdevice_id)}"


def vdevice_of(kind: Node) -> VDevice | None:
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


DEVICE_KIND = "mlirtri.device"
"""Attribute of a PrimFunc in a module with devices: ``"cpu"`` or ``"cuda"``."""
TARGET = "target"
"""Attribute that TVM's LegalizeOps gives functions: a generic target, which is removed here."""


def has_devices(mod: IRModule) -> bool:
    """Return whether the module names any device."""
    return bool(vdevices_in(mod))


def mark_devices(mod: IRModule) -> IRModule:
    """Return the module with each PrimFunc marked for one kind of device."""
    [(name, function)] = relax_functions(mod)
    # Calls without operands run on the device of the arguments.
    homes = [vdevice for parameter in function.params if (vdevice := vdevice_of(parameter.ty)) is not None]
    split = _Split(mod, (homes or vdevices_in(mod))[0])
    marked = structural_map(function, (relax.VarBinding, split.binding), order="post")
    result = split.builder.get()
    result.update_func(result.get_global_var(name), marked)
    return relax.transform.DeadCodeElimination()(result)


class _Split:
    def __init__(self, mod: IRModule, home: Any):
        self.home = home
        self.builder = BlockBuilder(mod)
        self.originals = {gv.name_hint: function for gv, function in mod.functions_items()}
        self.callees: dict[tuple[str, str], Any] = {}

    def binding(self, binding: Any) -> Any:
        if operator_of(binding) != "relax.call_tir":
            return binding
        call = binding.value
        vdevice = vdevice_of(call.ty_args[0]) or vdevice_of(call.args[1].ty) or self.home
        callee = self.callee(call.args[0], kind_of(vdevice))
        value = relax.Call(call.op, [callee, *call.args[1:]], call.attrs, [_on(call.ty_args[0], vdevice)], call.span)
        return relax.VarBinding(binding.var, value)

    def callee(self, callee: Any, kind: str) -> Any:
        """Return the PrimFunc of that kind of device; the first kind keeps the function's name."""
        name = callee.name_hint
        if (name, kind) not in self.callees:
            function = self.originals[name]
            marked = function.without_attr(TARGET) if TARGET in (function.attrs or {}) else function
            marked = marked.with_attrs({DEVICE_KIND: kind})
            if any(other == name for other, _ in self.callees):
                self.callees[name, kind] = self.builder.add_func(marked, f"{name}_{kind}")
            else:
                self.builder.update_func(callee, marked)
                self.callees[name, kind] = callee
        return self.callees[name, kind]


def _on(kind: Any, vdevice: Any) -> Any:
    """Return a Relax type with its tensors on a device."""
    if isinstance(kind, relax.TupleType):
        return relax.TupleType([_on(field, vdevice) for field in kind.fields])
    return relax.TensorType(kind.shape, kind.dtype, vdevice=vdevice)


def is_for(function: PrimFunc, kind: str) -> bool:
    """Return whether a PrimFunc is for that kind of device; one without the attribute is for any."""
    return str((function.attrs or {}).get(DEVICE_KIND, kind)) == kind
