"""The order in which NumPy and torch lay out the elements of a new array: most often that of the operands.

``a.T + 1`` lies in memory as ``a.T`` does, so that its reshape to one axis is a copy. All tensors of a kernel are
row-major: only what a write through a view changes depends on this order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from mlirtri.dialect.base.sizes import is_dynamic
from mlirtri.dialect.bindings.mlir import ir
from mlirtri.dialect.builder import TriValue
from mlirtri.dialect.ops.table import TABLE
from mlirtri.lowering.frontend.semantics.strides import Layout, laid_out, row_major, stepped

if TYPE_CHECKING:
    from mlirtri.lowering.frontend.semantics.storage import Storage


@dataclass(frozen=True)
class MemoryOrder:
    """How the elements of an array lie in memory where that is not row-major whatever the arguments are."""

    axes: tuple[int, ...] | None = ()
    """The axes from the outermost one in memory on; none for a row-major array; None where that is not known."""
    sources: tuple[Storage, ...] = field(default=(), compare=False)
    """The memory of the arguments that were taken for row-major ones."""


ROW_MAJOR = MemoryOrder()

_ROW_MAJOR_ALWAYS = frozenset(
    """copy flatten ravel reshape contiguous ascontiguousarray zeros ones full empty eye identity tri tile repeat tril
    triu""".split()
)
"""Functions whose new arrays are row-major. Of `numpy.copy`, ``K`` is the default order, of `ndarray.copy` ``C``."""
_PRODUCTS = frozenset("matmul dot mm".split())
"""Functions whose result is row-major for matrices."""
_KEEPING = frozenset("numpy.sort numpy.roll".split())
"""Functions that are not elementwise, and lay out their result as if they were."""
_OWN_ORDERS = {
    "numpy": frozenset(
        """einsum linspace logspace geomspace argwhere apply_along_axis apply_over_axes histogram2d histogramdd unique
        imag isreal iscomplex delete""".split()
    ),
    "torch": frozenset(
        """inv qr svd solve eigh cholesky lstsq pinv lu lu_factor lu_solve solve_triangular triangular_solve inverse
        cholesky_solve meshgrid fft ifft rfft irfft hfft ihfft fft2 ifft2 fftn ifftn rfft2 rfftn nonzero argwhere
        unfold rot90""".split()
    ),
}
"""Functions whose results may have other orders than row-major for row-major operands, too."""


def ordered(semantics: str, name: str, operands: Iterable[Any], result: TriValue) -> MemoryOrder:
    """Return how the library lays out the new array that a function or operator of this name gives."""
    word = name.rpartition(".")[2]
    if result.type.rank < 2 or (word in _ROW_MAJOR_ALWAYS and name != "numpy.copy"):
        return ROW_MAJOR
    if word in _OWN_ORDERS[semantics]:
        return MemoryOrder(None)
    tensors = [operand for operand in operands if isinstance(operand, TriValue)]
    arrays = [tensor for tensor in tensors if tensor.type.rank]
    layouts = [layout_of(array) for array in arrays]
    sources = tuple(dict.fromkeys(source for array in arrays for source in order_of(array).sources))
    if all(layout is not None and _is_row_major(layout) for layout in layouts):
        return MemoryOrder((), sources) if sources else ROW_MAJOR
    if word in _PRODUCTS and result.type.rank == 2:
        return ROW_MAJOR
    keeps = name in _KEEPING or _is_elementwise(result.value, {tensor.value for tensor in tensors})
    if None in layouts or not keeps:
        return MemoryOrder(None)
    axes = _kept(semantics, [layout for layout in layouts if layout is not None])
    return MemoryOrder(axes, sources)


def merged(x: MemoryOrder, y: MemoryOrder) -> MemoryOrder:
    """Return what is known of an array that has one of two orders."""
    return MemoryOrder(x.axes if x == y else None, tuple(dict.fromkeys((*x.sources, *y.sources))))


def order_of(value: TriValue) -> MemoryOrder:
    """Return the order of the memory that a value was read from, or of a new array."""
    if value.origin is None:
        return value.order or ROW_MAJOR
    storage = value.origin.storage
    if storage.argument is not None:
        return MemoryOrder(sources=(storage,))
    return storage.order


def layout_of(value: TriValue) -> Layout | None:
    """Return sizes and strides in elements; None where they are not known. A run-time size counts as one of 2."""
    order, steps = order_of(value), () if value.origin is None else value.origin.steps
    shape = value.type.shape if value.origin is None else value.origin.storage.value.type.shape
    if order.axes is None:
        return None
    layout: Layout | None = laid_out([2 if is_dynamic(size) else size for size in shape], order.axes)
    if not any(map(is_dynamic, (*shape, *value.type.shape))):
        for step in steps:
            layout = layout and stepped(layout, step.op, step.attributes)
        return layout
    if order.axes or any(step.op == "transpose" for step in steps):
        return None
    return row_major([2 if is_dynamic(size) else size for size in value.type.shape])


def _is_row_major(layout: Layout) -> bool:
    """Return whether the strides do not grow, so that a new array of this order is row-major."""
    strides = [abs(stride) for size, stride in layout if size != 1 and stride]
    return all(first >= second for first, second in pairwise(strides))


def _is_elementwise(value: ir.Value, operands: set[ir.Value]) -> bool:
    """Return whether only elementwise operations lie between operands and value."""
    pending, seen = [value], set(operands)
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        if isinstance(value.owner, ir.Block):
            return False
        operation = value.owner.operation
        name = operation.name.removeprefix("tri.")
        is_plain = name in ("constant", "broadcast_to", "reshape") or (
            name in TABLE and TABLE[name].group == "elementwise"
        )
        if not is_plain:
            return False
        pending += operation.operands
    return True


def _kept(semantics: str, layouts: list[Layout]) -> tuple[int, ...]:
    """Return the order that the library gives a new array of operands with these layouts, by asking the library."""
    shapes = [[min(size, 2) for size, _ in layout] for layout in layouts]
    strides = [[abs(stride) if size > 1 else 0 for size, stride in layout] for layout in layouts]
    if semantics == "torch":
        import torch

        operands = [torch.empty_strided(*pair, device="meta") for pair in zip(shapes, strides, strict=True)]
        result = reduce(torch.add, operands[1:], operands[0] * 1).stride()
    else:
        nothing = np.empty(1, np.int8)
        arrays = [
            np.lib.stride_tricks.as_strided(nothing, shape, stride)
            for shape, stride in zip(shapes, strides, strict=True)
        ]
        flags: Any = [["readonly"]] * len(arrays) + [["writeonly", "allocate"]]
        result = np.nditer([*arrays, None], ["zerosize_ok"], flags, order="K").operands[-1].strides
    shape = np.broadcast_shapes(*map(tuple, shapes))
    axes = tuple(sorted(range(len(shape)), key=lambda axis: -result[axis] if shape[axis] > 1 else -math.inf))
    return () if axes == tuple(range(len(axes))) else axes
