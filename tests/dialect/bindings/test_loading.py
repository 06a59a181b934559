"""Tests of what importing the bindings of `linalg` loads, and of the builders that stand in for what it does not."""

import subprocess
import sys

from mlirtri.dialect.bindings.mlir import ir, linalg_copy, linalg_fill

PROGRAM = """
import sys
from mlirtri.dialect.bindings.mlir import ir, linalg
import mlirtri.lowering.fusion.linalg_to_fused, mlirtri.lowering.linalg.windows
assert not [name for name in sys.modules if "opdsl" in name or name == "yaml"]
assert linalg.matmul.__module__ == "torch_mlir.dialects.linalg"
assert not hasattr(linalg, "no_such_operation") and not hasattr(linalg, "__no_such_attribute__")
with ir.Context(), ir.Location.unknown():
    module = ir.Module.parse("func.func @f(%a: tensor<2xf32>) -> tensor<2xf32> { return %a : tensor<2xf32> }")
    [function] = module.body.operations
    with ir.InsertionPoint.at_block_begin(function.body.blocks[0]):
        linalg.exp(function.arguments[0], outs=[function.arguments[0]])
    assert module.operation.verify() and "linalg.exp" in str(module)
"""
MEMORY = """
func.func @f(%x: f32, %a: tensor<2x?xf32>, %m: memref<4xf32>, %n: memref<4xf32>) { return }
"""


def test_the_definitions_of_named_operations_are_loaded_when_they_are_asked_for():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.stderr == ""


def test_fill_and_copy_take_tensors_and_memory():
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(MEMORY)
        [function] = module.body.operations
        number, array, source, target = function.arguments
        with ir.InsertionPoint.at_block_begin(function.body.blocks[0]):
            filled = linalg_fill(number, array)
            assert filled.type == array.type
            assert linalg_fill(number, source) is None
            assert linalg_copy(source, target) is None
            assert linalg_copy(filled, array).type == array.type
        assert module.operation.verify()
        text = str(module)
    assert "linalg.fill ins(%arg0 : f32) outs(%arg1 : tensor<2x?xf32>)" in text
    assert "linalg.fill ins(%arg0 : f32) outs(%arg2 : memref<4xf32>)" in text
    text = text.replace(" {cast = #linalg.type_fn<cast_signed>}", "")
    assert "linalg.copy ins(%arg2 : memref<4xf32>) outs(%arg3 : memref<4xf32>)" in text
