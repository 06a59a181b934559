"""How a structured operation writes its outputs: each element of each once, or in some other way.

Takes a linalg operation on tensors or memrefs. Gives whether every iteration of the loops that its outputs name writes
one element of each, of all there are. Others (a diagonal, every second element, outputs that are accumulated over
different loops) have to start from the whole initial value, and run in order.
"""

from __future__ import annotations

from mlirtri.dialect.mlir import ir, linalg


def writes_each_element_once(operation: ir.Operation) -> bool:
    """Whether straight-line tensor code can hold the operation; true of what has no indexing maps."""
    maps = linalg.get_indexing_maps(operation)
    if maps is None:
        return True
    values = list(operation.operands)[: len(maps)]
    outputs = _outputs(operation, values)
    pairs = list(zip(values, (attribute.value for attribute in maps), strict=True))[len(values) - outputs :]
    loops = [_loops_of(value, mapping) for value, mapping in pairs]
    return None not in loops and len(set(loops)) <= 1


def _outputs(operation: ir.Operation, values: list[ir.Value]) -> int:
    """How many of the operands are outputs; an operation on memrefs has no results."""
    if len(operation.results):
        return len(operation.results)
    if "operandSegmentSizes" in operation.attributes:
        return list(operation.attributes["operandSegmentSizes"])[1]
    return 1


def _loops_of(value: ir.Value, mapping: ir.AffineMap) -> frozenset[int] | None:
    """The loops that index a whole output, one axis each; None where the map is none of that."""
    found: list[int] = []
    for expression, size in zip(mapping.results, value.type.shape, strict=True):
        if isinstance(expression, ir.AffineDimExpr):
            found.append(expression.position)
        elif not (size == 1 and isinstance(expression, ir.AffineConstantExpr) and expression.value == 0):
            return None
    return frozenset(found) if len(set(found)) == len(found) else None
