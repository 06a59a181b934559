"""What goes around a loop: the names that it changes and somebody still reads, and the memory that it writes.

What these are is read off the syntax. What that misses (a type that the first turn changes, memory written inside a
called function) shows at the end of the body: `leave` raises `Again`, and the loop is made again, knowing it.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from mlirtri.dialect.builder import Tensor
from mlirtri.errors import KernelTypeError, UnknownNameError
from mlirtri.lowering.frontend.early_exits import VALUE, rebound, stored, written
from mlirtri.lowering.frontend.language.builder import describe
from mlirtri.lowering.frontend.language.merging import (
    Differs,
    Kind,
    common,
    flat,
    is_value,
    kind,
    packed,
    rebuilt,
    same,
    unpacked,
)
from mlirtri.lowering.frontend.language.storage import Storage, current, has_memory, own
from mlirtri.lowering.frontend.python_to_ast import span_of_node
from mlirtri.lowering.frontend.scope import POISON, Unavailable


class Again(Exception):
    """The loop has to be made again: its plan has changed."""


@dataclass
class LoopPlan:
    """What earlier attempts at a loop found out."""

    kinds: dict[str, list[Kind]] = field(default_factory=dict)
    """What the leaves of a name are, where the first value is something else."""
    likes: dict[str, Any] = field(default_factory=dict)
    """A value of the structure and types of a name that is first assigned in the loop and read after it."""
    storages: list[Storage] = field(default_factory=list)
    referenced: set[str] = field(default_factory=set)
    """Names that macros write in the loop."""
    shared: dict[str, set[Storage]] = field(default_factory=dict)
    """Names that are another name's memory in some turns, and which memory."""


