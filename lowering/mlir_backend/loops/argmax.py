"""Split argmax and argmin on memrefs into two reductions: the extremum, then the first index that has it.

LLVM vectorises the maximum or minimum, and the second pass over the row, which is in cache by then, finds the index; in
one loop each comparison would depend on the one before. NaN counts as above and below everything.

Of a whole matrix the first pass keeps the extremum of each row, so that the second one reads a single row.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from mlirtri.dialect.base.sizes import DYNAMIC
from mlirtri.dialect.bindings.mlir import arith, ir, linalg, linalg_fill, memref, operations_named, scf
from mlirtri.lowering.mlir_common.aliasing import terminator
from mlirtri.lowering.mlir_common.cloning import clone_all, leading_to
from mlirtri.lowering.mlir_common.index_values import index_constant
from mlirtri.lowering.mlir_common.linalg_builder import generic as build_generic
from mlirtri.lowering.mlir_common.linalg_builder import iterators_of, maps_of
from mlirtri.lowering.mlir_common.reading import definition, integer_constant, is_shaped

_EXTREMA = {
    ("arith.cmpf", "ogt"): arith.maximumf, ("arith.cmpf", "olt"): arith.minimumf,
    ("arith.cmpi", "sgt"): arith.maxsi, ("arith.cmpi", "slt"): arith.minsi,
}  # fmt: skip
"""The comparison that selects an element over the best so far, and the matching extremum."""
_LOGIC = {"arith.andi": operator.and_, "arith.ori": operator.or_, "arith.xori": operator.xor}


def rewrite(module: ir.Module, *, only_dynamic: bool = False) -> None:
    """Split every such reduction, or those of rows whose length is known at run time only."""
    for generic in operations_named(module, "linalg.generic"):
        if only_dynamic and all(value.type.has_static_shape for value in generic.operands if is_shaped(value.type)):
            continue
        if (extremum := _extremum(generic)) is not None:
            _split(generic, extremum)


def _extremum(generic: ir.Operation) -> Any:
    """Return which extremum of one input a generic finds, with its index; None where it does something else."""
    operands = list(generic.operands)
    if len(operands) != 3 or generic.attributes["operandSegmentSizes"][0] != 1:
        return None
    block = generic.regions[0].blocks[0]
    element, best, first = block.arguments
    if isinstance(element.type, ir.FloatType) and element.type.width < 32:
        return None
    selects = [definition(value) for value in terminator(block).operands]
    if [select and select.name for select in selects] != ["arith.select"] * 2:
        return None
    value, index = ([*select.operands] for select in selects)
    if value[1:] != [element, best] or index[2] != first or index[0] != value[0]:
        return None
    extrema = {_EXTREMA.get(_comparison(use.owner.operation), None) for use in element.uses} - {None}
    is_alone = _is_own(operands[1], generic) and _starts_from_largest(operands[2])
    if len(extrema) != 1 or not is_alone or _depends_on(index[1], (element, best, first)):
        return None
    return extrema.pop() if _takes_the_first(value[0], index[1], (element, best, first)) else None


def _takes_the_first(condition: ir.Value, index: ir.Value, arguments: tuple[ir.Value, ...]) -> bool:
    """Return whether the select takes a better element or, of two equal or NaN ones, the smaller index."""
    element, best, first = arguments
    is_float = isinstance(element.type, ir.FloatType)
    orders = [(True, False), (False, True), (False, False)]
    cases = [(*order, False, False) for order in orders]
    cases += [(False, False, *nans) for nans in orders + [(True, True)] if any(nans) and is_float]
    for better, same, new, old in cases:
        for is_before in (True, False):
            facts = {"better": better, "same": same, "new": new, "old": old, "before": is_before}
            expected = better or (new and not old) or ((same or (new and old)) and is_before)
            if _condition_value(condition, facts, (element, best, index, first)) is not expected:
                return False
    return True


def _condition_value(value: ir.Value, facts: dict[str, bool], values: tuple[ir.Value, ...]) -> bool | None:
    """Return the value of a condition under these facts; None where they do not decide it."""
    maker = definition(value)
    if maker is None:
        return None
    operands = list(maker.operands)
    if maker.name == "arith.constant":
        return bool(maker.attributes["value"].value)
    if maker.name in _LOGIC:
        parts = [_condition_value(operand, facts, values) for operand in operands]
        return None if None in parts else _LOGIC[maker.name](*parts)
    element, best, index, first = values
    kind = _comparison(maker)
    if operands == [element, best] and (kind in _EXTREMA or kind[1] in ("oeq", "eq")):
        return facts["better" if kind in _EXTREMA else "same"]
    if kind == ("arith.cmpf", "uno") and operands in ([element, element], [best, best]):
        return facts["new" if operands[0] == element else "old"]
    return facts["before"] if kind == ("arith.cmpi", "slt") and operands == [index, first] else None


def _starts_from_largest(memory: ir.Value) -> bool:
    """Return whether integer memory was filled with the largest value."""
    fills = [use.owner.operation for use in memory.uses if use.owner.operation.name == "linalg.fill"]
    makers = [definition(fill.operands[0]) for fill in fills]
    if len(makers) != 1 or makers[0] is None or makers[0].name != "arith.constant":
        return False
    return makers[0].attributes["value"].value == 2 ** (memory.type.element_type.width - 1) - 1


def _is_own(memory: ir.Value, generic: ir.Operation) -> bool:
    """Return whether only the generic, and the fill before it, use the memory."""
    owner = definition(memory)
    if owner is None or "alloc" not in owner.name:
        return False
    users = {use.owner.operation.name for use in memory.uses if use.owner.operation != generic}
    return users <= {"linalg.fill", "memref.dealloc"}


def _comparison(operation: ir.Operation) -> tuple[str, str]:
    if "predicate" not in operation.attributes:
        return operation.name, ""
    names = arith.CmpFPredicate if operation.name == "arith.cmpf" else arith.CmpIPredicate
    return operation.name, str(names(operation.attributes["predicate"].value)).lower()


def _depends_on(value: ir.Value, arguments: tuple[ir.Value, ...]) -> bool:
    if value in arguments:
        return True
    owner = definition(value)
    return owner is not None and any(_depends_on(operand, arguments) for operand in owner.operands)


def _split(generic: ir.Operation, extremum: Any) -> None:
    source, best, first = generic.operands
    maps, kinds = maps_of(generic), iterators_of(generic)
    block = generic.regions[0].blocks[0]
    index = terminator(block).operands[1].owner.operation.operands[1]
    with ir.InsertionPoint(generic), generic.location:
        if _is_of_a_matrix(source, maps, kinds) and _is_row_major(index, source):
            _split_by_rows(source, best, first, extremum)
        else:
            # Accumulator first, as LLVM's vectoriser needs it.
            build_generic([source], [best], maps[:2], kinds, lambda element, old: [extremum(old, element)])
            build_generic([source, best], [first], maps, kinds, lambda *values: [_first_index(block, index, values)])
    generic.erase()


def _is_of_a_matrix(source: ir.Value, maps: Sequence[ir.AffineMap], kinds: Sequence[str]) -> bool:
    """Return whether a generic reduces all of a contiguous matrix."""
    is_plain = source.type.layout == ir.MemRefType.get(source.type.shape, source.type.element_type).layout
    return list(kinds) == ["reduction"] * 2 and is_plain and maps[0] == ir.AffineMap.get_identity(2)


def _is_row_major(index: ir.Value, source: ir.Value) -> bool:
    """Return whether an index is the linear one: of the row times the length of a row, plus that of the column."""
    added = definition(index)
    product = None if added is None or added.name != "arith.addi" else definition(added.operands[0])
    if added is None or product is None or product.name != "arith.muli":
        return False
    is_linear = _loop_index(product.operands[0]) == 0 and _loop_index(added.operands[1]) == 1
    return is_linear and _is_length(product.operands[1], source)


def _loop_index(value: ir.Value) -> int | None:
    """Return the loop whose index is cast to an integer; None for any other value."""
    cast = definition(value)
    index = definition(cast.operands[0]) if cast is not None and cast.name == "arith.index_cast" else None
    return index.attributes["dim"].value if index is not None and index.name == "linalg.index" else None


def _is_length(value: ir.Value, source: ir.Value) -> bool:
    """Return whether an integer is known to be the length of a matrix's rows."""
    if not source.type.is_dynamic_dim(1):
        return integer_constant(value) == source.type.shape[1]
    cast = definition(value)
    dim = definition(cast.operands[0]) if cast is not None and cast.name == "arith.index_cast" else None
    if dim is None or cast is None:
        return False
    allocation = definition(source)
    if allocation is not None and allocation.name == "memref.alloc":
        return list(allocation.operands)[-1] == cast.operands[0]
    return dim.name == "memref.dim" and dim.operands[0] == source and integer_constant(dim.operands[1]) == 1


