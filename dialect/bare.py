"""MLIR text for other tools: the same module without locations and without attributes of ours.

Takes complete text of any MLIR stage. Gives text in which SSA values keep the names of the user's variables.
"""

from __future__ import annotations

from mlirtri.dialect.definition import new_context
from mlirtri.dialect.mlir import ir, print_module

PREFIX = "mlirtri."


def print_bare(text: str) -> str:
    """`text` without locations and without the attributes whose names start with `PREFIX`."""
    with new_context():
        module = ir.Module.parse(text)
        module.operation.walk(_strip, ir.WalkOrder.PRE_ORDER)
        return print_module(module)


def _strip(operation: ir.OpView) -> ir.WalkResult:
    attributes = operation.operation.attributes
    for name in [each for each in attributes if each.startswith(PREFIX)]:
        del attributes[name]
    return ir.WalkResult.ADVANCE
