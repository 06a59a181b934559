"""Makes `tri` operations, strictly: operands have the dtypes the op table asks for, and nothing is cast or guessed.

Used by the frontend's language builder, which casts first, and by the decompositions of composite ops.
Operations go to MLIR's current insertion point, at the builder's current location.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mlirtri.dialect import attributes
from mlirtri.dialect.definition import mlir_type
from mlirtri.dialect.dtypes import DType
from mlirtri.dialect.mlir import ir
from mlirtri.dialect.ops import load
from mlirtri.dialect.types import TensorType


@dataclass(frozen=True)
class Tensor:
    """An SSA value of the `tri` room with our type. `weak` marks what came from a Python float."""

    value: Any
    type: TensorType
    weak: bool = False


class TriBuilder:
    """``builder.add(x, y)``, ``builder.sum(x, axes=(0,), keepdims=False)``: one method per operation of the dialect."""

    def __init__(self):
        self.table = load()
        self.location: ir.Location | None = None
        """Where the next operations come from; None takes MLIR's current location."""

    def emit(self, name: str, *operands: Tensor, **values: Any) -> Tensor:
        """One operation; the row's type rule gives its type and raises what is wrong with the operands."""
        op = self.table[name]
        result = op.infer([operand.type for operand in operands], values)
        attached = attributes.to_mlir(op, values)
        if op.is_variadic:
            fixed = len(op.operands) - 1
            attached["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get([1] * fixed + [len(operands) - fixed])
        operation = ir.Operation.create(
            f"tri.{name}",
            results=[mlir_type(result)],
            operands=[operand.value for operand in operands],
            attributes=attached,
            loc=self.location,
        )
        return Tensor(operation.results[0], result)

    def __getattr__(self, name: str) -> Callable[..., Tensor]:
        if name.startswith("_") or name not in self.table:
            raise AttributeError(name)
        return lambda *operands, **values: self.emit(name, *operands, **values)

    def constant(self, number: float | int | bool, dtype: DType, shape: tuple[int, ...] = ()) -> Tensor:
        """A literal of rank 0, or the same number everywhere in `shape`."""
        value = float(number) if dtype.is_float else bool(number) if dtype.is_bool else int(number)
        return self.emit("constant", value=value, shape=shape, dtype=dtype.name)

    def cast(self, x: Tensor, dtype: DType) -> Tensor:
        """x itself when it has the dtype already."""
        return Tensor(x.value, x.type) if x.type.dtype == dtype else self.emit("cast", x, dtype=dtype.name)
