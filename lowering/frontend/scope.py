"""Name lookup inside a kernel: its locals, then the Python function's closure, then globals.

Reading a captured value records it as a `Capture`, so that the cache knows what the code depends on.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from mlirtri.dialect.base.dtypes import find_dtype, is_torch_device
from mlirtri.dialect.base.sizes import Size
from mlirtri.dialect.builder import KernelValue, TriValue
from mlirtri.dialect.spellings.registry import qualified_name
from mlirtri.errors import KernelError, KernelTypeError, KernelUnboundError, UnknownNameError, did_you_mean
from mlirtri.lowering.core.interface import Capture, Origin, parts_of
from mlirtri.lowering.frontend.indexing.reads import element
from mlirtri.lowering.frontend.indexing.writes import write
from mlirtri.lowering.frontend.semantics.builder import Language
from mlirtri.lowering.frontend.semantics.container_values import Dict, List, containers, is_container
from mlirtri.lowering.frontend.semantics.merging import MaybeBound
from mlirtri.lowering.frontend.semantics.storage import current
from mlirtri.lowering.frontend.syntax.refused_syntax import INSTEAD_OF_BUILTINS, INSTEAD_OF_OTHER_BUILTINS

BUILTINS: dict[str, Any] = {
    name: getattr(builtins, name)
    for name in ("abs", "bool", "divmod", "float", "int", "isinstance", "len", "max", "min", "pow", "range", "round",
                 "sum", "tuple", "list", "enumerate", "zip", "reversed", "complex", "breakpoint", "any",
                 "all", "str", "sorted", "slice", "dict", "format", "ord", "chr", "bin", "hasattr", "map", "filter",
                 "ValueError", "TypeError", "IndexError", "KeyError", "ZeroDivisionError", "RuntimeError",
                 "AssertionError", "NotImplementedError", "OverflowError", "ArithmeticError", "Exception")
}  # fmt: skip


class FailedAssignment(Exception):
    """The error of reading a name whose assignment failed; only the error of the assignment is reported."""


FAILED = object()
"""The value of a name whose assignment failed."""


@dataclass(frozen=True)
class Unavailable:
    """The value of a name that has no single value here; reading it raises the error."""

    error: KernelError


@dataclass(frozen=True, eq=False)
class Element:
    """The value of a macro's parameter that refers to elements of the caller's array."""

    b: Language
    array: TriValue
    index: tuple[Any, ...]

    def read(self) -> KernelValue:
        return element(self.b, current(self.b.tri, self.array), self.index)

    def write(self, value: KernelValue) -> None:
        write(self.b, current(self.b.tri, self.array), self.index, value)


class Scope:
    """The local names of one function, over the names that its Python function can see."""

    def __init__(self, function: Callable[..., Any], captures: list[Capture], enclosing: Scope | None = None):
        self.function = function
        self.captures = captures
        self.captured: set[tuple[Any, ...]] = set() if enclosing is None else enclosing.captured
        """What this function has captured: a name that is read again is captured once."""
        self.enclosing = enclosing
        """The scope that encloses a function defined in a kernel."""
        self.locals: dict[str, Any] = {}
        self.referenced: set[str] = set()
        """Names that macros have assigned to."""
        self.assigned: frozenset[str] = frozenset()
        """Names that the function's statements assign: such a name is a local one everywhere in the function."""
        self.references: frozenset[str] = frozenset()
        """Of a macro: the parameters that stand for the caller's variables and elements."""
        self.owners: dict[str, Scope] = {}
        """The scopes that have the names which `nonlocal` declares here."""

    def read(self, name: str, b: Language) -> KernelValue:
        """Return the current value of a name; raises `UnknownNameError`, with similar names."""
        if name in self.locals:
            value = self.locals[name]
            if value is FAILED:
                raise FailedAssignment
            if isinstance(value, Unavailable):
                self.locals[name] = FAILED
                raise value.error
            if isinstance(value, Element):
                return value.read()
            self.locals[name] = value = current(b.tri, value)
            return self._bound(name, value, b) if isinstance(value, MaybeBound) else value
        if name in self.assigned:
            raise UnknownNameError(
                f"name {name!r} is read before this function assigns it",
                help="assign it first; a name of an outer function or the file needs another name here",
            )
        if self.enclosing is not None:
            return self.enclosing.read(name, b)
        for value, read, kind in self._captured(name):
            return self.capture(name, value, read, Origin(kind, self.function, name))
        if name in BUILTINS:
            return BUILTINS[name]
        if hasattr(builtins, name):
            raise UnknownNameError(
                f"kernels do not have Python's {name}", help=INSTEAD_OF_BUILTINS.get(name, INSTEAD_OF_OTHER_BUILTINS)
            )
        known = [*self.locals, *self.function.__code__.co_freevars, *self.function.__globals__, *BUILTINS]
        raise UnknownNameError(f"name {name!r} is not defined", help=did_you_mean(name, known, count=3).rstrip())

    def _bound(self, name: str, value: MaybeBound, b: Language) -> Any:
        """Return the value of a name that some path has not assigned; raises after the call if that path ran."""
        message = f"name {name!r} is read before the path that ran has assigned it"
        if name.startswith("."):
            # A name of ours is read where a flag says that it is assigned.
            return value.value
        if isinstance(value.is_bound, TriValue):
            b.check(b.tri.logical_not(value.is_bound), KernelUnboundError, message)
        elif not value.is_bound:
            raise KernelUnboundError(message, help="assign it on every path")
        return value.value

    def capture(self, name: str, value: KernelValue, read: Callable[[], KernelValue], origin: Origin) -> KernelValue:
        """Record a value from outside the kernel; raises `KernelTypeError` if a kernel cannot hold it."""
        if not isinstance(value, ModuleType | Size):
            check_constant(value, f"the captured value {name!r}")
        read_now = (origin.kind, id(origin.owner), name, id(value))
        if read_now not in self.captured:
            self.captured.add(read_now)
            self.captures.append(Capture(read, value, name, origin))
        return value

    def _captured(self, name: str) -> Iterator[tuple[Any, Callable[[], Any], str]]:
        code, closure = self.function.__code__, self.function.__closure__ or ()
        if name in code.co_freevars:
            cell = closure[code.co_freevars.index(name)]
            try:
                yield cell.cell_contents, lambda: cell.cell_contents, "closure"
            except ValueError:
                raise UnknownNameError(f"the enclosing function has not assigned {name!r} yet") from None
        namespace = self.function.__globals__
        if name in namespace:
            yield namespace[name], lambda: namespace[name], "global"


