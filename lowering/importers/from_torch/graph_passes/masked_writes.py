"""Writes at a data-dependent number of indices: torch-mlir does not check that there are as many values.

Merging common subexpressions of `nonzero` makes their sizes equal symbols.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Graph
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from mlirtri.errors import UnsupportedOperationError
from mlirtri.lowering.importers.from_torch.graph_to_torch import span_of_node

aten = torch.ops.aten
WRITES = (aten.index_put.default, aten._unsafe_index_put.default)


def rewrite(graph: Graph) -> None:
    """Merge common subexpressions of `nonzero`; raises `UnsupportedOperationError`."""
    if not any(node.target == aten.nonzero.default for node in graph.nodes):
        return
    same = _merge_equal_nodes(graph)
    for node in graph.nodes:
        if node.target in WRITES and not _fits(node, same):
            raise UnsupportedOperationError(
                "nothing says that there are as many values as indices that they are written to",
                span_of_node(node),
                help="take them through the same mask, as in z[mask] = y[mask], or use torch.where",
            )


def _merge_equal_nodes(graph: Any) -> dict[Any, Any]:
    nodes: dict[str, Any] = {}
    same: dict[Any, Any] = {}
    for node in list(graph.nodes):
        if node.op != "call_function" or torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
            continue
        first = nodes.setdefault(str((node.target, node.args, node.kwargs)), node)
        if first is node:
            continue
        if node.target == aten.nonzero.default:
            count, earlier = (nonzero.meta["val"].shape[0] for nonzero in (node, first))
            same[count.node.expr] = earlier.node.expr
        node.replace_all_uses_with(first)
        graph.erase_node(node)
    return same


def _fits(node: Any, same: dict[Any, Any]) -> bool:
    x, indices, values = node.args[:3]
    index_tensors = {axis: index.meta["val"] for axis, index in enumerate(indices) if index is not None}
    shape = torch.broadcast_shapes(*[index.shape for index in index_tensors.values() if not _has_dynamic_size(index)])
    dynamic = [index for index in index_tensors.values() if _has_dynamic_size(index)]
    if not dynamic:
        return True
    counts = {_expression(size, same) for index in dynamic for size in index.shape}
    sizes = list(values.meta["val"].shape)
    if all(isinstance(size, int) and size == 1 for size in sizes):
        return True
    first, last = min(index_tensors), max(index_tensors)
    if len(counts) != 1 or len(shape) or len(index_tensors) != last - first + 1:
        return False
    behind = x.meta["val"].dim() - last - 1
    if len(sizes) <= behind:
        return True
    size = sizes[len(sizes) - 1 - behind]
    return (isinstance(size, int) and size == 1) or _expression(size, same) in counts


def _has_dynamic_size(value: torch.Tensor) -> bool:
    return any(isinstance(size, torch.SymInt) and free_unbacked_symbols(size) for size in value.shape)


def _expression(size: Any, same: dict[Any, Any]) -> Any:
    return size.node.expr.subs(same) if isinstance(size, torch.SymInt) else size
