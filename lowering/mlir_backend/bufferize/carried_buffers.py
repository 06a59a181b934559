"""Give each loop-carried array one buffer: what an iteration yields is written into it.

Takes a function over tensors with `scf` loops and branches, in which a loop-carried array keeps its size, static or
not. Gives it in place, ready for upstream's one-shot-bufferize: the condition of a `while` forwards every carried value
in order, and after them what else is needed; and every array that a loop or an arm of an `if` yields is written into
one existing buffer, so that no iteration allocates one.

    while (%a, %b) { condition(%c) %b }   ──►   while (%a, %b) { condition(%c) %a, %b }
    for … iter_args(%x = …) { %y = f(%x); yield %y }   ──►   … { %y = f(%x); %z = write %y into %x; yield %z }
"""

from __future__ import annotations

from collections.abc import Sequence

from mlirtri.dialect.bindings.mlir import all_operations, bufferization, ir, operations_named, scf, tensor
from mlirtri.lowering.mlir_common.aliasing import (
    ancestor_in,
    ends_in,
    is_content_of,
    is_inside,
    is_read_only,
    may_share,
    outside,
    root_of,
    same_buffer,
    terminator,
    viewed,
)
from mlirtri.lowering.mlir_common.cloning import needed_by, replace
from mlirtri.lowering.mlir_common.index_values import index_constant
from mlirtri.lowering.mlir_common.reading import is_block_argument

LOOPS = ("scf.for", "scf.while")


def rewrite(module: ir.Module) -> None:
    """Give every loop-carried array one buffer, the innermost loops first."""
    for select in operations_named(module, "arith.select"):
        if _is_tensor(select.results[0].type) and not _is_tensor(select.operands[0].type):
            _select_to_branch(select)
    for operation in reversed(all_operations(module)):
        if operation.name == "scf.for":
            block = operation.regions[0].blocks[0]
            _write_into(list(block.arguments)[1:], terminator(block), 0)
        elif operation.name == "scf.while":
            before, after = (region.blocks[0] for region in operation.regions)
            _write_into(list(before.arguments), terminator(before), 1)
            _write_into(list(after.arguments), terminator(after), 0)
        elif operation.name == "scf.if" and operation.results:
            _join(operation)


def keep_until(value: ir.Value) -> ir.Value:
    """Copy `value` where it is defined, for a reader that comes after its buffer was overwritten."""
    is_argument = is_block_argument(value)
    point = ir.InsertionPoint.at_block_begin(value.owner) if is_argument else ir.InsertionPoint.after(value.owner)
    with point, value.location:
        return bufferization.alloc_tensor(value.type, [], copy=value)


def _write_into(carried: list[ir.Value], end: ir.Operation, first: int) -> None:
    """Make operand `first` + n of the terminator `end` the content of the n-th loop-carried value."""
    pairs = list(enumerate(zip(list(end.operands)[first:], carried, strict=False)))
    for _, (value, buffer) in pairs:
        if _is_tensor(buffer.type) and is_content_of(value, buffer):
            keep_for_late_readers(value, buffer)
    values = list(end.operands)[first:]
    fresh = {
        position: buffer
        for position, (_, buffer) in pairs
        if _is_tensor(buffer.type)
        and values[position].type == buffer.type
        and not is_content_of(values[position], buffer)
    }
    # A condition may forward more than is loop-carried.
    changed = [other for position, (value, other) in pairs if position not in fresh and value != other]
    for position, buffer in fresh.items():
        own_memory(values[position], buffer)
        if any(may_share(values[position], other) for other in changed):
            values[position] = keep_until(values[position])
    order = _readers_first(fresh, values)
    with ir.InsertionPoint(end), end.location:
        for position in order:
            buffer = fresh[position]
            end.operands[first + position] = bufferization.materialize_in_destination(
                buffer.type, values[position], buffer
            )


def _readers_first(buffers: dict[int, ir.Value], values: list[ir.Value]) -> list[int]:
    """Order the writes so that each buffer is read before it is written; where none exists, copy `values`."""
    order, remaining = [], list(buffers)
    while remaining:
        free = [
            position
            for position in remaining
            if not any(may_share(values[other], buffers[position]) for other in remaining if other != position)
        ]
        chosen = free[0] if free else remaining[0]
        for position in remaining:
            if position != chosen and may_share(values[position], buffers[chosen]):
                values[position] = keep_until(values[position])
        order.append(chosen)
        remaining.remove(chosen)
    return order


