"""Replace loop-carried tensors of dynamic shape by tensors of the same sizes, where the loop does not change them.

In a module of which only sizes matter, every loop or branch result whose size is that of the initial value, or of the
source of both arms, becomes a tensor of unknown content and that size: size inference then skips regions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from mlirtri.dialect.bindings.mlir import all_operations, all_operations_in, arith, bufferization, ir, operations_named
from mlirtri.lowering.mlir_common.aliasing import is_inside, terminator
from mlirtri.lowering.mlir_common.reading import defined_by, definition, integer_constant, is_block_argument
from mlirtri.lowering.sizes.conditions import dim

Predicate = tuple[ir.Value, bool]
"""An i1 value, and the value that it has to have."""
Size: TypeAlias = "int | tuple[ir.Value, int]"
"""A size: a number, or a tensor and its axis; with axis 0, an index value of that size."""
_SIZES_FROM = {"tensor.empty": 0, "bufferization.alloc_tensor": 0, "tensor.expand_shape": 1}
"""Operations whose dynamic sizes are operands, with the position of the first."""
DESTINATION_STYLE = ("linalg.", "tm_tensor.")
"""Dialects whose results have the sizes of their last operands."""
DESTINATIONS = {"tensor.insert": 1, "tensor.insert_slice": 1, "tensor.cast": 0}
"""Operations whose result has the sizes of one operand, with its position."""
RESHAPES = ("tensor.collapse_shape", "tensor.expand_shape", "tensor.reshape")
"""Operations whose result has as many elements as their first operand."""


def rewrite(module: ir.Module) -> None:
    """Replace these tensors in place: values in loops do not dominate the function's end, which computes sizes."""
    for operation in operations_named(module, "tm_tensor.*"):
        # Upstream's shape inference does not know the dialect.
        starts = list(operation.operands)[len(operation.operands) - len(operation.results) :]
        for result, start in zip(operation.results, starts, strict=True):
            if _is_unknown(result):
                _replace(result, start)
    for operation in all_operations(module):
        if operation.name not in ("scf.for", "scf.while", "scf.if") or operation.parent.name != "func.func":
            continue
        for result in operation.results:
            if _is_unknown(result) and (source := _start(result)) is not None:
                _replace(result, source)


def operations_in_regions(function: ir.OpView) -> Iterator[tuple[ir.Operation, list[Predicate]]]:
    """Yield each structured operation in a loop or branch as one on tensors of the same sizes at the function's end.

    The second element lists the predicates under which it runs, as far as they are known before the loop. The caller
    looks at the operation before the next one is asked for, which erases it. Operations on tensors whose sizes a loop
    determines are left out.
    """
    for operation, predicates in _dynamic_in_regions(function):
        values = _values_read(operation)
        sources = [_source(value) for value in values]
        if any(source is None for source in sources):
            continue
        pairs = zip(values, sources, strict=True)
        stand_ins = [(value, _stand_in(value, source)) for value, source in pairs if source is not None]
        copy = operation.clone().operation
        for inner in all_operations_in(copy):
            for position, value in enumerate(inner.operands):
                new = next((new for old, new in stand_ins if old == value), value)
                if new != value:
                    inner.operands[position] = new
        yield copy, [*predicates, *_loops_that_run(operation)]
        copy.erase()


def operations_of_unknown_sizes(function: ir.OpView) -> list[ir.Operation]:
    """Return the structured operations in loops and branches that `operations_in_regions` leaves out."""
    operations = [operation for operation, _ in _dynamic_in_regions(function)]
    return [operation for operation in operations if any(_source(value) is None for value in _values_read(operation))]


def _values_read(operation: ir.Operation) -> list[ir.Value]:
    """Return the operands of an operation, and the tensors that its body reads elements of."""
    inner = all_operations_in(operation)[1:]
    captured = [value for other in inner for value in other.operands if isinstance(value.type, ir.RankedTensorType)]
    own = [value for value in captured if not is_inside(value, operation)]
    return list(dict.fromkeys([*operation.operands, *own]))


def _dynamic_in_regions(function: ir.OpView) -> Iterator[tuple[ir.Operation, list[Predicate]]]:
    for operation in operations_named(function, "linalg.*"):
        if operation.results and any(map(_is_unknown, operation.operands)):
            if (predicates := _predicates_of(operation)) is not None:
                yield operation, predicates


def _predicates_of(operation: ir.Operation) -> list[Predicate] | None:
    predicates: list[Predicate] = []
    block, parent = operation.block, operation.parent.operation
    if parent.name == "func.func":
        return None
    while parent.name in ("scf.for", "scf.while", "scf.if"):
        if parent.name == "scf.if" and _is_at_top(parent.operands[0]):
            predicates.append((parent.operands[0], parent.regions[0].blocks[0] == block))
        block, parent = parent.block, parent.parent.operation
    return predicates if parent.name == "func.func" else None


