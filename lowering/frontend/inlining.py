"""Inlining of Python functions, macros, and functions defined in the kernel; errors inside name the call.

A function defined in a kernel sees the enclosing names at the time of the call, as in Python. Parameters of a macro
annotated as references stand for the caller's variables, which are assigned when the macro ends, or for array elements,
which are written at once.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from mlirtri.dialect.builder import KernelValue, TriValue
from mlirtri.errors import KernelError, KernelTypeError, NestedTooDeeplyError, Note, Span, UnsupportedSyntaxError
from mlirtri.lowering.core.interface import Capture, Origin, bound_arguments
from mlirtri.lowering.core.recursion import more_frames
from mlirtri.lowering.frontend.containers import give, take_back
from mlirtri.lowering.frontend.context import FunctionContext, handles, visit, visit_body
from mlirtri.lowering.frontend.python_to_ast import parse_function
from mlirtri.lowering.frontend.scope import Element, Scope, check_constant
from mlirtri.lowering.frontend.semantics.builder import describe
from mlirtri.lowering.frontend.semantics.container_values import from_outside, identities, renewed
from mlirtri.lowering.frontend.semantics.merging import same
from mlirtri.lowering.frontend.semantics.storage import has_memory, with_memory
from mlirtri.lowering.frontend.syntax.early_exits import nonlocals, stored
from mlirtri.lowering.frontend.syntax.refused_syntax import INSTEAD_OF_SYNTAX

DEFAULT = "it is the default of a parameter, which calls share"
FRAMES_OF_CALL = 100
"""Frames of Python that the statements around one inlined call take at most."""


def inline(
    context: FunctionContext,
    function: Callable[..., object],
    arguments: list[KernelValue],
    keywords: dict[str, KernelValue],
    call: ast.Call,
) -> KernelValue:
    """Return the value of a Python function for these arguments; raises its errors, each with a note on this call."""
    return inline_bound(context, function, _bind(function, arguments, keywords), context.span(call))


def inline_bound(
    context: FunctionContext, function: Callable[..., object], bound: dict[str, KernelValue], call: Span
) -> KernelValue:
    """Return the value of a Python function for these values of its parameters, as `inline`."""
    _check_depth(context, function.__name__)
    file, node = parse_function(function)
    if _suspends(node):
        raise UnsupportedSyntaxError(f"{function.__name__} is a generator or coroutine, which cannot be inlined")
    scope = _scope_of(context, function)
    scope.locals.update(_owned(bound))
    return _run(context, scope, file, node.body, function.__name__, call)


@lru_cache(maxsize=512)
def _suspends(function: ast.FunctionDef) -> bool:
    return any(isinstance(part, (ast.Yield, ast.YieldFrom, ast.Await)) for part in ast.walk(function))


def _scope_of(context: FunctionContext, function: Callable[..., Any]) -> Scope:
    captures = context.scope.captures
    origin = Origin("code", function)
    captures.append(Capture(lambda: function.__code__, function.__code__, function.__qualname__, origin))
    return Scope(function, captures)


def _check_depth(context: FunctionContext, name: str) -> None:
    if context.depth >= context.b.inline_depth:
        raise NestedTooDeeplyError(
            f"{name} is inlined more than {context.b.inline_depth} calls deep",
            help="end the recursion with an `if` on a value known at compile time, or raise the limit by "
            "mlirtri.jit(inline_depth=…)",
        )


def _bind(function: Callable[..., Any], arguments: list[Any], keywords: dict[str, Any]) -> dict[str, Any]:
    bound = bound_arguments(function.__name__, inspect.signature(function), arguments, keywords)
    for parameter in bound.signature.parameters.values():
        is_variadic = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if parameter.name not in bound.arguments and not is_variadic:
            check_constant(parameter.default, f"the default of {parameter.name!r}")
            bound.arguments[parameter.name] = from_outside(parameter.default, DEFAULT)
    bound.apply_defaults()
    return dict(bound.arguments)


def _owned(bound: dict[str, Any]) -> dict[str, Any]:
    return {name: with_memory(value) for name, value in bound.items()}


def _run(
    context: FunctionContext,
    scope: Scope,
    file: str,
    body: list[ast.stmt],
    name: str,
    call: Span,
    variables: Mapping[str, Variable] | None = None,
) -> Any:
    """Return what a body gives in this scope, and let the caller's `variables` have the values of their names in it."""
    variables = variables or {}
    inner = FunctionContext(context.b, scope, file, context.depth + 1, context.location_of(call))
    given = give(scope)
    before = [scope.locals[hidden] for hidden in given]
    try:
        with more_frames(FRAMES_OF_CALL):
            result = visit_body(inner, body, variables)
        take_back(context, before, [scope.locals[hidden] for hidden in given])
    except KernelError as error:
        for mistake in getattr(error, "errors", (error,)):
            mistake.notes = (*mistake.notes, Note(f"in {name}, called from here", call))
        raise
    for parameter, variable in variables.items():
        variable.assign(scope.read(parameter, context.b))
    return result


