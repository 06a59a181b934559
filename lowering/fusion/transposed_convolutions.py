"""Split a convolution of an image with zeros between its elements (a transposed convolution) into dense ones.

Takes and gives a module of linalg on tensors, in place; offsets and strides of slices are static. The outputs at
indices with the same remainder by the stride read every n-th element of the kernel, and none of the zeros::

    %s = insert_slice %x into zeros[0, 0, p, p] [1, 1, 2, 2]; %y = linalg.conv_2d %s, %w
        ──►   for a, b in 0..2:  %ab = linalg.conv_2d %x, %w[:, :, a'::2, b'::2];   %y[:, :, a::2, b::2] = %ab
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import gcd, prod

from mlirtri.dialect.bindings.mlir import arith, ir, linalg, linalg_fill, operations_named, tensor
from mlirtri.lowering.mlir_common.index_values import index_constant
from mlirtri.lowering.mlir_common.linalg_builder import generic, is_zeros, padded, static_slice, zero
from mlirtri.lowering.mlir_common.reading import defined_by, static_integers

CONVOLUTIONS = (
    "linalg.conv_1d_ncw_fcw",
    "linalg.conv_2d_nchw_fchw",
    "linalg.conv_3d_ncdhw_fcdhw",
)
MAX_PHASES = 16
"""The most convolutions that one is split into."""


def has_dilated_images(module: ir.Module) -> bool:
    """Return whether `module` may have something to rewrite."""
    convolutions = [convolution for name in CONVOLUTIONS for convolution in operations_named(module, name)]
    return any(defined_by(convolution.operands[0], "tensor.insert_slice") for convolution in convolutions)


def rewrite(module: ir.Module) -> None:
    """Split all convolutions of `module` whose images have zeros between their elements, in place."""
    for name in CONVOLUTIONS:
        for operation in operations_named(module, name):
            dilated = _dilated_image(operation)
            if dilated is not None:
                with operation.location, ir.InsertionPoint(operation):
                    operation.results[0].replace_all_uses_with(_split(operation, dilated))


@dataclass(frozen=True)
class _DilatedImage:
    """The dense image, and where its elements are between the zeros."""

    image: ir.Value
    offsets: list[int]
    strides: list[int]
    dilations: list[int]


def _dilated_image(operation: ir.Operation) -> _DilatedImage | None:
    insertion = defined_by(operation.operands[0], "tensor.insert_slice")
    if (
        insertion is None
        or not operation.results[0].type.has_static_shape
        or set(_numbers(operation, "strides")) != {1}
    ):
        return None
    if len(insertion.operands) != 2 or not (is_zeros(insertion.operands[1]) and is_zeros(operation.operands[2])):
        return None
    image = insertion.operands[0]
    offsets, sizes, strides = (static_integers(insertion, f"static_{name}") for name in ("offsets", "sizes", "strides"))
    if list(image.type.shape) != sizes or 0 in sizes or any((*offsets[:2], *(step - 1 for step in strides[:2]))):
        return None
    phases = prod(strides[2:])
    if not 1 < phases <= MAX_PHASES or any(sizes[axis] != insertion.operands[1].type.shape[axis] for axis in (0, 1)):
        return None
    return _DilatedImage(image, offsets[2:], strides[2:], _numbers(operation, "dilations"))


def _numbers(operation: ir.Operation, name: str) -> list[int]:
    """Return the strides or dilations, 1 where they are left out."""
    if name not in operation.attributes:
        return [1] * (operation.results[0].type.rank - 2)
    return [int(value) for value in ir.DenseIntElementsAttr(operation.attributes[name])]


@dataclass(frozen=True)
class _Phase:
    """One axis of one dense convolution: the elements of the kernel that it reads, and the start in the image."""

    first: int
    step: int
    count: int
    """The number of kernel elements; without any, the outputs are zero."""
    start: int
    dilation: int


def _phase(remainder: int, size: int, offset: int, stride: int, dilation: int) -> _Phase:
    common = gcd(stride, dilation)
    step = stride // common
    matches = [position for position in range(step) if (remainder + position * dilation - offset) % stride == 0]
    if not matches or matches[0] >= size:
        return _Phase(0, step, 0, 0, 1)
    [first] = matches
    return _Phase(
        first, step, -(-(size - first) // step), (remainder + first * dilation - offset) // stride, dilation // common
    )


def _split(operation: ir.Operation, dilated: _DilatedImage) -> ir.Value:
    kind, window = operation.results[0].type, operation.operands[1].type.shape[2:]
    extents = [-(-size // step) for size, step in zip(kind.shape[2:], dilated.strides, strict=True)]
    by_axis = [
        [_phase(remainder, *sizes) for remainder in range(sizes[2])]
        for sizes in zip(window, dilated.offsets, dilated.strides, dilated.dilations, strict=True)
    ]
    parts = [_convolved(operation, dilated.image, phases, extents) for phases in product(*by_axis)]
    return _interleaved(parts, kind, dilated.strides, extents)


def _convolved(operation: ir.Operation, image: ir.Value, phases: Sequence[_Phase], extents: list[int]) -> ir.Value:
    kind = operation.results[0].type
    zeros = linalg_fill(zero(kind.element_type), tensor.empty([*kind.shape[:2], *extents], kind.element_type))
    if not all(phase.count for phase in phases):
        return zeros
    part = _image_part(image, phases, extents)
    if part is None:
        return zeros
    weights = operation.operands[1]
    counts = [phase.count for phase in phases]
    firsts, steps = ([0, 0, *(phase.first for phase in phases)], [1, 1, *(phase.step for phase in phases)])
    w = static_slice(weights, firsts, [*weights.type.shape[:2], *counts], steps)
    dilations = [phase.dilation for phase in phases]
    convolution = getattr(linalg, operation.name.removeprefix("linalg."))
    return convolution(part, w, outs=[zeros], strides=[1] * len(phases), dilations=dilations)


def _image_part(image: ir.Value, phases: Sequence[_Phase], extents: list[int]) -> ir.Value | None:
    """Return the part of the image that is read, padded with zeros out of bounds; None where all of it is."""
    low, high, starts, sizes = [0, 0], [0, 0], [0, 0], list(image.type.shape[:2])
    for phase, extent, size in zip(phases, extents, image.type.shape[2:], strict=True):
        end = phase.start + extent + (phase.count - 1) * phase.dilation
        start, stop = max(0, phase.start), min(size, end)
        if start >= stop:
            return None
        starts.append(start)
        sizes.append(stop - start)
        low.append(start - phase.start)
        high.append(end - stop)
    if sizes != list(image.type.shape):
        image = static_slice(image, starts, sizes)
    return _padded(image, low, high) if any((*low, *high)) else image


def _padded(image: ir.Value, low: list[int], high: list[int]) -> ir.Value:
    sizes = [a + size + b for a, size, b in zip(low, image.type.shape, high, strict=True)]
    kind = ir.RankedTensorType.get(sizes, image.type.element_type)
    return padded(image, kind, low, high, zero(kind.element_type))


def _interleaved(parts: list[ir.Value], type_: ir.RankedTensorType, strides: list[int], extents: list[int]) -> ir.Value:
    """Interleave the outputs of all remainders, and cut off what exceeds the result's shape."""
    element, axes = type_.element_type, len(strides)
    split = [*type_.shape[:2], *(size for pair in zip(extents, strides, strict=True) for size in pair)]
    rank = len(split)
    read = [ir.AffineDimExpr.get(axis) for axis in (0, 1, *range(2, rank, 2))]
    maps = [*[ir.AffineMap.get(rank, 0, read)] * len(parts), ir.AffineMap.get_identity(rank)]

    def body(*elements: ir.Value) -> list[ir.Value]:
        return [_select_by_remainder(list(elements[:-1]), strides, [3 + 2 * axis for axis in range(axes)])]

    [interleaved] = generic(parts, [tensor.empty(split, element)], maps, ["parallel"] * rank, body)
    shape = [*type_.shape[:2], *(extent * step for extent, step in zip(extents, strides, strict=True))]
    groups = [[0], [1], *([axis, axis + 1] for axis in range(2, rank, 2))]
    interleaved = tensor.collapse_shape(ir.RankedTensorType.get(shape, element), interleaved, groups)
    return interleaved if shape == list(type_.shape) else static_slice(interleaved, [0] * len(shape), type_.shape)


def _select_by_remainder(values: list[ir.Value], strides: Sequence[int], loops: Sequence[int]) -> ir.Value:
    """Select the value for the loop indices modulo `strides`; the last axis varies fastest in `values`."""
    if not strides:
        return values[0]
    size = len(values) // strides[0]
    parts = [
        _select_by_remainder(values[remainder * size : (remainder + 1) * size], strides[1:], loops[1:])
        for remainder in range(strides[0])
    ]
    index, result = linalg.IndexOp(loops[0]).result, parts[-1]
    for remainder in reversed(range(len(parts) - 1)):
        constant = index_constant(remainder)
        result = arith.select(arith.cmpi(arith.CmpIPredicate.eq, index, constant), parts[remainder], result)
    return result
