"""Quantised types of StableHLO → integers of their storage type, and floats of their expressed type to compute in.

    %2 = stablehlo.add %0, %1 : tensor<4x!quant.uniform<i8:f32, 0.5:-3>>

becomes the sum of the dequantised operands, quantised again; an operation that only moves elements moves integers.
The formulas are those of StableHLO's specification, "Quantized operations" (`dequantize`, `quantize`):

    dequantize(q) = convert(q - zero_point) * scale
    quantize(x)   = convert(round_nearest_even(clamp(storage_min, x / scale + zero_point, storage_max)))

Storage types of fewer than 8 bits are stored in 8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from mlirtri.dialect.bindings.mlir import all_operations, ir, public_functions, quant
from mlirtri.lowering.core.untranslatable import refuse
from mlirtri.lowering.mlir_common.attributes import argument_attributes, result_attributes, set_signature
from mlirtri.lowering.mlir_common.cloning import replace

MOVES = frozenset(
    f"stablehlo.{name}"
    for name in (
        "bitcast_convert", "broadcast_in_dim", "concatenate", "dynamic_broadcast_in_dim", "dynamic_gather",
        "dynamic_pad", "dynamic_reshape", "dynamic_slice", "dynamic_update_slice", "gather", "optimization_barrier",
        "pad", "real_dynamic_slice", "reshape", "reverse", "select", "slice", "transpose",
    )
)  # fmt: skip
"""Operations that compute no element: where operands and results are of one type, integers do."""
STRUCTURAL = frozenset(
    f"stablehlo.{name}"
    for name in (
        "case", "get_dimension_size", "if", "map", "reduce", "reduce_window", "return", "scatter",
        "select_and_scatter", "sort", "while",
    )
) | {"func.return", "func.func", "builtin.module"}  # fmt: skip
"""Operations that leave the arithmetic to their regions."""
MANTISSA = {"bf16": 8, "f16": 11, "f32": 24, "f64": 53}
"""Significant bits of the types that can be expressed."""
LARGEST_F16 = 65504
NARROWEST = 8
SUBTRACTED = 32
"""Bits in which the zero point is subtracted from narrower integers."""


@dataclass(frozen=True)
class _Quantization:
    """The element type of a quantised tensor; per-tensor types have one scale and no axis."""

    signed: bool
    bits: int
    limits: tuple[int, int]
    expressed: str
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int | None

    @property
    def storage(self) -> ir.IntegerType:
        bits = max(self.bits, NARROWEST)
        return ir.IntegerType.get_signless(bits) if self.signed else ir.IntegerType.get_unsigned(bits)

    def is_same(self, other: _Quantization) -> bool:
        """Return whether equal integers are equal numbers; a transposition changes the axis."""
        mine, others = (
            (kind.signed, kind.bits, kind.limits, kind.expressed, kind.scales, kind.zero_points)
            for kind in (self, other)
        )
        return mine == others


def _quantization(type_: ir.Type) -> _Quantization | None:
    """Return what a tensor's type says, or None for another type."""
    if not isinstance(type_, ir.RankedTensorType) or not isinstance(type_.element_type, quant.QuantizedType):
        return None
    element = type_.element_type
    if isinstance(element, quant.UniformQuantizedType):
        scales, zero_points, axis = [element.scale], [element.zero_point], None
    else:
        scales, zero_points, axis = element.scales, element.zero_points, element.quantized_dimension
    return _Quantization(
        element.is_signed,
        element.storage_type_integral_width,
        (element.storage_type_min, element.storage_type_max),
        str(element.expressed_type),
        tuple(scales),
        tuple(zero_points),
        axis,
    )


@dataclass(frozen=True)
class _Plan:
    operation: ir.Operation
    operands: tuple[_Quantization | None, ...]
    results: tuple[_Quantization | None, ...]

    @property
    def all(self) -> list[_Quantization]:
        return [quantized for quantized in (*self.operands, *self.results) if quantized is not None]


def rewrite(module: ir.Module) -> None:
    """Compute with floats and store integers, in place; raises `UnsupportedOperationError` for other types."""
    operations = all_operations(module)
    if not any(_is_quantized(kind) for operation in operations for kind in _types(operation)):
        return
    refuse(_not_uniform(operations), "linalg", "one scale per tensor or per slice of an axis, expressed as a float")
    plans = [_plan(operation) for operation in operations]
    refuse(_mixed(plans), "linalg", "give all values of the region the type of the operands")
    plans = [plan for plan in plans if plan.all]
    for operation in operations:
        _store_integers(operation)
    for plan in plans:
        if not _is_stored(plan):
            with plan.operation.location, ir.InsertionPoint(plan.operation):
                replace(plan.operation, _computed(plan))
    for function in public_functions(module):
        set_signature(function, argument_attributes(function), result_attributes(function))


