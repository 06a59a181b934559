"""`tri` functions of a few operations through a whole pipeline, or to the text of its stages `linalg` and `fused`."""

from __future__ import annotations

import numpy as np

import mlirtri as mt
from mlirtri.dialect.base.dtypes import DTYPES, as_dtype
from mlirtri.dialect.base.sizes import DYNAMIC
from mlirtri.dialect.base.tensor_type import TensorType
from mlirtri.dialect.bindings.mlir import func, ir, print_complete, print_module
from mlirtri.dialect.builder import TriBuilder, TriValue
from mlirtri.dialect.definition import mlir_type, new_context
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.core.target import as_target
from mlirtri.lowering.fusion import linalg_to_fused
from mlirtri.lowering.linalg import tri_to_linalg

PIPELINES = ("linalg", "mlir")
FLOAT64, INT64 = DTYPES["float64"], DTYPES["int64"]
RANDOM = np.random.default_rng(7)


def tri_text(arrays, body) -> str:
    """A module whose function is `body`, which takes a builder and tensors and gives one tensor or several."""
    with new_context(), ir.Location.unknown():
        types = [TensorType(array.shape, as_dtype(array.dtype)) for array in arrays]
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            function = func.FuncOp("kernel", ([mlir_type(array) for array in types], []))
        block = function.add_entry_block()
        with ir.InsertionPoint(block):
            tensors = [TriValue(argument, array) for argument, array in zip(block.arguments, types, strict=True)]
            made = body(TriBuilder(), *tensors)
            results = [made] if isinstance(made, TriValue) else list(made)
            func.ReturnOp([result.value for result in results])
        kind = ir.FunctionType.get([mlir_type(array) for array in types], [mlir_type(array.type) for array in results])
        function.attributes["function_type"] = ir.TypeAttr.get(kind)
        return print_complete(module)


def run(tmp_path, pipeline, arrays, body):
    arrays = [np.asarray(array) for array in arrays]
    file = tmp_path / "kernel.mlir"
    file.write_text(tri_text(arrays, body))
    return mt.resume(file, "tri", pipeline=pipeline)(*arrays)


def linalg_and_fused(arrays, body) -> tuple[str, str]:
    """The text of `linalg` and of `fused`."""
    with new_context():
        module = ir.Module.parse(tri_text([np.asarray(array) for array in arrays], body))
        context = CompileContext("kernel", as_target("cpu"), keep_passes=False)
        module = tri_to_linalg.lower(module, context)
        module.operation.verify()
        linalg = print_module(module)
        module = linalg_to_fused.lower(module, context)
        module.operation.verify()
        return linalg, print_module(module)


def part(t: TriBuilder, x: TriValue, *sizes: TriValue) -> TriValue:
    """The first elements along each axis: a tensor all of whose sizes are of run time."""
    rank = x.type.rank
    return t.extract_slice(
        x, *sizes, offsets=(0,) * rank, sizes=(DYNAMIC,) * rank, strides=(1,) * rank, drop=()
    )  # fmt: skip


def padded(t: TriBuilder, x: TriValue, shape: tuple[int, ...]) -> TriValue:
    """x in the corner of zeros: functions return what has a size."""
    rank = len(shape)
    zeros = t.constant(0, x.type.dtype, shape)
    sizes = [t.size(x, axis=axis) for axis in range(rank)]
    return t.insert_slice(zeros, x, *sizes, offsets=(0,) * rank, sizes=(DYNAMIC,) * rank, strides=(1,) * rank, drop=())


def in_corner(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    result = np.zeros(shape, x.dtype)
    result[tuple(slice(size) for size in x.shape)] = x
    return result


X, P = RANDOM.random((5, 6)), np.array([[3, -1], [0, 9], [-7, 2]])
MASK = RANDOM.random((5, 6)) > 0.5
ONE, TWO, THREE = (np.int64(number) for number in (1, 2, 3))


A, B, V = RANDOM.random((4, 5)), RANDOM.random((4, 5)), RANDOM.random(5)
