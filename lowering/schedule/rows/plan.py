"""The plan of a row kernel: in how many sweeps over a row its blocks are computed, and which values are kept.

A nest (a block with its loops, `nests.py`) is computed where it is read (`folded`) or once, in a step: one value per
row, or one sweep over the row's elements that several nests share. Refuses, by `NotRows`, a nest that reduces some axes
of a row and keeps others.

    softmax:  pass 1 max;  pass 2 exp, kept for pass 3, and its sum;  pass 3 division
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

from mlirtri.lowering.schedule.rows.nests import BlockAxis, BlockNest, NotRows, Obstacle
from mlirtri.lowering.schedule.rows.shared_axes import Rows
from mlirtri.lowering.tir.blocks import CHEAP_CALLS
from mlirtri.lowering.tir.reducers import Reducer, reducer_of
from mlirtri.lowering.tir.statements import depends_on, nodes_in
from mlirtri.lowering.toolchain.tvm_names import Buffer, Extent, Node, TensorLoad, ir, tirx

EXPENSIVE = 100
"""Cost of a function such as `exp`, in plain operations."""
CHEAP = 6
"""Cost up to which a value is computed again rather than kept for a later pass."""
_NEUTRAL = {"Add": 0, "Mul": 1, "BitwiseXor": 0}
"""Neutral numbers by node; with others a term may count twice, and partial results start from the initial value."""


@dataclass(frozen=True)
class Inside:
    """The axes of a nest within a row: groups of them that are neighbours in all memory, and so count as one loop."""

    groups: tuple[tuple[int, ...], ...]
    extents: tuple[int, ...]


@dataclass(eq=False)
class Step:
    """One pass over a row's elements, or with no `extents` one value per row."""

    extents: tuple[int, ...]
    nests: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class RowPlan:
    """Everything that is known of a row kernel before its loops are written."""

    nests: tuple[BlockNest, ...]
    rows: Rows
    inside: tuple[Inside, ...]
    steps: tuple[Step, ...]
    folded: frozenset[int]
    reducers: dict[int, Reducer]
    kept: frozenset[int]
    """Nests whose elements are read in a later step than they are computed in."""

    def cost(self, n: int) -> int:
        """Return the operations per element of a nest, with those that are folded into it."""
        return costs_of(self.nests, self.inside, self.folded)[n]


def make_plan(nests: Sequence[BlockNest], rows: Rows, outputs: Sequence[Buffer]) -> RowPlan:
    """Return the plan; `outputs` are the buffers that are results. Raises `NotRows`."""
    for nest in nests:
        # Steps are ordered by loads, which do not count those of initial values.
        if nest.init is not None and depends_on(nest.init, [other.target for other in nests]):
            raise NotRows(f"{nest.name} starts from a result of another block", Obstacle.ORDER)
    inside = tuple(_inside(nest, axes) for nest, axes in zip(nests, rows.axes, strict=True))
    reducers = {n: _reducer(nest) for n, nest in enumerate(nests) if nest.is_reduction}
    folded = _folded(nests, inside, outputs)
    steps, kept = _Steps(nests, rows, inside, folded).build()
    return RowPlan(tuple(nests), rows, inside, tuple(steps), folded, reducers, kept)


def reducer_of_nest(nest: BlockNest) -> Reducer | None:
    """Return the reducer of a nest's store, with its neutral element; None where the order of terms has to be kept."""
    reducer = None if nest.init is None else reducer_of(nest.store.value, nest.target)
    if nest.before or reducer is None or reducer.node is tirx.Sub:
        return None
    number = _NEUTRAL.get(reducer.node.__name__)
    return reducer if number is None else replace(reducer, neutral=tirx.const(number, str(nest.target.dtype)))


def _reducer(nest: BlockNest) -> Reducer:
    reducer = reducer_of_nest(nest)
    if reducer is None:
        raise NotRows(f"{nest.name} reduces in an order that has to be kept", Obstacle.ORDER)
    return reducer


