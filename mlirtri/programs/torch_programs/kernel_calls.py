"""Find the kernels that a program calls by their operators, and lower each to linalg for the types of its call.

A kernel that writes its arguments has a second operator, ``namespace::name_functional``, which returns what they hold
afterwards: torch then functionalizes the copies into them, through views as well.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from mlirtri.errors import UnsupportedOperationError
from mlirtri.lowering.importers.from_torch.graph_to_torch import span_of_node
from mlirtri.lowering.importers.from_torch.kernel_calls import KernelCall
from mlirtri.programs.torch_programs.custom_op import OPERATORS, TorchOperator, result_leaves

_FUNCTIONAL: dict[Any, TorchOperator] = {}
"""The operators of kernels that write, by torch's object for the operator that returns what they write."""

_FUNCTIONALIZED = (torch.ops.higher_order.auto_functionalized, torch.ops.higher_order.auto_functionalized_v2)


@contextmanager
def functional_kernels(module: torch.fx.GraphModule) -> Iterator[None]:
    """Replace kernels that write arguments by their functional operators and copies, inside of the `with` statement."""
    original = module.graph
    if not any(_writes(node) for node in original.nodes):
        yield
        return
    copied = torch.fx.Graph(module)
    copied._codegen = original._codegen
    replacements: dict[torch.fx.Node, Any] = {}
    returned: Any = copied.graph_copy(original, replacements, return_output_node=True)
    [output] = [node for node in original.nodes if node.op == "output"]
    copied.output(returned[0])
    list(copied.nodes)[-1].meta = dict(output.meta)
    for node in list(copied.nodes):
        if _writes(node):
            _make_functional(node)
    module.graph = copied
    try:
        yield
    finally:
        module.graph = original


def kernel_calls(graph: torch.fx.Graph) -> dict[str, KernelCall]:
    """Return the lowered kernel of each node that calls one, by the node's name; raises `KernelError`."""
    for node in graph.nodes:
        if node.target in _FUNCTIONALIZED and node.args[0] in OPERATORS:
            raise UnsupportedOperationError(
                f"{OPERATORS[node.args[0]].name} writes, and torch has functionalized the program already",
                span_of_node(node), help="give the program that torch.export.export returns, before run_decompositions",
            )  # fmt: skip
    called = [(node, _FUNCTIONAL.get(node.target) or OPERATORS.get(node.target)) for node in graph.nodes
              if node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload)]  # fmt: skip
    return {node.name: _call(node, found) for node, found in called if found is not None}


def _writes(node: torch.fx.Node) -> bool:
    return node.op == "call_function" and node.target in OPERATORS and bool(OPERATORS[node.target].writes)


def _make_functional(node: torch.fx.Node) -> None:
    kernel = OPERATORS[node.target]
    graph, count = node.graph, kernel.results + len(kernel.writes)
    arguments = _arguments(node, kernel)
    with graph.inserting_before(node):
        called = graph.call_function(_functional(kernel), node.args, node.kwargs)
        called.meta = {name: value for name, value in node.meta.items() if name != "val"}
        parts = [called] if count == 1 else [
            graph.call_function(operator.getitem, (called, position)) for position in range(count)
        ]  # fmt: skip
        for name, value in zip(kernel.writes, parts[kernel.results :], strict=True):
            copy = graph.call_function(torch.ops.aten.copy_.default, (arguments[name], value))
            copy.meta = dict(called.meta)
    if kernel.results == 1:
        node.replace_all_uses_with(parts[0])
    users: list[Any] = list(node.users)
    for user in users:
        user.replace_all_uses_with(parts[user.args[1]])
        graph.erase_node(user)
    graph.erase_node(node)


def _functional(kernel: TorchOperator) -> Any:
    """Return the operator that returns a kernel's results and then what the arguments that it writes hold."""
    known = [overload for overload, of in _FUNCTIONAL.items() if of is kernel]
    if known:
        return known[0]
    count = kernel.results + len(kernel.writes)

    def results(*arguments: Any, **keywords: Any) -> Any:
        bound = kernel.kernel.signature.bind(arguments, keywords)
        bound |= {name: bound[name].clone() for name in kernel.writes}
        given = kernel.overload(**bound)
        values = [] if given is None else [given] if isinstance(given, torch.Tensor) else [*given]
        values += [bound[name] for name in kernel.writes]
        return values[0] if count == 1 else tuple(values)

    # torch's own wrapper would infer the schema from annotations, which are ours.
    definition = torch.library.custom_op(
        f"{kernel.name}_functional", results, mutates_args=(), schema=kernel.schema(count, ())
    )
    definition.register_fake(results)
    _FUNCTIONAL[definition._opoverload] = kernel
    return definition._opoverload


def _call(node: torch.fx.Node, kernel: TorchOperator) -> KernelCall:
    arguments = _arguments(node, kernel)
    compiled = kernel.lowered({name: _value_of(argument) for name, argument in arguments.items()})
    interface, updates = compiled.interface, dict(compiled.interface.updates)
    if interface.log is not None:
        raise UnsupportedOperationError(
            f"{kernel.name} prints, which a kernel inside of an imported program does not", span_of_node(node)
        )
    positions = {parameter.name: position for position, parameter in enumerate(interface.parameters)}
    results: list[int | None] = [leaf.index for leaf in result_leaves(interface.tree)]
    if node.target in _FUNCTIONAL:
        results += [updates.get(positions.get(name, -1)) for name in kernel.writes]
        _keep_unwritten(node, arguments, kernel, results)
    operands = tuple(arguments[parameter.name] for parameter in interface.parameters)
    module = compiled.compilation.records["linalg"].complete()
    return KernelCall(compiled.name, module, operands, tuple(results), interface.checks)


def _keep_unwritten(
    node: torch.fx.Node, arguments: dict[str, Any], kernel: TorchOperator, results: list[int | None]
) -> None:
    """Use the argument where this specialization of a kernel does not write what its operator says that it may."""
    for name, position in zip(kernel.writes, range(kernel.results, len(results)), strict=True):
        if results[position] is not None:
            continue
        if len(results) == 1:
            node.replace_all_uses_with(arguments[name])
            continue
        for user in [user for user in node.users if user.args[1] == position]:
            user.replace_all_uses_with(arguments[name])
            node.graph.erase_node(user)


def _arguments(node: torch.fx.Node, kernel: TorchOperator) -> dict[str, Any]:
    return kernel.kernel.signature.bind(node.args, dict(node.kwargs))


def _value_of(argument: Any) -> Any:
    return argument.meta["val"] if isinstance(argument, torch.fx.Node) else argument
