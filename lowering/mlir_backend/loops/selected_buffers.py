"""Replace selects of buffers, which upstream makes of an `if`, by branches around their uses.

    %c = select %b, %x, %y; copy %c, %out   ──►   scf.if %b { copy %x, %out } else { copy %y, %out }

A branch that yields such a select yields its condition instead, and the buffers are selected after it.
"""

from __future__ import annotations

from mlirtri.dialect.bindings.locations import span_of
from mlirtri.dialect.bindings.mlir import arith, ir, operations_named, scf
from mlirtri.errors import UnsupportedOperationError
from mlirtri.lowering.mlir_common.aliasing import is_inside, terminator
from mlirtri.lowering.mlir_common.cloning import replace
from mlirtri.lowering.mlir_common.reading import ALLOCATIONS, defined_by, definition


def rewrite(module: ir.Module) -> None:
    """Replace the selects of buffers of `module`, in place."""
    # The last one: no other select uses it.
    while selects := [each for each in operations_named(module, "arith.select") if _is_buffer(each.results[0])]:
        select = selects[-1]
        while (use := next(iter(select.results[0].uses), None)) is not None:
            user = use.owner.operation
            if user.name == "scf.yield" and user.parent.name == "scf.if":
                _select_after(user.parent.operation, list(user.operands).index(select.results[0]))
            else:
                _split(select, user)
        select.erase()


def _is_buffer(value: ir.Value) -> bool:
    return isinstance(value.type, ir.MemRefType)


def _split(select: ir.Operation, user: ir.Operation) -> None:
    """Clone the user for each buffer."""
    condition = select.operands[0]
    with ir.InsertionPoint(user), user.location:
        if len(user.results) and all(map(_is_buffer, user.results)):
            views = [_clone_for(select, user, side) for side in (1, 2)]
            chosen = [
                ir.Operation.create("arith.select", [x.type], [condition, x, y])
                for x, y in zip(views[0].results, views[1].results, strict=True)
            ]
            results = [view.results[0] for view in chosen]
        else:
            branch = scf.IfOp(condition, [result.type for result in user.results], has_else=True)
            for side, block in ((1, branch.then_block), (2, branch.else_block)):
                with ir.InsertionPoint(block):
                    scf.YieldOp(list(_clone_for(select, user, side).results))
            results = list(branch.results)
    replace(user, results)


def _clone_for(select: ir.Operation, user: ir.Operation, side: int) -> ir.Operation:
    copy = user.clone()
    for position, operand in enumerate(user.operands):
        if operand == select.results[0]:
            copy.operation.operands[position] = select.operands[side]
    return copy.operation


def _select_after(branch: ir.Operation, position: int) -> None:
    """Let a branch yield which buffer it selects, as a number, in place of the buffer of that position."""
    for region in branch.regions:
        _select_after_inner(branch, region.blocks[0], position)
    yielded = [terminator(region.blocks[0]).operands[position] for region in branch.regions]
    buffers = list(dict.fromkeys(buffer for value in yielded for buffer in _buffers(value)))
    for buffer in buffers:
        if is_inside(buffer, branch):
            _allocated_before(branch, buffer)
    types = [result.type for result in branch.results]
    types[position] = ir.IntegerType.get_signless(64)
    with ir.InsertionPoint(branch), branch.location:
        chosen = scf.IfOp(branch.operands[0], types, has_else=True)
        for region, block in zip(branch.regions, (chosen.then_block, chosen.else_block), strict=True):
            last = terminator(region.blocks[0])
            with ir.InsertionPoint(last):
                last.operands[position] = _number(last.operands[position], buffers)
            for operation in list(region.blocks[0].operations):
                block.append(operation)
        number, results = chosen.results[position], list(chosen.results)
        results[position] = buffers[0]
        for other in range(1, len(buffers)):
            is_other = arith.cmpi(arith.CmpIPredicate.eq, number, _constant(other))
            results[position] = arith.select(is_other, buffers[other], results[position])
    replace(branch, results)


def _select_after_inner(branch: ir.Operation, block: ir.Block, position: int) -> None:
    """Do the same for the branches inside that a block yields a buffer of."""

    def is_of_inner(buffer: ir.Value) -> bool:
        return defined_by(buffer, "scf.if") is not None and is_inside(buffer, branch)

    while (buffer := next(filter(is_of_inner, _buffers(terminator(block).operands[position])), None)) is not None:
        _select_after(buffer.owner.operation, buffer.result_number)


def _buffers(value: ir.Value) -> list[ir.Value]:
    """Return the buffers that selects choose `value` from."""
    if (select := defined_by(value, "arith.select")) is None:
        return [value]
    _, x, y = select.operands
    return [*_buffers(x), *_buffers(y)]


def _number(value: ir.Value, buffers: list[ir.Value]) -> ir.Value:
    """Return which of `buffers` a value is, as selects of numbers."""
    if value in buffers:
        return _constant(buffers.index(value))
    condition, x, y = value.owner.operation.operands
    return arith.select(condition, _number(x, buffers), _number(y, buffers))


def _constant(number: int) -> ir.Value:
    return arith.constant(ir.IntegerType.get_signless(64), number)


def _allocated_before(branch: ir.Operation, buffer: ir.Value) -> None:
    """Move the allocation of a buffer before a branch; raises `UnsupportedOperationError` if its sizes are inside."""
    owner = definition(buffer)
    if owner is None or owner.name not in ALLOCATIONS or any(is_inside(size, branch) for size in owner.operands):
        raise UnsupportedOperationError(
            "one side of an `if` makes an array of a size that is known there only, and the other side another array",
            span_of(branch.location),
            help="make the array before the `if`, and write it on both sides",
        )
    owner.move_before(branch)
