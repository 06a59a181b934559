"""Reductions of a tile along an axis into another tile, and prefix sums along one."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from mlirtri.dialect.builder import TriValue
from mlirtri.errors import KernelTypeError
from mlirtri.lowering.frontend.language.builder import Language
from mlirtri.lowering.frontend.tile_language.tiles import allocation_notes, assign


def reduction(name: str, combine: str, absolute: bool = False) -> Callable[..., None]:
    """Return the function that reduces a tile by `name`, into a tile that it clears first or combines with."""

    def reduced(b: Language, src: TriValue, dst: TriValue, dim: int = -1, clear: bool = True) -> None:
        result = getattr(b, name)(b.abs(src) if absolute else src, dim)
        if prod(result.type.shape) != prod(dst.type.shape):
            raise KernelTypeError(
                f"a reduction of {src.type} along axis {dim} does not fit {dst.type}",
                help=f"allocate the result as {result.type.shape}", notes=allocation_notes(b, src, dst),
            )  # fmt: skip
        result = b.reshape(b.tensor(result, dst.type.dtype), dst.type.shape)
        assign(b, dst, result if clear else getattr(b, combine)(dst, result))

    return reduced


def cumsum(b: Language, src: TriValue, dst: TriValue | None = None, dim: int = 0, reverse: bool = False) -> None:
    """Write the prefix sums of a tile along an axis into a tile, by default the same one."""
    target = src if dst is None else dst
    if target.type.shape != src.type.shape:
        raise KernelTypeError(
            f"T.cumsum of {src.type} does not fit {target.type}", notes=allocation_notes(b, src, target)
        )
    axis = dim % src.type.rank
    ordered = b.flip(src, (axis,)) if reverse else src
    sums = b.scan(ordered, "sum", axis)
    assign(b, target, b.flip(sums, (axis,)) if reverse else sums)
