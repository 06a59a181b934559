"""`raise` statements: what is reached for certain is raised while compiling, the rest by a check after the call.

A check does not end the function: what follows computes values that the caller never sees. Loops do end, since
`early_exits.py` has them left as by `return`; a `while` loop after a check that has failed does not begin.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from mlirtri.dialect.base.dtypes import DTYPES
from mlirtri.dialect.builder import TriValue
from mlirtri.errors import (
    KernelArithmeticError,
    KernelAssertionError,
    KernelDivisionError,
    KernelError,
    KernelIndexError,
    KernelKeyError,
    KernelLinearAlgebraError,
    KernelNotImplementedError,
    KernelOverflowError,
    KernelRuntimeError,
    KernelTypeError,
    KernelValueError,
    Note,
    Span,
    UnsupportedSyntaxError,
)
from mlirtri.lowering.frontend.context import RAISED, FunctionContext, Returned, handles, visit
from mlirtri.lowering.frontend.semantics.builder import describe
from mlirtri.lowering.frontend.semantics.merging import flat

CLASSES: dict[type[BaseException], type[KernelError]] = {
    ValueError: KernelValueError, TypeError: KernelTypeError, IndexError: KernelIndexError, KeyError: KernelKeyError,
    ZeroDivisionError: KernelDivisionError, RuntimeError: KernelRuntimeError, AssertionError: KernelAssertionError,
    NotImplementedError: KernelNotImplementedError, OverflowError: KernelOverflowError,
    ArithmeticError: KernelArithmeticError, Exception: KernelError,
}  # fmt: skip
"""What a kernel may raise, and what its caller gets: a class of ours that is one of these, too."""


class _RaisedAs(Exception):
    """Base of the classes of `raised_as`, whose constructors are not the user's."""

    def __init__(
        self,
        message: str,
        span: Span | None = None,
        *,
        help: str | None = None,  # noqa: A002 - as of `KernelError`
        notes: Sequence[Note] = (),
    ):
        Exception.__init__(self, message)
        self.message, self.span, self.help, self.notes = message, span, help, tuple(notes)

    def __reduce__(self) -> tuple[Any, ...]:
        _, base, kind = type(self).__bases__
        return _rebuild_as, (kind, base, self.message, self.span, self.help, self.notes)


@lru_cache(maxsize=256)
def raised_as(kind: type[Exception], base: type[KernelError]) -> type[KernelError]:
    """Return a class of ours that callers catch as a class of the user's, for which `base` stands."""
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "stands_for": base}
    return type(kind.__name__, (_RaisedAs, base, kind), names)


def _rebuild_as(kind, base, message, span, help_text, notes):
    return raised_as(kind, base)(message, span, help=help_text, notes=notes)


@handles(ast.Raise)
def visit_raise(context: FunctionContext, node: ast.Raise) -> Returned:
    """Raise now if the statement is reached in every call, else after the call where it was reached."""
    b = context.b
    error = _error(context, node)
    if not b.memory.journals and not b.guards and not b.is_muted:
        error.is_raised = True
        raise error
    _check(context, b.tri.constant(True, DTYPES["bool"]), error)
    return RAISED


def raise_where(context: FunctionContext, predicate: TriValue, node: ast.Raise) -> None:
    """Emit ``if predicate: raise …`` without a branch: what follows is computed either way."""
    outer, context.b.tri.location = context.b.tri.location, context.location_of(context.span(node))
    _check(context, predicate, _error(context, node))
    context.b.tri.location = outer


def error_of(error: Exception) -> KernelError:
    """Return the error of ours for what Python raises while it computes with values known at compile time."""
    kind = next(CLASSES[above] for above in type(error).__mro__ if above in CLASSES)
    text = f"there is no key {error}" if isinstance(error, KeyError) else f"{error}"
    return kind(text or f"Python raises {type(error).__name__}")


def _check(context: FunctionContext, predicate: TriValue, error: KernelError) -> None:
    context.b.check(predicate, type(error), error.message, is_raise=True)


def _error(context: FunctionContext, node: ast.Raise) -> KernelError:
    """Return what a statement raises, with its text; raises `UnsupportedSyntaxError` for classes that are not there."""
    call = node.exc.args if isinstance(node.exc, ast.Call) and not node.exc.keywords else []
    named = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
    if named is None:
        raise UnsupportedSyntaxError("a `raise` names what it raises", context.span(node), help="write ValueError(…)")
    kind = visit(context, named)
    text = " ".join(_text(context, part) for part in call)
    return _class(kind)(text or f"{kind.__name__} is raised here", context.span(node))


def _class(kind: Any) -> type[KernelError]:
    if kind in CLASSES:
        return CLASSES[kind]
    if isinstance(kind, type) and kind.__name__ == "LinAlgError":
        return KernelLinearAlgebraError
    if isinstance(kind, type) and issubclass(kind, KernelError) and kind in CLASSES.values():
        return kind
    if isinstance(kind, type) and issubclass(kind, Exception) and not issubclass(kind, KernelError):
        base = next(CLASSES[above] for above in kind.__mro__ if above in CLASSES)
        return raised_as(kind, base)
    known = ", ".join(known.__name__ for known in CLASSES)
    raise UnsupportedSyntaxError(f"a kernel cannot raise {describe(kind)}", help=f"it may raise {known}, LinAlgError")


def _text(context: FunctionContext, part: ast.expr) -> str:
    """Return the text of an argument: what is known at run time only stands there as it is written."""
    if isinstance(part, ast.JoinedStr):
        return "".join(_text(context, piece) for piece in part.values)
    value = visit(context, part.value if isinstance(part, ast.FormattedValue) else part)
    if any(isinstance(leaf, TriValue) for leaf in flat(value)):
        return f"{{{ast.unparse(part.value)}}}" if isinstance(part, ast.FormattedValue) else ast.unparse(part)
    if isinstance(part, ast.FormattedValue):
        return str(visit(context, ast.copy_location(ast.JoinedStr([part]), part)))
    return str(value)
