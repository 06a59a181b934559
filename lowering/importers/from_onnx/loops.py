"""Loops that are not unrolled: results collected in buffers that the loop carries, since torch-mlir lowers no others.

Loop(trip count 100, true, v) { … yields d, v', e }     ──►   Loop(100, true, v, zeros[100, …], 0)
                                                              { … yields d, v', buffer with e at the count, count + 1 }
Scan(v, x : float[100, n]) { … }                        ──►   the same, with x[i]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
from onnx import GraphProto, NodeProto, TensorProto, helper

from mlirtri.errors import UnsupportedOperationError
from mlirtri.lowering.importers.from_onnx.nodes import Nodes, Values, attribute_of, constant, graphs_in, operand
from mlirtri.lowering.importers.from_onnx.unroll import goes_on

LARGEST_CONSTANT = 1024
"""The most elements of a constant that is copied into the graphs that read it."""


def copy_constants(node: NodeProto, values: Values) -> None:
    """Copy constants of the surrounding graphs into the graphs of a node: ONNX's inference does not look outside."""
    for graph in graphs_in(node):
        names = {}
        for name in sorted(_names_read(graph)):
            array = values.constants.get(name)
            if array is not None and array.size <= LARGEST_CONSTANT and array.dtype != object:
                names[name] = f"{node.name}.{graph.name}.{name}"
        if names:
            _rename_reads(graph, names)
            copies = [constant(new, values.constants[name]) for name, new in names.items()]
            nodes = [*copies, *graph.node]
            del graph.node[:]
            graph.node.extend(nodes)


def _names_read(graph: GraphProto) -> set[str]:
    """Return the names that a graph reads, and those inside of it, and does not define."""
    names = {name for node in graph.node for name in node.input if name} | {value.name for value in graph.output}
    for node in graph.node:
        for inner in graphs_in(node):
            names |= _names_read(inner)
    return names - _defined(graph)


def _defined(graph: GraphProto) -> set[str]:
    names = {value.name for value in (*graph.input, *graph.initializer)}
    return names | {name for node in graph.node for name in node.output if name}


def _rename_reads(graph: GraphProto, names: dict[str, str]) -> None:
    """Rename what a graph reads, and those inside of it as far as they do not define it, in place."""
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        for inner in graphs_in(node):
            own = _defined(inner)
            _rename_reads(inner, {name: new for name, new in names.items() if name not in own})
    for value in graph.output:
        value.name = names.get(value.name, value.name)


def separate_names(graph: GraphProto, outer: frozenset[str] = frozenset()) -> None:
    """Rename values of the graphs in nodes that have the name of a value around them, in place.

    ONNX's checker accepts those, and torch-mlir's importer takes one for the other.
    """
    taken = outer | _defined(graph)
    for node in graph.node:
        for number, inner in enumerate(graphs_in(node)):
            names = {name: f"{node.name}.{number}.{name}" for name in sorted(_defined(inner) & taken)}
            _rename_reads(inner, names)
            for value in (*inner.input, *inner.initializer, *inner.value_info):
                value.name = names.get(value.name, value.name)
            for inner_node in inner.node:
                inner_node.output[:] = [names.get(name, name) for name in inner_node.output]
            separate_names(inner, taken)


def for_loop(
    add: Nodes,
    count: int | str,
    carried: Sequence[str],
    kinds: Sequence[tuple[int, Sequence[int | str]]],
    body: Callable[..., list[str]],
    part: str = "loop",
) -> list[str]:
    """Create a Loop of `count` iterations, a number or the name of one, and return the names of its results.

    `kinds` are the element types and shapes of the carried values, with names for sizes of run time.
    ``body(inner, index, *carried)`` creates the nodes of an iteration by `inner`, and returns the names of the carried
    values after it.
    """
    inner = Nodes(helper.make_node("Loop", [], [], name=add.label(part)))
    names = [f"{inner.node.name}.{name}" for name in ("index", "goes", *(f"carried{n}" for n in range(len(carried))))]
    types = [(TensorProto.INT64, []), (TensorProto.BOOL, []), *kinds]
    yielded = body(inner, names[0], *names[2:])
    results = [inner("Identity", name) for name in (names[1], *yielded)]
    graph = helper.make_graph(
        inner.nodes, part,
        [helper.make_tensor_value_info(name, *kind) for name, kind in zip(names, types, strict=True)],
        [helper.make_tensor_value_info(name, *kind) for name, kind in zip(results, types[1:], strict=True)],
    )  # fmt: skip
    trips = add.constant(np.array(count)) if isinstance(count, int) else count
    return add.several("Loop", trips, "", *carried, count=len(carried), part=part, body=graph)


