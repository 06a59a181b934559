"""Lower globals of an imported module: to constants where nothing stores, else to state passed from call to call.

ml_program.global private mutable @seed(dense<0> : tensor<i64>) : tensor<i64>
    ──►  an argument {mlirtri.bound = "seed"}, and a result {mlirtri.state = "seed"} where the function stores
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mlirtri.dialect.bindings.locations import errors_at, span_of
from mlirtri.dialect.bindings.mlir import (
    all_operations,
    all_operations_in,
    arith,
    ir,
    operations_named,
    public_functions,
)
from mlirtri.errors import UnsupportedOperationError
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.mlir_common.aliasing import terminator
from mlirtri.lowering.mlir_common.attributes import BOUND, STATE, argument_attributes, result_attributes, set_signature
from mlirtri.lowering.mlir_common.cloning import replace
from mlirtri.lowering.mlir_common.constants import numpy_dtype, operation_constant, resource_key
from mlirtri.lowering.mlir_common.reading import symbol_name

LOADS = ("ml_program.global_load", "ml_program.global_load_const")
STORE = "ml_program.global_store"


def rewrite(module: ir.Module, context: CompileContext) -> None:
    """Lower all globals of `module`, in place; raises `UnsupportedOperationError`."""
    for variable in operations_named(module, "ml_program.global"):
        name = symbol_name(variable)
        with errors_at(variable):
            _lower_global(module, variable, _accesses(module, name), name, context)
        variable.erase()


def _accesses(module: ir.Module, name: str) -> list[ir.Operation]:
    accesses = [operation for operation in all_operations(module) if operation.name in (*LOADS, STORE)]
    return [access for access in accesses if str(access.attributes["global"]) == f"@{name}"]


def _lower_global(
    module: ir.Module, variable: ir.Operation, accesses: Sequence[ir.Operation], name: str, context: CompileContext
) -> None:
    if not accesses:
        return
    if "value" not in variable.attributes or "extern" in str(variable.attributes["value"])[:20]:
        raise UnsupportedOperationError(
            f"the global {name!r} has no value in this module", help="give it one, or make it an argument"
        )
    if "is_mutable" in variable.attributes:
        _Global(module, variable, name, context).pass_through(accesses)
        return
    for load in accesses:
        with ir.InsertionPoint(load), load.location:
            value = arith.constant(load.results[0].type, variable.attributes["value"])
        replace(load, [value])


@dataclass
class _Global:
    module: ir.Module
    variable: ir.Operation
    name: str
    context: CompileContext

    def pass_through(self, accesses: Sequence[ir.Operation]) -> None:
        """Pass the value from an argument through the stores to a result."""
        [function] = public_functions(self.module)
        block = function.regions[0].blocks[0]
        if nested := [access for access in accesses if access.name == STORE and access.block != block]:
            raise UnsupportedOperationError(
                f"the global {self.name!r} is written in a branch or loop",
                span_of(nested[0].location),
                help="write it at the end of the function, with a value that the branch or loop yields",
            )
        arguments, results = argument_attributes(function), result_attributes(function)
        param = self._param()
        kind = ir.TypeAttr(self.variable.attributes["type"]).value
        value = block.add_argument(kind, ir.Location.name(param, self.variable.location))
        arguments.append({BOUND: ir.StringAttr.get(param)})
        is_stored = any(access.name == STORE for access in accesses)
        for operation in list(block.operations):
            value = _value_after(operation.operation, accesses, value)
        if is_stored:
            _return_also(block, value)
            results.append({STATE: ir.StringAttr.get(param)})
        set_signature(function, arguments, results)

    def _param(self) -> str:
        """Return the name of the parameter that holds the value: the global's own, unless a constant has that name."""
        constants = operations_named(self.module, "arith.constant")
        taken = {resource_key(constant.attributes["value"]) for constant in constants}
        name = f"{self.name}_state" if self.name in taken else self.name
        if name not in self.context.params:
            self.context.params[name] = self._initial_array()
        return name

    def _initial_array(self) -> np.ndarray:
        key = resource_key(self.variable.attributes["value"])
        array = self.context.params[key] if key is not None else _initial_value(self.variable)
        # A copy: calls write to it.
        return np.array(array)


def _initial_value(variable: ir.Operation) -> np.ndarray:
    value = variable.attributes["value"]
    if isinstance(value, ir.DenseElementsAttr):
        return operation_constant(variable)
    if isinstance(value, (ir.IntegerAttr, ir.FloatAttr, ir.BoolAttr)):
        return np.array(value.value).astype(numpy_dtype(value.type))
    raise UnsupportedOperationError("the value of this global cannot be read", help="make it an argument")


def _value_after(operation: ir.Operation, accesses: Sequence[ir.Operation], value: ir.Value) -> ir.Value:
    """Return the value after `operation`, of the function's own block; loads inside of it get the value before."""
    for inner in all_operations_in(operation):
        if inner not in accesses:
            continue
        if inner.name == STORE:
            value = inner.operands[0]
        else:
            inner.results[0].replace_all_uses_with(value)
        inner.erase()
    return value


def _return_also(block: ir.Block, value: ir.Value) -> None:
    old = terminator(block)
    with ir.InsertionPoint(old), old.location:
        ir.Operation.create(old.name, operands=[*old.operands, value])
    old.erase()
