"""A functional torch.fx graph as a function of tensors, compiled for each set of sizes that it is called with.

Takes a graph of ATen operators, in which sizes may be symbols. Those that have none are compiled at once; the others
are traced again with the sizes of a call, which leaves a static graph. Refuses random numbers, and what rooms refuse.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.traceback import preserve_node_meta
from torch.utils import _pytree as pytree

from mlirtri.errors import KernelValueError
from mlirtri.lowering.importers.from_torch.decompositions.table import decompositions
from mlirtri.lowering.importers.from_torch.graph import TorchGraph
from mlirtri.lowering.importers.from_torch.graph_to_torch import span_of_node
from mlirtri.programs.torch_programs import effects as torch_effects
from mlirtri.programs.torch_programs.calling_convention import Calling, Given, Returned
from mlirtri.programs.torch_programs.graphs import bind_attributes, bound_last
from mlirtri.programs.torch_programs.program import TorchProgram
from mlirtri.programs.torch_programs.torch_kernel import TorchKernel


class TracedFunction:
    """A graph with the kernels that were made of it."""

    def __init__(self, graph: torch.fx.GraphModule, name: str, options: Mapping[str, Any]):
        _refuse_random_numbers(graph)
        self.graph = graph
        self.name = name
        self.options = dict(options)
        self.is_static = not any(_is_symbolic(node) for node in graph.graph.nodes if node.op == "placeholder")
        self.kernels: dict[Any, _Static] = {}
        if self.is_static:
            self.kernels[None] = _Static(graph, name, self.options)

    def __call__(self, *arguments: Any) -> list[Any]:
        key = None if self.is_static else tuple(_size_of(each) for each in arguments)
        if key not in self.kernels:
            self.kernels[key] = _Static(_traced(self.graph, arguments), self.name, self.options)
        if not torch.is_grad_enabled():
            return self.kernels[key](arguments)
        with torch.no_grad():
            return self.kernels[key](arguments)


class _Static:
    """A kernel for one set of sizes, with strides as torch's tracing foresaw them."""

    def __init__(self, module: torch.fx.GraphModule, name: str, options: Mapping[str, Any]):
        graph, tensors, calling, strides = _taken_apart(module)
        self.strides = strides
        self.is_flat = (
            all(each is None for each in strides)
            and all(each.kind == "result" for each in calling.returned)
            and not any(each.is_constant for each in calling.given)
        )
        """Whether it takes tensors only, and gives what the kernel gives."""
        # torch.compile calls us in a mode in which new tensors are fake.
        with unset_fake_temporarily():
            self.kernel: TorchKernel = TorchProgram(name, graph, tensors, calling).compile(**options)  # type: ignore[assignment]

    def __call__(self, arguments: tuple[Any, ...]) -> list[Any]:
        if self.is_flat:
            return self.kernel(*[_plain(each) for each in arguments])
        settled = [each.contiguous() if isinstance(each, torch.Tensor) else each for each in arguments]
        results = self.kernel.on_leaves(settled)
        return [_laid_out(result, strides) for result, strides in zip(results, self.strides, strict=True)]


