"""Merge reductions over rows, and the elementwise work along the same rows, into one PrimFunc: a relax → tir pass.

Softmax, layer norm and the like, however they are written, become one call each, which reads each row once while it is
in cache. They are found by what their blocks read and write. Values that calls outside the row kernel read become
further results of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from enum import Enum, auto
from typing import Any

from mlirtri.lowering.core.target import Target
from mlirtri.lowering.relax.call_merging import (
    Dependencies,
    Merged,
    form_of,
    in_order,
    launch_of,
    merged,
    merged_call,
    merged_name,
    with_blocks,
)
from mlirtri.lowering.relax.packed_weights import computed_once
from mlirtri.lowering.schedule.fusable_forms import check_rows, takes_attention, takes_rows
from mlirtri.lowering.schedule.rows.nests import (
    NotRows,
    Obstacle,
    computes_indices,
    is_product,
    nests_of,
    refuse_better_rules,
)
from mlirtri.lowering.toolchain.tvm_names import Binding, BindingBlock, BlockBuilder, IRModule, PrimFunc, Var, relax
from mlirtri.lowering.toolchain.tvm_passes import operator_of

Group = tuple[int, ...]
"""Indices of bindings in a dataflow block."""


def fuse_rows(mod: IRModule, target: Target, weights: Collection[Var]) -> IRModule:
    """Return the module with row kernels; calls on `weights` alone, which run once, are not merged with others."""

    def fused(block: BindingBlock, builder: BlockBuilder) -> BindingBlock:
        search = _Search(block, mod, target, weights)
        groups = [group for group in search.groups() if len(group) > 1]
        return relax.DataflowBlock(list(_rebuilt(search, groups, builder))) if groups else block

    return with_blocks(mod, fused)


class Separations:
    """Why calls of a module before this pass are not in one kernel after it; calls have numbers."""

    def __init__(self, mod: IRModule, target: Target, numbers_of: Callable[[PrimFunc], set[int]]):
        """Find the groups of all blocks; `numbers_of` returns the calls that a function computes."""
        self._found: list[tuple[_Search, dict[int, Group], set[int]]] = []
        for _, function in mod.functions_items():
            for block in getattr(getattr(function, "body", None), "blocks", ()):
                if isinstance(block, relax.DataflowBlock):
                    self._found.append(self._of_block(_Search(block, mod, target), mod, numbers_of))

    @staticmethod
    def _of_block(
        search: _Search, mod: IRModule, numbers_of: Callable[[PrimFunc], set[int]]
    ) -> tuple[_Search, dict[int, Group], set[int]]:
        search.groups()
        group_of_call: dict[int, Group] = {}
        for index, group in search.group_of.items():
            for number in numbers_of(search.launches[index].function):
                group_of_call.setdefault(number, group)
        return search, group_of_call, set().union(*map(numbers_of, _callees(search.block, mod)))

    def reason(self, producer: int, consumer: int) -> NotRows:
        """Return the reason why a producer and a consumer are not one kernel."""
        for search, group_of_call, calls in self._found:
            first, second = group_of_call.get(producer), group_of_call.get(consumer)
            if first is not None and second is not None:
                return search.separation(_union([first, second]))
            if {producer, consumer} <= calls:
                reason = "one of both takes sizes or gives several results, which rows leave alone"
                return NotRows(reason, Obstacle.ARGUMENTS)
        return NotRows("they are not in one straight piece of the program", Obstacle.ORDER)


class _Kind(Enum):
    ELEMENTWISE = auto()
    REDUCTION = auto()
    PRODUCT = auto()
    OTHER = auto()


class _Search:
    """The calls of a dataflow block, their dependencies, and the groups to be merged."""

    def __init__(self, block: BindingBlock, mod: IRModule, target: Target, weights: Collection[Var] = ()):
        self.block, self.target = block, target
        self.bindings = list(block.bindings)
        once = computed_once(self.bindings, weights) if weights else ()
        self.weights = {*weights, *(self.bindings[index].var for index in once)}
        self.launches = {
            index: launch
            for index, candidate in enumerate(self.bindings)
            if index not in once and (launch := launch_of(candidate, mod))
        }
        dependencies = Dependencies(self.bindings)
        self.index_of, self.reads, self.readers = dependencies.position_of, dependencies.reads, dependencies.readers
        self.group_of: dict[int, Group] = {index: (index,) for index in self.launches}
        functions = {launch.name: launch.function for launch in self.launches.values()}
        kinds = {callee: _kind(function) for callee, function in functions.items()}
        self.kinds = {index: kinds[launch.name] for index, launch in self.launches.items()}
        self.positions = frozenset() if target.is_cuda else frozenset(
            index for index, launch in self.launches.items()
            if not launch.arguments and computes_indices(launch.function)
        )  # fmt: skip
        """Calls that only compute indices; their consumers recompute them."""
        self._known: dict[Hashable, bool] = {}
        """Whether a group may be merged, by its form: the layers of a network are groups of one form."""
        self._merged: dict[Group, Merged] = {}
        self._reasons: dict[Hashable, NotRows] = {}
        """Why a group is no row kernel, by its form."""

    def groups(self) -> list[Group]:
        """Return the groups in the order of their last calls."""
        for index in self.launches:
            self._join_producers(index)
        for index in self.launches:
            if self.kinds[index] == _Kind.PRODUCT:
                self._join_attention(index)
        return sorted(set(self.group_of.values()), key=lambda group: group[-1])

    def _join_producers(self, index: int) -> None:
        """Join a call with the groups that produce its operands: all, else as many as possible, latest first."""
        producers = sorted(
            {self.group_of[source] for source in self.reads[index] if source in self.launches}, reverse=True
        )
        if not producers:
            return
        everything = _union([(index,), *producers])
        if len(producers) > 1 and self._fits(everything):
            self._set(everything)
            return
        for producer in producers:
            together = _union([self.group_of[index], producer])
            if self._fits(together):
                self._set(together)

    def _join_attention(self, index: int) -> None:
        """Join a product with the row kernel and the product that feed it, if a schedule rule takes all three.

        Products of weights read them in the order in which they were packed once, which attention does not.
        """
        if any(argument in self.weights for argument in self.launches[index].arguments):
            return
        for rows in self._producers((index,)):
            for source in self._producers(rows):
                is_product = len(source) == 1 and self.kinds[source[0]] == _Kind.PRODUCT
                if is_product and self._set_attention(_union([source, rows, (index,)]), source):
                    return

    def _set_attention(self, group: Group, product: Group) -> bool:
        """Set attention, if it can with the elementwise call, a scaling, that makes the queries of its product."""
        scalings = [
            other for other in self._producers(product) if len(other) == 1 and self.kinds[other[0]] == _Kind.ELEMENTWISE
        ]
        for wider in (*(_union([other, group]) for other in scalings), group):
            if self._is_attention(wider):
                self._set(wider)
                return True
        return False

    def _is_attention(self, group: Group) -> bool:
        return self._is_taken(takes_attention, group)

    def _is_taken(self, takes: Callable[[PrimFunc, Target], bool], group: Group) -> bool:
        """Return whether a schedule rule `takes` a group, which is the same for all groups of one form."""
        if self._is_circular(group):
            return False
        key = takes, self._of_calls(form_of, group)
        if key not in self._known:
            self._known[key] = takes(self.merged(group).function, self.target)
        return self._known[key]

    def _producers(self, group: Group) -> list[Group]:
        read = {self.group_of[source] for index in group for source in self.reads[index] if source in self.launches}
        return sorted(read - {group})

    def _set(self, group: Group) -> None:
        for index in group:
            self.group_of[index] = group

    def _fits(self, group: Group) -> bool:
        kinds = {self.kinds[index] for index in group}
        if _Kind.REDUCTION not in kinds or not kinds <= {_Kind.ELEMENTWISE, _Kind.REDUCTION}:
            return False
        return self._is_taken(takes_rows, group)

    def separation(self, group: Group) -> NotRows:
        """Return the reason why the calls of a group cannot be merged."""
        if self._is_circular(group):
            return NotRows("something that is no part of it has to run between them", Obstacle.ORDER)
        form = self._of_calls(form_of, group)
        if form not in self._reasons:
            self._reasons[form] = self._reason(group)
        return self._reasons[form]

    def _reason(self, group: Group) -> NotRows:
        try:
            check_rows(self.merged(group).function, self.target)
        except NotRows as reason:
            return reason
        return NotRows("a larger group left it out")

    def _is_circular(self, group: Group) -> bool:
        """Return whether a call or group outside of `group` depends on one of its calls and feeds another."""
        visited: set[Group] = set()
        pending = self._readers_of(group)
        while pending:
            call = pending.pop()
            other = self.group_of.get(call, (call,))
            if other in visited or other[0] > group[-1]:
                continue
            visited.add(other)
            readers = self._readers_of(other)
            if not readers.isdisjoint(group):
                return True
            pending |= readers
        return False

    def _readers_of(self, group: Group) -> set[int]:
        return {reader for call in group for reader in self.readers[call]}.difference(group)

    def _with_positions(self, group: Group) -> Group:
        """Return a group with the calls that compute indices for it."""
        position_calls = {source for index in group for source in self.reads[index] if source in self.positions}
        return _union([group, tuple(position_calls)])

    def merged(self, group: Group) -> Merged:
        if group not in self._merged:
            self._merged[group] = self._of_calls(merged, group)
        return self._merged[group]

    def _of_calls(self, function: Callable[..., Any], group: Group) -> Any:
        launches = [self.launches[index] for index in self._with_positions(group)]
        return function(launches, lambda result: self._is_seen(result, group))

    def _is_seen(self, result: Var, group: Group) -> bool:
        index = self.index_of[result]
        if index not in group:
            return False
        return not isinstance(result, relax.DataflowVar) or any(reader not in group for reader in self.readers[index])


def _callees(block: BindingBlock, mod: IRModule) -> list[PrimFunc]:
    return [mod[binding.value.args[0]] for binding in block.bindings if operator_of(binding) == "relax.call_tir"]


def _kind(function: PrimFunc) -> _Kind:
    try:
        nests = nests_of(function)
        if any(map(is_product, nests)):
            return _Kind.PRODUCT
        for nest in nests:
            refuse_better_rules(nest)
    except NotRows:
        return _Kind.OTHER
    return _Kind.REDUCTION if any(nest.is_reduction for nest in nests) else _Kind.ELEMENTWISE


def _union(groups: Iterable[Group]) -> Group:
    return tuple(sorted({index for group in groups for index in group}))


def _rebuilt(search: _Search, groups: Sequence[Group], builder: BlockBuilder) -> Iterator[Binding]:
    """Yield the bindings, with each group's merged call in place of its last call and before its consumers."""
    group_of = {index: group for group in groups for index in group}
    units = list(dict.fromkeys(group_of.get(index, (index,)) for index in range(len(search.bindings))))
    needed = {
        unit: {group_of.get(source, (source,)) for index in unit for source in search.reads[index]} - {unit}
        for unit in units
    }
    for unit in in_order(units, needed):
        yield from [search.bindings[unit[0]]] if len(unit) == 1 else _call(search, unit, builder)


def _call(search: _Search, group: Group, builder: BlockBuilder) -> Iterator[Binding]:
    name = merged_name([search.launches[index].name for index in group])
    return merged_call(search.merged(group), name, builder)
