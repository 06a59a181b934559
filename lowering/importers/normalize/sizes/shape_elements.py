"""Replace elements read from small integer tensors, as importers express computed shapes, by scalar arithmetic.

extract (select of [true], [3], [1])[0]   ──►   select true, 3, 1
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from mlirtri.dialect.bindings.mlir import arith, ir, operations_named, tensor
from mlirtri.lowering.mlir_common.cloning import inlined, replace
from mlirtri.lowering.mlir_common.index_values import index_constant
from mlirtri.lowering.mlir_common.reading import definition, integer_constant
from mlirtri.lowering.sizes.size_reader import traced_element

MAX_ELEMENTS = 64
"""The most elements of a tensor to trace: shapes are short."""
MAX_STEPS = 32
"""How many operations an element is traced back."""
_SCALARS = ("arith.", "math.", "tensor.extract", "linalg.yield")


def rewrite(module: ir.Module) -> bool:
    """Replace all such reads in `module`, in place, and return whether there are any."""
    is_changed = False
    for extract in operations_named(module, "tensor.extract"):
        if not isinstance(extract.results[0].type, (ir.IntegerType, ir.IndexType)):
            continue
        source, *operands = extract.operands
        indices = [index for operand in operands if (index := integer_constant(operand)) is not None]
        if len(indices) < len(operands) or not _is_small(source.type):
            continue
        with ir.InsertionPoint(extract), extract.location:
            element = _traced(*traced_element(source, indices), MAX_STEPS)
        if element is not None:
            replace(extract, [element])
            is_changed = True
    return is_changed


def _traced(value: ir.Value, indices: list[int], depth: int) -> ir.Value | None:
    operation = definition(value)
    if operation is None or depth == 0 or (rule := _RULES.get(operation.name)) is None:
        return None
    return rule(operation, indices, depth - 1)


def _element(value: ir.Value, indices: list[int], depth: int) -> ir.Value:
    value, indices = traced_element(value, indices)
    element = _traced(value, indices, depth)
    if element is not None:
        return element
    return tensor.extract(value, [index_constant(index) for index in indices])


def _constant_element(operation: ir.Operation, indices: list[int], depth: int) -> ir.Value | None:
    value = operation.attributes["value"]
    if not isinstance(value, ir.DenseIntElementsAttr):
        return None
    kind = operation.results[0].type
    return arith.constant(kind.element_type, int(value[_flat(indices, kind)]))


def _concat_element(operation: ir.Operation, indices: list[int], depth: int) -> ir.Value | None:
    axis, offset = operation.attributes["dim"].value, 0
    for part in operation.operands:
        size = part.type.shape[axis]
        if size < 0:
            return None
        if indices[axis] < offset + size:
            return _element(part, [*indices[:axis], indices[axis] - offset, *indices[axis + 1 :]], depth)
        offset += size
    return None


def _listed_element(operation: ir.Operation, indices: list[int], depth: int) -> ir.Value | None:
    return operation.operands[_flat(indices, operation.results[0].type)]


def _flat(indices: list[int], type_: ir.RankedTensorType) -> int:
    offset = 0
    for index, size in zip(indices, type_.shape, strict=True):
        offset = offset * size + index
    return offset


def _generic_element(operation: ir.Operation, indices: list[int], depth: int) -> ir.Value | None:
    maps = [attribute.value for attribute in operation.attributes["indexing_maps"]]
    body = operation.regions[0].blocks[0]
    inputs = list(operation.operands)[: len(maps) - len(operation.results)]
    if len(operation.results) != 1 or maps[-1] != ir.AffineMap.get_identity(len(indices)):
        return None
    if list(body.arguments[-1].uses) or not all(inner.operation.name.startswith(_SCALARS) for inner in body.operations):
        return None
    accesses = [_read(value, mapping, indices) for value, mapping in zip(inputs, maps, strict=False)]
    positions = [position for position in accesses if position is not None]
    if len(positions) < len(inputs):
        return None
    elements = [
        value if not isinstance(value.type, ir.RankedTensorType) else _element(value, position, depth)
        for value, position in zip(inputs, positions, strict=True)
    ]
    return inlined(body, [*elements, None])[0]


def _read(value: ir.Value, access: ir.AffineMap, indices: list[int]) -> list[int] | None:
    if isinstance(value.type, ir.RankedTensorType) and not _is_small(value.type):
        return None
    positions = []
    for expression in access.results:
        if isinstance(expression, ir.AffineDimExpr):
            positions.append(indices[expression.position])
        elif isinstance(expression, ir.AffineConstantExpr):
            positions.append(expression.value)
        else:
            return None
    return positions


def _is_small(type_: ir.RankedTensorType) -> bool:
    return type_.has_static_shape and 0 < prod(type_.shape) <= MAX_ELEMENTS


_RULES: dict[str, Callable[[ir.Operation, list[int], int], ir.Value | None]] = {
    "arith.constant": _constant_element,
    "tensor.concat": _concat_element,
    "tensor.from_elements": _listed_element,
    "linalg.generic": _generic_element,
}
