"""Rewrite loops and operators that torch-mlir lowers incorrectly or not at all, before its lowering to linalg:

- loops with the largest int64 as their trip count, which means none, as `scf.while`;
- a sum of floats with an inferred integer result, which would be rounded, as a float;
- batched products of quantised tensors, whose zero points are dropped, as products of integers;
- tensors quantised by channel, whose integers are all taken as signed, as floats;
- grid samples of static sizes, in modes "bilinear" and "nearest" padded with zeros, as gathers; others are refused;
- powers of integers; `relu`, which keeps -0.0;
- elementary functions of complex numbers, which have no lowering, by the scalar rules of kernels;
- bit casts to a dtype of the same width, which have no lowering.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from mlirtri.dialect.base.dtypes import DType, find_dtype
from mlirtri.dialect.bindings.locations import span_of
from mlirtri.dialect.bindings.mlir import all_operations, arith, ir, operations_named, scf
from mlirtri.dialect.scalar.algebra import Scalar
from mlirtri.dialect.scalar.complex_functions import RULES as COMPLEX
from mlirtri.dialect.scalar.functions import RULES
from mlirtri.errors import UnsupportedOperationError
from mlirtri.lowering.importers.from_torch.builder import (
    as_type,
    bare_type,
    boolean,
    cast,
    compute,
    element_of,
    integer,
    integers,
    number,
    shape_of,
    static_shape_of,
    tensor_op,
    tensor_type,
    zero,
)
from mlirtri.lowering.mlir_common.cloning import replace
from mlirtri.lowering.mlir_common.constants import array_constant

ENDLESS = 2**63 - 1
LOOP, LITERAL = "torch.prim.Loop", "torch.vtensor.literal"
_NUMBERS = {"!torch.int": "i64", "!torch.float": "f64", "!torch.bool": "i1"}
"""torch's numbers, and what they are in MLIR."""


def rewrite_loops(module: ir.Module) -> None:
    """Lower loops without a trip count, whose condition torch-mlir may ignore, to `scf.while`, inner ones first."""
    for loop in reversed(operations_named(module, LOOP)):
        if _has_no_trip_count(loop) and not list(loop.regions[0].blocks[0].arguments[0].uses):
            with loop.location, ir.InsertionPoint(loop):
                _replace_loop(loop)


def _has_no_trip_count(loop: ir.Operation) -> bool:
    count = loop.operands[0].owner
    if isinstance(count, ir.Block) or count.operation.name != "torch.constant.int":
        return False
    return ir.IntegerAttr(count.operation.attributes["value"]).value == ENDLESS


def _replace_loop(loop: ir.Operation) -> None:
    body = loop.regions[0].blocks[0]
    last = body.operations[len(body.operations) - 1].operation
    kinds = [value.type for value in loop.results]
    first = [*map(_bare, list(loop.operands)[2:]), _bare(loop.operands[1])]
    loop_op = scf.WhileOp([value.type for value in first[:-1]], first)
    condition_block = loop_op.before.blocks.append(*[value.type for value in first])
    body_block = loop_op.after.blocks.append(*[value.type for value in first[:-1]])
    with ir.InsertionPoint(condition_block):
        *values, keep_going = condition_block.arguments
        scf.ConditionOp(keep_going, values)
    with ir.InsertionPoint(body_block):
        carried = [_torch(value, kind) for value, kind in zip(body_block.arguments, kinds, strict=True)]
        for old, new in zip(list(body.arguments)[1:], carried, strict=True):
            old.replace_all_uses_with(new)
    for operation in list(body.operations)[:-1]:
        body_block.append(operation.operation)
    with ir.InsertionPoint(body_block):
        condition, *yielded = last.operands
        scf.YieldOp([*map(_bare, yielded), _bare(condition)])
    for old, new, kind in zip(loop.results, loop_op.results, kinds, strict=True):
        old.replace_all_uses_with(_torch(new, kind))
    loop.erase()


def _bare(value: ir.Value) -> ir.Value:
    if (number := _NUMBERS.get(str(value.type))) is not None:
        return ir.Operation.create(f"torch_c.to_{number}", [ir.Type.parse(number)], [value]).result
    bare = bare_type(shape_of(value), element_of(value))
    return ir.Operation.create("torch_c.to_builtin_tensor", [bare], [value]).result


