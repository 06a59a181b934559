"""Describe Python values by content, so that two processes agree on whether they have the same one.

A description is made of lists, texts and numbers that JSON takes. Neither pickles nor addresses take part in it. What
has no description (an object of a user's class, for example) keeps a kernel out of the cache.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import linecache
import sys
from hashlib import blake2b
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from mlirtri.dialect.base.dtypes import DType, find_dtype, is_torch_device

Description = Any
"""Texts, numbers, None, lists and dictionaries of these."""
_LIBRARIES = ("numpy", "torch", "math", "cmath")
_OWNERS = (*_LIBRARIES, "builtins", "mlirtri")
_PLACES = ("numpy", "torch", "torch.nn.functional", "math", "cmath", "numpy.linalg", "numpy.fft", "builtins")
"""Where functions are looked up that do not say their own module."""


class NoDescription(Exception):
    """Raised for a value that has no description by content; the message says which and why."""


def digest_of(description: Description) -> str:
    """Return the digest of a description."""
    return blake2b(canonical(description).encode(), digest_size=16).hexdigest()


def canonical(description: Description) -> str:
    """Return the canonical JSON text of a description: equal descriptions have equal texts."""
    return json.dumps(description, sort_keys=True, separators=(",", ":"))


def readable(description: Description) -> str:
    """Return a description for people: numbers, strings and containers as Python writes them, the rest as JSON."""
    match description:
        case ["int" | "bool" as kind, str(text)]:
            return text if kind == "int" else str(text != "0")
        case ["float", str(digits)]:
            return repr(float.fromhex(digits))
        case ["dtype", name] | ["dtype of", _, name] | ["module", name]:
            return str(name)
        case ["tuple", [], list(parts)]:
            return f"({', '.join(map(readable, parts))}{',' * (len(parts) == 1)})"
        case ["list", [], list(parts)]:
            return f"[{', '.join(map(readable, parts))}]"
        case ["dict", list(pairs)]:
            return f"{{{', '.join(f'{readable(key)}: {readable(part)}' for key, part in pairs)}}}"
        case dict():
            return ", ".join(f"{name}={readable(part)}" for name, part in description.items()) or "none"
    return json.dumps(description) if isinstance(description, list) else repr(description)


def describe(value: object) -> Description:
    """Return the description of a compile-time value; raises `NoDescription`."""
    if value is None or type(value) is str:
        return value
    if value is Ellipsis or isinstance(value, (int, str)):
        return [type(value).__name__, _text_of(value)]
    if type(value) is float:
        return ["float", value.hex()]
    if type(value) is complex:
        return ["complex", value.real.hex(), value.imag.hex()]
    if isinstance(value, np.generic):
        return ["numpy", value.dtype.str, value.tobytes().hex()]
    if isinstance(value, (tuple, list, dict)):
        return _describe_container(value)
    if isinstance(value, ModuleType):
        if sys.modules.get(value.__name__) is not value:
            raise NoDescription(f"the module {value.__name__} is not the one that an import gives")
        return ["module", value.__name__]
    if value is np.s_ or value is np.index_exp:
        return ["library", "numpy", "s_" if value is np.s_ else "index_exp"]
    return _describe_object(value)


def _describe_container(value: Any) -> Description:
    if isinstance(value, dict):
        return ["dict", [[describe(key), describe(part)] for key, part in value.items()]]
    return [type(value).__name__, list(getattr(value, "_fields", ())), [describe(part) for part in value]]


def _text_of(value: Any) -> str:
    # Not the own form of a class, such as that of an enumeration, which may leave the value out.
    if isinstance(value, int):
        return int.__repr__(value)
    return str.__str__(value) if isinstance(value, str) else ""


def _describe_object(value: Any) -> Description:
    if isinstance(value, DType):
        return ["dtype", value.name]
    if is_torch_device(value):
        return ["device", str(value)]
    name = getattr(value, "__mlirtri_name__", None)
    if isinstance(name, str):
        return ["language", name]
    if isinstance(function := function_of(value), FunctionType) and not _is_library(function):
        return describe_function(function, tuple(getattr(value, "references", ())))
    if isinstance(value, type) and hasattr(value, "_fields"):
        return ["class", value.__module__, value.__qualname__, list(value._fields)]
    if (module := _place_of(value)) is not None:
        return ["library", *module]
    if type(value).__module__.partition(".")[0] == "mlirtri":
        return _describe_ours(value)
    if not isinstance(value, type) or value in (bool, int, float, complex):
        # NumPy's and torch's dtypes, and Python's types in their place.
        if (dtype := _dtype_of(value)) is not None:
            return ["dtype of", type(value).__module__, dtype.name]
    return _describe_spelling(value)


def _describe_ours(value: Any) -> Description:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        return ["ours", type(value).__qualname__, {name: describe(getattr(value, name)) for name in names}]
    if not isinstance(value, type) and not getattr(value, "__dict__", True):
        return ["ours", type(value).__qualname__, {}]
    if type(value).__name__ == "TensorIRFunction" and hasattr(value.function, "script") and value.shape is None:
        # A function that gives shapes, or the PrimFunc itself, may read anything when it is called.
        return ["tensorir", value.function.script(show_meta=True), value.outputs]
    raise NoDescription(f"{value!r} has no description by content")


def _dtype_of(value: Any) -> DType | None:
    try:
        return find_dtype(value)
    except (TypeError, ValueError):
        return None


def _describe_spelling(value: Any) -> Description:
    from mlirtri.dialect.spellings.registry import qualified_name  # imports every file of spellings

    if (name := qualified_name(value)) is not None:
        return ["library", name]
    if isinstance(value, type) and (dtype := _dtype_of(value)) is not None:
        return ["dtype of", value.__module__, dtype.name]
    kind = value if isinstance(value, type) else type(value)
    raise NoDescription(f"a {kind.__module__}.{kind.__qualname__} has no description by content")


def function_of(value: object) -> Any:
    """Return the Python function of a kernel, a macro or a plain function."""
    return getattr(value, "__mlirtri_function__", value)


def _is_library(function: FunctionType) -> bool:
    return (function.__module__ or "").partition(".")[0] in (*_LIBRARIES, "mlirtri")


def is_ours(function: object) -> bool:
    """Return whether a function is part of this package: its text is part of every key."""
    return (getattr(function, "__module__", None) or "").partition(".")[0] == "mlirtri"


def _place_of(value: Any) -> tuple[str, str] | None:
    """Return the module and the name under which a library, or this package, has a function; None if there is none."""
    name = getattr(value, "__name__", None)
    if not isinstance(name, str) or (not callable(value)):
        return None
    for module in (getattr(value, "__module__", None), *_PLACES):
        if not isinstance(module, str) or module.partition(".")[0] not in _OWNERS:
            continue
        if getattr(sys.modules.get(module), name, None) is value:
            return module, name
    return None


def describe_function(function: FunctionType, references: tuple[str, ...] = ()) -> Description:
    """Return the description of a Python function: where it stands, its text, and the defaults of its parameters.

    What it reads from outside is no part of it. Raises `NoDescription` without a source.
    """
    file, line, text = source_of(function)
    defaults = [describe(value) for value in function.__defaults__ or ()]
    named = {name: describe(value) for name, value in (function.__kwdefaults__ or {}).items()}
    return ["function", function.__qualname__, file, line, text, defaults, named, list(references)]


def _identity_on_line(code: CodeType) -> Description:
    """Return what disambiguates lambdas on one line: the instructions, and their columns (from Python 3.11 on)."""
    positions = [list(position) for position in getattr(code, "co_positions", tuple)()]
    constants = [repr(value) for value in code.co_consts if not isinstance(value, CodeType)]
    return [positions, code.co_code.hex(), list(code.co_names), constants]


def source_of(function: FunctionType) -> tuple[str, int, str]:
    """Return the file of a function, its first line, and its text there now; raises `NoDescription` without one.

    A lambda's text is that of its file, since its own end is known to a parser only, with where on its line it stands
    and its instructions, since a line may have several.
    """
    code = function.__code__
    linecache.checkcache(code.co_filename)
    lines = linecache.getlines(code.co_filename, function.__globals__)
    if not lines:
        raise NoDescription(f"the source of {function.__qualname__} is not available")
    if code.co_name == "<lambda>":
        return code.co_filename, code.co_firstlineno, digest_of(["".join(lines), *_identity_on_line(code)])
    try:
        block = inspect.getblock(lines[code.co_firstlineno - 1 :])
    except (SyntaxError, IndentationError, IndexError):
        raise NoDescription(f"the source of {function.__qualname__} cannot be read") from None
    return code.co_filename, code.co_firstlineno, "".join(block)
