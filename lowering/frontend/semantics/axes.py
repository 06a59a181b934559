"""Integers that a function of the language takes: axes, which it needs while compiling, and indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, TypeGuard

from mlirtri.dialect.base.sizes import Size
from mlirtri.dialect.builder import KernelValue, TriValue
from mlirtri.errors import KernelTypeError, KernelValueError
from mlirtri.lowering.frontend.semantics.builder import describe

AxesLike: TypeAlias = "int | Sequence[int] | None"
"""One axis, several, or None for all."""
SizeLike: TypeAlias = int | Size | TriValue
"""A size, known at compile time or at run time."""
ShapeLike: TypeAlias = "SizeLike | Sequence[SizeLike]"
"""The sizes of a tensor; one size alone is that of a vector."""
_AT_COMPILE_TIME = "pass it as a Python int argument of the kernel, or annotate the size that it is with int"


def is_index(value: object) -> bool:
    """Return whether a value is an integer, known at compile time or at run time."""
    return is_run_time_integer(value) or (isinstance(value, int) and not isinstance(value, bool))


def is_run_time_integer(x: KernelValue) -> TypeGuard[TriValue]:
    """Return whether a value is one integer that is known at run time only: no bool, no array."""
    return isinstance(x, TriValue) and not x.type.rank and x.type.dtype.is_integer


def integer(x: KernelValue, label: str) -> int:
    """Return a compile-time int; raises `KernelTypeError` for bools and tensors."""
    if isinstance(x, bool) or not hasattr(type(x), "__index__"):
        raise KernelTypeError(
            f"{label} has to be an integer known at compile time, got {describe(x)}",
            help=_AT_COMPILE_TIME if isinstance(x, TriValue) else None,
        )
    return int(x)


def integers(x: object, label: str) -> tuple[int, ...]:
    """Return a compile-time int, or a tuple or list of them, as a tuple."""
    if isinstance(x, (tuple, list)):
        return tuple(integer(item, label) for item in x)
    return (integer(x, label),)


def axis_of(axis: object, rank: int, label: str = "axis") -> int:
    """Return an axis of a tensor of `rank` as a non-negative int; raises `KernelValueError`."""
    axis = integer(axis, label)
    if not -rank <= axis < rank:
        raise KernelValueError(f"{label} {axis} is out of range for a tensor of rank {rank}")
    return axis % rank


def axes_of(axis: object, rank: int) -> tuple[int, ...]:
    """Return axes, sorted and non-negative; None means all of them."""
    if axis is None:
        return tuple(range(rank))
    # The libraries accept axis 0 and -1 of a scalar.
    if rank == 0 and all(number in (0, -1) for number in integers(axis, "axis")):
        return ()
    axes = [axis_of(number, rank) for number in integers(axis, "axis")]
    if len(set(axes)) != len(axes):
        raise KernelValueError(f"an axis stands twice in {axis}")
    return tuple(sorted(axes))