def _loops_that_run(operation: ir.Operation) -> Iterator[Predicate]:
    """Yield, for enclosing `scf.for` loops of known bounds, that they run at least once."""
    parent = operation.parent.operation
    while parent.name != "func.func":
        if parent.name == "scf.for" and all(map(_is_at_top, list(parent.operands)[:2])):
            yield arith.cmpi(arith.CmpIPredicate.slt, parent.operands[0], parent.operands[1]), True
        parent = parent.parent.operation


def _source(value: ir.Value) -> ir.Value | list[ir.Value] | None:
    """Return a top-level value with the sizes of `value`, or its dynamic sizes, if they are known there; else None."""
    if not isinstance(value.type, ir.RankedTensorType):
        return value if _is_at_top(value) else None
    kind = value.type
    while True:
        value = _root(value)
        if _is_at_top(value):
            return value
        if not is_block_argument(value):
            break
        if (start := _carried_from(value)) is None:
            return None
        value = start
    operation, unknown = value.owner.operation, sum(size < 0 for size in kind.shape)
    if operation.name not in ("tensor.empty", "tensor.extract_slice"):
        return None if unknown else []
    sizes = list(operation.operands)
    if operation.name == "tensor.extract_slice":
        first = 1 + operation.attributes["operandSegmentSizes"][1]
        sizes = sizes[first : first + operation.attributes["operandSegmentSizes"][2]]
    return sizes if len(sizes) == unknown and all(map(_is_at_top, sizes)) else None


def _stand_in(value: ir.Value, source: ir.Value | list[ir.Value]) -> ir.Value:
    return bufferization.alloc_tensor(value.type, source) if isinstance(source, list) else source


def _carried_from(value: ir.Value) -> ir.Value | None:
    loop, position = value.owner.owner.operation, value.arg_number
    if loop.name == "scf.for":
        return _before_for(loop, position - 1) if position > 0 else None
    if loop.name != "scf.while":
        return None
    before, after = (region.blocks[0] for region in loop.regions)
    if value.owner == after:
        return _start_of_while(loop, position)
    yielded = _root(terminator(after).operands[position])
    if yielded not in list(after.arguments):
        return None
    back = _root(terminator(before).operands[1 + list(after.arguments).index(yielded)])
    return loop.operands[position] if back == value else None


def _is_at_top(value: ir.Value) -> bool:
    owner = value.owner.owner if is_block_argument(value) else value.owner.operation.parent
    return owner.operation.name == "func.func"


def _replace(result: ir.Value, source: ir.Value) -> None:
    with ir.InsertionPoint.after(result.owner), result.location:
        sizes = [dim(source, axis) for axis, size in enumerate(result.type.shape) if size < 0]
        array = bufferization.alloc_tensor(result.type, sizes)
    result.replace_all_uses_with(array)


def _start(value: ir.Value) -> ir.Value | None:
    """Return the tensor outside of a loop or branch that has the sizes of its result `value`; else None."""
    operation, position = value.owner.operation, value.result_number
    if operation.name == "scf.for":
        return _before_for(operation, position)
    if operation.name == "scf.if":
        arms = {_root(terminator(region.blocks[0]).operands[position]) for region in operation.regions}
        return arms.pop() if len(arms) == 1 and not is_inside(next(iter(arms)), operation) else None
    return _start_of_while(operation, position) if operation.name == "scf.while" else None


def _before_for(loop: ir.Operation, position: int, assumed: frozenset[int] = frozenset()) -> ir.Value | None:
    """Return the initial value of what an `scf.for` carries if each iteration yields a tensor of its sizes.

    That may follow from the sizes of other carried tensors: it is shown for all of them by induction over iterations,
    `assumed` being those of which it is assumed for the iterations before.
    """
    block, initial = loop.regions[0].blocks[0], loop.operands[3 + position]
    carried, yielded = list(block.arguments)[1:], _root(terminator(block).operands[position])
    if yielded == carried[position]:
        return initial
    if not isinstance(initial.type, ir.RankedTensorType) or initial.type != yielded.type:
        return None
    for axis in (axis for axis, size in enumerate(initial.type.shape) if size < 0):
        before = sizes_of_axis(initial, axis)
        after = {_size_before(size, loop, carried, assumed | {position}) for size in sizes_of_axis(yielded, axis)}
        if len(before) != 1 or after != before:
            return None
    return initial


