"""torch.fx graph → `torch`: torch-mlir's importer, with the user's lines and names as locations."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from inspect import getfile
from pathlib import Path
from typing import Any

import torch

from mlirtri.dialect.base.dtypes import find_dtype
from mlirtri.dialect.bindings.locations import location_of
from mlirtri.dialect.bindings.mlir import ir, load_torch, public_functions, torch_importer
from mlirtri.dialect.definition import new_context
from mlirtri.errors import KernelError, Span, UnsupportedOperationError
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.importers.from_torch.control_flow import carry_captured_tensors, with_branches
from mlirtri.lowering.importers.from_torch.kernel_calls import KernelCall, known_size, with_kernels
from mlirtri.lowering.importers.from_torch.library_kernels import library_calls
from mlirtri.lowering.mlir_common.attributes import BOUND, DTYPE, argument_attributes, result_attributes, set_signature
from mlirtri.lowering.mlir_common.reading import symbol_name

LIBRARIES = (str(Path(torch.__file__).parent), str(Path(getfile(KernelError)).parent), "torch/fx/passes/")
"""Frames in here are no lines of the user's."""
_ELSEWHERE = re.compile(r"/(?:site|dist)-packages/torch/")
"""torch's own files where a program was exported, which may be another machine."""
_FRAME = re.compile(r'File "([^"]+)", line ([0-9]+)')


@dataclass(frozen=True)
class TorchGraph:
    """The input of `lower`, without state: its placeholders are arguments, then bound tensors; its output is flat."""

    module: Any
    """The `torch.fx.GraphModule`, of ATen operators."""
    bound: Mapping[str, str]
    """Placeholders that stand for tensors of the program's own, with the names that those have there."""
    kernels: Mapping[str, KernelCall] = field(default_factory=dict)
    """The nodes that call a kernel of Python's source, by name."""

    @property
    def arguments(self) -> list[torch.fx.Node]:
        return [node for node in self.module.graph.nodes if node.op == "placeholder" and node.name not in self.bound]

    @property
    def results(self) -> list[torch.fx.Node]:
        [output] = [node for node in self.module.graph.nodes if node.op == "output"]
        return list(output.args[0])


def lower(graph: TorchGraph, context: CompileContext) -> ir.Module:
    """Import `graph` as the function `context.kernel`; raises `UnsupportedOperationError`."""
    carry_captured_tensors(graph.module)
    module_context = new_context()
    load_torch(module_context)
    importer_class, node_class, cache_class = torch_importer()
    module = ir.Module.create(ir.Location.unknown(module_context))
    nodes = with_kernels(
        with_branches(node_class), {**graph.kernels, **library_calls(graph.module.graph, context.target)}
    )
    importer = importer_class(module=module, config_check=False, graph_node_importer_cls=nodes)
    cache = _locating_cache(cache_class)(module_context)
    # The importer takes locations from this object only.
    importer._cc = cache
    with module_context:
        try:
            importer.import_graph_module(graph.module, func_name=context.kernel)
        except KernelError:
            raise
        except (NotImplementedError, RuntimeError, AssertionError, KeyError, TypeError, ValueError) as error:
            raise _refused(cache.node, error) from error
        with ir.Location.unknown():
            _describe(module, graph, context)
    return module


def span_of_node(node: torch.fx.Node) -> Span | None:
    """Return the innermost line of the user's code that a node was traced from."""
    frames = _FRAME.findall(node.meta.get("stack_trace") or "")
    user_frames = [frame for frame in frames if not frame[0].startswith(LIBRARIES) and not _ELSEWHERE.search(frame[0])]
    return Span(user_frames[-1][0], int(user_frames[-1][1]), 1) if user_frames else None


def _locating_cache(cache_class: type) -> type:
    class LocatingCache(cache_class):  # type: ignore[misc, valid-type]
        node: Any = None

        def get_node_location(self, node: Any) -> ir.Location:
            self.node = node
            with self._c:
                return location_of(span_of_node(node), node.name)

        def format_asm_shape(self, shape: Any) -> str:
            return ",".join("?" if (size := known_size(extent)) is None else str(size) for extent in shape)

    return LocatingCache


def _refused(node: Any, error: Exception) -> UnsupportedOperationError:
    operator = getattr(node, "target", None) or node
    operator = (
        operator if isinstance(operator, (str, torch._ops.OpOverload)) else getattr(operator, "__name__", operator)
    )
    lines = str(error).strip().splitlines()
    reason = lines[0] if lines else type(error).__name__
    if reason.startswith("FIX ME"):
        # The rest prints the whole node, addresses included.
        reason = "its importer does not have it"
    return UnsupportedOperationError(
        f"torch-mlir does not import {operator}: {reason}", span_of_node(node) if node is not None else None
    )


def _describe(module: ir.Module, graph: TorchGraph, context: CompileContext) -> None:
    function = next(f for f in public_functions(module) if symbol_name(f) == context.kernel)
    function.attributes["torch.assume_strict_symbolic_shapes"] = ir.UnitAttr.get()
    attributes = argument_attributes(function)
    placeholders = [node for node in graph.module.graph.nodes if node.op == "placeholder"]
    for node, argument, facts in zip(placeholders, function.regions[0].blocks[0].arguments, attributes, strict=True):
        bound = graph.bound.get(node.name)
        argument.set_location(location_of(span_of_node(node), bound or node.name))
        if bound is not None:
            facts[BOUND] = ir.StringAttr.get(bound)
        _note_sign(node, facts)
    results = result_attributes(function)
    for node, facts in zip(graph.results, results, strict=True):
        _note_sign(node, facts)
    set_signature(function, attributes, results)


def _note_sign(node: Any, facts: dict[str, ir.Attribute]) -> None:
    """Record unsigned dtypes, which torch-mlir's lowering makes signless."""
    value = node.meta.get("val")
    dtype = find_dtype(value.dtype) if isinstance(value, torch.Tensor) else None
    if dtype is not None and dtype.name.startswith("uint"):
        facts[DTYPE] = ir.StringAttr.get(dtype.name)