def _split_by_rows(source: ir.Value, best: ir.Value, first: ir.Value, extremum: Any) -> None:
    rows, columns, scalar = _map(2, 0), _map(1, 0), ir.AffineMap.get(1, 0, [])
    count = memref.dim(source, index_constant(0))
    sizes = [count] if source.type.is_dynamic_dim(0) else []
    kind = ir.MemRefType.get([source.type.shape[0]], best.type.element_type)
    of_rows = memref.alloc(kind, sizes, [])
    row_memory = memref.alloca(first.type, [], [])
    linalg_fill(_initial(best), of_rows)
    linalg_fill(_initial(first), row_memory)
    whole = [ir.AffineMap.get_identity(2), rows]
    build_generic([source], [of_rows], whole, ["parallel", "reduction"], lambda x, old: [extremum(old, x)])
    build_generic([of_rows], [best], [columns, scalar], ["reduction"], lambda x, old: [extremum(old, x)])
    along = [columns, scalar, scalar]

    def nearest(position: ir.Value, values: Sequence[ir.Value]) -> list[ir.Value]:
        return [_smaller(arith.index_cast(first.type.element_type, position), values)]

    build_generic([of_rows, best], [row_memory], along, ["reduction"], lambda *v: nearest(_index(), v))
    row = arith.index_cast(ir.IndexType.get(), memref.load(row_memory, []))
    # A matrix without rows has none to read.
    branch = scf.IfOp(arith.cmpi(arith.CmpIPredicate.slt, row, count))
    with ir.InsertionPoint(branch.then_block):
        length = memref.dim(source, index_constant(1))
        start = arith.muli(row, length)
        elements = _row_of(source, row, length)
        build_generic(
            [elements, best], [first], along, ["reduction"], lambda *v: nearest(arith.addi(start, _index()), v)
        )
        scf.yield_([])
    memref.dealloc(of_rows)


