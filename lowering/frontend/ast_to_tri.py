"""Lower a Python function's syntax tree to a module with one `func.func` of `tri` operations, each at its line.

Sets `context.interface`: parameters, results, checks, and the arguments that the function writes.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from mlirtri.dialect.base.dtypes import DTYPES
from mlirtri.dialect.base.sizes import Size
from mlirtri.dialect.base.tensor_type import TensorType
from mlirtri.dialect.bindings.locations import location_of, span_of
from mlirtri.dialect.bindings.mlir import func, ir
from mlirtri.dialect.builder import KernelValue, TriValue
from mlirtri.dialect.definition import mlir_type
from mlirtri.dialect.working_context import working_context
from mlirtri.errors import KernelTypeError, Span
from mlirtri.lowering.core.interface import (
    ConstantParameter,
    Interface,
    Leaf,
    RuntimeCheck,
    TensorParameter,
    flat_parameters,
    like,
    parts_of,
    python_value,
    value_of_parameter,
)
from mlirtri.lowering.core.stage import TILE_KERNEL, CompileContext
from mlirtri.lowering.dependence.declared_loops import check as check_declared_loops
from mlirtri.lowering.dependence.tile_loops import check as check_tile_loops
from mlirtri.lowering.external.calls import declaration_of, drop_unused
from mlirtri.lowering.frontend import branches, calls, comprehensions, loops, statements  # noqa: F401 - they register their handlers
from mlirtri.lowering.frontend.argument_sizes import emit_prologue, with_linear_form, without_values
from mlirtri.lowering.frontend.context import FunctionContext, visit_body
from mlirtri.lowering.frontend.device_placement import Placement
from mlirtri.lowering.frontend.library_functions.random_generator import is_generator
from mlirtri.lowering.frontend.python_to_ast import KernelTree, span_of_node
from mlirtri.lowering.frontend.scope import Scope
from mlirtri.lowering.frontend.semantics.builder import Language, describe
from mlirtri.lowering.frontend.semantics.container_values import from_outside, plain
from mlirtri.lowering.frontend.semantics.merging import Differs, kind, packed
from mlirtri.lowering.frontend.semantics.storage import Storage, View, has_memory
from mlirtri.lowering.mlir_common.attributes import argument_attributes
from mlirtri.lowering.mlir_common.imperative import UPDATED_BY
from mlirtri.lowering.mlir_common.reading import defined_by

INT32 = DTYPES["int32"]


def lower(tree: KernelTree, context: CompileContext) -> ir.Module:
    """Return the `tri` module of a kernel, and set `context.interface`; raises all `KernelError`s of the function."""
    span = span_of_node(tree.file, tree.node)
    with working_context(), location_of(span):
        module = ir.Module.create()
        types = [mlir_type(parameter.type) for parameter in tree.specialization.tensors]
        with ir.InsertionPoint(module.body):
            function = func.FuncOp(tree.symbol, (types, []))
        block = function.add_entry_block(arg_locs=_argument_locations(tree))
        with ir.InsertionPoint(block):
            _emit_body(tree, context, function, block)
        drop_unused(module)
        module.operation.verify()
        check_declared_loops(module)
        check_tile_loops(module)
    return module


def _argument_locations(tree: KernelTree) -> list[ir.Location]:
    arguments = tree.node.args
    rest = [node for node in (arguments.vararg, arguments.kwarg) if node is not None]
    nodes = {a.arg: a for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *rest)}
    return [
        location_of(span_of_node(tree.file, nodes[parameter.name]), part.name)
        for parameter in tree.specialization.parameters
        for part in flat_parameters([parameter])
        if isinstance(part, TensorParameter)
    ]


def _emit_body(tree: KernelTree, context: CompileContext, function: Any, block: ir.Block) -> None:
    parameters = tree.specialization.tensors
    builder = new_language(tree.specialization.semantics, block, context)
    scope = Scope(tree.function, context.captures)
    types = iter(emit_prologue(builder, function, block, parameters))
    arguments, memories = iter(block.arguments), list[TriValue]()

    def value_of(parameter: TensorParameter | ConstantParameter) -> Any:
        if isinstance(parameter, ConstantParameter):
            return python_value(parameter.value)
        value = argument_value(next(arguments), next(types), parameter, len(memories))
        memories.append(with_linear_form(builder, value, parameter.name))
        return memories[-1]

    for parameter in tree.specialization.parameters:
        value = value_of_parameter(parameter, value_of)
        scope.locals[parameter.name] = from_outside(value, "it is an argument of the kernel")
    value = visit_body(FunctionContext(builder, scope, tree.file), tree.node.body)
    if builder.block_threads:
        function.attributes[TILE_KERNEL] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), builder.block_threads)
    context.interface = return_results(builder, function, value, memories, parameters, _return_span(tree))


def new_language(semantics: str, block: ir.Block, context: CompileContext) -> Language:
    """Return the builder of a function with this entry block, with the options of the compilation."""
    builder = Language(semantics, context.unroll, context.debug, context.stops)
    builder.entry, builder.inline_depth = block, context.inline_depth
    builder.on_value = context.on_value
    builder.tri.placement = Placement(context.target)
    # On CUDA a check would wait for the device at each call.
    builder.checks_indices = context.debug or context.target.kind == "cpu"
    return builder


def return_results(
    builder: Language,
    function: Callable[..., object],
    value: KernelValue,
    memories: Sequence[TriValue],
    parameters: tuple[TensorParameter, ...],
    span: Span,
) -> Interface:
    """End `function` with a return of `value`, of its run-time checks and of what it writes; return its interface.

    `memories` are the values of the parameters, whose storages hold what was written.
    """
    results: list[TriValue] = []
    builder.tri.location = location_of(span)
    structure = _result_tree(plain(value), builder, results, span)
    numbers = tuple(number for number, result in enumerate(results) if result.weak and not result.type.rank)
    checks = _checks(builder, results)
    log = builder.prints.results(results)
    updates = []
    for number, argument in enumerate(memories):
        if has_memory(argument) and argument.origin.storage.is_written:
            updates.append((number, len(results)))
            results.append(argument.origin.storage.value)
    at_home = builder.tri.placement.at_home(builder.tri, results)
    func.ReturnOp([result.value for result in at_home], loc=builder.tri.location)
    # The function was created before its results were known.
    block = function.regions[0].blocks[0]
    inputs = [argument.type for argument in block.arguments]
    function.attributes["function_type"] = ir.TypeAttr.get(
        ir.FunctionType.get(inputs, [mlir_type(result.type) for result in results])
    )
    ordered = tuple(n for n, memory in enumerate(memories) if has_memory(memory) and memory.origin.storage.is_ordered)
    _mark_updates(function, tuple(updates))
    drop_dead(block)
    types = tuple(without_values(result.type) for result in results)
    return Interface(parameters, types, structure, checks, tuple(updates), log, ordered, numbers=numbers)


def _checks(builder: Language, results: list[TriValue]) -> tuple[RuntimeCheck, ...]:
    """Append to the results what tells which check fails, and return the checks.

    A lone check is a bool. Of several one result holds the number of the first that fails, and 0 if none does.
    """
    tri, checks = builder.tri, []
    for status, *check in builder.pending_checks:
        value = status.value if isinstance(status, Storage) else status
        # An abandoned attempt at a loop leaves checks that nothing writes.
        if not _is_false(value):
            checks.append((value, *check))
    if not checks:
        return ()
    code = checks[0][0]
    if len(checks) > 1:
        code = tri.constant(0, INT32)
        for number, (value, *_) in reversed(list(enumerate(checks, 1))):
            code = tri.where(value, tri.constant(number, INT32), code)
    results.append(code)
    last = len(results) - 1
    return tuple(
        RuntimeCheck(last, error, message, span_of(location), number)
        for number, (_, error, message, location) in enumerate(checks, 1)
    )


def _is_false(value: TriValue) -> bool:
    constant = defined_by(value.value, "tri.constant")
    return constant is not None and not constant.attributes["value"].value


def argument_value(value: ir.Value, type_: TensorType, parameter: TensorParameter, number: int) -> TriValue:
    """Return the value that a parameter's name holds: an array is the caller's memory."""
    tensor = TriValue(value, type_, parameter.weak)
    if parameter.number:
        return tensor
    return replace(tensor, origin=View(Storage(TriValue(value, type_), argument=number)))


def _mark_updates(function: Any, updates: tuple[tuple[int, int], ...]) -> None:
    """Record on each argument that the function writes the index of the result with its new content."""
    if not updates:
        return
    int64, groups = ir.IntegerType.get_signless(64), argument_attributes(function)
    for number, result in updates:
        groups[number][UPDATED_BY] = ir.IntegerAttr.get(int64, result)
    function.attributes["arg_attrs"] = ir.ArrayAttr.get(list(map(ir.DictAttr.get, groups)))


def drop_dead(block: ir.Block) -> None:
    """Erase unused operations without effects, such as those of abandoned attempts at loops."""
    for operation in reversed(list(block.operations)):
        for region in operation.operation.regions:
            for inner in region.blocks:
                drop_dead(inner)
        name = operation.operation.name
        is_pure = name.startswith(("tri.", "arith.")) or name in ("tensor.extract", "tensor.from_elements")
        is_pure = is_pure or declaration_of(operation.operation) is not None
        if is_pure and not any(len(list(result.uses)) for result in operation.operation.results):
            operation.operation.erase()


def _return_span(tree: KernelTree) -> Span:
    returns = [node for node in ast.walk(tree.node) if isinstance(node, ast.Return)]
    return span_of_node(tree.file, returns[-1] if returns else tree.node)


def is_array(value: object) -> bool:
    """Return whether a returned value of rank 0 is an array, not a number."""
    return has_memory(value) and not value.origin.storage.may_be_number


def _weak(builder: Language, number: bool | int | float | complex) -> TriValue:
    """Return a Python number as a constant that the call returns as a Python number."""
    tensor = builder.tensor(number, kind(number).type.dtype)
    return TriValue(tensor.value, tensor.type, weak=True)


def _result_tree(value: Any, builder: Language, results: list[TriValue], span: Span) -> Any:
    if value is None:
        return None
    if isinstance(value, (tuple, list, dict)) and not is_generator(value):
        return like(value, [_result_tree(part, builder, results, span) for part in parts_of(value)])
    if not isinstance(value, (TriValue, bool, int, float, complex)):
        raise KernelTypeError(f"a kernel cannot return {describe(value)}", span, help="return tensors, numbers, tuples")
    result = value if isinstance(value, TriValue) else _weak(builder, value)
    if all(Size.of(size).is_fixed for size in result.type.shape):
        results.append(result)
        keeps_rank_0 = builder.semantics == "numpy" and not result.type.rank and is_array(value)
        return Leaf(len(results) - 1, without_values(result.type), is_array=keeps_rank_0)
    try:
        result_kind = kind(result)
    except Differs as differs:
        raise KernelTypeError(
            f"a kernel cannot return {differs}", span,
            help="bound it: numpy.bincount(x, minlength=n), or write the values into an array of a known length",
        ) from None  # fmt: skip
    first = len(results)
    results += packed(builder, result, result_kind)
    counts = tuple((axis, first + 1 + position) for position, axis in enumerate(result_kind.varying))
    return Leaf(first, without_values(result_kind.type), counts)
