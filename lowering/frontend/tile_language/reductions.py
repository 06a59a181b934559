"""Combine elements of tiles along an axis: `T.gemm`, reductions into another tile, prefix sums."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from mlirtri.dialect.bindings.mlir import ir
from mlirtri.dialect.builder import TriValue
from mlirtri.errors import KernelTypeError
from mlirtri.lowering.frontend.semantics.builder import Language
from mlirtri.lowering.frontend.tile_language.allocation import allocation_notes, assign
from mlirtri.lowering.mlir_common.reading import defined_by


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


def gemm(
    b: Language, A: TriValue, B: TriValue, C: TriValue, transpose_A: bool = False, transpose_B: bool = False,
    policy: object = None, clear_accum: bool = False, k_pack: int = 1, wg_wait: int = 0,
) -> None:  # fmt: skip
    """Add the product of two tiles to a third, in the third's dtype; hints of TileLang are accepted."""
    _refuse_two_dtypes(b, A, B)
    left, right, target = (_matrix(b, tile) for tile in (A, B, C))
    left = b.transpose(left, (1, 0)) if transpose_A else left
    right = b.transpose(right, (1, 0)) if transpose_B else right
    (m, k), (inner, n) = left.type.shape, right.type.shape
    if k != inner or target.type.shape != (m, n):
        pairs = ((A, transpose_A), (B, transpose_B))
        shown = " and ".join(f"{tile.type}{' transposed' * bool(flag)}" for tile, flag in pairs)
        raise KernelTypeError(
            f"T.gemm of {shown} cannot be added to {C.type}", help="the shapes are (m, k), (k, n), (m, n)",
            notes=allocation_notes(b, A, B, C),
        )  # fmt: skip
    dtype = C.type.dtype
    product = b.matmul(b.tensor(left, dtype), b.tensor(right, dtype))
    value = product if clear_accum or _is_zero(C) else b.add(target, product)
    assign(b, C, value if C.type.rank == 2 else b.reshape(value, C.type.shape))


def _refuse_two_dtypes(b: Language, A: TriValue, B: TriValue) -> None:
    """Refuse tiles that no product instruction multiplies; bytes may have signs or not."""
    left, right = A.type.dtype, B.type.dtype
    if left != right and not (left.is_integer and right.is_integer and left.bits == right.bits):
        raise KernelTypeError(
            f"T.gemm multiplies tiles of one dtype, got {A.type} and {B.type}",
            help="allocate a tile of the other dtype, and T.copy into it, which casts",
            notes=allocation_notes(b, A, B),
        )


def _is_zero(tile: TriValue) -> bool:
    """Return whether a tile was filled with zeros just before."""
    filled = tile.value
    while (broadcast := defined_by(filled, "tri.broadcast_to")) is not None:
        filled = broadcast.operands[0]
    constant = defined_by(filled, "tri.constant")
    value = None if constant is None else constant.attributes["value"]
    return isinstance(value, ir.FloatAttr | ir.IntegerAttr) and value.value == 0


def _matrix(b: Language, tile: TriValue) -> TriValue:
    """Return a tile of two axes; leading axes of size 1 are left out."""
    shape = tile.type.shape
    leading = len(shape) - 2
    if leading < 0 or any(size != 1 for size in shape[:leading]):
        raise KernelTypeError(f"T.gemm multiplies tiles of two axes, got {tile.type}", notes=allocation_notes(b, tile))
    return b.reshape(tile, shape[leading:]) if leading else tile
