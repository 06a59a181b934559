"""Compute results in the arrays that they are inserted into, or in separate memory where these are still read.

Takes a module of `linalg`, `tensor` and `scf` on tensors. Gives it in place with the same values, so that upstream may
replace the destination of every operation whose result is inserted into an array by that slice of the array: where the
array is still read in between, the operation moves down to the insertion; where its operands are written in between,
its destination becomes an allocation, which upstream leaves alone. So does an array from which two results of a
function are computed: upstream would put it into the buffer of one result, overwrite it, and copy it for the other.

    %t = fill(1); %y = read(%a); insert %t into %a   ──►   %y = read(%a); %t = fill(1); insert %t into %a
    %t = f(empty); %a = g(into %t); %b = h(into %t); return %a, %b   ──►   %t = f(alloc_tensor)
"""

from __future__ import annotations

from itertools import combinations

from mlirtri.dialect.bindings.mlir import all_operations_in, bufferization, ir, operations_named, public_functions
from mlirtri.lowering.mlir_common.aliasing import SLICE_ATTRIBUTES, VIEWS, between, root_of, same_buffer, terminator
from mlirtri.lowering.mlir_common.cloning import needed_by
from mlirtri.lowering.mlir_common.reading import is_block_argument


def fill_at_use(module: ir.Module) -> None:
    """Fill an array again right before each of its writers and insertions; a shared one would be copied."""
    for fill in operations_named(module, "linalg.fill"):
        uses = [use for use in fill.results[0].uses if not _only_reads(use)]
        # With one writer, readers come before it, or need a copy anyway.
        if len(uses) == 1 and uses[0].owner.operation.block == fill.block:
            if uses[0].owner.name != "tensor.insert_slice" or uses[0].operand_number != 0:
                continue
        for use in uses:
            with ir.InsertionPoint(use.owner):
                use.owner.operands[use.operand_number] = fill.clone().results[0]
        if not list(fill.results[0].uses):
            fill.erase()


def _only_reads(use: ir.OpOperand) -> bool:
    operation = use.owner.operation
    if operation.name in (*VIEWS, "tensor.extract", "tensor.dim"):
        return True
    inputs = len(operation.operands) - len(operation.results)
    return operation.name.startswith("linalg.") and use.operand_number < inputs


def insert_into_latest(module: ir.Module) -> None:
    """Insert a slice into the array that already has it at that position, not into the array before that.

    Canonicalization skips the first insertion, since the result is the same; but then there are two arrays.
    """
    for insertion in operations_named(module, "tensor.insert_slice"):
        while (earlier := _overwritten(insertion)) is not None:
            insertion.operands[1] = earlier.results[0]


def _overwritten(insertion: ir.Operation) -> ir.Operation | None:
    """Return an insertion before `insertion`, into the same array at the same position."""
    for use in insertion.operands[1].uses:
        other = use.owner.operation
        if other.name != "tensor.insert_slice" or use.operand_number != 1 or other.block != insertion.block:
            continue
        same = all(other.attributes[name] == insertion.attributes[name] for name in SLICE_ATTRIBUTES)
        if same and list(other.operands)[2:] == list(insertion.operands)[2:] and other.is_before_in_block(insertion):
            return other
    return None


def rewrite(module: ir.Module) -> None:
    """Move, or separate from their arrays, all operations whose results are inserted."""
    for insertion in operations_named(module, "tensor.insert_slice"):
        producer = _producer(insertion.operands[0])
        if producer is None or producer.block != insertion.block:
            continue
        inner = between(producer, insertion)
        array = root_of(insertion.operands[1])
        if not any(root_of(value) == array for operation in inner for value in needed_by(operation)):
            continue
        read = {root_of(value) for value in _inputs(producer) if isinstance(value.type, ir.RankedTensorType)}
        if any(_is_written(root, inner) for root in read):
            _separate(producer)
        else:
            _move(producer, insertion)


def _producer(value: ir.Value) -> ir.Operation | None:
    """Return the `linalg` operation that defines `value`, has no other user, and starts from an empty tensor."""
    if is_block_argument(value) or len(list(value.uses)) != 1:
        return None
    operation = value.owner.operation
    if not operation.name.startswith("linalg.") or len(operation.results) != 1:
        return None
    return operation if _start(operation) is not None else None


def _start(operation: ir.Operation) -> ir.Operation | None:
    """Return the `tensor.empty` that the result of `operation` is written into, perhaps after a fill."""
    target = operation.operands[len(operation.operands) - 1]
    if is_block_argument(target):
        return None
    source = target.owner.operation
    if source.name == "tensor.empty":
        return source
    is_own = source.name == "linalg.fill" and len(list(target.uses)) == 1 and source.block == operation.block
    return _start(source) if is_own else None


def _inputs(operation: ir.Operation) -> list[ir.Value]:
    """Return what an operation and its body read: all but the operand that the result is written into."""
    own = len(operation.operands)
    return needed_by(operation)[: own - 1] + needed_by(operation)[own:]


def _is_written(root: ir.Value, operations: list[ir.Operation]) -> bool:
    results = [value for operation in operations for inner in all_operations_in(operation) for value in inner.results]
    return any(value != root and root_of(value) == root and value.owner.name not in VIEWS for value in results)


def _separate(producer: ir.Operation) -> None:
    """Let an operation write an allocation, which upstream leaves alone, in place of an empty tensor."""
    empty = _start(producer)
    with ir.InsertionPoint(producer), producer.location:
        fresh = bufferization.alloc_tensor(empty.results[0].type, list(empty.operands))
    last = len(producer.operands) - 1
    target = producer.operands[last]
    if target.owner.name == "linalg.fill":
        fill = target.owner.operation
        fill.move_before(producer)
        fill.operands[1] = fresh
    else:
        producer.operands[last] = fresh


def _move(producer: ir.Operation, insertion: ir.Operation) -> None:
    target = producer.operands[len(producer.operands) - 1].owner.operation
    producer.move_before(insertion)
    if target.name == "linalg.fill":
        target.move_before(producer)


def separate_shared(module: ir.Module) -> None:
    """Allocate each array that two results are computed from."""
    for function in public_functions(module):
        results = list(dict.fromkeys(terminator(function.regions[0].blocks[0]).operands))
        chains = [_chain(result) for result in results]
        for chain, other in combinations(chains, 2):
            for value in sorted(chain & other, key=lambda content: str(content.get_name())):
                _allocate_empty(value)


def _chain(value: ir.Value) -> set[ir.Value]:
    """Return `value` and its earlier contents in the same memory, without empty ones."""
    contents, pending = set(), [value]
    while pending:
        content = pending.pop()
        empty = ("tensor.empty", "bufferization.alloc_tensor")
        if content in contents or is_block_argument(content) or content.owner.name in empty:
            continue
        contents.add(content)
        pending += [content.owner.operands[0]] if content.owner.name in VIEWS else same_buffer(content)
    return contents


def _allocate_empty(value: ir.Value) -> None:
    """Replace empty operands of the operation that defines `value` by allocations, which upstream leaves alone."""
    operation = value.owner.operation
    for position, operand in enumerate(operation.operands):
        if is_block_argument(operand) or operand.owner.name != "tensor.empty":
            continue
        with ir.InsertionPoint(operation), operation.location:
            operation.operands[position] = bufferization.alloc_tensor(operand.type, list(operand.owner.operands))
