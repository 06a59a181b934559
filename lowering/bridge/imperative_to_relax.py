"""Lower a function with loops and updates to one call of one imperative PrimFunc.

``R.call_tir_inplace`` says which arguments the PrimFunc updates, ``R.call_tir`` that it updates none. Constant arrays
are arguments of that call. Complex tensors have a last dimension of 2. Refuses what `loops_to_primfunc` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mlirtri.dialect.base.dtypes import DTYPES, DType
from mlirtri.dialect.bindings.locations import errors_at, name_of, span_of
from mlirtri.dialect.bindings.mlir import ir, operations_named, public_functions
from mlirtri.errors import Span, UnsupportedOperationError
from mlirtri.lowering.bridge.builder import Loops
from mlirtri.lowering.bridge.loops.loops_to_primfunc import build_imperative
from mlirtri.lowering.bridge.loops.size_symbols import Symbols
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.mlir_backend.bufferize import fused_to_bufferized
from mlirtri.lowering.mlir_backend.loops import bufferized_to_loops
from mlirtri.lowering.mlir_common.attributes import strides_of
from mlirtri.lowering.mlir_common.constants import global_constant
from mlirtri.lowering.mlir_common.imperative import updates_of
from mlirtri.lowering.mlir_common.reading import dtype_of, symbol_name
from mlirtri.lowering.runtime.planner import PARTS
from mlirtri.lowering.sizes.infer_size_program import is_static, size_program
from mlirtri.lowering.tir.primfunc import Names
from mlirtri.lowering.toolchain.tvm_names import BINDING_LOCATIONS, BlockBuilder, IRModule, PrimFunc, TensorType, relax

_NEW = -1
"""How `call_tir_inplace` marks a result that has a buffer of its own."""


Dtypes = Sequence[str]


def lower_imperative(
    module: ir.Module, context: CompileContext, signature: tuple[Dtypes, Dtypes] | None = None
) -> IRModule:
    """Return the Relax module of an imperative module; raises `UnsupportedOperationError`, `PassFailedError`.

    `signature` has the dtypes of arguments and results where `module` lost their signedness.
    """
    [function] = public_functions(module)
    sizes = None if is_static(function) else size_program(module)
    with errors_at(function.operation):
        facts = _facts(function, signature, Symbols(sizes))
    shapes = _buffer_shapes(function, facts, Symbols(sizes))
    strides = strides_of(function)
    return _relax_module(facts, *_loops(module, context, len(facts.arguments), facts.buffers, shapes, strides))


def loops_of(module: ir.Module, context: CompileContext) -> Loops:
    """Return the PrimFunc of a module of one function on static tensors without updates."""
    [function] = public_functions(module)
    name, inputs = symbol_name(function), len(function.type.inputs)
    return Loops(name, *_loops(module, context, inputs))


def _loops(module: ir.Module, context: CompileContext, inputs: int, *signature: Any) -> tuple[PrimFunc, tuple]:
    """Return the imperative PrimFunc of the module's function, and the constant arrays that follow its inputs."""
    fused_to_bufferized.lower(module, context)
    bufferized_to_loops.lower_to_loops(module, context)
    [function] = public_functions(module)
    built = build_imperative(function.operation, inputs, *signature)
    return built.function, tuple(_constant(module, symbol) for symbol in built.constants)


@dataclass(frozen=True)
class _Facts:
    """The signature of the kernel's Relax function."""

    name: str
    span: Span | None
    parameters: tuple[str, ...]
    arguments: tuple[TensorType, ...]
    results: tuple[TensorType, ...]
    in_place: tuple[int, ...]
    """For each result the index of the argument that it updates, or -1."""
    has_parts: bool

    @property
    def buffers(self) -> list[str]:
        """Return the dtypes of the buffers of the arguments, and of the results that have their own."""
        new = [kind for kind, argument in zip(self.results, self.in_place, strict=True) if argument == _NEW]
        return [str(kind.dtype) for kind in (*self.arguments, *new)]


def _facts(function: Any, signature: tuple[Dtypes, Dtypes] | None, symbols: Symbols) -> _Facts:
    kinds = (function.type.inputs, function.type.results)
    dtypes = signature or tuple([dtype_of(kind) for kind in group] for group in kinds)
    updates = {result: argument for argument, result in updates_of(function).items()}
    arguments = tuple(map(_type, symbols.arguments(kinds[0]), (DTYPES[name] for name in dtypes[0])))
    # The size program has the call check that an argument's new content has the argument's sizes.
    results = tuple(
        arguments[updates[number]] if number in updates else _type(shape, DTYPES[dtypes[1][number]])
        for number, shape in enumerate(symbols.results(kinds[1], is_whole=True))
    )
    unique, name = Names([function.sym_name.value]), function.sym_name.value
    name_hints = [
        name_of(argument.location) or f"arg{position}" for position, argument in enumerate(function.arguments)
    ]
    return _Facts(
        name, span_of(function.location), tuple(map(unique.unique, name_hints)), arguments, results,
        tuple(updates.get(position, _NEW) for position in range(len(results))),
        any(DTYPES[dtype].is_complex for group in dtypes for dtype in group),
    )  # fmt: skip


def _buffer_shapes(function: Any, facts: _Facts, symbols: Symbols) -> list[Any]:
    """Return the shapes of the buffers of the arguments, and of the results that have their own."""
    arguments = symbols.arguments(function.type.inputs)
    results = zip(symbols.results(function.type.results, is_whole=False), facts.in_place, strict=True)
    return [*arguments, *(shape for shape, argument in results if argument == _NEW)]


def _relax_module(facts: _Facts, loops: PrimFunc, constants: Sequence[Any]) -> IRModule:
    block = BlockBuilder()
    parameters = [relax.Var(name, kind) for name, kind in zip(facts.parameters, facts.arguments, strict=True)]
    with block.function(facts.name, parameters):
        callee = block.add_func(loops, f"{facts.name}_loops")
        call = _call(callee, relax.Tuple([*parameters, *constants]), facts)
        result = block.emit(call, Names([facts.name, *facts.parameters]).unique("results"))
        block.emit_func_output(result)
    module = block.get()
    attributes: dict[str, Any] = {BINDING_LOCATIONS: {result.name: str(facts.span)} if facts.span else {}}
    if facts.has_parts:
        attributes[PARTS] = True
    kernel = module.get_global_var(facts.name)
    module.update_func(kernel, module[kernel].with_attrs(attributes))
    return module


def _call(callee: Any, inputs: relax.Tuple, facts: _Facts) -> relax.Call:
    out = list(facts.results) if len(facts.results) != 1 else facts.results[0]
    if all(argument == _NEW for argument in facts.in_place):
        return relax.call_tir(callee, inputs, out)
    return relax.call_tir_inplace(callee, inputs, list(facts.in_place), out)


def _type(shape: Sequence[Any], dtype: DType) -> TensorType:
    """Return the Relax type of a tensor; complex elements become a last dimension of 2."""
    return TensorType((*shape, *([2] if dtype.is_complex else [])), dtype.part.name)


def _constant(module: ir.Module, symbol: str) -> Any:
    for definition in operations_named(module, "memref.global"):
        if symbol_name(definition) == symbol:
            array = global_constant(definition)
            return relax.const(array, array.dtype.name)
    raise UnsupportedOperationError(f"the module has no constant {symbol!r}")
