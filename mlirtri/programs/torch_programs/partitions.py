"""Split a graph of torch.compile at the operators that are kernels of the user: those are called, the rest is compiled.

Every node gets a level, even for what is compiled and odd for kernels: that of its operands, or the next one where the
kind differs. A level is one part, so that no two parts need each other.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.fx.passes.split_module import split_module

from mlirtri.programs.torch_programs.custom_op import OPERATORS
from mlirtri.programs.torch_programs.traced_functions import TracedFunction


def compiled_in_parts(graph: torch.fx.GraphModule, name: str, options: Mapping[str, object]) -> Callable[..., Any]:
    """Return a function of the graph's arguments; what surrounds kernels is compiled."""
    if not any(_calls_kernel(node) for node in graph.graph.nodes):
        return TracedFunction(graph, name, options)
    levels = _levels(graph.graph)
    whole = split_module(graph, None, lambda node: levels[node])  # type: ignore[arg-type]
    for part_name, part in list(whole.named_children()):
        if isinstance(part, torch.fx.GraphModule) and not any(_calls_kernel(node) for node in part.graph.nodes):
            setattr(whole, part_name, _Part(part, f"{name}_{part_name}", options))
    return whole


class _Part(torch.nn.Module):
    """A compiled part, which returns what the part of the graph returned."""

    def __init__(self, part: torch.fx.GraphModule, name: str, options: Mapping[str, Any]):
        super().__init__()
        [output] = [node for node in part.graph.nodes if node.op == "output"]
        self.is_single = not isinstance(output.args[0], (tuple, list))
        if self.is_single:
            output.args = ((output.args[0],),)
            part.recompile()
        self.function = TracedFunction(part, name, options)

    def forward(self, *arguments: Any) -> Any:
        results = self.function(*arguments)
        return results[0] if self.is_single else tuple(results)


def _calls_kernel(node: torch.fx.Node) -> bool:
    if node.op != "call_function":
        return False
    # An operator that writes its arguments is the first argument of auto_functionalized.
    return node.target in OPERATORS or (bool(node.args) and _is_operator(node.args[0]))


def _is_operator(value: Any) -> bool:
    return isinstance(value, torch._ops.OpOverload) and value in OPERATORS


def _levels(graph: torch.fx.Graph) -> dict[torch.fx.Node, int]:
    levels: dict[torch.fx.Node, int] = {}
    for node in graph.nodes:
        if node.op in ("placeholder", "output", "get_attr"):
            continue
        operands = [operand for operand in node.all_input_nodes if operand in levels]
        before = max((levels[operand] for operand in operands), default=0)
        # The parts of a kernel's tuple of results belong to its call.
        is_of_kernel = bool(operands) and node.target is operator.getitem and levels[operands[0]] % 2 == 1
        odd = 1 if _calls_kernel(node) or is_of_kernel else 0
        levels[node] = before if before % 2 == odd else before + 1
    return levels
