"""One kernel for all sizes of a graph of torch.compile's whose sizes are symbols.

AOTAutograd passes each symbol as an integer beside the tensors. Here it is read from a tensor that has it as a size,
and what is left is exported like a module with dynamic sizes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch.fx.traceback import preserve_node_meta

from mlirtri.errors import KernelError
from mlirtri.programs.torch_programs.program import from_torch
from mlirtri.programs.torch_programs.torch_kernel import TorchKernel

_SIZE = torch.ops.aten.sym_size.int
_EFFECTS = torch.ops.higher_order.with_effects


class NotForAllSizes(Exception):
    """Why a graph is compiled anew for each set of sizes, as a sentence."""


class DynamicKernel:
    """A kernel that is called like the graph."""

    def __init__(self, kernel: TorchKernel, tensors: Sequence[int]):
        self.kernel = kernel
        self.tensors = tuple(tensors)
        """The positions of the arguments that are tensors."""

    def __call__(self, arguments: tuple[Any, ...]) -> list[Any]:
        return list(self.kernel(*[arguments[position].detach().contiguous() for position in self.tensors]))


def dynamic_kernel(
    graph: torch.fx.GraphModule, name: str, options: Mapping[str, object], arguments: Sequence[object]
) -> DynamicKernel:
    """Return the kernel of a graph for all sizes, traced with these arguments; raises `NotForAllSizes`."""
    placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
    tensors = [position for position, node in enumerate(placeholders) if _is_tensor(node)]
    wanted = {(number, axis) for number, position in enumerate(tensors) for axis in _open_axes(placeholders[position])}
    module = _Interpreted(_of_tensors_alone(graph), name)
    auto = torch.export.Dim.AUTO
    shapes = tuple(dict.fromkeys(_open_axes(placeholders[place]), auto) or None for place in tensors)
    try:
        given = tuple(arguments[position].detach().contiguous() for position in tensors)
        # In a thread of its own: compiled functions of torch run with dispatch keys off that exporting needs.
        with ThreadPoolExecutor(1) as thread:
            program = thread.submit(from_torch, module, given, dynamic_shapes=(shapes,)).result()
        if {(position, axis) for position, axis, _ in program.calling.sizes.expressions} != wanted:
            raise NotForAllSizes("torch.export needs to know one of its sizes")
        return DynamicKernel(program.compile(**options), tensors)  # type: ignore[arg-type]
    except KernelError as error:
        raise NotForAllSizes(error.message) from None


class _Interpreted(torch.nn.Module):
    """A graph as a module, whose nodes keep their lines when it is exported."""

    def __init__(self, graph: torch.fx.GraphModule, name: str):
        super().__init__()
        self.__name__ = name
        self.graph = graph

    def forward(self, *tensors: torch.Tensor) -> Any:
        with preserve_node_meta():
            return torch.fx.Interpreter(self.graph).run(*tensors)


def _of_tensors_alone(graph: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Return the graph without its integers, which are read from sizes; raises `NotForAllSizes`."""
    nodes = torch.fx.Graph()
    nodes.output(nodes.graph_copy(graph.graph, {}))
    module = torch.fx.GraphModule(graph, nodes)
    _refuse(module.graph)
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    sizes: dict[Any, tuple[torch.fx.Node, int]] = {}
    for node in filter(_is_tensor, placeholders):
        for axis in _open_axes(node):
            sizes.setdefault(node.meta["val"].shape[axis].node.expr, (node, axis))
    first = next(node for node in module.graph.nodes if node.op != "placeholder")
    for node in [node for node in placeholders if not _is_tensor(node)]:
        if node.users:
            source = sizes.get(node.meta["val"].node.expr) if isinstance(node.meta.get("val"), torch.SymInt) else None
            if source is None:
                raise NotForAllSizes(f"its argument {node.name} is a number, and the size of no tensor")
            with module.graph.inserting_before(first):
                size = module.graph.call_function(_SIZE, source)
            size.meta = dict(node.meta)
            node.replace_all_uses_with(size)
        module.graph.erase_node(node)
    module.recompile()
    return module


def _refuse(graph: torch.fx.Graph) -> None:
    [output] = [node for node in graph.nodes if node.op == "output"]
    for result in output.args[0]:
        value = result.meta.get("val") if isinstance(result, torch.fx.Node) else None
        if not isinstance(value, torch.Tensor):
            raise NotForAllSizes("one of its results is no tensor")
        if not value.is_contiguous():
            raise NotForAllSizes("one of its results is not row-major")
    for node in graph.nodes:
        if node.target is _EFFECTS or torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
            raise NotForAllSizes(f"{node.target} stands in it")


def _is_tensor(node: torch.fx.Node) -> bool:
    return isinstance(node.meta.get("val"), torch.Tensor)


def _open_axes(node: torch.fx.Node) -> list[int]:
    return [axis for axis, size in enumerate(node.meta["val"].shape) if isinstance(size, torch.SymInt)]
