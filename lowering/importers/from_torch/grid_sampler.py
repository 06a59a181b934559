"""Lower `aten.grid_sampler` to gathers: torch-mlir's lowering rounds ties differently, and reads out of bounds.

Takes the operation on images of static sizes, in modes "bilinear" and "nearest", padded with zeros. Refuses others.
"""

from __future__ import annotations

from mlirtri.dialect.bindings.locations import span_of
from mlirtri.dialect.bindings.mlir import ir
from mlirtri.errors import UnsupportedOperationError
from mlirtri.lowering.importers.from_torch.builder import (
    as_type,
    boolean,
    cast,
    element_of,
    integer,
    integers,
    number,
    shape_of,
    tensor_op,
    tensor_type,
    zero,
)

BILINEAR, NEAREST = 0, 1
"""torch's numbers of the modes."""


def sample(operation: ir.Operation) -> None:
    """Replace `operation`; raises `UnsupportedOperationError`."""
    mode, padding, aligned = (_number(operand) for operand in list(operation.operands)[2:])
    sizes = shape_of(operation.operands[0]), shape_of(operation.operands[1])
    is_static = None not in (*sizes[0], *sizes[1]) and aligned is not None
    if mode not in (BILINEAR, NEAREST) or padding != 0 or not is_static or len(sizes[0]) != 4:
        raise UnsupportedOperationError(
            "no lowering of aten.grid_sampler in this mode",
            span_of(operation.location),
            help='use mode="bilinear" or "nearest", padding by zeros, and images of sizes known when it is compiled',
        )
    image, grid = operation.operands[0], operation.operands[1]
    result = (_nearest if mode == NEAREST else _bilinear)(image, grid, bool(aligned))
    operation.results[0].replace_all_uses_with(result)
    operation.erase()


def _number(value: ir.Value) -> int | None:
    producer = value.owner
    if isinstance(producer, ir.Block) or not producer.operation.name.startswith("torch.constant."):
        return None
    return int(ir.IntegerAttr(producer.attributes["value"]).value)


Coordinate = ir.Value
"""A float per sampled point: where it is along one axis of the image."""


def _nearest(image: ir.Value, grid: ir.Value, aligned: bool) -> ir.Value:
    height, width = shape_of(image)[2:]
    x, y = _coordinate(grid, 0, width, aligned), _coordinate(grid, 1, height, aligned)
    return _read(image, tensor_op("round", x.type, x), tensor_op("round", y.type, y))


def _bilinear(image: ir.Value, grid: ir.Value, aligned: bool) -> ir.Value:
    height, width = shape_of(image)[2:]
    corners = [_corners(_coordinate(grid, position, size, aligned)) for position, size in ((0, width), (1, height))]
    total = None
    for x, x_weight in corners[0]:
        for y, y_weight in corners[1]:
            value = _read(image, x, y)
            weight = _over_channels(tensor_op("mul.Tensor", x_weight.type, x_weight, y_weight))
            part = tensor_op("mul.Tensor", value.type, value, weight)
            total = part if total is None else tensor_op("add.Tensor", value.type, total, part, integer(1))
    return total


def _corners(position: Coordinate) -> list[tuple[Coordinate, ir.Value]]:
    """Return the integral coordinates on both sides, with their weights."""
    low = tensor_op("floor", position.type, position)
    high = tensor_op("add.Scalar", position.type, low, number(1.0), integer(1))
    above = tensor_op("sub.Tensor", position.type, position, low, integer(1))
    below = tensor_op("sub.Tensor", position.type, high, position, integer(1))
    return [(low, below), (high, above)]


def _coordinate(grid: ir.Value, position: int, size: int, aligned: bool) -> Coordinate:
    """Return coordinate `position` of the grid, in [-1, 1], as a position along an axis of this size."""
    element, shape = element_of(grid), shape_of(grid)[:3]
    kind, part = tensor_type(shape, element), tensor_type([*shape, 1], element)
    value = tensor_op("slice.Tensor", part, grid, integer(3), integer(position), integer(position + 1), integer(1))
    value = tensor_op("view", kind, value, integers(shape))
    value = tensor_op("add.Scalar", kind, value, number(1.0), integer(1))
    if aligned:
        return tensor_op("mul.Scalar", kind, value, number((size - 1) / 2))
    value = tensor_op("mul.Scalar", kind, value, number(float(size)))
    value = tensor_op("add.Scalar", kind, value, number(-1.0), integer(1))
    return tensor_op("mul.Scalar", kind, value, number(0.5))


def _read(image: ir.Value, x: Coordinate, y: Coordinate) -> ir.Value:
    """Gather the image at these integral coordinates, zeros outside."""
    batch, channels, height, width = shape_of(image)
    rows, columns = shape_of(x)[1:3]
    element = element_of(image)
    (column, column_is_inside), (row, row_is_inside) = _clamped(x, width), _clamped(y, height)
    index = tensor_op("mul.Scalar", row.type, row, integer(width))
    index = tensor_op("add.Tensor", row.type, index, column, integer(1))
    index = tensor_op(
        "view", tensor_type([batch, 1, rows * columns], "si64"), index, integers([batch, 1, rows * columns])
    )
    result_shape, image_shape = [batch, channels, rows * columns], [batch, channels, height * width]
    index = tensor_op("broadcast_to", tensor_type(result_shape, "si64"), index, integers(result_shape))
    lines = tensor_op("view", tensor_type(image_shape, element), image, integers(image_shape))
    result = tensor_op("gather", tensor_type(result_shape, element), lines, integer(2), index, boolean(False))
    shape = [batch, channels, rows, columns]
    result = tensor_op("view", tensor_type(shape, element), result, integers(shape))
    both = _over_channels(tensor_op("logical_and", column_is_inside.type, column_is_inside, row_is_inside))
    return tensor_op("where.self", result.type, both, result, zero(element))


def _clamped(position: Coordinate, size: int) -> tuple[ir.Value, ir.Value]:
    """Return the coordinate as an integer, 0 outside the axis, and whether it is inside."""
    condition = as_type(position.type, "i1")
    not_below = tensor_op("ge.Scalar", condition, position, number(0.0))
    is_inside = tensor_op(
        "logical_and", condition, not_below, tensor_op("lt.Scalar", condition, position, number(float(size)))
    )
    return cast(
        tensor_op("where.self", position.type, is_inside, position, zero(element_of(position))), "si64"
    ), is_inside


def _over_channels(value: ir.Value) -> ir.Value:
    """Insert an axis of size 1 for the channels."""
    batch, rows, columns = shape_of(value)
    shape = [batch, 1, rows, columns]
    return tensor_op("view", tensor_type(shape, element_of(value)), value, integers(shape))
