"""`breakpoint()` in a kernel: a call in the `tri` room, at which the interpreter stops and starts the debugger.

Takes where the call stands. Gives an operation that no pass removes. Kernels that are compiled refuse it in the
frontend: there is nothing to stop.
"""

from __future__ import annotations

from mlirtri.dialect.bindings.mlir import func, ir

NAME = "mlirtri.breakpoint"


def emit(location: ir.Location | None) -> None:
    """A breakpoint at the insertion point."""
    block = ir.InsertionPoint.current.block
    module = block.owner
    while module.name != "builtin.module":
        module = module.operation.parent
    _declare(module.operation.regions[0].blocks[0])
    callee = {"callee": ir.FlatSymbolRefAttr.get(NAME)}
    ir.Operation.create("func.call", attributes=callee, loc=location)


def _declare(body: ir.Block) -> None:
    """What is called has to be there, once; it has no body."""
    if any("sym_name" in each.attributes and each.attributes["sym_name"].value == NAME for each in body.operations):
        return
    with ir.InsertionPoint.at_block_begin(body):
        func.FuncOp(NAME, ([], []), visibility="private")


def is_breakpoint(operation: ir.Operation) -> bool:
    return operation.name == "func.call" and operation.attributes["callee"].value == NAME
