"""A function with loops and updates to Relax: one call of one imperative TIR function.

Takes a module of MLIR on tensors (`fused`, or `linalg` as it is). Gives a Relax module with the kernel's function,
which calls a PrimFunc on its arguments: ``R.call_tir_inplace`` says which arguments it updates, ``R.call_tir`` that it
updates none. Constant arrays are arguments of that call. Complex tensors are tensors of parts, with a last dimension
of 2. Refuses CUDA, and what `loops_to_primfunc` refuses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlirtri.dialect.locations import errors_at, name_of, span_of
from mlirtri.dialect.mlir import all_operations, ir, operations_named, public_functions
from mlirtri.errors import UnsupportedOperationError
from mlirtri.lowering import bufferized_to_loops, fused_to_bufferized
from mlirtri.lowering.imperative import updates_of
from mlirtri.lowering.loop_values import part_dtypes
from mlirtri.lowering.loops_to_primfunc import build_imperative
from mlirtri.lowering.mlir_reading import array_constant, dtype_of, shape_of
from mlirtri.lowering.primfunc import Names
from mlirtri.lowering.stage import CompileContext
from mlirtri.lowering.tvm_names import BlockBuilder, IRModule, TensorType, relax
from mlirtri.lowering.tvm_passes import BINDING_LOCATIONS

_NEW = -1
"""How `call_tir_inplace` says that a result has memory of its own."""


def lower_imperative(module: ir.Module, context: CompileContext) -> IRModule:
    """The Relax module of an imperative module; raises `UnsupportedOperationError`, `PassFailedError`."""
    if context.target.is_cuda:
        _refuse_cuda(module)
    [function] = public_functions(module)
    updates = {result: argument for argument, result in updates_of(function).items()}
    arguments, results = function.type.inputs, function.type.results
    names = [name_of(argument.location) or f"arg{at}" for at, argument in enumerate(function.arguments)]
    with errors_at(function.operation):
        inputs, outputs = ([_type(kind) for kind in kinds] for kinds in (arguments, results))
    fused_to_bufferized.lower(module, context)
    bufferized_to_loops.lower_to_loops(module, context)
    [function] = public_functions(module)
    name, span = function.sym_name.value, span_of(function.location)
    built = build_imperative(function.operation, len(arguments))
    block = BlockBuilder()
    unique = Names([name])
    parameters = [relax.Var(unique.unique(one), kind) for one, kind in zip(names, inputs, strict=True)]
    with block.function(name, parameters):
        callee = block.add_func(built.function, f"{name}_loops")
        constants = [_constant(module, symbol) for symbol in built.constants]
        in_place = [updates.get(at, _NEW) for at in range(len(results))]
        call = _call(callee, relax.Tuple([*parameters, *constants]), in_place, outputs)
        result = block.emit(call, unique.unique("results"))
        block.emit_func_output(result)
    made = block.get()
    locations = {result.name: str(span)} if span else {}
    kernel = made.get_global_var(name)
    made.update_func(kernel, made[kernel].with_attr(BINDING_LOCATIONS, locations))
    return made


def _call(callee: Any, inputs: relax.Tuple, in_place: Sequence[int], kinds: list[TensorType]) -> relax.Call:
    out = kinds if len(kinds) != 1 else kinds[0]
    if all(argument == _NEW for argument in in_place):
        return relax.call_tir(callee, inputs, out)
    return relax.call_tir_inplace(callee, inputs, list(in_place), out)


def _type(kind: ir.Type) -> TensorType:
    """The Relax type of a tensor; complex elements are two of a last dimension."""
    dtypes = part_dtypes(kind)
    return TensorType((*shape_of(kind), *([2] if len(dtypes) == 2 else [])), dtypes[0])


def _constant(module: ir.Module, symbol: str) -> Any:
    """A constant array that bufferization made a global of."""
    for made in operations_named(module, "memref.global"):
        if made.attributes["sym_name"].value == symbol:
            value = made.attributes["initial_value"]
            return relax.const(array_constant(value), dtype_of(value.type))
    raise UnsupportedOperationError(f"the module has no constant {symbol!r}")


def _refuse_cuda(module: ir.Module) -> None:
    loop = next((one for one in all_operations(module) if one.name in ("scf.for", "scf.while", "scf.if")), None)
    what = {"scf.for": "a loop", "scf.while": "a loop", "scf.if": "a branch"}
    raise UnsupportedOperationError(
        f"CUDA code is made of whole-array operations only, not of {what[loop.name] if loop else 'in-place updates'}",
        span_of(loop.location) if loop else None,
        help='use target="cpu", or write it with whole-array operations',
    )
