"""The type of a tensor value: a shape and a dtype; broadcasting of shapes.

Arguments and results of kernels have sizes known at compile time; inside, a size may be a run-time `Size`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import Any

from mlirtri.dialect.base.dtypes import DType
from mlirtri.dialect.base.sizes import UNKNOWN, Size, fits, is_dynamic
from mlirtri.errors import KernelTypeError


@dataclass(frozen=True)
class TensorType:
    """The type of a tensor; rank 0 is a scalar."""

    shape: tuple[Any, ...]
    """Each size an int, or a `Size` known at run time only."""
    dtype: DType

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def is_static(self) -> bool:
        return not any(map(is_dynamic, self.shape))

    @property
    def size(self) -> int | None:
        """Return the number of elements; None when it is known at run time only."""
        return prod(self.shape) if self.is_static else None

    def with_shape(self, shape: Iterable[int | Size]) -> TensorType:
        return TensorType(tuple(shape), self.dtype)

    def with_dtype(self, dtype: DType) -> TensorType:
        return TensorType(self.shape, dtype)

    def __str__(self) -> str:
        return f"{self.dtype.name}[{', '.join(map(str, self.shape))}]"


def broadcast_shapes(*shapes: tuple[int | Size, ...]) -> tuple[int | Size, ...]:
    """Return the shape that NumPy's broadcasting gives; raise `KernelTypeError` with every shape where it refuses.

    A run-time size is never taken for 1: the frontend checks that.
    """
    rank = max((len(shape) for shape in shapes), default=0)
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    result = []
    for sizes in zip(*padded, strict=True):
        distinct = {size for size in sizes if size != 1}
        candidates = distinct - {UNKNOWN} or distinct
        if len(candidates) > 1:
            shown = " and ".join(shown_shape(shape) for shape in shapes)
            raise KernelTypeError(f"shapes {shown} do not broadcast together")
        result.append(candidates.pop() if candidates else 1)
    return tuple(result)


def shown_shape(shape: tuple[int | Size, ...]) -> str:
    """Return a shape as Python prints a tuple."""
    return f"({', '.join(map(str, shape))}{',' * (len(shape) == 1)})"


def same_shape(shape: tuple[int | Size, ...], other: tuple[int | Size, ...]) -> bool:
    """Return whether two shapes may be equal, by `fits` of their sizes."""
    return len(shape) == len(other) and all(fits(a, b) for a, b in zip(shape, other, strict=True))