def _types(operation: ir.Operation) -> Iterator[ir.Type]:
    yield from (result.type for result in operation.results)
    for region in operation.regions:
        for block in region.blocks:
            yield from (argument.type for argument in block.arguments)


def _is_quantized(type_: ir.Type) -> bool:
    return isinstance(type_, ir.ShapedType) and isinstance(type_.element_type, quant.QuantizedType)


def _not_uniform(operations: Sequence[ir.Operation]) -> Iterator[tuple[ir.Operation, str]]:
    uniform = (quant.UniformQuantizedType, quant.UniformQuantizedPerAxisType)
    for operation in operations:
        for kind in filter(_is_quantized, _types(operation)):
            element = kind.element_type
            if not isinstance(element, uniform) or str(element.expressed_type) not in MANTISSA:
                yield operation, f"elements of {element}"


def _mixed(plans: Sequence[_Plan]) -> Iterator[tuple[ir.Operation, str]]:
    """Yield operations with regions that compute in another quantised type than that of their operands."""
    for plan in plans:
        if plan.operation.name not in STRUCTURAL or not plan.operands:
            continue
        arguments = [_quantization(kind) for kind in _types(plan.operation)]
        inside = [quantized for quantized in arguments if quantized is not None]
        known = [quantized for quantized in plan.operands if quantized is not None]
        if any(not any(quantized.is_same(other) for other in known) for quantized in inside):
            yield plan.operation, f"{plan.operation.name} with other quantised types in its region"


def _plan(operation: ir.Operation) -> _Plan:
    operands = tuple(_quantization(value.type) for value in operation.operands)
    return _Plan(operation, operands, tuple(_quantization(value.type) for value in operation.results))


def _store_integers(operation: ir.Operation) -> None:
    values = [*operation.results]
    for region in operation.regions:
        values += [argument for block in region.blocks for argument in block.arguments]
    for value in values:
        if (of := _quantization(value.type)) is not None:
            value.set_type(ir.RankedTensorType.get(list(value.type.shape), of.storage))


def _is_stored(plan: _Plan) -> bool:
    if plan.operation.name in STRUCTURAL:
        return True
    return plan.operation.name in MOVES and all(quantized.is_same(plan.all[0]) for quantized in plan.all)


def _computed(plan: _Plan) -> list[ir.Value]:
    operation = plan.operation
    if operation.name == "stablehlo.constant":
        return [_constant(operation, plan.results[0])]
    pairs = zip(operation.operands, plan.operands, strict=True)
    operands = [value if of is None else _dequantize(value, of) for value, of in pairs]
    if operation.name in ("stablehlo.uniform_quantize", "stablehlo.uniform_dequantize"):
        values = operands
    else:
        values = _in_floats(plan, operands)
    return [value if of is None else _quantize(value, of) for value, of in zip(values, plan.results, strict=True)]


def _in_floats(plan: _Plan, operands: list[ir.Value]) -> list[ir.Value]:
    operation = plan.operation
    attributes = {name: operation.attributes[name] for name in operation.attributes.keys()}
    if operation.name == "stablehlo.compare":
        attributes["compare_type"] = ir.Attribute.parse("#stablehlo<comparison_type FLOAT>")
    types = [
        result.type if of is None else _with_elements(result.type, _float(of))
        for result, of in zip(operation.results, plan.results, strict=True)
    ]
    return list(ir.Operation.create(operation.name, types, operands, attributes).results)


def _constant(operation: ir.Operation, of: _Quantization | None) -> ir.Value:
    """Return a constant of the storage type; the attribute has as many bits as the quantised type."""
    assert of is not None
    value = operation.attributes["value"]
    stored = ir.Operation.create("stablehlo.constant", [value.type], [], {"value": value}).result
    if not of.signed and value.type.element_type.is_signless:
        stored = _unary("bitcast_convert", stored, ir.IntegerType.get_unsigned(of.bits))
    return stored if stored.type.element_type == of.storage else _unary("convert", stored, of.storage)


