"""`torch.cond` as `torch.prim.If`: torch-mlir's importer has no such operator, its lowering to `scf.if` has the other.

Takes torch-mlir's importer of nodes. Gives one that imports such branches, too, as calls of their graphs, which the
importer has made functions of. Refuses results that are no tensors.
"""

from __future__ import annotations

from typing import Any

import torch

from mlirtri.dialect.bindings.mlir import ir


def with_branches(importer: Any) -> Any:
    """A class derived from the class `importer`."""

    class Branching(importer):  # type: ignore[misc]
        def _import_hop_cond(self, place: ir.Location, node: Any, _operator: Any) -> None:
            _import(self, place, node)

    return Branching


def _import(importer: Any, place: ir.Location, node: Any) -> None:
    truth, *branches, given = node.args
    values = node.meta["val"]
    if not all(isinstance(each, torch.Tensor) for each in values):
        raise ValueError("torch.cond gives something that is no tensor")
    kinds = [importer._cc.value_info_to_type(each) for each in values]
    operands = [importer._import_argument(place, each) for each in given]
    with place:
        condition = _boolean(importer._import_argument(place, truth))
        branch = ir.Operation.create("torch.prim.If", kinds, [condition], regions=2)
        for region, each in zip(branch.regions, branches, strict=True):
            name = importer.fx_importer._graph_module_to_func_name[id(_graph(node, each))]
            with ir.InsertionPoint(region.blocks.append()):
                called = ir.Operation.create(
                    "func.call", kinds, operands, {"callee": ir.FlatSymbolRefAttr.get(name)}
                ).results
                ir.Operation.create("torch.prim.If.yield", [], list(called))
    importer._multi_result_nodes.add(node)
    for at, result in enumerate(branch.results):
        importer.bind_node_value(node, result, at)


def _boolean(truth: ir.Value) -> ir.Value:
    kind = ir.Type.parse("!torch.bool")
    return truth if truth.type == kind else ir.Operation.create("torch.aten.Bool.Tensor", [kind], [truth]).result


def _graph(node: Any, branch: Any) -> Any:
    return getattr(node.graph.owning_module, branch.target)
