"""The registry of spellings: how `numpy.sum`, `torch.sum`, `math.exp`, `x.sum` and `mlirtri.sum` become table ops.

A spelling is a function of the builder and of exactly the parameters of the library's function: their names, order
and defaults are the binding rule, so a wrong keyword is found as Python would find it.

    @spelling("numpy.sum", ops="sum")
    def _(b, a, axis=None, dtype=None, out=unsupported(), keepdims=False): return b.sum(a, axis, keepdims, dtype)

Takes the qualified name of a library function. Gives a `Spelling` to call, or None.
Refuses arguments that do not bind and parameters that are `unsupported`, through the builder's `fail`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn, Protocol

from mlirtri.dialect.base.registry import Registry
from mlirtri.dialect.base.tensor_type import TensorType


class Builder(Protocol):
    """What a spelling may use: every op of the table as a method, and this."""

    semantics: str
    """``numpy`` or ``torch``: the dtype rules, whichever library the spelling is of."""

    def type_of(self, value: Any) -> TensorType | None:
        """The type of a tensor or run-time scalar; None for a value that Python knows at compile time."""
        ...

    def weak_kind(self, value: Any) -> str | None:
        """``bool``, ``int`` or ``float`` for a Python scalar, known or run-time; None for anything else."""
        ...

    def python_scalar(self, value: Any) -> Any:
        """A float tensor of rank 0 as the weak Python scalar that `float(x)` gives; Python scalars unchanged."""
        ...

    def number_of(self, size: Any) -> Any:
        """A size as a number to compute with: an int, or an integer of run time."""
        ...

    def size_from(self, number: Any) -> Any:
        """The size that an integer is, known or of run time; 0 for a negative one."""
        ...

    def smaller_size(self, x: Any, y: Any) -> Any:
        """The smaller one of two sizes, known or of run time."""
        ...

    def fail(self, message: str, help: str | None = None) -> NoReturn:
        """Raise `KernelTypeError` at the user's line."""
        ...

    def check(self, condition: Any, error: type[Exception], message: str) -> None:
        """After the call, raise `error` at the user's line if any element of a bool tensor is true."""
        ...

    def __getattr__(self, op: str) -> Callable[..., Any]: ...


@dataclass(frozen=True)
class Unsupported:
    """Default of a parameter of the library that mlirtri lacks; the library's own default may still be passed."""

    default: Any = None

    def __repr__(self) -> str:
        return repr(self.default)

    def allows(self, value: Any) -> bool:
        return value is self.default or (type(value) is type(self.default) and value == self.default)


def unsupported(default: Any = None) -> Any:
    """Marks a parameter as one that mlirtri lacks; `default` is the library's."""
    return Unsupported(default)


@dataclass(frozen=True)
class Spelling:
    """One library function, method or attribute, said with table ops."""

    name: str
    """``numpy.sum``, ``torch.nn.functional.gelu``, ``math.exp``, ``ndarray.sum``, ``Tensor.sum``, ``mlirtri.sum``."""
    function: Callable[..., Any]
    """Takes the builder, then the library's parameters; for a method the tensor comes first."""
    ops: tuple[str, ...] = ()
    """The table ops it may use, for the docs page."""
    is_attribute: bool = False
    """Read without a call, as `x.T`."""
    writes: bool = False
    """The result is the new content of the first argument; the call itself gives nothing, or torch's tensor again."""

    @cached_property
    def signature(self) -> inspect.Signature:
        """The library's signature; of a method without the tensor itself."""
        signature = inspect.signature(self.function)
        parameters = list(signature.parameters.values())
        return signature.replace(parameters=parameters[2 if self.is_method else 1 :])

    @property
    def is_method(self) -> bool:
        return self.name.split(".")[0] in METHOD_OWNERS

    def __str__(self) -> str:
        return f"{self.name}{self.signature}"

    def call(self, b: Builder, /, *arguments: Any, **keywords: Any) -> Any:
        """The result of the call: a value of the builder, a Python value, or a tuple. Fails through `b.fail`."""
        owner, arguments = (arguments[:1], arguments[1:]) if self.is_method else ((), arguments)
        try:
            bound = self.signature.bind(*arguments, **self._renamed(keywords))
        except TypeError as error:
            b.fail(f"{self.name}() {_sentence(error)}", help=f"its signature is {self}")
        for name, value in bound.arguments.items():
            default = self.signature.parameters[name].default
            if isinstance(default, Unsupported) and not default.allows(value):
                b.fail(f"{self.name}({name}=…) is not supported", help=f"mlirtri has only {name}={default.default!r}")
        return self.function(b, *owner, *bound.args, **bound.kwargs)

    def arguments(self, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> dict[str, Any]:
        """Parameter names to what a call gives for them; nothing for a call that does not fit."""
        try:
            bound = self.signature.bind(*arguments[1 if self.is_method else 0 :], **self._renamed(dict(keywords)))
        except TypeError:
            return {}
        return dict(bound.arguments)

    def _renamed(self, keywords: dict[str, Any]) -> dict[str, Any]:
        """Keywords after torch's own aliases for NumPy's names (`axis` for `dim`…), which `mlirtri` has as well."""
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
"""Values that libraries name: `numpy.pi`, `torch.inf`, `numpy.newaxis`…"""

REFUSED: Registry[str, tuple[str, str | None]] = Registry("refusal")
"""Library functions that kernels will not have: why, and the way out."""

SPELLINGS: Registry[str, Spelling] = Registry("spelling")


def register(
    names: str, function: Callable[..., Any], ops: str, *, attribute: bool = False, writes: bool = False
) -> None:
    """Enter a spelling under each of the names (apart by spaces), which must be new. `ops` likewise."""
    for name in names.split():
        SPELLINGS.add(name, Spelling(name, function, tuple(ops.split()), attribute, writes))


def spelling(
    names: str, ops: str, *, attribute: bool = False, writes: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator form of `register`."""

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        register(names, function, ops, attribute=attribute, writes=writes)
        return function

    return enter


def share(owner: str, library: str, words: str) -> None:
    """Enter functions of a library as methods of `owner` too, where both have one signature."""
    for word in words.split():
        of_library = SPELLINGS[f"{library}.{word}"]
        register(f"{owner}.{word}", of_library.function, " ".join(of_library.ops))


def share_writing(words: str) -> None:
    """Enter torch's methods that write into their tensor, `x.add_`, beside those that do not, `x.add`."""
    for word in words.split():
        plain = SPELLINGS[f"Tensor.{word}"]
        register(f"Tensor.{word}_", plain.function, " ".join(plain.ops), writes=True)


def _sentence(error: TypeError) -> str:
    """What `Signature.bind` complains of, in the words of a call."""
    return str(error).replace("got an unexpected keyword argument", "has no parameter")
