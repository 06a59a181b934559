"""Convert an exported torch program to a graph without state, its tensors, and its calling convention."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from itertools import pairwise
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode, unset_fake_temporarily
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind, TensorArgument

from mlirtri.dialect.bindings.mlir import without_as_strided
from mlirtri.errors import KernelTypeError, UnsupportedOperationError
from mlirtri.lowering.importers.from_torch.graph_passes import (
    dynamic_views,
    items,
    joined_parts,
    known_results,
    masked_writes,
    python_numbers,
)
from mlirtri.lowering.importers.from_torch.graph_passes.half_complex import Positions
from mlirtri.lowering.importers.from_torch.graph_to_torch import TorchGraph, span_of_node
from mlirtri.programs.torch_programs.calling_convention import ArgumentLeaf, Calling, Returned, Sizes
from mlirtri.programs.torch_programs.kernel_calls import kernel_calls
from mlirtri.programs.torch_programs.lifted_draws import lifted

_HELD = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


def split_program(
    program: torch.export.ExportedProgram, halves: Positions = (frozenset(), frozenset())
) -> tuple[TorchGraph, dict[str, torch.Tensor], Calling]:
    """Return the parts of `program`, whose graph is changed; raises `KernelError`.

    `halves` are the positions of its inputs and outputs that the module takes and returns as complex32.
    """
    graph = program.graph_module.graph
    masked_writes.rewrite(graph)
    _keep_own_messages(graph)
    items.rewrite(graph)
    python_numbers.rewrite(graph)
    dynamic_views.rewrite(graph)
    joined_parts.rewrite(graph)
    known_results.fold_quotients(graph)
    known_results.empty_results(graph)
    bound, tensors, inputs = _inputs(program, graph, halves[0])
    positions = {leaf.name: position for position, leaf in enumerate(inputs) if not leaf.is_constant}
    draws = lifted(program.graph_module, positions)
    calling = replace(_outputs(program, graph, bound, inputs, halves[1]), draws=tuple(draws))
    for node in [node for node in graph.nodes if node.op == "placeholder"]:
        if not node.users and node.name in bound:
            graph.erase_node(node)
            del tensors[bound.pop(node.name)]
    bind_attributes(program.graph_module, bound, tensors)
    bound_last(graph, bound)
    program.graph_module.recompile()
    return TorchGraph(program.graph_module, bound, kernel_calls(graph)), tensors, calling


def _keep_own_messages(graph: Any) -> None:
    """Remove the assertions that torch adds to a user's assertion on a boolean element, and keep its message."""
    assertion, condition = torch.ops.aten._assert_scalar.default, torch.ops.aten._local_scalar_dense.default
    nodes = [node for node in graph.nodes if node.target is assertion]
    asserted = {node.args[0] for node in nodes if getattr(node.args[0], "target", None) is condition}
    for node in nodes:
        number = getattr(node.args[0], "args", (None,))[0]
        is_of_truth = getattr(number, "target", None) is torch.sym_ite and number.args[0] in asserted
        if is_of_truth and node.args[1].startswith("Runtime assertion failed"):
            graph.erase_node(node)


def _inputs(
    program: Any, graph: Any, halves: Set[int]
) -> tuple[dict[str, str], dict[str, torch.Tensor], list[ArgumentLeaf]]:
    nodes = {node.name: node for node in graph.nodes if node.op == "placeholder"}
    bound: dict[str, str] = {}
    tensors: dict[str, torch.Tensor] = {}
    inputs: list[ArgumentLeaf] = []
    for position, spec in enumerate(program.graph_signature.input_specs):
        if spec.kind in _HELD:
            bound[spec.arg.name] = spec.target
            tensors[spec.target] = _held(program, spec.target)
        elif spec.kind is InputKind.TOKEN:
            raise _effect(graph)
        elif spec.kind is not InputKind.USER_INPUT:
            raise UnsupportedOperationError(
                f"the module takes {spec.arg.name}, which is not a tensor ({spec.kind.name})"
            )
        elif isinstance(spec.arg, ConstantArgument):
            inputs.append(ArgumentLeaf(spec.arg.name, True, spec.arg.value))
            graph.erase_node(nodes[spec.arg.name])
        else:
            inputs.append(ArgumentLeaf(spec.arg.name, is_complex32=position in halves))
    return bound, tensors, inputs


def _effect(graph: Any) -> UnsupportedOperationError:
    node = next(node for node in graph.nodes if node.target is torch.ops.higher_order.with_effects)
    operator, *arguments = node.args[1:]
    if operator is torch.ops.aten._linalg_check_errors.default:
        return UnsupportedOperationError(
            f"torch.{str(arguments[1]).removeprefix('torch.')} is not lowered",
            span_of_node(node),
            help="compute it outside of the module",
        )
    return UnsupportedOperationError(f"{operator} has an effect, which is not compiled", span_of_node(node))


def _held(program: Any, name: str) -> torch.Tensor:
    tensor = program.state_dict[name] if name in program.state_dict else program.constants[name]
    if not isinstance(tensor, torch.Tensor) or tensor.layout is not torch.strided:
        raise KernelTypeError(f"{name} is not a dense tensor", help="use tensor.to_dense()")
    return tensor.detach()


