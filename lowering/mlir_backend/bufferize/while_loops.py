"""`scf.while` in the form that bufferization reads: every loop-carried value keeps its position.

Takes a module with `scf.while` loops whose conditions forward any values in any order. Gives it in place: the
condition passes on every carried value, in order, and after them what else the body or the code after the loop need.
Refuses nothing.

    while (%a, %b) { condition(%c) %b }   ──►   while (%a, %b) { condition(%c) %a, %b }
"""

from __future__ import annotations

from mlirtri.dialect.bindings.mlir import ir, operations_named, scf
from mlirtri.lowering.mlir.aliasing import is_content_of


def rewrite(module: ir.Module) -> None:
    """Rewrite every `scf.while` of `module` to that form."""
    for loop in reversed(operations_named(module, "scf.while")):
        head = loop.regions[0].blocks[0]
        condition = head.operations[len(head.operations) - 1].operation
        carried, positions = _carried(list(head.arguments), list(condition.operands)[1:])
        if positions != list(range(len(carried))):
            _rebuild(loop, condition, carried, positions)


def _carried(arguments: list[ir.Value], passed: list[ir.Value]) -> tuple[list[ir.Value], list[int]]:
    """Return what the condition is to forward, and the positions in it of what it forwards now."""
    carried, positions = list(arguments), []
    for value in passed:
        if value in carried:
            positions.append(carried.index(value))
            continue
        position = next(
            (
                number
                for number, argument in enumerate(arguments)
                if carried[number] == argument and is_content_of(value, argument)
            ),
            None,
        )
        if position is None:
            positions.append(len(carried))
            carried.append(value)
        else:
            positions.append(position)
            carried[position] = value
    return carried, positions


def _rebuild(loop: ir.Operation, condition: ir.Operation, carried: list[ir.Value], positions: list[int]) -> None:
    before, after = (region.blocks[0] for region in loop.regions)
    with ir.InsertionPoint(loop), loop.location:
        new = scf.WhileOp([value.type for value in carried], list(loop.operands))
    with ir.InsertionPoint(condition), condition.location:
        scf.ConditionOp(condition.operands[0], carried)
    condition.erase()
    for number, value in enumerate(carried):
        location = after.arguments[positions.index(number)].location if number in positions else value.location
        after.add_argument(value.type, location)
    for number, position in enumerate(positions):
        after.arguments[number].replace_all_uses_with(after.arguments[len(positions) + position])
        loop.results[number].replace_all_uses_with(new.results[position])
    for _ in positions:
        after.erase_argument(0)
    before.append_to(new.regions[0])
    after.append_to(new.regions[1])
    loop.erase()
