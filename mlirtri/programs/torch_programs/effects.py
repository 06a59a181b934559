"""The effects of a functional graph: the checks of torch.linalg, which AOTAutograd strings on a token.

Takes a graph of torch.fx. Gives it, in place, with such checks as assertions, which the compiled program raises. Leaves
other effects, which are refused where they are imported.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import ShapeEnv

aten = torch.ops.aten
CHECK = aten._linalg_check_errors.default
EFFECTS = torch.ops.higher_order.with_effects


def settle(graph: torch.fx.Graph) -> set[str]:
    """Rewrite the checks of `graph`; gives the names of its placeholders that are tokens alone."""
    tokens: set[str] = set()
    for node in list(graph.nodes):
        if node.target is not EFFECTS or node.args[1] is not CHECK:
            continue
        token, _, info, name = node.args
        with graph.inserting_before(node):
            name = name.removeprefix("torch.")
            _assert(graph, node, info, f"torch.{name}: a matrix is singular, or has no such factors")
        for user in list(node.users):
            user.replace_all_uses_with(token)
            graph.erase_node(user)
        graph.erase_node(node)
        # Graphs that were traced again have None for a token.
        if token is not None and token.op == "placeholder" and EFFECTS not in (user.target for user in token.users):
            tokens.add(token.name)
    return tokens


def _assert(graph: torch.fx.Graph, check: Any, info: Any, message: str) -> None:
    """That all of `info` is zero."""
    fake = info.meta["val"]
    with fake.fake_mode:
        largest = torch.amax(torch.abs(fake))
    absolute = graph.call_function(aten.abs.default, (info,))
    absolute.meta = {**check.meta, "val": fake}
    found = graph.call_function(aten.amax.default, (absolute,))
    found.meta = {**check.meta, "val": largest}
    item = graph.call_function(aten.Int.Tensor, (found,))
    environment = fake.fake_mode.shape_env or ShapeEnv()
    item.meta = {**check.meta, "val": environment.create_unbacked_symint()}
    truth = graph.call_function(operator.eq, (item, 0))
    truth.meta = {**check.meta, "val": item.meta["val"] == 0}
    graph.call_function(aten._assert_scalar.default, (truth, message)).meta = {**check.meta, "val": None}
