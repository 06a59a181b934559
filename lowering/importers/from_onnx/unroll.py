"""Unroll loops whose number of iterations is known: torch-mlir lowers none that collect results.

Loop(trip count 2, true, v) { … }    ──►   the nodes of the body, twice
Scan(v, x : float[2, n]) { … }       ──►   the same, with x[0] and x[1]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import GraphProto, NodeProto, helper

from mlirtri.lowering.importers.from_onnx.nodes import Nodes, Values, attribute_of, constant, graphs_in, operand

LARGEST = 64
"""The most iterations that are unrolled."""


def rename(nodes: Sequence[NodeProto], names: dict[str, str], prefix: str) -> None:
    """Put `prefix` before the names of nodes and of the values that they make; `names` collects those of values."""
    for node in nodes:
        node.name = f"{prefix}.{node.name}"
        node.input[:] = [names.get(name, name) for name in node.input]
        for output in node.output:
            if output:
                names[output] = f"{prefix}.{output}"
        node.output[:] = [names.get(name, name) for name in node.output]
        for inner in graphs_in(node):
            inside = dict(names)
            rename(list(inner.node), inside, prefix)
            for value in inner.output:
                value.name = inside.get(value.name, value.name)


def inlined(graph: GraphProto, arguments: Sequence[str], prefix: str) -> tuple[list[NodeProto], list[str]]:
    """Return a copy of a graph's nodes with these names for its inputs, and the names of its results."""
    copy = onnx.GraphProto()
    copy.CopyFrom(graph)
    nodes = [constant(tensor.name, onnx.numpy_helper.to_array(tensor)) for tensor in copy.initializer]
    nodes.extend(copy.node)
    names = dict(zip((value.name for value in copy.input), arguments, strict=True))
    rename(nodes, names, prefix)
    return nodes, [names.get(value.name, value.name) for value in copy.output]


def unrolled_loop(node: NodeProto, values: Values) -> list[NodeProto] | None:
    """Return the iterations of a `Loop`, None if their number is not known."""
    body = attribute_of(node, "body", None)
    count, condition = (values.constants.get(operand(node, position)) for position in (0, 1))
    if count is None or count.item() > LARGEST or (operand(node, 1) and condition is None):
        return None
    if operand(node, 1) and not goes_on(body, values):
        return None
    trips = int(count.item()) if condition is None or condition.item() else 0
    carried = list(node.input[2:])
    if trips <= 0 and len(node.output) > len(carried):
        return None
    add, collected = Nodes(node), []
    truth = add.constant(np.array(True), "condition")
    for trip in range(trips):
        index = add.constant(np.array(trip, np.int64), f"trip{trip}")
        nodes, results = inlined(body, [index, truth, *carried], f"{node.name}.{trip}")
        add.nodes.extend(nodes)
        carried = results[1 : len(carried) + 1]
        collected.append(results[len(carried) + 1 :])
    return _finished(add, node, carried, collected, [0] * len(node.output), [0] * len(node.output))


def goes_on(body: GraphProto, values: Values) -> bool:
    """Return whether the condition of the body is the one that it is given, or a constant that is true."""
    producers = {name: node for node in body.node for name in node.output}
    name, inner = body.output[0].name, values.within(body)
    while name in producers and producers[name].op_type == "Identity":
        name = producers[name].input[0]
    return name == body.input[1].name or bool(name in inner.constants and inner.constants[name].item())


def unrolled_scan(node: NodeProto, values: Values) -> list[NodeProto] | None:
    """Return the iterations of a `Scan`, None if their number is not known."""
    body, scans = attribute_of(node, "body", None), attribute_of(node, "num_scan_inputs", 1)
    state = len(node.input) - scans
    axes = attribute_of(node, "scan_input_axes", None) or [0] * scans
    directions = attribute_of(node, "scan_input_directions", None) or [0] * scans
    shape = values.shape(node.input[state])
    trips = None if shape is None else shape[axes[0] % len(shape)]
    if trips is None or not 0 < trips <= LARGEST:
        return None
    add, collected, carried = Nodes(node), [], list(node.input[:state])
    for trip in range(trips):
        slices = [
            add("Gather", name, add.constant(np.array(trips - 1 - trip if back else trip)), axis=axis)
            for name, axis, back in zip(node.input[state:], axes, directions, strict=True)
        ]
        nodes, results = inlined(body, [*carried, *slices], f"{node.name}.{trip}")
        add.nodes.extend(nodes)
        carried = results[:state]
        collected.append(results[state:])
    outputs = len(node.output) - state
    axes = attribute_of(node, "scan_output_axes", None) or [0] * outputs
    directions = attribute_of(node, "scan_output_directions", None) or [0] * outputs
    return _finished(add, node, carried, collected, axes, directions)


def _finished(
    add: Nodes, node: NodeProto, carried: list[str], collected: list[list[str]], axes: list[int], directions: list[int]
) -> list[Any]:
    """Name the carried values as the first results, and stack what each iteration gave as the others."""
    for position, name in enumerate(carried):
        if node.output[position]:
            add("Identity", name, result=position)
    for number, output in enumerate(node.output[len(carried) :]):
        if not output:
            continue
        names = [results[number] for results in collected]
        where = add.constant(np.array([axes[number]]))
        parts = [add("Unsqueeze", name, where) for name in (reversed(names) if directions[number] else names)]
        add("Concat", *parts, axis=axes[number], result=len(carried) + number)
    return add.nodes


def branch_of(node: NodeProto, values: Values) -> list[NodeProto] | None:
    """Return the nodes of the branch that an `If` takes, None if it is not known."""
    condition = values.constants.get(node.input[0])
    if condition is None:
        return _chosen(node)
    graph = attribute_of(node, "then_branch" if condition.item() else "else_branch", None)
    nodes, results = inlined(graph, [], node.name)
    nodes.extend(
        helper.make_node("Identity", [result], [output], name=f"{node.name}.result{position}")
        for position, (result, output) in enumerate(zip(results, node.output, strict=True))
        if output
    )
    return nodes


def _chosen(node: NodeProto) -> list[NodeProto] | None:
    """Choose between two branches of constants of the same shape by `Where`, which torch-mlir lowers."""
    branches = [attribute_of(node, name, None) for name in ("then_branch", "else_branch")]
    constants = [Values({}).within(branch).constants for branch in branches]
    if any(value.name not in known for b, known in zip(branches, constants, strict=True) for value in b.output):
        return None
    add = Nodes(node)
    for position in range(len(node.output)):
        pair = [known[b.output[position].name] for b, known in zip(branches, constants, strict=True)]
        if pair[0].shape != pair[1].shape:
            return None
        add("Where", node.input[0], *map(add.constant, pair), result=position)
    return add.nodes
