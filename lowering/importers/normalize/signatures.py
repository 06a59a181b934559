"""Change the signature of an imported function to tensors that NumPy has a dtype for: scalars become rank-0 tensors.

func.func @f(%n: index) -> f32          func.func @f(%n: tensor<i64>) -> (tensor<f32> {mlirtri.number})
                                  ──►     %0 = tensor.extract %n[] : tensor<i64>
                                          %1 = arith.index_cast %0 : i64 to index
"""

from __future__ import annotations

from mlirtri.dialect.bindings.locations import location_of, name_of, span_of
from mlirtri.dialect.bindings.mlir import arith, ir, public_functions, tensor
from mlirtri.errors import KernelError, UnsupportedOperationError, raise_all
from mlirtri.lowering.core.interface import unique_name
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.mlir_common.aliasing import terminator
from mlirtri.lowering.mlir_common.attributes import NUMBER, STATE, argument_attributes, result_attributes, set_signature
from mlirtri.lowering.mlir_common.constants import numpy_dtype
from mlirtri.lowering.mlir_common.reading import element_type

PREFIX = "mlirtri."
_HELP = {
    "memref": "give the module as it is before bufferization, on tensors",
    "vector": "use tensors as arguments and results",
    "tensor<*": "give the tensor a rank: tensor<?x?xf32>",
}


def rewrite(module: ir.Module, context: CompileContext) -> None:
    """Make tensors of all arguments and results of the only function; raises `UnsupportedOperationError`."""
    [function] = public_functions(module)
    _check_types(function)
    arguments, results = (
        [_own_attributes(attributes) for attributes in attributes_of(function)]
        for attributes_of in (argument_attributes, result_attributes)
    )
    block = function.regions[0].blocks[0]
    with ir.InsertionPoint.at_block_begin(block):
        for argument in block.arguments:
            with argument.location:
                _convert_argument(argument)
    end = terminator(block)
    with ir.InsertionPoint(end), end.location:
        for result, value in enumerate(end.operands):
            end.operands[result] = _convert_result(value)
            if not _is_tensor(value.type) and STATE not in results[result]:
                results[result][NUMBER] = ir.UnitAttr.get()
    _name_arguments(block)
    set_signature(function, arguments, results)
    for name in list(function.attributes):
        if name not in ("sym_name", "function_type", "arg_attrs", "res_attrs") and not name.startswith(PREFIX):
            del function.attributes[name]


def _check_types(function: ir.OpView) -> None:
    arguments = function.regions[0].blocks[0].arguments
    problems: list[KernelError] = []
    for position, argument in enumerate(arguments):
        name = name_of(argument.location) or f"arg{position}"
        if (problem := _problem(argument.type)) is not None:
            where = span_of(argument.location) or span_of(function.location)
            problems.append(UnsupportedOperationError(f"argument {name!r} {problem[0]}", where, help=problem[1]))
    for position, kind in enumerate(ir.FunctionType(function.attributes["function_type"].value).results):
        if (problem := _problem(kind)) is not None:
            where = span_of(function.location)
            problems.append(UnsupportedOperationError(f"result {position} {problem[0]}", where, help=problem[1]))
    raise_all(problems)


def _problem(type_: ir.Type) -> tuple[str, str | None] | None:
    if _is_tensor(type_) and type_.encoding is not None:
        return f"is a {type_}", "give a dense tensor, without an encoding"
    if _is_tensor(type_) or isinstance(type_, (ir.IntegerType, ir.IndexType, ir.FloatType, ir.ComplexType)):
        try:
            numpy_dtype(element_type(type_))
        except UnsupportedOperationError as error:
            return f"is a {type_}, and {error.message}", error.help
        return None
    help = next((suggestion for start, suggestion in _HELP.items() if str(type_).startswith(start)), None)
    return f"is a {type_}", help or "arguments and results are ranked tensors and scalars"


def _is_tensor(type_: ir.Type) -> bool:
    return isinstance(type_, ir.RankedTensorType)


def _is_index(type_: ir.Type) -> bool:
    return isinstance(element_type(type_), ir.IndexType)


def _stored(type_: ir.Type) -> ir.Type:
    element = ir.IntegerType.get_signless(64) if _is_index(type_) else element_type(type_)
    return ir.RankedTensorType.get(type_.shape if _is_tensor(type_) else [], element)


def _convert_argument(argument: ir.BlockArgument) -> None:
    kind = argument.type
    if _stored(kind) == kind:
        return
    argument.set_type(_stored(kind))
    value, first = argument, None
    if not _is_tensor(kind):
        value = first = tensor.extract(argument, [])
    if _is_index(kind):
        value = arith.index_cast(kind, value)
        first = first or value
    argument.replace_all_uses_except(value, first.owner.operation)


def _convert_result(value: ir.Value) -> ir.Value:
    kind = value.type
    if _stored(kind) == kind:
        return value
    if _is_index(kind):
        wide = _stored(kind)
        value = arith.index_cast(wide if _is_tensor(kind) else wide.element_type, value)
    return value if _is_tensor(kind) else tensor.from_elements(_stored(kind), [value])


def _name_arguments(block: ir.Block) -> None:
    """Give each argument a distinct name: Python passes them by keyword."""
    names = {
        f"arg{position}" for position, argument in enumerate(block.arguments) if name_of(argument.location) is None
    }
    for argument in block.arguments:
        name_hint = name_of(argument.location)
        if name_hint is None:
            continue
        name = unique_name(name_hint, names)
        names.add(name)
        if name != name_hint:
            argument.set_location(location_of(span_of(argument.location), name))


def _own_attributes(attributes: dict[str, ir.Attribute]) -> dict[str, ir.Attribute]:
    return {name: attribute for name, attribute in attributes.items() if name.startswith(PREFIX)}
