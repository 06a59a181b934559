"""Basic indexing of arrays: integers, slices and None, one for each axis.

An index known to be out of bounds is refused, also in one iteration of a loop. One that is out of bounds at run time
raises `IndexError` after the call (`semantics/index_checks.py`).
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from mlirtri.dialect.base.sizes import Size, is_dynamic
from mlirtri.dialect.builder import KernelValue, TriValue
from mlirtri.errors import KernelIndexError, KernelTypeError, KernelValueError
from mlirtri.lowering.frontend.semantics.builder import Language, describe
from mlirtri.lowering.frontend.semantics.index_checks import checked_index, counts_from_the_end
from mlirtri.lowering.frontend.semantics.scf import runs_always
from mlirtri.lowering.frontend.semantics.shapes import reshape, strided
from mlirtri.lowering.frontend.semantics.storage import ViewStep


@dataclass
class Subset:
    """A basic index: per axis of the array an offset, a size and a stride; then flips and new axes."""

    offsets: list[Size] = field(default_factory=list)
    sizes: list[Size] = field(default_factory=list)
    strides: list[int] = field(default_factory=list)
    drop: list[int] = field(default_factory=list)
    """Axes of the array indexed by an integer."""
    backwards: list[int] = field(default_factory=list)
    """Axes of the array with a negative step."""
    shape: list[int | Size] = field(default_factory=list)
    """The result's shape, with new axes of size 1."""

    @property
    def is_static(self) -> bool:
        return all(size.is_constant for size in (*self.offsets, *self.sizes))

    def add(self, offset: Size, size: Size, stride: int, drop: bool = False) -> None:
        if drop:
            self.drop.append(len(self.offsets))
        else:
            self.shape.append(size.simplified())
        self.offsets.append(offset)
        self.sizes.append(size)
        self.strides.append(stride)


def subset_of(b: Language, tensor: TriValue, parts: Sequence[KernelValue]) -> Subset:
    """Return the elements that integers, slices and None select; raises `KernelIndexError` or `KernelTypeError`."""
    subset = Subset()
    for part in parts:
        axis = len(subset.offsets)
        if part is None:
            subset.shape.append(1)
        elif isinstance(part, slice):
            _add_slice(b, subset, part, tensor.type.shape[axis], axis)
        else:
            subset.add(_offset(b, part, tensor, axis), Size.of(1), 1, drop=True)
    return subset


def _add_slice(b: Language, subset: Subset, part: slice, size: int | Size, axis: int) -> None:
    step = _step(b, part)
    for bound in (part.start, part.stop):
        if isinstance(bound, float | complex):
            raise KernelTypeError(f"a slice takes integers, got {describe(bound)}")
    if isinstance(size, int) and not any(isinstance(bound, TriValue) for bound in (part.start, part.stop)):
        indices = range(size)[slice(_bound(part.start), _bound(part.stop), step)]
        if step < 0 and len(indices):
            subset.backwards.append(axis)
            indices = indices[::-1]
        offset = indices[0] if len(indices) else 0
        stride = abs(step) if len(indices) > 1 else 1
        subset.add(Size.of(offset), Size.of(len(indices)), stride)
    elif step < 0:
        subset.backwards.append(axis)
        subset.add(*b.indices.slice_bounds_backwards(part, Size.of(size), -step), -step)
    else:
        subset.add(*b.indices.slice_bounds(part, Size.of(size), step), step)


def _bound(value: Any) -> Any:
    return value if value is None else operator.index(value)


def _step(b: Language, part: slice) -> int:
    step = 1 if part.step is None else part.step
    if isinstance(step, TriValue):
        size = b.indices.size_of(step)
        step = size.constant if size.is_constant else step
    if isinstance(step, TriValue) or not hasattr(type(step), "__index__"):
        raise KernelTypeError(f"the step of a slice has to be an integer known at compile time, got {describe(step)}")
    if step == 0:
        raise KernelValueError("slice step cannot be zero")
    if b.semantics == "torch" and step < 0:
        raise KernelValueError("torch has no slices with a negative step", help="use flip")
    return operator.index(step)