def _torch(value: ir.Value, type_: ir.Type) -> ir.Value:
    source = _NUMBERS.get(str(type_), "builtin_tensor")
    return ir.Operation.create(f"torch_c.from_{source}", [type_], [value]).result


COMPLEX_FUNCTIONS = {f"torch.aten.{name}": COMPLEX[name] for name in (
    "sqrt", "exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "sigmoid", "sin", "cos", "tan", "asin", "acos",
    "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh",
)} | {"torch.aten.pow.Tensor_Tensor": COMPLEX["power"]}  # fmt: skip
"""Scalar rules of complex numbers by elementwise operator."""


def rewrite_complex_functions(module: ir.Module) -> None:
    """Lower elementary functions of complex numbers by the scalar rules of kernels; torch-mlir lowers none of them."""
    for operation in all_operations(module):
        if (rule := COMPLEX_FUNCTIONS.get(operation.name)) is None:
            continue
        dtype = find_dtype(element_of(operation.results[0]))
        if dtype is not None and dtype.is_complex:
            with operation.location, ir.InsertionPoint(operation):
                compute(operation, partial(_by_scalar_rule, rule, dtype))


def _by_scalar_rule(rule: Callable[..., Scalar], dtype: DType, *operands: ir.Value) -> ir.Value:
    return rule(*(Scalar(operand, dtype) for operand in operands)).value


def rewrite_operators(module: ir.Module) -> None:
    """Rewrite the operators of `module` that have a repair; raises `UnsupportedOperationError`."""
    for operation in all_operations(module):
        if (repair := _REPAIRS.get(operation.name)) is not None:
            with operation.location, ir.InsertionPoint(operation):
                repair(operation)


def _sum(operation: ir.Operation) -> None:
    element = element_of(operation.operands[0])
    dtype = operation.operands[len(operation.operands) - 1].owner
    has_dtype = isinstance(dtype, ir.Block) or dtype.operation.name != "torch.constant.none"
    if has_dtype or not element.startswith(("f", "bf")) or element_of(operation.results[0]) == element:
        return
    operation.results[0].set_type(as_type(operation.results[0].type, element))


def _quantised_product(operation: ir.Operation) -> None:
    producers = [operand.owner for operand in operation.operands]
    if any(isinstance(producer, ir.Block) or producer.operation.name != _QUANTISED for producer in producers):
        return
    for position, producer in enumerate(producers):
        operation.operands[position] = _without_zero_point(*list(producer.operands)[0:3:2])


def _dequantised(operation: ir.Operation) -> None:
    """Compute ``(x - zero point) * scale`` with a scale and zero point per index along an axis."""
    producer = operation.operands[0].owner
    if isinstance(producer, ir.Block) or producer.operation.name != "torch.aten._make_per_channel_quantized_tensor":
        return
    value, scale, zero_point, axis = producer.operands
    index = ir.IntegerAttr(axis.owner.attributes["value"]).value
    sizes = [1 for _ in shape_of(value)]
    [sizes[index]] = static_shape_of(scale)
    factors = [
        tensor_op("view", tensor_type(sizes, element_of(operand)), operand, integers(sizes))
        for operand in (scale, zero_point)
    ]
    difference = cast(value, "si32")
    difference = tensor_op("sub.Tensor", difference.type, difference, cast(factors[1], "si32"), integer(1))
    kind = operation.results[0].type
    result = tensor_op("mul.Tensor", kind, cast(difference, element_of(operation.results[0])), factors[0])
    replace(operation, [result])


_QUANTISED = "torch.aten._make_per_tensor_quantized_tensor"


def _without_zero_point(value: ir.Value, zero_point: ir.Value) -> ir.Value:
    wide = cast(value, "si32")
    return tensor_op("sub.Scalar", wide.type, wide, zero_point, integer(1))


def _bitcast(operation: ir.Operation) -> None:
    result = operation.results[0]
    shape, element = shape_of(result), element_of(result)
    if shape != shape_of(operation.operands[0]):
        return
    source, target = (bare_type(shape, operand) for operand in (element_of(operation.operands[0]), element))
    if source == target and _is_filled(operation.operands[0]):
        # Literals of uint16 and uint64 are not valid, and casts of a constant become one.
        element_type = target.element_type
        number = int(array_constant(_elements(operation.operands[0].owner)).flat[0])
        compute(operation, lambda _: arith.constant(element_type, ir.IntegerAttr.get(element_type, number)))
        return
    bits = ir.Operation.create("torch_c.to_builtin_tensor", [source], [operation.operands[0]]).result
    if source != target:
        bits = ir.Operation.create("tensor.bitcast", [target], [bits]).result
    result.replace_all_uses_with(ir.Operation.create("torch_c.from_builtin_tensor", [result.type], [bits]).result)
    operation.erase()


