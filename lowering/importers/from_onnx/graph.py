"""An ONNX model in the form that the importer takes: weights as inputs, named nodes, constants in one form."""

from __future__ import annotations

import linecache
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import onnx
import onnx.inliner
import onnx.version_converter
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from mlirtri.dialect.base.dtypes import find_dtype
from mlirtri.errors import KernelError, KernelTypeError, UnsupportedOperationError, raise_all
from mlirtri.lowering.importers.from_onnx.casts import store, stored_array
from mlirtri.lowering.importers.from_onnx.expand import EXPANDED, expand
from mlirtri.lowering.importers.from_onnx.fold import fold
from mlirtri.lowering.importers.from_onnx.loops import separate_names, without_batches
from mlirtri.lowering.importers.from_onnx.nodes import DOMAINS, Values, graphs_in, graphs_of, version_of, with_types
from mlirtri.lowering.importers.from_onnx.repairs import repair
from mlirtri.lowering.importers.normalize.constants import LARGEST_LITERAL

PREVIEW = {("ai.onnx.preview", name) for name in EXPANDED}
"""Operators of other domains, which ONNX defines by its own."""
WEIGHTED = (
    "Add", "Sub", "Mul", "Div", "Gemm", "MatMul", "Conv", "ConvTranspose", "BatchNormalization", "LayerNormalization",
    "InstanceNormalization", "GroupNormalization", "RMSNormalization", "LSTM", "GRU", "RNN", "PRelu",
)  # fmt: skip
"""Operators that need to know no operand when they are compiled: their constants are weights, however small."""
_CONSTANTS = {
    "value_float": onnx.TensorProto.FLOAT, "value_floats": onnx.TensorProto.FLOAT,
    "value_int": onnx.TensorProto.INT64, "value_ints": onnx.TensorProto.INT64,
}  # fmt: skip


@dataclass(frozen=True)
class OnnxGraph:
    """The input of `onnx_to_torch.lower`."""

    model: Any
    """An `onnx.ModelProto` whose last inputs are the bound ones."""
    bound: tuple[str, ...]
    """Inputs that stand for tensors of the program's own."""
    file: str = "<nodes>"
    """What errors call the listing of the nodes."""
    listing: tuple[str, ...] = ()
    """The nodes as text, one per line."""
    stored_outputs: Mapping[int, str] = field(default_factory=dict)
    """The dtypes of outputs that the function holds as others, by position."""

    @property
    def lines(self) -> dict[str, int]:
        """The line of each node's name in the listing."""
        return {line[1:].partition("] ")[0]: number for number, line in enumerate(self.listing, 1)}


def split_model(model: ModelProto, name: str, file: str) -> tuple[OnnxGraph, dict[str, Any]]:
    """Return the graph, called `name`, and the tensors that it is bound to; errors call its listing `file`.

    Raises `KernelError`.
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    if copy.functions:
        copy = onnx.inliner.inline_local_functions(copy)
    _refuse(copy.graph)
    copy = _converted(copy)
    copy.graph.name = name
    nodes = [node for graph in graphs_of(copy.graph) for node in graph.node]
    _name(nodes)
    separate_names(copy.graph)
    listing = tuple(f"[{node.name}] {helper.printable_node(node)}".replace("\n", " ") for node in nodes)
    linecache.cache[file] = (0, None, [f"{line}\n" for line in listing], file)
    tensors = _weights(copy.graph)
    try:
        copy = _simplified(copy)
        stored_outputs = store(copy.graph)
        copy = with_types(copy)
    except onnx.shape_inference.InferenceError as error:
        raise KernelTypeError(f"ONNX cannot infer the shapes of this model: {_first_line(error)}") from None
    tensors = {name: stored_array(array) for name, array in tensors.items()}
    return OnnxGraph(copy, tuple(tensors), file, listing, stored_outputs), tensors


def _simplified(model: ModelProto) -> Any:
    """Return the model with the operators that torch-mlir lowers right."""
    model = expand(model)
    for graph in graphs_of(model.graph):
        for node in graph.node:
            node.domain = ""
            _unify_constants(node)
    model = fold(model)
    repair(model.graph, Values({}, {}, version_of(model)))
    return model


def symbol_of(model: ModelProto) -> str:
    name = re.sub(r"\W+", "_", model.graph.name).strip("_")
    return name if name and not name[0].isdigit() else f"main_{name}".rstrip("_")


def _refuse(graph: GraphProto) -> None:
    errors: list[KernelError] = []
    for kind, values in (("input", graph.input), ("output", graph.output)):
        for value in values:
            if (value_kind := value.type.WhichOneof("value")) != "tensor_type":
                type_name = (value_kind or "value without a type").removesuffix("_type")
                errors.append(
                    KernelTypeError(
                        f"{kind} {value.name!r} of the ONNX graph is a {type_name}",
                        help="kernels take and give tensors",
                    )
                )
    foreign = [
        node
        for inner in graphs_of(graph)
        for node in inner.node
        if node.domain not in DOMAINS and (node.domain, node.op_type) not in PREVIEW
    ]
    errors.extend(
        UnsupportedOperationError(
            f"node {node.name or node.output[0]!r} is a {node.op_type} of domain {node.domain!r}, not of ONNX's own",
            help="export the model with ONNX's own operators only",
        )
        for node in foreign
    )
    raise_all(errors)


FIRST_SCAN = 9
"""The version from which on `Scan` has no batch axis."""
OLDEST = 15
"""The version of ONNX's operators from which on torch-mlir takes them for what they are."""


