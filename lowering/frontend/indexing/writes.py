"""Writing by index: elements, slices, masks and index arrays of an array in memory.

Run-time sizes that must be equal are compared at run time, and a difference raises after the call. Refuses tensors
without memory, and values of higher rank than the target.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mlirtri.dialect.base.sizes import Size, is_dynamic
from mlirtri.dialect.builder import KernelValue, TriValue
from mlirtri.errors import KernelTypeError, KernelValueError
from mlirtri.lowering.frontend.indexing.reads import (
    MaskedAxes,
    arranged,
    expanded,
    is_array,
    mask_of,
    masked_axes,
    strong,
    subscript,
    with_positions,
    without_new_axes,
)
from mlirtri.lowering.frontend.semantics.arrays import true_elements
from mlirtri.lowering.frontend.semantics.builder import Language, describe
from mlirtri.lowering.frontend.semantics.dynamic_sizes import checked_at_call, common_size, cut, seen_as
from mlirtri.lowering.frontend.semantics.storage import first_elements, has_memory


def write(b: Language, tensor: TriValue, index: tuple[KernelValue, ...], value: KernelValue) -> None:
    """Write ``tensor[index] = value`` into the tensor's memory; raises `KernelTypeError`."""
    if not has_memory(tensor):
        help = "only arrays have elements to assign"
        if tensor.type.rank:
            help = (
                "it is a copy that nothing else sees: give it a name, or write all its indices in one pair of brackets"
            )
        raise KernelTypeError(f"{describe(tensor)} cannot be assigned to", help=help)
    parts = expanded(b, tensor, index)
    if (mask := mask_of(parts)) is not None:
        b.memory.write(b.tri, tensor.origin, _masked(b, strong(tensor), mask, value))
    elif (masked := masked_axes(parts)) is not None:
        _write_masked(b, tensor, masked, value)
    elif any(is_array(part) for part in parts):
        _scatter(b, tensor, parts, value)
    else:
        target = subscript(b, tensor, tuple(index))
        target, update = _same_sizes(b, target, _update(b, value, tensor))
        b.memory.write(b.tri, target.origin, _assigned(b, update, target, target.type.shape))


def _update(b: Language, value: Any, target: TriValue) -> TriValue:
    if isinstance(value, (tuple, list)):
        return b.tensor(b.stack([_update(b, part, target) for part in value]))
    return b.tensor(value, None if isinstance(value, TriValue) and not value.weak else target.type.dtype)


def _scatter(b: Language, tensor: TriValue, parts: list[Any], value: Any) -> None:
    tri = b.tri
    tensor, parts = without_new_axes(b, tensor, with_positions(b, parts))
    target = subscript(b, tensor, tuple(part if isinstance(part, slice) else slice(None) for part in parts))
    basic = [part if not isinstance(part, slice) else slice(None) for part in parts]
    base, arrays, order = arranged(b, target, basic)
    shape = b.transpose(tri.gather(base, *arrays), tuple(order)).type.shape
    update = _update(b, value, tensor)
    if update.type.rank == len(shape) == arrays[0].type.rank == 1 and update.type.shape[0] not in (1, shape[0]):
        common = common_size(b, [shape[0], update.type.shape[0]])
        arrays, update = [cut(b, array, 0, common) for array in arrays], cut(b, update, 0, common)
        shape = (common,)
    update = _assigned(b, update, target, shape)
    back = tuple(order.index(axis) for axis in range(len(order)))
    written = tri.scatter(base, b.transpose(update, back), *arrays)
    picked = [axis for axis, part in enumerate(parts) if not isinstance(part, slice)]
    permutation = (*picked, *(axis for axis in range(len(parts)) if axis not in picked))
    in_order = tuple(map(permutation.index, range(len(parts))))
    b.memory.write(tri, target.origin, b.transpose(written, in_order))


def _write_masked(b: Language, tensor: TriValue, masked: MaskedAxes, value: Any) -> None:
    target = subscript(b, tensor, masked.basic)
    order = masked.order(target)
    update = b.tensor(value, tensor.type.dtype)
    rank = target.type.rank - masked.mask.type.rank + 1
    axis = 0 if masked.in_front else masked.first
    if not masked.in_front and update.type.rank >= rank - axis:
        # The axis of the selected elements moves to the front of the update, as the mask's axes do.
        padded = b.reshape(update, (*[1] * (rank - update.type.rank), *update.type.shape))
        leading_sizes = [target.type.shape[outer] for outer in range(axis)]
        padded = b.broadcast_to(padded, (*leading_sizes, *padded.type.shape[axis:]))
        update = b.transpose(padded, (axis, *(other for other in range(rank) if other != axis)))
        if update.type.shape[0] == 1:
            update = b.reshape(update, update.type.shape[1:])
    written = _masked(b, strong(b.transpose(target, order)), masked.mask, update)
    in_order = tuple(map(order.index, range(len(order))))
    b.memory.write(b.tri, target.origin, b.transpose(written, in_order))


def _same_sizes(b: Language, target: TriValue, update: TriValue) -> tuple[TriValue, TriValue]:
    """Return both, sliced to their common size where only a run-time check shows whether the update fits."""
    for axis in range(-min(target.type.rank, update.type.rank), 0):
        sizes = [target.type.shape[axis], update.type.shape[axis]]
        if sizes[0] == sizes[1] or sizes[1] == 1 or not any(map(is_dynamic, sizes)):
            continue
        if checked_at_call(b, sizes):
            update = seen_as(update, update.type.rank + axis, sizes[0])
            continue
        common = common_size(b, sizes)
        target = _leading(b, target, target.type.rank + axis, common)
        update = cut(b, update, update.type.rank + axis, common)
    return target, update


def _leading(b: Language, target: TriValue, axis: int, size: int | Size) -> TriValue:
    step = first_elements(b.tri, [size if number == axis else full for number, full in enumerate(target.type.shape)])
    part = step.read(b.tri, TriValue(target.value, target.type))
    return replace(part, origin=target.origin.then(step))


def _masked(b: Language, tensor: TriValue, mask: TriValue, value: Any) -> TriValue:
    inner_shape = tensor.type.shape[mask.type.rank :]
    update = b.tensor(value, tensor.type.dtype)
    spread = b.reshape(mask, (*mask.type.shape, *([1] * len(inner_shape)))) if inner_shape else mask
    if update.type.rank == len(inner_shape) + 1 and update.type.shape[0] == 1:
        update = b.reshape(update, update.type.shape[1:])
    if update.type.rank <= len(inner_shape):
        return b.tri.where(b.broadcast_to(spread, tensor.type.shape), update, tensor)
    count, given = true_elements(b, mask), update.type.shape[0]
    if count != given:
        differ = b.tri.not_equal(b.tri.index(count), b.tri.index(given))
        b.check(differ, KernelValueError, "a mask is assigned another number of values than it has true elements")
    return b.tri.place(tensor, mask, update)


def _assigned(b: Language, value: TriValue, target: TriValue, shape: tuple[int | Size, ...]) -> TriValue:
    update = b.tensor(value, target.type.dtype)
    while update.type.rank > len(shape) and update.type.shape[0] == 1:
        update = b.reshape(update, update.type.shape[1:])
    if update.type.rank > len(shape):
        raise KernelTypeError(f"cannot assign {describe(value)} to {target.type.with_shape(shape)}")
    return b.broadcast_to(update, shape)
