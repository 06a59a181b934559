"""Branches of a kernel: `if`, conditional expressions, `and`, `or`, on conditions known now or at run time.

A condition known now is folded, and the other arm is not looked at. At run time both arms are made, and every name
alive afterwards that they leave different becomes a result of an `scf.if`, as does all memory that they write.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from mlirtri.dialect.bindings.mlir import ir
from mlirtri.dialect.builder import Tensor
from mlirtri.errors import KernelTypeError, Note, Span, UnknownNameError
from mlirtri.lowering.frontend.early_exits import CHOSEN, VALUE, stored
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
from mlirtri.lowering.frontend.language.scf import Arms, condition_of
from mlirtri.lowering.frontend.language.storage import Storage, current, has_memory, own
from mlirtri.lowering.frontend.python_to_ast import span_of_node
from mlirtri.lowering.frontend.scope import Poisoned, Unavailable


class Returned:
    """A return statement was reached."""

    def __init__(self, value: Any):
        self.value = value


@dataclass
class _Arm:
    """What an arm left behind."""

    value: Any
    names: dict[str, Any]
    written: dict[Storage, Tensor]


class Branches:
    """The methods of branches."""

    def visit_If(self, node: ast.If) -> Returned | None:
        condition = self.truth(node.test)
        if not isinstance(condition, Tensor):
            return self.block(node.body if condition else node.orelse)
        arms = [lambda body=body: self._arm(body) for body in (node.body, node.orelse)]
        live = getattr(node, "live_out", frozenset()) | {VALUE}
        places = tuple(_first(self.file, body, node) for body in (node.body, node.orelse))
        first, second = self.choose(condition, arms, live, places)
        if first is None and second is None:
            return None
        if first is None or second is None:
            raise KernelTypeError(
                "one arm of this `if` returns a value and the other ends the function without one",
                span_of_node(self.file, node),
                help="return a value in both",
            )
        value = self.scope.locals.pop(VALUE)
        if isinstance(value, Unavailable):
            raise value.error
        return Returned(value)

    def _arm(self, body: list[ast.stmt]) -> bool | None:
        """Run an arm; a value that it returns is kept under a name, to be merged as names are."""
        before = len(self.errors)
        returned = self.block(body)
        if len(self.errors) > before:
            raise Poisoned
        if returned is None:
            return None
        self.scope.locals[VALUE] = returned.value
        return True

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        condition = self.truth(node.test)
        if not isinstance(condition, Tensor):
            return self.visit(node.body if condition else node.orelse)
        return self.one_of(condition, lambda: self.visit(node.body), lambda: self.visit(node.orelse), node)

    def one_of(self, condition: Tensor, first: Callable[[], Any], second: Callable[[], Any], node: ast.expr) -> Any:
        """The value of one of two expressions."""

        def keeping(run: Callable[[], Any]) -> Callable[[], Any]:
            def arm() -> None:
                self.scope.locals[CHOSEN] = own(run())

            return arm

        places = (span_of_node(self.file, node), span_of_node(self.file, node))
        self.choose(condition, [keeping(first), keeping(second)], {CHOSEN, *stored(node)}, places)
        value = self.scope.read(CHOSEN, self.b.tri)
        self.scope.locals.pop(CHOSEN)
        return value

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        """Python's `and` and `or`: the first operand that decides, or the last; on run-time numbers too."""
        is_or = isinstance(node.op, ast.Or)
        value = self.visit(node.values[0])
        for each in node.values[1:]:
            truth = self.truth_of(value, node.values[0])
            if not isinstance(truth, Tensor):
                if truth == is_or:
                    return value
                value = self.visit(each)
                continue
            value = self._either(is_or, value, truth, each)
        return value

    def _either(self, is_or: bool, value: Any, truth: Tensor, right: ast.expr) -> Any:
        simple = not any(isinstance(part, (ast.Call, ast.NamedExpr)) for part in ast.walk(right))
        if simple and truth is value and not self.b.debug:
            # Nothing of it can be noticed: both sides are computed, and combined without a branch.
            other = self.visit(right)
            if isinstance(other, Tensor) and other.type == truth.type:
                combined = (self.b.tri.logical_or if is_or else self.b.tri.logical_and)(truth, other)
                return replace(combined, weak=truth.weak and other.weak)
            decided = lambda: other  # noqa: E731 - the same value, whichever way it is combined
        else:
            decided = lambda: self.visit(right)  # noqa: E731
        arms = (lambda: value, decided) if is_or else (decided, lambda: value)
        return self.one_of(truth, *arms, right)

    # --- conditions --------------------------------------------------------------------------------------------------

    def truth(self, test: ast.expr) -> bool | Tensor:
        """What a condition is worth: known now, or a bool of rank 0."""
        return self.truth_of(self.visit(test), test)

    def truth_of(self, value: Any, node: ast.expr) -> bool | Tensor:
        if not isinstance(value, Tensor):
            return bool(value)
        if value.type.rank:
            if value.type.size != 1:
                raise KernelTypeError(
                    f"the truth of {describe(value)} is not one of true and false",
                    span_of_node(self.file, node),
                    help="use .any() or .all(), or where(condition, x, y) to choose element by element",
                )
            value = self.b.reshape(value, ())
        if value.type.dtype.is_bool:
            return value
        zero = self.b.tri.constant(0, value.type.dtype)
        return self.b.tri.not_equal(value, zero)

    # --- two arms ----------------------------------------------------------------------------------------------------

    def choose(
        self,
        condition: Tensor,
        runs: list[Callable[[], Any]],
        live: Iterable[str],
        places: tuple[Span, Span],
    ) -> tuple[Any, Any]:
        """Make both arms, and merge the names of `live` and all memory; gives what the arms gave."""
        location = self.b.tri.location
        arms = Arms(condition_of(condition, location), location)
        before, serial = dict(self.scope.locals), self.b.memory.serial
        try:
            made = [self._make(arms.blocks[at], run, live) for at, run in enumerate(self._fresh(runs, before))]
            self.scope.locals = dict(before)
            self._merge(arms, made, before, sorted({*live, *self.scope.referenced}), places, serial)
        except BaseException:
            self.scope.locals = before
            arms.abandon()
            raise
        return made[0].value, made[1].value

    def _fresh(self, runs: list[Callable[[], Any]], before: dict[str, Any]) -> Iterable[Callable[[], Any]]:
        for run in runs:
            self.scope.locals = dict(before)
            yield run

    def _make(self, block: Any, run: Callable[[], Any], live: Iterable[str]) -> _Arm:
        with ir.InsertionPoint(block), self.b.memory.watched() as journal:
            try:
                value = run()
                for name in sorted({*live, *self.scope.referenced}):
                    if name in self.scope.locals:
                        self.scope.locals[name] = current(self.b.tri, self.scope.locals[name])
                written = {storage: storage.value for storage in journal}
                return _Arm(value, self.scope.locals, written)
            finally:
                self.b.memory.rewind(journal)

    def _merge(
        self, arms: Arms, made: list[_Arm], before: dict[str, Any], live: list[str], places: tuple[Span, Span],
        serial: int,
    ) -> None:  # fmt: skip
        pairs: list[tuple[Tensor, Tensor]] = []
        storages = [s for s in dict.fromkeys([*made[0].written, *made[1].written]) if s.serial <= serial]
        pairs += [(made[0].written.get(s, s.value), made[1].written.get(s, s.value)) for s in storages]
        merged: dict[str, Any] = {}
        for name in live:
            self._merge_name(name, arms, made, before, pairs, merged, places)
        results = arms.finish(pairs)
        for storage, value in zip(storages, results, strict=False):
            self.b.memory.put(storage, value)
        values = iter(results[len(storages) :])
        for name, value in merged.items():
            if isinstance(value, _Pending):
                leaves = [unpacked(self.b, each, values) for each in value.kinds]
                value = own(rebuilt(value.like, iter(leaves)))
                _freeze(value, name, made, serial)
            self.scope.locals[name] = value

    def _merge_name(
        self, name: str, arms: Arms, made: list[_Arm], before: dict[str, Any], pairs: list, merged: dict[str, Any],
        places: tuple[Span, Span],
    ) -> None:  # fmt: skip
        values = [arm.names.get(name, _ABSENT) for arm in made]
        x, y = values
        if x is _ABSENT and y is _ABSENT:
            return
        shown = name if not name.startswith(".") else "the value"
        if x is _ABSENT or y is _ABSENT:
            if name == VALUE:
                merged[name] = y if x is _ABSENT else x
                return
            where, other = places if y is _ABSENT else places[::-1]
            merged[name] = Unavailable(
                UnknownNameError(
                    f"name {shown!r} is assigned in one arm of this `if` only",
                    where,
                    help="assign it before the `if`, or in both arms",
                    notes=(Note("this arm does not assign it", other),),
                )
            )
            return
        if same(x, y) or isinstance(x, Unavailable) or isinstance(y, Unavailable):
            merged[name] = y if isinstance(y, Unavailable) else x
            return
        if (view := _common_view(x, y, before.get(name))) is not None:
            merged[name] = view
            return
        try:
            merged[name] = self._pair(x, y, arms, pairs)
        except Differs as differs:
            merged[name] = Unavailable(
                KernelTypeError(
                    f"after this `if`, {shown} would be one of {differs}",
                    places[0],
                    help="give it one shape and dtype in both arms",
                    notes=(Note("the other arm is here", places[1]),),
                )
            )

    def _pair(self, x: Any, y: Any, arms: Arms, pairs: list) -> _Pending:
        if not (is_value(x) and is_value(y)):
            raise Differs(f"{describe(x)} and {describe(y)}, which are known at compile time only")
        leaves = flat(x), flat(y)
        if len(leaves[0]) != len(leaves[1]):
            raise Differs(f"{describe(x)} and {describe(y)}")
        kinds = [common(kind(a), kind(b)) for a, b in zip(*leaves, strict=True)]
        for a, b, wanted in zip(*leaves, kinds, strict=True):
            sides = []
            for block, side in zip(arms.blocks, (a, b), strict=True):
                with ir.InsertionPoint(block):
                    sides.append(packed(self.b, side, wanted))
            pairs += zip(*sides, strict=True)
        return _Pending(x, tuple(kinds))


