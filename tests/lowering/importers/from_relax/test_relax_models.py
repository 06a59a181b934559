"""Modules that TVM's own frontends make, of torch and of ONNX, run in every pipeline with their source's numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import mlirtri as mt
from mlirtri.lowering.toolchain.tvm_names import relax

PIPELINES = ("linalg", "mlir")


def flat(results):
    return [each for part in results for each in flat(part)] if isinstance(results, (tuple, list)) else [results]


class Model(torch.nn.Module):
    """Convolution, normalization, pooling, an embedding that is added, and two results."""

    def __init__(self):
        super().__init__()
        self.convolution = torch.nn.Conv2d(3, 8, 3, padding=1, stride=2)
        self.normalization = torch.nn.BatchNorm2d(8)
        self.embedding = torch.nn.Embedding(20, 8)
        self.linear = torch.nn.Linear(8, 5)

    def forward(self, x, at):
        y = torch.relu(self.normalization(self.convolution(x)))
        z = torch.nn.functional.adaptive_avg_pool2d(y, 1).flatten(1) + self.embedding(at).mean(1)
        return torch.softmax(self.linear(z), -1), y.sum((2, 3))


@pytest.mark.parametrize(
    "are_parameters",
    [pytest.param(True, id="parameters"), pytest.param(False, id="constants", marks=pytest.mark.slow)],
)
def test_torch(are_parameters):
    from tvm.relax.frontend.torch import from_exported_program  # noqa: TID251

    torch.manual_seed(0)
    model, arguments = Model().eval(), (torch.randn(2, 3, 8, 8), torch.randint(0, 20, (2, 4)))
    module = from_exported_program(torch.export.export(model, arguments), keep_params_as_input=are_parameters)
    module, params = relax.frontend.detach_params(module) if are_parameters else (module, None)
    program = mt.from_relax(module, params=params)
    with torch.no_grad():
        wanted = [each.numpy() for each in model(*arguments)]
    for pipeline in PIPELINES:
        kernel = program.compile(pipeline=pipeline)
        assert len(kernel.interface.parameters) == 2
        found = flat(kernel(*(each.numpy() for each in arguments)))
        for f, w in zip(found, wanted, strict=True):
            np.testing.assert_allclose(f, w, rtol=1e-4, atol=1e-6)


def test_onnx():
    onnx = pytest.importorskip("onnx")
    from onnx.reference import ReferenceEvaluator
    from tvm.relax.frontend.onnx import from_onnx  # noqa: TID251

    random = np.random.default_rng(0)
    weights = random.standard_normal((6, 4)).astype("float32")
    make, numbers = onnx.helper, onnx.TensorProto
    graph = make.make_graph(
        [
            make.make_node("MatMul", ["x", "w"], ["a"]),
            make.make_node("Gelu", ["a"], ["b"]),
            make.make_node("ReduceMean", ["b"], ["c"], keepdims=1),
            make.make_node("Sub", ["b", "c"], ["d"]),
            make.make_node("Clip", ["d", "low"], ["y"]),
            make.make_node("ArgMax", ["d"], ["z"], axis=1),
        ],
        "graph",
        [make.make_tensor_value_info("x", numbers.FLOAT, (3, 6))],
        [
            make.make_tensor_value_info("y", numbers.FLOAT, (3, 4)),
            make.make_tensor_value_info("z", numbers.INT64, (3, 1)),
        ],
        [onnx.numpy_helper.from_array(weights, "w"), onnx.numpy_helper.from_array(np.float32(-0.5), "low")],
    )
    model = make.make_model(graph, opset_imports=[make.make_opsetid("", 20)])
    x = random.standard_normal((3, 6)).astype("float32")
    wanted = ReferenceEvaluator(model).run(None, {"x": x})
    program = mt.from_relax(from_onnx(model))
    for pipeline in PIPELINES:
        for f, w in zip(program.compile(pipeline=pipeline)(x), wanted, strict=True):
            assert f.dtype == w.dtype
            np.testing.assert_allclose(f, w, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_from_torch_to_relax_to_linalg_and_back():
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Flatten(), torch.nn.Linear(128, 5),
    ).eval()  # fmt: skip
    x = torch.randn(2, 3, 8, 8)
    kernel = mt.from_torch(model, (x,)).compile()
    left = mt.from_relax(kernel.compilation.records["relax"].ir, params={kernel.name: list(kernel.params.values())})
    back = mt.from_mlir(left.to_mlir(params="inline"))
    assert back.functions == (kernel.name,)
    with torch.no_grad():
        wanted = model(x)
    for found in (kernel(x), left.compile(pipeline="mlir")(x), back.compile()(x)):
        np.testing.assert_allclose(torch.as_tensor(found), wanted, rtol=1e-5, atol=1e-6)
