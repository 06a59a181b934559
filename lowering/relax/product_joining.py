"""Join calls of products with calls that read their results: a relax → tir pass, after the fusion by rows.

    gv = R.call_tir(cls.matmul, (x, wu))                                    the gate of a feed-forward layer:
    gv1 = R.call_tir(cls.fused_matmul_silu_mul, (x, wg, gv))         ──►    one call of both products
    gv2 = R.call_tir(cls.matmul, (x, w))                                    rotary embeddings of queries and keys:
    gv3 = R.call_tir(cls.fused_slice_neg_concatenate_…, (gv2, sin, cos))
                                                                     ──►    one call, with a result for each of both

A reader of elements may take the product's result through reshapes, which it then computes itself. What is joined is
what `schedule.fusable_forms.takes_chain` says a schedule rule takes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mlirtri.lowering.core.target import Target
from mlirtri.lowering.relax.call_merging import (
    Dependencies,
    Launch,
    Merged,
    form_of,
    in_order,
    is_view,
    launch_of,
    merged,
    merged_call,
    merged_name,
    with_blocks,
)
from mlirtri.lowering.relax.packed_weights import computed_once, products_of
from mlirtri.lowering.schedule.fusable_forms import is_tiled, packs_filters, takes_chain, takes_filters
from mlirtri.lowering.tir.blocks import NotStaticLoopsError, blocks_of
from mlirtri.lowering.tir.product_recognition import Product
from mlirtri.lowering.toolchain.tvm_names import (
    IMPERATIVE,
    Binding,
    BindingBlock,
    BlockBuilder,
    IRModule,
    PrimFunc,
    TensorLoad,
    Var,
    relax,
)

PRODUCTS = ("product", "filters")
"""The kinds of calls that others are joined with: `filters` are bound, and packed for tiles of output channels."""
MOST_READERS = 8
"""The most elementwise calls that are joined with one product."""


def join_products(mod: IRModule, target: Target, weights: Collection[Var]) -> IRModule:
    """Return the module with calls joined; calls on `weights` alone, which run once, are not joined with others."""

    def joined(block: BindingBlock, builder: BlockBuilder) -> BindingBlock:
        search = _Search(block, mod, target, weights)
        search.join()
        return relax.DataflowBlock(list(search.rebuilt(builder))) if search.group_of else block

    return with_blocks(mod, joined)


@dataclass(frozen=True)
class _Group:
    """Calls that become one: a product, with another one or the elementwise calls that read it."""

    members: tuple[int, ...]
    """Positions of bindings, in order."""
    views: tuple[int, ...]
    """Positions of reshapes that the call computes for its members, beside those for others."""

    @property
    def launches(self) -> tuple[int, ...]:
        return tuple(sorted((*self.members, *self.views)))


class _Search:
    """The calls of a dataflow block, and which of them can be joined."""

    def __init__(self, block: BindingBlock, mod: IRModule, target: Target, weights: Collection[Var]):
        self.bindings, self.target = list(block.bindings), target
        once = computed_once(self.bindings, weights) if weights else ()
        self.launches: dict[int, Launch] = {
            position: launch
            for position, binding in enumerate(self.bindings)
            if position not in once and (launch := launch_of(binding, mod))
        }
        dependencies = Dependencies(self.bindings)
        self.position_of, self.reads, self.readers = (
            dependencies.position_of, dependencies.reads, dependencies.readers,
        )  # fmt: skip
        products = {launch.name: _only_product(launch.function) for launch in self.launches.values()}
        kinds = {launch.name: _kind(launch.function, products[launch.name]) for launch in self.launches.values()}
        self.kinds = {position: kinds[launch.name] for position, launch in self.launches.items()}
        for position, launch in self.launches.items():
            if _reads_packed_filters(launch, products[launch.name], weights):
                self.kinds[position] = "filters"
        self.group_of: dict[int, _Group] = {}
        self._known: dict[Hashable, bool] = {}
        """What the rule takes, by the form of a group: layers of a network are the same calls again and again."""

    def join(self) -> None:
        """Find the groups, which share no calls."""
        for product, kind in self.kinds.items():
            if kind not in PRODUCTS or product in self.group_of:
                continue
            group = (self._pair(product) if kind == "product" else None) or self._with_elements(product)
            if group is not None:
                self.group_of.update(dict.fromkeys(group.members, group))

    def _pair(self, second: int) -> _Group | None:
        """Return a product with another one, whose result it alone reads; None where there is none."""
        for first in self.reads[second]:
            if self.kinds.get(first) == "product" and first not in self.group_of and self.readers[first] == [second]:
                group = self._group((first, second), ())
                if group is not None:
                    return group
        return None

    def _with_elements(self, product: int) -> _Group | None:
        """Return a product with as many as possible of the elementwise calls that read it, or what those compute."""
        chosen: dict[int, int | None] = {}
        best: _Group | None = None
        tried: set[int] = set()
        while len(chosen) < MOST_READERS:
            readers = {
                reader: view
                for reader, view in self._element_readers((product, *chosen))
                if reader not in self.group_of and reader not in tried and reader not in chosen
            }
            if not readers:
                break
            together = self._group((product, *chosen, *readers), (*chosen.values(), *readers.values()))
            if together is None and len(readers) > 1:
                readers = dict([next(iter(readers.items()))])
                together = self._group((product, *chosen, *readers), (*chosen.values(), *readers.values()))
            if together is not None:
                best, chosen = together, {**chosen, **readers}
            else:
                tried.update(readers)
        return best

    def _element_readers(self, members: Sequence[int]) -> Iterator[tuple[int, int | None]]:
        """Yield the elementwise calls that read a product or its readers, and the reshape through which they do."""
        product = members[0]
        for reader in sorted(reader for member in members for reader in self.readers[member]):
            if self.kinds.get(reader) == "elements" and self._last_product(reader) <= product:
                yield reader, None
            if self.kinds.get(reader) == "view":
                for behind in self.readers[reader]:
                    if self.kinds.get(behind) == "elements" and self._last_product(behind) <= product:
                        yield behind, reader

    def _last_product(self, reader: int) -> int:
        """Return the last product that a call reads itself or through a reshape; -1 for none."""
        sources = set(self.reads[reader])
        for view in [source for source in sources if self.kinds.get(source) == "view"]:
            sources.update(self.reads[view])
        return max((source for source in sources if self.kinds.get(source) in PRODUCTS), default=-1)

    def _group(self, members: Sequence[int], views: Sequence[int | None]) -> _Group | None:
        """Return the group of these calls; None where the order of calls or the rule does not allow it."""
        group = _Group(tuple(sorted(members)), tuple(sorted({view for view in views if view is not None})))
        return None if self._is_circular(group) or not self._is_taken(group) else group

    def _sources(self, group: _Group) -> set[int]:
        return {source for launch in group.launches for source in self.reads[launch]}.difference(group.launches)

    def _is_circular(self, group: _Group) -> bool:
        """Return whether a call outside of a group reads one of its results, and the group reads what that computes.

        Its reshapes are computed for others as well, after the group's call.
        """
        sources, visited = self._sources(group), set(group.members)
        pending = {reader for member in group.members for reader in self.readers[member]} - visited
        while pending:
            position = pending.pop()
            unit = self.group_of[position].members if position in self.group_of else (position,)
            if not sources.isdisjoint(unit):
                return True
            visited.update(unit)
            is_own_view = position in group.views
            readers = {reader for member in unit for reader in self.readers[member]}
            pending |= (readers.difference(group.members) if is_own_view else readers) - visited
        return False

    def _is_taken(self, group: _Group) -> bool:
        form = self._form(group)
        if form not in self._known:
            function = self._merged(group).function
            has_filters = any(self.kinds[member] == "filters" for member in group.members)
            self._known[form] = takes_filters(function) if has_filters else takes_chain(function, self.target)
        return self._known[form]

    def _form(self, group: _Group) -> Hashable:
        """Return what decides whether the rule takes a group."""
        return self._of_calls(form_of, group), *(self.kinds[member] == "filters" for member in group.members)

    def _merged(self, group: _Group) -> Merged:
        return self._of_calls(merged, group)

    def _of_calls(self, function: Callable[..., Any], group: _Group) -> Any:
        launches = [self.launches[position] for position in group.launches]
        return function(launches, lambda result: self._is_seen(result, group))

    def _is_seen(self, result: Var, group: _Group) -> bool:
        position = self.position_of[result]
        if position in group.views:
            return False
        readers = self.readers[position]
        inside = {*group.members, *(view for view in group.views if set(self.readers[view]) <= set(group.members))}
        return not isinstance(result, relax.DataflowVar) or any(reader not in inside for reader in readers)

    def rebuilt(self, builder: BlockBuilder) -> Iterator[Binding]:
        """Yield the bindings, with one call for each group."""
        units: dict[tuple[int, ...], _Group] = {}
        for position in range(len(self.bindings)):
            group = self.group_of.get(position, _Group((position,), ()))
            units[group.members] = group
        unit_of = {member: members for members in units for member in members}
        needed = {members: {unit_of[source] for source in self._sources(group)} for members, group in units.items()}
        for members in in_order(list(units), needed):
            if len(members) == 1:
                yield self.bindings[members[0]]
                continue
            name = merged_name([self.launches[member].name for member in members])
            yield from merged_call(self._merged(units[members]), name, builder)


def _only_product(function: PrimFunc) -> Product | None:
    """Return the product of a function whose only reduction it is."""
    products = products_of(function)
    return products[0] if len(products) == 1 else None


def _reads_packed_filters(launch: Launch, product: Product | None, weights: Collection[Var]) -> bool:
    """Return whether a call is a convolution whose filters are `weights`, which are packed for it."""
    if product is None or not packs_filters(product) or not isinstance(product.left, TensorLoad):
        return False
    pairs = zip(launch.function.params, launch.arguments, strict=False)
    return any(parameter.same_as(product.left.source) and argument in set(weights) for parameter, argument in pairs)


def _kind(function: PrimFunc, product: Product | None) -> str:
    """Return whether a function is a reshape (``view``), ``elements``, or has one ``product``; else an empty string."""
    if IMPERATIVE in (function.attrs or {}):
        return ""
    if product is not None:
        return "product" if is_tiled(product) else ""
    try:
        blocks = blocks_of(function)
    except (NotStaticLoopsError, ValueError):
        return ""
    if any(not facts.is_spatial for facts, _ in blocks):
        return ""
    return "view" if is_view(function) else "elements"
