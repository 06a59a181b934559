"""Compute convolutions between two transposes channels last, so that image and result need no transposes.

The filter is transposed instead, where that moves fewer elements::

    %x = transpose %image; %p = pad %x; %y = linalg.conv_2d_nchw_fchw %p, %w; %r = transpose (relu %y)
        ──►   %p = pad %image; %y = linalg.conv_2d_nhwc_hwcf %p, transpose %w; %r = transpose (relu (transpose %y))
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from mlirtri.dialect.bindings.mlir import arith, ir, linalg, linalg_fill, operations_named, tensor
from mlirtri.lowering.mlir_common.linalg_builder import generic, is_zeros, iterators_of, maps_of, padded, zero
from mlirtri.lowering.mlir_common.reading import defined_by, definition, static_integers

CONVOLUTIONS = {
    "linalg.conv_1d_ncw_fcw": "conv_1d_nwc_wcf",
    "linalg.conv_2d_nchw_fchw": "conv_2d_nhwc_hwcf",
    "linalg.conv_3d_ncdhw_fcdhw": "conv_3d_ndhwc_dhwcf",
}
"""By operation: the name of the bindings' function for the one with channels last."""
FILTER = 3
"""The cost of transposing an element of the filter, next to one of an image: its window is innermost."""
MIN_CHANNELS = 8
"""The fewest output channels that fill vectors."""
MAX_OPERATIONS_BETWEEN = 8
"""The most elementwise operations that may stand between convolution and transpose."""


def rewrite(module: ir.Module) -> None:
    """Rewrite all convolutions of `module` between two such transposes, in place."""
    for name in CONVOLUTIONS:
        for operation in operations_named(module, name):
            image = _channels_last_image(operation)
            if image is None or not _is_smaller(operation) or not is_zeros(operation.operands[2]):
                continue
            if _is_transposed_later(operation.results[0]):
                with operation.location, ir.InsertionPoint(operation):
                    operation.results[0].replace_all_uses_with(_channels_last(operation, image))


def _to_channels_last(rank: int) -> list[int]:
    return [0, *range(2, rank), 1]


def _to_channels_first(rank: int) -> list[int]:
    return [0, rank - 1, *range(1, rank - 1)]


def _is_smaller(operation: ir.Operation) -> bool:
    """Return whether the filter is cheaper to transpose than image and result, and output channels fill vectors."""
    image, kernel, _ = (operand.type for operand in operation.operands)
    result = operation.results[0].type
    if not all(kind.has_static_shape for kind in (image, kernel, result)) or 0 in (*image.shape, *kernel.shape):
        return False
    is_few = FILTER * prod(kernel.shape) < prod(image.shape) + prod(result.shape)
    return is_few and kernel.shape[0] >= MIN_CHANNELS and image.element_type == result.element_type


def _channels_last_image(operation: ir.Operation) -> ir.Value | None:
    """Return the channels-last image of which the operand is a transpose, perhaps padded; None where it is not."""
    value = operation.operands[0]
    pad = defined_by(value, "tensor.pad")
    if pad is not None:
        if len(pad.operands) != 1 or _pad_constant(pad) is None:
            return None
        value = pad.operands[0]
    moved = definition(value)
    transpose = None if moved is None else _transpose_of(moved)
    return transpose[0] if transpose is not None and transpose[1] == _to_channels_first(value.type.rank) else None


def _is_transposed_later(value: ir.Value) -> bool:
    """Return whether a result is only used elementwise and then transposed to channels last."""
    for _ in range(MAX_OPERATIONS_BETWEEN):
        uses = list(value.uses)
        if len(uses) != 1:
            return False
        user = uses[0].owner.operation
        moved = _transpose_of(user)
        if moved is not None and moved[1] != sorted(moved[1]):
            return moved[1] == _to_channels_last(value.type.rank)
        if not _is_elementwise(user, uses[0].operand_number):
            return False
        value = user.results[0]
    return False


def _is_parallel(operation: ir.Operation) -> bool:
    if operation.name != "linalg.generic" or len(operation.results) != 1:
        return False
    return "reduction" not in iterators_of(operation)


def _is_elementwise(operation: ir.Operation, operand_number: int) -> bool:
    """Return whether a result is elementwise in this operand, without a broadcast or transpose."""
    if not _is_parallel(operation):
        return False
    maps = maps_of(operation)
    identity = ir.AffineMap.get_identity(operation.results[0].type.rank)
    return operand_number < len(maps) - 1 and maps[operand_number] == maps[-1] == identity


def _transpose_of(operation: ir.Operation) -> tuple[ir.Value, list[int]] | None:
    """Return the operand of a transpose and its permutation; None for any other operation."""
    if operation.name == "linalg.transpose":
        return operation.operands[0], list(ir.DenseI64ArrayAttr(operation.attributes["permutation"]))
    if not _is_parallel(operation) or len(operation.operands) != 2:
        return None
    [block] = operation.regions[0].blocks
    read, written = maps_of(operation)
    is_plain = len(list(block.operations)) == 1 and block.operations[0].operands[0] == block.arguments[0]
    if not is_plain or written != ir.AffineMap.get_identity(read.n_dims) or not read.is_permutation:
        return None
    positions = [ir.AffineDimExpr(expression).position for expression in read.results]
    return operation.operands[0], [positions.index(axis) for axis in range(len(positions))]


def _pad_constant(pad: ir.Operation) -> ir.Attribute | None:
    """Return the constant that a pad inserts; None where it is computed."""
    *_, terminator = pad.regions[0].blocks[0].operations
    constant = defined_by(terminator.operands[0], "arith.constant")
    return None if constant is None else constant.attributes["value"]


def _channels_last(operation: ir.Operation, image: ir.Value) -> ir.Value:
    kind = operation.results[0].type
    rank, element = kind.rank, kind.element_type
    image = _padded(defined_by(operation.operands[0], "tensor.pad"), image)
    kernel = _transposed(operation.operands[1], [*range(2, rank), 1, 0])
    shape = [kind.shape[axis] for axis in _to_channels_last(rank)]
    zeros = linalg_fill(zero(element), tensor.empty(shape, element))
    attributes = {name: operation.attributes[name] for name in ("strides", "dilations") if name in operation.attributes}
    convolved = getattr(linalg, CONVOLUTIONS[operation.name])(image, kernel, outs=[zeros], **attributes)
    return _transposed(convolved, _to_channels_first(rank))


def _padded(pad: ir.Operation | None, image: ir.Value) -> ir.Value:
    if pad is None:
        return image
    low, high = (static_integers(pad, f"static_{name}") for name in ("low", "high"))
    order = _to_channels_last(image.type.rank)
    kind = pad.results[0].type
    result = ir.RankedTensorType.get([kind.shape[axis] for axis in order], kind.element_type)
    padding = arith.constant(kind.element_type, _pad_constant(pad))
    return padded(image, result, [low[axis] for axis in order], [high[axis] for axis in order], padding)


def _transposed(value: ir.Value, order: Sequence[int]) -> ir.Value:
    kind = value.type
    read = ir.AffineMap.get_permutation([list(order).index(axis) for axis in range(kind.rank)])
    identity = ir.AffineMap.get_identity(kind.rank)
    empty = tensor.empty([kind.shape[axis] for axis in order], kind.element_type)
    [transposed] = generic([value], [empty], [read, identity], ["parallel"] * kind.rank, lambda element, _: [element])
    return transposed
