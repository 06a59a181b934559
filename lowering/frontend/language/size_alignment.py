"""Sizes of run time that have to be equal and are not known to be: compared at run time, and read no further.

``best[w:] + best[:n - w]`` is right if both slices have the same length, which only the run shows. The kernel compares
the two, and raises what the library would after the call; until then it works on what both have.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlirtri.dialect.base.sizes import Size, is_dynamic
from mlirtri.dialect.builder import Tensor
from mlirtri.errors import KernelValueError


def aligned(b: Any, tensors: Sequence[Tensor]) -> list[Tensor]:
    """The tensors of an elementwise operation, cut to common sizes where those are not known to be equal."""
    if all(each.type.is_static for each in tensors):
        return list(tensors)
    rank = max(each.type.rank for each in tensors)
    found = list(tensors)
    for axis in range(-rank, 0):
        sizes = [each.type.shape[axis] for each in found if each.type.rank >= -axis and each.type.shape[axis] != 1]
        if len(set(sizes)) < 2 or not any(map(is_dynamic, sizes)):
            continue
        common = common_size(b, sizes)
        found = [
            cut(b, each, axis % each.type.rank, common)
            if each.type.rank >= -axis and each.type.shape[axis] != 1 else each
            for each in found
        ]  # fmt: skip
    return found


def common_size(b: Any, sizes: Sequence[int | Size]) -> int | Size:
    """The least of sizes that have to be equal; that they are is checked."""
    first, *rest = dict.fromkeys(sizes)
    least = Size.of(first)
    for each in rest:
        differ = b.tri.not_equal(b.tri.index(first), b.tri.index(each))
        b.check(differ, KernelValueError, "sizes known at run time only, which have to be equal, are not")
        least = b.indices.minimum(least, Size.of(each))
    return least.simplified()


def cut(b: Any, x: Tensor, axis: int, size: int | Size) -> Tensor:
    """The first elements of x along an axis."""
    if x.type.shape[axis] == size:
        return x
    sizes = tuple(size if i == axis else each for i, each in enumerate(x.type.shape))
    dynamic = [b.tri.index(each) for each in sizes if is_dynamic(each)]
    return b.tri.emit(
        "extract_slice", Tensor(x.value, x.type), *dynamic,
        offsets=(0,) * x.type.rank, sizes=sizes, strides=(1,) * x.type.rank, drop=(),
    )  # fmt: skip
