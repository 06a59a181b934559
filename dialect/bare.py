"""MLIR for other tools: removes the attributes ``mlirtri.*``, which they do not know."""

from __future__ import annotations

from mlirtri.dialect.bindings.mlir import ir

PREFIX = "mlirtri."
_GROUPS = ("arg_attrs", "res_attrs")
"""Attributes that hold the attributes of a function's arguments and results."""


def without_ours(module: ir.Module) -> None:
    """Remove the attributes whose names start with `PREFIX` from a module of any MLIR stage, in place."""
    with module.context:
        module.operation.walk(_strip, ir.WalkOrder.PRE_ORDER)


def _strip(operation: ir.OpView) -> ir.WalkResult:
    attributes = operation.operation.attributes
    for name in [name for name in attributes if name.startswith(PREFIX)]:
        del attributes[name]
    for name in [name for name in _GROUPS if name in attributes]:
        groups = [_without_ours(ir.DictAttr(group)) for group in ir.ArrayAttr(attributes[name])]
        if any(groups):
            attributes[name] = ir.ArrayAttr.get([ir.DictAttr.get(group) for group in groups])
        else:
            del attributes[name]
    return ir.WalkResult.ADVANCE


def _without_ours(group: ir.DictAttr) -> dict[str, ir.Attribute]:
    named = (group[index] for index in range(len(group)))
    return {entry.name: entry.attr for entry in named if not entry.name.startswith(PREFIX)}