def _is_filled(value: ir.Value) -> bool:
    owner = value.owner
    return not isinstance(owner, ir.Block) and owner.name == LITERAL and _elements(owner).is_splat


def _elements(literal: ir.Operation) -> ir.DenseElementsAttr:
    return ir.DenseElementsAttr(literal.attributes["value"])


def _power(operation: ir.Operation) -> None:
    result = operation.results[0]
    if element_of(result).startswith("si") and len({value.type for value in (*operation.operands, result)}) == 1:
        compute(operation, lambda x, exponent: ir.Operation.create("math.ipowi", [x.type], [x, exponent]).result)


BILINEAR, NEAREST = 0, 1
"""torch's numbers of the modes."""


def _grid_sample(operation: ir.Operation) -> None:
    """Lower to gathers: torch-mlir's lowering rounds ties differently, and reads out of bounds."""
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
    replace(operation, [result])


def _number(value: ir.Value) -> int | None:
    producer = value.owner
    if isinstance(producer, ir.Block) or not producer.operation.name.startswith("torch.constant."):
        return None
    return int(ir.IntegerAttr(producer.attributes["value"]).value)


Coordinate = ir.Value
"""A float per sampled point: where it is along one axis of the image."""


def _nearest(image: ir.Value, grid: ir.Value, aligned: bool) -> ir.Value:
    height, width = static_shape_of(image)[2:]
    x, y = _coordinate(grid, 0, width, aligned), _coordinate(grid, 1, height, aligned)
    return _read(image, tensor_op("round", x.type, x), tensor_op("round", y.type, y))


def _bilinear(image: ir.Value, grid: ir.Value, aligned: bool) -> ir.Value:
    height, width = static_shape_of(image)[2:]
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
    low = tensor_op("floor", position.type, position)
    high = tensor_op("add.Scalar", position.type, low, number(1.0), integer(1))
    above = tensor_op("sub.Tensor", position.type, position, low, integer(1))
    below = tensor_op("sub.Tensor", position.type, high, position, integer(1))
    return [(low, below), (high, above)]


def _coordinate(grid: ir.Value, position: int, size: int, aligned: bool) -> Coordinate:
    """Return coordinate `position` of the grid, in [-1, 1], as a position along an axis of this size."""
    element, shape = element_of(grid), static_shape_of(grid)[:3]
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
    batch, channels, height, width = static_shape_of(image)
    rows, columns = static_shape_of(x)[1:3]
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
    condition = as_type(position.type, "i1")
    not_below = tensor_op("ge.Scalar", condition, position, number(0.0))
    is_inside = tensor_op(
        "logical_and", condition, not_below, tensor_op("lt.Scalar", condition, position, number(float(size)))
    )
    return cast(
        tensor_op("where.self", position.type, is_inside, position, zero(element_of(position))), "si64"
    ), is_inside


def _over_channels(value: ir.Value) -> ir.Value:
    batch, rows, columns = static_shape_of(value)
    shape = [batch, 1, rows, columns]
    return tensor_op("view", tensor_type(shape, element_of(value)), value, integers(shape))


def _relu(operation: ir.Operation) -> None:
    dtype = find_dtype(element_of(operation.results[0]))
    if dtype is not None and dtype.is_float:
        compute(operation, partial(_by_scalar_rule, RULES["relu"], dtype))


_REPAIRS: dict[str, Callable[[ir.Operation], None]] = {
    "torch.aten.relu": _relu,
    "torch.aten.sum": _sum,
    "torch.aten.sum.dim_IntList": _sum,
    "torch.aten.bmm": _quantised_product,
    "torch.aten.dequantize.self": _dequantised,
    "torch.aten.dequantize.tensor": _dequantised,
    "torch.aten.grid_sampler": _grid_sample,
    "torch.aten.view.dtype": _bitcast,
    "torch.aten.pow.Tensor_Tensor": _power,
}
