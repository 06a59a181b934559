"""Operands, attributes and `tri` text for each row of the operation table."""

from __future__ import annotations

import numpy as np

from mlirtri.dialect.base.dtypes import DTYPES, as_dtype
from mlirtri.dialect.base.tensor_type import TensorType
from mlirtri.dialect.bindings.mlir import func, ir, print_complete
from mlirtri.dialect.builder import TriBuilder, TriValue
from mlirtri.dialect.definition import mlir_type, new_context
from mlirtri.dialect.ops import table as ops
from mlirtri.dialect.ops.op import Op
from mlirtri.errors import KernelError

DIALECT = {op.name: op for op in ops.dialect_ops()}


STRAIGHT = [op.name for op in DIALECT.values() if op.group not in ("indexing", "sequence")]
"""The others have operands of different kinds: test_imperative_sizes.py and test_arrays.py have them."""


ATTRIBUTES = {
    "cast": {"dtype": "int32"}, "bitcast": {"dtype": "int32"}, "softplus": {"beta": 1.5, "threshold": 20.0},
    "reshape": {"shape": (4, 6)}, "transpose": {"permutation": (2, 0, 1)}, "broadcast_to": {"shape": (5, 2, 3, 4)},
    "slice": {"offsets": (0, 1, 0), "sizes": (2, 2, 2), "strides": (1, 1, 3)}, "concatenate": {"axis": 1},
    "flip": {"axes": (0, 2)}, "softmax": {"axis": 1}, "log_softmax": {"axis": 2},
    "layer_norm": {"normalized": 1, "eps": 1e-5}, "rms_norm": {"normalized": 2, "eps": 1e-5},
    "constant": {"value": 2, "shape": (2, 3), "dtype": "int16"},
    "arange": {"start": 0.5, "step": 0.25, "size": 7, "dtype": "float32"},
    "eye": {"rows": 3, "columns": 4, "diagonal": 1, "dtype": "int8"},
    "pad": {"low": (1, 0, 2), "high": (0, 3, 1), "value": 1},
    "convolution": {
        "strides": (2, 1), "dilations": (1, 2), "low": (1, 0), "high": (2, 2), "spread": (1, 2), "groups": 2,
    },
    "pool": {"kind": "max", "window": (2, 1), "strides": (1, 2), "dilations": (1, 1)},
    "literal": {"values": (3, 1, 4, -1, 5, 9), "shape": (2, 3), "dtype": "int16"},
}  # fmt: skip


SHAPES = {
    "matmul": [(2, 3, 4), (4, 5)], "layer_norm": [(2, 3, 4), (4,), (4,)], "rms_norm": [(2, 3, 4), (3, 4)],
    "where": [(3, 1), (2, 3, 4), (4,)], "correlate": [(7,), (3,)],
    "convolution": [(2, 4, 5, 4), (6, 2, 3, 2)],
}  # fmt: skip


def attributes_of(op: Op) -> dict:
    if op.group == "reduction":
        extra = {"correction": 1} if "correction" in op.attributes else {}
        return {"axes": (0, 2), "keepdims": False, **extra}
    return ATTRIBUTES.get(op.name, {})


def shapes_of(op: Op) -> list[tuple[int, ...]]:
    if op.name in SHAPES:
        return SHAPES[op.name]
    count = 2 if op.name == "concatenate" else len(op.operands)
    return [(2, 3, 4), (3, 1)][:count] if op.group == "elementwise" else [(2, 3, 4)] * count


def array(shape, dtype: str, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    if dtype == "bool":
        return random.integers(0, 2, shape).astype(bool)
    if DTYPES[dtype].is_integer:
        return random.integers(0 if DTYPES[dtype].is_unsigned else -5, 6, shape).astype(dtype)
    numbers = random.uniform(0.1, 0.9, shape)
    return (numbers + 1j * random.uniform(0.1, 0.9, shape) if "complex" in dtype else numbers).astype(
        DTYPES[dtype].numpy
    )


def operands_of(op: Op, dtype: str) -> list[np.ndarray] | None:
    """Arrays that the row takes, or None if it does not take the dtype."""
    shapes = shapes_of(op)
    dtypes = ["bool", dtype, dtype] if op.name == "where" else [dtype] * len(shapes)
    types = [TensorType(shape, DTYPES[each]) for shape, each in zip(shapes, dtypes, strict=True)]
    try:
        op.infer(types, attributes_of(op))
    except KernelError:
        return None
    # Shifts by more than the width have a test of their own; the reference of a negative shift is undefined.
    arrays = [array(shape, each, seed) for seed, (shape, each) in enumerate(zip(shapes, dtypes, strict=True))]
    if op.name in ("left_shift", "right_shift", "power"):
        arrays[1] = np.abs(arrays[1])
    return arrays


def tri_text(op: Op, *calls: list[np.ndarray]) -> str:
    """A module with one function that applies the operation to the arguments of each call, one result each."""
    with new_context(), ir.Location.unknown():
        types = [TensorType(array.shape, as_dtype(array.dtype)) for arrays in calls for array in arrays]
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            function = func.FuncOp("row", ([mlir_type(array) for array in types], []))
        block = function.add_entry_block()
        with ir.InsertionPoint(block):
            tensors = iter([TriValue(argument, array) for argument, array in zip(block.arguments, types, strict=True)])
            results = [
                TriBuilder().emit(op.name, *(next(tensors) for _ in arrays), **attributes_of(op)) for arrays in calls
            ]
            func.ReturnOp([result.value for result in results])
        kind = ir.FunctionType.get(
            [mlir_type(array) for array in types], [mlir_type(result.type) for result in results]
        )
        function.attributes["function_type"] = ir.TypeAttr.get(kind)
        return print_complete(module)