@dataclass(frozen=True)
class _Pending:
    """A merged value whose leaves are the next results of the `scf.if`."""

    like: Any
    kinds: tuple[Kind, ...]


_ABSENT = object()


def _common_view(x: Any, y: Any, before: Any) -> Any:
    """What a name held before, if in both arms it is still that view of memory, whose content may have changed."""
    views = [each.origin if isinstance(each, Tensor) else None for each in (x, y, before)]
    if None in views or any(v.storage is not views[2].storage or v.steps != views[2].steps for v in views):
        return None
    return replace(before, origin=replace(views[2], version=-1))


def _freeze(value: Any, name: str, made: list[_Arm], serial: int) -> None:
    """Memory that a name may share, depending on the arm taken, cannot be written: nobody knows who would see it."""
    if not has_memory(value):
        return
    for arm in made:
        if not has_memory(arm.names[name]):
            continue
        storage = arm.names[name].origin.storage
        if storage.serial <= serial:
            value.origin.storage.share(name, [storage])
        elif any(n != name and _shares(v, storage) for n, v in arm.names.items()):
            value.origin.storage.share(name, [])


def _shares(value: Any, storage: Storage) -> bool:
    return any(has_memory(each) and each.origin.storage is storage for each in flat(value))


def _first(file: str, body: list[ast.stmt], node: ast.stmt) -> Span:
    return span_of_node(file, body[0] if body else node)
