"""Operators that the kernels' library computes: factorizations, whose loops write elements, which ATen cannot express.

A decomposition calls such an operator, and its node is lowered as a call of a Python function of those that kernels
inline for `numpy.linalg` and `torch.linalg` (`lowering/frontend/library_functions`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import torch

from mlirtri.dialect.base.dtypes import as_dtype
from mlirtri.dialect.base.sizes import Size, Symbol
from mlirtri.dialect.base.tensor_type import TensorType
from mlirtri.lowering.core.interface import ConstantParameter, KernelSource, Parameter, Specialization, TensorParameter
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.core.target import Target
from mlirtri.lowering.frontend import ast_to_tri, python_to_ast
from mlirtri.lowering.importers.from_torch.kernel_calls import KernelCall, known_size
from mlirtri.lowering.linalg import tri_to_linalg

_LIBRARY = torch.library.Library("mlirtri", "FRAGMENT")
_FUNCTIONS: dict[object, Callable[..., Any]] = {}


def library_operator(schema: str, function: Callable[..., Any], results: Callable[..., Any]) -> torch._ops.OpOverload:
    """Define an operator that a function of the kernels' library computes; `results` gives its empty results."""
    name = schema.partition("(")[0]
    _LIBRARY.define(schema)
    _LIBRARY.impl(name, results, "Meta")
    overload = getattr(torch.ops.mlirtri, name).default
    _FUNCTIONS[overload] = function
    return overload


def library_calls(graph: torch.fx.Graph, target: Target) -> dict[str, KernelCall]:
    """Return the lowered function of each node that calls an operator of the library, by the node's name."""
    return {node.name: _call(node, target) for node in graph.nodes if node.target in _FUNCTIONS}


def _call(node: torch.fx.Node, target: Target) -> KernelCall:
    function = _FUNCTIONS[node.target]
    bound = inspect.signature(function).bind(*node.args, **node.kwargs).arguments
    call = _lowered(function, tuple(_parameter(name, value) for name, value in bound.items()), target)
    return replace(call, operands=tuple(value for value in bound.values() if isinstance(value, torch.fx.Node)))


def _parameter(name: str, value: Any) -> Parameter:
    if not isinstance(value, torch.fx.Node):
        return ConstantParameter(name, value)
    tensor = value.meta["val"]
    return TensorParameter(name, TensorType(tuple(map(_size, tensor.shape)), as_dtype(tensor.dtype)))


def _size(size: int | torch.SymInt) -> int | Size:
    known = known_size(size)
    return known if known is not None else Size.of(Symbol(("dyn", str(size)), str(size), Size.of(0), is_fixed=True))


@lru_cache(maxsize=64)
def _lowered(function: Callable[..., Any], parameters: tuple[Parameter, ...], target: Target) -> KernelCall:
    context = CompileContext(function.__name__, target, keep_passes=False)
    source = KernelSource(function, function.__name__, Specialization(parameters, "torch"))
    module: Any = python_to_ast.lower(source, context)
    for stage in (ast_to_tri, tri_to_linalg):
        module = stage.lower(module, context)
    interface = context.interface
    results = tuple(range(len(interface.leaves) - bool(interface.checks)))
    return KernelCall(function.__name__, str(module), (), results, interface.checks)
