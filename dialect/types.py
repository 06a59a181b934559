"""The type of a tensor value: a shape of static sizes and a dtype. Knows how shapes broadcast."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from mlirtri.dialect.dtypes import DType
from mlirtri.errors import KernelTypeError


@dataclass(frozen=True)
class TensorType:
    """A tensor of a static shape; rank 0 is a scalar."""

    shape: tuple[int, ...]
    dtype: DType

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    def with_shape(self, shape) -> TensorType:
        return TensorType(tuple(shape), self.dtype)

    def with_dtype(self, dtype: DType) -> TensorType:
        return TensorType(self.shape, dtype)

    def __str__(self) -> str:
        return f"{self.dtype.name}[{', '.join(map(str, self.shape))}]"


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """NumPy's broadcasting; raises `KernelTypeError` that shows every shape."""
    rank = max((len(shape) for shape in shapes), default=0)
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    result = []
    for sizes in zip(*padded, strict=True):
        distinct = {size for size in sizes if size != 1}
        if len(distinct) > 1:
            shown = " and ".join(str(tuple(shape)) for shape in shapes)
            raise KernelTypeError(f"shapes {shown} do not broadcast together")
        result.append(distinct.pop() if distinct else 1)
    return tuple(result)
