"""Outline loops between straight-line tensor code: each such subgraph becomes a function that the kernel calls.

Products then keep the schedules of straight-line code. What a subgraph alone needs (constants, empty tensors, scalars)
is cloned into it. A scalar that one subgraph computes for another is a tensor of rank 0 between them. A function is
compiled whole if it updates arguments, has sizes of run time or complex numbers at a subgraph's boundary, or has
nothing profitable to outline.

    %y = conv(%x); %z = scf.for … %y   ──►   %y = conv(%x); %z = call @main_loops_0(%y)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from mlirtri.dialect.bindings.locations import name_of
from mlirtri.dialect.bindings.mlir import all_operations_in, arith, func, ir, public_functions, tensor
from mlirtri.lowering.external.calls import KIND, OUTLINED_LOOPS
from mlirtri.lowering.mlir_common.aliasing import terminator
from mlirtri.lowering.mlir_common.attributes import IMPORTED
from mlirtri.lowering.mlir_common.cloning import clone_all, needed_by
from mlirtri.lowering.mlir_common.imperative import is_imperative_operation, updates_of
from mlirtri.lowering.mlir_common.reading import definition, symbol_name

PROFITABLE_SIZE = 4096
"""Elements of the largest tensors of all products together from which on their schedules matter."""
LITERALS = ("arith.constant", "tensor.empty", "linalg.fill")


@dataclass
class Subgraph:
    """A run of operations, and after planning its inputs and outputs."""

    operations: list[ir.Operation] = field(default_factory=list)
    inputs: list[ir.Value] = field(default_factory=list)
    outputs: list[ir.Value] = field(default_factory=list)
    copied: list[ir.Operation] = field(default_factory=list)
    """Literals and scalars from outside, cloned inside."""


def outline(module: ir.Module) -> dict[str, ir.Module]:
    """Return the outlined functions by symbol; empty, and nothing changed, where the function is compiled whole."""
    [function] = public_functions(module)
    block = function.regions[0].blocks[0]
    if IMPORTED not in function.attributes or updates_of(function):
        return {}
    marked = _marked(block)
    straight = [item.operation for item in block.operations if item.operation not in marked]
    if sum(map(_scheduled_size, straight)) < PROFITABLE_SIZE:
        return {}
    order, subgraphs = _in_order(block, marked)
    _plan(subgraphs, marked)
    if not _can_be_called(subgraphs, block):
        return {}
    if scalars := [value for subgraph in subgraphs for value in subgraph.outputs if _is_carried(value.type)]:
        for value in scalars:
            _carry(value, subgraphs)
        _plan(subgraphs, {operation for subgraph in subgraphs for operation in subgraph.operations})
    end = terminator(block)
    for item in order:
        for operation in item.operations if isinstance(item, Subgraph) else [item]:
            operation.move_before(end)
    symbol = symbol_name(function)
    named = {f"{symbol}_loops_{number}": subgraph for number, subgraph in enumerate(subgraphs)}
    with ir.Location.unknown():
        modules = {name: _function_of(subgraph, name) for name, subgraph in named.items()}
        _call(module, named)
    _erase(subgraphs, block)
    return modules


def _plan(subgraphs: Sequence[Subgraph], marked: set[ir.Operation]) -> None:
    for subgraph in subgraphs:
        _plan_inputs(subgraph)
    for subgraph in subgraphs:
        _plan_outputs(subgraph, subgraphs, marked)


def _can_be_called(subgraphs: Sequence[Subgraph], block: ir.Block) -> bool:
    """Return whether all inputs and outputs are static tensors or scalars, and every subgraph has an output."""
    if not all(_is_static_tensor(argument.type) for argument in block.arguments):
        return False
    boundary = [value for subgraph in subgraphs for value in (*subgraph.inputs, *subgraph.outputs)]
    are_passed = all(_is_static_tensor(value.type) or _is_carried(value.type) for value in boundary)
    return are_passed and all(subgraph.outputs for subgraph in subgraphs)


def _is_carried(type_: ir.Type) -> bool:
    return isinstance(type_, ir.IntegerType | ir.FloatType | ir.IndexType)


def _carry(value: ir.Value, subgraphs: Sequence[Subgraph]) -> None:
    """Pass a scalar from the subgraph that computes it to those that read it, as a tensor of rank 0.

    Straight-line code reads no scalars: what does is part of a subgraph.
    """
    owner, uses = value.owner.operation, list(value.uses)
    [source] = [subgraph for subgraph in subgraphs if owner in subgraph.operations]
    is_index = isinstance(value.type, ir.IndexType)
    kind = ir.IntegerType.get_signless(64) if is_index else value.type
    with owner.location, _after(owner):
        element = arith.index_cast(kind, value) if is_index else value
        carried = tensor.from_elements(ir.RankedTensorType.get((), kind), [element])
    made = [element.owner.operation] if is_index else []
    source.operations += [*made, carried.owner.operation]
    for subgraph in subgraphs:
        inside = {nested for operation in subgraph.operations for nested in all_operations_in(operation)}
        readers = [use for use in uses if use.owner.operation in inside]
        if subgraph is source or not readers:
            continue
        with owner.location, ir.InsertionPoint(subgraph.operations[0]):
            read = tensor.extract(carried, [])
            made = [read.owner.operation]
            if is_index:
                read = arith.index_cast(value.type, read)
                made.append(read.owner.operation)
        for use in readers:
            use.owner.operands[use.operand_number] = read
        subgraph.operations[:0] = made


def _after(operation: ir.Operation) -> ir.InsertionPoint:
    following = [view.operation for view in operation.block.operations]
    return ir.InsertionPoint(following[following.index(operation) + 1])


def _erase(subgraphs: Sequence[Subgraph], block: ir.Block) -> None:
    # An operation's hash changes with its operands, so the set cannot be used any more.
    for subgraph in reversed(subgraphs):
        for operation in reversed(subgraph.operations):
            operation.erase()
    for operation in reversed([view.operation for view in block.operations][:-1]):
        is_used = any(True for result in operation.results for _ in result.uses)
        if _is_cheap(operation) and not is_used:
            operation.erase()


def _scheduled_size(operation: ir.Operation) -> int:
    """Return the elements of the largest tensor of a product or convolution, 0 of others.

    What is compiled elsewhere counts as large enough by itself.
    """
    if operation.name == "func.call":
        return PROFITABLE_SIZE
    if not operation.name.startswith("linalg.") or not _is_product(operation):
        return 0
    kinds = [value.type for value in (*operation.operands, *operation.results)]
    return max((prod(kind.shape) for kind in kinds if isinstance(kind, ir.RankedTensorType)), default=0)


def _is_product(operation: ir.Operation) -> bool:
    if operation.name != "linalg.generic":
        return any(word in operation.name for word in ("matmul", "conv", "mmt4d", "contract"))
    iterators = str(operation.attributes["iterator_types"])
    return "reduction" in iterators and iterators.count("parallel") >= 2 and len(operation.operands) >= 3


def _is_static_tensor(type_: ir.Type) -> bool:
    is_tensor = isinstance(type_, ir.RankedTensorType) and type_.has_static_shape
    return is_tensor and not isinstance(type_.element_type, ir.ComplexType)


def _marked(block: ir.Block) -> set[ir.Operation]:
    """Return the operations of subgraphs: imperative ones, and those that only exchange scalars with them."""
    operations = [view.operation for view in block.operations][:-1]
    marked: set[ir.Operation] = set()
    scalars: set[ir.Value] = set()
    depending: set[ir.Value] = set()
    for operation in operations:
        needed = needed_by(operation)
        if any(value in scalars for value in needed) or any(map(is_imperative_operation, all_operations_in(operation))):
            marked.add(operation)
            scalars.update(value for value in operation.results if not isinstance(value.type, ir.RankedTensorType))
        if operation in marked or any(value in depending for value in needed):
            depending.update(operation.results)
    for operation in reversed(operations):
        users = [_at_top(use.owner.operation, block) for result in operation.results for use in result.uses]
        is_between = any(result in depending for result in operation.results) and all(user in marked for user in users)
        if users and is_between and _is_cheap(operation):
            marked.add(operation)
    return marked


def _is_cheap(operation: ir.Operation) -> bool:
    """Return whether `operation` is a literal or a computation of scalars."""
    is_scalar = not any(isinstance(result.type, ir.ShapedType) for result in operation.results)
    return operation.name in LITERALS or (is_scalar and not operation.regions)


def _at_top(operation: ir.Operation, block: ir.Block) -> ir.Operation:
    while operation.block != block:
        operation = operation.parent.operation
    return operation


def _in_order(block: ir.Block, marked: set[ir.Operation]) -> tuple[list[ir.Operation | Subgraph], list[Subgraph]]:
    """Return maximal runs of marked operations, reordered with what they need before and their users after."""
    order: list[ir.Operation | Subgraph] = []
    subgraphs: list[Subgraph] = []
    run, behind, results, tainted = Subgraph(), [], set(), set()

    def close() -> None:
        nonlocal run, behind, results, tainted
        if run.operations:
            subgraphs.append(run)
            order.append(run)
        order.extend(behind)
        run, behind, results, tainted = Subgraph(), [], set(), set()

    for operation in [view.operation for view in block.operations][:-1]:
        needed = set(needed_by(operation))
        if operation in marked:
            if not needed.isdisjoint(tainted):
                close()
            run.operations.append(operation)
            results.update(operation.results)
        elif not (needed.isdisjoint(results) and needed.isdisjoint(tainted)):
            behind.append(operation)
            tainted.update(operation.results)
        else:
            order.append(operation)
    close()
    return order, subgraphs


def _plan_inputs(subgraph: Subgraph) -> None:
    """Find the values that `subgraph` takes from outside, and which of those are cloned inside."""
    outer = _from_outside(subgraph.operations)
    inputs: dict[ir.Value, None] = {}
    copied: set[ir.Operation] = set()
    for value in outer:
        owner = definition(value)
        if owner is None or not _is_cheap(owner):
            inputs[value] = None
        elif owner not in copied:
            copied.add(owner)
            outer += _from_outside([owner])
    block = subgraph.operations[0].block
    position = {view.operation: number for number, view in enumerate(block.operations)}
    subgraph.inputs, subgraph.copied = list(inputs), sorted(copied, key=position.__getitem__)


def _plan_outputs(subgraph: Subgraph, subgraphs: Sequence[Subgraph], marked: set[ir.Operation]) -> None:
    """Find the values that straight-line code, the return or other subgraphs take from `subgraph`."""
    subgraph_inputs = {value for other in subgraphs for value in other.inputs}
    block = subgraph.operations[0].block

    def is_read(value: ir.Value) -> bool:
        return value in subgraph_inputs or any(_at_top(use.owner.operation, block) not in marked for use in value.uses)

    subgraph.outputs = [value for operation in subgraph.operations for value in operation.results if is_read(value)]


def _from_outside(operations: Sequence[ir.Operation]) -> list[ir.Value]:
    """Return the values used by operations or their regions but defined outside, in order."""
    inner = [nested for operation in operations for nested in all_operations_in(operation)]
    defined = {result for nested in inner for result in nested.results}
    defined.update(argument for nested in inner for region in nested.regions for block in region.blocks
                   for argument in block.arguments)  # fmt: skip
    used = (value for operation in operations for value in needed_by(operation))
    return list(dict.fromkeys(value for value in used if value not in defined))


def _function_of(subgraph: Subgraph, symbol: str) -> ir.Module:
    module = ir.Module.create()
    kinds = [[value.type for value in values] for values in (subgraph.inputs, subgraph.outputs)]
    with ir.InsertionPoint(module.body), subgraph.operations[0].location:
        function = func.FuncOp(symbol, tuple(kinds))
        block = function.regions[0].blocks.append(*kinds[0], arg_locs=[_named(value) for value in subgraph.inputs])
        clones = dict(zip(subgraph.inputs, block.arguments, strict=True))
        with ir.InsertionPoint(block):
            clone_all([*subgraph.copied, *subgraph.operations], clones)
            func.ReturnOp([clones[value] for value in subgraph.outputs])
    return module


def _call(module: ir.Module, subgraphs: Mapping[str, Subgraph]) -> None:
    """Insert calls before the operations of the subgraphs, whose results become unused."""
    replaced: dict[ir.Value, ir.Value] = {}
    for symbol, subgraph in subgraphs.items():
        inputs = [replaced.get(value, value) for value in subgraph.inputs]
        kinds = [[value.type for value in values] for values in (inputs, subgraph.outputs)]
        with ir.InsertionPoint(module.body):
            declaration = func.FuncOp(symbol, tuple(kinds), visibility="private")
        declaration.attributes[KIND] = ir.StringAttr.get(OUTLINED_LOOPS)
        with ir.InsertionPoint(subgraph.operations[0]), subgraph.operations[0].location:
            call = func.CallOp(kinds[1], symbol, inputs)
        replaced.update(zip(subgraph.outputs, call.operation.results, strict=True))
    for old, new in replaced.items():
        old.replace_all_uses_with(new)


def _named(value: ir.Value) -> ir.Location:
    location = value.location if isinstance(value.owner, ir.Block) else value.owner.location
    name = name_of(location)
    return ir.Location.name(name, location) if name else location
