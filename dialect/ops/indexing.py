"""Rows of the op table that read and write slices of tensors, and those with run-time sizes.

Each `DYNAMIC` in the attributes `offsets`, `sizes` and `shape` stands for the next of the operands `indices` (int64,
rank 0): first all offsets in order, then all sizes. Slices are in bounds: the frontend clamps or checks.
Indices of `gather` and `scatter` count from the end when negative; those out of range are clamped, and the frontend
lets the kernel raise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import prod
from typing import TypeVar

import numpy as np

from mlirtri.dialect.base.dtypes import DTYPES, as_dtype
from mlirtri.dialect.base.sizes import DYNAMIC, Size, is_dynamic, is_negative, shape_of
from mlirtri.dialect.base.tensor_type import TensorType, broadcast_shapes, same_shape
from mlirtri.dialect.ops.op import Op
from mlirtri.errors import KernelTypeError, KernelValueError

Index = TypeVar("Index")
INT64 = DTYPES["int64"]
SUBSET = {"offsets": "ints", "sizes": "ints", "strides": "ints", "drop": "ints"}


def dynamic_count(*attributes: Sequence[int | Size]) -> int:
    """Return the number of index operands that attributes of sizes and offsets need: one for each `DYNAMIC`."""
    return sum(is_dynamic(size) for values in attributes for size in shape_of(values))


def resolved(indices: Iterable[Index], *attributes: Sequence[int | Size]) -> list[tuple[int | Index, ...]]:
    """Return the attributes with each `DYNAMIC` replaced by the next of `indices`, of any type."""
    remaining = iter(indices)
    return [
        tuple(next(remaining) if isinstance(size, Size) else size for size in shape_of(values)) for values in attributes
    ]


def _check_indices(indices, *attributes) -> None:
    if len(indices) != dynamic_count(*attributes):
        raise KernelValueError(f"{dynamic_count(*attributes)} index operands are needed, got {len(indices)}")
    if wrong := [index for index in indices if index.rank or index.dtype != INT64]:
        raise KernelTypeError(f"indices are int64 of rank 0, got {wrong[0]}")


def _shape(attributes) -> tuple:
    shape = shape_of(attributes["shape"])
    if any(map(is_negative, shape)):
        raise KernelValueError(f"a shape has no negative sizes, got {shape}")
    return shape


def _subset(x: TensorType, indices, attributes) -> TensorType:
    offsets, sizes = shape_of(attributes["offsets"]), shape_of(attributes["sizes"])
    strides, drop = attributes["strides"], attributes["drop"]
    if not len(offsets) == len(sizes) == len(strides) == x.rank:
        raise KernelValueError(f"a slice of {x} needs {x.rank} offsets, sizes and strides")
    _check_indices(indices, offsets, sizes)
    for axis, (offset, size, stride) in enumerate(zip(offsets, sizes, strides, strict=True)):
        if stride < 1 or is_negative(size):
            raise KernelValueError(f"a slice has sizes and positive strides, got size {size} and stride {stride}")
        if size == 0 or isinstance(offset, Size) or isinstance(size, Size) or is_dynamic(x.shape[axis]):
            continue
        last = offset + (size - 1) * stride
        if offset < 0 or last >= x.shape[axis]:
            raise KernelValueError(f"slice {offset}:{last + 1}:{stride} is outside axis {axis} of {x}")
    if any(not 0 <= axis < x.rank or sizes[axis] != 1 for axis in drop):
        raise KernelValueError(f"axes {list(drop)} to drop are not axes of size 1 of a slice of {x}")
    return x.with_shape(size for axis, size in enumerate(sizes) if axis not in drop)


def _extract_slice(types, attributes):
    x, *indices = types
    return _subset(x, indices, attributes)


def _insert_slice(types, attributes):
    x, update, *indices = types
    _check_update(_subset(x, indices, attributes), update)
    return x


def _check_update(part: TensorType, update: TensorType) -> None:
    if part.dtype != update.dtype or not same_shape(part.shape, update.shape):
        raise KernelTypeError(f"the update of {part} is {update}")


def _fill(types, attributes):
    value, *indices = types
    if value.rank:
        raise KernelTypeError(f"a tensor is filled with a scalar, got {value}")
    _check_indices(indices, attributes["shape"])
    return value.with_shape(_shape(attributes))


def _empty(types, attributes):
    _check_indices(types, attributes["shape"])
    return TensorType(_shape(attributes), as_dtype(attributes["dtype"]))


def _iota(types, attributes):
    result = _empty(types, attributes)
    if not 0 <= attributes["axis"] < result.rank:
        raise KernelValueError(f"axis {attributes['axis']} is not an axis of {result}")
    return result


def _dynamic_broadcast(types, attributes):
    x, *indices = types
    shape = _shape(attributes)
    _check_indices(indices, shape)
    if not same_shape(broadcast_shapes(x.shape, shape), shape):
        raise KernelTypeError(f"{x} does not broadcast to {x.with_shape(shape)}")
    return x.with_shape(shape)


def _dynamic_reshape(types, attributes):
    x, *indices = types
    shape = _shape(attributes)
    _check_indices(indices, shape)
    if x.is_static and not any(map(is_dynamic, shape)) and x.size != prod(shape):
        raise KernelValueError(f"{x} with {x.size} elements does not reshape to {shape}")
    return x.with_shape(shape)


def _size(types, attributes):
    [x] = types
    if not 0 <= attributes["axis"] < x.rank:
        raise KernelValueError(f"axis {attributes['axis']} is not an axis of {x}")
    return TensorType((), INT64)


def _gathered(x: TensorType, positions) -> TensorType:
    if not 1 <= len(positions) <= x.rank:
        raise KernelTypeError(f"{x} takes 1 to {x.rank} arrays of positions, got {len(positions)}")
    first = positions[0]
    if any(not operand.dtype.is_integer or not same_shape(operand.shape, first.shape) for operand in positions):
        shown = ", ".join(map(str, positions))
        raise KernelTypeError(f"positions are integers of one shape, got {shown}")
    return x.with_shape((*first.shape, *x.shape[len(positions) :]))


def _gather(types, attributes):
    x, *positions = types
    return _gathered(x, positions)


def _scatter(types, attributes):
    x, update, *positions = types
    _check_update(_gathered(x, positions), update)
    return x


def _selected(x: TensorType, mask: TensorType) -> TensorType:
    if not mask.dtype.is_bool or not 1 <= mask.rank <= x.rank or not same_shape(mask.shape, x.shape[: mask.rank]):
        raise KernelTypeError(f"{mask} is not a mask for {x}: it has to be bool with the leading sizes")
    return x.with_shape((*shape_of([DYNAMIC]), *x.shape[mask.rank :]))


def _compress(types, attributes):
    x, mask = types
    return _selected(x, mask)


def _place(types, attributes):
    x, mask, update = types
    _check_update(_selected(x, mask), update)
    return x


# --- NumPy references ----------------------------------------------------------------------------------------------


def _slices(indices, offsets, sizes, strides, drop) -> tuple:
    offsets, sizes = resolved((int(index) for index in indices), offsets, sizes)
    return tuple(
        offset if axis in drop else slice(offset, offset + (size - 1) * stride + 1 if size else offset, stride)
        for axis, (offset, size, stride) in enumerate(zip(offsets, sizes, strides, strict=True))
    )


def _reference_extract_slice(x, *indices, **subset):
    return np.asarray(x)[_slices(indices, **subset)]


def _reference_insert_slice(x, update, *indices, **subset):
    result = np.array(x)
    result[_slices(indices, **subset)] = update
    return result


def _reference_shape(indices, shape) -> tuple[int, ...]:
    return resolved((int(index) for index in indices), shape)[0]


def _reference_iota(*indices, shape, axis, dtype):
    shape = _reference_shape(indices, shape)
    along = np.arange(shape[axis], dtype=as_dtype(dtype).numpy)
    return np.broadcast_to(along.reshape([-1 if i == axis else 1 for i in range(len(shape))]), shape)


def _clamped(x, positions) -> tuple[np.ndarray, ...]:
    wrapped = (np.where(p < 0, p + size, p) for p, size in zip(positions, x.shape, strict=False))
    return tuple(np.clip(p, 0, max(0, size - 1)) for p, size in zip(wrapped, x.shape, strict=False))


def _reference_gather(x, *positions):
    return x[_clamped(x, [np.asarray(p, np.int64) for p in positions])]


def _reference_scatter(x, update, *positions):
    result = np.array(x)
    indices = _clamped(x, [np.asarray(p, np.int64) for p in positions])
    for index in np.ndindex(indices[0].shape):
        result[tuple(along[index] for along in indices)] = update[index]
    return result


def _reference_place(x, mask, update):
    result = np.array(x)
    result[mask] = update
    return result


def rows() -> Iterator[Op]:
    shaped = {"shape": "ints"}
    typed = {"shape": "ints", "dtype": "string"}
    for name, operands, attributes, infer, reference in (
        ("extract_slice", ("x", "indices*"), SUBSET, _extract_slice, _reference_extract_slice),
        ("insert_slice", ("x", "update", "indices*"), SUBSET, _insert_slice, _reference_insert_slice),
        ("fill", ("value", "indices*"), shaped, _fill,
         lambda value, *indices, shape: np.full(_reference_shape(indices, shape), value, np.asarray(value).dtype)),
        ("empty", ("indices*",), typed, _empty,
         lambda *indices, shape, dtype: np.zeros(_reference_shape(indices, shape), as_dtype(dtype).numpy)),
        ("iota", ("indices*",), {"shape": "ints", "axis": "int", "dtype": "string"}, _iota, _reference_iota),
        ("dynamic_broadcast", ("x", "indices*"), shaped, _dynamic_broadcast,
         lambda x, *indices, shape: np.broadcast_to(x, _reference_shape(indices, shape))),
        ("dynamic_reshape", ("x", "indices*"), shaped, _dynamic_reshape,
         lambda x, *indices, shape: np.reshape(x, _reference_shape(indices, shape))),
        ("size", ("x",), {"axis": "int"}, _size, lambda x, axis: np.int64(x.shape[axis])),
        ("gather", ("x", "positions*"), {}, _gather, _reference_gather),
        ("scatter", ("x", "update", "positions*"), {}, _scatter, _reference_scatter),
        ("compress", ("x", "mask"), {}, _compress, lambda x, mask: x[mask]),
        ("place", ("x", "mask", "update"), {}, _place, _reference_place),
    ):  # fmt: skip
        yield Op(name, "indexing", operands, attributes, infer, reference, structured=True)
