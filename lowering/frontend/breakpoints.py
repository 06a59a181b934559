"""`breakpoint()` in a kernel: a call in `tri`, at which the interpreter starts the debugger.

Takes the location of the call. Gives an operation that no pass removes. The frontend refuses it in compiled kernels.
"""

from __future__ import annotations

from mlirtri.dialect.bindings.mlir import func, ir

NAME = "mlirtri.breakpoint"


def emit(location: ir.Location | None) -> None:
    """Emit a breakpoint at the insertion point."""
    block = ir.InsertionPoint.current.block
    module = block.owner
    while module.name != "builtin.module":
        module = module.operation.parent
    _declare(module.operation.regions[0].blocks[0])
    callee = {"callee": ir.FlatSymbolRefAttr.get(NAME)}
    ir.Operation.create("func.call", attributes=callee, loc=location)


def _declare(body: ir.Block) -> None:
    """Declare the callee, once."""
    if any("sym_name" in op.attributes and op.attributes["sym_name"].value == NAME for op in body.operations):
        return
    with ir.InsertionPoint.at_block_begin(body):
        func.FuncOp(NAME, ([], []), visibility="private")


def is_breakpoint(operation: ir.Operation) -> bool:
    """Return whether an operation is the call of a breakpoint."""
    return operation.name == "func.call" and operation.attributes["callee"].value == NAME
