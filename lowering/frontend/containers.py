"""Lists, dicts and sets of a kernel: displays, comprehensions, methods, items that are read, assigned and deleted.

Lengths and keys are known at compile time. A change gives a new value to every name that holds the list or dict;
in a called function, to the names of the caller when it ends.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mlirtri.dialect.builder import KernelValue, TriValue
from mlirtri.errors import KernelIndexError, KernelKeyError, KernelTypeError, KernelValueError, UnsupportedSyntaxError
from mlirtri.lowering.frontend.context import FunctionContext, handles, visit
from mlirtri.lowering.frontend.operators import fold
from mlirtri.lowering.frontend.raising import error_of
from mlirtri.lowering.frontend.scope import FAILED, FailedAssignment, Scope, Unavailable, latest
from mlirtri.lowering.frontend.semantics.builder import describe
from mlirtri.lowering.frontend.semantics.container_values import Dict, List, View, containers, is_container, replaced
from mlirtri.lowering.frontend.semantics.merging import flat, same
from mlirtri.lowering.frontend.semantics.storage import current, with_memory

GIVEN = ".given"
"""Start of the hidden names of lists and dicts that a called function may change."""


@handles(ast.Dict)
def visit_dict(context: FunctionContext, node: ast.Dict) -> dict[KernelValue, KernelValue]:
    items: dict[Any, Any] = {}
    for key, value in zip(node.keys, node.values, strict=True):
        if key is None:
            items |= _mapping(visit(context, value))
        else:
            items[known_key(visit(context, key))] = with_memory(visit(context, value))
    return current(context.b.tri, items)


@handles(ast.Set)
def visit_set(context: FunctionContext, node: ast.Set) -> frozenset[KernelValue]:
    return frozenset(known_key(visit(context, element)) for element in node.elts)


def _mapping(value: Any) -> dict[Any, Any]:
    if not isinstance(value, dict):
        raise KernelTypeError(f"{describe(value)} has no keys", help="** takes a dict")
    return value


def keyword_arguments(value: KernelValue, known: Mapping[str, KernelValue]) -> dict[str, KernelValue]:
    """Return the keywords of ``f(**value)``; raises `KernelTypeError` for other keys, and for keywords given twice."""
    for name in _mapping(value):
        if not isinstance(name, str):
            raise KernelTypeError(f"keywords are strings, got {describe(name)}")
        if name in known:
            raise KernelTypeError(f"the call has several values for the keyword {name!r}")
    return dict(value)


def dict_of(arguments: list[KernelValue], keywords: dict[str, KernelValue]) -> dict[KernelValue, KernelValue]:
    """Return what ``dict(…)`` makes of a dict or of pairs, and of keywords."""
    if len(arguments) > 1:
        raise KernelTypeError(f"dict() takes one value, got {len(arguments)}")
    items = arguments[0] if arguments else {}
    try:
        pairs = items.items() if isinstance(items, dict) else [(key, value) for key, value in items]
    except (TypeError, ValueError):
        raise KernelTypeError(f"{describe(items)} has no pairs of keys and values") from None
    return {known_key(key): with_memory(value) for key, value in pairs} | with_memory(keywords)


# --- items -----------------------------------------------------------------------------------------------------------


def item(owner: KernelValue, index: KernelValue) -> KernelValue:
    """Return an element of a tuple, list, string or dict; raises the `KernelError` of what Python raises."""
    try:
        return owner[known_key(index)] if isinstance(owner, dict) else owner[_position(index)]
    except IndexError:
        raise KernelIndexError(f"index {index} is out of range for {len(owner)} elements") from None
    except KeyError:
        raise _missing_key(owner, index) from None
    except TypeError as error:
        raise error_of(error) from None


def known_key(key: KernelValue) -> KernelValue:
    """Return a key of a dict; raises `KernelTypeError` for one of run time."""
    if any(isinstance(leaf, TriValue) for leaf in flat(key)):
        raise KernelTypeError(
            f"a key is known at compile time, and {describe(key)} is not",
            help="put the values into an array, and index that",
        )
    if isinstance(key, (list, dict)):
        raise KernelTypeError(f"{describe(key)} cannot be a key", help="use a number, a string or a tuple")
    return key


def _position(index: Any) -> Any:
    parts = (index.start, index.stop, index.step) if isinstance(index, slice) else (index,)
    if any(isinstance(part, TriValue) for part in parts):
        raise KernelValueError(
            f"tuples and lists are indexed by what is known at compile time, not by {describe(index)}",
            help="make an array of it: numpy.array([…])",
        )
    return index


def _missing_key(owner: Iterable[Any], key: Any) -> KernelKeyError:
    shown = ", ".join(map(repr, owner)) or "none"
    return KernelKeyError(f"the dict has no key {key!r}", help=f"its keys are {shown}")


def assign_item(context: FunctionContext, owner: KernelValue, index: KernelValue, value: KernelValue) -> None:
    """Set ``owner[index]`` of a list or dict; raises `KernelError` for what Python refuses, and for a fixed one."""
    changed = _kind(owner)(owner)
    key = known_key(index) if isinstance(owner, dict) else _position(index)
    value = with_memory(value)
    if isinstance(key, slice) and isinstance(value, TriValue):
        raise KernelTypeError(f"the elements of {describe(value)} are not in a list", help="write list(x)")
    try:
        changed[key] = value
    except IndexError:
        raise KernelIndexError(f"index {index} is out of range for {len(owner)} elements") from None
    except (TypeError, ValueError) as error:
        raise error_of(error) from None
    change(context, owner, changed)


def extended(context: FunctionContext, owner: KernelValue, values: KernelValue, times: KernelValue = None) -> None:
    """Change a list as ``owner += values`` does, or as ``owner *= times``."""
    if times is not None:
        return change(context, owner, fold(lambda: list(owner) * times))
    call_container_method(context, ContainerMethod(owner, "extend"), [values], {})


def delete_item(context: FunctionContext, owner: KernelValue, index: KernelValue) -> None:
    """Delete ``owner[index]`` of a list or dict."""
    item(owner, index)
    changed = _kind(owner)(owner)
    del changed[index]
    change(context, owner, changed)


# --- changes ---------------------------------------------------------------------------------------------------------


def change(context: FunctionContext, owner: KernelValue, elements: KernelValue) -> None:
    """Let every name that holds a list or dict hold these elements; raises `UnsupportedSyntaxError` for a fixed one."""
    if not isinstance(owner, (List, Dict)):
        # No name holds it.
        return
    if owner.identity.fixed is not None:
        kind = _kind(owner).__name__
        raise UnsupportedSyntaxError(
            f"{describe(owner)} is a {kind} that a kernel cannot change: {owner.identity.fixed}",
            help=f"copy it first: y = x.copy(), or {kind}(x)",
        )
    _replace(context.scope, owner.with_parts(elements) if isinstance(owner, List) else owner.with_items(elements))


def _replace(scope: Scope, new: List | Dict) -> None:
    for name, value in scope.locals.items():
        if (value := replaced(value, new)) is not scope.locals[name]:
            scope.locals[name] = value
            scope.referenced.add(name)


def give(scope: Scope) -> list[str]:
    """Give a called function hidden names of the lists and dicts that it may change; return these names."""
    parts = [part for value in scope.locals.values() for part in containers(value)]
    changing = {part.identity: part for part in parts if part.identity.fixed is None}
    names = [f"{GIVEN}{number}" for number in range(len(changing))]
    scope.locals.update(zip(names, changing.values(), strict=True))
    return names


def take_back(context: FunctionContext, given: list[KernelValue], after: list[KernelValue]) -> None:
    """Let the caller's names hold what a called function made of the lists and dicts that it was given."""
    for was, now in zip(given, after, strict=True):
        if isinstance(now, Unavailable):
            raise now.error
        if now is FAILED:
            raise FailedAssignment
        if not same(was, now):
            if now.identity is not was.identity:
                raise UnsupportedSyntaxError(
                    f"the called function makes another {_kind(now).__name__} of an argument on some path",
                    help="return it",
                )
            _replace(context.scope, now)


