"""ONNX models built from nodes, and compared with ONNX's reference implementation."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import mlirtri as mt
from mlirtri.lowering.importers.from_onnx.graph import split_model

PIPELINES = ("linalg", "mlir")


RNG = np.random.default_rng(5)


def random(*shape: int, dtype: str = "float32") -> np.ndarray:
    if np.dtype(dtype).kind in "iu":
        return RNG.integers(0, 9, shape).astype(dtype)
    return RNG.uniform(-1, 1, shape).astype(dtype)


def value(name: str, array: np.ndarray, shape: list | None = None):
    kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_value_info(name, kind, list(array.shape) if shape is None else shape)


def model_of(nodes, inputs: dict, weights: dict | None = None, outputs: tuple[str, ...] = ("y",), opset: int = 20):
    """A model whose outputs have the types that ONNX infers."""
    initializers = [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()]
    unknown = [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in outputs]
    graph = helper.make_graph(
        nodes, "net", [value(name, array) for name, array in inputs.items()], unknown, initializers
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    return onnx.shape_inference.infer_shapes(model, data_prop=True)


def check(model, inputs: dict, pipeline: str = "linalg", tolerance: float = 2e-5) -> None:
    expected = ReferenceEvaluator(model).run(None, inputs)
    results = mt.from_onnx(model).compile(pipeline=pipeline)(*inputs.values())
    results = results if isinstance(results, tuple) else (results,)
    assert len(results) == len(expected)
    for result, other in zip(results, expected, strict=True):
        assert result.dtype == other.dtype
        np.testing.assert_allclose(result, other, rtol=tolerance, atol=tolerance)


def rewritten(model):
    return split_model(model, "net", "<nodes>")[0].model


def check_rewritten(nodes, inputs, weights=None, gone=(), outputs=("y",), opset=23, tolerance=1e-5):
    """Compare the results of a model with those of its rewritten form, without operators of the names `gone`."""
    model = model_of(nodes, inputs, weights, outputs, opset)
    result = rewritten(model)
    assert not {node.op_type for node in result.graph.node} & set(gone)
    expected = ReferenceEvaluator(model).run(None, inputs)
    for one, other in zip(ReferenceEvaluator(result).run(None, inputs), expected, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)
