"""What one compilation is for: the Python function, what each parameter stands for, and NumPy's or torch's semantics.

All of it is hashable, because it is part of the cache key.
"""

from __future__ import annotations

import inspect
import keyword
import re
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, TypeAlias

from mlirtri.dialect.base.tensor_type import TensorType
from mlirtri.errors import KernelError, KernelTypeError, Span, did_you_mean
from mlirtri.lowering.core.size_program import SizeProgram

PythonValue: TypeAlias = Any
"""What a parameter is in Python: a tensor, a number, text, None, a function, or a container of those."""


@dataclass(frozen=True)
class TensorParameter:
    """A tensor at run time.

    `weak` marks a Python float or complex number: rank 0, ignored by dtype promotion. `number` marks any scalar without
    memory, of Python or NumPy: a kernel that updates it rebinds the name.
    """

    name: str
    type: TensorType
    weak: bool = False
    number: bool = False
    is_memory: bool = False
    """Whether it is an argument of any shape, seen as its elements in row-major order: a pointer."""
    strides: tuple[int | None, ...] | None = None
    """The strides in elements of an argument that is read and written where it lies, None for those of run time."""


@dataclass(frozen=True)
class ConstantParameter:
    """A compile-time value: number, text, None, dtype, function, `SliceConstant`, tuple or `ListConstant` of those."""

    name: str
    value: Any


@dataclass(frozen=True)
class ListConstant:
    """A list among compile-time values. It is no tuple: ``a[[0, 1]]`` reads two rows, ``a[0, 1]`` an element."""

    elements: tuple[Any, ...]

    def __repr__(self) -> str:
        return repr(list(self.elements))


@dataclass(frozen=True)
class SliceConstant:
    """A slice among compile-time values, which have to be hashable."""

    parts: tuple[Any, Any, Any]

    def __repr__(self) -> str:
        return repr(slice(*self.parts))


@dataclass(frozen=True)
class ContainerParameter:
    """A tuple, list or dict that holds tensors: each of its elements is a parameter."""

    name: str
    kind: type
    """`tuple`, `list`, `dict`, or the class of a named tuple."""
    keys: tuple[Any, ...]
    """Of a dict, in order."""
    parts: tuple[Parameter, ...]

    def of(self, parts: Sequence[PythonValue]) -> PythonValue:
        """Return the container with these elements."""
        if self.kind is dict:
            return dict(zip(self.keys, parts, strict=True))
        return self.kind(*parts) if hasattr(self.kind, "_fields") else self.kind(parts)


Parameter = TensorParameter | ConstantParameter | ContainerParameter


def flat_parameters(parameters: Iterable[Parameter]) -> list[TensorParameter | ConstantParameter]:
    """Return the parameters in order, with the elements of containers in their place."""
    flat: list[TensorParameter | ConstantParameter] = []
    for parameter in parameters:
        flat += flat_parameters(parameter.parts) if isinstance(parameter, ContainerParameter) else [parameter]
    return flat


def value_of_parameter(
    parameter: Parameter, value_of: Callable[[TensorParameter | ConstantParameter], PythonValue]
) -> PythonValue:
    """Return what a parameter's name holds, of the value of each element, which are asked for in order."""
    if isinstance(parameter, ContainerParameter):
        return parameter.of([value_of_parameter(part, value_of) for part in parameter.parts])
    return value_of(parameter)


def python_value(constant: PythonValue) -> PythonValue:
    """Return the Python value of a compile-time value, with new lists."""
    if isinstance(constant, ListConstant):
        return [python_value(element) for element in constant.elements]
    if isinstance(constant, SliceConstant):
        return slice(*constant.parts)
    if isinstance(constant, tuple):
        return tuple(python_value(element) for element in constant)
    return constant


@dataclass(frozen=True)
class Specialization:
    """Parameters in signature order, and the semantics, ``"numpy"`` or ``"torch"``."""

    parameters: tuple[Parameter, ...]
    semantics: str

    @property
    def tensors(self) -> tuple[TensorParameter, ...]:
        """Return the run-time parameters in order: the arguments of the MLIR function."""
        return tuple(p for p in self.flat if isinstance(p, TensorParameter))

    @property
    def flat(self) -> list[TensorParameter | ConstantParameter]:
        """Return the parameters in order, with the elements of containers in their place."""
        return flat_parameters(self.parameters)