def _inside(nest: BlockNest, rows: Sequence[int]) -> Inside:
    numbers = [i for i, axis in enumerate(nest.axes) if i not in rows and axis.extent != 1]
    # A sum over one element, too, is none over what the row keeps beside it.
    if nest.is_reduction and not all(nest.axes[i].is_reduction for i in numbers):
        raise NotRows(f"{nest.name} reduces some axes of a row and keeps others")
    accesses = [nest.plain(nest.store.indices), *(nest.plain(load.indices) for load in nest.loads)]
    shapes = [nest.target.shape, *(load.source.shape for load in nest.loads)]
    numbers = _in_order(numbers, accesses)
    groups: list[tuple[int, ...]] = []
    for i in numbers:
        if groups and all(
            are_neighbours(nest.axes[i], groups[-1][-1], i, *access) for access in zip(accesses, shapes, strict=True)
        ):
            groups[-1] += (i,)
        else:
            groups.append((i,))
    return Inside(tuple(groups), tuple(prod(nest.axes[i].extent for i in group) for group in groups))


def _in_order(numbers: list[int], accesses: list[tuple]) -> list[int]:
    """Return the axes in the order in which the access with most of them has them in memory."""
    most = max(accesses, key=lambda axes: len({axis for axis in axes if axis in numbers}))
    order = [axis for axis in most if axis in numbers]
    return [*(axis for axis in numbers if axis not in order), *dict.fromkeys(order)]


def are_neighbours(axis: BlockAxis, outer: int, inner: int, axes: tuple, shape: Sequence[Extent]) -> bool:
    """Return whether two axes of a nest are contiguous in an access of this shape, as one axis would be, or absent."""
    if outer not in axes and inner not in axes:
        return True
    pairs = zip(axes, axes[1:], shape[1:], strict=False)
    return axes.count(outer) == axes.count(inner) == 1 and any(
        pair[:2] == (outer, inner) and isinstance(pair[2], tirx.IntImm) and int(pair[2]) == axis.extent
        for pair in pairs
    )


def cost_of(nest: BlockNest, inside: Inside) -> int:
    """Return the plain operations per element; what is invariant along the row is computed once and costs nothing."""
    axes = {nest.axes[axis].variable for group in inside.groups for axis in group}
    kinds = (tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.Select, tirx.Max, tirx.Min, tirx.Cast, ir.Call)
    nodes = [node for statement in (*nest.before, nest.store) for node in nodes_in(statement.value, *kinds)]
    cost = sum(_operations(node) for node in nodes if depends_on(node, axes))
    return cost if not nest.before else max(cost, CHEAP + 1)


def _operations(node: Node) -> int:
    if isinstance(node, ir.Call):
        is_cheap = str(getattr(node.op, "name", "")).rsplit(".", 1)[-1] in CHEAP_CALLS
        return 1 if is_cheap else EXPENSIVE
    return CHEAP if isinstance(node, tirx.Div) else 1


def costs_of(nests: Sequence[BlockNest], inside: Sequence[Inside], folded: frozenset[int]) -> list[int]:
    """Return the operations per element of each nest, with those of the nests that are folded into it."""
    costs: list[int] = []
    for nest, axes in zip(nests, inside, strict=True):
        costs.append(_cost_with_folded(nest, axes, nests, costs, folded))
    return costs


def _cost_with_folded(
    nest: BlockNest, axes: Inside, nests: Sequence[BlockNest], costs: Sequence[int], folded: Collection[int]
) -> int:
    """Return the cost of a nest, given the costs of those before it."""
    sources = [load.source for load in nest.loads]
    read = [n for n in folded if n < len(costs) for source in sources if source.same_as(nests[n].target)]
    return cost_of(nest, axes) + sum(costs[n] for n in read)


