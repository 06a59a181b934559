"""One buffer for each array that a loop carries: what an iteration hands on is written where the loop keeps it.

Takes a function over tensors with `scf` loops and branches, in which a carried array keeps its size, be it one of run
time. Gives it in place, ready for upstream's one-shot-bufferize: every array that a loop yields, or that the arms of an
`if` give, is the new content of a buffer that stays the same, so that no iteration allocates one for its result.

    for … iter_args(%x = …) { %y = f(%x); yield %y }   ──►   … { %y = f(%x); %z = write %y into %x; yield %z }
"""

from __future__ import annotations

from collections.abc import Sequence

from mlirtri.dialect.mlir import all_operations, arith, bufferization, ir, tensor

SAME_BUFFER = {"tensor.insert": 1, "tensor.insert_slice": 1, "bufferization.materialize_in_destination": 1}
"""Operations whose result is the new content of one of their operands, and which."""
VIEWS = ("tensor.extract_slice", "tensor.expand_shape", "tensor.collapse_shape", "tensor.cast")
"""Operations whose result is part of the buffer of their first operand."""


def rewrite(module: ir.Module) -> None:
    """Give every carried array one buffer, the innermost loops first."""
    for operation in reversed(all_operations(module)):
        if operation.name == "scf.for":
            block = operation.regions[0].blocks[0]
            _write_into(list(block.arguments)[1:], _terminator(block), 0)
        elif operation.name == "scf.while":
            before, after = (region.blocks[0] for region in operation.regions)
            _write_into(list(before.arguments), _terminator(before), 1)
            _write_into(list(after.arguments), _terminator(after), 0)
        elif operation.name == "scf.if" and operation.results:
            _join(operation)


def keep_until(value: ir.Value) -> ir.Value:
    """A copy of `value`, made where it is defined, for a reader that comes after its buffer was written."""
    if is_block_argument(value):
        point = ir.InsertionPoint.at_block_begin(value.owner)
    else:
        point = ir.InsertionPoint.after(value.owner)
    with point, value.location:
        return bufferization.alloc_tensor(value.type, [], copy=value)


def is_block_argument(value: ir.Value) -> bool:
    return not isinstance(value.owner, ir.Operation | ir.OpView)


def is_content_of(value: ir.Value, buffer: ir.Value) -> bool:
    """Whether `value` is what `buffer` becomes when everything is written in place."""
    while value != buffer:
        sources = _same_buffer(value)
        if len(sources) != 1:
            return bool(sources) and all(is_content_of(source, buffer) for source in sources)
        value = sources[0]
    return True


def may_share(value: ir.Value, buffer: ir.Value) -> bool:
    """Whether the memory of `value` may be, or lie in, that of `buffer`."""
    if value == buffer:
        return True
    if not is_block_argument(value) and value.owner.name in VIEWS:
        return may_share(value.owner.operands[0], buffer)
    return any(may_share(source, buffer) for source in _same_buffer(value))


def _same_buffer(value: ir.Value) -> Sequence[ir.Value]:
    """The values whose buffer `value` is written into: one, one per arm of an `if`, or none."""
    if is_block_argument(value):
        return []
    operation, position = value.owner.operation, value.result_number
    if operation.name in SAME_BUFFER:
        return [operation.operands[SAME_BUFFER[operation.name]]]
    if operation.name.startswith("linalg."):
        return [operation.operands[len(operation.operands) - len(operation.results) + position]]
    if operation.name == "scf.for":
        return [operation.operands[3 + position]]
    if operation.name == "scf.while":
        return _of_while(operation, position)
    if operation.name == "scf.if":
        return [_terminator(region.blocks[0]).operands[position] for region in operation.regions]
    if operation.name == "arith.select":
        return list(operation.operands)[1:]
    return []


def _of_while(loop: ir.Operation, position: int) -> Sequence[ir.Value]:
    """A result of a `while` is a value of its condition, which is in the buffer of one of the initial values."""
    before = loop.regions[0].blocks[0]
    handed = _terminator(before).operands[1 + position]
    if is_block_argument(handed) and handed.owner == before:
        return [loop.operands[handed.arg_number]]
    if position < len(before.arguments) and is_content_of(handed, before.arguments[position]):
        return [loop.operands[position]]
    return []


