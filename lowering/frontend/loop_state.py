"""The iter_args of a loop: the live names that its body assigns, and the memory that it writes.

They are first derived from the syntax of the body, before it is emitted. What that misses (a type that the first
iteration changes, memory written inside a called function) shows at the end of the body: `leave` notes it in the loop's
`LoopPlan` and raises `IterArgsChanged`, and `loops.py` discards what was emitted and emits the loop again.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NoReturn

from mlirtri.dialect.base.dtypes import DTYPES
from mlirtri.dialect.bindings.mlir import all_operations_in, ir
from mlirtri.dialect.builder import KernelValue, TriValue
from mlirtri.errors import KernelTypeError
from mlirtri.lowering.frontend.context import FunctionContext, IterArgsChanged, LoopPlan
from mlirtri.lowering.frontend.scope import FAILED, FailedAssignment, Unavailable
from mlirtri.lowering.frontend.semantics import merging
from mlirtri.lowering.frontend.semantics.builder import describe
from mlirtri.lowering.frontend.semantics.container_values import alike, identities, renewed
from mlirtri.lowering.frontend.semantics.storage import Storage, current, has_memory, with_memory
from mlirtri.lowering.frontend.syntax.early_exits import VALUE, rebound, stored, written

GROWING = (
    "a list has as many elements as are known while compiling: fill an array by index, or loop over "
    "mlirtri.static_range(…)"
)


@dataclass(frozen=True)
class _Names:
    """The names that the syntax of a loop says something of."""

    bound: set[str]
    rebound: set[str]
    written: list[str]
    """Sorted."""


@lru_cache(maxsize=1024)
def _names_in(node: Any) -> _Names:
    """Return the names of a loop, which is emitted several times, and in each call of its function."""
    first = node.target if isinstance(node, ast.For) else node.test
    statements = [first, *node.body]
    return _Names(stored(statements), rebound(statements), sorted(written(statements)))


class LoopState:
    """One attempt at emitting a loop."""

    def __init__(self, context: FunctionContext, node: Any, plan: LoopPlan, runs: bool):
        self.context, self.node, self.plan = context, node, plan
        self.runs = runs
        """Whether at least one iteration runs."""
        self.b, self.scope = context.b, context.scope
        self.serial = self.b.memory.serial
        self.syntax = _names_in(node)
        self.changed = {name for name in self.syntax.bound if not has_memory(self.scope.locals.get(name))}
        self.changed |= self.syntax.rebound | plan.referenced
        self.always = stored(node.test) if isinstance(node, ast.While) else set()
        """Names that the first evaluation of the condition assigns."""
        self.outer_names = frozenset(self.scope.locals)
        # Macros before the loop may have assigned a name that the body only reads.
        self.referenced_before, self.scope.referenced = self.scope.referenced, set()
        self.names: dict[str, Any] = {}
        """Loop-carried names with their initial values."""
        self.kinds: dict[str, list[merging.Kind | merging.Known]] = {}
        """Loop-carried names with the types of their leaves."""
        self.entered: dict[str, list[TriValue | None]] = {}
        """The tensors of each name at the start of this iteration, which `leave` may overwrite."""
        self.fixed: dict[str, Any] = {}
        """Names with compile-time values, which no iteration may change."""
        self.initial: list[TriValue] = []
        self.checked_before: dict[Storage, TriValue] = {}
        """Flags of checks with their values at the start of an iteration that does not see them."""
        if node.flag:
            self.scope.locals[node.flag] = True
        self._find_names()
        self.storages = self._find_storages()
        self.initial += [storage.value for storage in self.storages]

    def _find_names(self) -> None:
        carried = self.changed & (self.node.live_body | {self.node.flag} | self.plan.referenced)
        for name in sorted(carried | (self.plan.templates.keys() & self.changed)):
            if (template := self.plan.templates.get(name)) is not None and name not in self.scope.locals:
                # The first iteration assigns it before it is read, or reading it raises.
                zeros = [merging.zeros(self.b, leaf) for leaf in merging.flat(template)]
                self._carry(name, merging.rebuilt(template, iter(zeros)))
            elif name in self.scope.locals:
                value = self.scope.locals[name] = current(self.b.tri, self.scope.locals[name])
                if merging.is_carried(value):
                    self._carry(name, value)
                else:
                    self.fixed[name] = value

    def _carry(self, name: str, value: Any) -> None:
        if name in self.plan.renewed:
            value = renewed(value, self.plan.renewed[name])
        leaves = merging.flat(value)
        try:
            planned = self.plan.kinds.get(name, [])
            kinds = planned if len(planned) == len(leaves) else [self._kind(value, leaf) for leaf in leaves]
            # An earlier attempt at a loop around had other values in their place.
            pairs = zip(kinds, leaves, strict=True)
            kinds = [merging.Known(leaf) if isinstance(old, merging.Known) else old for old, leaf in pairs]
        except merging.Differs as differs:
            raise KernelTypeError(
                f"{name!r} goes around this loop as {differs}", self.context.span(self.node)
            ) from None
        self.names[name], self.kinds[name] = value, kinds
        for leaf, leaf_kind in zip(leaves, kinds, strict=True):
            self.initial += merging.packed(self.b, leaf, leaf_kind)
        if name not in self.plan.templates:
            pairs = zip(leaves, kinds, strict=True)
            moved = [leaf for leaf, leaf_kind in pairs if not isinstance(leaf_kind, merging.Known)]
            self._note_sharing(name, [leaf.origin.storage for leaf in moved if has_memory(leaf)])

    def _kind(self, value: Any, leaf: Any) -> merging.Kind | merging.Known:
        """Return the type of an element that goes around; arrays of a list or dict stay, until one proves to move."""
        is_element = isinstance(value, (list, dict))
        if is_element and (has_memory(leaf) or not merging.is_value(leaf)):
            return merging.Known(leaf)
        return merging.kind(leaf)

    def _note_sharing(self, name: str, storages: Sequence[Storage]) -> None:
        """Record memory that other names alias: rebinding this name does not write it."""
        for storage in storages:
            if storage.frozen or storages.count(storage) > 1 or self.context.is_shared(name, storage):
                self.plan.shared.setdefault(name, set()).add(storage)

    def _find_storages(self) -> list[Storage]:
        storages: dict[Storage, None] = {}
        for name in self.syntax.written:
            value = self.scope.locals.get(name)
            storages |= dict.fromkeys(leaf.origin.storage for leaf in merging.flat(value) if has_memory(leaf))
        return list(storages | dict.fromkeys(self.plan.storages))

    def split(self, values: Sequence[TriValue]) -> tuple[dict[str, KernelValue], list[TriValue]]:
        """Return the values of the iter_args by name, and those of the memory."""
        remaining, names = iter(values), {}
        for name, first in self.names.items():
            parts = [[next(remaining) for _ in leaf_kind.types] for leaf_kind in self.kinds[name]]
            self.entered[name] = [buffers[0] if buffers else None for buffers in parts]
            pairs = zip(self.kinds[name], map(iter, parts), strict=True)
            leaves = [merging.unpacked(self.b, leaf_kind, values) for leaf_kind, values in pairs]
            names[name] = merging.rebuilt(first, iter(leaves))
        return names, list(remaining)

    def labels(self) -> list[str]:
        """Return the user's names of the iter_args; those without one have the name of what they hold."""
        labels = [name for name in self.names for leaf_kind in self.kinds[name] for _ in leaf_kind.types]
        locals_ = self.scope.locals
        for storage in self.storages:
            aliases = [name for name in locals_ if merging.aliases(locals_[name], storage) and name.isidentifier()]
            labels.append(min(aliases, default="a value"))
        return labels

    def enter(self, values: Sequence[TriValue]) -> None:
        """Bind names and memory to the values of the iter_args at the start of an iteration, or after the loop."""
        names, memories = self.split(values)
        for storage, value in zip(self.storages, memories, strict=True):
            self.b.memory.put(storage, value)
        for name, value in names.items():
            owned = with_memory(value)
            for leaf in merging.flat(owned):
                if has_memory(leaf) and name in self.plan.shared:
                    leaf.origin.storage.share(name, self.plan.shared[name])
            self.scope.locals[name] = owned

    def separate_checks(self) -> None:
        """Begin an iteration of a parallel loop with checks of its own, if the loop needs that."""
        if self.plan.separates_checks:
            self.checked_before = {status: status.value for status in self._statuses()}
            for status in self.checked_before:
                self.b.memory.put(status, self.b.tri.constant(False, DTYPES["bool"]))

    def join_checks(self, body: ir.Block) -> None:
        """End such an iteration; raises `IterArgsChanged` if a `while` in the loop's body makes it necessary."""
        for status, before in self.checked_before.items():
            self.b.memory.put(status, self.b.tri.logical_or(before, status.value))
        has_while = any(inner.name == "scf.while" for inner in all_operations_in(body.owner.operation))
        if has_while and not self.plan.separates_checks and self._statuses():
            self.plan.separates_checks = True
            raise IterArgsChanged

    def _statuses(self) -> list[Storage]:
        flags = [status for status, *_ in self.b.pending_checks]
        return [storage for storage in self.storages if storage in flags]

    def leave(self) -> list[TriValue]:
        """Return the values that an iteration yields; raises `IterArgsChanged` if the loop needs other iter_args."""
        is_changed = self._find_unplanned()
        yielded: list[TriValue] = []
        for name, first in self.names.items():
            leaves, kinds = self._leaves(name, first), self.kinds[name]
            parts = zip(merging.flat(first), kinds, leaves, strict=True)
            grown = [self._grown(name, initial, planned, leaf) for initial, planned, leaf in parts]
            if grown != kinds or self._is_another(name, first):
                self.plan.kinds[name] = grown
                is_changed = True
            elif not is_changed:
                self.kinds[name] = grown
                for leaf, leaf_kind, buffer in zip(leaves, kinds, self.entered[name], strict=True):
                    yielded += merging.packed(self.b, leaf, leaf_kind, buffer)
        if self._find_sharing() or is_changed:
            raise IterArgsChanged
        return [*yielded, *(storage.value for storage in self.storages)]

    def _leaves(self, name: str, first: Any) -> list[Any]:
        value = self.scope.locals[name]
        if isinstance(value, Unavailable):
            raise value.error
        if value is FAILED:
            raise FailedAssignment
        if isinstance(first, merging.MaybeBound):
            value = merging.maybe_bound(value)
        value = self.scope.locals[name] = current(self.b.tri, value)
        leaves = merging.flat(value)
        if not merging.is_carried(value) or not alike(first, value):
            self._refuse(name, first, value)
        return leaves

    def _is_another(self, name: str, first: Any) -> bool:
        """Return whether a name holds another list or dict than before, which was not planned, and plan for it."""
        pairs = list(zip(identities(first), identities(self.scope.locals[name]), strict=True))
        if name in self.plan.renewed or all(before is after for before, after in pairs):
            return False
        changed = [identity for before, after in pairs if before is not after for identity in (before, after)]
        names = {other for identity in changed for other in merging.holders(self.scope.locals, identity)}
        is_fixed = any(identity.fixed for identity in changed)
        self.plan.renewed[name] = merging.EITHER if is_fixed or names - {name} else None
        return True

    def _grown(self, name: str, first: Any, planned: Any, leaf: Any) -> merging.Kind | merging.Known:
        try:
            if isinstance(planned, merging.Known):
                is_same = merging.is_same_view(planned.value, leaf) or merging.same(planned.value, leaf)
                return planned if is_same else merging.common(merging.kind(first), merging.kind(leaf), growing=True)
            return merging.common(planned, merging.kind(leaf), growing=True)
        except merging.Differs:
            self._refuse(name, first, leaf)

    def _refuse(self, name: str, first: Any, value: Any) -> NoReturn:
        if isinstance(value, Unavailable):
            raise value.error
        shown = "the value returned" if name == VALUE else repr(name)
        is_growing = isinstance(first, (list, dict)) and isinstance(value, (list, dict)) and len(first) != len(value)
        raise KernelTypeError(
            f"{shown} is {describe(first)} before this loop, and {describe(value)} after an iteration",
            self.context.span(self.node),
            help=GROWING
            if is_growing
            else "give it that shape and dtype before the loop; one that a loop changes at run time keeps its type",
        )

    def _find_unplanned(self) -> bool:
        """Plan for memory that is written but not carried, and for names first assigned here and read later."""
        carried = {*self.storages, *self.plan.storages}
        unplanned = [s for s in self.b.memory.journals[-1] if s not in carried and s.serial < self.serial]
        self.plan.storages += unplanned
        by_macros = (self.scope.referenced - self.plan.referenced) & self.outer_names
        self.plan.referenced |= by_macros
        self.scope.referenced |= self.referenced_before
        is_changed = bool(unplanned or by_macros)
        read_later = (self.changed & self.node.live_out) | (self.always & self.node.live_body)
        for name in sorted(read_later - self.names.keys()):
            value = self.scope.locals.get(name)
            if name in self.fixed:
                if not merging.same(value, self.fixed[name]):
                    self._refuse(name, self.fixed[name], value)
                self.scope.locals[name] = merging.joined(value, value, self.fixed[name], lambda _: True)
            elif value is None or not merging.is_value(value):
                continue
            else:
                is_assigned = self.runs or name in self.always or name.startswith(".")
                if name.startswith(".") and isinstance(value, merging.MaybeBound):
                    value = value.value
                value = current(self.b.tri, value if is_assigned else merging.maybe_bound(value))
                self.plan.templates[name] = merging.rebuilt(
                    value, iter([merging.kind(leaf) for leaf in merging.flat(value)])
                )
                is_changed = True
        return is_changed

    def _find_sharing(self) -> bool:
        """Plan for names that end an iteration as views of other memory: the next one begins with a copy of it."""
        owners: dict[Storage, list[str]] = {}
        for name in self.names:
            leaves = merging.flat(self.scope.locals[name])
            pairs = zip(leaves, self.kinds[name], strict=True)
            kept = {id(leaf) for leaf, leaf_kind in pairs if isinstance(leaf_kind, merging.Known)}
            for leaf in leaves:
                if has_memory(leaf) and id(leaf) not in kept:
                    owners.setdefault(leaf.origin.storage, []).append(name)
        is_changed = False
        for storage, names in owners.items():
            outer = {other for other in (storage, *storage.mirrored) if other.serial < self.serial}
            if len(names) < 2 and not outer and not storage.frozen:
                continue
            for name in names:
                shared = self.plan.shared.setdefault(name, set())
                is_changed = is_changed or not (outer or {None}) <= shared
                shared |= outer or {None}
        return is_changed

    def exit(self, results: Sequence[TriValue]) -> None:
        self.enter(results)
        for name in self.changed - self.names.keys() - self.fixed.keys():
            self.scope.locals.pop(name, None)
