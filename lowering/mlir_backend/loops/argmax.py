"""Split argmax and argmin on memrefs into two reductions: the extremum, then the first index that has it.

LLVM vectorises the maximum or minimum, and the second pass over the row, which is in cache by then, finds the index; in
one loop each comparison would depend on the one before. NaN counts as above and below everything.
"""

from __future__ import annotations

import operator
from typing import Any

from mlirtri.dialect.bindings.mlir import arith, ir, operations_named
from mlirtri.lowering.mlir_common.aliasing import terminator
from mlirtri.lowering.mlir_common.cloning import clone_all, leading_to
from mlirtri.lowering.mlir_common.linalg_builder import generic as build_generic
from mlirtri.lowering.mlir_common.linalg_builder import iterators_of, maps_of
from mlirtri.lowering.mlir_common.reading import definition, is_shaped

_EXTREMA = {
    ("arith.cmpf", "ogt"): arith.maximumf, ("arith.cmpf", "olt"): arith.minimumf,
    ("arith.cmpi", "sgt"): arith.maxsi, ("arith.cmpi", "slt"): arith.minsi,
}  # fmt: skip
"""The comparison that selects an element over the best so far, and the matching extremum."""
_LOGIC = {"arith.andi": operator.and_, "arith.ori": operator.or_, "arith.xori": operator.xor}


def rewrite(module: ir.Module, only_dynamic: bool = False) -> None:
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
    select = terminator(block).operands[1].owner.operation
    with ir.InsertionPoint(generic), generic.location:
        # Accumulator first, as LLVM's vectoriser needs it.
        build_generic([source], [best], maps[:2], kinds, lambda element, accumulator: [extremum(accumulator, element)])
        build_generic([source, best], [first], maps, kinds, lambda *values: [_first_index(block, select, values)])
    generic.erase()


def _first_index(block: ir.Block, select: ir.Operation, arguments: tuple[ir.Value, ...]) -> ir.Value:
    """Return the minimum of the index so far and this one, where the element equals the extremum."""
    element, best, first = arguments
    values: dict[ir.Value, ir.Value] = {}
    clone_all(leading_to(block, [select.operands[1]]), values)
    index = values.get(select.operands[1], select.operands[1])
    if isinstance(element.type, ir.FloatType):
        # One comparison: true of NaN if the extremum is NaN, and then of NaN only.
        new, old = (arith.cmpf(arith.CmpFPredicate.UNO, value, value) for value in (element, best))
        is_it = arith.select(old, new, arith.cmpf(arith.CmpFPredicate.OEQ, element, best))
    else:
        is_it = arith.cmpi(arith.CmpIPredicate.eq, element, best)
    # Not the largest number, for which LLVM would fold to a conditional select and not vectorise.
    none = arith.constant(first.type, 2 ** (first.type.width - 1) - 2)
    return arith.minsi(arith.select(is_it, index, none), first)
