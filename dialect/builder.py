"""Makes `tri` operations, strictly: operands have the dtypes the op table asks for, and nothing is cast or guessed.

Used by the frontend's language builder, which casts first, and by the decompositions of composite ops.
Operations go to MLIR's current insertion point, at the builder's current location.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from mlirtri.dialect.base.dtypes import DTYPES, DType
from mlirtri.dialect.base.sizes import Size
from mlirtri.dialect.base.tensor_type import TensorType
from mlirtri.dialect.bindings.mlir import ir
from mlirtri.dialect.definition import mlir_type
from mlirtri.dialect.ops import attributes
from mlirtri.dialect.ops.table import TABLE


@dataclass(frozen=True)
class Tensor:
    """An SSA value of the `tri` room with our type."""

    value: Any
    type: TensorType
    weak: bool = False
    """Whether it is a Python number of run time, of the kind of its dtype: weak in promotion."""
    linear: Size | None = field(default=None, compare=False)
    """What a Python int of run time is in terms of loop indices."""
    origin: Any = field(default=None, compare=False, repr=False)
    """The `View` that it was read from, if it has memory that may be written."""


class TriBuilder:
    """``builder.add(x, y)``, ``builder.sum(x, axes=(0,), keepdims=False)``: one method per operation of the dialect."""

    def __init__(self):
        self.table = TABLE
        self.location: ir.Location | None = None
        """Where the next operations come from; None takes MLIR's current location."""
        self.placement: Any = None
        """The `Placement` of a function that the frontend makes."""

    def emit(self, name: str, *operands: Tensor, **values: Any) -> Tensor:
        """One operation; the row's type rule gives its type and raises what is wrong with the operands."""
        op = self.table[name]
        operands = self.brought(operands)
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
        return self.noted(Tensor(operation.results[0], result))

    def brought(self, operands: Sequence[Tensor]) -> Sequence[Tensor]:
        """Operands on the device of the next operation."""
        return operands if self.placement is None else self.placement.bring(self, operands)

    def noted(self, result: Tensor) -> Tensor:
        """A new value, of which is known where it is."""
        if self.placement is not None:
            self.placement.note(result)
        return result

    def __getattr__(self, name: str) -> Callable[..., Tensor]:
        if name.startswith("_") or name not in self.table:
            raise AttributeError(name)
        return lambda *operands, **values: self.emit(name, *operands, **values)

    def constant(self, number: complex | float | int | bool, dtype: DType, shape: tuple[int, ...] = ()) -> Tensor:
        """A literal of rank 0, or the same number everywhere in `shape`."""
        return self.emit("constant", value=dtype.python(number), shape=shape, dtype=dtype.name)

    def cast(self, x: Tensor, dtype: DType) -> Tensor:
        """x itself when it has the dtype already."""
        return Tensor(x.value, x.type) if x.type.dtype == dtype else self.emit("cast", x, dtype=dtype.name)

    def index(self, size: int | Size) -> Tensor:
        """A size as an int64 of rank 0."""
        size, int64 = Size.of(size), DTYPES["int64"]
        total: Tensor | None = None
        for symbol, factor in size.terms:
            term = symbol.value if abs(factor) == 1 else self.multiply(symbol.value, self.constant(abs(factor), int64))
            if total is None:
                total = term if factor > 0 else self.negative(term)
            else:
                total = self.add(total, term) if factor > 0 else self.subtract(total, term)
        if total is None:
            return self.constant(size.constant, int64)
        return self.add(total, self.constant(size.constant, int64)) if size.constant else total