def _size_before(size: Size, loop: ir.Operation, carried: list[ir.Value], assumed: frozenset[int]) -> Size | None:
    """Return a size with the initial value in place of a carried tensor; None where the loop may change that."""
    if isinstance(size, int) or size[0] not in carried:
        return size
    other = carried.index(size[0])
    if other not in assumed and _before_for(loop, other, assumed) is None:
        return None
    sizes = sizes_of_axis(loop.operands[3 + other], size[1])
    return next(iter(sizes)) if len(sizes) == 1 else None


def _start_of_while(loop: ir.Operation, position: int) -> ir.Value | None:
    before, after = (region.blocks[0] for region in loop.regions)
    yielded = list(terminator(before).operands)[1:]
    root = _root(yielded[position])
    if root not in list(before.arguments):
        return None
    argument = list(before.arguments).index(root)
    returned = _root(terminator(after).operands[argument])
    if returned not in list(after.arguments):
        return None
    back = _root(yielded[list(after.arguments).index(returned)])
    return loop.operands[argument] if back == root else None


def _root(value: ir.Value) -> ir.Value:
    """Trace `value` back to the first tensor that certainly has the same sizes."""
    while (operation := definition(value)) is not None:
        if operation.name in DESTINATIONS and operation.operands[DESTINATIONS[operation.name]].type == value.type:
            value = operation.operands[DESTINATIONS[operation.name]]
        elif operation.name.startswith(DESTINATION_STYLE):
            value = operation.operands[len(operation.operands) - len(operation.results) + value.result_number]
        elif operation.name == "tensor.empty" and (same_sized := _tensor_of_sizes(value)) is not None:
            value = same_sized
        elif operation.name.startswith("scf.") and (start := _start(value)) is not None:
            value = start
        elif operation.name in RESHAPES and (reshaped := _before_reshapes(value)) is not None:
            value = reshaped
        else:
            break
    return value


def sizes_of_axis(value: ir.Value, axis: int) -> frozenset[Size]:
    """Return what the size of an axis is traced back to: one, or of branches one of several."""
    if (size := value.type.shape[axis]) >= 0:
        return frozenset([size])
    value = _root(value)
    operation = definition(value)
    if operation is None:
        return frozenset([(value, axis)])
    if operation.name in _SIZES_FROM:
        given = list(operation.operands)[_SIZES_FROM[operation.name] :]
        return _traced_sizes(given[sum(size < 0 for size in value.type.shape[:axis])])
    if operation.name == "scf.if":
        arms = [terminator(region.blocks[0]).operands[value.result_number] for region in operation.regions]
        return frozenset().union(*(sizes_of_axis(arm, axis) for arm in arms))
    if operation.name == "tensor.collapse_shape":
        group = [index.value for index in operation.attributes["reassociation"][axis]]
        others = [index for index in group if operation.operands[0].type.shape[index] != 1]
        if len(others) == 1:
            return sizes_of_axis(operation.operands[0], others[0])
    return frozenset([(value, axis)])


def _traced_sizes(size: ir.Value) -> frozenset[Size]:
    operation = definition(size)
    if operation is None:
        return frozenset([(size, 0)])
    if operation.name == "tensor.dim" and (axis := integer_constant(operation.operands[1])) is not None:
        return sizes_of_axis(operation.operands[0], axis)
    # A slice of a whole axis has the size `max(min(size, size), 0)`.
    if operation.name == "arith.maxsi" and integer_constant(operation.operands[1]) == 0:
        return _traced_sizes(operation.operands[0])
    if operation.name == "arith.minsi":
        return frozenset().union(*map(_traced_sizes, operation.operands))
    return frozenset([(size, 0)])


def _before_reshapes(value: ir.Value) -> ir.Value | None:
    """Return the tensor of the same type that reshapes lead back to; its one dynamic size is the same then."""
    kind, source = value.type, value
    if sum(size < 0 for size in kind.shape) != 1 or 0 in kind.shape:
        return None
    while (reshape := definition(source)) is not None and reshape.name in RESHAPES:
        source = _root(reshape.operands[0])
        if source.type == kind:
            return source
    return None


def _tensor_of_sizes(value: ir.Value) -> ir.Value | None:
    """Return the tensor of the same type that a `tensor.empty` takes all its dynamic sizes from; else None."""
    common = None
    axes = [axis for axis, size in enumerate(value.type.shape) if size < 0]
    for axis, size in zip(axes, value.owner.operands, strict=True):
        operation = defined_by(size, "tensor.dim")
        if operation is None or integer_constant(operation.operands[1]) != axis:
            return None
        source = operation.operands[0]
        if source.type != value.type or (common is not None and common != source):
            return None
        common = source
    return common


def _is_unknown(value: ir.Value) -> bool:
    return isinstance(value.type, ir.RankedTensorType) and not value.type.has_static_shape
