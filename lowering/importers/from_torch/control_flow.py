"""Control flow of torch.fx graphs that torch-mlir's importer does not take: `torch.cond`, and captures of loops.

`torch.cond` becomes `torch.prim.If`, and a tensor that the body of `torch.while_loop` captures a loop-carried value.
"""

from __future__ import annotations

from typing import Any

import torch

from mlirtri.dialect.bindings.mlir import ir


def with_branches(importer: Any) -> Any:
    """Return a subclass of torch-mlir's node importer `importer` that imports `torch.cond`."""

    class Branching(importer):  # type: ignore[misc]
        def _import_hop_cond(self, location: ir.Location, node: Any, _operator: Any) -> None:
            _import(self, location, node)

    return Branching


def _import(importer: Any, location: ir.Location, node: Any) -> None:
    predicate, *branches, arguments = node.args
    values = node.meta["val"]
    if not all(isinstance(value, torch.Tensor) for value in values):
        raise ValueError("torch.cond gives something that is not a tensor")
    kinds = [importer._cc.value_info_to_type(value) for value in values]
    operands = [importer._import_argument(location, operand) for operand in arguments]
    with location:
        condition = _boolean(importer._import_argument(location, predicate))
        branch = ir.Operation.create("torch.prim.If", kinds, [condition], regions=2)
        for region, target in zip(branch.regions, branches, strict=True):
            name = importer.fx_importer._graph_module_to_func_name[id(getattr(node.graph.owning_module, target.target))]
            with ir.InsertionPoint(region.blocks.append()):
                called = ir.Operation.create(
                    "func.call", kinds, operands, {"callee": ir.FlatSymbolRefAttr.get(name)}
                ).results
                ir.Operation.create("torch.prim.If.yield", [], list(called))
    importer._multi_result_nodes.add(node)
    for position, result in enumerate(branch.results):
        importer.bind_node_value(node, result, position)


def _boolean(condition: ir.Value) -> ir.Value:
    kind = ir.Type.parse("!torch.bool")
    return (
        condition
        if condition.type == kind
        else ir.Operation.create("torch.aten.Bool.Tensor", [kind], [condition]).result
    )


def carry_captured_tensors(module: torch.fx.GraphModule) -> None:
    """Make tensors that bodies of `torch.while_loop` capture loop-carried values, in `module` and its submodules."""
    for submodule in (m for m in module.modules() if isinstance(m, torch.fx.GraphModule)):
        for node in list(submodule.graph.nodes):
            if node.target is torch.ops.higher_order.while_loop:
                _carry(submodule, node)


def _carry(module: torch.fx.GraphModule, loop: Any) -> None:
    test, body, carried, read = loop.args
    if not read or not all(isinstance(_value_of(node), torch.Tensor) for node in read):
        return
    inner = module.get_submodule(body.target)
    assert isinstance(inner, torch.fx.GraphModule)
    placeholders = [node for node in inner.graph.nodes if node.op == "placeholder"]
    end = next(node for node in inner.graph.nodes if node.op == "output")
    end.args = ((*end.args[0], *placeholders[len(carried) :]),)
    inner.recompile()
    loop.args = test, body, (*carried, *read), ()
    loop.meta["val"] = (*loop.meta["val"], *map(_value_of, read))


def _value_of(node: Any) -> Any:
    return node.meta.get("val") if isinstance(node, torch.fx.Node) else None
