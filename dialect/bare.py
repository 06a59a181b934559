"""MLIR for other tools: a module without attributes of ours.

Takes a module of any MLIR stage, which it changes in place. Refuses nothing.
"""

from __future__ import annotations

from mlirtri.dialect.bindings.mlir import ir

PREFIX = "mlirtri."
_GROUPS = ("arg_attrs", "res_attrs")
"""Attributes that hold those of a function's arguments and results."""


def without_ours(module: ir.Module) -> None:
    """Take the attributes whose names start with `PREFIX` off `module`, in place."""
    with module.context:
        module.operation.walk(_strip, ir.WalkOrder.PRE_ORDER)


def _strip(operation: ir.OpView) -> ir.WalkResult:
    attributes = operation.operation.attributes
    for name in [each for each in attributes if each.startswith(PREFIX)]:
        del attributes[name]
    for name in [each for each in _GROUPS if each in attributes]:
        groups = [_without_ours(ir.DictAttr(each)) for each in ir.ArrayAttr(attributes[name])]
        if any(groups):
            attributes[name] = ir.ArrayAttr.get([ir.DictAttr.get(each) for each in groups])
        else:
            del attributes[name]
    return ir.WalkResult.ADVANCE


def _without_ours(group: ir.DictAttr) -> dict[str, ir.Attribute]:
    named = (group[at] for at in range(len(group)))
    return {each.name: each.attr for each in named if not each.name.startswith(PREFIX)}
