"""From our dialect to upstream's: every `tri` operation becomes `linalg`, `tensor` and `arith` operations.

Takes a module of `func` and `tri`. Gives a new module of func, linalg, tensor, arith and math on signless tensors,
each operation with the location of the one it came from. Composite operations are decomposed first. Elementwise
operations become one `linalg.generic` each, with their scalar rule as the body; fusing them is the next room's work.
"""

from __future__ import annotations

from collections.abc import Callable

from mlirtri.dialect.definition import op_of, type_of
from mlirtri.dialect.locations import errors_at
from mlirtri.dialect.mlir import func, ir, print_module
from mlirtri.dialect.ops import Op
from mlirtri.lowering import tri_to_linalg_rules
from mlirtri.lowering.linalg_builder import tensor_type
from mlirtri.lowering.stage import CompileContext
from mlirtri.lowering.tri_decompose import decompose


def lower(module: ir.Module, context: CompileContext) -> ir.Module:
    """A linalg module of a `tri` module, which stays as it is; raises what a rule refuses, at its operation."""
    with module.context, ir.Location.unknown():
        before = print_module(module)
        # The module of the room before belongs to its readers: work on a copy.
        source = ir.Module.parse(module.operation.get_asm(enable_debug_info=True))
        decompose(source, lambda op, operation: True)
        context.record("decompose", print_module(source), before)
        return translate(source)


def translate(source: ir.Module) -> ir.Module:
    """A new module in which no `tri` operation is left."""
    result = ir.Module.create(loc=source.operation.location)
    with ir.InsertionPoint(result.body):
        for function in source.body.operations:
            _translate_function(function)
    return result


def _translate_function(function) -> None:
    block = function.regions[0].blocks[0]
    inputs = [tensor_type(type_of(argument.type)) for argument in block.arguments]
    outputs = [tensor_type(type_of(t)) for t in function.type.results]
    with function.location:
        made = func.FuncOp(function.name.value, (inputs, outputs))
    made.add_entry_block(arg_locs=[argument.location for argument in block.arguments])
    values = dict(zip(block.arguments, made.entry_block.arguments, strict=True))
    with ir.InsertionPoint(made.entry_block):
        for operation in block.operations:
            _translate_operation(operation.operation, values)


def _translate_operation(operation: ir.Operation, values: dict[ir.Value, ir.Value]) -> None:
    operands = [values[operand] for operand in operation.operands]
    with errors_at(operation), operation.location:
        if operation.name == "func.return":
            func.ReturnOp(operands)
            return
        op = op_of(operation)
        values[operation.results[0]] = rule_of(op)(op, operation, operands)


def rule_of(op: Op) -> Callable[..., ir.Value]:
    """``rule(op, operation, operands) -> value``: the elementwise rule for all scalar rules, else the op's own."""
    return tri_to_linalg_rules.elementwise if op.scalar is not None else tri_to_linalg_rules.RULES[op.name]
