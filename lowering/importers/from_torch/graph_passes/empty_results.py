"""Replace what only creates tensors without elements by `empty`, whatever the operator: torch-mlir lacks many for them.

linalg_eig(x) : [0, 3], [0, 3, 3]   ──►   empty([0, 3]), empty([0, 3, 3])
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Graph, Node

aten = torch.ops.aten


def rewrite(graph: Graph) -> None:
    """Replace the nodes of `graph`, in place; what raises or writes is kept."""
    for node in list(graph.nodes):
        if not _is_pure(node):
            continue
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and _has_no_elements(value):
            _replace(graph, node, value)
        elif isinstance(value, (tuple, list)) and value and all(map(_has_no_elements, value)):
            for user in list(node.users):
                _replace(graph, user, user.meta["val"])
            if not node.users:
                graph.erase_node(node)


def _is_pure(node: Node) -> bool:
    if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
        return False
    return not (node.target._schema.is_mutable or node.is_impure() or node.target is aten.empty.memory_format)


def _has_no_elements(value: Any) -> bool:
    if not isinstance(value, torch.Tensor):
        return False
    sizes = list(value.shape)
    return all(type(size) is int for size in sizes) and 0 in sizes


def _replace(graph: Graph, node: Node, value: torch.Tensor) -> None:
    part = torch.empty_like(value, dtype=value.dtype.to_real()) if value.dtype.is_complex else value
    with graph.inserting_before(node):
        empty = graph.call_function(aten.empty.memory_format, (list(value.shape),), {"dtype": part.dtype})
        empty.meta = {key: fact for key, fact in node.meta.items() if key != "tensor_meta"} | {"val": part}
        if value.dtype.is_complex:
            empty = graph.call_function(aten.complex.default, (empty, empty))
            empty.meta = dict(node.meta)
    node.replace_all_uses_with(empty)
    graph.erase_node(node)
