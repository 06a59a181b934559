"""What a spelling is, and the decorator that registers one.

A spelling is a function of the builder and of exactly the parameters of the library's function: their names, order
and defaults bind the arguments of a call as Python does.

    @spelling("numpy.sum", ops="sum")
    def _(b, a, axis=None, dtype=None, out=unsupported(), keepdims=False): return b.sum(a, axis, keepdims, dtype)

Refuses a second spelling for a name, and calls whose arguments do not bind or are `unsupported`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn, Protocol, TypeAlias, TypeVar

from mlirtri.dialect.base.registry import Registry
from mlirtri.dialect.base.tensor_type import TensorType
from mlirtri.dialect.promotion.dtype_rules import Operand
from mlirtri.dialect.spellings.base.operand_kinds import check_operands
from mlirtri.errors import did_you_mean

Value: TypeAlias = Any
"""A value of a kernel: the builder's tensor or run-time scalar, a Python number, or a tuple or list of values."""
Argument: TypeAlias = Any
"""An argument such as an axis, a shape or a mode, as the kernel gives it: a spelling refuses what its library does."""


Function: TypeAlias = "Callable[..., Any]"
"""A spelling: from the builder and the library function's arguments to its result."""
F = TypeVar("F", bound=Function)


class Builder(Protocol):
    """The methods that spellings call: every op of the table, and these."""

    semantics: str
    """``numpy`` or ``torch``: the dtype rules, independent of the spelling's library."""

    def type_of(self, value: Value) -> TensorType | None:
        """Return the type of a tensor or run-time scalar; None for a compile-time Python value."""
        ...

    def weak_kind(self, value: Value) -> str | None:
        """Return ``bool``, ``int`` or ``float`` for a Python scalar, known or run-time; None for anything else."""
        ...

    def operand(self, x: Value) -> Operand:
        """Return what the dtype rules know of a tensor or number; fail for anything else."""
        ...

    def python_scalar(self, value: Value) -> Value:
        """Return a rank-0 float or bool tensor as the weak Python scalar of `float(x)`; Python scalars unchanged."""
        ...

    def number_of(self, size: Value) -> Value:
        """Return a size as an operand: an int, or a run-time integer."""
        ...

    def size_from(self, number: Value) -> Value:
        """Return an integer, known or run-time, as a size; 0 for a negative one."""
        ...

    def smaller_size(self, x: Value, y: Value) -> Value:
        """Return the smaller of two sizes, known or run-time."""
        ...

    def fail(self, message: str, help: str | None = None) -> NoReturn:
        """Raise `KernelTypeError` at the user's line."""
        ...

    def check(self, condition: Value, error: type[Exception], message: str) -> None:
        """Raise `error` after the call, at the user's line, if any element of a bool tensor is true."""
        ...

    def require_inside(self, indices: Value, size: Value, wraps: bool = True) -> None:
        """Raise `IndexError` after the call if an index of an axis is outside; `wraps` says that -1 is the last one."""
        ...

    def is_own_device(self, value: Argument) -> bool:
        """Return whether a value names the device that the kernel runs on: `x.device`, ``"cpu"``, `torch.device`."""
        ...

    def __getattr__(self, name: str) -> Callable[..., Any]: ...


@dataclass(frozen=True)
class Unsupported:
    """The default of a parameter that is not supported; the library's own default may still be passed."""

    default: Any = None

    def __repr__(self) -> str:
        return repr(self.default)

    def allows(self, value: Value) -> bool:
        return value is self.default or (type(value) is type(self.default) and value == self.default)


def unsupported(default: Argument = None) -> Argument:
    """Mark a parameter as not supported; `default` is the library's."""
    return Unsupported(default)