@dataclass(frozen=True, eq=False)
class LocalFunction:
    """A `def` or `lambda` in a kernel, and the function that encloses it."""

    node: ast.FunctionDef | ast.Lambda
    context: FunctionContext
    defaults: dict[str, Any]

    @property
    def __name__(self) -> str:
        return self.node.name if isinstance(self.node, ast.FunctionDef) else "lambda"

    @property
    def body(self) -> list[ast.stmt]:
        """Return the statements; of a lambda, its expression as a return statement."""
        if isinstance(self.node, ast.FunctionDef):
            return self.node.body
        return [ast.copy_location(ast.Return(self.node.body), self.node.body)]

    def bind(self, arguments: list[KernelValue], keywords: dict[str, KernelValue]) -> dict[str, KernelValue]:
        """Return values by parameter name; raises Python's error for a wrong call."""
        nodes, kinds = self.node.args, inspect.Parameter
        parameters = [
            inspect.Parameter(node.arg, kind, default=self.defaults.get(node.arg, kinds.empty))
            for kind, group in (
                (kinds.POSITIONAL_ONLY, nodes.posonlyargs),
                (kinds.POSITIONAL_OR_KEYWORD, nodes.args),
                (kinds.VAR_POSITIONAL, [nodes.vararg] if nodes.vararg else []),
                (kinds.KEYWORD_ONLY, nodes.kwonlyargs),
                (kinds.VAR_KEYWORD, [nodes.kwarg] if nodes.kwarg else []),
            )
            for node in group
        ]
        bound = bound_arguments(self.__name__, inspect.Signature(parameters), arguments, keywords)
        bound.apply_defaults()
        return dict(bound.arguments)


@handles(ast.FunctionDef)
def visit_function_def(context: FunctionContext, node: ast.FunctionDef) -> None:
    context.scope.locals[node.name] = _local_function(context, node)


@handles(ast.Lambda)
def visit_lambda(context: FunctionContext, node: ast.Lambda) -> LocalFunction:
    return _local_function(context, node)


def _local_function(context: FunctionContext, node: ast.FunctionDef | ast.Lambda) -> LocalFunction:
    parameters = node.args
    if isinstance(node, ast.FunctionDef) and node.decorator_list:
        raise UnsupportedSyntaxError("functions in a kernel have no decorators", help="define it outside of the kernel")
    names = [parameter.arg for parameter in (*parameters.posonlyargs, *parameters.args)]
    values = [_default(visit(context, default)) for default in parameters.defaults]
    defaults = dict(zip(names[len(names) - len(values) :], values, strict=True))
    for parameter, default in zip(parameters.kwonlyargs, parameters.kw_defaults, strict=True):
        if default is not None:
            defaults[parameter.arg] = _default(visit(context, default))
    return LocalFunction(node, context, defaults)


def _default(value: Any) -> Any:
    """Return the default of a parameter; raises `UnsupportedSyntaxError` for a list or dict that may change later."""
    if any(identity.fixed is None for identity in identities(value)):
        raise UnsupportedSyntaxError(
            f"{describe(value)} is the default of a parameter, and may change later", help="pass it at each call"
        )
    return from_outside(value, DEFAULT)


def inline_local(
    context: FunctionContext,
    function: LocalFunction,
    arguments: list[KernelValue],
    keywords: dict[str, KernelValue],
    call: ast.Call,
) -> KernelValue:
    _check_depth(context, function.__name__)
    outer = function.context.scope
    scope = Scope(outer.function, outer.captures, enclosing=outer)
    scope.locals.update(_seen_outside(context, function))
    span = context.span(call)
    variables = {variable.name: variable for variable in _variables_of(context, function, scope, span)}
    scope.locals.update({name: variable.value for name, variable in variables.items()})
    scope.locals.update(_owned(function.bind(arguments, keywords)))
    return _run(context, scope, function.context.file, function.body, function.__name__, span, variables)


def _variables_of(context: FunctionContext, function: LocalFunction, scope: Scope, span: Span) -> list[Variable]:
    """Return the variables of an enclosing function that one defined in it assigns to: those of `nonlocal`.

    While it runs, they are variables of its scope, also for the functions that it calls.
    """
    caller = context.scope
    for name in nonlocals(function.body):
        owner = scope.owners[name] = function.context.scope.owners.get(name, function.context.scope)
        if owner not in (caller, caller.owners.get(name)):
            raise UnsupportedSyntaxError(
                f"{function.__name__} assigns to {name!r} of another function than the one that calls it",
                help="pass the value as an argument and return the new one",
            )
    return [Variable(caller, name, caller.read(name, context.b), span) for name in sorted(scope.owners)]


