"""Split columns into heads before a slice of them is taken, so that all slices are of one tensor of heads.

A slice of heads only moves, and the products of attention read it where it is; a slice of columns that is then split
would be copied.

    %s = extract_slice %x[0, 256] [128, 256]; expand %s : 128x256 into 128x8x32
        ──►   %e = expand %x : 128x768 into 128x24x32; extract_slice %e[0, 8, 0] [128, 8, 32]
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from mlirtri.dialect.bindings.mlir import ir, operations_named, tensor
from mlirtri.lowering.mlir.reading import defined_by, static_integers


@dataclass(frozen=True)
class _Split:
    """An axis that a reshape splits in several: the axis, and where its parts begin in the result."""

    axis: int
    position: int
    parts: tuple[int, ...]
    """The sizes that the axis is split in."""


def rewrite(module: ir.Module) -> None:
    """Split before slicing wherever a slice begins and ends between heads, in place."""
    for reshape in operations_named(module, "tensor.expand_shape"):
        slice_ = defined_by(reshape.operands[0], "tensor.extract_slice")
        split = _only_split(reshape)
        if slice_ is not None and split is not None and _is_between_heads(slice_, split):
            _split_first(reshape, slice_, split)


def _only_split(reshape: ir.Operation) -> _Split | None:
    """Return the only axis that a reshape of static sizes splits; None where there are several or none."""
    kind = reshape.results[0].type
    if not kind.has_static_shape:
        return None
    groups = [[int(axis) for axis in ir.ArrayAttr(part)] for part in ir.ArrayAttr(reshape.attributes["reassociation"])]
    splits = [
        _Split(axis, group[0], tuple(kind.shape[position] for position in group))
        for axis, group in enumerate(groups)
        if len(group) > 1
    ]
    return splits[0] if len(splits) == 1 else None


def _is_between_heads(slice_: ir.Operation, split: _Split) -> bool:
    """Return whether a slice of this axis begins and ends where the other parts of the split begin and end."""
    source, result = slice_.operands[0].type, slice_.results[0].type
    if len(slice_.operands) > 1 or source.rank != result.rank or not source.has_static_shape:
        return False
    offset, size = static_integers(slice_, "static_offsets")[split.axis], source.shape[split.axis]
    head = prod(split.parts[1:])
    is_plain = all(stride == 1 for stride in static_integers(slice_, "static_strides"))
    return is_plain and head > 0 and offset % head == 0 and size % head == 0 and size > result.shape[split.axis]


def _split_first(reshape: ir.Operation, slice_: ir.Operation, split: _Split) -> None:
    source, kind = slice_.operands[0], reshape.results[0].type
    head = prod(split.parts[1:])

    def with_heads(sizes: list[int], first: int, others: tuple[int, ...]) -> list[int]:
        return [*sizes[: split.axis], first, *others, *sizes[split.axis + 1 :]]

    sizes = list(source.type.shape)
    whole = with_heads(sizes, sizes[split.axis] // head, split.parts[1:])
    offsets = static_integers(slice_, "static_offsets")
    starts = with_heads(offsets, offsets[split.axis] // head, (0,) * (len(split.parts) - 1))
    with reshape.location, ir.InsertionPoint(reshape):
        wide = ir.RankedTensorType.get(whole, kind.element_type)
        heads = tensor.expand_shape(wide, source, reshape.attributes["reassociation"], [], whole)
        part = tensor.ExtractSliceOp(kind, heads, [], [], [], starts, list(kind.shape), [1] * kind.rank)
    reshape.results[0].replace_all_uses_with(part.result)