def _converted(model: ModelProto) -> Any:
    version = version_of(model) or OLDEST
    if version >= OLDEST:
        return model
    if version < FIRST_SCAN:
        model = with_types(model)
        _unbatch_scans(model.graph, Values({}, {}, version))
    try:
        model = onnx.version_converter.convert_version(model, OLDEST)
    except Exception as error:  # of a class that only C++ knows
        raise UnsupportedOperationError(
            f"ONNX cannot convert this model from version {version} of its operators: {_first_line(error)}",
            help=f"export it with opset_version={OLDEST} or later",
        ) from None
    if version < FIRST_SCAN:
        # The converter takes an axis off the types of all that a Scan reads and gives; they are inferred anew.
        for graph in graphs_of(model.graph):
            del graph.value_info[:]
    return model


def _unbatch_scans(graph: GraphProto, outer: Values) -> None:
    values, nodes = outer.within(graph), []
    for node in graph.node:
        for inner in graphs_in(node):
            _unbatch_scans(inner, values)
        nodes.extend(without_batches(node, values) if node.op_type == "Scan" else [node])
    del graph.node[:]
    graph.node.extend(nodes)


def _name(nodes: Sequence[Any]) -> None:
    names: set[str] = set()
    for number, node in enumerate(nodes):
        node.domain = "" if node.domain in DOMAINS else node.domain
        name = node.name or next((output for output in node.output if output), node.op_type)
        node.name = f"{name}#{number}" if name in names else name
        names.add(node.name)


def _unify_constants(node: NodeProto) -> None:
    if node.op_type == "Constant" and node.attribute and node.attribute[0].name in _CONSTANTS:
        value = helper.get_attribute_value(node.attribute[0])
        kind = _CONSTANTS[node.attribute[0].name]
        is_list = isinstance(value, list)
        numbers = value if is_list else [value]
        tensor = helper.make_tensor(node.output[0], kind, [len(numbers)] if is_list else [], numbers)
        del node.attribute[:]
        node.attribute.append(helper.make_attribute("value", tensor))
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.TENSOR:
            attribute.t.CopyFrom(in_bytes(attribute.t))


def in_bytes(tensor: TensorProto) -> TensorProto:
    """Return the tensor with its elements in `raw_data`."""
    if tensor.HasField("raw_data") or tensor.data_type == onnx.TensorProto.STRING:
        return tensor
    copy = onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
    array = numpy_helper.to_array(tensor)
    copy.raw_data = numpy_helper.from_array(array, tensor.name).raw_data
    return copy


def _weights(graph: GraphProto) -> dict[str, Any]:
    """Make the weights of `graph` its last inputs, and return them by name."""
    initial = {tensor.name: tensor for tensor in graph.initializer}
    # Models of before IR version 4 name their weights among the inputs as well.
    inputs = [value for value in graph.input if value.name not in initial]
    consumers = _consumers(graph)
    weights = {name: tensor for name, tensor in initial.items() if _is_weight(tensor, consumers.get(name, []))}
    constants = [in_bytes(tensor) for name, tensor in initial.items() if name not in weights]
    del graph.initializer[:], graph.input[:]
    graph.initializer.extend(constants)
    graph.input.extend(inputs)
    graph.input.extend(
        helper.make_tensor_value_info(name, weight.data_type, list(weight.dims)) for name, weight in weights.items()
    )
    return {name: numpy_helper.to_array(weight) for name, weight in weights.items()}


def _consumers(graph: GraphProto) -> dict[str, list[NodeProto]]:
    consumers: dict[str, list[NodeProto]] = {}
    for inner in graphs_of(graph):
        for node in inner.node:
            for name in node.input:
                consumers.setdefault(name, []).append(node)
    return consumers


def _is_weight(tensor: Any, consumers: list[NodeProto]) -> bool:
    dtype = find_dtype(helper.tensor_dtype_to_np_dtype(tensor.data_type))
    if dtype is None or not tensor.dims:
        return False
    weighs = dtype.is_inexact and all(node.op_type in WEIGHTED for node in consumers)
    return prod(tensor.dims) > LARGEST_LITERAL or weighs


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]
