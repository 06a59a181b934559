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
from mlirtri.lowering.mlir_common.linalg_builder import static_slice
from mlirtri.lowering.mlir_common.reading import defined_by, reassociation_of, static_integers


@dataclass(frozen=True)
class _Split:
    """An axis that a reshape splits in several."""

    axis: int
    parts: tuple[int, ...]
    """The sizes that the axis is split in."""


def rewrite(module: ir.Module) -> None:
    """Split before slicing wherever a slice begins and ends between heads, in place."""
    for reshape in operations_named(module, "tensor.expand_shape"):
        columns, split = reshape.operands[0], _only_split(reshape)
        collapse = defined_by(columns, "tensor.collapse_shape")
        slice_ = defined_by(columns if collapse is None else collapse.operands[0], "tensor.extract_slice")
        if slice_ is None or split is None or len(slice_.operands) > 1:
            continue
        axis = _source_axis(slice_, list(columns.type.shape), split.axis)
        if axis is not None and _is_between_heads(slice_, axis, split):
            _split_first(reshape, slice_, axis, split)


def _only_split(reshape: ir.Operation) -> _Split | None:
    """Return the only axis that a reshape of static sizes splits; None where there are several or none."""
    kind = reshape.results[0].type
    if not kind.has_static_shape:
        return None
    groups = reassociation_of(reshape)
    splits = [
        _Split(axis, tuple(kind.shape[position] for position in group))
        for axis, group in enumerate(groups)
        if len(group) > 1
    ]
    return splits[0] if len(splits) == 1 else None


def _source_axis(slice_: ir.Operation, shape: list[int], axis: int) -> int | None:
    """Return the axis of a slice's source that is an axis of this shape: the slice's without some axes of size 1."""
    kept: list[int] = []
    for number, size in enumerate(static_integers(slice_, "static_sizes")):
        if len(kept) < len(shape) and size == shape[len(kept)]:
            kept.append(number)
        elif size != 1:
            return None
    return kept[axis] if len(kept) == len(shape) else None


def _is_between_heads(slice_: ir.Operation, axis: int, split: _Split) -> bool:
    """Return whether a slice of this axis begins and ends where the other parts of the split begin and end."""
    source = slice_.operands[0].type
    if not source.has_static_shape or any(stride != 1 for stride in static_integers(slice_, "static_strides")):
        return False
    head, is_part = prod(split.parts[1:]), prod(source.shape) > prod(slice_.results[0].type.shape)
    offset = static_integers(slice_, "static_offsets")[axis]
    return is_part and head > 0 and offset % head == 0 and source.shape[axis] % head == 0


def _split_first(reshape: ir.Operation, slice_: ir.Operation, axis: int, split: _Split) -> None:
    source, kind, others = slice_.operands[0], reshape.results[0].type, split.parts[1:]
    head = prod(others)

    def with_heads(numbers: list[int], inner: tuple[int, ...]) -> list[int]:
        return [*numbers[:axis], numbers[axis] // head, *inner, *numbers[axis + 1 :]]

    whole = with_heads(list(source.type.shape), others)
    starts = with_heads(static_integers(slice_, "static_offsets"), (0,) * len(others))
    sizes = with_heads(static_integers(slice_, "static_sizes"), others)
    first, last = list(range(axis)), list(range(axis + len(split.parts), len(whole)))
    groups = [*([each] for each in first), [*range(axis, axis + len(split.parts))], *([each] for each in last)]
    with reshape.location, ir.InsertionPoint(reshape):
        wide = ir.RankedTensorType.get(whole, kind.element_type)
        heads = tensor.expand_shape(wide, source, groups, [], whole)
        part = static_slice(heads, starts, sizes, kind=kind)
    reshape.results[0].replace_all_uses_with(part)
