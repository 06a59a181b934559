"""Compile a functional torch.fx graph: for all sizes, or per set of sizes that it is called with.

A graph without symbols is compiled at once, one with symbols at its first call, for all sizes. Where that is refused,
it is traced again with the sizes of each call, which gives a static graph. Checks of torch.linalg, which AOTAutograd
orders by a token, become assertions.
"""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.fx.traceback import preserve_node_meta
from torch.utils import _pytree as pytree

from mlirtri.errors import ArgumentMismatchError
from mlirtri.lowering.importers.from_torch.decompositions.table import decompositions
from mlirtri.lowering.importers.from_torch.graph_to_torch import TorchGraph
from mlirtri.lowering.importers.from_torch.tracing.traceable_modules import EXPORTING
from mlirtri.programs.torch_programs.calling_convention import ArgumentLeaf, Calling, Returned
from mlirtri.programs.torch_programs.dynamic_graphs import DynamicKernel, NotForAllSizes, dynamic_kernel
from mlirtri.programs.torch_programs.graphs import bind_attributes, bound_last
from mlirtri.programs.torch_programs.lifted_draws import lifted, refuse_draws_of_elements
from mlirtri.programs.torch_programs.program import TorchProgram
from mlirtri.programs.torch_programs.torch_kernel import TorchKernel

aten = torch.ops.aten
_CHECK = aten._linalg_check_errors.default
_EFFECTS = torch.ops.higher_order.with_effects


@dataclass
class Compilations:
    """How many kernels were compiled from a graph, and how long that took; outlives the graph."""

    kernels: int = 0
    seconds: float = 0.0
    why_each: str | None = None
    """Why a graph with symbols is compiled for each set of sizes; None where it is not."""

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Count a compilation, unless it is refused."""
        start = time.perf_counter()
        yield
        self.kernels += 1
        self.seconds += time.perf_counter() - start


class TracedFunction:
    """A graph with the kernels compiled from it."""

    def __init__(self, graph: torch.fx.GraphModule, name: str, options: Mapping[str, Any]):
        refuse_draws_of_elements(graph.graph)
        self.graph = graph
        self.name = name
        self.options = dict(options)
        self.is_static = not any(_is_symbolic(node) for node in graph.graph.nodes if node.op == "placeholder")
        self.kernels: dict[Any, _Static] = {}
        self.compilations = Compilations()
        self.dynamic: DynamicKernel | None = None
        if self.is_static:
            with self.compilations.timed():
                self.kernels[None] = _Static(graph, name, self.options)

    def __call__(self, *arguments: Any) -> list[Any]:
        if not self.is_static and (dynamic := self._for_all_sizes(arguments)) is not None:
            # torch.export may assume more of sizes than Dynamo does.
            with suppress(ArgumentMismatchError):
                return _without_gradients(dynamic, arguments)
        key = None if self.is_static else tuple(_size_of(argument) for argument in arguments)
        if key not in self.kernels:
            with self.compilations.timed(), EXPORTING:
                self.kernels[key] = _Static(_traced(self.graph, arguments), self.name, self.options)
        return _without_gradients(self.kernels[key], arguments)

    def _for_all_sizes(self, arguments: tuple[Any, ...]) -> DynamicKernel | None:
        """Return the kernel for all sizes; None where one has to be compiled for each."""
        if self.dynamic is None and self.compilations.why_each is None:
            try:
                with self.compilations.timed(), torch.no_grad():
                    self.dynamic = dynamic_kernel(self.graph, self.name, self.options, arguments)
            except NotForAllSizes as reason:
                self.compilations.why_each = str(reason)
        return self.dynamic


def _without_gradients(kernel: Callable[[tuple[Any, ...]], list[Any]], arguments: tuple[Any, ...]) -> list[Any]:
    if not torch.is_grad_enabled():
        return kernel(arguments)
    with torch.no_grad():
        return kernel(arguments)


class _Static:
    """A kernel for one set of sizes, with the result strides that torch's tracing predicted."""

    def __init__(self, module: torch.fx.GraphModule, name: str, options: Mapping[str, Any]):
        graph, tensors, calling, strides = _split_graph(module)
        self.strides = strides
        self.is_flat = (
            all(stride is None for stride in strides)
            and all(leaf.kind == "result" for leaf in calling.returned)
            and not any(leaf.is_constant for leaf in calling.inputs)
        )
        """Whether it takes tensors only, and gives what the kernel gives."""
        # torch.compile calls this in a mode in which new tensors are fake.
        with unset_fake_temporarily():
            self.kernel: TorchKernel = TorchProgram(name, graph, tensors, calling).compile(**options)  # type: ignore[assignment]

    def __call__(self, arguments: tuple[Any, ...]) -> list[Any]:
        if self.is_flat:
            return self.kernel(*[_plain(argument) for argument in arguments])
        settled = [argument.contiguous() if isinstance(argument, torch.Tensor) else argument for argument in arguments]
        results = self.kernel.on_leaves(settled)
        return [_laid_out(result, strides) for result, strides in zip(results, self.strides, strict=True)]