@dataclass(frozen=True)
class KernelSource:
    """The input of the first lowering: a Python function, its symbol and what to compile it for."""

    function: Callable[..., Any]
    symbol: str
    specialization: Specialization


@dataclass(frozen=True)
class Leaf:
    """One run-time result: the index of the MLIR result, and its type with the sign that linalg drops."""

    index: int
    type: TensorType
    """The result's type, with run-time sizes at their maximum."""
    counts: tuple[tuple[int, int], ...] = ()
    """Axes whose size is known at run time only, each with the result (int64, rank 0) that holds it."""
    is_array: bool = False
    """Whether NumPy gives an array of rank 0 here, not a number."""


ResultTree: TypeAlias = Any
"""Python's return value with a `Leaf` for each tensor: a leaf, None, or a tuple, list or dict of trees."""


def parts_of(tree: ResultTree) -> Collection[ResultTree]:
    """Return the elements of a tuple, list or dict."""
    return tree.values() if isinstance(tree, dict) else tree


def like(tree: ResultTree, parts: Iterable[ResultTree]) -> ResultTree:
    """Return a tuple, list, named tuple or dict of the class of `tree` with other elements."""
    if (with_parts := getattr(type(tree), "with_parts", None)) is not None:
        return with_parts(tree, parts)
    if isinstance(tree, dict):
        return dict(zip(tree, parts, strict=True))
    return type(tree)(*parts) if hasattr(tree, "_fields") else type(tree)(parts)


@dataclass(frozen=True)
class RuntimeCheck:
    """An extra rank-0 result that must not be `code` after the call, else `error` is raised at `span`."""

    index: int
    error: type[Exception]
    message: str
    span: Span | None
    code: int = 1
    """Several checks share an int32 result, which holds the code of one that fails; a lone check has a bool."""


@dataclass(frozen=True)
class PrintSite:
    """One `device_print`: its constant texts, and the types of the values printed between them."""

    span: Span | None
    parts: tuple[str | TensorType, ...]


@dataclass(frozen=True)
class PrintLog:
    """The results with a kernel's printed values: a table of rows, and the number of prints."""

    index: int
    count: int
    sites: tuple[PrintSite, ...]


@dataclass(frozen=True)
class Interface:
    """The mapping between Python and the MLIR function: by `ast_to_tri` or from a module, for the runtime."""

    parameters: tuple[TensorParameter, ...]
    leaves: tuple[TensorType, ...]
    """Types of all results of the function, checks included, in order."""
    tree: ResultTree
    checks: tuple[RuntimeCheck, ...] = ()
    updates: tuple[tuple[int, int], ...] = ()
    """Parameters that the function writes, each with the index of the result that is its new content."""
    log: PrintLog | None = None
    ordered: tuple[int, ...] = ()
    """Written parameters that have to be contiguous: the function writes them through a reshaped view."""
    bound: tuple[TensorParameter, ...] = ()
    """Arguments after the parameters: the program's own tensors, such as weights."""
    states: tuple[tuple[int, int], ...] = ()
    """Positions in `bound` that a call updates, each with the index of the result that is the next call's content."""
    numbers: tuple[int, ...] = ()
    """Results of rank 0 that are returned as Python numbers."""
    signless: tuple[int, ...] = ()
    """Parameters of signless integers, which callers may pass with either sign."""
    signless_results: tuple[int, ...] = ()
    sizes: SizeProgram | None = None
    """For run-time sizes: computes the sizes of results and checks those of arguments."""

    @classmethod
    def of_types(
        cls,
        names: Sequence[str],
        types: Sequence[TensorType],
        results: Sequence[TensorType],
        updates: Mapping[int, int],
    ) -> Interface:
        """Return the interface of a function of these types that returns its results as a flat tuple.

        `updates` maps the index of a parameter that the function writes to the index of the result with its content.
        """
        parameters = tuple(TensorParameter(name, type_) for name, type_ in zip(names, types, strict=True))
        leaves = tuple(Leaf(index, type_) for index, type_ in enumerate(results) if index not in updates.values())
        tree = None if not leaves else leaves[0] if len(leaves) == 1 else leaves
        return cls(parameters, tuple(results), tree, updates=tuple(sorted(updates.items())))


