"""Subscripts that are assigned to: elements, slices, masks and arrays of positions of memory that the kernel has.

What is assigned is cast and broadcast to what is written, as NumPy does it; where only the run shows whether it fits,
that is checked after the call. Refuses what is no memory, and values that have more axes than what they are written to.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mlirtri.dialect.base.sizes import Size, is_dynamic
from mlirtri.dialect.builder import Tensor
from mlirtri.errors import KernelTypeError
from mlirtri.lowering.frontend.gathers import MaskedAxes, is_array, mask_of, masked_axes, strong
from mlirtri.lowering.frontend.indexing import Indexing
from mlirtri.lowering.frontend.language.builder import describe
from mlirtri.lowering.frontend.language.size_alignment import common_size, cut
from mlirtri.lowering.frontend.language.storage import Step, has_memory


class Updates(Indexing):
    """The methods of subscripts on the left."""

    def write(self, tensor: Tensor, index: tuple[Any, ...], value: Any) -> None:
        """``tensor[index] = value``; what is assigned is cast and broadcast to what is written."""
        if not has_memory(tensor):
            raise KernelTypeError(
                f"{describe(tensor)} cannot be assigned to", help="only arrays have elements to assign"
            )
        parts = self.expanded(tensor, index)
        memory, tri = self.b.memory, self.b.tri
        if (mask := mask_of(parts)) is not None:
            memory.write(tri, tensor.origin, self._masked(strong(tensor), mask, value))
        elif (masked := masked_axes(parts)) is not None:
            self._write_masked(tensor, masked, value)
        elif any(is_array(part) for part in parts):
            self._scatter(tensor, parts, value)
        else:
            target = self.index(tensor, tuple(index))
            target, update = self._same_sizes(target, self._update(value))
            memory.write(tri, target.origin, self.assigned(update, target, target.type.shape))

    def _update(self, value: Any) -> Tensor:
        return self.b.tensor(self.b.stack(list(value)) if isinstance(value, (tuple, list)) else value)

    def _scatter(self, tensor: Tensor, parts: list[Any], value: Any) -> None:
        """``tensor[…] = value`` with arrays of positions among the parts."""
        tri = self.b.tri
        target = self.index(tensor, tuple(part if isinstance(part, slice) else slice(None) for part in parts))
        chosen = [part if not isinstance(part, slice) else slice(None) for part in parts]
        base, arrays, order = self.arranged(target, chosen)
        shape = self.b.transpose(tri.gather(base, *arrays), tuple(order)).type.shape
        update = self._update(value)
        if update.type.rank == len(shape) == arrays[0].type.rank == 1 and update.type.shape[0] not in (1, shape[0]):
            common = common_size(self.b, [shape[0], update.type.shape[0]])
            arrays, update = [cut(self.b, each, 0, common) for each in arrays], cut(self.b, update, 0, common)
            shape = (common,)
        update = self.assigned(update, target, shape)
        back = tuple(order.index(axis) for axis in range(len(order)))
        written = tri.scatter(base, self.b.transpose(update, back), *arrays)
        picked = [axis for axis, part in enumerate(parts) if not isinstance(part, slice)]
        permutation = (*picked, *(axis for axis in range(len(parts)) if axis not in picked))
        in_order = tuple(map(permutation.index, range(len(parts))))
        self.b.memory.write(tri, target.origin, self.b.transpose(written, in_order))

    def _write_masked(self, tensor: Tensor, masked: MaskedAxes, value: Any) -> None:
        """``tensor[…] = value`` with a mask beside integers, slices and None."""
        target = self.index(tensor, masked.basic)
        order = masked.order(target)
        update = self.b.tensor(value, tensor.type.dtype)
        rank = target.type.rank - masked.mask.type.rank + 1
        where_picked = 0 if masked.in_front else masked.first
        if not masked.in_front and update.type.rank >= rank - where_picked:
            # It has the axis of what the mask picks, which goes in front, as the axes of the mask do.
            whole = self.b.reshape(update, (*[1] * (rank - update.type.rank), *update.type.shape))
            before = [target.type.shape[axis] for axis in range(where_picked)]
            whole = self.b.broadcast_to(whole, (*before, *whole.type.shape[where_picked:]))
            update = self.b.transpose(whole, (where_picked, *(axis for axis in range(rank) if axis != where_picked)))
            if update.type.shape[0] == 1:
                update = self.b.reshape(update, update.type.shape[1:])
        written = self._masked(strong(self.b.transpose(target, order)), masked.mask, update)
        in_order = tuple(map(order.index, range(len(order))))
        self.b.memory.write(self.b.tri, target.origin, self.b.transpose(written, in_order))

    def _same_sizes(self, target: Tensor, update: Tensor) -> tuple[Tensor, Tensor]:
        """Where only the run shows whether an update fits, both are cut to the common size, and it is checked."""
        for axis in range(-min(target.type.rank, update.type.rank), 0):
            sizes = [target.type.shape[axis], update.type.shape[axis]]
            if sizes[0] == sizes[1] or sizes[1] == 1 or not any(map(is_dynamic, sizes)):
                continue
            common = common_size(self.b, sizes)
            target = self._leading(target, target.type.rank + axis, common)
            update = cut(self.b, update, update.type.rank + axis, common)
        return target, update

    def _leading(self, target: Tensor, axis: int, size: int | Size) -> Tensor:
        """The view of the first elements along an axis."""
        rank = target.type.rank
        sizes = tuple(size if i == axis else each for i, each in enumerate(target.type.shape))
        attributes = {"offsets": (0,) * rank, "sizes": sizes, "strides": (1,) * rank, "drop": ()}
        step = Step("extract_slice", attributes, tuple(self.b.tri.index(each) for each in sizes if is_dynamic(each)))
        part = step.read(self.b.tri, Tensor(target.value, target.type))
        return replace(part, origin=target.origin.then(step))

    def _masked(self, tensor: Tensor, mask: Tensor, value: Any) -> Tensor:
        rest = tensor.type.shape[mask.type.rank :]
        given = self.b.tensor(value, tensor.type.dtype)
        spread = self.b.reshape(mask, (*mask.type.shape, *([1] * len(rest)))) if rest else mask
        if given.type.rank <= len(rest):
            return self.b.tri.where(self.b.broadcast_to(spread, tensor.type.shape), given, tensor)
        return self.b.tri.place(tensor, mask, given)

    def assigned(self, value: Any, target: Tensor, shape: tuple[int | Size, ...]) -> Tensor:
        """A value as elements of `target`: cast to its dtype, without leading axes of size 1, broadcast to `shape`."""
        if isinstance(value, (tuple, list)):
            value = self.b.stack(list(value))
        made = self.b.tensor(value, target.type.dtype)
        while made.type.rank > len(shape) and made.type.shape[0] == 1:
            made = self.b.reshape(made, made.type.shape[1:])
        if made.type.rank > len(shape):
            raise KernelTypeError(f"cannot assign {describe(value)} to {target.type.with_shape(shape)}")
        return self.b.broadcast_to(made, shape)
