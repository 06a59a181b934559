"""Tile kernels: ``with T.Kernel(…)`` as a loop nest over the blocks, and the functions of `mlirtri.tile` on tiles.

A tile is an array of compile-time shape. What a copy reads out of bounds is zero; nothing
is written there.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from mlirtri.dialect.base.dtypes import as_dtype
from mlirtri.dialect.base.sizes import Size
from mlirtri.dialect.builder import TriValue
from mlirtri.dialect.spellings import registry as spellings
from mlirtri.errors import KernelTypeError, KernelValueError, UnsupportedSyntaxError
from mlirtri.lowering.core.binding import bound_arguments
from mlirtri.lowering.frontend.context import FunctionContext, visit, visit_block
from mlirtri.lowering.frontend.expressions import elements
from mlirtri.lowering.frontend.indexing import subscript
from mlirtri.lowering.frontend.language.builder import Language, describe
from mlirtri.lowering.frontend.language.storage import ViewStep, as_new_array, current, has_memory
from mlirtri.lowering.frontend.library_calls import spelled
from mlirtri.lowering.frontend.operators import is_integer
from mlirtri.lowering.frontend.tile_loops import GRID, RANGE
from mlirtri.lowering.frontend.updates import write

PREFIX = "mlirtri.tile."


class Grid(tuple):
    """The value of ``T.Kernel(…)``: the number of blocks along each axis."""


def tile_name(callee: Any) -> str | None:
    """Return the name of a function of `mlirtri.tile`, or None."""
    name = getattr(callee, "__mlirtri_name__", None)
    return name.removeprefix(PREFIX) if isinstance(name, str) and name.startswith(PREFIX) else None


def enter(context: FunctionContext, grid: Grid, node: ast.With) -> None:
    """Emit the loops over the blocks of a tile kernel; refuses CUDA, and names that do not fit the grid."""
    b, names = context.b, node.items[0].optional_vars
    if b.in_tile_kernel:
        raise UnsupportedSyntaxError("a tile kernel cannot contain another one", help="write one after the other")
    count = len(names.elts) if isinstance(names, (ast.Tuple, ast.List)) else int(names is not None)
    if count != len(grid) or len(node.items) > 1:
        span = context.span(node.items[0].context_expr)
        raise KernelTypeError(
            f"this grid has {len(grid)} axes, and {count} names stand behind `as`", span,
            help="write one name per axis: with T.Kernel(gx, gy) as (bx, by):",
        )  # fmt: skip
    context.scope.locals[RANGE] = range
    for axis, size in enumerate(grid):
        context.scope.locals[GRID.format(axis)] = size
    b.in_tile_kernel = True
    try:
        visit_block(context, node.body)
    finally:
        b.in_tile_kernel = False


def tile_call(context: FunctionContext, name: str, node: ast.Call) -> Any:
    """Return the value of a call of `mlirtri.tile`; most write into a tile and have none."""
    if name not in ("Kernel", "ceildiv", "if_then_else") and not context.b.in_tile_kernel:
        raise UnsupportedSyntaxError(
            f"{ast.unparse(node.func)} stands outside of a tile kernel",
            help="write it in the body of `with T.Kernel(…) as (bx, by):`",
        )
    read = visit_region if name == "copy" else visit
    keywords = {keyword.arg: read(context, keyword.value) for keyword in node.keywords}
    implementation = _FUNCTIONS.get(name)
    if implementation is None:
        raise UnsupportedSyntaxError(f"{ast.unparse(node.func)} is for loops", help="write `for i in` before it")
    if None in keywords:
        raise UnsupportedSyntaxError("** arguments are not supported", help="write every keyword")
    arguments = [visit_region(context, part) for part in node.args] if name == "copy" else elements(context, node.args)
    arguments = arguments if name == "copy" else current(context.b.tri, arguments)
    signature = inspect.signature(partial(implementation, context.b))
    bound = bound_arguments(f"mlirtri.tile.{name}", signature, arguments, keywords)
    for parameter, value in bound.arguments.items():
        if (
            name != "copy"
            and parameter in _TILES
            and value is not None
            and not (isinstance(value, TriValue) and value.type.rank)
        ):
            raise KernelTypeError(f"{ast.unparse(node.func)} takes a tile as {parameter}, got {describe(value)}")
    return implementation(context.b, *bound.args, **bound.kwargs)


def _kernel(b: Language, *grid: Any, threads: Any = 128) -> Grid:
    if not 1 <= len(grid) <= 3 or not all(map(is_integer, grid)):
        raise KernelTypeError(
            "T.Kernel takes one to three numbers of blocks", help="write T.Kernel(gx, gy, threads=128)"
        )
    if b.tri.placement.home.kind == "cuda":
        raise UnsupportedSyntaxError(
            "tile kernels are compiled for CPUs, not for CUDA yet", help='compile it with target="cpu"'
        )
    return Grid(grid)


def _alloc(b: Language, shape: Any, dtype: Any = "float32") -> TriValue:
    sizes = shape if isinstance(shape, (tuple, list)) else (shape,)
    if not all(isinstance(size, int) and size > 0 for size in sizes):
        shown = ", ".join(map(describe, sizes))
        raise KernelTypeError(
            f"the shape of a tile is known at compile time, got ({shown})",
            help="write numbers, or compile-time arguments",
        )
    zeros = spellings.lookup("numpy.zeros")
    return as_new_array(spelled(b, zeros, [tuple(sizes)], {"dtype": as_dtype(dtype)}))


def _fill(b: Language, tile: TriValue, value: Any = 0) -> None:
    write(b, tile, (...,), value)


@dataclass
class Region:
    """An operand of a copy: an array, and where in it the copy starts."""

    array: TriValue
    offsets: list[Size]
    extents: list[Size | None]
    """None where the index is a corner, which takes the extent of the other operand."""


def visit_region(context: FunctionContext, node: ast.expr) -> Region:
    """Return the region of an array that an operand of a copy names: a whole, slices, or a corner."""
    b, base = context.b, node.value if isinstance(node, ast.Subscript) else node
    array = current(b.tri, visit(context, base))
    if not isinstance(array, TriValue) or not array.type.rank:
        raise KernelTypeError(f"T.copy copies arrays and tiles, got {describe(array)}", context.span(node))
    sizes = list(map(Size.of, array.type.shape))
    if base is node:
        return Region(array, [Size.of(0)] * len(sizes), list(sizes))
    index = visit(context, node.slice)
    parts = index if isinstance(index, tuple) else (index,)
    if len(parts) != len(sizes):
        raise KernelTypeError(
            f"{len(parts)} indices for the {len(sizes)} axes of {describe(array)}", context.span(node),
            help="write one for each axis",
        )  # fmt: skip
    region = Region(array, [], [])
    for part, size in zip(parts, sizes, strict=True):
        _add_axis(context, region, part, size, node)
    return region


def _add_axis(context: FunctionContext, region: Region, part: Any, size: Size, node: ast.expr) -> None:
    indices = context.b.indices
    bounds = [part.start, part.stop] if isinstance(part, slice) else [part]
    step = part.step if isinstance(part, slice) else None
    if step not in (None, 1) or not all(bound is None or is_integer(bound) for bound in bounds):
        raise KernelTypeError("an index of T.copy is an integer or a slice without a step", context.span(node))
    start = Size.of(0) if bounds[0] is None else indices.size_of(bounds[0])
    region.offsets.append(start)
    if isinstance(part, slice):
        region.extents.append((size if bounds[1] is None else indices.size_of(bounds[1])) - start)
    else:
        region.extents.append(None)


def _copy(b: Language, src: Region, dst: Region) -> None:
    """Copy what is inside of both arrays; what the source does not have is zero in the destination."""
    src, dst = _aligned(b, src, len(dst.offsets)), _aligned(b, dst, len(src.offsets))
    if not has_memory(dst.array):
        raise KernelTypeError(f"{describe(dst.array)} cannot be written by T.copy", help="copy into an array or a tile")
    extents = _extents(src, dst)
    read = [_clipped(b, extent, (src,), axis) for axis, extent in enumerate(extents)]
    both = [_clipped(b, extent, (src, dst), axis) for axis, extent in enumerate(extents)]
    if any(low != Size.of(0) or high != extent for (low, high), extent in zip(read, extents, strict=True)):
        inside = [_clipped(b, extent, (dst,), axis) for axis, extent in enumerate(extents)]
        target = _part(b, dst, inside)
        zero = b.tensor(0, target.type.dtype)
        b.memory.write(b.tri, target.origin, b.broadcast_to(zero, target.type.shape))
    target = _part(b, dst, both)
    b.memory.write(b.tri, target.origin, b.tensor(_part(b, src, both), target.type.dtype))


def _aligned(b: Language, region: Region, rank: int) -> Region:
    """Return the region without leading integer indices of axes that the other operand does not have."""
    extra = len(region.offsets) - rank
    if extra <= 0 or any(extent is not None for extent in region.extents[:extra]):
        return region
    index = tuple(b.number_of(offset) for offset in region.offsets[:extra])
    array = subscript(b, region.array, index)
    return Region(array, region.offsets[extra:], region.extents[extra:])


def _extents(src: Region, dst: Region) -> list[Size]:
    """Return how many elements are copied along each axis; raises `KernelTypeError` where the operands disagree."""
    if len(src.offsets) != len(dst.offsets):
        raise KernelTypeError(f"T.copy from {describe(src.array)} to {describe(dst.array)}: the ranks differ")
    extents = []
    for axis, (first, second) in enumerate(zip(src.extents, dst.extents, strict=True)):
        if first is None and second is None:
            raise KernelTypeError(
                "both operands of T.copy are corners", help="give one of them as a whole tile or slices"
            )
        if first is not None and second is not None and first != second:
            raise KernelTypeError(
                f"T.copy from {first.simplified()} elements to {second.simplified()} along axis {axis}",
                help="give both the same extent, or one as a corner: A[i, j]",
            )
        extents.append(second if first is None else first)
    return extents


def _clipped(b: Language, extent: Size, regions: tuple[Region, ...], axis: int) -> tuple[Size, Size]:
    """Return the range of a copy's iterations along an axis that are inside of the regions' arrays."""
    low, high = Size.of(0), extent
    for region in regions:
        low = b.indices.maximum(low, -region.offsets[axis])
        high = b.indices.minimum(high, Size.of(region.array.type.shape[axis]) - region.offsets[axis])
    return low, b.indices.maximum(high, low)


def _part(b: Language, region: Region, ranges: list[tuple[Size, Size]]) -> TriValue:
    offsets = [offset + low for offset, (low, _) in zip(region.offsets, ranges, strict=True)]
    sizes = [high - low for low, high in ranges]
    attributes = {
        "offsets": tuple(offset.simplified() for offset in offsets),
        "sizes": tuple(size.simplified() for size in sizes),
        "strides": (1,) * len(sizes),
        "drop": (),
    }
    dynamic = tuple(b.tri.index(size) for size in (*offsets, *sizes) if not size.is_constant)
    step = ViewStep("extract_slice", attributes, dynamic)
    part = step.read(b.tri, TriValue(region.array.value, region.array.type))
    return replace(part, origin=region.array.origin.then(step)) if has_memory(region.array) else part


def _gemm(
    b: Language, A: TriValue, B: TriValue, C: TriValue, transpose_A: bool = False, transpose_B: bool = False
) -> None:
    """Add the product of two tiles to a third, in the third's dtype."""
    for tile in (A, B, C):
        if not isinstance(tile, TriValue) or tile.type.rank != 2:
            raise KernelTypeError(f"T.gemm multiplies tiles of two axes, got {describe(tile)}")
    left = b.transpose(A, (1, 0)) if transpose_A else A
    right = b.transpose(B, (1, 0)) if transpose_B else B
    (m, k), (inner, n) = left.type.shape, right.type.shape
    if k != inner or C.type.shape != (m, n):
        shown = " and ".join(
            f"{tile.type}{' transposed' * flag}" for tile, flag in ((A, transpose_A), (B, transpose_B))
        )
        raise KernelTypeError(
            f"T.gemm of {shown} cannot be added to {C.type}", help="the shapes are (m, k), (k, n), (m, n)"
        )
    dtype = C.type.dtype
    product = b.matmul(b.tensor(left, dtype), b.tensor(right, dtype))
    write(b, C, (...,), b.add(C, product))