def stored(add: Nodes, buffer: str, index: str, value: str) -> str:
    """Return `buffer` with `value` at `index`, a scalar, along the first axis."""
    row = add("Reshape", index, add.constant(np.array([1, 1])))
    return add("ScatterND", buffer, row, add("Unsqueeze", value, add.constant(np.array([0]))))


def simplified(node: NodeProto, values: Values) -> list[NodeProto]:
    """Drop a condition that is always true, and carry what each iteration gives in buffers.

    A buffer has as many rows as there are iterations at most; the rows of those that ran are the result.
    """
    body, condition = attribute_of(node, "body", None), operand(node, 1)
    begins = values.constants.get(condition)
    if begins is not None and begins.item() and goes_on(body, values):
        condition = ""
    if not condition and not operand(node, 0):
        raise UnsupportedOperationError(
            f"node {node.name!r} is a Loop that never ends", help="give it a trip count, or a condition"
        )
    if len(node.output) > len(node.input) - 2:
        return _with_buffers(node, condition, values)
    loop = onnx.NodeProto()
    loop.CopyFrom(node)
    loop.input[1] = condition
    return [loop]


def _with_buffers(node: NodeProto, condition: str, values: Values) -> list[NodeProto]:
    body = onnx.GraphProto()
    body.CopyFrom(attribute_of(node, "body", None))
    carried, inner = list(node.input[2:]), values.within(body)
    results = [result.name for result in body.output][1 + len(carried) :]
    count = values.constants.get(operand(node, 0))
    shapes = [inner.static_shape(result) for result in results]
    if count is None or count.item() < 1 or None in shapes:
        raise UnsupportedOperationError(
            f"node {node.name!r} is a Loop that collects results of an unknown shape, or an unknown number of them",
            help="give it a positive constant as trip count, and results of one shape",
        )
    add, length = Nodes(node), int(count.item())
    buffers = [
        add.constant(np.zeros([length, *shape], inner.dtype(name)))  # type: ignore[misc]
        for name, shape in zip(results, shapes, strict=True)
    ]
    _store_rows(body, node.name, len(carried), length, inner)
    loop = add.several(
        "Loop", node.input[0], condition, *carried, *buffers, add.constant(np.array(0)),
        count=len(carried) + len(results) + 1, body=body,
    )  # fmt: skip
    zero, last = add.constant(np.array([0])), add("Reshape", loop[-1], add.constant(np.array([1])))
    for position, (name, output) in enumerate(zip(loop, node.output, strict=False)):
        if not output:
            continue
        if position < len(carried) or not condition:
            add("Identity", name, result=position)
        else:
            add("Slice", name, zero, last, zero, result=position)
    return add.nodes


def _store_rows(body: Any, name: str, carried: int, length: int, inner: Values) -> None:
    """Make the collected results of a body carried buffers, and carry the number of its iterations, in place."""
    add, index = Nodes(helper.make_node("Loop", [], [], name=f"{name}.rows")), body.input[0].name
    row, first = add("Reshape", index, add.constant(np.array([1, 1]))), add.constant(np.array([0]))
    for number, result in enumerate(list(body.output)[1 + carried :]):
        kind = inner.element_type(result.name), [length, *(inner.static_shape(result.name) or [])]
        buffer = f"{name}.buffer{number}"
        body.input.append(helper.make_tensor_value_info(buffer, *kind))
        stored = add("ScatterND", buffer, row, add("Unsqueeze", result.name, first))
        body.output[1 + carried + number].CopyFrom(helper.make_tensor_value_info(stored, *kind))
    scalar = TensorProto.INT64, []
    body.input.append(helper.make_tensor_value_info(f"{name}.done", *scalar))
    body.output.append(helper.make_tensor_value_info(add("Add", index, add.constant(np.array(1))), *scalar))
    body.node.extend(add.nodes)


