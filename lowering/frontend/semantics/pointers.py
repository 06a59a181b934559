"""`match_buffer`: an array of given sizes and strides in the memory behind a pointer.

It is a view of the memory's elements: a slice and a reshape of it, and a transpose where the strides ask for one. So
the call checks that the memory is large enough, as it checks each slice whose sizes the arguments decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from itertools import pairwise, permutations
from typing import Any

from mlirtri.dialect.base.dtypes import as_dtype
from mlirtri.dialect.base.sizes import Size, is_dynamic
from mlirtri.dialect.base.tensor_type import shown_shape
from mlirtri.dialect.builder import KernelValue, TriValue
from mlirtri.errors import KernelTypeError, KernelValueError
from mlirtri.lowering.frontend.semantics.builder import Language, describe
from mlirtri.lowering.frontend.semantics.shapes import sizes_of
from mlirtri.lowering.frontend.semantics.storage import ViewStep, first_elements, has_memory

_MAX_RANK = 6


def match_buffer(
    b: Language, memory: KernelValue, shape: KernelValue, dtype: object = None, strides: KernelValue = None
) -> TriValue:
    """Return the array of this shape in the memory of a pointer; strides count elements, row-major without them."""
    if not has_memory(memory) or memory.type.rank != 1:
        raise KernelTypeError(
            f"match_buffer takes a parameter that is annotated with mt.ptr, not {describe(memory)}",
            help="other arrays have a shape already: use reshape",
        )
    if dtype is not None and as_dtype(dtype) != memory.type.dtype:
        raise KernelTypeError(f"this is memory of {memory.type.dtype}, not of {as_dtype(dtype)}")
    sizes = sizes_of(b, shape)
    if not 1 <= len(sizes) <= _MAX_RANK:
        raise KernelValueError(f"match_buffer takes a shape of 1 to {_MAX_RANK} sizes, got {len(sizes)}")
    order, physical = _layout(b, sizes, None if strides is None else sizes_of(b, strides), str(memory.type.dtype))
    result = TriValue(memory.value, memory.type)
    view = memory.origin
    for step in _steps(b, memory, [sizes[axis] for axis in order], physical, order):
        result, view = step.read(b.tri, result), view.then(step)
    return replace(result, origin=view)


def _layout(
    b: Language, sizes: Sequence[Any], strides: Sequence[Any] | None, dtype: str
) -> tuple[tuple[int, ...], list[Any]]:
    """Return the axes from the largest stride to the smallest, and how many elements each has in memory."""
    rank = len(sizes)
    if strides is None:
        return tuple(range(rank)), list(sizes)
    if len(strides) != rank:
        raise KernelValueError(f"{len(strides)} strides for {rank} sizes")
    # With a smallest stride of 1 each axis is whole rows; else the elements between are one more axis.
    for order in sorted(permutations(range(rank)), key=lambda order: strides[order[-1]] != 1):
        inner = [
            b.indices.fixed.quotient(Size.of(strides[outer]), Size.of(strides[axis])) for outer, axis in pairwise(order)
        ]
        if all(size is not None for size in inner):
            between = [] if strides[order[-1]] == 1 else [strides[order[-1]]]
            return order, [sizes[order[0]], *(size.simplified() for size in inner if size is not None), *between]
    raise KernelValueError(
        f"strides {shown_shape(tuple(strides))} of the shape {shown_shape(tuple(sizes))} are not those of whole rows",
        help="each stride is a multiple of the next smaller one: strides=(K, 1) of (M, K), or (K * s, s). For any "
        f"strides annotate the parameter with {_strided(sizes, dtype)} in place of mt.ptr, and pass the view",
    )


def _strided(sizes: Sequence[Any], dtype: str) -> str:
    """Return the annotation of an array of these sizes and any strides."""
    extents, strides = (", ".join(map(text, sizes)) for text in (_extent, lambda _: "mt.dyn"))
    return f"mt.StridedTensor[[{extents}], [{strides}], mt.{dtype}]"


def _extent(size: Any) -> str:
    name = str(size)
    return f'mt.dyn["{name}"]' if name.isidentifier() else "mt.dyn" if is_dynamic(size) else name


def _steps(
    b: Language, memory: TriValue, sizes: list[Any], physical: list[Any], order: tuple[int, ...]
) -> list[ViewStep]:
    count = reduce(b.indices.product, map(Size.of, physical), Size.of(1)).simplified()
    steps = [first_elements(b.tri, [count])] if memory.type.shape[0] != count else []
    if len(physical) > 1:
        dynamic = tuple(b.tri.index(size) for size in physical if is_dynamic(size))
        steps.append(ViewStep("dynamic_reshape", {"shape": tuple(physical)}, dynamic, moves_axes=True))
    if len(physical) > len(sizes):
        steps.append(first_elements(b.tri, [*sizes, 1], drop=(len(sizes),)))
    elif physical != sizes:
        steps.append(first_elements(b.tri, sizes))
    if order != tuple(range(len(order))):
        steps.append(ViewStep("transpose", {"permutation": tuple(map(order.index, range(len(order))))}))
    return steps
