"""Let a reshape with several readers move after them, where it is undone there: grouped heads of attention.

Upstream moves a reshape through an operation only if nothing else reads it. A softmax reads its scores several times,
so the heads, which are one axis there and two (groups, heads of a group) in the products around it, cut attention in
pieces. Each reader gets a reshape of its own, which upstream's fusion moves on, to where reshapes cancel out.

    %s = collapse %scores; %m = max %s; %e = exp (%s - %m); … expand %w
        ──►   %m = max (collapse %scores); %e = exp ((collapse %scores) - %m); … expand %w
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mlirtri.dialect.bindings.mlir import ir, operations_named
from mlirtri.lowering.fusion.cost_guard import KEPT
from mlirtri.lowering.mlir_common.cloning import copy_for
from mlirtri.lowering.mlir_common.linalg_builder import iterators_of, plain_accesses
from mlirtri.lowering.mlir_common.reading import reassociation_of

MAX_OPERATIONS = 32
"""The most operations that are visited between a reshape and the one that undoes it."""
ROUNDS = 4
"""How often the pass runs at most: a reshape may stop again where the next value has several readers."""


@dataclass(frozen=True)
class _Group:
    """The axes of a tensor that a reshape makes one, by their sizes, and the axis of the value that has them as one."""

    sizes: tuple[int, ...]
    axis: int


def rewrite(module: ir.Module) -> None:
    """Copy each reshape that is undone after several readers to every one of them, in place."""
    for collapse in _stopped(module):
        for reader in _readers(collapse.results[0])[1:]:
            copy_for(collapse, reader)


def is_needed(module: ir.Module) -> bool:
    """Return whether `rewrite` would change the module."""
    return next(_stopped(module), None) is not None


def _stopped(module: ir.Module) -> Iterator[ir.Operation]:
    """Yield the reshapes with several readers that are undone after them all."""
    for collapse in operations_named(module, "tensor.collapse_shape"):
        group = _only_group(collapse)
        if group is not None and len(_readers(collapse.results[0])) > 1 and _is_undone(collapse.results[0], group):
            yield collapse


def _only_group(reshape: ir.Operation) -> _Group | None:
    """Return the only axes of static size that a reshape makes one, or that it makes of one; None for others."""
    wide, narrow = reshape.operands[0].type, reshape.results[0].type
    if reshape.name == "tensor.expand_shape":
        wide, narrow = narrow, wide
    if not wide.has_static_shape:
        return None
    parts = reassociation_of(reshape)
    groups = [
        _Group(sizes, axis)
        for axis, part in enumerate(parts)
        if len(sizes := tuple(wide.shape[position] for position in part if wide.shape[position] != 1)) > 1
    ]
    return groups[0] if len(groups) == 1 else None


def _is_undone(value: ir.Value, group: _Group) -> bool:
    """Return whether everything computed from a value keeps the axis of the group, until a reshape splits it again."""
    pending, seen, is_split = [(value, group)], 0, False
    while pending:
        value, group = pending.pop()
        for reader in _readers(value):
            seen += 1
            if reader.name == "tensor.expand_shape" and _only_group(reader) == group:
                is_split = True
                continue
            axis = _axis_behind(reader, value, group.axis)
            if axis is None or seen > MAX_OPERATIONS:
                return False
            pending.append((reader.results[0], _Group(group.sizes, axis)))
    return is_split


def _axis_behind(reader: ir.Operation, value: ir.Value, axis: int) -> int | None:
    """Return the axis of a generic's result that is this axis of an operand; None where there is none."""
    if reader.name != "linalg.generic" or len(reader.results) != 1:
        return None
    accesses = plain_accesses(reader)
    if accesses is None:
        return None
    *inputs, written = accesses
    loops = {read[axis] for read, operand in zip(inputs, reader.operands, strict=False) if operand == value}
    if len(loops) != 1 or iterators_of(reader)[loop := loops.pop()] != "parallel" or loop not in written:
        return None
    return written.index(loop)


def _readers(value: ir.Value) -> list[ir.Operation]:
    """Return the operations that use a value, each once, without the uses that `cost_guard` gives it."""
    owners = dict.fromkeys(use.owner.operation for use in value.uses)
    return [owner for owner in owners if KEPT not in owner.attributes]
