"""Rewrite joins of all the equal parts of a tensor as a permutation of its axes.

`torch.cat(x.split(1, dim=1), dim=3)` of n parts would be a chain of n choices, and two such joins after each other
one of n² choices of n² parts each, which takes minutes to simplify from eight parts on.
"""

from __future__ import annotations

import operator
from itertools import pairwise
from typing import Any, cast

import torch
from torch.fx import Graph, Node

aten = torch.ops.aten
_Part = tuple[Node, int, int, int]
"""A tensor, an axis, and where on it the part begins and ends."""


def rewrite(graph: Graph) -> None:
    """Replace the joins of a graph in place; sizes have to be known."""
    for node in list(graph.nodes):
        if node.target is aten.cat.default:
            _rewrite(graph, node)


def _rewrite(graph: Graph, join: Node) -> None:
    joined, *axes = cast("Any", join.args)
    parts = [part for node in joined if (part := _part(node)) is not None]
    if len(parts) < max(2, len(joined)):
        return
    source, axis, size = parts[0][0], parts[0][1], parts[0][3]
    shape = list(source.meta["val"].shape)
    if not all(isinstance(each, int) for each in shape):
        return
    ends = [(start, stop) for _, _, start, stop in parts]
    if any(part[:2] != (source, axis) for part in parts) or ends[-1][1] != shape[axis]:
        return
    # They follow each other, and are of one size.
    if ends[0][0] or any(left[1] != right[0] or right[1] - right[0] != size for left, right in pairwise(ends)):
        return
    dim = (axes[0] if axes else 0) % len(shape)
    join.replace_all_uses_with(_permuted(graph, join, source, axis, dim, len(parts)))
    graph.erase_node(join)


def _part(node: Node) -> _Part | None:
    # torch annotates an argument as any of two dozen types.
    arguments: Any = node.args
    if node.target is aten.slice.Tensor and len(arguments) == 4:
        source, axis, start, stop = arguments
        size = source.meta["val"].shape[axis]
        known = all(isinstance(each, int) for each in (start, stop, size))
        return (source, axis % source.meta["val"].dim(), start, min(stop, size)) if known and start >= 0 else None
    if node.target is not operator.getitem or arguments[0].target is not aten.split_with_sizes.default:
        return None
    source, sizes, *axes = arguments[0].args
    if not all(isinstance(size, int) for size in sizes):
        return None
    start = sum(sizes[: arguments[1]])
    return source, (axes[0] if axes else 0) % source.meta["val"].dim(), start, start + sizes[arguments[1]]


def _permuted(graph: Graph, join: Node, source: Node, axis: int, dim: int, count: int) -> Node:
    """Return the tensor whose `count` parts of `axis` follow each other on the axis `dim` instead."""
    if axis == dim:
        return source
    shape = list(source.meta["val"].shape)
    shape[axis : axis + 1] = [count, shape[axis] // count]
    others = [each for each in range(len(shape)) if each != axis]
    others.insert(dim, axis)

    def call(target: Any, node: Node, argument: list[int]) -> Node:
        with graph.inserting_before(join):
            result = graph.call_function(target, (node, argument))
        example = node.meta["val"]
        value = example.permute(argument) if target is aten.permute.default else example.reshape(argument)
        result.meta = {**join.meta, "val": value}
        result.meta.pop("tensor_meta", None)
        return result

    split = call(aten.view.default, source, shape)
    return call(aten.view.default, call(aten.permute.default, split, others), list(join.meta["val"].shape))
