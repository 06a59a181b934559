"""The functions of `mlirtri.tile` by name; what names a region of an array, and what is a hint only."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

from mlirtri.errors import KernelTypeError
from mlirtri.lowering.frontend.semantics.axes import is_index
from mlirtri.lowering.frontend.semantics.builder import Language
from mlirtri.lowering.frontend.tile_language import allocation, copies, elements, reductions
from mlirtri.lowering.frontend.tile_language.copies import Region

PREFIX = "mlirtri.tile."


class Grid(tuple):
    """The value of ``T.Kernel(…)``: the number of blocks along each axis."""


class BlockRange:
    """The iterable of the blocks along one axis of a grid, which no source can name."""

    __mlirtri_name__ = f"{PREFIX}blocks"


def name_of_tile_function(callee: object) -> str | None:
    """Return the name of a function of `mlirtri.tile`, or None."""
    name = getattr(callee, "__mlirtri_name__", None)
    return name.removeprefix(PREFIX) if isinstance(name, str) and name.startswith(PREFIX) else None


def _kernel(b: Language, *grid: Any, threads: Any = 128, prelude: Any = None) -> Grid:
    if not 1 <= len(grid) <= 3 or not all(map(is_index, grid)):
        raise KernelTypeError(
            "T.Kernel takes one to three numbers of blocks", help="write T.Kernel(gx, gy, threads=128)"
        )
    count = prod(threads) if isinstance(threads, (tuple, list)) else threads
    if not isinstance(count, int) or not 32 <= count <= 1024 or count % 32:
        raise KernelTypeError(
            f"a block has 32 to 1024 threads, in whole warps of 32, got threads={threads!r}", help="write threads=128"
        )
    b.block_threads = max(b.block_threads, count)
    return Grid(grid)


def _copy(b: Language, src: Region, dst: Region, **hints: Any) -> None:
    unknown = sorted(set(hints) - set(COPY_HINTS))
    if unknown:
        raise KernelTypeError(f"T.copy has no argument {unknown[0]!r}", help=f"it knows {', '.join(COPY_HINTS)}")
    copies.copy(b, src, dst)


COPY_HINTS = ("coalesced_width", "disable_tma", "eviction_policy", "loop_layout")
"""Arguments of `T.copy` that say how to copy on a GPU, and change no result."""

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "Kernel": _kernel,
    **{f"alloc_{space}": partial(allocation.allocate, space=space) for space in ("shared", "fragment", "local")},
    "alloc_var": allocation.variable, "clear": allocation.fill, "fill": allocation.fill, "copy": _copy,
    "gemm": reductions.gemm,
    "cumsum": reductions.cumsum,
    "reduce_max": reductions.reduction("max", "maximum"), "reduce_min": reductions.reduction("min", "minimum"),
    "reduce_sum": reductions.reduction("sum", "add"),
    "reduce_absmax": reductions.reduction("max", "maximum", absolute=True),
    "reduce_abssum": reductions.reduction("sum", "add", absolute=True),
    "ceildiv": elements.ceildiv, "if_then_else": elements.choose, "Select": elements.choose, "cast": elements.cast,
    "Cast": elements.cast, "infinity": elements.infinity,
    "max_value": elements.max_value, "min_value": elements.min_value, "max": elements.greatest, "min": elements.least,
    "clamp": elements.clamp, "Tensor": allocation.in_shape, "empty": allocation.empty, "reshape": allocation.reshaped,
    "view": allocation.reshaped,
}  # fmt: skip
"""Implementations by name: they take the `Language` and the operands."""
ATOMIC = {"atomic_add": "add", "atomic_max": "maximum", "atomic_min": "minimum"}
"""Updates of elements or tiles that several blocks make, by the function of elements that combines."""
TAKES_REGIONS = frozenset({"copy", *ATOMIC})
"""Functions whose operands are regions of arrays."""
HINTS = frozenset({
    "use_swizzle", "annotate_layout", "annotate_l2_hit_ratio", "sync_threads", "disable_warp_group_reg_alloc",
    "no_set_max_nreg", "set_max_nreg", "assume",
})  # fmt: skip
"""Statements that say how to run on a GPU, and change no result; their arguments are not read."""
ANYWHERE = frozenset({
    "Kernel", "ceildiv", "if_then_else", "Select", "cast", "Cast", "infinity", "max", "max_value", "min", "min_value",
    "clamp", "Tensor", "empty", "reshape", "view",
})  # fmt: skip
"""Functions that may be called outside of a tile kernel."""
TILES = ("tile", "A", "B", "C", "src", "dst")
"""Parameters that are arrays, but for functions that take regions."""
LOOPS = {
    "Parallel": ("coalesced_width", "loop_layout"), "Pipelined": ("num_stages", "order", "stage", "sync", "group"),
    "blocks": (), "grid": (), "serial": (), "unroll": (), "vectorized": (),
}  # fmt: skip
"""The iterables of tile kernels, with their keywords."""
