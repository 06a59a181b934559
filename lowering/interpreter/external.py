"""Interpret calls of externally compiled functions on NumPy arrays: TVM compiles each alone, unscheduled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mlirtri.dialect.bindings.mlir import ir
from mlirtri.errors import CodegenError
from mlirtri.lowering.bridge.builder import RelaxBuilder
from mlirtri.lowering.bridge.external_rules import CALLS
from mlirtri.lowering.external.calls import KIND, dtypes_of, values_of
from mlirtri.lowering.relax.legalized import implement_sorts
from mlirtri.lowering.tir.primfunc import Names
from mlirtri.lowering.toolchain.tvm_names import BlockBuilder, TensorType, relax, tvm
from mlirtri.lowering.toolchain.tvm_passes import short_message

Evaluator = Callable[..., Sequence[Any]]


def call_evaluator(declaration: ir.OpView) -> Evaluator:
    """Return the evaluator of every call of `declaration`."""
    kind, values = declaration.attributes[KIND].value, values_of(declaration)
    if kind == "device":
        return lambda operand: (operand,)
    inputs = declaration.attributes["function_type"].value.inputs
    types = [
        TensorType(tuple(input_type.shape), dtype)
        for input_type, dtype in zip(inputs, dtypes_of(declaration), strict=False)
    ]
    machine = _machine(kind, values, types)

    def run(*operands: np.ndarray) -> Sequence[np.ndarray]:
        result = machine["call"](*(tvm.runtime.tensor(np.array(array, order="C")) for array in operands))
        parts = [result] if isinstance(result, tvm.runtime.Tensor) else list(result)
        return [part.numpy() for part in parts]

    return run


def _machine(kind: str, values: dict[str, str], types: list[TensorType]) -> Any:
    block = BlockBuilder()
    parameters = [relax.Var(f"x{index}", tensor_type) for index, tensor_type in enumerate(types)]
    with block.function("call", parameters):
        result = CALLS[kind](RelaxBuilder(block, Names(["call"])), values, parameters)
        block.emit_func_output(block.emit(result))
    try:
        return relax.VirtualMachine(relax.build(implement_sorts(block.get()), "llvm"), tvm.cpu())
    except Exception as error:
        raise CodegenError(f"TVM made no code for {values['function']}: {short_message(error)}") from None