# --- methods ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ContainerMethod:
    """A method of a tuple, list or dict before it is called."""

    owner: Any
    name: str

    @property
    def __name__(self) -> str:
        return self.name


_CHANGING = {
    list: "append extend insert pop remove reverse clear sort".split(),
    dict: "update pop popitem setdefault clear".split(),
}
_READING = {tuple: ["index", "count"], list: ["index", "count", "copy"], dict: "get keys values items copy".split()}
_COMPARING = ("index", "count", "remove", "sort")
"""Methods that compare elements."""


def container_method(owner: KernelValue, name: str) -> ContainerMethod | None:
    """Return the method of a tuple, list or dict; None for a name that is none."""
    is_known = is_container(owner) and name in (*_READING[_kind(owner)], *_CHANGING.get(_kind(owner), ()))
    return ContainerMethod(owner, name) if is_known else None


def _kind(container: Any) -> Any:
    """Return the class of Python's that a tuple, list or dict has, or that its class derives from."""
    return next(kind for kind in (list, dict, tuple) if isinstance(container, kind))


def call_container_method(
    context: FunctionContext, method: ContainerMethod, arguments: list[KernelValue], keywords: dict[str, KernelValue]
) -> KernelValue:
    """Return what Python's method returns, and change the list or dict as it does."""
    owner, name = latest(context.scope, current(context.b.tri, method.owner)), method.name
    if name in _COMPARING and any(isinstance(leaf, TriValue) for leaf in flat([owner, *arguments])):
        raise KernelTypeError(
            f"{name}() compares elements of run time: {describe(owner)}",
            help="make an array of it: numpy.array([…]), and use numpy.sort, argsort or ==",
        )
    arguments = [_argument(method, argument) for argument in arguments]
    elements = _kind(owner)(owner)
    try:
        result = getattr(elements, name)(*arguments, **with_memory(keywords))
    except KeyError:
        raise _missing_key(owner, arguments[0] if arguments else None) from None
    except (IndexError, TypeError, ValueError) as error:
        raise error_of(error) from None
    if name in _CHANGING.get(_kind(owner), ()):
        change(context, owner, elements)
    is_view = isinstance(owner, dict) and name in ("keys", "values", "items")
    return View.of(owner, name) if is_view else result


def _argument(method: ContainerMethod, argument: Any) -> Any:
    if isinstance(method.owner, dict) and method.name in ("get", "pop", "setdefault"):
        return with_memory(argument) if isinstance(argument, TriValue) else argument
    return with_memory(argument)
