"""Read ONNX nodes and the types of their values, and build the nodes that replace one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import onnx
import onnx.shape_inference
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from mlirtri.errors import ParseError

FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16)


DOMAINS = ("", "ai.onnx")


def version_of(model: ModelProto) -> int:
    """Return the version of ONNX's own operators that a model is written in, 0 if it uses none."""
    return next((opset.version for opset in model.opset_import if opset.domain in DOMAINS), 0)


def graphs_in(node: NodeProto) -> Iterator[GraphProto]:
    """Yield the graphs in the attributes of a node."""
    for attribute in node.attribute:
        if attribute.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS):
            yield from (attribute.g,) if attribute.type == AttributeProto.GRAPH else attribute.graphs


def graphs_of(graph: GraphProto) -> Iterator[GraphProto]:
    """Yield the graph and those in the attributes of its nodes, at any depth."""
    yield graph
    for node in graph.node:
        for inner in graphs_in(node):
            yield from graphs_of(inner)


@dataclass(frozen=True)
class Values:
    """What is known of the values that a node can name."""

    types: dict[str, Any]
    """The `TypeProto` of each value, as far as it was inferred."""
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    """The elements of each value that is known when the model is compiled."""
    version: int = 0
    """The version of ONNX's operators."""

    def within(self, graph: GraphProto) -> Values:
        """Return these values and those of `graph`."""
        types = {tensor.name: _type_of(tensor) for tensor in graph.initializer}
        types |= {value.name: value.type for value in (*graph.value_info, *graph.input, *graph.output)}
        constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
        for node in graph.node:
            if node.op_type == "Constant" and (tensor := attribute_of(node, "value", None)) is not None:
                types[node.output[0]] = _type_of(tensor)
                constants[node.output[0]] = numpy_helper.to_array(tensor)
        return Values(self.types | types, self.constants | constants, self.version)

    def element_type(self, name: str) -> int:
        """Return the element type of a value, 0 if unknown."""
        return self.types[name].tensor_type.elem_type if name in self.types else 0

    def dtype(self, name: str) -> np.dtype:
        """Return the NumPy dtype of a value whose element type is known."""
        return helper.tensor_dtype_to_np_dtype(self.element_type(name))

    def static_shape(self, name: str) -> list[int] | None:
        """Return the shape of a value; None unless every size is known when the model is compiled."""
        sizes = self.shape(name)
        return None if sizes is None or None in sizes else sizes  # type: ignore[return-value]

    def shape(self, name: str) -> list[int | None] | None:
        """Return the shape of a value, with None for sizes known at run time only; None for an unknown rank."""
        if name not in self.types or not self.types[name].tensor_type.HasField("shape"):
            return None
        dimensions = self.types[name].tensor_type.shape.dim
        return [size.dim_value if size.HasField("dim_value") else None for size in dimensions]


def _type_of(tensor: Any) -> Any:
    return helper.make_tensor_type_proto(tensor.data_type, list(tensor.dims))


def attribute_of(node: NodeProto, name: str, default: object) -> Any:
    """Return the value of an attribute, or `default`."""
    return next(
        (helper.get_attribute_value(attribute) for attribute in node.attribute if attribute.name == name), default
    )


def operand(node: NodeProto, position: int) -> str:
    """Return the name of an operand, empty if it is left out."""
    return node.input[position] if len(node.input) > position else ""


def constant(name: str, value: np.ndarray) -> NodeProto:
    return helper.make_node("Constant", [], [name], name=name, value=numpy_helper.from_array(value, name))


Rewrite: TypeAlias = Callable[[NodeProto, Values], list[NodeProto]]
"""Returns the nodes that replace one; a list of the node itself where it stays."""


class Nodes:
    """Creates the nodes that replace one, each with a value named after its result."""

    def __init__(self, node: NodeProto):
        self.node = node
        self.nodes: list[NodeProto] = []
        self._names: set[str] = set()

    def __call__(
        self, operator: str, *inputs: str, part: str = "", result: int | None = None, **attributes: Any
    ) -> str:
        """Create a node with one result and return its name; `result=i` names it as output i of the replaced node."""
        label = self.label(part or operator.lower())
        name = label if result is None else self.node.output[result]
        self.nodes.append(helper.make_node(operator, list(inputs), [name], name=label, **attributes))
        return name

    def several(self, operator: str, *inputs: str, count: int, part: str = "", **attributes: Any) -> list[str]:
        """Create a node with `count` results and return their names."""
        label = self.label(part or operator.lower())
        names = [f"{label}.{position}" for position in range(count)]
        self.nodes.append(helper.make_node(operator, list(inputs), names, name=label, **attributes))
        return names

    def constant(self, value: object, part: str = "constant") -> str:
        name = self.label(part)
        self.nodes.append(constant(name, np.asarray(value)))
        return name

    def label(self, part: str) -> str:
        """Return a name that no other node of this object has."""
        label = stem = f"{self.node.name}.{part}"
        number = 1
        while label in self._names:
            number += 1
            label = f"{stem}{number}"
        self._names.add(label)
        return label


def with_types(model: ModelProto) -> ModelProto:
    """Return the model with the types that ONNX infers, and those of what loops carry; raises `ParseError`."""
    try:
        model = onnx.shape_inference.infer_shapes(model, data_prop=True)
        while any([_note_carried(graph) for graph in graphs_of(model.graph)]):
            model = onnx.shape_inference.infer_shapes(model, data_prop=True)
    except (ValueError, RuntimeError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ParseError(f"ONNX cannot infer the types of this model: {reason}") from None
    return model


def _note_carried(graph: GraphProto) -> bool:
    """Note the shapes of values that loops do not change, which ONNX does not infer; return whether there are any."""
    known = {value.name for value in (*graph.value_info, *graph.output) if value.type.tensor_type.HasField("shape")}
    notes = {}
    for node in graph.node:
        body = attribute_of(node, "body", None) if node.op_type == "Loop" else None
        pairs = zip(node.output, body.input[2:], body.output[1:], strict=False) if body else ()
        for name, before, after in pairs:
            shape = before.type.tensor_type.shape
            is_known = all(size.WhichOneof("value") for size in shape.dim) and before.type == after.type
            if name and name not in known and is_known and before.type.tensor_type.HasField("shape"):
                notes[name] = onnx.ValueInfoProto(name=name, type=before.type)
    kept = [value for value in graph.value_info if value.name not in notes]
    del graph.value_info[:]
    graph.value_info.extend([*kept, *notes.values()])
    return bool(notes)
