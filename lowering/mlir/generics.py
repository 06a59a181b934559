"""Build `linalg.generic` from a named operation, and from a function of indices and elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlirtri.dialect.bindings.mlir import ir, linalg, tensor
from mlirtri.lowering.mlir.cloning import replace
from mlirtri.lowering.mlir.reading import used_dimensions

PARALLEL, REDUCTION = "#linalg.iterator_type<parallel>", "#linalg.iterator_type<reduction>"


def generalize(operation: ir.Operation) -> ir.Operation:
    """Replace a structured operation by the `linalg.generic` of the same maps and body."""
    maps = linalg.get_indexing_maps(operation)
    count = len(maps) - len(operation.results)
    operands = list(operation.operands)[: len(maps)]
    block = operation.regions[0].blocks[0]
    with ir.InsertionPoint(operation), operation.location:
        generic = empty_generic(operands[:count], operands[count:], maps, _iterators(operation, maps))
    body = generic.regions[0].blocks.append(*[argument.type for argument in block.arguments])
    for old, new in zip(block.arguments, body.arguments, strict=True):
        old.replace_all_uses_with(new)
    for inner in list(block.operations):
        body.append(inner.operation)
    replace(operation, generic.results)
    return generic


def elements(
    kind: ir.RankedTensorType,
    inputs: Sequence[tuple[ir.Value, ir.AffineMap]],
    make: Callable[[Sequence[ir.Value], Sequence[ir.Value]], ir.Value],
) -> ir.Value:
    """Return a new tensor of static shape with elements ``make(indices, elements of the inputs)``."""
    identity = ir.AffineMap.get_identity(kind.rank)
    maps = [*(mapping for _, mapping in inputs), identity]
    out = tensor.empty(kind.shape, kind.element_type)
    values = [value for value, _ in inputs]
    attributes = ir.ArrayAttr.get([ir.AffineMapAttr.get(mapping) for mapping in maps])
    generic = empty_generic(values, [out], attributes, [PARALLEL] * kind.rank)
    kinds = [value.type.element_type if isinstance(value.type, ir.ShapedType) else value.type for value in values]
    body = generic.regions[0].blocks.append(*kinds, kind.element_type)
    with ir.InsertionPoint(body):
        indices = [linalg.IndexOp(axis).result for axis in range(kind.rank)]
        linalg.YieldOp([make(indices, list(body.arguments)[:-1])])
    _erase_unused(indices)
    return generic.results[0]


def generic_of_region(
    block: ir.Block,
    out: ir.Value,
    finish: Callable[[Sequence[ir.Value], ir.Value], ir.Value] = lambda indices, element: element,
) -> ir.Value:
    """Fill `out` by a `tensor` region, which maps indices to an element; `finish` may transform the element.

    The operations of `block` are moved out of it.
    """
    kind = out.type
    identity = ir.AffineMap.get_identity(kind.rank)
    maps = ir.ArrayAttr.get([ir.AffineMapAttr.get(identity)])
    generic = empty_generic([], [out], maps, [PARALLEL] * kind.rank)
    body = generic.regions[0].blocks.append(kind.element_type)
    *operations, end = [view.operation for view in block.operations]
    with ir.InsertionPoint(body):
        indices = [linalg.IndexOp(axis).result for axis in range(kind.rank)]
    for argument, index in zip(block.arguments, indices, strict=True):
        argument.replace_all_uses_with(index)
    for operation in operations:
        body.append(operation)
    with ir.InsertionPoint(body):
        linalg.YieldOp([finish(indices, end.operands[0])])
    _erase_unused(indices)
    return generic.results[0]


def _erase_unused(indices: Sequence[ir.Value]) -> None:
    for index in indices:
        if not any(True for _ in index.uses):
            index.owner.operation.erase()


def empty_generic(
    inputs: Sequence[ir.Value], outputs: Sequence[ir.Value], maps: ir.ArrayAttr, iterators: Sequence[str]
) -> ir.Operation:
    """Create a `linalg.generic` on tensors or memrefs with an empty body."""
    kinds = ir.ArrayAttr.get([ir.Attribute.parse(output) for output in iterators])
    results = [output.type for output in outputs if isinstance(output.type, ir.RankedTensorType)]
    generic = linalg.GenericOp(results, list(inputs), list(outputs), maps, kinds)
    return generic.operation


def _iterators(operation: ir.Operation, maps: ir.ArrayAttr) -> list[str]:
    if "iterator_types" in operation.attributes:
        return [str(kind) for kind in operation.attributes["iterator_types"]]
    parallel = set.intersection(
        *(used_dimensions(maps[position].value) for position in range(len(maps))[-len(operation.results) :])
    )
    return [PARALLEL if position in parallel else REDUCTION for position in range(maps[0].value.n_dims)]
