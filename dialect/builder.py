"""Creates `tri` operations; operands have the dtypes that the op table asks for, and nothing is cast.

Used by the frontend's language builder, which casts first, and by the decompositions of composite ops.
Operations go to MLIR's current insertion point, at the builder's current location.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, TypeAlias

from mlirtri.dialect.base.dtypes import DTYPES, DType
from mlirtri.dialect.base.sizes import Size, is_dynamic
from mlirtri.dialect.base.tensor_type import TensorType
from mlirtri.dialect.bindings.mlir import ir
from mlirtri.dialect.definition import mlir_type
from mlirtri.dialect.ops import attributes
from mlirtri.dialect.ops.table import TABLE
from mlirtri.errors import KernelMemoryError, KernelTypeError, KernelValueError


@dataclass(frozen=True)
class TriValue:
    """An SSA value of stage `tri` with its type."""

    value: Any
    type: TensorType
    weak: bool = False
    """Whether it is a run-time Python scalar of its dtype's kind: weak in promotion."""
    linear: Size | None = field(default=None, compare=False)
    """A run-time Python int as a linear expression of loop indices."""
    origin: Any = field(default=None, compare=False, repr=False)
    """The `View` that it was read from, if that memory may be written."""

    order: Any = field(default=None, compare=False, repr=False)
    """The `MemoryOrder` that the library gives a new array; None for a row-major one."""

    def _refuse(self, *_: object) -> Any:
        raise KernelTypeError(
            f"this takes what is known at compile time, and a tensor {self.type} is known at run time only",
            help="where several values are taken, write a tuple or list of them",
        )

    __iter__ = __int__ = __float__ = __abs__ = __neg__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _refuse
    __mod__ = __rmod__ = __floordiv__ = __rfloordiv__ = __pow__ = __rpow__ = _refuse


TensorLike: TypeAlias = TriValue | complex
"""What an operation takes for a tensor: one, or a Python number, which is weak in promotion."""
KernelValue: TypeAlias = Any
"""A value of a kernel: a `TriValue`, or what is known while compiling, such as a number, a text, a dtype, a function,
or a tuple, list or dict of values."""
_ADDRESSES = 1 << 63


def _refuse_unaddressable(of: TensorType) -> None:
    """Refuse a tensor whose offsets in bytes do not fit the 64 bits that every stage computes them in."""
    count = prod(size for size in of.shape if not is_dynamic(size))
    if count * max(of.dtype.bits // 8, 1) < _ADDRESSES:
        return
    elements = f"{count} elements" if count < _ADDRESSES else "more than 2**63 elements"
    raise KernelMemoryError(f"a tensor of {elements} of {of.dtype} is past all memory", help="check its shape")


class TriBuilder:
    """``builder.add(x, y)``, ``builder.sum(x, axes=(0,), keepdims=False)``: one method per operation of the dialect."""

    def __init__(self):
        self.table = TABLE
        self.location: ir.Location | None = None
        """Location of the next operations; None means MLIR's current location."""
        self.placement: Any = None
        """The frontend's `Placement` of values on devices; None without devices."""

    def emit(self, name: str, *operands: TriValue, **values: object) -> TriValue:
        """Create one operation; the row's type rule returns its result type or raises `KernelError`."""
        op = self.table[name]
        tensors = self.on_device(operands)
        result = op.infer([tensor.type for tensor in tensors], values)
        _refuse_unaddressable(result)
        attached = attributes.to_mlir(op, values)
        if op.is_variadic:
            fixed = len(op.operands) - 1
            attached["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get([1] * fixed + [len(tensors) - fixed])
        operation = ir.Operation.create(
            f"tri.{name}",
            results=[mlir_type(result)],
            operands=[tensor.value for tensor in tensors],
            attributes=attached,
            loc=self.location,
        )
        return self.placed(TriValue(operation.results[0], result))

    def on_device(self, operands: Sequence[TriValue]) -> Sequence[TriValue]:
        """Return the operands, copied to the device of the next operation where they are on another."""
        return operands if self.placement is None else self.placement.bring(self, operands)

    def placed(self, result: TriValue) -> TriValue:
        """Record the device of a new value, and return it."""
        if self.placement is not None:
            self.placement.note(result)
        return result

    def __getattr__(self, name: str) -> Callable[..., TriValue]:
        if name.startswith("_") or name not in self.table:
            raise AttributeError(name)
        return lambda *operands, **values: self.emit(name, *operands, **values)

    def constant(self, number: complex | float | int | bool, dtype: DType, shape: tuple[int, ...] = ()) -> TriValue:
        """Create a literal of rank 0, or a tensor of `shape` filled with the number."""
        try:
            value = dtype.python(number)
        except OverflowError as problem:
            raise KernelValueError(f"{problem}: a constant of {dtype} is past its range") from None
        return self.emit("constant", value=value, shape=shape, dtype=dtype.name)

    def cast(self, x: TriValue, dtype: DType) -> TriValue:
        """Create a cast; return x itself where it has the dtype."""
        return TriValue(x.value, x.type) if x.type.dtype == dtype else self.emit("cast", x, dtype=dtype.name)

    def index(self, size: int | Size) -> TriValue:
        """Return a size as a rank-0 int64 tensor."""
        size, int64 = Size.of(size), DTYPES["int64"]
        result: TriValue | None = None
        for symbol, factor in size.terms:
            term = symbol.value if abs(factor) == 1 else self.multiply(symbol.value, self.constant(abs(factor), int64))
            if result is None:
                result = term if factor > 0 else self.negative(term)
            else:
                result = self.add(result, term) if factor > 0 else self.subtract(result, term)
        if result is None:
            return self.constant(size.constant, int64)
        return self.add(result, self.constant(size.constant, int64)) if size.constant else result
