"""Alias analysis of tensors: decide which values share a buffer after in-place bufferization.

%y = tensor.insert %v into %x      %y is the new content of the buffer of %x
%y = tensor.extract_slice %x       %y lies in the buffer of %x
"""

from __future__ import annotations

from collections.abc import Sequence

from mlirtri.dialect.bindings.mlir import ir
from mlirtri.lowering.mlir_common.reading import definition, is_block_argument

SAME_BUFFER = {"tensor.insert": 1, "tensor.insert_slice": 1, "bufferization.materialize_in_destination": 1}
"""Operations whose result is the new content of an operand, with that operand's index."""
SLICE_ATTRIBUTES = ("static_offsets", "static_sizes", "static_strides")
"""Attributes that, with the operands after the arrays, identify the slice of an operation."""
VIEWS = ("tensor.extract_slice", "tensor.expand_shape", "tensor.collapse_shape", "tensor.cast")
"""Operations whose result is a view of their first operand."""


def is_content_of(value: ir.Value, buffer: ir.Value) -> bool:
    """Return whether `value` is the later content of `buffer` when everything is written in place."""
    while value != buffer:
        sources = same_buffer(value)
        if len(sources) != 1:
            return bool(sources) and all(is_content_of(source, buffer) for source in sources)
        value = sources[0]
    return True


def may_share(value: ir.Value, buffer: ir.Value) -> bool:
    """Return whether the memory of `value` may overlap that of `buffer`."""
    if value == buffer:
        return True
    if not is_block_argument(value) and value.owner.name in VIEWS:
        return may_share(value.owner.operands[0], buffer)
    return any(may_share(source, buffer) for source in same_buffer(value))


def same_buffer(value: ir.Value) -> Sequence[ir.Value]:
    """Return the values whose buffer `value` is written into: one, one per arm of an `if`, or none."""
    if is_block_argument(value):
        return []
    operation, position = value.owner.operation, value.result_number
    if operation.name in SAME_BUFFER:
        return [operation.operands[SAME_BUFFER[operation.name]]]
    if operation.name.startswith("linalg.") and isinstance(value.type, ir.RankedTensorType):
        return [operation.operands[len(operation.operands) - len(operation.results) + position]]
    if operation.name == "scf.for":
        return [operation.operands[3 + position]]
    if operation.name == "scf.while":
        return _of_while(operation, position)
    if operation.name == "scf.if":
        return [terminator(region.blocks[0]).operands[position] for region in operation.regions]
    return []


def viewed(value: ir.Value) -> ir.Value:
    """Return the tensor that a view is a part of."""
    while (operation := definition(value)) is not None and operation.name in VIEWS:
        value = operation.operands[0]
    return value


def root_of(value: ir.Value) -> ir.Value:
    """Return the first value in the buffer of `value`."""
    while not is_block_argument(value):
        if value.owner.name in VIEWS:
            value = value.owner.operands[0]
        elif sources := same_buffer(value):
            value = sources[0]
        else:
            break
    return value


def outside(value: ir.Value, branch: ir.Operation) -> ir.Value | None:
    """Return the content of the buffer of `value` before `branch`; None when the branch creates the buffer."""
    if not is_inside(value, branch) and value.owner != branch:
        return value
    # A nested branch has a source in each of its arms.
    first, *others = [outside(source, branch) for source in same_buffer(value)] or [None]
    return first if first is not None and all(other is not None and other == first for other in others) else None


def is_inside(value: ir.Value, branch: ir.Operation) -> bool:
    """Return whether a value is defined in a region of an operation, at any depth."""
    operation = value.owner.owner if is_block_argument(value) else value.owner.operation.parent
    while operation is not None and operation.operation != branch:
        operation = operation.operation.parent
    return operation is not None


def is_read_only(value: ir.Value) -> bool:
    """Return whether `value` is an argument or a constant; writable arguments are operands of a `to_tensor`."""
    if is_block_argument(value):
        return value.owner.owner.operation.name == "func.func"
    return value.owner.name == "arith.constant"


def ends_in(value: ir.Value, branch: ir.Operation) -> bool:
    """Return whether all readers of `value` come before `branch`, or lie in it or in an enclosing branch."""
    block = value.owner if is_block_argument(value) else value.owner.operation.block
    around = branch
    while around.block != block:
        around = around.parent
        if around.name != "scf.if":
            return False
    for use in value.uses:
        reader = use.owner.operation
        while reader.block != block:
            reader = reader.parent
        if reader != around and not reader.is_before_in_block(around):
            return False
    return True


def ancestor_in(operation: ir.Operation, block: ir.Block) -> ir.Operation | None:
    """Return the operation of `block` that an operation is or lies in; None where it is outside of the block."""
    while operation.block != block:
        if operation.parent is None or operation.parent.operation.name == "func.func":
            return None
        operation = operation.parent.operation
    return operation


def terminator(block: ir.Block) -> ir.Operation:
    """Return the last operation of a block."""
    return block.operations[len(block.operations) - 1].operation


def between(first: ir.Operation, last: ir.Operation) -> list[ir.Operation]:
    """Return the operations of a block after one of its operations and before another."""
    operations = (view.operation for view in first.block.operations)
    return [op for op in operations if first.is_before_in_block(op) and op.is_before_in_block(last)]


def _of_while(loop: ir.Operation, position: int) -> Sequence[ir.Value]:
    """Return the initial value that is in the buffer of a result of a `while`; empty where none is."""
    condition = loop.regions[0].blocks[0]
    forwarded = terminator(condition).operands[1 + position]
    if is_block_argument(forwarded) and forwarded.owner == condition:
        return [loop.operands[forwarded.arg_number]]
    if position < len(condition.arguments) and is_content_of(forwarded, condition.arguments[position]):
        return [loop.operands[position]]
    return []
