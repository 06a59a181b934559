"""Small words for building operations of the torch dialect: constants, casts, tensors of other sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlirtri.dialect.bindings.mlir import ir, tensor
from mlirtri.lowering.mlir.index_values import sizes_of
from mlirtri.lowering.mlir.linalg_builder import generic

DTYPES = {"si8": 1, "si16": 2, "si32": 3, "si64": 4, "f32": 6, "f64": 7}
"""torch's numbers for its dtypes, by MLIR's names. Casts to uint16 and uint64 end torch-mlir's process."""


def tensor_op(name: str, kind: ir.Type, *operands: ir.Value) -> ir.Value:
    """The result, of type `kind`, of ``torch.aten.<name>``."""
    return ir.Operation.create(f"torch.aten.{name}", [kind], operands).result


def integer(number: int) -> ir.Value:
    return _constant("int", ir.IntegerAttr.get(ir.IntegerType.get_signless(64), number))


def number(value: float) -> ir.Value:
    return _constant("float", ir.FloatAttr.get(ir.F64Type.get(), value))


def boolean(truth: bool) -> ir.Value:
    return _constant("bool", ir.IntegerAttr.get(ir.IntegerType.get_signless(1), int(truth)))


def none() -> ir.Value:
    return ir.Operation.create("torch.constant.none", [ir.Type.parse("!torch.none")]).result


def zero(element: str) -> ir.Value:
    """A tensor of rank 0 that is 0, of floats."""
    value = ir.Attribute.parse(f"dense<0.0> : tensor<{element}>")
    kind = tensor_type([], element)
    return ir.Operation.create("torch.vtensor.literal", [kind], attributes={"value": value}).result


def integers(numbers: Sequence[int]) -> ir.Value:
    """A list of ints."""
    made = [integer(each) for each in numbers]
    return ir.Operation.create("torch.prim.ListConstruct", [ir.Type.parse("!torch.list<int>")], made).result


def cast(value: ir.Value, element: str) -> ir.Value:
    """`value` with elements of a signed or float type; itself where it has those."""
    if element_of(value) == element:
        return value
    kind = as_type(value.type, element)
    return tensor_op("to.dtype", kind, value, integer(DTYPES[element]), boolean(False), boolean(False), none())


def element_of(value: ir.Value) -> str:
    """The element type of a tensor, as text."""
    return str(value.type).rpartition("],")[2].rstrip(">")


def shape_of(value: ir.Value) -> list[int | None]:
    """The sizes of a tensor, None where they are known at run time only."""
    inside = str(value.type).partition("[")[2].partition("]")[0]
    return [None if size == "?" else int(size) for size in inside.split(",") if size]


def as_type(kind: ir.Type, element: str) -> ir.Type:
    """A tensor type with other elements."""
    return ir.Type.parse(f"{str(kind).rpartition('],')[0]}],{element}>")


def tensor_type(shape: Sequence[int], element: str) -> ir.Type:
    return ir.Type.parse(f"!torch.vtensor<[{','.join(map(str, shape))}],{element}>")


def bare_type(shape: Sequence[int | None], element: str) -> ir.Type:
    """MLIR's own tensor type, whose integers have no sign."""
    sizes = "".join("?x" if size is None else f"{size}x" for size in shape)
    return ir.Type.parse(f"tensor<{sizes}{element.removeprefix('s').removeprefix('u')}>")


def compute(operation: ir.Operation, make: Callable[..., ir.Value]) -> None:
    """Replace an operation on tensors of one shape by `make`, which MLIR's numbers go into and come out of."""
    result = operation.results[0]
    shape, element = shape_of(result), element_of(result)
    operands = [
        ir.Operation.create("torch_c.to_builtin_tensor", [bare_type(shape, element_of(each))], [each]).result
        for each in operation.operands
        if str(each.type).startswith("!torch.vtensor")
    ]
    space = tensor.empty(sizes_of(operands[0]), bare_type(shape, element).element_type)
    maps = [ir.AffineMap.get_identity(len(shape))] * (len(operands) + 1)
    [found] = generic(operands, [space], maps, ["parallel"] * len(shape), lambda *numbers: [make(*numbers[:-1])])
    result.replace_all_uses_with(ir.Operation.create("torch_c.from_builtin_tensor", [result.type], [found]).result)
    operation.erase()


def _constant(kind: str, value: ir.Attribute) -> ir.Value:
    return ir.Operation.create(
        f"torch.constant.{kind}", [ir.Type.parse(f"!torch.{kind}")], attributes={"value": value}
    ).result
