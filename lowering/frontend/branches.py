"""Branches of a kernel: `if`, conditional expressions, `and`, `or`, on compile-time or run-time conditions.

A compile-time condition is folded, and the other arm is not visited. For a run-time one both arms are emitted; every
live name whose values differ becomes a result of an `scf.if`, as does all memory that the arms write.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mlirtri.dialect.bindings.mlir import ir
from mlirtri.dialect.builder import KernelValue, TriValue
from mlirtri.errors import KernelTypeError, Note, Span, UnknownNameError
from mlirtri.lowering.frontend.context import RAISED, FunctionContext, Returned, handles, visit, visit_block
from mlirtri.lowering.frontend.operators import ONLY_TRUTH, condition, predicate_at
from mlirtri.lowering.frontend.raising import raise_where
from mlirtri.lowering.frontend.scope import FailedAssignment, Unavailable
from mlirtri.lowering.frontend.semantics import merging
from mlirtri.lowering.frontend.semantics.builder import describe
from mlirtri.lowering.frontend.semantics.container_values import Identity, alike
from mlirtri.lowering.frontend.semantics.scf import Arms, condition_of
from mlirtri.lowering.frontend.semantics.storage import Storage, current, either, has_memory, with_memory
from mlirtri.lowering.frontend.syntax.early_exits import CHOSEN, VALUE, stored
from mlirtri.lowering.frontend.syntax.plain_statements import SequenceOf

RETURNS, RETURNS_NONE, RAISES = "returns", "returns None", "raises"
"""How an arm ends; "" for one that runs past its last statement, which ends the function if the other arm returns."""
Evaluate = Callable[[FunctionContext, ast.expr], Any]
"""`visit`, or `condition` where only the truth of an operand counts."""


@handles(ast.If)
def visit_if(context: FunctionContext, node: ast.If) -> Returned | None:
    test = condition(context, node.test)
    if not isinstance(test, TriValue):
        return visit_block(context, node.body if test else node.orelse)
    for arm, other, is_negated in ((node.body, node.orelse, False), (node.orelse, node.body, True)):
        if len(arm) == 1 and isinstance(arm[0], ast.Raise):
            raise_where(context, context.b.tri.logical_not(test) if is_negated else test, arm[0])
            return visit_block(context, other)
    bodies = [lambda body=body: _visit_arm(context, body) for body in (node.body, node.orelse)]
    live = getattr(node, "live_out", frozenset()) | {VALUE}
    spans = tuple(context.span(body[0] if body else node) for body in (node.body, node.orelse))
    first, second = emit_if(context, test, bodies, live, spans)
    if RAISES in (first, second) and {first, second} <= {RAISES, ""}:
        return RAISED if first == second else None
    if not first and not second:
        return None
    if RETURNS not in (first, second):
        return Returned(None)
    if first in ("", RETURNS_NONE) or second in ("", RETURNS_NONE):
        raise KernelTypeError(
            "one arm of this `if` returns a value and the other ends the function without one",
            context.span(node),
            help="return a value in both",
        )
    value = context.scope.locals.pop(VALUE)
    if isinstance(value, Unavailable):
        raise value.error
    return Returned(value.value if isinstance(value, merging.MaybeBound) else value)


def _visit_arm(context: FunctionContext, body: list[ast.stmt]) -> str:
    """Return how an arm ends, if not by its last statement; what it returns is bound to a name, to be merged."""
    error_count = len(context.errors)
    returned = visit_block(context, body)
    if len(context.errors) > error_count:
        raise FailedAssignment
    if returned is None or returned is RAISED:
        return "" if returned is None else RAISES
    if returned.value is None:
        return RETURNS_NONE
    context.scope.locals[VALUE] = returned.value
    return RETURNS


@handles(ast.IfExp)
def visit_if_exp(context: FunctionContext, node: ast.IfExp) -> KernelValue:
    test = condition(context, node.test)
    if not isinstance(test, TriValue):
        return visit(context, node.body if test else node.orelse)
    return select(context, test, lambda: visit(context, node.body), lambda: visit(context, node.orelse), node)


def select(
    context: FunctionContext,
    test: TriValue,
    first: Callable[[], KernelValue],
    second: Callable[[], KernelValue],
    node: ast.expr,
) -> KernelValue:

    def stored_as_chosen(expression: Callable[[], Any]) -> Callable[[], Any]:
        def arm() -> None:
            context.scope.locals[CHOSEN] = with_memory(expression())

        return arm

    span, arms = context.span(node), [stored_as_chosen(first), stored_as_chosen(second)]
    emit_if(context, test, arms, {CHOSEN, *stored(node)}, (span, span))
    value = context.scope.read(CHOSEN, context.b)
    context.scope.locals.pop(CHOSEN)
    return value


@handles(SequenceOf)
def visit_sequence_of(context: FunctionContext, node: SequenceOf) -> bool:
    return node.is_met_by(visit(context, node.subject))


@handles(ast.BoolOp)
def visit_bool_op(context: FunctionContext, node: ast.BoolOp) -> KernelValue:
    """Return the value of `and` or `or`: that of the first operand that decides, or of the last.

    As a condition only its truth counts: operands of several dtypes are compared with zero.
    """
    is_or = isinstance(node.op, ast.Or)
    evaluate = condition if getattr(node, ONLY_TRUTH, False) else visit
    value = evaluate(context, node.values[0])
    for operand in node.values[1:]:
        predicate = predicate_at(context, value, node.values[0])
        if isinstance(predicate, TriValue):
            value = _either(context, is_or, value, predicate, operand, evaluate)
        elif predicate == is_or:
            return value
        else:
            value = evaluate(context, operand)
    return value


def _either(
    context: FunctionContext, is_or: bool, value: Any, predicate: TriValue, right: ast.expr, evaluate: Evaluate
) -> Any:
    b = context.b
    has_effect = any(isinstance(part, (ast.Call, ast.NamedExpr)) for part in ast.walk(right))
    if not has_effect and predicate is value:
        # Without side effects both sides can be computed and combined without a branch.
        with b.guarded(b.tri.logical_not(predicate) if is_or else predicate):
            other = evaluate(context, right)
        if isinstance(other, TriValue) and other.type == predicate.type:
            combined = (b.tri.logical_or if is_or else b.tri.logical_and)(predicate, other)
            combined = replace(combined, weak=predicate.weak and other.weak)
            return either(combined, (value, other), "the result of `and` or `or`")
        decided = lambda: other  # noqa: E731 - the same value, whichever way it is combined
    else:
        decided = lambda: evaluate(context, right)  # noqa: E731
    arms = (lambda: value, decided) if is_or else (decided, lambda: value)
    return select(context, predicate, *arms, right)


@dataclass
class _Arm:
    value: Any
    names: dict[str, Any]
    written: dict[Storage, TriValue]


def emit_if(
    context: FunctionContext,
    test: TriValue,
    bodies: Sequence[Callable[[], KernelValue]],
    live: Iterable[str],
    spans: Sequence[Span],
) -> tuple[KernelValue, KernelValue]:
    """Emit an `scf.if` with two bodies, merge the names of `live` and all memory, and return the bodies' values.

    A name whose values have no common type becomes unavailable; reading it raises, with the spans of both arms.
    """
    location, memory = context.b.tri.location, context.b.memory
    operation = Arms(condition_of(test, location), location)
    outer_names, serial = dict(context.scope.locals), memory.serial
    try:
        arms = []
        for block, body in zip(operation.blocks, bodies, strict=True):
            context.scope.locals = dict(outer_names)
            arms.append(_emit_arm(context, block, body, live))
        context.scope.locals = dict(outer_names)
        _Merge(context, operation, arms, outer_names, spans, serial).run(sorted({*live, *context.scope.referenced}))
    except BaseException:
        context.scope.locals = outer_names
        operation.abandon()
        raise
    return arms[0].value, arms[1].value


def _emit_arm(context: FunctionContext, block: ir.Block, body: Callable[[], Any], live: Iterable[str]) -> _Arm:
    scope, memory = context.scope, context.b.memory
    with ir.InsertionPoint(block), memory.watched() as journal:
        try:
            value = body()
            for name in sorted({*live, *scope.referenced}):
                if name in scope.locals:
                    scope.locals[name] = current(context.b.tri, scope.locals[name])
            return _Arm(value, scope.locals, {storage: storage.value for storage in journal})
        finally:
            memory.rewind(journal)


@dataclass(frozen=True)
class _Pending:
    structure: Any
    kinds: tuple[merging.Kind | merging.Known, ...]


_ABSENT = object()


@dataclass
class _Merge:
    context: FunctionContext
    operation: Arms
    arms: list[_Arm]
    outer_names: dict[str, Any]
    spans: Sequence[Span]
    serial: int
    """Memory with a higher serial number was created in an arm."""
    yielded: list[tuple[TriValue, TriValue]] = field(default_factory=list)
    """The pairs of values that the arms yield."""

    def run(self, live: Iterable[str]) -> None:
        """Finish the operation, and bind the names and memory to its results."""
        b, (first, second) = self.context.b, (arm.written for arm in self.arms)
        storages = [s for s in dict.fromkeys([*first, *second]) if s.serial <= self.serial]
        self.yielded += [(first.get(s, s.value), second.get(s, s.value)) for s in storages]
        merged = {name: value for name in live if (value := self._merged(name)) is not _ABSENT}
        results = self.operation.finish(self.yielded)
        for storage, result in zip(storages, results, strict=False):
            b.memory.put(storage, result)
        values = iter(results[len(storages) :])
        for name, value in merged.items():
            if isinstance(value, _Pending):
                leaves = [merging.unpacked(b, leaf, values) for leaf in value.kinds]
                one, other = (arm.names[name] for arm in self.arms)
                value = merging.rebuilt(value.structure, iter(leaves))
                value = with_memory(merging.joined(value, one, other, self._is_shared(name)))
                _freeze(value, name, self.arms, self.serial, self.context.entry_serial)
            self.context.scope.locals[name] = value

    def _merged(self, name: str) -> Any:
        """Return what a name holds afterwards: one value, `Unavailable`, or `_Pending` results."""
        x, y = (arm.names.get(name, _ABSENT) for arm in self.arms)
        if x is _ABSENT and y is _ABSENT:
            return _ABSENT
        if x is _ABSENT or y is _ABSENT:
            present = y if x is _ABSENT else x
            # One arm raises, or sets what the function returns and a flag that tells.
            is_result = name == VALUE and not any(arm.value == RETURNS for arm in self.arms)
            if name == VALUE and not (is_result and merging.is_value(present)):
                return present
            if not merging.is_value(present) or (name.startswith(".") and not is_result):
                return present if isinstance(present, Unavailable) else self._unavailable(name, y is _ABSENT)
            try:
                x, y = self._with_unbound(name)
            except merging.Differs:
                return self._unavailable(name, y is _ABSENT)
        elif isinstance(x, merging.MaybeBound) or isinstance(y, merging.MaybeBound):
            x, y = self._all_maybe(name)
        if (known := self._without_merge(name, x, y)) is not _ABSENT:
            return known
        try:
            return self._pair(x, y)
        except merging.Differs as differs:
            return Unavailable(
                KernelTypeError(
                    f"after this `if`, {_shown(name)} would be one of {differs}",
                    self.spans[0],
                    help=_how_to_merge(x, y),
                    notes=(Note("the other arm is here", self.spans[1]),),
                )
            )

    def _without_merge(self, name: str, x: Any, y: Any) -> Any:
        """Return what a name holds after both arms without a result of the branch; `_ABSENT` where that takes one."""
        if isinstance(x, Unavailable) or isinstance(y, Unavailable):
            return y if isinstance(y, Unavailable) else x
        if merging.same(x, y):
            return merging.joined(x, x, y, self._is_shared(name))
        view = _common_view(x, y, self.outer_names.get(name))
        return _ABSENT if view is None else view

    def _is_shared(self, name: str) -> Callable[[Identity], bool]:
        """Return whether a list or dict that a name holds in an arm has another name there, or in a caller."""

        def is_shared(identity: Identity) -> bool:
            names = [other for arm in self.arms for other in merging.holders(arm.names, identity)]
            return identity.fixed is not None or any(other != name for other in names)

        return is_shared

    def _unavailable(self, name: str, is_in_first: bool) -> Unavailable:
        assigns, other = self.spans if is_in_first else self.spans[::-1]
        return Unavailable(
            UnknownNameError(
                f"name {_shown(name)!r} is assigned in one arm of this `if` only",
                assigns,
                help="assign it before the `if`, or in both arms",
                notes=(Note("this arm does not assign it", other),),
            )
        )

    def _with_unbound(self, name: str) -> list[Any]:
        """Give a name an arbitrary value in the arm that does not assign it; reading it checks which arm ran."""
        [present] = [arm.names[name] for arm in self.arms if name in arm.names]
        for arm, block in zip(self.arms, self.operation.blocks, strict=True):
            if name in arm.names:
                arm.names[name] = merging.maybe_bound(present)
            else:
                with ir.InsertionPoint(block):
                    arm.names[name] = merging.unbound(self.context.b, present)
        return [arm.names[name] for arm in self.arms]

    def _all_maybe(self, name: str) -> list[Any]:
        for arm in self.arms:
            if merging.is_value(arm.names[name]):
                arm.names[name] = merging.maybe_bound(arm.names[name])
        return [arm.names[name] for arm in self.arms]

    def _pair(self, x: Any, y: Any) -> _Pending:
        """Let the arms yield two values in their common types; raises `Differs`."""
        if not (merging.is_carried(x) and merging.is_carried(y)):
            raise merging.Differs(f"{describe(x)} and {describe(y)}, which are known at compile time only")
        leaves = merging.flat(x), merging.flat(y)
        if not alike(x, y):
            raise merging.Differs(f"{describe(x)} and {describe(y)}")
        kinds = [merging.common_leaf(first, second) for first, second in zip(*leaves, strict=True)]
        for first, second, merged_kind in zip(*leaves, kinds, strict=True):
            sides = []
            for block, side in zip(self.operation.blocks, (first, second), strict=True):
                with ir.InsertionPoint(block):
                    sides.append(merging.packed(self.context.b, side, merged_kind))
            self.yielded += zip(*sides, strict=True)
        return _Pending(x, tuple(kinds))


def _how_to_merge(x: Any, y: Any) -> str:
    """Return what to write instead of a branch after which a name would hold one of two values that do not merge."""
    if isinstance(x, str) and isinstance(y, str):
        return "no kernel holds a text: give a number in both arms, and choose the text by it after the call"
    return "give it one shape and dtype in both arms"


def _shown(name: str) -> str:
    return name if not name.startswith(".") else "the value"


def _common_view(x: Any, y: Any, previous: Any) -> Any:
    """Return the name's previous value, if in both arms it is still that view of memory, whose content may differ."""
    views = [value.origin for value in (previous, x, y) if has_memory(value)]
    if len(views) < 3 or any(v.storage is not views[0].storage or v.steps != views[0].steps for v in views):
        return None
    return replace(previous, origin=replace(views[0], version=-1))


def _freeze(value: Any, name: str, arms: list[_Arm], serial: int, entry_serial: int) -> None:
    """Forbid writes to memory that has another name after some arm: which names would see them is not known."""
    for arm in arms:
        for merged, leaf in zip(merging.flat(value), merging.flat(arm.names[name]), strict=True):
            if not (has_memory(merged) and has_memory(leaf)):
                continue
            storage = leaf.origin.storage
            views = [other for other in merging.flat([*arm.names.values()]) if merging.aliases(other, storage)]
            if len(views) > 1 or storage.frozen or storage.serial < entry_serial:
                merged.origin.storage.share(name, [storage] if storage.serial <= serial else [])
