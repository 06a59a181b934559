"""Elements that sizes are made of, as scalar arithmetic on what they were computed from.

Takes functions on tensors that read single integers out of small computed tensors, as importers write shapes that a
program computes. Gives the same with each such element computed by itself, as far back as it can be followed. Refuses
nothing: what cannot be followed is read from the tensor as before.

    extract (select of [true], [3], [1])[0]   ──►   select true, 3, 1
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from mlirtri.dialect.bindings.mlir import arith, ir, operations_named, tensor
from mlirtri.lowering.mlir.cloning import inlined
from mlirtri.lowering.sizes.size_reader import before_views

MOST_ELEMENTS = 64
"""Of a tensor that is looked into: shapes are short."""
MOST_STEPS = 32
"""How far back an element is followed."""
_SCALARS = ("arith.", "math.", "tensor.extract", "linalg.yield")


def rewrite(module: ir.Module) -> bool:
    """Replace what is read of small integer tensors wherever that makes it simpler, and say whether it was anywhere."""
    is_changed = False
    for extract in operations_named(module, "tensor.extract"):
        if not isinstance(extract.results[0].type, (ir.IntegerType, ir.IndexType)):
            continue
        places = [_number(each) for each in extract.operands[1:]]
        if None in places or not _is_small(extract.operands[0].type):
            continue
        with ir.InsertionPoint(extract), extract.location:
            found = _followed(*before_views(extract.operands[0], places), MOST_STEPS)
        if found is not None:
            extract.results[0].replace_all_uses_with(found)
            extract.erase()
            is_changed = True
    return is_changed


def _followed(value: ir.Value, place: list[int], depth: int) -> ir.Value | None:
    """The element of a tensor at a place, made at the insertion point of what the tensor was made of; or None."""
    made = None if isinstance(value.owner, ir.Block) else value.owner.operation
    if made is None or depth == 0 or (rule := _RULES.get(made.name)) is None:
        return None
    return rule(made, place, depth - 1)


def _element(value: ir.Value, place: list[int], depth: int) -> ir.Value:
    value, place = before_views(value, place)
    found = _followed(value, place, depth)
    if found is not None:
        return found
    return tensor.extract(value, [arith.constant(ir.IndexType.get(), at) for at in place])


def _of_constant(made: ir.Operation, place: list[int], depth: int) -> ir.Value | None:
    value = made.attributes["value"]
    if not isinstance(value, ir.DenseIntElementsAttr):
        return None
    kind = made.results[0].type
    return arith.constant(kind.element_type, int(value[_flat(place, kind)]))


def _of_concatenation(made: ir.Operation, place: list[int], depth: int) -> ir.Value | None:
    axis, at = made.attributes["dim"].value, 0
    for part in made.operands:
        size = part.type.shape[axis]
        if size < 0:
            return None
        if place[axis] < at + size:
            return _element(part, [*place[:axis], place[axis] - at, *place[axis + 1 :]], depth)
        at += size
    return None


def _of_elements(made: ir.Operation, place: list[int], depth: int) -> ir.Value | None:
    return made.operands[_flat(place, made.results[0].type)]


def _flat(place: list[int], kind: ir.RankedTensorType) -> int:
    number = 0
    for at, size in zip(place, kind.shape, strict=True):
        number = number * size + at
    return number


def _of_generic(made: ir.Operation, place: list[int], depth: int) -> ir.Value | None:
    """Of elementwise work the same work on the elements that it reads."""
    maps = [each.value for each in made.attributes["indexing_maps"]]
    body = made.regions[0].blocks[0]
    inputs = list(made.operands)[: len(maps) - len(made.results)]
    if len(made.results) != 1 or maps[-1] != ir.AffineMap.get_identity(len(place)):
        return None
    if list(body.arguments[-1].uses) or not all(each.operation.name.startswith(_SCALARS) for each in body.operations):
        return None
    read = [_read(value, each, place) for value, each in zip(inputs, maps, strict=False)]
    if None in read:
        return None
    elements = [
        value if not isinstance(value.type, ir.RankedTensorType) else _element(value, at, depth)
        for value, at in zip(inputs, read, strict=True)
    ]
    return inlined(body, [*elements, None])[0]


def _read(value: ir.Value, access: ir.AffineMap, place: list[int]) -> list[int] | None:
    """Where a map reads at a place of the loops; None of maps that do more than choose."""
    if isinstance(value.type, ir.RankedTensorType) and not _is_small(value.type):
        return None
    found = []
    for each in access.results:
        if isinstance(each, ir.AffineDimExpr):
            found.append(place[each.position])
        elif isinstance(each, ir.AffineConstantExpr):
            found.append(each.value)
        else:
            return None
    return found


def _is_small(kind: ir.RankedTensorType) -> bool:
    return kind.has_static_shape and 0 < prod(kind.shape) <= MOST_ELEMENTS


def _number(value: ir.Value) -> int | None:
    if isinstance(value.owner, ir.Block) or value.owner.operation.name != "arith.constant":
        return None
    return value.owner.operation.attributes["value"].value


_RULES: dict[str, Callable[[ir.Operation, list[int], int], ir.Value | None]] = {
    "arith.constant": _of_constant,
    "tensor.concat": _of_concatenation,
    "tensor.from_elements": _of_elements,
    "linalg.generic": _of_generic,
}