def _taken_apart(
    module: torch.fx.GraphModule,
) -> tuple[TorchGraph, dict[str, torch.Tensor], Calling, list[tuple[int, ...] | None]]:
    """A copy of the graph without symbols and constants at its borders, and what goes where."""
    module = torch.fx.GraphModule(module, _copied(module.graph))
    nodes = module.graph.nodes
    tokens = torch_effects.settle(module.graph)
    given = [
        Given(node.name, node.name in tokens or not isinstance(node.meta.get("val"), torch.Tensor))
        for node in nodes
        if node.op == "placeholder"
    ]
    positions = {each.name: at for at, each in enumerate(given)}
    [output] = [node for node in nodes if node.op == "output"]
    kept: list[Any] = []
    returned: list[Returned] = []
    for each in output.args[0]:
        if not isinstance(each, torch.fx.Node):
            returned.append(Returned("constant", each))
        elif each.name in positions:
            returned.append(Returned("input", positions[each.name]))
        else:
            kept += [] if each in kept else [each]
            returned.append(Returned("result", kept.index(each)))
    strides = [_strides_of(each) for each in output.args[0]]
    output.args = (tuple(kept),)
    for node in list(nodes):
        if node.op == "placeholder" and given[positions[node.name]].is_constant:
            module.graph.erase_node(node)
    bound: dict[str, str] = {}
    tensors: dict[str, torch.Tensor] = {}
    bind_attributes(module, bound, tensors)
    bound_last(module.graph, bound)
    _, arguments = pytree.tree_flatten((tuple(given), {}))
    _, results = pytree.tree_flatten(list(returned))
    calling = Calling(arguments, tuple(given), results, tuple(returned), {}, {})
    return TorchGraph(module, bound), tensors, calling, strides


def _traced(graph: torch.fx.GraphModule, arguments: tuple[Any, ...]) -> torch.fx.GraphModule:
    """The graph for the sizes of these arguments, of which some rules want numbers."""
    with preserve_node_meta():
        return make_fx(torch.fx.Interpreter(graph).run, decompositions(), tracing_mode="fake")(*arguments)


def _copied(graph: torch.fx.Graph) -> torch.fx.Graph:
    copy = torch.fx.Graph()
    copy.output(copy.graph_copy(graph, {}))
    return copy


def _refuse_random_numbers(graph: torch.fx.GraphModule) -> None:
    for node in graph.graph.nodes:
        if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
            raise KernelValueError(
                f"the graph draws random numbers ({node.target}), which would not be those of eager mode",
                span_of_node(node),
                help="call model.eval() where this is dropout, or draw them outside of the compiled function",
            )


def _is_symbolic(node: Any) -> bool:
    value = node.meta.get("val")
    if isinstance(value, torch.Tensor):
        return any(isinstance(size, torch.SymInt) for size in value.shape)
    return isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool, int, float))


def _size_of(argument: Any) -> Any:
    return tuple(argument.shape) if isinstance(argument, torch.Tensor) else argument


def _strides_of(node: Any) -> tuple[int, ...] | None:
    """The strides of a result where they are not those of contiguous memory."""
    value = node.meta.get("val") if isinstance(node, torch.fx.Node) else None
    if not isinstance(value, torch.Tensor) or value.is_contiguous():
        return None
    return tuple(value.stride())


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor as kernels take it the shortest way: its memory without its gradient, and no class of its own."""
    if tensor.requires_grad or type(tensor) is not torch.Tensor:
        tensor = tensor.detach()
    return tensor.contiguous()


def _laid_out(result: Any, strides: tuple[int, ...] | None) -> Any:
    """AOTAutograd makes views of a result by the strides that it foresaw."""
    if strides is None:
        return result
    if not _overlaps(result.shape, strides):
        return torch.empty_strided(result.shape, strides, dtype=result.dtype, device=result.device).copy_(result)
    place = torch.zeros((), dtype=torch.int64, device=result.device)
    for size, step in zip(result.shape, strides, strict=True):
        place = place.unsqueeze(-1) + torch.arange(size, device=result.device) * step
    memory = result.new_empty(_extent(result.shape, strides))
    return memory.put_(place, result).as_strided(result.shape, strides)


def _overlaps(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether elements may be one in memory, as those of `expand` and `unfold` are."""
    axes = sorted((step, size) for size, step in zip(shape, strides, strict=True) if size > 1)
    return any(
        step < _extent([each for _, each in axes[:at]], [each for each, _ in axes[:at]])
        for at, (step, _) in enumerate(axes)
    )


def _extent(shape: Sequence[int], strides: Sequence[int]) -> int:
    """How many elements of memory lie between the first and the last."""
    return 1 + sum((size - 1) * step for size, step in zip(shape, strides, strict=True))
