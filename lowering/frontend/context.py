"""The state of one Python function during its lowering to `tri`, and the dispatch on AST nodes.

`visit` calls the handler registered for the class of a node, sets the MLIR location of what it emits, and adds the
node's span to the errors it raises. All mistakes of a function that can be found in one run are reported.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from mlirtri.dialect.base.registry import Registry
from mlirtri.dialect.bindings.locations import location_of
from mlirtri.dialect.bindings.mlir import ir
from mlirtri.dialect.builder import KernelValue, TriValue
from mlirtri.errors import CompilerBugError, KernelError, NestedTooDeeplyError, Span, UnsupportedSyntaxError, raise_all
from mlirtri.lowering.frontend.python_to_ast import span_of_node
from mlirtri.lowering.frontend.scope import FAILED, FailedAssignment, Scope
from mlirtri.lowering.frontend.semantics.builder import Language, describe
from mlirtri.lowering.frontend.semantics.merging import Kind, Known, aliases
from mlirtri.lowering.frontend.semantics.storage import Storage
from mlirtri.lowering.frontend.syntax.early_exits import stored, structured
from mlirtri.lowering.frontend.syntax.plain_statements import plain
from mlirtri.lowering.frontend.syntax.refused_syntax import INSTEAD_OF_SYNTAX, NAMES_OF_SYNTAX
from mlirtri.lowering.frontend.tile_language.loop_nests import nested


@dataclass
class LoopPlan:
    """The iter_args that one loop needs beside those that its syntax shows: each attempt to emit it may add some."""

    kinds: dict[str, list[Kind | Known]] = field(default_factory=dict)
    """The types of a name's leaves, where they differ from those of its initial value."""
    renewed: dict[str, str | None] = field(default_factory=dict)
    """Names of lists and dicts that an iteration replaces by others, and why these do not change, if they do not."""
    templates: dict[str, Any] = field(default_factory=dict)
    """A value with the structure and types of a name that is first assigned in the loop and read after it."""
    storages: list[Storage] = field(default_factory=list)
    """Memory that the body writes without visible syntax for it."""
    referenced: set[str] = field(default_factory=set)
    """Names that macros write in the loop."""
    test_has_effects: bool = False
    """Whether the condition of a `while` assigns names or writes memory."""
    separates_checks: bool = False
    """Whether the checks of an iteration do not see those of others: a `while` in a parallel loop ends by them."""
    shared: dict[str, set[Storage | None]] = field(default_factory=dict)
    """Names that alias another name's memory in some iterations, and which memory."""

    def forget(self, serial: int) -> None:
        """Forget the memory that an abandoned attempt at a loop around created, from `serial` on."""
        self.storages = [storage for storage in self.storages if storage.serial < serial]
        kept = {
            name: {old for old in shared if old is None or old.serial < serial} for name, shared in self.shared.items()
        }
        self.shared = {name: shared for name, shared in kept.items() if shared}


class IterArgsChanged(Exception):
    """Raised where the body of a loop turns out to need other iter_args than were planned: it must be emitted again."""


@dataclass
class FunctionContext:
    """One Python function being lowered. Each inlined call has its own; all share the language builder."""

    b: Language
    scope: Scope
    file: str
    depth: int = 0
    """The depth of inlining."""
    call: ir.Location | None = None
    """The location of the call, for an inlined function."""
    errors: list[KernelError] = field(default_factory=list)
    plans: dict[ast.AST, LoopPlan] = field(default_factory=dict)
    entry_serial: int = field(init=False)
    """Memory with a lower serial number existed before the function was entered."""

    def __post_init__(self) -> None:
        self.entry_serial = self.b.memory.serial

    def span(self, node: ast.AST) -> Span:
        return span_of_node(self.file, node)

    def other_names(self, name: str, storage: Storage) -> list[str]:
        """Return the local names besides this one that are views of the memory."""
        return [other for other, value in self.scope.locals.items() if other != name and aliases(value, storage)]

    def is_shared(self, name: str, storage: Storage) -> bool:
        """Return whether another name, or a name of a calling function, may be a view of the memory."""
        return bool(self.other_names(name, storage)) or storage.serial < self.entry_serial

    def location_of(self, span: Span) -> ir.Location:
        """Return the MLIR location of a source range: a call site location for an inlined function."""
        location = location_of(span)
        return location if self.call is None else ir.Location.callsite(location, [self.call])


@dataclass(frozen=True)
class Returned:
    """The result of a statement's handler that reached a `return`."""

    value: Any


RAISED = Returned(None)
"""The result of a statement that has raised: nothing that follows it is reached."""
Handler = Callable[[FunctionContext, Any], Any]
"""``handler(context, node)``: the value of an expression; `Returned` or None for a statement."""
HANDLERS: Registry[type[ast.AST], Handler] = Registry("handler of an AST node")
handles = HANDLERS.register


