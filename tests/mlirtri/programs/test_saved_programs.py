"""Programs as folders, with their weights, states and calling conventions."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace

import ml_dtypes
import numpy as np
import onnx
import pytest
import sympy
import torch
from onnx import TensorProto, helper

import mlirtri as mt
from mlirtri.errors import ArtifactError
from mlirtri.programs.torch_programs.calling_convention import ArgumentLeaf, Sizes
from mlirtri.programs.torch_programs.calling_json import calling_json


class Model(torch.nn.Module):
    """Weights of two dtypes, buffers that a call writes, a constant argument, and results in a structure."""

    def __init__(self):
        super().__init__()
        self.linear, self.norm = torch.nn.Linear(16, 8), torch.nn.BatchNorm1d(8)
        self.table = torch.nn.Embedding(10, 16).to(torch.bfloat16)

    def forward(self, x, rows, *, scale=2.0):
        return {"y": self.norm(self.linear(x)) * scale, "rest": (self.table(rows), x, self.linear.bias)}


def test_a_torch_module_is_called_as_before(tmp_path):
    module, rows = Model().train(), torch.arange(3)
    expected = copy.deepcopy(module)
    size = torch.export.Dim("size", min=2, max=32)
    shapes = {"x": {0: 2 * size}, "rows": {0: size}, "scale": None}
    program = mt.from_torch(module, (torch.randn(6, 16), rows), {"scale": 0.5}, dynamic_shapes=shapes)
    program.save(tmp_path / "model", ir=True)
    kernel = mt.load(tmp_path / "model")
    for length in (4, 7, 4):
        x, rows = torch.randn(2 * length, 16), torch.arange(length)
        torch.testing.assert_close(kernel(x, rows, scale=0.5), expected(x, rows, scale=0.5))
    torch.testing.assert_close(kernel.params["norm.running_var"], expected.norm.running_var)
    x = torch.randn(8, 16)
    torch.testing.assert_close(pickle.loads(pickle.dumps(kernel))(x, rows, scale=0.5), expected(x, rows, scale=0.5))
    with pytest.raises(mt.KernelError, match=r"axis 0 of 'x' is 6, and has to be 2\*\w+ = 8"):
        kernel(x[:6], rows, scale=0.5)
    with pytest.raises(mt.KernelError, match="exported for 2 to 32 along axis 0 of 'rows', got 1"):
        kernel(x[:2], rows[:1], scale=0.5)
    with pytest.raises(mt.KernelError, match=r"exported for scale = 0\.5"):
        kernel(x, rows, scale=0.25)
    assert "linalg.generic" in kernel.ir["linalg"]


def test_what_has_no_json_is_refused():
    program = mt.from_torch(Model(), (torch.randn(6, 16), torch.tensor([1])))
    odd = replace(program.calling, inputs=(ArgumentLeaf("dtype", True, torch.float64),))
    with pytest.raises(ArtifactError, match=r"exported for torch\.float64, and a dtype cannot be written"):
        calling_json(odd)
    sizes = Sizes(((0, 0, sympy.sqrt(sympy.Symbol("n"))),))
    with pytest.raises(ArtifactError, match=r"size sqrt\(n\) cannot be written"):
        calling_json(replace(program.calling, sizes=sizes))


def test_an_onnx_model_keeps_its_dtypes(tmp_path):
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"]), helper.make_node("Cast", ["y"], ["z"], to=TensorProto.INT4)],
        "narrow",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3])],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, [3]),
            helper.make_tensor_value_info("z", TensorProto.INT4, [3]),
        ],
        [helper.make_tensor("w", TensorProto.FLOAT, [3], [1, 2, 3])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    onnx.checker.check_model(model)
    mt.from_onnx(model).save(tmp_path / "narrow")
    y, z = mt.load(tmp_path / "narrow")(np.ones(3, np.float32))
    assert y.tolist() == [2, 3, 4]
    assert z.dtype == ml_dtypes.int4
    assert z.tolist() == [2, 3, 4]


def test_signless_integers_take_either_sign(tmp_path):
    text = """
    func.func @wider(%x: tensor<4xi8>) -> tensor<4xi8> {
      %one = arith.constant dense<1> : tensor<4xi8>
      %sum = arith.addi %x, %one : tensor<4xi8>
      return %sum : tensor<4xi8>
    }"""
    mt.from_mlir(text).save(tmp_path / "wider", pipeline="mlir")
    kernel = mt.load(tmp_path / "wider")
    assert kernel(np.full(4, 200, np.uint8)).tolist() == [201] * 4
    assert kernel(np.full(4, -3, np.int8)).tolist() == [-2] * 4
