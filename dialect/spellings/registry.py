"""The registry of spellings: how `numpy.sum`, `torch.sum`, `math.exp`, `x.sum` and `mlirtri.sum` become table ops.

A spelling is a function of the builder and of exactly the parameters of the library's function: their names, order
and defaults are the binding rule, so a wrong keyword is found as Python would find it.

    @spelling("numpy.sum", ops="sum")
    def _(b, a, axis=None, dtype=None, out=unsupported(), keepdims=False): return b.sum(a, axis, keepdims, dtype)

Takes the qualified name of a library function. Gives a `Spelling` to call, or None.
Refuses arguments that do not bind and parameters that are `unsupported`, through the builder's `fail`.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
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

_SPELLINGS: Registry[str, Spelling] = Registry("spelling")
_ROOMS = (
    "numpy_api.ufuncs", "numpy_api.reductions", "numpy_api.functions", "numpy_api.arrays",
    "numpy_api.shapes", "numpy_api.creation", "numpy_api.sequences", "numpy_api.quantiles",
    "numpy_api.statistical", "numpy_api.products", "numpy_api.linear_algebra", "numpy_api.ufunc_methods",
    "numpy_api.positions", "torch_api.elementwise", "torch_api.arrays", "torch_api.shapes",
    "torch_api.sequences", "torch_api.products", "torch_api.networks", "torch_api.windows",
    "kernel_api.math_functions", "kernel_api.methods", "kernel_api.in_place", "kernel_api.mlirtri_functions",
    "kernel_api.complex_numbers", "kernel_api.refused",
)  # fmt: skip
_LIBRARIES = ("numpy", "torch", "math", "cmath")
_INDEX: dict[str, dict[int, tuple[Any, str]]] = {}


def register(
    names: str, function: Callable[..., Any], ops: str, *, attribute: bool = False, writes: bool = False
) -> None:
    """Enter a spelling under each of the names (apart by spaces), which must be new. `ops` likewise."""
    for name in names.split():
        _SPELLINGS.add(name, Spelling(name, function, tuple(ops.split()), attribute, writes))


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
        of_library = _SPELLINGS[f"{library}.{word}"]
        register(f"{owner}.{word}", of_library.function, " ".join(of_library.ops))


def share_writing(words: str) -> None:
    """Enter torch's methods that write into their tensor, `x.add_`, beside those that do not, `x.add`."""
    for word in words.split():
        plain = _SPELLINGS[f"Tensor.{word}"]
        register(f"Tensor.{word}_", plain.function, " ".join(plain.ops), writes=True)


def load() -> Mapping[str, Spelling]:
    """All spellings by name; the first call imports the tables (and neither torch nor MLIR)."""
    for room in _ROOMS:
        importlib.import_module(f"mlirtri.dialect.spellings.{room}")
    return _SPELLINGS


def lookup(name: str) -> Spelling | None:
    """The spelling of a qualified name, or None when kernels do not have it; what is `REFUSED` says so when called."""
    known = load()
    return known.get(name) or (_refusal(name) if name in REFUSED else None)


def _refusal(name: str) -> Spelling:
    reason, way_out = REFUSED[name]

    def refuse(b, /, *arguments, **keywords):
        b.fail(f"{name} is not supported: {reason}", help=way_out)

    return Spelling(name, refuse)


def member(owner: Any, name: str) -> Spelling | None:
    """What an object of a library has that kernels may use: `numpy.add.outer`, `numpy.mgrid.__getitem__`."""
    known = qualified_name(owner)
    return None if known is None else lookup(f"{known}.{name}")


def spellings_of(op: str) -> list[str]:
    """Names of the spellings that use a table op, in table order."""
    return [spelling.name for spelling in load().values() if op in spelling.ops]


def near(name: str) -> list[str]:
    """Up to five known names to offer for an unknown one: the same word elsewhere, then similar words."""
    owner, _, word = name.rpartition(".")
    known = load()
    same_word = [other for other in known if other.rpartition(".")[2] == word and other != name]
    siblings = {other.rpartition(".")[2]: other for other in known if other.rpartition(".")[0] == owner}
    similar = [siblings[other] for other in get_close_matches(word, list(siblings), n=3, cutoff=0.6)]
    return list(dict.fromkeys(similar + same_word))[:5]


def qualified_name(function: Any) -> str | None:
    """The name under which a function object of numpy, torch or math is spelled; None when it is not.

    By identity, so `from torch import sum as total` is `torch.sum`. Does not import torch.
    """
    for library in _LIBRARIES:
        if library in sys.modules and (found := _index(library).get(id(function))):
            return found[1]
    return None


def _index(library: str) -> dict[int, tuple[Any, str]]:
    if library not in _INDEX:
        names = [name.removesuffix(".__getitem__") for name in (*load(), *REFUSED) if name.startswith(f"{library}.")]
        _INDEX[library] = _by_identity(library, names)
    return _INDEX[library]


def _by_identity(library: str, names: Iterable[str]) -> dict[int, tuple[Any, str]]:
    index: dict[int, tuple[Any, str]] = {}
    for name in names:
        value = sys.modules[library]
        for part in name.split(".")[1:]:
            # A version of the library may lack a function that a newer one has.
            value = getattr(value, part, None)
        if value is not None:
            index.setdefault(id(value), (value, name))
    return index


def _sentence(error: TypeError) -> str:
    """What `Signature.bind` complains of, in the words of a call."""
    return str(error).replace("got an unexpected keyword argument", "has no parameter")
