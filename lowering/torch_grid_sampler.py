"""`aten.grid_sampler` at the nearest point as a gather: coordinates rounded half to even, zeros outside.

Takes the operation, on static sizes, with padding by zeros. The other modes stay what they are.
"""

from __future__ import annotations

from mlirtri.dialect.locations import span_of
from mlirtri.dialect.mlir import ir
from mlirtri.errors import UnsupportedOperationError
from mlirtri.lowering.torch_builder import (
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

NEAREST = 1
"""torch's number of the mode."""


def sample_nearest(operation: ir.Operation) -> None:
    """Replace `operation` where its mode is the nearest point; raises `UnsupportedOperationError`."""
    mode, padding, aligned = (_number(each) for each in list(operation.operands)[2:])
    if mode != NEAREST:
        return
    sizes = shape_of(operation.operands[0]), shape_of(operation.operands[1])
    if padding != 0 or aligned is None or None in (*sizes[0], *sizes[1]) or len(sizes[0]) != 4:
        raise UnsupportedOperationError(
            "torch-mlir samples a grid at another point than the nearest where two are as near",
            span_of(operation.location),
            help='use mode="bilinear", or padding by zeros and sizes known when it is compiled',
        )
    result = _sampled(operation.operands[0], operation.operands[1], bool(aligned))
    operation.results[0].replace_all_uses_with(result)
    operation.erase()


def _number(value: ir.Value) -> int | None:
    maker = value.owner
    if isinstance(maker, ir.Block) or not maker.operation.name.startswith("torch.constant."):
        return None
    return int(ir.IntegerAttr(maker.attributes["value"]).value)


def _sampled(image: ir.Value, grid: ir.Value, aligned: bool) -> ir.Value:
    batch, channels, height, width = shape_of(image)
    rows, columns = shape_of(grid)[1:3]
    flat = tensor_type([batch, 1, rows * columns], "si64")
    (x, x_inside), (y, y_inside) = (_axis(grid, at, size, aligned) for at, size in ((0, width), (1, height)))
    place = tensor_op("mul.Scalar", y.type, y, integer(width))
    place = tensor_op("add.Tensor", y.type, place, x, integer(1))
    place = tensor_op("view", flat, place, integers([batch, 1, rows * columns]))
    wanted = [batch, channels, rows * columns]
    place = tensor_op("broadcast_to", tensor_type(wanted, "si64"), place, integers(wanted))
    element = element_of(image)
    held = [batch, channels, height * width]
    lines = tensor_op("view", tensor_type(held, element), image, integers(held))
    found = tensor_op("gather", tensor_type(wanted, element), lines, integer(2), place, boolean(False))
    shape = [batch, channels, rows, columns]
    found = tensor_op("view", tensor_type(shape, element), found, integers(shape))
    inside = tensor_op("logical_and", x_inside.type, x_inside, y_inside)
    shape[1] = 1
    inside = tensor_op("view", tensor_type(shape, "i1"), inside, integers(shape))
    return tensor_op("where.self", found.type, inside, found, zero(element))


def _axis(grid: ir.Value, at: int, size: int, aligned: bool) -> tuple[ir.Value, ir.Value]:
    """Which place of an axis the grid says, kept inside, and whether it was."""
    element = element_of(grid)
    shape = shape_of(grid)[:3]
    kind = tensor_type(shape, element)
    part = tensor_type([*shape, 1], element)
    value = tensor_op("slice.Tensor", part, grid, integer(3), integer(at), integer(at + 1), integer(1))
    value = tensor_op("view", kind, value, integers(shape))
    value = tensor_op("add.Scalar", kind, value, number(1.0), integer(1))
    if aligned:
        value = tensor_op("mul.Scalar", kind, value, number((size - 1) / 2))
    else:
        value = tensor_op("mul.Scalar", kind, value, number(float(size)))
        value = tensor_op("sub.Scalar", kind, value, number(1.0), integer(1))
        value = tensor_op("mul.Scalar", kind, value, number(0.5))
    value = tensor_op("round", kind, value)
    truth = as_type(kind, "i1")
    not_below = tensor_op("ge.Scalar", truth, value, number(0.0))
    inside = tensor_op("logical_and", truth, not_below, tensor_op("lt.Scalar", truth, value, number(float(size))))
    kept = tensor_op("where.self", kind, inside, value, zero(element))
    return cast(kept, "si64"), inside
