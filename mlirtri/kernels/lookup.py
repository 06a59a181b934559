"""Find the kernel of a call in a table by shapes, dtypes and constants, one for each combination of classes.

The function is written as Python. For two arrays and a keyword `n`, an integer that is compiled in::

    def call(v0, v1, v2):
        entry = known_get((v0.shape, v0.dtype, v1.shape, v1.dtype, v2))
        if entry is None or entry.is_stale is not None and entry.is_stale():
            return unknown
        entry.used = tick()
        return entry.kernel.__call__(v0, v1)

What it finds was found before by the key of the whole signature, which may leave more out (sizes of run time).
"""

from __future__ import annotations

import itertools
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mlirtri.dialect.base.dtypes import DType
from mlirtri.kernels.kernel import Kernel
from mlirtri.language.arguments import NUMBERS, is_array, is_torch
from mlirtri.language.containers import at
from mlirtri.language.signature import Signature
from mlirtri.lowering.core.interface import Capture

UNKNOWN = object()
"""What a written function returns for arguments that it does not know."""
MAX_KNOWN, MAX_CLASSES = 4096, 64
"""Keys that one function remembers, and combinations of classes."""
tick: Callable[[], int] = itertools.count().__next__
"""Numbers calls, for the order in which entries were used."""
_UNCHANGING = (int, float, complex, bool, str, bytes, type(None), types.CodeType, types.BuiltinFunctionType, DType)
"""Classes whose objects are known by their identity."""


@dataclass
class Entry:
    """A kernel for one argument key, with the captured outside values."""

    kernel: Kernel
    runtime: tuple[Any, ...]
    """Where the parameters that exist at run time are: positions, and paths into containers."""
    captures: Sequence[Capture] = ()
    used: int = 0
    """The number of its last call."""
    takes_all: bool = field(init=False)
    """Whether no argument is a container."""
    is_stale: Callable[[], bool] | None = field(init=False)
    """Returns whether a captured value may have changed, faster than `is_current`; None without captures."""

    def __post_init__(self) -> None:
        self.takes_all = all(isinstance(path, int) for path in self.runtime)
        self.is_stale = _stale(self.captures) if self.captures else None

    def is_current(self) -> bool:
        return all(capture.is_current() for capture in self.captures)

    def call(self, arguments: tuple[object, ...], out: object) -> Any:
        """Run on the bound arguments."""
        self.used = tick()
        if self.takes_all and len(arguments) == len(self.runtime):
            return self.kernel(*arguments, out=out)
        return self.kernel(*[at(arguments, path) for path in self.runtime], out=out)


def _stale(captures: Sequence[Capture]) -> Callable[[], bool]:
    names: dict[str, Any] = {}
    checks = []
    for number, capture in enumerate(captures):
        read, value = getattr(capture, "read", None), getattr(capture, "value", None)
        names |= {f"read{number}": read, f"value{number}": value}
        if read is not None and type(value) in _UNCHANGING:
            checks.append(f"read{number}() is value{number}")
        elif read is not None and type(value) is types.FunctionType:
            names[f"code{number}"] = value.__code__
            checks.append(f"read{number}() is value{number} and value{number}.__code__ is code{number}")
        else:
            names[f"current{number}"] = capture.is_current
            checks.append(f"current{number}()")
    lines = [
        "def call():", "    try:", f"        return not ({' and '.join(checks)})",
        "    except (KeyError, ValueError, AttributeError):", "        return True",
    ]  # fmt: skip
    return _written(lines, names)