def _offset(b: Language, part: Any, tensor: TriValue, axis: int) -> Size:
    if isinstance(part, TriValue):
        is_number = not part.type.rank and part.type.dtype.is_integer
    else:
        is_number = not isinstance(part, bool) and hasattr(part, "__index__")
    if not is_number:
        raise KernelTypeError(
            f"cannot index with {describe(part)}", help="indices are integers, slices, None, ... and arrays"
        )
    index = b.indices.size_of(part if isinstance(part, TriValue) else operator.index(part))
    limit = Size.of(tensor.type.shape[axis])
    _refuse_out_of_bounds(index, limit, axis, tensor)
    if index.is_constant and limit.is_constant:
        return index if index.constant >= 0 else index + limit
    message = f"an index is out of bounds for axis {axis} of size {limit}"
    if counts_from_the_end(b, index, tensor):
        return checked_index(b, index, limit, message)
    message += ": where a parallel loop writes the array at an offset of run time, no index counts from the end"
    return checked_index(b, index, limit, message, wraps=False)


def _refuse_out_of_bounds(index: Size, limit: Size, axis: int, tensor: TriValue) -> None:
    least, most, largest = index.least(), index.most(), limit.most()
    if largest is None:
        return
    if (least is not None and least >= largest) or (most is not None and most < -largest):
        shown = index.constant if index.is_constant else index
        raise KernelIndexError(f"index {shown} is out of bounds for axis {axis} of {tensor.type}")
    if least is None or most is None or not index.takes_extremes or not runs_always():
        return
    if most >= largest or least < -largest:
        shown = f"{index} reaches {most if most >= largest else least} in this loop, which"
        raise KernelIndexError(f"index {shown} is out of bounds for axis {axis} of {tensor.type}")


def read(b: Language, tensor: TriValue, subset: Subset) -> TriValue:
    """Return the elements of a subset; a static one outside of loops by the simplest operations."""
    if subset.is_static and not any(map(is_dynamic, tensor.type.shape)) and not b.memory.journals:
        ranges = []
        for axis, (offset, size, stride) in enumerate(zip(subset.offsets, subset.sizes, subset.strides, strict=True)):
            indices = range(offset.constant, offset.constant + size.constant * stride, stride)
            ranges.append(indices[::-1] if axis in subset.backwards else indices)
        return reshape(b, strided(b, tensor, ranges), subset.shape)
    result = TriValue(tensor.value, tensor.type)
    for step in steps_of(b, tensor, subset):
        result = step.read(b.tri, result)
    return result


def steps_of(b: Language, tensor: TriValue, subset: Subset) -> list[ViewStep]:
    """Return the view operations from an array to a subset of its elements."""
    steps = []
    kept_sizes = [size.simplified() for axis, size in enumerate(subset.sizes) if axis not in subset.drop]
    ranges = zip(subset.offsets, subset.sizes, subset.strides, tensor.type.shape, strict=True)
    is_whole = not subset.drop and all(
        offset == Size.of(0) and stride == 1 and size.simplified() == full for offset, size, stride, full in ranges
    )
    if not is_whole:
        attributes = {
            "offsets": tuple(offset.simplified() for offset in subset.offsets),
            "sizes": tuple(size.simplified() for size in subset.sizes),
            "strides": tuple(subset.strides),
            "drop": tuple(subset.drop),
        }
        dynamic = [operand for operand in (*subset.offsets, *subset.sizes) if not operand.is_constant]
        steps.append(ViewStep("extract_slice", attributes, tuple(map(b.tri.index, dynamic))))
    if subset.backwards:
        axes = [axis - sum(1 for dropped in subset.drop if dropped < axis) for axis in subset.backwards]
        steps.append(ViewStep("flip", {"axes": tuple(axes)}))
    if subset.shape != kept_sizes:
        steps.append(_reshape_step(b, tuple(subset.shape)))
    return steps


def _reshape_step(b: Language, shape: tuple[int | Size, ...]) -> ViewStep:
    dynamic = [size for size in shape if is_dynamic(size)]
    if not dynamic:
        return ViewStep("reshape", {"shape": shape})
    return ViewStep("dynamic_reshape", {"shape": shape}, tuple(map(b.tri.index, dynamic)))
