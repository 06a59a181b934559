"""Check the loops that are declared parallel: `mt.prange`, `mt.ndrange`."""

from __future__ import annotations

from itertools import combinations_with_replacement

from mlirtri.dialect.bindings.locations import span_of
from mlirtri.dialect.bindings.mlir import ir, operations_named
from mlirtri.errors import KernelError, LoopDependenceError, Note, raise_all
from mlirtri.lowering.core.stage import BLOCKS
from mlirtri.lowering.dependence.accesses import Access, BodyAccesses, is_reduction
from mlirtri.lowering.dependence.distances import LoopBounds, bounds_of, distance
from mlirtri.lowering.dependence.index_forms import IndexForms
from mlirtri.lowering.mlir_common.attributes import DECLARED_PARALLEL

HELP = "run the loop in order with mt.serial, write into another array, or only add to it: x[i] += …"
LOADED_HELP = (
    "the array that it is read from may have an index twice: run the loop in order with mt.serial, only add to it: "
    "x[rows[i]] += …, or loop over {name!r} and read what belongs there, by the inverse of the indices"
)
TILE_HELP = "run the loop in order with T.serial, write into another tile, or only add to it: T.atomic_add(x[i], …)"


def check(module: ir.Module) -> None:
    """Raise `LoopDependenceError` for each declared-parallel loop whose iterations are not independent."""
    errors: list[KernelError] = []
    for operation in operations_named(module, "scf.for"):
        if DECLARED_PARALLEL in operation.attributes:
            errors += _check_loop(operation.operation)
    raise_all(errors)


def _check_loop(loop: ir.Operation) -> list[KernelError]:
    names = [ir.StringAttr(name).value for name in ir.ArrayAttr(loop.attributes[DECLARED_PARALLEL])]
    forms = IndexForms(loop)
    arrays, errors = set(), []
    for slot, name in enumerate(names):
        if is_reduction(loop, slot):
            continue
        if ir.RankedTensorType(loop.results[slot].type).rank:
            arrays.add(slot)
        else:
            errors.append(_carried(loop, slot, name))
    body = BodyAccesses(loop, forms)
    body.collect(arrays)
    bounds = bounds_of(loop, forms)
    for slot, accesses in body.by_slot.items():
        if (error := _conflict(loop, names[slot], accesses, bounds, forms)) is not None:
            errors.append(error)
    return errors


def _carried(loop: ir.Operation, slot: int, name: str) -> KernelError:
    yielded = list(loop.regions[0].blocks[0].operations)[-1].operands[slot]
    owner = loop if isinstance(yielded.owner, ir.Block) else yielded.owner.operation
    argument = loop.regions[0].blocks[0].arguments[slot + 1]
    is_read = bool(list(argument.uses))
    reason = "needs its value of the iteration before" if is_read else "has its value of the last iteration afterwards"
    return LoopDependenceError(
        f"the iterations of this parallel loop depend on each other: {name!r} {reason}",
        span_of(owner.location),
        help=f"run the loop in order with mt.serial, or only add to {name!r}, or take its max or min",
        notes=[Note("the parallel loop", span_of(loop.location))],
    )


def _conflict(
    loop: ir.Operation, name: str, accesses: list[Access], bounds: LoopBounds, forms: IndexForms
) -> KernelError | None:
    for first, second in combinations_with_replacement(accesses, 2):
        # Two updates by the same reduction, such as `x[i] += a` and `x[j] += b`, commute.
        commutes = first.update and first.update == second.update
        if commutes or not (first.is_write or second.is_write):
            continue
        apart = distance(first, second, bounds, forms)
        if apart is not None:
            return _dependence(loop, name, first, second, apart, forms)
    return None


def _is_in_tile_kernel(loop: ir.Operation) -> bool:
    around = loop.parent
    while around is not None and BLOCKS not in around.attributes:
        around = around.operation.parent
    return around is not None


def is_exact(first: Access, second: Access, forms: IndexForms) -> bool:
    """Return whether the indices of both are known in terms of the induction variable: the distance is a fact."""
    regions = (first.region, second.region)
    return all(
        region is not None
        and all(
            interval.extent is not None
            and not any(forms.varies(symbol) and not forms.is_variable(symbol) for symbol, _ in interval.start.terms)
            for interval in region
        )
        for region in regions
    )


def _help(loop: ir.Operation, name: str, write: Access, forms: IndexForms) -> str:
    if _is_in_tile_kernel(loop):
        return TILE_HELP
    starts = [interval.start for interval in write.region or ()]
    is_loaded = any(forms.is_loaded(symbol) for start in starts for symbol, _ in start.terms)
    return LOADED_HELP.format(name=name) if is_loaded else HELP


def _dependence(
    loop: ir.Operation, name: str, first: Access, second: Access, apart: int, forms: IndexForms
) -> KernelError:
    write, other = (first, second) if first.is_write else (second, first)
    apart = apart if first.is_write else -apart
    verb = "writes" if other.is_write else "reads"
    far = f"the iteration {abs(apart)} steps {'later' if apart > 0 else 'before'}"
    which = {1: "the next iteration", -1: "the previous iteration"}.get(apart, far)
    conflict = f"{which} {verb}" if is_exact(first, second, forms) else f"another iteration may {verb[:-1]}"
    same = write.operation == other.operation
    notes = [] if same else [Note(f"{verb} it here", span_of(other.operation.location))]
    return LoopDependenceError(
        f"the iterations of this parallel loop depend on each other: {name!r} is written here, and {conflict} it",
        span_of(write.operation.location),
        help=_help(loop, name, write, forms),
        notes=[*notes, Note("the parallel loop", span_of(loop.location))],
    )