class Lookup:
    """The written functions of one kernel function. Thread-safe: a remembered key may be lost."""

    def __init__(self) -> None:
        self.finders: dict[Any, tuple[Callable[..., Any], Callable[..., Any]]] = {}
        """By classes of arguments: what finds and runs a kernel, or returns `UNKNOWN`; and what remembers a key."""

    def run_named(self, arguments: tuple[object, ...], keywords: dict[str, Any]) -> Any:
        """Return the result of a call with keywords whose key is known, else `UNKNOWN`."""
        values = (*arguments, *keywords.values())
        finder = self.finders.get((tuple(map(type, values)), tuple(keywords)))
        return UNKNOWN if finder is None else finder[0](*values)

    def remember(
        self, signature: Signature, arguments: tuple[object, ...], keywords: dict[str, Any], entry: Entry
    ) -> None:
        """Remember the entry of a call that was bound to the signature without an error."""
        values = (*arguments, *keywords.values())
        classes = tuple(map(type, values))
        name = (classes, tuple(keywords)) if keywords else classes
        finder = self.finders.get(name)
        if finder is None:
            finder = _finder(signature, len(arguments), tuple(keywords), values, entry.runtime)
            if finder is None:
                return
            if len(self.finders) >= MAX_CLASSES:
                self.finders.clear()
            self.finders[name] = finder
        finder[1](entry, *values)

    def forget(self) -> None:
        """Forget all keys."""
        self.finders.clear()


def _finder(
    signature: Signature, count: int, keywords: tuple[str, ...], values: tuple[Any, ...], runtime: tuple[Any, ...]
) -> tuple[Callable[..., Any], Callable[..., Any]] | None:
    """Return the function that finds and runs, and the one that remembers; None where a key needs more than facts."""
    if signature.variadic:
        return None
    parameters = list(signature.parameters)
    sources = {name: f"v{position}" for position, name in enumerate(parameters[:count])}
    sources |= {name: f"v{count + position}" for position, name in enumerate(keywords) if name in signature.parameters}
    names: dict[str, Any] = {"unknown": UNKNOWN, "tick": tick, "known": (known := {}), "known_get": known.get}
    facts: list[str] = []
    for name, source in sources.items():
        own_facts = _facts(source, values[int(source[1:])], signature.annotations.get(name))
        if own_facts is None:
            return None
        facts += own_facts
    for position, name in enumerate(parameters):
        # Defaults are the same at every call.
        names[f"default{position}"] = signature.parameters[name].default
    passed = [sources.get(parameters[position], f"default{position}") for position in runtime]
    if "out" in keywords and "out" not in signature.parameters:
        passed.append(f"out=v{count + keywords.index('out')}")
    given = ", ".join(f"v{position}" for position in range(len(values)))
    key = f"({''.join(f'{fact}, ' for fact in facts)})"
    lines = [
        f"def call({given}):",
        f"    entry = known_get({key})",
        "    if entry is None or entry.is_stale is not None and entry.is_stale():",
        "        return unknown",
        "    entry.used = tick()",
        f"    return entry.kernel.__call__({', '.join(passed)})",
    ]
    storing = [
        f"def call(entry, {given}):",
        f"    if len(known) >= {MAX_KNOWN}: known.clear()",
        f"    known[{key}] = entry",
    ]
    return _written(lines, names), _written(storing, names)


def _facts(source: str, value: Any, annotation: Any) -> list[str] | None:
    """Return the expressions of what a kernel depends on beside an argument's class; None where there are none."""
    kind = type(value)
    if isinstance(value, np.generic):
        if annotation is float or annotation is complex:
            return None
        return [] if annotation is None or isinstance(annotation, DType) else [source]
    if is_torch(value) or is_array(value):
        if getattr(annotation, "strides", None) is None:
            return [f"{source}.shape", f"{source}.dtype"]
        return [f"{source}.shape", f"{source}.dtype", f"{source}.stride()" if is_torch(value) else f"{source}.strides"]
    if isinstance(annotation, DType) and kind in NUMBERS:
        return []
    if kind is float:
        return [f"{source}.hex()"] if annotation is float else []
    if kind is complex:
        return [f"repr({source})"] if annotation is complex else []
    if isinstance(value, (tuple, list, dict, set, frozenset)):
        return None
    try:
        hash(value)
    except TypeError:
        return None
    return [source]


def _written(lines: Sequence[str], names: dict[str, Any]) -> Callable[..., Any]:
    # Use this file's name: a warning's stacklevel skips frames of this package.
    exec(compile("\n".join(lines), __file__, "exec"), names)
    return names["call"]
