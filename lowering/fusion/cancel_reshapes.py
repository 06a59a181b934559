"""Cancel reshapes of dynamic sizes that undo each other: upstream only compares static ones.

Sizes are equal where both are traced back to the same axis of a tensor, as those of a view to (n·m, k) and back::

    %c = collapse_shape %x [[0, 1], [2]] : <n×m×k>;  %e = expand_shape %c [[0, 1], [2, 3]] : <n×m×3×k/3>
        ──►   %e = expand_shape %x [[0], [1], [2, 3]]
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from mlirtri.dialect.bindings.mlir import ir, operations_named, tensor
from mlirtri.lowering.mlir_common.reading import reassociation_of
from mlirtri.lowering.sizes.loop_sizes import sizes_of_axis

Groups: TypeAlias = "list[list[int]]"
"""For each axis of the narrow tensor, those of the wide one that it stands for."""


def rewrite(module: ir.Module) -> None:
    """Replace pairs of reshapes of which the second undoes the first by the original value, in place."""
    for collapse, expand in list(_pairs(module)):
        _cancel(collapse, expand)


def is_needed(module: ir.Module) -> bool:
    """Return whether `rewrite` would change the module."""
    return next(_pairs(module), None) is not None


def _pairs(module: ir.Module) -> Iterator[tuple[ir.Operation, ir.Operation]]:
    for expand in operations_named(module, "tensor.expand_shape"):
        owner = expand.operands[0].owner
        is_pair = isinstance(owner, ir.Operation | ir.OpView) and owner.operation.name == "tensor.collapse_shape"
        if is_pair and not expand.results[0].type.has_static_shape and _between(owner.operation, expand) is not None:
            yield owner.operation, expand


def _between(collapse: ir.Operation, expand: ir.Operation) -> tuple[Groups, Groups] | None:
    """Return which axes of the source stand for which of the result, where one side has one axis each time."""
    source, result = collapse.operands[0], expand.results[0]
    before: Groups = []
    after: Groups = []
    for wide, new in zip(reassociation_of(collapse), reassociation_of(expand), strict=True):
        while min(len(wide), len(new)) > 1 and _is_same_size(source, wide[0], result, new[0]):
            before.append([wide[0]])
            after.append([new[0]])
            wide, new = wide[1:], new[1:]
        before.append(wide)
        after.append(new)
    is_expanded, is_collapsed = (all(len(group) == 1 for group in groups) for groups in (before, after))
    return (before, after) if is_expanded or is_collapsed else None


def _is_same_size(source: ir.Value, axis: int, result: ir.Value, other: int) -> bool:
    sizes = sizes_of_axis(source, axis) | sizes_of_axis(result, other)
    return len(sizes) == 1


def _cancel(collapse: ir.Operation, expand: ir.Operation) -> None:
    groups = _between(collapse, expand)
    if groups is None:
        return
    before, after = groups
    source, result = collapse.operands[0], expand.results[0]
    with ir.InsertionPoint(expand), expand.location:
        if any(len(group) > 1 for group in before):
            new = tensor.collapse_shape(result.type, source, before)
        elif any(len(group) > 1 for group in after):
            sizes = list(expand.operands)[1:]
            new = tensor.expand_shape(result.type, source, after, sizes, expand.attributes["static_output_shape"])
        else:
            new = source if source.type == result.type else tensor.cast(result.type, source)
    result.replace_all_uses_with(new)