class Carried:
    """One attempt at a loop."""

    def __init__(self, visitor: Any, node: Any, plan: LoopPlan, runs: bool):
        self.visitor, self.node, self.plan = visitor, node, plan
        self.runs = runs
        """Whether there is at least one turn."""
        self.b, self.scope = visitor.b, visitor.scope
        self.serial = self.b.memory.serial
        self.changed = {name for name in stored(node.body) if not has_memory(self.scope.locals.get(name))} | rebound(
            [*node.body, *([node.target] if isinstance(node, ast.For) else [])]
        )
        self.changed |= plan.referenced
        self.before = frozenset(self.scope.locals)
        self.names: dict[str, Any] = {}
        """Carried names with their first values."""
        self.kinds: dict[str, list[Kind]] = {}
        """Carried names with what their leaves are."""
        self.entered: dict[str, list[Tensor]] = {}
        """What the names came in as in this turn: memory that the next turn may take over."""
        self.fixed: dict[str, Any] = {}
        """Names known at compile time, which no turn may change."""
        self.initial: list[Tensor] = []
        self.late: dict[str, UnknownNameError] = {}
        if node.flag:
            self.scope.locals[node.flag] = True
        self._find_names()
        self.storages = self._find_storages()
        self.initial += [storage.value for storage in self.storages]

    def _find_names(self) -> None:
        wanted = self.changed & (self.node.live_body | {self.node.flag} | self.plan.referenced)
        for name in sorted(wanted | (self.plan.likes.keys() & self.changed)):
            if (like := self.plan.likes.get(name)) is not None and name not in self.scope.locals:
                self._carry(name, rebuilt(like, iter([self._nothing(each) for each in flat(like)])))
            elif name in self.scope.locals:
                value = self.scope.locals[name] = current(self.b.tri, self.scope.locals[name])
                if is_value(value):
                    self._carry(name, value)
                else:
                    self.fixed[name] = value

    def _carry(self, name: str, value: Any) -> None:
        leaves = flat(value)
        try:
            kinds = self.plan.kinds.get(name) or [kind(each) for each in leaves]
        except Differs as differs:
            raise KernelTypeError(
                f"{name!r} goes around this loop as {differs}", span_of_node(self.visitor.file, self.node)
            ) from None
        self.names[name], self.kinds[name] = value, kinds
        for each, wanted in zip(leaves, kinds, strict=True):
            self.initial += packed(self.b, each, wanted)
        if name not in self.plan.likes:
            self._note_sharing(name, [each.origin.storage for each in leaves if has_memory(each)])

    def _note_sharing(self, name: str, storages: Sequence[Storage]) -> None:
        """Memory that others know, too: rebinding the name is no write into that."""
        for storage in storages:
            others = [n for n, v in self.scope.locals.items() if n != name and _holds(v, storage)]
            if others or storage.serial < self.visitor.entry_serial:
                self.plan.shared.setdefault(name, set()).add(storage)

    def _nothing(self, like: Kind) -> Tensor:
        """The content of a name that no turn has assigned yet, and nobody reads."""
        made = self.b.tri.constant(0, like.type.dtype, like.type.shape)
        return Tensor(made.value, made.type, like.weak)

    def _find_storages(self) -> list[Storage]:
        found: dict[Storage, None] = {}
        statements = [*self.node.body, *([self.node.test] if isinstance(self.node, ast.While) else [])]
        for name in sorted(written(statements)):
            value = self.scope.locals.get(name)
            found |= dict.fromkeys(each.origin.storage for each in flat(value) if has_memory(each))
        return list(found | dict.fromkeys(self.plan.storages))

    def split(self, values: Sequence[Tensor]) -> tuple[dict[str, Any], list[Tensor]]:
        """Values that go around, as names and memories have them."""
        left, names = iter(values), {}
        for name, first in self.names.items():
            parts = [[next(left) for _ in wanted.types] for wanted in self.kinds[name]]
            self.entered[name] = [whole for whole, *_ in parts]
            leaves = [unpacked(self.b, *each) for each in zip(self.kinds[name], map(iter, parts), strict=True)]
            names[name] = rebuilt(first, iter(leaves))
        return names, list(left)

    def enter(self, values: Sequence[Tensor]) -> None:
        """A turn begins, or what follows the loop."""
        names, memories = self.split(values)
        for storage, value in zip(self.storages, memories, strict=True):
            self.b.memory.put(storage, value)
        for name, value in names.items():
            owned = own(value)
            for each in flat(owned):
                if has_memory(each) and name in self.plan.shared:
                    each.origin.storage.share(name, self.plan.shared[name])
            self.scope.locals[name] = owned

    def leave(self) -> list[Tensor]:
        """What a turn hands on; raises `Again` when the loop should have been entered with something else."""
        again = self._find_unplanned()
        yielded: list[Tensor] = []
        for name, first in self.names.items():
            leaves, kinds = self._leaves(name, first), self.kinds[name]
            grown = [self._grown(name, *each) for each in zip(flat(first), kinds, leaves, strict=True)]
            if grown != kinds:
                self.plan.kinds[name] = grown
                again = True
            elif not again:
                for each in zip(leaves, kinds, self.entered[name], strict=True):
                    yielded += packed(self.b, *each)
        if self._find_sharing() or again:
            raise Again
        return [*yielded, *(storage.value for storage in self.storages)]

    def _leaves(self, name: str, first: Any) -> list[Any]:
        value = self.scope.locals[name]
        if isinstance(value, Unavailable):
            raise value.error
        value = self.scope.locals[name] = current(self.b.tri, value)
        leaves = flat(value)
        if value is POISON or not is_value(value) or len(leaves) != len(flat(first)):
            self._refuse(name, first, value)
        return leaves

    def _grown(self, name: str, first: Any, known: Kind, leaf: Any) -> Kind:
        try:
            return common(known, kind(leaf), growing=True)
        except Differs:
            self._refuse(name, first, leaf)

    def _refuse(self, name: str, first: Any, value: Any) -> NoReturn:
        shown = "the value returned" if name == VALUE else repr(name)
        raise KernelTypeError(
            f"{shown} is {describe(first)} before this loop, and {describe(value)} after a turn",
            span_of_node(self.visitor.file, self.node),
            help="give it that shape and dtype before the loop; one that a loop changes at run time keeps its type",
        )

    def _find_unplanned(self) -> bool:
        """Memory written that is not carried, and names first assigned here that are read later."""
        known = {*self.storages, *self.plan.storages}
        unplanned = [s for s in self.b.memory.journals[-1] if s not in known and s.serial < self.serial]
        self.plan.storages += unplanned
        by_macros = (self.scope.referenced - self.plan.referenced) & self.before
        self.plan.referenced |= by_macros
        again = bool(unplanned or by_macros)
        for name in sorted((self.changed & self.node.live_out) - self.names.keys()):
            value = self.scope.locals.get(name)
            if name in self.fixed:
                if not same(value, self.fixed[name]):
                    self._refuse(name, self.fixed[name], value)
            elif value is None or not is_value(value):
                continue
            elif self.runs or name.startswith("."):
                value = current(self.b.tri, value)
                self.plan.likes[name] = rebuilt(value, iter([kind(each) for each in flat(value)]))
                again = True
            else:
                self.late[name] = UnknownNameError(
                    f"name {name!r} is assigned in this loop only, which may have no turn",
                    span_of_node(self.visitor.file, self.node),
                    help="assign it before the loop",
                )
        return again

    def _find_sharing(self) -> bool:
        """Names that end a turn as views of other memory: the next turn begins with a copy of it."""
        owners: dict[Storage, set[str]] = {}
        for name in self.names:
            for each in flat(self.scope.locals[name]):
                if has_memory(each):
                    owners.setdefault(each.origin.storage, set()).add(name)
        again = False
        for storage, names in owners.items():
            if len(names) < 2 and storage.serial > self.serial:
                continue
            for name in names:
                shared = self.plan.shared.setdefault(name, set())
                fresh = storage if storage.serial < self.serial else None
                again = again or fresh not in shared
                shared.add(fresh)
        return again

    def exit(self, results: Sequence[Tensor]) -> None:
        """The loop is over: names and memory hold its results."""
        self.enter(results)
        for name in self.changed - self.names.keys() - self.fixed.keys():
            self.scope.locals.pop(name, None)
        for name, error in self.late.items():
            self.scope.locals[name] = Unavailable(error)


def _holds(value: Any, storage: Storage) -> bool:
    return any(has_memory(each) and each.origin.storage is storage for each in flat(value))
