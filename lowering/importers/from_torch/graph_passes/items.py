"""Python arithmetic on results of `item()`, computed on rank-0 tensors, which torch-mlir lowers."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Graph
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from mlirtri.lowering.importers.from_torch.decompositions.table import decompositions

aten = torch.ops.aten
Function = Callable[..., torch.Tensor]
FUNCTIONS: dict[Any, Function] = {
    operator.mod: torch.remainder,
    operator.pow: torch.pow,
    operator.abs: torch.abs,
    abs: torch.abs,
    pow: torch.pow,
    round: torch.round,
    math.floor: torch.floor,
    math.ceil: torch.ceil,
    math.trunc: torch.trunc,
    torch.sym_sqrt: torch.sqrt,
    torch.sym_float: lambda x: x.double(),
    torch.sym_max: lambda x, y: torch.where(y > x, y, x),
    torch.sym_min: lambda x, y: torch.where(y < x, y, x),
}
OF_FLOATS: dict[Any, Function] = {operator.lt: torch.lt, operator.le: torch.le, operator.ne: torch.ne}
"""torch-mlir has these of integers."""


def rewrite(graph: Graph) -> None:
    """Rewrite all such arithmetic in `graph`."""
    for node in list(graph.nodes):
        if node.op != "call_function" or node.kwargs or not _is_number(node.meta.get("val")):
            continue
        arguments = [argument for argument in node.args if argument is not None]
        kinds = [_dtype_of(_value_of(argument)) for argument in arguments]
        kind = torch.float64 if torch.float64 in kinds else torch.int64
        function = FUNCTIONS.get(node.target) or (OF_FLOATS.get(node.target) if kind.is_floating_point else None)
        if function is not None and any(_is_item(argument) for argument in arguments):
            with graph.inserting_before(node):
                _compute(graph, node, function, arguments, kind)


def _compute(graph: Any, node: Any, function: Function, arguments: list[Any], kind: torch.dtype) -> None:
    is_bool = isinstance(node.meta["val"], torch.SymBool)
    dtype = torch.int64 if is_bool else _dtype_of(node.meta["val"])
    traced = make_fx(lambda *x: (function(*x).to(dtype),), decompositions(), tracing_mode="fake")
    rule = traced(*[torch.ones((), dtype=kind) for _ in arguments])
    tensors = [_as_tensor(graph, node, argument, kind) for argument in arguments]
    inputs = [node for node in rule.graph.nodes if node.op == "placeholder"]
    [result] = graph.graph_copy(rule.graph, dict(zip(inputs, tensors, strict=True)))
    item = graph.call_function(aten._local_scalar_dense.default, (result,))
    item.meta = dict(node.meta)
    if is_bool:
        # torch-mlir reads no bool from a tensor.
        item.meta["val"] = node.meta["val"].node.shape_env.create_unbacked_symint()
        item = graph.call_function(operator.ne, (item, 0))
        item.meta = dict(node.meta)
    node.replace_all_uses_with(item)
    graph.erase_node(node)


def _as_tensor(graph: Any, node: Any, number: Any, kind: torch.dtype) -> Any:
    if isinstance(number, torch.fx.Node) and number.target == aten._local_scalar_dense.default:
        [tensor] = number.args
        if tensor.meta["val"].dtype == kind and tensor.meta["val"].dim() == 0:
            return tensor
    tensor = graph.call_function(aten.full.default, ([], number), {"dtype": kind})
    with torch._subclasses.FakeTensorMode():
        tensor.meta = {**node.meta, "val": torch.empty((), dtype=kind)}
    return tensor


def _value_of(argument: Any) -> Any:
    return argument.meta.get("val") if isinstance(argument, torch.fx.Node) else argument


def _is_number(value: Any) -> bool:
    return isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool))


def _is_item(argument: Any) -> bool:
    value = _value_of(argument)
    return _is_number(value) and bool(free_unbacked_symbols(value))


def _dtype_of(value: Any) -> torch.dtype:
    if isinstance(value, (torch.SymBool, bool)):
        return torch.bool
    return torch.int64 if isinstance(value, (torch.SymInt, int)) else torch.float64
