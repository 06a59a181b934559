"""Evaluate what is known of a graph before it runs: shapes, what is computed from constants, and which branch is taken.

Shape(x : float[2, 3])                 ──►   Constant [2, 3]
Mul(Constant, Constant)                ──►   Constant, computed by ONNX's reference implementation
If(Constant true, then=…, else=…)      ──►   the nodes of `then`
"""

from __future__ import annotations

from math import prod

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, helper
from onnx.reference import ReferenceEvaluator

from mlirtri.lowering.importers.from_onnx.loops import copy_constants
from mlirtri.lowering.importers.from_onnx.nodes import Values, attribute_of, constant, graphs_in, version_of, with_types
from mlirtri.lowering.importers.from_onnx.unroll import branch_of, unrolled_loop, unrolled_scan

LARGEST = 1024
"""The most elements that a value may have to be computed here."""
_RANDOM = frozenset({
    "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli", "Dropout",
})  # fmt: skip
_ROUNDS = 16
_FLOW = {"If": branch_of, "Loop": unrolled_loop, "Scan": unrolled_scan}


def fold(model: ModelProto) -> ModelProto:
    """Return the model with the types that ONNX infers, and without what does not depend on its inputs' elements."""
    version = version_of(model)
    for _ in range(_ROUNDS):
        model = with_types(model)
        if not _Folding(model).fold(model.graph, Values({}, {}, version)):
            break
    drop_dead_nodes(model.graph)
    return model


def drop_dead_nodes(graph: GraphProto) -> None:
    """Drop the nodes whose results nothing reads."""
    needed = {value.name for value in graph.output}
    nodes = []
    for node in reversed(graph.node):
        if not needed.intersection(node.output):
            continue
        nodes.append(node)
        needed.update(node.input)
        for inner in graphs_in(node):
            drop_dead_nodes(inner)
            needed.update(name for inner_node in inner.node for name in _names_read(inner_node))
            needed.update(value.name for value in inner.output)
    del graph.node[:]
    graph.node.extend(reversed(nodes))


def _names_read(node: NodeProto) -> list[str]:
    nested = [
        name
        for inner in graphs_in(node)
        for name in (*(value.name for value in inner.output), *(n for child in inner.node for n in _names_read(child)))
    ]
    return [*node.input, *nested]


class _Folding:
    def __init__(self, model: ModelProto):
        self.opsets = list(model.opset_import)
        self.is_changed = False

    def fold(self, graph: GraphProto, outer: Values) -> bool:
        """Fold the nodes of a graph, and return whether that changed it."""
        values = outer.within(graph)
        nodes: list[NodeProto] = []
        for node in graph.node:
            copy_constants(node, values)
            folded = self._folded(node, values)
            if folded is None:
                for inner in graphs_in(node):
                    self.fold(inner, values)
                nodes.append(node)
                continue
            self.is_changed = True
            nodes.extend(folded)
            for new in folded:
                if new.op_type == "Constant":
                    values.constants[new.output[0]] = onnx.numpy_helper.to_array(attribute_of(new, "value", None))
        del graph.node[:]
        graph.node.extend(nodes)
        return self.is_changed

    def _folded(self, node: NodeProto, values: Values) -> list[NodeProto] | None:
        """Return the nodes that replace this one, None if it stays."""
        if node.op_type in ("Shape", "Size"):
            return _shape(node, values)
        if node.op_type in _FLOW:
            return _FLOW[node.op_type](node, values)
        inputs = [name for name in node.input if name]
        is_known = all(name in values.constants for name in inputs)
        if node.op_type in ("Constant", *_RANDOM) or not is_known or any(graphs_in(node)):
            return None
        return self._evaluated(node, {name: values.constants[name] for name in inputs}, values)

    def _evaluated(self, node: NodeProto, inputs: dict[str, np.ndarray], values: Values) -> list[NodeProto] | None:
        outputs = [name for name in node.output if name]
        shapes = [values.static_shape(name) for name in outputs]
        is_large = any(shape is not None and prod(shape) > LARGEST for shape in shapes)
        if is_large or any(array.size > LARGEST for array in inputs.values()):
            return None
        types = [onnx.TensorProto.UNDEFINED] * len(outputs)
        arguments = inputs.items()
        graph = helper.make_graph(
            [node], "constant",
            [helper.make_tensor_value_info(name, values.element_type(name), list(a.shape)) for name, a in arguments],
            [helper.make_tensor_value_info(name, kind, None) for name, kind in zip(outputs, types, strict=True)],
        )  # fmt: skip
        try:
            model = helper.make_model(graph, opset_imports=self.opsets)
            results = [np.asarray(result) for result in ReferenceEvaluator(model).run(None, inputs)]
        except Exception:  # what the reference does not compute is left to the compiler
            return None
        if any(result.size > LARGEST or result.dtype.kind in "OSU" for result in results):
            return None
        return [constant(name, result) for name, result in zip(outputs, results, strict=True)]


def _shape(node: NodeProto, values: Values) -> list[NodeProto] | None:
    sizes = values.shape(node.input[0])
    if sizes is None:
        return None
    start, end = attribute_of(node, "start", 0), attribute_of(node, "end", None)
    sizes = sizes[slice(start, end)]
    if None in sizes:
        return None
    result = np.array(sizes if node.op_type == "Shape" else prod(sizes), np.int64)  # type: ignore[arg-type]
    return [constant(node.output[0], result)]