def latest(scope: Scope, value: KernelValue) -> KernelValue:
    """Return a list or dict with the elements that it has now, if a name holds it; any other value as it is."""
    if not isinstance(value, (List, Dict)):
        return value
    held = (part for other in scope.locals.values() for part in containers(other))
    return next((part for part in held if part.identity is value.identity), value)


def check_constant(value: KernelValue, label: str) -> None:
    """Raise `KernelTypeError` for a value that cannot be a compile-time constant of a kernel; `label` names it."""
    if value is np.s_ or value is np.index_exp:
        return
    if isinstance(value, np.generic) and value.ndim == 0 and find_dtype(value.dtype) is not None:
        return
    if value is None or isinstance(value, (bool, int, float, complex, str)) or callable(value):
        return
    if find_dtype(value) is not None or is_torch_device(value) or qualified_name(value) is not None:
        return
    if isinstance(value, dict) and not all(isinstance(key, (bool, int, float, str, tuple)) for key in value):
        raise KernelTypeError(f"{label} is a dict, whose keys are numbers and strings in a kernel")
    if is_container(value):
        for item in parts_of(value):
            check_constant(item, label)
        return
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        raise KernelTypeError(f"{label} is an array or tensor", help="pass it to the kernel as an argument")
    if isinstance(value, Size) or type(value).__name__ == "Dyn":
        raise KernelTypeError(
            f"{label} is a size of annotations, which has no value in a kernel",
            help="read the size from an argument: M, K = a.shape",
        )
    raise KernelTypeError(
        f"{label} is a {type(value).__name__}, which a kernel cannot hold",
        help="a kernel reads numbers, strings, None, dtypes, tuples, lists and dicts of these, functions and modules "
        "from outside",
    )
