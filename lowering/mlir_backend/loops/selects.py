"""Replace selects of buffers by branches around their uses, so that every access names one buffer.

Takes a function over memrefs. Gives it without ``arith.select`` of memrefs, which upstream creates from an `if` whose
arms yield different buffers. A view of the select becomes two views.

    %c = select %b, %x, %y; copy %c, %out   ──►   scf.if %b { copy %x, %out } else { copy %y, %out }
"""

from __future__ import annotations

from mlirtri.dialect.bindings.mlir import ir, operations_named, scf
from mlirtri.lowering.mlir.cloning import replace


def rewrite(module: ir.Module) -> None:
    """Replace every select of buffers in `module`."""
    while selects := [select for select in operations_named(module, "arith.select") if _is_buffer(select.results[0])]:
        for select in selects:
            for use in list(select.results[0].uses):
                _split(select, use.owner.operation)
            select.erase()


def _is_buffer(value: ir.Value) -> bool:
    return isinstance(value.type, ir.MemRefType)


def _split(select: ir.Operation, user: ir.Operation) -> None:
    """Clone the user for each buffer; one that reads the select twice is split at its first use."""
    if select.results[0] not in list(user.operands):
        return
    condition = select.operands[0]
    with ir.InsertionPoint(user), user.location:
        if len(user.results) and all(map(_is_buffer, user.results)):
            views = [_on(select, user, side) for side in (1, 2)]
            chosen = [
                ir.Operation.create("arith.select", [x.type], [condition, x, y])
                for x, y in zip(views[0].results, views[1].results, strict=True)
            ]
            results = [view.results[0] for view in chosen]
        else:
            branch = scf.IfOp(condition, [result.type for result in user.results], has_else=True)
            for side, block in ((1, branch.then_block), (2, branch.else_block)):
                with ir.InsertionPoint(block):
                    scf.YieldOp(list(_on(select, user, side).results))
            results = list(branch.results)
    replace(user, results)


def _on(select: ir.Operation, user: ir.Operation, side: int) -> ir.Operation:
    """Clone the user at the insertion point for one of the two buffers."""
    copy = user.clone()
    for position, operand in enumerate(user.operands):
        if operand == select.results[0]:
            copy.operation.operands[position] = select.operands[side]
    return copy.operation
