"""Rewrites of tensor operations so that bufferization needs fewer buffers and copies.

Destinations without content (``tensor.empty``) become existing buffers.

    %y = f(%x) into empty; yield %y   ──►   %y = f(%x) into %x; yield %y     (in a loop that carries %x)
"""

from __future__ import annotations

from mlirtri.dialect.bindings.mlir import arith, bufferization, ir, linalg_fill, operations_named, tensor
from mlirtri.lowering.mlir_common.aliasing import (
    SLICE_ATTRIBUTES,
    VIEWS,
    ends_in,
    is_inside,
    is_read_only,
    terminator,
    viewed,
)
from mlirtri.lowering.mlir_common.cloning import replace
from mlirtri.lowering.mlir_common.index_values import index_value, sizes_of
from mlirtri.lowering.mlir_common.linalg_builder import cast_to, insert_slice
from mlirtri.lowering.mlir_common.reading import is_block_argument


def splats_to_fills(module: ir.Module) -> None:
    """Replace splat constants by fills, which are written where needed instead of being copied."""
    for constant in operations_named(module, "arith.constant"):
        kind = constant.results[0].type
        if isinstance(kind, ir.ShapedType) and isinstance(kind.element_type, ir.ComplexType):
            # The bindings cannot look into it; only passes fold scalars to these.
            continue
        value = constant.attributes["value"]
        if not isinstance(value, ir.DenseElementsAttr) or not value.is_splat or not kind.rank:
            continue
        with ir.InsertionPoint(constant), constant.location:
            number = arith.constant(kind.element_type, value.get_splat_value())
            filled = linalg_fill(number, tensor.empty(kind.shape, kind.element_type))
        replace(constant, [filled])


def constant_bodies_to_fills(module: ir.Module) -> None:
    """Replace operations that yield the same number everywhere by fills."""
    for generic in operations_named(module, "linalg.generic"):
        [*steps, last] = generic.regions[0].blocks[0].operations
        if steps or len(generic.results) != 1 or is_block_argument(last.operands[0]):
            continue
        with ir.InsertionPoint(generic), generic.location:
            filled = linalg_fill(last.operands[0], generic.operands[len(generic.operands) - 1])
        replace(generic, [filled])


def one_fill_per_use(module: ir.Module) -> None:
    """Duplicate fills that several operations start from: filling again is cheaper than copying.

    The same holds for iotas (upstream would even lose one of two results).
    """
    for filled in operations_named(module, "linalg.fill"):
        _clone_for(filled, list(filled.results[0].uses)[1:])
    for generic in operations_named(module, "linalg.generic"):
        if len(generic.operands) == len(generic.results) == 1:
            _clone_for_loops(generic)


def one_empty_per_loop(module: ir.Module) -> None:
    """Duplicate empty tensors that several loop-carried values start from: upstream would give these one buffer."""
    for empty in operations_named(module, "tensor.empty"):
        _clone_for_loops(empty)


def _clone_for_loops(operation: ir.Operation) -> None:
    """Clone an operation for each loop and branch that uses its result, except for its only user."""
    uses = list(operation.results[0].uses)
    _clone_for(operation, [use for use in uses if use.owner.name.startswith("scf.")][len(uses) == 1 :])


def _clone_for(operation: ir.Operation, uses: list[ir.OpOperand]) -> None:
    for use in uses:
        with ir.InsertionPoint(use.owner):
            use.owner.operands[use.operand_number] = operation.clone().results[0]


def concat_to_slices(module: ir.Module) -> None:
    """Replace concatenation by slices: upstream fuses them with their producers, which write them in place."""
    for concat in operations_named(module, "tensor.concat"):
        with ir.InsertionPoint(concat), concat.location:
            joined = _concat(list(concat.operands), concat.attributes["dim"].value, concat.results[0].type)
        replace(concat, [joined])


def _concat(parts: list[ir.Value], axis: int, type_: ir.RankedTensorType) -> ir.Value:
    sizes = [sizes_of(part) for part in parts]
    offsets: list[int | ir.Value] = [0]
    for extent in (size[axis] for size in sizes):
        is_static = isinstance(offsets[-1], int) and isinstance(extent, int)
        offsets.append(offsets[-1] + extent if is_static else arith.addi(index_value(offsets[-1]), index_value(extent)))
    joined = tensor.empty([*sizes[0][:axis], offsets[-1], *sizes[0][axis + 1 :]], type_.element_type)
    for part, size, offset in zip(parts, sizes, offsets[:-1], strict=True):
        joined = insert_slice(part, joined, [offset if number == axis else 0 for number in range(type_.rank)], size)
    return cast_to(joined, type_)


def elementwise_in_place(module: ir.Module) -> None:
    """Let elementwise operations overwrite an operand that has no later reader, instead of a new buffer."""
    for generic in operations_named(module, "linalg.generic"):
        if len(generic.results) != 1 or "reduction" in str(generic.attributes["iterator_types"]):
            continue
        *inputs, target = generic.operands
        *maps, target_map = generic.attributes["indexing_maps"]
        if not _is_result_of(target, "tensor.empty"):
            continue
        if (array := _array_written(generic)) and _shifted_readers(generic, array) > 1:
            # Each slice would be copied, the result only once; upstream makes no view of an allocation.
            with ir.InsertionPoint(generic), generic.location:
                fresh = bufferization.alloc_tensor(target.type, list(target.owner.operation.operands))
            generic.operands[len(inputs)] = fresh
            continue
        if (carried := _free_buffer(generic)) is not None:
            generic.operands[len(inputs)] = carried
            continue
        for value, access in zip(inputs, maps, strict=True):
            fits = access == target_map and value.type == target.type and inputs.count(value) == 1
            if fits and _may_overwrite(generic, value):
                generic.operands[len(inputs)] = value
                _bring_closer(value, generic)
                break