@dataclass(frozen=True)
class Spelling:
    """One library function, method or attribute, written with table ops."""

    name: str
    """``numpy.sum``, ``torch.nn.functional.gelu``, ``math.exp``, ``ndarray.sum``, ``Tensor.sum``, ``mlirtri.sum``."""
    function: Callable[..., Any]
    """Takes the builder, then the library's parameters; for a method the tensor comes first."""
    ops: tuple[str, ...] = ()
    """The table ops it may use, for the docs page."""
    is_attribute: bool = False
    """Read without a call, as `x.T`."""
    writes: bool = False
    """The result is the new content of the first argument; the call returns None, or torch's tensor."""

    @cached_property
    def signature(self) -> inspect.Signature:
        """Return the library's signature; for a method without the tensor itself."""
        signature = inspect.signature(self.function)
        parameters = list(signature.parameters.values())
        return signature.replace(parameters=parameters[2 if self.is_method else 1 :])

    @property
    def is_method(self) -> bool:
        return self.name.split(".")[0] in METHOD_OWNERS

    def __str__(self) -> str:
        return f"{self.name}{self.signature}"

    def call(self, b: Builder, /, *arguments: Value, **keywords: Value) -> Value:
        """Return the result of the call: a value of the builder, a Python value, or a tuple. Fails through `b.fail`."""
        owner, arguments = (arguments[:1], arguments[1:]) if self.is_method else ((), arguments)
        try:
            bound = self.signature.bind(*arguments, **self._renamed(keywords))
        except TypeError as error:
            unknown = [word for word in keywords if word not in self.signature.parameters]
            near = did_you_mean(unknown[0], self.signature.parameters) if unknown else ""
            b.fail(f"{self.name}() {_sentence(error)}", help=f"{near}its signature is {self}")
        for name, value in bound.arguments.items():
            default = self.signature.parameters[name].default
            if name == "device" and value is not None:
                self._require_own_device(b, value)
                continue
            if isinstance(default, Unsupported) and not default.allows(value):
                b.fail(f"{self.name}({name}=…) is not supported", help=f"mlirtri has only {name}={default.default!r}")
        check_operands(b, self.name, bound)
        return self.function(b, *owner, *bound.args, **bound.kwargs)

    def _require_own_device(self, b: Builder, device: Argument) -> None:
        if not b.is_own_device(device):
            b.fail(
                f"{self.name}() makes a tensor on the device that the kernel runs on, not on {device!s}",
                help="leave out device=, or write x.device",
            )

    def arguments(self, arguments: Sequence[Value], keywords: Mapping[str, Value]) -> dict[str, Value]:
        """Return the arguments of a call by parameter name; an empty dict for a call that does not bind."""
        try:
            bound = self.signature.bind(*arguments[1 if self.is_method else 0 :], **self._renamed(dict(keywords)))
        except TypeError:
            return {}
        return dict(bound.arguments)

    def _renamed(self, keywords: dict[str, Any]) -> dict[str, Any]:
        """Return the keywords by torch's names for NumPy's (`dim` for `axis`…), which torch and `mlirtri` accept."""
        if not self.name.startswith(("torch.", "Tensor.", "mlirtri.")) or ".functional." in self.name:
            return keywords
        names = self.signature.parameters
        return {
            KEYWORD_ALIASES[name] if name not in names and KEYWORD_ALIASES.get(name) in names else name: value
            for name, value in keywords.items()
        }


METHOD_OWNERS = ("ndarray", "Tensor")
KEYWORD_ALIASES = {
    "axis": "dim", "keepdims": "keepdim", "dim": "axis", "keepdim": "keepdims",
    "x": "input", "a": "input", "x1": "input", "x2": "other", "input": "x", "other": "y",
}  # fmt: skip
CONSTANTS: Registry[str, complex | None] = Registry("constant")
"""Constants of the libraries: `numpy.pi`, `torch.inf`, `numpy.newaxis`…"""

REFUSED: Registry[str, tuple[str, str | None]] = Registry("refusal")
"""Library functions that kernels refuse: the reason, and what to write instead."""

SPELLINGS: Registry[str, Spelling] = Registry("spelling")


def register(names: str, function: Function, ops: str, *, attribute: bool = False, writes: bool = False) -> None:
    """Register a spelling under each of `names`, which must be new; `names` and `ops` are separated by spaces."""
    for name in names.split():
        SPELLINGS.add(name, Spelling(name, function, tuple(ops.split()), attribute, writes))


def spelling(names: str, ops: str, *, attribute: bool = False, writes: bool = False) -> Callable[[F], F]:
    """Return the decorator form of `register`."""

    def enter(function: F) -> F:
        register(names, function, ops, attribute=attribute, writes=writes)
        return function

    return enter


def share(owner: str, library: str, words: str) -> None:
    """Register functions of a library as methods of `owner` too, where both have one signature."""
    for word in words.split():
        of_library = SPELLINGS[f"{library}.{word}"]
        register(f"{owner}.{word}", of_library.function, " ".join(of_library.ops))


def share_writing(words: str, owner: str = "Tensor") -> None:
    """Register torch's in-place methods, `x.add_`, or functions, `torch.exp_`, beside those that are not, `x.add`."""
    for word in words.split():
        plain = SPELLINGS[f"Tensor.{word}"]
        register(f"{owner}.{word}_", plain.function, " ".join(plain.ops), writes=True)


def _sentence(error: TypeError) -> str:
    """Return the error of `Signature.bind` as a sentence about a call."""
    return str(error).replace("got an unexpected keyword argument", "has no parameter")
