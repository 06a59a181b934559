"""What the body of `torch.while_loop` reads from outside, as carried: torch-mlir's importer knows no other values.

Takes a graph of torch.fx with its graphs for bodies. Gives it, in place, with loops that hand such tensors on as they
are. Leaves loops that read anything but tensors from outside.
"""

from __future__ import annotations

from typing import Any

import torch


def rewrite(module: torch.fx.GraphModule) -> None:
    """Change every such loop of `module`, and of the modules in it."""
    for each in (one for one in module.modules() if isinstance(one, torch.fx.GraphModule)):
        for node in list(each.graph.nodes):
            if node.target is torch.ops.higher_order.while_loop:
                _carry(each, node)


def _carry(module: torch.fx.GraphModule, loop: Any) -> None:
    test, body, carried, read = loop.args
    if not read or not all(isinstance(_value(each), torch.Tensor) for each in read):
        return
    inner = module.get_submodule(body.target).graph
    placeholders = [node for node in inner.nodes if node.op == "placeholder"]
    end = next(node for node in inner.nodes if node.op == "output")
    end.args = ((*end.args[0], *placeholders[len(carried) :]),)
    module.get_submodule(body.target).recompile()
    loop.args = test, body, (*carried, *read), ()
    loop.meta["val"] = (*loop.meta["val"], *map(_value, read))


def _value(node: Any) -> Any:
    return node.meta.get("val") if isinstance(node, torch.fx.Node) else None