def _free_buffer(generic: ir.Operation) -> ir.Value | None:
    """Return the loop-carried value at the position of `generic`'s result, if nobody reads it any more."""
    loop, block = generic.parent.operation, generic.block
    if loop.name != "scf.for":
        return None
    end = terminator(block)
    # A branch inside may yield the result, too, as a value of its own.
    positions = [use.operand_number for use in generic.results[0].uses if use.owner.operation == end]
    if len(positions) != 1:
        return None
    carried = block.arguments[1 + positions[0]]
    return carried if carried.type == generic.results[0].type and _is_read_before(carried, generic) else None


def _is_read_before(value: ir.Value, operation: ir.Operation) -> bool:
    """Return whether all readers of `value`, also through views, come before `operation` in its block."""
    for use in value.uses:
        reader = use.owner.operation
        while reader.block != operation.block:
            reader = reader.parent.operation
        if reader == operation or not reader.is_before_in_block(operation):
            return False
        if use.owner.name in VIEWS and not _is_read_before(use.owner.results[0], operation):
            return False
    return True


def _array_written(generic: ir.Operation) -> ir.Value | None:
    uses = list(generic.results[0].uses)
    if len(uses) != 1 or uses[0].owner.operation.name != "tensor.insert_slice":
        return None
    return viewed(uses[0].owner.operation.operands[1])


def _shifted_readers(generic: ir.Operation, array: ir.Value) -> int:
    """Count the slices of `array` of the result's size that `generic` reads at other positions than it writes."""
    *inputs, _ = generic.operands
    *maps, target_map = (access.value for access in generic.attributes["indexing_maps"])
    return sum(
        viewed(value) == array and len(access.results) == target_map.n_dims and not _goes_back(generic, value)
        for value, access in zip(inputs, maps, strict=True)
    )


def _bring_closer(value: ir.Value, generic: ir.Operation) -> None:
    """Move the slice next to `generic`: upstream decides from the end, and must not copy the overwritten slice."""
    only_reader = all(use.owner.operation == generic for use in value.uses)
    if _is_result_of(value, "tensor.extract_slice") and only_reader and value.owner.operation.block == generic.block:
        value.owner.operation.move_before(generic)


def _may_overwrite(generic: ir.Operation, value: ir.Value) -> bool:
    """Return whether `generic` may write its result into the buffer of `value`, and whether that saves one."""
    if _is_kept_by_the_other_arm(generic, value):
        return True
    return _has_a_buffer_to_reuse(generic, value) and _reads_last(generic, value)


def _has_a_buffer_to_reuse(generic: ir.Operation, value: ir.Value) -> bool:
    if _is_result_of(value, "linalg."):
        return True
    if _is_result_of(value, "tensor.extract_slice"):
        return _goes_back(generic, value)
    return _is_loop_carried(generic, value)


def _goes_back(generic: ir.Operation, value: ir.Value) -> bool:
    """Return whether `generic` computes the new content of exactly the slice that it reads: ``a[i] = f(a[i])``."""
    uses = list(generic.results[0].uses)
    if len(uses) != 1 or (insertion := uses[0].owner.operation).name != "tensor.insert_slice":
        return False
    if not _is_result_of(value, "tensor.extract_slice"):
        return False
    slice_of = value.owner.operation
    same = all(slice_of.attributes[name] == insertion.attributes[name] for name in SLICE_ATTRIBUTES)
    return same and list(slice_of.operands) == list(insertion.operands)[1:]


def _is_kept_by_the_other_arm(generic: ir.Operation, value: ir.Value) -> bool:
    """Return whether `generic` computes an `if`'s result from `value`, which the other arm yields unchanged."""
    branch = generic.parent.operation
    if branch.name != "scf.if" or is_inside(value, branch) or is_read_only(value) or not ends_in(value, branch):
        return False
    if any(use.owner.operation.block == generic.block and generic.is_before_in_block(use.owner) for use in value.uses):
        return False
    ends = [terminator(region.blocks[0]) for region in branch.regions]
    positions = {position for end in ends for position, operand in enumerate(end.operands) if operand == value}
    return any(use.owner.name == "scf.yield" and use.operand_number in positions for use in generic.results[0].uses)


def _is_loop_carried(generic: ir.Operation, value: ir.Value) -> bool:
    """Return whether a loop around `generic` carries `value`, and the result is its next value."""
    if not is_block_argument(value) or value.owner.owner.name != "scf.for":
        return False
    return any(
        use.owner.operation.name == "scf.yield" and use.operand_number == value.arg_number - 1
        for use in generic.results[0].uses
    )


def _is_result_of(value: ir.Value, prefix: str) -> bool:
    return not is_block_argument(value) and value.owner.operation.name.startswith(prefix)


def _reads_last(operation: ir.Operation, value: ir.Value) -> bool:
    """Return whether every other reader of `value` comes before, and keeps no view of it."""
    readers = [use.owner.operation for use in value.uses if use.owner.operation != operation]
    return all(
        reader.block == operation.block
        and reader.is_before_in_block(operation)
        and (reader.name.startswith("linalg.") or reader.name == "tensor.extract")
        for reader in readers
    )
