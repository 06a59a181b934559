"""Calls of functions that are compiled elsewhere: at every MLIR stage, calls of private functions without a body.

Takes what is called, as strings, with operands and result types. Gives a ``func.call``, which upstream tools parse and
no pass rewrites. The attributes of the declaration say what is called, and its dtypes with the signs that linalg drops.
Refuses device regions in functions with loops, and all such calls in pipelines without TVM.

    %y = func.call @relax.nn.gelu(%x) : (tensor<4xf32>) -> tensor<4xf32>
    func.func private @relax.nn.gelu(tensor<4xf32>) -> tensor<4xf32>
        attributes {mlirtri.external = "relax", mlirtri.function = "nn.gelu", mlirtri.arguments = "data=_0", …}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count

from mlirtri.dialect.base.tensor_type import TensorType
from mlirtri.dialect.bindings.locations import span_of
from mlirtri.dialect.bindings.mlir import func, ir, operations_named
from mlirtri.dialect.builder import TriBuilder, TriValue
from mlirtri.dialect.definition import mlir_type, type_of
from mlirtri.errors import Note, UnsupportedSyntaxError
from mlirtri.lowering.core.untranslatable import refuse

KIND = "mlirtri.external"
"""Attribute of a declaration: one of `NAMES`."""
DTYPES = "mlirtri.dtypes"
"""Attribute of a declaration: the dtypes of its operands, then of its results."""
OUTLINED_LOOPS = "loops"
"""The kind of calls of loops that were outlined from the function (`lowering/bridge/outlining.py`)."""
PREFIX = "mlirtri."
NAMES = {"relax": "a call of Relax's library", "tensorir": "a call of TensorIR", "device": "a device region"}
"""The user's construct, by kind of call."""


def call(
    builder: TriBuilder, kind: str, name: str, values: Mapping[str, str], tensors: Sequence[TriValue],
    types: Sequence[TensorType],
) -> list[TriValue]:  # fmt: skip
    """Create a call at the builder's insertion point and location, and return its results, of `types`."""
    if kind != "device":
        tensors = builder.on_device(tensors)
    attributes = {f"{PREFIX}{key}": ir.StringAttr.get(value) for key, value in values.items()}
    attributes[KIND] = ir.StringAttr.get(kind)
    dtypes = [type_.dtype.name for type_ in (*(tensor.type for tensor in tensors), *types)]
    attributes[DTYPES] = ir.ArrayAttr.get([ir.StringAttr.get(dtype) for dtype in dtypes])
    results = [mlir_type(type_) for type_ in types]
    function = ir.FunctionType.get([tensor.value.type for tensor in tensors], results)
    symbol = _declared(f"{kind}.{name}", function, attributes)
    operation = func.CallOp(results, symbol, [tensor.value for tensor in tensors], loc=builder.location)
    return [
        builder.placed(TriValue(value, tensor_type))
        for value, tensor_type in zip(operation.operation.results, types, strict=True)
    ]


def _declared(stem: str, type_: ir.FunctionType, attributes: dict[str, ir.Attribute]) -> str:
    """Return the symbol of a declaration with this type and these attributes, which is created where there is none."""
    block = _module_around(ir.InsertionPoint.current.block.owner).regions[0].blocks[0]
    declared = {function.attributes["sym_name"].value: function for function in block.operations}
    names = (f"{stem}_{number}" if number else stem for number in count())
    symbol = next(name for name in names if name not in declared or _matches(declared[name], type_, attributes))
    if symbol not in declared:
        with ir.InsertionPoint(block), ir.Location.unknown():
            declaration = func.FuncOp(symbol, type_, visibility="private")
        for name, attribute in attributes.items():
            declaration.attributes[name] = attribute
    return symbol


def _matches(function: ir.OpView, type_: ir.FunctionType, attributes: dict[str, ir.Attribute]) -> bool:
    ours = {name: function.attributes[name] for name in function.attributes if name.startswith(PREFIX)}
    return function.attributes["function_type"].value == type_ and ours == attributes


def _module_around(operation: ir.OpView | ir.Operation) -> ir.Operation:
    operation = operation.operation
    while operation.name != "builtin.module":
        operation = operation.parent.operation
    return operation


def is_declaration(function: ir.OpView | ir.Operation) -> bool:
    """Return whether a function is a declaration of what is compiled elsewhere."""
    return KIND in function.attributes


def values_of(declaration: ir.OpView) -> dict[str, str]:
    """Return the strings that `call` was given."""
    names = [name for name in declaration.attributes if name.startswith(PREFIX) and name not in (KIND, DTYPES)]
    return {name.removeprefix(PREFIX): declaration.attributes[name].value for name in names}


def dtypes_of(declaration: ir.OpView) -> list[str]:
    """Return the dtypes of the operands, then of the results, with signedness."""
    return [dtype.value for dtype in ir.ArrayAttr(declaration.attributes[DTYPES])]


def declaration_of(operation: ir.Operation) -> ir.OpView | None:
    """Return the declaration that a `func.call` calls; None for any other operation or callee."""
    if operation.name != "func.call":
        return None
    functions = _module_around(operation).regions[0].blocks[0].operations
    callee_name = operation.attributes["callee"].value
    callee = next((function for function in functions if function.attributes["sym_name"].value == callee_name), None)
    return callee if callee is not None and is_declaration(callee) else None


def calls_in(module: ir.Module) -> list[tuple[ir.Operation, ir.OpView]]:
    """Return the calls of external declarations in a module, each with its declaration."""
    calls = [(operation, declaration_of(operation)) for operation in operations_named(module, "func.call")]
    return [(operation, declaration) for operation, declaration in calls if declaration is not None]


def drop_unused(module: ir.Module) -> None:
    """Erase the declarations that nothing calls any more."""
    called = {declaration.attributes["sym_name"].value for _, declaration in calls_in(module)}
    for function in list(module.body.operations):
        if is_declaration(function) and function.attributes["sym_name"].value not in called:
            function.operation.erase()


def without_signs(declaration: ir.OpView, lowered: Callable[[TensorType], ir.Type]) -> None:
    """Declare the same function with the types that `lowered` gives, at the current insertion point."""
    kind = declaration.attributes["function_type"].value
    inputs, results = ([lowered(type_of(operand)) for operand in types] for types in (kind.inputs, kind.results))
    function = func.FuncOp(declaration.attributes["sym_name"].value, (inputs, results), visibility="private")
    for name in declaration.attributes:
        if name.startswith(PREFIX):
            function.attributes[name] = declaration.attributes[name]


def refuse_regions_beside_loops(module: ir.Module, loop: ir.Operation | None) -> None:
    """Raise `UnsupportedSyntaxError` at the first device region of an imperative module; `loop` is noted if given."""
    notes = [Note("this is compiled as a loop or an update", span_of(loop.location))] if loop is not None else []
    for operation, declaration in calls_in(module):
        if (kind := declaration.attributes[KIND].value) != "device":
            continue
        raise UnsupportedSyntaxError(
            f"{NAMES[kind]} cannot stand in a kernel with loops, updates of arrays or sizes of run time",
            span_of(operation.location),
            help="put the loops into a kernel of their own",
            notes=notes,
        )


def refuse_without_tvm(module: ir.Module) -> None:
    """Raise `UnsupportedOperationError` for all external calls of a module, which only TVM compiles."""
    refused = ((call, NAMES[declaration.attributes[KIND].value]) for call, declaration in calls_in(module))
    refuse(refused, "code without TVM", 'use pipeline="linalg" or pipeline="relax"')