@dataclass(frozen=True)
class Origin:
    """How a kernel reached a value outside of it, so that another process finds its own value there."""

    kind: str
    """``"global"`` or ``"closure"`` of a function, ``"attribute"`` of a module, or ``"code"``: a function inlined."""
    owner: Any
    """The function or the module."""
    name: str = ""


@dataclass(frozen=True)
class Capture:
    """A global or closure value that a kernel read: part of the cache key, checked again at each call."""

    read: Callable[[], Any]
    value: Any
    name: str
    origin: Origin | None = field(default=None, compare=False)
    """None for what is no value of Python's, such as files of edited stages."""
    content: Any = field(init=False, repr=False, compare=False)
    """The value's content at compile time: a list may have changed since."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "content", _content(self.value))

    def is_current(self) -> bool:
        """Return whether the name still has the value that was compiled in."""
        try:
            current = self.read()
        except (KeyError, ValueError, AttributeError):
            return False
        if current is self.value and type(current) in _FIXED:
            return True
        try:
            return bool(_content(current) == self.content)
        except (TypeError, ValueError):
            return False


_FIXED = (int, float, complex, bool, str, type(None), ModuleType)


def _content(value: Any) -> Any:
    """Return what of a value decides the code: equal numbers of another type, and zeros of another sign, differ."""
    kind = type(value)
    if kind is tuple or kind is list:
        return kind, tuple(_content(part) for part in value)
    if kind is dict:
        return kind, tuple((_content(key), _content(part)) for key, part in value.items())
    if kind is float or kind is complex:
        return kind, repr(value)
    # A reloaded module may change the code of the old function.
    return kind, value, getattr(value, "__code__", None)


def identifier_of(name: str) -> str:
    """Return a valid symbol: dots, brackets, non-ASCII letters and keywords are replaced."""
    ascii_only = "".join(c if c.isascii() else f"u{ord(c):04x}" for c in name)
    symbol = re.sub(r"\W", "_", ascii_only) or "_"
    if keyword.iskeyword(symbol):
        return f"{symbol}_"
    return f"_{symbol}" if symbol[0].isdigit() else symbol


def unique_name(name_hint: str, taken: Container[str]) -> str:
    """Return `name_hint`, with a number appended if it is taken."""
    name, count = name_hint, 0
    while name in taken:
        name, count = f"{name_hint}_{count}", count + 1
    return name


def kernel_names(functions: Sequence[str]) -> dict[str, str]:
    """Return the kernel names of these functions; valid names stay as they are."""
    names = {function: function for function in functions if identifier_of(function) == function}
    for function in functions:
        if function not in names:
            names[function] = unique_name(identifier_of(function), names.values())
    return {function: names[function] for function in functions}


def bound_arguments(
    name: str,
    signature: inspect.Signature,
    arguments: Sequence[object],
    keywords: Mapping[str, object],
    error_class: type[KernelError] = KernelTypeError,
    span: Span | None = None,
) -> inspect.BoundArguments:
    """Return the arguments by parameter, without defaults; raises `error_class`, which names the parameters."""
    known = signature.parameters
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values())
    unknown = [keyword for keyword in keywords if keyword not in known and not takes_any]
    parameters = f"its parameters are {', '.join(known)}" if known else "it has no parameters"
    if unknown:
        shown = " and ".join(map(repr, unknown))
        raise error_class(f"{name}() has no parameter {shown}", span, help=did_you_mean(unknown[0], known) + parameters)
    try:
        return signature.bind(*arguments, **keywords)
    except TypeError as error:
        raise error_class(f"{name}(): {error}", span, help=parameters) from None
