"""The effect of each `tri`, `arith` and `tensor` operation on NumPy arrays, by the op table's references.

fp16 and bf16 are computed in fp32 and rounded after every operation; integers wrap; nothing traps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mlirtri.dialect.base.tensor_type import TensorType, same_shape
from mlirtri.dialect.bindings.locations import span_of
from mlirtri.dialect.bindings.mlir import ir
from mlirtri.dialect.definition import op_of, type_of
from mlirtri.dialect.ops import attributes
from mlirtri.dialect.ops.op import Op
from mlirtri.errors import CompilerBugError
from mlirtri.lowering.external.calls import declaration_of

Evaluator = Callable[..., Sequence[Any]]
"""Maps values of operands to a value for each result. Scalars and indices are rank-0 arrays as well."""


def evaluator_of(operation: ir.Operation) -> Evaluator | None:
    """Return the evaluator of an operation without regions, or None for an unknown one."""
    if operation.name.startswith("tri."):
        return _table_evaluator(operation)
    if (declaration := declaration_of(operation)) is not None:
        from mlirtri.lowering.interpreter.external import call_evaluator  # imports TVM

        return call_evaluator(declaration)
    if operation.name == "arith.constant":
        value = _constant(operation)
        return lambda: (value,)
    function = _GLUE.get(operation.name)
    return None if function is None else lambda *operands: (function(*operands),)


def _table_evaluator(operation: ir.Operation) -> Evaluator:
    op, result_type = op_of(operation), type_of(operation.results[0].type)
    values = attributes.from_mlir(op, operation)
    compute = _REFERENCES.get(op.name, op.numpy)
    # Keep no MLIR objects for the run: the module is gone by then.
    span = span_of(operation.location)

    def run(*operands: np.ndarray) -> Sequence[np.ndarray]:
        try:
            with np.errstate(all="ignore"):
                return (_fitting(compute(*_widened(op, operands), **values), result_type),)
        except Exception as error:
            raise CompilerBugError(error, f"tri.{op.name}", span) from error

    return run


def _widened(op: Op, operands: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    """Return fp16 and bf16 as fp32, but for their bits; other groups' references widen themselves."""
    if op.group != "elementwise" or op.name == "bitcast":
        return operands
    return [x.astype(np.float32) if is_half(x.dtype) else x for x in operands]


def is_half(dtype: np.dtype) -> bool:
    """Return whether a dtype is fp16, or bf16, which NumPy takes for an opaque type."""
    return dtype.itemsize == 2 and dtype.kind in "fV"


def _fitting(result: Any, result_type: TensorType) -> np.ndarray:
    """Return the result in the IR's dtype; a shape other than the IR's is a bug of the frontend."""
    array = np.asarray(result)
    if not same_shape(array.shape, result_type.shape):
        raise ValueError(f"the result has shape {array.shape}, but its type is {result_type}")
    return array.astype(result_type.dtype.numpy, copy=False)


def _power(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return powers as kernels have them: of integers to negative exponents 1/x truncated, and 0 for 1/0."""
    if x.dtype.kind != "i":
        # NumPy takes roots and squares where all exponents are one number, which differ at -inf and -0.0.
        shape = np.broadcast_shapes(x.shape, y.shape)
        return np.power(x, np.full(shape or (1,), y)).reshape(shape)
    parity = np.where(y % 2 == 0, 1, x)
    fraction = np.where(np.abs(x) == 1, parity, 0)
    return np.where(y < 0, fraction, np.power(x, np.maximum(y, 0))).astype(x.dtype)


_REFERENCES: dict[str, Callable[..., Any]] = {"power": _power}
"""References that differ from NumPy's own function."""


def _constant(operation: ir.Operation) -> np.ndarray:
    value, result = operation.attributes["value"], operation.results[0].type
    if isinstance(value, ir.DenseElementsAttr):
        return np.array(value).reshape(ir.ShapedType(result).shape)
    if isinstance(result, ir.IndexType):
        return np.asarray(value.value, np.int64)
    return np.asarray(value.value, type_of(ir.RankedTensorType.get([], result)).dtype.numpy)


def _same(value: np.ndarray) -> np.ndarray:
    return value


_GLUE: dict[str, Callable[..., Any]] = {
    "tensor.extract": lambda x, *indices: x[tuple(int(index) for index in indices)],
    "tensor.from_elements": _same,
    "arith.index_cast": _same,
    "arith.addi": np.add,
    "arith.subi": np.subtract,
    "arith.muli": np.multiply,
    "arith.maxsi": np.maximum,
    "arith.minsi": np.minimum,
    "arith.select": lambda condition, x, y: x if condition else y,
}
"""Operations on scalars and indices, which connect tensors with the bounds and conditions of scf."""
