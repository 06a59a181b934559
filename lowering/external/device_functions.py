"""A pass of relax → tir for modules with devices: every PrimFunc gets the kind of its device as an attribute.

Takes a module whose Relax function calls PrimFuncs and copies between devices. Gives the same module with the
attribute ``mlirtri.device`` on each PrimFunc and a device in the type of each call. A PrimFunc that runs on two kinds
is duplicated, since each copy gets its own schedule. Refuses nothing.
"""

from __future__ import annotations

from typing import Any

from mlirtri.lowering.external.vdevices import kind_of, vdevice_of, vdevices_in
from mlirtri.lowering.toolchain.tvm_names import BlockBuilder, IRModule, PrimFunc, relax, structural_map
from mlirtri.lowering.toolchain.tvm_passes import operator_of, relax_functions

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
            marked = marked.with_attr(DEVICE_KIND, kind)
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
