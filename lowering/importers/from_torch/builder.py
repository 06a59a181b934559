"""Build operations of the torch dialect: constants, casts, tensor types."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlirtri.dialect.bindings.mlir import ir, tensor
from mlirtri.lowering.mlir_common.index_values import sizes_of
from mlirtri.lowering.mlir_common.linalg_builder import generic

DTYPES = {"si8": 1, "si16": 2, "si32": 3, "si64": 4, "f32": 6, "f64": 7}
"""torch's numbers for its dtypes, by MLIR's names. Casts to uint16 and uint64 end torch-mlir's process."""


def tensor_op(name: str, type_: ir.Type, *operands: ir.Value) -> ir.Value:
    """Create ``torch.aten.<name>`` and return its result, of type `type_`."""
    return ir.Operation.create(f"torch.aten.{name}", [type_], operands).result


def integer(number: int) -> ir.Value:
    return _constant("int", ir.IntegerAttr.get(ir.IntegerType.get_signless(64), number))


def number(value: float) -> ir.Value:
    return _constant("float", ir.FloatAttr.get(ir.F64Type.get(), value))


def boolean(condition: bool) -> ir.Value:
    return _constant("bool", ir.IntegerAttr.get(ir.IntegerType.get_signless(1), int(condition)))


def none() -> ir.Value:
    return ir.Operation.create("torch.constant.none", [ir.Type.parse("!torch.none")]).result


def zero(element: str) -> ir.Value:
    value = ir.Attribute.parse(f"dense<0.0> : tensor<{element}>")
    kind = tensor_type([], element)
    return ir.Operation.create("torch.vtensor.literal", [kind], attributes={"value": value}).result


def integers(numbers: Sequence[int]) -> ir.Value:
    """Return a list of ints (`!torch.list<int>`)."""
    elements = [integer(number) for number in numbers]
    return ir.Operation.create("torch.prim.ListConstruct", [ir.Type.parse("!torch.list<int>")], elements).result


def cast(value: ir.Value, element: str) -> ir.Value:
    """Convert `value` to a signed or float element type; return it unchanged if it has that type."""
    if element_of(value) == element:
        return value
    kind = as_type(value.type, element)
    return tensor_op("to.dtype", kind, value, integer(DTYPES[element]), boolean(False), boolean(False), none())


def element_of(value: ir.Value) -> str:
    """Return the element type of a tensor as text."""
    return str(value.type).rpartition("],")[2].removesuffix(">")


def shape_of(value: ir.Value) -> list[int | None]:
    """Return the sizes of a tensor, None for dynamic ones."""
    sizes = str(value.type).partition("[")[2].partition("]")[0]
    return [None if size == "?" else int(size) for size in sizes.split(",") if size]


def static_shape_of(value: ir.Value) -> list[int]:
    return [size for size in shape_of(value) if size is not None]


def as_type(type_: ir.Type, element: str) -> ir.Type:
    """Return the tensor type with other elements."""
    return ir.Type.parse(f"{str(type_).rpartition('],')[0]}],{element}>")


def tensor_type(shape: Sequence[int], element: str) -> ir.Type:
    return ir.Type.parse(f"!torch.vtensor<[{','.join(map(str, shape))}],{element}>")


def bare_type(shape: Sequence[int | None], element: str) -> ir.Type:
    """Return MLIR's builtin tensor type, whose integers are signless."""
    sizes = "".join("?x" if size is None else f"{size}x" for size in shape)
    return ir.Type.parse(f"tensor<{sizes}{element.removeprefix('s').removeprefix('u')}>")


def compute(operation: ir.Operation, make: Callable[..., ir.Value]) -> None:
    """Replace an elementwise operation by a `linalg.generic` whose body `make` builds on builtin scalars."""
    result = operation.results[0]
    shape, element = shape_of(result), element_of(result)
    operands = [
        ir.Operation.create("torch_c.to_builtin_tensor", [bare_type(shape, element_of(operand))], [operand]).result
        for operand in operation.operands
        if str(operand.type).startswith("!torch.vtensor")
    ]
    space = tensor.empty(sizes_of(operands[0]), bare_type(shape, element).element_type)
    maps = [ir.AffineMap.get_identity(len(shape))] * (len(operands) + 1)
    [value] = generic(operands, [space], maps, ["parallel"] * len(shape), lambda *numbers: [make(*numbers[:-1])])
    result.replace_all_uses_with(ir.Operation.create("torch_c.from_builtin_tensor", [result.type], [value]).result)
    operation.erase()


def _constant(kind: str, value: ir.Attribute) -> ir.Value:
    return ir.Operation.create(
        f"torch.constant.{kind}", [ir.Type.parse(f"!torch.{kind}")], attributes={"value": value}
    ).result
