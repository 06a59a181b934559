"""Reading by index: basic indices, integer arrays, and masks.

A basic index gives a view of the array's memory, one with arrays among its parts a new array.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from mlirtri.dialect.base.dtypes import DTYPES
from mlirtri.dialect.base.sizes import Size, is_dynamic
from mlirtri.dialect.base.tensor_type import broadcast_shapes
from mlirtri.dialect.builder import KernelValue, TriValue
from mlirtri.dialect.spellings import registry as spellings
from mlirtri.errors import KernelTypeError, KernelValueError
from mlirtri.lowering.frontend.indexing.slices import read, steps_of, subset_of
from mlirtri.lowering.frontend.semantics.arrays import masked
from mlirtri.lowering.frontend.semantics.builder import Language, describe
from mlirtri.lowering.frontend.semantics.dynamic_sizes import aligned
from mlirtri.lowering.frontend.semantics.index_checks import check_indices
from mlirtri.lowering.frontend.semantics.shapes import spaced
from mlirtri.lowering.frontend.semantics.storage import as_new_array, has_memory, viewed, with_memory, with_order

INT64 = DTYPES["int64"]


class _Inside(TriValue):
    """An array of indices of elements that exist."""


def subscript(b: Language, tensor: TriValue, index: tuple[KernelValue, ...]) -> TriValue:
    """Return ``tensor[index]``, which shares the tensor's memory if all parts are basic."""
    parts = expanded(b, tensor, index)
    if any(is_array(part) for part in parts):
        return _gathered(b, tensor, parts)
    subset = subset_of(b, tensor, parts)
    result = read(b, tensor, subset)
    if not has_memory(tensor := with_memory(tensor)):
        return result
    view = tensor.origin
    for step in steps_of(b, tensor, subset):
        view = view.then(step)
    return replace(result, origin=replace(view, version=tensor.origin.version))


def element(b: Language, tensor: TriValue, index: tuple[KernelValue, ...]) -> TriValue:
    """Return ``tensor[index]`` as an expression: one element of a NumPy array, without ``...``, is a scalar.

    So is one of a torch tensor in a tile kernel, as in TileLang: ``old = m[i]`` stays what it is.
    """
    result = subscript(b, tensor, index)
    if (b.semantics == "numpy" or b.in_tile_kernel) and not result.type.rank and not any(part is ... for part in index):
        return as_new_array(result)
    return with_memory(result, 0) if not result.type.rank else result


def rows(b: Language, tensor: TriValue) -> list[TriValue]:
    """Return the slices of a tensor along its first axis, of static size, for unpacking."""
    size = tensor.type.shape[0]
    if is_dynamic(size):
        raise KernelTypeError(
            f"{describe(tensor)} has {size} elements along its first axis, which is known at run time only",
            help="loop over it, or annotate that size with int",
        )
    return [element(b, tensor, (index,)) for index in range(size)]


def expanded(b: Language, tensor: TriValue, index: tuple[KernelValue, ...]) -> list[KernelValue]:
    """Return an index with one part for each axis, and None for each new one."""
    index = tuple(_as_array(b, part) for part in index)
    if sum(1 for part in index if part is ...) > 1:
        raise KernelValueError("an index can have one `...` only")
    consumed = sum(_axes_taken(part) for part in index)
    if consumed > tensor.type.rank:
        raise KernelValueError(f"{consumed} indices for {tensor.type}, which has rank {tensor.type.rank}")
    unindexed = [slice(None)] * (tensor.type.rank - consumed)
    if not any(part is ... for part in index):
        index = (*index, ...)
    parts: list[Any] = [expansion for part in index for expansion in (unindexed if part is ... else [part])]
    if any(_is_mask(part) for part in parts):
        return parts
    sizes = iter(tensor.type.shape)
    return [part if part is None else _indices_of_step(b, part, next(sizes)) for part in parts]


def _as_array(b: Language, part: Any) -> Any:
    if isinstance(part, list) or (isinstance(part, tuple) and part and not isinstance(part[0], slice)):
        if not part:
            raise KernelTypeError("an empty list is not an index", help="use a slice that is empty")
        return b.stack([b.tensor(_as_array(b, value)) for value in part])
    return part


def _axes_taken(part: Any) -> int:
    if part is None or part is ...:
        return 0
    return part.type.rank if _is_mask(part) else 1


def _indices_of_step(b: Language, part: Any, size: int | Size) -> Any:
    """Return a slice with a run-time step, which must be positive, as an array of indices."""
    if not isinstance(part, slice) or not isinstance(part.step, TriValue):
        return part
    indices, tri = b.indices, b.tri
    step = indices.size_of(part.step)
    if step.is_constant:
        return slice(part.start, part.stop, step.constant)
    start, extent = indices.slice_bounds(slice(part.start, part.stop), Size.of(size), 1)
    b.check(tri.less(tri.index(step), tri.index(1)), KernelValueError, "a step of run time is not positive")
    positive = tri.index(indices.maximum(step, Size.of(1)))
    count = tri.floor_divide(tri.subtract(tri.add(tri.index(extent), positive), tri.index(1)), positive)
    length = Size.of(indices.symbol(count, "n", Size.of(0), Size.of(size)))
    positions = spaced(b, start, length, positive, INT64)
    return _Inside(positions.value, positions.type)


def is_array(part: object) -> bool:
    """Return whether a part of an index is an integer array or a mask."""
    return isinstance(part, TriValue) and (part.type.rank > 0 or part.type.dtype.is_bool)


def _is_mask(part: Any) -> bool:
    return isinstance(part, TriValue) and part.type.dtype.is_bool