def _outputs(program: Any, graph: Any, bound: dict[str, str], inputs: list[ArgumentLeaf], halves: Set[int]) -> Calling:
    [output] = [node for node in graph.nodes if node.op == "output"]
    positions = {leaf.name: position for position, leaf in enumerate(inputs) if not leaf.is_constant}
    outputs: list[Any] = []
    returned: list[Returned] = []
    updates: dict[OutputKind, dict[str, int]] = {OutputKind.BUFFER_MUTATION: {}, OutputKind.USER_INPUT_MUTATION: {}}
    pairs = zip(program.graph_signature.output_specs, output.args[0], strict=True)
    for position, (spec, node) in enumerate(pairs):
        if spec.kind in updates:
            _refuse_another_shape(graph, spec, node)
            updates[spec.kind][spec.target] = _number(outputs, node)
        elif spec.kind is not OutputKind.USER_OUTPUT:
            raise UnsupportedOperationError(f"the module gives a {spec.kind.name}", help="export its forward alone")
        elif isinstance(spec.arg, ConstantArgument):
            returned.append(Returned("constant", spec.arg.value))
        elif node.name in positions:
            returned.append(Returned("input", positions[node.name]))
        elif node.name in bound:
            returned.append(Returned("param", bound[node.name]))
        else:
            returned.append(Returned(_kind_of_result(spec.arg, position in halves), _number(outputs, node)))
    kept_params = {leaf.what for leaf in returned if leaf.kind == "param"} | set(updates[OutputKind.BUFFER_MUTATION])
    output.args = (tuple(outputs),)
    for node in graph.nodes:
        if node.op == "placeholder" and not node.users and bound.get(node.name) in kept_params:
            # The call uses the tensor, the function does not.
            bound.pop(node.name)
            graph.erase_node(node)
    return Calling(
        program.call_spec.in_spec,
        tuple(inputs),
        program.call_spec.out_spec,
        tuple(returned),
        updates[OutputKind.BUFFER_MUTATION],
        {positions[name]: number for name, number in updates[OutputKind.USER_INPUT_MUTATION].items()},
        frozenset(program.state_dict),
        _sizes(program, inputs),
        _names(program),
    )


def _kind_of_result(argument: object, is_half: bool) -> str:
    if not isinstance(argument, TensorArgument):
        return "scalar"
    return "complex32" if is_half else "result"


def _names(program: Any) -> tuple[str, ...]:
    signature = next((call.signature for call in program.module_call_graph if call.fqn == ""), None)
    names = getattr(signature, "forward_arg_names", None) or ()
    count = program.call_spec.in_spec.children()[0].num_children
    return tuple(names[:count]) if len(names) >= count else ()


def _refuse_another_shape(graph: Any, spec: Any, node: Any) -> None:
    for constant in graph.nodes:
        if (
            constant.op != "placeholder"
            or spec.kind is not OutputKind.USER_INPUT_MUTATION
            or constant.name != spec.target
        ):
            continue
        before, after = tuple(constant.meta["val"].shape), tuple(node.meta["val"].shape)
        if not _may_be_equal(before, after):
            raise UnsupportedOperationError(
                f"the module gives its argument {constant.name!r} of shape {before} the shape {after}",
                help="write into a tensor of the result's shape",
            )


def _may_be_equal(before: tuple[Any, ...], after: tuple[Any, ...]) -> bool:
    pairs = zip(before, after, strict=False)
    return len(before) == len(after) and all(x == y for x, y in pairs if type(x) is type(y) is int)


def _sizes(program: Any, inputs: list[ArgumentLeaf]) -> Sizes:
    nodes = {node.name: node for node in program.graph_module.graph.nodes if node.op == "placeholder"}
    result: list[tuple[int, int, Any]] = []
    for position, leaf in enumerate(inputs):
        value = nodes[leaf.name].meta.get("val") if leaf.name in nodes else None
        sizes = value.shape if isinstance(value, torch.Tensor) else (value,)
        result += [
            (position, axis, size.node.expr) for axis, size in enumerate(sizes) if isinstance(size, torch.SymInt)
        ]
    ranges = {
        symbol: (float(range_constraint.lower), float(range_constraint.upper))
        for symbol, range_constraint in program.range_constraints.items()
    }
    return Sizes(tuple(sorted(result, key=lambda size: not size[2].is_Symbol)), ranges)


def _number(outputs: list[Any], node: Any) -> int:
    if node not in outputs:
        outputs.append(node)
    return outputs.index(node)


def bind_attributes(module: torch.fx.GraphModule, bound: dict[str, str], tensors: dict[str, torch.Tensor]) -> None:
    """Replace tensors that the graph holds as attributes by placeholders."""
    graph = module.graph
    try:
        # It makes such tensors.
        without_as_strided(graph)
    except (NotImplementedError, ValueError) as error:
        raise UnsupportedOperationError(f"as_strided of these strides is not lowered: {error}") from error
    first = next(iter(graph.nodes))
    for node in [node for node in graph.nodes if node.op == "get_attr"]:
        value = getattr(module, node.target, None)
        if not isinstance(value, torch.Tensor):
            continue
        with graph.inserting_before(first):
            placeholder = graph.placeholder(f"{node.name}_held")
        placeholder.meta = {**node.meta, "val": FakeTensorMode().from_tensor(value)}
        bound[placeholder.name] = node.target
        # torch.compile calls this in a mode in which tensors are fake; these are not.
        with unset_fake_temporarily():
            tensors[node.target] = value.detach()
        node.replace_all_uses_with(placeholder)
        graph.erase_node(node)


def bound_last(graph: torch.fx.Graph, bound: dict[str, str]) -> None:
    """Move the bound placeholders after the arguments."""
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    ordered = sorted(placeholders, key=lambda node: node.name in bound)
    for before, after in pairwise(ordered):
        before.append(after)