def _map(rank: int, axis: int) -> ir.AffineMap:
    return ir.AffineMap.get(rank, 0, [ir.AffineDimExpr.get(axis)])


def _index() -> ir.Value:
    return linalg.IndexOp(0).result


def _initial(memory: ir.Value) -> ir.Value:
    """Return the number that memory was filled with."""
    return next(use.owner.operation.operands[0] for use in memory.uses if use.owner.operation.name == "linalg.fill")


def _row_of(source: ir.Value, row: ir.Value, length: ir.Value) -> ir.Value:
    """Return the subview of one row of a contiguous matrix, of rank 1."""
    columns = source.type.shape[1]
    is_open = source.type.is_dynamic_dim(1)
    layout = ir.StridedLayoutAttr.get(DYNAMIC, [1])
    kind = ir.MemRefType.get([columns], source.type.element_type, layout)
    return memref.SubViewOp(
        kind, source, [row], [length] if is_open else [], [], [DYNAMIC, 0], [1, DYNAMIC if is_open else columns], [1, 1]
    ).result


def _first_index(block: ir.Block, index: ir.Value, arguments: tuple[ir.Value, ...]) -> ir.Value:
    """Return the minimum of the index so far and this one, where the element equals the extremum."""
    values: dict[ir.Value, ir.Value] = {}
    clone_all(leading_to(block, [index]), values)
    return _smaller(values.get(index, index), arguments)


def _smaller(index: ir.Value, arguments: Sequence[ir.Value]) -> ir.Value:
    element, best, first = arguments
    if isinstance(element.type, ir.FloatType):
        # One comparison: true of NaN if the extremum is NaN, and then of NaN only.
        new, old = (arith.cmpf(arith.CmpFPredicate.UNO, value, value) for value in (element, best))
        is_it = arith.select(old, new, arith.cmpf(arith.CmpFPredicate.OEQ, element, best))
    else:
        is_it = arith.cmpi(arith.CmpIPredicate.eq, element, best)
    # Not the largest number, for which LLVM would fold to a conditional select and not vectorise.
    none = arith.constant(first.type, 2 ** (first.type.width - 1) - 2)
    return arith.minsi(arith.select(is_it, index, none), first)
