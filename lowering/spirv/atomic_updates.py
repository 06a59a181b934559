"""Updates of elements that the iterations of a loop share, as `memref.atomic_rmw`.

    %x = memref.load %h[%k]; %y = arith.addi %x, %c; memref.store %y, %h[%k]   ──►   memref.atomic_rmw addi %c, %h[%k]

Takes loops whose iterations share nothing but such elements, of 32 or 64 bits. What SPIR-V's core has no instruction
for, such as sums of floats, is `memref.generic_atomic_rmw`, in loops that are declared parallel. What an element was
before may be used in such loops; a store at an index computed from it is no conflict, as no two iterations get the same
number of one counter.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mlirtri.dialect.bindings.mlir import all_operations_in, arith, ir, memref
from mlirtri.lowering.dependence.index_forms import IndexForms
from mlirtri.lowering.mlir_backend.loops.loop_memory import are_apart, indices_of, is_whole
from mlirtri.lowering.mlir_common.aliasing import is_inside
from mlirtri.lowering.mlir_common.attributes import DECLARED_PARALLEL
from mlirtri.lowering.mlir_common.cloning import clone, replace
from mlirtri.lowering.mlir_common.reading import definition, is_block_argument

_KINDS = {"arith.addi": "addi", "arith.subi": "addi", "arith.maxsi": "maxs", "arith.minsi": "mins",
          "arith.maxui": "maxu", "arith.minui": "minu", "arith.andi": "andi", "arith.ori": "ori"}  # fmt: skip
_COMBINED = ("arith.addf", "arith.subf", "arith.mulf", "arith.xori", "arith.muli", "arith.maximumf", "arith.minimumf",
             "arith.maxnumf", "arith.minnumf")  # fmt: skip
"""Operations that `compare_exchange` makes atomic."""
_PURE = ("arith.", "math.", "scf.")
_WIDTHS = (32, 64)


@dataclass(frozen=True)
class Update:
    """``h[k] = h[k] + x`` as three operations of one block."""

    load: ir.Operation
    step: ir.Operation
    store: ir.Operation


def shared_updates(loop: ir.Operation) -> list[Update] | None:
    """Return the updates that make a loop parallel once they are atomic; None where it is not, or needs others.

    An empty list says that the iterations share nothing.
    """
    accesses: dict[ir.Value, list[ir.Operation]] = {}
    for operation in all_operations_in(loop):
        if operation.name in ("memref.load", "memref.store"):
            accesses.setdefault(operation.operands[operation.name == "memref.store"], []).append(operation)
        elif not operation.name.startswith((*_PURE, "memref.alloc", "memref.dealloc")):
            return None
    forms, is_declared = IndexForms(loop), DECLARED_PARALLEL in loop.attributes
    updates: list[Update] = []
    counted: list[list[ir.Operation]] = []
    for buffer, group in accesses.items():
        if is_inside(buffer, loop) or not any(access.name == "memref.store" for access in group):
            continue
        if not is_whole(buffer):
            return None
        if are_apart(group, forms):
            continue
        found = _updates(group, is_declared)
        if found is None and is_declared and all(access.name == "memref.store" for access in group):
            counted.append(group)
            continue
        if found is None:
            return None
        updates += found
    are_counted = all(_depends_on(indices_of(access), updates) for group in counted for access in group)
    return updates if are_counted else None


def make_atomic(updates: Iterable[Update]) -> None:
    """Replace the three operations of each update by one."""
    for update in updates:
        load, step, store = update.load, update.step, update.store
        # At the store: what is combined is computed between the load and it.
        with ir.InsertionPoint(store), store.location:
            old = (_generic if step.name in _COMBINED else _instruction)(update)
        store.erase()
        if not any(True for _ in step.results[0].uses):
            step.erase()
        replace(load, [old])


def _instruction(update: Update) -> ir.Value:
    """Create the atomic operation that SPIR-V has an instruction for; return what the element was."""
    [value] = [operand for operand in update.step.operands if operand != update.load.results[0]]
    if update.step.name == "arith.subi":
        value = arith.subi(arith.constant(value.type, 0), value)
    kind = getattr(arith.AtomicRMWKind, _KINDS[update.step.name])
    return memref.atomic_rmw(kind, value, update.store.operands[1], indices_of(update.store))


def _generic(update: Update) -> ir.Value:
    """Create an atomic operation whose body is the step; return what the element was."""
    kind, operands = update.load.results[0].type, [update.store.operands[1], *indices_of(update.store)]
    generic = ir.Operation.create("memref.generic_atomic_rmw", results=[kind], operands=operands, regions=1)
    body = generic.regions[0].blocks.append(kind)
    with ir.InsertionPoint(body):
        copy = clone(update.step, {update.load.results[0]: body.arguments[0]})
        ir.Operation.create("memref.atomic_yield", operands=[copy.results[0]])
    return generic.results[0]


def _updates(group: list[ir.Operation], is_declared: bool) -> list[Update] | None:
    """Return the updates that the accesses of a buffer consist of; None where there are others."""
    found = [update for load in group if (update := _update_of(load, group)) is not None]
    if 2 * len(found) != len(group) or not all(map(_is_supported, found)):
        return None
    if is_declared:
        return found
    if any(each.step.name in _COMBINED for each in found):
        return None
    is_alone = all(len(list(each.load.results[0].uses)) == 1 for each in found)
    return found if is_alone and len({_KINDS[each.step.name] for each in found}) == 1 else None


def _update_of(load: ir.Operation, group: list[ir.Operation]) -> Update | None:
    """Return the update that a load begins; what an element was is used after its store only, or nowhere."""
    if load.name != "memref.load":
        return None
    for store in group:
        if store.name != "memref.store" or store.block != load.block or indices_of(store) != indices_of(load):
            continue
        step = definition(store.operands[0])
        if step is None or list(step.operands).count(load.results[0]) != 1 or step.block != load.block:
            continue
        if step.name in ("arith.subi", "arith.subf") and step.operands[0] != load.results[0]:
            continue
        if _is_used_before(load, store, step):
            continue
        return Update(load, step, store)
    return None


def _is_used_before(load: ir.Operation, store: ir.Operation, step: ir.Operation) -> bool:
    """Return whether anything but the step uses what was loaded, or the step's result, before the store."""
    order = {view.operation: number for number, view in enumerate(load.block.operations)}
    uses = [*load.results[0].uses, *step.results[0].uses]
    for user in [use.owner.operation for use in uses]:
        if user in (step, store):
            continue
        while user not in order:
            user = user.parent.operation
        if order[user] < order[store]:
            return True
    # The step itself would be left before the atomic operation that gives its operand.
    return len(list(step.results[0].uses)) > 1


def _is_supported(update: Update) -> bool:
    kind = update.load.results[0].type
    is_number = isinstance(kind, ir.IntegerType | ir.F32Type | ir.F64Type)
    return update.step.name in (*_KINDS, *_COMBINED) and is_number and kind.width in _WIDTHS


def _depends_on(indices: list[ir.Value], updates: list[Update]) -> bool:
    """Return whether an index is computed from what an update returned."""
    pending, loads = list(indices), [update.load.results[0] for update in updates]
    while pending:
        value = pending.pop()
        if value in loads:
            return True
        if not is_block_argument(value) and value.owner.operation.name.startswith("arith."):
            pending += list(value.owner.operation.operands)
    return False
