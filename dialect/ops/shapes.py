"""Rows of the op table that move elements and compute none: reshape, transpose, broadcast, slice, concatenate, flip.

`squeeze unsqueeze stack split` are functions of the language written with these.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from mlirtri.dialect.base.sizes import fits, is_dynamic, is_negative, shape_of, sum_of
from mlirtri.dialect.base.tensor_type import TensorType, broadcast_shapes, same_shape
from mlirtri.dialect.ops.op import Op
from mlirtri.errors import KernelTypeError, KernelValueError


def _reshape(types, attributes):
    [operand] = types
    shape = shape_of(attributes["shape"])
    if not operand.is_static or any(map(is_dynamic, shape)):
        return operand.with_shape(shape)
    if prod(shape) != operand.size or any(map(is_negative, shape)):
        raise KernelValueError(f"{operand} with {operand.size} elements does not reshape to {shape}")
    return operand.with_shape(shape)


def _transpose(types, attributes):
    [operand] = types
    permutation = tuple(attributes["permutation"])
    if sorted(permutation) != list(range(operand.rank)):
        raise KernelValueError(f"{permutation} is not a permutation of the axes of {operand}")
    return operand.with_shape(operand.shape[axis] for axis in permutation)


def _broadcast_to(types, attributes):
    [operand] = types
    shape = tuple(attributes["shape"])
    if any(size < 0 for size in shape) or not same_shape(broadcast_shapes(operand.shape, shape), shape):
        raise KernelTypeError(f"{operand} does not broadcast to shape {shape}")
    return operand.with_shape(shape)


def _slice(types, attributes):
    [operand] = types
    offsets, sizes, strides = attributes["offsets"], attributes["sizes"], attributes["strides"]
    if not len(offsets) == len(sizes) == len(strides) == operand.rank:
        raise KernelValueError(f"a slice of {operand} needs {operand.rank} offsets, sizes and strides")
    for axis, (offset, size, stride) in enumerate(zip(offsets, sizes, strides, strict=True)):
        last, length = offset + (size - 1) * stride, operand.shape[axis]
        if size < 0 or stride < 1 or (size and not (0 <= offset <= last and (is_dynamic(length) or last < length))):
            raise KernelValueError(f"slice {offset}:{last + 1}:{stride} is outside axis {axis} of {operand}")
    return operand.with_shape(sizes)


def _concatenate(types, attributes):
    axis = attributes["axis"]
    first = types[0]
    if not 0 <= axis < first.rank:
        raise KernelValueError(f"axis {axis} is not an axis of {first}")
    for other in types[1:]:
        same_rank = other.rank == first.rank and other.dtype == first.dtype
        if not same_rank or any(not fits(other.shape[i], first.shape[i]) for i in range(first.rank) if i != axis):
            shown = ", ".join(str(operand) for operand in types)
            raise KernelTypeError(f"{shown} do not concatenate along axis {axis}: all other sizes have to be equal")
    joined = sum_of(operand.shape[axis] for operand in types)
    shape = broadcast_shapes(*(_without(operand.shape, axis) for operand in types))
    return first.with_shape((*shape[:axis], joined, *shape[axis:]))


def _without(shape, axis):
    return (*shape[:axis], *shape[axis + 1 :])


def _flip(types, attributes):
    [operand] = types
    if any(not 0 <= axis < operand.rank for axis in attributes["axes"]):
        raise KernelValueError(f"axes {list(attributes['axes'])} are not axes of {operand}")
    return operand


def _reference_slice(x, offsets, sizes, strides):
    index = tuple(
        slice(offset, offset + (size - 1) * stride + 1 if size else offset, stride)
        for offset, size, stride in zip(offsets, sizes, strides, strict=True)
    )
    return x[index]


def _relax_slice(relax_ops, arguments, attributes, result: TensorType):
    offsets, sizes, strides = attributes["offsets"], attributes["sizes"], attributes["strides"]
    ends = [o + (n - 1) * s + 1 if n else o for o, n, s in zip(offsets, sizes, strides, strict=True)]
    return relax_ops.strided_slice(arguments[0], list(range(len(ends))), list(offsets), ends, list(strides))


def rows() -> Iterator[Op]:
    structured = (
        ("reshape", ("x",), {"shape": "ints"}, _reshape, lambda x, shape: x.reshape(shape),
         lambda ops, a, attributes, r: ops.reshape(a[0], list(attributes["shape"]))),
        ("transpose", ("x",), {"permutation": "ints"}, _transpose, lambda x, permutation: x.transpose(permutation),
         lambda ops, a, attributes, r: ops.permute_dims(a[0], list(attributes["permutation"]))),
        ("broadcast_to", ("x",), {"shape": "ints"}, _broadcast_to, lambda x, shape: np.broadcast_to(x, shape),
         lambda ops, a, attributes, r: ops.broadcast_to(a[0], list(attributes["shape"]))),
        ("slice", ("x",), {"offsets": "ints", "sizes": "ints", "strides": "ints"}, _slice, _reference_slice,
         _relax_slice),
        # Binary: IRDL gives all operands of a variadic one type, and these differ in size.
        ("concatenate", ("x", "y"), {"axis": "int"}, _concatenate, lambda x, y, axis: np.concatenate((x, y), axis),
         lambda ops, a, attributes, r: ops.concat(list(a), axis=attributes["axis"])),
        ("flip", ("x",), {"axes": "ints"}, _flip, lambda x, axes: np.flip(x, tuple(axes)), None),
    )  # fmt: skip
    for name, operands, attributes, infer, reference, relax in structured:
        yield Op(name, "shape", operands, attributes, infer, reference, structured=True, relax=relax)
    for name, reference, summary in (
        ("squeeze", np.squeeze, "reshape without axes of size 1"),
        ("unsqueeze", np.expand_dims, "reshape with a new axis of size 1"),
        ("stack", np.stack, "unsqueeze, then concatenate"),
        ("split", np.split, "slices along an axis"),
    ):
        yield Op(name, "shape", ("x",), derived=True, numpy=reference, summary=summary)
