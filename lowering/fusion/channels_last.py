"""Turns convolutions between two transposes round: of images with channels innermost, results are so at once.

Takes and gives a module of linalg on tensors, in place; shapes are known. The filter is turned round in place of the
image and the result, if it is the smaller one. What is elementwise between convolution and transpose stays as it is::

    %x = transpose %image; %p = pad %x; %y = linalg.conv_2d_nchw_fchw %p, %w; %r = transpose (relu %y)
        ──►   %p = pad %image; %y = linalg.conv_2d_nhwc_hwcf %p, transpose %w; %r = transpose (relu (transpose %y))
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from mlirtri.dialect.bindings.mlir import arith, ir, linalg, operations_named, tensor
from mlirtri.lowering.mlir.linalg_builder import generic, is_zeros, made_by

CONVOLUTIONS = {
    "linalg.conv_1d_ncw_fcw": linalg.conv_1d_nwc_wcf,
    "linalg.conv_2d_nchw_fchw": linalg.conv_2d_nhwc_hwcf,
    "linalg.conv_3d_ncdhw_fcdhw": linalg.conv_3d_ndhwc_dhwcf,
}
FILTER = 3
"""Turning an element of the filter round costs so much more than one of an image: its window is innermost."""
FEW_CHANNELS = 8
"""Fewer channels of the result do not fill vectors."""
MOST_BETWEEN = 8
"""Elementwise operations that are looked through."""


def rewrite(module: ir.Module) -> None:
    """Rewrite all convolutions of `module` between two such transposes."""
    for name in CONVOLUTIONS:
        for operation in operations_named(module, name):
            image = _image_of(operation)
            if image is None or not _is_smaller(operation) or not is_zeros(operation.operands[2]):
                continue
            if _becomes_innermost(operation.results[0]):
                with operation.location, ir.InsertionPoint(operation):
                    operation.results[0].replace_all_uses_with(_turned(operation, image))


def _innermost(rank: int) -> list[int]:
    """Images, places, channels, out of images, channels, places."""
    return [0, *range(2, rank), 1]


def _outermost(rank: int) -> list[int]:
    return [0, rank - 1, *range(1, rank - 1)]


def _is_smaller(operation: ir.Operation) -> bool:
    """Whether the filter is, next to the image and the result, and there are channels for vectors."""
    image, kernel, _ = (operand.type for operand in operation.operands)
    result = operation.results[0].type
    if not all(kind.has_static_shape for kind in (image, kernel, result)) or 0 in (*image.shape, *kernel.shape):
        return False
    is_few = FILTER * prod(kernel.shape) < prod(image.shape) + prod(result.shape)
    return is_few and kernel.shape[0] >= FEW_CHANNELS and image.element_type == result.element_type


def _image_of(operation: ir.Operation) -> ir.Value | None:
    """The image before its channels were moved; None where they were not."""
    value = operation.operands[0]
    pad = made_by(value, "tensor.pad")
    if pad is not None:
        if len(pad.operands) != 1 or _around(pad) is None:
            return None
        value = pad.operands[0]
    owner = value.owner
    transpose = None if isinstance(owner, ir.Block) else _moved(owner.operation)
    return transpose[0] if transpose is not None and transpose[1] == _outermost(value.type.rank) else None


def _becomes_innermost(value: ir.Value) -> bool:
    """Whether all that becomes of a result is elementwise, and then moved."""
    for _ in range(MOST_BETWEEN):
        uses = list(value.uses)
        if len(uses) != 1:
            return False
        user = uses[0].owner.operation
        moved = _moved(user)
        if moved is not None and moved[1] != sorted(moved[1]):
            return moved[1] == _innermost(value.type.rank)
        if not _is_elementwise(user, uses[0].operand_number):
            return False
        value = user.results[0]
    return False


def _maps(operation: ir.Operation) -> list[ir.AffineMap]:
    return [ir.AffineMapAttr(attribute).value for attribute in ir.ArrayAttr(operation.attributes["indexing_maps"])]


def _is_parallel(operation: ir.Operation) -> bool:
    if operation.name != "linalg.generic" or len(operation.results) != 1:
        return False
    kinds = ir.ArrayAttr(operation.attributes["iterator_types"])
    return all("parallel" in str(kind) for kind in kinds)


def _is_elementwise(operation: ir.Operation, operand_number: int) -> bool:
    """Whether each element of the result is made of the one at its place in operand number `at`."""
    if not _is_parallel(operation):
        return False
    maps = _maps(operation)
    identity = ir.AffineMap.get_identity(operation.results[0].type.rank)
    return operand_number < len(maps) - 1 and maps[operand_number] == maps[-1] == identity


def _moved(operation: ir.Operation) -> tuple[ir.Value, list[int]] | None:
    """What a transpose reads, and which of its axes each axis of the result is."""
    if operation.name == "linalg.transpose":
        return operation.operands[0], list(ir.DenseI64ArrayAttr(operation.attributes["permutation"]))
    if not _is_parallel(operation) or len(operation.operands) != 2:
        return None
    [block] = operation.regions[0].blocks
    read, written = _maps(operation)
    is_plain = len(list(block.operations)) == 1 and block.operations[0].operands[0] == block.arguments[0]
    if not is_plain or written != ir.AffineMap.get_identity(read.n_dims) or not read.is_permutation:
        return None
    positions = [ir.AffineDimExpr(expression).position for expression in read.results]
    return operation.operands[0], [positions.index(axis) for axis in range(len(positions))]


def _around(pad: ir.Operation) -> ir.Attribute | None:
    """The number that a pad puts around an image."""
    *_, terminator = pad.regions[0].blocks[0].operations
    constant = made_by(terminator.operands[0], "arith.constant")
    return None if constant is None else constant.attributes["value"]


def _turned(operation: ir.Operation, image: ir.Value) -> ir.Value:
    """The convolution of the image as it was, and its result moved as it has to be."""
    kind = operation.results[0].type
    rank, element = kind.rank, kind.element_type
    image = _padded(made_by(operation.operands[0], "tensor.pad"), image)
    kernel = _transposed(operation.operands[1], [*range(2, rank), 1, 0])
    is_float = isinstance(element, ir.FloatType)
    zero = arith.constant(element, ir.FloatAttr.get(element, 0.0) if is_float else ir.IntegerAttr.get(element, 0))
    zeros = linalg.fill(zero, outs=[tensor.empty([kind.shape[axis] for axis in _innermost(rank)], element)])
    numbers = {name: operation.attributes[name] for name in ("strides", "dilations") if name in operation.attributes}
    convolved = CONVOLUTIONS[operation.name](image, kernel, outs=[zeros], **numbers)
    return _transposed(convolved, _outermost(rank))


def _padded(pad: ir.Operation | None, image: ir.Value) -> ir.Value:
    if pad is None:
        return image
    low, high = (list(ir.DenseI64ArrayAttr(pad.attributes[f"static_{name}"])) for name in ("low", "high"))
    order = _innermost(image.type.rank)
    kind = pad.results[0].type
    whole = ir.RankedTensorType.get([kind.shape[axis] for axis in order], kind.element_type)
    number = arith.constant(kind.element_type, _around(pad))
    padded = tensor.PadOp(whole, image, [], [], [low[axis] for axis in order], [high[axis] for axis in order])
    here = ir.Location.current
    block = padded.regions[0].blocks.append(*[ir.IndexType.get()] * len(order), arg_locs=[here] * len(order))
    with ir.InsertionPoint(block):
        tensor.YieldOp(number)
    return padded.result


def _transposed(value: ir.Value, order: Sequence[int]) -> ir.Value:
    """`value`, of which axis `order[i]` becomes axis i."""
    kind = value.type
    read = ir.AffineMap.get_permutation([list(order).index(axis) for axis in range(kind.rank)])
    whole = ir.AffineMap.get_identity(kind.rank)
    empty = tensor.empty([kind.shape[axis] for axis in order], kind.element_type)
    [transposed] = generic([value], [empty], [read, whole], ["parallel"] * kind.rank, lambda element, _: [element])
    return transposed
