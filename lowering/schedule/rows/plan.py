"""The plan of a row kernel: in how many passes over a row its nests are computed, and which values are kept.

Takes nests with their `Rows`. Gives a `RowPlan`: steps in order, each one value per row or one pass over the row's
elements that several nests share, and for every nest whether it is computed where it is read (`folded`) or once.
Refuses, by `NotRows`, what reduces some and keeps other axes within a row.

    softmax:  pass 1 max;  pass 2 exp, kept for pass 3, and its sum;  pass 3 division
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from mlirtri.lowering.schedule.rows.nests import Axis, Nest, NotRows, Obstacle, Rows
from mlirtri.lowering.schedule.rows.reducers import Reducer, reducer_of
from mlirtri.lowering.tir.blocks import CHEAP_CALLS
from mlirtri.lowering.toolchain.tvm_names import ir, structural_walk, tirx

EXPENSIVE = 100
"""Cost of a function such as `exp`, in plain operations."""
CHEAP = 6
"""Cost up to which a value is computed again rather than kept for a later pass."""


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

    nests: tuple[Nest, ...]
    rows: Rows
    inside: tuple[Inside, ...]
    steps: tuple[Step, ...]
    folded: frozenset[int]
    reducers: dict[int, Reducer]
    kept: frozenset[int]
    """Nests whose elements are read in a later step than they are computed in."""

    def cost(self, at: int) -> int:
        """Plain operations per element of a nest, with those that are folded into it."""
        return costs_of(self.nests, self.inside, self.folded)[at]


def make_plan(nests: Sequence[Nest], rows: Rows, outputs: Sequence[Any]) -> RowPlan:
    """Return the plan; `outputs` are the buffers that are results. Raises `NotRows`."""
    inside = tuple(_inside(nest, axes) for nest, axes in zip(nests, rows.axes, strict=True))
    reducers = {at: _reducer(nest) for at, nest in enumerate(nests) if nest.is_reduction}
    folded = _folded(nests, inside, outputs)
    steps, kept = _Steps(nests, rows, inside, folded).made()
    return RowPlan(tuple(nests), rows, inside, tuple(steps), folded, reducers, kept)


def _reducer(nest: Nest) -> Reducer:
    if nest.before or (reducer := reducer_of(nest)) is None:
        raise NotRows(f"{nest.name} reduces in an order that has to be kept", Obstacle.ORDER)
    return reducer


def _inside(nest: Nest, rows: Sequence[int]) -> Inside:
    numbers = [at for at, axis in enumerate(nest.axes) if at not in rows and axis.extent != 1]
    # A sum over one element, too, is none over what the row keeps beside it.
    if nest.is_reduction and not all(nest.axes[at].is_reduction for at in numbers):
        raise NotRows(f"{nest.name} reduces some axes of a row and keeps others")
    accesses = [nest.plain(nest.store.indices), *(nest.plain(load.indices) for load in nest.loads)]
    shapes = [nest.target.shape, *(load.source.shape for load in nest.loads)]
    numbers = _in_order(numbers, accesses)
    groups: list[tuple[int, ...]] = []
    for at in numbers:
        if groups and all(
            are_neighbours(nest.axes[at], groups[-1][-1], at, *one) for one in zip(accesses, shapes, strict=True)
        ):
            groups[-1] += (at,)
        else:
            groups.append((at,))
    return Inside(tuple(groups), tuple(prod(nest.axes[at].extent for at in group) for group in groups))


def _in_order(numbers: list[int], accesses: list[tuple]) -> list[int]:
    """Axes in the order in which the access with most of them has them in memory."""
    most = max(accesses, key=lambda axes: len({at for at in axes if at in numbers}))
    order = [at for at in most if at in numbers]
    return [*(at for at in numbers if at not in order), *dict.fromkeys(order)]


def are_neighbours(axis: Axis, outer: int, inner: int, places: tuple, shape: Sequence[Any]) -> bool:
    """Whether two axes of a nest are contiguous in an access of this shape, as one axis would be, or not in it."""
    if outer not in places and inner not in places:
        return True
    pairs = zip(places, places[1:], shape[1:], strict=False)
    return places.count(outer) == places.count(inner) == 1 and any(
        pair[:2] == (outer, inner) and isinstance(pair[2], tirx.IntImm) and int(pair[2]) == axis.extent
        for pair in pairs
    )


def cost_of(nest: Nest, inside: Inside) -> int:
    """Return the plain operations per element; what is invariant along the row is computed once and costs nothing."""
    axes = {nest.axes[axis].variable for group in inside.groups for axis in group}
    counts: list[int] = []

    def visit(node: Any) -> None:
        if _names(node, axes):
            counts.append(_operations(node))

    kinds = (tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.Select, tirx.Max, tirx.Min, tirx.Cast, ir.Call)
    for statement in (*nest.before, nest.store):
        structural_walk(statement.value, [(kind, visit) for kind in kinds], order="pre")
    return sum(counts) if not nest.before else max(sum(counts), CHEAP + 1)


def _operations(node: Any) -> int:
    """Return the cost of one node."""
    if isinstance(node, ir.Call):
        is_cheap = str(getattr(node.op, "name", "")).rsplit(".", 1)[-1] in CHEAP_CALLS
        return 1 if is_cheap else EXPENSIVE
    return CHEAP if isinstance(node, tirx.Div) else 1


def _names(node: Any, variables: set[Any]) -> bool:
    found: list[Any] = []
    structural_walk(node, (tirx.Var, found.append), order="pre")
    return any(each in variables for each in found)


def costs_of(nests: Sequence[Nest], inside: Sequence[Inside], folded: frozenset[int]) -> list[int]:
    """Return the operations per element of each nest, with those of the nests that are folded into it."""
    costs: list[int] = []
    for nest, own in zip(nests, inside, strict=True):
        read = [at for at in folded if at < len(costs) for load in nest.loads if load.source.same_as(nests[at].target)]
        costs.append(cost_of(nest, own) + sum(costs[at] for at in read))
    return costs


def _folded(nests: Sequence[Nest], inside: Sequence[Inside], outputs: Sequence[Any]) -> frozenset[int]:
    """Return the nests to compute where they are read: cheap or read once, and not results."""
    folded: set[int] = set()
    for at, nest in enumerate(nests):
        is_seen = any(nest.target.same_as(output) for output in outputs)
        if nest.is_reduction or nest.before or is_seen or not inside[at].groups:
            continue
        readers = [
            number for number, other in enumerate(nests) for load in other.loads if load.source.same_as(nest.target)
        ]
        once = len(readers) == 1 and prod(inside[readers[0]].extents) <= prod(inside[at].extents)
        is_cheap = costs_of(nests, inside, frozenset(folded))[at] <= CHEAP and _streams(nest, inside[at]) <= 1
        if once or is_cheap:
            folded.add(at)
    return frozenset(folded)


def _streams(nest: Nest, inside: Inside) -> int:
    """Return how many buffers a nest reads along its row; buffers with one value per row do not count."""
    axes = {axis for group in inside.groups for axis in group}
    return len({load.source for load in nest.loads if axes & set(nest.plain(load.indices))})


class _Steps:
    """Puts nests into steps, each as early as what it reads allows."""

    def __init__(self, nests: Sequence[Nest], rows: Rows, inside: Sequence[Inside], folded: frozenset[int]):
        self.nests, self.rows, self.inside, self.folded = nests, rows, inside, folded
        self.writers = {nest.target: at for at, nest in enumerate(nests)}
        self.steps: list[Step] = []
        self.step_of: dict[int, int] = {}
        self.kept: set[int] = set()

    def made(self) -> tuple[list[Step], frozenset[int]]:
        for at in range(len(self.nests)):
            if at not in self.folded:
                self._place(at)
        return self.steps, frozenset(self.kept)

    def _place(self, at: int) -> None:
        needs = self._needs(at, set())
        together = {one for one, same_element in needs.items() if same_element and not self.nests[one].is_reduction}
        extents = self.inside[at].extents
        after = [self.step_of[one] + (one not in together or self.steps[self.step_of[one]].extents != extents)
                 for one in needs]  # fmt: skip
        first = max(after, default=0)
        place = next((n for n in range(first, len(self.steps)) if extents and self.steps[n].extents == extents), None)
        if place is None:
            self.steps.append(Step(extents))
            place = len(self.steps) - 1
        self.steps[place].nests.append(at)
        self.step_of[at] = place
        self.kept.update(one for one in needs if self.step_of[one] != place)

    def _needs(self, at: int, seen: set[int]) -> dict[int, bool]:
        """Return the nests that one reads, through folded ones too, and whether only at its own iteration."""
        found: dict[int, bool] = {}
        for load in self.nests[at].loads:
            one = self.writers.get(load.source)
            if one is None:
                continue
            same = self._is_same_element(at, load, one)
            inner = self._needs(one, seen) if one in self.folded else {one: True}
            for number, is_same in inner.items():
                found[number] = found.get(number, True) and is_same and same
        return found

    def _is_same_element(self, at: int, load: Any, writer: int) -> bool:
        """Whether an iteration of a common loop reads the element that it writes itself."""
        reads, writes = self.nests[at].plain(load.indices), self.nests[writer].places
        return all(
            self._turn(at, read) == self._turn(writer, written) for read, written in zip(reads, writes, strict=True)
        )

    def _turn(self, at: int, axis: int | None) -> tuple | None:
        if axis is None or self.nests[at].axes[axis].extent == 1:
            return None
        if axis in self.rows.axes[at]:
            return ("row", self.rows.axes[at].index(axis))
        groups = self.inside[at].groups
        return next((group, one.index(axis)) for group, one in enumerate(groups) if axis in one)
