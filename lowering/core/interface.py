"""What one compile is for: the Python function, what each parameter stands for, and whose numerics hold.

The front door makes a `Specialization` from call arguments; the lowerings read it. All of it is hashable content,
so it is part of the cache key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mlirtri.dialect.base.tensor_type import TensorType
from mlirtri.errors import Span
from mlirtri.lowering.core.size_program import SizeProgram


@dataclass(frozen=True)
class TensorParameter:
    """A tensor at run time. `weak` marks a Python float or complex number: of rank 0, it does not decide dtypes."""

    name: str
    type: TensorType
    weak: bool = False


@dataclass(frozen=True)
class ConstantParameter:
    """A compile-time value: int, bool, str, None, dtype, tuple of those, or a function."""

    name: str
    value: Any


@dataclass(frozen=True)
class Specialization:
    """Parameters in signature order, and the semantics, ``"numpy"`` or ``"torch"``."""

    parameters: tuple[TensorParameter | ConstantParameter, ...]
    semantics: str

    @property
    def tensors(self) -> tuple[TensorParameter, ...]:
        """The parameters that exist at run time, in order: they are the MLIR function's arguments."""
        return tuple(p for p in self.parameters if isinstance(p, TensorParameter))


@dataclass(frozen=True)
class KernelSource:
    """What the first lowering takes: a Python function, its symbol and what to compile it for."""

    function: Callable[..., Any]
    symbol: str
    specialization: Specialization


@dataclass(frozen=True)
class Leaf:
    """One run-time result: which MLIR result it is, and its type with the sign that linalg drops."""

    index: int
    type: TensorType
    """With run-time sizes at their largest."""
    counts: tuple[tuple[int, int], ...] = ()
    """Axes whose size only the run shows, each with the result (int64, rank 0) that says it."""


ResultTree = Any
"""Python's return value with a `Leaf` for each tensor: a leaf, None, or a tuple of trees."""


def like(tree: Any, parts: Any) -> Any:
    """A tuple, list or named tuple of the same class as `tree` with other parts."""
    return type(tree)(*parts) if hasattr(tree, "_fields") else type(tree)(parts)


@dataclass(frozen=True)
class RuntimeCheck:
    """An extra rank-0 bool result that must be false after the call, else `error` is raised at `span`."""

    index: int
    error: type[Exception]
    message: str
    span: Span | None


@dataclass(frozen=True)
class PrintSite:
    """One `device_print`: texts known at compile time, and the types of what is printed between them."""

    span: Span | None
    parts: tuple[str | TensorType, ...]


@dataclass(frozen=True)
class PrintLog:
    """Where a kernel says what it printed: a table of rows, and how many prints there were."""

    index: int
    count: int
    sites: tuple[PrintSite, ...]


@dataclass(frozen=True)
class Interface:
    """How Python meets the MLIR function: made by `ast_to_tri` or read off a module, used by the runtime."""

    parameters: tuple[TensorParameter, ...]
    leaves: tuple[TensorType, ...]
    """Types of all results of the function, checks included, in order."""
    tree: ResultTree
    checks: tuple[RuntimeCheck, ...] = ()
    updates: tuple[tuple[int, int], ...] = ()
    """Parameters that the function writes, each with the number of the result that is its new content."""
    log: PrintLog | None = None
    ordered: tuple[int, ...] = ()
    """Written parameters whose elements have to lie in order: the function writes a view of them in another shape."""
    bound: tuple[TensorParameter, ...] = ()
    """What the function takes after its parameters: tensors of the program's own, such as weights."""
    states: tuple[tuple[int, int], ...] = ()
    """Positions in `bound` that a call changes, each with the number of the result that is the next call's content."""
    numbers: tuple[int, ...] = ()
    """Results of rank 0 that Python gets as numbers."""
    sizes: SizeProgram | None = None
    """Of a function with sizes known at run time only: what those of its results are, and what they have to be."""

    @classmethod
    def of_types(
        cls,
        names: Sequence[str],
        types: Sequence[TensorType],
        results: Sequence[TensorType],
        updates: Mapping[int, int],
    ) -> Interface:
        """Return the interface of a function of these types, which returns its results one after the other.

        `updates` maps the index of a parameter that the function writes to the index of the result with its content.
        """
        parameters = tuple(TensorParameter(name, type_) for name, type_ in zip(names, types, strict=True))
        leaves = tuple(Leaf(index, type_) for index, type_ in enumerate(results) if index not in updates.values())
        tree = None if not leaves else leaves[0] if len(leaves) == 1 else leaves
        return cls(parameters, tuple(results), tree, updates=tuple(sorted(updates.items())))


@dataclass(frozen=True)
class Capture:
    """A global or closure value that a kernel read: part of the cache key, and checked again at each call."""

    read: Callable[[], Any]
    value: Any
    name: str
    content: Any = field(init=False, repr=False, compare=False)
    """What the value held when it was compiled in: a list may have changed since."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "content", _content(self.value))

    def is_current(self) -> bool:
        """Whether the name still holds what was compiled in."""
        try:
            now = self.read()
        except (KeyError, ValueError, AttributeError):
            return False
        if now is self.value and type(now) in _FIXED:
            return True
        try:
            return bool(_content(now) == self.content)
        except (TypeError, ValueError):
            return False


_FIXED = (int, float, complex, bool, str, type(None))


def _content(value: Any) -> Any:
    """What decides the code made from a value: equal numbers of another type, and zeros of another sign, differ."""
    kind = type(value)
    if kind is tuple or kind is list:
        return kind, tuple(_content(each) for each in value)
    if kind is float or kind is complex:
        return kind, repr(value)
    # A reloaded module may put new code into the old function.
    return kind, value, getattr(value, "__code__", None)