def _gathered(b: Language, tensor: TriValue, parts: list[Any]) -> TriValue:
    if (mask := mask_of(parts)) is not None:
        return masked(b, tensor, mask)
    if (axes := masked_axes(parts)) is not None:
        base = subscript(b, tensor, axes.basic)
        selected = masked(b, b.transpose(base, axes.order(base)), axes.mask)
        return _moved(b, tensor, selected, axes.back(selected.type.rank))
    base, arrays, back = arranged(b, *without_new_axes(b, tensor, with_positions(b, parts)))
    return _moved(b, tensor, b.tri.gather(base, *arrays), tuple(back))


def _moved(b: Language, tensor: TriValue, gathered: TriValue, axes: tuple[int, ...]) -> TriValue:
    """Return gathered elements with their axes in the library's order; NumPy's are a view of a new array."""
    result = b.transpose(gathered, axes)
    if b.semantics == "numpy":
        return viewed("transpose", with_order(b.semantics, "gather", [tensor], gathered), result)
    return with_order(b.semantics, "gather", [tensor], result)


def without_new_axes(b: Language, tensor: TriValue, parts: list[Any]) -> tuple[TriValue, list[Any]]:
    """Return the view with the new axes of an index, and the index with whole slices instead of None."""
    if not any(part is None for part in parts):
        return tensor, parts
    view = subscript(b, tensor, tuple(part if part is None else slice(None) for part in parts))
    return view, [slice(None) if part is None else part for part in parts]


def with_positions(b: Language, parts: list[Any]) -> list[Any]:
    """Return an index with the positions of true elements, whose number is known at run time, instead of masks."""
    positions: list[Any] = []
    for part in parts:
        positions += spellings.SPELLINGS["numpy.nonzero"].call(b, part) if _is_mask(part) and part.type.rank else [part]
    return positions


def arranged(b: Language, tensor: TriValue, parts: list[KernelValue]) -> tuple[TriValue, list[TriValue], list[int]]:
    """Return the operands of `tri.gather`: the array with the indexed axes first, the indices, and a permutation.

    The permutation moves the axes of the gathered elements to NumPy's positions.
    """
    picked = [axis for axis, part in enumerate(parts) if not isinstance(part, slice)]
    basic = [part if isinstance(part, slice) else slice(None) for part in parts]
    base = subscript(b, tensor, tuple(basic))
    other_axes = [axis for axis in range(len(parts)) if axis not in picked]
    arrays = _indices(b, [parts[axis] for axis in picked], [base.type.shape[axis] for axis in picked])
    rank = arrays[0].type.rank
    are_adjacent = picked == list(range(picked[0], picked[0] + len(picked)))
    first = picked[0] if are_adjacent else 0
    # In the result the indexed axes keep their position if they were adjacent, else come first.
    order = [*range(rank, rank + first), *range(rank), *range(rank + first, rank + len(other_axes))]
    return b.transpose(base, (*picked, *other_axes)), arrays, order


def _indices(b: Language, parts: list[Any], sizes: list[int | Size]) -> list[TriValue]:
    """Return the indices as int64 arrays of one shape, and check them against the sizes of their axes."""
    arrays = [b.cast(part, INT64) for part in parts]
    for part in parts:
        if isinstance(part, TriValue) and not part.type.dtype.is_integer:
            raise KernelTypeError(f"cannot index with {describe(part)}", help="positions are integers")
    arrays = aligned(b, arrays)
    shape = broadcast_shapes(*(array.type.shape for array in arrays))
    for part, array, size in zip(parts, arrays, sizes, strict=True):
        if not isinstance(part, _Inside):
            check_indices(b, array, size)
    return [b.broadcast_to(array, shape) for array in arrays]


def mask_of(parts: list[KernelValue]) -> TriValue | None:
    """Return the mask of an index that is a mask over the leading axes alone, else None."""
    first, *others = parts or [None]
    return first if _is_mask(first) and all(part == slice(None) for part in others) else None


@dataclass(frozen=True)
class MaskedAxes:
    """A mask beside integers, slices and None: the basic index, and the position of the mask in its result."""

    mask: TriValue
    basic: tuple[Any, ...]
    """The index with whole slices instead of the mask."""
    first: int
    """The first axis of the mask in the result of `basic`."""
    in_front: bool
    """Whether the axis of the selected elements comes first in the result, because a slice separates the parts."""

    def order(self, base: TriValue) -> tuple[int, ...]:
        """Return the permutation that moves the axes of the mask to the front of `base`."""
        covered = range(self.first, self.first + self.mask.type.rank)
        return (*covered, *(axis for axis in range(base.type.rank) if axis not in covered))

    def back(self, rank: int) -> tuple[int, ...]:
        """Return the permutation that moves the axis of the selected elements from the front to NumPy's position."""
        if self.in_front:
            return tuple(range(rank))
        return (*range(1, self.first + 1), 0, *range(self.first + 1, rank))


def masked_axes(parts: list[KernelValue]) -> MaskedAxes | None:
    """Return the index as `MaskedAxes` if it has one mask and no other array, else None."""
    arrays = [position for position, part in enumerate(parts) if is_array(part)]
    if len(arrays) != 1 or not _is_mask(parts[arrays[0]]) or not parts[arrays[0]].type.rank:
        return None
    [position] = arrays
    mask, are_basic = parts[position], [part is None or isinstance(part, slice) for part in parts]
    basic = (*parts[:position], *[slice(None)] * mask.type.rank, *parts[position + 1 :])
    picked = [number for number, is_basic in enumerate(are_basic) if not is_basic]
    return MaskedAxes(mask, basic, sum(are_basic[:position]), picked != list(range(picked[0], picked[-1] + 1)))


def strong(tensor: TriValue) -> TriValue:
    """Return the tensor as a strong one, without linear form or memory."""
    return TriValue(tensor.value, tensor.type)
