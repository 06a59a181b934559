"""Lower `tri` to linalg in imperative functions: loops and branches are kept, and rank-0 tensors become scalars.

Arguments and results of the function stay tensors; iter_args of rank 0 become scalars.

    scf.for … iter_args(%s: tensor<f64>) { "tri.add"(%s, %x) }   ──►   … iter_args(%s: f64) { arith.addf %s, %x }
"""

from __future__ import annotations

from mlirtri.dialect.bindings.locations import errors_at
from mlirtri.dialect.bindings.mlir import func, ir, tensor
from mlirtri.dialect.definition import op_of, type_of
from mlirtri.dialect.ops.op import Op
from mlirtri.lowering.linalg.elementwise import RULES, SCALAR_RULES, elementwise
from mlirtri.lowering.mlir_common.index_values import as_index
from mlirtri.lowering.mlir_common.linalg_builder import element_type, is_tensor, tensor_type

GLUE = ("tensor.extract", "tensor.from_elements")
"""Conversions between rank-0 tensors and scalars, which become no-ops."""
Values = dict[ir.Value, ir.Value]


def fill_function(function: func.FuncOp, target: func.FuncOp) -> None:
    """Translate the body of `function` into the entry block of `target`, whose arguments are tensors."""
    values: Values = {}
    [block] = function.regions[0].blocks
    with ir.InsertionPoint(target.entry_block):
        for argument, value in zip(block.arguments, target.entry_block.arguments, strict=True):
            is_read_as_scalar = not value.type.rank and any(True for _ in argument.uses)
            with value.location:
                values[argument] = tensor.extract(value, []) if is_read_as_scalar else value
        _translate_block(block, values)


def _translate_block(block: ir.Block, values: Values) -> None:
    for operation in block.operations:
        with errors_at(operation.operation), operation.location:
            _translate(operation.operation, values)


def _translate(operation: ir.Operation, values: Values) -> None:
    if operation.name == "func.return":
        func.ReturnOp([_as_tensor(values[operand], operand.type) for operand in operation.operands])
    elif operation.name.startswith("tri."):
        values[operation.results[0]] = _translate_tri(op_of(operation), operation, values)
    elif operation.name == "arith.index_cast" and isinstance(operation.results[0].type, ir.IndexType):
        values[operation.results[0]] = as_index(values[operation.operands[0]])
    elif operation.name in GLUE and not _tensor_of(operation).rank:
        values[operation.results[0]] = values[operation.operands[0]]
    elif operation.name == "func.call":
        _call(operation, values)
    else:
        _copy(operation, values)


def _translate_tri(op: Op, operation: ir.Operation, values: Values) -> ir.Value:
    result = operation.results[0]
    operands = [values[operand] for operand in operation.operands]
    if op.scalar is not None:
        return elementwise(op, operation, operands)
    if op.name in SCALAR_RULES:
        value = SCALAR_RULES[op.name](op, operation, operands)
    else:
        tensors = [_as_tensor(value, source.type) for value, source in zip(operands, operation.operands, strict=True)]
        value = RULES[op.name](op, operation, tensors)
    return tensor.extract(value, []) if is_tensor(value) and not type_of(result.type).rank else value


def _call(operation: ir.Operation, values: Values) -> None:
    """Copy a call of what is compiled elsewhere, which takes and gives tensors, of rank 0, too."""
    operands = [_as_tensor(values[operand], operand.type) for operand in operation.operands]
    types = [tensor_type(type_of(result.type)) for result in operation.results]
    results = func.CallOp(types, operation.attributes["callee"], operands).operation.results
    for result, copy in zip(operation.results, results, strict=True):
        values[result] = copy if type_of(result.type).rank else tensor.extract(copy, [])


def _tensor_of(glue: ir.Operation) -> ir.RankedTensorType:
    return (glue.operands if glue.name == "tensor.extract" else glue.results)[0].type


def _copy(operation: ir.Operation, values: Values) -> None:
    copy = ir.Operation.create(
        operation.name,
        results=[lowered_type(result.type) for result in operation.results],
        operands=[values[operand] for operand in operation.operands],
        attributes={name: operation.attributes[name] for name in operation.attributes},
        regions=len(operation.regions),
    )
    values.update(zip(operation.results, copy.results, strict=True))
    for region, target in zip(operation.regions, copy.regions, strict=True):
        for block in region.blocks:
            _copy_block(block, target, values)


def _copy_block(block: ir.Block, region: ir.Region, values: Values) -> None:
    types = [lowered_type(argument.type) for argument in block.arguments]
    copy = region.blocks.append(*types, arg_locs=[argument.location for argument in block.arguments])
    values.update(zip(block.arguments, copy.arguments, strict=True))
    with ir.InsertionPoint(copy):
        _translate_block(block, values)


def lowered_type(kind: ir.Type) -> ir.Type:
    """Return the type of a `tri` value after the lowering: signless, and a scalar for a rank-0 tensor."""
    if isinstance(kind, ir.RankedTensorType):
        type_ = type_of(kind)
        return tensor_type(type_) if type_.rank else element_type(type_.dtype)
    if isinstance(kind, ir.IntegerType) and kind.is_unsigned:
        return ir.IntegerType.get_signless(kind.width)
    return kind


def _as_tensor(value: ir.Value, type_: ir.Type) -> ir.Value:
    return value if is_tensor(value) else tensor.from_elements(tensor_type(type_of(type_)), [value])