def function_named(context: FunctionContext, call: ast.Call) -> KernelValue:
    """Return the function that a call names; None where an expression computes it, which runs once, with the call."""
    owner = call.func
    while isinstance(owner, ast.Attribute):
        owner = owner.value
    return visit(context, call.func) if isinstance(owner, ast.Name) else None


def visit(context: FunctionContext, node: ast.AST) -> KernelValue:
    """Return the result of the node's handler; its operations get the node's location, and errors its span."""
    span, name = context.span(node), type(node).__name__
    handler = HANDLERS.get(type(node))
    if handler is None:
        raise UnsupportedSyntaxError(
            f"a kernel cannot contain {NAMES_OF_SYNTAX.get(name, name)}", span, help=INSTEAD_OF_SYNTAX.get(name)
        )
    tri = context.b.tri
    outer, tri.location = tri.location, context.location_of(span)
    try:
        value = handler(context, node)
        if isinstance(node, ast.expr) and not isinstance(node, ast.Constant):
            note_value(context, span, value)
        return value
    except KernelError as error:
        raise error.at(span) from error.__cause__
    except (FailedAssignment, IterArgsChanged, RecursionError):
        raise
    except Exception as error:
        raise CompilerBugError(error, name, span) from error
    finally:
        tri.location = outer


def note_value(context: FunctionContext, span: Span, value: KernelValue, name: str = "") -> None:
    """Tell an editor what an expression is, or a name that is assigned; modules, functions and classes are not told."""
    if context.b.on_value is None or name.startswith(".") or getattr(value, "__name__", None) is not None:
        return
    context.b.on_value(span, str(value.type) if isinstance(value, TriValue) else describe(value), name)


def visit_body(context: FunctionContext, body: list[ast.stmt], read_after: Iterable[str] = ()) -> KernelValue:
    """Return the value that a function's body returns; raises all errors found in it.

    Names in `read_after` are read after the body: the parameters of a macro that stand for variables.
    """
    prepared = _prepared(body, tuple(read_after))
    context.scope.assigned = prepared.assigned
    returned = visit_block(context, prepared.statements)
    raise_all(context.errors)
    return returned.value if returned else None


@dataclass(frozen=True)
class _Prepared:
    """The statements of a function's body as they are visited, and the names that they assign."""

    body: list[ast.stmt]
    """What was prepared, which is kept so that no other list has its address."""
    statements: list[ast.stmt]
    assigned: frozenset[str]


_PREPARED: dict[tuple[int, tuple[str, ...]], _Prepared] = {}
"""By the address of the body, which all compilations share: a library function is inlined again and again."""
_REMEMBERED = 512


def _prepared(body: list[ast.stmt], read_after: tuple[str, ...]) -> _Prepared:
    key = id(body), read_after
    known = _PREPARED.get(key)
    if known is None:
        if len(_PREPARED) >= _REMEMBERED:
            _PREPARED.clear()
        simple = plain(body)
        known = _PREPARED[key] = _Prepared(body, structured(nested(simple), read_after), frozenset(stored(simple)))
    return known


_DEEP_CALLS = 50
"""Calls from which on it is the inlining that takes Python's frames, and not an expression of one statement."""


def _out_of_frames(context: FunctionContext, statement: ast.stmt) -> NestedTooDeeplyError:
    """Return the error of a statement at which Python has no frame left.

    The number of frames is not ours alone: while a tool evaluates each frame by a function of its own (PEP 523, as
    `torch.compile` does), CPython 3.12 and 3.13 allow only about ten thousand of them whatever the limit is.
    """
    if context.depth < _DEEP_CALLS:
        return NestedTooDeeplyError(
            "an expression of this statement is nested too deeply", context.span(statement),
            help="give parts of it names, in other statements",
        )  # fmt: skip
    return NestedTooDeeplyError(
        f"calls are inlined {context.depth} calls deep here, and Python has no room for more", context.span(statement),
        help="end the recursion with an `if` on a value known at compile time, or write a loop",
    )  # fmt: skip


def visit_block(context: FunctionContext, body: list[ast.stmt]) -> Returned | None:
    """Visit statements up to a return. An error of a statement is recorded, and names it assigns are marked as failed.

    Recursion that is too deep ends the function: each statement that follows might start it again.
    """
    for statement in body:
        try:
            if (returned := visit(context, statement)) is not None:
                return returned
        except NestedTooDeeplyError:
            raise
        except RecursionError:
            raise _out_of_frames(context, statement) from None
        except (KernelError, FailedAssignment) as error:
            if isinstance(error, KernelError):
                context.errors.append(error)
            if any(error.is_raised for error in context.errors):
                return RAISED
            for name in stored(statement):
                context.scope.locals[name] = FAILED
    return None