def _split_graph(
    module: torch.fx.GraphModule,
) -> tuple[TorchGraph, dict[str, torch.Tensor], Calling, list[tuple[int, ...] | None]]:
    module = torch.fx.GraphModule(module, _copied(module.graph))
    nodes = module.graph.nodes
    tokens = _assert_checks(module.graph)
    leaves = [
        ArgumentLeaf(node.name, node.name in tokens or not isinstance(node.meta.get("val"), torch.Tensor))
        for node in nodes
        if node.op == "placeholder"
    ]
    positions = {leaf.name: position for position, leaf in enumerate(leaves)}
    [output] = [node for node in nodes if node.op == "output"]
    outputs: list[Any] = []
    returned: list[Returned] = []
    for argument in output.args[0]:
        if not isinstance(argument, torch.fx.Node):
            returned.append(Returned("constant", argument))
        elif argument.name in positions:
            returned.append(Returned("input", positions[argument.name]))
        else:
            outputs += [] if argument in outputs else [argument]
            returned.append(Returned("result", outputs.index(argument)))
    strides = [_strides_of(argument) for argument in output.args[0]]
    output.args = (tuple(outputs),)
    for node in list(nodes):
        if node.op == "placeholder" and leaves[positions[node.name]].is_constant:
            module.graph.erase_node(node)
    bound: dict[str, str] = {}
    tensors: dict[str, torch.Tensor] = {}
    draws = lifted(module, {name: position for name, position in positions.items() if not leaves[position].is_constant})
    bind_attributes(module, bound, tensors)
    bound_last(module.graph, bound)
    _, arguments = pytree.tree_flatten((tuple(leaves), {}))
    _, results = pytree.tree_flatten(list(returned))
    calling = Calling(arguments, tuple(leaves), results, tuple(returned), {}, {}, draws=tuple(draws))
    return TorchGraph(module, bound), tensors, calling, strides


def _assert_checks(graph: torch.fx.Graph) -> set[str]:
    """Rewrite the checks of `graph` to assertions; return the placeholders that are only tokens."""
    tokens: set[str] = set()
    for node in list(graph.nodes):
        if node.target is not _EFFECTS or node.args[1] is not _CHECK:
            continue
        token, _, info, name = node.args
        with graph.inserting_before(node):
            name = name.removeprefix("torch.")
            _assert_zero(graph, node, info, f"torch.{name}: a matrix is singular, or has no such factors")
        for user in list(node.users):
            user.replace_all_uses_with(token)
            graph.erase_node(user)
        graph.erase_node(node)
        # Retraced graphs have None as token.
        if token is not None and token.op == "placeholder" and _EFFECTS not in (user.target for user in token.users):
            tokens.add(token.name)
    return tokens


def _assert_zero(graph: torch.fx.Graph, check: Any, info: Any, message: str) -> None:
    fake = info.meta["val"]
    with fake.fake_mode:
        largest = torch.amax(torch.abs(fake))
    absolute = graph.call_function(aten.abs.default, (info,))
    absolute.meta = {**check.meta, "val": fake}
    result = graph.call_function(aten.amax.default, (absolute,))
    result.meta = {**check.meta, "val": largest}
    item = graph.call_function(aten.Int.Tensor, (result,))
    environment = fake.fake_mode.shape_env or ShapeEnv()
    item.meta = {**check.meta, "val": environment.create_unbacked_symint()}
    condition = graph.call_function(operator.eq, (item, 0))
    condition.meta = {**check.meta, "val": item.meta["val"] == 0}
    graph.call_function(aten._assert_scalar.default, (condition, message)).meta = {**check.meta, "val": None}


def _traced(graph: torch.fx.GraphModule, arguments: tuple[Any, ...]) -> torch.fx.GraphModule:
    """Trace the graph again for the sizes of these arguments, which some rules require to be static."""
    with preserve_node_meta():
        return make_fx(torch.fx.Interpreter(graph).run, decompositions(), tracing_mode="fake")(*arguments)


def _copied(graph: torch.fx.Graph) -> torch.fx.Graph:
    copy = torch.fx.Graph()
    copy.output(copy.graph_copy(graph, {}))
    return copy


def _is_symbolic(node: Any) -> bool:
    value = node.meta.get("val")
    if isinstance(value, torch.Tensor):
        return any(isinstance(size, torch.SymInt) for size in value.shape)
    return isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool, int, float))


def _size_of(argument: Any) -> Any:
    return tuple(argument.shape) if isinstance(argument, torch.Tensor) else argument


def _strides_of(node: Any) -> tuple[int, ...] | None:
    value = node.meta.get("val") if isinstance(node, torch.fx.Node) else None
    if not isinstance(value, torch.Tensor) or value.is_contiguous():
        return None
    return tuple(value.stride())


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.requires_grad or type(tensor) is not torch.Tensor:
        tensor = tensor.detach()
    return tensor.contiguous()


def _laid_out(result: Any, strides: tuple[int, ...] | None) -> Any:
    if strides is None:
        return result
    if not _overlaps(result.shape, strides):
        return torch.empty_strided(result.shape, strides, dtype=result.dtype, device=result.device).copy_(result)
    index = torch.zeros((), dtype=torch.int64, device=result.device)
    for size, step in zip(result.shape, strides, strict=True):
        index = index.unsqueeze(-1) + torch.arange(size, device=result.device) * step
    memory = result.new_empty(_extent(result.shape, strides))
    return memory.put_(index, result).as_strided(result.shape, strides)


def _overlaps(shape: Sequence[int], strides: Sequence[int]) -> bool:
    axes = sorted((step, size) for size, step in zip(shape, strides, strict=True) if size > 1)
    return any(
        step < _extent([axis for _, axis in axes[:axis]], [axis for axis, _ in axes[:axis]])
        for axis, (step, _) in enumerate(axes)
    )


def _extent(shape: Sequence[int], strides: Sequence[int]) -> int:
    return 1 + sum((size - 1) * step for size, step in zip(shape, strides, strict=True))
