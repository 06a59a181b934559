"""What loops and branches carry keeps its sizes: said in a way that needs no look into them.

Takes a module with `scf` on tensors of which only sizes matter. Gives it with every result whose size is that of what
the loop started with, or of what both arms of a branch started from, replaced by an array of unknown content and that
size. Other results stay. Refuses nothing.
"""

from __future__ import annotations

from mlirtri.dialect.mlir import all_operations, bufferization, ir, operations_named
from mlirtri.lowering.buffer_values import is_inside, terminator
from mlirtri.lowering.size_conditions import dim

DESTINATION_STYLE = ("linalg.", "tm_tensor.")
"""Dialects whose results have the sizes of their last operands."""
DESTINATIONS = {"tensor.insert": 1, "tensor.insert_slice": 1, "tensor.cast": 0}
"""Operations whose result has the sizes of one operand, with its number."""


def rewrite(module: ir.Module) -> None:
    """Replace what keeps its sizes; what is inside of loops says nothing at the function's end."""
    for operation in operations_named(module, "tm_tensor.*"):
        # Upstream's passes do not know these.
        if operation.results:
            for result, start in zip(
                operation.results, list(operation.operands)[-len(operation.results) :], strict=True
            ):
                if _is_unknown(result):
                    _replace(result, start)
    for operation in all_operations(module):
        if operation.name not in ("scf.for", "scf.while", "scf.if") or operation.parent.name != "func.func":
            continue
        for result in operation.results:
            if _is_unknown(result) and (source := _start(result)) is not None:
                _replace(result, source)


def _replace(result: ir.Value, source: ir.Value) -> None:
    with ir.InsertionPoint.after(result.owner), result.location:
        sizes = [dim(source, axis) for axis, size in enumerate(result.type.shape) if size < 0]
        array = bufferization.alloc_tensor(result.type, sizes)
    result.replace_all_uses_with(array)


def _start(value: ir.Value) -> ir.Value | None:
    """The array that has the sizes of `value`, which a loop or branch gives, from outside of it."""
    operation, at = value.owner.operation, value.result_number
    if operation.name == "scf.for":
        block = operation.regions[0].blocks[0]
        carried = block.arguments[1 + at]
        return operation.operands[3 + at] if _root(terminator(block).operands[at]) == carried else None
    if operation.name == "scf.if":
        arms = {_root(terminator(region.blocks[0]).operands[at]) for region in operation.regions}
        return arms.pop() if len(arms) == 1 and not is_inside(next(iter(arms)), operation) else None
    return _start_of_while(operation, at) if operation.name == "scf.while" else None


def _start_of_while(loop: ir.Operation, at: int) -> ir.Value | None:
    before, after = (region.blocks[0] for region in loop.regions)
    handed = list(terminator(before).operands)[1:]
    root = _root(handed[at])
    if root not in list(before.arguments):
        return None
    place = list(before.arguments).index(root)
    again = _root(terminator(after).operands[place])
    if again not in list(after.arguments):
        return None
    back = _root(handed[list(after.arguments).index(again)])
    return loop.operands[place] if back == root else None


def _root(value: ir.Value) -> ir.Value:
    """The array of the same sizes that `value` is made of, as far back as that is easily seen."""
    while not isinstance(value.owner, ir.Block):
        made = value.owner.operation
        if made.name in DESTINATIONS and made.operands[DESTINATIONS[made.name]].type == value.type:
            value = made.operands[DESTINATIONS[made.name]]
        elif made.name.startswith(DESTINATION_STYLE):
            value = made.operands[len(made.operands) - len(made.results) + value.result_number]
        elif made.name.startswith("scf.") and (start := _start(value)) is not None:
            value = start
        else:
            break
    return value


def _is_unknown(value: ir.Value) -> bool:
    return isinstance(value.type, ir.RankedTensorType) and not value.type.has_static_shape
