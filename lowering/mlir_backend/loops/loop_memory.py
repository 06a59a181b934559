"""What the iterations of an `scf.for` read and write in memory: independent elements, and elements that they combine.

Indices are compared as linear forms (`lowering.dependence`). An element that each iteration only combines with other
values, `h[i] = h[i] + x`, may be the same in several iterations: a reduction in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement

from mlirtri.dialect.bindings.mlir import all_operations_in, ir
from mlirtri.lowering.dependence import congruences
from mlirtri.lowering.dependence.accesses import Access, Interval
from mlirtri.lowering.dependence.distances import bounds_of, distance
from mlirtri.lowering.dependence.index_forms import IndexForms
from mlirtri.lowering.mlir_backend.loops.carried_reductions import Combination, combination_of
from mlirtri.lowering.mlir_common.aliasing import is_inside
from mlirtri.lowering.mlir_common.attributes import DECLARED_PARALLEL
from mlirtri.lowering.mlir_common.reading import ALLOCATIONS, integer_constant, is_block_argument, only_user

_PURE = ("arith.", "math.", "complex.", "scf.")
_MEMORY = frozenset({*ALLOCATIONS, "memref.dealloc", "memref.dim"})
_MOST_PAIRS = 2000
"""Pairs of accesses that are compared for one loop; a body with more takes longer than it gains."""


def combined_buffers(loop: ir.Operation) -> dict[ir.Value, Combination] | None:
    """Return the buffers from outside of a loop whose elements the iterations combine with values, and only that.

    None where iterations depend on each other in another way: they may not run in any order.
    """
    accesses = _accesses(loop)
    if accesses is None:
        return None
    combined: dict[ir.Value, Combination] = {}
    forms = IndexForms(loop)
    for buffer, group in accesses.items():
        if is_inside(buffer, loop):
            if is_block_argument(buffer) or buffer.owner.name not in ALLOCATIONS:
                return None
        elif any(access.name == "memref.store" for access in group):
            if not is_whole(buffer):
                return None
            if are_apart(group, forms):
                continue
            if (combination := _combination(group)) is None:
                return None
            combined[buffer] = combination
    return combined


def _accesses(loop: ir.Operation) -> dict[ir.Value, list[ir.Operation]] | None:
    """Return the loads and stores of each buffer; None where another operation accesses memory."""
    accesses: dict[ir.Value, list[ir.Operation]] = {}
    for operation in all_operations_in(loop):
        if operation.name in ("memref.load", "memref.store"):
            buffer = operation.operands[_buffer_operand(operation)]
            accesses.setdefault(buffer, []).append(operation)
        elif operation.name not in _MEMORY and not operation.name.startswith(_PURE):
            return None
    return accesses


def are_apart(group: Sequence[ir.Operation], forms: IndexForms) -> bool:
    """Return whether no iteration accesses an element that another one writes."""
    if len(group) * len(group) > _MOST_PAIRS:
        return False
    bounds = bounds_of(forms.loop, forms)
    accesses = [_access(operation, forms) for operation in group]
    return all(
        distance(first, second, bounds, forms) is None
        for first, second in combinations_with_replacement(accesses, 2)
        if first.is_write or second.is_write
    )


def _access(operation: ir.Operation, forms: IndexForms) -> Access:
    indices = indices_of(operation)
    if DECLARED_PARALLEL in forms.loop.attributes:
        shape = operation.operands[_buffer_operand(operation)].type.shape
        indices = [_unclamped(index, size) for index, size in zip(indices, shape, strict=True)]
    region = tuple(Interval(forms.of(index), 1) for index in indices)
    facts = congruences.around(operation, forms)
    return Access(operation, operation.name == "memref.store", region, facts=facts)


def _unclamped(index: ir.Value, size: int) -> ir.Value:
    """Return an index before it was moved into its axis; what is declared parallel has passed the check without."""
    while not is_block_argument(index):
        operation = index.owner.operation
        bound = integer_constant(operation.operands[-1]) if len(operation.operands) else None
        is_clamp = (operation.name == "arith.minsi" and bound == size - 1) or (
            operation.name == "arith.maxsi" and bound == 0
        )
        if not is_clamp and operation.name != "arith.index_cast":
            break
        index = operation.operands[0]
    return index


def indices_of(access: ir.Operation) -> list[ir.Value]:
    """Return the indices of a load or a store."""
    return list(access.operands)[_buffer_operand(access) + 1 :]


def _buffer_operand(access: ir.Operation) -> int:
    return 1 if access.name == "memref.store" else 0


def _combination(group: Sequence[ir.Operation]) -> Combination | None:
    """Return how every access combines its element with something else; None where one does anything else."""
    pairs = list(_updates(group))
    kinds = {combination for _, _, combination in pairs}
    if len(kinds) != 1 or 2 * len(pairs) != len(group):
        return None
    return next(iter(kinds))


def _updates(group: Sequence[ir.Operation]) -> Iterator[tuple[ir.Operation, ir.Operation, Combination]]:
    """Yield the loads and stores that together are ``h[i] = h[i] + x``, with how they combine."""
    for load in group:
        step = only_user(load.results[0]) if load.name == "memref.load" else None
        combination = None if step is None else combination_of(step, load.results[0])
        if step is None or combination is None:
            continue
        store = only_user(step.results[0])
        if store is None or store not in group or store.block != load.block:
            continue
        if store.operands[0] == step.results[0] and indices_of(store) == indices_of(load):
            yield load, store, combination


def is_whole(buffer: ir.Value) -> bool:
    """Return whether a buffer is no view, so that nothing else aliases it."""
    if is_block_argument(buffer):
        return buffer.owner.owner.operation.name == "func.func"
    return buffer.owner.name in ALLOCATIONS
