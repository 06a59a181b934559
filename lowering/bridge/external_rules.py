"""Rules for what is compiled elsewhere: library calls, TensorIR functions, copies between devices.

Each is a call of a private function (`lowering/external`) and becomes a Relax expression. An integer that lost its
signedness is cast back for the call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mlirtri.dialect.bindings.mlir import ir
from mlirtri.errors import UnsupportedOperationError
from mlirtri.lowering.bridge.builder import RelaxBuilder, rule, vdevice_of_all
from mlirtri.lowering.external import relax_calls, tensorir_calls
from mlirtri.lowering.external.calls import KIND, OUTLINED_LOOPS, declaration_of, dtypes_of, values_of
from mlirtri.lowering.mlir_common.reading import symbol_name
from mlirtri.lowering.toolchain.tvm_names import TensorType, relax

Values = dict[str, str]


def _library(builder: RelaxBuilder, values: Values, operands: Sequence[Any]) -> Any:
    return relax_calls.expression(values["function"], values["arguments"], operands)


def _tensorir(builder: RelaxBuilder, values: Values, operands: Sequence[Any]) -> Any:
    function = tensorir_calls.prim_func_of(values["source"])
    callee = builder.add_function(function, values["function"])
    vdevice = vdevice_of_all(operands)
    outputs = list(function.params)[len(operands) :]
    types = [TensorType(output.ty.shape, output.ty.dtype, vdevice=vdevice) for output in outputs]
    return relax.call_tir(callee, relax.Tuple(operands), types if len(types) > 1 else types[0])


def _copy(builder: RelaxBuilder, values: Values, operands: Sequence[Any]) -> Any:
    return relax.op.to_vdevice(operands[0], builder.devices[values["device"]])


CALLS: dict[str, Callable[[RelaxBuilder, Values, Sequence[Any]], Any]] = {"relax": _library, "tensorir": _tensorir}
"""The function that builds the Relax expression of each kind of call."""


@rule("func.call")
def _call(builder: RelaxBuilder, operation: ir.Operation) -> None:
    function = declaration_of(operation)
    if function is None:
        raise UnsupportedOperationError("a call between functions of a module has no translation to Relax")
    if function.attributes[KIND].value == OUTLINED_LOOPS:
        loops = builder.loops[symbol_name(function)]
        return builder.call(operation, loops.function, loops.name, operation.operands, loops.constants)
    values, dtypes = values_of(function), dtypes_of(function)
    if function.attributes[KIND].value == "device":
        return builder.emit(operation, _copy(builder, values, builder.read_all(operation.operands)), "copy")
    operands = [_as(builder, operation, *pair) for pair in zip(operation.operands, dtypes, strict=False)]
    expression = CALLS[function.attributes[KIND].value](builder, values, operands)
    results = list(zip(operation.results, dtypes[len(operands) :], strict=True))
    name = values["function"].rpartition(".")[2]
    if all(_dtype(builder, result) == dtype for result, dtype in results):
        return builder.emit(operation, expression, name)
    bound = builder.bind_as("unsigned", operation, expression)
    for number, (result, dtype) in enumerate(results):
        part = bound if len(results) == 1 else builder.bind_as("unsigned", operation, relax.TupleGetItem(bound, number))
        signed = part if _dtype(builder, result) == dtype else relax.op.astype(part, _dtype(builder, result))
        builder.write(result, builder.bind(operation, signed, name))
    return None


def _dtype(builder: RelaxBuilder, value: ir.Value) -> str:
    return str(builder.type_of(value).dtype.dtype)


def _as(builder: RelaxBuilder, operation: ir.Operation, value: ir.Value, dtype: str) -> Any:
    """Return an operand in the user's dtype: a cast between integers of one width keeps the bits."""
    operand = builder.read(value)
    if _dtype(builder, value) == dtype:
        return operand
    return builder.bind_as("unsigned", operation, relax.op.astype(operand, dtype))