def own_memory(value: ir.Value, buffer: ir.Value) -> None:
    """Compute `value` in an allocation, because its destination `buffer` is still read in the meantime.

    Upstream would compute it in the buffer at once, and copy whatever is still read of that.
    """
    source, last = value, None
    while not is_block_argument(source) and len(sources := same_buffer(source)) == 1:
        source, last = sources[0], source.owner.operation
    if is_block_argument(source) or source.owner.name != "tensor.empty" or last is None:
        return
    root, rank = root_of(buffer), buffer.type.rank
    parts = [
        operand
        for operand in last.operands
        if operand != buffer and _rank(operand) == rank and root_of(operand) == root
    ]
    later = [view.operation for view in last.block.operations if last.is_before_in_block(view)]
    used = [operand for operation in later for operand in needed_by(operation)]
    if len(parts) > 1 or any(root_of(operand) == root for operand in used):
        with ir.InsertionPoint(last), value.location:
            fresh = bufferization.alloc_tensor(source.type, list(source.owner.operands))
        position = next(position for position, operand in enumerate(last.operands) if operand == source)
        last.operands[position] = fresh


def keep_for_late_readers(value: ir.Value, buffer: ir.Value) -> None:
    """Let readers of `buffer` that come after it was overwritten by `value` read a copy of its old content.

    Upstream would write into the copy instead, and the buffer would not be the same in the end.
    """
    while value != buffer:
        writer, position = value.owner.operation, value.result_number
        if writer.name == "scf.if":
            ends = [terminator(region.blocks[0]).operands[position] for region in writer.regions]
            if (old := outside(value, writer)) is None:
                return
            for end in ends:
                keep_for_late_readers(end, old)
        else:
            [old] = same_buffer(value)
        late = [use for use in old.uses if _is_late(use, writer, value)]
        if late:
            with ir.InsertionPoint(writer), value.location:
                copy = bufferization.alloc_tensor(old.type, [], copy=old)
            for use in late:
                use.owner.operands[use.operand_number] = copy
        value = old


def _is_late(use: ir.OpOperand, writer: ir.Operation, value: ir.Value) -> bool:
    """Return whether `use` reads after `writer` has overwritten: after it, or inside a loop that writes."""
    reader = use.owner.operation
    if reader == writer:
        return writer.name in LOOPS and use.operand_number != _initial(writer, value)
    around = ancestor_in(reader, writer.block)
    if around is None:
        return False
    return writer.name != "scf.if" if around == writer else writer.is_before_in_block(around)


def _initial(loop: ir.Operation, value: ir.Value) -> int:
    [source] = same_buffer(value)
    skipped = 3 if loop.name == "scf.for" else 0
    position = skipped + value.result_number
    if position < len(loop.operands) and loop.operands[position] == source:
        return position
    return list(loop.operands).index(source)


def _select_to_branch(select: ir.Operation) -> None:
    """Replace a select of arrays by an `if`, which copies: it must not become a select of buffers."""
    condition, *values = select.operands
    with ir.InsertionPoint(select), select.location:
        branch = scf.IfOp(condition, [select.results[0].type], has_else=True)
        for region, value in zip(branch.regions, values, strict=True):
            with ir.InsertionPoint(region.blocks[0]):
                scf.YieldOp([value])
    replace(select, branch.results)


def _join(branch: ir.Operation) -> None:
    """Let both arms of an `if` write into one buffer, where they do not already."""
    arms = [terminator(region.blocks[0]) for region in branch.regions]
    for position, result in enumerate(branch.results):
        values = [arm.operands[position] for arm in arms]
        if not _is_tensor(result.type) or _have_one_buffer(values, branch):
            continue
        with ir.InsertionPoint(branch), branch.location:
            sizes = next((dynamic for value in values if (dynamic := _sizes_outside(value, branch)) is not None), None)
            if sizes is None:
                continue
            target = bufferization.alloc_tensor(result.type, sizes)
        for arm in arms:
            with ir.InsertionPoint(arm), arm.location:
                value = arm.operands[position]
                arm.operands[position] = bufferization.materialize_in_destination(result.type, value, target)


