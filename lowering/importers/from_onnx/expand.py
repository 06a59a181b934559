"""Replace operators that torch-mlir has no lowering of, or a wrong one, by ONNX's own definitions of them.

ONNX defines many operators as functions of others (`onnx.defs.OpSchema.function_body`); its inliner builds the body for
the types and attributes of one node.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx
import onnx.inliner
import onnx.version_converter
from onnx import GraphProto, ModelProto, NodeProto, helper

from mlirtri.lowering.importers.from_onnx.nodes import Values, graphs_in, version_of, with_types

EXPANDED = frozenset({
    "AffineGrid", "Attention", "CausalConvWithState", "CenterCropPad", "DynamicQuantizeLinear", "FlexAttention", "Gelu",
    "LinearAttention", "MeanVarianceNormalization", "NegativeLogLikelihoodLoss", "ReduceL1", "ReduceL2", "ReduceLogSum",
    "ReduceLogSumExp", "ReduceSumSquare", "RMSNormalization", "RotaryEmbedding", "SoftmaxCrossEntropyLoss",
    "SpaceToDepth", "Swish", "SwiGLU",
})  # fmt: skip
"""Operators whose definition is taken."""
_ROUNDS = 8
"""Definitions call each other less deeply than this."""


def expand(model: ModelProto) -> ModelProto:
    """Return the model with the nodes of `EXPANDED` replaced by their definitions, at any depth."""
    for _ in range(_ROUNDS):
        if not _calls(model.graph):
            break
        model = with_types(model)
        _expand(model.graph, Values({}), model)
    return model


def _calls(graph: GraphProto) -> bool:
    return any(node.op_type in EXPANDED or any(map(_calls, graphs_in(node))) for node in graph.node)


def _expand(graph: GraphProto, outer: Values, model: ModelProto) -> None:
    values = outer.within(graph)
    nodes: list[NodeProto] = []
    for node in graph.node:
        for inner in graphs_in(node):
            _expand(inner, values, model)
        nodes.extend(_definition(node, values, model) if node.op_type in EXPANDED else [node])
    del graph.node[:]
    graph.node.extend(nodes)


def _definition(node: NodeProto, values: Values, model: ModelProto) -> list[NodeProto]:
    """Return the nodes of a node's definition, or the node if ONNX has none for its types."""
    names = list(dict.fromkeys(name for name in node.input if name))
    if any(name not in values.types for name in names):
        return [node]
    function = _function(node, values, model)
    if function is None:
        return [node]
    if not version_of(function):
        function.opset_import.append(helper.make_opsetid("", version_of(model) or onnx.defs.onnx_opset_version()))
    call = onnx.NodeProto()
    call.CopyFrom(node)
    call.domain = function.domain = "mlirtri.definition"
    inputs = [helper.make_value_info(name, values.types[name]) for name in names]
    outputs = [helper.make_tensor_value_info(name, onnx.TensorProto.UNDEFINED, None) for name in node.output if name]
    opsets = [*function.opset_import, helper.make_opsetid(call.domain, 1)]
    single = helper.make_model(
        helper.make_graph([call], "call", inputs, outputs), functions=[function], opset_imports=opsets,
        ir_version=model.ir_version,
    )  # fmt: skip
    body = _converted(onnx.inliner.inline_local_functions(single), model).graph
    border = {name: name for name in (*node.input, *node.output)}
    _rename(body, border, node.name)
    return list(body.node)


def _converted(body: Any, model: ModelProto) -> Any:
    """Return the body of a definition with the version of the operators that `model` has."""
    own, version = version_of(body), version_of(model)
    if not version:
        # A model of operators of other domains alone says none.
        model.opset_import.append(helper.make_opsetid("", own))
        return body
    return body if version == own else onnx.version_converter.convert_version(body, version)


def _function(node: NodeProto, values: Values, model: ModelProto) -> Any:
    """Return ONNX's definition of a node, None if there is none for its types."""
    version = next((opset.version for opset in model.opset_import if opset.domain == node.domain), 1)
    schema = onnx.defs.get_schema(node.op_type, version, node.domain)
    function = onnx.FunctionProto()
    if schema.has_function:
        versions = [number for number in schema.function_opset_versions if number <= version]
        function.ParseFromString(schema.get_function_with_opset_version(max(versions)))
        _set_defaults(node, schema)
        return function
    if not schema.has_context_dependent_function:
        return None
    types = [values.types[name] if name else onnx.TypeProto() for name in node.input]
    versions = [number for number in schema.context_dependent_function_opset_versions if number <= version]
    encoded = schema.get_context_dependent_function_with_opset_version(
        max(versions), node.SerializeToString(), [kind.SerializeToString() for kind in types]
    )
    function.ParseFromString(encoded)
    return function if function.node else None


def _set_defaults(node: NodeProto, schema: Any) -> None:
    """Write out the attributes that a node leaves to their defaults: a definition refers to them by name."""
    names = {attribute.name for attribute in node.attribute}
    for name, attribute in schema.attributes.items():
        if name not in names and attribute.default_value.type:
            node.attribute.append(attribute.default_value)


def _rename(graph: GraphProto, names: Mapping[str, str], prefix: str) -> None:
    """Put `prefix` before the names of all nodes, and of all values without an entry in `names`."""
    names = dict(names)
    for value in (*graph.input, *graph.initializer):
        names.setdefault(value.name, f"{prefix}.{value.name}")
        value.name = names[value.name]
    for position, node in enumerate(graph.node):
        node.name = f"{prefix}.{position}.{node.op_type}"
        for output in node.output:
            names.setdefault(output, f"{prefix}.{output}" if output else "")
        for inner in graphs_in(node):
            _rename(inner, names, node.name)
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names[name] for name in node.output]
    for value in graph.output:
        value.name = names.get(value.name, value.name)
