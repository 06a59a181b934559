"""Check the loops of tile kernels: pipelined loops, and grids of blocks.

Refuses a loop of several stages in which an iteration reads what an earlier one wrote to an array: its copies start
before that is written. Refuses blocks along an axis of the grid that all write the same elements of an array, each
something else: all but one are lost, and which one is left would depend on the device. Only what is certain from the
indices is refused; all else runs in order.
"""

from __future__ import annotations

from mlirtri.dialect.bindings.locations import name_of, span_of
from mlirtri.dialect.bindings.mlir import ir, operations_named
from mlirtri.errors import KernelError, LoopDependenceError, Note, raise_all
from mlirtri.lowering.core.stage import BLOCKS, STAGES
from mlirtri.lowering.dependence.accesses import Access, BodyAccesses
from mlirtri.lowering.dependence.declared_loops import is_exact
from mlirtri.lowering.dependence.distances import bounds_of, distance
from mlirtri.lowering.dependence.index_forms import IndexForms
from mlirtri.lowering.mlir_common.reading import is_block_argument


def check(module: ir.Module) -> None:
    """Raise `LoopDependenceError` for each such loop."""
    errors: list[KernelError] = []
    for loop in operations_named(module, "scf.for"):
        if BLOCKS in loop.attributes:
            errors += _check_blocks(loop.operation)
        elif STAGES in loop.attributes and ir.IntegerAttr(loop.attributes[STAGES]).value > 1:
            errors += _check_stages(loop.operation)
    raise_all(errors)


def _accesses(loop: ir.Operation, forms: IndexForms) -> list[tuple[str, list[Access]]]:
    """Return the accesses of each argument of the function that the loop carries, with the argument's name."""
    arrays = {}
    for slot, initial in enumerate(list(loop.operands)[3:]):
        argument = _argument(initial)
        if argument is not None and argument.type.rank:
            arrays[slot] = name_of(argument.location) or f"argument {argument.arg_number}"
    body = BodyAccesses(loop, forms)
    body.collect(set(arrays))
    return [(arrays[slot], accesses) for slot, accesses in body.by_slot.items()]


def _argument(value: ir.Value) -> ir.BlockArgument | None:
    """Return the argument of the function that a loop-carried value starts as; None for other values."""
    while is_block_argument(value):
        around = value.owner.owner.operation
        if around.name == "func.func":
            return value
        if around.name != "scf.for" or not value.arg_number:
            return None
        value = around.operands[value.arg_number + 2]
    return None


def _check_stages(loop: ir.Operation) -> list[KernelError]:
    forms, errors = IndexForms(loop), []
    bounds = bounds_of(loop, forms)
    for name, accesses in _accesses(loop, forms):
        writes = [access for access in accesses if access.is_write]
        reads = [access for access in accesses if not access.is_write]
        pairs = [(write, read) for write in writes for read in reads if is_exact(write, read, forms)]
        for write, read in pairs:
            if not write.update and (distance(write, read, bounds, forms) or 0) > 0:
                errors.append(_not_pipelined(loop, name, write, read))
                break
    return errors


def _not_pipelined(loop: ir.Operation, name: str, write: Access, read: Access) -> KernelError:
    return LoopDependenceError(
        f"this loop cannot be pipelined: {name!r} is written here, and a later iteration reads it",
        span_of(write.operation.location),
        help="write `for k in T.serial(n)`, or num_stages=1, or copy to another array",
        notes=[
            Note("reads it here", span_of(read.operation.location)),
            Note("the pipelined loop", span_of(loop.location)),
        ],
    )


def _check_blocks(loop: ir.Operation) -> list[KernelError]:
    forms, errors = IndexForms(loop), []
    extent = bounds_of(loop, forms).extent
    if extent is None or extent < 2:
        return errors
    for name, accesses in _accesses(loop, forms):
        if any(not access.is_write for access in accesses):
            continue
        lost = next((access for access in accesses if _is_lost(access, loop, forms)), None)
        if lost is not None:
            errors.append(_overwritten(loop, name, lost))
    return errors


def _is_lost(write: Access, loop: ir.Operation, forms: IndexForms) -> bool:
    """Return whether each block writes the same elements, and something else."""
    if write.update or write.region is None or any(interval.extent is None for interval in write.region):
        return False
    symbols = [symbol for interval in write.region for symbol, _ in interval.start.terms if forms.varies(symbol)]
    if any(not forms.is_variable(symbol) or symbol == forms.induction_variable() for symbol in symbols):
        return False
    around = write.operation.parent.operation
    while around != loop:
        if around.name != "scf.for" or any(_depends_on(bound, loop) for bound in list(around.operands)[:3]):
            return False
        around = around.parent.operation
    return _depends_on(write.operation.operands[1], loop)


def _depends_on(value: ir.Value, loop: ir.Operation) -> bool:
    """Return whether a value may be computed from the loop's induction variable."""
    variable, seen, pending = loop.regions[0].blocks[0].arguments[0], set(), [value]
    while pending:
        current = pending.pop()
        if current == variable:
            return True
        if current in seen:
            continue
        seen.add(current)
        pending += _sources(current, loop)
    return False


def _sources(value: ir.Value, loop: ir.Operation) -> list[ir.Value]:
    """Return what an operation's result is computed from, or an argument of a loop inside."""
    operation = (value.owner.owner if is_block_argument(value) else value.owner).operation
    if operation == loop or operation.name == "func.func":
        return []
    blocks = [block for region in operation.regions for block in region]
    return [*operation.operands, *(operand for block in blocks for operand in list(block.operations)[-1].operands)]


def _overwritten(loop: ir.Operation, name: str, write: Access) -> KernelError:
    return LoopDependenceError(
        f"each block along an axis of the grid overwrites the same elements of {name!r} here",
        span_of(write.operation.location),
        help="let the block's number be a part of the index, add by T.atomic_add, or write in one block: `if bx == 0:`",
        notes=[Note("the grid", span_of(loop.location))],
    )