def _reduction(name: str, combine: str, absolute: bool = False) -> Callable[..., None]:
    def reduced(b: Language, src: TriValue, dst: TriValue, dim: int = -1, clear: bool = True) -> None:
        result = getattr(b, name)(b.abs(src) if absolute else src, dim)
        if result.type.shape != dst.type.shape:
            raise KernelTypeError(f"a reduction of {src.type} along axis {dim} does not fit {dst.type}")
        write(b, dst, (...,), result if clear else getattr(b, combine)(dst, result))

    return reduced


def _cumsum(b: Language, src: TriValue, dst: TriValue | None = None, dim: int = 0) -> None:
    write(b, src if dst is None else dst, (...,), spelled(b, _spelling("cumsum"), [src, dim], {}))


def _ceildiv(b: Language, x: Any, y: Any) -> Any:
    if not isinstance(x, TriValue) and not isinstance(y, TriValue):
        return -(-x // y)
    size = b.indices.size_of(y)
    if not size.is_constant or size.constant < 1:
        raise KernelTypeError("T.ceildiv divides by a positive number known at compile time")
    return b.number_of(b.indices.floor_divide(b.indices.size_of(x) + (size.constant - 1), size.constant))


def _spelling(name: str) -> Any:
    return spellings.lookup(f"numpy.{name}")


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "Kernel": _kernel, "alloc_shared": _alloc, "alloc_fragment": _alloc, "alloc_local": _alloc, "clear": _fill,
    "fill": _fill, "copy": _copy, "gemm": _gemm, "ceildiv": _ceildiv, "cumsum": _cumsum,
    "if_then_else": lambda b, condition, x, y: b.where(condition, x, y),
    "reduce_max": _reduction("max", "maximum"), "reduce_min": _reduction("min", "minimum"),
    "reduce_sum": _reduction("sum", "add"), "reduce_absmax": _reduction("max", "maximum", absolute=True),
}  # fmt: skip
"""Implementations by name; loops are in `range_of`."""
_TILES = ("tile", "A", "B", "C", "src", "dst")
"""Parameters that are arrays; the operands of a copy are regions."""
LOOPS = {"Parallel": (), "Pipelined": ("num_stages",), "serial": ()}
"""The iterables of tile kernels, with their keywords."""


def range_of(context: FunctionContext, name: str, node: ast.Call) -> ast.Call:
    """Return the `range` that a loop of a tile kernel runs over; refuses other keywords and extents."""
    if not context.b.in_tile_kernel:
        raise UnsupportedSyntaxError(
            f"{ast.unparse(node.func)} stands outside of a tile kernel", context.span(node),
            help="write it in the body of `with T.Kernel(…) as (bx, by):`",
        )  # fmt: skip
    for keyword in node.keywords:
        if keyword.arg not in LOOPS[name]:
            raise KernelTypeError(f"T.{name} has no argument {keyword.arg!r}", context.span(node))
        stages = visit(context, keyword.value)
        if not isinstance(stages, int) or stages < 0:
            raise KernelValueError("num_stages is a number known at compile time", context.span(keyword.value))
    if name == "Parallel" and len(node.args) != 1:
        raise KernelTypeError(
            f"T.Parallel has {len(node.args)} extents",
            context.span(node),
            help="write `for i, j in T.Parallel(m, n):`, without `break` and `else`",
        )
    return node
