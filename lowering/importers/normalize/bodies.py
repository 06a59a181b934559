"""Simplify the bodies of structured operations to straight-line code, and clamp the indices of element accesses.

* Indices not proven in bounds are clamped: a wrong program may get any element of its tensors, but no other memory.
* `scf.if` becomes `arith.select` of both arms, which neither trap nor read out of bounds. Loops stay.
* Loops that an output is accumulated over are marked as reductions, with the accumulator as first operand of the
  operation that adds to it, as TVM's schedules expect.
"""

from __future__ import annotations

from mlirtri.dialect.bindings.mlir import all_operations_in, arith, ir, operations_named
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.importers.normalize.arithmetic.total_arithmetic import literal
from mlirtri.lowering.mlir_common.cloning import replace
from mlirtri.lowering.mlir_common.index_bounds import bounds_of
from mlirtri.lowering.mlir_common.index_values import index_constant, size_of
from mlirtri.lowering.mlir_common.linalg_builder import iterator_type, maps_of

PURE = ("arith.", "math.", "complex.", "affine.", "tensor.extract", "tensor.dim", "linalg.index")
"""Operations that may run speculatively once arithmetic is total and indices are clamped."""

COMMUTATIVE = frozenset({
    "arith.addf", "arith.addi", "arith.mulf", "arith.muli", "arith.maximumf", "arith.minimumf", "arith.maxsi",
    "arith.minsi", "arith.maxui", "arith.minui", "arith.andi", "arith.ori", "arith.xori",
})  # fmt: skip


def rewrite(module: ir.Module, context: CompileContext) -> None:
    """Simplify all bodies of `module`, in place."""
    for operation in operations_named(module, "tensor.extract", "tensor.insert"):
        with ir.InsertionPoint(operation), operation.location:
            _clamp_indices(operation, first=1 if operation.name == "tensor.extract" else 2)
    for generic in operations_named(module, "linalg.generic"):
        _mark_reductions(generic)
        _accumulators_first(generic)
    for branch in reversed(operations_named(module, "scf.if")):
        if _is_in_body(branch) and _is_pure(branch):
            _flatten(branch)


def _clamp_indices(operation: ir.Operation, first: int) -> None:
    accessed = operation.operands[first - 1]
    if 0 in list(accessed.type.shape):
        # A tensor without elements: there is nothing to read or write.
        value = accessed if first > 1 else _any_element(accessed.type.element_type)
        if value is not None:
            replace(operation, [value])
        return
    for axis, index in enumerate(list(operation.operands)[first:]):
        size = accessed.type.shape[axis]
        bounds = bounds_of(index)
        if bounds is not None and size > 0 and bounds.low >= 0 and bounds.high < size:
            continue
        last = index_constant(size - 1) if size > 0 else arith.subi(size_of(accessed, axis), index_constant(1))
        operation.operands[first + axis] = arith.maxsi(arith.minsi(index, last), index_constant(0))


def _any_element(type_: ir.Type) -> ir.Value | None:
    return None if isinstance(type_, ir.ComplexType) else literal(type_, 0)


def _mark_reductions(generic: ir.Operation) -> None:
    """Mark loops that an output is not indexed by as reductions: their iterations update the same elements in order."""
    outputs = maps_of(generic)[len(generic.operands) - len(generic.results) :]
    named = [
        {index.position for index in mapping.results if isinstance(index, ir.AffineDimExpr)} for mapping in outputs
    ]
    kinds = list(generic.attributes["iterator_types"])
    iterators = [iterator_type("reduction") if any(loop not in loops for loops in named) else kind
             for loop, kind in enumerate(kinds)]  # fmt: skip
    if iterators != kinds and generic.results:
        generic.attributes["iterator_types"] = ir.ArrayAttr.get(iterators)


def _accumulators_first(generic: ir.Operation) -> None:
    block = generic.regions[0].blocks[0]
    accumulators = list(block.arguments)[len(block.arguments) - len(generic.results) :]
    for inner in block.operations:
        step = inner.operation
        if step.name in COMMUTATIVE and step.operands[1] in accumulators and step.operands[0] not in accumulators:
            step.operands[0], step.operands[1] = step.operands[1], step.operands[0]


def _is_in_body(operation: ir.Operation) -> bool:
    return operation.parent.name in ("linalg.generic", "scf.if") and "linalg.generic" in _parents(operation)


def _parents(operation: ir.Operation) -> list[str]:
    names = []
    while operation.name != "func.func" and operation.parent is not None:
        operation = operation.parent.operation
        names.append(operation.name)
    return names


def _is_pure(branch: ir.Operation) -> bool:
    inner = all_operations_in(branch)[1:]
    return all(operation.name == "scf.yield" or operation.name.startswith(PURE) for operation in inner)


def _flatten(branch: ir.Operation) -> None:
    condition, ends = branch.operands[0], []
    for region in branch.regions:
        for block in region.blocks:
            *operations, end = [inner.operation for inner in block.operations]
            for operation in operations:
                operation.move_before(branch)
            ends.append(list(end.operands))
    with ir.InsertionPoint(branch), branch.location:
        for result, *arms in zip(branch.results, *ends, strict=True):
            result.replace_all_uses_with(arith.select(condition, *arms))
    branch.erase()