@handles(ast.Nonlocal)
def visit_nonlocal(context: FunctionContext, node: ast.Nonlocal) -> None:
    """Take the declaration of a function that is defined in a kernel; `inline_local` assigns the names."""
    if context.scope.enclosing is None:
        raise UnsupportedSyntaxError("a kernel cannot contain `nonlocal`", help=INSTEAD_OF_SYNTAX["Nonlocal"])


def _seen_outside(context: FunctionContext, function: LocalFunction) -> dict[str, Any]:
    """Return the lists and dicts of the enclosing function, which one defined in it may change.

    Called from another function they do not change: its names would not see that.
    """
    outer, assigned = function.context.scope, stored(function.body)
    seen = {
        name: value for name, value in outer.locals.items() if name not in assigned and next(identities(value), None)
    }
    is_direct = context.scope is outer
    return seen if is_direct else {name: renewed(value, CALLED_ELSEWHERE) for name, value in seen.items()}


CALLED_ELSEWHERE = "the function that would change it is not called by the function that it is defined in"


@dataclass(frozen=True, eq=False)
class Variable:
    """A name of the caller's that a macro may assign to."""

    scope: Scope
    name: str
    value: Any
    span: Span

    def assign(self, value: KernelValue) -> None:
        """Bind the caller's name to the final value of the macro's parameter; raises for a name of no local.

        A parameter that is still the caller's array, whose elements the macro may have written, is not bound again.
        """
        if self._is_same_array(value):
            return
        if self.name not in self.scope.locals:
            self._check_unchanged(value)
            return
        self.scope.locals[self.name] = with_memory(value)
        self.scope.referenced.add(self.name)

    def _is_same_array(self, value: Any) -> bool:
        if not has_memory(self.value) or not has_memory(value):
            return False
        before, after = self.value.origin, value.origin
        return (before.storage, before.steps) == (after.storage, after.steps)

    def _check_unchanged(self, value: Any) -> None:
        if not same(self.value, value):
            raise UnsupportedSyntaxError(
                f"the macro assigns to {self.name!r}, which is not a variable of the calling function",
                self.span,
                help="pass it to that function as an argument and return the new value",
            )


def inline_macro(context: FunctionContext, macro: Any, call: ast.Call) -> KernelValue:
    """Return the value of a macro, some of whose parameters stand for the caller's variables or array elements."""
    function, span = macro.__mlirtri_function__, context.span(call)
    _check_depth(context, function.__name__)
    if any(isinstance(node, ast.Starred) for node in call.args) or any(k.arg is None for k in call.keywords):
        raise UnsupportedSyntaxError("a macro that writes its arguments takes no * or **", span)
    nodes = _bind(function, list(call.args), {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg})
    arguments: dict[str, Any] = {}
    for name, node in nodes.items():
        if not isinstance(node, ast.expr):
            arguments[name] = node
        else:
            arguments[name] = _reference(context, node) if name in macro.references else visit(context, node)
    file, definition = parse_function(function)
    scope = _scope_of(context, function)
    scope.references = frozenset(macro.references)
    variables = {name: value for name, value in arguments.items() if isinstance(value, Variable)}
    _check_distinct(list(variables.values()))
    scope.locals.update(_owned(arguments | {name: variable.value for name, variable in variables.items()}))
    return _run(context, scope, file, definition.body, function.__name__, span, variables)


def _check_distinct(variables: list[Variable]) -> None:
    for position, variable in enumerate(variables):
        if variable.name in [earlier.name for earlier in variables[:position]]:
            raise KernelTypeError(
                f"{variable.name!r} is given for two references",
                variable.span,
                help="copy it into another variable first",
            )


def _reference(context: FunctionContext, node: ast.expr) -> Variable | Element:
    """Return what an argument of a macro refers to; raises `KernelTypeError` unless it is a variable or element."""
    if isinstance(node, ast.Name):
        # The parameter of a calling macro may stand for an element already.
        if isinstance(value := context.scope.locals.get(node.id), Element):
            return value
        return Variable(context.scope, node.id, visit(context, node), context.span(node))
    if isinstance(node, ast.Subscript):
        array, index = visit(context, node.value), visit(context, node.slice)
        if isinstance(array, TriValue):
            return Element(context.b, array, index if isinstance(index, tuple) else (index,))
    raise KernelTypeError(
        f"the macro writes this argument, and {ast.unparse(node)!r} is neither a variable nor an array element",
        context.span(node),
        help="give it a name first",
    )