def _folded(nests: Sequence[BlockNest], inside: Sequence[Inside], outputs: Sequence[Any]) -> frozenset[int]:
    """Return the nests to compute where they are read: cheap or read once, and not results."""
    folded: set[int] = set()
    costs: list[int] = []
    for n, nest in enumerate(nests):
        # A nest is folded, or not, before one that reads it asks.
        costs.append(_cost_with_folded(nest, inside[n], nests, costs, folded))
        is_seen = any(nest.target.same_as(output) for output in outputs)
        if nest.is_reduction or nest.before or is_seen or not inside[n].groups:
            continue
        readers = [
            reader for reader, other in enumerate(nests) for load in other.loads if load.source.same_as(nest.target)
        ]
        once = len(readers) == 1 and prod(inside[readers[0]].extents) <= prod(inside[n].extents)
        is_cheap = costs[n] <= CHEAP and _streams(nest, inside[n]) <= 1
        if once or is_cheap:
            folded.add(n)
    return frozenset(folded)


def _streams(nest: BlockNest, inside: Inside) -> int:
    """Return how many buffers a nest reads along its row; buffers with one value per row do not count."""
    axes = {axis for group in inside.groups for axis in group}
    return len({load.source for load in nest.loads if axes & set(nest.plain(load.indices))})


class _Steps:
    """Puts nests into steps, each as early as what it reads allows."""

    def __init__(self, nests: Sequence[BlockNest], rows: Rows, inside: Sequence[Inside], folded: frozenset[int]):
        self.nests, self.rows, self.inside, self.folded = nests, rows, inside, folded
        self.writers = {nest.target: n for n, nest in enumerate(nests)}
        self.steps: list[Step] = []
        self.step_of: dict[int, int] = {}
        self.kept: set[int] = set()

    def build(self) -> tuple[list[Step], frozenset[int]]:
        for n in range(len(self.nests)):
            if n not in self.folded:
                self._assign(n)
        return self.steps, frozenset(self.kept)

    def _assign(self, n: int) -> None:
        needs = self._needs(n)
        together = {
            other for other, same_element in needs.items() if same_element and not self.nests[other].is_reduction
        }
        extents = self.inside[n].extents
        earliest = [self.step_of[other] + (other not in together or self.steps[self.step_of[other]].extents != extents)
                 for other in needs]  # fmt: skip
        first = max(earliest, default=0)
        step = next((n for n in range(first, len(self.steps)) if extents and self.steps[n].extents == extents), None)
        if step is None:
            self.steps.append(Step(extents))
            step = len(self.steps) - 1
        self.steps[step].nests.append(n)
        self.step_of[n] = step
        self.kept.update(other for other in needs if self.step_of[other] != step)

    def _needs(self, nest: int) -> dict[int, bool]:
        """Return the nests that one reads, through folded ones too, and whether only at its own iteration."""
        needs: dict[int, bool] = {}
        for load in self.nests[nest].loads:
            writer = self.writers.get(load.source)
            if writer is None:
                continue
            same = self._is_same_element(nest, load, writer)
            inner = self._needs(writer) if writer in self.folded else {writer: True}
            for n, is_same in inner.items():
                needs[n] = needs.get(n, True) and is_same and same
        return needs

    def _is_same_element(self, reader: int, load: TensorLoad, writer: int) -> bool:
        """Return whether each iteration of a common loop reads only the element that it writes itself."""
        reads, writes = self.nests[reader].plain(load.indices), self.nests[writer].target_axes
        pairs = zip(reads, writes, strict=True)
        return all(self._loop_index(reader, read) == self._loop_index(writer, written) for read, written in pairs)

    def _loop_index(self, nest: int, axis: int | None) -> tuple | None:
        if axis is None or self.nests[nest].axes[axis].extent == 1:
            return None
        if axis in self.rows.axes[nest]:
            return ("row", self.rows.axes[nest].index(axis))
        groups = self.inside[nest].groups
        return next((group, axes.index(axis)) for group, axes in enumerate(groups) if axis in axes)


def runs_along_memory(plan: RowPlan, n: int) -> bool:
    """Return whether some operand of a nest is contiguous along its last axis within the row."""
    nest, inside = plan.nests[n], plan.inside[n]
    if not inside.groups:
        return True
    last = inside.groups[-1][-1]
    return any(load.indices and nest.plain(load.indices)[-1] == last for load in nest.loads)