def _dequantize(stored: ir.Value, of: _Quantization) -> ir.Value:
    if any(of.zero_points):
        wide = ir.IntegerType.get_signless(SUBTRACTED if of.bits < SUBTRACTED else 2 * SUBTRACTED)
        stored = _unary("convert", stored, wide)
        stored = _binary("subtract", stored, _along_axis(of, of.zero_points, stored))
    number = _unary("convert", stored, _float(of))
    return _binary("multiply", number, _along_axis(of, of.scales, number))


def _quantize(number: ir.Value, of: _Quantization) -> ir.Value:
    number = _binary("divide", number, _along_axis(of, of.scales, number))
    if any(of.zero_points):
        number = _binary("add", number, _along_axis(of, of.zero_points, number))
    low, high = (_splat(_representable(limit, of.expressed), number.type.element_type) for limit in of.limits)
    number = ir.Operation.create("stablehlo.clamp", [number.type], [low, number, high]).result
    return _unary("convert", _unary("round_nearest_even", number, number.type.element_type), of.storage)


def _representable(limit: int, expressed: str) -> int:
    """Return the float nearest to the integer on the side of 0, so that its conversion stays in bounds."""
    excess = max(abs(limit).bit_length() - MANTISSA[expressed], 0)
    magnitude = abs(limit) >> excess << excess
    magnitude = min(magnitude, LARGEST_F16) if expressed == "f16" else magnitude
    return -magnitude if limit < 0 else magnitude


def _along_axis(of: _Quantization, numbers: Sequence[float], like: ir.Value) -> ir.Value:
    """Return the number, or the numbers along the axis, in the shape and the element type of `like`."""
    element = like.type.element_type
    if of.axis is None:
        return _broadcast(_splat(numbers[0], element), like, [])
    attributes = [_number(number, element) for number in numbers]
    kind = ir.RankedTensorType.get([len(numbers)], element)
    value = ir.DenseElementsAttr.get(attributes, kind)
    constant = ir.Operation.create("stablehlo.constant", [kind], [], {"value": value}).result
    return _broadcast(constant, like, [of.axis])


def _number(number: float, element: ir.Type) -> ir.Attribute:
    return (ir.IntegerAttr if isinstance(element, ir.IntegerType) else ir.FloatAttr).get(element, number)


def _splat(number: float, element: ir.Type) -> ir.Value:
    kind = ir.RankedTensorType.get([], element)
    value = ir.DenseElementsAttr.get_splat(kind, _number(number, element))
    return ir.Operation.create("stablehlo.constant", [kind], [], {"value": value}).result


def _broadcast(value: ir.Value, like: ir.Value, axes: list[int]) -> ir.Value:
    kind = ir.RankedTensorType(like.type)
    dimensions = {"broadcast_dimensions": ir.DenseI64ArrayAttr.get(axes)}
    if kind.has_static_shape:
        return ir.Operation.create("stablehlo.broadcast_in_dim", [kind], [value], dimensions).result
    return ir.Operation.create("stablehlo.dynamic_broadcast_in_dim", [kind], [value, _shape(like)], dimensions).result


def _shape(value: ir.Value) -> ir.Value:
    integer = ir.IntegerType.get_signless(32)
    sizes = []
    for axis in range(value.type.rank):
        dimension = {"dimension": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), axis)}
        kind = ir.RankedTensorType.get([], integer)
        size = ir.Operation.create("stablehlo.get_dimension_size", [kind], [value], dimension).result
        sizes.append(ir.Operation.create("stablehlo.reshape", [ir.RankedTensorType.get([1], integer)], [size]).result)
    along = {"dimension": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 0)}
    kind = ir.RankedTensorType.get([len(sizes)], integer)
    return ir.Operation.create("stablehlo.concatenate", [kind], sizes, along).result


def _binary(name: str, left: ir.Value, right: ir.Value) -> ir.Value:
    return ir.Operation.create(f"stablehlo.{name}", [left.type], [left, right]).result


def _unary(name: str, value: ir.Value, element: ir.Type) -> ir.Value:
    return ir.Operation.create(f"stablehlo.{name}", [_with_elements(value.type, element)], [value]).result


def _with_elements(type_: ir.Type, element: ir.Type) -> ir.RankedTensorType:
    return ir.RankedTensorType.get(list(ir.RankedTensorType(type_).shape), element)


_FLOATS: dict[str, Callable[[], ir.Type]] = {
    "bf16": lambda: ir.BF16Type.get(), "f16": lambda: ir.F16Type.get(), "f32": lambda: ir.F32Type.get(),
    "f64": lambda: ir.F64Type.get(),
}  # fmt: skip


def _float(of: _Quantization) -> ir.Type:
    return _FLOATS[of.expressed]()