def _terminator(block: ir.Block) -> ir.Operation:
    return block.operations[len(block.operations) - 1].operation


def _write_into(carried: list[ir.Value], terminator: ir.Operation, first: int) -> None:
    """Make operand `first` + n of `terminator` the content of the n-th carried value."""
    values = list(terminator.operands)[first:]
    fresh = {
        at: (value, buffer)
        for at, (value, buffer) in enumerate(zip(values, carried, strict=False))
        if _is_tensor(value.type) and value.type == buffer.type and not is_content_of(value, buffer)
    }
    for at, (value, _) in fresh.items():
        others = [buffer for other, (_, buffer) in fresh.items() if other != at]
        others += [buffer for other, buffer in enumerate(carried) if other not in fresh and values[other] != buffer]
        if any(may_share(value, buffer) for buffer in others):
            values[at] = keep_until(value)
    with ir.InsertionPoint(terminator), terminator.location:
        for at, (_, buffer) in fresh.items():
            written = bufferization.materialize_in_destination(buffer.type, values[at], buffer)
            terminator.operands[first + at] = written


def _join(branch: ir.Operation) -> None:
    """Both arms of an `if` write into one buffer, where they do not already."""
    arms = [_terminator(region.blocks[0]) for region in branch.regions]
    for position, result in enumerate(branch.results):
        values = [arm.operands[position] for arm in arms]
        if not _is_tensor(result.type) or _have_one_buffer(values, branch):
            continue
        with ir.InsertionPoint(branch), branch.location:
            sizes = next((found for value in values if (found := _sizes_outside(value, branch)) is not None), None)
            if sizes is None:
                continue
            target = bufferization.alloc_tensor(result.type, sizes)
        for arm in arms:
            with ir.InsertionPoint(arm), arm.location:
                value = arm.operands[position]
                arm.operands[position] = bufferization.materialize_in_destination(result.type, value, target)


def _sizes_outside(value: ir.Value, branch: ir.Operation) -> list[ir.Value] | None:
    """The run-time sizes of `value` as values from outside `branch`; None where they are only known inside."""
    dynamic = [axis for axis, size in enumerate(value.type.shape) if size < 0]
    if not dynamic:
        return []
    while _is_inside(value, branch):
        if not is_block_argument(value) and value.owner.name == "tensor.empty":
            sizes = list(value.owner.operands)
            return None if any(_is_inside(size, branch) for size in sizes) else sizes
        sources = _same_buffer(value)
        if not sources:
            return None
        value = sources[0]
    return [tensor.dim(value, arith.constant(ir.IndexType.get(), axis)) for axis in dynamic]


def _have_one_buffer(values: Sequence[ir.Value], branch: ir.Operation) -> bool:
    """Whether both arms write into the same buffer from outside, which may be written, and nobody reads it later."""
    first, second = (_outside(value, branch) for value in values)
    if first is None or first != second:
        return False
    if all(value == first for value in values):
        return True
    return not _is_read_only(first) and _ends_in(first, branch)


def _outside(value: ir.Value, branch: ir.Operation) -> ir.Value | None:
    """What was in the buffer of `value` before `branch`; None when the branch makes the buffer."""
    if not _is_inside(value, branch):
        return value
    # A branch within has a source in each of its arms.
    found = [_outside(source, branch) for source in _same_buffer(value)]
    return None if not found or any(each is None or each != found[0] for each in found) else found[0]


def _is_inside(value: ir.Value, branch: ir.Operation) -> bool:
    operation = value.owner.owner if is_block_argument(value) else value.owner.operation.parent
    while operation is not None and operation.operation != branch:
        operation = operation.operation.parent
    return operation is not None


def _is_read_only(value: ir.Value) -> bool:
    """Whether `value` is an argument or a constant; an argument that may be written is behind a `to_tensor`."""
    if is_block_argument(value):
        return value.owner.owner.operation.name == "func.func"
    return value.owner.name == "arith.constant"


def _ends_in(value: ir.Value, branch: ir.Operation) -> bool:
    """Whether all readers of `value` come before `branch`, or lie in it or in a branch around it."""
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


def _is_tensor(kind: ir.Type) -> bool:
    return isinstance(kind, ir.RankedTensorType)
