"""Lower `fused`, or any MLIR on tensors, to a Relax module: one Relax function per `func.func`.

`translate` takes func, linalg, tensor, arith and math (and whatever has a rule) on tensors of static shapes. It gives
bindings that carry the names of the user's variables, with ``mlirtri.locations`` to say from which line each comes.
It refuses what has no rule: all of it at once, with counts and lines, before anything is translated.

`lower` makes functions with loops and updates one imperative PrimFunc (`imperative_to_relax`). Imported functions that
also have matmuls or convolutions keep those as bindings and call their loops as outlined functions (`outlining`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mlirtri.dialect.bindings.locations import errors_at, name_of
from mlirtri.dialect.bindings.mlir import ir
from mlirtri.errors import UnsupportedOperationError
from mlirtri.lowering.bridge import external_rules, tensor_rules, unread_results
from mlirtri.lowering.bridge.builder import RULES, Loops, RelaxBuilder, Rule
from mlirtri.lowering.bridge.external_bodies import define, inline_calls
from mlirtri.lowering.bridge.imperative_to_relax import loops_of, lower_imperative
from mlirtri.lowering.bridge.outlining import outline
from mlirtri.lowering.bridge.scalar.body import BODY_OPERATIONS
from mlirtri.lowering.bridge.scalar.scalar_rules import SCALAR_RULES
from mlirtri.lowering.bridge.structured import elementwise, is_structured, structured
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.core.untranslatable import refuse
from mlirtri.lowering.external.calls import is_declaration
from mlirtri.lowering.external.vdevices import devices_of
from mlirtri.lowering.mlir_common.imperative import is_imperative
from mlirtri.lowering.mlir_common.reading import dtype_of, shape_of, symbol_name
from mlirtri.lowering.tir.primfunc import Names
from mlirtri.lowering.toolchain.mlir_passes import run_rewrite
from mlirtri.lowering.toolchain.tvm_names import BINDING_LOCATIONS, BlockBuilder, IRModule, TensorType, relax

__all__ = ["external_rules", "lower", "tensor_rules", "translate"]


def lower(module: ir.Module, context: CompileContext) -> IRModule:
    """Return the Relax module of `module`; raises `UnsupportedOperationError`, `PassFailedError`."""
    if not is_imperative(module):
        with module.context:
            run_rewrite("drop-unread-results", unread_results.rewrite, module, context)
        return translate(module)
    inline_external(module, context)
    if context.target.is_cuda:
        return lower_imperative(module, context)
    with module.context:
        subgraphs = outline(module)
    if not subgraphs:
        return lower_imperative(module, context)
    return translate(module, {symbol: loops_of(subgraph, context) for symbol, subgraph in subgraphs.items()})


def inline_external(module: ir.Module, context: CompileContext) -> None:
    """Replace calls of Relax operators and TensorIR functions by what they compute, for a function with loops."""
    inline_calls(module, context, translate)


def define_external(module: ir.Module, context: CompileContext) -> None:
    """Give the Relax operators and TensorIR functions that a module calls bodies, in place."""
    define(module, context, translate)


def translate(module: ir.Module, loops: Mapping[str, Loops] | None = None) -> IRModule:
    """Return the Relax module of `module`; raises `UnsupportedOperationError` for all that has no rule.

    `loops` has the imperative PrimFuncs by the symbol that calls them.
    """
    functions = [view.operation for view in module.body.operations if not is_declaration(view)]
    unsupported = (problem for function in functions for problem in _unsupported(function))
    refuse(unsupported, "Relax", 'write it with other operations, or use pipeline="mlir"')
    block, devices = BlockBuilder(), devices_of(module)
    symbols = [symbol_name(function) for function in functions]
    names = Names(symbols)
    located = []
    for function in functions:
        builder = RelaxBuilder(block, names, symbols, devices, loops)
        _translate_function(builder, function)
        located.append((function, builder.locations))
    result = block.get()
    devices.put_into(result)
    for function, locations in located:
        callee = result.get_global_var(symbol_name(function))
        result.update_func(callee, result[callee].with_attrs({BINDING_LOCATIONS: locations}))
    return result


def _translate_function(builder: RelaxBuilder, function: ir.Operation) -> None:
    body = function.regions[0].blocks[0]
    for position, argument in enumerate(body.arguments):
        name = builder.names.unique(name_of(argument.location) or f"arg{position}")
        builder.write(argument, relax.Var(name, builder.type_of(argument, builder.devices.home)))
    parameters = [builder.meaning(argument) for argument in body.arguments]
    with builder.block.function(symbol_name(function), parameters):
        for operation in body.operations:
            with errors_at(operation.operation):
                _rule_of(operation.operation)(builder, operation.operation)
        results = builder.results
        builder.block.emit_func_output(results[0] if len(results) == 1 else relax.Tuple(results))


def _rule_of(operation: ir.Operation) -> Rule | None:
    if operation.name in RULES:
        return RULES[operation.name]
    if is_structured(operation):
        return structured
    return elementwise if operation.name in SCALAR_RULES or operation.name == "math.ipowi" else None


def _unsupported(function: ir.Operation) -> Iterator[tuple[ir.Operation, str]]:
    """Return the operations without a rule, with their names, in program order."""
    if function.name != "func.func" or not function.regions[0].blocks:
        yield function, f"{function.name} without a body"
        return
    for view in function.regions[0].blocks[0].operations:
        operation = view.operation
        if (rule := _rule_of(operation)) is None:
            yield operation, operation.name
        elif type_problem := _type_problem(operation):
            yield operation, type_problem
        elif rule is structured:
            for inner in operation.regions[0].blocks[0].operations:
                if inner.operation.name not in SCALAR_RULES and inner.operation.name not in BODY_OPERATIONS:
                    yield inner.operation, f"{inner.operation.name} inside {operation.name}"


def _type_problem(operation: ir.Operation) -> str | None:
    try:
        for value in (*operation.operands, *operation.results):
            TensorType(shape_of(value.type), dtype_of(value.type))
    except UnsupportedOperationError as error:
        return f"{operation.name} ({error.message})"
    return None