def scanned(node: NodeProto, values: Values) -> list[NodeProto]:
    """Read the slices of a Scan by the index of a loop."""
    body, count = attribute_of(node, "body", None), attribute_of(node, "num_scan_inputs", 1)
    state = len(node.input) - count
    axes = attribute_of(node, "scan_input_axes", None) or [0] * count
    shape = values.static_shape(node.input[state])
    length = 0 if shape is None else shape[axes[0]]
    if not length:
        raise UnsupportedOperationError(
            f"node {node.name!r} is a Scan over none or an unknown number of slices",
            help="export the model with numbers for its sizes",
        )
    add = Nodes(node)
    trips = add.constant(np.array(length))
    loop = helper.make_node(
        "Loop", [trips, "", *node.input[:state]], [], name=f"{node.name}.loop",
        body=_body_of_scan(node, body, state, axes, length),
    )  # fmt: skip
    loop.output.extend(f"{loop.name}.{number}" if output else "" for number, output in enumerate(node.output))
    known = replace(values, constants=values.constants | {trips: np.array(length)})
    add.nodes.extend(simplified(loop, known))
    outputs = len(node.output) - state
    axes = attribute_of(node, "scan_output_axes", None) or [0] * outputs
    directions = attribute_of(node, "scan_output_directions", None) or [0] * outputs
    for position, (result, output) in enumerate(zip(loop.output, node.output, strict=True)):
        if position >= state and output:
            shape = values.within(body).static_shape(body.output[position].name) or []
            axis = axes[position - state] % (len(shape) + 1)
            result = _placed(add, result, axis, directions[position - state], [length, *shape])
        if output:
            add("Identity", result, result=position)
    return add.nodes


def _body_of_scan(node: NodeProto, body: Any, state: int, axes: list[int], length: int) -> Any:
    inside = Nodes(helper.make_node("Loop", [], [], name=f"{node.name}.slices"))
    index, goes, last = f"{node.name}.index", f"{node.name}.goes", inside.constant(np.array(length - 1))
    directions = attribute_of(node, "scan_input_directions", None) or [0] * len(axes)
    copy = onnx.GraphProto()
    copy.CopyFrom(body)
    for source, axis, back, value in zip(node.input[state:], axes, directions, list(copy.input)[state:], strict=True):
        place = inside("Sub", last, index) if back else index
        sliced = helper.make_node("Gather", [source, place], [value.name], name=f"{inside.node.name}.{value.name}")
        sliced.attribute.append(helper.make_attribute("axis", axis))
        inside.nodes.append(sliced)
    numbers = [helper.make_tensor_value_info(index, TensorProto.INT64, [])]
    numbers.append(helper.make_tensor_value_info(goes, TensorProto.BOOL, []))
    going = helper.make_tensor_value_info(inside("Identity", goes), TensorProto.BOOL, [])
    slices = list(copy.input)[state:]
    nodes = [*inside.nodes, *copy.node]
    graph = helper.make_graph(
        nodes, copy.name, [*numbers, *list(copy.input)[:state]], [going, *copy.output], [*copy.initializer]
    )
    graph.value_info.extend([*copy.value_info, *slices])
    return graph


def _placed(add: Nodes, result: str, axis: int, is_reversed: int, shape: list[int]) -> str:
    """Reverse the rows of a result, and move them from the first axis to `axis`."""
    if is_reversed:
        result = add("Gather", result, add.constant(np.arange(shape[0])[::-1]), axis=0)
    order = [*range(1, axis + 1), 0, *range(axis + 1, len(shape))]
    return add("Transpose", result, perm=order) if axis else result


def without_batches(node: NodeProto, values: Values) -> list[NodeProto]:
    """Return a Scan of version 8, whose first axis is a batch, as one of version 9 for each element of the batch."""
    scans = attribute_of(node, "num_scan_inputs", 1)
    shape, lengths = values.static_shape(node.input[-1]), values.constants.get(node.input[0])
    is_whole = lengths is not None and shape is not None and bool((lengths == shape[1]).all())
    if shape is None or (node.input[0] and not is_whole):
        raise UnsupportedOperationError(
            f"node {node.name or node.output[0]!r} is a Scan of version 8 over sequences of several lengths, or of a "
            "batch of an unknown size",
            help="export it with opset_version=9 or later",
        )
    named = onnx.NodeProto()
    named.CopyFrom(node)
    named.name = node.name or node.output[0]
    add, results = Nodes(named), []
    attributes: dict[str, Any] = {"num_scan_inputs": scans, "body": attribute_of(node, "body", None)}
    if (directions := attribute_of(node, "directions", None)) is not None:
        attributes["directions"] = directions
    for number in range(shape[0]):
        index = add.constant(np.array(number))
        parts = [add("Gather", name, index, axis=0) for name in node.input[1:]]
        results.append(add.several("Scan", "", *parts, count=len(node.output), **attributes))
    for position, output in enumerate(node.output):
        if output:
            rows = [add("Unsqueeze", result[position], axes=[0]) for result in results]
            add("Concat", *rows, axis=0, result=position)
    return add.nodes
