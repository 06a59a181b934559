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
        before = loop.regions[0].blocks[0]
        condition = before.operations[len(before.operations) - 1].operation
        carried, places = _carried(list(before.arguments), list(condition.operands)[1:])
        if places != list(range(len(carried))):
            _rebuild(loop, condition, carried, places)


def _carried(arguments: list[ir.Value], passed: list[ir.Value]) -> tuple[list[ir.Value], list[int]]:
    """Return what the condition is to forward, and the positions in it of what it forwards now."""
    carried, places = list(arguments), []
    for value in passed:
        if value in carried:
            places.append(carried.index(value))
            continue
        place = next((at for at, one in enumerate(arguments) if carried[at] == one and is_content_of(value, one)), None)
        if place is None:
            places.append(len(carried))
            carried.append(value)
        else:
            places.append(place)
            carried[place] = value
    return carried, places


def _rebuild(loop: ir.Operation, condition: ir.Operation, carried: list[ir.Value], places: list[int]) -> None:
    before, after = (region.blocks[0] for region in loop.regions)
    with ir.InsertionPoint(loop), loop.location:
        new = scf.WhileOp([value.type for value in carried], list(loop.operands))
    with ir.InsertionPoint(condition), condition.location:
        scf.ConditionOp(condition.operands[0], carried)
    condition.erase()
    for at, value in enumerate(carried):
        location = after.arguments[places.index(at)].location if at in places else value.location
        after.add_argument(value.type, location)
    for at, place in enumerate(places):
        after.arguments[at].replace_all_uses_with(after.arguments[len(places) + place])
        loop.results[at].replace_all_uses_with(new.results[place])
    for _ in places:
        after.erase_argument(0)
    before.append_to(new.regions[0])
    after.append_to(new.regions[1])
    loop.erase()
