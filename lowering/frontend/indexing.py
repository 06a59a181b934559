"""Subscripts of arrays, read: integers, slices, None and ``...``; those that are arrays are of `ast_gathers`.

Basic indexing gives a view: the way to some elements of the memory that the array has. Its parts may be known at run
time only; positions that count from the end, and slices that reach beyond it, are what Python makes of them.
A position that is known to be outside is refused. One that turns out to be outside at run time is moved inside, or
raises `IndexError` after the call when the kernel is compiled with ``debug``.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mlirtri.dialect.base.dtypes import DTYPES
from mlirtri.dialect.base.sizes import Size, is_dynamic
from mlirtri.dialect.builder import Tensor
from mlirtri.errors import KernelIndexError, KernelTypeError, KernelValueError
from mlirtri.lowering.frontend.gathers import Gathers, is_array
from mlirtri.lowering.frontend.language.builder import describe
from mlirtri.lowering.frontend.language.shapes import reshape, spaced, strided
from mlirtri.lowering.frontend.language.storage import Step, has_memory
from mlirtri.lowering.frontend.language.views import fresh

INT64 = DTYPES["int64"]


@dataclass
class _Subset:
    """A basic index: per axis of the array an offset, a size and a stride; then flips and new axes."""

    offsets: list[Size] = field(default_factory=list)
    sizes: list[Size] = field(default_factory=list)
    strides: list[int] = field(default_factory=list)
    drop: list[int] = field(default_factory=list)
    backwards: list[int] = field(default_factory=list)
    """Axes of the array that are read from the end."""
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


class Indexing(Gathers):
    """The methods of subscripts."""

    def index(self, tensor: Tensor, index: tuple[Any, ...]) -> Tensor:
        """``tensor[index]``; with basic parts only it shares the tensor's memory."""
        parts = self.expanded(tensor, index)
        if any(is_array(part) for part in parts):
            return self.gathered(tensor, parts)
        subset = self._subset(tensor, parts)
        result = self._read(tensor, subset)
        if not has_memory(tensor):
            return result
        view = tensor.origin
        for step in self._steps(tensor, subset):
            view = view.then(step)
        return replace(result, origin=replace(view, version=tensor.origin.version))

    def element(self, tensor: Tensor, index: tuple[Any, ...]) -> Tensor:
        """``tensor[index]`` as it is read: one element of a NumPy array is a number, which shares no memory."""
        result = self.index(tensor, index)
        return fresh(result) if self.b.semantics == "numpy" and not result.type.rank else result

    def expanded(self, tensor: Tensor, index: tuple[Any, ...]) -> list[Any]:
        """One part for each axis, and None for each new one."""
        index = tuple(self._as_array(part) for part in index)
        if sum(1 for part in index if part is ...) > 1:
            raise KernelValueError("an index can have one `...` only")
        consumed = sum(_axes_taken(part) for part in index)
        if consumed > tensor.type.rank:
            raise KernelValueError(f"{consumed} indices for {tensor.type}, which has rank {tensor.type.rank}")
        rest = [slice(None)] * (tensor.type.rank - consumed)
        if not any(part is ... for part in index):
            index = (*index, ...)
        parts = [each for part in index for each in (rest if part is ... else [part])]
        axes = iter(tensor.type.shape)
        return [part if part is None else self._positions_of_step(part, next(axes)) for part in parts] if not any(
            is_array(part) and part.type.dtype.is_bool for part in parts) else parts  # fmt: skip

    def _positions_of_step(self, part: Any, size: int | Size) -> Any:
        """A slice whose step only the run shows (and is positive), as an array of positions."""
        if not isinstance(part, slice) or not isinstance(part.step, Tensor):
            return part
        indices, tri = self.b.indices, self.b.tri
        step = indices.size_of(part.step)
        if step.is_constant:
            return slice(part.start, part.stop, step.constant)
        start, extent = indices.slice_bounds(slice(part.start, part.stop), Size.of(size), 1)
        self.b.check(tri.less(tri.index(step), tri.index(1)), KernelValueError, "a step of run time is not positive")
        positive = tri.index(indices.maximum(step, Size.of(1)))
        count = tri.floor_divide(tri.subtract(tri.add(tri.index(extent), positive), tri.index(1)), positive)
        upper = Size.of(size)
        length = Size.of(indices.symbol(count, "n", Size.of(0), upper))
        return spaced(self.b, start, length, positive, INT64)

    def _as_array(self, part: Any) -> Any:
        if isinstance(part, list) or (isinstance(part, tuple) and part and not isinstance(part[0], slice)):
            if not part:
                raise KernelTypeError("an empty list is no index", help="use a slice that is empty")
            return self.b.stack([self.b.tensor(each) for each in part])
        return part

    # --- basic indices -----------------------------------------------------------------------------------------------

    def _subset(self, tensor: Tensor, parts: Sequence[Any]) -> _Subset:
        subset = _Subset()
        for part in parts:
            axis = len(subset.offsets)
            if part is None:
                subset.shape.append(1)
            elif isinstance(part, slice):
                self._cut(subset, part, tensor.type.shape[axis], axis)
            else:
                subset.add(self._position(part, tensor, axis), Size.of(1), 1, drop=True)
        return subset

    def _cut(self, subset: _Subset, part: slice, size: int | Size, axis: int) -> None:
        """``start:stop:step`` along an axis."""
        step = self._step(part)
        known = [each for each in (part.start, part.stop) if each is not None]
        if isinstance(size, int) and not any(isinstance(each, Tensor) for each in known):
            positions = range(size)[slice(*map(_bound, (part.start, part.stop)), step)]
            if step < 0 and len(positions):
                subset.backwards.append(axis)
                positions = positions[::-1]
            offset = positions[0] if len(positions) else 0
            stride = abs(step) if len(positions) > 1 else 1
            subset.add(Size.of(offset), Size.of(len(positions)), stride)
            return
        indices = self.b.indices
        if step < 0:
            subset.backwards.append(axis)
            subset.add(*indices.slice_bounds_backwards(part, Size.of(size), -step), -step)
        else:
            subset.add(*indices.slice_bounds(part, Size.of(size), step), step)

    def _step(self, part: slice) -> int:
        step = 1 if part.step is None else part.step
        if isinstance(step, Tensor):
            size = self.b.indices.size_of(step)
            step = size.constant if size.is_constant else step
        if isinstance(step, Tensor) or not hasattr(type(step), "__index__"):
            raise KernelTypeError(
                f"the step of a slice has to be an integer known at compile time, got {describe(step)}"
            )
        if step == 0:
            raise KernelValueError("slice step cannot be zero")
        if self.b.semantics == "torch" and step < 0:
            raise KernelValueError("torch has no slices with a negative step", help="use flip")
        return operator.index(step)

    def _position(self, part: Any, tensor: Tensor, axis: int) -> Size:
        """One position of an axis."""
        size = tensor.type.shape[axis]
        is_number = isinstance(part, Tensor) and not part.type.rank and part.type.dtype.is_integer
        if isinstance(part, bool) or not (is_number or (not isinstance(part, Tensor) and hasattr(part, "__index__"))):
            raise KernelTypeError(
                f"cannot index with {describe(part)}", help="indices are integers, slices, None, ... and arrays"
            )
        position = self.b.indices.size_of(part if is_number else operator.index(part))
        self._refuse_outside(position, size, axis, tensor)
        limit = Size.of(size)
        if position.is_constant and limit.is_constant:
            return position if position.constant >= 0 else position + limit
        inside = self.b.indices.element(position, limit)
        if self.b.debug and inside != position:
            self._check_inside(position, limit, axis)
        return inside

    def _refuse_outside(self, position: Size, size: int | Size, axis: int, tensor: Tensor) -> None:
        least, most, limit = position.least(), position.most(), Size.of(size).most()
        if limit is None:
            return
        if (least is not None and least >= limit) or (most is not None and most < -limit):
            shown = position.constant if position.is_constant else position
            raise KernelIndexError(f"index {shown} is out of bounds for axis {axis} of {tensor.type}")

    def _check_inside(self, position: Size, limit: Size, axis: int) -> None:
        tri = self.b.tri
        x = tri.index(position)
        wrong = tri.logical_or(tri.less(x, tri.index(-limit)), tri.greater_equal(x, tri.index(limit)))
        self.b.check(wrong, KernelIndexError, f"an index is out of bounds for axis {axis} of size {limit}")

    def _read(self, tensor: Tensor, subset: _Subset) -> Tensor:
        """The elements themselves; what is static and outside of loops is said in the plainest operations."""
        if subset.is_static and not any(map(is_dynamic, tensor.type.shape)) and not self.b.memory.journals:
            ranges = []
            for axis, (offset, size, stride) in enumerate(
                zip(subset.offsets, subset.sizes, subset.strides, strict=True)
            ):
                first, count = offset.constant, size.constant
                each = range(first, first + count * stride, stride)
                ranges.append(each[::-1] if axis in subset.backwards else each)
            return reshape(self.b, strided(self.b, tensor, ranges), subset.shape)
        result = Tensor(tensor.value, tensor.type)
        for step in self._steps(tensor, subset):
            result = step.read(self.b.tri, result)
        return result

    def _steps(self, tensor: Tensor, subset: _Subset) -> list[Step]:
        """The view, as steps that can be read and written."""
        tri = self.b.tri
        steps = []
        shape = [size for axis, size in enumerate(subset.sizes) if axis not in subset.drop]
        kept = [size.simplified() for size in shape]
        is_whole = not subset.drop and all(
            offset == Size.of(0) and stride == 1 and size.simplified() == whole
            for offset, size, stride, whole in zip(
                subset.offsets, subset.sizes, subset.strides, tensor.type.shape, strict=True
            )
        )
        if not is_whole:
            attributes = {
                "offsets": tuple(each.simplified() for each in subset.offsets),
                "sizes": tuple(each.simplified() for each in subset.sizes),
                "strides": tuple(subset.strides),
                "drop": tuple(subset.drop),
            }
            dynamic = [each for each in (*subset.offsets, *subset.sizes) if not each.is_constant]
            steps.append(Step("extract_slice", attributes, tuple(tri.index(each) for each in dynamic)))
        if subset.backwards:
            axes = [axis - sum(1 for each in subset.drop if each < axis) for axis in subset.backwards]
            steps.append(Step("flip", {"axes": tuple(axes)}))
        if subset.shape != kept:
            steps.append(self.reshape_step(tuple(subset.shape)))
        return steps

    def reshape_step(self, shape: tuple[int | Size, ...]) -> Step:
        dynamic = [tensor for tensor in shape if is_dynamic(tensor)]
        if not dynamic:
            return Step("reshape", {"shape": shape})
        return Step("dynamic_reshape", {"shape": shape}, tuple(self.b.tri.index(each) for each in dynamic))


def _axes_taken(part: Any) -> int:
    if part is None or part is ...:
        return 0
    return part.type.rank if is_array(part) and part.type.dtype.is_bool else 1


def _bound(value: Any) -> Any:
    return value if value is None else operator.index(value)
