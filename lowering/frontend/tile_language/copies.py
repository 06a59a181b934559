"""Regions of arrays, and what copies them: elements out of bounds read zero and are not written.

A region is a whole array, slices of it, or a corner ``A[i, j]``, which takes the extent of the other operand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from mlirtri.dialect.base.sizes import Size
from mlirtri.dialect.builder import KernelValue, TriValue
from mlirtri.errors import KernelError, KernelTypeError
from mlirtri.lowering.frontend.semantics.axes import is_index
from mlirtri.lowering.frontend.semantics.builder import Language, describe
from mlirtri.lowering.frontend.semantics.index_checks import checked_index
from mlirtri.lowering.frontend.semantics.storage import ViewStep, has_memory
from mlirtri.lowering.frontend.tile_language.allocation import allocation_notes

Range = tuple[Size, Size]
"""The first iteration along an axis, and the end."""
ZERO = Size.of(0)


@dataclass(frozen=True)
class Region:
    """An operand of a copy: an array, and where in it the copy starts."""

    array: TriValue
    offsets: tuple[Size, ...]
    """By axis of the array."""
    extents: tuple[Size | None, ...]
    """By axis of the array; None where the index is a corner, which takes the extent of the other operand."""
    dropped: tuple[int, ...] = ()
    """Axes of the array that the other operand does not have."""

    @property
    def axes(self) -> list[int]:
        """Return the axes that are copied along."""
        return [axis for axis in range(len(self.offsets)) if axis not in self.dropped]

    @property
    def is_element(self) -> bool:
        """Return whether all indices are integers."""
        return all(extent is None for extent in self.extents)


def whole(array: TriValue) -> Region:
    """Return all of an array as a region."""
    sizes = tuple(map(Size.of, array.type.shape))
    return Region(array, (ZERO,) * len(sizes), sizes)


def region_of(b: Language, array: TriValue, parts: Sequence[KernelValue]) -> Region:
    """Return the region that integers and slices without a step name; raises `KernelTypeError`."""
    sizes = list(map(Size.of, array.type.shape))
    if len(parts) != len(sizes):
        raise KernelTypeError(
            f"{len(parts)} indices for the {len(sizes)} axes of {describe(array)}", help="write one for each axis"
        )
    axes = [_axis(b, part, size) for part, size in zip(parts, sizes, strict=True)]
    return Region(array, tuple(offset for offset, _ in axes), tuple(extent for _, extent in axes))


def _axis(b: Language, part: Any, size: Size) -> tuple[Size, Size | None]:
    bounds = [part.start, part.stop] if isinstance(part, slice) else [part]
    step = part.step if isinstance(part, slice) else None
    if step not in (None, 1) or not all(bound is None or is_index(bound) for bound in bounds):
        raise KernelTypeError(
            "an index of a tile function is an integer or a slice without a step", help="write A[i, j], or A[i:j, :]"
        )
    start = ZERO if bounds[0] is None else b.indices.size_of(bounds[0])
    if not isinstance(part, slice):
        return start, None
    return start, (size if bounds[1] is None else b.indices.size_of(bounds[1])) - start


def copy(b: Language, src: Region, dst: Region) -> None:
    """Copy what is inside of both arrays; what the source does not have is zero in the destination."""
    pair = _Pair(b, src, dst, "T.copy")
    if not pair.reads_all:
        target = pair.part(dst=True, ranges=pair.clipped(pair.dst))
        zero = b.tensor(0, target.type.dtype)
        b.memory.write(b.tri, target.origin, b.broadcast_to(zero, target.type.shape))
    ranges = pair.clipped(pair.src, pair.dst)
    target = pair.part(dst=True, ranges=ranges)
    b.memory.write(b.tri, target.origin, b.tensor(pair.part(dst=False, ranges=ranges), target.type.dtype))


def combine(b: Language, name: str, dst: Region, src: Region) -> None:
    """Combine a region with a tile in place, by the function `name` of elements: `T.atomic_add` of tiles."""
    pair = _Pair(b, src, dst, "this atomic function")
    ranges = pair.clipped(pair.src, pair.dst)
    target = pair.part(dst=True, ranges=ranges)
    value = getattr(b, name)(target, b.tensor(pair.part(dst=False, ranges=ranges), target.type.dtype))
    b.memory.write(b.tri, target.origin, value)


class _Pair:
    """Two regions of one shape: source and destination."""

    def __init__(self, b: Language, src: Region, dst: Region, function: str):
        self.b, self.function = b, function
        if not has_memory(dst.array):
            raise KernelTypeError(f"{describe(dst.array)} cannot be written", help="write into an array or a tile")
        self.src, self.dst = _aligned(src, dst), _aligned(dst, src)
        self.extents = self._extents()

    @property
    def reads_all(self) -> bool:
        """Return whether the source is known to have all elements."""
        ranges = self.clipped(self.src)
        return all(low == ZERO and high == extent for (low, high), extent in zip(ranges, self.extents, strict=True))

    def _extents(self) -> list[Size]:
        src, dst = self.src, self.dst
        if src.is_element and dst.is_element:
            raise KernelTypeError(
                f"both operands of {self.function} are corners", help="give one of them as a whole tile or slices"
            )
        if len(src.axes) != len(dst.axes):
            raise self._mismatch(f"{describe(src.array)} to {describe(dst.array)}: the ranks differ")
        extents = []
        for number, (axis, other) in enumerate(zip(src.axes, dst.axes, strict=True)):
            first, second = src.extents[axis], dst.extents[other]
            if first is None and second is None:
                # Beside a slice an integer is an index: it is a corner where all are integers.
                first = Size.of(1)
            if first is not None and second is not None and first != second:
                raise self._mismatch(f"{first.simplified()} elements to {second.simplified()} along axis {number}")
            extents.append(second if first is None else first)
        return extents

    def _mismatch(self, operands: str) -> KernelError:
        notes = allocation_notes(self.b, self.src.array, self.dst.array)
        return KernelTypeError(
            f"{self.function} from {operands}", help="give both the same extent, or one as a corner: A[i, j]",
            notes=notes,
        )  # fmt: skip

    def clipped(self, *regions: Region) -> list[Range]:
        """Return the ranges of the copy's iterations, by axis, that are inside of the regions' arrays."""
        return [self._clipped(number, extent, regions) for number, extent in enumerate(self.extents)]

    def _clipped(self, number: int, extent: Size, regions: Sequence[Region]) -> Range:
        indices, low, high = self.b.indices, ZERO, extent
        for region in regions:
            axis = region.axes[number]
            low = indices.maximum(low, -region.offsets[axis])
            high = indices.minimum(high, Size.of(region.array.type.shape[axis]) - region.offsets[axis])
        return low, indices.maximum(high, low)

    def part(self, dst: bool, ranges: list[Range]) -> TriValue:
        """Return the part of one array in these ranges of iterations, as a view."""
        return part_of(self.b, self.dst if dst else self.src, ranges)


def part_of(b: Language, region: Region, ranges: Sequence[Range]) -> TriValue:
    """Return a region's elements in ranges of its extents, as a view; raises after the call for other axes' indices."""
    shape = region.array.type.shape
    offsets, sizes = list(region.offsets), [Size.of(1)] * len(shape)
    for axis in region.dropped:
        message = f"index {offsets[axis]} is out of bounds for axis {axis} of size {shape[axis]}"
        offsets[axis] = checked_index(b, offsets[axis], Size.of(shape[axis]), message)
    for axis, (low, high) in zip(region.axes, ranges, strict=True):
        offsets[axis], sizes[axis] = offsets[axis] + low, high - low
    attributes = {
        "offsets": tuple(offset.simplified() for offset in offsets),
        "sizes": tuple(size.simplified() for size in sizes),
        "strides": (1,) * len(sizes),
        "drop": region.dropped,
    }
    dynamic = tuple(b.tri.index(size) for size in (*offsets, *sizes) if not size.is_constant)
    step = ViewStep("extract_slice", attributes, dynamic)
    part = step.read(b.tri, TriValue(region.array.value, region.array.type))
    return replace(part, origin=region.array.origin.then(step)) if has_memory(region.array) else part


def _aligned(region: Region, other: Region) -> Region:
    """Return the region without the axes that the other does not have: integer indices first, then sizes of 1."""
    extra = len(region.offsets) - len(other.offsets)
    if extra <= 0 and region.extents.count(None) == 0:
        return region
    corners = [axis for axis, extent in enumerate(region.extents) if extent is None]
    units = [axis for axis, extent in enumerate(region.extents) if extent == Size.of(1)]
    return replace(region, dropped=tuple(sorted([*corners, *units][: max(extra, 0)])))
