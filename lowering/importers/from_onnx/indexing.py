"""Rewrite scatters, padding that wraps round, 16-bit ranges and empty reshapes."""

from __future__ import annotations

from math import prod

import numpy as np
from onnx import NodeProto, TensorProto

from mlirtri.lowering.importers.from_onnx.layers import known, static_shape
from mlirtri.lowering.importers.from_onnx.loops import for_loop
from mlirtri.lowering.importers.from_onnx.nodes import Nodes, Rewrite, Values, attribute_of, operand

MOST_UPDATES = 64
"""The most updates along the axis of a scatter, each of which becomes a choice; more are a loop."""
_EXTREMA = {b"min": "Min", b"max": "Max"}


def _scattered(node: NodeProto, values: Values) -> list[NodeProto]:
    """Update by the minimum or maximum with one slice of the updates after the other."""
    extremum = _EXTREMA.get(attribute_of(node, "reduction", b"none"))
    if extremum is None:
        return [node]
    shape, updates = (static_shape(node, node.input[position], values) for position in (0, 1))
    axis = attribute_of(node, "axis", 0) % max(len(shape), 1)
    others = [size for position, size in enumerate(shape) if position != axis]
    is_narrower = others != [size for position, size in enumerate(updates) if position != axis]
    if is_narrower or updates[axis] > MOST_UPDATES:
        return _scattered_in_turn(node, values, axis, extremum)
    add, result = Nodes(node), node.input[0]
    line = [-1 if position == axis else 1 for position in range(len(shape))]
    positions = add.constant(np.arange(shape[axis]).reshape(line))
    index = add("Cast", node.input[1], to=TensorProto.INT64)
    # A negative index counts from the end.
    index = add("Mod", index, add.constant(np.array(shape[axis])))
    for number in range(updates[axis]):
        only = add.constant(np.array([number]))
        update = add("Gather", node.input[2], only, axis=axis)
        is_here = add("Equal", add("Gather", index, only, axis=axis), positions)
        result = add("Where", is_here, add(extremum, result, update), result)
    add("Identity", result, result=0)
    return add.nodes


def _scattered_in_turn(node: NodeProto, values: Values, axis: int, extremum: str) -> list[NodeProto]:
    """Update one element after the other, in a loop over the flat tensors."""
    shape, updates = (static_shape(node, node.input[position], values) for position in (0, 1))
    steps = [prod(shape[position + 1 :]) for position in range(len(shape))]
    steps[axis], step = 0, steps[axis]
    add, line, zero = Nodes(node), np.array([-1]), np.array([0])
    index = add("Cast", node.input[1], to=TensorProto.INT64)
    index = add("Mul", add("Mod", index, add.constant(np.array(shape[axis]))), add.constant(np.array(step)))
    others = np.tensordot(steps, np.indices(updates), 1) if 0 not in updates else np.zeros(updates, np.int64)
    index = add("Add", index, add.constant(others.astype(np.int64)))
    data, index, new = (add("Reshape", name, add.constant(line)) for name in (node.input[0], index, node.input[2]))

    def update(inner: Nodes, number: str, buffer: str) -> list[str]:
        position, value = (
            inner("Unsqueeze", inner("Gather", name, number, axis=0), inner.constant(zero)) for name in (index, new)
        )
        value = inner(extremum, inner("Gather", buffer, position, axis=0), value)
        return [inner("ScatterElements", buffer, position, value, axis=0)]

    kind = values.element_type(node.input[0]), [prod(shape)]
    [result] = for_loop(add, prod(updates), [data], [kind], update)
    add("Reshape", result, add.constant(np.array(shape)), result=0)
    return add.nodes


def _wrapped(node: NodeProto, values: Values) -> list[NodeProto]:
    """Gather along each axis; torch-mlir takes minutes for the pads of a small tensor."""
    if attribute_of(node, "mode", b"constant") != b"wrap":
        return [node]
    shape = static_shape(node, node.input[0], values)
    pads = known(node, 1, values, "pads").tolist()
    given = known(node, 3, values, "axes").tolist() if operand(node, 3) else range(len(shape))
    axes = [axis % len(shape) for axis in given]
    add, value = Nodes(node), node.input[0]
    for axis, before, behind in zip(axes, pads[: len(axes)], pads[len(axes) :], strict=True):
        if before or behind:
            index = np.arange(-before, shape[axis] + behind) % shape[axis]
            value = add("Gather", value, add.constant(index), axis=axis)
    add("Identity", value, result=0)
    return add.nodes


def _range(node: NodeProto, values: Values) -> list[NodeProto]:
    """Count in fp32 and round each number."""
    kind = values.element_type(node.input[0])
    if kind not in (TensorProto.FLOAT16, TensorProto.BFLOAT16):
        return [node]
    add = Nodes(node)
    wide = [add("Cast", name, to=TensorProto.FLOAT) for name in node.input]
    add("Cast", add("Range", *wide), to=kind, result=0)
    return add.nodes