def _sizes_outside(value: ir.Value, branch: ir.Operation) -> list[ir.Value] | None:
    """Return the dynamic sizes of `value` as values from outside `branch`; None where they are only known inside."""
    dynamic = [axis for axis, size in enumerate(value.type.shape) if size < 0]
    if not dynamic:
        return []
    while is_inside(value, branch):
        if not is_block_argument(value) and value.owner.name == "tensor.empty":
            sizes = list(value.owner.operands)
            return None if any(is_inside(size, branch) for size in sizes) else sizes
        sources = same_buffer(value)
        if not sources:
            return None
        value = sources[0]
    return [tensor.dim(value, index_constant(axis)) for axis in dynamic]


def _have_one_buffer(values: Sequence[ir.Value], branch: ir.Operation) -> bool:
    """Return whether both arms write into one writable buffer from outside, which nobody reads later."""
    first, second = (outside(value, branch) for value in values)
    if first is None or second is None or first != second:
        return False
    if all(value == first for value in values):
        return True
    whole = viewed(first)
    return not is_read_only(whole) and ends_in(first, branch) and ends_in(whole, branch)


def _rank(value: ir.Value) -> int:
    return value.type.rank if _is_tensor(value.type) else 0


def _is_tensor(type_: ir.Type) -> bool:
    return isinstance(type_, ir.RankedTensorType)


def carry_every_value(module: ir.Module) -> None:
    """Let the condition of every `scf.while` forward all carried values, in order.

    An array that the condition computes becomes one of them, with a buffer for all iterations.
    """
    for loop in reversed(operations_named(module, "scf.while")):
        head = loop.regions[0].blocks[0]
        condition = terminator(head)
        passed = list(condition.operands)[1:]
        carried, _ = _forwarded(list(head.arguments), passed)
        new_arrays = [value for value in carried[len(head.arguments) :] if _is_static(value.type)]
        for value in new_arrays:
            head.add_argument(value.type, value.location)
        carried, positions = _forwarded(list(head.arguments), passed)
        if new_arrays or positions != list(range(len(carried))):
            _rebuild(loop, condition, carried, positions)


def _is_static(type_: ir.Type) -> bool:
    return isinstance(type_, ir.RankedTensorType) and type_.has_static_shape


def _forwarded(arguments: list[ir.Value], passed: list[ir.Value]) -> tuple[list[ir.Value], list[int]]:
    """Return what the condition is to forward, and the positions in it of what it forwards now."""
    carried, positions = list(arguments), []
    for value in passed:
        if value in carried:
            positions.append(carried.index(value))
            continue
        free = [number for number, argument in enumerate(arguments) if carried[number] == argument]
        position = next((number for number in free if is_content_of(value, arguments[number])), None)
        if position is None and _is_tensor(value.type):
            # A new array is written into the buffer of one that the condition does not forward.
            unread = [number for number in free if arguments[number] not in passed]
            position = next((number for number in unread if arguments[number].type == value.type), None)
        if position is None:
            positions.append(len(carried))
            carried.append(value)
        else:
            positions.append(position)
            carried[position] = value
    return carried, positions


def _rebuild(loop: ir.Operation, condition: ir.Operation, carried: list[ir.Value], positions: list[int]) -> None:
    before, after = (region.blocks[0] for region in loop.regions)
    initial = list(loop.operands)
    with ir.InsertionPoint(loop), loop.location:
        added = list(before.arguments)[len(initial) :]
        buffers = [bufferization.alloc_tensor(argument.type, []) for argument in added]
        new = scf.WhileOp([value.type for value in carried], [*initial, *buffers])
    with ir.InsertionPoint(condition), condition.location:
        scf.ConditionOp(condition.operands[0], carried)
    condition.erase()
    for number, value in enumerate(carried):
        location = after.arguments[positions.index(number)].location if number in positions else value.location
        after.add_argument(value.type, location)
    for number, position in enumerate(positions):
        after.arguments[number].replace_all_uses_with(after.arguments[len(positions) + position])
        loop.results[number].replace_all_uses_with(new.results[position])
    if buffers:
        end, first = terminator(after), len(positions) + len(initial)
        with ir.InsertionPoint(end), end.location:
            scf.YieldOp([*end.operands, *list(after.arguments)[first : first + len(buffers)]])
        end.erase()
    for _ in positions:
        after.erase_argument(0)
    before.append_to(new.regions[0])
    after.append_to(new.regions[1])
    loop.erase()
