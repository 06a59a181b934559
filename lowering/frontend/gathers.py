"""Subscripts with arrays, read: arrays of positions, and masks.

Takes an array and the parts of an index, one for each axis. Gives a new array. Positions that count from the end are
what Python makes of them; with ``debug``, one that is outside raises `IndexError` after the call. Refuses arrays beside
masks, and None beside arrays of positions.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from mlirtri.dialect.base.dtypes import DTYPES
from mlirtri.dialect.base.sizes import Size, is_dynamic
from mlirtri.dialect.builder import Tensor
from mlirtri.errors import KernelIndexError, KernelTypeError
from mlirtri.lowering.frontend.language.builder import describe
from mlirtri.lowering.frontend.language.size_alignment import aligned, common_size, cut

INT64 = DTYPES["int64"]


class Gathers:
    """The methods of subscripts that are arrays; `index` is that of basic ones."""

    def gathered(self, tensor: Tensor, parts: list[Any]) -> Tensor:
        """``tensor[…]`` with arrays among the parts: a new array."""
        if (mask := mask_of(parts)) is not None:
            return self._compressed(tensor, mask)
        if (masked := masked_axes(parts)) is not None:
            base = self.index(tensor, masked.basic)
            found = self._compressed(self.b.transpose(base, masked.order(base)), masked.mask)
            return self.b.transpose(found, masked.back(found.type.rank))
        base, arrays, back = self.arranged(tensor, parts)
        return self.b.transpose(self.b.tri.gather(base, *arrays), tuple(back))

    def _compressed(self, tensor: Tensor, mask: Tensor) -> Tensor:
        """``tensor[mask]``: its length is how often the mask is true, the same for all arrays under one mask."""
        tri = self.b.tri
        for axis in range(mask.type.rank):
            sizes = [tensor.type.shape[axis], mask.type.shape[axis]]
            if sizes[0] != sizes[1] and any(map(is_dynamic, sizes)):
                common = common_size(self.b, sizes)
                tensor, mask = cut(self.b, tensor, axis, common), cut(self.b, mask, axis, common)
        counted = tri.sum(tri.cast(mask, INT64), axes=tuple(range(mask.type.rank)), keepdims=False)
        most = prod(Size.of(size).most() or 0 for size in mask.type.shape)
        count = Size.of(self.b.indices.symbol(counted, "n", Size.of(0), Size.of(most)))
        found = tri.compress(strong(tensor), mask)
        return Tensor(found.value, found.type.with_shape((count, *found.type.shape[1:])))

    def arranged(self, tensor: Tensor, parts: list[Any]) -> tuple[Tensor, list[Tensor], list[int]]:
        """The array with the axes that arrays pick from in front, the positions, and where the axes belong after."""
        if any(part is None for part in parts):
            raise KernelTypeError("None beside arrays of positions is not supported", help="index with None afterwards")
        if any(is_array(part) and part.type.dtype.is_bool for part in parts):
            raise KernelTypeError("a mask beside arrays is not supported", help="index with the mask first")
        picked = [axis for axis, part in enumerate(parts) if not isinstance(part, slice)]
        basic = [part if isinstance(part, slice) else slice(None) for part in parts]
        base = self.index(tensor, tuple(basic))
        rest = [axis for axis in range(len(parts)) if axis not in picked]
        arrays = self._positions([parts[axis] for axis in picked], [base.type.shape[axis] for axis in picked])
        rank = arrays[0].type.rank
        together = picked == list(range(picked[0], picked[0] + len(picked)))
        first = picked[0] if together else 0
        # In the result the picked axes stand where they were if they were neighbours, else in front.
        order = [*range(rank, rank + first), *range(rank), *range(rank + first, rank + len(rest))]
        return self.b.transpose(base, (*picked, *rest)), arrays, order

    def _positions(self, parts: list[Any], sizes: list[Any]) -> list[Tensor]:
        arrays = [self.b.cast(part, INT64) for part in parts]
        for each, part in zip(arrays, parts, strict=True):
            if isinstance(part, Tensor) and not part.type.dtype.is_integer:
                raise KernelTypeError(f"cannot index with {describe(part)}", help="positions are integers")
        arrays = aligned(self.b, arrays)
        shape = self.b.broadcast_shape(*(each.type.shape for each in arrays))
        if self.b.debug:
            for each, size in zip(arrays, sizes, strict=True):
                limit = self.b.tri.index(size)
                below = self.b.tri.less(each, self.b.tri.negative(limit))
                wrong = self.b.tri.logical_or(below, self.b.tri.greater_equal(each, limit))
                self.b.check(wrong, KernelIndexError, f"a position is out of bounds for an axis of size {size}")
        return [self.b.broadcast_to(each, shape) for each in arrays]


def is_array(part: Any) -> bool:
    return isinstance(part, Tensor) and (part.type.rank > 0 or part.type.dtype.is_bool)


def mask_of(parts: list[Any]) -> Tensor | None:
    """The mask of an index that is a mask over the leading axes alone."""
    first, *rest = parts or [None]
    is_mask = is_array(first) and first.type.dtype.is_bool
    return first if is_mask and all(part == slice(None) for part in rest) else None


@dataclass(frozen=True)
class MaskedAxes:
    """A mask beside integers, slices and None: what they leave of an array, and where in that the mask lies."""

    mask: Tensor
    basic: tuple[Any, ...]
    """The index without the mask, whose axes are whole in it."""
    first: int
    """The first axis of the mask among those that are left."""
    in_front: bool
    """Whether the axis of what the mask picks comes first in the result, as it does where a slice lies between."""

    def order(self, base: Tensor) -> tuple[int, ...]:
        """The axes of what is left, those of the mask in front."""
        covered = range(self.first, self.first + self.mask.type.rank)
        return (*covered, *(axis for axis in range(base.type.rank) if axis not in covered))

    def back(self, rank: int) -> tuple[int, ...]:
        """What puts the axis of the picked elements, which is in front, where NumPy has it."""
        if self.in_front:
            return tuple(range(rank))
        return (*range(1, self.first + 1), 0, *range(self.first + 1, rank))


def masked_axes(parts: list[Any]) -> MaskedAxes | None:
    """An index of one mask and anything but arrays; None for another."""
    arrays = [at for at, part in enumerate(parts) if is_array(part)]
    if len(arrays) != 1 or not parts[arrays[0]].type.dtype.is_bool or not parts[arrays[0]].type.rank:
        return None
    [at] = arrays
    mask, kept = parts[at], [part is None or isinstance(part, slice) for part in parts]
    basic = (*parts[:at], *[slice(None)] * mask.type.rank, *parts[at + 1 :])
    picked = [each for each, is_kept in enumerate(kept) if not is_kept]
    return MaskedAxes(mask, basic, sum(kept[:at]), picked != list(range(picked[0], picked[-1] + 1)))


def strong(tensor: Tensor) -> Tensor:
    """The tensor without what is known of it beyond its type."""
    return Tensor(tensor.value, tensor.type)
