"""Explain why MLIR fused two operations on tensors, or did not: a verdict for every producer-consumer edge.

Runs `linalg_to_fused` once more, with operations numbered by their locations, and finds the numbers that ended in one
operation. Why two did not fuse is either `cost_guard`'s doing, whose marks are read, or a condition of upstream's pass,
which says nothing: those conditions are repeated here. Functions with loops have no edges.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from mlirtri.dialect.bindings.locations import name_of, span_of
from mlirtri.dialect.bindings.mlir import all_operations_in, ir, linalg, operations_named
from mlirtri.dialect.definition import new_context
from mlirtri.lowering.core.stage import CompileContext, Edge
from mlirtri.lowering.fusion import cost_guard, linalg_to_fused
from mlirtri.lowering.mlir_common.readable_names import name_of_structured

_NUMBER = re.compile(r'"fusion:(\d+)"')
_NO_NODES = ("tensor.empty", "arith.constant", "linalg.fill", "func.return", "tensor.dim", *cost_guard.RESHAPES)
"""Operations that are no node: they get no kernel of their own, and reshapes are traced through."""


def explain(text: str, context: CompileContext) -> list[Edge]:
    """Return the edges of all functions, in the order of their consumers."""
    with new_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        nodes = [operation for function in operations_named(module, "func.func") for operation in _nodes(function)]
        described = [_Node(operation) for operation in nodes]
        unfused = _kept(module)
        edges = [
            (number, consumer, value)
            for consumer, operation in enumerate(nodes)
            for number, value in _reads(operation, nodes)
        ]
        facts = [(producer, consumer, _obstacle(nodes[producer], nodes[consumer], value, unfused))
                 for producer, consumer, value in edges]  # fmt: skip
        for number, operation in enumerate(nodes):
            for inner in all_operations_in(operation):
                inner.location = ir.Location.name(f"fusion:{number}")
            operation.location = ir.Location.name(f"fusion:{number}")
        linalg_to_fused.lower(module, context)
        groups = _groups(module)
    return [
        _edge(described[producer], described[consumer], producer, consumer, why, groups)
        for producer, consumer, why in facts
    ]


class _Node:
    """The name and line of an operation, recorded before fusion changes it."""

    def __init__(self, operation: ir.Operation):
        name = name_of(operation.location)
        is_linalg = operation.name.startswith("linalg.")
        kind = name_of_structured(operation) if is_linalg else operation.name
        self.name = f"{kind} {name}" if name else kind
        span = span_of(operation.location)
        self.line = str(span) if span else ""


def _nodes(function: ir.Operation) -> Iterator[ir.Operation]:
    """Yield the tensor operations of a function's body; none of a function with loops, which is one kernel."""
    if not function.regions[0].blocks:
        return
    for operation in (view.operation for view in function.regions[0].blocks[0].operations):
        is_tensor = any(isinstance(result.type, ir.RankedTensorType) for result in operation.results)
        if is_tensor and operation.name not in _NO_NODES:
            yield operation


def _reads(operation: ir.Operation, nodes: list[ir.Operation]) -> Iterator[tuple[int, ir.Value]]:
    numbers = set()
    for value in map(_before_reshapes, operation.operands):
        if isinstance(value.owner, ir.Block):
            continue
        number = next((position for position, node in enumerate(nodes) if node == value.owner.operation), None)
        if number is not None and number not in numbers:
            numbers.add(number)
            yield number, value


def _before_reshapes(value: ir.Value) -> ir.Value:
    while not isinstance(value.owner, ir.Block) and value.owner.operation.name in cost_guard.RESHAPES:
        value = value.owner.operation.operands[0]
    return value


def _users(value: ir.Value) -> list[ir.Operation]:
    readers: list[ir.Operation] = []
    for use in value.uses:
        user = use.owner.operation
        users = _users(user.results[0]) if user.name in cost_guard.RESHAPES else [user]
        readers += [user for user in users if user not in readers]
    return readers


def _kept(module: ir.Module) -> list[ir.Value]:
    cost_guard.guard(module)
    marks = operations_named(module, "bufferization.dealloc_tensor")
    values = [mark.operands[0] for mark in marks if cost_guard.KEPT in mark.attributes]
    cost_guard.release(module)
    return values


def _obstacle(
    producer: ir.Operation, consumer: ir.Operation, value: ir.Value, unfused: list[ir.Value]
) -> tuple[str, str]:
    """Return what prevents the fusion of two operations, as a kind and a sentence."""
    users = _users(value)
    for operation in (producer, consumer):
        if operation.name == "func.call":
            return "extern", f"{operation.name} is an external kernel, which does not fuse"
    if _reduces(producer):
        return "reduction", "a reduction's result is known after its loop only; TVM fuses rows later"
    if any(user.name == "func.return" for user in users):
        return "output", "it is also a result of the function, and so it is stored"
    if value in unfused:
        return "expensive", "each element that reads it would compute it again"
    if len(users) > 1:
        return "uses", f"{len(users)} operations read it, and each would compute it"
    if not producer.name.startswith("linalg.") or not consumer.name.startswith("linalg."):
        return "layout", "one of the two only moves elements: TVM folds it into a kernel"
    return "axes", "their loop nests differ"


def _reduces(operation: ir.Operation) -> bool:
    maps = linalg.get_indexing_maps(operation) if operation.name.startswith("linalg.") else None
    if maps is None:
        return False
    results = [attribute.value for attribute in maps][-len(operation.results) :]
    return any(mapping.n_dims > len(mapping.results) for mapping in results)


def _groups(module: ir.Module) -> list[set[int]]:
    """Return, for each operation after fusion, the numbers of the operations before it that it computes."""
    groups = []
    for function in operations_named(module, "func.func"):
        for operation in _nodes(function):
            # The location of the operation itself also names operations that were merged beside it.
            operations = [inner for inner in all_operations_in(operation) if inner != operation] or [operation]
            text = "".join(str(inner.location) for inner in operations)
            groups.append({int(number) for number in _NUMBER.findall(text)})
    return groups


def _edge(
    producer: _Node, consumer: _Node, first: int, second: int, why: tuple[str, str], groups: list[set[int]]
) -> Edge:
    verdict = (False, *why)
    if any({first, second} <= group for group in groups):
        verdict = (True, "elementwise", "the consumer computes each element as it needs it")
    elif not any(first in group for group in groups) or not any(second in group for group in groups):
        verdict = (True, "folded", "one of the two only moved elements, was constant, or was a duplicate")
    return Edge("fused", producer.name, consumer.name, consumer.line, *verdict)
