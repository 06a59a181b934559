"""What a kernel read from outside, as paths from its function, which another process follows to its own values.

    [["global", "helper"], ["closure", "scale"]]     the variable `scale` of the function that is the global `helper`
    [["module", "math"], ["attribute", "pi"]]        `math.pi`

A path that leads nowhere, or to a value of another content, means that the compiled code is not this kernel's.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from types import CodeType, FunctionType
from typing import Any

from mlirtri.cache.digests import Description, NoDescription, describe, function_of, is_ours
from mlirtri.lowering.core.interface import Capture

Path = list[list[Any]]
_ABSENT = object()
"""What stands for a name that a function does not find in its file, so that it is a builtin."""


class Reached:
    """The functions that paths lead to, by identity: the kernel's own is the empty path."""

    def __init__(self, function: FunctionType, constants: Mapping[str, Any]):
        self._paths: dict[int, Path] = {}
        self._kept: list[Any] = []
        self.classes: list[tuple[type, Path]] = []
        self.add(function, [])
        for name, value in constants.items():
            self.add(value, [["parameter", name]])

    def add(self, value: object, path: Path) -> None:
        """Note that `path` leads to this value: a function, or a tuple that may hold some."""
        if isinstance(value, (tuple, list)):
            self.classes.append((type(value), [*path, ["class"]]))
            for position, part in enumerate(value):
                self.add(part, [*path, ["item", position]])
            return
        if isinstance(value, dict):
            for key, part in value.items():
                self.add(part, [*path, ["item", key]])
            return
        function = function_of(value)
        if not isinstance(function, FunctionType) or id(function) in self._paths:
            return
        self._paths[id(function)] = path
        self._kept.append(function)  # an address is of this function while it lives
        self.add(function.__defaults__ or (), [*path, ["defaults"]])
        for name, default in (function.__kwdefaults__ or {}).items():
            self.add(default, [*path, ["default", name]])

    def path_of(self, function: object) -> Path:
        """Return the path to a function; raises `NoDescription` for one that no path leads to."""
        path = self._paths.get(id(function))
        if path is None:
            raise NoDescription(f"how the kernel reached {getattr(function, '__qualname__', function)!r} is not known")
        return path

    def path_of_class(self, kind: type) -> Path | None:
        """Return the path to a class; None if there is none."""
        return next((path for known, path in self.classes if known is kind), None)


def recorded(
    function: FunctionType, constants: Mapping[str, object], captures: Iterable[Capture]
) -> tuple[list[tuple[Path, Description]], Reached]:
    """Return the path and the description of each captured value, in order; raises `NoDescription`."""
    reached, described, inlined = Reached(function, constants), [], [function]
    for capture in captures:
        if capture.origin is None:
            raise NoDescription(f"{capture.name} is no value of Python's")
        kind, owner = capture.origin.kind, capture.origin.owner
        if is_ours(owner):
            continue
        if kind == "code":
            reached.path_of(owner)
            inlined.append(owner)
            continue
        path = _path(kind, owner, capture.origin.name, reached)
        reached.add(capture.value, path)
        described.append((path, _described(capture)))
    for callee in inlined:
        path = reached.path_of(callee)
        described += [([*path, ["global", name]], ["absent"]) for name in builtins_of(callee)]
    return _unique(described), reached


def _described(capture: Capture) -> Description:
    try:
        return describe(capture.value)
    except NoDescription as problem:
        raise NoDescription(f"the captured value {capture.name!r}: {problem}") from None


def _path(kind: str, owner: Any, name: str, reached: Reached) -> Path:
    if kind == "attribute":
        describe(owner)  # raises for a module that another process could not find
        return [["module", owner.__name__], ["attribute", name]]
    return [*reached.path_of(owner), [kind, name]]


def _unique(captures: list[tuple[Path, Description]]) -> list[tuple[Path, Description]]:
    by_path: dict[str, tuple[Path, Description]] = {}
    for path, description in captures:
        by_path.setdefault(str(path), (path, description))
    return list(by_path.values())


def builtins_of(function: FunctionType) -> list[str]:
    """Return the builtin names that a function uses and its file does not define, in order."""
    names = {name for code in _codes(function.__code__) for name in code.co_names}
    return sorted(name for name in names if hasattr(builtins, name) and name not in function.__globals__)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


class Differs(Exception):
    """Raised where a captured value differs from the recorded one; the message is its path, for people."""


def captures_now(
    function: FunctionType, constants: Mapping[str, object], described: Iterable[tuple[Path, Description]]
) -> list[Capture]:
    """Return the captures of this process that stand for the recorded ones; raises `Differs`."""
    captures = []
    for path, description in described:
        try:
            capture = _capture_at(function, constants, path)
            current = ["absent"] if capture.value is _ABSENT else describe(capture.value)
        except (NoDescription, LookupError, AttributeError, TypeError, ValueError):
            raise Differs(shown(path)) from None
        if current != description:
            raise Differs(shown(path))
        if capture.value is not _ABSENT:
            captures += [capture, *_code_captures(capture.value)]
    return captures


def _capture_at(function: FunctionType, constants: Mapping[str, Any], path: Path) -> Capture:
    """Return the capture of the value that a path leads to now; raises an error of Python's where it leads nowhere."""
    *steps, last = path
    read = _reader(value_at(function, constants, steps), constants, last)
    return Capture(read, read(), shown(path))


def _code_captures(value: Any) -> list[Capture]:
    code_owner = function_of(value)
    if not isinstance(code_owner, FunctionType) or is_ours(code_owner):
        return []
    return [Capture(lambda: code_owner.__code__, code_owner.__code__, code_owner.__qualname__)]


def value_at(function: FunctionType, constants: Mapping[str, object], path: Path) -> Any:
    """Return the value that a path leads to in this process; raises an error of Python's where it leads nowhere."""
    value: Any = function
    for step in path:
        value = _reader(value, constants, step)()
    return value


def _reader(value: Any, constants: Mapping[str, Any], step: list[Any]) -> Callable[[], Any]:
    """Return the function that evaluates one step of a path, starting at a value."""
    kind, *arguments = step
    if kind == "global":
        namespace = function_of(value).__globals__
        return lambda: namespace.get(arguments[0], _ABSENT)
    if kind == "closure":
        owner = function_of(value)
        cell = owner.__closure__[owner.__code__.co_freevars.index(arguments[0])]
        return lambda: cell.cell_contents
    if kind == "parameter":
        return lambda: constants[arguments[0]]
    return partial(_STEPS[kind], value, *arguments)


_STEPS: dict[str, Callable[..., Any]] = {
    "module": lambda _value, name: sys.modules[name],
    "attribute": getattr,
    "class": type,
    "item": lambda value, position: value[position],
    "defaults": lambda value: function_of(value).__defaults__,
    "default": lambda value, name: function_of(value).__kwdefaults__[name],
}


def shown(path: Path) -> str:
    """Return a path for people: ``helper.scale``, ``math.pi``, ``table[0]``."""
    text = ""
    for kind, *name in path:
        if kind == "item":
            text += f"[{name[0]}]"
        elif name:
            text += f".{name[0]}" if text else str(name[0])
    return text
