"""Lower a graph of kernels to a module with one `func.func` of `tri` operations: each call is inlined in order.

A call in a graph means what the same call means outside of one: its results are new arrays, what it writes are its
arguments, and dtypes follow the kernel's own semantics. `GraphModule` also checks calls while they are recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

import numpy as np

from mlirtri.dialect.base.tensor_type import TensorType
from mlirtri.dialect.bindings.locations import location_of
from mlirtri.dialect.bindings.mlir import func, ir
from mlirtri.dialect.builder import TriValue
from mlirtri.dialect.definition import mlir_type, new_context
from mlirtri.errors import KernelTypeError
from mlirtri.lowering.core.interface import (
    ConstantParameter,
    Interface,
    ResultTree,
    TensorParameter,
    python_value,
    value_of_parameter,
)
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.external.calls import drop_unused
from mlirtri.lowering.frontend.argument_sizes import emit_prologue, with_linear_form, without_values
from mlirtri.lowering.frontend.ast_to_tri import argument_value, is_array, new_language, return_results
from mlirtri.lowering.frontend.context import FunctionContext
from mlirtri.lowering.frontend.graph.kernel_graph import Dispatch, GraphArgument, KernelGraph, ValueNumber, mapped
from mlirtri.lowering.frontend.inlining import inline_bound
from mlirtri.lowering.frontend.scope import Scope
from mlirtri.lowering.frontend.semantics.builder import NUMBERS, describe
from mlirtri.lowering.frontend.semantics.storage import current, with_memory


def lower(graph: KernelGraph, context: CompileContext) -> ir.Module:
    """Return the `tri` module of a graph, and set `context.interface`; raises the `KernelError`s of its kernels."""
    module = GraphModule(graph.symbol, graph.arguments, context)
    for dispatch in graph.dispatches:
        module.add(dispatch)
    context.interface = module.finish(graph)
    return module.module


class GraphModule:
    """The module of a graph under construction."""

    def __init__(self, symbol: str, arguments: Sequence[GraphArgument], context: CompileContext):
        self.context = context
        self.arguments = tuple(arguments)
        self.values: dict[int, Any] = {}
        """The tensors by the number of their value."""
        parameters = self.parameters
        spans = [argument.span for argument in arguments]
        with new_context() as self._mlir, location_of(spans[0] if spans else None):
            self.module = ir.Module.create()
            types = [mlir_type(parameter.type) for parameter in parameters]
            with ir.InsertionPoint(self.module.body):
                self._function = func.FuncOp(symbol, (types, []))
            locations = [location_of(span, p.name) for span, p in zip(spans, parameters, strict=True)]
            self._block = self._function.add_entry_block(arg_locs=locations)
            with ir.InsertionPoint(self._block):
                self._emit_arguments()

    @property
    def parameters(self) -> tuple[TensorParameter, ...]:
        return tuple(argument.parameter for argument in self.arguments)

    def _emit_arguments(self) -> None:
        builder = self._builder = new_language("torch", self._block, self.context)
        types = emit_prologue(builder, self._function, self._block, self.parameters)
        for position, (argument, type_) in enumerate(zip(self.arguments, types, strict=True)):
            value = argument_value(self._block.arguments[position], type_, argument.parameter, position)
            self.values[argument.number] = with_linear_form(builder, value, argument.parameter.name)

    def add(self, dispatch: Dispatch) -> ResultTree:
        """Inline a call; return its result with a `ValueNumber` for each tensor. Raises the kernel's `KernelError`."""
        builder = self._builder
        self._set_options(dispatch)
        with self._mlir, location_of(dispatch.span) as location, ir.InsertionPoint(self._block):
            builder.tri.location = location
            scope = Scope(dispatch.function, self.context.captures)
            caller = FunctionContext(builder, scope, dispatch.span.file)
            result = inline_bound(caller, dispatch.function, self._bound(dispatch), dispatch.span)
            builder.tri.location = location
            numbers = count(dispatch.first)
            return mapped(result, lambda value: self._new(value, next(numbers), dispatch))

    def _set_options(self, dispatch: Dispatch) -> None:
        """Let the options of the called kernel hold."""
        builder = self._builder
        builder.semantics, builder.unroll, builder.debug = dispatch.semantics, dispatch.unroll, dispatch.debug
        builder.inline_depth = dispatch.inline_depth
        builder.checks_indices = dispatch.debug or self.context.target.kind == "cpu"

    def _bound(self, dispatch: Dispatch) -> dict[str, Any]:
        arguments = iter(dispatch.arguments)

        def value_of(parameter: TensorParameter | ConstantParameter) -> Any:
            argument = next(arguments)
            is_constant = isinstance(parameter, ConstantParameter)
            return python_value(parameter.value) if is_constant else self._operand(parameter, argument)

        return {parameter.name: value_of_parameter(parameter, value_of) for parameter in dispatch.parameters}

    def _operand(self, parameter: TensorParameter, argument: Any) -> Any:
        """Return what the name of a run-time parameter holds: a number has the dtype of the parameter."""
        builder = self._builder
        if not isinstance(argument, ValueNumber):
            if parameter.weak:
                return argument
            number = argument.item() if isinstance(argument, np.generic) else argument
            return builder.tensor(number, parameter.type.dtype)
        value = self.values[argument.number] = current(builder.tri, self.values[argument.number])
        if value.type.dtype != parameter.type.dtype or (value.weak and not parameter.weak):
            cast = builder.tri.cast(value, parameter.type.dtype)
            return TriValue(cast.value, cast.type)
        return value

    def _new(self, value: Any, number: int, dispatch: Dispatch) -> ValueNumber:
        """Number a tensor that a call returns: a new array, whatever the kernel returned a view of."""
        builder = self._builder
        if not isinstance(value, (TriValue, *NUMBERS)):
            raise KernelTypeError(
                f"a kernel cannot return {describe(value)}", dispatch.span, help="return tensors, numbers, tuples"
            )
        tensor = current(builder.tri, value if isinstance(value, TriValue) else builder.tensor(value))
        new = TriValue(tensor.value, tensor.type)
        self.values[number] = with_memory(new, 0 if dispatch.semantics == "torch" or is_array(value) else 1)
        return ValueNumber(number)

    def type_of(self, value: ValueNumber) -> TensorType:
        """Return the type of a value; its sizes refer to nothing of this module."""
        return without_values(self.values[value.number].type)

    def finish(self, graph: KernelGraph) -> Interface:
        """End the function with the graph's results, and return its interface."""
        span = graph.return_span or graph.span
        tri, self._builder.semantics = self._builder.tri, graph.semantics
        with self._mlir, location_of(span) as tri.location, ir.InsertionPoint(self._block):
            returned = mapped(graph.returned, lambda value: current(tri, self.values[value.number]))
            memories = [current(tri, self.values[argument.number]) for argument in self.arguments]
            interface = return_results(self._builder, self._function, returned, memories, self.parameters, span)
        drop_unused(self.module)
        self.module.operation.verify()
        return interface