def _reshaped(node: NodeProto, values: Values) -> list[NodeProto]:
    """Replace a tensor without elements by a constant of its shape."""
    shape = values.static_shape(node.output[0])
    if shape is None or 0 not in shape or not attribute_of(node, "allowzero", 0):
        return [node]
    add = Nodes(node)
    add("Identity", add.constant(np.zeros(shape, values.dtype(node.input[0]))), result=0)
    return add.nodes


def _contracted(node: NodeProto, _: Values) -> list[NodeProto]:
    """Return the only operand of an Einsum that does nothing with it."""
    before, arrow, behind = attribute_of(node, "equation", b"").decode().replace(" ", "").partition("->")
    if not arrow or before != behind or "," in before:
        return [node]
    add = Nodes(node)
    add("Identity", node.input[0], result=0)
    return add.nodes


def _gathered(node: NodeProto, values: Values) -> list[NodeProto]:
    """Gather run-time many slices by one index each."""
    shape, indices = values.static_shape(node.input[0]), values.shape(node.input[1])
    if shape is None or indices is None or None not in indices or attribute_of(node, "batch_dims", 0):
        return [node]
    add, rank = Nodes(node), indices[-1]
    if rank is None:
        return [node]
    rows = add("Reshape", node.input[0], add.constant(np.array([prod(shape[:rank]), *shape[rank:]])))
    add("Gather", rows, _row_numbers(add, node.input[1], shape[:rank]), axis=0, result=0)
    return add.nodes


def _scattered_slices(node: NodeProto, values: Values) -> list[NodeProto]:
    """Scatter run-time many slices by one index each."""
    shape, indices = values.static_shape(node.input[0]), values.shape(node.input[1])
    if shape is None or indices is None or len(indices) != 2 or indices[0] is not None or indices[1] is None:
        return [node]
    add, rank = Nodes(node), indices[1]
    count, width = prod(shape[:rank]), prod(shape[rank:])
    index = add("Unsqueeze", _row_numbers(add, node.input[1], shape[:rank]), add.constant(np.array([1])))
    if width != 1:
        # Multiplied, not expanded, so that the number of rows remains that of the indices.
        index = add("Mul", index, add.constant(np.ones((1, width), np.int64)))
    data, updates = (
        add("Reshape", name, add.constant(np.array([first, width])))
        for name, first in ((node.input[0], count), (node.input[2], -1))
    )
    kept = {a.name: attribute_of(node, a.name, None) for a in node.attribute}
    scattered = add("ScatterElements", data, index, updates, axis=0, **kept)
    add("Reshape", scattered, add.constant(np.array(shape)), result=0)
    return add.nodes


def _row_numbers(add: Nodes, indices: str, shape: list[int]) -> str:
    """Return the row-major number of each index vector; one outside of the shape gets a number past the last."""
    sizes = np.array(shape)
    steps = np.array([prod(shape[axis + 1 :]) for axis in range(len(shape))])
    index = add("Cast", indices, to=TensorProto.INT64)
    size, zero = add.constant(sizes), add.constant(np.array(0))
    index = add("Where", add("Less", index, zero), add("Add", index, size), index)
    is_inside = add("And", add("GreaterOrEqual", index, zero), add("Less", index, size))
    parts = add("Where", is_inside, add("Mul", index, add.constant(steps)), add.constant(np.array(prod(shape))))
    return add("ReduceSum", parts, add.constant(np.array([-1])), keepdims=0)


def _cached(node: NodeProto, values: Values) -> list[NodeProto]:
    """Replace a run of a cache, where each batch says, by a gather for every position and a choice."""
    cache, update = (static_shape(node, name, values) for name in node.input[:2])
    axis = attribute_of(node, "axis", -2) % len(cache)
    add, length, count = Nodes(node), cache[axis], update[axis]
    first = operand(node, 2) or add.constant(np.zeros(cache[0], np.int64))
    batches = [cache[0], *[1] * (len(cache) - 1)]
    line = [-1 if position == axis else 1 for position in range(len(cache))]
    positions = add.constant(np.arange(length).reshape(line))
    offset = add("Sub", positions, add("Reshape", first, add.constant(np.array(batches))))
    if attribute_of(node, "mode", b"linear") == b"circular":
        offset = add("Mod", offset, add.constant(np.array(length)))
    zero, last = add.constant(np.array(0)), add.constant(np.array(count - 1))
    inside = add("And", add("GreaterOrEqual", offset, zero), add("LessOrEqual", offset, last))
    every = add("Expand", add("Clip", offset, zero, last), add.constant(np.array(cache)))
    new = add("GatherElements", node.input[1], every, axis=axis)
    add("Where", inside, new, node.input[0], result=0)
    return add.nodes


INDEXING: dict[str, Rewrite] = {
    "ScatterElements": _scattered, "Pad": _wrapped, "Range": _range, "Reshape": _reshaped, "Einsum": _contracted,
    "GatherND": _gathered, "ScatterND": _scattered_slices, "TensorScatter": _cached,
}  # fmt: skip
