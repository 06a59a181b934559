"""Compute complex32, which neither NumPy nor torch-mlir has, in complex64 with every result rounded to complex32.

This is what eager does: its kernels compute in complex64 and store complex32. Arguments and results of the graph are
complex64 as well; a call converts them.

    %z : complex32 = mul(%x, %y)   ──►   %w : complex64 = mul(%x, %y), view_as_real, to f16, to f32, view_as_complex
"""

from __future__ import annotations

from collections.abc import Set
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from mlirtri.errors import UnsupportedOperationError
from mlirtri.lowering.importers.from_torch.graph_to_torch import span_of_node

aten = torch.ops.aten
HALF, WIDE = torch.complex32, torch.complex64
PARTS = torch.float16
"""The dtype of the real and the imaginary part."""

Positions = tuple[Set[int], Set[int]]
"""Of the inputs and of the outputs of a program that are complex32, in the order of its signature."""


def has_half_complex(program: ExportedProgram) -> bool:
    """Return whether a tensor of the graph of an `ExportedProgram` is complex32."""
    return any(_dtype(node) == HALF for node in program.graph.nodes)


def positions(program: ExportedProgram) -> Positions:
    """Return the positions of the inputs and of the outputs that are complex32."""
    nodes = {node.name: node for node in program.graph.nodes}
    specs = (program.graph_signature.input_specs, program.graph_signature.output_specs)
    inputs, outputs = (
        frozenset(position for position, spec in enumerate(side) if _is_half(nodes.get(getattr(spec.arg, "name", ""))))
        for side in specs
    )
    return inputs, outputs


def _is_half(node: Node | None) -> bool:
    return node is not None and _dtype(node) == HALF


def rewrite(program: ExportedProgram) -> None:
    """Rewrite the graph of a functional `ExportedProgram` in place; raises `UnsupportedOperationError`."""
    graph = program.graph_module.graph
    dtypes = {node: _dtype(node) for node in graph.nodes}
    _refuse_held(program)
    for node in list(dtypes):
        if node.op == "placeholder" and dtypes[node] == HALF:
            node.meta["val"] = node.meta["val"].to(WIDE)
        elif node.op == "call_function" and _has_half_complex(node, dtypes):
            _widen(program, graph, node, dtypes)
    program.graph_module.recompile()


def _dtype(node: Node) -> torch.dtype | None:
    value = node.meta.get("val")
    return value.dtype if isinstance(value, torch.Tensor) else None


def _has_half_complex(node: Node, dtypes: dict[Node, torch.dtype | None]) -> bool:
    results = node.meta.get("val")
    gives = isinstance(results, (tuple, list)) and any(getattr(result, "dtype", None) == HALF for result in results)
    return gives or HALF in (dtypes[node], *(dtypes.get(operand) for operand in node.all_input_nodes))


def _refuse_held(program: Any) -> None:
    names = [name for name, tensor in program.state_dict.items() if tensor.dtype == HALF]
    if names:
        raise UnsupportedOperationError(
            f"{names[0]} is a complex32 tensor of the module's own", help="pass it as an argument, or keep it complex64"
        )
    constants = program.constants
    constants.update(
        {
            name: tensor.to(WIDE)
            for name, tensor in constants.items()
            if isinstance(tensor, torch.Tensor) and tensor.dtype == HALF
        }
    )


def _widen(program: Any, graph: Any, node: Node, dtypes: dict[Node, torch.dtype | None]) -> None:
    if node.target is aten.view.dtype:
        raise UnsupportedOperationError(
            "the bits of complex32 numbers are out of reach", span_of_node(node), help="use torch.view_as_real"
        )
    if any(operand.op == "get_attr" and dtypes[operand] is None for operand in node.all_input_nodes):
        raise UnsupportedOperationError(
            "complex32 tensors in loops and branches are not compiled", span_of_node(node), help="cast to complex64"
        )
    with graph.inserting_before(node):
        for operand in node.all_input_nodes:
            if dtypes.get(operand) == PARTS:
                node.replace_input_with(operand, _cast(graph, operand, torch.float32))
    if node.target is aten.chalf.default:
        node.target, node.kwargs = aten._to_copy.default, {**node.kwargs, "dtype": WIDE}
    node.args = _with_wide_dtype(node.args)
    node.kwargs = _with_wide_dtype(node.kwargs)
    if dtypes[node] not in (HALF, PARTS):
        return
    users = list(node.users)
    with graph.inserting_before(node.next):
        stored = _cast(graph, node, PARTS) if dtypes[node] == PARTS else _rounded(graph, node)
    for user in users:
        user.replace_input_with(node, stored)
    stored.meta = {**node.meta, "val": node.meta["val"].to(PARTS if dtypes[node] == PARTS else WIDE)}
    dtypes[stored] = dtypes[node]
    program.graph_signature.replace_all_uses(node.name, stored.name)


def _with_wide_dtype(arguments: Any) -> Any:
    if isinstance(arguments, (tuple, list)):
        return type(arguments)([_with_wide_dtype(argument) for argument in arguments])
    if isinstance(arguments, dict):
        return {name: _with_wide_dtype(argument) for name, argument in arguments.items()}
    return WIDE if arguments == HALF else arguments


def _cast(graph: Any, operand: Node, dtype: torch.dtype) -> Node:
    return graph.call_function(aten._to_copy.default, (operand,), {"dtype": dtype})


def _rounded(graph: Any, node: Node) -> Node:
    # A lazy conjugate has no parts in memory.
    resolved = graph.call_function(aten.resolve_conj.default, (node,))
    parts = graph.call_function(aten.view_as_real.default, (resolved,))
    parts = _cast(graph, _cast(graph, parts, PARTS), torch.float32)
    return graph.call_function(aten.view_as_complex.default, (parts,))
